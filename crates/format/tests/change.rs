//! Goal: a bitmap, a write log and checksums can be added to an array that does not run, and taken away, and a power cut at any
//! sector of the change keeps all data and all members, and the array survives as many losses as before (R45). Method: every
//! change is cut everywhere, with its writes in both orders, on drives in memory; the array then starts, writes, stops, and
//! completes the change.

mod support;

use stria_array::{Level, MemberId, MetadataWrite, Recorder};
use stria_format::md::{Assembly, BitmapChoice, Candidate, Change, LogChoice, MdRecorder, Options, Role};
use support::running::{Running, losses, pattern, without};
use support::*;

const SECTORS: u64 = 512;

fn steps_of(drives: &[MemoryDrive], change: Change, runs: bool) -> Result<Vec<Vec<(usize, MetadataWrite)>>, String> {
    let start = started(drives, &Options { read_only: true, ..Options::default() });
    let found = candidates(drives);
    let candidate = |member: MemberId| &found[start.drives[member.0]];
    let steps = start.recorder.change(change, runs, &candidate)?;
    let on_drives = |write: MetadataWrite| (start.drives[write.member.0], write);
    Ok(steps.into_iter().map(|step| step.into_iter().map(on_drives).collect()).collect())
}

/// Carries a change out while `left` sectors may be written. A step begins when the one before has ended. Returns what is left.
fn change(drives: &mut [MemoryDrive], steps: &[Vec<(usize, MetadataWrite)>], mut left: u64, reversed: bool) -> u64 {
    for step in steps {
        let mut order: Vec<_> = step.iter().collect();
        if reversed {
            order.reverse();
        }
        for (drive, write) in order {
            for (sector, data) in (write.start_sector.get()..).zip(write.data.chunks(512)) {
                if left == 0 {
                    return 0;
                }
                left -= 1;
                drives[*drive].write(sector, data);
            }
        }
    }
    left
}

fn done(drives: &mut [MemoryDrive], change_to: Change) {
    let steps = steps_of(drives, change_to, false).unwrap_or_else(|error| panic!("{change_to:?}: {error}"));
    change(drives, &steps, u64::MAX, false);
    assert_eq!(steps_of(drives, change_to, false).map(|steps| steps.len()), Ok(0), "{change_to:?} is complete");
}

fn runs(drives: &[MemoryDrive]) -> Running {
    Running::of(started(drives, &Options::default()), drives, u64::MAX)
}

/// An array with content, stopped.
fn filled(level: Level, count: usize, checksums: bool, bitmap: BitmapChoice, log: LogChoice) -> Vec<MemoryDrive> {
    let mut create = request(level, level.default_layout(), count, 1, DRIVE_SECTORS);
    (create.bitmap, create.log, create.checksums) = (bitmap, log, checksums);
    let drives = carry_out(&create).0;
    let mut array = runs(&drives);
    array.write(0, &pattern(0, SECTORS, 1));
    array.stop()
}

fn has(drives: &[MemoryDrive]) -> (bool, bool, bool) {
    let start = started(drives, &Options::default());
    let checksums = |candidate: Candidate| candidate.found.expect("a member").checksums.is_some();
    (start.config.intent.is_some(), start.config.log.is_some(), drives.iter().all(|drive| checksums(drive.candidate())))
}

