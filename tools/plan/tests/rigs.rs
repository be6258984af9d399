//! Arrays behind platforms against arithmetic: copies, parity, ceilings, cache, locks.

use stria_block::{Nanos, Tag};
use stria_plan::array::Level;
use stria_plan::array::engine::Condition;
use stria_plan::backplane::DriveConfig;
use stria_plan::load::{Load, Pattern, Stream, run, run_from};
use stria_plan::model::{Ask, Kind, Model, SECTOR_BYTES};
use stria_plan::platform::{Ceilings, PlatformConfig, TrimLevel};
use stria_plan::profile;
use stria_plan::rig::{Maker, Rig};

const RAID5: Level = Level::Raid5 { spans: 1 };
const RAID6: Level = Level::Raid6 { spans: 1 };

fn rig(platform: &PlatformConfig, drive: &str, level: Level, members: usize) -> Rig {
    let drive = profile::drive(drive).expect("there is such a drive").config;
    Rig::new(platform.clone(), &vec![drive; members], level, 64 << 10, 1)
}

fn near(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= share, "{what}: {found:.1} instead of {expected:.1}");
}

fn stream(rig: &mut Rig, read_share: f64) -> f64 {
    let load = Load { warm_up: 1_000, requests: 3_000, ..Load::sequential(rig, 64, 384 << 10, read_share) };
    run(rig, &load).bytes_per_s / 1e6
}

#[test]
fn streams_scale_with_the_members_that_hold_data() {
    let free = PlatformConfig::default();
    let one = stream(&mut rig(&free, "s3500", Level::Single, 1), 1.0);
    near(stream(&mut rig(&free, "s3500", Level::Raid0, 3), 1.0), 3.0 * one, 0.03, "RAID 0 reads");
    let one = stream(&mut rig(&free, "s3500", Level::Single, 1), 0.0);
    near(stream(&mut rig(&free, "s3500", Level::Raid0, 3), 0.0), 3.0 * one, 0.03, "RAID 0 writes");
    near(stream(&mut rig(&free, "s3500", Level::Raid10, 4), 0.0), 2.0 * one, 0.03, "RAID 10 writes");
    near(stream(&mut rig(&free, "s3500", RAID5, 4), 0.0), 3.0 * one, 0.05, "RAID 5 writes, whole stripes");
    near(stream(&mut rig(&free, "s3500", RAID6, 5), 0.0), 3.0 * one, 0.05, "RAID 6 writes, whole stripes");
}

/// Arrays that are rarely made, against what their members do.
#[test]
fn rare_arrays_do_what_their_members_allow() {
    let free = PlatformConfig::default();
    let one = |read_share: f64| stream(&mut rig(&free, "s3500", Level::Single, 1), read_share);
    let (reads, writes) = (one(1.0), one(0.0));
    near(stream(&mut rig(&free, "s3500", Level::Raid4, 4), 1.0), 3.0 * reads, 0.03, "RAID 4 reads: the data members");
    near(stream(&mut rig(&free, "s3500", Level::Raid4, 4), 0.0), 3.0 * writes, 0.05, "RAID 4 writes, whole stripes");
    near(stream(&mut rig(&free, "s3500", RAID5, 2), 0.0), writes, 0.05, "RAID 5 of two writes: a copy");
    near(stream(&mut rig(&free, "s3500", Level::Raid10, 2), 0.0), writes, 0.03, "RAID 10 of two writes");
    near(stream(&mut rig(&free, "s3500", Level::Raid10, 3), 0.0), 1.5 * writes, 0.05, "RAID 10 of three writes");
    near(stream(&mut rig(&free, "s3500", Level::Raid10, 5), 0.0), 2.5 * writes, 0.05, "RAID 10 of five writes");
    // Every small write of RAID 4 reads and writes the one parity member; RAID 5 spreads that over all.
    let small = |level: Level, members: usize| {
        let mut array = rig(&free, "s3500", level, members);
        array.backplane().ssds().for_each(|drive| drive.jump_to_used(1));
        let load = Load { warm_up: 30_000, requests: 10_000, ..Load::random(&array, 64, 0.0) };
        let iops = run(&mut array, &load).iops;
        let taken: Vec<u64> = array.backplane().ssds().map(|drive| drive.counts().host).collect();
        (iops, taken)
    };
    let (alone, _) = small(Level::Single, 1);
    let (four, taken) = small(Level::Raid4, 6);
    near(four, alone, 0.1, "RAID 4 of six writes as its parity member");
    assert!(taken[..5].iter().all(|data| 4 * data < taken[5]), "{taken:?}");
    let (five, _) = small(RAID5, 6);
    near(five, 3.0 * alone, 0.15, "RAID 5 of six writes as three members");
}

