//! Requests of single sectors on a device of larger blocks.
//!
//! A request for whole blocks passes through. Any other read also reads the rest of its blocks. Any other write reads the blocks
//! that it covers in part, puts its bytes in, and writes all of them at once. Meanwhile no other write to these blocks is at the
//! device, so that none is lost: it waits in a queue, which is served in order. Reads do not wait: the rest of a block is the
//! same before and after such a write.
//!
//! A crash during such a write is a crash during a write of the whole block. The device leaves old or new data in each sector,
//! and in the sectors beside the client's the two are equal.

use crate::ranges::common;
use crate::{
    BlockDevice, Buffer, Claim, Completion, Extent, IoError, Limits, Nanos, Operation, Pool, Request, SECTOR_BYTES, Tag, bytes,
};
use smallvec::smallvec;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, Range};

/// Set in the tags of requests of our own. Clients' tags must not have it.
const OWN: Tag = 1 << 63;
/// The parts of a request that covers blocks in part: its first block, its last one, and what lies between.
const HEAD: u64 = 0;
const TAIL: u64 = 1;
const BODY: u64 = 2;
const PARTS: u64 = 4;

/// The tag of a part of a job. That of its first part is also that of its write as a whole.
fn own_tag(index: usize, part: u64) -> Tag {
    OWN | (index as Tag * PARTS + part)
}

/// A device that takes requests of any sectors.
pub struct SectorDevice<D> {
    inner: D,
    limits: Limits,
    /// The size of a block of `inner`. With 1 every request passes through.
    block_sectors: u64,
    jobs: Vec<Option<Job>>,
    vacant: Vec<usize>,
    /// Writes at the device.
    active: Vec<Active>,
    /// Writes that wait for others.
    waiting: VecDeque<Request>,
    pool: Pool,
    ended: Vec<Completion>,
    has_sent: bool,
}

struct Active {
    blocks: Range<u64>,
    /// It covers blocks in part, so no other write may touch them.
    alone: bool,
    tag: Tag,
}

/// A request that covers blocks in part.
struct Job {
    request: Request,
    /// The sectors of all blocks that it touches.
    around: Range<u64>,
    /// Requests to the device that have not ended.
    pending: usize,
    error: Option<IoError>,
    /// The first and the last block as they were, if they are covered in part.
    head: Option<Buffer>,
    tail: Option<Buffer>,
    stage: Stage,
    /// The claim of the memory that is written.
    claim: Option<Claim>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Read,
    /// The whole blocks of a range of zeros.
    Zero,
    /// The blocks that are covered in part.
    ReadEdges,
    Write,
}

impl<D> Deref for SectorDevice<D> {
    type Target = D;
    fn deref(&self) -> &D {
        &self.inner
    }
}

impl<D> DerefMut for SectorDevice<D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.inner
    }
}

impl<D: BlockDevice> SectorDevice<D> {
    /// `serves_sectors`: whether smaller requests are taken. If not, the device is as it was.
    pub fn new(inner: D, serves_sectors: bool) -> Self {
        let own = inner.limits();
        let block_bytes = if serves_sectors { own.logical_block_bytes } else { SECTOR_BYTES as u32 };
        let block_sectors = u64::from(block_bytes) / SECTOR_BYTES as u64;
        let limits = match serves_sectors {
            true => Limits {
                logical_block_bytes: SECTOR_BYTES as u32,
                physical_block_bytes: own.physical_block_bytes.max(own.logical_block_bytes),
                size_sectors: own.size_sectors / block_sectors * block_sectors,
                ..own.clone()
            },
            false => own.clone(),
        };
        Self {
            inner,
            limits,
            block_sectors,
            jobs: Vec::new(),
            vacant: Vec::new(),
            active: Vec::new(),
            waiting: VecDeque::new(),
            pool: Pool::default(),
            ended: Vec::new(),
            has_sent: false,
        }
    }

    fn is_aligned(&self, request: &Request) -> bool {
        (request.start_sector | request.sectors) & (self.block_sectors - 1) == 0
    }

    /// The sectors of all blocks that a request touches.
    fn around(&self, request: &Request) -> Range<u64> {
        let block = self.block_sectors;
        request.start_sector / block * block..request.end_sector().next_multiple_of(block)
    }

    /// True if a write must wait for one of those at the device.
    fn must_wait(&self, request: &Request) -> bool {
        let (around, alone) = (self.around(request), !self.is_aligned(request));
        self.active
            .iter()
            .any(|other| (alone || other.alone) && other.blocks.start < around.end && around.start < other.blocks.end)
    }

    /// True if a write must not overtake one that waits.
    fn must_queue(&self, request: &Request) -> bool {
        let (around, alone) = (self.around(request), !self.is_aligned(request));
        self.waiting.iter().any(|other| {
            let theirs = self.around(other);
            (alone || !self.is_aligned(other)) && theirs.start < around.end && around.start < theirs.end
        })
    }

