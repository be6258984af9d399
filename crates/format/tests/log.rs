//! Goal: a power cut in the middle of a write harms nothing but that write, also when members are lost with it, or were before.
//! Method: the real engine and metadata on drives in memory. The power is cut after every single sector that reaches a
//! drive; then every set of members that the level survives is taken away, the rest is started, and every sector must
//! read as it was, or, where the write went, as it was or as it was to be.

mod support;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stria_array::{ArrayDevice, Engine, Level};
use stria_block::{BlockDevice, Buffer, Completion, Limits, Nanos, Operation, Request};
use stria_format::md::{LogChoice, MdRecorder, Options};
use support::*;

/// 2 MiB: half of it is metadata and log.
const DRIVE_SECTORS: u64 = 4096;
/// 4 KiB.
const STRIP: u64 = 8;
/// Stripes that are looked at.
const STRIPES: u64 = 3;

/// A drive that forgets nothing, and hears nothing any more once the power is gone.
struct CutDrive {
    drive: Rc<RefCell<MemoryDrive>>,
    /// Sectors that may still be written, on all drives together.
    left: Rc<Cell<u64>>,
    limits: Limits,
    ended: Vec<Completion>,
}

impl BlockDevice for CutDrive {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, mut request: Request) {
        request.check(&self.limits).expect("the engine asks for what there is");
        let mut drive = self.drive.borrow_mut();
        match &mut request.operation {
            Operation::Read { into } => {
                let bytes = drive.read(request.start_sector, request.sectors).expect("it reads");
                let mut rest = &bytes[..];
                for buffer in into {
                    let (front, back) = rest.split_at(buffer.len());
                    buffer.copy_from_slice(front);
                    rest = back;
                }
            }
            Operation::Write { from, .. } => {
                let bytes: Vec<u8> = from.iter().flat_map(|data| data.iter().copied()).collect();
                for (sector, data) in (request.start_sector..).zip(bytes.chunks(512)) {
                    if self.left.get() > 0 {
                        self.left.set(self.left.get() - 1);
                        drive.write(sector, data);
                    }
                }
            }
            _ => {}
        }
        drop(drive);
        self.ended.push(request.complete(Ok(())));
    }
    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
    }
    fn next_wake(&self) -> Option<Nanos> {
        (!self.ended.is_empty()).then_some(0)
    }
}

/// An array started from what lies on drives.
struct Running {
    array: ArrayDevice<MdRecorder>,
    drives: Vec<Rc<RefCell<MemoryDrive>>>,
    left: Rc<Cell<u64>>,
    now: Nanos,
}

impl Running {
    fn start(drives: &[MemoryDrive], left: u64, read_only: bool) -> Self {
        let start = started(drives, &Options { read_only, ..Options::default() });
        assert!(start.config.log.is_some(), "parity levels have a log by default");
        let drives: Vec<_> = drives.iter().map(|drive| Rc::new(RefCell::new(drive.clone()))).collect();
        let left = Rc::new(Cell::new(left));
        let device = |&drive: &usize| {
            let limits = Limits::plain(DRIVE_SECTORS);
            Box::new(CutDrive { drive: Rc::clone(&drives[drive]), left: Rc::clone(&left), limits, ended: Vec::new() })
                as Box<dyn BlockDevice>
        };
        let devices = start.drives.iter().map(device).collect();
        let array = ArrayDevice::new(&start.config, devices, start.recorder, 1_700_000_000);
        array.command(|engine| engine.pause(true));
        Self { array, drives, left, now: 0 }
    }

    /// Runs until one request has ended, or nothing happens any more.
    fn request(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
        self.array.submit(Request { tag: 7, start_sector, sectors, operation });
        let mut ended = Vec::new();
        while ended.is_empty() {
            self.array.poll(self.now, &mut ended);
            self.now = self.now.max(self.array.next_wake().unwrap_or(0));
        }
        ended.pop().expect("one has ended")
    }

    fn read_all(&mut self, sectors: u64) -> Vec<u8> {
        let into = std::iter::once(Buffer::zeroed((sectors * 512) as usize)).collect();
        let completion = self.request(0, sectors, Operation::Read { into });
        completion.result.expect("it reads");
        let Operation::Read { into } = completion.operation else { unreachable!("a read") };
        into.iter().flat_map(|buffer| buffer.iter().copied()).collect()
    }

    fn write(&mut self, start_sector: u64, bytes: &[u8]) {
        let from = std::iter::once(Buffer::copy_of(bytes).freeze()).collect();
        let completion = self.request(start_sector, (bytes.len() / 512) as u64, Operation::Write { from, fua: false });
        completion.result.expect("it writes");
    }

    fn stop(mut self) -> Vec<MemoryDrive> {
        self.array.command(Engine::stop);
        while !self.array.command(|engine| engine.is_stopped()) {
            self.array.poll(self.now, &mut Vec::new());
            self.now = self.now.max(self.array.next_wake().unwrap_or(0));
        }
        self.drives()
    }

    fn drives(self) -> Vec<MemoryDrive> {
        self.drives.iter().map(|drive| drive.borrow().clone()).collect()
    }
}

/// Bytes of sectors from `start` on, told apart by `version`.
fn pattern(start: u64, sectors: u64, version: u8) -> Vec<u8> {
    (start..start + sectors).flat_map(|sector| [sector as u8 ^ 0x5a, version, (sector >> 8) as u8, 0x11].repeat(128)).collect()
}

