//! Goal: create, assemble and the recorder read and write consistent metadata, and every fault of drives has its sentence.
//! Method: complete lives of arrays on drives in memory; no I/O.

mod support;

use stria_array::{ArrayState, Layout, Level, MemberId, MemberProgress, MetadataWrite, Recorder, SlotState, Synced};
use stria_format::detect::unknown;
use stria_format::md::recorder::{Adopt, Unreturnable};
use stria_format::md::{BitmapChoice, Create, Options, Role, Start, Superblock, Verdict, assemble};
use support::*;

const NOW: u64 = 1_700_000_100;

fn forced() -> Options {
    Options { force: true, ..Options::default() }
}

/// Members that missed the last update get it, and all get it again where a slot is empty.
fn complete_last_update(drives: &mut [MemoryDrive], start: &mut Start) {
    loop {
        let writes = start.recorder.rewrite_last_update();
        if writes.is_empty() {
            return;
        }
        apply(drives, &writes);
    }
}

#[test]
fn created_arrays_assemble_to_what_was_asked_for() {
    for (level, layout) in Layout::of_all_levels() {
        for count in 4..8 {
            let spares = usize::from(level.is_redundant());
            let create = request(level, layout, count, spares, DRIVE_SECTORS);
            let (mut drives, creation) = carry_out(&create);
            drives.reverse();
            let start = started(&drives, &Options::default());
            assert_eq!(start.config.geometry, creation.geometry, "{level} {layout}");
            assert_eq!(start.config.name, "host:tank");
            assert_eq!(holders(&start), (0..count).map(|slot| Some(count + spares - 1 - slot)).collect::<Vec<_>>());
            assert_eq!((start.config.spares.len(), start.config.synced), (spares, Synced::All));
            assert_eq!(start.config.intent.is_some(), level.is_redundant());
            assert!(start.config.intent.is_none_or(|intent| intent.dirty.is_empty()), "the members are said to agree");
        }
    }
}

#[test]
fn new_array_without_assume_clean_is_resynced_everywhere() {
    let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
    create.assume_clean = false;
    let (drives, creation) = carry_out(&create);
    let config = started(&drives, &Options::default()).config;
    let intent = config.intent.expect("a bitmap was asked for");
    assert_eq!(config.synced, Synced::up_to(0));
    assert_eq!(intent.dirty.len() as u64, creation.geometry.sync_sectors().div_ceil(intent.chunk_sectors));
}

#[test]
fn recorded_state_is_found_again() {
    let mut drives = created(Level::Raid6, 5, 2);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, true);
    // Drive 5 rebuilds slot 1, drive 6 is to replace slot 3, and a resync stands at 4096.
    state.slots[1].member = Some(MemberProgress { member: MemberId(5), recovered: Synced::up_to(2048), by_bitmap: false });
    state.slots[3].replacement = Some(MemberProgress { member: MemberId(6), recovered: Synced::up_to(1024), by_bitmap: false });
    state.spares.clear();
    state.failed.push((MemberId(1), Some(1)));
    state.optimal = false;
    apply(&mut drives, &start.recorder.record_state(&state, NOW));

    let assembly = assembled(&drives, &Options::default());
    let verdicts: Vec<_> = assembly.drives.iter().map(|drive| drive.verdict.clone()).collect();
    assert_eq!(verdicts[5], Verdict::Rebuilding { slot: 1, recovered: Synced::up_to(2048), by_bitmap: false });
    assert_eq!(verdicts[6], Verdict::Replacement { slot: 3, recovered: Synced::up_to(1024) });
    let left = Verdict::Away { slot: Some(1), events_behind: 1, obstacle: None };
    assert_eq!(verdicts[1], left, "one behind, and failed in the record that it missed");
    let start = assembly.outcome.expect("degraded but clean");
    assert_eq!(start.drives, vec![0, 2, 3, 4, 5, 6], "handles have no gaps");
    let mut again = state_of(&start.config, true);
    for place in again.slots.iter_mut().flat_map(|slot| [&mut slot.member, &mut slot.replacement]).flatten() {
        place.member = MemberId(start.drives[place.member.0]);
    }
    again.failed = state.failed.clone();
    assert_eq!(again, state);
}

#[test]
fn every_crash_within_a_superblock_update_leaves_an_array_that_starts_with_all_its_members() {
    for level in [Level::Raid1, Level::Raid5, Level::Raid10] {
        let mut drives = created(level, 4, 0);
        let mut start = started(&drives, &Options::default());
        let mut state = state_of(&start.config, false);
        apply(&mut drives, &start.recorder.record_state(&state, NOW));
        state.clean = true;
        let writes = start.recorder.record_state(&state, NOW + 1);
        for lost in 0..1_u32 << writes.len().min(8) {
            let mut crashed = drives.clone();
            for (index, write) in writes.iter().enumerate().filter(|(index, _)| lost >> index & 1 == 0) {
                apply(&mut crashed, std::slice::from_ref(write));
                let _ = index;
            }
            let start = started(&crashed, &Options::default());
            assert_eq!(holders(&start), (0..4).map(Some).collect::<Vec<_>>(), "{level}, lost writes {lost:b}");
        }
    }
}

#[test]
fn write_intent_survives_a_crash_and_only_it_is_resynced() {
    let mut drives = created(Level::Raid5, 4, 0);
    let mut start = started(&drives, &Options::default());
    apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, false), NOW));
    apply(&mut drives, &start.recorder.record_intent(&[3, 700, 701], &[]));
    apply(&mut drives, &start.recorder.record_intent(&[9], &[700]));
    let config = started(&drives, &Options::default()).config;
    assert_eq!((config.synced, config.intent.expect("bitmap").dirty), (Synced::up_to(0), vec![3, 9, 701]));
}

/// A RAID 5 of four that was dirty once, and whose drive 1 then fails; its bits stay set.
fn with_one_away() -> (Vec<MemoryDrive>, stria_format::md::Start, ArrayState) {
    let mut drives = created(Level::Raid5, 4, 1);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, false);
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    let away = drives[1].clone();
    state.slots[1].member = None;
    state.failed.push((MemberId(1), Some(1)));
    state.optimal = false;
    apply(&mut drives, &start.recorder.record_state(&state, NOW + 1));
    apply(&mut drives, &start.recorder.record_intent(&[5, 6], &[]));
    apply(&mut drives, &start.recorder.record_intent(&[], &[5]));
    state.clean = true;
    apply(&mut drives, &start.recorder.record_state(&state, NOW + 2));
    drives[1] = away;
    (drives, start, state)
}

