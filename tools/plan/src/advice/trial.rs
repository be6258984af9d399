//! The speed of one array, optimal and degraded, by the engine on the modelled drives; its space and expected loss by formulas.

use super::purpose::{BLOCK_BYTES_MAX, Part};
use super::wear::Wear;
use super::wish::{Candidate, State, Wish};
use crate::array::Level;
use crate::array::engine::Condition;
use crate::backplane::DriveConfig;
use crate::calc::annual_failure_rate;
use crate::calibration::Calibration;
use crate::load::{self, Load, Outcome, Pattern};
use crate::model::{Model, SECTOR_BYTES};
use crate::platform::PlatformConfig;
use crate::reliability::simulated::{self, Expected, Repair};
use crate::reliability::{Frailty, groups, loss_per_year};
use crate::rig::Rig;
use crate::ssd::SsdConfig;
use crate::ssd::config::{ADVICE_TRACKED_PAGES_MAX, PAGE_BYTES};
use crate::subject::CACHE_BYTES_MAX;
use stria_array::LatencyTarget;
use stria_block::Nanos;

/// 1: every trial has this seed, so that advice is the same everywhere.
const SEED: u64 = 1;
/// 20,000: histories of failing drives. They take some milliseconds, and leave a standard error of some percent.
const HISTORIES: u32 = 20_000;
/// A drive without such a figure in its data sheet fails once in a million hours, the usual figure of an SSD for desktops.
const MTBF_HOURS: f64 = 1e6;
/// And one sector in 10^15 bits cannot be read, the usual figure of desktop drives.
const UNREADABLE_PER_BIT: f64 = 1e-15;
/// 16 MiB: the beginning of a rebuild, in which buffers fill and readers spread over the drives.
const REBUILD_WARM_UP_BYTES: u64 = 16 << 20;
/// 192 MiB: after this amount the speed of a rebuild of SSDs is known; the engine reports its progress in large steps.
const REBUILD_BYTES: u64 = 192 << 20;
/// 1 GiB: the same of disks. Their steps are of 80 MB: the engine reports what is filled without a gap, and a disk leaves a
/// request for half a second while others are nearer.
const REBUILD_OF_DISKS_BYTES: u64 = 1 << 30;
/// 16: the steps of a rebuild between two looks at its progress.
const LOOK_STEPS: u32 = 16;
/// 20 MiB/s: the rebuild's speed that the engine keeps whatever clients feel (`stria speed --min`).
const REBUILD_BYTES_PER_S_MIN: u64 = 20 << 20;
/// 16 GiB: what a rebuild of disks fills in a run at most. Beside it a request takes some 50 ms, and 15,000 of them as long as
/// the whole rebuild; a run of this length has 2,000 and more.
const REBUILD_BYTES_MAX: f64 = (16_u64 << 30) as f64;
/// 800: requests that are measured of a load, at least.
const REQUESTS_MIN: u64 = 800;
/// 1 KiB/s: a rebuild that waits.
const REBUILD_WAITS_BYTES_PER_S: u64 = 1 << 10;
/// 1.25: speeds of a rebuild beside clients that differ by less count as one; the engine's own steps are as large.
const SPEEDS_ALIKE: f64 = 1.25;
/// 64 MiB: what a rebuild must fill in a run so that its speed can be told; the engine has 32 windows of 128 KiB under way at
/// most.
const RESOLVED_BYTES: f64 = (64 << 20) as f64;
/// 16: a run that is to show a rebuild's speed has so many times the usual requests at most.
const LONGER_MAX: f64 = 16.0;
/// 30 s of virtual time at most for that.
const REBUILD_NS_MAX: Nanos = 30_000_000_000;
/// 32: requests that are measured for each that is in flight, at least. With 12 the standard error was 9 % at 1,024 in flight
/// (8 KiB, 70 % reads, RAID 6 of four P4510), and twice the load seemed slower; with 32 it is 2 %.
const ROUNDS_MIN: u64 = 32;
/// 60,000: the most requests before measuring.
const WARM_UP_MAX: u64 = 60_000;

/// 16 GiB: where clients write on SSDs, if the array has a write-intent bitmap. In a trial of a fraction of a second its bits are
/// set once and stay, as they do in the long run where clients write again and again; over the whole array each write would set
/// another.
const REGION_BYTES: u64 = 16 << 30;
/// 2,000: writes that reach nearly every chunk of the region, with chunks of 64 MiB.
const REGION_WRITES: f64 = 2_000.0;

