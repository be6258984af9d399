//! Threads for one drive's system calls that may wait: flushes, discards, zeroing, the search for holes, every request to a
//! file whose file system waits for a server, and transfers that the kernel could not take at once.
//!
//! io_uring's own worker threads are not enough. All rings of a thread share a few of them, so a drive that hangs in a flush
//! would occupy those that the healthy drives need. Two files can also share one of their queues. Here each drive has its own
//! threads, so a drive that hangs delays only itself.
//!
//! Requests to zero have a queue of their own and only some of the threads. Otherwise flushes, those of metadata updates too,
//! would wait behind any amount of zeroing that a client asks for.
//!
//! Threads are started as needed and end after a while without work, but for the last: a machine that has no thread to give for a
//! moment must not cost an array a member. The start of an array asks for the first ([`FirstThread`]), so that it is refused where
//! there is none. A drive that joins later has its first request wait for such a moment to pass. A thread owns its request with all
//! memory, and a handle of the drive, until the system call returns. So a call that hangs keeps everything it uses.

use crate::blocking::carry_out;
use crate::parts::PartOf;
use crate::ring::Waker;
use crate::{DriveInfo, SyncDrive};
use std::collections::{BTreeSet, VecDeque};
use std::fs::DirEntry;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_block::{ErrorKind, IoError, NO_THREAD, Nanos, Operation, Request};

/// The most system calls of one drive that may wait at once; later requests wait for a thread.
const THREADS_MAX: usize = 16;
/// The most of them that zero at once: zeroing may take seconds, and a flush must not wait for it.
const ZEROING_MAX: usize = 4;
/// A thread without work ends after this time, unless it is the drive's only one.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// 100 ms: the pause between two attempts to start the first thread of a drive.
const START_AGAIN: Nanos = 100_000_000;
/// 30 s, as long as the kernel's own drivers wait for a drive: after that requests fail for want of a thread, which drops the
/// member.
const START_PATIENCE: Nanos = 30_000_000_000;
/// The time that dropping a drive waits for calls in flight. Their threads keep the drive open until they return.
const LAST_CALLS: Duration = Duration::from_secs(1);
/// A call needs little stack: the memory of its request is on the heap.
const STACK_BYTES: usize = 256 << 10;
/// 200 ms: the pause between two checks of threads that wait in the kernel.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The handle of the threads.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    /// Arrival times of the requests that have not ended, with their numbers.
    open: BTreeSet<(Nanos, u64)>,
    count: u64,
    /// Starts a thread.
    start: Box<StartThread>,
    /// Requests wait, and not even one thread could be started.
    starved: Option<Starved>,
}

/// Starts the first thread of a drive ahead of its first request.
#[derive(Clone)]
pub(crate) struct FirstThread(Arc<Shared>);

impl FirstThread {
    /// Does nothing if there is a thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(&self, info: &DriveInfo) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.threads == 0 && !state.closed {
            start_thread(&self.0, info)?;
            state.threads += 1;
        }
        Ok(())
    }
}

type StartThread = dyn Fn(&Arc<Shared>, &DriveInfo) -> io::Result<()>;

struct Starved {
    /// The time of the first further attempt.
    since: Option<Nanos>,
    start_again_at: Nanos,
}

/// A request on its way through a thread.
pub(crate) struct Work {
    pub request: Request,
    pub since: Nanos,
    /// The transfer that this is a part of.
    pub part_of: Option<PartOf>,
}

impl Work {
    fn zeroes(&self) -> bool {
        matches!(self.request.operation, Operation::WriteZeroes { .. })
    }
}

struct Shared {
    state: Mutex<State>,
    /// There is work, or no more will come.
    changed: Condvar,
    /// A call has returned.
    returned: Condvar,
    /// The waker of the owner's ring. The lane's waker would not do, as the lane takes no turns while the array is opened.
    waker: Waker,
    idle_max: Duration,
}

/// A request with its number and its drive.
type Queued = (u64, SyncDrive, Work);

#[derive(Default)]
struct State {
    queue: VecDeque<Queued>,
    /// Requests to zero that wait, and the number that run.
    zeroes: VecDeque<Queued>,
    zeroing: usize,
    done: Vec<(u64, Work, Result<(), IoError>)>,
    threads: usize,
    idle: usize,
    /// The drive was dropped.
    closed: bool,
}

