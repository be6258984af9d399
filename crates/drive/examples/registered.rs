//! Measures what registered memory saves: processor time of the process for each request to one drive, with and without it, in
//! turn.
//!
//! ```text
//! cargo run --release -p stria-drive --example registered -- DRIVE [reads|writes] [BYTES] [COUNT]
//! ```
//! `writes` overwrites the drive. Work of the kernel's own threads, as for loop devices, is not counted.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use stria_block::{BlockDevice, Completion, Operation, Pool, Request, Segments, bytes};
use stria_drive::{Access, Ring, open};

const DEPTH: u64 = 32;
const ROUNDS: usize = 7;

fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn run(path: &str, writes: bool, sectors: u64, count: u64, registered: bool) -> f64 {
    let ring = Ring::new().expect("io_uring");
    if registered {
        ring.register_memory();
    }
    let mut drive = open(path.as_ref(), &ring, Access::Exclusive).expect("a drive that is free");
    let (places, mut random, mut pool) = (drive.limits().size_sectors / sectors, 1_u64, Pool::default());
    let mut request = |pool: &mut Pool, tag: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let memory = pool.take(bytes(sectors));
        let operation = match writes {
            true => Operation::Write { from: Segments::from_iter([memory.freeze()]), fua: false },
            false => Operation::Read { into: Segments::from_iter([memory]) },
        };
        Request { tag, start_sector: (random >> 33) % places * sectors, sectors, operation }
    };
    let mut ended: Vec<Completion> = Vec::new();
    let (mut sent, mut done) = (DEPTH, 0);
    let before = processor_ns();
    (0..DEPTH).for_each(|tag| drive.submit(request(&mut pool, tag)));
    while done < count {
        ring.wait(Some(Duration::from_secs(1)));
        drive.poll(0, &mut ended);
        for completion in ended.drain(..) {
            completion.result.expect("the drive works");
            match completion.operation {
                Operation::Read { into } => into.into_iter().for_each(|buffer| pool.give(buffer)),
                Operation::Write { from, .. } => {
                    let claim = from[0].claim();
                    drop(from);
                    pool.give_claim(claim);
                }
                _ => unreachable!("nothing else was sent"),
            }
            done += 1;
            if sent < count {
                drive.submit(request(&mut pool, completion.tag));
                sent += 1;
            }
        }
    }
    let ns = processor_ns() - before;
    assert!(!registered || ring.counters().fixed_count == count, "memory was registered: {:?}", ring.counters());
    ns as f64 / count as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().expect("a drive");
    let number = |index: usize, usual| arguments.get(index).map_or(usual, |text: &String| text.parse().expect("a number"));
    let (writes, sectors) = (arguments.get(1).is_some_and(|kind| kind == "writes"), number(2, 4096) / 512);
    let count = number(3, 100_000);
    // Allocated at the first registration, and then used by both alike.
    run(path, writes, sectors, DEPTH, true);
    let (mut without, mut with): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(run(path, writes, sectors, count, false));
        with.push(run(path, writes, sectors, count, true));
    }
    for (name, mut rounds) in [("without", without), ("registered", with)] {
        rounds.sort_by(f64::total_cmp);
        println!("{name:<10} {:>8.0} ns a request ({:.0} to {:.0})", rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
    }
}