/// The result of an array under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct PartFigures {
    /// The load.
    pub name: String,
    /// Requests a second.
    pub iops: f64,
    /// The standard error of that, relative to it.
    pub iops_spread: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean latency.
    pub mean_ns: f64,
    /// The latency that 99 of 100 reads keep; `None` if nothing is read.
    pub read_p99_ns: Option<Nanos>,
    /// The same for writes.
    pub write_p99_ns: Option<Nanos>,
    /// Bytes that SSDs took in for each byte that was written to the array; `None` for disks, and if nothing is written.
    pub written_share: Option<f64>,
    /// The same of the SSD that took in the most.
    pub worn_share: Option<f64>,
    /// The factor by which the figures were corrected, if this machine's measurements yield one.
    pub calibration: Option<f64>,
}

/// A rebuild while clients work as fast as they can. From the model.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyRebuild {
    /// The time to fill a spare.
    pub hours: f64,
    /// The speed of the purpose meanwhile, relative to one drive.
    pub speed: f64,
    /// Results by load meanwhile.
    pub parts: Vec<PartFigures>,
}

impl BusyRebuild {
    /// The longest 99th percentile of all loads, reads and writes.
    pub fn p99_ns(&self) -> Option<Nanos> {
        self.parts.iter().flat_map(|part| [part.read_p99_ns, part.write_p99_ns]).flatten().max()
    }
}

/// What a year may cost. Drives fail independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risk {
    /// The loss of data, with latent errors and scrubs. By simulation.
    pub loss: Expected,
    /// The probability of data loss by a formula, which knows no scrubs.
    pub loss_by_law: f64,
    /// The number of drives that fail. By a formula.
    pub failures: f64,
}

/// The result of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The array.
    pub candidate: Candidate,
    /// Space for data.
    pub usable_bytes: u64,
    /// The number of failures that it survives, whichever drives fail.
    pub survives: usize,
    /// Results by load. From the model.
    pub parts: Vec<PartFigures>,
    /// The speed of the purpose relative to one drive. From the model.
    pub speed: f64,
    /// The same with a drive missing; `None` without redundancy, or if the platform's own array is not the engine. From the
    /// model.
    pub degraded_speed: Option<f64>,
    /// The time to fill a spare while clients are idle. From the model; `None` as above.
    pub rebuild_hours: Option<f64>,
    /// The same beside the loads of the purpose; `None` as above.
    pub busy_rebuild: Option<BusyRebuild>,
    /// The time from a failure until the array is optimal again, with a rebuild beside the loads.
    pub repair_hours: f64,
    /// The reliability of a drive.
    pub frailty: Frailty,
    /// The standard error of the speed, relative to it: what another run would change.
    pub speed_spread: f64,
    /// What a year may cost; `None` if the array is followed for less than a year: with a failed drive.
    pub risk: Option<Risk>,
    /// The wear of each drive; `None` if nothing is written or no endurance is known.
    pub wear: Option<Wear>,
    /// The cost of the drives, spares included.
    pub price: Option<f64>,
}

/// The drive, with a buffer of one program for each die: in the long run the size of the buffer does not matter, and a small one
/// is full sooner. Fewer of its pages are tracked for the same reason. Clients read what they wrote, so every read takes the
/// flash, whatever the state of the drive.
fn drive(wish: &Wish) -> DriveConfig {
    match wish.drive.config.config.clone() {
        DriveConfig::Ssd(config) => {
            let least = u64::from(config.dies) * config.program_bytes;
            let tracked_pages_max = config.tracked_pages_max.min(ADVICE_TRACKED_PAGES_MAX);
            let buffer_bytes = config.buffer_bytes.min(least);
            DriveConfig::Ssd(SsdConfig { buffer_bytes, tracked_pages_max, unwritten_read_ns: None, ..config })
        }
        disk @ DriveConfig::Hdd(_) => disk,
    }
}

/// The platform, with a small cache for the same reason.
fn platform(wish: &Wish) -> PlatformConfig {
    let config = wish.platform.config.clone();
    PlatformConfig { write_back_bytes: config.write_back_bytes.min(CACHE_BYTES_MAX), ..config }
}

fn prepared(wish: &Wish, rig: Rig) -> Rig {
    let freed = wish.state == State::Deleted && rig.platform().trims(rig.layout().level);
    if wish.state != State::Fresh && !freed {
        // A spare that is filled is new.
        for (index, drive) in rig.backplane().ssds().enumerate().take(rig.layout().members) {
            drive.jump_to_used(SEED + index as u64);
        }
    }
    rig
}

/// What drives have taken in at a moment of a run.
#[derive(Default)]
struct Taken {
    /// Bytes of each SSD.
    by_drive: Vec<u64>,
    /// Bytes that clients wrote to the array, without those that are still in a cache.
    written: u64,
}

impl Taken {
    fn of(rig: &Rig, written_bytes: u64) -> Self {
        let by_drive = rig.backplane().ssds().map(|drive| drive.counts().host * PAGE_BYTES).collect();
        Self { by_drive, written: written_bytes.saturating_sub(rig.cached_bytes()) }
    }
}

