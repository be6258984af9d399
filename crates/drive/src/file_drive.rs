//! A drive as a [`BlockDevice`]: requests become jobs on the ring.
//!
//! Knows which system calls carry out which request on which kind of drive, and what to do when one is
//! not supported. Nothing blocks: what io_uring cannot do goes to a helper thread.

use crate::helper::Helper;
use crate::job::{Job, Pieces, Step};
use crate::parts::{PartOf, Wholes};
use crate::ring::{EndedJobs, Registered, Ring};
use crate::{Access, DriveError, DriveInfo, DriveKind, SyncDrive};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use stria_block::{BlockDevice, Completion, ErrorKind, Extent, IoError, Limits, Nanos, Operation, Request, Timings};

/// A block device or file on a ring.
///
/// Dropping it leaves requests that the kernel has to end there; their completions are not told, and the
/// file and its lock stay until they have ended ([`Ring::drain`]).
pub struct FileDrive {
    drive: SyncDrive,
    ring: Ring,
    /// What the ring has sorted out for this drive.
    ended_jobs: Rc<EndedJobs>,
    /// The same, while it is worked off.
    at_hand: Vec<(Job, i32)>,
    completions: Vec<Completion>,
    helper: Option<Helper>,
    /// `ZERO_RANGE` works, as far as known.
    zero_range: bool,
    spare_pieces: Vec<Pieces>,
    wholes: Wholes,
    /// The addresses of memory that is registered with the ring.
    memory: Range<usize>,
    registered: Option<Rc<Registered>>,
    /// Why it is not reached as was asked for.
    way_note: Option<String>,
    watched: Rc<Watched>,
}

/// How reads and writes reach a drive and come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Through the block layer or the file system; an interrupt tells their ends.
    #[default]
    Usual,
    /// Through the block layer; their ends are polled for.
    Polled,
    /// As NVMe commands past the block layer, and discards with them; flushes too if they are not polled for.
    Passthrough {
        /// Their ends are polled for.
        polled: bool,
    },
}

impl Way {
    /// Whether this step goes as a command.
    fn commands(self, step: Step) -> bool {
        match (self, step) {
            (Self::Passthrough { .. }, Step::Transfer | Step::Deallocate) => true,
            // A command without data cannot be polled for: Linux 6.1 takes what tells its end for what is to be polled, and oopses.
            (Self::Passthrough { polled }, Step::Sync) => !polled,
            _ => false,
        }
    }
}

/// What a drive's [`DriveWatch`] shares with it.
#[derive(Default)]
struct Watched {
    way: Cell<Way>,
    timings: RefCell<Timings>,
    /// When the helper's oldest request came.
    helper_oldest: Cell<Option<Nanos>>,
}

/// Tells how a drive answers, also while somebody else has the drive.
#[derive(Clone)]
pub struct DriveWatch {
    ring: Ring,
    jobs: Rc<EndedJobs>,
    watched: Rc<Watched>,
}

impl DriveWatch {
    /// How its reads and writes go now.
    pub fn way(&self) -> Way {
        self.watched.way.get()
    }

    /// How long its requests take.
    pub fn timings(&self) -> Timings {
        self.watched.timings.borrow().clone()
    }

    /// When the oldest request came that it has not answered, by the clock of its lane.
    pub fn oldest(&self) -> Option<Nanos> {
        self.ring.oldest(&self.jobs).into_iter().chain(self.watched.helper_oldest.get()).min()
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
    /// Puts an open drive on `ring`. Several lanes may each have one of the same drive.
    pub fn new(drive: SyncDrive, ring: &Ring) -> Self {
        let (way, way_note) = way_to(&drive, ring);
        let aside = match way {
            Way::Usual => None,
            Way::Polled => Some((true, drive.file())),
            Way::Passthrough { polled } => drive.passthrough().map(|to| (polled, &to.file)),
        };
        Self {
            wholes: Wholes::default(),
            memory: ring.memory(),
            registered: ring.register(drive.file(), aside),
            way_note,
            drive,
            ring: ring.clone(),
            ended_jobs: Rc::default(),
            at_hand: Vec::new(),
            completions: Vec::new(),
            helper: None,
            zero_range: true,
            spare_pieces: Vec::new(),
            watched: Rc::new(Watched { way: Cell::new(way), ..Watched::default() }),
        }
    }

    /// Why it is not reached as was asked for, if it is not.
    pub fn way_note(&self) -> Option<&str> {
        self.way_note.as_deref()
    }

    /// What tells how it answers.
    pub fn watch(&self) -> DriveWatch {
        DriveWatch { ring: self.ring.clone(), jobs: Rc::clone(&self.ended_jobs), watched: Rc::clone(&self.watched) }
    }

    /// What it is.
    pub fn info(&self) -> &DriveInfo {
        self.drive.info()
    }

    /// The same open drive, for blocking calls.
    pub fn drive(&self) -> &SyncDrive {
        &self.drive
    }

    fn check(&self, request: &Request) -> Result<(), IoError> {
        request.check(self.limits())?;
        match request.operation {
            Operation::Read { .. } | Operation::Extents { .. } => Ok(()),
            Operation::Flush if self.drive.access() == Access::ReadOnly => Ok(()),
            Operation::Discard if self.limits().discard_granularity_bytes == 0 => Err(self.unsupported("cannot discard")),
            Operation::Write { .. } | Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } => {
                self.drive.check_writable()
            }
        }
    }

