//! An array as Stria makes it: the engine that serves drives, over modelled ones, in virtual time.
//!
//! The engine is bound to the members by its own driver, as everywhere. RAID 50 and 60 are a RAID 0 of arrays. Members keep no
//! data: all is zeros, so parity agrees. The array has no metadata, bitmap or log here; a controller keeps its own elsewhere.

use super::{Layout, Level};
use crate::backplane::{Backplane, DriveConfig};
use crate::model::{Ask, Kind, Model};
use crate::modelled::Modelled;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use stria_array::{ArrayConfig, ArrayDevice, Geometry, GeometryError, NoMetadata};
use stria_block::{BlockDevice, Completion, Data, Nanos, Operation, Pool, Request, Tag, bytes};

/// What members share: the drives, the time, and the ends that the engine has not seen.
struct Shared {
    backplane: Rc<RefCell<Backplane>>,
    now: Cell<Nanos>,
    ended: RefCell<Vec<VecDeque<Tag>>>,
}

/// One drive of the backplane.
struct Slot {
    shared: Rc<Shared>,
    index: usize,
    size_sectors: u64,
}

impl Model for Slot {
    fn size_sectors(&self) -> u64 {
        self.size_sectors
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        self.shared.backplane.borrow_mut().submit(now.max(self.shared.now.get()), self.index, ask);
    }

    fn poll(&mut self, _now: Nanos, ended: &mut Vec<Tag>) {
        ended.extend(self.shared.ended.borrow_mut()[self.index].drain(..));
    }

    fn next_wake(&self) -> Option<Nanos> {
        (!self.shared.ended.borrow()[self.index].is_empty()).then_some(0)
    }
}

/// See the module.
pub struct EngineArray {
    shared: Rc<Shared>,
    device: Box<dyn BlockDevice>,
    /// True if a request was submitted and the engine not polled since.
    submitted: bool,
    pool: Pool,
    completions: Vec<Completion>,
    ended: Vec<(usize, Tag)>,
}

impl EngineArray {
    /// An optimal array over all drives of a backplane, which were made of `drives`.
    ///
    /// # Errors
    /// If the engine knows no such array.
    pub fn new(layout: &Layout, drives: &[DriveConfig], backplane: Rc<RefCell<Backplane>>) -> Result<Self, GeometryError> {
        let ended = RefCell::new(vec![VecDeque::new(); drives.len()]);
        let shared = Rc::new(Shared { backplane, now: Cell::new(0), ended });
        let member = |(index, drive): (usize, &DriveConfig)| {
            let slot = Slot { shared: Rc::clone(&shared), index, size_sectors: layout.member_sectors };
            Box::new(Modelled::new(slot, drive.has_volatile_cache(), drive.is_rotational())) as Box<dyn BlockDevice>
        };
        let mut members: Vec<Box<dyn BlockDevice>> = drives.iter().enumerate().map(member).collect();
        let level = match layout.level {
            Level::Single | Level::Raid0 => stria_array::Level::Raid0,
            Level::Raid1 => stria_array::Level::Raid1,
            Level::Raid10 => stria_array::Level::Raid10,
            Level::Raid5 { .. } => stria_array::Level::Raid5,
            Level::Raid6 { .. } => stria_array::Level::Raid6,
        };
        let spans = layout.level.spans();
        if spans > 1 {
            let each = members.len() / spans;
            let lower = (0..spans).map(|_| bound(level, layout.strip_sectors, members.drain(..each).collect()));
            members = lower.collect::<Result<_, _>>()?;
        }
        let device = match layout.level {
            Level::Single => members.remove(0),
            _ if spans > 1 => bound(stria_array::Level::Raid0, layout.strip_sectors, members)?,
            _ => bound(level, layout.strip_sectors, members)?,
        };
        let (pool, completions, ended) = (Pool::default(), Vec::new(), Vec::new());
        Ok(Self { shared, device, submitted: false, pool, completions, ended })
    }
}

/// The engine and its driver over members that agree.
fn bound(
    level: stria_array::Level,
    strip_sectors: u64,
    members: Vec<Box<dyn BlockDevice>>,
) -> Result<Box<dyn BlockDevice>, GeometryError> {
    let sizes: Vec<u64> = members.iter().map(|member| member.limits().size_sectors).collect();
    let geometry = Geometry::new(level, level.default_layout(), strip_sectors, &sizes)?;
    let config = ArrayConfig::optimal("modelled", geometry);
    Ok(Box::new(ArrayDevice::new(&config, members, NoMetadata, 0)))
}

impl Model for EngineArray {
    fn size_sectors(&self) -> u64 {
        self.device.limits().size_sectors
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        self.shared.now.set(now);
        let len = bytes(ask.sectors);
        let operation = match ask.kind {
            Kind::Read => Operation::Read { into: std::iter::once(self.pool.take(len)).collect() },
            Kind::Write { fua } => Operation::Write { from: std::iter::once(Data::zeros(len)).collect(), fua },
            Kind::Trim => Operation::WriteZeroes { fua: false, unmap: true, fast: false },
            Kind::Flush => Operation::Flush,
        };
        self.submitted = true;
        self.device.submit(Request { tag: ask.tag, start_sector: ask.start_sector, sectors: ask.sectors, operation });
    }

    /// # Panics
    /// If a request failed: modelled drives do not.
    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        self.shared.now.set(now);
        self.submitted = false;
        self.shared.backplane.borrow_mut().poll(now, &mut self.ended);
        self.ended.drain(..).for_each(|(member, tag)| self.shared.ended.borrow_mut()[member].push_back(tag));
        self.device.poll(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            completion.result.expect("modelled drives do not fail");
            ended.push(completion.tag);
            if let Operation::Read { into } = completion.operation {
                into.into_iter().for_each(|buffer| self.pool.give(buffer));
            }
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.submitted {
            return Some(self.shared.now.get());
        }
        let device = self.device.next_wake().map(|at| at.max(self.shared.now.get()));
        [device, self.shared.backplane.borrow().next_wake()].into_iter().flatten().min()
    }
}
