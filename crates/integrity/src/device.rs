//! A device between an array and a drive: requests pass through, and their checksums are verified or recorded.
//!
//! The drive is asked at once. Checksums are compared when both the answer and the checksum page have arrived, so reading a
//! page of checksums delays a request only where it takes longer than the drive.
//!
//! Overlapping requests are distinguished block by block. A read may hold the old bytes of a block that is being written, the
//! new bytes, some of both, or corrupt bytes. If they do not match the checksum, the drive is asked again once these writes
//! have ended, and other writes to the range wait until that second read is verified. So every block that a client gets was
//! compared with its checksum, unless the checksum is unknown. Where two writes overlap, it is unknown which one won: there the
//! checksum becomes unknown.

use crate::region::{BLOCK_BYTES, BLOCK_SECTORS, Header, Region, decode_page, encode_page};
use crate::table::{PAGES_MAX, Table, parts};
use slab::Slab;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use stria_block::ranges::common;
use stria_block::{
    BlockDevice, Buffer, Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request, Segments, Tag, TroubleKind,
};
use stria_parity::crc32c;

/// 5 s: the time after the last write to a group when its checksums are written back.
const SETTLE_AFTER: Nanos = 5_000_000_000;
/// 1 s: the time between two checks for groups that are due.
const TICK: Nanos = 1_000_000_000;
/// 1 Mi blocks, 4 GiB: the most wrong blocks that are remembered. A drive with more has entirely different content; each further
/// block counts whenever it is read.
const WRONG_MAX: usize = 1 << 20;
/// The checksum is unknown.
const UNKNOWN: u32 = 0;

/// The findings of the device, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Read, and equal to what was written.
    pub verified: u64,
    /// The checksum was unknown, and is known now.
    pub learned: u64,
    /// Had other bytes than were written. Each of the first million counts once, however often it was read.
    pub wrong: u64,
    /// Wrong blocks that were rewritten since.
    pub mended: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dirt {
    Clean,
    /// The next header must mark the group dirty.
    Wanted,
    /// The header that is being written marks the group dirty.
    Sent,
    Durable,
}

struct Group {
    dirt: Dirt,
    trusted_from: u32,
    last_write: Nanos,
    writes_in_flight: u32,
}

/// A request for blocks that have checksums.
struct Look {
    tag: Tag,
    blocks: Range<u64>,
    writes: bool,
    /// Blocks that a write covered while this request ran: the result of this request may be a mixture of both there.
    raced: Vec<Range<u64>>,
    /// The drive has answered, but checksums have not arrived yet, or writes must end before the drive is asked again.
    ended: Option<Box<Completion>>,
}

impl Look {
    fn is_raced(&self, block: u64) -> bool {
        self.raced.iter().any(|blocks| blocks.contains(&block))
    }
}

enum Op {
    /// A request for sectors without checksums.
    Pass {
        tag: Tag,
    },
    Look(Look),
    LoadPage {
        page: usize,
    },
    SavePage {
        page: usize,
        /// The settling waits for it. If not, it is saved to be dropped from memory.
        settles: bool,
    },
    SaveHeader {
        last: bool,
    },
    /// A flush of the bytes that earlier sessions left in the drive's cache.
    FirstFlush,
    Sync,
}

/// The write-back of checksums that lets groups become clean.
struct Settling {
    groups: Vec<usize>,
    started: Nanos,
    /// All groups become clean, and the device closes.
    last: bool,
    pending: usize,
    synced: bool,
    error: Option<IoError>,
}

#[derive(Clone, Debug)]
enum Closing {
    No,
    Wanted,
    Done(Result<(), IoError>),
}

struct Layer<D> {
    inner: D,
    name: String,
    advice: String,
    read_only: bool,
    region: Region,
    /// What headers say. Its sequence is that of the last durable one.
    header: Header,
    session: u32,
    groups: Vec<Group>,
    /// The count of groups that are not clean.
    dirty_count: usize,
    table: Table,
    ops: Slab<Op>,
    /// Requests that wait for checksums, by their index in `ops`.
    held: Vec<usize>,
    /// Writes that wait for the header.
    parked: Vec<Request>,
    /// Reads that the drive is asked again, by their index in `ops`. No write to their blocks begins meanwhile.
    again: Vec<usize>,
    /// Writes that wait for these reads.
    kept_back: Vec<Request>,
    /// True once everything that the drive's cache held when the session began is durable; `None`: no flush was sent yet.
    flushed: Option<bool>,
    /// A flush of the device itself has failed, and no flush from above has reported that yet.
    lost: Option<IoError>,
    /// Some flush has failed. Pages that were saved before it may be lost, so no group becomes clean any more in this session.
    flush_error: Option<IoError>,
    header_busy: bool,
    settling: Option<Settling>,
    closing: Closing,
    /// Blocks that were found wrong and not written since.
    wrong: BTreeSet<u64>,
    findings: Vec<Range<u64>>,
    counts: Counts,
    now: Nanos,
    ticked: Nanos,
    ended: Vec<Completion>,
    from_inner: Vec<Completion>,
    lacking: Vec<usize>,
}

