//! Volumes that a mainboard or a controller made: Intel's IMSM and SNIA's DDF. They are read and never written: their metadata
//! belong to firmware, which would have to learn of every failure and rebuild.
//!
//! A volume is translated into what md would have written of it, so that the rules of
//! [`md::assemble`](mod@crate::md::assemble) decide whether it starts.

mod ddf;
mod imsm;
mod reader;

use crate::md::badblocks::BadBlockLog;
use crate::md::examine::{layout_name, level_name};
use crate::md::superblock::{CLEAN, Header, MAGIC, Role, Superblock, feature, uuid_text};
use crate::md::{Candidate, Member};
use crate::read::Read;
use std::fmt;
use stria_block::IoError;
use thiserror::Error;

/// A drive that may be a member of such volumes.
#[derive(Clone, Copy, Debug)]
pub struct FirmwareDrive<'a> {
    /// The name that people see.
    pub name: &'a str,
    /// Its size.
    pub size_sectors: u64,
    /// Its logical block: 512 or 4096.
    pub logical_block_bytes: u32,
    /// Its serial number. IMSM records no other identity of a drive; of an image file its name may stand for it.
    pub serials: &'a [String],
}

/// The reason why a drive shows no volume that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FirmwareError {
    /// Neither format is on the drive.
    #[error("it carries no metadata of firmware RAID that Stria reads (IMSM, DDF)")]
    Absent,
    /// It cannot be read.
    #[error(transparent)]
    Drive(#[from] IoError),
    /// The metadata contradict themselves.
    #[error("its {0} metadata are damaged: {1}")]
    Damaged(&'static str, String),
    /// The metadata say something that Stria does not serve.
    #[error(transparent)]
    Unserved(#[from] Unserved),
}

/// What the metadata say that Stria does not serve.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Unserved {
    #[error("volume \"{volume}\" goes beyond the end of {drive}: the drive shrank, is a truncated copy, or is another drive")]
    BeyondDrive { volume: String, drive: String },
    #[error("its metadata name sector {sector}, beyond the end of the drive")]
    SectorBeyondDrive { sector: u64 },
    #[error(
        "its container uses features 0x{features:x} that Stria does not know, such as a cache on another drive; read it where it was made"
    )]
    Features { features: u32 },
    #[error(
        "its IMSM metadata know their drives by serial number ({serials}), and it has none of these; name the image of a drive after its serial number",
        serials = serials.join(", ")
    )]
    OtherSerials { serials: Vec<String> },
    #[error("volume \"{volume}\" changes its number of drives; let mdadm or the mainboard finish that")]
    ChangesNumber { volume: String },
    #[error("volume \"{volume}\" is being changed to another shape; let mdadm or the mainboard finish that")]
    ChangesShape { volume: String },
    #[error("volume \"{volume}\" is being changed to another shape; let the controller finish that")]
    ControllerChangesShape { volume: String },
    #[error("volume \"{volume}\" is of level {level} on {members} drives, which Stria does not know")]
    Level { volume: String, level: u8, members: usize },
    #[error(
        "volume \"{volume}\" is of level {level} (qualifier {qualifier}) on {members} drives in {spans} spans, which Stria does not know"
    )]
    LevelOfSpans { volume: String, level: u8, qualifier: u8, members: usize, spans: usize },
    #[error("volume \"{volume}\" has {sectors} sectors, which is no multiple of its stripes; read it with mdadm")]
    PartOfStripe { volume: String, sectors: u64 },
}

/// The format of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Intel's.
    Imsm,
    /// The SNIA's.
    Ddf,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Imsm => imsm::NAME,
            Self::Ddf => ddf::NAME,
        })
    }
}

/// What the metadata say of one member of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// It holds what it should.
    InSync,
    /// It is being filled, and holds nothing that counts.
    Rebuilding,
    /// It has failed, or is not there.
    Missing,
}

/// A volume as the metadata of one of its drives record it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: [u8; 16],
    format: Format,
    /// md's numbers.
    level: i32,
    layout: u32,
    strip_sectors: u32,
    /// Of each member; the first sector is this drive's.
    start_sector: u64,
    member_sectors: u64,
    slots: Vec<Slot>,
    /// This drive's.
    slot: usize,
    drive_uuid: [u8; 16],
    /// Counts the updates of the metadata.
    updates: u64,
    is_consistent: bool,
    bad_blocks: BadBlockLog,
}

/// The volumes to which a drive belongs.
///
/// # Errors
/// It belongs to none, or its metadata cannot be read, are damaged, or say something that Stria does not serve.
pub fn volumes(drive: &FirmwareDrive, read: &mut Read) -> Result<Vec<Volume>, FirmwareError> {
    match imsm::volumes(drive, read)? {
        Some(volumes) => Ok(volumes),
        None => ddf::volumes(drive, read)?.ok_or(FirmwareError::Absent),
    }
}

impl Volume {
    /// The format of its metadata.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its level, as mdadm names it.
    pub fn level(&self) -> String {
        level_name(self.level)
    }

