//! First figures: arrays on RAM members beside the bare member, one lane.
//!
//! `cargo run --release -p stria-bench --example ram [RUN_MS [FILTER…]]`; a filter picks lines that contain it,
//! such as `"raid5 of 4"` or `"4K random write"`. For `perf record`, choose one line and a long run.
//! "/bare" compares operations per second, "by CPU" operations per CPU second: the steadier one on a busy machine.

use std::time::Duration;
use stria_array::Level;
use stria_bench::{Limit, Load, Order, Target, array_over};
use stria_block::{BlockDevice, RamDevice};
use stria_host::ArrayLevel;

const MEMBER_SECTORS: u64 = 64 << 11;

fn array(level: Level, count: usize) -> Box<dyn BlockDevice> {
    let members = (0..count).map(|_| Box::new(RamDevice::new(MEMBER_SECTORS)) as Box<dyn BlockDevice>).collect();
    array_over(ArrayLevel::Single(level), 128, members).expect("the geometry fits").0
}

fn touch(device: &mut dyn BlockDevice) {
    let load = Load {
        block_bytes: 1 << 20,
        read_percent: 0,
        order: Order::Sequential,
        limit: Limit::Operations(device.limits().size_sectors / 2048),
        ..Load::default()
    };
    load.run(Target { device, ring: None }, None).expect("memory does not fail");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let run = Duration::from_millis(arguments.next().map_or(200, |ms| ms.parse().expect("RUN_MS is a number")));
    let filters: Vec<String> = arguments.collect();
    let shapes = [
        ("4K random", 4 << 10, Order::Random, &[1usize, 32, 128][..]),
        ("128K sequential", 128 << 10, Order::Sequential, &[1, 32]),
        ("1M sequential", 1 << 20, Order::Sequential, &[1, 8]),
    ];
    let arrays = [(Level::Raid0, 4), (Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 6), (Level::Raid10, 4)];
    println!(
        "{:<36} {:>10} {:>9} {:>8} {:>8} {:>8} {:>6} {:>6}",
        "", "IOPS", "MB/s", "p50 µs", "p99 µs", "CPU ns", "/bare", "by CPU"
    );
    for (what, block_bytes, order, depths) in shapes {
        for read_percent in [100, 0] {
            for &queue_depth in depths {
                let mut bare = None;
                let devices = std::iter::once(None).chain(arrays.iter().copied().map(Some));
                for choice in devices {
                    let kind = if read_percent == 100 { "read" } else { "write" };
                    let name = choice.map_or("bare".to_string(), |(level, count)| format!("raid{level} of {count}"));
                    let line = format!("{what} {kind} QD {queue_depth:<3} {name}");
                    if !filters.iter().all(|filter| line.contains(filter.as_str())) {
                        continue;
                    }
                    let mut device: Box<dyn BlockDevice> = match choice {
                        None => Box::new(RamDevice::new(MEMBER_SECTORS)),
                        Some((level, count)) => array(level, count),
                    };
                    touch(&mut device);
                    let warm_up = run / 4;
                    let limit = Limit::Time(run);
                    let load = Load { block_bytes, read_percent, queue_depth, order, warm_up, limit, ..Load::default() };
                    let outcome = load.run(Target { device: &mut device, ring: None }, None).expect("memory does not fail");
                    let latency = if read_percent == 100 { &outcome.reads } else { &outcome.writes };
                    let figures = (outcome.iops(), outcome.cpu_ns_per_io());
                    let bare = *bare.get_or_insert(figures);
                    println!(
                        "{line:<36} {:>10.0} {:>9.0} {:>8.2} {:>8.2} {:>8.0} {:>6.2} {:>6.2}",
                        outcome.iops(),
                        outcome.mb_per_s(),
                        latency.p50_ns as f64 / 1e3,
                        latency.p99_ns as f64 / 1e3,
                        outcome.cpu_ns_per_io(),
                        figures.0 / bare.0,
                        bare.1 / figures.1
                    );
                }
            }
        }
    }
}
