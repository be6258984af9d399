//! Coalescing: clients' writes to one stripe that wait for its rows become one write.
//!
//! Two small writes to a stripe cost more than one large one, and a full stripe needs no old data at all. So a write is *open*
//! until it has the lock of its rows. A write to the same stripe that arrives meanwhile, just before or just behind it, joins
//! it. On an idle array no write waits for others. Only the end of a stream is *held*: a request that continues another one in
//! flight. It waits until its stripe is full, until something else is written there, or until as many writes have ended as were
//! under way when it arrived, and the client had its turn. So the wait is bounded by what the drives do anyway.
//!
//! The log's promise for small requests holds for several together: no more are joined than one append can hold the new data
//! of.

use crate::address::Sectors;
use crate::segments::sectors_of;
use crate::task::{Crew, Ready, TaskId, Worker};
use crate::{ArraySector, Geometry, StripSector, StripeSector};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use stria_block::ranges::around;
use stria_block::{Data, Segments};

/// 64: stripes, by number, in which writes are open at once; more than there are streams.
const OPEN_COUNT: usize = 64;

/// 8: streams that are tracked at once.
const STREAM_COUNT: usize = 8;

/// A part of a client's write within one stripe.
pub(crate) struct Part {
    pub parent: usize,
    /// Its position in the stripe's data.
    pub start_sector: StripeSector,
    pub data: Segments<Data>,
    pub fua: bool,
    /// The request is so small that the log holds its new data where it must.
    pub small: bool,
    /// True if it must not be coalesced.
    pub alone: bool,
    /// The client is likely to continue behind it.
    pub goes_on: bool,
}

impl Part {
    /// The position behind it in the stripe's data.
    pub fn end_sector(&self) -> StripeSector {
        self.start_sector + sectors_of(&self.data)
    }
}

/// Parts that follow each other.
pub(crate) struct Coalesced {
    pub stripe: u64,
    /// The part of the stripe's data that it covers.
    pub range: Range<StripeSector>,
    pub parts: Vec<Part>,
    small: bool,
    held: bool,
    /// Rows of the strips that are locked for it, or will be.
    locked: Option<Range<StripSector>>,
    task: Option<TaskId>,
}

impl Coalesced {
    fn takes(&self, stripe: u64, range: &Range<StripeSector>, small: bool, strip: u64, small_sectors_max: Option<u64>) -> bool {
        let sectors = self.range.sectors() + range.sectors();
        let follows = range.start == self.range.end || range.end == self.range.start;
        let fits = !(small || self.small) || small_sectors_max.is_none_or(|max| sectors <= max);
        let rows = rows_of(range, strip);
        let within = self.locked.as_ref().is_none_or(|locked| locked.start <= rows.start && rows.end <= locked.end);
        self.stripe == stripe && follows && fits && within
    }

    fn release(&mut self, ready: &Ready) {
        self.held = false;
        self.task.take().into_iter().for_each(|task| ready.wake(task));
    }
}

/// Rows of the strips that a range of a stripe's data touches.
pub(crate) fn rows_of(range: &Range<StripeSector>, strip: u64) -> Range<StripSector> {
    let start = range.start.get() % strip;
    let end = start + range.sectors();
    StripSector::span(if end <= strip { start..end } else { 0..strip })
}

/// Writes to parity stripes from their arrival to their end.
pub(crate) struct Coalescer {
    all: RefCell<Slab<Coalesced>>,
    crew: Crew<usize>,
    /// Lists of parts for reuse.
    spare: RefCell<Vec<Vec<Part>>>,
    /// Writes that may be joined, by stripe modulo the length.
    open: RefCell<[Option<usize>; OPEN_COUNT]>,
    /// Where writes in flight end that may be a stream's last.
    tails: Cell<[Option<ArraySector>; STREAM_COUNT]>,
    next_tail: Cell<usize>,
    begun: Cell<u64>,
    ended: Cell<u64>,
    /// Tasks that wait for so many ends.
    held: RefCell<VecDeque<(u64, TaskId)>>,
}

impl Default for Coalescer {
    fn default() -> Self {
        Self {
            all: RefCell::default(),
            crew: Crew::default(),
            spare: RefCell::default(),
            open: RefCell::new([None; OPEN_COUNT]),
            tails: Cell::new([None; STREAM_COUNT]),
            next_tail: Cell::new(0),
            begun: Cell::new(0),
            ended: Cell::new(0),
            held: RefCell::default(),
        }
    }
}

impl Coalescer {
    /// Registers a client's write. Returns whether it continues another one in flight.
    pub fn is_of_stream(&self, range: &Range<ArraySector>) -> bool {
        let mut tails = self.tails.get();
        let known = tails.iter().position(|&tail| tail == Some(range.start));
        let place = known.unwrap_or_else(|| self.next_tail.replace((self.next_tail.get() + 1) % STREAM_COUNT));
        tails[place] = Some(range.end);
        self.tails.set(tails);
        known.is_some()
    }

