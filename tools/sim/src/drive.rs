//! A hostile drive in virtual time.
//!
//! A write is *taken* into the drive (reads see it), and is *durable* later: at once without a volatile cache or with FUA, else
//! by a flush that began after the write had ended. In a power cut, each atom of a write that is not durable survives or is lost
//! independently. So does each atom of a request that had not ended. Requests end in any order. The drive's own random numbers
//! decide everything, so the same requests at the same times have the same results.

use crate::chance::Chance;
use crate::image::Image;
use crate::mutant::{self, Mutant};
use crate::power::Power;
use crate::trace::request_words;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stria_block::ranges::{common, merged, without};
use stria_block::{
    BlockDevice, Completion, Data, ErrorKind, Extent, IoError, Limits, Nanos, Operation, Request, Segments, Tag, bytes,
};

/// Data that should be on a drive, and its position.
pub type Witness = (u64, Vec<u8>);

/// The kind of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The size of the drive.
    pub sectors: u64,
    /// 1 or 8: sectors that requests are aligned to.
    pub block_sectors: u64,
    /// 1 or 8: sectors that survive a power cut or are lost together.
    pub atom_sectors: u64,
    /// True if writes that ended may be lost until a flush.
    pub volatile_cache: bool,
    /// True if the drive zeroes quickly, and takes discards, which do nothing.
    pub unmap: bool,
    /// The duration of a request, in units of some 20 µs.
    pub slowness: u64,
}

/// The part of non-durable data that survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    None,
    /// Everything, requests that had not ended included.
    All,
    /// Each atom independently, with this chance, in eighths.
    Some(u8),
}

/// A write that was taken and is not durable.
struct Unflushed {
    start_sector: u64,
    /// The sectors that are not durable: all of the write, or what later writes left of it.
    range: Range<u64>,
    /// The bytes; `None`: zeros.
    data: Option<Segments<Data>>,
    /// The time of its end, in the drive's count of ends; `None`: not yet.
    ended: Option<u64>,
    id: u64,
}

struct Queued {
    due: Nanos,
    request: Request,
    /// For a flush: the drive's count of ends when it began.
    mark: u64,
    /// True for a write that was in flight when the drive was cut short, and is done nevertheless.
    lands: bool,
    /// For a write that was taken when it began: its id among the unflushed ones.
    taken: Option<u64>,
    /// The handle that sent it; [`NOBODY`]: its end was reported already.
    owner: u32,
}

/// The number that no handle has.
const NOBODY: u32 = 0;

/// The state of a drive: it answers, or the reason why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It answers.
    There,
    /// It was pulled out.
    Pulled,
    /// The process that used it is dead, and its requests are still in flight, so the drive cannot be opened.
    Held,
}

/// Writes that fail until the cause is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error.
    pub kind: ErrorKind,
    /// The chance of failure, in eighths.
    pub eighths: u8,
    /// The first sector at which writes fail.
    pub from_sector: u64,
}

/// One drive.
pub struct Drive {
    /// Its name in a trace.
    number: usize,
    limits: Limits,
    model: Model,
    power: Rc<Power>,
    chance: Chance,
    /// The contents that reads see.
    image: Image,
    /// The contents that certainly survive a power cut; `None`: the same.
    durable: Option<Image>,
    unflushed: Vec<Unflushed>,
    ends: u64,
    next_id: u64,
    queue: Vec<Queued>,
    next_due: Nanos,
    ended: Vec<(u32, Completion)>,
    owners: u32,
    presence: Presence,
    /// Sectors that cannot be read until they are written.
    bad: Vec<Range<u64>>,
    /// Such sectors that were written, and not durably: a power cut makes them unreadable again.
    healing: Vec<Range<u64>>,
    /// The number of next writes that fail.
    failing_writes: u32,
    /// The way in which writes fail while this is set.
    refusal: Option<Refusal>,
    /// No request ends before this time.
    stalled_until: Nanos,
    /// Requests to data that were sent by the first time do not end before the second.
    stuck: (Nanos, Nanos),
    mutant: Option<Mutant>,
    /// The first sector of the data area.
    data_start_sector: u64,
    /// Reads of unreadable sectors make more sectors unreadable, up to this one.
    bad_grows_to: u64,
    /// The next write to data is lost or misdirected; the second number is the end of the data.
    loses_write: Option<(Option<u64>, u64)>,
    /// Data that is missing here.
    pub witnesses: Vec<Witness>,
    /// The number of times that it was made a member, so that no identity is used twice.
    pub adopted: usize,
    /// True if flushes and FUA are acknowledged without effect.
    lies: bool,
    /// The position of bits that a mutant clears.
    bits_at: Option<u64>,
    /// The sector at which it ends, if it was cut short.
    end: Option<u64>,
    /// True if it was cut short while it was open: it fails every request until it is opened again.
    is_lost: Arc<AtomicBool>,
    /// The number of times that it was opened.
    openings: u32,
    /// The number of times that another drive took its place.
    renewals: u32,
    /// True if nothing is more durable, and no failed or killed write more complete, than it must be.
    is_harsh: bool,
    /// The next flush fails.
    fails_flush: bool,
    /// The number of flushes that have failed.
    failed_flushes: u64,
    /// It may show what a failed flush has lost.
    pub shows_lost: bool,
}

impl Drive {
    /// An empty drive.
    pub fn new(model: Model, power: Rc<Power>, chance: Chance) -> Self {
        Self::with_image(model, power, chance, Image::new(model.sectors))
    }

