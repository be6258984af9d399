//! The power switch of a world: counts events on all drives, and cuts their power at a chosen count.

use crate::mutant::Mutant;
use crate::trace::Trace;
use std::cell::Cell;
use stria_block::Nanos;

/// Shared by all drives of a world.
#[derive(Debug)]
pub struct Power {
    /// The number of requests that began or ended on all drives.
    events: Cell<u64>,
    /// Requests begun.
    requests: Cell<u64>,
    cut_at: Cell<Option<u64>>,
    allowed: Cell<bool>,
    /// The cut is a kill of the process: drives keep what they show.
    kills: Cell<bool>,
    /// A flush of a drive has failed, and the drop of that member may not be durable. A process is not killed until then: the limit
    /// of R8.
    pub flush_failed: Cell<bool>,
    off: Cell<bool>,
    /// True while a client's flush is in flight: this distinguishes its flushes of members from the engine's own.
    pub client_flush: Cell<u32>,
    /// A deliberate bug of the array that is started.
    pub mutant: Cell<Option<Mutant>>,
    /// The sizes in which bitmaps are written, if not the usual ones.
    pub bitmap_page_bytes: Cell<Option<usize>>,
    /// [`Setup::ends_every`](crate::setup::Setup::ends_every).
    pub ends_every: Cell<Nanos>,
    /// [`Setup::hedges`](crate::setup::Setup::hedges).
    pub hedges: Cell<bool>,
    /// [`Setup::lanes`](crate::setup::Setup::lanes).
    pub lanes: Cell<usize>,
    /// [`Setup::late_sweeps`](crate::setup::Setup::late_sweeps).
    pub late_sweeps: Cell<bool>,
    /// [`Setup::short_lists`](crate::setup::Setup::short_lists).
    pub short_lists: Cell<bool>,
    /// The number of lanes of the arrays that were started last, and the sectors of a group, for mutants that need them.
    pub shares: Cell<(usize, u64)>,
    /// The seed by which lanes miss turns; `None`: they take all.
    pub naps: Cell<Option<u64>>,
    /// True if lanes miss turns for seconds, too.
    pub long_naps: Cell<bool>,
    /// True if some member is missing, for mutants.
    pub degraded: Cell<bool>,
    /// True if more sectors have become unreadable on some drive.
    pub bad_grew: Cell<bool>,
    now: Cell<Nanos>,
    /// The listener of a trace, if there is one.
    pub trace: Trace,
}

impl Default for Power {
    fn default() -> Self {
        Self {
            events: Cell::new(0),
            requests: Cell::new(0),
            cut_at: Cell::new(None),
            allowed: Cell::new(true),
            kills: Cell::new(false),
            flush_failed: Cell::new(false),
            off: Cell::new(false),
            client_flush: Cell::new(0),
            mutant: Cell::new(None),
            bitmap_page_bytes: Cell::new(None),
            ends_every: Cell::new(0),
            hedges: Cell::new(false),
            lanes: Cell::new(1),
            late_sweeps: Cell::new(false),
            short_lists: Cell::new(false),
            shares: Cell::new((1, 1)),
            naps: Cell::new(None),
            long_naps: Cell::new(false),
            degraded: Cell::new(false),
            bad_grew: Cell::new(false),
            now: Cell::new(0),
            trace: Trace::default(),
        }
    }
}

impl Power {
    /// A request begins (`begins`) or ends on a drive. Returns true if there is power for it.
    pub fn tick(&self, begins: bool) -> bool {
        if self.off.get() {
            return false;
        }
        let events = self.events.get() + 1;
        self.events.set(events);
        self.requests.set(self.requests.get() + u64::from(begins));
        let may_cut = self.allowed.get() && !(self.kills.get() && self.flush_failed.get());
        if self.cut_at.get().is_some_and(|cut_at| events > cut_at) && may_cut {
            self.off.set(true);
        }
        !self.off.get()
    }

    /// Cuts the power after `events` more events on the drives, or kills the process. Requests that are in flight then stay open.
    pub fn cut_after(&self, events: u64, kill: bool) {
        self.kills.set(kill);
        self.cut_at.set(Some(self.events.get().saturating_add(events)));
    }

    /// True if a cut is set and has not happened.
    pub fn is_armed(&self) -> bool {
        self.cut_at.get().is_some()
    }

    /// Cancels a cut that has not happened.
    pub fn disarm(&self) {
        self.cut_at.set(None);
    }

    /// While not allowed, a cut that is due waits.
    pub fn allow(&self, allowed: bool) {
        self.allowed.set(allowed);
    }

    /// True if power is off.
    pub fn is_off(&self) -> bool {
        self.off.get()
    }

    /// Power returns, and no cut is set.
    pub fn on(&self) {
        self.off.set(false);
        self.disarm();
        self.client_flush.set(0);
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.events.get()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Virtual time.
    pub fn now(&self) -> Nanos {
        self.now.get()
    }

    /// Gives a line to the listener, if there is one.
    pub fn note(&self, words: impl FnOnce() -> String) {
        if self.trace.is_on() {
            self.trace.note(&format!("{:14.6} ms  {}", self.now() as f64 / 1e6, words()));
        }
    }

    /// Moves virtual time forward.
    pub fn set_now(&self, now: Nanos) {
        assert!(now >= self.now.get(), "time went back");
        self.now.set(now);
    }
}
