//! One io_uring for all drives of a thread.
//!
//! Drives queue entries. [`Ring::poll`] submits all of them to the kernel with one system call and sorts completed jobs into
//! the drives' own queues; [`Ring::wait`] does the same and sleeps. The ring knows nothing of requests: it stores each entry's
//! [`Job`] and returns it with the kernel's result.
//!
//! Why the `unsafe` here is sound: The kernel accesses the memory that an entry names only between its submission and its
//! completion. That memory (buffers, the list of segments, the open file behind the descriptor) is owned by the entry's job, at
//! addresses that do not change when the job moves. The job lies in a slot of the ring from before the entry is queued until its
//! completion was read. Nothing takes it out earlier: dropping a drive leaves its jobs in their slots. Dropping the ring frees
//! the jobs whose entries the kernel has not seen, and waits until no other is left; if a drive hangs, it leaks the rest with
//! their memory. If the ring is leaked, so are the jobs. Only one thread uses the ring (`Rc`), as single-issuer mode requires.

mod entry;
mod setup;
mod side;

use crate::DriveError;
use crate::job::Job;
use crate::registered::Registered;
use entry::Entry;
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

/// The time that a dropped ring waits for its drives. Memory that a hanging drive may still access is never freed.
const LAST_JOBS: Duration = Duration::from_secs(2);

/// Files that a ring can have registered, its sides as many; further drives use their descriptors.
const FILES_MAX: u32 = 256;

/// Ended jobs of one drive, with the kernel's results.
pub(crate) type EndedJobs = RefCell<Vec<(Job, i32)>>;

/// The io_uring that all drives of one thread share. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct Ring(Rc<RefCell<Inner>>);

/// Wakes a ring's thread out of [`Ring::wait`], from any thread.
#[derive(Clone)]
pub struct Waker(Arc<OwnedFd>);

struct Inner {
    uring: IoUring,
    /// The job of every entry from `push` until its completion, with its destination.
    slots: Vec<Option<(Job, Rc<EndedJobs>)>>,
    free: Vec<u32>,
    /// Entries that found the submission queue, or the kernel, full.
    backlog: VecDeque<squeue::Entry>,
    /// Entries in the submission queue or with the kernel, the wake-up's included.
    in_kernel: usize,
    in_kernel_max: usize,
    /// Rings beside this one: at most one that is polled and one that is not.
    sides: Vec<Side>,
    has_files: bool,
    /// Requests of its drives that the drives' own threads carry out.
    outside: usize,
    /// Memory that is registered, here and with the sides, as the first buffer.
    memory: Option<&'static Arena>,
    /// Free indices for registered files; empty if the kernel does not support them.
    free_files: Vec<u32>,
    /// Indices that are no longer used, while their file is still registered.
    released: Rc<RefCell<Vec<u32>>>,
    driven: bool,
    now: Nanos,
    wake_fd: Arc<OwnedFd>,
    /// The function that a lane provides for other threads to call.
    nudge: Option<Arc<dyn Fn() + Send + Sync>>,
    wake_armed: bool,
    wake_count: Buffer,
    /// Timers that end a sleep. A timer is added only if it ends earlier than the others, so there are few.
    alarms: Slab<Alarm>,
    /// Watched sockets, with their keys.
    watches: Slab<(u32, Arc<OwnedFd>)>,
    /// Keys of sockets that became ready.
    ready: Vec<u32>,
    counters: RingCounters,
    setup: &'static str,
}

/// A timer that is set in the kernel.
struct Alarm {
    due: Nanos,
    /// The kernel reads it when it takes the entry.
    after: Box<Timespec>,
}