    /// A drive that holds `image`, durably.
    pub fn with_image(model: Model, power: Rc<Power>, chance: Chance, image: Image) -> Self {
        let limits = Limits {
            logical_block_bytes: bytes(model.block_sectors) as u32,
            physical_block_bytes: bytes(model.atom_sectors.max(model.block_sectors)) as u32,
            volatile_cache: model.volatile_cache,
            discard_granularity_bytes: if model.unmap { 4096 } else { 0 },
            unmap_zeroes: model.unmap,
            ..Limits::plain(model.sectors)
        };
        Self {
            number: 0,
            limits,
            model,
            power,
            chance,
            durable: model.volatile_cache.then(|| image.clone()),
            image,
            unflushed: Vec::new(),
            ends: 0,
            next_id: 0,
            queue: Vec::new(),
            next_due: Nanos::MAX,
            ended: Vec::new(),
            owners: 0,
            presence: Presence::There,
            bad: Vec::new(),
            healing: Vec::new(),
            failing_writes: 0,
            refusal: None,
            stalled_until: 0,
            stuck: (0, 0),
            mutant: None,
            data_start_sector: 0,
            bad_grows_to: 0,
            loses_write: None,
            witnesses: Vec::new(),
            adopted: 0,
            lies: false,
            bits_at: None,
            end: None,
            is_lost: Arc::default(),
            openings: 0,
            renewals: 0,
            is_harsh: false,
            fails_flush: false,
            failed_flushes: 0,
            shows_lost: false,
        }
    }

    /// From now on a failed write, or one that a killed process had sent, is done in part; and a write makes no more durable than
    /// its own sectors.
    pub fn set_harsh(&mut self) {
        self.is_harsh = true;
    }

    /// The next flush fails, and the cache forgets a part of what it has.
    pub fn fail_flush(&mut self) {
        self.note(|| "fails its next flush".into());
        self.fails_flush = true;
    }

    /// The same, under a number for traces.
    #[must_use]
    pub fn numbered(self, number: usize) -> Self {
        Self { number, ..self }
    }

    fn note(&self, words: impl FnOnce() -> String) {
        self.power.note(|| format!("drive {} {}", self.number, words()));
    }

    /// Writes a request to the trace.
    fn note_request(&self, request: &Request, words: impl FnOnce() -> String) {
        if self.power.trace.concerns(&(request.start_sector..request.end_sector()), self.data_start_sector) {
            self.note(|| format!("{} {}", words(), request_words(request, self.data_start_sector)));
        }
    }

    /// The kind of the drive.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Its present size.
    pub fn sectors(&self) -> u64 {
        self.end.unwrap_or(self.model.sectors)
    }

    /// True if it was cut short.
    pub fn is_short(&self) -> bool {
        self.end.is_some()
    }

    /// True if it was cut short since it was opened.
    pub fn is_cut(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// The same, for the metadata of its array.
    pub fn cut_short(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_lost)
    }

    /// The drive is cut short, and loses the data behind `end`. Half of the writes in flight are still done.
    pub fn shrink(&mut self, end: u64) {
        let end = end.min(self.sectors());
        self.note(|| format!("is cut short to {end} sectors"));
        self.end = Some(end);
        self.is_lost.store(true, Ordering::SeqCst);
        let behind = self.model.sectors - end;
        self.image.zero(end, behind);
        if let Some(durable) = &mut self.durable {
            durable.zero(end, behind);
        }
        self.unflushed.retain(|write| write.range.end <= end);
        self.heal_for_good(&(end..self.model.sectors));
        for queued in &mut self.queue {
            queued.lands = is_write(&queued.request.operation) && self.chance.one_in(2);
        }
    }

    /// A new drive takes its place, of the same size and empty.
    pub fn renew(&mut self) {
        self.note(|| "is another one, and empty".into());
        let empty = Image::new(self.model.sectors);
        self.durable = self.durable.is_some().then(|| empty.clone());
        self.image = empty;
        self.unflushed.clear();
        self.bad.clear();
        self.healing.clear();
        self.end = None;
        self.renewals += 1;
    }

    /// The number of times another drive has taken its place.
    pub fn renewals(&self) -> u32 {
        self.renewals
    }

    /// Opens the drive for a new owner.
    ///
    /// # Panics
    /// Requests are in flight: their sender still owns the drive.
    pub fn open(&mut self) {
        let is_free = self.queue.is_empty() || self.mutant == Some(Mutant::OpenedWhileHeld);
        assert!(is_free, "drive {} is opened while its last owner's requests are under way", self.number);
        self.openings += 1;
        self.is_lost = Arc::default();
        self.limits.size_sectors = self.sectors();
    }

    /// The contents that reads see.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// True if it answers.
    pub fn presence(&self) -> Presence {
        self.presence
    }