impl State {
    fn queue_for(&mut self, zeroes: bool) -> &mut VecDeque<Queued> {
        if zeroes { &mut self.zeroes } else { &mut self.queue }
    }

    /// The number of waiting requests that a thread may begin.
    fn ready(&self) -> usize {
        self.queue.len() + self.zeroes.len().min(ZEROING_MAX - self.zeroing)
    }

    /// The next request for a thread.
    fn take(&mut self) -> Option<Queued> {
        if let Some(queued) = self.queue.pop_front() {
            return Some(queued);
        }
        let queued = if self.zeroing < ZEROING_MAX { self.zeroes.pop_front() } else { None };
        self.zeroing += usize::from(queued.is_some());
        queued
    }
}

/// `drive sdb`, for tools that list threads, and for [`held_by`]. The kernel keeps 15 bytes.
fn thread_name(info: &DriveInfo) -> String {
    let name = info.real_path.file_name().unwrap_or_default().to_string_lossy();
    format!("{DRIVE}{}", stria_block::file_name(&name))
}

/// The beginning of the names of these threads.
const DRIVE: &str = "drive ";

/// The names of drives that may keep this process from ending: a request to them waits in the kernel, uninterruptibly. The
/// process ends and the drive is closed when they answer.
pub fn held_by() -> Vec<String> {
    let mut held = waiting();
    // A thread that was about to end counts as waiting for a moment.
    if !held.is_empty() {
        std::thread::sleep(LOOK_AGAIN);
        held = &held & &waiting();
    }
    held.into_iter().collect()
}

fn waiting() -> BTreeSet<String> {
    let text = |thread: &DirEntry, page: &str| std::fs::read_to_string(thread.path().join(page)).unwrap_or_default();
    let waits = |stat: &str| stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('D'));
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waiting = threads.filter(|thread| waits(&text(thread, "stat")));
    waiting.filter_map(|thread| Some(text(&thread, "comm").trim_end().strip_prefix(DRIVE)?.to_owned())).collect()
}

impl Workers {
    /// Starts no thread yet. `waker` is used when a request has ended.
    pub(crate) fn new(waker: Waker) -> Self {
        Self::with(waker, IDLE_MAX, Box::new(start_thread))
    }

    fn with(waker: Waker, idle_max: Duration, start: Box<StartThread>) -> Self {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), returned: Condvar::new(), waker, idle_max };
        Self { shared: Arc::new(shared), open: BTreeSet::new(), count: 0, start, starved: None }
    }

    /// The way to start the first thread before there is work.
    pub(crate) fn first_thread(&self) -> FirstThread {
        FirstThread(Arc::clone(&self.shared))
    }

    /// Submits a request. [`Workers::poll`] returns its end; it is an error if there is no thread for long.
    pub(crate) fn submit(&mut self, drive: &SyncDrive, work: Work) {
        let number = self.count;
        self.count += 1;
        self.open.insert((work.since, number));
        let mut state = self.shared.lock();
        state.queue_for(work.zeroes()).push_back((number, drive.clone(), work));
        if state.ready() > state.idle && state.threads < THREADS_MAX {
            match (self.start)(&self.shared, drive.info()) {
                Ok(()) => {
                    state.threads += 1;
                    self.starved = None;
                    return;
                }
                // The existing threads will run it.
                Err(_) if state.threads > 0 => {}
                Err(_) => {
                    self.starved.get_or_insert(Starved { since: None, start_again_at: 0 });
                    return;
                }
            }
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Tries again to start the first thread, and ends the waiting requests if that fails for too long.
    fn start_again(&mut self, now: Nanos) {
        let Some(starved) = self.starved.as_mut().filter(|starved| starved.start_again_at <= now) else { return };
        let since = *starved.since.get_or_insert(now);
        starved.start_again_at = now + START_AGAIN;
        let mut state = self.shared.lock();
        let Some((_, drive, _)) = state.queue.front().or_else(|| state.zeroes.front()) else { return };
        let drive = drive.clone();
        match (self.start)(&self.shared, drive.info()) {
            Ok(()) => state.threads += 1,
            Err(_) if now < since + START_PATIENCE => return,
            Err(error) => {
                let context = format!(
                    "member {}: cannot start a thread for a request, for {} s now: {error}; {NO_THREAD}",
                    drive.name(),
                    (now - since) / 1_000_000_000
                );
                let State { queue, zeroes, done, .. } = &mut *state;
                let failed = queue.drain(..).chain(zeroes.drain(..));
                done.extend(failed.map(|(number, _, work)| (number, work, Err(IoError::new(ErrorKind::Other, context.clone())))));
            }
        }
        drop(state);
        self.starved = None;
    }

    /// The arrival time of the oldest request that has not ended.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.open.first().map(|&(since, _)| since)
    }

    /// The number of requests that have not ended.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Takes the requests that have ended.
    pub(crate) fn poll(&mut self, now: Nanos) -> Vec<(Work, Result<(), IoError>)> {
        if self.open.is_empty() {
            return Vec::new();
        }
        self.start_again(now);
        let done = std::mem::take(&mut self.shared.lock().done);
        let end = |(number, work, result): (u64, Work, _)| {
            self.open.remove(&(work.since, number));
            (work, result)
        };
        done.into_iter().map(end).collect()
    }

    /// The time at which [`Workers::poll`] has something to do, if it has; 0: at once.
    pub(crate) fn next_wake(&self) -> Option<Nanos> {
        if self.open.is_empty() {
            return None;
        }
        let ended = !self.shared.lock().done.is_empty();
        if ended { Some(0) } else { self.starved.as_ref().map(|starved| starved.start_again_at) }
    }
}