#[test]
fn a_ceiling_is_reached_and_not_passed() {
    let limited = |ceilings: Ceilings| PlatformConfig { ceilings, ..PlatformConfig::default() };
    let read = limited(Ceilings { read: Some(1_000_000_000), ..Ceilings::default() });
    near(stream(&mut rig(&read, "s3500", Level::Raid0, 6), 1.0), 1000.0, 0.01, "reads");
    let write = limited(Ceilings { write: Some(600_000_000), ..Ceilings::default() });
    near(stream(&mut rig(&write, "s3500", Level::Raid10, 6), 0.0), 600.0, 0.01, "writes of two copies, which pass the slot once");
    let members = limited(Ceilings { write_to_members: Some(1_000_000_000), ..Ceilings::default() });
    near(stream(&mut rig(&members, "s3500", Level::Raid10, 6), 0.0), 500.0, 0.01, "writes of two copies");
    near(stream(&mut rig(&members, "s3500", RAID5, 4), 0.0), 750.0, 0.01, "writes with parity");
    let parity = limited(Ceilings { parity_write: Some(600_000_000), ..Ceilings::default() });
    near(stream(&mut rig(&parity, "s3500", RAID5, 4), 0.0), 600.0, 0.01, "the parity engine");
}

/// Ports wait for the shared link, so throughput falls off before the link is full.
#[test]
fn a_shared_link_has_a_soft_knee() {
    let shared = PlatformConfig { link_read_bytes_per_s: Some(1_600_000_000), ..PlatformConfig::default() };
    let drive = profile::drive("s3500").expect("there is such a drive").config;
    let speed = |members: usize| {
        let mut array = Rig::new(shared.clone(), &vec![drive.clone(); members], Level::Raid0, 16 << 10, 1);
        let load = Load { threads: 2, warm_up: 1_000, requests: 5_000, ..Load::sequential(&array, 32, 128 << 10, 1.0) };
        run(&mut array, &load).bytes_per_s / 1e6
    };
    let speeds: Vec<f64> = (1..=6).map(speed).collect();
    near(speeds[0], 489.0, 0.01, "one drive");
    assert!(speeds[2] < 0.95 * 3.0 * 489.0, "{speeds:?}");
    near(speeds[5], 1600.0, 0.01, "the link");
}

#[test]
fn littles_law_holds_on_arrays() {
    let platform = profile::platform("c226").expect("there is such a platform").config;
    for (level, members) in [(Level::Raid0, 4), (Level::Raid1, 2), (Level::Raid10, 4), (RAID5, 4), (RAID6, 6)] {
        let mut array = rig(&platform, "s3500", level, members);
        let load = Load { host_ns: 1_000, read_share: 0.7, ..Load::random(&array, 24, 0.7) };
        let outcome = run(&mut array, &load);
        near(outcome.iops * outcome.mean_ns() / 1e9, outcome.in_flight, 0.01, &format!("{level}"));
    }
}

/// An array of which the load sees every step.
struct Stepwise(Rig);

impl Model for Stepwise {
    fn size_sectors(&self) -> u64 {
        self.0.size_sectors()
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        self.0.submit(now, ask);
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        self.0.poll(now, ended);
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.0.next_wake()
    }
}

