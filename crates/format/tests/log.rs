//! Goal: a power cut during a write harms only that write, even if members are lost with it or were lost before.
//! Method: the real engine and metadata on drives in memory. The power is cut after every single sector that reaches a drive.
//! Then every set of members that the level survives is taken away, and the rest is started. Every sector must read as before;
//! sectors of the write may have the new content instead. Appends of several lanes are written by hand.

mod support;

use stria_array::{
    AppendTerms, LaneLog, Level, LogRecord, MemberId, MemberProgress, MetadataWrite, Recorder, StripSector, Synced,
};
use stria_format::md::{BitmapChoice, Candidate, Create, LogChoice, MdLog, MdRecorder, Options};
use stria_parity::crc32c;
use support::running::*;
use support::*;

/// 2 MiB: half of it is metadata and log.
const DRIVE_SECTORS: u64 = 4096;
/// 4 KiB.
const STRIP: u64 = 8;
/// Stripes that are compared.
const STRIPES: u64 = 3;

/// Cuts a write of `sectors` at `start` after every sector, on an array that lacks `missing`.
fn cut_everywhere(level: Level, count: usize, missing: &[usize], writes: &[(u64, u64)]) {
    let mut create = request(level, level.default_layout(), count, 0, DRIVE_SECTORS);
    create.strip_sectors = STRIP;
    let (drives, creation) = carry_out(&create);
    Cuts {
        what: format!("RAID {level} of {count} without {missing:?}: {writes:?}"),
        sectors: STRIPES * STRIP * creation.geometry.data_count() as u64,
        stripes: STRIPES,
        missing,
        losses_max: level.parity_count() - missing.len(),
        writes,
        torn: 0..0,
        from: 0,
    }
    .everywhere(&drives);
}

#[test]
fn one_sector_of_raid_5() {
    cut_everywhere(Level::Raid5, 4, &[], &[(9, 1)]);
}

#[test]
fn one_strip_of_raid_5_that_lacks_a_member() {
    for missing in 0..3 {
        cut_everywhere(Level::Raid5, 3, &[missing], &[(9, 3)]);
    }
}

#[test]
fn two_strips_of_raid_5() {
    cut_everywhere(Level::Raid5, 4, &[], &[(6, 4)]);
}

#[test]
fn a_whole_stripe_of_raid_5_and_then_a_part_of_it() {
    cut_everywhere(Level::Raid5, 3, &[], &[(16, 16), (17, 2)]);
}

#[test]
fn one_sector_of_raid_6() {
    cut_everywhere(Level::Raid6, 5, &[], &[(9, 1)]);
}

#[test]
fn two_strips_of_raid_6_that_lacks_a_member() {
    for missing in [0, 3] {
        cut_everywhere(Level::Raid6, 5, &[missing], &[(6, 4)]);
    }
}

#[test]
fn a_part_after_another_part_of_raid_4() {
    cut_everywhere(Level::Raid4, 4, &[], &[(2, 2), (10, 2)]);
}

#[test]
fn without_a_log_there_is_none() {
    let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
    create.log = LogChoice::None;
    let (drives, _) = carry_out(&create);
    assert!(started(&drives, &Options::default()).config.log.is_none());
}

/// 4 GiB: what md leaves before the data has room for several lanes.
const LARGE_SECTORS: u64 = 8 << 20;

fn raid_5(drive_sectors: u64, change: impl FnOnce(&mut Create)) -> Vec<MemoryDrive> {
    let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, drive_sectors);
    create.bitmap = BitmapChoice::Internal { chunk_bytes: None };
    change(&mut create);
    carry_out(&create).0
}

/// An array of three members, whose logs are begun for so many lanes.
fn begun(lanes: usize) -> (Vec<MemoryDrive>, MdRecorder, stria_array::ArrayState) {
    begun_on(LARGE_SECTORS, lanes)
}

fn begun_on(drive_sectors: u64, lanes: usize) -> (Vec<MemoryDrive>, MdRecorder, stria_array::ArrayState) {
    let mut drives = raid_5(drive_sectors, |_| ());
    let start = started(&drives, &Options::default()).with_lanes(lanes);
    let (state, mut recorder) = (state_of(&start.config, false), start.recorder);
    apply(&mut drives, &recorder.reset_log());
    apply(&mut drives, &recorder.record_state(&state, 1));
    (drives, recorder, state)
}