fn start_thread(shared: &Arc<Shared>, info: &DriveInfo) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name(thread_name(info)).stack_size(STACK_BYTES);
    thread.spawn(move || shared.work()).map(drop)
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.queue.clear();
        state.zeroes.clear();
        self.shared.changed.notify_all();
        let end = Instant::now() + LAST_CALLS;
        while state.threads > state.idle {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { return };
            state = self.shared.returned.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a thread to its end.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some((number, drive, mut work)) = state.take() else {
                if state.closed {
                    break;
                }
                state.idle += 1;
                if state.threads == 1 {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                    continue;
                }
                let (next, wait) = self.changed.wait_timeout(state, self.idle_max).unwrap_or_else(PoisonError::into_inner);
                state = next;
                state.idle -= 1;
                if wait.timed_out() && state.ready() == 0 && state.threads > 1 {
                    break;
                }
                continue;
            };
            drop(state);
            let result = carry_out(&drive, &mut work.request);
            // The owner may rely on this: an ended request does not keep the drive open.
            drop(drive);
            state = self.lock();
            state.zeroing -= usize::from(work.zeroes());
            state.done.push((number, work, result));
            drop(state);
            self.waker.wake();
            state = self.lock();
        }
        state.threads -= 1;
        drop(state);
        self.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Ring};
    use std::cell::Cell;
    use std::path::Path;
    use std::rc::Rc;

    fn drive_in(folder: &Path) -> SyncDrive {
        let path = folder.join("drive");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        SyncDrive::open(&path, Access::Exclusive).unwrap()
    }

    fn flush(number: u64) -> Work {
        let request = Request { tag: number, start_sector: 0, sectors: 0, operation: Operation::Flush };
        Work { request, since: 0, part_of: None }
    }

    /// Threads of a machine that has none to give while the cell says so.
    fn workers(ring: &Ring, idle_max: Duration) -> (Workers, Rc<Cell<bool>>) {
        let refused = Rc::new(Cell::new(false));
        let refuses = Rc::clone(&refused);
        let start = move |shared: &Arc<Shared>, info: &DriveInfo| match refuses.get() {
            true => Err(rustix::io::Errno::AGAIN.into()),
            false => start_thread(shared, info),
        };
        (Workers::with(ring.waker(), idle_max, Box::new(start)), refused)
    }

    fn ended(workers: &mut Workers, now: Nanos) -> Vec<(Work, Result<(), IoError>)> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let ended = workers.poll(now);
            if !ended.is_empty() {
                return ended;
            }
            assert!(Instant::now() < end, "a thread ends it");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A start asks for the first thread of each drive. It stays, so later requests need none from the system.
    #[test]
    fn the_first_thread_is_there_before_its_request() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, ring) = (drive_in(folder.path()), Ring::new().unwrap());
        let (mut workers, refused) = workers(&ring, Duration::ZERO);
        for _ in 0..2 {
            workers.first_thread().start(drive.info()).unwrap();
            assert_eq!(workers.shared.lock().threads, 1);
        }
        refused.set(true);
        workers.submit(&drive, flush(1));
        assert!(ended(&mut workers, 7).remove(0).1.is_ok());
        let first = workers.first_thread();
        drop(workers);
        first.start(drive.info()).unwrap();
        assert!(first.0.lock().threads <= 1, "a drive that is gone gets no other");
    }

    /// A moment without threads (`TasksMax`, `pids.max`) cost a member its slot: the request failed at once, and a failed flush
    /// drops the member.
    #[test]
    fn request_outlasts_a_moment_without_threads() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, ring) = (drive_in(folder.path()), Ring::new().unwrap());
        let (mut workers, refused) = workers(&ring, IDLE_MAX);
        refused.set(true);
        workers.submit(&drive, flush(1));
        assert_eq!(workers.next_wake(), Some(0));
        assert!(workers.poll(7).is_empty(), "no thread, and no end");
        assert_eq!(workers.next_wake(), Some(7 + START_AGAIN));
        refused.set(false);
        assert!(workers.poll(6 + START_AGAIN).is_empty(), "not yet tried");
        assert_eq!(workers.shared.lock().threads, 0);
        let ended = ended(&mut workers, 7 + START_AGAIN);
        assert!(matches!(&ended[..], [(work, Ok(()))] if work.request.tag == 1));
        assert_eq!(workers.next_wake(), None);
    }

    #[test]
    fn request_fails_after_long_without_threads() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, ring) = (drive_in(folder.path()), Ring::new().unwrap());
        let (mut workers, refused) = workers(&ring, IDLE_MAX);
        refused.set(true);
        workers.submit(&drive, flush(1));
        let zeroes = Operation::WriteZeroes { fua: false, unmap: false, fast: false };
        let request = Request { tag: 2, start_sector: 0, sectors: 8, operation: zeroes };
        workers.submit(&drive, Work { request, since: 0, part_of: None });
        assert!(workers.poll(1).is_empty() && workers.poll(START_PATIENCE).is_empty());
        let ended = workers.poll(START_PATIENCE + START_AGAIN);
        let tags: Vec<_> = ended.iter().map(|(work, _)| work.request.tag).collect();
        assert_eq!(tags, [1, 2]);
        let error = ended[0].1.as_ref().unwrap_err();
        let context = "drive: cannot start a thread for a request, for 30 s now: Resource temporarily unavailable";
        assert!(error.kind == ErrorKind::Other && error.context.contains(context), "{error:?}");
        assert_eq!(workers.next_wake(), None);
    }

    #[test]
    fn last_thread_of_a_drive_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, ring) = (drive_in(folder.path()), Ring::new().unwrap());
        let (mut workers, refused) = workers(&ring, Duration::from_millis(1));
        (1..9).for_each(|number| workers.submit(&drive, flush(number)));
        let mut count = 0;
        while count < 8 {
            count += ended(&mut workers, 0).len();
        }
        let end = Instant::now() + Duration::from_secs(60);
        while workers.shared.lock().threads > 1 {
            assert!(Instant::now() < end, "the others end");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Long enough for one that would end too.
        std::thread::sleep(Duration::from_millis(50));
        refused.set(true);
        workers.submit(&drive, flush(9));
        assert_eq!(ended(&mut workers, 0)[0].0.request.tag, 9);
        // The drop does not wait for the thread that is idle, and ends it.
        let shared = Arc::downgrade(&workers.shared);
        drop(workers);
        while shared.strong_count() > 0 {
            assert!(Instant::now() < end, "it ends with the drive");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn zeroing_leaves_threads_for_flushes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let drive = SyncDrive::open(&path, Access::Exclusive).unwrap();
        let mut state = State::default();
        let push = |state: &mut State, number, operation| {
            let work = Work { request: Request { tag: 0, start_sector: 0, sectors: 8, operation }, since: 0, part_of: None };
            state.queue_for(work.zeroes()).push_back((number, drive.clone(), work));
        };
        (0..100).for_each(|number| push(&mut state, number, Operation::WriteZeroes { fua: false, unmap: false, fast: false }));
        assert_eq!(state.ready(), ZEROING_MAX);
        assert_eq!(std::iter::from_fn(|| state.take()).count(), ZEROING_MAX);
        push(&mut state, 100, Operation::Flush);
        assert_eq!(state.ready(), 1);
        assert_eq!(state.take().map(|(number, ..)| number), Some(100));
        state.zeroing -= 1;
        assert_eq!(state.take().map(|(number, ..)| number), Some(ZEROING_MAX as u64), "one has ended");
    }
}
