//! One thread that owns a ring and a device, and serves it to other threads.
//!
//! Each turn of a lane takes all messages, submits all requests, polls the device once, answers every client with one batch,
//! and hands everything queued for the drives to the kernel. The same system call sleeps if nothing else is due. The lane knows
//! nothing about its device.
//!
//! Clients are other threads, which send messages, or [`LaneClient`]s, which live on the lane and take part in its turns: the
//! ring watches their sockets. An on-lane client costs no message between threads, and shares the lane's processor.
//!
//! Invariant: every request taken from the mailbox is answered exactly once. The [`RequestTable`] remembers the client and its
//! tag, and gives the request the number of a slot as its tag. When the thread ends, normally or by a panic, the table answers
//! all open requests, and `stopped` is set. From then on a thread that sends a message empties the mailbox itself. On-lane
//! clients of a lane that broke off are dropped without answers, so that their requests are left to the next server, as after a
//! crash.
//!
//! Several lanes may serve one device: a [`LaneRouter`] represents them to clients, and a [`PanicGroup`] ends them together.

mod clients;
mod lane_router;
mod panic_group;
mod patience;
mod request_table;

pub use lane_router::LaneRouter;
pub use panic_group::PanicGroup;

use crate::clock::monotonic_now;
use crate::{DriveError, Ring};
use clients::LaneClients;
use patience::Patience;
use request_table::RequestTable;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stria_block::{BlockDevice, Completion, LaneClient, Limits, Mailbox, Nanos, RemoteDevice, Request};

/// The settings of a lane; [`Lane::spawn`] starts it.
pub struct Lane {
    name: String,
    cpus: Vec<usize>,
    spin_max: Duration,
    takes_clients: bool,
    panic_group: PanicGroup,
}

