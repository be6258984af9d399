//! A drive as a [`BlockDevice`]: requests become jobs on the ring.
//!
//! It decides the way that a request takes. Transfers go to the ring, and the kernel is told not to wait. What the kernel cannot
//! take without waiting, and everything else, goes to threads that belong to this drive alone ([`crate::workers`]). So nothing
//! blocks the lane, and a drive that hangs occupies nothing that another drive needs.
//!
//! One flush is in flight at a time. Flushes that arrive meanwhile wait for its end and then run as one: a flush covers the
//! writes that ended before it began, and a running one may have begun too early.
//!
//! The kernel reports a lost write to one flush of a file alone. If a flush of one lane fails, the next flush of every other lane
//! fails as well. A FUA write flushes, too, where the drive has no command for it: if one fails, the next flush of every lane fails.
//! A flush that succeeds waits for those in flight beside it ([`crate::reports`]).

use crate::info::Waits;
use crate::job::{Job, Pieces, Step};
use crate::parts::{CutTransfers, PartOf};
use crate::registered::Registered;
use crate::ring::{EndedJobs, Ring};
use crate::size::SeenSpace;
use crate::sync_drive::WeakDrive;
use crate::workers::{FirstThread, Work, Workers};
use crate::{Access, DriveError, DriveInfo, DriveKind, SyncDrive};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use stria_block::{BlockDevice, Completion, ErrorKind, Extent, IoError, Limits, Nanos, Operation, Request, Timings, TroubleKind};

/// A block device or file on a ring.
///
/// Dropping it leaves requests to the kernel that are in flight there. Their completions are discarded, and the file and its
/// lock stay until they have ended (R16, [`Ring::drain`]).
pub struct FileDrive {
    drive: SyncDrive,
    ring: Ring,
    /// Jobs of this drive that have ended, as the ring sorted them.
    ended_jobs: Rc<EndedJobs>,
    /// The same, while they are processed.
    at_hand: Vec<(Job, i32)>,
    completions: Vec<Completion>,
    workers: Workers,
    /// The number of its requests that its threads carry out, as last reported to the ring.
    told_count: usize,
    flushes: Flushes,
    spare_pieces: Vec<Pieces>,
    transfers: CutTransfers,
    /// The addresses of memory that is registered with the ring.
    memory: Range<usize>,
    registered: Option<Rc<Registered>>,
    /// Why the drive is not reached in the way that was asked for.
    way_note: Option<String>,
    watched: Rc<Watched>,
    /// The space that its file occupied at the last check, and the turn of that check.
    seen_space: SeenSpace,
    looked_at: Option<Nanos>,
}

/// Flushes that have not ended.
#[derive(Default)]
struct Flushes {
    /// The flushes that the one in flight stands for.
    running: Vec<Request>,
    /// Flushes that have arrived since it was sent.
    next: Vec<Request>,
    /// The number of failed flushes of the drive that this lane was told.
    told_failed: u64,
}

/// The way of reads and writes to a drive and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Through the block layer or the file system; completions raise interrupts.
    #[default]
    Usual,
    /// Through the block layer; completions are polled for.
    Polled,
    /// As NVMe commands past the block layer. Flushes too, unless completions are polled for. Zeroing and discards go through the
    /// block device.
    Passthrough {
        /// Completions are polled for.
        polled: bool,
    },
}

impl Way {
    /// True if this step is sent as a command.
    fn commands(self, step: Step) -> bool {
        match (self, step) {
            (Self::Passthrough { .. }, Step::Transfer) => true,
            // A command without data cannot be polled for: Linux 6.1 mistakes its completion for one to poll, and oopses.
            (Self::Passthrough { polled }, Step::Sync) => !polled,
            _ => false,
        }
    }
}

/// The state that a drive's [`DriveWatch`] shares with it.
#[derive(Default)]
struct Watched {
    way: Cell<Way>,
    timings: RefCell<Timings>,
    /// The arrival time of the oldest request that the drive's threads carry out.
    oldest_of_workers: Cell<Option<Nanos>>,
    /// The time at which the last request ended.
    last_end: Cell<Nanos>,
    /// The time at which the last request failed for want of space.
    no_space: Cell<Option<Nanos>>,
}

/// Reports how a drive answers, also while other code owns the drive.
#[derive(Clone)]
pub struct DriveWatch {
    ring: Ring,
    jobs: Rc<EndedJobs>,
    watched: Rc<Watched>,
    drive: WeakDrive,
    first_thread: FirstThread,
}

