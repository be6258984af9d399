//! What the lanes of an array tell, each for itself, as people are to hear it.
//!
//! What concerns a place is told by the lane that owns it. That a member was dropped, taken or came in sync, and that a sweep
//! began or ended, every lane tells: people hear it once. A sweep has ended when it has on every lane.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stria_array::{Event, MemberId, SweepKind};
use stria_block::Nanos;

/// What was heard of the lanes of one array and its spans.
pub(crate) struct Chorus {
    lane_count: usize,
    heard: Mutex<Heard>,
    /// Sweeps are held: those that stop will go on.
    paused: AtomicBool,
}

#[derive(Default)]
struct Heard {
    /// By array.
    tales: BTreeMap<[u8; 16], Tale>,
    silent: BTreeMap<PathBuf, Silent>,
}

/// A drive that does not answer: how long when that was told, and which lanes.
struct Silent {
    told: Nanos,
    lanes: BTreeSet<usize>,
}

/// What is heard of a drive.
pub(crate) enum Hush {
    /// Nothing new.
    Nothing,
    /// It has not answered for longer than was told.
    Longer,
    /// It has, on every lane.
    Over,
}

#[derive(Default)]
struct Tale {
    /// Each happens once to a member, as handles are not used again.
    changes: BTreeSet<(MemberId, Change)>,
    /// By the sweep's kind.
    rounds: [Option<Round>; 4],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Failed,
    Taken,
    InSync,
}

/// A sweep, as far as its lanes have come.
struct Round {
    lanes: Vec<Part>,
    told: bool,
    /// A member was filled on every lane: nobody else begins.
    filled: bool,
}

#[derive(Clone)]
enum Part {
    /// Has not begun.
    Idle,
    Runs,
    Finished {
        mismatch_sectors: u64,
        wrong: Vec<(MemberId, u64)>,
        duration: Nanos,
    },
    Stopped(String),
}

fn place_of(kind: SweepKind) -> usize {
    match kind {
        SweepKind::Resync => 0,
        SweepKind::Rebuild => 1,
        SweepKind::Scrub { repair } => 2 + usize::from(repair),
    }
}

impl Chorus {
    pub fn new(lane_count: usize) -> Self {
        Self { lane_count, heard: Mutex::default(), paused: AtomicBool::new(false) }
    }

    /// Sweeps are to be held, or go on.
    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
    }

    /// Whether sweeps are held.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What people are to hear, now that this lane tells this of that array.
    pub fn hear(&self, lane: usize, array: [u8; 16], event: Event) -> Vec<Event> {
        if self.lane_count == 1 {
            return vec![event];
        }
        let mut heard = self.lock();
        let tale = heard.tales.entry(array).or_default();
        let paused = self.is_paused();
        match event {
            Event::MemberFailed { member, .. } => tale.change(member, Change::Failed, event),
            Event::SpareTaken { member, .. } => tale.change(member, Change::Taken, event),
            Event::MemberInSync { member, .. } => {
                let mut told = tale.change(member, Change::InSync, event);
                if let Some(round) = tale.rounds[place_of(SweepKind::Rebuild)].as_mut().filter(|_| !told.is_empty()) {
                    round.filled = true;
                    told.splice(..0, tale.end(SweepKind::Rebuild, paused));
                }
                told
            }
            Event::SweepStarted(kind) => {
                let round = tale.rounds[place_of(kind)].get_or_insert_with(|| Round::new(self.lane_count));
                round.lanes[lane] = Part::Runs;
                let told = std::mem::replace(&mut round.told, true);
                if told { Vec::new() } else { vec![event] }
            }
            Event::SweepFinished { kind, mismatch_sectors, wrong, duration } => {
                tale.ended(kind, lane, self.lane_count, Part::Finished { mismatch_sectors, wrong, duration }, paused)
            }
            Event::SweepStopped { kind, reason } => tale.ended(kind, lane, self.lane_count, Part::Stopped(reason), paused),
            Event::ReadCorrected { .. }
            | Event::WrongBytes { .. }
            | Event::BadBlocks { .. }
            | Event::Unreadable { .. }
            | Event::Mismatch { .. } => vec![event],
        }
    }

    /// On this lane the drive's oldest request has been waiting for so long; silence is from `after` on.
    pub fn waits(&self, lane: usize, drive: &Path, silent: Nanos, after: Nanos) -> Hush {
        let mut heard = self.lock();
        match heard.silent.get_mut(drive) {
            None if silent < after => Hush::Nothing,
            None => {
                heard.silent.insert(drive.to_owned(), Silent { told: silent, lanes: BTreeSet::from([lane]) });
                Hush::Longer
            }
            Some(known) if silent < after => {
                known.lanes.remove(&lane);
                if known.lanes.is_empty() {
                    heard.silent.remove(drive);
                    return Hush::Over;
                }
                Hush::Nothing
            }
            Some(known) => {
                known.lanes.insert(lane);
                if silent < 2 * known.told {
                    return Hush::Nothing;
                }
                known.told = silent;
                Hush::Longer
            }
        }
    }

    /// Whether any drive is silent.
    pub fn knows_silent(&self) -> bool {
        !self.lock().silent.is_empty()
    }
}

