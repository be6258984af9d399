//! One io_uring for all drives of a thread.
//!
//! Drives queue entries; [`Ring::poll`] hands all of them to the kernel with one system call and sorts
//! what ended into the drives' own queues; [`Ring::wait`] does the same and sleeps. The ring knows
//! nothing of requests: it keeps each entry's [`Job`] and gives it back with the kernel's result.
//!
//! Why the `unsafe` here is sound. The kernel reads and writes memory named by an entry between its
//! submission and its completion. That memory (buffers, the list of segments, the open file behind the
//! descriptor) is owned by the entry's job, at addresses that do not change when the job moves, and the
//! job lies in a slot of the ring from before the entry is queued until its completion was read.
//! Nothing takes it out earlier: dropping a drive leaves its jobs in their slots, and dropping the ring
//! waits until none is left, or, where a drive hangs, leaks the rest with their memory. If the ring is leaked, so are the jobs. One thread has the ring (`Rc`),
//! which is also what single-issuer mode asks for.

mod setup;
mod side;

use crate::DriveError;
use crate::job::Job;
use io_uring::types::{Fd, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use setup::{Mode, modes, register_memory, set_up};
use side::Side;
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stria_block::{Arena, Buffer, Nanos};

/// The completion that is the eventfd's, not a slot's.
const WAKE: u64 = u64::MAX;
/// The completion that says that something has ended on the side that tells.
const SIDE: u64 = u64::MAX - 1;
/// The completion of what takes an alarm or a watch back.
const REMOVED: u64 = u64::MAX - 2;
/// Set in the completions of alarms, whose place the rest is.
const ALARM: u64 = 1 << 33;
/// Set in the completions of watched sockets, whose place the rest is. Slots are numbered below.
const WATCH: u64 = 1 << 32;

/// How long the end of a ring waits for what drives still have. What a drive that hangs holds is never given back.
const LAST_JOBS: Duration = Duration::from_secs(2);

/// Files that a ring can have registered, its sides as many; further drives go by their descriptors.
const FILES_MAX: u32 = 256;

/// A file's place among those registered with a ring and its sides, which spares the kernel looking it up for each entry. Held by the
/// drive and each of its jobs; given back, and the file let go, once none is left.
pub(crate) struct Registered {
    index: u32,
    released: Rc<RefCell<Vec<u32>>>,
}

impl Registered {
    pub(crate) fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Not at once: it may be the ring itself that drops a job.
        self.released.borrow_mut().push(self.index);
    }
}

/// What ended for one drive: the job, and the kernel's result.
pub(crate) type EndedJobs = RefCell<Vec<(Job, i32)>>;

/// The io_uring that all drives of one thread share. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct Ring(Rc<RefCell<Inner>>);

/// Wakes a ring's thread out of [`Ring::wait`], from any thread.
#[derive(Clone)]
pub struct Waker(Arc<OwnedFd>);

struct Inner {
    uring: IoUring,
    /// The job of every entry from `push` until its completion, with where it goes then.
    slots: Vec<Option<(Job, Rc<EndedJobs>)>>,
    free: Vec<u32>,
    /// Entries that found the submission queue, or the kernel, full.
    backlog: VecDeque<squeue::Entry>,
    /// Entries in the submission queue or with the kernel, the wake-up's included.
    in_kernel: usize,
    in_kernel_max: usize,
    /// One that polls, or one that tells, or both, or none.
    sides: Vec<Side>,
    has_files: bool,
    /// Requests of its drives that are with threads of theirs.
    outside: usize,
    /// Memory that is registered, here and with the sides, as the first of its kind.
    memory: Option<&'static Arena>,
    /// Places for registered files that are free; empty where the kernel has none.
    free_files: Vec<u32>,
    /// Those whose last user is gone, while their file is still registered.
    released: Rc<RefCell<Vec<u32>>>,
    driven: bool,
    now: Nanos,
    wake_fd: Arc<OwnedFd>,
    /// What a lane has others call.
    nudge: Option<Arc<dyn Fn() + Send + Sync>>,
    wake_armed: bool,
    wake_count: Buffer,
    /// Timers that end a sleep; as many as there were reasons to wake ever earlier, which is few.
    alarms: Slab<Alarm>,
    /// Watched sockets, with their keys.
    watches: Slab<(u32, Arc<OwnedFd>)>,
    /// Keys of those that became ready.
    ready: Vec<u32>,
    counters: RingCounters,
    setup: &'static str,
}

