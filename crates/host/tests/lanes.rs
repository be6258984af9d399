//! Goal: an array on several lanes keeps its bytes through every command. It is the same array on any number of lanes, and for
//! the kernel.
//! Method: members are image files. Clients on threads of their own write and read back stamped units at a depth, through the
//! interface that front ends use. Events report what happened, once.

use harness::{End, Guest};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use stria_array::{DropCause, Event, Findings, Health, MemberState, MemberStatus, SweepKind, Synced};
use stria_block::{Buffer, Completion, Mailbox, Operation, RemoteDevice, Request, Segments, bytes};
use stria_drive::{IoOptions, Lane};
use stria_format::md::{BitmapChoice, LogChoice, Superblock};
use stria_host::*;
use stria_testkit::oracle as harness;

const MEMBER_SECTORS: u64 = 12 << 11;
/// Sparse: large drives have space for several lanes' logs before their data. RAID 0 has no log, and uses all of a drive.
fn drive_bytes(level: &str) -> u64 {
    if level == "0" { 12 << 20 } else { 4 << 30 }
}
/// 20 KiB: units cross strips, and sometimes the border between two lanes.
const UNIT_SECTORS: u64 = 40;
const CLIENT_COUNT: usize = 4;

/// Image files, and the expected content of the array on them: the stamp of each unit.
struct Tank {
    folder: PathBuf,
    paths: Vec<PathBuf>,
    stamps: Vec<AtomicU64>,
}

/// The array on some lanes, and its events.
struct Running {
    array: ArrayLanes,
    notices: Receiver<Notice>,
}

impl Drop for Tank {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn images(name: &str, level: &str, count: usize) -> (PathBuf, Vec<PathBuf>) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lanes-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let paths: Vec<PathBuf> = (0..count).map(|index| folder.join(format!("d{index}"))).collect();
    paths.iter().for_each(|path| File::create(path).and_then(|file| file.set_len(drive_bytes(level))).expect("an image"));
    (folder, paths)
}