/// Arrays pass over the steps that end no request, and give the same result to the nanosecond as if they did not.
#[test]
fn steps_that_end_no_request_change_nothing() {
    for (platform, drive) in [("stria", "p4510"), ("rs25", "savvio10k5"), ("z87", "ssd520")] {
        let platform = profile::platform(platform).expect("there is such a platform").config;
        for (level, members) in [(Level::Single, 1), (Level::Raid0, 3), (Level::Raid10, 4), (RAID5, 5)] {
            let mut array = rig(&platform, drive, level, members);
            let load = Load { warm_up: 300, requests: 3_000, host_ns: 500, ..Load::random(&array, 16, 0.6) };
            let outcome = run(&mut array, &load);
            assert_eq!(outcome, run(&mut Stepwise(rig(&platform, drive, level, members)), &load), "{level} of {members} {drive}");
        }
    }
}

/// Unaligned overlapping writes on every level, with and without a write-back cache and queues: every request ends once, and no
/// lock hangs.
#[test]
fn every_request_ends_once() {
    for (write_back_bytes, one_at_a_time, write_back_is_volatile) in
        [(0, false, false), (4 << 20, false, false), (4 << 20, false, true), (0, true, false), (4 << 20, true, true)]
    {
        let platform = PlatformConfig { write_back_bytes, one_at_a_time, write_back_is_volatile, ..PlatformConfig::default() };
        for (level, members) in [(Level::Raid0, 3), (Level::Raid10, 4), (RAID5, 4), (RAID6, 5), (Level::Raid5 { spans: 2 }, 6)] {
            let mut array = rig(&platform, "s3500", level, members);
            let mut chance = stria_plan::chance::Chance::new(3, 0);
            let mut ended = Vec::new();
            let mut now = 0;
            for tag in 0..3_000 {
                let sectors = 8 * (1 + chance.below(64));
                let kind = match chance.below(10) {
                    0..4 => Kind::Read,
                    4 => Kind::Trim,
                    5 => Kind::Flush,
                    _ => Kind::Write { fua: chance.below(4) == 0 },
                };
                let sectors = if kind == Kind::Flush { 0 } else { sectors };
                array.submit(now, Ask { tag, kind, start_sector: chance.below(512) * 8, sectors });
                now += chance.below(20_000);
                array.poll(now, &mut ended);
            }
            while let Some(next) = array.next_wake() {
                now = now.max(next);
                array.poll(now, &mut ended);
            }
            ended.sort_unstable();
            assert_eq!(
                ended,
                (0..3_000).collect::<Vec<_>>(),
                "{level}, cache of {write_back_bytes}, one at a time: {one_at_a_time}"
            );
        }
    }
}

#[test]
fn writes_cost_members_what_the_level_says() {
    let host_pages = |level: Level, members: usize| {
        let mut array = rig(&PlatformConfig::default(), "s3500", level, members);
        let load = Load { warm_up: 0, requests: 4_000, ..Load::random(&array, 1, 0.0) };
        run_from(&mut array, &load, 0);
        let written: u64 = array.backplane().ssds().map(|drive| drive.counts().host).sum();
        written as f64 / 4_000.0
    };
    near(host_pages(Level::Raid0, 4), 1.0, 1e-3, "RAID 0");
    near(host_pages(Level::Raid10, 4), 2.0, 1e-3, "RAID 10");
    near(host_pages(RAID5, 4), 2.0, 1e-3, "RAID 5");
    near(host_pages(RAID6, 6), 3.0, 1e-3, "RAID 6");
}

#[test]
fn trims_reach_the_drives_where_the_platform_passes_them() {
    let mapped = |trim: Vec<TrimLevel>| {
        let platform = PlatformConfig { trim, ..PlatformConfig::default() };
        let mut array = rig(&platform, "s3500", Level::Raid0, 2);
        array.backplane().ssds().for_each(|drive| drive.fill_at_once(1.0));
        array.submit(0, Ask { tag: 0, kind: Kind::Trim, start_sector: 0, sectors: array.size_sectors() / 128 * 128 });
        let mut ended = Vec::new();
        while let Some(now) = array.next_wake() {
            array.poll(now, &mut ended);
        }
        assert_eq!(ended, [0]);
        array.backplane().ssds().map(|drive| drive.map().tracked().mapped_pages()).sum::<u64>()
    };
    assert!(mapped(vec![TrimLevel::Raid0]) < 10);
    assert!(mapped(vec![TrimLevel::Redundant]) > 100_000);
}