    /// What the metadata say of each member.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// This drive's slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// True if its redundancy holds.
    pub fn is_consistent(&self) -> bool {
        self.is_consistent
    }

    /// The description of the volume and of this drive in it: lines of name and value, in the words of
    /// [`md::examine`](crate::md::examine).
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let letter = |slot: &Slot| match slot {
            Slot::InSync => 'A',
            Slot::Rebuilding => 'R',
            Slot::Missing => '.',
        };
        let role = match self.slots[self.slot] {
            Slot::InSync => format!("Active device {}", self.slot),
            Slot::Rebuilding => format!("Rebuilding device {}", self.slot),
            Slot::Missing => format!("Failed device {}", self.slot),
        };
        let layout = layout_name(self.level, self.layout, self.layout_feature()).map(|layout| ("Layout", layout));
        let strip = (self.level != 1).then(|| ("Chunk Size", format!("{}K", self.strip_sectors / 2)));
        [
            ("Volume UUID", uuid_text(&self.uuid)),
            ("Raid Level", level_name(self.level)),
            ("Raid Devices", self.slots.len().to_string()),
            ("Used Dev Size", format!("{} sectors", self.member_sectors)),
            ("Data Offset", format!("{} sectors", self.start_sector)),
        ]
        .into_iter()
        .chain(layout)
        .chain(strip)
        .chain([
            ("State", if self.is_consistent { "clean" } else { "not in sync" }.into()),
            ("Events", self.updates.to_string()),
            ("Device Role", role),
            ("Array State", self.slots.iter().map(letter).collect()),
        ])
        .collect()
    }

    /// md's feature that says that the layout of a RAID 0 is known.
    fn layout_feature(&self) -> u32 {
        if self.level == 0 { feature::RAID0_LAYOUT } else { 0 }
    }

    /// The drive as a member of this volume, as if md had written it.
    ///
    /// # Errors
    /// The volume does not fit on the drive.
    pub fn candidate(&self, drive: &FirmwareDrive) -> Result<Candidate, FirmwareError> {
        let mut set_name = [0; 32];
        let length = self.name.len().min(set_name.len());
        set_name[..length].copy_from_slice(&self.name.as_bytes()[..length]);
        let role = |(slot, state): (usize, &Slot)| match state {
            Slot::Missing => Role::Faulty,
            Slot::InSync | Slot::Rebuilding => Role::Slot(slot as u16),
        };
        let is_partial = self.slots[self.slot] == Slot::Rebuilding;
        let header = Header {
            magic: MAGIC,
            major_version: 1,
            feature_map: self.layout_feature() | if is_partial { feature::RECOVERY_OFFSET } else { 0 },
            set_uuid: self.uuid,
            set_name,
            level: self.level,
            layout: self.layout,
            size: if self.level > 0 { self.member_sectors } else { 0 },
            chunksize: if self.level == 1 { 0 } else { self.strip_sectors },
            raid_disks: self.slots.len() as u32,
            data_offset: self.start_sector,
            data_size: self.member_sectors,
            // Behind the data, where the metadata of both formats are.
            super_offset: Superblock::sector_of(0, drive.size_sectors).unwrap_or(0),
            dev_number: self.slot as u32,
            device_uuid: self.drive_uuid,
            events: self.updates,
            resync_offset: if self.is_consistent { CLEAN } else { 0 },
            max_dev: self.slots.len() as u32,
            ..Header::read(&[0; Header::SIZE_BYTES])
        };
        let superblock = Superblock { header, roles: self.slots.iter().enumerate().map(role).collect(), span_of: None };
        let end = self.start_sector.checked_add(self.member_sectors);
        if end.is_none_or(|end| end > superblock.header.super_offset) {
            return Err(Unserved::BeyondDrive { volume: self.name.clone(), drive: drive.name.to_owned() }.into());
        }
        let member = Member {
            superblock,
            doubt: None,
            bitmap: None,
            bad_blocks: Ok(self.bad_blocks.clone()),
            log: None,
            ppl: None,
            checksums: None,
            firmware_raid: None,
        };
        Ok(Candidate {
            name: drive.name.to_owned(),
            size_sectors: drive.size_sectors,
            logical_block_bytes: drive.logical_block_bytes,
            found: Ok(member),
            carries: Vec::new(),
        })
    }
}

/// Reads sectors that need not be aligned.
fn sectors(drive: &FirmwareDrive, start: u64, count: u64, read: &mut Read) -> Result<Vec<u8>, FirmwareError> {
    let first = start / 8 * 8;
    let end = start.saturating_add(count).next_multiple_of(8).min(drive.size_sectors);
    let bytes = if first < end { read(first, end - first)? } else { Vec::new() };
    let from = ((start - first) * 512) as usize;
    match bytes.get(from..from + (count * 512) as usize) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Err(Unserved::SectorBeyondDrive { sector: start }.into()),
    }
}

/// Text of metadata, without what pads it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}