    /// From now on it behaves as `mutant` says.
    pub fn set_mutant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// True if it behaves as `mutant` says.
    pub fn is_mutant(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Sets the first sector of the data area.
    pub fn with_data_from(self, data_start_sector: u64) -> Self {
        Self { data_start_sector, ..self }
    }

    /// Sets the end of the metadata.
    pub fn data_start_sector(&self) -> u64 {
        self.data_start_sector
    }

    /// These sectors cannot be read until they are written.
    pub fn spoil(&mut self, sectors: Range<u64>) {
        self.note(|| format!("cannot read {sectors:?}"));
        // What once grew was mended since.
        if !self.is_spoiled() {
            self.bad_grows_to = 0;
        }
        self.bad.push(sectors);
    }

    /// As [`Drive::spoil`]. In addition every read that fails makes more sectors unreadable, up to `end`.
    pub fn spoil_more(&mut self, sectors: Range<u64>, end: u64) {
        self.spoil(sectors);
        self.bad_grows_to = end;
    }

    /// The same sectors as on another drive cannot be read.
    pub fn spoil_as(&mut self, other: &Self) {
        other.bad.iter().for_each(|sectors| self.spoil(sectors.clone()));
    }

    /// These sectors can be read again, with what they held.
    pub fn find(&mut self, sectors: Range<u64>) {
        self.note(|| format!("can read {sectors:?} again"));
        self.heal_for_good(&sectors);
    }

    /// The next write to data is lost, although the drive acknowledges it; or it is done at `elsewhere`, before `end`.
    pub fn lose_next_write(&mut self, elsewhere: Option<u64>, end: u64) {
        self.loses_write = Some((elsewhere, end));
    }

    /// Writes are done again, also the next one if none came since [`Drive::lose_next_write`].
    pub fn lose_no_write(&mut self) {
        self.loses_write = None;
    }

    /// From now on flushes and FUA are acknowledged without effect.
    pub fn lie(&mut self) {
        self.lies = true;
    }

    /// True if any of these sectors cannot be read.
    pub fn is_bad(&self, sectors: &Range<u64>) -> bool {
        self.bad.iter().any(|bad| bad.start < sectors.end && sectors.start < bad.end)
    }

    /// True if some sectors cannot be read, or a power cut would make them unreadable again.
    pub fn is_spoiled(&self) -> bool {
        !self.bad.is_empty() || !self.healing.is_empty()
    }

    /// True if requests to any of these sectors have not ended.
    pub fn is_at(&self, sectors: &Range<u64>) -> bool {
        let mut queued = self.queue.iter().map(|queued| &queued.request);
        queued.any(|request| request.start_sector < sectors.end && sectors.start < request.end_sector())
    }

    /// True if a power cut may take what reads see of these sectors.
    pub fn is_cached(&self, sectors: &Range<u64>) -> bool {
        let mut cached = self.unflushed.iter().filter(|write| write.ended.is_some());
        cached.any(|write| write.range.start < sectors.end && sectors.start < write.range.end)
    }

    /// True if reads may make more sectors unreadable.
    pub fn grows_bad(&self) -> bool {
        // A write into the middle of a range leaves a part in front of it that can grow again.
        self.bad.iter().chain(&self.healing).any(|bad| bad.start < self.bad_grows_to)
    }

    /// The next `count` writes fail.
    pub fn fail_writes(&mut self, count: u32) {
        self.note(|| format!("fails {count} writes"));
        self.failing_writes = count;
        self.fails_flush &= count > 0;
    }

    /// From now on writes fail in this way; `None`: they succeed again.
    pub fn refuse(&mut self, refusal: Option<Refusal>) {
        self.note(|| format!("refuses writes: {refusal:?}"));
        self.refusal = refusal;
    }

    /// True if writes are still to fail.
    pub fn is_failing(&self) -> bool {
        self.failing_writes > 0 || self.fails_flush
    }

    /// No request ends before `until`.
    pub fn stall(&mut self, until: Nanos) {
        self.note(|| format!("stalls until {:.6} ms", until as f64 / 1e6));
        self.stalled_until = until;
        for queued in &mut self.queue {
            queued.due = queued.due.max(until);
        }
        self.look();
    }

    /// Requests to data that are in flight, or that are sent within `window`, do not end before `until`. Others do.
    pub fn stick(&mut self, window: Nanos, until: Nanos) {
        self.note(|| format!("keeps requests to data until {:.6} ms", until as f64 / 1e6));
        self.stuck = (self.power.now() + window, until);
        for queued in self.queue.iter_mut().filter(|queued| queued.request.start_sector >= self.data_start_sector) {
            queued.due = queued.due.max(until);
        }
        self.look();
    }

    /// True if requests in flight wait for the end of a stall.
    pub fn hangs(&self) -> bool {
        self.stuck_until() > self.power.now()
    }

    /// True if a request in flight ends later than `time`.
    pub fn is_silent_beyond(&self, time: Nanos) -> bool {
        self.queue.iter().any(|queued| queued.due > time)
    }

    /// The time by which all requests in flight end, and those that are sent now.
    pub fn ends_by(&self) -> Nanos {
        self.queue.iter().map(|queued| queued.due).max().unwrap_or(0).max(self.stalled_until)
    }

    /// True if some requests in flight do not end for now.
    pub fn is_stalled(&self) -> bool {
        self.stuck_until() > self.power.now()
    }

    /// The time before which some requests in flight do not end.
    fn stuck_until(&self) -> Nanos {
        let until = self.stuck.1;
        let is_stuck = || self.queue.iter().any(|queued| queued.due >= until);
        match self.queue.is_empty() {
            true => 0,
            false if until > self.stalled_until && is_stuck() => until,
            false => self.stalled_until,
        }
    }

    /// The process that used the drive dies, and its requests stay in flight: the drive cannot be opened until they have ended.
    pub fn hold(&mut self) {
        self.note(|| "is held by what a dead process asked for".into());
        self.presence = Presence::Held;
        self.queue.iter_mut().for_each(|queued| queued.owner = NOBODY);
        self.ended.clear();
    }

    /// The drive as a mutant sees it: the next process opens it at once, and works beside the requests of the dead one.
    pub fn leave_unheld(&mut self) {
        self.queue.iter_mut().for_each(|queued| queued.owner = NOBODY);
        self.ended.clear();
        (self.stalled_until, self.stuck) = (0, (0, 0));
    }

    /// True if a held drive is free again, because all requests have ended.
    pub fn is_let_go(&mut self) -> bool {
        if self.presence == Presence::Held && self.stuck_until() <= self.power.now() && !self.queue.is_empty() {
            self.orphan();
        }
        self.presence == Presence::Held && self.queue.is_empty()
    }

    /// Inverts bits of a sector, at rest.
    pub fn corrupt(&mut self, sector: u64) {
        let mut bytes = self.image.bytes_of(sector, 1);
        let at = self.chance.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 + self.chance.below(255) as u8;
        self.put(sector, &bytes);
    }

    /// True if it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Writes bytes durably and at once, as tools do before an array runs.
    pub fn put(&mut self, start_sector: u64, bytes: &[u8]) {
        self.heal_for_good(&(start_sector..start_sector + bytes.len() as u64 / 512));
        self.image.write(start_sector, bytes);
        if let Some(durable) = &mut self.durable {
            durable.write(start_sector, bytes);
        }
    }

    /// Makes all taken writes durable: an orderly power-down.
    pub fn sync(&mut self) {
        self.persist_where(|write| write.ended.is_some());
    }

    /// A power cut. `keep`: the part that survives of writes that were not durable, and of requests that had not ended.
    pub fn cut(&mut self, keep: Keep) {
        let mut left: Vec<Unflushed> = std::mem::take(&mut self.unflushed);
        let mut queue = std::mem::take(&mut self.queue);
        self.next_due = Nanos::MAX;
        // Requests that had not been taken may arrive in any order.
        while !queue.is_empty() {
            let queued = queue.swap_remove(self.chance.below(queue.len() as u64) as usize);
            let Request { start_sector, sectors, operation, .. } = queued.request;
            let data = match operation {
                Operation::Write { from, .. } => Some(from),
                Operation::WriteZeroes { .. } => None,
                Operation::Read { .. } | Operation::Flush | Operation::Extents { .. } => continue,
            };
            if queued.taken.is_none() {
                left.push(Unflushed { start_sector, range: start_sector..start_sector + sectors, data, ended: None, id: 0 });
            }
        }
        self.settle_cache(left, keep, "power cut");
        if !self.healing.is_empty() {
            self.note(|| format!("cannot read {:?} again", self.healing));
            self.bad.append(&mut self.healing);
            self.bad = merged(std::mem::take(&mut self.bad));
        }
        self.ended.clear();
        (self.stalled_until, self.stuck) = (0, (0, 0));
    }

    /// Decides atom by atom which of these writes are durable. The others are lost.
    fn settle_cache(&mut self, left: Vec<Unflushed>, keep: Keep, cause: &str) {
        let atom = self.model.atom_sectors;
        let target = self.durable.as_mut().unwrap_or(&mut self.image);
        let mut kept = Vec::new();
        for write in left {
            let Range { start: mut next, end } = write.range;
            let mut lost = Vec::new();
            while next < end {
                let atom_end = ((next / atom + 1) * atom).min(end);
                let is_durable = match keep {
                    Keep::None => false,
                    Keep::All => true,
                    Keep::Some(eighths) => self.chance.below(8) < u64::from(eighths),
                };
                if is_durable {
                    take(target, next..atom_end, write.start_sector, write.data.as_ref());
                    kept.push(next..atom_end);
                } else {
                    lost.extend(next..atom_end);
                }
                next = atom_end;
            }
            if self.power.trace.concerns(&write.range, self.data_start_sector) {
                let sectors = write.range.end - write.range.start;
                let (number, range) = (self.number, format!("{}+{sectors}", write.range.start));
                self.power.note(|| format!("drive {number} {cause}: write {range} {}", lost_words(&lost, sectors)));
            }
        }
        self.stay_healed(&kept);
        if let Some(durable) = &self.durable {
            self.image.clone_from(durable);
        }
        self.shows_lost = false;
    }

    /// A flush fails: a part of what the cache had is durable. The rest is read until the power goes, and no later flush makes it
    /// durable.
    fn lose_cache(&mut self) {
        let (ended, open) = std::mem::take(&mut self.unflushed).into_iter().partition(|write| write.ended.is_some());
        self.unflushed = open;
        let seen = self.image.clone();
        self.settle_cache(ended, Keep::Some(4), "failed flush");
        self.image = seen;
    }

    /// True if a request has not ended.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The process that used it is gone. Each unfinished request may still be carried out or not.
    pub fn orphan(&mut self) {
        if self.is_harsh {
            // In any order.
            for index in (1..self.queue.len()).rev() {
                self.queue.swap(index, self.chance.below(index as u64 + 1) as usize);
            }
        }
        for queued in std::mem::take(&mut self.queue) {
            let arrives = self.chance.one_in(2);
            if arrives && self.is_harsh && queued.taken.is_none() && self.chance.one_in(2) {
                self.note_request(&queued.request, || "orphan arrives in part:".into());
                self.take_in_part(&queued.request);
                continue;
            }
            if is_write(&queued.request.operation) {
                let words = if arrives || queued.taken.is_some() { "orphan arrives:" } else { "orphan is lost:" };
                self.note_request(&queued.request, || words.into());
            }
            if let Some(id) = queued.taken {
                self.end_of(id);
            } else if arrives && is_write(&queued.request.operation) {
                let id = self.take(&queued.request);
                self.end_of(id);
                if is_fua(&queued.request.operation) && !self.lies {
                    self.persist_where(|write| write.id == id);
                }
            }
        }
        self.next_due = Nanos::MAX;
        self.ended.clear();
    }

    /// The drive is pulled and loses power: requests in flight end with an error.
    pub fn pull(&mut self, keep: Keep) {
        self.note(|| "is pulled".into());
        self.presence = Presence::Pulled;
        // Completions in flight still arrive.
        let mut gone = std::mem::take(&mut self.ended);
        for queued in &mut self.queue {
            let Request { tag, start_sector, sectors, operation } = &queued.request;
            let again = match operation {
                Operation::Write { from, fua } => Operation::Write { from: from.clone(), fua: *fua },
                Operation::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua: *fua, unmap: *unmap, fast: *fast },
                _ => Operation::Flush,
            };
            let stays = Request { tag: *tag, start_sector: *start_sector, sectors: *sectors, operation: again };
            gone.push((queued.owner, std::mem::replace(&mut queued.request, stays).complete(Err(pulled()))));
        }
        self.cut(keep);
        self.ended = gone;
    }

