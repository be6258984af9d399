//! Goal: implausible numbers on a drive decide nothing, cost no memory and no time, and overflow nowhere.
//! Method: valid members with changed numbers and corrected checksums, on drives of up to an exbibyte.

mod support;

use std::cell::Cell;
use stria_array::{ArrayState, Level, MemberId, MemberProgress, Recorder, Synced};
use stria_format::md::bitmap::Header as BitmapHeader;
use stria_format::md::recorder::Adopt;
use stria_format::md::superblock::{EVENTS_MAX, Header, feature};
use stria_format::md::{Bitmap, Candidate, Options, Role, Superblock, Verdict, assemble};
use support::*;

const NOW: u64 = 1_700_000_100;

fn superblock_of(drive: &MemoryDrive) -> Superblock {
    Superblock::parse(&drive.read(8, 8).expect("it reads"), 8, drive.size_sectors).expect("sound")
}

fn change(drive: &mut MemoryDrive, change: impl FnOnce(&mut Superblock)) {
    let mut superblock = superblock_of(drive);
    change(&mut superblock);
    drive.write(8, &superblock.encode());
}

fn change_bitmap(drive: &mut MemoryDrive, change: impl FnOnce(&mut BitmapHeader)) {
    let mut bytes = drive.read(16, 1).expect("it reads");
    let mut header = BitmapHeader::read(bytes[..256].try_into().expect("cut to size"));
    change(&mut header);
    bytes[..256].copy_from_slice(&header.write());
    drive.write(16, &bytes);
}

/// Two mirrors. The second left after the first superblock update, so its content is old from then on.
fn stale_and_fresh() -> Vec<MemoryDrive> {
    let mut drives = created(Level::Raid1, 2, 0);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, false);
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    let stale = drives[1].clone();
    state.slots[1].member = None;
    state.failed.push((MemberId(1), Some(1)));
    state.optimal = false;
    for _ in 0..3 {
        state.clean = !state.clean;
        apply(&mut drives, &start.recorder.record_state(&state, NOW + 1));
    }
    drives[1] = stale;
    drives
}

#[test]
fn a_count_of_records_that_no_array_makes_is_refused() {
    for events in [EVENTS_MAX + 1, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX] {
        for altered in [0, 1] {
            let mut drives = stale_and_fresh();
            change(&mut drives[altered], |superblock| superblock.header.events = events);
            let (assemblies, strangers) = assemble(&candidates(&drives), &Options::default());
            assert!(strangers[0].reason.contains(&format!("counts {events} superblock updates")), "{}", strangers[0]);
            assert_eq!((strangers.len(), strangers[0].drive, assemblies.len()), (1, altered, 1));
        }
    }
}

#[test]
fn the_largest_count_is_served_and_counted_on() {
    let mut drives = created(Level::Raid5, 3, 0);
    for drive in &mut drives {
        change(drive, |superblock| superblock.header.events = EVENTS_MAX - 1);
        change_bitmap(drive, |header| header.events = EVENTS_MAX - 1);
    }
    let mut start = started(&drives, &Options::default());
    let state = state_of(&start.config, false);
    let writes = start.recorder.record_state(&state, NOW);
    apply(&mut drives, &writes);
    assert_eq!(superblock_of(&drives[2]).header.events, EVENTS_MAX);
    start.recorder.reset_log();
}

/// The superblock of a stale member whose count was increased, and nothing else: it still names the other member, which has long
/// recorded its absence.
#[test]
fn a_stale_member_does_not_become_the_truth_by_a_larger_count() {
    let truth = stale_and_fresh();
    let fresh = superblock_of(&truth[0]).header.events;
    assert_eq!(holders(&started(&truth, &Options::default())), [Some(0), None]);
    for events in [fresh + 1, fresh + 2, fresh + 3, fresh + 1000, 1 << 20, 1 << 31, 1 << 33, 1 << 39, EVENTS_MAX] {
        for force in [false, true] {
            let mut drives = truth.clone();
            change(&mut drives[1], |superblock| superblock.header.events = events);
            let sentence = refused(&drives, &Options { force, ..Options::default() });
            assert!(
                sentence.contains("drive0") && sentence.contains("drive1") && sentence.contains("one of the two counts is wrong"),
                "{sentence}"
            );
        }
    }
    // Also where it names no other member: its count is impossibly far ahead.
    let mut drives = truth.clone();
    change(&mut drives[1], |superblock| {
        superblock.header.events = 1 << 39;
        superblock.roles[0] = Role::Faulty;
    });
    assert!(refused(&drives, &Options::default()).contains("no array makes as many"));
}