/// The work of a ring since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Calls into the kernel: to submit, to sleep, or both at once.
    pub call_count: u64,
    /// Entries submitted.
    pub entry_count: u64,
    /// Those of them that are drives' reads, writes and other work.
    pub job_count: u64,
    /// Those of the drives' entries that transfer registered memory.
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

    /// The mode in which the ring was set up, the best that the kernel has: for status displays.
    pub fn setup(&self) -> &'static str {
        self.0.borrow().setup
    }

    /// Registers a file, and with a side the file that is used there, under the same index. `None`: there is no free index, or
    /// the kernel does not support it.
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

    /// Registers the arena's memory for drives that are added to this ring later, if the user may lock that much. Transfers of
    /// it save the kernel finding and pinning its pages each time.
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

    /// Opens a side of this kind, if there is none yet.
    pub(crate) fn open_side(&self, polled: bool) -> io::Result<()> {
        let inner = &mut *self.0.borrow_mut();
        if !inner.sides.iter().any(|side| side.polled == polled) {
            inner.sides.push(Side::new(polled, if inner.has_files { FILES_MAX } else { 0 }, inner.memory)?);
        }
        Ok(())
    }

    /// True if requests are in flight whose end nothing reports: then [`Ring::poll`] must be called again and again, and
    /// [`Ring::wait`] does not sleep.
    pub fn is_polling(&self) -> bool {
        self.0.borrow().sides.iter().any(Side::is_polling)
    }

    /// The work that it has done so far.
    pub fn counters(&self) -> RingCounters {
        self.0.borrow().counters
    }

    /// Submits all queued entries to the kernel, and moves completed jobs to the drives. Makes no system call if there are
    /// neither.
    pub fn poll(&self) {
        self.0.borrow_mut().turn();
    }

    /// Like [`Ring::poll`]. If nothing has ended, it sleeps until something has, a [`Waker`] is used, or `timeout` is over
    /// (`None`: no limit). May return early.
    pub fn wait(&self, timeout: Option<Duration>) {
        self.0.borrow_mut().wait(timeout);
    }

    /// A handle that ends this ring's wait from other threads.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.0.borrow().wake_fd))
    }

    /// Makes the ring's lane take a turn soon, from any thread. Costs a system call only if the lane sleeps. Without a lane it
    /// wakes the ring.
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

    /// Waits until the kernel has no job of any drive. After that the lock of a dropped drive is free.
    pub fn drain(&self) {
        let inner = &mut *self.0.borrow_mut();
        while inner.slots.len() > inner.free.len() {
            inner.wait(None);
        }
        inner.let_go();
    }

    /// Stores `job`, queues `entry`, and moves the job to `ended` once the entry has completed.
    ///
    /// # Safety
    /// Every address and descriptor in `entry` must be valid as long as `job` lives, wherever it is moved.
    pub(crate) unsafe fn push(&self, entry: squeue::Entry, job: Job, ended: &Rc<EndedJobs>) {
        let inner = &mut *self.0.borrow_mut();
        let slot = inner.keep(job, ended);
        inner.queue(entry.user_data(Entry::Slot(slot).number()));
    }

    /// The same, on the side of this kind, which must have been opened.
    ///
    /// # Safety
    /// As [`Ring::push`].
    pub(crate) unsafe fn push_aside(&self, polled: bool, entry: squeue::Entry128, job: Job, ended: &Rc<EndedJobs>) {
        let inner = &mut *self.0.borrow_mut();
        let slot = inner.keep(job, ended);
        inner.counters.entry_count += 1;
        inner.side(polled).queue(entry.user_data(Entry::Slot(slot).number()));
    }

    /// Watches a socket once: [`Ring::take_ready`] returns `key` when it is readable (or its peer has ended), or with `to_send`,
    /// when it is writable. The socket stays open until then, so a user that is done with it must shut it down. If it were
    /// closed, an entry that is not submitted yet would watch another file of the same number.
    pub(crate) fn watch(&self, socket: &Arc<OwnedFd>, to_send: bool, key: u32) {
        let events = if to_send { PollFlags::OUT } else { PollFlags::IN | PollFlags::RDHUP };
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), u32::from(events.bits()));
        let inner = &mut *self.0.borrow_mut();
        let watch = inner.watches.insert((key, Arc::clone(socket)));
        inner.queue(entry.build().user_data(Entry::Watch(watch).number()));
    }

    /// True if a watched socket has become ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.0.borrow().ready.is_empty()
    }

    /// Moves the keys of watched sockets that became ready to the end of `into`.
    pub(crate) fn take_ready(&self, into: &mut Vec<u32>) {
        into.append(&mut self.0.borrow_mut().ready);
    }

    /// Sets the time of this turn.
    pub(crate) fn set_now(&self, now: Nanos) {
        self.0.borrow_mut().now = now;
    }

    /// The time of this turn.
    pub(crate) fn now(&self) -> Nanos {
        self.0.borrow().now
    }

    /// True if any drive's job is in flight.
    pub fn is_busy(&self) -> bool {
        let inner = self.0.borrow();
        inner.outside > 0 || inner.slots.len() > inner.free.len()
    }

    /// The number of a drive's requests that its own threads carry out has changed from `before` to `now`.
    pub(crate) fn set_outside(&self, before: usize, now: usize) {
        let outside = &mut self.0.borrow_mut().outside;
        *outside = *outside - before + now;
    }

    /// The start of the oldest job whose completion goes to `ended`.
    pub(crate) fn oldest(&self, ended: &Rc<EndedJobs>) -> Option<Nanos> {
        let inner = self.0.borrow();
        let theirs = inner.slots.iter().flatten().filter(|(_, to)| Rc::ptr_eq(to, ended));
        theirs.map(|(job, _)| job.since).min()
    }

    /// From now on the caller promises a [`Ring::poll`] or [`Ring::wait`] after each turn of its loop, so that drives need not
    /// make system calls in their polls: one call then serves all of them, often the one that sleeps.
    pub(crate) fn set_driven(&self) {
        self.0.borrow_mut().driven = true;
    }

    /// Sorts completed jobs when a drive polls. Also submits, unless a lane does that.
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
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's io_uring lacks what is needed: use Linux 5.11 or later",
            ));
        }
        // Linux 5.19. Without it every entry uses its descriptor.
        let has_files = uring.submitter().register_files_sparse(FILES_MAX).is_ok();
        let in_kernel_max = params.cq_entries() as usize;
        // Without O_NONBLOCK: a read of it through the ring must wait instead of failing.
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
            now: crate::clock::monotonic_now(),
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

    /// Puts a job into a slot, and returns its number.
    fn keep(&mut self, job: Job, ended: &Rc<EndedJobs>) -> usize {
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
        slot as usize
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
        // SAFETY: the module head's argument. `push` requires it of its callers; the wake-up's memory is the ring's own, as is
        // an alarm's, which does not move until it has ended; a watch names no memory.
        let queued = unsafe { self.uring.submission().push(entry) }.is_ok();
        self.in_kernel += usize::from(queued);
        self.counters.entry_count += u64::from(queued);
        queued
    }

    /// Moves entries from the backlog to the submission queue, as far as there is space.
    fn refill(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_queue(&entry) {
                self.backlog.push_front(entry);
                return;
            }
        }
    }

    /// Unregisters unused files.
    fn let_go(&mut self) {
        while let Some(index) = self.released.borrow_mut().pop() {
            let submitters = std::iter::once(self.uring.submitter()).chain(self.sides.iter().map(|side| side.uring.submitter()));
            for submitter in submitters {
                submitter.register_files_update(index, &[-1]).expect("an index can be cleared");
            }
            self.free_files.push(index);
        }
    }

    /// True if the kernel has entries to take or completions to deliver.
    fn needs_kernel(&mut self) -> bool {
        let submission = self.uring.submission();
        !submission.is_empty() || submission.taskrun()
    }

    /// Submits what is queued on the sides, and takes what ended there. True if anything ended.
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
                    end(&mut self.slots, &mut self.free, Entry::of(completion.user_data()), completion.result());
                }
                any_ended |= side.in_kernel < before;
                if !side.has_more() {
                    break;
                }
            }
        }
        any_ended
    }

    /// Submits what is queued and dispatches what has ended. True if anything had.
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
            self.queue(entry.build().user_data(Entry::Wake.number()));
        }
        if let Some(side) = self.sides.iter_mut().find(|side| side.in_kernel > 0 && !side.watched) {
            side.watched = true;
            let entry = opcode::PollAdd::new(Fd(side.uring.as_raw_fd()), u32::from(PollFlags::IN.bits()));
            self.queue(entry.build().user_data(Entry::Side.number()));
        }
        if let Some(timeout) = timeout.filter(|timeout| !timeout.is_zero()) {
            self.set_alarm(timeout);
        }
        // One call can both submit and sleep, unless there is more than it takes, or no reason to sleep.
        let at_once = !self.backlog.is_empty() || !self.uring.completion().is_empty() || timeout == Some(Duration::ZERO);
        if !(at_once && self.turn()) && self.ready.is_empty() && timeout != Some(Duration::ZERO) {
            self.enter(1);
            self.dispatch();
            self.turn_sides();
        }
    }

    /// Ensures that a sleep ends within `timeout`. An alarm stays set when something else ends the sleep first, and serves
    /// later sleeps, which mostly have the same reason: setting a timer for each costs more than a request, in a virtual
    /// machine some ten microseconds.
    fn set_alarm(&mut self, timeout: Duration) {
        let due = crate::clock::monotonic_now() + Nanos::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX / 2);
        if self.alarms.iter().any(|(_, alarm)| alarm.due <= due) {
            return;
        }
        let key = self.alarms.insert(Alarm { due, after: Box::new(Timespec::from(timeout)) });
        let entry = opcode::Timeout::new(&*self.alarms[key].after);
        self.queue(entry.build().user_data(Entry::Alarm(key).number()));
    }

    /// The system call. `want` 1: sleeps until there is a completion.
    fn enter(&mut self, want: usize) {
        self.try_enter(want).expect("io_uring takes entries as long as its descriptor is open");
    }

    fn try_enter(&mut self, want: usize) -> io::Result<()> {
        self.counters.call_count += 1;
        let result = self.uring.submitter().submit_and_wait(want);
        result.map(drop).or_else(|error| try_again(error, want > 0))
    }

    /// Forgets an entry that the kernel has not seen, and frees what it would have used.
    fn discard(&mut self, entry: Entry) {
        match entry {
            Entry::Wake => self.wake_armed = false,
            Entry::Side => self.sides.iter_mut().for_each(|side| side.watched = false),
            Entry::Cancelled => {}
            Entry::Alarm(key) => drop(self.alarms.remove(key)),
            Entry::Watch(key) => drop(self.watches.remove(key)),
            Entry::Slot(slot) => {
                self.slots[slot] = None;
                self.free.push(slot as u32);
            }
        }
    }

    /// Takes jobs out of their slots as their completions arrive. True if any did.
    fn dispatch(&mut self) -> bool {
        let before = self.in_kernel;
        for completion in self.uring.completion() {
            self.in_kernel -= 1;
            match Entry::of(completion.user_data()) {
                Entry::Wake => self.wake_armed = false,
                Entry::Side => self.sides.iter_mut().for_each(|side| side.watched = false),
                Entry::Cancelled => {}
                Entry::Alarm(key) => drop(self.alarms.remove(key)),
                Entry::Watch(key) => self.ready.push(self.watches.remove(key).0),
                slot @ Entry::Slot(_) => end(&mut self.slots, &mut self.free, slot, completion.result()),
            }
        }
        self.in_kernel < before
    }
}

