//! Goal: with checksums, the first read finds data that changed at rest and corrects it from redundancy. After power cuts and
//! losses of members no correct byte is called wrong. Method: bytes of drives at rest are changed, and the array is read. The
//! exhaustive power cuts and random histories run on drives with checksums, without bit rot.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use stria_array::{Command, Copies, Event, Layout, Level, MemberId, SweepKind};
use stria_block::{Buffer, Completion, Operation, Request, bytes};
use stria_sim::chance::Chance;
use stria_sim::drive::Drive;
use stria_sim::exhaustive::{cut_everywhere, history};
use stria_sim::lanes::Node;
use stria_sim::power::Power;
use stria_sim::setup::{FAMILIES, Setup};
use stria_sim::tree;
use stria_sim::{Extras, History, Rules, run};

const DATA_START: u64 = 2048;

fn setup(level: Level, members: usize) -> Setup {
    Setup::plain(level, level.default_layout(), members, 1)
}

/// An array at rest that holds `source`, on drives.
struct Rest {
    drives: Vec<Rc<RefCell<Drive>>>,
    power: Rc<Power>,
    source: Vec<u8>,
    members: usize,
}

impl Rest {
    fn new(setup: &Setup) -> Self {
        let power = Rc::new(Power::default());
        let drive = |(index, &model)| Rc::new(RefCell::new(Drive::new(model, Rc::clone(&power), Chance::new(7, index as u64))));
        let drives: Vec<_> = setup.drives.iter().enumerate().map(drive).collect();
        tree::create(setup, &drives, &power).expect("the geometry fits");
        let mut rest = Self { drives, power, source: Vec::new(), members: setup.member_count };
        let mut node = rest.mount();
        let size = bytes(node.limits().size_sectors);
        rest.source = (0..size).map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect();
        let from = std::iter::once(Buffer::copy_of(&rest.source).freeze()).collect();
        let write = Operation::Write { from, fua: true };
        node.request(&rest.power, 0, size as u64 / 512, write).expect("drives work");
        node.stop(&rest.power).expect("drives work");
        rest
    }

    fn mount(&self) -> Node {
        tree::mount(&self.drives, &self.power).expect("it starts")
    }

    /// Changes a byte in some pages of a member's data.
    fn rot(&self, member: usize, pages: &[u64]) {
        for page in pages {
            let sector = DATA_START + page * 8 + 3;
            let mut drive = self.drives[member].borrow_mut();
            let mut wrong = drive.image().bytes_of(sector, 1);
            wrong[77] ^= 0x10;
            drive.put(sector, &wrong);
        }
    }

    fn images(&self) -> Vec<Vec<u8>> {
        let data = |drive: &Rc<RefCell<Drive>>| drive.borrow().image().bytes_of(DATA_START, 96);
        self.drives[..self.members].iter().map(data).collect()
    }

    /// The data that a client reads, request by request of 16 KiB; `None`: an error.
    fn read(&self, node: &mut Node) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for start in (0..self.source.len() as u64 / 512).step_by(32) {
            let sectors = 32.min(self.source.len() as u64 / 512 - start);
            all.extend(node.read(&self.power, start, sectors).ok()?);
        }
        Some(all)
    }
}

fn mirrored() -> [Setup; 2] {
    let near = Layout::Copies(Copies { near: 2, far: 1, offset: false });
    [setup(Level::Raid1, 2), Setup::plain(Level::Raid10, near, 4, 1)]
}

fn redundant() -> Vec<Setup> {
    let parity = [(Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 4)].map(|(level, members)| setup(level, members));
    parity.into_iter().chain(mirrored()).collect()
}