/// The requests of a load that are measured, of which a user asked for so many of 16 KiB and less: fewer larger ones.
fn requests(asked: u64, part: &Part) -> u64 {
    (asked * 16_384 / part.block_bytes.max(16_384)).max(REQUESTS_MIN).max(u64::from(part.depth) * ROUNDS_MIN)
}

/// The result of a load, when a rebuild beside it began and the load ended, and what drives had taken in when its measurement began and ended. A rebuild is
/// held to `rebuild_bytes_per_s`.
fn measured(wish: &Wish, rig: &mut Rig, part: &Part, rebuild_bytes_per_s: Option<u64>) -> (Outcome, [Nanos; 2], [Taken; 2]) {
    let buffers = match &wish.drive.config.config {
        DriveConfig::Ssd(config) => u64::from(config.dies) * config.program_bytes * rig.layout().members as u64,
        DriveConfig::Hdd(_) => 0,
    };
    let buffers = buffers + rig.platform().write_back_bytes;
    let written = part.block_bytes as f64 * (1.0 - part.read_share);
    let fills = if written > 0.0 { (1.5 * buffers as f64 / written) as u64 } else { 0 };
    let (size_bytes, bitmap) = (rig.size_sectors() * SECTOR_BYTES, rig.platform().metadata);
    let rotational = wish.drive.config.config.is_rotational();
    // Heads stay within the footprint of a load; of an SSD all addresses are alike.
    let footprint_bytes = part.footprint_bytes.filter(|_| rotational).unwrap_or(u64::MAX).max(BLOCK_BYTES_MAX);
    let region_bytes = if bitmap && !rotational { REGION_BYTES } else { footprint_bytes };
    let settled = if bitmap && written > 0.0 { (REGION_WRITES / (1.0 - part.read_share)) as u64 } else { 0 };
    // A rebuild of disks would end during so many requests. It waits until the bits are set.
    let rebuild_waits = rebuild_bytes_per_s.is_some() && rotational && settled > 0;
    let warm_up = fills.saturating_add(if rebuild_waits { 0 } else { settled }).min(WARM_UP_MAX);
    let requests = requests(wish.requests, part);
    let load = Load {
        threads: part.threads,
        depth: part.depth / part.threads,
        block_bytes: part.block_bytes,
        read_share: part.read_share,
        pattern: part.pattern,
        offset_bytes: part.offset_bytes,
        span_bytes: size_bytes.min(region_bytes),
        host_ns: rig.platform().thread_ns,
        host_read_ns: rig.thread_read_ns(),
        warm_up: warm_up + requests / 4 + u64::from(part.depth),
        requests,
        seed: SEED,
        streams: part.streams.clone(),
        ..Load::random(rig, 1, 1.0)
    };
    // Where nearly all requests read, too few of the warm-up would write.
    let speed = if rebuild_waits { Some(REBUILD_WAITS_BYTES_PER_S) } else { rebuild_bytes_per_s };
    speed.into_iter().for_each(|speed| rig.set_rebuild_speed(speed));
    let start = if settled > warm_up {
        let writes = Load { read_share: 0.0, pattern: Pattern::Random, streams: Vec::new(), ..load.clone() };
        load::run_from(rig, &Load { warm_up: 0, requests: REGION_WRITES as u64, ..writes }, 0).1
    } else {
        0
    };
    if rebuild_waits {
        rebuild_bytes_per_s.into_iter().for_each(|speed| rig.set_rebuild_speed(speed));
    }
    let began = if rebuild_waits { start } else { 0 };
    let mut taken = Vec::new();
    let (outcome, end) = load::run_watched(rig, &load, start, &mut |rig, written| taken.push(Taken::of(rig, written)));
    let taken = <[Taken; 2]>::try_from(taken).unwrap_or_else(|_| unreachable!("a run is watched twice"));
    (outcome, [began, end], taken)
}

