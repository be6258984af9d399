//! A modelled drive or array as the laboratory measures it: brought to states, then loaded, in virtual time.
//!
//! A measurement simulates some thousands of requests from the middle of a load that runs for seconds or minutes. What the load
//! would write in the rest of its time changes the drives at once, as fills do: of writes outside of a measurement only the state
//! that they leave matters. Time begins at 0 and goes on from load to load, so that drives that are left alone collect and fold
//! as their profiles say.

use crate::array::Level;
use crate::backplane::DriveConfig;
use crate::load::{Load, Outcome, Pattern, run_from};
use crate::model::{Model, SECOND, SECTOR_BYTES};
use crate::platform::PlatformConfig;
use crate::profile::{self, CatalogueDrive, Profile, ProfileError};
use crate::rig::{Maker, Rig};
use stria_block::Nanos;

/// 64 MiB: a controller's cache, at most. In the long run its size does not matter, and a small one is full sooner.
pub const CACHE_BYTES_MAX: u64 = 64 << 20;

/// 20,000: requests of 16 KiB and less that are measured of a load; fewer of larger ones.
const REQUESTS: u64 = 20_000;
/// 2,500: requests that are measured at least, as in the reproduction of the controllers' publication.
const REQUESTS_MIN: u64 = 2_500;
/// 60,000: requests before measuring, at most.
const WARM_UP_MAX: u64 = 60_000;

/// The drives: as an array, or each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An array; a single drive is one of its own level.
    Array(Level),
    /// So many drives without an array, one after the other in the address space.
    Apart,
}

/// The model of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectSpec {
    /// The platform between load and drives.
    pub platform: Profile<PlatformConfig>,
    /// The drives.
    pub drive: Profile<CatalogueDrive>,
    /// The use of the drives.
    pub shape: Shape,
    /// The number of drives.
    pub members: usize,
    /// Strip of an array.
    pub strip_bytes: u64,
}

impl SubjectSpec {
    /// Drives of the catalogue on a platform of it.
    ///
    /// # Errors
    /// If one of them is not there.
    pub fn new(platform: &str, drive: &str, shape: Shape, members: usize, strip_bytes: u64) -> Result<Self, ProfileError> {
        let (platform, drive) = (profile::platform(platform)?, profile::catalogue_drive(drive)?);
        Ok(Self { platform, drive, shape, members, strip_bytes })
    }

    /// The reason why there is no such subject, if there is none.
    pub fn refusal(&self) -> Option<String> {
        let ports = self.platform.config.ports_refusal(self.members, &self.platform.name);
        let Shape::Array(level) = self.shape else {
            return ports.or_else(|| (self.members == 0).then(|| "an array needs at least one drive".to_owned()));
        };
        let platform = &self.platform;
        let lacking = || platform.config.level_refusal(level, self.members, &platform.name).filter(|_| level != Level::Single);
        if let Some(refusal) = ports.or_else(|| level.model_refusal(self.members)).or_else(lacking) {
            Some(refusal)
        } else if matches!(level, Level::Single | Level::Raid1) {
            None
        } else if !self.strip_bytes.is_power_of_two() || !(4 << 10..=1 << 20).contains(&self.strip_bytes) {
            Some(format!("invalid strip size of {} bytes: use a power of two from 4K to 1M", self.strip_bytes))
        } else {
            platform.config.strip_refusal(self.strip_bytes >> 10, &platform.name)
        }
    }

    fn rig(&self, seed: u64) -> Rig {
        let config = self.platform.config.clone();
        let platform = PlatformConfig { write_back_bytes: config.write_back_bytes.min(CACHE_BYTES_MAX), ..config };
        let drives = vec![self.drive.config.config.clone(); self.members];
        match self.shape {
            Shape::Array(level) => Rig::new(platform, &drives, level, self.strip_bytes, seed),
            Shape::Apart => {
                // The twin strides over whole drives, which is to have none of an array.
                let bytes = self.drive.config.config.capacity_bytes() >> 20 << 20;
                let made = Rig::made_by(Maker::Steps, platform, &drives, Level::Raid0, bytes, seed);
                made.expect("the twin makes every array")
            }
        }
    }
}

