//! Merges what the lanes of an array report separately.
//!
//! Events are merged by array ([`LaneEvents`]), unanswered requests by drive.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stria_array::{Event, LaneEvents};
use stria_block::Nanos;

/// Reports of the lanes of one array and its spans.
pub(crate) struct EventMerger {
    lane_count: usize,
    heard: Mutex<Heard>,
    /// True if sweeps are paused: a sweep that stops then will continue.
    paused: AtomicBool,
    /// True if `Heard::mixed` is not empty.
    is_mixed: AtomicBool,
}

#[derive(Default)]
struct Heard {
    /// The reports by array.
    events: BTreeMap<[u8; 16], LaneEvents>,
    silent: BTreeMap<PathBuf, Silent>,
    /// Lanes and arrays whose recent times mix clients' requests with those of a resync or rebuild that has ended.
    mixed: BTreeSet<(usize, [u8; 16])>,
}

/// A drive with an unanswered request: how long it took when that was last reported, and on which lanes.
struct Silent {
    told: Nanos,
    lanes: BTreeSet<usize>,
}

/// News about a drive.
pub(crate) enum Hush {
    /// Nothing new.
    Nothing,
    /// Its oldest request has waited so long that it must be reported, for the first time or again.
    Longer,
    /// It has answered, on every lane.
    Over,
}

impl EventMerger {
    pub fn new(lane_count: usize) -> Self {
        Self { lane_count, heard: Mutex::default(), paused: AtomicBool::new(false), is_mixed: AtomicBool::new(false) }
    }

    /// Records whether sweeps are paused.
    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
    }

    /// True if sweeps are paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event of a lane. Returns the events to report.
    pub fn merge(&self, lane: usize, array: [u8; 16], event: Event) -> Vec<Event> {
        let paused = self.is_paused();
        let mut heard = self.lock();
        let events = heard.events.entry(array).or_insert_with(|| LaneEvents::new(self.lane_count)).merge(lane, event, paused);
        if events.iter().any(ends_uneven_work) {
            heard.mixed.extend((0..self.lane_count).map(|lane| (lane, array)));
            self.is_mixed.store(true, Ordering::SeqCst);
        }
        events
    }

    /// True once on each lane after a resync or rebuild of the array has ended on every lane.
    pub fn take_mixed(&self, lane: usize, array: [u8; 16]) -> bool {
        if !self.is_mixed.load(Ordering::SeqCst) {
            return false;
        }
        let mut heard = self.lock();
        let was_mixed = heard.mixed.remove(&(lane, array));
        self.is_mixed.store(!heard.mixed.is_empty(), Ordering::SeqCst);
        was_mixed
    }

    /// On this lane the drive's oldest request has waited for `silent`. It is reported once it has waited for `after`.
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

    /// Forgets the drives that this lane's part of the array has no more: no request to them is waited for.
    pub fn forget_but(&self, lane: usize, is_there: impl Fn(&Path) -> bool) {
        self.lock().silent.retain(|drive, known| {
            if !is_there(drive) {
                known.lanes.remove(&lane);
            }
            !known.lanes.is_empty()
        });
    }

    /// True if any drive has an unanswered request that was reported.
    pub fn knows_silent(&self) -> bool {
        !self.lock().silent.is_empty()
    }
}

/// True if members did unlike work until now. A scrub reads all of them alike, but clients read one copy of mirrors beside it.
fn ends_uneven_work(event: &Event) -> bool {
    matches!(event, Event::SweepFinished { .. } | Event::SweepStopped { .. } | Event::MemberInSync { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_silent_while_it_is_on_any_lane() {
        let merger = EventMerger::new(2);
        let waits = |lane, silent| match merger.waits(lane, Path::new("/dev/sdx"), silent, 5) {
            Hush::Nothing => ' ',
            Hush::Longer => '+',
            Hush::Over => '-',
        };
        assert_eq!([waits(0, 4), waits(0, 5), waits(1, 6), waits(1, 10), waits(0, 11)], [' ', '+', ' ', '+', ' ']);
        assert_eq!([waits(0, 0), waits(1, 0), waits(0, 0)], [' ', '-', ' ']);
        assert!(!merger.knows_silent());
    }

    /// A drive that was removed while it was silent stayed known for ever, and all lanes woke each second.
    #[test]
    fn a_silent_drive_that_is_removed_is_forgotten() {
        let merger = EventMerger::new(2);
        for (lane, name) in [(0, "a"), (1, "a"), (0, "b")] {
            merger.waits(lane, Path::new(name), 5, 5);
        }
        let forget = |lane| merger.forget_but(lane, |drive| drive == Path::new("b"));
        forget(0);
        assert_eq!(merger.lock().silent.len(), 2, "it is still there on the other lane");
        forget(1);
        assert!(merger.lock().silent.keys().eq([Path::new("b")]));
    }
}
