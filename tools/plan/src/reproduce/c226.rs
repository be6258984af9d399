//! Six S3500 on the C226 chipset, RAID 0.

use super::experiment::{Ask, Bench, SEED, mbs, measure};
use super::published::Published;
use super::row::{Case, Count};
use crate::array::Level;
use crate::backplane::DriveConfig;
use crate::rig::Rig;

/// The default strip of two drives, `z87.default_strip_kib`: the same driver.
const STRIP_KIB: u64 = 16;

pub fn case(published: &Published) -> Result<Case, Box<dyn std::error::Error + Send + Sync>> {
    let bench = Bench::new("c226", "s3500")?;
    let level = |members: usize| if members == 1 { Level::Single } else { Level::Raid0 };
    let fresh = |members: usize, ask: Ask| measure(&mut bench.rig(level(members), members, STRIP_KIB), ask);
    let sequential = |members: usize, read_share: f64| mbs(&fresh(members, Ask::sequential(2, 32, read_share)));
    let random = |members: usize, depth: u32, read_share: f64| fresh(members, Ask::random(2, depth, read_share)).iops;
    let mut case = Case::new("c226", "RAID 0 of two to six Intel DC S3500 on the C226 chipset");

    let reads: Vec<f64> = (1..=6).map(|members| sequential(members, 1.0)).collect();
    let writes: Vec<f64> = (1..=6).map(|members| sequential(members, 0.0)).collect();
    let mut add = |place: &str, what: &str, unit, count, model: Option<f64>| case.add(published, place, what, unit, count, model);
    add("seq_read_mbs.x1", "sequential read, one drive", "MB/s", Count::Given, Some(reads[0]))?;
    add("seq_read_mbs.x2", "sequential read, RAID 0 of 2", "MB/s", Count::Predicted, Some(reads[1]))?;
    add("seq_read_mbs.x3", "sequential read, RAID 0 of 3", "MB/s", Count::Predicted, Some(reads[2]))?;
    add("seq_read_ceiling_mbs", "sequential read, RAID 0 of 4 to 6, most", "MB/s", Count::Predicted, Some(max(&reads[3..])))?;
    add("seq_write_mbs_max", "sequential write, most", "MB/s", Count::Predicted, Some(max(&writes)))?;
    add("write_share_of_read.x1", "sequential write over read, one drive", "", Count::Given, Some(writes[0] / reads[0]))?;
    let share = max(&writes[3..]) / max(&reads[3..]);
    add("write_share_of_read.x4_and_more", "sequential write over read, 4 and more", "", Count::Predicted, Some(share))?;
    let (two, four, six) = (random(2, 32, 1.0), random(4, 32, 1.0), random(6, 32, 1.0));
    add("rand_read_iops.x2_max", "4K random read, RAID 0 of 2", "IOPS", Count::Predicted, Some(two))?;
    add("rand_read_iops.x4_to_x6_max", "4K random read, RAID 0 of 4 to 6", "IOPS", Count::Calibrated, Some(four.max(six)))?;
    let at_two = random(2, 1, 1.0);
    add(
        "rand_read_iops.x2_at_2_outstanding",
        "4K random read, RAID 0 of 2, 2 under way",
        "IOPS",
        Count::Calibrated,
        Some(at_two),
    )?;
    let at_four = random(2, 2, 1.0);
    add(
        "rand_read_iops.x2_at_4_outstanding",
        "4K random read, RAID 0 of 2, 4 under way",
        "IOPS",
        Count::Predicted,
        Some(at_four),
    )?;
    add("rand_write_iops_max.x6", "4K random write, RAID 0 of 6", "IOPS", Count::Predicted, Some(random(6, 32, 0.0)))?;
    let best = Count::NotPredictable("the source does not say of which request, level and depth");
    add("latency_us.best", "best latency", "us", best, None)?;
    add("latency_us.worst_percent", "worst latency over the mean", "%", best, None)?;

    let one = random(1, 32, 1.0);
    case.at_most(0, "one drive gains less than 5 % from 64 under way over 32", one, 1.05, random(1, 16, 1.0));
    case.at_most(0, "RAID 0 of 4 gains less than 10 % from 128 under way over 64", random(4, 64, 1.0), 1.1, four);
    case.at_most(1, "4K reads: RAID 0 of 4 is at most four drives by themselves", four, 1.0, 4.0 * one);
    let (even, slowed) = one_slow_drive(&bench);
    case.times(1, "a drive of half the speed halves RAID 0 of 4, sequential read", slowed / even, 0.45..=0.55);
    case.no_claim.push((2, "says which tests were run"));
    case.notes.push(
        "001's ceiling of reads is implied by its text: writes of four and more are 82 % of reads, and 1,282 MB/s at most.",
    );
    Ok(case)
}

/// Sequential reads of a RAID 0 of four slow enough for the link, all alike, and with one of half the speed.
fn one_slow_drive(bench: &Bench) -> (f64, f64) {
    let slow = |share: f64| match bench.drive.config.clone() {
        DriveConfig::Ssd(mut config) => {
            config.link_bytes_per_s = (config.link_bytes_per_s as f64 * share) as u64;
            DriveConfig::Ssd(config)
        }
        other @ DriveConfig::Hdd(_) => other,
    };
    let speed = |shares: [f64; 4]| {
        let drives = shares.map(slow);
        let mut rig = Rig::new(bench.platform.config.clone(), &drives, Level::Raid0, STRIP_KIB << 10, SEED);
        mbs(&measure(&mut rig, Ask::sequential(2, 32, 1.0)))
    };
    (speed([0.5; 4]), speed([0.5, 0.5, 0.5, 0.25]))
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
