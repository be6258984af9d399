//! The memory of a 4 TB drive, as the kernel counts it. The only test of its program, so that no other one's memory counts.

use stria_plan::backplane::DriveConfig;
use stria_plan::load::{Load, run};
use stria_plan::profile;
use stria_plan::ssd::Ssd;

/// The most memory that this process has had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a count") << 10
}

/// A P4510 of 4 TB, as its profile has it, made used at once and then loaded.
#[test]
fn a_used_drive_of_four_terabytes_takes_less_than_100_mib() {
    let DriveConfig::Ssd(config) = profile::drive("p4510").expect("a drive").config else { panic!("it is an SSD") };
    assert_eq!(config.capacity_bytes / 1_000_000_000_000, 4);
    let mut drive = Ssd::new(config, 1);
    drive.jump_to_used(1);
    let load = Load::random(&drive, 32, 0.5);
    run(&mut drive, &load);
    assert!(peak_bytes() < 100 << 20, "{} MiB", peak_bytes() >> 20);
}