/// A cache makes full stripes of small sequential writes, which cost parity levels reads and writes without it.
#[test]
fn a_write_back_cache_makes_stripes_whole() {
    let speed = |write_back_bytes: u64| {
        let platform = PlatformConfig { write_back_bytes, coalesces: false, ..PlatformConfig::default() };
        let mut array = rig(&platform, "s3500", RAID5, 4);
        let load = Load { warm_up: 3_000, requests: 6_000, ..Load::sequential(&array, 32, 16 << 10, 0.0) };
        run(&mut array, &load).bytes_per_s
    };
    assert!(speed(16 << 20) > 3.0 * speed(0));
}

/// What a cache holds at the end of a load reaches the drives before the next: once, if a client wrote it several times.
#[test]
fn a_write_back_cache_gives_the_drives_what_it_holds() {
    let platform = PlatformConfig { write_back_bytes: 16 << 20, coalesces: false, ..PlatformConfig::default() };
    let mut array = rig(&platform, "s3500", Level::Raid0, 2);
    let mut ended = Vec::new();
    for tag in 0..1_000 {
        let ask = Ask { tag, kind: Kind::Write { fua: false }, start_sector: tag % 500 * 1_000, sectors: 8 };
        array.submit(0, ask);
        while ended.len() <= tag as usize {
            let wake = array.next_wake().expect("it ends");
            array.advance(wake, &mut ended);
        }
    }
    assert_eq!(array.cached_bytes(), 500 * 4096);
    assert!(array.backplane().ssds().all(|drive| drive.map().tracked().mapped_pages() == 0));
    let end = array.write_back_all(0);
    assert!(end > 0 && array.cached_bytes() == 0);
    assert!(array.backplane().ssds().map(|drive| drive.map().tracked().mapped_pages()).sum::<u64>() > 0);
}

/// A write that is larger than half of the cache waits until the cache is nearly empty. Only half of it was written back, so
/// nothing ended any more.
#[test]
fn large_writes_among_small_ones_get_their_space_in_a_small_cache() {
    let mut platform = profile::platform("rs25").expect("there is such a platform").config;
    platform.write_back_bytes = 1_200_000;
    let sizes = vec![(4096, 50.0), (1 << 20, 50.0)];
    let stream = Stream { share: 1.0, write: true, pattern: Pattern::Random, sizes, zones: Vec::new() };
    for level in [Level::Raid0, RAID5] {
        let mut array = rig(&platform, "savvio10k5", level, 4);
        let load = Load { warm_up: 100, requests: 400, streams: vec![stream.clone()], ..Load::random(&array, 8, 0.0) };
        assert!(run(&mut array, &load).iops > 0.0, "{level}");
    }
}

/// A cache in the host's memory: a flush waits for all that was written before, and writes behind it wait for the flush. A cache
/// that survives the loss of power gives the flush nothing to do.
#[test]
fn a_flush_empties_a_volatile_cache() {
    let time_of_flush = |write_back_is_volatile: bool| {
        let platform = PlatformConfig { write_back_bytes: 4 << 20, write_back_is_volatile, ..PlatformConfig::default() };
        let mut array = rig(&platform, "s3500", RAID5, 4);
        let mut ended = Vec::new();
        for tag in 0..64 {
            array.submit(0, Ask { tag, kind: Kind::Write { fua: false }, start_sector: tag * 4096, sectors: 8 });
        }
        array.poll(0, &mut ended);
        assert_eq!(ended.len(), 64, "the cache takes all of them at once");
        assert_eq!(array.cached_bytes(), 64 * 4096);
        array.submit(0, Ask { tag: 64, kind: Kind::Flush, start_sector: 0, sectors: 0 });
        array.submit(0, Ask { tag: 65, kind: Kind::Write { fua: false }, start_sector: 8, sectors: 8 });
        let mut now = 0;
        let mut at = [0; 2];
        while at.contains(&0) {
            now = array.next_wake().expect("the flush has not ended").max(now + 1);
            ended.clear();
            array.poll(now, &mut ended);
            ended.iter().filter(|&&tag| tag >= 64).for_each(|&tag| at[tag as usize - 64] = now);
        }
        (at, array.cached_bytes())
    };
    let ((volatile, left), (kept, still)) = (time_of_flush(true), time_of_flush(false));
    assert!(volatile[0] > 500_000 && left <= 4096, "{volatile:?}, {left} bytes are left");
    assert!(volatile[1] >= volatile[0] / 2 && kept[1] < 300_000, "{volatile:?} and {kept:?}");
    assert!(kept[0] < 300_000 && still > 32 * 4096, "{kept:?}, {still} bytes are left");
}

