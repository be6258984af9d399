//! Goal: a member that was cut short while in use never returns by the bitmap, also after a restart, since no bit names what it
//! lost. Method: a member on an image file is cut to a half while the array runs, and made long again once it is dropped. The
//! array is stopped, or its process ends without that. Then the drive is added.

mod support;

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use stria_array::Event;
use stria_drive::{IoOptions, Lane};
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