#[test]
fn a_change_that_is_cut_anywhere_loses_no_data_and_no_member() {
    let internal = BitmapChoice::Internal { chunk_bytes: Some(65536) };
    let (on, off) = (LogChoice::Auto, LogChoice::None);
    for (level, count, survives) in [(Level::Raid1, 3, 2), (Level::Raid5, 3, 1), (Level::Raid6, 4, 2), (Level::Raid10, 4, 1)] {
        let mut cases = vec![
            (Change::Bitmap(internal), BitmapChoice::None, on, false),
            (Change::Bitmap(BitmapChoice::None), internal, on, false),
            (Change::Checksums(false), internal, on, true),
        ];
        if level.parity_count() > 0 {
            cases.extend([
                (Change::Log(off), internal, on, false),
                (Change::Log(on), internal, off, false),
                (Change::Bitmap(internal), BitmapChoice::None, off, false),
            ]);
        }
        for (wanted, bitmap, log, checksums) in cases {
            let drives = filled(level, count, checksums, bitmap, log);
            let steps = steps_of(&drives, wanted, false).unwrap_or_else(|error| panic!("RAID {level}, {wanted:?}: {error}"));
            let total = u64::MAX - change(&mut drives.clone(), &steps, u64::MAX, false);
            assert!(total > 0, "RAID {level}, {wanted:?} writes something");
            let mut whole = drives.clone();
            change(&mut whole, &steps, u64::MAX, false);
            assert_ne!(has(&whole), has(&drives), "RAID {level}, {wanted:?}: what the array has is changed");
            for (cut, reversed) in (0..=total).flat_map(|cut| [(cut, false), (cut, true)]) {
                let mut torn = drives.clone();
                change(&mut torn, &steps, cut, reversed);
                // Every loss at every third cut, and one loss at the other cuts.
                for lost in losses(count, if cut.is_multiple_of(3) { survives } else { usize::from(reversed) }) {
                    let place = format!(
                        "RAID {level}, {wanted:?}, cut after {cut} of {total} sectors (reversed: {reversed}), {lost:?} lost"
                    );
                    if lost.is_empty() && cut.is_multiple_of(2) {
                        // The same command again, at once.
                        let mut completed = torn.clone();
                        done(&mut completed, wanted);
                        assert_eq!(has(&completed), has(&whole), "{place}, completed");
                        let bitmap =
                            |drive: &MemoryDrive| drive.candidate().found.expect("a member").superblock.header.bitmap_offset;
                        assert!(completed.iter().all(|drive| bitmap(drive) == bitmap(&whole[0])), "{place}: one bitmap for all");
                    }
                    // The spare comes after the members.
                    let rest = without(&torn, &lost);
                    let assembly: Assembly = assembled(&rest, &Options::default());
                    let left_out = assembly.drives.iter().filter(|drive| !is_used(&drive.verdict)).count();
                    assert_eq!(left_out, 0, "{place}: {:?}", assembly.drives);
                    let start = assembly.outcome.unwrap_or_else(|error| panic!("{place}: {error}"));
                    assert_eq!(start.config.slots.iter().filter(|slot| slot.member.is_none()).count(), lost.len(), "{place}");
                    let mut array = Running::of(start, &rest, u64::MAX);
                    assert!(array.read_all(SECTORS) == pattern(0, SECTORS, 1), "{place}: other data");
                    if !cut.is_multiple_of(3) || lost.len() > 1 {
                        continue;
                    }
                    array.write(7, &pattern(7, 9, 2));
                    let mut stopped = array.stop();
                    let mut expected = pattern(0, SECTORS, 1);
                    expected[7 * 512..16 * 512].copy_from_slice(&pattern(7, 9, 2));
                    assert!(runs(&stopped).read_all(SECTORS) == expected, "{place}: what was written then is lost");
                    if lost.is_empty() {
                        done(&mut stopped, wanted);
                        assert_eq!(has(&stopped), has(&whole), "{place}");
                        assert!(runs(&stopped).read_all(SECTORS) == expected, "{place}: the completed change has lost data");
                    }
                }
            }
        }
    }
}