/// Lanes that know the positions of the logs.
fn lanes(count: usize, recorder: &MdRecorder) -> Vec<MdLog> {
    let mut lanes: Vec<MdLog> = (0..count).map(|_| MdLog::default()).collect();
    tell(&mut lanes, recorder);
    lanes
}

fn tell(lanes: &mut [MdLog], recorder: &MdRecorder) {
    lanes.iter_mut().enumerate().for_each(|(lane, log)| log.set_layout(lane, recorder.log_layout()));
}

/// A record of a lane's stripe.
fn append(log: &mut MdLog, member: usize, stripe: u64, number: u64, retired_below: u64) -> MetadataWrite {
    let record = LogRecord {
        number,
        stripe,
        rows: StripSector::span(0..1),
        written: 0..2,
        parity: 0,
        partial: None,
        new_data: Default::default(),
        new_data_is_zeros: false,
    };
    let terms = AppendTerms { retired_below, free_below: 0, unsure_count: 0 };
    log.append(MemberId(member), &[record], terms).expect("there is room")
}

/// Stripes and numbers of records.
fn replayed(drives: &[MemoryDrive]) -> Vec<(u64, u64)> {
    started(drives, &Options::default()).config.replay.iter().map(|record| (record.stripe, record.number)).collect()
}

#[test]
fn what_is_retired_on_one_lane_says_nothing_of_another() {
    let (mut drives, mut recorder, state) = begun(3);
    let mut lanes = lanes(3, &recorder);
    for number in 1..5 {
        let write = append(&mut lanes[0], 0, 0, number, number);
        apply(&mut drives, &[write]);
    }
    let kept = [append(&mut lanes[2], 1, 2, 1, 1), append(&mut lanes[2], 2, 2, 2, 1)];
    apply(&mut drives, &kept);
    assert_eq!(replayed(&drives), [(0, 4), (2, 1), (2, 2)]);

    // Another member joins: the logs of the others go on.
    let adopt = stria_format::md::recorder::Adopt {
        name: "new".into(),
        size_sectors: drives[0].size_sectors,
        logical_block_bytes: 512,
        device_uuid: [9; 16],
    };
    recorder.adopt(MemberId(3), &adopt).expect("large enough");
    tell(&mut lanes, &recorder);
    let kept = [append(&mut lanes[2], 1, 2, 3, 1), append(&mut lanes[0], 1, 0, 5, 4)];
    apply(&mut drives, &kept);
    assert_eq!(replayed(&drives), [(0, 4), (0, 5), (2, 1), (2, 3), (2, 2)]);
    // Another session begins without records of this one.
    apply(&mut drives, &recorder.reset_log());
    tell(&mut lanes, &recorder);
    apply(&mut drives, &recorder.record_state(&state, 2));
    let kept = [append(&mut lanes[2], 1, 2, 1, 1)];
    apply(&mut drives, &kept);
    assert_eq!(replayed(&drives), [(2, 1)]);
    // And so does another run, on any number of lanes.
    let mut recorder = started(&drives, &Options::default()).with_lanes(2).recorder;
    apply(&mut drives, &recorder.reset_log());
    assert_eq!(replayed(&drives), []);
}

/// From the superblock update that ends the first resync on, log records count. A crash may tear this update.
#[test]
fn records_count_for_all_members_once_one_superblock_says_so() {
    let mut drives = raid_5(LARGE_SECTORS, |create| create.assume_clean = false);
    let start = started(&drives, &Options::default());
    let (mut state, mut recorder) = (state_of(&start.config, false), start.recorder);
    apply(&mut drives, &recorder.reset_log());
    apply(&mut drives, &recorder.record_state(&state, 1));
    let mut lane = lanes(1, &recorder).remove(0);
    let records = [append(&mut lane, 1, 0, 1, 1), append(&mut lane, 2, 0, 1, 1)];
    apply(&mut drives, &records);
    assert_eq!(replayed(&drives), [], "redundancy is not complete yet");

    state.synced = Synced::All;
    let update = recorder.record_state(&state, 2);
    for arrived in 1..=update.len() {
        let mut torn = drives.clone();
        apply(&mut torn, &update[..arrived]);
        assert_eq!(replayed(&torn), [(0, 1), (0, 1)], "{arrived} superblocks of {}", update.len());
    }
}