    /// The drive is back in its place.
    pub fn put_back(&mut self) {
        self.note(|| "is put back".into());
        self.presence = Presence::There;
        self.ended.clear();
    }

    fn look(&mut self) {
        self.next_due = self.queue.iter().map(|queued| queued.due).min().unwrap_or(Nanos::MAX);
    }

    /// Takes a write into the image. With a cache it is noted as not durable. Returns its id.
    fn take(&mut self, request: &Request) -> u64 {
        let range = request.start_sector..request.end_sector();
        let data = match &request.operation {
            Operation::Write { from, .. } => Some(from),
            _ => None,
        };
        take(&mut self.image, range.clone(), request.start_sector, data);
        self.next_id += 1;
        if self.durable.is_some() {
            self.unflushed.push(Unflushed {
                start_sector: request.start_sector,
                range,
                data: data.cloned(),
                ended: None,
                id: self.next_id,
            });
        }
        self.next_id
    }

    /// Takes some atoms of a write.
    fn take_in_part(&mut self, request: &Request) {
        if !is_write(&request.operation) {
            return;
        }
        let (atom, end) = (self.model.atom_sectors, request.end_sector());
        let data = if let Operation::Write { from, .. } = &request.operation { Some(from) } else { None };
        let mut next = request.start_sector;
        self.next_id += 1;
        while next < end {
            let range = next..((next / atom + 1) * atom).min(end);
            next = range.end;
            if self.chance.one_in(2) {
                self.heal(&range);
                take(&mut self.image, range.clone(), request.start_sector, data);
                if self.durable.is_some() {
                    let (start_sector, data) = (request.start_sector, data.cloned());
                    self.unflushed.push(Unflushed { start_sector, range, data, ended: None, id: self.next_id });
                } else {
                    self.stay_healed(slice::from_ref(&range));
                }
            }
        }
        self.ends += 1;
        let (id, ends) = (self.next_id, self.ends);
        self.unflushed.iter_mut().filter(|write| write.id == id).for_each(|write| write.ended = Some(ends));
    }

