//! `sim price`: the cost of the write log on modelled SSDs.

use clap::Args;
use serde_json::{Value, json};
use stria_array::Level;
use stria_sim::price::{COST, Outcome, Plan, price};
use stria_sim::ssd::{Cost, DRIVES, Figures};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};

/// 384: the most members of an array of md.
pub const MEMBERS_MAX: u64 = stria_array::Geometry::MEMBER_COUNT_MAX as u64;
/// 4,096: the most requests of clients at once. Source: none; each takes memory.
pub const DEPTH_MAX: u64 = 4096;

/// `stria sim price`
#[derive(Args, Debug)]
pub struct Price {
    /// Measure one level only: 4, 5 or 6. Without it: RAID 5 of 4 members and RAID 6 of 6.
    #[arg(long, value_parser = level)]
    level: Option<Level>,
    /// The number of members of that level.
    #[arg(long, value_name = "N", requires = "level", value_parser = clap::value_parser!(u64).range(2..=MEMBERS_MAX))]
    members: Option<u64>,
    /// Measure one drive only: p4510, p5810 (both with power-loss protection), 970 (with a volatile cache).
    #[arg(long, value_parser = DRIVES.map(|drive| drive.key))]
    drive: Option<String>,
    /// The number of clients' requests at once; repeat the option for several.
    #[arg(long, value_name = "N", default_values_t = [1, 32, 128], value_parser = clap::value_parser!(u64).range(1..=DEPTH_MAX))]
    depth: Vec<u64>,
    /// The number of writes to measure, for each line and side.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    writes: u64,
    /// Let the drive amplify writes to the log like random writes.
    #[arg(long)]
    amplify_all: bool,
    /// Let the engine take no time, so that only the drives count.
    #[arg(long)]
    no_processor: bool,
}

fn level(text: &str) -> Result<Level, String> {
    let known = [Level::Raid4, Level::Raid5, Level::Raid6];
    known.into_iter().find(|level| level.to_string() == text).ok_or_else(|| "use 4, 5 or 6".into())
}

/// Measures, and prints the result.
///
/// # Errors
/// An array is impossible.
pub fn run(command: &Price, json: bool) -> Result<(), Failure> {
    let shapes = match command.level {
        Some(level) => vec![(level, command.members.unwrap_or(if level == Level::Raid6 { 6 } else { 4 }) as usize)],
        None => vec![(Level::Raid5, 4), (Level::Raid6, 6)],
    };
    let wanted = |drive: &Figures| command.drive.as_ref().is_none_or(|key| key == drive.key);
    let cost = if command.no_processor { Cost::default() } else { COST };
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for drive in DRIVES.into_iter().filter(wanted) {
        let drive = Figures { amplifies_all: command.amplify_all, ..drive };
        for &(level, members) in &shapes {
            for &depth in &command.depth {
                let plan = Plan { drive, level, members, depth, writes: command.writes, cost };
                let price = price(&plan).map_err(Failure::Failed)?;
                let (without, with) = (price.without, price.with);
                let pair = |of: &dyn Fn(&Outcome) -> String| format!("{} -> {}", of(&without), of(&with));
                rows.push(vec![
                    drive.key.to_owned(),
                    format!("RAID {level} of {members}"),
                    depth.to_string(),
                    pair(&|side| format!("{:.0}", side.iops)),
                    format!("{:.2}", with.iops / without.iops),
                    pair(&|side| format!("{:.0}", side.mean_ns / 1e3)),
                    pair(&|side| format!("{:.0}", side.p99_ns as f64 / 1e3)),
                    pair(&|side| format!("{:.2}", side.member_writes)),
                    pair(&|side| format!("{:.1}", side.member_bytes / 1024.0)),
                    format!("{:.1}", with.records_per_append),
                ]);
                values.push(json!({
                    "drive": drive.key, "level": level.to_string(), "members": members, "depth": depth,
                    "ratio": with.iops / without.iops, "without": value(&without), "with": value(&with),
                }));
            }
        }
    }
    if json {
        print_json(
            &json!({"block_bytes": 4096, "request_ns": cost.request_ns, "log_page_ns": cost.log_page_ns, "client_ns": cost.client_ns, "lines": values}),
        );
        return Ok(());
    }
    let header =
        ["drive", "array", "QD", "writes/s", "ratio", "mean us", "p99 us", "member writes", "member KiB", "records/append"];
    print("4 KiB random writes, without -> with the write log, in virtual time; member writes and KiB for each write\n");
    print(&format!("{}\n", table(&header, &[2, 3, 4, 5, 6, 7, 8, 9], rows)));
    for drive in DRIVES.iter().filter(|drive| wanted(drive)) {
        print(&format!("{}: {}; {}\n", drive.key, drive.name, drive.source));
    }
    Ok(())
}

fn value(side: &Outcome) -> Value {
    json!({
        "iops": side.iops, "mean_us": side.mean_ns / 1e3, "p99_us": side.p99_ns as f64 / 1e3, "member_writes": side.member_writes,
        "member_bytes": side.member_bytes, "member_flushes": side.member_flushes, "records_per_append": side.records_per_append,
    })
}
