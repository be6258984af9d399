//! An array by its steps alone ([`super::steps`]): the plain twin of the [engine](super::engine), which tests compare it with.
//!
//! Writes of levels with parity take turns on a stripe. Nothing else of an engine is here: no coalescing, no metadata.

use super::Layout;
use super::steps::{self, MemberAsk, Steps};
use crate::backplane::Backplane;
use crate::chance::Chance;
use crate::model::{Ask, Kind, Model, SECTOR_BYTES};
use crate::platform::PlatformConfig;
use slab::Slab;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Nanos, Tag};

/// 128 KiB: reads of that size count as parts of a stream. Source: the usual read-ahead of operating systems.
const STREAM_BYTES: u64 = 128 << 10;

/// 4 MiB: how much of a stream one copy reads. Source: none; long beside a seek, short beside the requests under way.
const STREAM_TURN_BYTES: u64 = 4 << 20;

/// A quarter: a copy whose member has so much more to do than the other's is not read, although its head is nearer. Source: none;
/// enough for the heads to keep to their parts of the disk, and little beside what waits.
const BUSIER_MAX: usize = 4;

struct Job {
    ask: Ask,
    last: Vec<MemberAsk>,
    left: usize,
    /// Stripes that no other write may touch meanwhile.
    stripes: Range<u64>,
}

/// An array by its steps (see the module).
pub struct Stepped {
    layout: Layout,
    backplane: Rc<RefCell<Backplane>>,
    chance: Chance,
    /// True if the place of heads decides among copies.
    reads_nearest_copy: bool,
    /// True if writes of a level with parity begin when the one before has ended.
    one_parity_write: bool,
    jobs: Slab<Job>,
    /// Stripes that are being written, with the writes that wait for each.
    locks: HashMap<u64, VecDeque<usize>>,
    /// Writes that wait for the one before.
    queue: VecDeque<usize>,
    ended: Vec<(usize, Tag)>,
    /// Requests to members since they were last asked for.
    requests: u64,
}

impl Stepped {
    /// An array over all drives of a backplane.
    pub fn new(layout: Layout, backplane: Rc<RefCell<Backplane>>, platform: &PlatformConfig, seed: u64) -> Self {
        Self {
            layout,
            backplane,
            chance: Chance::new(seed, 3),
            reads_nearest_copy: platform.reads_nearest_copy,
            one_parity_write: platform.one_at_a_time,
            jobs: Slab::new(),
            locks: HashMap::new(),
            queue: VecDeque::new(),
            ended: Vec::new(),
            requests: 0,
        }
    }

    /// Requests to members since this was last asked for.
    pub fn take_requests(&mut self) -> u64 {
        std::mem::take(&mut self.requests)
    }

    /// Starts a write once it has the locks of its stripes, which it takes all at once; on levels without parity at once.
    fn begin_write(&mut self, now: Nanos, index: usize) {
        let ask = self.jobs[index].ask;
        if self.layout.level.parities() > 0 {
            if self.one_parity_write && !self.locks.is_empty() {
                self.queue.push_back(index);
                return;
            }
            let stripe_sectors = self.layout.columns() as u64 * self.layout.strip_sectors;
            let stripes = ask.start_sector / stripe_sectors..ask.end_sector().div_ceil(stripe_sectors);
            if let Some(taken) = stripes.clone().find(|stripe| self.locks.contains_key(stripe)) {
                self.locks.entry(taken).or_default().push_back(index);
                return;
            }
            stripes.clone().for_each(|stripe| _ = self.locks.insert(stripe, VecDeque::new()));
            self.jobs[index].stripes = stripes;
        }
        let steps = steps::write(&self.layout, &ask);
        self.run_steps(now, index, steps);
    }

    /// Of copies the one with the least busy member is read, or, where the platform does so, the one with the nearest head among
    /// those about as busy; among equals one at random. Large reads take the copies in turns of
    /// some MiB, so that each streams.
    fn read_steps(&mut self, ask: &Ask) -> Steps {
        let (backplane, chance, nearest) = (self.backplane.borrow(), &mut self.chance, self.reads_nearest_copy);
        let large = ask.bytes() >= STREAM_BYTES;
        steps::read(&self.layout, ask, |first, copies, sector| {
            if copies == 1 {
                return first;
            }
            if large {
                return first + (sector * SECTOR_BYTES / STREAM_TURN_BYTES) as usize % copies;
            }
            let turn = chance.below(copies as u64) as usize;
            let order = (0..copies).map(|copy| first + (copy + turn) % copies);
            let least = order.clone().map(|member| backplane.load_of(member)).min().unwrap_or(0);
            let most = if nearest { least + least / BUSIER_MAX } else { least };
            let idle_enough = order.filter(|&member| backplane.load_of(member) <= most);
            idle_enough.min_by_key(|&member| if nearest { backplane.distance_of(member, sector) } else { 0 }).unwrap_or(first)
        })
    }

    fn run_steps(&mut self, now: Nanos, index: usize, steps: Steps) {
        let (first, last) = if steps.reads.is_empty() { (steps.last, Vec::new()) } else { (steps.reads, steps.last) };
        self.jobs[index].last = last;
        self.issue(now, index, &first);
    }

    fn issue(&mut self, now: Nanos, index: usize, asks: &[MemberAsk]) {
        self.jobs[index].left = asks.len();
        self.requests += asks.len() as u64;
        for &(member, ask) in asks {
            self.backplane.borrow_mut().submit(now, member, Ask { tag: index as Tag, ..ask });
        }
    }

    fn member_done(&mut self, now: Nanos, index: usize, ended: &mut Vec<Tag>) {
        let job = &mut self.jobs[index];
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        if !job.last.is_empty() {
            let last = std::mem::take(&mut job.last);
            self.issue(now, index, &last);
            return;
        }
        let job = self.jobs.remove(index);
        ended.push(job.ask.tag);
        let waiting: Vec<usize> = job.stripes.filter_map(|stripe| self.locks.remove(&stripe)).flatten().collect();
        waiting.into_iter().for_each(|index| self.begin_write(now, index));
        if self.locks.is_empty()
            && let Some(next) = self.queue.pop_front()
        {
            self.begin_write(now, next);
        }
    }
}

impl Model for Stepped {
    fn size_sectors(&self) -> u64 {
        self.layout.size_sectors()
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        let index = self.jobs.insert(Job { ask, last: Vec::new(), left: 0, stripes: 0..0 });
        match ask.kind {
            Kind::Read => {
                let steps = self.read_steps(&ask);
                self.run_steps(now, index, steps);
            }
            Kind::Write { .. } | Kind::Trim => self.begin_write(now, index),
            Kind::Flush => {
                let last = (0..self.layout.members).map(|member| (member, ask)).collect();
                self.run_steps(now, index, Steps { reads: Vec::new(), last });
            }
        }
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        let mut done = std::mem::take(&mut self.ended);
        self.backplane.borrow_mut().poll(now, &mut done);
        for (_, tag) in done.drain(..) {
            self.member_done(now, tag as usize, ended);
        }
        self.ended = done;
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.backplane.borrow().next_wake()
    }
}
