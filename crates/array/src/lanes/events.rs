//! Merges the events of an array's lanes into those that are reported.
//!
//! The owner of a range reports its events. Every lane reports that a member was dropped, took a slot or is in sync, and that a
//! sweep began or ended; such an event is passed on once. A sweep has ended when it has on every lane.

use crate::{Event, Findings, MemberId, StopCause, SweepKind};
use std::collections::{BTreeMap, BTreeSet};
use stria_block::Nanos;

/// Merges the events of an array's lanes.
pub struct LaneEvents {
    lane_count: usize,
    /// Each happens once to a member, since handles are not reused.
    changes: BTreeSet<(MemberId, Change)>,
    /// The round of each kind of sweep.
    rounds: [Option<Round>; 4],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Failed,
    Gone,
    Taken,
    InSync,
}

/// A sweep, as far as its lanes have come.
struct Round {
    lanes: Vec<Part>,
    is_reported: bool,
    /// A member was rebuilt on every lane: no other lane begins.
    rebuilt: bool,
}

#[derive(Clone)]
enum Part {
    /// It has not begun.
    Idle,
    Runs,
    Finished {
        found: Findings,
        wrong: Vec<(MemberId, u64)>,
        duration: Nanos,
    },
    Stopped {
        cause: StopCause,
        at_sector: u64,
        /// By itself.
        goes_on: bool,
    },
}

fn place_of(kind: SweepKind) -> usize {
    match kind {
        SweepKind::Resync => 0,
        SweepKind::Rebuild => 1,
        SweepKind::Scrub { repair } => 2 + usize::from(repair),
    }
}

impl LaneEvents {
    /// A merger for this many lanes.
    pub fn new(lane_count: usize) -> Self {
        Self { lane_count, changes: BTreeSet::new(), rounds: [const { None }; 4] }
    }

    /// The events to report, now that a lane reports this one. `paused`: sweeps are paused, so those that stop will go on.
    pub fn merge(&mut self, lane: usize, event: Event, paused: bool) -> Vec<Event> {
        if self.lane_count == 1 {
            return vec![event];
        }
        match event {
            Event::MemberFailed { member, .. } => self.change(member, Change::Failed, event),
            Event::MemberGone { member, .. } => self.change(member, Change::Gone, event),
            Event::SpareTaken { member, .. } => self.change(member, Change::Taken, event),
            Event::MemberInSync { member, .. } => {
                let mut events = self.change(member, Change::InSync, event);
                if let Some(round) = self.rounds[place_of(SweepKind::Rebuild)].as_mut().filter(|_| !events.is_empty()) {
                    round.rebuilt = true;
                    events.splice(..0, self.end(SweepKind::Rebuild, paused));
                }
                events
            }
            Event::SweepStarted(kind) => {
                let round = self.rounds[place_of(kind)].get_or_insert_with(|| Round::new(self.lane_count));
                round.lanes[lane] = Part::Runs;
                let is_reported = std::mem::replace(&mut round.is_reported, true);
                if is_reported { Vec::new() } else { vec![event] }
            }
            Event::SweepFinished { kind, found, wrong, duration } => {
                self.ended(kind, lane, Part::Finished { found, wrong, duration }, paused)
            }
            Event::SweepStopped { kind, cause, at_sector, goes_on } => {
                self.ended(kind, lane, Part::Stopped { cause, at_sector, goes_on }, paused)
            }
            Event::ReadCorrected { .. }
            | Event::NoSpace { .. }
            | Event::SuperblockRefused { .. }
            | Event::WrongBytes { .. }
            | Event::BadBlocks { .. }
            | Event::Unreadable { .. }
            | Event::Mismatch { .. } => vec![event],
        }
    }

    /// The first lane that reports speaks for all.
    fn change(&mut self, member: MemberId, change: Change, event: Event) -> Vec<Event> {
        if self.changes.insert((member, change)) { vec![event] } else { Vec::new() }
    }

    fn ended(&mut self, kind: SweepKind, lane: usize, part: Part, paused: bool) -> Vec<Event> {
        self.rounds[place_of(kind)].get_or_insert_with(|| Round::new(self.lane_count)).lanes[lane] = part;
        self.end(kind, paused).into_iter().collect()
    }

