//! The cost of an array above its members, in one process and on one lane: for `bench/run`, which makes tables of it.
//!
//! `cargo run --release -p stria-bench --example tables [RUN_MS [ROUNDS [FILTER…]]]` prints CSV; a filter picks lines
//! that contain it. Every case is run on every subject before the next case, and all of that ROUNDS times.
//!
//! `levels`: 4 KiB at random and whole stripes on RAM members, md metadata, bitmap and write log as `stria create` makes
//! them; all loads stay within 48 MiB, so that caches have an equal part of each. `cost`: on members that do nothing. `sweeps`:
//! rebuild and scrub of RAM members, and copying from and to one; its MB/s are all bytes that members read and wrote, in seconds
//! of processor time.

mod support;

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use stria_array::Level;
use stria_bench::{Limit, Load, NullDevice, Order, SweepJob, Target, array_over, time_sweep};
use stria_block::{BlockDevice, Nanos, RamDevice};
use stria_format::md::LogChoice;
use stria_host::ArrayLevel;

const MEMBER_SECTORS: u64 = 64 << 11;
const REGION_SECTORS: u64 = 48 << 11;
const SWEPT_SECTORS: u64 = 256 << 11;
/// Name, level, members, strips of data that are whole stripes of every span.
const LEVELS: [(&str, ArrayLevel, usize, u32); 7] = [
    ("RAID 0 of 4", ArrayLevel::Single(Level::Raid0), 4, 4),
    ("RAID 1 of 2", ArrayLevel::Single(Level::Raid1), 2, 1),
    ("RAID 10 of 4", ArrayLevel::Single(Level::Raid10), 4, 2),
    ("RAID 5 of 4", ArrayLevel::Single(Level::Raid5), 4, 3),
    ("RAID 6 of 6", ArrayLevel::Single(Level::Raid6), 6, 4),
    ("RAID 50 of 8", ArrayLevel::Striped(Level::Raid5), 8, 6),
    ("RAID 60 of 12", ArrayLevel::Striped(Level::Raid6), 12, 8),
];

struct Subject {
    name: &'static str,
    device: Box<dyn BlockDevice>,
    stripe_strips: u32,
}

/// The bare member and every level on RAM.
fn on_ram() -> Vec<Subject> {
    let md = |level, count| -> Box<dyn BlockDevice> {
        Box::new(support::md_array(level, count, MEMBER_SECTORS, LogChoice::Auto, |ram| Box::new(ram)))
    };
    let array = |(name, level, count, stripe_strips)| {
        let device = match level {
            ArrayLevel::Single(level) => md(level, count),
            ArrayLevel::Striped(level) => {
                // As `stria create` does: a whole stripe of a span where that is a power of two, else a strip.
                let width = u64::from(stripe_strips / 2);
                let strip_sectors = if width.is_power_of_two() { 128 * width } else { 128 };
                let spans = vec![md(level, count / 2), md(level, count / 2)];
                array_over(ArrayLevel::Single(Level::Raid0), strip_sectors, spans).expect("the geometry fits").0
            }
        };
        Subject { name, device, stripe_strips }
    };
    let bare = Subject { name: "bare member", device: Box::new(RamDevice::new(MEMBER_SECTORS)), stripe_strips: 1 };
    std::iter::once(bare).chain(LEVELS.map(array)).collect()
}

/// The same on members that do nothing, without metadata, as they store none.
fn on_null() -> Vec<Subject> {
    let null = || Box::new(NullDevice::new(MEMBER_SECTORS)) as Box<dyn BlockDevice>;
    let array = |(name, level, count, stripe_strips)| {
        let members = (0..count).map(|_| null()).collect();
        Subject { name, device: array_over(level, 128, members).expect("the geometry fits").0, stripe_strips }
    };
    std::iter::once(Subject { name: "bare member", device: null(), stripe_strips: 1 }).chain(LEVELS.map(array)).collect()
}

/// Prints a line for one run of one case.
fn measure(table: &str, round: usize, case: &str, subject: &mut Subject, load: &Load) {
    let target = Target { device: &mut subject.device, ring: None };
    let outcome = load.run(target, None).expect("memory does not fail");
    let (iops, mb_per_s, cpu) = (outcome.iops(), outcome.mb_per_s(), outcome.cpu_ns_per_io());
    println!("{table},{round},{case},{},{iops:.0},{mb_per_s:.1},{cpu:.1}", subject.name);
}

/// Larger than the caches, and written once, so that no read is answered from the page of zeros.
fn swept_member() -> Box<dyn BlockDevice> {
    let mut ram = RamDevice::new(SWEPT_SECTORS);
    ram.memory_mut().chunks_mut(4096).for_each(|page| page[0] = 0);
    Box::new(ram)
}