impl Tank {
    fn make(level: &str, count: usize, spares: usize, log: LogChoice) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (folder, paths) = images(&format!("{level}-{}", NUMBER.fetch_add(1, Ordering::SeqCst)), level, count + spares);
        Self::on(folder, paths, level, spares, log)
    }

    fn on(folder: PathBuf, paths: Vec<PathBuf>, level: &str, spares: usize, log: LogChoice) -> Self {
        let count = paths.len() - spares;
        let spec = CreateSpec {
            strip_sectors: (level != "1").then_some(32),
            spares: paths[count..].to_vec(),
            bitmap: BitmapChoice::Internal { chunk_bytes: Some(65536) },
            member_sectors_max: (level != "0").then_some(MEMBER_SECTORS),
            log,
            ..CreateSpec::new("tank", level.parse().expect("a level"), &paths[..count])
        };
        create(&spec).unwrap_or_else(|error| panic!("RAID {level}: {error}"));
        Self { folder, paths, stamps: Vec::new() }
    }

    /// Opens it; the first time its content is zeros.
    fn open(&mut self, lanes: usize) -> Running {
        let (sender, notices) = channel();
        let lanes_wanted = (0..lanes).map(|index| Lane::new(format!("lane{index}"))).collect();
        let opened = ArrayLanes::open(&self.paths, OpenOptions::default(), lanes_wanted, sender);
        let (array, _) = opened.unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        assert_eq!(array.lane_count(), lanes);
        if self.stamps.is_empty() {
            let units = array.remote().limits().size_sectors / UNIT_SECTORS;
            self.stamps.resize_with(units as usize, || AtomicU64::new(0));
        }
        Running { array, notices }
    }

    /// Writes and reads back until `enough`, as several clients, each with units of its own.
    fn load(&self, remote: &Arc<dyn RemoteDevice>, seed: u64, enough: impl Fn(usize) -> bool + Sync) {
        std::thread::scope(|scope| {
            for client in 0..CLIENT_COUNT {
                let (remote, enough) = (Arc::clone(remote), &enough);
                scope.spawn(move || {
                    let mut client_of = Client::new(remote);
                    let mut chance = Chance(seed * 31 + client as u64 + 1);
                    let own = self.stamps.len() / CLIENT_COUNT;
                    for round in 0.. {
                        if enough(round) {
                            return;
                        }
                        let mut units: Vec<usize> =
                            (0..1 + chance.below(24)).map(|_| chance.below(own) * CLIENT_COUNT + client).collect();
                        units.sort_unstable();
                        units.dedup();
                        let stamp = chance.next() | 1;
                        client_of.carry_out(units.iter().map(|&unit| write(unit, stamp, chance.below(8) == 0)));
                        units.iter().for_each(|&unit| self.stamps[unit].store(stamp, Ordering::SeqCst));
                        if chance.below(4) == 0 {
                            client_of.carry_out([Request { tag: 0, start_sector: 0, sectors: 0, operation: Operation::Flush }]);
                        }
                        units.extend((0..8).map(|_| chance.below(own) * CLIENT_COUNT + client));
                        units.sort_unstable();
                        units.dedup();
                        for completion in
                            client_of.carry_out(units.iter().map(|&unit| read(unit as u64 * UNIT_SECTORS, UNIT_SECTORS)))
                        {
                            let unit = (completion.tag / UNIT_SECTORS) as usize;
                            self.check(unit, &contents(completion));
                        }
                    }
                });
            }
        });
    }

    fn check(&self, unit: usize, found: &[u8]) {
        let stamp = self.stamps[unit].load(Ordering::SeqCst);
        assert!(found == stamped(unit, stamp), "{}: unit {unit} does not hold {stamp:x}", self.folder.display());
    }

    /// Reads everything, in requests that cross lanes.
    fn verify(&self, remote: &Arc<dyn RemoteDevice>) {
        let mut client = Client::new(Arc::clone(remote));
        for first in (0..self.stamps.len()).step_by(100) {
            let count = (self.stamps.len() - first).min(100);
            let ended = client.carry_out([read(first as u64 * UNIT_SECTORS, count as u64 * UNIT_SECTORS)]);
            let found = contents(ended.into_iter().next().expect("one"));
            found.chunks(bytes(UNIT_SECTORS)).zip(first..).for_each(|(found, unit)| self.check(unit, found));
        }
    }
}

impl Running {
    /// Waits until nothing is left to resync or to rebuild.
    fn settle(&self) {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let report = self.array.report().expect("it runs");
            let calm = |array: &&ArrayReport| {
                let status = &array.status;
                let agrees = status.synced == Synced::All || !array.geometry.level().is_redundant();
                let fills = |member: &MemberStatus| matches!(member.state, MemberState::Rebuilding | MemberState::Replacing);
                let filled = !status.members.iter().any(fills);
                status.sweep.is_none() && agrees && filled && status.health == Health::Optimal
            };
            if report.tree().iter().all(calm) {
                return;
            }
            assert!(Instant::now() < end, "{report:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn heard(&self) -> Vec<Event> {
        let event = |notice: Notice| match notice.kind {
            NoticeKind::Engine(event) => Some(event),
            NoticeKind::Silent | NoticeKind::Answers | NoticeKind::Deleted => None,
        };
        self.notices.try_iter().filter_map(event).collect()
    }

    /// Redundancy is consistent everywhere, and each array reports so once.
    fn scrub(&self) {
        self.settle();
        self.heard();
        self.array.scrub(false, 0).expect("nothing runs");
        self.settle();
        let redundant =
            self.array.report().expect("it runs").tree().iter().filter(|array| array.geometry.level().is_redundant()).count();
        let kind = SweepKind::Scrub { repair: false };
        let heard = self.heard();
        let finished = heard
            .iter()
            .filter(|event| matches!(event, Event::SweepFinished { found, .. } if *found == Findings::default()))
            .count();
        let started = heard.iter().filter(|event| **event == Event::SweepStarted(kind)).count();
        assert_eq!((started, finished, heard.len()), (redundant, redundant, 2 * redundant), "{heard:?}");
    }
}

/// A thread that sends requests and waits.
struct Client {
    remote: Arc<dyn RemoteDevice>,
    reply: Arc<Mailbox<Completion>>,
}

impl Client {
    fn new(remote: Arc<dyn RemoteDevice>) -> Self {
        let thread = std::thread::current();
        Self { remote, reply: Arc::new(Mailbox::new(move || thread.unpark())) }
    }

