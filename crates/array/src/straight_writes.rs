//! Writes within one strip on RAID 4, 5 and 6 that run without a task, while they are under way.

use crate::log::{BehindWrite, LogHolders, Logged};
use crate::member_requests::Ended;
use crate::plan::{Rectangle, WritePlan};
use crate::{ArraySector, Geometry, MemberId, MemberSector};
use slab::Slab;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::ops::Range;
use stria_block::{Buffer, Claim, Data, IoError, Nanos, Operation, Segments, Tag};

/// Parities that are sent or logged, as many as the plan writes.
pub(crate) type Frozen = SmallVec<[Data; 2]>;

/// What a write waits for.
pub(crate) enum Phase {
    Reading,
    Logging(Logged),
    Writing(Logged),
}

/// A write under way.
pub(crate) struct StraightWrite {
    pub tag: Tag,
    pub begun: Nanos,
    /// In the array.
    pub start_sector: ArraySector,
    pub stripe: u64,
    pub part: Rectangle,
    /// In the sync space, so on the members.
    pub rows: Range<MemberSector>,
    pub lock: usize,
    /// The client's operation.
    pub operation: Operation,
    pub phase: Phase,
    /// It is queued for its next step.
    pub is_ready: bool,
    /// Member requests that have not ended.
    pub pending: usize,
    pub failures: Vec<Ended>,
    pub read: SmallVec<[Option<Buffer>; 4]>,
    pub parity: Frozen,
    /// Claims on the memory that the log was given.
    pub claims: SmallVec<[Claim; 3]>,
    /// The log holders, if the write may be acknowledged early.
    pub early: Option<LogHolders>,
    /// It was acknowledged early; these members hold its records.
    pub behind: Option<(BehindWrite, LogHolders)>,
}

/// All writes of this kind.
pub(crate) struct StraightWrites {
    /// The plan for each data strip of an optimal stripe.
    plans: Vec<WritePlan>,
    all: RefCell<Slab<StraightWrite>>,
    /// Writes that can take their next step.
    ready: RefCell<VecDeque<usize>>,
    /// Writes that are not acknowledged yet.
    unacknowledged: Cell<usize>,
}

impl StraightWrites {
    pub fn new(geometry: &Geometry) -> Self {
        let (data_count, parity_count) = (geometry.data_count(), geometry.level().parity_count());
        let of_strip = |index| WritePlan::optimal(data_count, parity_count, index..index + 1);
        let plans = if parity_count == 0 { Vec::new() } else { (0..data_count).map(of_strip).collect() };
        Self { plans, all: RefCell::default(), ready: RefCell::default(), unacknowledged: Cell::new(0) }
    }

    /// The plan for an optimal stripe of which data strip `index` is written.
    pub fn plan(&self, index: usize) -> &WritePlan {
        &self.plans[index]
    }

    /// All writes, to add one or to take their steps.
    pub fn all(&self) -> RefMut<'_, Slab<StraightWrite>> {
        self.all.borrow_mut()
    }

    /// True if a write can take its next step.
    pub fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// A write that can take its next step.
    pub fn next_ready(&self) -> Option<usize> {
        self.ready.borrow_mut().pop_front()
    }

    /// A write begins that a client waits for.
    pub fn begin(&self) {
        self.unacknowledged.set(self.unacknowledged.get() + 1);
    }

    /// It was acknowledged, or goes on as a task.
    pub fn acknowledged(&self) {
        self.unacknowledged.set(self.unacknowledged.get() - 1);
    }

    /// The number of writes that clients still wait for.
    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged.get()
    }

    /// True if the member requests that a write waits for are reads.
    pub fn reads(&self, key: usize) -> bool {
        matches!(self.all.borrow()[key].phase, Phase::Reading)
    }

    /// Records of a write, or its member requests, have made progress.
    pub fn can_go_on(&self, key: usize) {
        if !std::mem::replace(&mut self.all.borrow_mut()[key].is_ready, true) {
            self.ready.borrow_mut().push_back(key);
        }
    }

    /// Member request `index` of a step has ended. A read brings its memory, and a write that failed itself.
    pub fn ended(
        &self,
        key: usize,
        index: usize,
        member: MemberId,
        result: Result<(), IoError>,
        (read, operation): (Option<Buffer>, Operation),
    ) {
        let write = &mut self.all.borrow_mut()[key];
        if read.is_some() {
            write.read[index] = read;
        }
        if result.is_err() {
            let (start_sector, sectors) = (write.rows.start, write.sectors());
            write.failures.push(Ended { member, start_sector, sectors, result, operation });
        }
        write.pending -= 1;
        if write.pending == 0 {
            write.is_ready = true;
            self.ready.borrow_mut().push_back(key);
        }
    }
}

impl StraightWrite {
    pub fn sectors(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// The client's data, in one piece, and whether it must be durable when it ends.
    pub fn asked(&self) -> (&Segments<Data>, bool) {
        let Operation::Write { from, fua } = &self.operation else { unreachable!("this is a write") };
        (from, *fua)
    }
}
