//! Drives in memory, sparse, for metadata only.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod firmware;
pub mod running;

use std::collections::{BTreeMap, BTreeSet};
use stria_array::{
    ArrayConfig, ArrayState, Layout, Level, MemberConfig, MemberId, MemberProgress, MetadataWrite, Recorder, SlotState, Synced,
};
use stria_block::{ErrorKind, IoError};
use stria_format::detect::{detect, wipes};
use stria_format::md::{
    Assembly, BitmapChoice, Candidate, Create, CreateMember, Creation, LogChoice, Options, Start, assemble, examine, raw,
};

/// A drive that stores only what was written.
#[derive(Clone, Debug)]
pub struct MemoryDrive {
    pub name: String,
    pub size_sectors: u64,
    pub sectors: BTreeMap<u64, [u8; 512]>,
    pub broken: bool,
    /// Sectors that cannot be read until they are written.
    pub bad: BTreeSet<u64>,
}

impl MemoryDrive {
    pub fn new(index: usize, size_sectors: u64) -> Self {
        Self { name: format!("drive{index}"), size_sectors, sectors: BTreeMap::new(), broken: false, bad: BTreeSet::new() }
    }

    pub fn read(&self, start: u64, count: u64) -> Result<Vec<u8>, IoError> {
        assert!(start + count <= self.size_sectors, "read beyond the end: {start} + {count} of {}", self.size_sectors);
        if self.broken || self.bad.range(start..start + count).next().is_some() {
            return Err(IoError::new(ErrorKind::Medium, "medium error"));
        }
        let mut bytes = vec![0; (count * 512) as usize];
        for (sector, held) in self.sectors.range(start..start + count) {
            bytes[((sector - start) * 512) as usize..][..512].copy_from_slice(held);
        }
        Ok(bytes)
    }

    pub fn write(&mut self, start: u64, bytes: &[u8]) {
        assert_eq!(bytes.len() % 512, 0);
        for (index, sector) in bytes.chunks_exact(512).enumerate() {
            assert!(start + (index as u64) < self.size_sectors, "write beyond the end");
            self.bad.remove(&(start + index as u64));
            // Zeros take no memory: else a rebuild of gigabytes of them could not be told from a start that takes as much.
            match sector.iter().all(|byte| *byte == 0) {
                true => drop(self.sectors.remove(&(start + index as u64))),
                false => drop(self.sectors.insert(start + index as u64, sector.try_into().expect("a sector"))),
            }
        }
    }

    pub fn candidate(&self) -> Candidate {
        Candidate::read(&self.name, self.size_sectors, 512, &mut |start, count| self.read(start, count))
    }
}

pub fn candidates(drives: &[MemoryDrive]) -> Vec<Candidate> {
    drives.iter().map(MemoryDrive::candidate).collect()
}

/// The one array on these drives.
pub fn assembled(drives: &[MemoryDrive], options: &Options) -> Assembly {
    let (mut assemblies, _) = assemble(&candidates(drives), options);
    assert_eq!(assemblies.len(), 1, "one array was expected");
    assemblies.remove(0)
}

pub fn started(drives: &[MemoryDrive], options: &Options) -> Start {
    assembled(drives, options).outcome.unwrap_or_else(|error| panic!("{error}"))
}

pub fn refused(drives: &[MemoryDrive], options: &Options) -> String {
    match assembled(drives, options).outcome {
        Ok(_) => panic!("must be refused"),
        Err(error) => error.to_string(),
    }
}

pub fn apply(drives: &mut [MemoryDrive], writes: &[MetadataWrite]) {
    for write in writes {
        drives[write.member.0].write(write.start_sector.get(), &write.data);
    }
}

/// 64 MiB.
pub const DRIVE_SECTORS: u64 = 131_072;

pub fn request(level: Level, layout: Layout, count: usize, spares: usize, drive_sectors: u64) -> Create {
    let member = |index: usize| CreateMember {
        name: format!("drive{index}"),
        size_sectors: drive_sectors,
        logical_block_bytes: 512,
        device_uuid: (index as u128 + 1).wrapping_mul(u128::from_le_bytes([1; 16])).to_le_bytes(),
    };
    Create {
        name: "tank".into(),
        homehost: Some("host".into()),
        uuid: [0xab; 16],
        level,
        layout,
        strip_sectors: 128,
        members: (0..count).map(|index| Some(member(index))).collect(),
        spares: (count..count + spares).map(member).collect(),
        data_offset_sectors: None,
        member_sectors_max: None,
        bitmap: if level.is_redundant() { BitmapChoice::Internal { chunk_bytes: Some(65536) } } else { BitmapChoice::None },
        log: LogChoice::Auto,
        checksums: false,
        assume_clean: true,
        span_of: None,
        unix_seconds: 1_700_000_000,
    }
}

pub fn carry_out(create: &Create) -> (Vec<MemoryDrive>, Creation) {
    let creation = create.plan().unwrap_or_else(|error| panic!("{error}"));
    let sizes = create.members.iter().map(|member| member.as_ref().map_or(DRIVE_SECTORS, |member| member.size_sectors));
    let sizes = sizes.chain(create.spares.iter().map(|spare| spare.size_sectors));
    let mut drives: Vec<_> = sizes.enumerate().map(|(index, size)| MemoryDrive::new(index, size)).collect();
    for write in &creation.writes {
        drives[write.drive].write(write.start_sector.get(), &write.bytes);
    }
    (drives, creation)
}

pub fn created(level: Level, count: usize, spares: usize) -> Vec<MemoryDrive> {
    carry_out(&request(level, level.default_layout(), count, spares, DRIVE_SECTORS)).0
}

/// The state that a configuration starts in.
pub fn state_of(config: &ArrayConfig, clean: bool) -> ArrayState {
    let place =
        |member: &MemberConfig| MemberProgress { member: member.id, recovered: member.recovered, by_bitmap: member.by_bitmap };
    let slots: Vec<_> = config
        .slots
        .iter()
        .map(|slot| SlotState { member: slot.member.as_ref().map(place), replacement: slot.replacement.as_ref().map(place) })
        .collect();
    let optimal = slots.iter().all(|slot| slot.member.as_ref().is_some_and(|place| place.recovered == Synced::All));
    let spares: Vec<MemberId> = config.spares.iter().map(|spare| spare.id).collect();
    ArrayState { clean, synced: config.synced, slots, spares, failed: Vec::new(), optimal }
}

/// The index of the drive that holds each slot.
pub fn holders(start: &Start) -> Vec<Option<usize>> {
    let drive = |member: &MemberConfig| start.drives[member.id.0];
    start.config.slots.iter().map(|slot| slot.member.as_ref().map(drive)).collect()
}

/// Calls every function of this crate that administrators cause on these drives.
pub fn use_all(drives: &[MemoryDrive]) {
    for drive in drives {
        let candidate = drive.candidate();
        examine::lines(&candidate);
        if let Ok(member) = &candidate.found {
            raw::fields(member, drive.size_sectors, &mut |start, count| drive.read(start, count));
        }
        let found = detect(drive.size_sectors, &mut |start, count| drive.read(start, count));
        found.iter().for_each(|signature| assert!(!signature.to_string().is_empty()));
        wipes(&found, 4096);
    }
    for force in [false, true] {
        let (assemblies, _) = assemble(&candidates(drives), &Options { force, take_back: true, read_only: false });
        for assembly in assemblies {
            if let Ok(mut start) = assembly.outcome {
                start.recorder.record_state(&state_of(&start.config, false), 1);
                start.recorder.record_intent(&[0], &[0]);
            }
        }
    }
}
