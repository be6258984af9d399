//! Simulated requests a second of processor time, as other programs may run beside this one: `cargo run --release -p stria-plan
//! --example speed`. Words behind it name the loads, in part: `speed "RAID 50"`.

use stria_plan::array::Level;
use stria_plan::load::{Load, run};
use stria_plan::model::{Model, SECTOR_BYTES};
use stria_plan::profile;
use stria_plan::rig::Rig;
use stria_plan::ssd::{Ssd, SsdConfig};

/// Seconds that this thread has run.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells it");
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let profile = r#"
        capacity_bytes = 4_000_787_030_016
        spare_share = 0.1
        dies = 128
        channels = 12
        channel_bytes_per_s = 400_000_000
        program_bytes = 65_536
        read_ns = 60_000
        read_spread = 0.1
        program_ns = 1_200_000
        erase_ns = 4_500_000
        block_programs = 512
        suspend_ns = 20_000
        command_read_ns = 1_500
        command_write_ns = 2_000
        read_latency_ns = 10_000
        write_latency_ns = 10_000
        buffer_bytes = 33_554_432
        power_loss_protection = true
        slots = 4096
        link_bytes_per_s = 3_200_000_000
        link_half_duplex = false
        tracked_pages_max = 8_388_608
    "#;
    let config: SsdConfig = toml::from_str(profile).expect("the profile is complete");
    for (name, read_share, depth) in [("reads", 1.0, 32), ("writes", 0.0, 32), ("70 % reads", 0.7, 128)] {
        let name = format!("{name} at depth {depth}");
        if !is_wanted(&name) {
            continue;
        }
        let mut drive = Ssd::new(config.clone(), 1);
        drive.jump_to_used(1);
        let load = Load { warm_up: 100_000, requests: 3_000_000, ..Load::random(&drive, depth, read_share) };
        let start = cpu_s();
        let outcome = run(&mut drive, &load);
        let taken = cpu_s() - start;
        println!(
            "{name}: {:.2} million requests a second of processor time, {:.0} a second of virtual time, {} MiB of state",
            3.1 / taken,
            outcome.iops,
            drive.state_bytes() >> 20
        );
    }
    arrays(&is_wanted);
}

/// Arrays of the engine: requests of members count.
fn arrays(is_wanted: &impl Fn(&str) -> bool) {
    let (drive, platform) =
        (profile::drive("p4510").expect("a drive").config, profile::platform("stria").expect("a platform").config);
    let (mix, all) = ([0.7].as_slice(), [1.0, 0.7, 0.0].as_slice());
    let levels = [
        (Level::Raid0, 4, mix),
        (Level::Raid1, 2, mix),
        (Level::Raid10, 4, mix),
        (Level::Raid5 { spans: 1 }, 6, all),
        (Level::Raid6 { spans: 1 }, 6, all),
        (Level::Raid5 { spans: 2 }, 8, all),
        (Level::Raid6 { spans: 2 }, 8, all),
    ];
    let loads = levels.into_iter().flat_map(|(level, members, shares)| shares.iter().map(move |&share| (level, members, share)));
    for (level, members, read_share) in loads {
        let name = format!("{level} over {members} drives, {:.0} % reads", 100.0 * read_share);
        if !is_wanted(&name) {
            continue;
        }
        let mut rig = Rig::new(platform.clone(), &vec![drive.clone(); members], level, 64 << 10, 1);
        rig.backplane().ssds().for_each(|drive| drive.jump_to_used(1));
        let span_bytes = (rig.size_sectors() * SECTOR_BYTES).min(16 << 30);
        let load = Load { warm_up: 50_000, requests: 500_000, span_bytes, ..Load::random(&rig, 64, read_share) };
        let start = cpu_s();
        run(&mut rig, &load);
        let (taken, served) = (cpu_s() - start, rig.backplane().served());
        println!(
            "{name}: {:.2} million requests of members a second of processor time, {:.1} for each of clients",
            served as f64 / 1e6 / taken,
            served as f64 / 550_000.0
        );
    }
}