    fn begin_write(&mut self, request: Request) {
        let (blocks, alone) = (self.around(&request), !self.is_aligned(&request));
        if !alone {
            self.active.push(Active { blocks, alone, tag: request.tag });
            return self.send(request);
        }
        let index = self.open(request, Stage::ReadEdges);
        self.active.push(Active { blocks, alone, tag: own_tag(index, HEAD) });
        let job = self.job(index);
        let block = self.block_sectors;
        let request = &job.request;
        // Whole blocks between the edges.
        let aligned = request.start_sector.next_multiple_of(block)..request.end_sector() / block * block;
        if let Operation::WriteZeroes { fua, unmap, fast } = request.operation
            && aligned.start < aligned.end
        {
            self.job_mut(index).stage = Stage::Zero;
            let operation = Operation::WriteZeroes { fua, unmap, fast };
            return self.send_part(index, BODY, aligned.start..aligned.end, operation);
        }
        self.read_edges(index);
    }

    /// Reads the blocks that a write covers in part.
    fn read_edges(&mut self, index: usize) {
        let block = self.block_sectors;
        let job = self.job_mut(index);
        job.stage = Stage::ReadEdges;
        let (around, request) = (job.around.clone(), &job.request);
        let (starts, ends) = (!request.start_sector.is_multiple_of(block), !request.end_sector().is_multiple_of(block));
        let is_one = around.end - around.start == block;
        let edges = [
            (starts || (ends && is_one)).then_some((HEAD, around.start)),
            (ends && !is_one).then_some((TAIL, around.end - block)),
        ];
        for (part, start) in edges.into_iter().flatten() {
            let into = self.pool.take(bytes(block));
            self.send_part(index, part, start..start + block, Operation::Read { into: smallvec![into] });
        }
    }

    /// Writes what a job covers, with what lies beside it in its blocks.
    fn write(&mut self, index: usize) {
        let block = self.block_sectors;
        let job = self.jobs[index].as_mut().expect("a job");
        job.stage = Stage::Write;
        let (around, start) = (job.around.clone(), job.request.start_sector);
        let (head, tail) = (job.head.take(), job.tail.take());
        let edges = [(head, around.start), (tail, around.end - block)];
        let Operation::Write { from, fua } = &job.request.operation else {
            // Zeros: only the edges are left.
            let Operation::WriteZeroes { fua, .. } = job.request.operation else { unreachable!("it writes") };
            let zeroed = start..job.request.end_sector();
            for ((edge, at), part) in edges.into_iter().zip([HEAD, TAIL]) {
                let Some(mut edge) = edge else { continue };
                let covered = common(&zeroed, &(at..at + block));
                edge[bytes(covered.start - at)..bytes(covered.end - at)].fill(0);
                let operation = Operation::Write { from: smallvec![edge.freeze()], fua };
                self.send_part(index, part, at..at + block, operation);
            }
            return;
        };
        let fua = *fua;
        let mut all = self.pool.take(bytes(around.end - around.start));
        for (edge, at) in edges {
            let Some(edge) = edge else { continue };
            all[bytes(at - around.start)..][..edge.len()].copy_from_slice(&edge);
            self.pool.give(edge);
        }
        let mut at = bytes(start - around.start);
        for segment in from {
            all[at..at + segment.len()].copy_from_slice(segment);
            at += segment.len();
        }
        let all = all.freeze();
        job.claim = Some(all.claim());
        self.send_part(index, BODY, around, Operation::Write { from: smallvec![all], fua });
    }

    fn open(&mut self, request: Request, stage: Stage) -> usize {
        let around = self.around(&request);
        let job = Job { request, around, pending: 0, error: None, head: None, tail: None, stage, claim: None };
        match self.vacant.pop() {
            Some(index) => {
                self.jobs[index] = Some(job);
                index
            }
            None => {
                self.jobs.push(Some(job));
                self.jobs.len() - 1
            }
        }
    }

    fn job(&self, index: usize) -> &Job {
        self.jobs[index].as_ref().expect("a job")
    }

    fn job_mut(&mut self, index: usize) -> &mut Job {
        self.jobs[index].as_mut().expect("a job")
    }

    fn send_part(&mut self, index: usize, part: u64, sectors: Range<u64>, operation: Operation) {
        self.job_mut(index).pending += 1;
        let tag = own_tag(index, part);
        self.send(Request { tag, start_sector: sectors.start, sectors: sectors.end - sectors.start, operation });
    }

    fn send(&mut self, request: Request) {
        self.has_sent = true;
        self.inner.submit(request);
    }

