//! Simulated requests a second of real time on one core: `cargo run --release -p stria-plan --example speed`.

use std::time::Instant;
use stria_plan::load::{Load, run};
use stria_plan::model::Model;
use stria_plan::ssd::{Ssd, SsdConfig};

fn main() {
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
        let mut drive = Ssd::new(config.clone(), 1);
        drive.jump_to_used(1);
        let load = Load { warm_up: 100_000, requests: 3_000_000, ..Load::random(&drive, depth, read_share) };
        let start = Instant::now();
        let outcome = run(&mut drive, &load);
        let wall = start.elapsed().as_secs_f64();
        println!(
            "{name} at depth {depth}: {:.2} million requests a second of real time, {:.0} a second of virtual time, {} MiB of state",
            3.1 / wall,
            outcome.iops,
            drive.state_bytes() >> 20
        );
    }
}
