//! Goal: no bytes in the metadata of firmware RAID make this crate panic, hang, or read beyond the drive.
//! Method: metadata laid out by hand from the formats' descriptions, altered at random places, with their checksums made right
//! again. `crates/manage/tests/firmware_raid.rs` holds what mdadm makes against what Linux reads.

#[path = "support/imsm.rs"]
mod imsm;
mod support;

use stria_chance::Chance;
use stria_format::firmware::{FirmwareDrive, FirmwareError, Volume, volumes};
use stria_format::md::{Candidate, Options, assemble};
use support::MemoryDrive;

const SECTORS: u64 = 1 << 17;

/// Metadata: their parts with first sector, and how each becomes sound again.
struct Metadata {
    parts: Vec<(u64, Vec<u8>)>,
    seal: fn(&mut Vec<u8>),
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// As [`imsm::raid5`].
fn imsm(own: usize, unit: u64) -> Metadata {
    // One part to alter; `written` cuts it: the first block is the last but one of the drive, the rest before it.
    Metadata { parts: vec![(SECTORS - 2 * unit, imsm::raid5(own, unit))], seal: |bytes| imsm::seal(bytes) }
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    bytes.iter().fold(0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// The same volume in the other format, left-symmetric.
fn ddf(own: u32) -> Metadata {
    let start = SECTORS - 4096;
    let header = |kind: u8| {
        let mut bytes = vec![0xff; 512];
        put(&mut bytes, 0, &0xde11_de11_u32.to_be_bytes());
        put(&mut bytes, 32, b"01.02.00");
        put(&mut bytes, 40, &7u32.to_be_bytes());
        put(&mut bytes, 48, &[0]);
        put(&mut bytes, 96, &start.to_be_bytes());
        put(&mut bytes, 104, &(start + 2048).to_be_bytes());
        put(&mut bytes, 112, &[kind]);
        put(&mut bytes, 134, &2u16.to_be_bytes());
        put(&mut bytes, 136, &16u16.to_be_bytes());
        for (place, offset, length) in [(200, 2u32, 2u32), (208, 4, 2), (216, 6, 4), (224, 10, 1)] {
            put(&mut bytes, place, &offset.to_be_bytes());
            put(&mut bytes, place + 4, &length.to_be_bytes());
        }
        bytes
    };
    let mut drives = vec![0xff; 1024];
    put(&mut drives, 0, &0x2222_2222_u32.to_be_bytes());
    for disk in 0..3u32 {
        put(&mut drives, 64 * (disk as usize + 1) + 24, &(100 + disk).to_be_bytes());
        put(&mut drives, 64 * (disk as usize + 1) + 30, &1u16.to_be_bytes());
    }
    let mut list = vec![0xff; 1024];
    put(&mut list, 0, &0xdddd_dddd_u32.to_be_bytes());
    put(&mut list, 64, b"the identity of a volume");
    put(&mut list, 64 + 32, &[0, 2]);
    put(&mut list, 64 + 48, b"tank            ");
    let mut record = vec![0xff; 1024];
    put(&mut record, 0, &0xeeee_eeee_u32.to_be_bytes());
    put(&mut record, 8, b"the identity of a volume");
    put(&mut record, 64, &[0, 3, 7, 5, 3, 1, 0, 0]);
    put(&mut record, 72, &(1u64 << 15).to_be_bytes());
    for disk in 0..3 {
        put(&mut record, 512 + 4 * disk, &(100 + disk as u32).to_be_bytes());
        put(&mut record, 512 + 64 + 8 * disk, &2048u64.to_be_bytes());
    }
    let mut this = vec![0xff; 512];
    put(&mut this, 0, &0x3333_3333_u32.to_be_bytes());
    put(&mut this, 8, format!("the identity of a drive {own}").as_bytes());
    put(&mut this, 32, &(100 + own).to_be_bytes());
    let seal = |bytes: &mut Vec<u8>| {
        put(bytes, 4, &[0xff; 4]);
        let crc = crc(bytes);
        put(bytes, 4, &crc.to_be_bytes());
    };
    let mut parts = vec![(SECTORS - 1, header(0))];
    for (kind, start) in [(1, start), (2, start + 2048)] {
        let sections = [(0, header(kind)), (2, drives.clone()), (4, list.clone()), (6, record.clone()), (10, this.clone())];
        parts.extend(sections.map(|(offset, bytes)| (start + offset, bytes)));
    }
    Metadata { parts, seal }
}

impl Metadata {
    fn written(&self, name: &str) -> MemoryDrive {
        let mut drive = MemoryDrive::new(0, SECTORS);
        drive.name = name.to_owned();
        for (start, bytes) in &self.parts {
            let mut bytes = bytes.clone();
            (self.seal)(&mut bytes);
            match bytes.starts_with(b"Intel") {
                true => {
                    let (first, rest) = bytes.split_at(bytes.len() / 2);
                    drive.write(*start, first);
                    drive.write(start - (rest.len() / 512) as u64, rest);
                }
                false => drive.write(*start, &bytes),
            }
        }
        drive
    }
}

fn look<T>(drive: &MemoryDrive, look: impl FnOnce(&FirmwareDrive) -> T) -> T {
    let serials = [drive.name.clone()];
    look(&FirmwareDrive { name: &drive.name, size_sectors: SECTORS, logical_block_bytes: 512, serials: &serials })
}

fn found(drive: &MemoryDrive) -> Result<Vec<Volume>, FirmwareError> {
    look(drive, |known| volumes(known, &mut |start, count| drive.read(start, count)))
}

fn candidates(drives: &[MemoryDrive]) -> Result<Vec<Candidate>, FirmwareError> {
    let mut candidates = Vec::new();
    for drive in drives {
        for volume in found(drive)? {
            candidates.push(look(drive, |known| volume.candidate(known))?);
        }
    }
    Ok(candidates)
}

const READ: Options = Options { force: false, take_back: false, read_only: true };

fn containers() -> [(&'static str, Vec<Metadata>); 3] {
    [
        ("IMSM", (0..3).map(|own| imsm(own, 1)).collect()),
        ("IMSM of 4 KiB", (0..3).map(|own| imsm(own, 8)).collect()),
        ("DDF", (0..3).map(ddf).collect()),
    ]
}

fn drives(container: &[Metadata]) -> Vec<MemoryDrive> {
    container.iter().enumerate().map(|(index, metadata)| metadata.written(&format!("SERIAL{index}"))).collect()
}

#[test]
fn a_volume_is_found_with_its_shape_and_its_bad_blocks() {
    for (name, container) in containers() {
        let candidates = candidates(&drives(&container)).expect("volumes");
        let (assemblies, strangers) = assemble(&candidates, &READ);
        assert!(strangers.is_empty() && assemblies.len() == 1, "{name}");
        let start = assemblies[0].outcome.as_ref().expect("it starts");
        let geometry = &start.config.geometry;
        let shape = (start.config.name.as_str(), geometry.slot_count(), geometry.strip_sectors(), geometry.capacity_sectors());
        assert_eq!(shape, ("tank", 3, 128, 2 << 15), "{name}");
        let bad: u64 = start
            .config
            .slots
            .iter()
            .filter_map(|slot| slot.member.as_ref())
            .flat_map(|member| &member.bad_blocks)
            .map(|blocks| blocks.end.get() - blocks.start.get())
            .sum();
        let wanted = match name {
            "IMSM" => 3 * 4,
            "DDF" => 0,
            _ => 3 * 4 * 8,
        };
        assert_eq!(bad, wanted, "{name}");
    }
}

#[test]
fn no_altered_metadata_panic_or_lead_beyond_the_drive() {
    let mut chance = Chance::from_state(16);
    for (name, mut container) in containers() {
        let (mut served, mut refused) = (0, 0);
        for _ in 0..4000 {
            let mut undo = Vec::new();
            for _ in 0..1 + chance.below(3) {
                let metadata = chance.below(3) as usize;
                let part = chance.below(container[metadata].parts.len() as u64) as usize;
                let bytes = &mut container[metadata].parts[part].1;
                let at = chance.below(bytes.len() as u64) as usize;
                undo.push((metadata, part, at, bytes[at]));
                bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, chance.below(256) as u8][chance.below(8) as usize];
            }
            match candidates(&drives(&container)) {
                Ok(candidates) => {
                    for assembly in assemble(&candidates, &READ).0 {
                        served += u32::from(assembly.outcome.is_ok());
                        refused += u32::from(assembly.outcome.is_err());
                    }
                }
                Err(error) => {
                    assert!(!error.to_string().contains('\u{1b}'));
                    refused += 1;
                }
            }
            for (metadata, part, at, byte) in undo.into_iter().rev() {
                container[metadata].parts[part].1[at] = byte;
            }
        }
        assert!(served > 400 && refused > 20, "{name}: {served} served, {refused} refused");
    }
}
