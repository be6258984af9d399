//! One array on 1, 2, … lanes, each with a thread and a load of its own, pinned to a processor: how close the speed comes to as
//! many times one lane's. Members do nothing, so the figure is the time of the engine and of the messages between lanes.
//!
//! `cargo run --release -p stria-bench --example lanes [RUN_MS [ROUNDS [LANES]]]` prints CSV; `bench/run lanes` makes a table of
//! it. Rounds go from lane count to lane count in turn. *Own*: each lane gets requests for its own partition. *Any*: for all of
//! the array, so that of n lanes' requests all but an n-th go to another lane.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use stria_array::{ArrayConfig, ArrayDevice, Geometry, Level, NoMetadata, Ports};
use stria_bench::{Limit, Load, NullDevice, Order, Target};
use stria_block::{BlockDevice, Completion, Limits, Nanos, Request};
use stria_drive::{keep_to, monotonic_now};

const MEMBER_SECTORS: u64 = 64 << 11;
const STRIP_SECTORS: u64 = 128;

/// The range of a lane's requests: all of the array, or its own partition.
struct Asked {
    array: ArrayDevice<NoMetadata>,
    limits: Limits,
    group: u64,
    lane: u64,
    lanes: u64,
}

impl Asked {
    fn new(array: ArrayDevice<NoMetadata>, lane: usize, lanes: usize, own: bool) -> Self {
        let group = array.group_sectors().filter(|_| own);
        let (lane, lanes) = if group.is_some() { (lane as u64, lanes as u64) } else { (0, 1) };
        let group = group.unwrap_or(1);
        let mut limits = array.limits().clone();
        limits.size_sectors = limits.size_sectors / group / lanes * group;
        Self { array, limits, group, lane, lanes }
    }
}

impl BlockDevice for Asked {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, mut request: Request) {
        let (group, within) = (request.start_sector / self.group, request.start_sector % self.group);
        request.start_sector = (group * self.lanes + self.lane) * self.group + within;
        self.array.submit(request);
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.array.poll(now, completions);
    }
    /// Completions from other lanes have no known time, so the lane polls.
    fn next_wake(&self) -> Option<Nanos> {
        Some(0)
    }
}

fn config(level: Level, count: usize) -> ArrayConfig {
    let strip = if level == Level::Raid1 { 8 } else { STRIP_SECTORS };
    let geometry = Geometry::new(level, level.default_layout(), strip, &vec![MEMBER_SECTORS; count]).expect("it fits");
    ArrayConfig::optimal("bench", geometry)
}

/// Requests a second of all lanes together.
fn run(config: &ArrayConfig, load: &Load, lanes: usize, own: bool) -> f64 {
    let ports = Ports::new(lanes);
    let (start, running) = (Arc::new(Barrier::new(lanes)), Arc::new(AtomicUsize::new(lanes)));
    let lane = |lane: usize| {
        let (config, load, ports) = (config.clone(), load.clone(), ports.clone());
        let (start, running) = (Arc::clone(&start), Arc::clone(&running));
        move || {
            keep_to(&[lane]).expect("there are as many processors");
            let null = |_| Box::new(NullDevice::new(MEMBER_SECTORS)) as Box<dyn BlockDevice>;
            let devices = config.slots.iter().map(null).collect();
            let mut array = ArrayDevice::on_lane(&config, devices, (lane == 0).then_some(NoMetadata), 0, &ports, lane);
            let mut asked = Asked::new(array.clone(), lane, lanes, own);
            let device = &mut asked;
            start.wait();
            let load = Load { seed: load.seed + lane as u64, ..load };
            let outcome = load.run(Target { device, ring: None }, None).expect("null devices do not fail");
            // Other lanes may still send requests to this lane.
            running.fetch_sub(1, Ordering::SeqCst);
            while running.load(Ordering::SeqCst) > 0 {
                array.poll(monotonic_now(), &mut Vec::new());
            }
            outcome.iops()
        }
    };
    let threads: Vec<_> = (0..lanes).map(|index| std::thread::spawn(lane(index))).collect();
    threads.into_iter().map(|thread| thread.join().expect("a lane ends in peace")).sum()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let run_for = Duration::from_millis(arguments.next().map_or(200, |ms| ms.parse().expect("RUN_MS is a number")));
    let rounds: usize = arguments.next().map_or(5, |count| count.parse().expect("ROUNDS is a number"));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let most: usize = arguments.next().map_or(processors, |count| count.parse().expect("LANES is a number"));
    let counts: Vec<usize> = std::iter::successors(Some(1), |lanes| Some(lanes * 2)).take_while(|&lanes| lanes <= most).collect();
    println!("round,subject,case,lanes,iops");
    for round in 0..rounds {
        for (level, members) in [(Level::Raid0, 4), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 6)] {
            let config = config(level, members);
            for (what, read_percent, order, block_bytes) in [
                ("4K random read", 100, Order::Random, 4096),
                ("4K random write", 0, Order::Random, 4096),
                ("128K sequential write", 0, Order::Sequential, 128 << 10),
            ] {
                let load =
                    Load { read_percent, order, block_bytes, queue_depth: 32, limit: Limit::Time(run_for), ..Load::default() };
                for (asked, own) in [("own", true), ("any", false)] {
                    for &lanes in &counts {
                        let iops = run(&config, &load, lanes, own);
                        println!("{round},RAID {level} of {members},{what} {asked},{lanes},{iops:.0}");
                    }
                }
            }
        }
    }
}
