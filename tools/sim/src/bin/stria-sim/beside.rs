//! `sim rebuild`: the latency of clients during a rebuild on modelled SSDs, and the speed of the rebuild.

use crate::price::{DEPTH_MAX, MEMBERS_MAX};
use clap::Args;
use serde_json::json;
use std::time::Duration;
use stria_array::{LatencyTarget, Level};
use stria_sim::beside::{Plan, beside};
use stria_sim::price::COST;
use stria_sim::ssd::{Cost, DRIVES};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};

/// `stria sim rebuild`
#[derive(Args, Debug)]
pub struct Rebuild {
    /// The level, one with redundancy.
    #[arg(long, default_value = "5", value_parser = level)]
    level: Level,
    /// The number of its members.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=MEMBERS_MAX))]
    members: u64,
    /// The drive: p4510, p5810 (both with power-loss protection) or 970 (with a volatile cache).
    #[arg(long, default_value = "p4510", value_parser = DRIVES.map(|drive| drive.key))]
    drive: String,
    /// The number of clients' 4 KiB random requests at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=DEPTH_MAX))]
    depth: u64,
    /// The percentage of reads.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=100))]
    rwmixread: u64,
    /// The latency that 99 of 100 requests must keep; repeat the option for several.
    #[arg(long, value_name = "TIME", value_parser = latency, default_values = ["300us", "500us", "1ms", "2ms", "5ms"])]
    p99: Vec<Duration>,
    /// The virtual time to measure, for each line.
    #[arg(long, value_name = "TIME", value_parser = runtime, default_value = "5s")]
    runtime: Duration,
    /// Let the engine take no time, so that only the drives count.
    #[arg(long)]
    no_processor: bool,
}

/// 1 minute: the longest time to measure. The latency of every request is kept in memory.
const LONGEST: Duration = Duration::from_secs(60);

fn latency(text: &str) -> Result<Duration, String> {
    duration(text, Duration::from_micros(1))
}

fn runtime(text: &str) -> Result<Duration, String> {
    duration(text, Duration::from_millis(1))
}

fn duration(text: &str, shortest: Duration) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}: write it like 500us, 20ms or 5s"))?;
    if (shortest..=LONGEST).contains(&time) {
        return Ok(time);
    }
    Err(format!("use {} to {}", humantime::format_duration(shortest), humantime::format_duration(LONGEST)))
}

fn level(text: &str) -> Result<Level, String> {
    let known = [Level::Raid1, Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6];
    known.into_iter().find(|level| level.to_string() == text).ok_or_else(|| "use 1, 10, 4, 5 or 6".into())
}

/// Measures, and prints the result.
///
/// # Errors
/// The array is impossible.
pub fn run(command: &Rebuild, json: bool) -> Result<(), Failure> {
    let drive = DRIVES.into_iter().find(|drive| drive.key == command.drive).expect("the parser knows them");
    let plan = Plan {
        drive,
        level: command.level,
        members: command.members as usize,
        depth: command.depth,
        read_percent: command.rwmixread,
        target: None,
        held: false,
        time: command.runtime.as_nanos() as u64,
        cost: if command.no_processor { Cost::default() } else { COST },
    };
    let mut lines = vec![("held".to_owned(), Plan { held: true, ..plan.clone() }), ("off".to_owned(), plan.clone())];
    lines.extend(command.p99.iter().map(|&bound| {
        let target = LatencyTarget { percentile: 9900, bound: bound.as_nanos() as u64 };
        (format!("p99={}", humantime::format_duration(bound)), Plan { target: Some(target), ..plan.clone() })
    }));
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for (name, plan) in lines {
        let outcome = beside(&plan).map_err(Failure::Failed)?;
        let (p99_us, speed) = (outcome.p99_ns as f64 / 1e3, outcome.rebuild_bytes_per_s / 1e6);
        // The time to fill an entire drive at that speed.
        let hours = drive.sectors as f64 * 512.0 / outcome.rebuild_bytes_per_s / 3600.0;
        let hours = if outcome.rebuild_bytes_per_s > 0.0 { format!("{hours:.1}") } else { "-".into() };
        values.push(
            json!({"latency": name, "iops": outcome.iops, "p99_us": p99_us, "rebuild_bytes_per_s": outcome.rebuild_bytes_per_s}),
        );
        rows.push(vec![name, format!("{:.0}", outcome.iops), format!("{p99_us:.0}"), format!("{speed:.0}"), hours]);
    }
    if json {
        let level = command.level.to_string();
        print_json(
            &json!({"drive": drive.key, "level": level, "members": command.members, "depth": plan.depth, "lines": values}),
        );
        return Ok(());
    }
    print(&format!(
        "RAID {} of {}, {} being rebuilt; 4 KiB random, {} % reads, QD {}, in virtual time; `stria speed --latency` sets the first column\n\n",
        command.level, command.members, drive.name, command.rwmixread, plan.depth
    ));
    let header = ["latency", "clients' IOPS", "p99 us", "rebuild MB/s", "hours a drive"];
    print(&format!("{}\n", table(&header, &[1, 2, 3, 4], rows)));
    Ok(())
}