/// The same on levels where one stale member does not suffice: whatever it says, the content of the others does not count as old.
#[test]
fn a_larger_count_of_one_member_keeps_an_array_from_starting_on_any_level() {
    for (level, count) in [(Level::Raid1, 3), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)] {
        let mut drives = created(level, count, 0);
        let mut start = started(&drives, &Options::default());
        let mut state = state_of(&start.config, true);
        let stale = drives[1].clone();
        state.slots[1].member = None;
        state.optimal = false;
        for _ in 0..4 {
            apply(&mut drives, &start.recorder.record_state(&state, NOW));
        }
        drives[1] = stale;
        for ahead in [1, 2, 1 << 33] {
            let mut drives = drives.clone();
            let fresh = superblock_of(&drives[0]).header.events;
            change(&mut drives[1], |superblock| superblock.header.events = fresh + ahead);
            let sentence = refused(&drives, &Options { force: true, ..Options::default() });
            assert!(sentence.contains("one of the two counts is wrong"), "{level}, {ahead} ahead: {sentence}");
        }
    }
}

/// The last superblock update of a run may be on one member only; that is no contradiction.
#[test]
fn honest_histories_do_not_contradict_themselves() {
    let mut drives = created(Level::Raid5, 4, 1);
    let mut start = started(&drives, &Options::default());
    let mut state = state_of(&start.config, false);
    let mut step = |drives: &mut Vec<MemoryDrive>, state: &ArrayState| {
        let writes = start.recorder.record_state(state, NOW);
        for torn in 0..writes.len() {
            let mut drives = drives.clone();
            apply(&mut drives, &writes[..torn]);
            let told = assembled(&drives, &Options { force: true, ..Options::default() }).outcome;
            assert!(
                told.as_ref().err().is_none_or(|error| !error.reason.to_string().contains("one of the two counts is wrong")),
                "{}",
                told.unwrap_err()
            );
            let mut backwards = drives.clone();
            apply(&mut backwards, &writes[torn..]);
            let told = assembled(&backwards, &Options { force: true, ..Options::default() }).outcome;
            assert!(
                told.as_ref().err().is_none_or(|error| !error.reason.to_string().contains("one of the two counts is wrong")),
                "{}",
                told.unwrap_err()
            );
        }
        apply(drives, &writes);
    };
    step(&mut drives, &state);
    // A member fails, the spare takes its slot and is filled, and another member fails.
    state.slots[1].member = None;
    state.failed.push((MemberId(1), Some(1)));
    state.optimal = false;
    step(&mut drives, &state);
    state.spares.clear();
    state.slots[1].member = Some(MemberProgress { member: MemberId(4), recovered: Synced::up_to(0), by_bitmap: false });
    step(&mut drives, &state);
    state.slots[1].member = Some(MemberProgress { member: MemberId(4), recovered: Synced::All, by_bitmap: false });
    state.optimal = true;
    step(&mut drives, &state);
    state.slots[2].member = None;
    state.optimal = false;
    step(&mut drives, &state);
    state.clean = true;
    step(&mut drives, &state);
}