/// The handle by which other threads reach a lane. Dropping it stops the lane.
pub struct LaneHandle<D> {
    shared: Arc<Shared<D>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The lane has ended: it was stopped, or its device panicked, or that of another lane of its [`PanicGroup`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lane {name} {}", if *.panicked { "broke off on an internal error (a panic, see the log)" } else { "has stopped" })]
pub struct LaneStopped {
    /// The lane's name.
    pub name: String,
    /// True if it ended by a panic: a mistake of ours.
    pub panicked: bool,
}

enum Message<D> {
    /// Requests behind this message, up to the next such message, are answered here.
    Client(Arc<Mailbox<Completion>>),
    Request(Request),
    Call(Box<dyn FnOnce(&mut D) + Send>),
    LaneClient(Box<dyn LaneClient>),
    Stir,
    Stop,
    /// End at once; open requests end with an error.
    Leave,
    /// End as if the device had panicked.
    BreakOff,
}

/// The time at which the lane began its turn, or at which the next one was due. `None`: it sleeps until a message arrives.
struct TurnDue(AtomicU64);

impl TurnDue {
    const NEVER: Nanos = Nanos::MAX;

    fn set(&self, due: Option<Nanos>) {
        self.0.store(due.unwrap_or(Self::NEVER), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Nanos> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&due| due != Self::NEVER)
    }
}

struct Shared<D> {
    name: String,
    turn_due: TurnDue,
    /// The kernel's number of the thread.
    thread_id: AtomicI32,
    mailbox: Arc<Mailbox<Message<D>>>,
    limits: Limits,
    takes_clients: bool,
    /// Set before the thread empties the mailbox for the last time.
    stopped: AtomicBool,
    panicked: AtomicBool,
}

impl Lane {
    /// A lane on any processor that spins for at most 50 microseconds, in a virtual machine 100. It takes on-lane clients if
    /// there are at most two processors: with more, clients on threads of their own take work off the lane's processor.
    pub fn new(name: impl Into<String>) -> Self {
        let processor_count = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            name: name.into(),
            cpus: Vec::new(),
            spin_max: patience::spin_max(),
            takes_clients: processor_count <= 2,
            panic_group: PanicGroup::default(),
        }
    }

    /// Restricts the thread to these processors, counted from 0; any if empty.
    pub fn on_cpus(self, cpus: Vec<usize>) -> Self {
        Self { cpus, ..self }
    }

    /// The time that the lane may poll for the next event before it sleeps, if recent events came that quickly. Zero: it sleeps
    /// at once. [`Duration::MAX`]: it never sleeps.
    pub fn spin_max(self, spin_max: Duration) -> Self {
        Self { spin_max, ..self }
    }

    /// Whether [`LaneClient`]s may live on the lane.
    pub fn takes_clients(self, takes_clients: bool) -> Self {
        Self { takes_clients, ..self }
    }

    /// A lane that breaks off when another lane of the same group does.
    pub fn bound_by(self, panic_group: &PanicGroup) -> Self {
        Self { panic_group: panic_group.clone(), ..self }
    }

    /// Starts the thread, builds the device there, and returns when that is done.
    ///
    /// # Errors
    /// The error of `build`, or a [`DriveError`] when there is no thread, no such processor, or no io_uring.
    ///
    /// # Panics
    /// The function `build` panics.
    pub fn spawn<D, E>(self, build: impl FnOnce(&Ring) -> Result<D, E> + Send + 'static) -> Result<LaneHandle<D>, E>
    where
        D: BlockDevice + 'static,
        E: From<DriveError> + Send + 'static,
    {
        let name = self.name.clone();
        let fail = move |action, source| DriveError::Lane { name: name.clone(), action, source };
        let (ready, started) = channel();
        let thread = std::thread::Builder::new().name(self.name.clone()).spawn({
            let fail = fail.clone();
            move || {
                let pinned = keep_to(&self.cpus).map_err(|source| fail("run on the processor asked for", source));
                let ring = pinned.and_then(|()| Ring::new()).inspect(Ring::register_memory);
                let built = ring.map_err(E::from).and_then(|ring| {
                    let waker = ring.waker();
                    let mailbox = Arc::new(Mailbox::new(move || waker.wake()));
                    let nudged = Arc::clone(&mailbox);
                    ring.set_nudge(move || nudged.nudge());
                    build(&ring).map(|device| (ring, device, mailbox))
                });
                let (ring, device, mailbox) = match built {
                    Ok(built) => built,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                let shared = Arc::new(Shared {
                    name: self.name,
                    turn_due: TurnDue(AtomicU64::new(TurnDue::NEVER)),
                    thread_id: AtomicI32::new(rustix::thread::gettid().as_raw_nonzero().get()),
                    mailbox,
                    limits: device.limits().clone(),
                    takes_clients: self.takes_clients,
                    stopped: AtomicBool::new(false),
                    panicked: AtomicBool::new(false),
                });
                let bound = Arc::downgrade(&shared);
                self.panic_group.join(move || {
                    if let Some(lane) = bound.upgrade() {
                        lane.send([Message::BreakOff]);
                    }
                });
                // If the caller is gone, so is its handle, which has sent a stop.
                let _ = ready.send(Ok(Arc::clone(&shared)));
                drop(ready);
                live(&shared, &ring, device, self.spin_max, &self.panic_group);
            }
        });
        let thread = thread.map_err(|source| fail("start its thread", source))?;
        match started.recv() {
            Ok(shared) => Ok(LaneHandle { shared: shared?, thread: Mutex::new(Some(thread)) }),
            Err(_) => std::panic::resume_unwind(thread.join().expect_err("it sends before it ends")),
        }
    }
}

/// Restricts this thread to some processors, counted from 0. Does nothing if none are named.
///
/// # Errors
/// A number is out of range, or none of the processors exists.
pub fn keep_to(cpus: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(rustix::io::Errno::INVAL.into());
        }
        set.set(cpu);
    }
    if cpus.is_empty() { Ok(()) } else { Ok(sched_setaffinity(None, &set)?) }
}

impl<D: BlockDevice + 'static> LaneHandle<D> {
    /// The device as front ends reach it. It outlives the lane; then every request ends with an error.
    pub fn remote(&self) -> Arc<dyn RemoteDevice> {
        Arc::<Shared<D>>::clone(&self.shared)
    }

