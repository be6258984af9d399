//! Goal: a member that was cut short while in use never returns by the bitmap, also after a restart, since no bit names what it
//! lost. Method: a member on an image file is cut to a half while the array runs, and made long again once it is dropped. The
//! array is stopped, or its process ends without that. Then the drive is added.
//!
//! And: what a former member may alone hold is not overwritten without force, although no list on disk names what the others lack.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use stria_array::Event;
use stria_drive::{IoOptions, Lane, Ring};
use stria_format::md::Superblock;
use stria_host::*;
use support::spec;

const IMAGE_BYTES: u64 = 8 << 20;

fn resize(path: &PathBuf, bytes: u64) {
    File::options().write(true).open(path).and_then(|file| file.set_len(bytes)).expect("it is a file");
}

fn start(drives: &[PathBuf]) -> (ArrayLanes, Receiver<Notice>) {
    let (sender, notices) = channel();
    let lanes = vec![Lane::new("lane0")];
    let (array, _) = ArrayLanes::open(drives, OpenOptions::default(), lanes, sender).unwrap_or_else(|error| panic!("{error}"));
    (array, notices)
}

fn wait_for(notices: &Receiver<Notice>, is_it: impl Fn(&Event) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Ok(notice) = notices.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if matches!(&notice.kind, NoticeKind::Engine(event) if is_it(event)) {
            return;
        }
    }
    panic!("the event did not come");
}

fn trial(level: &str, count: usize, is_stopped: bool) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let drives: Vec<PathBuf> = (0..count).map(|index| folder.path().join(format!("d{index}"))).collect();
    drives.iter().for_each(|path| File::create(path).and_then(|file| file.set_len(IMAGE_BYTES)).expect("an image"));
    let spec = CreateSpec { assume_clean: true, ..spec("tank", level, &drives) };
    create(&spec).unwrap_or_else(|error| panic!("RAID {level}: {error}"));
    let open = || OpenedDrive::open(&drives[1], IoOptions::default());
    let (array, notices) = start(&drives);
    resize(&drives[1], IMAGE_BYTES / 2);
    wait_for(&notices, |event| matches!(event, Event::MemberFailed { .. }));
    resize(&drives[1], IMAGE_BYTES);
    if is_stopped {
        array.stop(|_| ()).expect("it stops");
    } else {
        // This waits until the drop is durable. Nothing follows that a stop would write.
        array.remove(drives[1].clone()).expect("it has failed");
        let refused = array.take_back(open).expect_err("it lost data").to_string();
        assert!(refused.contains("it was cut short while in use"), "RAID {level}: {refused}");
    }
    drop(array);
    let left: Vec<PathBuf> = drives.iter().enumerate().filter(|(index, _)| *index != 1).map(|(_, path)| path.clone()).collect();
    let (array, notices) = start(&left);
    let refused = array.take_back(open).expect_err("its holes are in no bitmap").to_string();
    assert!(refused.contains("the bitmap covers only what was written since"), "RAID {level}: {refused}");
    let told = array.add(open, None, false).expect("it may join anew");
    assert!(told.contains("joined \"tank") && told.contains("as a new spare"), "RAID {level}: {told}");
    wait_for(&notices, |event| matches!(event, Event::MemberInSync { .. }));
    array.stop(|_| ()).expect("it stops");
}

#[test]
fn a_member_that_was_cut_short_is_rebuilt_completely_after_a_restart() {
    for (level, count) in [("1", 2), ("5", 3), ("6", 4), ("10", 4), ("50", 6)] {
        for is_stopped in [true, false] {
            trial(level, count, is_stopped);
        }
    }
}

/// The array has no list of bad blocks. One of its two copies fails, and a block of the other has rotted when a third drive is
/// filled from it. What that drive lacks was known in memory alone, and the copy that had failed was overwritten.
#[test]
fn a_former_member_is_overwritten_by_force_only_while_bad_blocks_are_known_in_memory_alone() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let drives: Vec<PathBuf> = (0..3).map(|index| folder.path().join(format!("d{index}"))).collect();
    drives.iter().for_each(|path| File::create(path).and_then(|file| file.set_len(IMAGE_BYTES)).expect("an image"));
    let members = &drives[..2];
    create(&CreateSpec { assume_clean: true, checksums: true, ..spec("tank", "1", members) }).expect("it can be");
    let image = |path: &PathBuf| File::options().read(true).write(true).open(path).expect("an image");
    let mut data_start = 0;
    for path in members {
        let mut block = vec![0; 4096];
        image(path).read_exact_at(&mut block, 4096).expect("its superblock");
        let mut superblock = Superblock::parse(&block, 8, IMAGE_BYTES / 512).expect("a member");
        (superblock.header.bblog_offset, superblock.header.bblog_size) = (0, 0);
        image(path).write_all_at(&superblock.encode(), 4096).expect("it is a file");
        data_start = superblock.header.data_offset * 512;
    }
    let ring = Ring::new().expect("a ring");
    let (mut array, _) = open(members, &ring, OpenOptions::default()).expect("it starts");
    array.sync_io(|io| io.write(0, &[7; 1 << 16])).expect("drives work");
    array.sync_io(|io| io.stop()).expect("it stops");
    drop(array);
    let mut byte = [0];
    image(&drives[1]).read_exact_at(&mut byte, data_start + 5000).expect("an image");
    assert_eq!(byte, [7], "this is where the data lies");
    image(&drives[1]).write_all_at(&[8], data_start + 5000).expect("it is a file");

    let (array, notices) = start(members);
    let open = |index: usize| OpenedDrive::open(&drives[index], IoOptions::default());
    array.fail(drives[0].clone()).expect("redundant");
    array.remove(drives[0].clone()).expect("it has failed");
    array.add(|| open(2), None, false).expect("it is blank");
    wait_for(&notices, |event| matches!(event, Event::BadBlocks { .. }));
    let refused = array.add(|| open(0), None, false).expect_err("it may alone hold the block").to_string();
    assert!(refused.contains("it may alone hold what they lack: nothing was written"), "{refused}");
    array.stop(|_| ()).expect("it stops");
}