/// A timer of the kernel's that is set.
struct Alarm {
    due: Nanos,
    /// The kernel reads it when it takes the entry.
    after: Box<Timespec>,
}

/// What a ring has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Calls into the kernel: handing over, sleeping, or both at once.
    pub call_count: u64,
    /// Entries handed over.
    pub entry_count: u64,
    /// Those of them that were drives' reads, writes and other work.
    pub job_count: u64,
    /// Those of these that moved registered memory.
    pub fixed_count: u64,
}

impl Waker {
    /// Ends the ring's present or next wait.
    pub fn wake(&self) {
        // A full counter (EAGAIN is impossible: the descriptor blocks only at 2^64 - 1 wakes) would still wake.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl Ring {
    /// A new ring for this thread.
    ///
    /// # Errors
    /// [`DriveError::Ring`] where the system has no io_uring or forbids it.
    pub fn new() -> Result<Self, DriveError> {
        Self::with_modes(&modes()).map_err(|source| DriveError::Ring { source })
    }

    fn with_modes(modes: &[Mode<squeue::Entry, cqueue::Entry>]) -> io::Result<Self> {
        Ok(Self(Rc::new(RefCell::new(Inner::new(modes)?))))
    }

    /// How the ring was set up, the best that the kernel has: for status displays.
    pub fn setup(&self) -> &'static str {
        self.0.borrow().setup
    }

    /// Registers a file, and with a side the one that is used there, under the same number. `None`: there is no room, or the
    /// kernel has no such thing.
    pub(crate) fn register(&self, file: &File, aside: Option<(bool, &File)>) -> Option<Rc<Registered>> {
        let inner = &mut *self.0.borrow_mut();
        inner.let_go();
        let index = inner.free_files.pop()?;
        let registered = Rc::new(Registered { index, released: Rc::clone(&inner.released) });
        inner.uring.submitter().register_files_update(index, &[file.as_raw_fd()]).ok()?;
        if let Some((polled, file)) = aside {
            inner.side(polled).uring.submitter().register_files_update(index, &[file.as_raw_fd()]).ok()?;
        }
        Some(registered)
    }

    /// Registers the memory that pools take from, for this ring's drives to come, if the user may lock so much. Transfers of
    /// it spare the kernel finding and pinning its pages each time.
    pub fn register_memory(&self) {
        let inner = &mut *self.0.borrow_mut();
        let arena = Arena::set_up();
        if inner.memory.is_none() && register_memory(&inner.uring.submitter(), arena).is_ok() {
            inner.memory = Some(arena);
        }
    }

    /// The addresses of registered memory.
    pub(crate) fn memory(&self) -> Range<usize> {
        self.0.borrow().memory.map_or(0..0, Arena::addresses)
    }

    pub(crate) fn count_fixed(&self) {
        self.0.borrow_mut().counters.fixed_count += 1;
    }

    /// Sees to it that there is a side of this kind.
    pub(crate) fn open_side(&self, polled: bool) -> io::Result<()> {
        let inner = &mut *self.0.borrow_mut();
        if !inner.sides.iter().any(|side| side.polled == polled) {
            inner.sides.push(Side::new(polled, if inner.has_files { FILES_MAX } else { 0 }, inner.memory)?);
        }
        Ok(())
    }

    /// Whether something is under way whose end nobody tells: then [`Ring::poll`] is to be called again and again, and
    /// [`Ring::wait`] does not sleep.
    pub fn is_polling(&self) -> bool {
        self.0.borrow().sides.iter().any(Side::is_polling)
    }

    /// What it has done so far.
    pub fn counters(&self) -> RingCounters {
        self.0.borrow().counters
    }