/// A device whose data is verified. A handle may be cloned; all clones are the same device.
pub struct IntegrityDevice<D> {
    layer: Rc<RefCell<Layer<D>>>,
    limits: Rc<Limits>,
}

impl<D> Clone for IntegrityDevice<D> {
    fn clone(&self) -> Self {
        Self { layer: Rc::clone(&self.layer), limits: Rc::clone(&self.limits) }
    }
}

impl<D: BlockDevice> IntegrityDevice<D> {
    /// Wraps a drive. `header`: as it was read; it has the positions of data and checksums. `name`: for messages. `read_only`:
    /// the device writes nothing of its own.
    ///
    /// The device serves blocks of 4 KiB: a part of one could not be verified without reading the rest, and today's drives
    /// write no less.
    pub fn new(inner: D, name: impl Into<String>, header: Header, read_only: bool) -> Self {
        let limits = Limits {
            logical_block_bytes: BLOCK_BYTES as u32,
            physical_block_bytes: inner.limits().physical_block_bytes.max(BLOCK_BYTES as u32),
            ..inner.limits().clone()
        };
        let region = Region::behind(header.data.clone());
        let group = |&trusted_from: &u32| Group { dirt: Dirt::Clean, trusted_from, last_write: 0, writes_in_flight: 0 };
        let layer = Layer {
            groups: header.trusted_from.iter().map(group).collect(),
            dirty_count: 0,
            table: Table::new(PAGES_MAX),
            flushed: (read_only || !limits.volatile_cache).then_some(true),
            lost: None,
            flush_error: None,
            inner,
            name: name.into(),
            advice: String::new(),
            read_only,
            region,
            session: header.session + 1,
            header,
            ops: Slab::new(),
            held: Vec::new(),
            parked: Vec::new(),
            again: Vec::new(),
            kept_back: Vec::new(),
            header_busy: false,
            settling: None,
            closing: Closing::No,
            wrong: BTreeSet::new(),
            findings: Vec::new(),
            counts: Counts::default(),
            now: 0,
            ticked: 0,
            ended: Vec::new(),
            from_inner: Vec::new(),
            lacking: Vec::new(),
        };
        Self { layer: Rc::new(RefCell::new(layer)), limits: Rc::new(limits) }
    }

    /// Keeps at most so many pages of checksums in memory, and those that are in use. A page is for 4 MiB of data. The default is
    /// 16384 pages.
    #[must_use]
    pub fn with_pages_max(self, pages_max: usize) -> Self {
        self.layer.borrow_mut().table = Table::new(pages_max);
        self
    }

    /// Text that ends every message about wrong blocks.
    #[must_use]
    pub fn advising(self, advice: impl Into<String>) -> Self {
        self.layer.borrow_mut().advice = advice.into();
        self
    }

    /// The findings so far.
    pub fn counts(&self) -> Counts {
        self.layer.borrow().counts
    }

    /// The ranges found wrong since the last call, in sectors of the data.
    pub fn take_findings(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.layer.borrow_mut().findings)
    }

    /// Writes all checksums back. No request may be in flight or follow. See [`Self::closed`].
    pub fn close(&self) {
        let mut layer = self.layer.borrow_mut();
        if matches!(layer.closing, Closing::No) {
            layer.closing = if layer.read_only { Closing::Done(Ok(())) } else { Closing::Wanted };
        }
    }

    /// The result of closing, once it has ended.
    pub fn closed(&self) -> Option<Result<(), IoError>> {
        match &self.layer.borrow().closing {
            Closing::Done(result) => Some(result.clone()),
            Closing::No | Closing::Wanted => None,
        }
    }
}

