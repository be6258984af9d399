//! Loads on real devices of this project count correctly, verify data, and detect damage.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use stria_bench::{Fault, Ledger, Limit, Load, LoadError, NullDevice, Order, Target};
use stria_block::{BlockDevice, Completion, FaultDevice, FaultKind, FaultPlan, Limits, Nanos, Operation, RamDevice, Request};
use stria_drive::{Access, Ring};

fn memory(device: &mut dyn BlockDevice) -> Target<'_> {
    Target { device, ring: None }
}

/// Ends requests in another order than they came, some of them turns later, and counts.
struct Shuffle {
    inner: RamDevice,
    held: Vec<Request>,
    turn: u64,
    most_held: usize,
    reads: u64,
    writes: u64,
    flushes: u64,
    starts: Vec<u64>,
}

impl Shuffle {
    fn new(sectors: u64) -> Self {
        let inner = RamDevice::new(sectors);
        Self { inner, held: Vec::new(), turn: 0, most_held: 0, reads: 0, writes: 0, flushes: 0, starts: Vec::new() }
    }
}

impl BlockDevice for Shuffle {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }
    fn submit(&mut self, request: Request) {
        let overlap = |held: &&Request| held.start_sector < request.end_sector() && request.start_sector < held.end_sector();
        assert!(self.held.iter().find(overlap).is_none(), "two requests meet");
        match request.operation {
            Operation::Read { .. } => self.reads += 1,
            Operation::Write { .. } => self.writes += 1,
            _ => self.flushes += 1,
        }
        self.starts.push(request.start_sector);
        self.held.push(request);
        self.most_held = self.most_held.max(self.held.len());
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.turn += 1;
        for turn in 0..self.turn % 3 {
            if !self.held.is_empty() {
                let index = ((self.turn * 7 + turn * 13) % self.held.len() as u64) as usize;
                self.inner.submit(self.held.swap_remove(index));
            }
        }
        self.inner.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        (!self.held.is_empty()).then_some(0)
    }
}

#[test]
fn counts_mix_depth_and_flushes_are_as_asked() {
    let mut device = Shuffle::new(4096);
    let mut ledger = Ledger::new(3, 64..4096 - 64, 4096);
    let load = Load {
        read_percent: 70,
        queue_depth: 16,
        limit: Limit::Operations(20_000),
        flush_every_writes: Some(10),
        ..Load::default()
    };
    let outcome = load.run(memory(&mut device), Some(&mut ledger)).expect("memory does not fail");
    assert_eq!((outcome.operations, outcome.reads.count + outcome.writes.count), (20_000, 20_000));
    assert_eq!((device.reads, device.writes, device.flushes), (outcome.reads.count, outcome.writes.count, outcome.flushes.count));
    assert!((13_000..15_000).contains(&device.reads), "about 70 % are reads, not {}", device.reads);
    assert!(device.flushes.abs_diff(device.writes / 10) <= 1, "{} flushes for {} writes", device.flushes, device.writes);
    assert_eq!(device.most_held, 16);
    assert!(outcome.verified_blocks > 10_000 && ledger.known_blocks() > 400, "{outcome:?}");
    let latency = &outcome.reads;
    assert!(latency.p50_ns <= latency.p99_ns && latency.p99_ns <= latency.p999_ns && latency.p999_ns <= latency.max_ns);
    let checked = Load::check(&ledger, 8).run(memory(&mut device), Some(&mut ledger)).expect("all is well");
    assert_eq!(checked.verified_blocks, ledger.known_blocks() as u64);
}

#[test]
fn sequential_goes_round_the_region_and_random_reaches_all_of_it() {
    let mut device = Shuffle::new(1024);
    let load = Load {
        block_bytes: 8192,
        order: Order::Sequential,
        region: Some(32..32 + 16 * 4 + 3),
        limit: Limit::Operations(6),
        ..Load::default()
    };
    load.run(memory(&mut device), None).expect("memory does not fail");
    assert_eq!(device.starts, [32, 48, 64, 80, 32, 48]);
    device.starts.clear();
    Load { order: Order::Random, limit: Limit::Operations(200), ..load }.run(memory(&mut device), None).expect("as before");
    device.starts.sort_unstable();
    device.starts.dedup();
    assert_eq!(device.starts, [32, 48, 64, 80]);
}

#[test]
fn damage_between_write_and_read_is_found() {
    let mut device = RamDevice::new(2048);
    let mut ledger = Ledger::new(9, 0..2048, 4096);
    let fill = Load { read_percent: 0, order: Order::Sequential, limit: Limit::Operations(256), ..Load::default() };
    fill.run(memory(&mut device), Some(&mut ledger)).expect("memory does not fail");
    device.memory_mut()[100 * 512 + 40] ^= 1;
    let error = Load::check(&ledger, 4).run(memory(&mut device), Some(&mut ledger)).expect_err("a byte is wrong");
    let LoadError::Mismatch { fault, .. } = error else { panic!("{error}") };
    assert_eq!(fault, Fault::Corrupt { sector: 100, wrong_bytes: 1, first_byte: 40, expected: 1 });
}

