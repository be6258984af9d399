//! What several lanes tell, as people want to hear it: once.

use crate::{Event, MemberId, SweepKind};
use std::collections::{BTreeMap, BTreeSet};
use stria_block::Nanos;

/// How the lanes' parts of one sweep have ended so far.
#[derive(Default)]
struct Ends {
    lanes: BTreeSet<usize>,
    stopped: bool,
    mismatch_sectors: u64,
    wrong: BTreeMap<MemberId, u64>,
    duration: Nanos,
}

/// Joins the events of an array's lanes.
pub struct LaneEvents {
    lane_count: usize,
    failed: BTreeSet<MemberId>,
    sweeps: Vec<(SweepKind, Ends)>,
}

impl LaneEvents {
    /// Of so many lanes.
    pub fn new(lane_count: usize) -> Self {
        Self { lane_count, failed: BTreeSet::new(), sweeps: Vec::new() }
    }

    /// What is to be told when a lane tells this. A sweep has finished when all lanes are through with their shares, and has
    /// stopped when the first one has.
    pub fn hear(&mut self, lane: usize, event: Event) -> Option<Event> {
        match event {
            Event::MemberFailed { member, .. } => self.failed.insert(member).then_some(event),
            Event::SpareTaken { .. } | Event::MemberInSync { .. } | Event::SweepStarted(_) => (lane == 0).then_some(event),
            Event::SweepStopped { kind, .. } => {
                let ends = self.ended(kind, lane);
                let first = !std::mem::replace(&mut ends.stopped, true);
                self.finish(kind);
                first.then_some(event)
            }
            Event::SweepFinished { kind, mismatch_sectors, wrong, duration } => {
                let ends = self.ended(kind, lane);
                ends.mismatch_sectors += mismatch_sectors;
                wrong.into_iter().for_each(|(member, sectors)| *ends.wrong.entry(member).or_default() += sectors);
                ends.duration = ends.duration.max(duration);
                let ends = self.finish(kind).filter(|ends| !ends.stopped)?;
                let Ends { mismatch_sectors, duration, wrong, .. } = ends;
                Some(Event::SweepFinished { kind, mismatch_sectors, wrong: wrong.into_iter().collect(), duration })
            }
            _ => Some(event),
        }
    }

    fn ended(&mut self, kind: SweepKind, lane: usize) -> &mut Ends {
        if !self.sweeps.iter().any(|(known, _)| *known == kind) {
            self.sweeps.push((kind, Ends::default()));
        }
        let (_, ends) = self.sweeps.iter_mut().find(|(known, _)| *known == kind).expect("just put there");
        ends.lanes.insert(lane);
        ends
    }

    fn finish(&mut self, kind: SweepKind) -> Option<Ends> {
        let all = |(known, ends): &(SweepKind, Ends)| *known == kind && ends.lanes.len() == self.lane_count;
        let index = self.sweeps.iter().position(all)?;
        Some(self.sweeps.swap_remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_ends_once_with_what_all_lanes_found() {
        let kind = SweepKind::Scrub { repair: false };
        let finished = |mismatch_sectors, wrong: &[(MemberId, u64)], duration| Event::SweepFinished {
            kind,
            mismatch_sectors,
            wrong: wrong.to_vec(),
            duration,
        };
        let mut events = LaneEvents::new(2);
        assert_eq!(events.hear(1, Event::SweepStarted(kind)), None);
        assert!(events.hear(0, Event::SweepStarted(kind)).is_some());
        assert_eq!(events.hear(1, finished(8, &[(MemberId(2), 8)], 70)), None);
        let all = events.hear(0, finished(16, &[(MemberId(2), 8)], 50));
        assert_eq!(all, Some(finished(24, &[(MemberId(2), 16)], 70)));
        let stopped = || Event::SweepStopped { kind, reason: "cancelled".into() };
        assert!(events.hear(1, stopped()).is_some());
        assert_eq!((events.hear(0, stopped()), events.hear(0, finished(0, &[], 1))), (None, None));
    }
}