impl Tale {
    /// The first lane to tell speaks for all.
    fn change(&mut self, member: MemberId, change: Change, event: Event) -> Vec<Event> {
        if self.changes.insert((member, change)) { vec![event] } else { Vec::new() }
    }

    fn ended(&mut self, kind: SweepKind, lane: usize, lane_count: usize, part: Part, paused: bool) -> Vec<Event> {
        self.rounds[place_of(kind)].get_or_insert_with(|| Round::new(lane_count)).lanes[lane] = part;
        self.end(kind, paused).into_iter().collect()
    }

    /// The end of a sweep, if that was the last lane's.
    fn end(&mut self, kind: SweepKind, paused: bool) -> Option<Event> {
        let round = self.rounds[place_of(kind)].as_mut()?;
        let (mut idle, mut stopped, mut all) = (false, None, (0, BTreeMap::new(), 0));
        for part in &round.lanes {
            match part {
                Part::Runs => return None,
                Part::Idle => idle = true,
                Part::Stopped(reason) => stopped = stopped.or(Some(reason.clone())),
                Part::Finished { mismatch_sectors, wrong, duration } => {
                    all.0 += mismatch_sectors;
                    wrong.iter().for_each(|&(member, sectors)| *all.1.entry(member).or_insert(0) += sectors);
                    all.2 = all.2.max(*duration);
                }
            }
        }
        // Who has not begun will, except where the member to be filled is gone or whole.
        if idle && !(kind == SweepKind::Rebuild && (stopped.is_some() || round.filled)) {
            return None;
        }
        match stopped {
            Some(reason) => {
                // What is done on a lane is done, if the others go on.
                let goes_on = |part: &mut Part| match part {
                    Part::Finished { .. } if paused => {}
                    _ => *part = Part::Idle,
                };
                round.lanes.iter_mut().for_each(goes_on);
                (round.told, round.filled) = (false, false);
                Some(Event::SweepStopped { kind, reason })
            }
            None => {
                self.rounds[place_of(kind)] = None;
                let (mismatch_sectors, wrong, duration) = all;
                Some(Event::SweepFinished { kind, mismatch_sectors, wrong: wrong.into_iter().collect(), duration })
            }
        }
    }
}