#[test]
fn bytes_that_rot_are_read_as_they_were_written_and_healed() {
    for setup in redundant() {
        let name = setup.to_string();
        let rest = Rest::new(&setup.with_checksums());
        let right = rest.images();
        // Neighbours, far apart, and on two members at different positions: one of each stripe or pair.
        rest.rot(0, &[0, 1, 9]);
        rest.rot(1, &[4, 7]);
        let mut node = rest.mount();
        assert!(rest.read(&mut node) == Some(rest.source.clone()), "{name}: a client reads what was written");
        // Only the scrub reads parity, and copies that no client read.
        node.top().begin(Command::Scrub { repair: false, from_sector: 0 });
        let mut mismatch = None;
        let mut events = Vec::new();
        for _ in 0..100_000 {
            let mut ended = Vec::new();
            node.poll(rest.power.now(), &mut ended);
            events.extend(node.top().take_events());
            for event in &events {
                if let Event::SweepFinished { kind: SweepKind::Scrub { .. }, found, .. } = event {
                    mismatch = Some(found.mismatch_sectors);
                }
            }
            if mismatch.is_some() {
                break;
            }
            let wake = node.next_wake().expect("a scrub goes on");
            rest.power.set_now(rest.power.now().max(wake));
        }
        assert_eq!(mismatch, Some(0), "{name}: what is left agrees");
        let counts = |member: usize| node.top().checked(MemberId(member)).expect("it has checksums").counts();
        for (member, wrong) in [(0, 3), (1, 2)] {
            assert_eq!((counts(member).wrong, counts(member).mended), (wrong, wrong), "{name}: member {member} is blamed");
        }
        node.stop(&rest.power).expect("drives work");
        assert!(rest.images() == right, "{name}: every byte on the drives is as it was");
    }
}

/// Without checksums the change must be visible: some reads return rotten data.
#[test]
fn without_checksums_the_same_bytes_are_served_wrong() {
    for setup in redundant() {
        let name = setup.to_string();
        let rest = Rest::new(&setup);
        rest.rot(0, &[0, 1, 9]);
        rest.rot(1, &[4, 7]);
        let read = rest.read(&mut rest.mount());
        assert!(read.is_some_and(|read| read != rest.source), "{name}");
    }
}

#[test]
fn without_redundancy_a_read_of_bytes_that_rotted_is_an_error() {
    for (setup, members) in [(setup(Level::Raid0, 2), 2), (setup(Level::Linear, 2), 2)] {
        assert_eq!(setup.member_count, members);
        let rest = Rest::new(&setup.with_checksums());
        assert!(rest.read(&mut rest.mount()).is_some());
        rest.rot(1, &[2]);
        let mut node = rest.mount();
        assert_eq!(rest.read(&mut node), None);
        let checked = node.top().checked(MemberId(1)).expect("it has checksums");
        assert_eq!((checked.counts().wrong, checked.take_findings()), (1, Vec::from_iter(Some(16..24))));
    }
}