impl<D: BlockDevice> Layer<D> {
    /// Blocks of the data that a request covers; `None` if it is not for data that has checksums.
    fn blocks_of(&self, request: &Request) -> Option<Range<u64>> {
        let data = &self.region.data;
        let inside = request.start_sector >= data.start && request.end_sector() <= data.end;
        let looks = !matches!(request.operation, Operation::Flush | Operation::Extents { .. });
        (looks && inside)
            .then(|| (request.start_sector - data.start) / BLOCK_SECTORS..(request.end_sector() - data.start) / BLOCK_SECTORS)
    }

    /// True if no request is in flight and none has ended.
    fn is_idle(&self) -> bool {
        self.ops.is_empty() && self.ended.is_empty()
    }

    fn groups_of(&self, blocks: &Range<u64>) -> Range<usize> {
        let blocks_each = self.region.group_pages() * crate::PAGE_BLOCKS;
        (blocks.start / blocks_each) as usize..blocks.end.div_ceil(blocks_each) as usize
    }

    fn pages_of(&self, group: usize) -> Range<usize> {
        let pages_each = self.region.group_pages() as usize;
        group * pages_each..(group + 1) * pages_each
    }

    fn send(&mut self, op: Op, start_sector: u64, sectors: u64, operation: Operation) {
        let tag = self.ops.insert(op) as Tag;
        self.inner.submit(Request { tag, start_sector, sectors, operation });
    }

    fn submit(&mut self, request: Request) {
        let Some(blocks) = self.blocks_of(&request) else {
            let data = &self.region.data;
            let beside = request.end_sector() <= data.start || request.start_sector >= data.end;
            let looks = matches!(request.operation, Operation::Flush | Operation::Extents { .. });
            if !beside && !looks {
                let error = IoError::new(ErrorKind::Invalid, "a request crosses the border of the area with checksums");
                return self.ended.push(request.complete(Err(error)));
            }
            let Request { tag, start_sector, sectors, operation } = request;
            return self.send(Op::Pass { tag }, start_sector, sectors, operation);
        };
        if blocks.is_empty() || !(request.start_sector | request.sectors).is_multiple_of(BLOCK_SECTORS) {
            let error =
                IoError::new(ErrorKind::Invalid, "a request does not consist of whole blocks of 4 KiB, as checksums need");
            return self.ended.push(request.complete(Err(error)));
        }
        if matches!(request.operation, Operation::Read { .. }) {
            return self.begin(request, blocks, false);
        }
        self.write(request, blocks);
    }

    /// Sends a write. It waits until its groups are durably dirty and no read of its blocks is being asked again.
    fn write(&mut self, request: Request, blocks: Range<u64>) {
        if self.again.iter().any(|&key| overlap(&self.look_at(key).blocks, &blocks)) {
            return self.kept_back.push(request);
        }
        let mut ready = true;
        let groups = self.groups_of(&blocks);
        for group in groups.clone() {
            let group = &mut self.groups[group];
            group.last_write = self.now;
            if group.dirt == Dirt::Clean {
                group.dirt = Dirt::Wanted;
                self.dirty_count += 1;
            }
            ready &= group.dirt == Dirt::Durable;
        }
        if !ready {
            self.parked.push(request);
            return self.save_header();
        }
        for group in groups {
            self.groups[group].writes_in_flight += 1;
        }
        self.begin(request, blocks, true);
    }

    /// Sends a request for data, and reads the checksum pages that it needs.
    fn begin(&mut self, request: Request, blocks: Range<u64>, writes: bool) {
        let mut lacking = std::mem::take(&mut self.lacking);
        let mut raced = Vec::new();
        if self.table.pin(&blocks, &mut lacking) {
            for (_, op) in &mut self.ops {
                if let Op::Look(other) = op
                    && (writes || other.writes)
                    && overlap(&other.blocks, &blocks)
                {
                    let shared = common(&other.blocks, &blocks);
                    // If a read and a write overlap, only the read is in doubt.
                    raced.extend(other.writes.then(|| shared.clone()));
                    other.raced.extend(writes.then_some(shared));
                }
            }
        }
        let Request { tag, start_sector, sectors, operation } = request;
        self.send(Op::Look(Look { tag, blocks, writes, raced, ended: None }), start_sector, sectors, operation);
        for page in lacking.drain(..) {
            let into = std::iter::once(Buffer::zeroed(BLOCK_BYTES)).collect();
            self.send(Op::LoadPage { page }, self.region.page_sector(page), BLOCK_SECTORS, Operation::Read { into });
        }
        self.lacking = lacking;
    }