#[test]
fn member_that_was_away_stays_out_and_returns_by_the_bitmap() {
    let (drives, mut start, _) = with_one_away();
    let assembly = assembled(&drives, &Options::default());
    assert_eq!(assembly.drives[1].verdict, Verdict::Away { slot: Some(1), events_behind: 2, obstacle: None });
    assert_eq!(assembly.missing_slots, vec![1]);
    let config = assembly.outcome.expect("one may be missing").config;
    assert_eq!(config.intent.expect("bitmap").dirty, vec![5, 6], "cleared bits are kept for who is away");

    let start_again = started(&drives, &Options { take_back: true, ..Options::default() });
    assert_eq!(holders(&start_again)[1], Some(1));
    let config = start_again.config;
    let back = config.slots[1].member.as_ref().expect("taken back");
    assert_eq!((back.id, back.by_bitmap, back.recovered), (MemberId(1), true, Synced::up_to(0)));

    let (slot, back) = start.recorder.take_back(MemberId(7), &drives[1].candidate()).expect("the running array takes it too");
    assert_eq!((slot, back.by_bitmap), (1, true));
}

/// Features that a member requires do not concern the others, which ran without it.
#[test]
fn bitmap_of_another_kind_on_a_member_that_was_away_stops_nobody() {
    for (version, word) in [(1, "version 1"), (5, "cluster"), (6, "lockless")] {
        let (mut drives, ..) = with_one_away();
        let mut header = drives[1].read(16, 1).expect("sound");
        header[4] = version;
        drives[1].write(16, &header);
        for take_back in [false, true] {
            let assembly = assembled(&drives, &Options { take_back, ..Options::default() });
            assert!(matches!(&assembly.drives[1].verdict, Verdict::Unusable { reason } if reason.to_string().contains(word)));
            assert_eq!(holders(&assembly.outcome.expect("one may be missing"))[1], None);
        }
    }
}

#[test]
fn member_that_was_away_too_long_may_not_return_by_the_bitmap() {
    let (mut drives, mut start, mut state) = with_one_away();
    // The spare takes the slot. The array is optimal again and clears its bits.
    state.slots[1].member = Some(MemberProgress { member: MemberId(4), recovered: Synced::All, by_bitmap: false });
    state.spares.clear();
    state.optimal = true;
    let away = drives[1].clone();
    apply(&mut drives, &start.recorder.record_state(&state, NOW + 3));
    apply(&mut drives, &start.recorder.record_intent(&[], &[5, 6]));
    state.slots[1].member = None;
    state.optimal = false;
    state.failed.push((MemberId(4), Some(1)));
    apply(&mut drives, &start.recorder.record_state(&state, NOW + 4));
    drives[1] = away;
    let assembly = assembled(&drives, &Options { take_back: true, ..Options::default() });
    let Verdict::Away { obstacle: Some(obstacle), .. } = &assembly.drives[1].verdict else { panic!("{:?}", assembly.drives[1]) };
    assert!(matches!(obstacle, Unreturnable::LeftTooEarly { .. }), "{obstacle}");
    let start = assembly.outcome.expect("degraded");
    assert_eq!(holders(&start)[1], Some(4), "who held the slot last is taken back");
}

#[test]
fn bits_that_a_start_drops_make_a_returning_member_be_rebuilt_completely() {
    let (mut drives, mut start, mut state) = with_one_away();
    // The spare is filled, and the run ends before the bits are cleared.
    state.slots[1].member = Some(MemberProgress { member: MemberId(4), recovered: Synced::All, by_bitmap: false });
    state.spares.clear();
    apply(&mut drives, &start.recorder.record_state(&state, NOW + 3));
    let away = drives.remove(1);
    let mut start = started(&drives, &Options::default());
    assert_eq!(start.config.intent.as_ref().expect("bitmap").dirty, [], "a whole array that was stopped needs none");
    // It fails again.
    let mut state = state_of(&start.config, false);
    let holder = state.slots[1].member.take().expect("the spare").member;
    state.failed.push((holder, Some(1)));
    state.optimal = false;
    apply(&mut drives, &start.recorder.record_state(&state, NOW + 4));
    drives.remove(holder.0);
    drives.push(away);
    let assembly = assembled(&drives, &Options { take_back: true, ..Options::default() });
    let Verdict::Away { obstacle: Some(obstacle), .. } = &assembly.drives[3].verdict else { panic!("{:?}", assembly.drives[3]) };
    assert!(matches!(obstacle, Unreturnable::LeftTooEarly { .. }), "{obstacle}");
}

#[test]
fn a_finished_copy_may_be_all_that_is_left() {
    let mut drives = created(Level::Raid1, 2, 1);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, false);
    state.slots[1].replacement = Some(MemberProgress { member: MemberId(2), recovered: Synced::All, by_bitmap: false });
    state.spares.clear();
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    apply(&mut drives, &start.recorder.record_intent(&[3], &[]));
    let start = started(&drives[2..], &Options::default());
    assert_eq!(holders(&start), [None, Some(0)]);
    assert_eq!(start.config.intent.expect("bitmap").dirty, [3], "its own bitmap tells");
}

#[test]
fn degraded_array_that_was_not_stopped_is_refused_without_force() {
    for (level, refuse) in
        [(Level::Raid4, true), (Level::Raid5, true), (Level::Raid6, true), (Level::Raid1, false), (Level::Raid10, false)]
    {
        let mut drives = created(level, 4, 0);
        let mut start = started(&drives, &Options::default());
        apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, false), NOW));
        drives.remove(2);
        if refuse {
            let sentence = refused(&drives, &Options::default());
            assert!(
                sentence.contains("not stopped cleanly") && sentence.contains("1 of 4 members is missing or incomplete (slot 2)"),
                "{sentence}"
            );
            let start = started(&drives, &forced());
            assert_eq!((start.config.synced, start.warnings.len()), (Synced::All, 1));
            assert_eq!(start.config.suspects_parity, level == Level::Raid6, "P decides, and Q must follow");
        } else {
            assert_eq!(started(&drives, &Options::default()).config.synced, Synced::up_to(0));
        }
    }
}