/// A driver without queues: members that are added do not quicken writes of RAID 5, which take turns, and quicken those of RAID
/// 0.
#[test]
fn without_queues_parity_writes_do_not_scale() {
    let platform = PlatformConfig { one_at_a_time: true, ..PlatformConfig::default() };
    let writes = |level: Level, members: usize| {
        let mut array = rig(&platform, "s3500", level, members);
        let load = Load { warm_up: 2_000, requests: 8_000, ..Load::random(&array, 64, 0.0) };
        run(&mut array, &load).iops
    };
    near(writes(RAID5, 12), writes(RAID5, 6), 0.05, "RAID 5 of twelve and of six");
    near(writes(Level::Raid0, 12), 2.0 * writes(Level::Raid0, 6), 0.15, "RAID 0 of twelve and of six");
}

/// A thread's own time for a read of a mirror lowers its rate by that time, and no latency contains it. A level without copies
/// has none.
#[test]
fn a_threads_time_for_a_read_is_outside_of_its_latency() {
    let slow = PlatformConfig { mirror_read_thread_ns: 50_000, ..PlatformConfig::default() };
    let reads = |platform: &PlatformConfig, level: Level| {
        let mut array = rig(platform, "s3500", level, 2);
        let load = Load { host_read_ns: array.thread_read_ns(), ..Load::random(&array, 1, 1.0) };
        let outcome = run(&mut array, &load);
        (1e9 / outcome.iops, outcome.reads.mean_ns())
    };
    let (free, with) = (reads(&PlatformConfig::default(), Level::Raid1), reads(&slow, Level::Raid1));
    near(with.0, free.0 + 50_000.0, 0.01, "time from read to read");
    near(with.1, free.1, 0.01, "latency");
    assert_eq!(reads(&slow, Level::Raid0), reads(&PlatformConfig::default(), Level::Raid0));
}

/// Goal: the processor pays for each request to a member that the array sends. Method: a processor so slow that it alone decides;
/// it needs as long for a client's request as for one to a member.
#[test]
fn the_processor_pays_for_what_the_array_sends() {
    const EACH_NS: f64 = 50_000.0;
    let platform = PlatformConfig { serial_ns: 50_000, member_ns: 50_000, ..PlatformConfig::default() };
    let drive = profile::drive("p4510").expect("there is such a drive").config;
    let made = |condition, level: Level, members: usize| {
        Rig::in_condition(condition, platform.clone(), &vec![drive.clone(); members], level, 64 << 10, 1)
            .expect("there is such an array")
    };
    let requests = |mut array: Rig, block_kib: u64, read_share: f64, depth: u32| {
        let load =
            Load { block_bytes: block_kib << 10, warm_up: 1_000, requests: 4_000, ..Load::random(&array, depth, read_share) };
        1e9 / run(&mut array, &load).iops / EACH_NS
    };
    let optimal = |level, members| made(Condition::Optimal, level, members);
    near(requests(optimal(Level::Raid0, 4), 4, 1.0, 8), 1.0, 0.02, "a read of a strip");
    near(requests(optimal(Level::Raid0, 4), 128, 1.0, 8), 2.0, 0.02, "a read across two strips");
    near(requests(optimal(Level::Raid10, 4), 4, 0.0, 8), 2.0, 0.02, "a write of two copies");
    near(requests(optimal(RAID5, 5), 4, 0.0, 8), 4.0, 0.03, "data and parity, read and written");
    near(requests(optimal(RAID5, 5), 256, 0.0, 8), 5.0, 0.03, "a whole stripe");
    // A quarter of the strips is missing: the other three are read for each.
    near(requests(made(Condition::Degraded, RAID5, 4), 4, 1.0, 8), 1.5, 0.05, "a degraded read");
    let alone = requests(optimal(RAID5, 5), 4, 0.0, 1);
    assert!(alone > 4.0, "the latency of a single write has their time: {alone:.2}");
    // Writes of 64 KiB in order, of which many become whole stripes: 5 requests for four of them instead of 16.
    let mut array = optimal(RAID5, 5);
    let load = Load { warm_up: 1_000, requests: 4_000, ..Load::sequential(&array, 64, 64 << 10, 0.0) };
    let each = 1e9 / run(&mut array, &load).iops / EACH_NS;
    assert!((1.25..3.0).contains(&each), "{each:.2} requests for each write");
}

