//! Code that the examples share.

#![allow(dead_code)]

use stria_array::{ArrayDevice, Level};
use stria_block::{BlockDevice, RamDevice};
use stria_format::md::{BitmapChoice, Candidate, Create, CreateMember, LogChoice, MdRecorder, Options, assemble};

/// An array in memory with md metadata and bitmap, 64 KiB strips, clean; `wrap` makes a member of each RAM device.
pub fn md_array(
    level: Level,
    count: usize,
    member_sectors: u64,
    log: LogChoice,
    wrap: impl Fn(RamDevice) -> Box<dyn BlockDevice>,
) -> ArrayDevice<MdRecorder> {
    let member = |index: usize| CreateMember {
        name: format!("member {index}"),
        size_sectors: member_sectors,
        logical_block_bytes: 512,
        device_uuid: [index as u8 + 1; 16],
    };
    let create = Create {
        name: "bench".into(),
        homehost: None,
        uuid: [7; 16],
        level,
        layout: level.default_layout(),
        strip_sectors: if level == Level::Raid1 { 0 } else { 128 },
        members: (0..count).map(|index| Some(member(index))).collect(),
        spares: Vec::new(),
        data_offset_sectors: None,
        member_sectors_max: None,
        bitmap: if level.is_redundant() { BitmapChoice::Internal { chunk_bytes: None } } else { BitmapChoice::None },
        log: if level.parity_count() > 0 { log } else { LogChoice::None },
        checksums: false,
        assume_clean: true,
        span_of: None,
        unix_seconds: 1_700_000_000,
    };
    let creation = create.plan().expect("the geometry fits");
    let mut rams: Vec<RamDevice> = (0..count).map(|_| RamDevice::new(member_sectors)).collect();
    for write in &creation.writes {
        rams[write.drive].memory_mut()[(write.start_sector.get() * 512) as usize..][..write.bytes.len()]
            .copy_from_slice(&write.bytes);
    }
    let candidate = |(index, ram): (usize, &RamDevice)| {
        let mut read = |start: u64, sectors: u64| Ok(ram.memory()[(start * 512) as usize..][..(sectors * 512) as usize].to_vec());
        Candidate::read(format!("member {index}"), member_sectors, 512, &mut read)
    };
    let candidates: Vec<Candidate> = rams.iter().enumerate().map(candidate).collect();
    let (mut found, _) = assemble(&candidates, &Options::default());
    let start = found.remove(0).outcome.expect("a new array starts");
    assert_eq!(start.config.log.is_some(), level.parity_count() > 0 && log == LogChoice::Auto);
    ArrayDevice::new(&start.config, rams.into_iter().map(wrap).collect(), start.recorder, 1_700_000_000)
}