    /// The end of a sweep, if that was the last lane's.
    fn end(&mut self, kind: SweepKind, paused: bool) -> Option<Event> {
        let round = self.rounds[place_of(kind)].as_mut()?;
        let (mut idle, mut goes_on, mut all) = (false, true, (Findings::default(), BTreeMap::new(), 0));
        // The lane that is behind all others: a scrub that goes on from its position leaves nothing out.
        let mut stopped: Option<(u64, &StopCause)> = None;
        for part in &round.lanes {
            match part {
                Part::Runs => return None,
                Part::Idle => idle = true,
                Part::Stopped { cause, at_sector, goes_on: this_one_does } => {
                    if stopped.is_none_or(|(at, _)| *at_sector < at) {
                        stopped = Some((*at_sector, cause));
                    }
                    goes_on &= this_one_does;
                }
                Part::Finished { found, wrong, duration } => {
                    all.0 += *found;
                    wrong.iter().for_each(|&(member, sectors)| *all.1.entry(member).or_insert(0) += sectors);
                    all.2 = all.2.max(*duration);
                }
            }
        }
        // A lane that has not begun will, unless the member to be rebuilt is gone or in sync.
        if idle && !(kind == SweepKind::Rebuild && (stopped.is_some() || round.rebuilt)) {
            return None;
        }
        match stopped.map(|(at_sector, cause)| (at_sector, cause.clone())) {
            Some((at_sector, cause)) => {
                // The progress of a lane counts, if the others go on.
                let begin_anew = |part: &mut Part| match part {
                    Part::Finished { .. } if paused || goes_on => {}
                    Part::Idle | Part::Runs | Part::Finished { .. } | Part::Stopped { .. } => *part = Part::Idle,
                };
                round.lanes.iter_mut().for_each(begin_anew);
                (round.is_reported, round.rebuilt) = (false, false);
                Some(Event::SweepStopped { kind, cause, at_sector, goes_on })
            }
            None => {
                self.rounds[place_of(kind)] = None;
                let (found, wrong, duration) = all;
                Some(Event::SweepFinished { kind, found, wrong: wrong.into_iter().collect(), duration })
            }
        }
    }
}