impl DriveWatch {
    /// Checks that the drive is still as large as when it was opened. Returns why it is lost, if it is.
    pub fn look_at_size(&self) -> Option<IoError> {
        self.drive.upgrade()?.look_at_size()
    }

    /// Starts the thread on which the drive's first flush runs, before there is one. It stays as long as the drive is on its ring.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start_thread(&self) -> std::io::Result<()> {
        self.drive.upgrade().map_or(Ok(()), |drive| self.first_thread.start(drive.info()))
    }

    /// The open drive, while it is open.
    pub fn drive(&self) -> Option<SyncDrive> {
        self.drive.upgrade()
    }

    /// The way of its reads and writes now.
    pub fn way(&self) -> Way {
        self.watched.way.get()
    }

    /// The durations of its requests.
    pub fn timings(&self) -> Timings {
        self.watched.timings.borrow().clone()
    }

    /// Forgets the recent requests: those that come are of another kind.
    pub fn forget_recent(&self) {
        let mut timings = self.watched.timings.borrow_mut();
        timings.read.forget_recent();
        timings.write.forget_recent();
    }

    /// The arrival time of the oldest request that it has not answered, by the clock of its lane.
    pub fn oldest(&self) -> Option<Nanos> {
        self.ring.oldest(&self.jobs).into_iter().chain(self.watched.oldest_of_workers.get()).min()
    }

    /// The time at which it last ended a request, by the clock of its lane; 0: never.
    pub fn last_end(&self) -> Nanos {
        self.watched.last_end.get()
    }

    /// The time at which a request last failed because the file system or pool below has no space, by the clock of its lane.
    pub fn no_space(&self) -> Option<Nanos> {
        self.watched.no_space.get()
    }
}

/// Opens the drive at `path` and puts it on `ring`.
///
/// # Errors
/// As [`SyncDrive::open`].
pub fn open(path: &Path, ring: &Ring, access: Access) -> Result<FileDrive, DriveError> {
    SyncDrive::open(path, access).map(|drive| FileDrive::new(drive, ring))
}

impl FileDrive {
    /// Puts an open drive on `ring`. Several lanes may each have a `FileDrive` of the same drive.
    pub fn new(drive: SyncDrive, ring: &Ring) -> Self {
        let (way, way_note) = way_to(&drive, ring);
        let aside = match way {
            Way::Usual => None,
            Way::Polled => Some((true, drive.file())),
            Way::Passthrough { polled } => drive.passthrough().map(|to| (polled, &to.file)),
        };
        let seen_space = drive.size().space_at_open();
        let flushes = Flushes { told_failed: drive.failed_flushes(), ..Flushes::default() };
        Self {
            transfers: CutTransfers::default(),
            memory: ring.memory(),
            registered: ring.register(drive.file(), aside),
            way_note,
            drive,
            ring: ring.clone(),
            ended_jobs: Rc::default(),
            at_hand: Vec::new(),
            completions: Vec::new(),
            workers: Workers::new(ring.waker()),
            told_count: 0,
            flushes,
            spare_pieces: Vec::new(),
            watched: Rc::new(Watched { way: Cell::new(way), ..Watched::default() }),
            seen_space,
            looked_at: None,
        }
    }

    /// Why the drive is not reached in the way that was asked for, if so.
    pub fn way_note(&self) -> Option<&str> {
        self.way_note.as_deref()
    }

    /// A handle that reports how the drive answers.
    pub fn watch(&self) -> DriveWatch {
        let (ring, jobs, watched) = (self.ring.clone(), Rc::clone(&self.ended_jobs), Rc::clone(&self.watched));
        DriveWatch { ring, jobs, watched, drive: self.drive.downgrade(), first_thread: self.workers.first_thread() }
    }

    /// The kind of drive.
    pub fn info(&self) -> &DriveInfo {
        self.drive.info()
    }

    /// The same open drive, for blocking calls.
    pub fn drive(&self) -> &SyncDrive {
        &self.drive
    }

    fn check(&mut self, request: &Request) -> Result<(), IoError> {
        request.check(self.limits())?;
        // A file that has become shorter must not be written behind its end.
        if !matches!(request.operation, Operation::Read { .. } | Operation::Extents { .. })
            && self.looked_at != Some(self.ring.now())
        {
            self.look_at_file();
        }
        self.drive.lost().map_or(Ok(()), Err)?;
        match request.operation {
            Operation::Read { .. } | Operation::Extents { .. } => Ok(()),
            Operation::Flush if self.drive.access() == Access::ReadOnly => Ok(()),
            Operation::Write { .. } | Operation::Flush | Operation::WriteZeroes { .. } => self.drive.check_writable(),
        }
    }