/// R59, R79: one error on the superblock of a member that must stay costs no record, although that superblock says "clean" for
/// ever. The update may be the first of the session, or the array was clean in between.
#[test]
fn records_count_on_a_member_that_missed_the_update_of_their_session() {
    for (late, is_first) in [(0, false), (0, true), (1, false), (1, true)] {
        let mut drives = without(&raid_5(LARGE_SECTORS, |_| ()), &[2]);
        let start = started(&drives, &Options::default());
        let (mut state, mut recorder) = (state_of(&start.config, true), start.recorder);
        loop {
            let writes = recorder.rewrite_last_update();
            if writes.is_empty() {
                break;
            }
            apply(&mut drives, &writes);
        }
        apply(&mut drives, &recorder.record_state(&state, 1));
        apply(&mut drives, &recorder.reset_log());
        for clean in [false, true].into_iter().filter(|_| !is_first) {
            state.clean = clean;
            apply(&mut drives, &recorder.record_state(&state, 1));
        }
        state.clean = false;
        let update = recorder.record_state(&state, 2);
        apply(&mut drives, &update.into_iter().filter(|write| write.member != MemberId(late)).collect::<Vec<_>>());
        recorder.write_failed(MemberId(late));
        let what = format!("member {late} missed the update, the first of its session: {is_first}");
        assert_eq!(started(&drives, &Options::default()).config.synced, Synced::All, "{what}");
        let mut lane = lanes(1, &recorder).remove(0);
        let records = [append(&mut lane, 0, 0, 1, 1), append(&mut lane, 1, 0, 1, 1)];
        apply(&mut drives, &records);
        let start = started(&drives, &Options::default());
        assert_eq!(start.config.replay.len(), 2, "{what}");
        assert!(start.warnings.is_empty(), "{:?}", start.warnings);
    }
}

#[test]
fn a_lane_whose_records_a_drive_lost_takes_no_others_along() {
    let (mut drives, recorder, _) = begun(2);
    let mut lanes = lanes(2, &recorder);
    let writes = [1, 2, 3].map(|number| append(&mut lanes[0], 0, 0, number, 1));
    apply(&mut drives, &writes);
    let kept = [append(&mut lanes[1], 0, 1, 1, 1), append(&mut lanes[0], 1, 0, 3, 1)];
    apply(&mut drives, &kept);
    assert_eq!(replayed(&drives), [(0, 1), (0, 2), (0, 3), (0, 3), (1, 1)]);
    drives[0].write(writes[1].start_sector.get(), &[0; 512]);
    assert_eq!(replayed(&drives), [(1, 1)]);
    assert_eq!(started(&drives, &Options::default()).config.synced, Synced::up_to(0));
    let sentence = refused(&without(&drives, &[2]), &Options::default());
    assert!(sentence.contains("not stopped cleanly, and the log on drive0 is damaged"), "{sentence}");
}

/// Regression: one unreadable sector in one member's log voided the records of all members, without a word.
#[test]
fn a_log_that_cannot_be_read_takes_no_other_along() {
    let (mut drives, recorder, _) = begun(2);
    let mut lanes = lanes(2, &recorder);
    let first = append(&mut lanes[1], 0, 1, 1, 1).start_sector.get();
    let kept = [append(&mut lanes[0], 2, 0, 1, 1), append(&mut lanes[0], 0, 3, 2, 1), append(&mut lanes[1], 2, 4, 2, 1)];
    apply(&mut drives, &kept);
    assert_eq!(replayed(&drives), [(3, 2), (0, 1), (4, 2)]);
    let head = recorder.superblock().header.data_offset / 8 * 8 - 8;
    // The head; then a sector of the second lane's part.
    for (sector, left) in [(head, &[(0, 1), (4, 2)][..]), (first, &[(0, 1), (3, 2), (4, 2)])] {
        let mut drives = drives.clone();
        drives[0].bad.insert(sector);
        let start = started(&drives, &Options::default());
        let records: Vec<_> = start.config.replay.iter().map(|record| (record.stripe, record.number)).collect();
        assert_eq!((&records[..], &start.config.lost_logs[..]), (left, &[MemberId(0)][..]), "sector {sector}");
        assert_eq!(start.config.synced, Synced::up_to(0), "what no log names is resynced");
        assert!(start.warnings[0].to_string().contains("the write log of drive0 cannot be read"), "{:?}", start.warnings);
        let sentence = refused(&without(&drives, &[1]), &Options::default());
        assert!(sentence.contains("not stopped cleanly"), "{sentence}");
        // After a superblock update records may have been replayed, so it stays lost for a start that can read it.
        let mut writer = start.recorder.clone();
        apply(&mut drives, &writer.record_state(&state_of(&start.config, false), 1));
        drives[0].bad.clear();
        let again = started(&drives, &Options::default());
        assert_eq!(again.config.lost_logs, [MemberId(0)], "sector {sector}");
        let counts = |number: &(u64, u64)| again.config.replay.iter().any(|record| (record.stripe, record.number) == *number);
        assert!(left.iter().all(counts), "sector {sector}");
        // A new session ends it.
        apply(&mut drives, &writer.reset_log());
        apply(&mut drives, &writer.record_state(&state_of(&start.config, false), 1));
        assert!(started(&drives, &Options::default()).config.lost_logs.is_empty(), "sector {sector}");
    }
}

