//! Goal: the mark of a span is stored on every member, and counts only on members of spans. Of several superblocks on one drive
//! the one counts that clients cannot have written.
//! Method: drives in memory, made, run and damaged; no I/O.

mod support;

use proptest::prelude::*;
use stria_array::{Level, MemberId, Recorder, Synced};
use stria_format::detect::{detect, wipes_in_turn};
use stria_format::md::recorder::Adopt;
use stria_format::md::superblock::{CLEAN, feature};
use stria_format::md::{Candidate, Create, Options, Superblock, Verdict, assemble, examine, raw};
use support::*;

const UPPER: [u8; 16] = [0x77; 16];
const NOW: u64 = 1_700_000_100;
/// The position of the mark on a member of version 1.2: its sector, and the offset in it.
const MARK: (u64, usize) = (15, 448);

fn span(level: Level, count: usize, spares: usize) -> Create {
    Create { span_of: Some(UPPER), ..request(level, level.default_layout(), count, spares, DRIVE_SECTORS) }
}

fn superblock_of(drive: &MemoryDrive) -> Superblock {
    drive.candidate().found.expect("a member").superblock
}

fn is_marked(drive: &MemoryDrive) -> bool {
    superblock_of(drive).span_of == Some(UPPER)
}

/// The state in which mdadm leaves a member that it adds.
fn unmark(drive: &mut MemoryDrive) {
    drive.sectors.remove(&MARK.0);
}

#[test]
fn members_of_a_span_are_marked_and_others_are_not() {
    for level in [Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10] {
        let (drives, _) = carry_out(&span(level, 4, 1));
        assert!(drives.iter().all(is_marked));
        assert_eq!(assembled(&drives, &Options::default()).freshest.span_of, Some(UPPER));
        let candidate = drives[0].candidate();
        assert_eq!(examine::span_of(&candidate), Some("77777777:77777777:77777777:77777777".into()));
        let read = &mut |start, count| drives[0].read(start, count);
        let fields = raw::fields(candidate.found.as_ref().expect("a member"), DRIVE_SECTORS, read);
        let upper = fields.iter().find(|field| field.name == "upper_uuid").expect("it is shown");
        assert_eq!((upper.offset_bytes, &upper.bytes[..]), (8192 - 64 + 0x20, &UPPER[..]));
        let plain = created(level, 4, 0);
        assert_eq!(assembled(&plain, &Options::default()).freshest.span_of, None);
    }
}

#[test]
fn any_mark_counts_and_every_record_makes_the_others() {
    for kept in 0..4 {
        let (mut drives, _) = carry_out(&span(Level::Raid5, 4, 0));
        (0..4).filter(|&index| index != kept).for_each(|index| unmark(&mut drives[index]));
        assert_eq!(drives.iter().filter(|drive| is_marked(drive)).count(), 1);
        let mut start = started(&drives, &Options::default());
        let writes = start.recorder.record_state(&state_of(&start.config, false), NOW);
        apply(&mut drives, &writes);
        assert!(drives.iter().all(is_marked), "kept by drive {kept}");
    }
}

#[test]
fn newcomers_and_members_that_return_are_marked() {
    let (mut drives, _) = carry_out(&span(Level::Raid5, 4, 0));
    let mut start = started(&drives, &Options::default());
    drives.push(MemoryDrive::new(4, DRIVE_SECTORS));
    let adopt = Adopt { name: "drive4".into(), size_sectors: DRIVE_SECTORS, logical_block_bytes: 4096, device_uuid: [9; 16] };
    let (_, writes) = start.recorder.adopt(MemberId(4), &adopt).expect("it suits");
    apply(&mut drives, &writes);
    assert!(is_marked(&drives[4]));

    let mut state = state_of(&start.config, false);
    state.slots[1].member = None;
    state.optimal = false;
    apply(&mut drives, &start.recorder.record_state(&state, NOW));
    unmark(&mut drives[1]);
    let (_, place) = start.recorder.take_back(MemberId(5), &drives[1].candidate()).expect("by the bitmap");
    state.slots[1].member = Some(stria_array::MemberProgress { member: place.id, recovered: Synced::up_to(0), by_bitmap: true });
    let writes = start.recorder.record_state(&state, NOW);
    let returned =
        writes.iter().find(|write| write.member == MemberId(5) && write.start_sector.get() == 8).expect("its superblock");
    drives[1].write(8, &returned.data);
    assert!(is_marked(&drives[1]));
}