    fn end_of(&mut self, id: u64) {
        self.ends += 1;
        // A flush may have made it durable before it ended.
        let (ends, parts_max) = (self.ends, if self.is_harsh { usize::MAX } else { 1 });
        let own = self.unflushed.iter_mut().rev().filter(|write| write.id == id);
        own.take(parts_max).for_each(|write| write.ended = Some(ends));
    }

    /// Makes writes durable that had ended by `mark`.
    fn persist(&mut self, mark: u64) {
        self.persist_where(|write| write.ended.is_some_and(|ended| ended <= mark));
    }

    /// Makes some writes durable, after those that they overlap, so that older data never covers newer data.
    fn persist_where(&mut self, wanted: impl Fn(&Unflushed) -> bool) {
        let Some(durable) = &mut self.durable else { return };
        let mut persisted = Vec::new();
        if self.is_harsh {
            persisted.extend(self.unflushed.iter().filter(|write| wanted(write)).map(|write| write.range.clone()));
            persist_own(durable, &mut self.unflushed, wanted);
            return self.stay_healed(&persisted);
        }
        let mut going: SmallVec<[Range<u64>; 32]> = SmallVec::new();
        let mut goes: SmallVec<[bool; 64]> = SmallVec::from_elem(false, self.unflushed.len());
        let all = self.unflushed.iter().all(&wanted);
        for (index, write) in self.unflushed.iter().enumerate().rev() {
            let own = write.range.clone();
            goes[index] = all || wanted(write) || going.iter().any(|later| later.start < own.end && own.start < later.end);
            if goes[index] && !all {
                going.push(own);
            }
        }
        let mut index = 0;
        self.unflushed.retain(|write| {
            index += 1;
            if goes[index - 1] {
                take(durable, write.range.clone(), write.start_sector, write.data.as_ref());
                persisted.push(write.range.clone());
            }
            !goes[index - 1]
        });
        self.stay_healed(&persisted);
    }

    /// The answer of a drive that was cut short to a request.
    fn shortness(&mut self, request: &Request) -> Option<IoError> {
        let end = self.end?;
        let behind = request.end_sector() > end;
        match self.mutant {
            Some(Mutant::ShortReadsUnreadable) if behind && matches!(request.operation, Operation::Read { .. }) => {
                Some(IoError::new(ErrorKind::Medium, format!("short read at sector {}", request.start_sector)))
            }
            Some(Mutant::ShortReadsUnreadable | Mutant::ShortReadsZeros) => {
                if behind && is_write(&request.operation) {
                    let end = request.end_sector();
                    self.end = (end < self.model.sectors).then_some(end);
                }
                None
            }
            _ if self.is_cut() => {
                let (before, drive) = (self.limits.size_sectors, self.number);
                let what = format!("member drive{drive}: it was cut short while in use, from {before} to {end} sectors");
                Some(IoError::new(ErrorKind::Gone, what))
            }
            _ => None,
        }
    }

