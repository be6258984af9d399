//! The cost of the write log: 4 KiB random writes with and without it, on RAM members, one lane, md metadata and bitmap.
//!
//! `cargo run --release -p stria-bench --example log [RUN_MS [ROUNDS [null]]]`; rounds alternate between the two, medians are
//! shown. Beside the cost: writes to members and bytes of them, for each write of a client. With `null` members do nothing, so
//! the figure is the engine's own time. With members in memory it includes copies that a drive does by itself.

mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use stria_array::{ArrayDevice, Level};
use stria_bench::{Limit, Load, NullDevice, Order, Target};
use stria_block::{BlockDevice, Completion, Limits, Nanos, Operation, RamDevice, Request};
use stria_format::md::{LogChoice, MdRecorder};

const MEMBER_SECTORS: u64 = 64 << 11;

/// Writes and their sectors, of all members.
type Count = Rc<Cell<(u64, u64)>>;

struct Counted {
    device: Box<dyn BlockDevice>,
    count: Count,
}

impl BlockDevice for Counted {
    fn limits(&self) -> &Limits {
        self.device.limits()
    }
    fn submit(&mut self, request: Request) {
        if let Operation::Write { .. } = request.operation {
            let (writes, sectors) = self.count.get();
            self.count.set((writes + 1, sectors + request.sectors));
        }
        self.device.submit(request);
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.device.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.device.next_wake()
    }
}

fn array(level: Level, count: usize, log: LogChoice, null: bool) -> (ArrayDevice<MdRecorder>, Count) {
    let counter = Count::default();
    let counted = |ram: RamDevice| {
        let device: Box<dyn BlockDevice> = if null { Box::new(NullDevice::new(MEMBER_SECTORS)) } else { Box::new(ram) };
        Box::new(Counted { device, count: Rc::clone(&counter) }) as Box<dyn BlockDevice>
    };
    let array = support::md_array(level, count, MEMBER_SECTORS, log, counted);
    (array, counter)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let run = Duration::from_millis(arguments.next().map_or(200, |ms| ms.parse().expect("RUN_MS is a number")));
    let rounds: usize = arguments.next().map_or(7, |count| count.parse().expect("ROUNDS is a number"));
    let null = arguments.next().is_some_and(|members| members == "null");
    println!(
        "{:<22} {:>10} {:>10} {:>7} {:>21} {:>23}",
        "4 KiB random writes", "without", "with log", "ratio", "member writes/write", "member bytes/byte"
    );
    for (level, count) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
        let mut arrays = [LogChoice::None, LogChoice::Auto].map(|log| array(level, count, log, null));
        for queue_depth in [1, 32, 128] {
            let mut iops = [Vec::new(), Vec::new()];
            let mut per_write = [(0.0, 0.0); 2];
            for _ in 0..rounds {
                for (side, (array, count)) in arrays.iter_mut().enumerate() {
                    let before = count.get();
                    let load =
                        Load { read_percent: 0, queue_depth, order: Order::Random, limit: Limit::Time(run), ..Load::default() };
                    let outcome = load.run(Target { device: array, ring: None }, None).expect("memory does not fail");
                    iops[side].push(outcome.iops());
                    let (writes, sectors) = (count.get().0 - before.0, count.get().1 - before.1);
                    let operations = outcome.operations as f64;
                    per_write[side] = (writes as f64 / operations, sectors as f64 * 512.0 / (operations * 4096.0));
                }
            }
            let [without, with] = iops.map(median);
            println!(
                "RAID {level} of {count}, QD {queue_depth:<5} {without:>10.0} {with:>10.0} {:>7.2} {:>10.2} -> {:>5.2} {:>12.2} -> {:>5.2}",
                with / without,
                per_write[0].0,
                per_write[1].0,
                per_write[0].1,
                per_write[1].1
            );
        }
    }
}