/// R60: the stop's last update dropped a member, and the power cut kept it from another.
#[test]
fn a_member_that_missed_the_last_update_misses_no_change() {
    let internal = BitmapChoice::Internal { chunk_bytes: Some(65536) };
    for (wanted, bitmap) in [(Change::Bitmap(internal), BitmapChoice::None), (Change::Log(LogChoice::None), internal)] {
        let mut drives = filled(Level::Raid6, 5, false, bitmap, LogChoice::Auto);
        for drive in &mut drives[1..4] {
            let mut superblock = drive.candidate().found.expect("a member").superblock;
            superblock.header.events += 1;
            superblock.roles[4] = Role::Faulty;
            drive.write(superblock.start_sector().get(), &superblock.encode());
        }
        let steps = steps_of(&drives, wanted, false).unwrap_or_else(|error| panic!("{wanted:?}: {error}"));
        let total = u64::MAX - change(&mut drives.clone(), &steps, u64::MAX, false);
        for (cut, reversed) in (0..=total).flat_map(|cut| [(cut, false), (cut, true)]) {
            let mut torn = drives.clone();
            change(&mut torn, &steps, cut, reversed);
            let place = format!("{wanted:?}, cut after {cut} of {total} sectors (reversed: {reversed})");
            let assembly = assembled(&torn, &Options::default());
            let used = assembly.drives.iter().filter(|drive| is_used(&drive.verdict)).count();
            assert!(used >= 5, "four members and the spare, {place}: {:?}", assembly.drives);
            let mut stopped = runs(&torn).stop();
            assert!(runs(&stopped).read_all(SECTORS) == pattern(0, SECTORS, 1), "{place}: other data");
            if cut % 5 == 0 {
                done(&mut stopped, wanted);
            }
        }
    }
}

/// R62: the change had come to one member, which a start lacked that was cut short as well. Both then have as many events (R56).
#[test]
fn a_cut_change_and_a_cut_start_without_its_member_lose_no_member() {
    let internal = BitmapChoice::Internal { chunk_bytes: Some(65536) };
    for (wanted, bitmap) in [(internal, BitmapChoice::None), (BitmapChoice::None, internal)] {
        for ahead in 0..3 {
            let mut drives = filled(Level::Raid5, 3, false, bitmap, LogChoice::Auto);
            let steps = steps_of(&drives, Change::Bitmap(wanted), false).expect("it is possible");
            let members = steps.len() - 2;
            change(&mut drives, &steps[..members], u64::MAX, false);
            let to_one = steps[members].iter().filter(|(drive, _)| *drive == ahead).cloned().collect();
            change(&mut drives, &[to_one], u64::MAX, false);
            let mut rest = without(&drives, &[ahead]);
            let mut start = started(&rest, &Options { force: true, ..Options::default() });
            loop {
                let writes = start.recorder.rewrite_last_update();
                if writes.is_empty() {
                    break;
                }
                for write in writes {
                    rest[start.drives[write.member.0]].write(write.start_sector.get(), &write.data);
                }
            }
            let back = drives[ahead].clone();
            rest.insert(ahead, back);
            let place = format!("{bitmap:?} to {wanted:?}, drive {ahead} was ahead");
            let assembly = assembled(&rest, &Options::default());
            assert!(assembly.drives.iter().all(|drive| is_used(&drive.verdict)), "{place}: {:?}", assembly.drives);
            let mut stopped = runs(&rest).stop();
            assert!(runs(&stopped).read_all(SECTORS) == pattern(0, SECTORS, 1), "{place}");
            done(&mut stopped, Change::Bitmap(wanted));
        }
    }
}

/// A start would take it into its slot; its own superblock does not know that yet.
#[test]
fn a_spare_that_missed_its_slot_is_no_member_to_a_change() {
    let mut drives = filled(Level::Raid5, 3, false, BitmapChoice::None, LogChoice::Auto);
    for drive in &mut drives[..2] {
        let mut superblock = drive.candidate().found.expect("a member").superblock;
        superblock.header.events += 1;
        (superblock.roles[2], superblock.roles[3]) = (Role::Faulty, Role::Slot(2));
        drive.write(superblock.start_sector().get(), &superblock.encode());
    }
    let error =
        steps_of(&drives, Change::Bitmap(BitmapChoice::Internal { chunk_bytes: None }), false).expect_err("it was about to");
    assert!(error.contains("was about to") && error.contains("start the array"), "{error}");
}

fn is_used(verdict: &stria_format::md::Verdict) -> bool {
    use stria_format::md::Verdict;
    matches!(verdict, Verdict::InSync { .. } | Verdict::Spare)
}