    fn fault(&mut self, request: &Request) -> Option<IoError> {
        let range = request.start_sector..request.end_sector();
        let hits = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
        match request.operation {
            Operation::Read { .. } if self.bad.iter().any(hits) => {
                self.grow_bad();
                Some(IoError::new(ErrorKind::Medium, format!("medium error near sector {}", range.start)))
            }
            Operation::Write { .. } | Operation::WriteZeroes { .. } if self.failing_writes > 0 => {
                self.failing_writes -= 1;
                Some(IoError::new(ErrorKind::Medium, format!("write error at sector {}", range.start)))
            }
            Operation::Write { .. } | Operation::WriteZeroes { .. } => self.refusal(range.start),
            Operation::Flush if std::mem::take(&mut self.fails_flush) => {
                self.lose_cache();
                self.failed_flushes += 1;
                self.shows_lost = true;
                self.power.flush_failed.set(true);
                Some(IoError::new(ErrorKind::Medium, "flush error"))
            }
            _ => None,
        }
    }

    fn refusal(&mut self, sector: u64) -> Option<IoError> {
        let Refusal { kind, eighths, .. } = self.refusal.filter(|refusal| refusal.from_sector <= sector)?;
        let fails = self.chance.below(8) < u64::from(eighths);
        fails.then(|| IoError::new(kind, format!("write refused at sector {sector}")))
    }

    /// A failed read makes more sectors unreadable, where that was asked for.
    fn grow_bad(&mut self) {
        let end = self.bad_grows_to;
        for bad in self.bad.iter_mut().filter(|bad| bad.end < end) {
            bad.end = (bad.end + 8).min(end);
            self.power.bad_grew.set(true);
        }
        // Merges overlapping ranges; otherwise healing would make ever more ranges of the same sectors.
        self.bad = merged(std::mem::take(&mut self.bad));
    }

    /// A write heals the sectors that it covers, for good once it is durable.
    fn heal(&mut self, range: &Range<u64>) {
        if !self.bad.is_empty() {
            self.healing.extend(self.bad.iter().map(|bad| common(bad, range)).filter(|healed| !healed.is_empty()));
            self.bad = without(&self.bad, slice::from_ref(range));
        }
    }

    /// What was written to these sectors is durable.
    fn stay_healed(&mut self, ranges: &[Range<u64>]) {
        if !self.healing.is_empty() {
            self.healing = without(&self.healing, ranges);
        }
    }

    fn heal_for_good(&mut self, range: &Range<u64>) {
        self.heal(range);
        self.stay_healed(slice::from_ref(range));
    }

    /// Lets a mutant change a request before the drive sees it. `true`: it ends at once without effect.
    fn is_swallowed(&self, lane: usize, request: &Request) -> bool {
        let Some(mutant) = self.mutant else { return false };
        let metadata = request.start_sector < self.data_start_sector;
        mutant.swallows(lane, request, metadata, self.power.client_flush.get() > 0)
    }

    fn submit(&mut self, owner: u32, lane: usize, mut request: Request) {
        if self.presence == Presence::Pulled {
            return self.ended.push((owner, request.complete(Err(pulled()))));
        }
        if !self.power.tick(true) {
            return;
        }
        if let Err(error) = request.check(&self.limits) {
            panic!("the engine sent a bad request: {error}");
        }
        if self.is_swallowed(lane, &request) {
            return self.ended.push((owner, request.complete(Ok(()))));
        }
        if let (Some(mutant), Operation::Write { fua, .. } | Operation::WriteZeroes { fua, .. }) =
            (self.mutant, &mut request.operation)
            && mutant.forgets_fua(request.start_sector < self.data_start_sector)
        {
            *fua = false;
        }
        let owner = self.mutate(owner, &mut request);
        self.note_request(&request, || "<".into());
        let now = self.power.now();
        let base = match request.operation {
            Operation::Read { .. } => 3,
            Operation::Flush => 8,
            _ => 1,
        } * self.model.slowness;
        let luck = self.chance.any();
        let outlier = if luck & 0xff == 0 { 64 } else { 1 };
        let latency = 20_000 * base * outlier + (luck >> 8) % (20_000 * base * 2);
        let late = if owner == NOBODY { mutant::LATE } else { 0 };
        let is_stuck = now <= self.stuck.0 && request.start_sector >= self.data_start_sector && owner != NOBODY;
        let least = if is_stuck { self.stuck.1.max(self.stalled_until) } else { self.stalled_until };
        let due = (now + latency + late).max(least);
        let due = due.next_multiple_of(self.power.ends_every.get().max(1));
        let fua = is_fua(&request.operation);
        let early = luck >> 63 == 0 && self.durable.is_some() && is_write(&request.operation);
        let early = early && self.loses_write.is_none() && self.end.is_none();
        let taken = (early && !fua && self.failing_writes == 0).then(|| self.take(&request));
        self.next_due = self.next_due.min(due);
        self.queue.push(Queued { due, request, mark: self.ends, lands: false, taken, owner });
    }

    /// True if a write is lost. Then the data that it should have written, and its effect elsewhere, is stored as a witness.
    fn is_lost(&mut self, request: &Request) -> bool {
        let Operation::Write { from, .. } = &request.operation else { return false };
        // Metadata has checksums and is read only at a start.
        let Some((elsewhere, end)) = self.loses_write.filter(|_| request.start_sector >= self.data_start_sector) else {
            return false;
        };
        self.loses_write = None;
        let data: Vec<u8> = from.iter().flat_map(|data| data.iter().copied()).collect();
        let own = request.start_sector..request.end_sector();
        if let Some(start) = elsewhere {
            let block = self.model.block_sectors;
            let start = start.min(end.saturating_sub(request.sectors)) / block * block;
            let victim = start..start + request.sectors;
            if start >= self.data_start_sector && (victim.end <= own.start || own.end <= victim.start) {
                self.witnesses.push((start, self.image.bytes_of(start, request.sectors)));
                self.put(start, &data);
            }
        }
        self.witnesses.push((own.start, data));
        true
    }