/// Counts the reads of a drive. The number of a removed member goes to the next drive, so members that joined later seem to name
/// the old one.
#[test]
fn a_member_whose_number_is_anothers_by_now_contradicts_nobody() {
    let mut drives = created(Level::Raid5, 4, 0);
    let old = drives[3].clone();
    // Drive 3 was removed, and then drive 2. Their slots went to two new drives, and the first of these has the number of drive
    // 3.
    let roles = [Role::Slot(0), Role::Slot(1), Role::Faulty, Role::Slot(3), Role::Slot(2)];
    drives.iter_mut().for_each(|drive| {
        change(drive, |superblock| {
            superblock.header.events += 10;
            superblock.roles[..5].copy_from_slice(&roles);
        });
    });
    let mut with_newcomers: Vec<MemoryDrive> = vec![drives[0].clone(), drives[1].clone(), old];
    with_newcomers.extend([(3, 3), (4, 2)].map(|(number, slot)| {
        let mut drive = drives[0].clone();
        change(&mut drive, |superblock| {
            (superblock.header.dev_number, superblock.header.device_uuid) = (number, [0x50 + number as u8; 16]);
            assert_eq!(superblock.role(), Role::Slot(slot));
        });
        drive
    }));
    for (index, drive) in with_newcomers.iter_mut().enumerate() {
        drive.name = format!("drive{index}");
    }
    let start = started(&with_newcomers, &Options::default());
    assert_eq!(start.drives.len(), 4, "all but the old one: {:?}", start.drives);
    for missing in [3, 0] {
        let mut drives = with_newcomers.clone();
        drives.remove(missing);
        started(&drives, &Options::default());
    }
}

/// Both mirrors were replaced, one after the other, and the first number was used again. Then only the youngest member is left,
/// beside the old one that once had the number.
#[test]
fn the_youngest_member_starts_alone_beside_one_whose_number_is_anothers_by_now() {
    let mut drives = created(Level::Raid1, 2, 0);
    change(&mut drives[0], |superblock| {
        (superblock.header.dev_number, superblock.header.device_uuid) = (2, [0x52; 16]);
        superblock.header.events += 10;
        superblock.header.utime += 100;
        superblock.roles[..3].copy_from_slice(&[Role::Faulty, Role::Slot(1), Role::Slot(0)]);
    });
    assert_eq!(holders(&started(&drives, &Options::default())), [Some(0), None]);
    // If the count had been altered, the count would be larger and the time would not.
    change(&mut drives[0], |superblock| superblock.header.utime -= 200);
    assert!(refused(&drives, &Options::default()).contains("one of the two counts is wrong"));
}

/// Before, the data of the two was served in the wrong places.
#[test]
fn slots_that_one_member_gives_to_others_contradict_these() {
    for (level, count) in [(Level::Raid0, 3), (Level::Raid1, 3), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)] {
        for ahead in [0, 1] {
            let mut drives = created(level, count, 0);
            let mut start = started(&drives, &Options::default());
            let state = state_of(&start.config, true);
            apply(&mut drives, &start.recorder.record_state(&state, NOW));
            change(&mut drives[count - 1], |superblock| {
                superblock.header.events += ahead;
                superblock.roles.swap(0, 1);
            });
            let said = refused(&drives, &Options::default());
            assert!(said.contains("one of the two superblocks is damaged"), "{level}, {ahead} ahead: {said}");
            assert_eq!(refused(&drives, &Options { force: true, ..Options::default() }), said, "nor is it a question of force");
            // Without the one that is wrong it starts, where redundancy allows it.
            drives.pop();
            if level != Level::Raid0 {
                started(&drives, &Options::default());
            }
        }
    }
}

fn looked_at(drives: &[MemoryDrive]) -> (Vec<Candidate>, u64) {
    let read = Cell::new(0);
    let candidate = |drive: &MemoryDrive| {
        Candidate::read(&drive.name, drive.size_sectors, 512, &mut |start, count| {
            read.set(read.get() + count);
            drive.read(start, count)
        })
    };
    (drives.iter().map(candidate).collect(), read.get())
}