/// A modelled drive or array (see the module).
pub struct Subject {
    spec: SubjectSpec,
    rig: Rig,
    now: Nanos,
    /// A count that rises with everything that is done, so that no two have the same random numbers.
    seed: u64,
}

impl Subject {
    /// Drives fresh from the factory.
    ///
    /// # Errors
    /// In words, if there is no such thing.
    pub fn new(spec: SubjectSpec, seed: u64) -> Result<Self, String> {
        match spec.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(Self { rig: spec.rig(seed), spec, now: 0, seed }),
        }
    }

    /// The model.
    pub fn spec(&self) -> &SubjectSpec {
        &self.spec
    }

    /// Bytes that clients see.
    pub fn size_bytes(&self) -> u64 {
        self.rig.size_sectors() * SECTOR_BYTES
    }

    /// Virtual time since the start.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Makes everything as new.
    pub fn purge(&mut self) {
        self.seed += 1;
        (self.rig, self.now) = (self.spec.rig(self.seed), 0);
    }

    /// Trims everything. `false`: trims do not reach the drives, and nothing is done.
    pub fn trim(&mut self) -> bool {
        let level = match self.spec.shape {
            Shape::Array(level) => level,
            Shape::Apart => Level::Single,
        };
        let passes = self.rig.platform().trims(level);
        if passes {
            self.rig.backplane().ssds().for_each(crate::ssd::Ssd::trim_at_once);
        }
        passes
    }

    /// Lets the drives idle for so long.
    pub fn idle(&mut self, time_ns: Nanos) {
        self.now += time_ns;
    }

    /// Bytes that a drive takes in for a byte of clients, times the data drives: small writes in place have their parity beside
    /// them.
    fn written_factor(&self, block_bytes: u64) -> f64 {
        let Shape::Array(level) = self.spec.shape else { return 1.0 };
        let layout = self.rig.layout();
        let stripe_bytes = layout.columns() as u64 * layout.strip_sectors * SECTOR_BYTES;
        let data = level.data_members(self.spec.members) as f64;
        match level.parities() {
            0 => 1.0,
            parities if block_bytes < stripe_bytes => (1 + parities) as f64 * data / self.spec.members as f64,
            _ => 1.0,
        }
    }

    /// Writes so many times the first `span_bytes`, without taking time.
    pub fn fill(&mut self, times: f64, span_bytes: u64, block_bytes: u64, pattern: Pattern) {
        let share = (span_bytes as f64 / self.size_bytes() as f64).clamp(0.0, 1.0);
        let each = times * self.written_factor(block_bytes);
        self.seed += 1;
        for (index, drive) in self.rig.backplane().ssds().enumerate() {
            match pattern {
                Pattern::Random => drive.overwrite_at_once(each, share, self.seed * 1000 + index as u64),
                Pattern::Sequential => {
                    (0..times as u64).for_each(|_| drive.fill_at_once(share));
                    drive.fill_at_once(share * times.fract());
                }
            }
        }
    }

    /// The state that many random overwrites of everything lead to, see [`Ssd::jump_to_used`](crate::ssd::Ssd::jump_to_used).
    pub fn jump_to_used(&mut self) {
        self.seed += 1;
        for (index, drive) in self.rig.backplane().ssds().enumerate() {
            drive.jump_to_used(self.seed * 1000 + index as u64);
        }
    }

    /// A load, which runs for `seconds`: of `load` its requests, warm-up, host time and seed are set here.
    pub fn measure(&mut self, load: &Load, seconds: f64) -> Outcome {
        self.seed += 1;
        self.now = self.rig.write_back_all(self.now);
        let outstanding = u64::from(load.threads) * u64::from(load.depth);
        let requests = (REQUESTS * 16_384 / load.block_bytes.max(16_384)).max(REQUESTS_MIN).max(8 * outstanding);
        let buffers = match &self.spec.drive.config.config {
            DriveConfig::Ssd(config) => config.buffer_bytes * self.spec.members as u64,
            DriveConfig::Hdd(_) => 0,
        };
        let written = load.block_bytes as f64 * (1.0 - load.read_share);
        let buffers = (buffers + self.rig.platform().write_back_bytes) as f64;
        let fills = if written > 0.0 { (1.5 * buffers / written) as u64 } else { 0 };
        let load = Load {
            host_ns: self.rig.platform().thread_ns,
            host_read_ns: self.rig.thread_read_ns(),
            warm_up: fills.min(WARM_UP_MAX) + requests / 4 + outstanding,
            requests,
            seed: self.seed,
            ..load.clone()
        };
        // What a drive freed while it was idle lasts for the beginning of a load, so the middle is measured, once the rate is
        // known.
        let (mut outcome, mut end) = run_from(&mut self.rig, &load, self.now);
        for half in [1, 2] {
            self.now = end;
            let rest = (seconds - outcome.duration_ns as f64 / SECOND as f64) / 2.0;
            let written = outcome.bytes_per_s * (1.0 - load.read_share) * rest;
            if rest <= 0.0 || written <= 0.0 {
                break;
            }
            let span_bytes = load.span_bytes.min(self.size_bytes());
            self.fill(written / span_bytes as f64, span_bytes, load.block_bytes, load.pattern);
            if half == 1 {
                (outcome, end) = run_from(&mut self.rig, &load, self.now);
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(drive: &str, shape: Shape, members: usize) -> Subject {
        let spec = SubjectSpec::new("stria", drive, shape, members, 64 << 10).expect("they are in the catalogue");
        Subject::new(spec, 1).expect("there is such a thing")
    }

    fn writes(subject: &Subject) -> Load {
        Load::random(&subject.rig, 32, 0.0)
    }

    /// A drive that is overwritten at random, load by load, comes to the speed of one that was made used at once.
    #[test]
    fn loads_leave_the_state_that_their_whole_time_leaves() {
        let mut done = subject("ssd520", Shape::Array(Level::Single), 1);
        let load = writes(&done);
        let fresh = done.measure(&load, 0.0).iops;
        for _ in 0..16 {
            done.measure(&load, 600.0);
        }
        let used = done.measure(&load, 0.0).iops;
        let mut jumped = subject("ssd520", Shape::Array(Level::Single), 1);
        jumped.jump_to_used();
        let at_once = jumped.measure(&load, 0.0).iops;
        assert!(used < 0.7 * fresh && (used / at_once - 1.0).abs() < 0.12, "{fresh:.0}, {used:.0}, at once {at_once:.0}");
        assert!(done.trim());
        let trimmed = done.measure(&load, 0.0).iops;
        assert!((trimmed / fresh - 1.0).abs() < 0.1, "{trimmed:.0} of {fresh:.0}");
    }

    /// Without TRIM a mirrored array stays slow, whatever its drives freed in half an hour: the beginning of a load uses that up.
    #[test]
    fn a_trim_that_does_not_reach_the_drives_changes_nothing_for_long() {
        let after = |level: Level, members: usize| {
            let spec =
                SubjectSpec::new("z87", "ssd520", Shape::Array(level), members, 32 << 10).expect("they are in the catalogue");
            let mut array = Subject::new(spec, 1).expect("there is such a thing");
            let load = writes(&array);
            let fresh = array.measure(&load, 60.0).iops;
            array.jump_to_used();
            array.idle(1800 * SECOND);
            let passed = array.trim();
            (passed, array.measure(&load, 60.0).iops / fresh)
        };
        let (raid0, raid10) = (after(Level::Raid0, 2), after(Level::Raid10, 4));
        assert!(raid0.0 && raid0.1 > 0.9, "RAID 0 keeps {:.2}", raid0.1);
        assert!(!raid10.0 && raid10.1 < 0.5, "RAID 10 keeps {:.2}", raid10.1);
    }

    /// Drives by themselves, each with its own thread, do so many times the work of one, and have their space together.
    #[test]
    fn drives_apart_add_up() {
        let mut one = subject("s3500", Shape::Apart, 1);
        let mut four = subject("s3500", Shape::Apart, 4);
        for pattern in [Pattern::Random, Pattern::Sequential] {
            let of = |subject: &mut Subject, threads| {
                let load = Load { threads, apart: true, pattern, block_bytes: 64 << 10, ..Load::random(&subject.rig, 16, 1.0) };
                subject.measure(&load, 1.0).bytes_per_s
            };
            let (alone, together) = (of(&mut one, 1), of(&mut four, 4));
            assert!((together / alone / 4.0 - 1.0).abs() < 0.03, "{pattern:?}: {alone:.3e}, {together:.3e}");
        }
        assert_eq!(four.size_bytes(), 4 * one.size_bytes());
    }

    /// What random writes left in a controller's cache does not slow a stream that follows, and random writes of an array scale
    /// with its drives.
    #[test]
    fn a_controllers_cache_is_written_back_between_loads() {
        let disks = |shape: Shape, members: usize| {
            let spec = SubjectSpec::new("rs25", "savvio10k5", shape, members, 256 << 10).expect("they are in the catalogue");
            Subject::new(spec, 1).expect("there is such a thing")
        };
        let random = |subject: &mut Subject| {
            let load = Load { threads: 4, ..Load::random(&subject.rig, 64, 0.0) };
            subject.measure(&load, 0.0).iops
        };
        let stream = |subject: &mut Subject| {
            let load = Load::sequential(&subject.rig, 256, 256 << 10, 0.0);
            subject.measure(&load, 0.0).bytes_per_s
        };
        let (mut array, mut apart) = (disks(Shape::Array(Level::Raid0), 8), disks(Shape::Apart, 1));
        let before = stream(&mut array);
        let (of_array, alone) = (random(&mut array), random(&mut apart));
        let after = stream(&mut array);
        assert!((after / before - 1.0).abs() < 0.1, "{after:.3e} after random writes, {before:.3e} before");
        assert!(alone < 1_000.0, "{alone:.0} writes a second of one disk");
        assert!(of_array > 4.0 * alone && of_array < 8.5 * alone, "{of_array:.0} of eight disks, {alone:.0} of one");
    }

    /// Sizes come in their shares, and places in theirs: half of the requests to a tenth of the space.
    #[test]
    fn loads_may_mix_sizes_and_places() {
        let mut drive = subject("s3500", Shape::Array(Level::Single), 1);
        let sizes = vec![(4096, 75.0), (16_384, 25.0)];
        let load = Load { sizes, block_bytes: 7_168, zones: vec![(50.0, 0.1), (50.0, 0.9)], ..Load::random(&drive.rig, 8, 1.0) };
        let outcome = drive.measure(&load, 0.0);
        assert!((outcome.bytes_per_s / outcome.iops / 7_168.0 - 1.0).abs() < 0.03, "{}", outcome.bytes_per_s / outcome.iops);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refusal = |platform: &str, level: Level, members, strip: u64| {
            let spec = SubjectSpec::new(platform, "p4510", Shape::Array(level), members, strip).expect("in the catalogue");
            Subject::new(spec, 1).map(|_| ()).expect_err("it cannot be")
        };
        assert!(refusal("c226", Level::Raid10, 3, 65_536).contains("ask for an even number"));
        assert!(refusal("p4510-md", Level::Raid1, 3, 65_536).contains("more than two copies"));
        assert!(refusal("p4510-host", Level::Raid0, 2, 65_536).contains("cannot be modelled on"));
        assert!(refusal("stria", Level::Raid0, 2, 48 << 10).contains("invalid strip size"));
        assert!(refusal("a85x", Level::Raid0, 2, 4 << 10).contains("no strips below 64 KiB"));
        assert!(SubjectSpec::new("mars", "p4510", Shape::Apart, 1, 0).is_err_and(|error| error.to_string().contains("mars")));
    }
}
