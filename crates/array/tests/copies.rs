//! Which copy is read: the one whose member has the fewest requests. Among equals on hard disks, the one with the nearest head.

mod support;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stria_array::Synced;
use stria_array::*;
use stria_block::*;

const SECTORS: u64 = 1 << 16;

/// Records its requests, and ends them while that is switched on.
struct Noting {
    limits: Limits,
    asked: Rc<RefCell<Vec<u64>>>,
    ends: Rc<Cell<bool>>,
    waiting: Vec<Request>,
}

impl BlockDevice for Noting {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, request: Request) {
        self.asked.borrow_mut().push(request.start_sector);
        self.waiting.push(request);
    }
    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        if self.ends.get() {
            completions.extend(self.waiting.drain(..).map(|request| request.complete(Ok(()))));
        }
    }
    fn next_wake(&self) -> Option<Nanos> {
        (self.ends.get() && !self.waiting.is_empty()).then_some(0)
    }
}

struct Mirror {
    array: ArrayDevice<NoMetadata>,
    asked: [Rc<RefCell<Vec<u64>>>; 2],
    ends: Rc<Cell<bool>>,
}

impl Mirror {
    fn new(rotational: bool) -> Self {
        let geometry = Geometry::new(Level::Raid1, Layout::Plain, 0, &[SECTORS; 2]).expect("it fits");
        let (asked, ends) = ([Rc::default(), Rc::default()], Rc::new(Cell::new(false)));
        let noting = |asked: &Rc<_>| Noting {
            limits: Limits { rotational, ..Limits::plain(SECTORS) },
            asked: Rc::clone(asked),
            ends: Rc::clone(&ends),
            waiting: Vec::new(),
        };
        let devices = asked.iter().map(|asked| Box::new(noting(asked)) as Box<dyn BlockDevice>).collect();
        Self { array: ArrayDevice::new(&ArrayConfig::optimal("test", geometry), devices, NoMetadata, 0), asked, ends }
    }

    /// Reads. Returns the index of the member that was asked.
    fn read(&mut self, start_sector: u64) -> usize {
        let before = self.asked[0].borrow().len();
        let into = std::iter::once(Buffer::zeroed(4096)).collect();
        self.array.submit(Request { tag: 0, start_sector, sectors: 8, operation: Operation::Read { into } });
        self.array.poll(0, &mut Vec::new());
        usize::from(self.asked[0].borrow().len() == before)
    }

    fn end_all(&mut self) {
        self.ends.set(true);
        self.array.poll(0, &mut Vec::new());
        self.ends.set(false);
    }
}

#[test]
fn reads_go_to_the_member_with_the_fewest_requests() {
    for rotational in [false, true] {
        let mut mirror = Mirror::new(rotational);
        // All at one position, to which one head is nearest.
        let mut counts = [0_u32; 2];
        for round in 1..=20 {
            counts[mirror.read(4096)] += 1;
            assert!(counts[0].abs_diff(counts[1]) <= 1, "{counts:?} after {round} reads");
        }
        mirror.end_all();
    }
}

#[test]
fn on_hard_disks_the_nearest_head_reads() {
    let mut mirror = Mirror::new(true);
    let low = mirror.read(0);
    let high = mirror.read(60_000);
    assert_ne!(low, high, "one each, as both queues count");
    mirror.end_all();
    for (sector, nearest) in [(59_000, high), (1_000, low), (58_000, high), (2_000, low), (2_008, low)] {
        assert_eq!(mirror.read(sector), nearest, "sector {sector}");
        mirror.end_all();
    }
}

/// Copies that differ after a crash are made like the first. Its member fails meanwhile, at any moment. The data that is read
/// from the next copy from then on never changes.
#[test]
fn what_is_read_of_copies_that_are_being_made_alike_stays() {
    for (level, members, seed) in (0..400).flat_map(|seed| [(Level::Raid1, 3, seed), (Level::Raid10, 6, seed)]) {
        let layout = match level {
            Level::Raid1 => Layout::Plain,
            _ => Layout::Copies(Copies { near: 2, far: 2, offset: false }),
        };
        let geometry = Geometry::new(level, layout, 8, &vec![104; members]).expect("it fits");
        let mut world = support::World::with(geometry, 0, seed, None, Synced::up_to(0));
        for ram in &world.rams {
            let noise = world.chance.any() as u8;
            ram.0.borrow_mut().memory_mut().fill(noise);
        }
        for _ in 0..world.chance.below(60) {
            world.step();
        }
        world.fail(0).expect("there are other copies");
        let first = world.read_each();
        world.run_until("resync", |status| status.synced == Synced::All && status.sweep.is_none());
        assert!(first == world.read_each(), "RAID {level}, seed {seed}");
    }
}

/// Offset layouts have every second row of a member before the first: each was a request of its own, and was searched for among
/// all before it.
#[test]
fn a_large_trim_of_copies_is_few_requests() {
    let copies = [(2, 1, false), (1, 2, false), (1, 2, true), (1, 3, true), (2, 2, true)];
    for (near, far, offset) in copies {
        for members in [4, 5] {
            let layout = Layout::Copies(Copies { near, far, offset });
            let geometry = Geometry::new(Level::Raid10, layout, 8, &vec![SECTORS; members]).expect("it fits");
            let asked: Vec<Rc<RefCell<Vec<u64>>>> = (0..members).map(|_| Rc::default()).collect();
            let noting = |asked: &Rc<_>| Noting {
                limits: Limits { unmap_zeroes: true, ..Limits::plain(SECTORS) },
                asked: Rc::clone(asked),
                ends: Rc::new(Cell::new(true)),
                waiting: Vec::new(),
            };
            let devices = asked.iter().map(|asked| Box::new(noting(asked)) as Box<dyn BlockDevice>).collect();
            let mut array = ArrayDevice::new(&ArrayConfig::optimal("test", geometry), devices, NoMetadata, 0);
            // The first trim has superblocks say "dirty". The second is of 4 MiB, not from the first of its rows on.
            let mut now = 0;
            for (start_sector, sectors) in [(0, 8), (3 * 8, 1 << 13)] {
                asked.iter().for_each(|asked| asked.borrow_mut().clear());
                let operation = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
                array.submit(Request { tag: 0, start_sector, sectors, operation });
                let mut ended = Vec::new();
                while ended.is_empty() {
                    array.poll(now, &mut ended);
                    now = array.next_wake().unwrap_or(now).max(now);
                }
                ended.remove(0).result.expect("it is taken");
            }
            // Each far copy may lie apart, and rows at both ends may lack their neighbour.
            for asked in &asked {
                let count = asked.borrow().len();
                assert!((1..=usize::from(far) + 2).contains(&count), "{layout} of {members}: {count} requests to one member");
            }
        }
    }
}