    /// Hands everything queued to the kernel, and what ended to the drives. Makes no system call when there is neither.
    pub fn poll(&self) {
        self.0.borrow_mut().turn();
    }

    /// Like [`Ring::poll`], and when nothing has ended sleeps until something has, a [`Waker`] is used,
    /// or `timeout` is over (`None`: no limit). May return early.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.0.borrow_mut().wait(timeout);
    }

    /// What ends this ring's wait from other threads.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.0.borrow().wake_fd))
    }

    /// Has the ring's lane take a turn soon, from any thread; costs a system call only when it sleeps. Off a lane it wakes the ring.
    pub fn nudge(&self) -> Arc<dyn Fn() + Send + Sync> {
        let nudge = self.0.borrow().nudge.clone();
        nudge.unwrap_or_else(|| {
            let waker = self.waker();
            Arc::new(move || waker.wake())
        })
    }

    pub(crate) fn set_nudge(&self, nudge: impl Fn() + Send + Sync + 'static) {
        self.0.borrow_mut().nudge = Some(Arc::new(nudge));
    }

    /// Waits until the kernel holds nothing of any drive: then a dropped drive's lock is free.
    pub fn drain(&self) {
        let inner = &mut *self.0.borrow_mut();
        while inner.slots.len() > inner.free.len() {
            inner.wait(None);
        }
        inner.let_go();
    }

    /// Keeps `job`, queues `entry`, and moves the job to `ended` once the entry has completed.
    ///
    /// # Safety
    /// Every address and descriptor in `entry` must be valid as long as `job` lives, wherever it is moved.
    pub(crate) unsafe fn push(&self, entry: squeue::Entry, job: Job, ended: &Rc<EndedJobs>) {
        let inner = &mut *self.0.borrow_mut();
        let slot = inner.keep(job, ended);
        inner.queue(entry.user_data(slot));
    }

    /// The same, on the side of this kind, which must have been opened.
    ///
    /// # Safety
    /// As [`Ring::push`].
    pub(crate) unsafe fn push_aside(&self, polled: bool, entry: squeue::Entry128, job: Job, ended: &Rc<EndedJobs>) {
        let inner = &mut *self.0.borrow_mut();
        let slot = inner.keep(job, ended);
        inner.counters.entry_count += 1;
        inner.side(polled).queue(entry.user_data(slot));
    }

    /// Watches a socket once: `key` is among [`Ring::take_ready`] when it is readable (or its peer has ended), or else,
    /// if `room` is asked for, writable. It stays open until then, so whoever has done with it shuts it down: an entry that is
    /// still to be handed over would else watch whatever comes to have its number.
    pub(crate) fn watch(&self, socket: &Arc<OwnedFd>, room: bool, key: u32) {
        let events = if room { PollFlags::OUT } else { PollFlags::IN | PollFlags::RDHUP };
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), u32::from(events.bits()));
        let inner = &mut *self.0.borrow_mut();
        let watch = inner.watches.insert((key, Arc::clone(socket)));
        inner.queue(entry.build().user_data(WATCH | watch as u64));
    }

    /// Whether a watched socket has become ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.0.borrow().ready.is_empty()
    }

    /// Moves the keys of watched sockets that became ready to the end of `into`.
    pub(crate) fn take_ready(&self, into: &mut Vec<u32>) {
        into.append(&mut self.0.borrow_mut().ready);
    }

    /// The time of this turn, for whoever starts or ends something in it.
    pub(crate) fn set_now(&self, now: Nanos) {
        self.0.borrow_mut().now = now;
    }

    /// The time of this turn.
    pub(crate) fn now(&self) -> Nanos {
        self.0.borrow().now
    }

    /// Whether any drive's job is under way.
    pub fn is_busy(&self) -> bool {
        let inner = self.0.borrow();
        inner.outside > 0 || inner.slots.len() > inner.free.len()
    }

    /// A drive has `now` requests with threads of its own, and had `before`.
    pub(crate) fn set_outside(&self, before: usize, now: usize) {
        let outside = &mut self.0.borrow_mut().outside;
        *outside = *outside - before + now;
    }

    /// When the oldest of the jobs was started that end there.
    pub(crate) fn oldest(&self, ended: &Rc<EndedJobs>) -> Option<Nanos> {
        let inner = self.0.borrow();
        let theirs = inner.slots.iter().flatten().filter(|(_, to)| Rc::ptr_eq(to, ended));
        theirs.map(|(job, _)| job.since).min()
    }

    /// From now on the caller promises a [`Ring::poll`] or [`Ring::wait`] after each turn of its loop, so that drives
    /// need not make system calls in their polls: one call then serves all of them, often the one that sleeps.
    pub(crate) fn set_driven(&self) {
        self.0.borrow_mut().driven = true;
    }

    /// For a drive's poll: sorts out what has ended, and makes progress if nobody else sees to that.
    pub(crate) fn poll_for_drive(&self) {
        let inner = &mut *self.0.borrow_mut();
        if inner.driven {
            inner.dispatch()
        } else {
            inner.turn()
        };
    }
}