    /// Runs `work` on the device, between two turns, and waits for its result. Must not be called on the lane's own thread,
    /// which would wait for itself.
    ///
    /// # Errors
    /// [`LaneStopped`] when the lane ended before the work did.
    pub fn call<R: Send + 'static>(&self, work: impl FnOnce(&mut D) -> R + Send + 'static) -> Result<R, LaneStopped> {
        let (sender, result) = channel();
        self.shared.send([Message::Call(Box::new(move |device| {
            // A caller that is gone needs no result.
            let _ = sender.send(work(device));
        }))]);
        result.recv().map_err(|_| self.shared.end())
    }

    /// As [`LaneHandle::call`], but waits at most `patience`. `Ok(None)`: the lane has not run it yet, and will when it can.
    ///
    /// # Errors
    /// As [`LaneHandle::call`].
    pub fn call_within<R: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce(&mut D) -> R + Send + 'static,
    ) -> Result<Option<R>, LaneStopped> {
        let (sender, result) = channel();
        self.shared.send([Message::Call(Box::new(move |device| {
            let _ = sender.send(work(device));
        }))]);
        match result.recv_timeout(patience) {
            Ok(result) => Ok(Some(result)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.shared.end()),
        }
    }

    /// The time that the lane has been in its present turn, or overdue to begin one. Does not wait for the lane.
    pub fn stands_still(&self) -> Duration {
        let due = self.shared.turn_due.get().filter(|_| self.is_running());
        Duration::from_nanos(due.map_or(0, |due| monotonic_now().saturating_sub(due)))
    }

    /// True if the lane is at work, or will be without a message.
    pub fn is_awake(&self) -> bool {
        self.shared.turn_due.get().is_some()
    }

    /// Its name, and the kernel function in which its thread waits if the kernel reports one: for a lane that makes no progress.
    pub fn whereabouts(&self) -> (String, Option<String>) {
        let path = format!("/proc/self/task/{}/wchan", self.shared.thread_id.load(Ordering::Relaxed));
        let place = std::fs::read_to_string(path).ok().filter(|place| !place.is_empty() && place != "0");
        (self.shared.name.clone(), place)
    }

    /// Ends the lane without waiting for its drives: open requests end with an error.
    ///
    /// # Errors
    /// [`LaneStopped`] when the lane ended by a panic.
    pub fn leave(&self) -> Result<(), LaneStopped> {
        self.shared.send([Message::Leave]);
        self.stop()
    }

    /// Waits for the end of submitted requests, drops the device and waits for the thread. Later requests end with an error.
    /// Harmless if repeated.
    ///
    /// # Errors
    /// [`LaneStopped`] when the lane ended by a panic.
    pub fn stop(&self) -> Result<(), LaneStopped> {
        self.shared.send([Message::Stop]);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic of the lane's turns is in `panicked`; a panic in the device's drop was printed.
            if thread.join().is_err() {
                self.shared.panicked.store(true, Ordering::SeqCst);
            }
        }
        match self.shared.end() {
            end if end.panicked => Err(end),
            _ => Ok(()),
        }
    }

    /// True if on-lane clients may run on it.
    pub fn takes_clients(&self) -> bool {
        self.shared.takes_clients
    }

    /// True if the lane serves.
    pub fn is_running(&self) -> bool {
        !self.shared.stopped.load(Ordering::SeqCst)
    }
}

