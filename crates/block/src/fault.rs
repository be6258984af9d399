//! A device that wraps another and makes chosen requests fail.

use crate::ranges::without;
use crate::{BlockDevice, Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::slice;

/// How a range of sectors, or the whole device, misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Reads fail until the sectors are written.
    Read,
    /// Reads fail, and writes too.
    ReadWrite,
    /// Writes fail; reads work.
    Write,
}

/// The faults of one device, shared with the code that sets them.
#[derive(Debug, Default)]
pub struct FaultPlan {
    /// Ranges and how they fail.
    pub bad: Vec<(Range<u64>, FaultKind)>,
    /// Every request ends with [`ErrorKind::Gone`].
    pub gone: bool,
}

/// A device whose faults are set by a [`FaultPlan`].
pub struct FaultDevice<D> {
    inner: D,
    plan: Rc<RefCell<FaultPlan>>,
    ended: Vec<Completion>,
}

impl<D: BlockDevice> FaultDevice<D> {
    /// Wraps `inner`; the plan may be changed at any time.
    pub fn new(inner: D, plan: Rc<RefCell<FaultPlan>>) -> Self {
        Self { inner, plan, ended: Vec::new() }
    }

    /// The device below.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn fault(&self, request: &Request) -> Option<IoError> {
        let mut plan = self.plan.borrow_mut();
        if plan.gone {
            return Some(IoError::new(ErrorKind::Gone, "the device was pulled"));
        }
        let range = request.start_sector..request.end_sector();
        let hits = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
        let (write, read) = match request.operation {
            Operation::Read { .. } => (false, true),
            Operation::Write { .. } | Operation::WriteZeroes { .. } => (true, false),
            Operation::Flush | Operation::Extents { .. } => (false, false),
        };
        let failing = plan.bad.iter().any(|(bad, kind)| {
            hits(bad)
                && match kind {
                    FaultKind::Read => read,
                    FaultKind::Write => write,
                    FaultKind::ReadWrite => read || write,
                }
        });
        if write && !failing {
            // A write heals the sectors it covers, as drives do by remapping.
            let cut = |(bad, kind): (Range<u64>, FaultKind)| {
                let healed = if kind == FaultKind::Read { slice::from_ref(&range) } else { &[] };
                without(&[bad], healed).into_iter().map(move |rest| (rest, kind))
            };
            plan.bad = std::mem::take(&mut plan.bad).into_iter().flat_map(cut).collect();
        }
        failing.then(|| {
            IoError::new(
                ErrorKind::Medium,
                format!("medium error in {} sectors at sector {}", request.sectors, request.start_sector),
            )
        })
    }
}

impl<D: BlockDevice> BlockDevice for FaultDevice<D> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn submit(&mut self, request: Request) {
        match self.fault(&request) {
            Some(error) => self.ended.push(request.complete(Err(error))),
            None => self.inner.submit(request),
        }
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
        self.inner.poll(now, completions);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.ended.is_empty() { self.inner.next_wake() } else { Some(0) }
    }
}