    /// Checks that the file is still as long as it was, see [`crate::size`]. One look serves all requests of a turn.
    fn look_at_file(&mut self) {
        if self.drive.size().is_of_file() {
            self.looked_at = Some(self.ring.now());
            self.drive.size().look_at_file(self.drive.file(), self.drive.name(), &mut self.seen_space);
        }
    }

    /// The result of a request. It is an error if the drive has become smaller, as the data cannot be relied on then.
    fn unless_lost(&self, result: Result<(), IoError>) -> Result<(), IoError> {
        if let Err(error) = &result {
            if error.kind == ErrorKind::NoSpace {
                self.watched.no_space.set(Some(self.ring.now()));
            }
            self.drive.look_at_size();
        }
        self.drive.lost().map_or(result, Err)
    }

    fn end(&mut self, request: Request, result: Result<(), IoError>) {
        self.completions.push(request.complete(result));
    }

    fn start(&mut self, request: Request, step: Step) {
        self.start_part(request, step, None);
    }

    fn start_part(&mut self, request: Request, step: Step, part_of: Option<PartOf>) {
        // Through the page cache a FUA write is a write and a flush.
        let is_fua = matches!(request.operation, Operation::Write { fua: true, .. });
        let is_command = self.watched.way.get().commands(step);
        if (self.drive.waits() == Waits::Untold || is_fua && !self.info().direct) && !is_command {
            return self.ask_workers(Work { request, since: self.ring.now(), part_of });
        }
        let pieces = self.spare_pieces.pop().unwrap_or_default();
        // Without a volatile cache nobody flushes.
        let flushes = is_fua && !is_command && self.limits().volatile_cache;
        let reported = flushes.then(|| self.drive.begin_reported());
        let job = Job::new(request, step, self.ring.now(), self.drive.clone(), pieces).reported(reported);
        self.enter(job.registered(self.registered.clone()).part_of(part_of));
    }

    fn transfer(&mut self, request: Request) {
        let len_max = self.info().transfer_bytes_max;
        if stria_block::bytes(request.sectors) <= len_max {
            return self.start(request, Step::Transfer);
        }
        for (part, of) in self.transfers.cut(request, len_max) {
            self.start_part(part, Step::Transfer, Some(of));
        }
    }

    fn enter(&mut self, mut job: Job) {
        match self.watched.way.get() {
            way @ Way::Passthrough { polled } if way.commands(job.step) => {
                let entry = job.command();
                // SAFETY: `Job::command` promises what `push_aside` asks for.
                unsafe { self.ring.push_aside(polled, entry, job, &self.ended_jobs) }
            }
            way => {
                let (entry, fixed) = job.entry(&self.memory);
                if fixed {
                    self.ring.count_fixed();
                }
                if way == Way::Polled && job.step == Step::Transfer && job.is_unsplit() {
                    // SAFETY: `Job::entry` promises what `push_aside` asks for.
                    return unsafe { self.ring.push_aside(true, entry.into(), job, &self.ended_jobs) };
                }
                // SAFETY: `Job::entry` promises what `push` asks for.
                unsafe { self.ring.push(entry, job, &self.ended_jobs) }
            }
        }
    }

    /// Passes a request to the drive's threads.
    fn ask_workers(&mut self, work: Work) {
        if gives_space_back(&work.request.operation) {
            self.drive.size().release_begins();
        }
        self.workers.submit(&self.drive, work);
        self.note_workers();
    }

    fn note_workers(&mut self) {
        self.watched.oldest_of_workers.set(self.workers.oldest());
        let before = std::mem::replace(&mut self.told_count, self.workers.open_count());
        self.ring.set_outside(before, self.told_count);
    }

    /// A thread has ended a request.
    fn worked(&mut self, work: Work, result: Result<(), IoError>) {
        let Work { request, since, part_of } = work;
        if gives_space_back(&request.operation) {
            self.drive.size().release_ends();
        }
        let result = self.unless_lost(result);
        self.time(&request.operation, since);
        match request.operation {
            Operation::Flush => self.flushed(&result),
            _ => self.end_part(part_of, request, result),
        }
    }

    fn flush(&mut self, request: Request) {
        if !self.flushes.running.is_empty() {
            return self.flushes.next.push(request);
        }
        self.flushes.running.push(request);
        self.begin_flush();
    }

