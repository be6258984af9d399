//! The latency of clients beside a rebuild, and the speed of the rebuild, on [modelled SSDs](crate::ssd) in virtual time.

use crate::chance::Chance;
use crate::modelled::Modelled;
use crate::ssd::{Cost, Figures, Meter};
use std::rc::Rc;
use stria_array::{LatencyTarget, Level};
use stria_block::{BlockDevice, Buffer, Nanos, Operation, Request};
use stria_format::md::LogChoice;

/// The time in which the sweep may find its speed before measuring begins.
const WARM_UP: Nanos = 8_000_000_000;

/// The measurement to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The drives.
    pub drive: Figures,
    /// A level with redundancy.
    pub level: Level,
    /// Its members; one is being rebuilt.
    pub members: usize,
    /// 4 KiB random requests of clients at once.
    pub depth: u64,
    /// The number of them that read.
    pub read_percent: u64,
    /// The latency that the rebuild leaves them.
    pub target: Option<LatencyTarget>,
    /// True if the rebuild is held, to measure clients without it, at less redundancy.
    pub held: bool,
    /// The time that is counted.
    pub time: Nanos,
    /// The cost of the engine.
    pub cost: Cost,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Client requests a second.
    pub iops: f64,
    /// The latency that 99 of 100 requests do not exceed.
    pub p99_ns: Nanos,
    /// Bytes of the new member that are filled in a second.
    pub rebuild_bytes_per_s: f64,
}

/// Measures.
///
/// # Errors
/// The array is impossible, or no request ends in the time that is counted.
pub fn beside(plan: &Plan) -> Result<Outcome, String> {
    let Plan { drive, level, members, cost, .. } = *plan;
    let meter = Rc::new(Meter::default());
    let modelled = Modelled { drive, level, members, log: LogChoice::Auto, rebuilds: true, cost };
    let (mut array, capacity_sectors) = modelled.array(&meter)?;
    array.with_engine(|engine| {
        engine.set_latency_target(plan.target);
        engine.pause(plan.held);
    });
    let rebuilt = |array: &stria_array::ArrayDevice<_>| array.status().sweep.map_or(0, |sweep| sweep.done_sectors);
    let mut chance = Chance::new(plan.depth, 8);
    let data = Buffer::zeroed(4096).freeze();
    let mut begun: Vec<Nanos> = Vec::new();
    let mut latencies: Vec<Nanos> = Vec::new();
    let (mut ended, mut completions, mut from) = (0, Vec::new(), None);
    while meter.now() < WARM_UP + plan.time {
        while (begun.len() as u64) < ended + plan.depth {
            let operation = match chance.below(100) < plan.read_percent {
                true => Operation::Read { into: std::iter::once(Buffer::zeroed(4096)).collect() },
                false => Operation::Write { from: std::iter::once(data.clone()).collect(), fua: false },
            };
            let start_sector = chance.below(capacity_sectors / 8) * 8;
            begun.push(meter.now());
            meter.spend(cost.client_ns);
            array.submit(Request { tag: begun.len() as u64 - 1, start_sector, sectors: 8, operation });
        }
        array.poll(meter.now(), &mut completions);
        for completion in completions.drain(..) {
            completion.result.map_err(|error| error.to_string())?;
            ended += 1;
            if from.is_some() {
                latencies.push(meter.now() - begun[completion.tag as usize]);
            }
        }
        if from.is_none() && meter.now() >= WARM_UP {
            from = Some((meter.now(), rebuilt(&array)));
        }
        if begun.len() as u64 == ended + plan.depth {
            meter.wait_until(array.next_wake().ok_or("nothing happens any more")?);
        }
    }
    let Some((since, sectors)) = from.filter(|_| !latencies.is_empty()) else {
        return Err(format!("no request of a client ends within {} ns: measure for longer", plan.time));
    };
    let seconds = (meter.now() - since) as f64 / 1e9;
    latencies.sort_unstable();
    Ok(Outcome {
        iops: latencies.len() as f64 / seconds,
        p99_ns: latencies[latencies.len() * 99 / 100],
        rebuild_bytes_per_s: (rebuilt(&array) - sectors) as f64 * 512.0 / seconds,
    })
}
