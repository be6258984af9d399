//! Goal: no parameter is fitted to a single number. Method: the parameter is calibrated on another published number instead, and
//! must still predict the number that is left out.

use stria_plan::array::Level;
use stria_plan::backplane::DriveConfig;
use stria_plan::load::{Load, run};
use stria_plan::model::Model;
use stria_plan::platform::PlatformConfig;
use stria_plan::profile;
use stria_plan::reproduce::published::Published;
use stria_plan::rig::Rig;

fn platform(key: &str) -> PlatformConfig {
    profile::platform(key).expect("there is such a platform").config
}

fn published(place: &str) -> f64 {
    Published::read().expect("it parses").number(place).expect("it is published")
}

fn near(what: &str, model: f64, left_out: f64) {
    assert!((model / left_out - 1.0).abs() < 0.1, "{what}: {model:.0} instead of {left_out:.0}");
}

fn reads(platform: PlatformConfig, drive: &DriveConfig, level: Level, members: usize, threads: u32) -> f64 {
    let mut rig = Rig::new(platform, &vec![drive.clone(); members], level, 256 << 10, 1);
    let load =
        Load { threads, host_ns: rig.platform().thread_ns, host_read_ns: rig.thread_read_ns(), ..Load::random(&rig, 1, 1.0) };
    run(&mut rig, &load).iops
}

/// md's choice among copies, from the reads of VROC's mirror, which is md as well.
#[test]
fn a_mirror_under_md_from_that_under_vroc() {
    let drive = profile::drive("p4510").expect("there is such a drive").config;
    let host = platform("p4510-md");
    let choice = 1e9 / published("nvme_two_drives.iops_4k[5][3]") - host.serial_ns as f64;
    let config = PlatformConfig { mirror_read_ns: choice as u64, ..host };
    near("md RAID 1", reads(config, &drive, Level::Raid1, 2, 128), published("nvme_two_drives.iops_4k[4][3]"));
}

/// The drive's channels, from a read of 16 KiB instead of 8 KiB.
#[test]
fn a_read_of_8_kib_from_one_of_16() {
    let DriveConfig::Ssd(mut config) = profile::drive("d3700").expect("there is such a drive").config else { panic!("an SSD") };
    let more = published("nvme_matrix.latency_ms_mean.16k[2]") - published("nvme_matrix.latency_ms_mean.4k[2]");
    // 12 KiB more pass the channel, and the link of 1,790 MB/s twice: from flash to the buffer's end, and to the host.
    let on_link = 2.0 * 12_288.0 / config.link_bytes_per_s as f64 * 1e3;
    config.channel_bytes_per_s = (12_288.0 / (more - on_link) * 1e3) as u64;
    let mut rig = Rig::new(PlatformConfig::default(), &[DriveConfig::Ssd(config)], Level::Single, 1 << 20, 1);
    let load = Load { block_bytes: 8 << 10, requests: 4_000, ..Load::random(&rig, 1, 1.0) };
    assert!(rig.size_sectors() > 0);
    let found = run(&mut rig, &load).mean_ns() / 1e6;
    let left_out = published("nvme_matrix.latency_ms_mean.8k[2]");
    assert!((found / left_out - 1.0).abs() < 0.1, "{found:.4} ms instead of {left_out}");
}

/// Ceilings of controllers, in drives of 168 MB/s, from other levels than those of the profiles.
#[test]
fn ceilings_of_controllers_from_other_levels() {
    let ceiling = |place: &str, parity: f64| {
        let scales_to = published(&format!("controllers.scales_to_drives.{place}"));
        (scales_to - parity) * 168e6
    };
    let (rs25, rs2, a6805) = (platform("rs25").ceilings, platform("rs2").ceilings, platform("a6805").ceilings);
    let of = |limit: Option<u64>| limit.map_or(0.0, |bytes_per_s| bytes_per_s as f64);
    near("reads of the RS25", ceiling("raid5_read.RS25", 1.0), of(rs25.read));
    near("reads of the RS2", ceiling("raid5_read.RS2", 1.0), of(rs2.read));
    near("parity of the RS2", ceiling("raid60x2_write.RS2", 4.0), of(rs2.parity_write));
    near("redundant levels of the 6805", ceiling("raid5_read.A6805", 1.0), of(a6805.redundant));
    near("the same", ceiling("raid50x2_write.A6805", 2.0), of(a6805.redundant));
}

/// The number of reads before one program, from blocks of 8 to 32 KiB: the best of four values predicts blocks of 4 KiB.
#[test]
fn reads_that_go_before_a_program_from_larger_blocks() {
    let DriveConfig::Ssd(config) = profile::drive("d3700").expect("there is such a drive").config else { panic!("an SSD") };
    let iops = |yields: u32, kib: u64| {
        let config = stria_plan::ssd::SsdConfig { program_yields: yields, ..config.clone() };
        let mut rig = Rig::new(PlatformConfig::default(), &[DriveConfig::Ssd(config)], Level::Single, 1 << 20, 1);
        rig.backplane().ssds().for_each(|ssd| ssd.jump_to_used(1));
        let load = Load { threads: 4, block_bytes: kib << 10, warm_up: 12_000, requests: 12_000, ..Load::random(&rig, 32, 0.95) };
        run(&mut rig, &load).iops
    };
    let error = |yields: u32| {
        let of = |kib: u64| iops(yields, kib) / published(&format!("nvme_matrix.iops.{kib}k[5]")) - 1.0;
        [8, 16, 32].into_iter().map(|kib| of(kib).abs()).sum::<f64>()
    };
    let best = (1..=4).min_by(|one, other| error(*one).total_cmp(&error(*other))).unwrap_or(0);
    near(&format!("4 KiB at 95 % reads with {best}"), iops(best, 4), published("nvme_matrix.iops.4k[5]"));
}