impl<D> Drop for LaneHandle<D> {
    fn drop(&mut self) {
        self.shared.send([Message::Stop]);
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl<D> Shared<D> {
    fn send(&self, messages: impl IntoIterator<Item = Message<D>>) {
        self.mailbox.push_all(messages);
        // The lane sets this before it takes the mailbox for the last time: either the lane saw our messages, or we see
        // `stopped`.
        if self.stopped.load(Ordering::SeqCst) {
            self.refuse(&mut Vec::new());
        }
    }

    /// Answers all requests in the mailbox with an error, and drops all calls.
    fn refuse(&self, messages: &mut Vec<Message<D>>) {
        self.mailbox.take(messages);
        let mut client = None;
        for message in messages.drain(..) {
            match message {
                Message::Client(reply) => client = Some(reply),
                Message::Request(request) => {
                    let reply = client.as_ref().expect("requests follow their client");
                    reply.push(request.complete(Err(request_table::stopped(&self.name))));
                }
                // An on-lane client that is dropped closes its connection.
                Message::Call(_)
                | Message::LaneClient(_)
                | Message::Stir
                | Message::Stop
                | Message::Leave
                | Message::BreakOff => {}
            }
        }
    }

    fn end(&self) -> LaneStopped {
        LaneStopped { name: self.name.clone(), panicked: self.panicked.load(Ordering::SeqCst) }
    }
}

impl<D: 'static> RemoteDevice for Shared<D> {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn submit(&self, requests: &mut Vec<Request>, reply: &Arc<Mailbox<Completion>>) {
        if !requests.is_empty() {
            let client = std::iter::once(Message::Client(Arc::clone(reply)));
            self.send(client.chain(requests.drain(..).map(Message::Request)));
        }
    }

    fn take_in(&self, client: Box<dyn LaneClient>) -> Result<(), Box<dyn LaneClient>> {
        if !self.takes_clients {
            return Err(client);
        }
        self.send([Message::LaneClient(client)]);
        Ok(())
    }

    fn broke_off(&self) -> bool {
        self.panicked.load(Ordering::SeqCst)
    }

    fn stir(&self) {
        self.send([Message::Stir]);
    }
}

/// Runs a lane's thread to its end.
fn live<D: BlockDevice>(shared: &Shared<D>, ring: &Ring, mut device: D, spin_max: Duration, panic_group: &PanicGroup) {
    let mut request_table = RequestTable::new(&shared.name, shared.limits.optimal_io_bytes);
    let mut clients = LaneClients::default();
    let mut unread = Vec::new();
    let served = catch_unwind(AssertUnwindSafe(|| {
        serve(shared, ring, &mut device, &mut request_table, &mut clients, &mut unread, spin_max)
    }));
    let broke_off = !matches!(served, Ok(End::Stopped));
    shared.panicked.store(broke_off, Ordering::SeqCst);
    shared.stopped.store(true, Ordering::SeqCst);
    if broke_off {
        panic_group.break_off();
    }
    // The table has the client of the first of them.
    for message in unread.drain(..) {
        match message {
            Message::Client(reply) => request_table.turn_to(reply),
            Message::Request(request) => request_table.refuse(request),
            // An on-lane client that is dropped closes its connection, and a call's sender receives its end.
            Message::Call(_) | Message::LaneClient(_) | Message::Stir | Message::Stop | Message::Leave | Message::BreakOff => {}
        }
    }
    request_table.close();
    request_table.send(|number| clients.call(number));
    shared.refuse(&mut Vec::new());
    // After a break-off they are dropped without answers: their requests are left to the next server, as after a crash.
    if broke_off {
        return;
    }
    // On-lane clients send their last answers; their new requests are refused, and those refusals are not sent. A panic may have
    // interrupted an on-lane client's turn, so a second one is caught here.
    let _ = catch_unwind(AssertUnwindSafe(|| clients.turn(monotonic_now(), ring, &mut request_table, RequestTable::refuse)));
}

/// The reason why a lane ends, other than a panic of its own.
enum End {
    Stopped,
    BrokenOff,
}