#[test]
fn small_random_reads_of_mirrors_use_both_copies() {
    let speed = |level: Level, members: usize| {
        let mut array = rig(&PlatformConfig::default(), "s3500", level, members);
        let load = Load { pattern: Pattern::Random, ..Load::random(&array, 64, 1.0) };
        run(&mut array, &load).iops
    };
    near(speed(Level::Raid1, 2), 2.0 * speed(Level::Single, 1), 0.03, "reads of a mirror");
}

#[test]
fn drives_of_different_size_are_used_as_far_as_the_smallest_goes() {
    let DriveConfig::Ssd(large) = profile::drive("s3500").expect("it is there").config else { panic!("it is an SSD") };
    let mut small = large.clone();
    small.capacity_bytes /= 2;
    let drives = [DriveConfig::Ssd(large), DriveConfig::Ssd(small.clone())];
    let array = Rig::new(PlatformConfig::default(), &drives, Level::Raid1, 64 << 10, 1);
    assert!(array.size_sectors() * SECTOR_BYTES <= small.capacity_bytes);
    assert!(array.size_sectors() * SECTOR_BYTES > small.capacity_bytes - (1 << 20));
}

/// The rates of the engine and of its plain twin, with one and with many requests in flight.
fn engine_and_twin(level: Level, members: usize, load: impl Fn(&Rig) -> Load) -> (f64, f64) {
    let drive = profile::drive("s3500").expect("there is such a drive").config;
    let [engine, twin] = [Maker::Engine, Maker::Steps].map(|maker| {
        let drives = vec![drive.clone(); members];
        let mut array =
            Rig::made_by(maker, PlatformConfig::default(), &drives, level, 64 << 10, 1).expect("there is such an array");
        let load = load(&array);
        run(&mut array, &load).iops
    });
    (engine, twin)
}

/// Goal: the figures are those of the engine that serves drives. Method: small random requests, of which the engine coalesces
/// none, take as long as the reads and writes that the level needs.
#[test]
fn the_engine_does_what_its_plain_twin_does() {
    let arrays = [
        (Level::Single, 1),
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid10, 6),
        (RAID5, 5),
        (RAID6, 6),
        (Level::Raid5 { spans: 2 }, 8),
        (Level::Raid6 { spans: 2 }, 10),
    ];
    for (level, members) in arrays {
        for (depth, read_share) in [(1, 1.0), (1, 0.0), (32, 1.0), (32, 0.0), (32, 0.7)] {
            let (engine, twin) = engine_and_twin(level, members, |array| Load {
                warm_up: 1_000,
                requests: 6_000,
                ..Load::random(array, depth, read_share)
            });
            near(engine, twin, 0.04, &format!("{level} of {members}, {read_share} reads, {depth} under way"));
        }
    }
}

/// The engine makes full stripes of small sequential writes; its twin writes each by itself.
#[test]
fn the_engine_coalesces_and_its_twin_does_not() {
    let stream = |level: Level, members: usize| {
        engine_and_twin(level, members, |array| Load {
            warm_up: 1_000,
            requests: 4_000,
            ..Load::sequential(array, 32, 16 << 10, 0.0)
        })
    };
    let (engine, twin) = stream(RAID5, 5);
    assert!(engine > 3.0 * twin, "{engine} and {twin}");
    let (engine, twin) = stream(Level::Raid0, 4);
    near(engine, twin, 0.01, "RAID 0");
}