/// The processor time of this thread, without the machine's other work.
fn thread_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads a bare member once that is as large as the swept ones.
fn copy(round: usize, kind: &str) {
    let (mut device, block_bytes) = (swept_member(), 512 << 10);
    let load = Load {
        block_bytes,
        read_percent: if kind == "read" { 100 } else { 0 },
        queue_depth: 1,
        order: Order::Sequential,
        limit: Limit::Operations(SWEPT_SECTORS * 512 / u64::from(block_bytes)),
        ..Load::default()
    };
    let outcome = load.run(Target { device: &mut device, ring: None }, None).expect("memory does not fail");
    let mb_per_s = f64::from(block_bytes) * 1e3 / outcome.cpu_ns_per_io();
    println!("sweeps,{round},bare {kind},bare member,0,{mb_per_s:.1},0");
}

fn sweep(round: usize, name: &str, level: Level, count: usize, job: SweepJob) {
    let count = count + usize::from(job == SweepJob::Rebuild);
    let members = (0..count).map(|_| swept_member()).collect();
    let time = time_sweep(level, 128, members, job, |_| thread_time()).expect("the geometry fits");
    // A scrub reads every member; a rebuild writes the spare, and reads all that are left, or of copies one.
    let passes = match job {
        SweepJob::Scrub => count,
        SweepJob::Rebuild if level.parity_count() == 0 => 2,
        SweepJob::Rebuild => count - 1,
    };
    let mb_per_s = time.bytes_per_s() * passes as f64 / 1e6;
    println!("sweeps,{round},{job:?},{name},0,{mb_per_s:.1},0");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let run = Duration::from_millis(arguments.next().map_or(200, |ms| ms.parse().expect("RUN_MS is a number")));
    let rounds: usize = arguments.next().map_or(5, |count| count.parse().expect("ROUNDS is a number"));
    let filters: Vec<String> = arguments.collect();
    let wanted = |table: &str, case: &str, name: &str| {
        let line = format!("{table},{case},{name}");
        filters.iter().all(|filter| line.contains(filter.as_str()))
    };
    println!("table,round,case,subject,iops,mb_per_s,cpu_ns");
    let (mut ram, mut null) = (on_ram(), on_null());
    let region = Some(0..REGION_SECTORS);
    let limit = Limit::Time(run);
    let base = Load { limit, warm_up: run / 8, region, ..Load::default() };
    for subject in &mut ram {
        let blocks = Limit::Operations(REGION_SECTORS / 2048);
        let fill = Load { block_bytes: 1 << 20, read_percent: 0, order: Order::Sequential, limit: blocks, ..base.clone() };
        let target = Target { device: &mut subject.device, ring: None };
        fill.run(target, None).expect("memory does not fail");
    }
    for round in 1..=rounds {
        for (read_percent, kind) in [(100, "read"), (0, "write")] {
            for queue_depth in [1, 32, 128] {
                let case = format!("4K random {kind} QD {queue_depth}");
                let load = Load { read_percent, queue_depth, ..base.clone() };
                for (table, subjects) in [("levels", &mut ram), ("cost", &mut null)] {
                    for subject in subjects.iter_mut().filter(|subject| wanted(table, &case, subject.name)) {
                        measure(table, round, &case, subject, &load);
                    }
                }
            }
        }
        for (kind, read_percent) in [("128K sequential read QD 8", 100), ("whole stripe write QD 8", 0)] {
            for subject in ram.iter_mut().filter(|subject| wanted("levels", kind, subject.name)) {
                // The bare member takes pieces of 64 KiB times four, as the widest array's stripe.
                let strips = if subject.name == "bare member" { 4 } else { subject.stripe_strips };
                let block_bytes = if read_percent == 100 { 128 << 10 } else { strips << 16 };
                let load = Load { block_bytes, read_percent, queue_depth: 8, order: Order::Sequential, ..base.clone() };
                measure("levels", round, kind, subject, &load);
            }
        }
        for kind in ["read", "write"] {
            if wanted("sweeps", kind, "bare member") {
                copy(round, kind);
            }
        }
        for (name, level, count, _) in LEVELS {
            if let ArrayLevel::Single(level) = level
                && level.is_redundant()
            {
                for job in [SweepJob::Rebuild, SweepJob::Scrub] {
                    if wanted("sweeps", &format!("{job:?}"), name) {
                        sweep(round, name, level, count, job);
                    }
                }
            }
        }
    }
}