/// Q would stay what the drives held, as nothing is left to compare it with.
#[test]
fn a_raid_6_that_is_made_without_a_member_rebuilds_another_one() {
    for gone in [0, 1, 4] {
        let mut create = request(Level::Raid6, Level::Raid6.default_layout(), 5, 0, DRIVE_SECTORS);
        (create.members[gone], create.assume_clean) = (None, false);
        let mut drives = carry_out(&create).0;
        drives.remove(gone);
        let start = started(&drives, &Options::default());
        assert_eq!((start.config.synced, start.config.suspects_parity), (Synced::All, false));
        let filled: Vec<_> =
            start.config.slots.iter().map(|slot| slot.member.as_ref().map(|member| member.recovered == Synced::All)).collect();
        let rebuilt = if gone == 4 { 3 } else { 4 };
        let expected: Vec<_> = (0..5).map(|slot| (slot != gone).then_some(slot != rebuilt)).collect();
        assert_eq!(filled, expected);
    }
}

#[test]
fn too_few_members_are_named_with_their_slots() {
    let mut drives = created(Level::Raid6, 6, 0);
    drives.drain(1..4);
    let sentence = refused(&drives, &Options::default());
    assert_eq!(
        sentence,
        "cannot start array \"host:tank\": 3 of 6 members are missing or incomplete (slots 1, 2, 3), and the array survives the loss of 2; attach them"
    );
    let mut drives = created(Level::Raid0, 3, 0);
    drives.remove(0);
    assert!(refused(&drives, &forced()).contains("1 of 3 members is missing or incomplete (slot 0)"));
}

#[test]
fn mirrored_pairs_lose_one_of_each_but_not_both() {
    let drives = created(Level::Raid10, 4, 0);
    let without = |gone: &[usize]| -> Vec<_> { (0..4).filter(|i| !gone.contains(i)).map(|i| drives[i].clone()).collect() };
    started(&without(&[0, 2]), &Options::default());
    assert!(refused(&without(&[0, 1]), &Options::default()).contains("slots 0, 1"));
}

#[test]
fn stale_members_are_taken_with_force_only_and_only_as_many_as_needed() {
    let mut drives = created(Level::Raid5, 4, 0);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, true);
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    let before = drives.clone();
    for slot in [3, 2] {
        state.slots[slot].member = None;
        state.optimal = false;
        for _ in 0..2 {
            apply(&mut drives, &start.recorder.record_state(&state, NOW));
        }
        drives[slot] = before[slot].clone();
    }
    let sentence = refused(&drives, &Options::default());
    assert!(sentence.contains("drive3 (slot 3) missed 4 superblock updates"), "{sentence}");
    // One is enough.
    assert!(sentence.ends_with("start with drive2 as it is by --force, which loses what was written without it"), "{sentence}");
    let start = started(&drives, &forced());
    assert_eq!(holders(&start).iter().flatten().count(), 3, "one is enough");
    assert!(start.warnings[0].to_string().contains("data that was written meanwhile is lost"));
}

/// R57: one superblock write to a member that must stay fails, and later the power is cut within the next update, wherever.
#[test]
fn a_member_that_missed_an_update_gets_it_before_the_next() {
    for late in 0..2 {
        let mut drives = created(Level::Raid5, 3, 0);
        drives.pop();
        let mut start = started(&drives, &Options::default());
        complete_last_update(&mut drives, &mut start);
        let (state, mut recorder) = (state_of(&start.config, true), start.recorder);
        apply(&mut drives, &recorder.record_state(&state, NOW));
        let update = recorder.record_state(&state, NOW);
        apply(&mut drives, &update.into_iter().filter(|write| write.member != MemberId(late)).collect::<Vec<_>>());
        recorder.write_failed(MemberId(late));
        let starts = |drives: &[MemoryDrive], what: &str| {
            assert_eq!(holders(&started(drives, &Options::default())), [Some(0), Some(1), None], "{what}, member {late}");
        };
        starts(&drives, "before the next update");
        let events = recorder.description().events;
        let mut batches = Vec::new();
        loop {
            let again = recorder.rewrite_last_update();
            if again.is_empty() {
                break;
            }
            assert_eq!(recorder.description().events, events, "the same update");
            batches.push(again);
        }
        batches.push(recorder.record_state(&state, NOW));
        for batch in batches {
            for taken in 0..1_u32 << batch.len() {
                let mut cut = drives.clone();
                let writes =
                    batch.iter().enumerate().filter(|(index, _)| taken >> index & 1 == 1).map(|(_, write)| write.clone());
                apply(&mut cut, &writes.collect::<Vec<_>>());
                starts(&cut, &format!("writes {taken:b}"));
            }
            apply(&mut drives, &batch);
        }
        starts(&drives, "after it");
    }
}

/// A full file system costs one member its slot, and another one superblock updates only, since the array cannot do without it.
/// The one that was dropped was taken instead, and lacked what had been written since.
#[test]
fn force_takes_members_that_kept_their_slots_before_those_that_were_dropped() {
    for (dropped, kept) in [(0, 2), (2, 0)] {
        for later in [false, true] {
            let mut drives = created(Level::Raid5, 4, 0);
            let mut start = started(&drives, &Options::default());
            let mut state = state_of(&start.config, true);
            apply(&mut drives, &start.recorder.record_state(&state, NOW));
            let unwritten = drives[kept].clone();
            // Sometimes the one that is dropped has more of the updates.
            if later {
                apply(&mut drives, &start.recorder.record_state(&state, NOW));
            }
            state.slots[dropped].member = None;
            state.failed.push((MemberId(dropped), Some(dropped)));
            state.optimal = false;
            for _ in 0..3 {
                apply(&mut drives, &start.recorder.record_state(&state, NOW));
            }
            drives[kept] = unwritten;
            let sentence = refused(&drives, &Options::default());
            let remedy =
                format!("start with drive{kept} as it is by --force, which tears writes that were in flight, and loses none");
            assert!(sentence.contains(&remedy), "{sentence}");
            let start = started(&drives, &forced());
            assert!(start.warnings[0].to_string().contains("it kept its slot"), "{:?}", start.warnings);
            let holders = holders(&start);
            assert_eq!((holders[dropped], holders[kept]), (None, Some(kept)), "{holders:?}");
        }
    }
}