fn without(drives: &[MemoryDrive], lost: &[usize]) -> Vec<MemoryDrive> {
    drives.iter().enumerate().filter(|(index, _)| !lost.contains(index)).map(|(_, drive)| drive.clone()).collect()
}

/// Every set of up to `most` of `count` members.
fn losses(count: usize, most: usize) -> Vec<Vec<usize>> {
    (0..1usize << count)
        .map(|set| (0..count).filter(|index| set >> index & 1 != 0).collect::<Vec<_>>())
        .filter(|lost| lost.len() <= most)
        .collect()
}

/// Cuts a write of `sectors` at `start` everywhere, on an array that lacks `missing` from before.
fn cut_everywhere(level: Level, count: usize, missing: &[usize], writes: &[(u64, u64)]) {
    let mut create = request(level, level.default_layout(), count, 0, DRIVE_SECTORS);
    create.strip_sectors = STRIP;
    let (drives, creation) = carry_out(&create);
    let parity_count = level.parity_count();
    let sectors = STRIPES * STRIP * creation.geometry.data_count() as u64;
    let mut array = Running::start(&drives, u64::MAX, false);
    array.write(0, &pattern(0, sectors, 1));
    // A record of each stripe from before, to be told from those that count.
    for stripe in 0..STRIPES {
        let start = stripe * sectors / STRIPES;
        array.write(start + 1, &pattern(start + 1, 2, 1));
    }
    let drives = without(&array.stop(), missing);
    let before = pattern(0, sectors, 1);
    let mut after = before.clone();
    for &(start, sectors) in writes {
        after[(start * 512) as usize..][..(sectors * 512) as usize].copy_from_slice(&pattern(start, sectors, 2));
    }
    let written = |left: u64| {
        let mut array = Running::start(&drives, left, false);
        for &(start, sectors) in writes {
            array.write(start, &pattern(start, sectors, 2));
        }
        array
    };
    let total = u64::MAX - written(u64::MAX).left.get();
    assert!(total > 20, "log, bitmap, superblocks and data were written");
    for cut in 0..=total {
        let array = written(cut);
        let crashed = array.drives();
        for lost in losses(crashed.len(), parity_count - missing.len()) {
            let rest = without(&crashed, &lost);
            let check = |found: &[u8], when: &str| {
                for sector in 0..sectors {
                    let range = (sector * 512) as usize..((sector + 1) * 512) as usize;
                    let good = found[range.clone()] == before[range.clone()] || found[range.clone()] == after[range.clone()];
                    assert!(
                        good,
                        "RAID {level} of {count} without {missing:?}: {writes:?} cut after {cut} sectors, {lost:?} of the rest \
                         lost: sector {sector} is neither old nor new {when}"
                    );
                }
            };
            let mut looked_at = Running::start(&rest, 0, true);
            let first = looked_at.read_all(sectors);
            check(&first, "when looked at");
            if !(cut + lost.len() as u64).is_multiple_of(5) {
                continue;
            }
            // A replay that is cut short, and begun again, and carried to its end.
            let same = |found: Vec<u8>, when: &str| {
                let differs = (0..sectors as usize).find(|at| found[at * 512..][..512] != first[at * 512..][..512]);
                assert_eq!(
                    differs, None,
                    "RAID {level} of {count} without {missing:?}: {writes:?} cut after {cut} of {total} sectors, {lost:?} of the \
                     rest lost: a sector changed {when}"
                );
            };
            let mut broken = Running::start(&rest, 3, false);
            // What it reads after the cut nobody sees.
            broken.read_all(sectors);
            let mut array = Running::start(&broken.drives(), u64::MAX, false);
            same(array.read_all(sectors), "in the replay after that");
            // Life goes on, beside what was written and over it.
            array.write(sectors - 1, &pattern(sectors - 1, 1, 1));
            let stopped = array.stop();
            let found = Running::start(&stopped, 0, true).read_all(sectors);
            same([&found[..found.len() - 512], &first[first.len() - 512..]].concat(), "after a clean stop");
            assert_eq!(found[found.len() - 512..], pattern(sectors - 1, 1, 1), "what was written last");
        }
    }
}

#[test]
fn one_sector_of_raid_5() {
    cut_everywhere(Level::Raid5, 4, &[], &[(9, 1)]);
}

#[test]
fn one_strip_of_raid_5_that_lacks_a_member() {
    for missing in 0..3 {
        cut_everywhere(Level::Raid5, 3, &[missing], &[(9, 3)]);
    }
}

#[test]
fn two_strips_of_raid_5() {
    cut_everywhere(Level::Raid5, 4, &[], &[(6, 4)]);
}

#[test]
fn a_whole_stripe_of_raid_5_and_then_a_part_of_it() {
    cut_everywhere(Level::Raid5, 3, &[], &[(16, 16), (17, 2)]);
}

#[test]
fn one_sector_of_raid_6() {
    cut_everywhere(Level::Raid6, 5, &[], &[(9, 1)]);
}

#[test]
fn two_strips_of_raid_6_that_lacks_a_member() {
    for missing in [0, 3] {
        cut_everywhere(Level::Raid6, 5, &[missing], &[(6, 4)]);
    }
}

#[test]
fn a_part_after_another_part_of_raid_4() {
    cut_everywhere(Level::Raid4, 4, &[], &[(2, 2), (10, 2)]);
}

#[test]
fn without_a_log_there_is_none() {
    let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
    create.log = LogChoice::None;
    let (drives, _) = carry_out(&create);
    assert!(started(&drives, &Options::default()).config.log.is_none());
}
