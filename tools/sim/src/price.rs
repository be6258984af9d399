//! The cost of the write log on [modelled SSDs](crate::ssd), in virtual time: the real engine, binder and metadata, 4 KiB random
//! writes, once with the log and once without.
//!
//! The engine's processor time passes on the same clock ([`COST`]). The array runs on one lane.

use crate::chance::Chance;
use crate::modelled::Modelled;
use crate::ssd::{Cost, Figures, Meter};
use std::rc::Rc;
use stria_array::{ArrayDevice, Level};
use stria_block::{BlockDevice, Buffer, Nanos, Operation, Request};
use stria_format::md::{LogChoice, MdRecorder};

/// The cost of a write where members are memory (`cargo run --release -p stria-bench --example log 200 5`, Zen 5, quiet): RAID 5
/// of 4 at QD 32 makes 459,000 writes a second without the log, of four requests to members each, and 334,500 with it; where
/// members do nothing, 1,244,000 and 747,000. A copy in memory stands for the kernel's time for a request to a drive.
pub const COST: Cost = Cost { client_ns: 580, request_ns: 400, log_page_ns: 570 };
/// 64 GiB: the range to which clients write.
const REGION_SECTORS: u64 = 128 << 20;
/// The number of writes before anything is counted: bits are set, logs begun, buffers full.
const WARM_UP: u64 = 20_000;

/// The measurement to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The drives.
    pub drive: Figures,
    /// RAID 4, 5 or 6.
    pub level: Level,
    /// Its members.
    pub members: usize,
    /// Client requests under way at a time.
    pub depth: u64,
    /// The number of requests that count.
    pub writes: u64,
    /// The processor time of the engine; zero measures the drives alone.
    pub cost: Cost,
}

/// The result with the log, or without it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Client writes a second.
    pub iops: f64,
    /// From a client's request to its end.
    pub mean_ns: f64,
    /// The latency that 99 of 100 writes do not exceed.
    pub p99_ns: Nanos,
    /// Writes to members for each client write, metadata included.
    pub member_writes: f64,
    /// Bytes to members for each byte of a client.
    pub member_bytes: f64,
    /// Flushes of members for each client write.
    pub member_flushes: f64,
    /// Log records for each append; 0 without a log.
    pub records_per_append: f64,
}

/// Both results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Without the log.
    pub without: Outcome,
    /// With it.
    pub with: Outcome,
}

/// Measures both.
///
/// # Errors
/// The array is impossible.
pub fn price(plan: &Plan) -> Result<Price, String> {
    Ok(Price { without: side(plan, LogChoice::None)?, with: side(plan, LogChoice::Auto)? })
}

fn side(plan: &Plan, log: LogChoice) -> Result<Outcome, String> {
    let meter = Rc::new(Meter::default());
    let Plan { drive, level, members, cost, .. } = *plan;
    let (mut array, capacity_sectors) = Modelled { drive, level, members, log, rebuilds: false, cost }.array(&meter)?;
    let blocks = capacity_sectors.min(REGION_SECTORS) / 8;
    let mut chance = Chance::new(plan.depth, 8);
    let data = Buffer::zeroed(4096).freeze();
    let mut begun: Vec<Nanos> = Vec::new();
    let mut latencies: Vec<Nanos> = Vec::with_capacity(plan.writes as usize);
    let (mut ended, mut completions) = (0, Vec::new());
    let mut from = (0, 0, 0, 0, (0, 0));
    let logged = |array: &ArrayDevice<MdRecorder>| array.status().log.map_or((0, 0), |log| (log.append_count, log.record_count));
    let count = |array: &ArrayDevice<MdRecorder>| {
        (meter.now(), meter.writes.get(), meter.written_sectors.get(), meter.flushes.get(), logged(array))
    };
    while ended < WARM_UP + plan.writes {
        while (begun.len() as u64) < ended + plan.depth {
            let operation = Operation::Write { from: std::iter::once(data.clone()).collect(), fua: false };
            let request = Request { tag: begun.len() as u64, start_sector: chance.below(blocks) * 8, sectors: 8, operation };
            begun.push(meter.now());
            meter.spend(plan.cost.client_ns);
            array.submit(request);
        }
        array.poll(meter.now(), &mut completions);
        for completion in completions.drain(..) {
            completion.result.map_err(|error| error.to_string())?;
            ended += 1;
            if ended > WARM_UP && latencies.len() < plan.writes as usize {
                latencies.push(meter.now() - begun[completion.tag as usize]);
            }
            if ended == WARM_UP {
                from = count(&array);
            }
        }
        if begun.len() as u64 == ended + plan.depth {
            meter.wait_until(array.next_wake().ok_or("nothing happens any more")?);
        }
    }
    let to = count(&array);
    let writes = (ended - WARM_UP) as f64;
    latencies.sort_unstable();
    let (appends, records) = (to.4.0 - from.4.0, to.4.1 - from.4.1);
    Ok(Outcome {
        iops: writes * 1e9 / (to.0 - from.0) as f64,
        mean_ns: latencies.iter().sum::<Nanos>() as f64 / latencies.len() as f64,
        p99_ns: latencies[latencies.len() * 99 / 100],
        member_writes: (to.1 - from.1) as f64 / writes,
        member_bytes: (to.2 - from.2) as f64 * 512.0 / writes,
        member_flushes: (to.3 - from.3) as f64 / writes,
        records_per_append: if appends == 0 { 0.0 } else { records as f64 / appends as f64 },
    })
}