    fn begin_flush(&mut self) {
        let request = Request { tag: 0, start_sector: 0, sectors: 0, operation: Operation::Flush };
        match self.watched.way.get().commands(Step::Sync) {
            true => self.start(request, Step::Sync),
            false => self.ask_workers(Work { request, since: self.ring.now(), part_of: None }),
        }
    }

    /// The flush in flight has ended, and with it all flushes that it stands for.
    fn flushed(&mut self, result: &Result<(), IoError>) {
        let result = &self.told_of_all_lanes(result.clone());
        let next = std::mem::take(&mut self.flushes.next);
        for request in std::mem::replace(&mut self.flushes.running, next) {
            self.end(request, result.clone());
        }
        if !self.flushes.running.is_empty() {
            self.begin_flush();
        }
    }

    /// The result of a flush, which fails also if one of another lane, or a FUA write, has failed since the last one of this lane.
    fn told_of_all_lanes(&mut self, result: Result<(), IoError>) -> Result<(), IoError> {
        let failed = self.drive.failed_flushes();
        let before = std::mem::replace(&mut self.flushes.told_failed, failed);
        if result.is_ok() && before < failed {
            return Err(IoError::of_drive(ErrorKind::Other, self.drive.name(), TroubleKind::EarlierFlushFailed));
        }
        result
    }

    fn time(&self, operation: &Operation, since: Nanos) {
        self.watched.last_end.set(self.ring.now());
        let time = self.ring.now().saturating_sub(since);
        match operation {
            Operation::Read { .. } => self.watched.timings.borrow_mut().read.record(time),
            Operation::Write { .. } => self.watched.timings.borrow_mut().write.record(time),
            Operation::Flush | Operation::WriteZeroes { .. } | Operation::Extents { .. } => {}
        }
    }

    fn end_part(&mut self, part_of: Option<PartOf>, request: Request, result: Result<(), IoError>) {
        match part_of {
            None => self.end(request, result),
            Some(part) => self.completions.extend(self.transfers.end(part, request.operation, result)),
        }
    }

    fn advance(&mut self, mut job: Job, result: i32) {
        let way = self.watched.way.get();
        let result = if way.commands(job.step) { job.result_of(result) } else { result };
        // A command with FUA makes its own data durable, and flushes nothing else.
        let flushes = matches!(job.request.operation, Operation::Write { fua: true, .. }) && !way.commands(job.step);
        let is = |errno: Errno| result == -errno.raw_os_error();
        let refused = is(Errno::OPNOTSUPP) || is(Errno::NOSYS);
        if refused && job.step == Step::Transfer && way == Way::Polled {
            // The driver has removed its polled queues since.
            self.watched.way.set(Way::Usual);
            return self.enter(job);
        }
        if job.step == Step::Transfer
            && !way.commands(job.step)
            && self.drive.waits() == Waits::Told
            && (refused || is(Errno::AGAIN))
        {
            // The kernel would have to wait. The request runs again from its start: data that was transferred already is
            // transferred once more.
            let (since, part_of) = (job.since, job.part_of);
            let request = self.take_apart(job);
            // The kernel also waits for a write behind the end of a file. Here such a write is kept from growing the file.
            self.look_at_file();
            if let Some(lost) = self.drive.lost() {
                return self.end_part(part_of, request, Err(lost));
            }
            return self.ask_workers(Work { request, since, part_of });
        }
        let result = match job.advance(result) {
            Ok(false) => return self.enter(job),
            Ok(true) => Ok(()),
            Err(error) => {
                // At the end of a file that was cut short nothing fails: less is moved.
                if flushes && result < 0 {
                    self.drive.count_write(true, Errno::from_raw_os_error(-result));
                }
                Err(error)
            }
        };
        let result = self.unless_lost(result);
        self.time(&job.request.operation, job.since);
        let part_of = job.part_of;
        let request = self.take_apart(job);
        match request.operation {
            Operation::Flush => {
                self.drive.count_flush(result.is_err());
                self.flushed(&result);
            }
            _ => self.end_part(part_of, request, result),
        }
    }

    fn take_apart(&mut self, job: Job) -> Request {
        let (request, pieces) = job.into_parts();
        if pieces.spilled() {
            self.spare_pieces.push(pieces);
        }
        request
    }
}

impl Drop for FileDrive {
    fn drop(&mut self) {
        self.ring.set_outside(self.told_count, 0);
    }
}