#[test]
fn copies_rivals_and_strangers_get_their_sentences() {
    let drives = created(Level::Raid5, 3, 0);
    let mut copied = drives.clone();
    copied.push(MemoryDrive { name: "clone".into(), ..drives[1].clone() });
    assert!(refused(&copied, &Options::default()).contains("drive1 and clone are copies of the same member"));

    let mut shrunk = drives.clone();
    shrunk[2].size_sectors /= 2;
    let (assemblies, strangers) = assemble(&candidates(&shrunk), &Options::default());
    assert!(strangers[0].reason.contains("beyond the end of the member"), "{}", strangers[0].reason);
    assert!(assemblies[0].outcome.is_ok());

    let mut other = request(Level::Raid1, Layout::Plain, 2, 0, DRIVE_SECTORS);
    other.uuid = [7; 16];
    other.name = "other".into();
    let mut mixed = drives.clone();
    mixed.extend(carry_out(&other).0);
    mixed.push(MemoryDrive::new(9, DRIVE_SECTORS));
    mixed.push(MemoryDrive { broken: true, ..MemoryDrive::new(10, DRIVE_SECTORS) });
    let (assemblies, strangers) = assemble(&candidates(&mixed), &Options::default());
    assert_eq!(assemblies.iter().map(|assembly| assembly.name.as_str()).collect::<Vec<_>>(), ["host:other", "host:tank"]);
    assert!(assemblies.iter().all(|assembly| assembly.outcome.is_ok()));
    assert!(strangers[0].reason.contains("no md superblock"), "{}", strangers[0].reason);
    assert!(strangers[1].reason.contains("medium error"), "{}", strangers[1].reason);
}

#[test]
fn older_copy_of_a_member_does_not_stand_in_for_it() {
    let mut drives = created(Level::Raid5, 3, 0);
    let old = MemoryDrive { name: "backup".into(), ..drives[1].clone() };
    let mut start = started(&drives, &Options::default());
    apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, true), NOW));
    drives.push(old);
    let assembly = assembled(&drives, &Options::default());
    assert!(matches!(&assembly.drives[3].verdict, Verdict::Unusable { reason } if reason.to_string().contains("copy of drive1")));
    assert_eq!(holders(&assembly.outcome.expect("starts")), vec![Some(0), Some(1), Some(2)]);
}

#[test]
fn new_spare_joins_and_takes_a_slot() {
    let mut drives = created(Level::Raid5, 3, 0);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, true);
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    drives.push(MemoryDrive::new(3, DRIVE_SECTORS + 999));
    let adopt =
        Adopt { name: "drive3".into(), size_sectors: DRIVE_SECTORS + 999, logical_block_bytes: 512, device_uuid: [99; 16] };
    let (config, writes) = start.recorder.adopt(MemberId(3), &adopt).expect("large enough");
    assert_eq!(config.data_sectors, DRIVE_SECTORS + 999 - config.data_start_sector.get());
    apply(&mut drives, &writes);
    assert_eq!(assembled(&drives, &Options::default()).drives[3].verdict, Verdict::Spare, "also before the next record");
    state.spares.push(MemberId(3));
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    assert_eq!(started(&drives, &Options::default()).config.spares.len(), 1);
    state.spares.clear();
    state.slots[0].member = Some(MemberProgress { member: MemberId(3), recovered: Synced::up_to(128), by_bitmap: false });
    state.optimal = false;
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    drives.remove(0);
    let config = started(&drives, &Options::default()).config;
    assert_eq!(config.slots[0].member.as_ref().map(|member| member.recovered), Some(Synced::up_to(128)));

    let small = Adopt { size_sectors: 50_000, ..adopt };
    let sentence = start.recorder.adopt(MemberId(4), &small).unwrap_err().to_string();
    assert!(sentence.contains("too small: a member needs"), "{sentence}");
}

/// A process was killed between the bitmap and the superblock of a new spare. What it left had no signature, so the daemon refused
/// its own spare from then on.
#[test]
fn a_drive_whose_preparation_was_cut_short_is_blank_or_a_spare() {
    for checksums in [false, true] {
        for bitmap in [BitmapChoice::Internal { chunk_bytes: None }, BitmapChoice::None] {
            let create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
            let (mut drives, _) = carry_out(&Create { bitmap, checksums, ..create });
            let mut start = started(&drives, &Options::default());
            drives.push(MemoryDrive::new(3, DRIVE_SECTORS));
            let adopt =
                Adopt { name: "drive3".into(), size_sectors: DRIVE_SECTORS, logical_block_bytes: 512, device_uuid: [99; 16] };
            let (_, writes) = start.recorder.adopt(MemberId(3), &adopt).expect("it suits");
            for (done, write) in writes.iter().enumerate() {
                // A cut may also leave a part of a write.
                for part in 1..=write.data.len() / 512 {
                    drives[3].write(write.start_sector.get(), &write.data[..part * 512]);
                    let is_spare = assembled(&drives, &Options::default()).drives.get(3).map(|drive| drive.verdict.clone());
                    let first = unknown(DRIVE_SECTORS, &mut |start, count| drives[3].read(start, count));
                    assert!(is_spare == Some(Verdict::Spare) || first.is_none(), "{done}, {part}: {is_spare:?}, {first:?}");
                }
            }
            assert_eq!(started(&drives, &Options::default()).config.spares.len(), 1);
        }
    }
}

#[test]
fn members_that_were_run_apart_are_not_put_together() {
    let drives = created(Level::Raid1, 2, 0);
    let run_alone = |drive: usize, records: usize| {
        let mut drives = drives.clone();
        let mut start = started(&drives, &Options::default());
        let mut state = state_of(&start.config, true);
        apply(&mut drives, &start.recorder.record_state(&state, NOW));
        state.slots[1 - drive].member = None;
        state.optimal = false;
        for _ in 0..records {
            apply(&mut drives, &start.recorder.record_state(&state, NOW));
        }
        drives.swap_remove(drive)
    };
    let sentence = refused(&[run_alone(0, 3), run_alone(1, 3)], &forced());
    assert!(sentence.contains("drive1 on one side and drive0 on the other were run without each other"), "{sentence}");
    let apart = [run_alone(0, 5), run_alone(1, 3)];
    let assembly = assembled(&apart, &Options { take_back: true, ..Options::default() });
    let Verdict::Away { obstacle: Some(obstacle), .. } = &assembly.drives[1].verdict else { panic!("{:?}", assembly.drives[1]) };
    assert_eq!(*obstacle, Unreturnable::RunWithout);
    assert_eq!(holders(&assembly.outcome.expect("one is enough")), vec![Some(0), None]);
}