    fn retry_parked(&mut self) {
        for request in std::mem::take(&mut self.parked) {
            let blocks = self.blocks_of(&request).expect("only what has sums is parked");
            self.write(request, blocks);
        }
    }

    /// Writes the header if groups must become dirty in it.
    fn save_header(&mut self) {
        let wanted = self.groups.iter().any(|group| group.dirt == Dirt::Wanted);
        if wanted && !self.header_busy {
            self.write_header(false);
        }
    }

    /// Writes the next header beside the last durable one. If that fails, its slot holds anything, so the next one goes to the
    /// same slot: in the other lies the only valid one.
    fn write_header(&mut self, last: bool) {
        self.header_busy = true;
        self.header.session = self.session;
        for (group, trusted_from) in self.groups.iter_mut().zip(&mut self.header.trusted_from) {
            if group.dirt == Dirt::Wanted {
                group.dirt = Dirt::Sent;
            }
            *trusted_from = if group.dirt == Dirt::Clean { group.trusted_from } else { self.session + 1 };
        }
        let next = Header { sequence: self.header.sequence + 1, ..self.header.clone() };
        let from = std::iter::once(Buffer::copy_of(&next.encode()).freeze()).collect();
        self.send(Op::SaveHeader { last }, next.sector(), BLOCK_SECTORS, Operation::Write { from, fua: true });
    }

    fn header_saved(&mut self, last: bool, result: Result<(), IoError>) {
        self.header_busy = false;
        self.header.sequence += u64::from(result.is_ok());
        if last {
            self.closing = Closing::Done(result);
            return;
        }
        for group in self.groups.iter_mut().filter(|group| group.dirt == Dirt::Sent) {
            group.dirt = if result.is_ok() { Dirt::Durable } else { Dirt::Clean };
            self.dirty_count -= usize::from(result.is_err());
        }
        match result {
            Ok(()) => {
                self.retry_parked();
                self.save_header();
            }
            Err(error) => {
                for request in std::mem::take(&mut self.parked) {
                    self.ended.push(request.complete(Err(error.clone())));
                }
            }
        }
    }

    fn save_page(&mut self, number: usize, settles: bool) {
        let page = self.table.page(number);
        (page.dirty, page.saving) = (false, true);
        let mut bytes = Buffer::zeroed(BLOCK_BYTES);
        encode_page(number, self.header.epoch, self.session, &page.sums, &mut bytes);
        let from = std::iter::once(bytes.freeze()).collect();
        let sector = self.region.page_sector(number);
        self.send(Op::SavePage { page: number, settles }, sector, BLOCK_SECTORS, Operation::Write { from, fua: false });
    }

    /// Begins to make groups clean that were last written some time ago; on closing, all of them.
    fn tick(&mut self) {
        self.ticked = self.now;
        let last = matches!(self.closing, Closing::Wanted);
        if self.settling.is_some() || self.header_busy || matches!(self.closing, Closing::Done(_)) {
            return;
        }
        if let Some(error) = &self.flush_error {
            if last {
                self.closing = Closing::Done(Err(error.clone()));
            }
            return;
        }
        match self.flushed {
            None => {
                self.flushed = Some(false);
                return self.send(Op::FirstFlush, 0, 0, Operation::Flush);
            }
            Some(false) => return,
            Some(true) => {}
        }
        let idle = |group: &Group| {
            group.dirt == Dirt::Durable
                && group.writes_in_flight == 0
                && (last || self.now >= group.last_write.saturating_add(SETTLE_AFTER))
        };
        let groups: Vec<usize> = match self.dirty_count {
            0 => Vec::new(),
            _ => (0..self.groups.len()).filter(|&group| idle(&self.groups[group])).collect(),
        };
        if groups.is_empty() && !last {
            return;
        }
        let to_save: Vec<usize> = match last {
            true => self.table.dirty(..),
            false => groups.iter().flat_map(|&group| self.table.dirty(self.pages_of(group))).collect(),
        };
        self.settling = Some(Settling { groups, started: self.now, last, pending: to_save.len(), synced: false, error: None });
        to_save.into_iter().for_each(|page| self.save_page(page, true));
        self.go_on_settling();
    }

