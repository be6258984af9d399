//! Arrays that were just created, on drives that store no bytes, in virtual time: the real engine, binder and metadata.

use crate::chance::Chance;
use crate::ssd::{Cost, Figures, Meter, Ssd};
use std::rc::Rc;
use stria_array::{ArrayDevice, Level};
use stria_block::{BlockDevice, bytes};
use stria_format::md::assemble::Start;
use stria_format::md::{BitmapChoice, Candidate, Create, CreateMember, Creation, LogChoice, MdRecorder, Options, assemble};

/// The members.
#[derive(Clone, Debug)]
pub(crate) struct Modelled {
    pub drive: Figures,
    pub level: Level,
    pub members: usize,
    pub log: LogChoice,
    /// Slot 0 lacks its member, and a spare waits to be filled.
    pub rebuilds: bool,
    pub cost: Cost,
}

impl Modelled {
    /// The array as it was created, and its shape.
    pub fn array(&self, meter: &Rc<Meter>) -> Result<(ArrayDevice<MdRecorder>, u64), String> {
        let created = Created {
            drive_sectors: self.drive.sectors,
            level: self.level,
            members: self.members,
            strip_sectors: 128,
            log: self.log,
            lacks_first: self.rebuilds,
            spares: usize::from(self.rebuilds),
        };
        let start = created.start()?;
        if start.config.log.is_some() != (self.log == LogChoice::Auto && self.level.parity_count() > 0) {
            return Err(format!("RAID {} keeps no write log of its own", self.level));
        }
        let first = start.config.slots.iter().find_map(|slot| slot.member.as_ref());
        let data_start = first.map_or(0, |member| member.data_start_sector.get());
        let drive = |index: usize| {
            Box::new(Ssd::new(self.drive, self.cost, data_start, Rc::clone(meter), Chance::new(9, index as u64)))
                as Box<dyn BlockDevice>
        };
        let devices = (0..start.drives.len()).map(drive).collect();
        let array = ArrayDevice::new(&start.config, devices, start.recorder, crate::member_drive::UNIX_SECONDS);
        Ok((array, start.config.geometry.capacity_sectors()))
    }
}

/// An array that was just created on equal drives, with the metadata of `stria create`.
#[derive(Clone, Debug)]
pub struct Created {
    /// The size of each drive.
    pub drive_sectors: u64,
    /// The level.
    pub level: Level,
    /// The number of members, a missing one included.
    pub members: usize,
    /// The size of a strip.
    pub strip_sectors: u64,
    /// True if parity levels have a write log.
    pub log: LogChoice,
    /// True if slot 0 lacks its member.
    pub lacks_first: bool,
    /// The number of spares.
    pub spares: usize,
}

impl Created {
    fn create(&self) -> Result<Creation, String> {
        let member = |index: usize| CreateMember {
            name: format!("drive{index}"),
            size_sectors: self.drive_sectors,
            logical_block_bytes: 512,
            // All 16 bytes count: a single one cannot tell more than 255 drives apart.
            device_uuid: (index as u128 + 1).to_be_bytes(),
        };
        let create = Create {
            name: "modelled".into(),
            homehost: None,
            uuid: [7; 16],
            level: self.level,
            layout: self.level.default_layout(),
            strip_sectors: self.strip_sectors,
            members: (0..self.members).map(|index| (index > 0 || !self.lacks_first).then(|| member(index))).collect(),
            spares: (self.members..self.members + self.spares).map(member).collect(),
            data_offset_sectors: None,
            member_sectors_max: None,
            bitmap: match self.level.is_redundant() {
                true => BitmapChoice::Internal { chunk_bytes: None },
                false => BitmapChoice::None,
            },
            log: self.log,
            checksums: false,
            assume_clean: true,
            span_of: None,
            unix_seconds: crate::member_drive::UNIX_SECONDS,
        };
        create.plan().map_err(|error| error.to_string())
    }

    /// Starts the array. Members are counted without the missing one, spares last.
    ///
    /// # Errors
    /// The array is impossible, with the reason.
    pub fn start(&self) -> Result<Start, String> {
        let creation = self.create()?;
        let candidate = |drive: usize| {
            let mut read = |start: u64, sectors: u64| Ok(read(&creation, drive, start, sectors));
            Candidate::read(format!("drive{drive}"), self.drive_sectors, 512, &mut read)
        };
        let drives = usize::from(self.lacks_first)..self.members + self.spares;
        let candidates: Vec<Candidate> = drives.map(candidate).collect();
        let (mut found, _) = assemble(&candidates, &Options::default());
        found.remove(0).outcome.map_err(|error| error.to_string())
    }
}

/// The sectors of a drive after the creation.
fn read(creation: &Creation, drive: usize, start: u64, sectors: u64) -> Vec<u8> {
    let mut found = vec![0; bytes(sectors)];
    for write in creation.writes.iter().filter(|write| write.drive == drive) {
        let written = write.start_sector.get()..write.start_sector.get() + write.bytes.len() as u64 / 512;
        let both = start.max(written.start)..(start + sectors).min(written.end);
        if both.start < both.end {
            let from = bytes(both.start - written.start)..bytes(both.end - written.start);
            found[bytes(both.start - start)..][..from.len()].copy_from_slice(&write.bytes[from]);
        }
    }
    found
}