    /// Runs requests, all at once, none of which may fail.
    fn carry_out(&mut self, requests: impl IntoIterator<Item = Request>) -> Vec<Completion> {
        let mut requests: Vec<Request> = requests.into_iter().collect();
        let (count, mut ended) = (requests.len(), Vec::new());
        self.remote.submit(&mut requests, &self.reply);
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            self.reply.take(&mut ended);
            if ended.len() == count {
                break;
            }
            assert!(Instant::now() < end, "{} of {count} requests are not answered", count - ended.len());
            if self.reply.prepare_sleep() {
                std::thread::park_timeout(Duration::from_secs(1));
                self.reply.awake();
            }
        }
        ended.iter().for_each(|completion| assert_eq!(completion.result, Ok(())));
        ended
    }
}

fn read(start_sector: u64, sectors: u64) -> Request {
    let into = Segments::from_iter([Buffer::zeroed(bytes(sectors))]);
    Request { tag: start_sector, start_sector, sectors, operation: Operation::Read { into } }
}

fn write(unit: usize, stamp: u64, fua: bool) -> Request {
    let from = Segments::from_iter([Buffer::copy_of(&stamped(unit, stamp)).freeze()]);
    let start_sector = unit as u64 * UNIT_SECTORS;
    Request { tag: start_sector, start_sector, sectors: UNIT_SECTORS, operation: Operation::Write { from, fua } }
}

fn contents(completion: Completion) -> Vec<u8> {
    let Operation::Read { into } = completion.operation else { panic!("a read comes back as one") };
    into.iter().flat_map(|buffer| buffer.iter().copied()).collect()
}

fn stamped(unit: usize, stamp: u64) -> Vec<u8> {
    let word = if stamp == 0 { 0 } else { stamp ^ (unit as u64) << 40 };
    word.to_le_bytes().repeat(bytes(UNIT_SECTORS) / 8)
}

/// Xorshift: one seed, one history.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, below: usize) -> usize {
        (self.next() % below as u64) as usize
    }
}

#[test]
fn an_array_is_the_same_on_any_number_of_lanes() {
    for (level, count, log) in [
        ("0", 3, LogChoice::None),
        ("1", 2, LogChoice::None),
        ("10", 4, LogChoice::None),
        ("5", 4, LogChoice::None),
        ("5", 3, LogChoice::Auto),
        ("6", 5, LogChoice::Auto),
        ("50", 6, LogChoice::Auto),
    ] {
        let mut tank = Tank::make(level, count, 0, log);
        for (run, lanes) in [3, 2, 1, 2].into_iter().enumerate() {
            eprintln!("RAID {level} of {count} on {lanes} lanes, {log:?}");
            let running = tank.open(lanes);
            let remote = running.array.remote();
            tank.verify(&remote);
            tank.load(&remote, run as u64, |round| round == 12);
            tank.verify(&remote);
            let (_, rings) = running.array.report_within(Duration::from_secs(60)).expect("it runs").expect("it answers");
            assert!(
                rings.iter().all(|lane| lane.counters.job_count > 20 && !lane.processor_time.is_zero()),
                "every lane has its share: {rings:?}"
            );
            if level != "0" {
                running.scrub();
            }
            // The second run ends without a stop, as in a crash of the process.
            if run != 1 {
                let report = running.array.stop(|_| ()).expect("in good order");
                assert!(report.tree().iter().all(|array| array.status.clean || !array.geometry.level().is_redundant()));
            }
        }
    }
}

