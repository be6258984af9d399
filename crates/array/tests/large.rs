//! Goal: after a crash, or when a member returns, an array of members of 16 TiB reads only what its bitmap marks, and serves
//! clients meanwhile.
//! Method: devices that hold zeros and count their requests; no time is measured. A sweep that read each of its 134 million
//! windows, or all chunks before the marked one, would never end here.

mod support;

use std::cell::Cell;
use std::rc::Rc;
use stria_array::Synced;
use stria_array::*;
use stria_block::*;
use support::nowhere::Nowhere;

/// 64 MiB, the default of `create`.
const CHUNK: u64 = 1 << 17;

/// A device of any size, and empty.
struct Zeros {
    limits: Limits,
    ended: Vec<Completion>,
    /// The count of data requests to all such devices.
    asked: Rc<Cell<u64>>,
}

impl BlockDevice for Zeros {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, mut request: Request) {
        if let Operation::Read { into } = &mut request.operation {
            into.iter_mut().for_each(|buffer| buffer.fill(0));
        }
        self.asked.set(self.asked.get() + 1);
        self.ended.push(request.complete(Ok(())));
    }
    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
    }
    fn next_wake(&self) -> Option<Nanos> {
        (!self.ended.is_empty()).then_some(0)
    }
}

struct Large {
    array: ArrayDevice<NoMetadata>,
    asked: Rc<Cell<u64>>,
    now: Nanos,
}

impl Large {
    /// `returns`: this member is filled by the bitmap. Otherwise redundancy may be inconsistent in the marked chunks.
    fn new(level: Level, member_sectors: u64, dirty: &[u64], returns: Option<usize>) -> Self {
        let geometry = Geometry::new(level, level.default_layout(), 128, &[member_sectors; 4]).expect("it can be");
        let intent = Some(IntentConfig { chunk_sectors: CHUNK, dirty: dirty.to_vec() });
        let synced = if returns.is_some() { Synced::All } else { Synced::up_to(0) };
        let mut config = ArrayConfig { intent, synced, ..ArrayConfig::optimal("test", geometry) };
        if let Some(slot) = returns {
            let member = config.slots[slot].member.as_mut().expect("it is there");
            (member.recovered, member.by_bitmap) = (Synced::up_to(0), true);
        }
        let asked = Rc::<Cell<u64>>::default();
        let device = |_| {
            let limits = Limits::plain(member_sectors);
            Box::new(Zeros { limits, ended: Vec::new(), asked: Rc::clone(&asked) }) as Box<dyn BlockDevice>
        };
        let devices = (0..4).map(device).collect();
        Self { array: ArrayDevice::new(&config, devices, NoMetadata, 0), asked, now: 0 }
    }

    fn turn(&mut self) -> Vec<Completion> {
        let mut ended = Vec::new();
        self.array.poll(self.now, &mut ended);
        self.now = self.now.max(self.array.next_wake().unwrap_or(0));
        ended
    }

    /// Lets the sweep end. Returns how many turns and how many requests that took.
    fn swept(&mut self) -> (u64, u64) {
        let mut turns = 0;
        while !self.array.take_events().iter().any(|event| matches!(event, Event::SweepFinished { .. })) {
            self.turn();
            turns += 1;
            assert!(turns < 100_000, "the sweep does not end");
        }
        (turns, self.asked.get())
    }
}

const LEVELS: [Level; 5] = [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10];

#[test]
fn a_resync_of_large_members_looks_at_marked_chunks_only() {
    for level in LEVELS {
        let sectors = 1u64 << 35;
        let last = if level == Level::Raid10 { 2 * sectors / CHUNK - 1 } else { sectors / CHUNK - 1 };
        for dirty in [vec![], vec![0], vec![5, 6], vec![0, last / 2, last]] {
            let (_, asked) = Large::new(level, sectors, &dirty, None).swept();
            // 128 KiB of each of four members at once.
            let windows = dirty.len() as u64 * CHUNK / 256;
            assert!(
                asked >= windows && asked <= windows * 5 + 100,
                "RAID {level}, {dirty:?}: {asked} requests for {windows} windows"
            );
        }
    }
}

#[test]
fn a_member_that_returns_to_a_large_array_gets_marked_chunks_only() {
    for level in LEVELS.into_iter().filter(|level| *level != Level::Raid10) {
        for dirty in [vec![], vec![77], vec![0, (1 << 18) - 1]] {
            let (_, asked) = Large::new(level, 1 << 35, &dirty, Some(1)).swept();
            let windows = dirty.len() as u64 * CHUNK / 256;
            assert!(
                asked >= windows && asked <= windows * 6 + 100,
                "RAID {level}, {dirty:?}: {asked} requests for {windows} windows"
            );
        }
    }
}

/// A RAID 10 finds strip by strip which array sectors a member row holds: clients are served between.
#[test]
fn clients_are_served_while_a_raid_10_looks_for_what_is_marked() {
    let mut large = Large::new(Level::Raid10, 1 << 27, &[9], Some(1));
    let mut served = 0;
    let mut under_way = false;
    while !large.array.take_events().iter().any(|event| matches!(event, Event::SweepFinished { .. })) {
        if !under_way {
            let into = std::iter::once(Buffer::zeroed(4096)).collect();
            large.array.submit(Request { tag: 1, start_sector: 1 << 20, sectors: 8, operation: Operation::Read { into } });
            under_way = true;
        }
        if !large.turn().is_empty() {
            (under_way, served) = (false, served + 1);
        }
    }
    assert!(served >= (1 << 27) / 256 / 512 / 4, "{served} reads were served");
}

/// Which rows a power cut could still take back is remembered until a flush (R20). A client that sends none must not fill the
/// memory.
#[test]
fn the_memory_of_a_log_does_not_grow_with_full_stripes_that_nobody_flushes() {
    let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 8, &[1 << 24; 4]).expect("it can be");
    // Small requests log no new data here, as large ones elsewhere: a full stripe has no record.
    let log = LogConfig { append_sectors_max: 1024, new_data_sectors_max: 0, newest_only: false };
    let mut config = ArrayConfig { log: Some(log), ..ArrayConfig::optimal("test", geometry) };
    for member in config.slots.iter_mut().filter_map(|slot| slot.member.as_mut()) {
        member.data_start_sector = DriveSector::new(2 * Nowhere::START);
    }
    let device = |_| {
        let limits = Limits { volatile_cache: true, ..Limits::plain(2 * Nowhere::START + (1 << 24)) };
        Box::new(Zeros { limits, ended: Vec::new(), asked: Rc::default() }) as Box<dyn BlockDevice>
    };
    let mut array = ArrayDevice::new(&config, (0..4).map(device).collect(), Nowhere::default(), 0);
    let data = Buffer::zeroed(3 * 4096).freeze();
    let (mut ended, mut next) = (Vec::new(), 0);
    let mut write = |count: u64| {
        for stripe in next..next + count {
            let from = std::iter::once(data.clone()).collect();
            array.submit(Request {
                tag: stripe,
                start_sector: 24 * stripe,
                sectors: 24,
                operation: Operation::Write { from, fua: false },
            });
            while ended.is_empty() {
                array.poll(0, &mut ended);
            }
            ended.remove(0).result.expect("no member is missing");
        }
        next += count;
    };
    write(40_000);
    let more = allocation_counter::measure(|| write(80_000)).bytes_current;
    assert!(more < 1 << 20, "{more} bytes more for 80,000 stripes");
}