#[test]
fn a_write_that_the_device_forgets_is_found() {
    /// Acknowledges every tenth write without doing it.
    struct Liar(RamDevice, u64);
    impl BlockDevice for Liar {
        fn limits(&self) -> &Limits {
            self.0.limits()
        }
        fn submit(&mut self, mut request: Request) {
            self.1 += 1;
            if self.1.is_multiple_of(10) && matches!(request.operation, Operation::Write { .. }) {
                request.start_sector = 0;
            }
            self.0.submit(request);
        }
        fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
            self.0.poll(now, completions);
        }
        fn next_wake(&self) -> Option<Nanos> {
            self.0.next_wake()
        }
    }
    let mut ledger = Ledger::new(9, 64..2048, 4096);
    let load = Load { read_percent: 50, limit: Limit::Operations(10_000), ..Load::default() };
    let error = load.run(memory(&mut Liar(RamDevice::new(2048), 0)), Some(&mut ledger)).expect_err("writes are lost");
    assert!(matches!(error, LoadError::Mismatch { fault: Fault::Lost { .. }, .. }), "{error}");
}

#[test]
fn a_failed_request_ends_the_load_with_its_reason_and_leaves_the_ledger_true() {
    let plan = Rc::new(RefCell::new(FaultPlan { bad: vec![(800..801, FaultKind::Write)], gone: false }));
    let mut device = FaultDevice::new(RamDevice::new(2048), Rc::clone(&plan));
    let mut ledger = Ledger::new(9, 0..2048, 4096);
    let load = Load { read_percent: 0, queue_depth: 8, limit: Limit::Operations(100_000), ..Load::default() };
    let error = load.run(memory(&mut device), Some(&mut ledger)).expect_err("a write fails");
    let words = error.to_string();
    assert!(words.starts_with("write of 4096 bytes at sector 800 failed: medium error"), "{words}");
    plan.borrow_mut().bad.clear();
    Load::check(&ledger, 8).run(memory(&mut device), Some(&mut ledger)).expect("acknowledged writes are all there");
}

#[test]
fn time_limits_hold_and_warm_up_is_not_counted() {
    let mut device = NullDevice::new(1 << 30);
    let limit = Limit::Time(Duration::from_millis(50));
    let load = Load { warm_up: Duration::from_millis(50), queue_depth: 32, limit, ..Load::default() };
    let before = std::time::Instant::now();
    let outcome = load.run(memory(&mut device), None).expect("nothing does not fail");
    assert!(before.elapsed() >= Duration::from_millis(100));
    assert!(outcome.elapsed >= Duration::from_millis(50) && outcome.operations > 1000, "{outcome:?}");
    assert!(outcome.cpu <= outcome.elapsed + Duration::from_millis(1) && outcome.cpu > Duration::ZERO, "{outcome:?}");
}

#[test]
fn what_cannot_run_says_why() {
    let mut device = RamDevice::new(64);
    let mut refuse = |load: Load| load.run(memory(&mut device), None).expect_err("it cannot run").to_string();
    assert!(refuse(Load { block_bytes: 100, ..Load::default() }).contains("not a multiple of the device's 512"));
    assert!(refuse(Load { region: Some(0..65), ..Load::default() }).contains("are not on a device of 64 sectors"));
    assert!(refuse(Load { block_bytes: 65536, ..Load::default() }).contains("does not hold one block"));
    assert!(refuse(Load { queue_depth: 0, ..Load::default() }).contains("queue depth of 0"));
    struct Mute(Limits);
    impl BlockDevice for Mute {
        fn limits(&self) -> &Limits {
            &self.0
        }
        fn submit(&mut self, _: Request) {}
        fn poll(&mut self, _: Nanos, _: &mut Vec<Completion>) {}
        fn next_wake(&self) -> Option<Nanos> {
            None
        }
    }
    let stalled = Load::default().run(memory(&mut Mute(Limits::plain(64))), None).expect_err("nothing ends");
    assert!(matches!(stalled, LoadError::Stalled { in_flight: 1, .. }), "{stalled}");
}

#[test]
fn files_are_driven_through_their_ring() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("member");
    std::fs::File::create(&path).and_then(|file| file.set_len(4 << 20)).expect("a file");
    let ring = Ring::new().expect("this system has io_uring");
    let mut device = stria_drive::open(&path, &ring, Access::Exclusive).expect("it opens");
    let mut ledger = Ledger::new(1, 0..8192, 4096);
    let load = Load { read_percent: 50, queue_depth: 8, limit: Limit::Operations(2000), ..Load::default() };
    let outcome = load.run(Target { device: &mut device, ring: Some(&ring) }, Some(&mut ledger)).expect("it works");
    assert!(outcome.operations == 2000 && outcome.verified_blocks > 100, "{outcome:?}");
    Load::check(&ledger, 8).run(Target { device: &mut device, ring: Some(&ring) }, Some(&mut ledger)).expect("all there");
    // The same on 4 TiB, most of them holes: a record of each block would take 12 GiB, and reading all of them days.
    std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(4 << 40)).expect("a sparse file");
    drop(device);
    let mut device = stria_drive::open(&path, &ring, Access::Exclusive).expect("an image");
    let mut ledger = Ledger::new(1, 0..8 << 30, 4096);
    load.run(Target { device: &mut device, ring: Some(&ring) }, Some(&mut ledger)).expect("4 TiB work");
    let check =
        Load::check(&ledger, 8).run(Target { device: &mut device, ring: Some(&ring) }, Some(&mut ledger)).expect("all there");
    assert!(check.verified_blocks > 0 && check.verified_blocks == ledger.known_blocks() as u64, "{check:?}");
}