#[test]
fn a_strip_that_the_engine_does_not_know_is_refused() {
    let drives = vec![profile::drive("s3500").expect("there is such a drive").config; 3];
    let refused = Rig::made_by(Maker::Engine, PlatformConfig::default(), &drives, Level::Raid0, 3 << 10, 1);
    assert!(refused.is_err_and(|error| error.contains("power of two")));
}

/// Goal: figures of a degraded array and of a rebuild are the engine's. Method: an idle rebuild of a mirror copies a drive as
/// fast as the drive writes in order; a degraded RAID 5 reads all others for what the missing member held, which halves it at
/// four members.
#[test]
fn an_array_that_lacks_a_member_recovers_and_rebuilds() {
    let drive = profile::drive("s3500").expect("there is such a drive").config;
    let free = PlatformConfig::default;
    let made = |condition, level, drives| {
        Rig::in_condition(condition, free(), &vec![drive.clone(); drives], level, 64 << 10, 1).expect("there is such an array")
    };
    for (level, members) in [(Level::Raid1, 2), (RAID5, 4), (RAID6, 6), (Level::Raid10, 4), (Level::Raid6 { spans: 2 }, 8)] {
        let mut array = made(Condition::Rebuilding, level, members + 1);
        let mut ended = Vec::new();
        while let Some(now) = array.next_wake().filter(|&now| now < 4_000_000_000) {
            array.poll(now, &mut ended);
        }
        let mbs = array.rebuilt_sectors().expect("a rebuild runs") as f64 * 512.0 / 4e6;
        assert!((300.0..480.0).contains(&mbs), "{level}: {mbs:.0} MB/s, and a drive writes 450");
    }
    let reads = |array: &mut Rig| {
        let load = Load { warm_up: 1_000, requests: 10_000, ..Load::random(array, 128, 1.0) };
        run(array, &load).iops
    };
    let (optimal, degraded) = (reads(&mut rig(&free(), "s3500", RAID5, 4)), reads(&mut made(Condition::Degraded, RAID5, 4)));
    near(degraded, optimal / 2.0, 0.05, "each drive that is left reads its own and, for the fourth, as much again");
}

/// Goal: planned figures of Stria's own arrays contain what its metadata cost. Method: pages that drives take for one written at
/// random, with the metadata of `stria create` and without; the bitmap's bits are set once, the write log takes a record of each
/// write on parity levels.
#[test]
fn the_write_log_is_written_and_nothing_else_for_long() {
    let host_pages = |level: Level, members: usize, metadata: bool| {
        let platform = PlatformConfig { metadata, ..PlatformConfig::default() };
        let mut array = rig(&platform, "s3500", level, members);
        let load = |requests| Load { warm_up: 0, requests, span_bytes: 1 << 30, ..Load::random(&array, 4, 0.0) };
        let (first, rest) = (load(1_000), load(4_000));
        let (_, now) = run_from(&mut array, &first, 0);
        let pages = |array: &Rig| array.backplane().ssds().map(|drive| drive.counts().host).sum::<u64>();
        let before = pages(&array);
        run_from(&mut array, &rest, now);
        (pages(&array) - before) as f64 / 4_000.0
    };
    for (level, members) in [(Level::Raid0, 4), (Level::Raid1, 2), (Level::Raid10, 4)] {
        near(host_pages(level, members, true), host_pages(level, members, false), 0.02, &format!("{level}, no log"));
    }
    for (level, members) in [(RAID5, 4), (RAID6, 6), (Level::Raid5 { spans: 2 }, 8)] {
        let (with, without) = (host_pages(level, members, true), host_pages(level, members, false));
        // A record lies on one member more than may be lost, and takes a page and at most one of header.
        let most = 2.0 * (level.parities() + 1) as f64;
        assert!((0.5..=most).contains(&(with - without)), "{level}: {with} and {without} pages for each");
    }
}