    /// True if a write to this stripe, or to one with the same index in the list, may still be joined.
    pub fn is_open(&self, stripe: u64) -> bool {
        self.open.borrow()[stripe as usize % OPEN_COUNT].is_some()
    }

    /// A write begins; report its end with [`Coalescer::end`].
    pub fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// The next write of a worker, which is idle until it comes.
    pub async fn job(&self, ready: &Ready, worker: &Rc<Worker<usize>>) -> usize {
        self.crew.job(ready, worker).await
    }

    /// Where a write goes.
    pub fn stripe(&self, key: usize) -> u64 {
        self.all.borrow()[key].stripe
    }

    /// A write has the lock of its rows: no other can join it any more.
    pub fn close(&self, key: usize) -> Coalesced {
        let write = self.all.borrow_mut().remove(key);
        let open = &mut self.open.borrow_mut()[write.stripe as usize % OPEN_COUNT];
        *open = open.filter(|&other| other != key);
        write
    }

    /// Returns the list of a write that has ended, for reuse.
    pub fn reuse(&self, parts: Vec<Part>) {
        self.spare.borrow_mut().push(parts);
    }

    /// A write has ended. The clients' parts that it consists of end at these sectors.
    pub fn end(&self, ready: &Ready, ends: impl Iterator<Item = ArraySector>) {
        let mut tails = self.tails.get();
        for end in ends {
            tails.iter_mut().filter(|tail| **tail == Some(end)).for_each(|tail| *tail = None);
        }
        self.tails.set(tails);
        self.ended.set(self.ended.get() + 1);
        let mut held = self.held.borrow_mut();
        while let Some(&(count, task)) = held.front()
            && count <= self.ended.get()
        {
            held.pop_front();
            ready.wake(task);
        }
    }

    /// Adds a part of a client's request to the open write of its stripe, or opens one. Returns a new worker, whose task must be
    /// spawned, if that needs one. `together_sectors_max`: how much small requests may write together.
    pub fn join(
        &self,
        ready: &Ready,
        geometry: &Geometry,
        together_sectors_max: Option<u64>,
        stripe: u64,
        part: Part,
    ) -> Option<Rc<Worker<usize>>> {
        let strip = geometry.strip_sectors();
        let stripe_end = StripeSector::new(strip * geometry.data_count() as u64);
        let range = part.start_sector..part.end_sector();
        let held = part.goes_on && range.end < stripe_end;
        let mut all = self.all.borrow_mut();
        let open = &mut self.open.borrow_mut()[stripe as usize % OPEN_COUNT];
        if let Some(key) = open.take() {
            let write = &mut all[key];
            if !part.alone && write.takes(stripe, &range, part.small, strip, together_sectors_max) {
                write.small |= part.small;
                write.held = (write.held || held) && range.end < stripe_end;
                write.range = around(&write.range, &range);
                let place = if range.start < write.parts[0].start_sector { 0 } else { write.parts.len() };
                write.parts.insert(place, part);
                if !write.held {
                    write.release(ready);
                }
                *open = Some(key);
                return None;
            }
            write.release(ready);
        }
        let (small, alone) = (part.small, part.alone || range == (StripeSector::ZERO..stripe_end));
        let mut parts = self.spare.borrow_mut().pop().unwrap_or_default();
        parts.push(part);
        let key = all.insert(Coalesced { stripe, range, parts, small, held, locked: None, task: None });
        if !alone {
            *open = Some(key);
        }
        self.crew.hand(ready, key)
    }

    /// True if a write waits for others that are likely to come.
    pub fn is_held(&self, key: usize) -> bool {
        self.all.borrow()[key].held
    }

    /// A task waits with a held write, until as many writes have ended as have begun; that count is returned. `None`: it need not
    /// wait.
    pub fn wait_for_more(&self, key: usize, task: TaskId) -> Option<u64> {
        let count = self.begun.get();
        let waits = self.is_held(key) && !self.have_ended(count);
        waits.then(|| {
            self.held.borrow_mut().push_back((count, task));
            self.all.borrow_mut()[key].task = Some(task);
            count
        })
    }

    /// True if so many writes have ended.
    pub fn have_ended(&self, count: u64) -> bool {
        self.ended.get() >= count
    }

    /// A write begins that need not wait any longer. Returns the rows of the strips to lock.
    pub fn begin_held(&self, key: usize, strip_sectors: u64) -> Range<StripSector> {
        self.begin();
        let write = &mut self.all.borrow_mut()[key];
        let several = write.held || write.parts.len() > 1;
        let rows = if several { StripSector::ZERO.run(strip_sectors) } else { rows_of(&write.range, strip_sectors) };
        write.locked.insert(rows).clone()
    }
}