impl Inner {
    fn new(modes: &[Mode<squeue::Entry, cqueue::Entry>]) -> io::Result<Self> {
        let (uring, setup) = set_up(modes, |_| {})?;
        let params = uring.params();
        if !(params.is_feature_nodrop() && params.is_feature_submit_stable() && params.is_feature_ext_arg()) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's io_uring is too old"));
        }
        // Linux 5.19. Without it every entry goes by its descriptor.
        let has_files = uring.submitter().register_files_sparse(FILES_MAX).is_ok();
        let in_kernel_max = params.cq_entries() as usize;
        // Not O_NONBLOCK: a read of it through the ring shall wait rather than fail.
        let wake_fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        Ok(Self {
            uring,
            slots: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            in_kernel: 0,
            in_kernel_max,
            sides: Vec::new(),
            has_files,
            outside: 0,
            memory: None,
            free_files: (0..if has_files { FILES_MAX } else { 0 }).rev().collect(),
            released: Rc::default(),
            driven: false,
            now: crate::monotonic_now(),
            wake_fd,
            nudge: None,
            wake_armed: false,
            wake_count: Buffer::zeroed(8),
            alarms: Slab::new(),
            watches: Slab::new(),
            ready: Vec::new(),
            counters: RingCounters::default(),
            setup,
        })
    }

    /// Puts a job into a slot, whose number it gives.
    fn keep(&mut self, job: Job, ended: &Rc<EndedJobs>) -> u64 {
        self.counters.job_count += 1;
        let occupant = Some((job, Rc::clone(ended)));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = occupant;
                slot
            }
            None => {
                self.slots.push(occupant);
                self.slots.len() as u32 - 1
            }
        };
        u64::from(slot)
    }

    fn side(&mut self, polled: bool) -> &mut Side {
        self.sides.iter_mut().find(|side| side.polled == polled).expect("it was opened before")
    }

    fn queue(&mut self, entry: squeue::Entry) {
        if !self.backlog.is_empty() || !self.try_queue(&entry) {
            self.backlog.push_back(entry);
        }
    }

    fn has_room(&mut self) -> bool {
        self.in_kernel < self.in_kernel_max && !self.uring.submission().is_full()
    }

    fn try_queue(&mut self, entry: &squeue::Entry) -> bool {
        if self.in_kernel == self.in_kernel_max {
            return false;
        }
        // SAFETY: the module head's argument; `push` holds its callers to it, the wake-up's memory is the ring's own, as is an
        // alarm's, which stays where it is until it has ended, and a watch names none.
        let queued = unsafe { self.uring.submission().push(entry) }.is_ok();
        self.in_kernel += usize::from(queued);
        self.counters.entry_count += u64::from(queued);
        queued
    }

    /// Moves from the backlog what has room now.
    fn refill(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_queue(&entry) {
                self.backlog.push_front(entry);
                return;
            }
        }
    }

    /// Lets go of files that nobody uses any more.
    fn let_go(&mut self) {
        while let Some(index) = self.released.borrow_mut().pop() {
            let submitters = std::iter::once(self.uring.submitter()).chain(self.sides.iter().map(|side| side.uring.submitter()));
            for submitter in submitters {
                submitter.register_files_update(index, &[-1]).expect("a place can be cleared");
            }
            self.free_files.push(index);
        }
    }

    /// Whether the kernel has entries to take or completions to hand out.
    fn needs_kernel(&mut self) -> bool {
        let submission = self.uring.submission();
        !submission.is_empty() || submission.taskrun()
    }

    /// Hands over what is queued aside, and looks for what ends there; whether anything has.
    fn turn_sides(&mut self) -> bool {
        let mut any_ended = false;
        for side in &mut self.sides {
            loop {
                if side.needs_kernel() {
                    self.counters.call_count += 1;
                    side.enter(0).expect("io_uring takes entries as long as its descriptor is open");
                }
                let before = side.in_kernel;
                for completion in side.uring.completion() {
                    side.in_kernel -= 1;
                    end(&mut self.slots, &mut self.free, completion.user_data(), completion.result());
                }
                any_ended |= side.in_kernel < before;
                if !side.has_more() {
                    break;
                }
            }
        }
        any_ended
    }

    /// Hands over what is queued and dispatches what has ended; whether anything had.
    fn turn(&mut self) -> bool {
        self.let_go();
        let mut any_ended = self.turn_sides();
        loop {
            self.refill();
            if self.needs_kernel() {
                self.enter(0);
            }
            any_ended |= self.dispatch();
            if self.backlog.is_empty() || !self.has_room() {
                return any_ended;
            }
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.let_go();
        if self.turn_sides() || self.sides.iter_mut().any(Side::needs_kernel) {
            self.turn();
            return;
        }
        if !self.wake_armed {
            self.wake_armed = true;
            let entry = opcode::Read::new(Fd(self.wake_fd.as_raw_fd()), self.wake_count.as_mut_ptr(), 8);
            self.queue(entry.build().user_data(WAKE));
        }
        if let Some(side) = self.sides.iter_mut().find(|side| side.in_kernel > 0 && !side.watched) {
            side.watched = true;
            let entry = opcode::PollAdd::new(Fd(side.uring.as_raw_fd()), u32::from(PollFlags::IN.bits()));
            self.queue(entry.build().user_data(SIDE));
        }
        if let Some(timeout) = timeout.filter(|timeout| !timeout.is_zero()) {
            self.set_alarm(timeout);
        }
        // One call can both hand over and sleep, unless there is more than it takes, or nothing to sleep for.
        let at_once = !self.backlog.is_empty() || !self.uring.completion().is_empty() || timeout == Some(Duration::ZERO);
        if !(at_once && self.turn()) && self.ready.is_empty() && timeout != Some(Duration::ZERO) {
            self.enter(1);
            self.dispatch();
            self.turn_sides();
        }
    }

    /// Sees to it that a sleep ends in that time. An alarm stays set when something else ends the sleep before, and then serves the
    /// next ones, which are for the same reason most of the time: setting a timer for each costs more than a request, in a virtual
    /// machine some ten microseconds.
    fn set_alarm(&mut self, timeout: Duration) {
        let due = crate::monotonic_now() + Nanos::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX / 2);
        if self.alarms.iter().any(|(_, alarm)| alarm.due <= due) {
            return;
        }
        let key = self.alarms.insert(Alarm { due, after: Box::new(Timespec::from(timeout)) });
        let entry = opcode::Timeout::new(&*self.alarms[key].after);
        self.queue(entry.build().user_data(ALARM | key as u64));
    }

    /// The system call. `want` 1: sleeps until a completion is there.
    fn enter(&mut self, want: usize) {
        self.try_enter(want).expect("io_uring takes entries as long as its descriptor is open");
    }

    fn try_enter(&mut self, want: usize) -> io::Result<()> {
        self.counters.call_count += 1;
        let result = self.uring.submitter().submit_and_wait(want);
        result.map(drop).or_else(|error| try_again(error, want > 0))
    }

    /// Takes jobs out of their slots as their completions come; whether any came.
    fn dispatch(&mut self) -> bool {
        let before = self.in_kernel;
        for completion in self.uring.completion() {
            self.in_kernel -= 1;
            match completion.user_data() {
                WAKE => self.wake_armed = false,
                SIDE => self.sides.iter_mut().for_each(|side| side.watched = false),
                REMOVED => {}
                alarm if alarm & ALARM != 0 => drop(self.alarms.remove((alarm & !ALARM) as usize)),
                watch if watch & WATCH != 0 => self.ready.push(self.watches.remove(watch as u32 as usize).0),
                slot => end(&mut self.slots, &mut self.free, slot, completion.result()),
            }
        }
        self.in_kernel < before
    }
}