#[test]
fn marks_of_other_arrays_and_damaged_ones_do_not_count() {
    let (drives, _) = carry_out(&span(Level::Raid5, 3, 0));
    let page = drives[0].read(8, 8).expect("sound");
    // A mark of an older array over which a new one was made: only its first sector was written.
    let mut other = created(Level::Raid5, 3, 0);
    let mut superblock = superblock_of(&other[0]);
    superblock.header.set_uuid = [0xcd; 16];
    other[0].write(8, &page);
    other[0].write(8, &superblock.encode());
    assert_eq!(superblock_of(&other[0]).span_of, None);
    for bit in 0..64 * 8 {
        let mut damaged = page.clone();
        damaged[4096 - 64 + bit / 8] ^= 1 << (bit % 8);
        let found = Superblock::parse(&damaged, 8, DRIVE_SECTORS).expect("the superblock is sound");
        assert_eq!(found.span_of, None, "bit {bit}");
    }
    let whole = Superblock::parse(&page, 8, DRIVE_SECTORS).expect("sound");
    assert_eq!(whole.encode(), page, "encoding what was parsed gives the same bytes");
}

#[test]
fn marks_leave_what_early_versions_of_md_kept_there() {
    let mut superblock = superblock_of(&carry_out(&span(Level::Raid5, 3, 0)).0[0]);
    assert_eq!(superblock.encode().len(), 4096);
    superblock.header.feature_map |= feature::BITMAP_OFFSET;
    for (bitmap_offset, has_room) in [(2, false), (7, false), (8, true), (-4, true)] {
        superblock.header.bitmap_offset = bitmap_offset;
        assert_eq!(superblock.encode().len() == 4096, has_room, "bitmap at {bitmap_offset}");
    }
    // So many devices that their roles take the space of the mark.
    superblock.roles.resize(1920, stria_format::md::Role::Spare);
    assert_eq!(superblock.encode().len(), 4096);
    let bytes = superblock.encode();
    superblock.header.max_dev = 1920;
    let parsed = Superblock::parse(&bytes, 8, DRIVE_SECTORS).expect("sound");
    assert_eq!((parsed.roles.len(), parsed.span_of), (1920, None));
}

#[test]
fn array_above_a_span_is_read_from_its_own_place_only() {
    let sectors = 60_000;
    let upper = Create { uuid: UPPER, ..request(Level::Raid0, Level::Raid0.default_layout(), 2, 0, sectors) };
    let (mut spans, _) = carry_out(&upper);
    let look = |span: &MemoryDrive| {
        let mut read = |start: u64, count: u64| span.read(start, count);
        Candidate::read_span("span", sectors, 512, &UPPER, &mut read).found.map(|member| member.superblock.header.set_name)
    };
    let name = superblock_of(&spans[0]).header.set_name;
    assert_eq!(look(&spans[0]), Ok(name));
    // A client of the array above reaches the end of its spans.
    let (at, bytes) = placed(superblock_of(&spans[0]), 0, sectors, |header| {
        (header.ctime, header.events) = (header.ctime + 1, header.events + 1);
        header.set_name[..5].copy_from_slice(b"guest");
    });
    spans[0].write(at, &bytes);
    assert_eq!(look(&spans[0]), Ok(name));
    spans[0].write(8, &[0; 4096]);
    assert!(look(&spans[0]).is_err(), "what a client wrote does not stand in for it");
    // Another array's superblock in that position.
    let foreign = Create { uuid: [1; 16], ..upper };
    assert!(look(&carry_out(&foreign).0[0]).is_err());
}

