//! Goal: a drive that is cut short while it is open is lost, and never returns zeros in place of its data.
//! Method: files, on several file systems, and loop devices are cut short at every awkward moment: while idle, with a write
//! already submitted that makes the file long again, and back to the full length at once. Then every kind of request is sent to
//! them.

mod common;

use common::*;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use stria_block::{BlockDevice, Buffer, ErrorKind, Operation, Request, Segments};
use stria_drive::{Access, FileDrive, Ring, SyncDrive, monotonic_now};

const LEN: u64 = 4 << 20;
const SECTORS: u64 = LEN / 512;

/// A drive that is full of ones.
fn full(path: &Path) -> (Ring, FileDrive) {
    let ring = Ring::new().unwrap();
    let mut drive = FileDrive::new(SyncDrive::open(path, Access::Exclusive).unwrap(), &ring);
    write(&ring, &mut drive, 0, &vec![1; LEN as usize]).unwrap();
    carry_out(&ring, &mut drive, 0, 0, Operation::Flush).result.unwrap();
    (ring, drive)
}

fn cut(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn len_of(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Folders on the file systems at hand.
fn with_folders(mut work: impl FnMut(&Path)) {
    let (disk, memory) = (Folder::on_disk(), Folder::in_memory());
    work(&disk.0);
    work(&memory.0);
    for kind in ["ext4", "xfs"] {
        let image = disk.file(kind, 400 << 20);
        if !is_root("a mount") || run(&format!("mkfs.{kind}"), &["-q", image.to_str().unwrap()]).is_err() {
            println!("skipped: no {kind} of our own");
            continue;
        }
        let folder = Folder::on_disk();
        if let Some(mount) = Mount::new(&folder, &["-o", "loop", image.to_str().unwrap()]) {
            work(&mount.0);
        }
    }
}

fn file_in(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("member");
    File::create(&path).and_then(|file| file.set_len(LEN)).unwrap();
    path
}

/// The drive is lost for every request at every position, and stays lost.
fn is_lost(ring: &Ring, drive: &mut FileDrive, when: &str) {
    for start_sector in [0, 8, SECTORS / 2, SECTORS - 8, 0] {
        let error = read(ring, drive, start_sector, 8).expect_err(when);
        assert_eq!(error.kind, ErrorKind::Gone, "{when}: {error}");
        assert!(error.context.contains("while in use"), "{when}: {error}");
    }
    assert_eq!(write(ring, drive, 0, &[2; 4096]).unwrap_err().kind, ErrorKind::Gone, "{when}");
    let zeroes = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
    for operation in [Operation::Flush, zeroes, Operation::Extents { extents: Vec::new() }] {
        let sectors = if matches!(operation, Operation::Flush) { 0 } else { 64 };
        let words = format!("{when}: {operation:?}");
        let error = carry_out(ring, drive, 0, sectors, operation).result.expect_err(&words);
        assert!(matches!(error.kind, ErrorKind::Gone | ErrorKind::Unsupported), "{words}: {error}");
    }
    let again = FileDrive::new(drive.drive().clone(), ring).watch().look_at_size();
    assert_eq!(again.expect("its other handles know").kind, ErrorKind::Gone);
    assert_eq!(drive.drive().read_at(0, &mut [0; 512]).unwrap_err().kind, ErrorKind::Gone);
    assert_eq!(drive.drive().write_at(0, &[0; 4096]).unwrap_err().kind, ErrorKind::Gone);
}

#[test]
fn file_cut_short_is_lost_and_does_not_grow() {
    with_folders(|folder| {
        for left in [0, 100, LEN / 2, LEN - 4096, LEN - 1] {
            let path = file_in(folder);
            let (ring, mut drive) = full(&path);
            cut(&path, left);
            let error = write(&ring, &mut drive, 8, &[2; 4096]).expect_err("a write before any read finds it as well");
            assert_eq!(error.kind, ErrorKind::Gone);
            is_lost(&ring, &mut drive, &format!("{} bytes left in {}", left, folder.display()));
            assert_eq!(len_of(&path), left, "nothing is written behind the end");
        }
    });
}

#[test]
fn reads_on_their_way_are_not_believed() {
    with_folders(|folder| {
        let path = file_in(folder);
        let (ring, mut drive) = full(&path);
        let into = Segments::from_iter([Buffer::zeroed(4096)]);
        drive.submit(Request { tag: 1, start_sector: 0, sectors: 8, operation: Operation::Read { into } });
        ring.drain();
        // The data that was read is right, but the drive cannot know that.
        cut(&path, LEN / 2);
        let mut ended = Vec::new();
        drive.poll(monotonic_now(), &mut ended);
        assert_eq!(ended[0].result.as_ref().unwrap_err().kind, ErrorKind::Gone);
    });
}

#[test]
fn holes_behind_a_write_that_made_the_file_grow_are_not_zeros() {
    with_folders(|folder| {
        // The last one makes the file as long as it was.
        for write_at in [64, SECTORS / 2, SECTORS - 16, SECTORS - 8] {
            let path = file_in(folder);
            let (ring, mut drive) = full(&path);
            let from = Segments::from_iter([Buffer::copy_of(&[2; 4096]).freeze()]);
            let operation = Operation::Write { from, fua: false };
            drive.poll(monotonic_now(), &mut Vec::new());
            drive.submit(Request { tag: 1, start_sector: write_at, sectors: 8, operation });
            // The write has been checked, but not submitted to the kernel yet.
            cut(&path, 0);
            let mut ended = Vec::new();
            while ended.is_empty() {
                drive.poll(monotonic_now(), &mut ended);
                ring.wait(Some(Duration::from_millis(1)));
            }
            // On some kernels and file systems it can still be refused.
            let len = len_of(&path);
            assert!(len == 0 || len == (write_at + 8) * 512, "it has grown by that write, or not at all: {len}");
            let what = format!("write at {write_at} in {}", folder.display());
            assert!(read(&ring, &mut drive, 8, 8).is_err(), "{what}: nobody gets zeros");
            is_lost(&ring, &mut drive, &what);
        }
    });
}

#[test]
fn file_cut_short_and_made_long_again_is_lost() {
    with_folders(|folder| {
        for left in [0, LEN / 2] {
            let path = file_in(folder);
            let (ring, mut drive) = full(&path);
            assert!(read(&ring, &mut drive, 8, 8).is_ok());
            cut(&path, left);
            cut(&path, LEN);
            assert!(read(&ring, &mut drive, SECTORS - 8, 8).is_err(), "nobody gets zeros");
            is_lost(&ring, &mut drive, &format!("{left} bytes left in {}", folder.display()));
        }
    });
}

/// Before, the first look at a file took what was left of it for what it had been: zeros were read from its holes.
#[test]
fn file_cut_short_and_made_long_again_before_the_first_look_is_lost() {
    with_folders(|folder| {
        let path = file_in(folder);
        std::fs::write(&path, vec![1; LEN as usize]).and_then(|()| File::open(&path)?.sync_all()).unwrap();
        for access in [Access::ReadOnly, Access::Exclusive] {
            let ring = Ring::new().unwrap();
            let mut drive = FileDrive::new(SyncDrive::open(&path, access).unwrap(), &ring);
            cut(&path, 0);
            cut(&path, LEN);
            let error = read(&ring, &mut drive, 8, 8).expect_err("it is lost");
            assert_eq!(error.kind, ErrorKind::Gone, "{access:?} in {folder:?}: {error}");
            assert!(error.context.contains("made long again"), "{error}");
            drop(drive);
            std::fs::write(&path, vec![1; LEN as usize]).and_then(|()| File::open(&path)?.sync_all()).unwrap();
        }
    });
}

#[test]
fn room_that_we_give_back_is_not_missed() {
    with_folders(|folder| {
        let (ring, mut drive) = full(&file_in(folder));
        for round in 0..8 {
            let zeroes = |unmap| Operation::WriteZeroes { fua: true, unmap, fast: false };
            for operation in [zeroes(true), zeroes(false)] {
                carry_out(&ring, &mut drive, 0, SECTORS, operation).result.unwrap();
                assert!(read(&ring, &mut drive, 8, 8).unwrap().iter().all(|&byte| byte == 0));
                write(&ring, &mut drive, 0, &vec![round; LEN as usize]).unwrap();
                assert!(read(&ring, &mut drive, 8, 8).unwrap().iter().all(|&byte| byte == round));
            }
        }
    });
}

/// XFS reserves space around each block that it copies for a file that shares blocks, and frees it at any time.
#[test]
fn space_that_was_only_reserved_for_copies_is_not_missed() {
    let disk = Folder::on_disk();
    let image = disk.file("xfs", 400 << 20);
    if !is_root("a mount") || run("mkfs.xfs", &["-q", image.to_str().unwrap()]).is_err() {
        return println!("skipped: no xfs of our own");
    }
    let Some(mount) = Mount::new(&disk, &["-o", "loop", image.to_str().unwrap()]) else { return };
    for is_sparse in [false, true] {
        let path = file_in(&mount.0);
        let (ring, mut drive) = full(&path);
        if is_sparse {
            let zeroes = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
            carry_out(&ring, &mut drive, SECTORS / 2, SECTORS / 2, zeroes).result.unwrap();
        }
        let copy = mount.0.join("copy");
        run("cp", &["--reflink=always", path.to_str().unwrap(), copy.to_str().unwrap()]).unwrap();
        (0..4).for_each(|part| write(&ring, &mut drive, part * SECTORS / 8, &[2; 4096]).unwrap());
        read(&ring, &mut drive, 0, 8).unwrap();
        let space = || std::fs::metadata(&path).unwrap().blocks();
        let reserved = space();
        run("xfs_spaceman", &["-c", "prealloc -s", mount.0.to_str().unwrap()]).unwrap();
        assert!(space() + (256 << 10) / 512 < reserved, "it was freed");
        assert_eq!(read(&ring, &mut drive, 0, 8).unwrap()[0], 2, "sparse: {is_sparse}");
        drop(drive);
        std::fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn file_that_grows_is_what_it_was() {
    let folder = Folder::on_disk();
    let path = folder.file("member", LEN);
    let (ring, mut drive) = full(&path);
    cut(&path, 2 * LEN);
    assert!(read(&ring, &mut drive, SECTORS - 8, 8).unwrap().iter().all(|&byte| byte == 1));
    assert!(drive.watch().look_at_size().is_none());
}

#[test]
fn loop_device_over_a_file_cut_short_is_lost() {
    let folder = Folder::on_disk();
    for direct in ["--direct-io=off", "--direct-io=on"] {
        for grown in [None, Some(64), Some(SECTORS - 16)] {
            let Some(device) = Loop::with(&folder, LEN, 512, &[direct]) else { return };
            let (ring, mut drive) = full(&device.device);
            cut(&device.file, LEN / 4);
            if let Some(sector) = grown {
                // As by a write of ours that was in flight.
                use std::os::unix::fs::FileExt;
                File::options().write(true).open(&device.file).unwrap().write_all_at(&[2; 4096], sector * 512).unwrap();
            }
            let what = format!("{direct}, grown by a write at {grown:?}");
            assert!(read(&ring, &mut drive, SECTORS / 2, 8).is_err(), "{what}: nobody gets zeros");
            is_lost(&ring, &mut drive, &what);
        }
    }
}

/// Before, zeros were read from its holes, and the array stayed optimal. Space that Stria gives back is not missed.
#[test]
fn loop_device_over_a_file_cut_short_and_made_long_again_is_lost() {
    for folder in [Folder::on_disk(), Folder::in_memory()] {
        for direct in ["--direct-io=off", "--direct-io=on"] {
            // The size of a file need not be a multiple of the device's blocks.
            for (left, odd) in [(0, 0), (LEN / 2, 0), (LEN - (256 << 10), 300)] {
                let path = folder.file("behind", LEN + odd);
                let Some(device) = Loop::over(&path, &[direct]) else { return };
                let (ring, mut drive) = full(&device.device);
                for round in 0..3 {
                    let zeroes = Operation::WriteZeroes { fua: true, unmap: round != 1, fast: false };
                    carry_out(&ring, &mut drive, 0, SECTORS, zeroes).result.unwrap();
                    assert!(read(&ring, &mut drive, 8, 8).unwrap().iter().all(|&byte| byte == 0));
                    write(&ring, &mut drive, 0, &vec![1; LEN as usize]).unwrap();
                    carry_out(&ring, &mut drive, 0, 0, Operation::Flush).result.unwrap();
                    assert!(read(&ring, &mut drive, 8, 8).unwrap().iter().all(|&byte| byte == 1));
                }
                cut(&path, left);
                cut(&path, LEN + odd);
                let what = format!("{direct}, {left} bytes left in {}", folder.0.display());
                assert!(read(&ring, &mut drive, SECTORS - 8, 8).is_err(), "{what}: nobody gets zeros");
                is_lost(&ring, &mut drive, &what);
            }
        }
    }
}

/// A part of a file has no space of its own: what frees the rest costs no member.
#[test]
fn loop_device_over_a_part_of_a_file_misses_no_space_of_the_rest() {
    let folder = Folder::on_disk();
    let path = folder.file("shared", 2 * LEN);
    for offset in [0, LEN] {
        std::fs::write(&path, vec![1; 2 * LEN as usize]).and_then(|()| File::open(&path)?.sync_all()).unwrap();
        let (offset_word, size) = (offset.to_string(), LEN.to_string());
        let Some(device) = Loop::over(&path, &["--offset", &offset_word, "--sizelimit", &size]) else { return };
        let (ring, mut drive) = full(&device.device);
        let rest = (LEN - offset).to_string();
        run("fallocate", &["--punch-hole", "--offset", &rest, "--length", &size, path.to_str().unwrap()]).unwrap();
        assert!(read(&ring, &mut drive, 8, 8).unwrap().iter().all(|&byte| byte == 1), "offset {offset}");
    }
}

#[test]
fn device_that_shrinks_is_lost() {
    let folder = Folder::on_disk();
    for begin in 0..3 {
        let Some(device) = Loop::new(&folder, LEN, 512) else { return };
        let ring = Ring::new().unwrap();
        // The file stays: only the device reports that it is smaller.
        let drive = SyncDrive::open(&device.device, Access::Exclusive).unwrap();
        let mut drive = FileDrive::new(drive, &ring);
        run("losetup", &["--sizelimit", &(LEN / 2).to_string(), "--set-capacity", device.device.to_str().unwrap()])
            .map(drop)
            .unwrap_or_else(|error| println!("{error}"));
        if std::fs::read(&device.device).unwrap().len() as u64 == LEN {
            cut(&device.file, LEN / 2);
            run("losetup", &["--set-capacity", device.device.to_str().unwrap()]).unwrap();
        }
        match begin {
            0 => assert_eq!(read(&ring, &mut drive, SECTORS - 8, 8).unwrap_err().kind, ErrorKind::Gone),
            1 => assert_eq!(write(&ring, &mut drive, SECTORS - 8, &[2; 4096]).unwrap_err().kind, ErrorKind::Gone),
            _ => assert!(drive.watch().look_at_size().is_some()),
        }
        is_lost(&ring, &mut drive, &format!("beginning with {begin}"));
    }
}