/// A load on an array, its outcome, and when a rebuild beside it began and the load ended. The rebuild is held to
/// `rebuild_bytes_per_s`.
fn tried(wish: &Wish, rig: &mut Rig, part: &Part, rebuild_bytes_per_s: Option<u64>) -> (PartFigures, Outcome, [Nanos; 2]) {
    // What came before is not this load's wear: the state of the drives may have been reached by overwriting them, and the
    // warm-up sets the bits of the bitmap.
    let (outcome, times, [before, after]) = measured(wish, rig, part, rebuild_bytes_per_s);
    let own: Vec<u64> = after.by_drive.iter().zip(&before.by_drive).map(|(after, before)| after - before).collect();
    let taken: u64 = own.iter().sum();
    let written = after.written.saturating_sub(before.written);
    let written_share = taken as f64 / written as f64;
    let level = rig.layout().level;
    // Other levels spread their writes evenly in the long run, of which a trial is a short part.
    let most = own.iter().copied().max().filter(|_| level == Level::Raid4);
    let worn_share = most.map_or(written_share / rig.layout().members as f64, |most| most as f64 / written as f64);
    let time = |latencies: &load::Latencies| latencies.mean_ns() * latencies.count() as f64;
    let (reading, writing) = (time(&outcome.reads), time(&outcome.writes));
    let read_time_share = if reading > 0.0 { reading / (reading + writing) } else { 0.0 };
    let measured =
        |known: &Calibration| known.of_mix(part.read_share, read_time_share, part.pattern, part.depth, level.redundancy());
    let calibration = wish.calibration.as_ref().and_then(measured);
    let factor = calibration.unwrap_or(1.0);
    let p99 =
        |latencies: &load::Latencies| (latencies.count() > 0).then(|| (latencies.quantile_ns(0.99) as f64 / factor) as Nanos);
    let figures = PartFigures {
        name: part.name.clone(),
        iops: outcome.iops * factor,
        iops_spread: outcome.iops_spread,
        bytes_per_s: outcome.bytes_per_s * factor,
        mean_ns: outcome.mean_ns() / factor,
        read_p99_ns: p99(&outcome.reads),
        write_p99_ns: p99(&outcome.writes),
        written_share: (taken > 0 && written > 0).then_some(written_share),
        worn_share: (taken > 0 && written > 0).then_some(worn_share),
        calibration,
    };
    (figures, outcome, times)
}

fn figures(wish: &Wish, make: impl Fn() -> Rig) -> Vec<PartFigures> {
    wish.purpose.parts.iter().map(|part| tried(wish, &mut prepared(wish, make()), part, None).0).collect()
}

/// The purpose's time on one drive over that on the array.
pub fn speed(wish: &Wish, array: &[PartFigures], single: &[PartFigures]) -> f64 {
    let times = wish.purpose.parts.iter().zip(array.iter().zip(single));
    1.0 / times.map(|(part, (array, single))| part.time_share * single.iops / array.iops).sum::<f64>()
}

/// The standard error of the speed, relative to it; the errors of different loads are independent.
pub fn speed_spread(wish: &Wish, array: &[PartFigures], single: &[PartFigures]) -> f64 {
    let speed = speed(wish, array, single);
    let of = |((part, array), single): ((&Part, &PartFigures), &PartFigures)| {
        let time = part.time_share * single.iops / array.iops * speed;
        (time * array.iops_spread.hypot(single.iops_spread)).powi(2)
    };
    wish.purpose.parts.iter().zip(array).zip(single).map(of).sum::<f64>().sqrt()
}

/// The result of one drive.
pub fn single(wish: &Wish) -> Vec<PartFigures> {
    figures(wish, || Rig::new(platform(wish), &[drive(wish)], Level::Single, 64 << 10, SEED))
}

fn made(wish: &Wish, candidate: &Candidate) -> Rig {
    let drives = vec![drive(wish); candidate.members];
    Rig::new(platform(wish), &drives, candidate.level, candidate.strip_kib << 10, SEED)
}

/// An array that is not optimal.
fn lacking(wish: &Wish, candidate: &Candidate, condition: Condition, drive: DriveConfig) -> Rig {
    let drives = candidate.members + usize::from(condition == Condition::Rebuilding);
    let drives = vec![drive; drives];
    let rig = Rig::in_condition(condition, platform(wish), &drives, candidate.level, candidate.strip_kib << 10, SEED);
    rig.expect("the optimal array was made")
}

/// The result of a redundant array of the engine without one drive.
pub fn degraded(wish: &Wish, candidate: &Candidate) -> Vec<PartFigures> {
    figures(wish, || lacking(wish, candidate, Condition::Degraded, drive(wish)))
}

/// Space for data, and the number of failures that are survived, whichever drives fail. By formulas.
pub fn space(wish: &Wish, candidate: &Candidate) -> (u64, usize) {
    (made(wish, candidate).size_sectors() * SECTOR_BYTES, groups(candidate.level, candidate.members).survives)
}

/// Tries an array. Its result without a drive is computed by [`completed`].
pub fn run(wish: &Wish, candidate: &Candidate, single: &[PartFigures]) -> Trial {
    let (usable_bytes, survives) = space(wish, candidate);
    let parts = figures(wish, || made(wish, candidate));
    Trial {
        candidate: *candidate,
        usable_bytes,
        survives,
        speed: speed(wish, &parts, single),
        degraded_speed: None,
        rebuild_hours: None,
        busy_rebuild: None,
        repair_hours: 0.0,
        frailty: frailty(wish),
        speed_spread: speed_spread(wish, &parts, single),
        risk: None,
        wear: None,
        price: wish.cost(candidate.drives()),
        parts,
    }
}