/// The same superblock as version 1.`minor` of a drive, changed; and its position.
fn placed(
    mut superblock: Superblock,
    minor: u8,
    sectors: u64,
    change: impl FnOnce(&mut stria_format::md::superblock::Header),
) -> (u64, Vec<u8>) {
    let at = Superblock::sector_of(minor, sectors).expect("large enough");
    let header = &mut superblock.header;
    header.super_offset = at;
    (header.feature_map, header.bitmap_offset, header.bblog_offset, header.bblog_size) = (0, 0, 0, 0);
    header.resync_offset = CLEAN;
    header.data_offset = if minor == 0 { 0 } else { 2048 };
    header.data_size = if minor == 0 { at } else { sectors - 2048 };
    header.size = header.size.min(header.data_size);
    change(header);
    (at, superblock.encode())
}

const OURS: [u8; 16] = [0xab; 16];
const GUEST: [u8; 16] = [0x66; 16];

/// Which of two superblocks on a drive counts, whatever their times are.
fn counts(real: (u8, u64), other: (u8, u64)) -> [u8; 16] {
    let template = superblock_of(&created(Level::Raid1, 2, 0)[0]);
    let mut winners: Vec<[u8; 16]> = Vec::new();
    for ages in [(1, 2), (2, 1), (1, 1)] {
        let mut drive = MemoryDrive::new(0, DRIVE_SECTORS);
        for ((minor, data_size), age, uuid) in [(real, ages.0, OURS), (other, ages.1, GUEST)] {
            let (at, bytes) = placed(template.clone(), minor, DRIVE_SECTORS, |header| {
                (header.ctime, header.set_uuid, header.events) = (age, uuid, age * 100);
                header.data_size = header.data_size.min(data_size);
                header.size = header.size.min(data_size);
            });
            drive.write(at, &bytes);
        }
        winners.push(superblock_of(&drive).header.set_uuid);
    }
    winners.dedup();
    assert_eq!(winners.len(), 1, "times decide between {real:?} and {other:?}");
    winners[0]
}

#[test]
fn superblock_in_the_data_of_another_does_not_count() {
    let all = u64::MAX;
    // Clients of 1.2 and 1.1 reach the end of the drive.
    assert_eq!(counts((2, all), (0, all)), OURS);
    assert_eq!(counts((1, all), (0, all)), OURS);
    assert_eq!(counts((2, all), (0, 4096)), OURS);
    // Clients of 1.0 reach its start; a superblock that they write there ends before the array's own.
    assert_eq!(counts((0, all), (2, 100_000)), OURS);
    assert_eq!(counts((0, all), (1, 100_000)), OURS);
}

#[test]
fn left_over_superblock_yields_to_the_younger_one() {
    let template = superblock_of(&created(Level::Raid1, 2, 0)[0]);
    let mut drive = MemoryDrive::new(0, DRIVE_SECTORS);
    for (minor, age, uuid) in [(2, 5, OURS), (1, 4, GUEST)] {
        let (at, bytes) = placed(template.clone(), minor, DRIVE_SECTORS, |header| {
            (header.ctime, header.set_uuid) = (age, uuid);
        });
        drive.write(at, &bytes);
    }
    assert_eq!(superblock_of(&drive).header.set_uuid, OURS);
}

/// A member with a damaged superblock, and a client's superblock elsewhere, has no say about the array.
#[test]
fn superblock_of_another_version_is_no_member_however_new() {
    for version in [0, 1] {
        let mut drives = created(Level::Raid1, 3, 0);
        // A copy of another member's superblock.
        let (at, bytes) = placed(superblock_of(&drives[2]), version, DRIVE_SECTORS, |header| {
            (header.events, header.raid_disks) = (header.events + 1_000_000, 1);
        });
        drives[1].write(8, &[0xff; 4096]);
        drives[1].write(at, &bytes);
        let assembly = assembled(&drives, &Options::default());
        assert!(
            matches!(&assembly.drives[1].verdict, Verdict::Unusable { reason } if reason.to_string().contains("version")),
            "{:?}",
            assembly.drives
        );
        assert_eq!(assembly.missing_slots, [1]);
        let start = assembly.outcome.expect("the others suffice");
        assert_eq!(start.config.slots.len(), 3);
    }
}