/// Bitmaps with more bits than their space holds, on drives of 16 TiB, 1 PiB and 1 EiB.
#[test]
fn a_bitmap_is_as_long_as_its_room_whatever_its_header_says() {
    for size_sectors in [1 << 31, 1 << 35, 1 << 41, 1 << 51] {
        let mut create = request(Level::Raid1, Level::Raid1.default_layout(), 2, 0, size_sectors);
        create.bitmap = stria_format::md::BitmapChoice::None;
        let (mut drives, _) = carry_out(&create);
        // As mdadm might have laid it out, with the data far behind.
        for drive in &mut drives {
            change(drive, |superblock| {
                superblock.header.feature_map |= feature::BITMAP_OFFSET;
                superblock.header.bitmap_offset = 16;
                let used = superblock.header.data_offset;
                superblock.header.data_offset = size_sectors / 4;
                superblock.header.data_size -= size_sectors / 4 - used;
                superblock.header.size = superblock.header.data_size;
            });
            let mut bytes = vec![0xff; 4096];
            bytes[..256].copy_from_slice(&Bitmap::new([0xab; 16], 8, 4096).header.write());
            drive.write(24, &bytes);
        }
        for (chunk_bytes, sync_sectors) in [(512, 1), (512, 8), (512, 1 << 20), (512, u64::MAX), (4096, 0), (1 << 31, u64::MAX)] {
            let mut drives = drives.clone();
            for drive in &mut drives {
                let mut bytes = drive.read(24, 1).expect("it reads");
                bytes[0x28..0x30].copy_from_slice(&u64::to_le_bytes(sync_sectors));
                bytes[0x34..0x38].copy_from_slice(&u32::to_le_bytes(chunk_bytes));
                drive.write(24, &bytes);
            }
            let (candidates, read) = looked_at(&drives);
            assert!(read < 4096, "{read} sectors were read");
            for force in [false, true] {
                let (assemblies, _) = assemble(&candidates, &Options { force, ..Options::default() });
                let bits = |start: &stria_format::md::Start| start.config.intent.as_ref().map_or(0, |intent| intent.dirty.len());
                match &assemblies[0].outcome {
                    Ok(start) => assert!(bits(start) <= Bitmap::BYTES_MAX as usize * 8),
                    Err(error) => assert!(error.reason.to_string().contains("bitmap"), "{error}"),
                }
            }
        }
    }
}

#[test]
fn a_bitmap_with_impossible_chunks_is_replaced_by_the_others() {
    for altered in 0..3 {
        let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 3, 0, 1 << 31);
        create.bitmap = stria_format::md::BitmapChoice::Internal { chunk_bytes: None };
        let mut drives = carry_out(&create).0;
        change_bitmap(&mut drives[altered], |header| (header.chunksize, header.sync_size) = (512, 64));
        let start = started(&drives, &Options::default());
        assert_eq!(start.config.intent.expect("of the others").chunk_sectors, 1 << 17);
    }
}

/// A bitmap that counts more superblock updates than the array has made is wrong. Its bits are not trusted.
#[test]
fn a_bitmap_ahead_of_the_array_counts_as_all_set() {
    for ahead in [5, 1 << 33, u64::MAX / 2] {
        let mut drives = created(Level::Raid1, 2, 0);
        let mut start = started(&drives, &Options::default());
        apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, false), NOW));
        let few = started(&drives, &Options::default()).config.intent.expect("bitmap").dirty.len();
        let events = superblock_of(&drives[0]).header.events;
        for drive in &mut drives {
            change_bitmap(drive, |header| header.events = events + ahead);
        }
        let mut start = started(&drives, &Options::default());
        let intent = start.config.intent.as_ref().expect("bitmap");
        assert!(intent.dirty.len() > few && intent.dirty.len() > 100, "{} bits", intent.dirty.len());
        apply(&mut drives, &start.recorder.record_state(&state_of(&start.config, false), NOW));
        let bitmap = drives[0].candidate().found.expect("member").bitmap.expect("told").expect("sound");
        assert!(bitmap.header.events <= events + 3, "it counts with the array again");
    }
}

