//! Arrays beside their bare members, in memory, one lane:
//! `cargo run --release -p stria-bench --example compare [ram|null [RUN_MS [PAGE.html]]]`.
//!
//! Over null members the column "added" is the engine's own cost: CPU per request beyond that of the member's requests.

use std::time::Duration;
use stria_bench::report::{Section, page};
use stria_bench::{Environment, LoadError, NullDevice, Row, Subject, array_over, compare, usual_loads};
use stria_block::{BlockDevice, RamDevice};

const MEMBER_SECTORS: u64 = 64 << 11;

fn main() -> Result<(), LoadError> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "ram".into());
    let run = Duration::from_millis(arguments.next().map_or(50, |ms| ms.parse().expect("RUN_MS is a number")));
    let html = arguments.next();
    let member = || -> Box<dyn BlockDevice> {
        match kind.as_str() {
            "null" => Box::new(NullDevice::new(MEMBER_SECTORS)),
            _ => Box::new(RamDevice::new(MEMBER_SECTORS)),
        }
    };
    let mut comparisons = Vec::new();
    for (level, count) in [("0", 4), ("1", 2), ("10", 4), ("5", 4), ("6", 6), ("50", 6), ("60", 8)] {
        let members = || (0..count).map(|_| member()).collect::<Vec<_>>();
        let (array, shape) = array_over(level.parse().expect("a level"), 128, members()).expect("it fits");
        let name = format!("RAID {level} of {count}");
        let mut subject = Subject { name, array, shape, members: members(), members_writable: true, ring: None };
        let comparison = compare(&mut subject, &usual_loads(run), 3, &mut |_, _, _| {})?;
        println!(
            "\n{:<36} {:>9} {:>7} {:>8} {:>8} {:>9} {:>6} {:>9}",
            comparison.name, "IOPS", "±", "CPU ns", "bare ns", "added ns", "/bare", "/allowed"
        );
        for row in &comparison.rows {
            let bare = row.member.as_ref().map_or(f64::NAN, |member| member.cpu_ns_per_io);
            println!(
                "{:<36} {:>9.0} {:>6.0}% {:>8.0} {:>8.0} {:>9.0} {:>6.2} {:>9.2}",
                row.label,
                row.array.iops.median,
                row.array.iops.relative() * 50.0,
                row.array.cpu_ns_per_io,
                bare,
                added(row),
                row.share_of_member.unwrap_or(f64::NAN),
                row.share_of_allowed.unwrap_or(f64::NAN)
            );
        }
        comparisons.push(comparison);
    }
    if let Some(path) = html {
        let sections: Vec<Section> = comparisons.iter().map(Section::Comparison).collect();
        let environment = Environment::here(format!("{kind} members of 64 MiB, one lane, no metadata"));
        std::fs::write(path, page("Stria beside its bare members", &environment, &sections)).expect("the page can be written");
    }
    Ok(())
}

/// CPU time per request above that of the lowest bound.
fn added(row: &Row) -> f64 {
    row.array.cpu_ns_per_io - row.bounds.map_or(f64::NAN, |bounds| 1e9 / bounds.allowed)
}