/// Takes a job out of its slot, as its completion has come.
fn end(slots: &mut [Option<(Job, Rc<EndedJobs>)>], free: &mut Vec<u32>, slot: u64, result: i32) {
    let (job, ended) = slots[slot as usize].take().expect("the kernel completes an entry once");
    free.push(slot as u32);
    ended.borrow_mut().push((job, result));
}

/// Passes over errors of the system call after which the caller comes back.
fn try_again(error: io::Error, sleeps: bool) -> io::Result<()> {
    match Errno::from_io_error(&error) {
        // Woken early, timed out, or the kernel wants completions taken first.
        Some(Errno::INTR | Errno::TIME | Errno::BUSY) => {}
        // The kernel is short of memory: entries stay queued. A sleeper shall not turn into a busy loop.
        Some(Errno::AGAIN | Errno::NOMEM) if sleeps => std::thread::sleep(Duration::from_millis(1)),
        Some(Errno::AGAIN | Errno::NOMEM) => {}
        _ => return Err(error),
    }
    Ok(())
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Entries that the kernel has not seen are not carried out for anybody.
        self.backlog.clear();
        self.sides.iter_mut().for_each(Side::clear_backlog);
        if self.wake_armed {
            Waker(Arc::clone(&self.wake_fd)).wake();
        }
        let alarms: Vec<usize> = self.alarms.iter().map(|(key, _)| key).collect();
        for key in alarms {
            self.queue(opcode::TimeoutRemove::new(ALARM | key as u64).build().user_data(REMOVED));
        }
        // What the kernel holds ends by itself: requests in their drive's time, the wake-up, alarms and the watch were just given theirs.
        // A drive that hangs takes for ever, so that an alarm ends the wait.
        let until = Instant::now() + LAST_JOBS;
        let last = self.alarms.insert(Alarm { due: 0, after: Box::new(Timespec::from(LAST_JOBS)) });
        let entry = opcode::Timeout::new(&*self.alarms[last].after);
        self.queue(entry.build().user_data(ALARM | last as u64));
        let mut left = Ok(());
        for side in &mut self.sides {
            while left.is_ok() && side.in_kernel > 0 && Instant::now() < until {
                left = side.enter(0);
                let before = side.in_kernel;
                for completion in side.uring.completion() {
                    side.in_kernel -= 1;
                    end(&mut self.slots, &mut self.free, completion.user_data(), completion.result());
                }
                if side.in_kernel == before {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        while left.is_ok() && self.in_kernel > self.alarms.len() && Instant::now() < until {
            if self.sides.iter().any(|side| side.watched) {
                // Again if need be: a watch that has fired, but not told so yet, is not to be taken back, and if it then finds
                // nothing it watches on.
                self.queue(opcode::PollRemove::new(SIDE).build().user_data(REMOVED));
            }
            self.refill();
            left = self.try_enter(1);
            self.dispatch();
        }
        if left.is_err() || self.slots.len() > self.free.len() || self.in_kernel > self.alarms.len() {
            // Unknown what the kernel still does: its memory is never given back.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(std::mem::take(&mut self.alarms));
            std::mem::forget(std::mem::replace(&mut self.wake_count, Buffer::zeroed(0)));
        }
    }
}

#[cfg(test)]
mod tests;