    /// A write after a lost write changes the data that should be there.
    fn correct_witnesses(&mut self, request: &Request) {
        let Operation::Write { from, .. } = &request.operation else { return };
        for (start, right) in &mut self.witnesses {
            let end = *start + right.len() as u64 / 512;
            for (sector, part) in (request.start_sector..).zip(from.iter().flat_map(|data| data.chunks(512))) {
                if (*start..end).contains(&sector) {
                    right[bytes(sector - *start)..][..512].copy_from_slice(part);
                }
            }
        }
    }

    /// Lets a mutant change a request before it is executed. Returns the handle that receives its end.
    fn mutate(&mut self, owner: u32, request: &mut Request) -> u32 {
        match self.mutant {
            Some(mutant @ (Mutant::PartialWrong | Mutant::NewDataWrong)) => {
                let superblock = self.image.bytes_of(mutant::SUPERBLOCK_SECTOR, mutant::SUPERBLOCK_SECTORS);
                if let Operation::Write { from, .. } = &mut request.operation
                    && let Some(wrong) = mutant::with_wrong_bit(&from[0], &superblock, mutant == Mutant::NewDataWrong)
                {
                    from[0] = wrong;
                }
            }
            Some(Mutant::LaneIntentDropped) if mutant::writes_bits(request) => {
                let (lanes, group_sectors) = self.power.shares.get();
                if let Operation::Write { from, .. } = &mut request.operation {
                    from[0] = mutant::without_other_lanes(&from[0], lanes, group_sectors);
                }
            }
            Some(Mutant::DropRecordedLate) => {
                let before = self.image.bytes_of(mutant::SUPERBLOCK_SECTOR, mutant::SUPERBLOCK_SECTORS);
                if mutant::drops_a_member(request, &before) {
                    let Operation::Write { from, fua } = &request.operation else { unreachable!("it writes a superblock") };
                    let operation = Operation::Write { from: from.clone(), fua: *fua };
                    self.ended.push((owner, Completion { tag: request.tag, result: Ok(()), operation }));
                    return NOBODY;
                }
            }
            _ => {}
        }
        owner
    }

    /// Lets a mutant act once a write has ended.
    fn mutate_after(&mut self, request: &Request) {
        if self.mutant != Some(Mutant::IntentClearedEarly) {
            return;
        }
        if mutant::writes_bits(request) {
            self.bits_at = Some(request.start_sector);
        } else if request.start_sector >= self.data_start_sector
            && let Some(sector) = self.bits_at.take()
        {
            let mut bits = self.image.bytes_of(sector, 1);
            mutant::clear_bits(&mut bits);
            self.put(sector, &bits);
        }
    }

    #[inline(never)]
    fn poll(&mut self, owner: u32, completions: &mut Vec<Completion>) {
        if !self.ended.is_empty() {
            let (own, others) = std::mem::take(&mut self.ended).into_iter().partition(|(known, _)| *known == owner);
            self.ended = others;
            let own: Vec<(u32, Completion)> = own;
            completions.extend(own.into_iter().map(|(_, completion)| completion));
        }
        let now = self.power.now();
        while self.next_due <= now {
            let own = |queued: &Queued| (queued.owner == owner || queued.owner == NOBODY) && queued.due <= now;
            let due = self.queue.iter().enumerate().filter(|(_, queued)| own(queued));
            let Some((index, _)) = due.min_by_key(|(_, queued)| queued.due) else { return };
            if !self.power.tick(false) {
                return;
            }
            let queued = self.queue.swap_remove(index);
            self.look();
            let is_received = queued.owner != NOBODY;
            let completion = self.end(queued);
            if is_received {
                completions.push(completion);
            }
        }
    }

    fn next_wake(&self, owner: u32) -> Option<Nanos> {
        if self.ended.iter().any(|(known, _)| *known == owner) {
            return Some(0);
        }
        let own = |queued: &&Queued| queued.owner == owner || queued.owner == NOBODY;
        self.queue.iter().filter(own).map(|queued| queued.due).min()
    }

    fn end(&mut self, queued: Queued) -> Completion {
        let Queued { mut request, mark, lands, taken, .. } = queued;
        let short = if lands { None } else { self.shortness(&request) };
        if let Some(error) = short.or_else(|| self.fault(&request)) {
            self.note_request(&request, || format!("fails ({error})"));
            // A flush makes the visible part durable, as if the write had not failed.
            if let Some(id) = taken {
                self.end_of(id);
            } else if self.is_harsh && self.end.is_none() {
                self.take_in_part(&request);
            }
            return request.complete(Err(error));
        }
        self.note_request(&request, || ">".into());
        let range = request.start_sector..request.end_sector();
        match &mut request.operation {
            Operation::Read { into } => {
                let mut next = range.start;
                for buffer in into {
                    self.image.read(next, buffer);
                    next += buffer.len() as u64 / 512;
                }
            }
            Operation::Flush if self.lies => {}
            Operation::Flush => self.persist(mark),
            Operation::Extents { extents } => {
                let hole = self.image.is_empty(range.start, range.end - range.start);
                *extents = vec![Extent { sectors: range.end - range.start, hole }];
            }
            Operation::Write { .. } | Operation::WriteZeroes { .. } => {
                self.heal(&range);
                if self.is_lost(&request) {
                    return request.complete(Ok(()));
                }
                self.correct_witnesses(&request);
                let id = taken.unwrap_or_else(|| self.take(&request));
                self.end_of(id);
                if is_fua(&request.operation) && !self.lies {
                    self.persist_where(|write| write.id == id);
                }
                if !self.healing.is_empty() {
                    // Without a cache it is durable, and a flush may have made it so before its end.
                    let open: Vec<Range<u64>> = self.unflushed.iter().map(|write| write.range.clone()).collect();
                    self.stay_healed(&without(slice::from_ref(&range), &open));
                }
                self.mutate_after(&request);
            }
        }
        request.complete(Ok(()))
    }
}