fn frailty(wish: &Wish) -> Frailty {
    let facts = wish.drive.config.facts;
    Frailty {
        mtbf_hours: facts.mtbf_hours.unwrap_or(MTBF_HOURS),
        unreadable_per_bit: facts.unreadable_per_bit.unwrap_or(UNREADABLE_PER_BIT),
        capacity_tb: wish.drive.config.config.capacity_bytes() as f64 / 1e12,
    }
}

/// Adds the result without a drive, expected loss and wear.
pub fn completed(wish: &Wish, mut trial: Trial, single: &[PartFigures]) -> Trial {
    let Candidate { level, members, spares, .. } = trial.candidate;
    let facts = wish.drive.config.facts;
    let capacity_tb = trial.frailty.capacity_tb;
    if trial.survives > 0 && wish.platform.config.is_served_by_engine(level) {
        trial.degraded_speed = Some(speed(wish, &degraded(wish, &trial.candidate), single));
        let hours = |rate: f64| capacity_tb * 1e12 / rate / 3600.0;
        trial.rebuild_hours = idle_rebuild_bytes_per_s(wish, &trial.candidate).map(hours);
        trial.busy_rebuild = trial.rebuild_hours.map(|idle| busy_rebuild(wish, &trial.candidate, single, idle));
    }
    // If no rebuild is modelled, it takes as long as a drive at 100 MB/s: only the order of magnitude matters here.
    let unknown = capacity_tb * 1e12 / 100e6 / 3600.0;
    let rebuild_hours = trial.busy_rebuild.as_ref().map_or(unknown, |busy| busy.hours);
    let repair_hours = rebuild_hours + if spares > 0 { 0.0 } else { wish.replace_hours };
    let frailty = trial.frailty;
    trial.repair_hours = repair_hours;
    let array = simulated::Array {
        level,
        members,
        usable_bytes: trial.usable_bytes as f64,
        drive: frailty,
        repair: Repair::Fixed { hours: repair_hours },
        scrub_hours: wish.scrub_hours,
    };
    trial.risk = Some(Risk {
        loss: simulated::expected(&array, HISTORIES, SEED),
        loss_by_law: loss_per_year(level, members, frailty, repair_hours),
        failures: members as f64 * annual_failure_rate(frailty.mtbf_hours),
    });
    let share = |of: fn(&PartFigures) -> Option<f64>| share_of(&wish.purpose.parts, &trial.parts, single, of);
    trial.wear = share(|part| part.written_share)
        .zip(share(|part| part.worn_share))
        .zip(facts.tbw_tb)
        .map(|((written, worn), tbw_tb)| Wear::of(written, worn, tbw_tb, capacity_tb, wish.written_tb_per_day));
    trial
}

/// Bytes that drives, or one of them, take in for each byte of clients, over all loads. The purpose says how much of a single
/// drive's time each load takes, so what a load writes is what it writes on a single drive; the array writes as much, sooner or
/// later.
fn share_of(
    parts: &[Part],
    array: &[PartFigures],
    single: &[PartFigures],
    of: impl Fn(&PartFigures) -> Option<f64>,
) -> Option<f64> {
    let (mut taken, mut written) = (0.0, 0.0);
    for (part, (array, single)) in parts.iter().zip(array.iter().zip(single)) {
        let Some(share) = of(array) else { continue };
        let bytes = part.time_share * single.bytes_per_s * part.written_bytes_share();
        taken += bytes * share;
        written += bytes;
    }
    (written > 0.0 && taken > 0.0).then(|| taken / written)
}

/// The speed at which the engine fills a spare while clients are idle. On a disk it falls from the first sector to the last: the
/// mean time of a byte by Simpson's rule over three places, which is exact to 0.1 % for an inner zone of half the speed.
fn idle_rebuild_bytes_per_s(wish: &Wish, candidate: &Candidate) -> Option<f64> {
    let at = |drive, bytes| rebuild_bytes_per_s(&mut lacking(wish, candidate, Condition::Rebuilding, drive), bytes);
    match drive(wish) {
        DriveConfig::Hdd(config) => {
            let time = |place| Some(1.0 / at(DriveConfig::Hdd(config.at_place(place)), REBUILD_OF_DISKS_BYTES)?);
            Some(6.0 / (time(0.0)? + 4.0 * time(0.5)? + time(1.0)?))
        }
        ssd @ DriveConfig::Ssd(_) => at(ssd, REBUILD_BYTES),
    }
}