/// Takes a completed job out of its slot.
fn end(slots: &mut [Option<(Job, Rc<EndedJobs>)>], free: &mut Vec<u32>, slot: Entry, result: i32) {
    let Entry::Slot(slot) = slot else { unreachable!("{slot:?} is not a job") };
    let (job, ended) = slots[slot].take().expect("the kernel completes an entry once");
    free.push(slot as u32);
    ended.borrow_mut().push((job, result));
}

/// Ignores errors of the system call that the caller handles by trying again.
fn try_again(error: io::Error, sleeps: bool) -> io::Result<()> {
    match Errno::from_io_error(&error) {
        // Woken early, timed out, or the kernel wants completions taken first.
        Some(Errno::INTR | Errno::TIME | Errno::BUSY) => {}
        // The kernel is short of memory: entries stay queued. A sleep must not become a busy loop.
        Some(Errno::AGAIN | Errno::NOMEM) if sleeps => std::thread::sleep(Duration::from_millis(1)),
        Some(Errno::AGAIN | Errno::NOMEM) => {}
        _ => return Err(error),
    }
    Ok(())
}

impl Drop for Inner {
    fn drop(&mut self) {
        let backlog = std::mem::take(&mut self.backlog);
        let unseen = backlog.iter().map(squeue::Entry::get_user_data).chain(self.sides.iter_mut().flat_map(Side::take_backlog));
        let unseen: Vec<u64> = unseen.collect();
        unseen.into_iter().for_each(|number| self.discard(Entry::of(number)));
        if self.wake_armed {
            Waker(Arc::clone(&self.wake_fd)).wake();
        }
        let alarms: Vec<usize> = self.alarms.iter().map(|(key, _)| key).collect();
        for key in alarms {
            self.queue(opcode::TimeoutRemove::new(Entry::Alarm(key).number()).build().user_data(Entry::Cancelled.number()));
        }
        // Entries that the kernel has will end by themselves: requests when their drive answers; the wake-up, alarms and the
        // watch were just cancelled. A drive that hangs may never answer, so an alarm ends the wait.
        let until = Instant::now() + LAST_JOBS;
        let last = self.alarms.insert(Alarm { due: 0, after: Box::new(Timespec::from(LAST_JOBS)) });
        let entry = opcode::Timeout::new(&*self.alarms[last].after);
        self.queue(entry.build().user_data(Entry::Alarm(last).number()));
        let mut left = Ok(());
        for side in &mut self.sides {
            while left.is_ok() && side.in_kernel > 0 && Instant::now() < until {
                left = side.enter(0);
                let before = side.in_kernel;
                for completion in side.uring.completion() {
                    side.in_kernel -= 1;
                    end(&mut self.slots, &mut self.free, Entry::of(completion.user_data()), completion.result());
                }
                if side.in_kernel == before {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        while left.is_ok() && self.in_kernel > self.alarms.len() && Instant::now() < until {
            if self.sides.iter().any(|side| side.watched) {
                // Repeated if necessary: a watch that has fired, but has not reported it yet, cannot be cancelled; if it then
                // finds nothing, it goes on watching.
                self.queue(opcode::PollRemove::new(Entry::Side.number()).build().user_data(Entry::Cancelled.number()));
            }
            self.refill();
            left = self.try_enter(1);
            self.dispatch();
        }
        if left.is_err() || self.slots.len() > self.free.len() || self.in_kernel > self.alarms.len() {
            // The kernel may still use the memory, so it is never freed.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(std::mem::take(&mut self.alarms));
            std::mem::forget(std::mem::replace(&mut self.wake_count, Buffer::zeroed(0)));
        }
    }
}

#[cfg(test)]
mod tests;