/// Two machines each had a half of the mirror, and gave it a new drive. What one half took meanwhile is in no bitmap of the
/// other.
#[test]
fn a_member_that_ran_elsewhere_with_a_substitute_does_not_return_by_the_bitmap() {
    let drives = created(Level::Raid1, 2, 0);
    let run_alone = |drive: usize, records: usize| {
        let mut drives = drives.clone();
        let mut start = started(&drives, &Options::default());
        let mut state = state_of(&start.config, true);
        apply(&mut drives, &start.recorder.record_state(&state, NOW));
        let device_uuid = [90 + drive as u8; 16];
        let adopt = Adopt { name: "new".into(), size_sectors: DRIVE_SECTORS, logical_block_bytes: 512, device_uuid };
        drives.push(MemoryDrive::new(8 + drive, DRIVE_SECTORS));
        let (_, writes) = start.recorder.adopt(MemberId(2), &adopt).expect("large enough");
        apply(&mut drives, &writes);
        state.failed.push((MemberId(1 - drive), Some(1 - drive)));
        state.slots[1 - drive].member = Some(MemberProgress { member: MemberId(2), recovered: Synced::All, by_bitmap: false });
        for _ in 0..records {
            apply(&mut drives, &start.recorder.record_state(&state, NOW));
        }
        drives.remove(1 - drive);
        drives
    };
    // Here the new drive is lost again, and the other half is offered.
    let (mut drives, theirs) = (run_alone(0, 3), run_alone(1, 9));
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, true);
    (state.slots[1].member, state.optimal) = (None, false);
    for _ in 0..20 {
        apply(&mut drives, &start.recorder.record_state(&state, NOW));
    }
    let found = candidates(&theirs).remove(0).found.expect("readable").superblock;
    let obstacle = start.recorder.returnable(&found).expect_err("it holds what no bitmap names").to_string();
    assert!(obstacle.contains("it was run with other drives in place of the members"), "{obstacle}");
}

/// The mirror had lost a drive before, and its substitute has number 2. The half that is run elsewhere gets another substitute there,
/// which has that number, too.
#[test]
fn a_member_that_has_taken_updates_since_it_left_does_not_return_by_the_bitmap() {
    let mut drives = created(Level::Raid1, 2, 0);
    let substitute = |drives: &mut Vec<MemoryDrive>, identity: u8, records: usize| {
        let mut start = started(drives, &Options::default());
        let mut state = state_of(&start.config, true);
        let (id, held) = (MemberId(drives.len()), start.config.slots[0].member.as_ref().map(|member| member.id));
        let adopt =
            Adopt { name: "new".into(), size_sectors: DRIVE_SECTORS, logical_block_bytes: 512, device_uuid: [identity; 16] };
        drives.push(MemoryDrive::new(usize::from(identity), DRIVE_SECTORS));
        let (_, writes) = start.recorder.adopt(id, &adopt).expect("large enough");
        apply(drives, &writes);
        state.failed.extend(held.map(|held| (held, Some(0))));
        state.slots[0].member = Some(MemberProgress { member: id, recovered: Synced::All, by_bitmap: false });
        (0..records).for_each(|_| apply(drives, &start.recorder.record_state(&state, NOW)));
    };
    substitute(&mut drives, 90, 3);
    let number = |drive: &MemoryDrive| drive.candidate().found.expect("readable").superblock.header.dev_number;
    let (mut here, mut elsewhere) = (vec![drives[2].clone()], vec![drives[1].clone()]);
    substitute(&mut elsewhere, 91, 9);
    assert_eq!((number(&here[0]), number(&elsewhere[1])), (2, 2));
    let mut start = started(&here, &Options::default());
    let mut state = state_of(&start.config, true);
    state.optimal = false;
    (0..20).for_each(|_| apply(&mut here, &start.recorder.record_state(&state, NOW)));
    let found = elsewhere[0].candidate().found.expect("readable").superblock;
    let obstacle = start.recorder.returnable(&found).expect_err("it holds what no bitmap names").to_string();
    assert_eq!(obstacle, "it has taken superblock updates since it left, so it was run elsewhere");
}

/// A RAID 6 loses a member, then a second one; the first returns. The second knows only an array without the first.
#[test]
fn a_member_that_left_after_another_returns_after_it_unless_it_was_run_elsewhere() {
    let mut drives = created(Level::Raid6, 4, 1);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, false);
    let lose = |state: &mut ArrayState, slot: usize| {
        (state.slots[slot].member, state.optimal) = (None, false);
        state.failed.push((MemberId(slot), Some(slot)));
    };
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    let first = drives[0].clone();
    lose(&mut state, 0);
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    let before = drives.clone();
    // The last update for a member that fails arrives or does not.
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    let left = [before[3].clone(), drives[3].clone()];
    lose(&mut state, 3);
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    state.slots[0].member = Some(MemberProgress { member: MemberId(0), recovered: Synced::All, by_bitmap: false });
    (0..3).for_each(|_| apply(&mut drives, &start.recorder.record_state(&state, NOW)));
    let returns = |drive: &MemoryDrive| start.recorder.returnable(&drive.candidate().found.expect("readable").superblock);
    assert_eq!(left.each_ref().map(returns), [Ok(3), Ok(3)]);

    // One that a run found in sync, and that left before its first update. The member that it lacks returns first.
    let mut members = [&before[1..4], &[first]].concat();
    let mut later = started(&members[..3], &forced());
    let left = members[2].candidate().found.expect("readable").superblock;
    later.recorder.take_back(MemberId(3), &members[3].candidate()).expect("it left before");
    let mut state = state_of(&later.config, false);
    (state.slots[3].member, state.failed) = (None, vec![(MemberId(2), Some(3))]);
    state.slots[0].member = Some(MemberProgress { member: MemberId(3), recovered: Synced::All, by_bitmap: false });
    apply(&mut members, &later.recorder.record_state(&state, NOW));
    assert_eq!(later.recorder.returnable(&left), Ok(3));

    // Half of the drives suffice elsewhere.
    let mut elsewhere = before[2..].to_vec();
    let mut theirs = started(&elsewhere, &forced());
    let state = state_of(&theirs.config, false);
    for _ in 0..3 {
        apply(&mut elsewhere, &theirs.recorder.record_state(&state, NOW));
        let obstacle = returns(&elsewhere[1]).expect_err("no bitmap names what it was written elsewhere").to_string();
        assert_eq!(obstacle, "it was run without members that the array has now");
    }
}