/// When these drives get slots, the bitmap is written to the position that their own superblock names.
#[test]
fn spares_without_room_for_what_they_would_get_stay_out() {
    // Of 9 GiB, so that the bitmap has some pages.
    let drives = carry_out(&request(Level::Raid5, Level::Raid5.default_layout(), 3, 1, 9 << 21)).0;
    let cases: [(&str, &dyn Fn(&mut Header)); 4] = [
        ("bitmap", &|header| header.feature_map &= !feature::BITMAP_OFFSET),
        ("bitmap", &|header| (header.feature_map, header.bitmap_offset) = (0, 4000)),
        ("bitmap", &|header| header.bitmap_offset = header.data_offset as i32 - 9),
        ("device number", &|header| (header.dev_number, header.bitmap_offset, header.bblog_offset) = (1800, 2, 1)),
    ];
    for (word, altered) in cases {
        let mut drives = drives.clone();
        change(&mut drives[3], |superblock| altered(&mut superblock.header));
        let assembly = assembled(&drives, &Options::default());
        let verdict = &assembly.drives[3].verdict;
        assert!(matches!(verdict, Verdict::Unusable { reason } if reason.to_string().contains(word)), "{verdict:?}");
        assert!(assembly.outcome.expect("the others suffice").config.spares.is_empty());
    }
}

/// mdadm makes arrays without a bad-block log, and structures may lie far apart.
#[test]
fn a_drive_joins_whatever_places_the_array_has_and_costs_no_more_than_it_needs() {
    let size_sectors: u64 = 1 << 41;
    let mut create = request(Level::Raid1, Level::Raid1.default_layout(), 2, 0, size_sectors);
    create.bitmap = stria_format::md::BitmapChoice::Internal { chunk_bytes: None };
    create.data_offset_sectors = Some(1 << 30);
    for far in [false, true] {
        let (mut drives, _) = carry_out(&create);
        for drive in &mut drives {
            change(drive, |superblock| {
                superblock.header.bblog_offset = if far { (1 << 30) - 16 } else { 0 };
            });
        }
        let mut start = started(&drives, &Options::default());
        let adopt = Adopt { name: "new".into(), size_sectors, logical_block_bytes: 512, device_uuid: [9; 16] };
        let (_, writes) = start.recorder.adopt(MemberId(2), &adopt).expect("it has room");
        let written: usize = writes.iter().map(|write| write.data.len()).sum();
        assert!(written < 4 << 20, "{written} bytes");
        let mut new = MemoryDrive::new(2, size_sectors);
        for write in &writes {
            new.write(write.start_sector.get(), &write.data);
        }
        drives.push(new);
        let assembly = assembled(&drives, &Options::default());
        assert_eq!(assembly.drives[2].verdict, Verdict::Spare);
        let bitmap = drives[2].candidate().found.expect("member").bitmap.expect("told").expect("sound");
        assert_eq!(bitmap.header.uuid, [0xab; 16]);
    }
}

/// Every number of the superblock at its least and greatest value, on every member and on one.
#[test]
fn numbers_at_their_ends_are_survived() {
    let ends = [0, 1, 0x7fff, 1 << 31, u64::from(u32::MAX), 1 << 54, 1 << 63, u64::MAX - 7, u64::MAX];
    for level in [Level::Raid0, Level::Raid1, Level::Raid6, Level::Raid10] {
        let drives = created(level, 4, 0);
        for field in
            Header::FIELDS.iter().filter(|field| field.length <= 8 && !matches!(field.name, "magic" | "sb_csum" | "max_dev"))
        {
            for end in ends {
                for altered in [1..2, 0..4] {
                    let mut drives = drives.clone();
                    for drive in &mut drives[altered] {
                        let mut bytes = superblock_of(drive).encode();
                        bytes[field.offset..field.offset + field.length].copy_from_slice(&end.to_le_bytes()[..field.length]);
                        let roles = superblock_of(drive).roles;
                        let header = Header::read(bytes[..256].try_into().expect("cut to size"));
                        drive.write(8, &Superblock { header, roles, span_of: None }.encode());
                    }
                    use_all(&drives);
                }
            }
        }
    }
}
