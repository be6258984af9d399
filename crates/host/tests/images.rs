//! Goal: members that are image files lose nothing that was acknowledged, and what becomes of their files is reported.
//! Method: small arrays on images of a file system that allocates; a file is trimmed, deleted or replaced while its array runs.

mod support;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use stria_array::Synced;
use stria_block::{Buffer, Mailbox, Operation, Request, bytes};
use stria_drive::Lane;
use stria_host::*;
use support::spec;

const IMAGE_BYTES: u64 = 8 << 20;

fn images(folder: &Path, count: usize) -> Vec<PathBuf> {
    let drives: Vec<PathBuf> = (0..count).map(|index| folder.join(format!("d{index}"))).collect();
    drives.iter().for_each(|path| File::create(path).and_then(|file| file.set_len(IMAGE_BYTES)).expect("an image"));
    drives
}

fn start(level: &str, drives: &[PathBuf]) -> (ArrayLanes, Receiver<Notice>) {
    create(&CreateSpec { assume_clean: true, ..spec("tank", level, drives) }).unwrap_or_else(|error| panic!("{error}"));
    let (sender, notices) = channel();
    let opened = ArrayLanes::open(drives, OpenOptions::default(), vec![Lane::new("lane0")], sender);
    (opened.unwrap_or_else(|error| panic!("{error}")).0, notices)
}

/// R49. A trim made holes in images that had all their space, and writes there went on to be acknowledged early.
#[test]
fn after_a_trim_no_write_is_acknowledged_early_on_images() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let drives = images(folder.path(), 3);
    for path in &drives {
        let file = File::options().write(true).open(path).expect("an image");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, IMAGE_BYTES).expect("a file system that allocates");
    }
    let (array, _notices) = start("5", &drives);
    let status = || array.report().expect("it runs").status;
    while status().synced != Synced::All {
        std::thread::sleep(Duration::from_millis(10));
    }
    let thread = std::thread::current();
    let reply = Arc::new(Mailbox::new(move || thread.unpark()));
    let carry_out = |sectors, start_sector, operation| {
        array.remote().submit(&mut vec![Request { tag: 0, start_sector, sectors, operation }], &reply);
        let (mut ended, end) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while ended.is_empty() {
            assert!(Instant::now() < end, "it is answered");
            if reply.prepare_sleep() {
                std::thread::park_timeout(Duration::from_secs(1));
                reply.awake();
            }
            reply.take(&mut ended);
        }
        assert_eq!(ended[0].result, Ok(()));
    };
    let early = || {
        let before = status().log.expect("it has one").early_count;
        for start_sector in (0..32 * 16).step_by(8) {
            let from = std::iter::once(Buffer::zeroed(bytes(8)).freeze()).collect();
            carry_out(8, start_sector, Operation::Write { from, fua: false });
        }
        status().log.expect("it has one").early_count - before
    };
    assert!(early() > 0, "they have their space");
    let zeroes = |unmap| Operation::WriteZeroes { fua: false, unmap, fast: false };
    carry_out(32 * 4, 0, zeroes(false));
    assert!(early() > 0, "they still have it");
    carry_out(32 * 4, 0, zeroes(true));
    assert_eq!(early(), 0);
    array.stop(|_| ()).expect("it stops");
}

/// Writes went to a file without a name, acknowledged, and were lost with the stop.
#[test]
fn a_member_whose_file_is_deleted_or_replaced_is_reported_once() {
    for is_replaced in [false, true] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let drives = images(folder.path(), 2);
        let (array, notices) = start("1", &drives);
        match is_replaced {
            true => std::fs::copy(&drives[1], folder.path().join("new"))
                .and_then(|_| std::fs::rename(folder.path().join("new"), &drives[1]))
                .expect("it is replaced"),
            false => std::fs::remove_file(&drives[1]).expect("it is deleted"),
        }
        let mut told = Vec::new();
        while told.is_empty() {
            let notice = notices.recv_timeout(Duration::from_secs(60)).expect("it is reported");
            told.extend(matches!(notice.kind, NoticeKind::Deleted).then(|| notice.said.to_string()));
        }
        assert!(told[0].contains("d1 was deleted or replaced"), "{told:?}");
        // More looks follow, one each second.
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!notices.try_iter().any(|notice| matches!(notice.kind, NoticeKind::Deleted)), "once");
        let report = array.stop(|_| ()).expect("it stops");
        assert!(report.status.members.iter().all(|member| member.state == stria_array::MemberState::InSync), "none is dropped");
    }
}