/// True if a request may free space of a file. A file system may zero a range by freeing its space and allocating other.
fn gives_space_back(operation: &Operation) -> bool {
    matches!(operation, Operation::WriteZeroes { .. })
}

/// The way to reach a drive, and the reason if it is not the one that was asked for.
fn way_to(drive: &SyncDrive, ring: &Ring) -> (Way, Option<String>) {
    let (name, polled) = (drive.name(), drive.io().poll && drive.info().io_poll);
    let note =
        (drive.io().poll && !polled).then(|| format!("{name} offers no polled completion: its requests end by interrupts"));
    let way = match drive.passthrough() {
        Some(_) => Way::Passthrough { polled },
        None if polled => Way::Polled,
        None => return (Way::Usual, note),
    };
    match ring.open_side(polled) {
        Ok(()) => (way, note),
        Err(error) => (
            Way::Usual,
            Some(format!("{name} is reached through the block layer, as a second io_uring cannot be set up: {error}")),
        ),
    }
}

impl BlockDevice for FileDrive {
    fn limits(&self) -> &Limits {
        &self.drive.info().limits
    }

    fn submit(&mut self, mut request: Request) {
        if let Err(error) = self.check(&request) {
            return self.end(request, Err(error));
        }
        let sectors = request.sectors;
        match (&mut request.operation, self.info().kind) {
            (Operation::Read { .. } | Operation::Write { .. }, _) => self.transfer(request),
            (Operation::Flush, _) => self.flush(request),
            (Operation::Extents { extents }, DriveKind::BlockDevice) => {
                *extents = vec![Extent { sectors, hole: false }];
                self.end(request, Ok(()));
            }
            (Operation::WriteZeroes { .. } | Operation::Extents { .. }, _) => {
                self.ask_workers(Work { request, since: self.ring.now(), part_of: None });
            }
        }
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.ring.set_now(now);
        self.ring.poll_for_drive();
        let worked = self.workers.poll(now);
        std::mem::swap(&mut self.at_hand, &mut *self.ended_jobs.borrow_mut());
        let mut at_hand = std::mem::take(&mut self.at_hand);
        let tells = |request: &Request| matches!(request.operation, Operation::Read { .. } | Operation::Extents { .. });
        if at_hand.iter().any(|(job, _)| tells(&job.request)) || worked.iter().any(|(work, _)| tells(&work.request)) {
            self.look_at_file();
        }
        if !worked.is_empty() {
            worked.into_iter().for_each(|(work, result)| self.worked(work, result));
            self.note_workers();
        }
        for (job, result) in at_hand.drain(..) {
            self.advance(job, result);
        }
        self.at_hand = at_hand;
        completions.append(&mut self.completions);
    }