impl Round {
    fn new(lane_count: usize) -> Self {
        Self { lanes: vec![Part::Idle; lane_count], is_reported: false, rebuilt: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRUB: SweepKind = SweepKind::Scrub { repair: false };

    fn finished(kind: SweepKind, mismatch_sectors: u64, duration: Nanos) -> Event {
        let wrong = if mismatch_sectors > 0 { vec![(MemberId(2), mismatch_sectors)] } else { Vec::new() };
        Event::SweepFinished { kind, found: Findings { mismatch_sectors, unchecked_sectors: 0 }, wrong, duration }
    }

    fn stopped(kind: SweepKind) -> Event {
        Event::SweepStopped { kind, cause: StopCause::Paused { percent: 0 }, at_sector: 0, goes_on: false }
    }

    #[test]
    fn a_change_of_a_member_is_heard_once() {
        let mut events = LaneEvents::new(3);
        let failed = |reason: &str| Event::MemberFailed {
            member: MemberId(1),
            slot: Some(1),
            cause: crate::DropCause::Gone(stria_block::IoError::new(stria_block::ErrorKind::Gone, reason)),
        };
        assert_eq!(events.merge(1, failed("it did"), false), [failed("it did")]);
        assert_eq!(events.merge(0, failed("by others"), false), []);
        assert_eq!(events.merge(2, failed("by others"), false), []);
        let mut alone = LaneEvents::new(1);
        (0..2).for_each(|_| assert_eq!(alone.merge(0, failed("it did"), false).len(), 1));
    }

    #[test]
    fn a_sweep_ends_when_it_has_on_every_lane() {
        let mut events = LaneEvents::new(2);
        assert_eq!(events.merge(0, Event::SweepStarted(SCRUB), false), [Event::SweepStarted(SCRUB)]);
        // Lane 1 has been told, and not begun.
        assert_eq!(events.merge(0, finished(SCRUB, 3, 70), false), []);
        assert_eq!(events.merge(1, Event::SweepStarted(SCRUB), false), []);
        assert_eq!(events.merge(1, finished(SCRUB, 4, 50), false), [finished(SCRUB, 7, 70)]);
        assert_eq!(events.merge(1, Event::SweepStarted(SCRUB), false).len(), 1, "the next one");
    }

    #[test]
    fn lanes_that_were_through_before_a_pause_count_when_the_others_go_on() {
        let mut events = LaneEvents::new(2);
        (0..2).for_each(|lane| drop(events.merge(lane, Event::SweepStarted(SCRUB), false)));
        assert_eq!(events.merge(0, finished(SCRUB, 1, 5), true), []);
        assert_eq!(events.merge(1, stopped(SCRUB), true), [stopped(SCRUB)]);
        assert_eq!(events.merge(1, Event::SweepStarted(SCRUB), false).len(), 1);
        assert_eq!(events.merge(1, finished(SCRUB, 1, 9), false), [finished(SCRUB, 2, 9)]);
    }

    #[test]
    fn lanes_that_were_through_before_a_scrub_gave_way_count_when_the_others_go_on() {
        let mut events = LaneEvents::new(2);
        (0..2).for_each(|lane| drop(events.merge(lane, Event::SweepStarted(SCRUB), false)));
        assert_eq!(events.merge(0, finished(SCRUB, 1, 5), false), []);
        let gives_way =
            Event::SweepStopped { kind: SCRUB, cause: StopCause::GivesWay { percent: 0 }, at_sector: 0, goes_on: true };
        assert_eq!(events.merge(1, gives_way.clone(), false), [gives_way]);
        assert_eq!(events.merge(1, Event::SweepStarted(SCRUB), false).len(), 1);
        assert_eq!(events.merge(1, finished(SCRUB, 1, 9), false), [finished(SCRUB, 2, 9)]);
    }

    #[test]
    fn a_sweep_has_stopped_where_the_lane_is_that_is_behind() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut events = LaneEvents::new(3);
            order.iter().for_each(|&lane| drop(events.merge(lane, Event::SweepStarted(SCRUB), false)));
            let at = |lane: usize| {
                let at_sector = [700, 30, 500][lane];
                Event::SweepStopped { kind: SCRUB, cause: StopCause::Cancelled { percent: at_sector }, at_sector, goes_on: false }
            };
            let told: Vec<Event> = order.iter().flat_map(|&lane| events.merge(lane, at(lane), false)).collect();
            assert_eq!(told, [at(1)], "lanes stop in the order {order:?}");
        }
    }

    #[test]
    fn what_was_cancelled_does_not_count_for_the_next() {
        let mut events = LaneEvents::new(2);
        (0..2).for_each(|lane| drop(events.merge(lane, Event::SweepStarted(SCRUB), false)));
        events.merge(0, finished(SCRUB, 1, 5), false);
        assert_eq!(events.merge(1, stopped(SCRUB), false), [stopped(SCRUB)]);
        events.merge(1, Event::SweepStarted(SCRUB), false);
        assert_eq!(events.merge(1, finished(SCRUB, 0, 5), false), [], "lane 0 has not been through it");
        events.merge(0, Event::SweepStarted(SCRUB), false);
        assert_eq!(events.merge(0, finished(SCRUB, 0, 5), false), [finished(SCRUB, 0, 5)]);
    }

    #[test]
    fn a_rebuild_ends_before_its_member_is_in_sync_also_where_a_lane_had_no_part_in_it() {
        let mut events = LaneEvents::new(2);
        events.merge(0, Event::SweepStarted(SweepKind::Rebuild), false);
        assert_eq!(events.merge(0, finished(SweepKind::Rebuild, 0, 5), false), []);
        let in_sync = Event::MemberInSync { member: MemberId(3), slot: 0 };
        assert_eq!(events.merge(1, in_sync.clone(), false), [finished(SweepKind::Rebuild, 0, 5), in_sync.clone()]);
        assert_eq!(events.merge(0, in_sync, false), []);
    }
}