    fn unsupported(&self, what: &str) -> IoError {
        IoError::new(ErrorKind::Unsupported, format!("member {} {what}", self.drive.name()))
    }

    fn end(&mut self, request: Request, result: Result<(), IoError>) {
        self.completions.push(request.complete(result));
    }

    fn start(&mut self, request: Request, step: Step) {
        self.start_part(request, step, None);
    }

    fn start_part(&mut self, request: Request, step: Step, part_of: Option<PartOf>) {
        let pieces = self.spare_pieces.pop().unwrap_or_default();
        let job = Job::new(request, step, self.ring.now(), self.drive.clone(), pieces);
        self.enter(job.registered(self.registered.clone()).part_of(part_of));
    }

    fn transfer(&mut self, request: Request) {
        let len_max = self.info().transfer_bytes_max;
        if stria_block::bytes(request.sectors) <= len_max {
            return self.start(request, Step::Transfer);
        }
        for (part, of) in self.wholes.cut(request, len_max) {
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

    fn ask_helper(&mut self, request: Request) {
        if self.helper.is_none() {
            match Helper::start(self.ring.waker()) {
                Ok(helper) => self.helper = Some(helper),
                Err(error) => {
                    let context = format!("member {}: no thread for a request: {error}", self.drive.name());
                    return self.end(request, Err(IoError::new(ErrorKind::Other, context)));
                }
            }
        }
        let helper = self.helper.as_mut().expect("just started");
        helper.submit(self.drive.clone(), request, self.ring.now());
        self.watched.helper_oldest.set(helper.oldest());
    }

    /// The quickest way to zeros that keeps to what was asked, skipping ways up to and including `after`.
    fn zeroing_step(&self, unmap: bool, fast: bool, after: Option<Step>) -> Option<Step> {
        let file = self.info().kind == DriveKind::File;
        if unmap && self.limits().unmap_zeroes && after.is_none() {
            Some(Step::Punch)
        } else if self.zero_range && after != Some(Step::ZeroRange) && (file || !fast || self.info().zeroes_command) {
            // Block devices without a command for it: the kernel writes the zeros itself.
            Some(Step::ZeroRange)
        } else {
            (!fast).then_some(Step::Transfer)
        }
    }

    fn zero(&mut self, job: Result<Job, Request>) {
        let request = job.as_ref().map_or_else(|request| request, |job| &job.request);
        let Operation::WriteZeroes { unmap, fast, .. } = request.operation else { unreachable!("only zeroing comes here") };
        let step = self.zeroing_step(unmap, fast, job.as_ref().ok().map(|job| job.step));
        match (step, job) {
            (Some(step), Ok(mut job)) => {
                job.step = step;
                self.enter(job);
            }
            (Some(step), Err(request)) => self.start(request, step),
            (None, job) => {
                let request = job.map_or_else(|request| request, |job| job.into_parts().0);
                let error = self.unsupported("has no quick way to write zeros");
                self.end(request, Err(error));
            }
        }
    }

    fn advance(&mut self, mut job: Job, result: i32) {
        let way = self.watched.way.get();
        let result = if way.commands(job.step) { job.result_of(result) } else { result };
        let refused = [Errno::OPNOTSUPP, Errno::NOSYS].iter().any(|errno| result == -errno.raw_os_error());
        if refused
            && matches!(job.step, Step::Punch | Step::ZeroRange)
            && matches!(job.request.operation, Operation::WriteZeroes { .. })
        {
            self.zero_range &= job.step != Step::ZeroRange;
            return self.zero(Ok(job));
        }
        if refused && job.step == Step::Transfer && way == Way::Polled {
            // The driver has given its queues for it up since.
            self.watched.way.set(Way::Usual);
            return self.enter(job);
        }
        let result = match job.advance(result) {
            Ok(false) => return self.enter(job),
            Ok(true) => match (job.step, &job.request.operation) {
                (Step::Punch | Step::ZeroRange, Operation::WriteZeroes { fua: true, .. }) => {
                    job.step = Step::Sync;
                    return self.enter(job);
                }
                _ => Ok(()),
            },
            Err(error) => Err(error),
        };
        let time = self.ring.now().saturating_sub(job.since);
        match job.request.operation {
            Operation::Read { .. } => self.watched.timings.borrow_mut().read.record(time),
            Operation::Write { .. } => self.watched.timings.borrow_mut().write.record(time),
            Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } | Operation::Extents { .. } => {}
        }
        let part_of = job.part_of;
        let (request, pieces) = job.into_parts();
        if pieces.spilled() {
            self.spare_pieces.push(pieces);
        }
        match part_of {
            None => self.end(request, result),
            Some(part) => self.completions.extend(self.wholes.end(part, request.operation, result)),
        }
    }
}

/// How to reach a drive, and why not as asked for.
fn way_to(drive: &SyncDrive, ring: &Ring) -> (Way, Option<String>) {
    let (name, polled) = (drive.name(), drive.io().poll && drive.info().io_poll);
    let note = (drive.io().poll && !polled).then(|| format!("{name} offers no polled completion: interrupts tell its ends"));
    let way = match drive.passthrough() {
        Some(_) => Way::Passthrough { polled },
        None if polled => Way::Polled,
        None => return (Way::Usual, note),
    };
    match ring.open_side(polled) {
        Ok(()) => (way, note),
        Err(error) => (Way::Usual, Some(format!("{name} is reached in the usual way, as there is no second io_uring: {error}"))),
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
            (Operation::Flush, _) => self.start(request, Step::Sync),
            (Operation::Discard, DriveKind::File) => self.start(request, Step::Punch),
            (Operation::Discard, DriveKind::BlockDevice) if self.watched.way.get().commands(Step::Deallocate) => {
                self.start(request, Step::Deallocate)
            }
            (Operation::Discard, DriveKind::BlockDevice) => self.ask_helper(request),
            (Operation::WriteZeroes { .. }, _) => self.zero(Err(request)),
            (Operation::Extents { .. }, DriveKind::File) => self.ask_helper(request),
            (Operation::Extents { extents }, DriveKind::BlockDevice) => {
                *extents = vec![Extent { sectors, hole: false }];
                self.end(request, Ok(()));
            }
        }
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.ring.set_now(now);
        self.ring.poll_for_drive();
        if let Some(helper) = &mut self.helper {
            helper.poll(completions);
            self.watched.helper_oldest.set(helper.oldest());
        }
        std::mem::swap(&mut self.at_hand, &mut *self.ended_jobs.borrow_mut());
        let mut at_hand = std::mem::take(&mut self.at_hand);
        for (job, result) in at_hand.drain(..) {
            self.advance(job, result);
        }
        self.at_hand = at_hand;
        completions.append(&mut self.completions);
    }