/// A rebuild beside the loads of the purpose, each for the time that it takes on the array meanwhile. `idle_hours`: the time
/// without them.
fn busy_rebuild(wish: &Wish, candidate: &Candidate, single: &[PartFigures], idle_hours: f64) -> BusyRebuild {
    let found: Vec<(PartFigures, f64)> = wish.purpose.parts.iter().map(|part| beside(wish, candidate, part)).collect();
    let (mut time, mut filled) = (0.0, 0.0);
    for (part, (single, (array, rate))) in wish.purpose.parts.iter().zip(single.iter().zip(&found)) {
        let own = part.time_share * single.iops / array.iops;
        time += own;
        filled += own * rate;
    }
    let bytes = wish.drive.config.config.capacity_bytes() as f64;
    let parts: Vec<PartFigures> = found.into_iter().map(|(figures, _)| figures).collect();
    BusyRebuild { hours: (bytes * time / filled / 3600.0).max(idle_hours), speed: speed(wish, &parts, single), parts }
}

/// A load beside a rebuild, and the rebuild's bytes a second. The engine looks for the speed at which 99 of 100 requests keep the
/// latency target, from a lower bound on, in steps of 100 ms. Here a rebuild is held to a speed for each run instead, and the
/// speed is found by halving.
fn beside(wish: &Wish, candidate: &Candidate, part: &Part) -> (PartFigures, f64) {
    let target = LatencyTarget::usual(wish.drive.config.config.is_rotational());
    let rotational = wish.drive.config.config.is_rotational();
    let run = |held: u64, requests: u64| {
        let mut rig = prepared(wish, lacking(wish, candidate, Condition::Rebuilding, drive(wish)));
        let (figures, outcome, [start, end]) = tried(&Wish { requests, ..wish.clone() }, &mut rig, part, Some(held));
        // A rebuild that has ended has filled the member, in less time than the run.
        let sectors = rig.rebuilt_sectors().unwrap_or(rig.layout().member_sectors);
        let filled = (sectors * SECTOR_BYTES) as f64;
        // The machine's latencies are those of the model over the factor.
        let factor = figures.calibration.unwrap_or(1.0);
        let late = |latencies: &load::Latencies| {
            let is_kept = |&latency: &Nanos| latency as f64 <= target.bound as f64 * factor;
            latencies.count() - latencies.sorted_ns().partition_point(is_kept)
        };
        let requests = (outcome.reads.count() + outcome.writes.count()) as f64;
        let share = (late(&outcome.reads) + late(&outcome.writes)) as f64 / requests;
        let keeps = share <= 1.0 - f64::from(target.percentile) / f64::from(LatencyTarget::ALL);
        // In a short run a slow rebuild fills few windows, which say little of its speed; on disks, which may be too slow for it,
        // runs are long.
        let (seconds, held) = ((end - start).max(1) as f64 / 1e9, held as f64);
        let rate = if held * seconds < RESOLVED_BYTES { held } else { filled / seconds };
        Beside { figures, rate, filled, keeps }
    };
    let at = |held: u64, requests: u64| {
        if !rotational {
            return run(held, requests);
        }
        // A short run tells how many requests fit beside a part of the rebuild.
        let few = REQUESTS_MIN * part.block_bytes.max(16_384) / 16_384;
        let short = run(held, few);
        let fitting = (few as f64 * REBUILD_BYTES_MAX / short.filled.max(1.0)) as u64;
        if fitting < 2 * few || requests <= few { short } else { run(held, requests.min(fitting)) }
    };
    let slowest = at(REBUILD_BYTES_PER_S_MIN, wish.requests);
    if !slowest.keeps {
        return (slowest.figures, slowest.rate);
    }
    let mut fastest = at(u64::MAX, wish.requests);
    let longer = (REBUILD_BYTES as f64 / fastest.filled.max(1.0)).clamp(1.0, LONGER_MAX);
    if longer > 1.0 {
        fastest = at(u64::MAX, (wish.requests as f64 * longer) as u64);
    }
    if fastest.keeps {
        return (fastest.figures, fastest.rate);
    }
    let (mut low, mut high, mut best) = (REBUILD_BYTES_PER_S_MIN as f64, fastest.rate, None);
    while high > SPEEDS_ALIKE * low {
        let middle = (low * high).sqrt();
        let found = at(middle as u64, wish.requests);
        if found.keeps {
            (low, best) = (middle, Some(found));
        } else {
            high = middle;
        }
    }
    let best = best.unwrap_or(slowest);
    (best.figures, best.rate)
}

/// A load beside a rebuild that was held to a speed.
struct Beside {
    figures: PartFigures,
    rate: f64,
    filled: f64,
    /// True if clients had their latency.
    keeps: bool,
}