/// R63. Drives that were made for checksums have the space for them; others report how much they lack.
#[test]
fn checksums_are_added_where_there_is_room() {
    let internal = BitmapChoice::Internal { chunk_bytes: Some(65536) };
    let mut drives = filled(Level::Raid5, 3, true, internal, LogChoice::Auto);
    done(&mut drives, Change::Checksums(false));
    assert_eq!(has(&drives), (true, true, false));
    done(&mut drives, Change::Checksums(true));
    assert_eq!(has(&drives), (true, true, true));
    // What was checked before must not count after they were away, since something may have been written.
    let epoch = |drives: &[MemoryDrive]| {
        drives[0].candidate().found.expect("a member").checksums.expect("some").header.expect("a head").epoch
    };
    let before = epoch(&drives);
    done(&mut drives, Change::Checksums(false));
    let mut array = runs(&drives);
    array.write(0, &pattern(0, 8, 1));
    drives = array.stop();
    done(&mut drives, Change::Checksums(true));
    assert!(epoch(&drives).wrapping_sub(before) > 1 << 32 && before.wrapping_sub(epoch(&drives)) > 1 << 32, "another epoch");
    assert!(runs(&drives).read_all(SECTORS) == pattern(0, SECTORS, 1));
    let full = filled(Level::Raid5, 3, false, internal, LogChoice::Auto);
    let error = steps_of(&full, Change::Checksums(true), false).expect_err("no room");
    assert!(error.contains("no space") && error.contains("--integrity"), "{error}");
}

/// A new bitmap must not hide what absent members miss, nor cover the time before it was made.
#[test]
fn a_member_that_was_away_while_the_bitmap_was_added_returns_by_a_full_rebuild() {
    let internal = BitmapChoice::Internal { chunk_bytes: Some(65536) };
    let drives = filled(Level::Raid5, 3, false, internal, LogChoice::Auto);
    let (mut rest, away) = (without(&drives, &[1]), drives[1].clone());
    let mut array = runs(&rest);
    array.write(0, &pattern(0, 64, 3));
    rest = array.stop();
    let error = steps_of(&rest, Change::Bitmap(BitmapChoice::None), false).expect_err("the bitmap is needed");
    assert!(error.contains("full redundancy"), "{error}");
    let lacking = without(&drives, &[1]);
    let error = steps_of(&lacking, Change::Log(LogChoice::None), false).expect_err("the member took part when it last ran");
    assert!(error.contains("not here"), "{error}");
    // Without a bitmap from the start, and later with one.
    let drives = filled(Level::Raid5, 3, false, BitmapChoice::None, LogChoice::Auto);
    let (gone, mut rest) = (drives[1].clone(), without(&drives, &[1]));
    let mut array = runs(&rest);
    array.write(0, &pattern(0, 64, 3));
    rest = array.stop();
    done(&mut rest, Change::Bitmap(internal));
    let start = started(&rest, &Options::default());
    let recorder: MdRecorder = start.recorder;
    for member in [away, gone] {
        let found = member.candidate();
        assert!(recorder.returnable(&found.found.expect("a member").superblock).is_err(), "{}", member.name);
    }
}

#[test]
fn a_change_that_is_impossible_says_why() {
    let striped = carry_out(&request(Level::Raid0, Level::Raid0.default_layout(), 2, 0, DRIVE_SECTORS)).0;
    let internal = Change::Bitmap(BitmapChoice::Internal { chunk_bytes: None });
    let why = |drives: &[MemoryDrive], change| steps_of(drives, change, false).expect_err("it is impossible");
    assert!(why(&striped, internal).contains("no redundancy"));
    let mirror = filled(Level::Raid1, 2, false, BitmapChoice::None, LogChoice::Auto);
    assert!(why(&mirror, Change::Log(LogChoice::None)).contains("parity levels"));
    let small = Change::Bitmap(BitmapChoice::Internal { chunk_bytes: Some(512) });
    assert!(why(&mirror, small).contains("chunk"));
    // A crashed array is changed only after a clean stop.
    let mut array = runs(&filled(Level::Raid5, 3, false, BitmapChoice::None, LogChoice::Auto));
    array.write(0, &pattern(0, 8, 2));
    let crashed = array.drives();
    assert!(why(&crashed, internal).contains("not stopped cleanly"));
    assert!(
        steps_of(&crashed, internal, true).is_ok_and(|steps| !steps.is_empty()),
        "whether it would be possible is told while it runs"
    );
}