/// The reads of a rebuild of one member and of a copy of another stayed in the times by which members are compared: beside the
/// reads of clients, which are smaller and fewer at a time, one looked slow.
#[test]
fn times_of_a_rebuild_or_copy_are_not_left_in_the_recent_ones() {
    for lanes in [1, 2] {
        let mut tank = Tank::make("6", 5, 1, LogChoice::Auto);
        let running = tank.open(lanes);
        running.settle();
        let (first, second) = (tank.paths[0].clone(), tank.paths[1].clone());
        running.array.fail(first.clone()).expect("redundant");
        running.settle();
        let read_by_rebuild = reads(&running);
        assert!(read_by_rebuild > 0);
        forgets(&running);
        running.array.remove(first.clone()).expect("it has failed");
        running.array.add(|| OpenedDrive::open(&first, IoOptions::default()), None, true).expect("it suits");
        running.array.replace_by_spare(second, first).expect("both are there");
        running.settle();
        assert!(reads(&running) > read_by_rebuild);
        forgets(&running);
    }
}

/// Reads of members since the start.
fn reads(running: &Running) -> u64 {
    running.array.report().expect("it runs").status.members.iter().map(|member| member.read_count).sum()
}

#[track_caller]
fn forgets(running: &Running) {
    let recent = || {
        let report = running.array.report().expect("it runs");
        report.drives().filter_map(|drive| drive.timings.read.latency()).map(|latency| latency.count).sum::<u32>()
    };
    let end = Instant::now() + Duration::from_secs(10);
    while recent() > 0 {
        assert!(Instant::now() < end, "{} recent reads of an array without clients", recent());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn members_fail_are_rebuilt_replaced_and_come_back_under_load() {
    for (level, count, lanes) in [("1", 2, 2), ("5", 4, 3), ("10", 4, 3), ("6", 5, 2), ("50", 6, 2)] {
        eprintln!("RAID {level} of {count} on {lanes} lanes");
        let mut tank = Tank::make(level, count, 1, LogChoice::Auto);
        let running = tank.open(lanes);
        let (array, remote) = (&running.array, running.array.remote());
        running.settle();
        running.heard();
        let (first, second, spare) = (tank.paths[0].clone(), tank.paths[1].clone(), tank.paths[count].clone());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| tank.load(&remote, 5, |_| over.load(Ordering::SeqCst)));
            std::thread::sleep(Duration::from_millis(50));
            array.fail(first.clone()).expect("redundant");
            running.settle();
            // The member was dropped and not stopped, so it cannot return.
            array.remove(first.clone()).expect("it has failed");
            let text = array.add(|| OpenedDrive::open(&first, IoOptions::default()), None, true).expect("it suits");
            assert!(text.contains("as a new spare"), "{text}");
            let text = array.replace_by_spare(second.clone(), first.clone()).expect("both are there");
            assert!(text.is_some_and(|text| text.contains("is being rebuilt to replace")));
            running.settle();
            array.remove(second.clone()).expect("it was replaced");
            over.store(true, Ordering::SeqCst);
        });
        let heard = running.heard();
        let count_of = |is_it: fn(&Event) -> bool| heard.iter().filter(|event| is_it(event)).count();
        assert_eq!(count_of(|event| matches!(event, Event::MemberFailed { cause: DropCause::Failed, .. })), 1, "{heard:?}");
        assert_eq!(count_of(|event| matches!(event, Event::MemberFailed { .. })), 2, "{heard:?}");
        assert_eq!(count_of(|event| matches!(event, Event::SpareTaken { .. })), 1, "{heard:?}");
        assert_eq!(count_of(|event| matches!(event, Event::MemberInSync { .. })), 2, "{heard:?}");
        let finished = count_of(|event| matches!(event, Event::SweepFinished { kind: SweepKind::Rebuild, .. }));
        assert!(finished >= 2 && finished == count_of(|event| *event == Event::SweepStarted(SweepKind::Rebuild)), "{heard:?}");
        tank.verify(&remote);
        running.scrub();
        // A member that was in sync when it left returns by the bitmap.
        array.fail(spare.clone()).expect("redundant");
        array.remove(spare.clone()).expect("it has failed");
        tank.load(&remote, 6, |round| round == 3);
        let text = array.add(|| OpenedDrive::open(&spare, IoOptions::default()), None, false).expect("it was here");
        assert!(text.contains("is back in slot"), "{text}");
        running.scrub();
        tank.verify(&remote);
        assert!(array.fail(second).is_err(), "it was removed");
        array.stop(|_| ()).expect("in good order");
        // The replaced drive is left out.
        tank.paths.remove(1);
        let running = tank.open(1);
        tank.verify(&running.array.remote());
        running.scrub();
        running.array.stop(|_| ()).expect("in good order");
    }
}