/// More roles than fit in a sector would let one power cut tear the superblocks of all members.
#[test]
fn a_superblock_stays_in_one_sector_however_many_drives_are_replaced() {
    let mut drives = created(Level::Raid1, 2, 0);
    for replaced in 0..140_u8 {
        let mut start = started(&drives, &Options::default());
        complete_last_update(&mut drives, &mut start);
        let mut state = state_of(&start.config, true);
        let device_uuid = [replaced.wrapping_add(100); 16];
        let adopt = Adopt { name: "new".into(), size_sectors: DRIVE_SECTORS, logical_block_bytes: 512, device_uuid };
        drives.push(MemoryDrive::new(2, DRIVE_SECTORS));
        let (_, writes) = start.recorder.adopt(MemberId(2), &adopt).expect("large enough");
        apply(&mut drives, &writes);
        state.failed.push((MemberId(0), Some(0)));
        let slot = (0..2).find(|&slot| state.slots[slot].member.as_ref().is_some_and(|member| member.member == MemberId(0)));
        state.slots[slot.expect("it held one")].member =
            Some(MemberProgress { member: MemberId(2), recovered: Synced::All, by_bitmap: false });
        (0..2).for_each(|_| apply(&mut drives, &start.recorder.record_state(&state, NOW)));
        let bytes = start.recorder.superblock().encode().len();
        assert!(bytes <= 512, "{bytes} bytes after {replaced} replacements");
        drives.remove(0);
    }
}

/// Seed 6859: a crash tore a superblock update that only the member lost with it has; the others made another update with the
/// same number.
#[test]
fn a_member_lost_with_a_torn_record_does_not_keep_the_others_from_starting() {
    let mut drives = created(Level::Raid1, 3, 0);
    let mut start = started(&drives, &Options::default());
    let state = state_of(&start.config, false);
    let torn = start.recorder.record_state(&state, NOW);
    let mut lost = drives[..1].to_vec();
    apply(&mut lost, &torn.into_iter().filter(|write| write.member.0 == 0).collect::<Vec<_>>());
    let mut others = drives.split_off(1);
    let mut start = started(&others, &Options::default());
    let state = state_of(&start.config, false);
    apply(&mut others, &start.recorder.record_state(&state, NOW));
    let all = [&lost[..], &others[..]].concat();
    let assembly = assembled(&all, &Options::default());
    assert!(matches!(assembly.drives[0].verdict, Verdict::Away { slot: Some(0), .. }), "{:?}", assembly.drives[0]);
    assert_eq!(holders(&assembly.outcome.expect("two are enough")), vec![None, Some(1), Some(2)]);
}

/// Seed 6:961300116: a crash tore the superblock update that drops member 5, and only member 0 has it. Without member 0 the next
/// start wrote the update before that again, and another crash tore this as well. Neither side ran without the other.
#[test]
fn members_with_two_torn_updates_of_one_number_start_together() {
    let of = |member: usize, writes: &[MetadataWrite]| -> Vec<_> {
        writes.iter().filter(|write| write.member.0 == member).cloned().collect()
    };
    for is_dropped_there in [false, true] {
        let mut drives = created(Level::Raid1, 6, 0);
        let mut start = started(&drives, &Options::default());
        apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, false), NOW));
        drives.truncate(if is_dropped_there { 6 } else { 5 });
        let mut start = started(&drives, &Options::default());
        complete_last_update(&mut drives, &mut start);
        let mut state = state_of(&start.config, false);
        state.slots[5].member = None;
        state.optimal = false;
        apply(&mut drives, &of(0, &start.recorder.record_state(&state, NOW)));
        let mut others = drives.split_off(1);
        let mut recorder = started(&others, &Options::default()).recorder;
        let batches: Vec<_> =
            std::iter::repeat_with(|| recorder.rewrite_last_update()).take_while(|batch| !batch.is_empty()).collect();
        let (again, pages) = batches.split_last().expect("a slot is empty");
        pages.iter().for_each(|batch| apply(&mut others, batch));
        let together: Vec<Option<usize>> = (0..6).map(|slot| Some(slot).filter(|&slot| slot < 5 || is_dropped_there)).collect();
        for torn in [vec![1], vec![0, 2], vec![0, 1, 2, 3, 4]] {
            let mut all = others.clone();
            torn.iter().for_each(|&member| apply(&mut all, &of(member, again)));
            all.insert(0, drives[0].clone());
            let mut start = started(&all, &Options::default());
            assert_eq!(holders(&start), together, "torn: {torn:?}");
            // Nor does a crash during the next update, in which all get the same one.
            loop {
                let mut writes = start.recorder.rewrite_last_update();
                let last = writes.is_empty();
                if last {
                    writes = start.recorder.record_state(&state_of(&start.config, false), NOW);
                }
                for write in &writes {
                    apply(&mut all, std::slice::from_ref(write));
                    assert_eq!(holders(&started(&all, &Options::default())), together, "torn: {torn:?}");
                }
                if last {
                    break;
                }
            }
        }
        // With one more event the update that was written again counts.
        let mut start = started(&others, &Options::default());
        complete_last_update(&mut others, &mut start);
        apply(&mut others, &start.recorder.record_state(&state_of(&start.config, false), NOW));
        let all = [&drives[..], &others[..]].concat();
        assert_eq!(holders(&started(&all, &Options::default())), [&[None], &together[1..]].concat());
    }
}

/// A member that was absent when the array was renamed kept the old name for good, so the name of the array was in doubt.
#[test]
fn every_superblock_update_gives_all_members_one_name() {
    let (mut drives, creation) = carry_out(&request(Level::Raid1, Level::Raid1.default_layout(), 2, 0, DRIVE_SECTORS));
    let mut renamed = creation.superblocks[1].clone().expect("none is missing");
    renamed.header.set_name[..4].copy_from_slice(b"lake");
    drives[1].write(8, &renamed.encode());
    let mut start = started(&drives, &Options::default());
    let state = state_of(&start.config, true);
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    let names: Vec<String> = drives.iter().map(|drive| drive.candidate().found.expect("a member").superblock.name()).collect();
    assert_eq!(names[0], names[1]);
}

#[test]
fn raid0_of_unequal_members_without_layout_bit_is_refused() {
    let mut create = request(Level::Raid0, Level::Raid0.default_layout(), 3, 0, DRIVE_SECTORS);
    create.members[2].as_mut().expect("there").size_sectors += 100_000;
    let (mut drives, creation) = carry_out(&create);
    assert!(started(&drives, &Options::default()).config.geometry.member_sectors(2) > creation.geometry.member_sectors(0));
    for (drive, superblock) in drives.iter_mut().zip(creation.superblocks) {
        let mut superblock = superblock.expect("none is missing");
        superblock.header.feature_map = 0;
        drive.write(8, &superblock.encode());
    }
    assert!(refused(&drives, &Options::default()).contains("layout-alternate"));
}