/// A former member is erased to become a spare elsewhere. After a power cut in between, no superblock of a client may count.
#[test]
fn while_a_drive_is_erased_no_superblock_of_a_client_counts() {
    for version in [0, 1] {
        let mut drive = created(Level::Raid1, 3, 0).remove(1);
        let foreign = |header: &mut stria_format::md::superblock::Header| {
            (header.set_uuid, header.raid_disks, header.dev_number) = (GUEST, 1, 0);
        };
        let (at, bytes) = placed(superblock_of(&drive), version, DRIVE_SECTORS, foreign);
        drive.write(at, &bytes);
        let own = superblock_of(&drive).header;
        // The place of version 1.1 lies before that of 1.2, where no client reaches.
        if version == 0 {
            assert_eq!(own.set_uuid, OURS);
        }
        let signatures = detect(DRIVE_SECTORS, &mut |start, count| drive.read(start, count));
        let [first, last] = wipes_in_turn(&signatures, 512, Some(own.super_offset));
        assert!(!first.is_empty() && last.iter().any(|&(start, _)| start == own.super_offset), "{first:?} {last:?}");
        for (start, count) in first.into_iter().chain(last) {
            assert!(drive.candidate().found.is_ok_and(|member| member.superblock.header.set_uuid == own.set_uuid));
            drive.write(start, &vec![0; (count * 512) as usize]);
        }
        assert!(drive.candidate().found.is_err());
    }
}

/// If a member's own superblock is damaged, a client's superblock at its end makes no second array.
#[test]
fn superblock_that_a_client_may_have_written_makes_no_array_beside_others() {
    let foreign = |header: &mut stria_format::md::superblock::Header| {
        (header.set_uuid, header.raid_disks, header.dev_number) = (GUEST, 1, 0);
    };
    let mut drives = created(Level::Raid1, 3, 0);
    let (at, bytes) = placed(superblock_of(&drives[1]), 0, DRIVE_SECTORS, foreign);
    drives.iter_mut().for_each(|drive| drive.write(at, &bytes));
    assert_eq!(assembled(&drives, &Options::default()).missing_slots, []);
    drives[1].sectors.get_mut(&8).expect("a superblock")[100] ^= 1;
    let (assemblies, strangers) = assemble(&candidates(&drives), &Options::default());
    assert_eq!((assemblies.len(), strangers.len(), strangers[0].drive), (1, 1, 1));
    assert!(strangers[0].reason.contains("damaged") && strangers[0].reason.contains("client"), "{}", strangers[0]);
    assert_eq!((assemblies[0].uuid, &assemblies[0].missing_slots[..]), (OURS, &[1][..]));

    // An array of version 1.0 starts although its client has written a damaged superblock of 1.2.
    let mut drives = Vec::new();
    for (index, drive) in created(Level::Raid1, 2, 0).iter().enumerate() {
        let (at, bytes) = placed(superblock_of(drive), 0, DRIVE_SECTORS, |_| ());
        drives.push(MemoryDrive::new(index, DRIVE_SECTORS));
        drives[index].write(at, &bytes);
        let mut damaged = drive.read(8, 1).expect("sound");
        damaged[100] ^= 1;
        drives[index].write(8, &damaged);
    }
    let assembly = assembled(&drives, &Options::default());
    assert_eq!((assembly.uuid, assembly.freshest.minor_version()), (OURS, 0));
    assert!(assembly.outcome.is_ok(), "{:?}", assembly.outcome.err());
    // One of its members has an unreadable sector there.
    drives[0].sectors.remove(&8);
    let assembly = assembled(&drives, &Options::default());
    assert!(assembly.outcome.is_ok() && assembly.missing_slots.is_empty());
}

proptest! {
    #[test]
    fn bytes_behind_a_superblock_are_survived(tail in prop::collection::vec(any::<u8>(), 4096 - 512), right in any::<bool>()) {
        let (mut drives, _) = carry_out(&span(Level::Raid6, 4, 1));
        let mut page = drives[2].read(8, 8).expect("sound");
        page[512..].copy_from_slice(&tail);
        if right {
            page[4096 - 64..4096 - 56].copy_from_slice(b"StriaSpn");
        }
        drives[2].write(8, &page);
        let assembly = assembled(&drives, &Options::default());
        prop_assert_eq!(assembly.freshest.span_of, Some(UPPER));
        prop_assert!(assembly.outcome.is_ok());
        prop_assert_eq!(assemble(&candidates(&drives), &Options::default()).0.len(), 1);
    }
}