/// Seed 60:961200011: a client had written the superblock of a member of another span to the end of a drive whose own superblock
/// could not be read. The drive was overwritten without permission, and joined that span.
#[test]
fn a_superblock_that_a_client_wrote_does_not_say_where_a_drive_joins() {
    let mut tank = Tank::make("50", 6, 0, LogChoice::Auto);
    let running = tank.open(1);
    let loose = tank.folder.join("loose");
    let mut block = vec![0; 4096];
    let member = File::open(&tank.paths[5]).expect("an image");
    member.read_exact_at(&mut block, 4096).expect("its superblock");
    let sectors = drive_bytes("50") / 512;
    let mut superblock = Superblock::parse(&block, 8, sectors).expect("a member of the second span");
    block[0x50] ^= 0xff;
    let at = Superblock::sector_of(0, sectors).expect("large enough");
    let header = &mut superblock.header;
    (header.super_offset, header.data_offset, header.data_size, header.size) = (at, 0, at, header.size.min(at));
    (header.bitmap_offset, header.bblog_offset, header.bblog_size, header.feature_map) = (0, 0, 0, 0);
    header.device_uuid = [0x77; 16];
    let drive = File::create(&loose).expect("an image");
    drive.set_len(drive_bytes("50")).expect("sparse");
    drive.write_all_at(&block, 4096).expect("its own, damaged");
    drive.write_all_at(&superblock.encode(), at * 512).expect("the client's");
    drop(drive);
    let add = |force| {
        let open = || OpenedDrive::open(&loose, IoOptions::default());
        running.array.add(open, Some("tank-span0".into()), force)
    };
    let refused = add(false).expect_err("it carries something").to_string();
    assert!(refused.contains("nothing was written; --force overwrites it"), "{refused}");
    assert_eq!(add(true).expect("it suits"), format!("{} joined \"tank-span0\" as a spare", loose.display()));
    running.array.stop(|_| ()).expect("in good order");
}

/// The array has lost the only member with its data of late. The one that left before holds all but the last writes.
#[test]
fn a_former_member_of_a_failed_array_is_overwritten_by_force_only() {
    let mut tank = Tank::make("1", 2, 0, LogChoice::None);
    let running = tank.open(2);
    running.settle();
    let array = &running.array;
    let (first, second) = (tank.paths[0].clone(), &tank.paths[1]);
    array.fail(first.clone()).expect("redundant");
    array.remove(first.clone()).expect("it has failed");
    File::options().write(true).open(second).and_then(|file| file.set_len(1 << 20)).expect("it is cut short");
    let end = Instant::now() + Duration::from_secs(60);
    while array.report().expect("it runs").status.health != Health::Failed {
        assert!(Instant::now() < end, "nobody looks at the file");
        std::thread::sleep(Duration::from_millis(10));
    }
    let start_of = || {
        let mut start = vec![0; 1 << 20];
        File::open(&first).and_then(|image| image.read_exact_at(&mut start, 0)).expect("an image");
        start
    };
    let before = start_of();
    let refused = array.add(|| OpenedDrive::open(&first, IoOptions::default()), None, false).expect_err("it may be needed");
    assert!(refused.to_string().contains("nothing was written") && refused.to_string().contains("--force"), "{refused}");
    assert!(start_of() == before, "something was written");
}