#[test]
fn unreadable_bitmaps_need_force_and_then_count_as_all_set() {
    let mut drives = created(Level::Raid1, 2, 0);
    for drive in &mut drives {
        drive.write(16, &[0; 512]);
    }
    assert!(refused(&drives, &Options::default()).contains("no member has a readable write-intent bitmap"));
    let start = started(&drives, &forced());
    assert!(start.config.intent.is_some());
}

#[test]
fn stale_bitmaps_vouch_for_no_page_before_all_are_made_anew() {
    let create = request(Level::Raid1, Level::Raid1.default_layout(), 2, 0, 9 << 21);
    let mut drives = carry_out(&create).0;
    // After a clean stop of an optimal array no bit counts.
    drives.pop();
    for drive in &mut drives {
        let mut head = drive.read(16, 1).expect("readable");
        head[0x30] |= 2;
        drive.write(16, &head);
    }
    let mut start = started(&drives, &Options::default());
    let all = start.config.intent.as_ref().expect("bitmap").dirty.len();
    assert!(all > 4 * 4096 * 8, "{all} bits make several pages");
    let state = state_of(&start.config, false);
    loop {
        let mut writes = start.recorder.rewrite_last_update();
        let last = writes.is_empty();
        if last {
            writes = start.recorder.record_state(&state, NOW);
        }
        let mut torn = drives.clone();
        apply(&mut torn, &writes.iter().filter(|write| write.start_sector.get() <= 16).cloned().collect::<Vec<_>>());
        assert_eq!(started(&torn, &Options::default()).config.intent.expect("bitmap").dirty.len(), all);
        // Of the first page its header may arrive alone.
        let mut torn = drives.clone();
        let heads = writes.iter().filter(|write| write.start_sector.get() <= 16);
        let heads = heads.map(|write| MetadataWrite { data: write.data.slice(0, 512), ..write.clone() });
        apply(&mut torn, &heads.collect::<Vec<_>>());
        assert_eq!(started(&torn, &Options::default()).config.intent.expect("bitmap").dirty.len(), all);
        if last {
            break;
        }
        apply(&mut drives, &writes);
    }
}

#[test]
fn one_damaged_bitmap_is_replaced_by_the_others() {
    let mut drives = created(Level::Raid1, 2, 0);
    let mut start = started(&drives, &Options::default());
    apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, false), NOW));
    apply(&mut drives, &start.recorder.record_intent(&[11], &[]));
    drives[0].write(16, &[0; 512]);
    let mut start = started(&drives, &Options::default());
    assert_eq!(start.config.intent.as_ref().expect("bitmap").dirty, vec![11]);
    apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, false), NOW));
    let bitmaps: Vec<_> =
        candidates(&drives).into_iter().map(|c| c.found.expect("member").bitmap.expect("told").expect("sound")).collect();
    assert_eq!(bitmaps[0], bitmaps[1]);
}

#[test]
fn bad_blocks_are_told_relative_to_the_data() {
    let mut drives = created(Level::Raid1, 2, 0);
    let mut start = started(&drives, &Options::default());
    let data = start.config.slots[1].member.as_ref().expect("there").data_start_sector;
    let blocks = vec![data + 10..data + 1498, data + 1600..data + 1602];
    let writes = start.recorder.record_bad_blocks(MemberId(1), blocks, NOW).expect("room");
    apply(&mut drives, &writes);
    apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, true), NOW));
    let config = started(&drives, &Options::default()).config;
    let bad = &config.slots[1].member.as_ref().expect("there").bad_blocks;
    assert_eq!(bad.iter().map(|range| range.end - range.start).sum::<u64>(), 1490);
    assert_eq!(bad[0].start.get(), 10);
}

/// R52: the next list was laid out as a change of one that the drive did not take. The entry that stays had its only position in a
/// sector that the cut left as it was, and in that list in another one.
#[test]
fn a_list_after_one_that_failed_moves_no_entry_of_the_list_before() {
    let mut drives = created(Level::Raid1, 2, 0);
    let mut start = started(&drives, &Options::default());
    let data = start.config.slots[1].member.as_ref().expect("there").data_start_sector;
    let list = |entries: std::ops::Range<u64>| entries.map(|at| data + at * 2..data + at * 2 + 1).collect::<Vec<_>>();
    let mut record = |entries| start.recorder.record_bad_blocks(MemberId(1), list(entries), NOW).expect("room");
    apply(&mut drives, &record(0..65));
    // Only the entry of the second sector stays.
    record(64..65);
    start.recorder.bad_blocks_failed(MemberId(1));
    let mut record = |entries| start.recorder.record_bad_blocks(MemberId(1), list(entries), NOW).expect("room");
    let last = &record(64..65)[0];
    drives[1].write(last.start_sector.get() + 1, &last.data[512..]);
    let config = started(&drives, &Options::default()).config;
    let bad = &config.slots[1].member.as_ref().expect("there").bad_blocks;
    assert!(bad.iter().any(|rows| rows.start.get() == 128), "{bad:?}");
}

#[test]
fn create_refuses_what_cannot_be_with_words() {
    let refuse = |change: &dyn Fn(&mut stria_format::md::Create)| {
        let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, DRIVE_SECTORS);
        change(&mut create);
        match create.plan() {
            Ok(_) => panic!("must be refused"),
            Err(error) => error.to_string(),
        }
    };
    assert!(refuse(&|c| c.name = "a/b".into()).contains("is not a valid array name"));
    assert!(refuse(&|c| c.name = "x".repeat(32)).contains("1 to 31 bytes"));
    assert!(refuse(&|c| c.members.truncate(1)).contains("takes 2 to 256 members"));
    assert!(refuse(&|c| c.members = vec![None, None, c.members[0].clone()]).contains("2 members are missing"));
    assert!(refuse(&|c| c.members[1].as_mut().expect("there").size_sectors = 2000).contains("drive1 is too small"));
    assert!(refuse(&|c| c.bitmap = BitmapChoice::Internal { chunk_bytes: Some(2048) }).contains("bitmap chunk"));
    assert!(refuse(&|c| (c.level, c.layout) = (Level::Raid0, Level::Raid0.default_layout())).contains("leave --bitmap out"));
    assert!(refuse(&|c| c.member_sectors_max = Some(1 << 40)).contains("--size asks for"));
}

