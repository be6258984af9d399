//! The runs that the cases are made of.

use crate::array::Level;
use crate::backplane::DriveConfig;
use crate::load::{Load, Outcome, Pattern, run};
use crate::model::{Model, SECTOR_BYTES};
use crate::platform::PlatformConfig;
use crate::profile::{self, Profile, ProfileError};
use crate::rig::Rig;

/// 1: every experiment has this seed, so that the table is the same everywhere.
pub const SEED: u64 = 1;

/// Drives on a platform.
pub struct Bench {
    pub platform: Profile<PlatformConfig>,
    pub drive: Profile<DriveConfig>,
}

/// A load: threads, requests under way of each, block, share of reads.
#[derive(Clone, Copy)]
pub struct Ask {
    pub threads: u32,
    pub depth: u32,
    pub block_bytes: u64,
    pub read_share: f64,
    pub pattern: Pattern,
    pub requests: u64,
    /// Where the first block begins.
    pub offset_bytes: u64,
    /// Requests before measuring.
    pub warm_up: u64,
}

impl Ask {
    /// Random requests of 4 KiB.
    pub fn random(threads: u32, depth: u32, read_share: f64) -> Self {
        Self {
            threads,
            depth,
            block_bytes: 4096,
            read_share,
            pattern: Pattern::Random,
            requests: 20_000,
            warm_up: 7_000,
            offset_bytes: 0,
        }
    }

    /// Sequential requests of 128 KiB.
    pub fn sequential(threads: u32, depth: u32, read_share: f64) -> Self {
        Self {
            threads,
            depth,
            block_bytes: 128 << 10,
            read_share,
            pattern: Pattern::Sequential,
            requests: 6_000,
            warm_up: 2_000,
            offset_bytes: 0,
        }
    }
}

impl Bench {
    pub fn new(platform: &str, drive: &str) -> Result<Self, ProfileError> {
        Ok(Self { platform: profile::platform(platform)?, drive: profile::drive(drive)? })
    }

    /// An array of `members` drives, fresh.
    pub fn rig(&self, level: Level, members: usize, strip_kib: u64) -> Rig {
        let drives = vec![self.drive.config.clone(); members];
        Rig::new(self.platform.config.clone(), &drives, level, strip_kib << 10, SEED)
    }

    /// The same, each drive in the steady state of random overwrites.
    pub fn used_rig(&self, level: Level, members: usize, strip_kib: u64) -> Rig {
        let rig = self.rig(level, members, strip_kib);
        for (index, drive) in rig.backplane().ssds().enumerate() {
            drive.jump_to_used(SEED + index as u64);
        }
        rig
    }
}

/// Runs a load on an array, each thread with the platform's cost.
pub fn measure(rig: &mut Rig, ask: Ask) -> Outcome {
    let load = Load {
        threads: ask.threads,
        depth: ask.depth,
        block_bytes: ask.block_bytes,
        read_share: ask.read_share,
        pattern: ask.pattern,
        offset_bytes: ask.offset_bytes,
        span_bytes: rig.size_sectors() * SECTOR_BYTES,
        host_ns: rig.platform().thread_ns,
        host_read_ns: rig.thread_read_ns(),
        warm_up: ask.warm_up,
        requests: ask.requests,
        seed: SEED,
        ..Load::random(rig, 1, 1.0)
    };
    run(rig, &load)
}

/// MB/s.
pub fn mbs(outcome: &Outcome) -> f64 {
    outcome.bytes_per_s / 1e6
}
