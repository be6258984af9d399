//! Two P4510 under md, VROC and a MegaRAID controller.

use super::experiment::{Ask, Bench, measure};
use super::published::Published;
use super::row::{Case, Count};
use crate::array::Level;

/// md's default strip, and MegaRAID's smallest.
const STRIP_KIB: u64 = 64;

const FRESHER: Count = Count::NotPredictable(
    "the drives' state changed between the rows: of 128 threads each drive of VROC's mirror writes 244,000 a second, each of its RAID 0 81,000, and \
     the single one 105,000",
);
const TAIL: Count = Count::NotPredictable(
    "the drives' state changed between the rows: under md and VROC each drive writes as often as the single one, or more, and has a shorter tail",
);

pub fn case(published: &Published) -> Result<Case, Box<dyn std::error::Error + Send + Sync>> {
    let mut case = Case::new("nvme_two_drives", "Two Intel P4510 under md, VROC and MegaRAID");
    let rows = [
        ("drive", "p4510-host", Level::Single),
        ("md RAID 0", "p4510-md", Level::Raid0),
        ("VROC RAID 0", "p4510-md", Level::Raid0),
        ("MegaRAID RAID 0", "p4510-megaraid", Level::Raid0),
        ("md RAID 1", "p4510-md", Level::Raid1),
        ("VROC RAID 1", "p4510-md", Level::Raid1),
        ("MegaRAID RAID 1", "p4510-megaraid", Level::Raid1),
    ];
    for (index, (name, platform, level)) in rows.into_iter().enumerate() {
        let bench = Bench::new(platform, "p4510")?;
        let members = if level == Level::Single { 1 } else { 2 };
        let run = |threads: u32, read_share: f64| {
            let ask = Ask {
                requests: if threads > 1 { 60_000 } else { 10_000 },
                warm_up: 20_000,
                ..Ask::random(threads, 1, read_share)
            };
            measure(&mut bench.used_rig(level, members, STRIP_KIB), ask)
        };
        let (read_one, write_one, read_many, write_many) = (run(1, 1.0), run(1, 0.0), run(128, 1.0), run(128, 0.0));
        let mirror = level == Level::Raid1;
        let given = |count: Count| if index == 0 { Count::Given } else { count };
        let reads_many = match index {
            3 | 4 | 6 => Count::Calibrated,
            _ => given(Count::Predicted),
        };
        // Without a controller between them mirrors wrote faster than the drive alone.
        let writes_one = if mirror && index != 6 { FRESHER } else { given(Count::Predicted) };
        let writes_many = given(FRESHER);
        let reads_one = if index == 4 { Count::Calibrated } else { given(Count::Predicted) };
        let mut add = |column: usize, what: &str, count, model| {
            case.add(published, &format!("iops_4k[{index}][{column}]"), format!("{name}, 4K {what}"), "IOPS", count, model)
        };
        add(1, "read, 1 thread", reads_one, read_one.iops)?;
        add(2, "write, 1 thread", writes_one, write_one.iops)?;
        add(3, "read, 128 threads", reads_many, read_many.iops)?;
        add(4, "write, 128 threads", writes_many, write_many.iops)?;
        let mut p99 = |column: usize, what: &str, count, model: u64| {
            let place = format!("latency_us_p99_4k_1thread[{index}][{column}]");
            case.add(published, &place, format!("{name}, 4K {what}, 1 thread, p99"), "us", count, model as f64 / 1e3)
        };
        p99(1, "read", given(Count::Predicted), read_one.reads.quantile_ns(0.99))?;
        p99(2, "write", if matches!(index, 3 | 6) { Count::Predicted } else { given(TAIL) }, write_one.writes.quantile_ns(0.99))?;
    }
    case.notes.push("VROC is md on Linux: it has no parameter of its own.");
    case.notes.push(
        "On md's mirror one thread reads 11 us more slowly than on the drive, but the 99th percentile is the drive's. fio's completion latency begins after \
         submission, so the time is the sending thread's. It is calibrated on md, and VROC's number follows.",
    );
    case.notes.push("Waiting for the firmware is all that the model knows of a write's 99th percentile.");
    Ok(case)
}