#[test]
fn a_spare_with_the_number_of_a_member_is_refused_and_not_the_member() {
    let mut drives = created(Level::Raid5, 3, 1);
    // The drive was prepared when the number was free, and was never admitted.
    let bytes = drives[3].read(8, 8).expect("it reads");
    let mut superblock = Superblock::parse(&bytes, 8, drives[3].size_sectors).expect("sound");
    superblock.header.dev_number = 1;
    superblock.roles[1] = Role::Spare;
    drives[3].write(8, &superblock.encode());
    drives.rotate_right(1);
    let assembly = assembled(&drives, &Options::default());
    let verdict = |name: &str| &assembly.drives.iter().find(|report| report.name == name).expect("all are told of").verdict;
    assert_eq!(*verdict("drive1"), Verdict::InSync { slot: 1 });
    assert!(
        matches!(verdict("drive3"), Verdict::Unusable { reason } if reason.to_string().contains("drive1 has the same device number, 1"))
    );
    assert!(assembly.outcome.is_ok());
}

/// Found by a mutant: a drive that was being filled and a stale one were both given the slot.
#[test]
fn a_stale_member_that_is_taken_by_force_is_alone_in_its_slot() {
    for replaces in [false, true] {
        let mut drives = created(Level::Raid5, 3, 1);
        let mut start = started(&drives, &Options::default());
        let mut state = state_of(&start.config, true);
        let filled = MemberProgress { member: MemberId(3), recovered: Synced::up_to(2048), by_bitmap: false };
        state.spares.clear();
        if replaces {
            state.slots[1] = SlotState { member: None, replacement: Some(filled) };
        } else {
            state.slots[1].member = Some(filled);
        }
        state.failed.push((MemberId(1), Some(1)));
        state.optimal = false;
        for _ in 0..2 {
            apply(&mut drives, &start.recorder.record_state(&state, NOW));
        }
        drives.remove(2);
        assert!(refused(&drives, &Options::default()).contains("--force"));
        let assembly = assembled(&drives, &forced());
        let verdict = &assembly.drives[2].verdict;
        assert!(matches!(verdict, Verdict::Unusable { reason } if reason.to_string().contains("add it anew")), "{verdict:?}");
        assert_eq!(holders(&assembly.outcome.expect("two of three suffice")), [Some(0), Some(1), None]);
    }
}

/// Found by a mutant: such a spare kept its own numbers when it took a slot, and the next start believed them.
/// One more spare, with less space before its data than the write log needs, must not take the log from all.
#[test]
fn a_spare_without_space_for_the_log_takes_no_slot() {
    let mut drives = created(Level::Raid5, 3, 1);
    assert!(started(&drives, &Options::default()).config.log.is_some());
    let mut superblock = candidates(&drives).remove(3).found.expect("a spare").superblock;
    let cut = superblock.header.data_offset - 128;
    (superblock.header.data_offset, superblock.header.data_size) = (128, superblock.header.data_size + cut);
    let mut bytes = superblock.encode();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    drives[3].write(8, &bytes);
    let start = started(&drives, &Options::default());
    assert!(start.config.log.is_some() && start.config.spares.is_empty());
    let verdict = &assembled(&drives, &Options::default()).drives[3].verdict;
    assert!(matches!(verdict, Verdict::Unusable { reason } if reason.to_string().contains("write log")), "{verdict:?}");
}

#[test]
fn a_spare_of_another_shape_takes_no_slot() {
    let changes: [&dyn Fn(&mut Superblock); 4] = [
        &|superblock| superblock.header.level = 4,
        &|superblock| superblock.header.chunksize *= 2,
        &|superblock| superblock.header.raid_disks += 1,
        &|superblock| superblock.header.size -= 128,
    ];
    for change in changes {
        let mut drives = created(Level::Raid5, 3, 1);
        let mut superblock = drives[3].candidate().found.expect("a member").superblock;
        change(&mut superblock);
        drives[3].write(8, &superblock.encode());
        let assembly = assembled(&drives, &Options::default());
        let verdict = &assembly.drives[3].verdict;
        assert!(
            matches!(verdict, Verdict::Unusable { reason } if reason.to_string().contains("another array shape")),
            "{verdict:?}"
        );
        assert_eq!(assembly.outcome.expect("the others suffice").config.spares.len(), 0);
    }
}

/// Found by a mutant: an array that ran without a member did not start again, because that member asked for a feature that is not
/// served.
#[test]
fn what_a_member_that_is_out_asks_for_does_not_keep_the_others_from_starting() {
    let changes: [&dyn Fn(&mut Superblock); 4] = [
        // With another creation time the drive would be taken back, and then name another shape than the others.
        &|superblock| superblock.header.ctime -= 1,
        &|superblock| superblock.header.level = 8,
        &|superblock| superblock.header.feature_map |= 0x200,
        &|superblock| superblock.header.feature_map |= 1 << 31,
    ];
    for change in changes {
        let mut drives = created(Level::Raid5, 3, 0);
        let mut start = started(&without(&drives, 1), &Options::default());
        let state = state_of(&start.config, true);
        let mut rest = without(&drives, 1);
        for _ in 0..3 {
            apply(&mut rest, &start.recorder.record_state(&state, NOW));
        }
        let mut superblock = drives[1].candidate().found.expect("a member").superblock;
        change(&mut superblock);
        drives[1].write(8, &superblock.encode());
        rest.insert(1, drives[1].clone());
        for options in [Options::default(), forced(), Options { take_back: true, ..Options::default() }] {
            let assembly = assembled(&rest, &options);
            let verdict = &assembly.drives[1].verdict;
            let out = matches!(verdict, Verdict::Unusable { .. } | Verdict::Away { obstacle: Some(_), .. });
            assert!(out, "{verdict:?}");
            assert_eq!(holders(&assembly.outcome.expect("two of three suffice")), [Some(0), None, Some(2)]);
        }
    }
}

fn without(drives: &[MemoryDrive], lost: usize) -> Vec<MemoryDrive> {
    drives.iter().enumerate().filter(|(index, _)| *index != lost).map(|(_, drive)| drive.clone()).collect()
}

/// The refusal named --force although it takes no drive that is too small.
#[test]
fn a_refusal_does_not_name_force_where_force_does_not_help() {
    let mut drives = created(Level::Raid5, 4, 0);
    drives.remove(3);
    let mut superblock = drives[2].candidate().found.expect("a member").superblock;
    superblock.header.data_size = 64;
    drives[2].write(superblock.start_sector().get(), &superblock.encode());
    let sentence = refused(&drives, &Options::default());
    assert!(
        sentence.contains("2 of 4 members are missing or incomplete (slots 2, 3)") && sentence.contains("too small"),
        "{sentence}"
    );
    assert!(sentence.ends_with("; attach the missing drives") && !sentence.contains("--force"), "{sentence}");
    assert_eq!(refused(&drives, &forced()), sentence);
}
