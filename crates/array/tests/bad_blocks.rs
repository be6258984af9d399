//! Goal: a bad block hides nothing that lies beside it, and what lies there stays (R34).
//! Method: a RAID 5 starts with a bad block on one member, and with parity that does not fit beside it.

mod support;

use stria_array::{ArrayConfig, ArrayDevice, Command, Findings, Geometry, Level, MemberSector, NoMetadata};
use stria_block::{BlockDevice, Buffer, Completion, Nanos, Operation, RamDevice, Request, bytes};

const STRIP: u64 = 16;
/// Rows of member 1 that are bad.
const BAD: u64 = 8;

struct World {
    array: ArrayDevice<NoMetadata>,
    now: Nanos,
    ended: Vec<Completion>,
}

impl World {
    /// Of zeros but for rows 8 to 16 of member 1: parity, on member 2, does not know of them.
    fn new() -> Self {
        let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), STRIP, &[512; 3]).expect("good");
        let mut config = ArrayConfig::optimal("test", geometry);
        config.slots[1].member.as_mut().expect("it is there").bad_blocks = vec![MemberSector::new(0)..MemberSector::new(BAD)];
        let mut rams: Vec<RamDevice> = (0..3).map(|_| RamDevice::new(512)).collect();
        rams[1].memory_mut()[bytes(BAD)..bytes(STRIP)].fill(0xaa);
        Self::of(&config, rams)
    }

    fn of(config: &ArrayConfig, rams: Vec<RamDevice>) -> Self {
        let devices = rams.into_iter().map(|ram| Box::new(ram) as Box<dyn BlockDevice>).collect();
        Self { array: ArrayDevice::new(config, devices, NoMetadata, 0), now: 0, ended: Vec::new() }
    }

    fn turn(&mut self) {
        self.array.poll(self.now, &mut self.ended);
        self.now = self.array.next_wake().unwrap_or(self.now).max(self.now);
    }

    fn ask(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
        self.array.submit(Request { tag: 7, start_sector, sectors, operation });
        loop {
            self.turn();
            if let Some(ended) = self.ended.pop() {
                return ended;
            }
        }
    }
}

#[test]
fn a_scrub_compares_what_lies_beside_a_bad_block() {
    let mut world = World::new();
    let scrub = Command::Scrub { repair: false, from_sector: 0 };
    support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, scrub).expect("it begins");
    while world.array.status().last_scrub.is_none() {
        world.turn();
    }
    assert_eq!(world.array.status().last_scrub, Some(Findings { mismatch_sectors: STRIP - BAD, unchecked_sectors: BAD }));
}

/// All copies of 128 KiB were left out of account on a member with one bad block there. With three copies nothing said so.
#[test]
fn a_scrub_compares_copies_beside_a_bad_block() {
    for (count, unchecked_sectors) in [(2, BAD), (3, 0)] {
        let geometry = Geometry::new(Level::Raid1, Level::Raid1.default_layout(), STRIP, &vec![512; count]).expect("good");
        let mut config = ArrayConfig::optimal("test", geometry);
        config.slots[1].member.as_mut().expect("it is there").bad_blocks = vec![MemberSector::new(0)..MemberSector::new(BAD)];
        let mut rams: Vec<RamDevice> = (0..count).map(|_| RamDevice::new(512)).collect();
        rams[1].memory_mut()[bytes(BAD)..bytes(STRIP)].fill(0xaa);
        let mut world = World::of(&config, rams);
        let scrub = Command::Scrub { repair: false, from_sector: 0 };
        support::carry_out(std::slice::from_mut(&mut world.array), &mut world.now, &mut world.ended, scrub).expect("it begins");
        while world.array.status().last_scrub.is_none() {
            world.turn();
        }
        let found = Findings { mismatch_sectors: STRIP - BAD, unchecked_sectors };
        assert_eq!(world.array.status().last_scrub, Some(found), "{count} copies");
    }
}

#[test]
fn a_write_leaves_what_lies_beside_a_bad_block() {
    let mut world = World::new();
    let from = std::iter::once(Buffer::zeroed(bytes(STRIP)).freeze()).collect();
    world.ask(0, STRIP, Operation::Write { from, fua: false }).result.expect("it is taken");
    let into = std::iter::once(Buffer::zeroed(bytes(STRIP - BAD))).collect();
    let read = world.ask(STRIP + BAD, STRIP - BAD, Operation::Read { into });
    read.result.expect("it is there");
    let Operation::Read { into } = read.operation else { panic!("a read comes back as a read") };
    assert!(into.iter().flat_map(|buffer| buffer.iter()).all(|&byte| byte == 0xaa), "parity has overwritten it");
}

/// The error named a missing member where none was missing.
#[test]
fn a_read_of_what_no_member_holds_names_the_reason() {
    for (level, members) in [(Level::Raid0, 2), (Level::Raid5, 3)] {
        let geometry = Geometry::new(level, level.default_layout(), STRIP, &vec![512; members]).expect("good");
        let mut config = ArrayConfig::optimal("test", geometry);
        let member = config.slots[1].member.as_mut().expect("it is there");
        member.bad_blocks = vec![MemberSector::new(0)..MemberSector::new(BAD)];
        let reason = format!("these sectors of {} are bad blocks", member.name);
        if level == Level::Raid5 {
            config.slots[0].member.as_mut().expect("it is there").bad_blocks = vec![MemberSector::new(0)..MemberSector::new(BAD)];
        }
        let mut world = World::of(&config, (0..members).map(|_| RamDevice::new(512)).collect());
        // The second strip is on member 1.
        let into = std::iter::once(Buffer::zeroed(bytes(BAD))).collect();
        let error = world.ask(STRIP, BAD, Operation::Read { into }).result.expect_err("nothing replaces it").to_string();
        assert!(error.contains(&reason) && !error.contains("missing"), "{level:?}: {error}");
        let into = std::iter::once(Buffer::zeroed(bytes(BAD))).collect();
        world.ask(STRIP + BAD, BAD, Operation::Read { into }).result.expect("it is there");
    }
}