    fn go_on_settling(&mut self) {
        let Some(settling) = &self.settling else { return };
        if settling.pending > 0 || self.header_busy {
            return;
        }
        if settling.error.is_none() && !settling.synced {
            // The flush must cover pages that are saved for lack of memory, too.
            let is_saving = match settling.last {
                true => self.table.is_saving(..),
                false => settling.groups.iter().any(|&group| self.table.is_saving(self.pages_of(group))),
            };
            if is_saving {
                return;
            }
            let settling = self.settling.as_mut().expect("just seen");
            settling.synced = true;
            if self.inner.limits().volatile_cache {
                settling.pending = 1;
                return self.send(Op::Sync, 0, 0, Operation::Flush);
            }
        }
        let Settling { groups, started, last, error, .. } = self.settling.take().expect("just seen");
        if let Some(error) = error.or_else(|| self.flush_error.clone()) {
            if last {
                self.closing = Closing::Done(Err(error));
            }
            return;
        }
        for index in groups {
            let pages = self.pages_of(index);
            let group = &mut self.groups[index];
            let written = group.writes_in_flight > 0 || (!last && group.last_write >= started);
            if !written && self.table.is_saved(pages) {
                group.dirt = Dirt::Clean;
                self.dirty_count -= 1;
            }
        }
        // If a request is still in flight, the next tick closes.
        self.write_header(last && self.dirty_count == 0 && self.table.is_saved(..));
    }

    fn end(&mut self, completion: Completion) {
        let key = completion.tag as usize;
        if let Op::Look(look) = &mut self.ops[key] {
            if !self.table.is_ready(&look.blocks) {
                look.ended = Some(Box::new(completion));
                return self.held.push(key);
            }
            return self.look(key, completion);
        }
        let Completion { result, operation, .. } = completion;
        match self.ops.remove(key) {
            Op::Look(_) => unreachable!("seen above"),
            Op::Pass { tag } => {
                let mut result = result;
                if matches!(operation, Operation::Flush) {
                    self.flush_error = self.flush_error.take().or(result.as_ref().err().cloned());
                    result = self.lost.take().map_or(result, Err);
                }
                self.ended.push(Completion { tag, result, operation });
            }
            Op::LoadPage { page } => self.loaded(page, &result, &operation),
            Op::SavePage { page, settles } => {
                let state = self.table.page(page);
                state.saving = false;
                state.dirty |= result.is_err();
                if let Some(settling) = self.settling.as_mut().filter(|_| settles) {
                    settling.pending -= 1;
                    settling.error = settling.error.take().or(result.err());
                }
                self.go_on_settling();
            }
            Op::SaveHeader { last } => {
                self.header_saved(last, result);
                self.go_on_settling();
            }
            Op::FirstFlush => {
                self.note_flush(&result);
                match (result, &self.closing) {
                    (Ok(()), _) => self.flushed = Some(true),
                    (Err(error), Closing::Wanted) => self.closing = Closing::Done(Err(error)),
                    (Err(_), _) => self.flushed = None,
                }
            }
            Op::Sync => {
                self.note_flush(&result);
                let settling = self.settling.as_mut().expect("it waits for this");
                (settling.pending, settling.error) = (0, result.err());
                self.go_on_settling();
            }
        }
    }

    /// A flush of the device itself has ended. The kernel reports a lost write to one flush alone. So the next flush from above
    /// fails if this one did: the array must know that the drive may have lost what it had taken (R8).
    fn note_flush(&mut self, result: &Result<(), IoError>) {
        if let Err(error) = result {
            self.lost = Some(error.clone());
            self.flush_error = Some(error.clone());
        }
    }

    /// A page has arrived. If it cannot be read or is not valid, its checksums stay unknown.
    fn loaded(&mut self, number: usize, result: &Result<(), IoError>, operation: &Operation) {
        let trusted_from = self.groups[number / self.region.group_pages() as usize].trusted_from;
        let page = self.table.page(number);
        if let (Ok(()), Operation::Read { into }) = (result, operation) {
            decode_page(number, self.header.epoch, trusted_from, &into[0], &mut page.sums);
        }
        page.ready = true;
        for key in std::mem::take(&mut self.held) {
            let Op::Look(look) = &self.ops[key] else { unreachable!("only these are held") };
            if !self.table.is_ready(&look.blocks) {
                self.held.push(key);
                continue;
            }
            let Op::Look(look) = &mut self.ops[key] else { unreachable!("just seen") };
            let completion = look.ended.take().expect("the drive has answered");
            self.look(key, *completion);
        }
        let to_save = self.table.shrink();
        if self.flushed == Some(true) {
            to_save.into_iter().for_each(|page| self.save_page(page, false));
        }
    }