/// Regression, found by the fuzzer: a head that says both "could not be read" and "off" switched the logs of all members off, but
/// voided no records. The degraded array started, was stopped in its resync, and did not start again.
#[test]
fn a_lost_log_does_not_switch_the_others_off() {
    let (mut drives, recorder, _) = begun(2);
    apply(&mut drives, &[append(&mut lanes(2, &recorder)[0], 2, 0, 1, 1)]);
    let head = recorder.superblock().header.data_offset / 8 * 8 - 8;
    for (flags, keeps_log, is_lost) in [(0, true, false), (1, false, false), (2, true, true), (3, true, true)] {
        let mut drives = drives.clone();
        let mut page = drives[0].read(head, 8).expect("sound");
        page[0x48] = flags;
        page[0x0c..0x10].fill(0);
        let crc = crc32c(&page);
        page[0x0c..0x10].copy_from_slice(&crc.to_le_bytes());
        drives[0].write(head, &page);
        let config = started(&drives, &Options::default()).config;
        assert_eq!((config.log.is_some(), !config.lost_logs.is_empty()), (keeps_log, is_lost), "flags {flags}");
        assert_eq!(config.replay.len(), usize::from(keeps_log), "flags {flags}");
    }
}

/// As long as a stripe has a parity whose member's log can be read, a crash harms nothing that was not being written, and the
/// next members that are lost harm nothing.
#[test]
fn a_lost_log_counts_as_much_as_a_lost_member() {
    for missing in [None, Some(0), Some(3)] {
        let (level, count, sectors) = (Level::Raid6, 5, STRIPES * STRIP * 3);
        let mut create = request(level, level.default_layout(), count, 0, DRIVE_SECTORS);
        create.strip_sectors = STRIP;
        let mut array = Running::start(&carry_out(&create).0, u64::MAX, false);
        array.write(0, &pattern(0, sectors, 1));
        let drives = without(&array.stop(), missing.as_slice());
        let written = |left: u64| {
            let mut array = Running::start(&drives, left, false);
            array.write(6, &pattern(6, 4, 2));
            array.write(30, &pattern(30, 2, 2));
            array
        };
        let total = u64::MAX - written(u64::MAX).left.get();
        for cut in (5..=total).step_by(13) {
            let crashed = written(cut).drives();
            for lost in 0..crashed.len() {
                let head = crashed[lost].candidate().found.expect("a member").superblock.header.data_offset / 8 * 8 - 8;
                let mut crashed = crashed.clone();
                crashed[lost].bad.insert(head);
                let mut array = Running::start(&crashed, u64::MAX, false);
                let first = array.read_all(sectors);
                let replayed = array.drives();
                // Where there was nothing to replay no session has begun, and the log still counts as lost.
                let still_lost = usize::from(!replayed[lost].bad.is_empty());
                let most = 2 - still_lost - usize::from(missing.is_some());
                for later in losses(replayed.len(), most).into_iter().filter(|later| later.len() == most) {
                    let found = Running::start(&without(&replayed, &later), 0, true).read_all(sectors);
                    let place =
                        format!("without {missing:?}, cut after {cut} of {total} sectors, log {lost} lost, then {later:?}");
                    for (sector, (found, first)) in (0..sectors).zip(found.chunks(512).zip(first.chunks(512))) {
                        let in_flight = (6..10).contains(&sector) || (30..32).contains(&sector);
                        let good = found == pattern(sector, 1, 1) || in_flight && found == pattern(sector, 1, 2);
                        assert!(good && found == first, "{place}: sector {sector}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_member_that_returns_within_a_session_begins_a_new_incarnation_on_every_lane() {
    let (mut drives, mut recorder, mut state) = begun(2);
    let mut lanes = lanes(2, &recorder);
    for number in 1..4 {
        let kept = [append(&mut lanes[0], 1, 0, number, 1), append(&mut lanes[1], 1, 1, number, 1)];
        apply(&mut drives, &kept);
    }
    state.slots[1].member = None;
    state.optimal = false;
    state.failed.push((MemberId(1), Some(1)));
    for _ in 0..2 {
        apply(&mut drives, &recorder.record_state(&state, 2));
    }
    let told = |candidate: Candidate| {
        let log = candidate.found.expect("a member").log.expect("it has a log");
        let numbers = |records: &[LogRecord]| records.iter().map(|record| record.number).collect();
        log.parts.iter().map(|part| (part.damaged, numbers(&part.records))).collect::<Vec<(bool, Vec<u64>)>>()
    };
    assert_eq!(told(drives[1].candidate()), [(false, vec![1, 2, 3]), (false, vec![1, 2, 3])]);

    let mut cramped = drives[1].candidate();
    cramped.found.as_mut().expect("a member").superblock.header.data_offset = 1024;
    let refusal = recorder.take_back(MemberId(3), &cramped).expect_err("its ring has no two parts").to_string();
    assert!(refusal.contains("too little space before its data"), "{refusal}");

    recorder.take_back(MemberId(3), &drives[1].candidate()).expect("by the bitmap");
    tell(&mut lanes, &recorder);
    state.slots[1].member = Some(MemberProgress { member: MemberId(3), recovered: Synced::up_to(0), by_bitmap: true });
    let mut kept = vec![append(&mut lanes[1], 3, 1, 4, 4)];
    kept.extend(recorder.record_state(&state, 3));
    kept.push(append(&mut lanes[1], 3, 1, 5, 4));
    for write in &mut kept {
        write.member.0 %= 2 + usize::from(write.member.0 == 2);
    }
    apply(&mut drives, &kept);
    assert_eq!(told(drives[1].candidate()), [(false, vec![]), (false, vec![4, 5])]);
}

#[test]
fn lanes_share_the_room_that_md_leaves() {
    let start = |drives: &[MemoryDrive]| started(drives, &Options::default());
    let lanes_max = |drives: &[MemoryDrive]| start(drives).recorder.lanes_max();
    assert_eq!(lanes_max(&raid_5(DRIVE_SECTORS, |_| ())), 1);
    assert_eq!(lanes_max(&raid_5(LARGE_SECTORS, |create| create.log = LogChoice::None)), usize::MAX);
    assert_eq!(lanes_max(&raid_5(LARGE_SECTORS, |create| create.checksums = true)), 1);
    assert_eq!(lanes_max(&created(Level::Raid1, 2, 0)), usize::MAX);
    let drives = raid_5(LARGE_SECTORS, |_| ());
    let most = lanes_max(&drives);
    let append_max = |lanes| start(&drives).with_lanes(lanes).config.log.expect("it has one").append_sectors_max;
    let header = start(&drives).recorder.superblock().header.clone();
    assert!(most > 2 && most as u64 * 1064 < header.data_offset, "{most} lanes before sector {}", header.data_offset);
    assert!(append_max(1) >= append_max(2) && append_max(2) > append_max(most));
    assert_eq!(append_max(most), LogRecord::APPEND_SECTORS_MIN);
}

#[test]
fn an_array_that_ran_on_many_lanes_is_replayed_on_one() {
    let drives = raid_5(LARGE_SECTORS, |_| ());
    let sectors = 2 * 128;
    let written = |left: u64| {
        let start = started(&drives, &Options::default());
        let most = start.recorder.lanes_max();
        let mut array = Running::of(start.with_lanes(most), &drives, left);
        array.write(0, &pattern(0, sectors, 1));
        let before = u64::MAX - array.left.get();
        array.write(9, &pattern(9, 130, 2));
        (array, before)
    };
    let (array, before) = written(u64::MAX);
    let total = u64::MAX - array.left.get();
    for cut in (before..=total).step_by(7) {
        let crashed = written(cut).0.drives();
        for lost in losses(3, 1) {
            let found = Running::start(&without(&crashed, &lost), 0, true).read_all(sectors);
            for (sector, found) in (0..sectors).zip(found.chunks(512)) {
                let good = found == pattern(sector, 1, 1) || (9..139).contains(&sector) && found == pattern(sector, 1, 2);
                assert!(good, "cut after {cut} of {total} sectors, {lost:?} lost: sector {sector} is neither old nor new");
            }
        }
    }
}

#[test]
fn a_log_of_a_later_version_is_refused_while_it_counts() {
    let (mut drives, mut recorder, mut state) = begun(2);
    let head = recorder.superblock().header.data_offset / 8 * 8 - 8;
    let mut page = drives[1].read(head, 8).expect("sound");
    page[8] += 1;
    page[0x0c..0x10].fill(0);
    let crc = crc32c(&page);
    page[0x0c..0x10].copy_from_slice(&crc.to_le_bytes());
    drives[1].write(head, &page);
    let sentence = refused(&drives, &Options::default());
    assert!(sentence.contains("drive1 is of version 3"), "{sentence}");
    state.clean = true;
    apply(&mut drives, &recorder.record_state(&state, 2));
    started(&drives, &Options::default());
}

/// Fills the logs of these members with records of so many sectors of each strip.
fn fill(drives: &mut [MemoryDrive], lanes: &mut [MdLog], members: std::ops::Range<usize>, appends_max: u64, sectors: u64) {
    for member in members {
        for log in &mut *lanes {
            for append in 0..appends_max {
                let records: Vec<LogRecord> = (1..=LogRecord::APPEND_COUNT_MAX as u64)
                    .map(|index| LogRecord {
                        number: append * LogRecord::APPEND_COUNT_MAX as u64 + index,
                        stripe: 0,
                        rows: StripSector::span(0..sectors),
                        written: 0..2,
                        parity: 0,
                        partial: None,
                        new_data: Default::default(),
                        new_data_is_zeros: true,
                    })
                    .collect();
                let terms = AppendTerms { retired_below: 0, free_below: 0, unsure_count: 0 };
                let Some(write) = log.append(MemberId(member), &records, terms) else { break };
                apply(drives, &[write]);
            }
        }
    }
}

/// Regression: such logs took many times their size in memory, and the records of one page could cover all sectors of an array.
#[test]
fn a_log_that_asks_for_more_than_any_run_leaves_is_refused_unless_forced() {
    /// 1 TiB: there is space for the largest logs.
    const HUGE_SECTORS: u64 = 1 << 31;
    let strip = started(&begun_on(HUGE_SECTORS, 1).0, &Options::default()).config.geometry.strip_sectors();
    // A record of new zeros covers a strip of parity and two of data.
    let enough = (4 << 30) / (62 * 3 * 512 * strip);
    for (lane_count, members, appends_max, sectors, excess) in [
        (1, 0..3, enough / 3, strip, None),
        (1, 0..3, enough / 3 + 1, strip, Some("MiB to be replayed")),
        (3, 0..2, 2048, 1, None),
        (3, 0..3, 2048, 1, Some("records, and ")),
        (64, 0..1, 2048, 1, Some("more than 1048576 records")),
    ] {
        let (mut drives, recorder, _) = begun_on(HUGE_SECTORS, lane_count);
        let mut lanes = lanes(lane_count, &recorder);
        fill(&mut drives, &mut lanes, members.clone(), appends_max, sectors);
        let outcome = |force| assembled(&drives, &Options { force, ..Options::default() }).outcome;
        match (excess, outcome(false)) {
            (None, Ok(start)) => assert!(start.config.replay.len() > 20_000, "{}", start.config.replay.len()),
            (Some(excess), Err(error)) => {
                assert!(error.reason.to_string().contains(excess) && error.reason.to_string().contains("--force"), "{error}");
                let start = outcome(true).expect("it starts when asked to");
                assert!(
                    start.config.replay.is_empty() && start.warnings.iter().any(|warning| warning.to_string().contains(excess))
                );
                assert_eq!(start.config.synced, Synced::up_to(0), "parity is made consistent");
            }
            (excess, outcome) => panic!("{excess:?}: {:?}", outcome.map(|start| start.config.replay.len())),
        }
    }
}