/// Makes some writes durable, and no sector besides theirs. Older data that they cover is gone for good.
fn persist_own(durable: &mut Image, unflushed: &mut Vec<Unflushed>, wanted: impl Fn(&Unflushed) -> bool) {
    let mut kept: Vec<Unflushed> = Vec::with_capacity(unflushed.len());
    for write in unflushed.drain(..) {
        if !wanted(&write) {
            kept.push(write);
            continue;
        }
        take(durable, write.range.clone(), write.start_sector, write.data.as_ref());
        let cover = write.range;
        let rest = |older: Unflushed| {
            let Range { start, end } = older.range;
            let parts = [start..end.min(cover.start).max(start), start.max(cover.end).min(end)..end];
            let part = move |range| Unflushed { range, data: older.data.clone(), ..older };
            parts.into_iter().filter(|range| !range.is_empty()).map(part)
        };
        kept = kept.into_iter().flat_map(rest).collect();
    }
    *unflushed = kept;
}

fn is_fua(operation: &Operation) -> bool {
    matches!(operation, Operation::Write { fua: true, .. } | Operation::WriteZeroes { fua: true, .. })
}

fn is_write(operation: &Operation) -> bool {
    matches!(operation, Operation::Write { .. } | Operation::WriteZeroes { .. })
}

/// The lost part of a write.
fn lost_words(lost: &[u64], sectors: u64) -> String {
    match lost.len() as u64 {
        0 => "is kept".into(),
        count if count == sectors => "is lost".into(),
        _ => format!("is torn, without {lost:?}"),
    }
}

fn pulled() -> IoError {
    IoError::new(ErrorKind::Gone, "the drive was pulled")
}

/// Stores sectors `range` of a write that starts at `start_sector` in an image; `None`: zeros.
fn take(image: &mut Image, range: Range<u64>, start_sector: u64, data: Option<&Segments<Data>>) {
    let Some(segments) = data else { return image.zero(range.start, range.end - range.start) };
    let (mut from, mut len, mut at) = (bytes(range.start - start_sector), bytes(range.end - range.start), range.start);
    for segment in segments {
        if from >= segment.len() {
            from -= segment.len();
            continue;
        }
        let part = &segment[from..(from + len).min(segment.len())];
        image.write(at, part);
        (from, len, at) = (0, len - part.len(), at + part.len() as u64 / 512);
        if len == 0 {
            return;
        }
    }
}

/// A drive as an array's member.
pub struct DriveHandle {
    drive: Rc<RefCell<Drive>>,
    limits: Limits,
    /// Its number; its requests end through this handle only.
    owner: u32,
    /// The lane that uses it, for mutants.
    lane: usize,
    /// The opening of the drive to which it belongs.
    opening: u32,
    /// The number of failed flushes of the drive that this lane was told.
    told_failed: u64,
    /// The flushes in flight, with that number when they began.
    flushes: Vec<(Tag, u64)>,
}

impl DriveHandle {
    /// A handle for a lane. A drive may have several, at the same time or one after the other.
    pub fn new(drive: &Rc<RefCell<Drive>>, lane: usize) -> Self {
        let mut own = drive.borrow_mut();
        own.owners += 1;
        Self {
            drive: Rc::clone(drive),
            limits: own.limits.clone(),
            owner: own.owners,
            lane,
            opening: own.openings,
            told_failed: own.failed_flushes,
            flushes: Vec::new(),
        }
    }

    /// Fails a flush if another one has failed meanwhile, or one of another lane since the last one of this lane: in `stria_drive`
    /// one flush of a lane runs at a time, and each lane is told.
    fn tell_of_others(&mut self, ended: &mut [Completion], failed: u64) {
        for completion in ended.iter_mut().filter(|completion| matches!(completion.operation, Operation::Flush)) {
            let begun = self.flushes.iter().position(|&(tag, _)| tag == completion.tag).expect("it was sent");
            let (_, known) = self.flushes.swap_remove(begun);
            if known.min(std::mem::replace(&mut self.told_failed, failed)) < failed && completion.result.is_ok() {
                completion.result = Err(IoError::new(ErrorKind::Other, "another flush failed"));
            }
        }
    }
}

impl BlockDevice for DriveHandle {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        let mut drive = self.drive.borrow_mut();
        assert_eq!(drive.openings, self.opening, "drive {} is used through a handle of an earlier owner", drive.number);
        if matches!(request.operation, Operation::Flush) {
            self.flushes.push((request.tag, drive.failed_flushes));
        }
        drive.submit(self.owner, self.lane, request);
    }

    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        let first = completions.len();
        let mut drive = self.drive.borrow_mut();
        // Most polls find nothing.
        if !drive.ended.is_empty() || drive.next_due <= drive.power.now() {
            drive.poll(self.owner, completions);
        }
        let failed = drive.failed_flushes;
        drop(drive);
        self.tell_of_others(&mut completions[first..], failed);
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.drive.borrow().next_wake(self.owner)
    }
}