    fn next_wake(&self) -> Option<Nanos> {
        let ended = !self.completions.is_empty() || !self.ended_jobs.borrow().is_empty();
        if ended { Some(0) } else { self.workers.next_wake() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::{Buffer, Segments};
    use stria_testkit::nvme;

    /// A drive that two lanes use, in a folder that is removed with the first part.
    fn two_lanes() -> (tempfile::TempDir, SyncDrive, [Ring; 2], [FileDrive; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.img");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let drive = SyncDrive::open(&path, Access::Exclusive).unwrap();
        let rings = [Ring::new().unwrap(), Ring::new().unwrap()];
        let lanes = rings.each_ref().map(|ring| FileDrive::new(drive.clone(), ring));
        (folder, drive, rings, lanes)
    }

    #[test]
    fn a_flush_that_fails_on_one_lane_fails_on_each_once() {
        let (_folder, drive, rings, mut lanes) = two_lanes();
        let flush = || Request { tag: 1, start_sector: 0, sectors: 0, operation: Operation::Flush };
        let ended = |lane: &mut FileDrive, ring: &Ring| {
            let mut ended = Vec::new();
            while ended.is_empty() {
                ring.drain();
                lane.poll(0, &mut ended);
            }
            ended.remove(0).result
        };
        lanes[0].flushes.running.push(flush());
        drive.count_flush(true);
        lanes[0].flushed(&Err(IoError::new(ErrorKind::Other, "the cache is lost")));
        assert_eq!(ended(&mut lanes[0], &rings[0]).unwrap_err().to_string(), "the cache is lost");
        for (lane, succeeds) in [(0, true), (1, false), (1, true), (0, true)] {
            lanes[lane].submit(flush());
            let result = ended(&mut lanes[lane], &rings[lane]);
            assert_eq!(result.is_ok(), succeeds, "{lane}: {result:?}");
        }
        let mut later = FileDrive::new(drive.clone(), &rings[0]);
        later.submit(flush());
        ended(&mut later, &rings[0]).unwrap();
    }

    /// The write's own flush may have failed, and the kernel says once what it has lost.
    #[test]
    fn a_fua_write_that_fails_is_told_to_the_next_flush_of_each_lane() {
        let (_folder, drive, _rings, mut lanes) = two_lanes();
        let outcomes = [Errno::NOSPC, Errno::PERM].map(|errno| (true, errno, false));
        for (fua, errno, is_lost) in outcomes.into_iter().chain([(false, Errno::IO, false), (true, Errno::IO, true)]) {
            let operation = Operation::Write { from: std::iter::once(stria_block::Data::zeros(4096)).collect(), fua };
            let request = Request { tag: 1, start_sector: 0, sectors: 8, operation };
            let mut job = Job::new(request, Step::Transfer, 0, drive.clone(), Pieces::default());
            job.entry(&(0..0));
            lanes[0].advance(job, -errno.raw_os_error());
            assert!(lanes[0].completions.remove(0).result.is_err(), "{errno}");
            for (lane, again) in [(0, false), (1, false), (0, true), (1, true)] {
                let request = Request { tag: 1, start_sector: 0, sectors: 0, operation: Operation::Flush };
                lanes[lane].flushes.running.push(request);
                lanes[lane].flushed(&Ok(()));
                let result = lanes[lane].completions.remove(0).result;
                assert_eq!(result.is_err(), is_lost && !again, "{errno}, lane {lane}, again: {again}: {result:?}");
            }
        }
    }

    /// R8: the write had ended in the kernel, and its lane had not looked. A flush of the other lane, which the kernel told nothing
    /// any more, succeeded.
    #[test]
    fn a_flush_waits_for_the_end_of_fua_writes_beside_it() {
        let (_folder, _drive, rings, mut lanes) = two_lanes();
        let operation = Operation::Write { from: std::iter::once(stria_block::Data::zeros(4096)).collect(), fua: true };
        lanes[0].submit(Request { tag: 1, start_sector: 0, sectors: 8, operation });
        rings[0].drain();
        lanes[0].ended_jobs.borrow_mut()[0].1 = -Errno::IO.raw_os_error();
        lanes[1].submit(Request { tag: 2, start_sector: 0, sectors: 0, operation: Operation::Flush });
        let mut ended = Vec::new();
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            lanes[1].poll(0, &mut ended);
        }
        assert!(ended.is_empty(), "the write may have had its report: {:?}", ended[0].result);
        lanes[0].poll(0, &mut ended);
        assert!(ended.remove(0).result.is_err());
        while ended.is_empty() {
            lanes[1].poll(0, &mut ended);
        }
        assert!(ended.remove(0).result.is_err(), "what was written before the flush may be lost");
    }

    /// Not a test by itself: the part of the next one that runs in the guest.
    #[test]
    fn guests_half() {
        if !nvme::is_guest() {
            return;
        }
        for poll in [false, true] {
            let ring = Ring::new().unwrap();
            let io = crate::IoOptions { poll, passthrough: true };
            let drive = SyncDrive::open_with("/dev/nvme0n1".as_ref(), Access::Exclusive, io).unwrap();
            let mut drive = FileDrive::new(drive, &ring);
            assert_eq!(drive.watched.way.get(), Way::Passthrough { polled: poll });
            let start_sector = drive.limits().size_sectors - 8;
            for (sectors, kind) in [(8, None), (16, Some(ErrorKind::Medium))] {
                let into = Segments::from_iter([Buffer::zeroed(stria_block::bytes(sectors))]);
                // Not by `submit`, which checks the size of the drive.
                drive.transfer(Request { tag: 1, start_sector, sectors, operation: Operation::Read { into } });
                let mut ended = Vec::new();
                ring.drain();
                drive.poll(0, &mut ended);
                assert_eq!(ended[0].result.as_ref().err().map(|error| error.kind), kind, "{:?}", ended[0].result);
            }
        }
    }

    /// The block layer would refuse the request, so the answer comes from the drive.
    #[test]
    fn errors_of_commands_are_the_members() {
        if nvme::wanted() {
            nvme::run_test("errors", "file_drive::tests::guests_half", &[nvme::Drive { bytes: 64 << 20, options: "" }], &[]);
        }
    }
}