#[test]
fn sweeps_obey_on_all_lanes() {
    let mut tank = Tank::make("5", 3, 0, LogChoice::None);
    let running = tank.open(3);
    running.settle();
    running.heard();
    let array = &running.array;
    array.set_speed(None, Some(2048), None).expect("it has sweeps");
    array.scrub(false, 0).expect("nothing runs");
    assert!(array.scrub(false, 0).is_err_and(|error| error.to_string().contains("scrub refused: scrub runs (")));
    array.pause(true).expect("it has sweeps");
    let sweeps = || array.report().expect("it runs").status.sweep;
    let end = Instant::now() + Duration::from_secs(20);
    while sweeps().is_some() {
        assert!(Instant::now() < end, "it stands still");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(array.scrub(false, 0).is_err_and(|error| error.to_string().contains("paused")));
    array.pause(false).expect("it has sweeps");
    let end = Instant::now() + Duration::from_secs(20);
    while sweeps().is_none() {
        assert!(Instant::now() < end, "it goes on: {:?}", running.heard());
        std::thread::sleep(Duration::from_millis(1));
    }
    array.cancel_scrub().expect("it has sweeps");
    running.settle();
    array.set_speed(None, Some(u64::MAX), None).expect("it has sweeps");
    let stopped = running.heard().iter().filter(|event| matches!(event, Event::SweepStopped { .. })).count();
    assert_eq!(stopped, 2, "once by the pause, once for good");
    running.scrub();
    array.stop(|_| ()).expect("in good order");
    assert!(array.report().is_err_and(|error| error.to_string().contains("has stopped")));
}

#[test]
fn a_raid_0_stops_before_the_spans_it_writes_to_on_whichever_lane() {
    let mut tank = Tank::make("50", 6, 0, LogChoice::None);
    for lanes in [3, 2, 3] {
        let running = tank.open(lanes);
        let remote = running.array.remote();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // A command that arrives during a stop is carried out.
            scope.spawn(|| tank.load(&remote, lanes as u64, |_| over.load(Ordering::SeqCst)));
            std::thread::sleep(Duration::from_millis(100));
            over.store(true, Ordering::SeqCst);
        });
        tank.verify(&remote);
        running.array.stop(|_| ()).expect("in good order");
    }
}

/// The kernel continues an array that ran on three lanes, after a stop and after a crash. Stria then reads on two lanes what the
/// kernel wrote.
#[test]
fn the_kernel_takes_over_what_ran_on_three_lanes() {
    if !harness::wanted() {
        return;
    }
    let arrays = [("0", 2, false), ("1", 2, false), ("10", 3, true), ("5", 3, false), ("6", 4, true)];
    let sizes: Vec<u64> = arrays.iter().flat_map(|&(level, count, _)| vec![drive_bytes(level); count]).collect();
    let guest = Guest::new("lanes", &sizes);
    let (mut script, mut next) = (String::new(), 0);
    let mut tanks = Vec::new();
    for (level, count, crash) in arrays {
        let paths = (next..next + count).map(|disk| guest.disk(disk)).collect();
        let disks: String = (next..next + count).map(|disk| format!("$D{disk} ")).collect();
        next += count;
        let mut tank = Tank::on(PathBuf::from(format!("RAID {level}")), paths, level, 0, LogChoice::Auto);
        let running = tank.open(3);
        tank.load(&running.array.remote(), 9, |round| round == 20);
        if !crash {
            running.array.stop(|_| ()).expect("in good order");
        }
        let check = "echo 900000 > /sys/block/md0/md/sync_speed_max; mdadm --wait /dev/md0 || true\n\
             echo check > /sys/block/md0/md/sync_action; mdadm --wait /dev/md0 || true; cat /sys/block/md0/md/mismatch_cnt\n";
        script += &format!(
            "mdadm --quiet --assemble --run /dev/md0 {disks}\n{}\
             dd if=/dev/md0 of=$SHARE/{level} bs=1M status=none; mdadm --quiet --stop /dev/md0\n",
            if level == "0" { "" } else { check }
        );
        drop(running);
        tanks.push((level, tank));
    }
    assert_eq!(guest.run(End::Stop, &script), "0\n0\n0\n0\n", "redundancy agrees for the kernel");
    for (level, tank) in &mut tanks {
        let whole = fs::read(guest.share().join(*level)).expect("the kernel's copy");
        whole.chunks_exact(bytes(UNIT_SECTORS)).enumerate().for_each(|(unit, found)| tank.check(unit, found));
        let running = tank.open(2);
        tank.verify(&running.array.remote());
        running.array.stop(|_| ()).expect("in good order");
    }
}