    /// A request to the device has ended.
    fn complete(&mut self, completion: Completion) {
        if completion.tag & OWN == 0 {
            if let Operation::Write { .. } | Operation::WriteZeroes { .. } = completion.operation {
                self.release(completion.tag);
            }
            return self.ended.push(completion);
        }
        let (index, part) = (((completion.tag & !OWN) / PARTS) as usize, completion.tag % PARTS);
        let Self { jobs, pool, .. } = self;
        let job = jobs[index].as_mut().expect("a device ends each of its requests once");
        job.pending -= 1;
        if let Err(error) = completion.result {
            job.error.get_or_insert(error);
        }
        match (completion.operation, job.stage) {
            (Operation::Read { into }, Stage::ReadEdges) => {
                let edge = if part == HEAD { &mut job.head } else { &mut job.tail };
                *edge = into.into_iter().next();
            }
            (Operation::Read { into }, _) => {
                let from = into.into_iter().next().expect("it was one piece");
                if job.error.is_none() {
                    let mut at = bytes(job.request.start_sector - job.around.start);
                    let Operation::Read { into } = &mut job.request.operation else { unreachable!("it reads") };
                    for segment in into {
                        let len = segment.len();
                        segment.copy_from_slice(&from[at..at + len]);
                        at += len;
                    }
                }
                pool.give(from);
            }
            (Operation::Write { from, .. }, _) => {
                drop(from);
                job.claim.take().into_iter().for_each(|claim| pool.give_claim(claim));
            }
            (Operation::Extents { extents }, _) => {
                let clipped = clip(&extents, job.request.start_sector - job.around.start, job.request.sectors);
                job.request.operation = Operation::Extents { extents: clipped };
            }
            (Operation::Flush | Operation::WriteZeroes { .. }, _) => {}
        }
        if job.pending > 0 {
            return;
        }
        match (job.stage, &job.error) {
            (Stage::Zero, None) => self.read_edges(index),
            (Stage::ReadEdges, None) => self.write(index),
            (Stage::Read | Stage::Write, _) | (_, Some(_)) => self.end(index),
        }
    }

    fn end(&mut self, index: usize) {
        let job = self.jobs[index].take().expect("a job");
        self.vacant.push(index);
        [job.head, job.tail].into_iter().flatten().for_each(|edge| self.pool.give(edge));
        let writes = matches!(job.request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. });
        self.ended.push(job.request.complete(job.error.map_or(Ok(()), Err)));
        if writes {
            self.release(own_tag(index, HEAD));
        }
    }

    /// A write has ended: others may begin.
    fn release(&mut self, tag: Tag) {
        if let Some(index) = self.active.iter().position(|active| active.tag == tag) {
            self.active.swap_remove(index);
        }
        while self.waiting.front().is_some_and(|first| !self.must_wait(first)) {
            let first = self.waiting.pop_front().expect("it was seen");
            self.begin_write(first);
        }
    }
}

/// Extents of `sectors` from `skip` on.
fn clip(extents: &[Extent], mut skip: u64, mut sectors: u64) -> Vec<Extent> {
    let mut clipped = Vec::with_capacity(extents.len());
    for extent in extents {
        let before = skip.min(extent.sectors);
        let part = sectors.min(extent.sectors - before);
        (skip, sectors) = (skip - before, sectors - part);
        if part > 0 {
            clipped.push(Extent { sectors: part, hole: extent.hole });
        }
    }
    clipped
}

impl<D: BlockDevice> BlockDevice for SectorDevice<D> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        if self.block_sectors == 1 {
            return self.inner.submit(request);
        }
        debug_assert_eq!(request.tag & OWN, 0, "a client's tag has a bit that is ours");
        if let Err(error) = request.check(&self.limits) {
            return self.ended.push(request.complete(Err(error)));
        }
        match request.operation {
            Operation::Flush => self.send(request),
            Operation::Write { .. } | Operation::WriteZeroes { .. } => {
                match self.must_wait(&request) || self.must_queue(&request) {
                    true => self.waiting.push_back(request),
                    false => self.begin_write(request),
                }
            }
            Operation::Read { .. } | Operation::Extents { .. } if self.is_aligned(&request) => self.send(request),
            Operation::Read { .. } => {
                let index = self.open(request, Stage::Read);
                let around = self.job(index).around.clone();
                let into = self.pool.take(bytes(around.end - around.start));
                self.send_part(index, BODY, around, Operation::Read { into: smallvec![into] });
            }
            Operation::Extents { .. } => {
                let index = self.open(request, Stage::Read);
                let around = self.job(index).around.clone();
                self.send_part(index, BODY, around, Operation::Extents { extents: Vec::new() });
            }
        }
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        if self.block_sectors == 1 {
            return self.inner.poll(now, completions);
        }
        let mut from_inner = Vec::new();
        loop {
            self.has_sent = false;
            self.inner.poll(now, &mut from_inner);
            from_inner.drain(..).for_each(|completion| self.complete(completion));
            // What was sent meanwhile is not left to another turn.
            if !self.has_sent {
                break;
            }
        }
        completions.append(&mut self.ended);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.ended.is_empty() { self.inner.next_wake() } else { Some(0) }
    }
}

#[cfg(test)]
mod tests;