    /// The drive has answered, and the checksums are in memory.
    fn look(&mut self, key: usize, mut completion: Completion) {
        let Op::Look(look) = self.ops.remove(key) else { unreachable!("only these are looked at") };
        if look.writes {
            self.note(&look, &completion.operation, completion.result.is_ok());
            for group in self.groups_of(&look.blocks) {
                self.groups[group].writes_in_flight -= 1;
                self.groups[group].last_write = self.now;
            }
        } else if completion.result.is_ok() {
            let Verdict { doubtful, error } = self.verify(&look, &completion.operation);
            if doubtful && error.is_none() {
                return self.ask_again(look, completion);
            }
            completion.result = error.map_or(Ok(()), Err);
        }
        self.table.unpin(&look.blocks);
        completion.tag = look.tag;
        self.ended.push(completion);
        if !self.again.is_empty() {
            self.go_on_again(key);
        }
    }

    /// A read found bytes that do not match their checksum in a block that was being written.
    fn ask_again(&mut self, look: Look, completion: Completion) {
        let key = self.ops.insert(Op::Look(Look { raced: Vec::new(), ended: Some(Box::new(completion)), ..look }));
        self.again.push(key);
        self.ask_if_alone(key);
    }

    /// Asks the drive again once no write to the blocks is in flight.
    fn ask_if_alone(&mut self, key: usize) {
        let blocks = self.look_at(key).blocks.clone();
        let written = |(_, op): (usize, &Op)| matches!(op, Op::Look(other) if other.writes && overlap(&other.blocks, &blocks));
        if self.ops.iter().any(written) {
            return;
        }
        let Op::Look(look) = &mut self.ops[key] else { unreachable!("only reads are asked again") };
        if let Some(completion) = look.ended.take() {
            let (start_sector, sectors) =
                (self.region.data.start + blocks.start * BLOCK_SECTORS, (blocks.end - blocks.start) * BLOCK_SECTORS);
            self.inner.submit(Request { tag: key as Tag, start_sector, sectors, operation: completion.operation });
        }
    }

    /// The request at index `key` of `ops` has ended, while reads are being asked again or wait for it.
    fn go_on_again(&mut self, key: usize) {
        let before = self.again.len();
        self.again.retain(|&other| other != key);
        if self.again.len() < before {
            for request in std::mem::take(&mut self.kept_back) {
                let blocks = self.blocks_of(&request).expect("only what has sums is kept back");
                self.write(request, blocks);
            }
        }
        for index in 0..self.again.len() {
            self.ask_if_alone(self.again[index]);
        }
    }

    fn look_at(&self, key: usize) -> &Look {
        let Op::Look(look) = &self.ops[key] else { unreachable!("only requests with sums are asked for") };
        look
    }

    /// Records the checksums of written data, or that they are unknown.
    fn note(&mut self, look: &Look, operation: &Operation, known: bool) {
        let blocks = &look.blocks;
        let mut sums = Sums::new(match operation {
            Operation::Write { from, .. } if known => Some(from),
            _ => None,
        });
        let zeros = if known && matches!(operation, Operation::WriteZeroes { .. }) { sum_of(&[0; BLOCK_BYTES]) } else { UNKNOWN };
        for (page, entries) in parts(blocks) {
            let page = self.table.page(page);
            page.dirty = true;
            for entry in &mut page.sums[entries] {
                *entry = sums.next().unwrap_or(zeros);
            }
        }
        for (page, entries) in look.raced.iter().flat_map(parts) {
            self.table.page(page).sums[entries].fill(UNKNOWN);
        }
        if !self.wrong.is_empty() {
            let mended: Vec<u64> = self.wrong.range(blocks.clone()).copied().collect();
            mended.iter().for_each(|block| assert!(self.wrong.remove(block)));
            self.counts.mended += mended.len() as u64;
        }
    }