/// The speed at which the engine fills the first `enough_bytes` of a spare while clients are idle.
fn rebuild_bytes_per_s(rig: &mut Rig, enough_bytes: u64) -> Option<f64> {
    let (mut now, mut ended, mut marks) = (0, Vec::new(), vec![(0, 0)]);
    while now < REBUILD_NS_MAX && marks.last().is_some_and(|(_, bytes)| *bytes < enough_bytes) {
        // The engine's status costs as much as many of its steps.
        for _ in 0..LOOK_STEPS {
            now = rig.next_wake()?.max(now);
            rig.poll(now, &mut ended);
        }
        marks.push((now, rig.rebuilt_sectors().unwrap_or(0) * SECTOR_BYTES));
    }
    let &(end, bytes) = marks.last()?;
    let warm = marks.iter().copied().find(|(_, bytes)| *bytes >= REBUILD_WARM_UP_BYTES).filter(|(_, before)| *before < bytes);
    let (from, before) = warm.unwrap_or((0, 0));
    (bytes > before && end > from).then(|| (bytes - before) as f64 * 1e9 / (end - from) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Purpose;
    use crate::calibration::{Kind, Pair, Redundancy};
    use crate::load::Pattern;
    use crate::profile;

    fn known(bytes_per_s: f64, written_share: f64) -> PartFigures {
        PartFigures {
            name: String::new(),
            iops: bytes_per_s / 4096.0,
            iops_spread: 0.0,
            bytes_per_s,
            mean_ns: 0.0,
            read_p99_ns: None,
            write_p99_ns: None,
            written_share: Some(written_share),
            worn_share: Some(written_share),
            calibration: None,
        }
    }

    /// A purpose is an amount of work. Wear was weighted by the array's rates, so that a load that the array speeds up counted
    /// more often than it comes.
    #[test]
    fn wear_does_not_depend_on_how_fast_the_array_is() {
        let part =
            |reads| Part { time_share: 0.5, ..Purpose::mix(4096, reads, 1, Pattern::Random).expect("a load").parts.remove(0) };
        let single = [known(100.0, 1.0), known(300.0, 1.0)];
        for fast in [100.0, 1_000.0] {
            let array = [known(fast, 2.0), known(300.0, 4.0)];
            let found = share_of(&[part(0.0), part(0.0)], &array, &single, |part| part.written_share).expect("they write");
            assert!((found - (2.0 * 100.0 + 4.0 * 300.0) / 400.0).abs() < 1e-12, "{found} at {fast}");
            // Half of the second load's requests read.
            let found = share_of(&[part(0.0), part(0.5)], &array, &single, |part| part.written_share).expect("they write");
            assert!((found - (2.0 * 100.0 + 4.0 * 150.0) / 250.0).abs() < 1e-12, "{found} at {fast}");
        }
    }

    fn asked(drive: &str, level: Level, purpose: Purpose) -> (Wish, Candidate) {
        let wish = Wish {
            drive: profile::catalogue_drive(drive).expect("there is such a drive"),
            counts: 4..=4,
            spares: 0,
            platform: profile::platform("stria").expect("there is such a platform"),
            purpose,
            capacity_bytes_min: 0,
            losses_min: 1,
            strips_kib: vec![64],
            state: State::Used,
            replace_hours: 24.0,
            scrub_hours: 720.0,
            written_tb_per_day: None,
            price: None,
            budget: None,
            requests: 12_000,
            calibration: None,
        };
        (wish, Candidate { level, members: 4, spares: 0, strip_kib: 64 })
    }

    /// A machine that takes twenty times as long has no latency to spare for a rebuild; the target was judged on the model's own
    /// latencies.
    #[test]
    fn a_rebuild_leaves_clients_the_latency_that_the_machine_has() {
        let (mut wish, candidate) =
            asked("p4510", Level::Raid5 { spans: 1 }, Purpose::mix(4096, 1.0, 1, Pattern::Random).expect("a load"));
        let rate = |wish: &Wish| beside(wish, &candidate, &wish.purpose.parts[0]).1;
        let fast = rate(&wish);
        let kind = Kind::of(1.0, Pattern::Random, 1, Redundancy::Parity);
        let pairs = [Pair { kind, measured: 5.0, modelled: 100.0 }];
        wish.calibration = Some(Calibration::of("p4510", "stria", "a slow machine", &pairs));
        let slow = rate(&wish);
        assert!(fast > 10.0 * slow && slow <= 1.05 * REBUILD_BYTES_PER_S_MIN as f64, "{fast:.3e} and {slow:.3e}");
    }

    /// With 99 % reads RAID 10 was said to write 4.8 bytes for each byte of clients: the few writes of the warm-up set the bits
    /// of the bitmap, and WEAR counted them. In the long run it writes two.
    #[test]
    fn wear_is_that_of_the_long_run_however_few_requests_write() {
        for (reads, depth) in [(0.5, 32), (0.9, 32), (0.97, 32), (0.99, 32), (0.99, 256)] {
            let purpose = Purpose::mix(4096, reads, depth, Pattern::Random).expect("a load");
            let (wish, candidate) = asked("s3500", Level::Raid10, purpose);
            let [found] = &figures(&wish, || made(&wish, &candidate))[..] else { panic!("one load") };
            let share = found.written_share.expect("it writes");
            assert!((1.95..2.1).contains(&share), "{share:.3} bytes for each byte with {reads} reads at {depth}");
        }
    }

    /// RAID 10 was said to fill a disk at 97 MB/s and RAID 5 at 146, of two or three steps of progress: 23 % below what the disk
    /// writes, and 17 % above.
    #[test]
    fn a_rebuild_of_disks_is_nearly_as_fast_as_a_disk_writes() {
        let DriveConfig::Hdd(disk) = profile::drive("savvio10k5").expect("there is such a drive").config else {
            panic!("a disk")
        };
        let time = |place: f64| 1.0 / disk.at_place(place).outer_bytes_per_s as f64;
        let writes = 6.0 / (time(0.0) + 4.0 * time(0.5) + time(1.0));
        for level in [Level::Raid10, Level::Raid5 { spans: 1 }] {
            let purpose = Purpose::mix(4096, 0.7, 1, Pattern::Random).expect("a load");
            let (wish, candidate) = asked("savvio10k5", level, purpose);
            let share = idle_rebuild_bytes_per_s(&wish, &candidate).expect("it is filled") / writes;
            assert!((0.9..1.03).contains(&share), "{level}: {share:.3} of the disk's speed");
        }
    }

    /// Beside the load of a disk the rebuild ended during the run, which then told of no rebuild: it took for ever, and an array of
    /// four disks lost its data in every fortieth year. All the while parity was computed of what nobody keeps.
    #[test]
    fn a_rebuild_of_disks_beside_clients_does_not_end_within_its_run() {
        let purpose = Purpose::mix(4096, 0.95, 1, Pattern::Sequential).expect("a load");
        let (wish, candidate) = asked("savvio10k5", Level::Raid5 { spans: 1 }, purpose);
        let (figures, rate) = beside(&wish, &candidate, &wish.purpose.parts[0]);
        assert!((REBUILD_BYTES_PER_S_MIN as f64 * 0.9..2e8).contains(&rate), "{rate:.3e} bytes a second");
        assert!(figures.iops > 0.0);
    }

    /// A deep queue was measured for a dozen rounds: a standard error of 9 %, three times what counts as equally fast.
    #[test]
    fn a_deep_queue_is_measured_for_long_enough() {
        let purpose = Purpose::mix(8192, 0.7, 1024, Pattern::Random).expect("a load");
        let (wish, candidate) = asked("p4510", Level::Raid6 { spans: 1 }, purpose);
        let [found] = &figures(&wish, || made(&wish, &candidate))[..] else { panic!("one load") };
        assert!(found.iops_spread < 0.04, "{found:?}");
    }

    /// Goal: the speed of a rebuild beside clients is the engine's. Method: the engine looks for it by itself for some virtual
    /// seconds, of which the last quarter is measured.
    #[test]
    fn a_rebuild_beside_clients_has_the_speed_that_the_engine_settles_on() {
        for (reads, depth, seconds) in [(1.0, 1, 6.0), (0.9, 16, 3.0), (0.7, 64, 0.3)] {
            let purpose = Purpose::mix(4096, reads, depth, Pattern::Random).expect("a load");
            let (wish, candidate) = asked("p4510", Level::Raid5 { spans: 1 }, purpose);
            let part = &wish.purpose.parts[0];
            let (figures, found) = beside(&wish, &candidate, part);
            let mut rig = prepared(&wish, lacking(&wish, &candidate, Condition::Rebuilding, drive(&wish)));
            let mut load = Load { span_bytes: REGION_BYTES, ..Load::random(&rig, depth, reads) };
            (load.warm_up, load.requests) = (0, (seconds * figures.iops) as u64);
            let (_, middle) = load::run_from(&mut rig, &load, 0);
            let before = rig.rebuilt_sectors().expect("it runs");
            load.requests = (seconds / 3.0 * figures.iops) as u64;
            let (_, end) = load::run_from(&mut rig, &load, middle);
            let filled = rig.rebuilt_sectors().expect("it runs") - before;
            let settled = (filled * SECTOR_BYTES) as f64 * 1e9 / (end - middle) as f64;
            assert!(
                (0.5..2.0).contains(&(found / settled)),
                "{reads} reads, {depth} under way: {found:.3e}, and the engine {settled:.3e}"
            );
        }
    }
}