/// Reads a rotten block and its neighbours while the neighbours are being written. Returns how many reads were right, and how
/// many were errors.
fn read_beside_writes(setup: Setup) -> (usize, usize) {
    let (name, redundant) = (setup.to_string(), setup.level.is_redundant());
    let rest = Rest::new(&setup.with_checksums());
    let mut node = rest.mount();
    let mut chance = Chance::new(11, 0);
    let mut pending: Vec<(u64, Option<Range<u64>>)> = Vec::new();
    let (mut tag, mut right, mut refused) = (0, 0, 0);
    for turn in 0..4_000 {
        if turn % 200 == 0 && (redundant || turn == 0) {
            rest.rot(0, &[0]);
        }
        let blocks = 1 + chance.below(3);
        let (range, reads) = match chance.below(2) {
            0 => (0..8 + blocks * 8, true),
            _ => (8 * blocks..8 * blocks + 8, false),
        };
        if pending.len() < 8 {
            tag += 1;
            let bytes_of = bytes(range.start)..bytes(range.end);
            let operation = match reads {
                true => Operation::Read { into: std::iter::once(Buffer::zeroed(bytes_of.len())).collect() },
                // The same bytes as before, so that reads have one right answer.
                false => {
                    let from = std::iter::once(Buffer::copy_of(&rest.source[bytes_of]).freeze()).collect();
                    Operation::Write { from, fua: false }
                }
            };
            pending.push((tag, reads.then(|| range.clone())));
            let (start_sector, sectors) = (range.start, range.end - range.start);
            node.submit(Request { tag, start_sector, sectors, operation });
        }
        let mut ended = Vec::new();
        node.poll(rest.power.now(), &mut ended);
        for Completion { tag, result, operation } in ended {
            let place = pending.iter().position(|(known, _)| *known == tag).expect("it ends once");
            let Some(range) = pending.swap_remove(place).1 else {
                result.expect("a write succeeds");
                continue;
            };
            let Operation::Read { into } = operation else { panic!("it was a read") };
            let bytes_of = bytes(range.start)..bytes(range.end);
            match result {
                Ok(()) => {
                    assert!(into.iter().flat_map(|buffer| buffer.iter()).eq(&rest.source[bytes_of]), "{name}: wrong bytes");
                    right += 1;
                }
                Err(_) if !redundant => refused += 1,
                Err(error) => panic!("{name}: another copy is right: {error}"),
            }
        }
        if let Some(wake) = node.next_wake() {
            rest.power.set_now(rest.power.now().max(wake));
        }
    }
    (right, refused)
}

#[test]
fn rot_is_not_served_while_its_neighbours_are_written() {
    for setup in redundant() {
        let name = setup.to_string();
        let (right, _) = read_beside_writes(setup);
        assert!(right > 300, "{name}: {right} reads");
    }
    for setup in [setup(Level::Raid0, 2), setup(Level::Linear, 2)] {
        let name = setup.to_string();
        let (right, refused) = read_beside_writes(setup);
        assert!(right == 0 && refused > 300, "{name}: {right} right, {refused} refused");
    }
}

fn cut(setup: Setup, degraded: bool) {
    let name = setup.to_string();
    let cuts = cut_everywhere(&history(setup.with_checksums(), degraded), Rules::default());
    let cuts = cuts.unwrap_or_else(|(after, keep, failure)| panic!("{name}: cut after {after}, {keep:?}: {}", failure.what));
    assert!(cuts > 100, "{name}: only {cuts} cuts");
}

#[test]
fn a_power_cut_at_any_event_calls_no_right_byte_wrong() {
    cut(setup(Level::Raid0, 2), false);
    cut(setup(Level::Raid1, 2), false);
    cut(setup(Level::Raid5, 3), false);
}

#[test]
fn a_power_cut_at_any_event_of_a_degraded_array_calls_no_right_byte_wrong() {
    cut(setup(Level::Raid5, 3), true);
    cut(setup(Level::Raid6, 4), true);
}

fn histories(from: u64, count: u64) {
    for family in FAMILIES {
        for seed in from..from + count {
            let history = History::draw(seed, Some(family));
            let setup = history.setup.clone().with_checksums();
            let run = run(&History { setup, ..history }, Rules::default());
            assert_eq!(run.err(), None, "seed {seed}, family {family}, with checksums");
        }
    }
}

#[test]
fn histories_with_checksums_lose_nothing() {
    histories(1, 25);
}

/// Seed 10:700005. A killed process had called a member in sync, in superblocks that only caches held. The next start found them, and
/// the power went before it had written any: the member is being filled again, and nothing had relied on it.
#[test]
fn a_member_that_only_a_cache_called_in_sync_may_be_filled_again() {
    let history = History::draw_with(700_005, Some("10"), Extras { harsh: true, ..Extras::NONE });
    let setup = history.setup.clone().with_checksums();
    assert_eq!(run(&History { setup, ..history }, Rules::default()).err(), None);
}

/// `cargo test --release -p stria-sim --test checksums -- --ignored`
#[test]
#[ignore = "some minutes"]
fn many_histories_with_checksums_lose_nothing() {
    histories(1000, 2000);
}