    /// Compares the data of a read with its checksums, and records those that were unknown.
    fn verify(&mut self, look: &Look, operation: &Operation) -> Verdict {
        let Operation::Read { into } = operation else { unreachable!("a read comes back as a read") };
        let mut sums = Sums::new(Some(into));
        let mut wrong = None;
        let mut doubtful = false;
        let mut block = look.blocks.start;
        for (page, entries) in parts(&look.blocks) {
            let page = self.table.page(page);
            for entry in entries {
                let sum = sums.next().expect("a read is as long as it says");
                match page.sums[entry] {
                    known if known == sum => self.counts.verified += 1,
                    // Bytes that a write may be changing give no checksum.
                    known if look.is_raced(block) => doubtful |= known != UNKNOWN,
                    UNKNOWN => {
                        page.sums[entry] = sum;
                        page.dirty |= !self.read_only;
                        self.counts.learned += 1;
                    }
                    _ => {
                        wrong.get_or_insert(block);
                        if !self.wrong.contains(&block) {
                            self.counts.wrong += 1;
                            if self.wrong.len() < WRONG_MAX {
                                self.wrong.insert(block);
                            }
                            let sector = block * BLOCK_SECTORS;
                            match self.findings.last_mut() {
                                Some(last) if last.end == sector => last.end += BLOCK_SECTORS,
                                _ => self.findings.push(sector..sector + BLOCK_SECTORS),
                            }
                        }
                    }
                }
                block += 1;
            }
        }
        let error = wrong.map(|block| {
            let sector = self.region.data.start + block * BLOCK_SECTORS;
            IoError::of_drive(ErrorKind::Medium, &self.name, TroubleKind::ChecksumWrong { sector, advice: self.advice.clone() })
        });
        Verdict { doubtful, error }
    }
}

/// The verdict of the checksums on a read.
struct Verdict {
    /// Some blocks do not match their checksum, and a write may be the reason.
    doubtful: bool,
    /// Some blocks are wrong, and no write is the reason.
    error: Option<IoError>,
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The checksum of a block; never [`UNKNOWN`].
fn sum_of(block: &[u8]) -> u32 {
    crc32c(block).max(1)
}

/// The checksums of memory in pieces, block by block.
struct Sums<'a, T> {
    pieces: std::slice::Iter<'a, T>,
    rest: &'a [u8],
}

impl<'a, T: std::ops::Deref<Target = [u8]>> Sums<'a, T> {
    fn new(segments: Option<&'a Segments<T>>) -> Self
    where
        [T; 1]: smallvec::Array<Item = T>,
    {
        Self { pieces: segments.map_or(&[][..], |segments| &segments[..]).iter(), rest: &[] }
    }
}

impl<T: std::ops::Deref<Target = [u8]>> Iterator for Sums<'_, T> {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        while self.rest.is_empty() {
            self.rest = self.pieces.next()?;
        }
        if let Some((block, rest)) = self.rest.split_at_checked(BLOCK_BYTES) {
            self.rest = rest;
            return Some(sum_of(block));
        }
        // A block in several pieces.
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            let take = self.rest.len().min(BLOCK_BYTES - filled);
            block[filled..filled + take].copy_from_slice(&self.rest[..take]);
            (filled, self.rest) = (filled + take, &self.rest[take..]);
            if filled < BLOCK_BYTES && self.rest.is_empty() {
                self.rest = self.pieces.next()?;
            }
        }
        Some(sum_of(&block))
    }
}

impl<D: BlockDevice> BlockDevice for IntegrityDevice<D> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        self.layer.borrow_mut().submit(request);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let layer = &mut *self.layer.borrow_mut();
        layer.now = now;
        let mut ended = std::mem::take(&mut layer.from_inner);
        layer.inner.poll(now, &mut ended);
        ended.drain(..).for_each(|completion| layer.end(completion));
        layer.from_inner = ended;
        if now >= layer.ticked.saturating_add(TICK) || matches!(layer.closing, Closing::Wanted) {
            layer.tick();
        }
        completions.append(&mut layer.ended);
    }

    fn next_wake(&self) -> Option<Nanos> {
        let layer = self.layer.borrow();
        if layer.is_idle() && layer.dirty_count == 0 && !matches!(layer.closing, Closing::Wanted) {
            return None;
        }
        let waits = layer.settling.is_some() || layer.header_busy || layer.flushed == Some(false);
        if !layer.ended.is_empty() || matches!(layer.closing, Closing::Wanted) && !waits {
            return Some(0);
        }
        let tick = (layer.dirty_count > 0).then(|| layer.ticked.saturating_add(TICK));
        [layer.inner.next_wake(), tick].into_iter().flatten().min()
    }
}