    fn next_wake(&self) -> Option<Nanos> {
        (!self.completions.is_empty() || !self.ended_jobs.borrow().is_empty()).then_some(0)
    }
}

#[cfg(test)]
#[path = "../../../tests/nvme/harness.rs"]
mod nvme;

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::{Buffer, Segments};

    /// Not a test of its own: the guest's half of the next one.
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
                // Not by `submit`, which asks whether the drive is so large.
                drive.transfer(Request { tag: 1, start_sector, sectors, operation: Operation::Read { into } });
                let mut ended = Vec::new();
                ring.drain();
                drive.poll(0, &mut ended);
                assert_eq!(ended[0].result.as_ref().err().map(|error| error.kind), kind, "{:?}", ended[0].result);
            }
        }
    }

    /// The block layer would not let it pass: the answer is the drive's own.
    #[test]
    fn errors_of_commands_are_the_members() {
        if nvme::wanted() {
            nvme::run_test("errors", "file_drive::tests::guests_half", &[nvme::Drive { bytes: 64 << 20, options: "" }], &[]);
        }
    }

    /// Deallocating with FUA is two steps: nothing durable is told before the second has ended.
    #[test]
    fn zeroes_with_fua_end_after_a_sync() {
        let path = std::env::temp_dir().join(format!("stria-zeroes-{}", std::process::id()));
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        for (unmap, first) in [(true, Step::Punch), (false, Step::ZeroRange)] {
            let ring = Ring::new().unwrap();
            let mut drive = open(&path, &ring, Access::Exclusive).unwrap();
            let operation = Operation::WriteZeroes { fua: true, unmap, fast: true };
            drive.submit(Request { tag: 1, start_sector: 0, sectors: 2048, operation });
            let mut ended = Vec::new();
            for step in [first, Step::Sync] {
                assert!(ended.is_empty());
                ring.drain();
                assert_eq!(drive.ended_jobs.borrow()[0].0.step, step);
                drive.poll(0, &mut ended);
            }
            assert_eq!(ended.len(), 1);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