impl Round {
    fn new(lane_count: usize) -> Self {
        Self { lanes: vec![Part::Idle; lane_count], told: false, filled: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: [u8; 16] = [1; 16];
    const SCRUB: SweepKind = SweepKind::Scrub { repair: false };

    fn finished(kind: SweepKind, mismatch_sectors: u64, duration: Nanos) -> Event {
        let wrong = if mismatch_sectors > 0 { vec![(MemberId(2), mismatch_sectors)] } else { Vec::new() };
        Event::SweepFinished { kind, mismatch_sectors, wrong, duration }
    }

    fn stopped(kind: SweepKind) -> Event {
        Event::SweepStopped { kind, reason: "paused".into() }
    }

    #[test]
    fn a_change_of_a_member_is_heard_once() {
        let chorus = Chorus::new(3);
        let failed = |reason: &str| Event::MemberFailed { member: MemberId(1), slot: Some(1), reason: reason.into() };
        assert_eq!(chorus.hear(1, ARRAY, failed("it did")), [failed("it did")]);
        assert_eq!(chorus.hear(0, ARRAY, failed("by others")), []);
        assert_eq!(chorus.hear(2, ARRAY, failed("by others")), []);
        assert_eq!(chorus.hear(0, [2; 16], failed("in a span")), [failed("in a span")]);
        let alone = Chorus::new(1);
        (0..2).for_each(|_| assert_eq!(alone.hear(0, ARRAY, failed("it did")).len(), 1));
    }

    #[test]
    fn a_sweep_ends_when_it_has_on_every_lane() {
        let chorus = Chorus::new(2);
        assert_eq!(chorus.hear(0, ARRAY, Event::SweepStarted(SCRUB)), [Event::SweepStarted(SCRUB)]);
        // Lane 1 has been told, and not begun.
        assert_eq!(chorus.hear(0, ARRAY, finished(SCRUB, 3, 70)), []);
        assert_eq!(chorus.hear(1, ARRAY, Event::SweepStarted(SCRUB)), []);
        assert_eq!(chorus.hear(1, ARRAY, finished(SCRUB, 4, 50)), [finished(SCRUB, 7, 70)]);
        assert_eq!(chorus.hear(1, ARRAY, Event::SweepStarted(SCRUB)).len(), 1, "the next one");
    }

    #[test]
    fn lanes_that_were_through_before_a_pause_count_when_the_others_go_on() {
        let chorus = Chorus::new(2);
        (0..2).for_each(|lane| drop(chorus.hear(lane, ARRAY, Event::SweepStarted(SCRUB))));
        chorus.set_paused(true);
        assert_eq!(chorus.hear(0, ARRAY, finished(SCRUB, 1, 5)), []);
        assert_eq!(chorus.hear(1, ARRAY, stopped(SCRUB)), [stopped(SCRUB)]);
        chorus.set_paused(false);
        assert_eq!(chorus.hear(1, ARRAY, Event::SweepStarted(SCRUB)).len(), 1);
        assert_eq!(chorus.hear(1, ARRAY, finished(SCRUB, 1, 9)), [finished(SCRUB, 2, 9)]);
    }

    #[test]
    fn what_was_cancelled_does_not_count_for_the_next() {
        let chorus = Chorus::new(2);
        (0..2).for_each(|lane| drop(chorus.hear(lane, ARRAY, Event::SweepStarted(SCRUB))));
        chorus.hear(0, ARRAY, finished(SCRUB, 1, 5));
        assert_eq!(chorus.hear(1, ARRAY, stopped(SCRUB)), [stopped(SCRUB)]);
        chorus.hear(1, ARRAY, Event::SweepStarted(SCRUB));
        assert_eq!(chorus.hear(1, ARRAY, finished(SCRUB, 0, 5)), [], "lane 0 has not been through it");
        chorus.hear(0, ARRAY, Event::SweepStarted(SCRUB));
        assert_eq!(chorus.hear(0, ARRAY, finished(SCRUB, 0, 5)), [finished(SCRUB, 0, 5)]);
    }

    #[test]
    fn a_rebuild_ends_before_its_member_is_in_sync_also_where_a_lane_had_no_part_in_it() {
        let chorus = Chorus::new(2);
        chorus.hear(0, ARRAY, Event::SweepStarted(SweepKind::Rebuild));
        assert_eq!(chorus.hear(0, ARRAY, finished(SweepKind::Rebuild, 0, 5)), []);
        let in_sync = Event::MemberInSync { member: MemberId(3), slot: 0 };
        assert_eq!(chorus.hear(1, ARRAY, in_sync.clone()), [finished(SweepKind::Rebuild, 0, 5), in_sync.clone()]);
        assert_eq!(chorus.hear(0, ARRAY, in_sync), []);
    }

    #[test]
    fn a_drive_is_silent_while_it_is_on_any_lane() {
        let chorus = Chorus::new(2);
        let waits = |lane, silent| match chorus.waits(lane, Path::new("/dev/sdx"), silent, 5) {
            Hush::Nothing => ' ',
            Hush::Longer => '+',
            Hush::Over => '-',
        };
        assert_eq!([waits(0, 4), waits(0, 5), waits(1, 6), waits(1, 10), waits(0, 11)], [' ', '+', ' ', '+', ' ']);
        assert_eq!([waits(0, 0), waits(1, 0), waits(0, 0)], [' ', '-', ' ']);
        assert!(!chorus.knows_silent());
    }
}
