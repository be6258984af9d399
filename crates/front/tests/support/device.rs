//! A RAM device on a lane, which can be blocked: for tests, examples and benchmarks.

#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use stria_block::{BlockDevice, Completion, LaneClient, Limits, Mailbox, Nanos, Operation, RamDevice, RemoteDevice, Request};
use stria_drive::{DriveError, Lane, LaneHandle};

/// A device that lives as long as its last handle.
pub struct LaneDevice {
    name: String,
    lane: LaneHandle<Gate>,
    hold: Arc<AtomicBool>,
    held_sector: Arc<AtomicU64>,
    kept_count: Arc<AtomicUsize>,
    /// Writes that had to be durable when they ended.
    pub durable: Arc<AtomicU64>,
}

/// Lets requests through to memory, or not.
pub struct Gate {
    ram: RamDevice,
    hold: Arc<AtomicBool>,
    held_sector: Arc<AtomicU64>,
    kept: Vec<Request>,
    kept_count: Arc<AtomicUsize>,
    durable: Arc<AtomicU64>,
}

impl LaneDevice {
    /// Starts the lane. `takes_clients`: whether clients live on it.
    pub fn spawn(limits: Limits, takes_clients: bool) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("ram-{}", COUNT.fetch_add(1, Ordering::SeqCst));
        let hold = Arc::<AtomicBool>::default();
        let gate_hold = Arc::clone(&hold);
        let held_sector = Arc::new(AtomicU64::new(u64::MAX));
        let gate_sector = Arc::clone(&held_sector);
        let kept_count = Arc::<AtomicUsize>::default();
        let gate_kept_count = Arc::clone(&kept_count);
        let durable = Arc::<AtomicU64>::default();
        let gate_durable = Arc::clone(&durable);
        let build = move |_: &_| {
            let (ram, kept) = (RamDevice::with_limits(limits), Vec::new());
            Ok::<_, DriveError>(Gate {
                ram,
                hold: gate_hold,
                held_sector: gate_sector,
                kept,
                kept_count: gate_kept_count,
                durable: gate_durable,
            })
        };
        Self {
            lane: Lane::new(&name).takes_clients(takes_clients).spawn(build).expect("a lane"),
            name,
            hold,
            held_sector,
            kept_count,
            durable,
        }
    }

    /// The thread that clients live on, if it is the device's.
    pub fn thread_of_clients(&self) -> Option<&str> {
        self.lane.takes_clients().then_some(&self.name)
    }

    /// Requests wait while it is blocked, to test a server with a slow device.
    pub fn set_hold(&self, hold: bool) {
        self.hold.store(hold, Ordering::SeqCst);
        self.lane.call(|_| ()).expect("it runs");
    }

    /// Returns once the device has this many requests that wait.
    pub fn wait_for_kept(&self, count: usize) {
        while self.kept_count.load(Ordering::SeqCst) != count {
            std::thread::yield_now();
        }
    }

    /// Ends the lane by a panic.
    pub fn break_off(&self) {
        let panic = |_: &mut Gate| panic!("told to panic (this message belongs to a test that passes)");
        self.lane.call(panic).expect_err("it has ended");
        while self.lane.is_running() {
            std::thread::yield_now();
        }
    }

    /// Requests that begin at this sector wait, others do not.
    pub fn set_held_sector(&self, sector: Option<u64>) {
        self.held_sector.store(sector.unwrap_or(u64::MAX), Ordering::SeqCst);
        self.lane.call(|_| ()).expect("it runs");
    }
}

impl Drop for LaneDevice {
    fn drop(&mut self) {
        if !self.lane.is_running() {
            return;
        }
        self.set_held_sector(None);
        self.set_hold(false);
    }
}

impl RemoteDevice for LaneDevice {
    fn limits(&self) -> Limits {
        self.lane.remote().limits()
    }

    fn submit(&self, requests: &mut Vec<Request>, reply: &Arc<Mailbox<Completion>>) {
        self.lane.remote().submit(requests, reply);
    }

    fn take_in(&self, client: Box<dyn LaneClient>) -> Result<(), Box<dyn LaneClient>> {
        self.lane.remote().take_in(client)
    }

    fn broke_off(&self) -> bool {
        self.lane.remote().broke_off()
    }

    fn stir(&self) {
        self.lane.remote().stir();
    }
}

impl BlockDevice for Gate {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    fn submit(&mut self, request: Request) {
        if let Operation::Write { fua: true, .. } | Operation::WriteZeroes { fua: true, .. } = request.operation {
            self.durable.fetch_add(1, Ordering::SeqCst);
        }
        self.kept.push(request);
        self.kept_count.store(self.kept.len(), Ordering::SeqCst);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        if !self.hold.load(Ordering::SeqCst) {
            let held = self.held_sector.load(Ordering::SeqCst);
            let is_let_through = |request: &mut Request| request.start_sector != held;
            self.kept.extract_if(.., is_let_through).for_each(|request| self.ram.submit(request));
            self.kept_count.store(self.kept.len(), Ordering::SeqCst);
        }
        self.ram.poll(now, completions);
    }

    fn next_wake(&self) -> Option<Nanos> {
        let held = self.held_sector.load(Ordering::SeqCst);
        let at_once = self.kept.iter().any(|request| request.start_sector != held) && !self.hold.load(Ordering::SeqCst);
        if at_once { Some(0) } else { self.ram.next_wake() }
    }
}