fn serve<D: BlockDevice>(
    shared: &Shared<D>,
    ring: &Ring,
    device: &mut D,
    request_table: &mut RequestTable,
    clients: &mut LaneClients,
    unread: &mut Vec<Message<D>>,
    spin_max: Duration,
) -> End {
    ring.set_driven();
    let mut patience = Patience::new(spin_max);
    let mut inbox = Vec::new();
    let mut ended = Vec::new();
    let mut stopping = false;
    loop {
        shared.mailbox.take(&mut inbox);
        let mut active = !inbox.is_empty();
        let now = monotonic_now();
        ring.set_now(now);
        request_table.set_now(now);
        shared.turn_due.set(Some(now));
        let inbox = Inbox { messages: inbox.drain(..), unread };
        if let Some(end) = obey(inbox, device, request_table, clients, &mut stopping) {
            return end;
        }
        let submit = |device: &mut D, request_table: &mut RequestTable, request| {
            if stopping { request_table.refuse(request) } else { accept(request, device, request_table) }
        };
        // In one turn, new requests go in and results go out.
        if clients.look(ring, now) {
            active = true;
            clients.turn(now, ring, request_table, |request_table, request| submit(device, request_table, request));
        }
        device.poll(now, &mut ended);
        active |= !ended.is_empty();
        ended.drain(..).for_each(|completion| request_table.answer(completion));
        let mut asked = false;
        while let Some(request) = request_table.next() {
            device.submit(request);
            asked = true;
        }
        request_table.send(|number| clients.call(number));
        asked |= clients.is_due()
            && clients.turn(now, ring, request_table, |request_table, request| submit(device, request_table, request));
        if stopping && request_table.is_clear() {
            return End::Stopped;
        }
        let wake = [device.next_wake(), clients.next_wake()].into_iter().flatten().min();
        let at_once = asked || clients.is_due() || ring.has_ready() || ring.is_polling() || wake.is_some_and(|wake| wake <= now);
        if patience.lasts(active, now) || at_once {
            ring.poll();
            std::hint::spin_loop();
        } else if shared.mailbox.prepare_sleep() {
            shared.turn_due.set(wake);
            ring.wait(wake.map(|wake| Duration::from_nanos(wake - now)));
            shared.mailbox.awake();
        } else {
            ring.poll();
        }
    }
}

/// The messages of one iteration. Those behind one that ends the lane, a panic too, are put into `unread`.
struct Inbox<'a, D> {
    messages: std::vec::Drain<'a, Message<D>>,
    unread: &'a mut Vec<Message<D>>,
}

impl<D> Drop for Inbox<'_, D> {
    fn drop(&mut self) {
        self.unread.extend(&mut self.messages);
    }
}

/// Carries out the messages of one iteration. Returns why the lane ends at once, if it does.
fn obey<D: BlockDevice>(
    mut inbox: Inbox<'_, D>,
    device: &mut D,
    request_table: &mut RequestTable,
    clients: &mut LaneClients,
    stopping: &mut bool,
) -> Option<End> {
    let mut leaves = false;
    for message in &mut inbox.messages {
        match message {
            Message::Client(reply) => request_table.turn_to(reply),
            Message::Request(request) if *stopping || leaves => request_table.refuse(request),
            Message::Request(request) => accept(request, device, request_table),
            Message::Call(work) => work(device),
            Message::LaneClient(client) => clients.admit(client, request_table),
            Message::Stir => clients.call_all(),
            Message::Stop => *stopping = true,
            Message::Leave => leaves = true,
            Message::BreakOff => return Some(End::BrokenOff),
        }
    }
    leaves.then_some(End::Stopped)
}

/// Submits the request now, if it is the client's turn.
fn accept<D: BlockDevice>(request: Request, device: &mut D, request_table: &mut RequestTable) {
    if let Some(request) = request_table.accept(request) {
        device.submit(request);
    }
}
