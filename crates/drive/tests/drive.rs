//! A drive reports its properties, admits one user, and fails with the right errors.

mod common;

use common::*;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use stria_block::{BlockDevice, Buffer, ErrorKind, Operation, Request, Segments};
use stria_chance::Chance;
use stria_drive::{Access, DriveError, DriveKind, FileDrive, Ring, SyncDrive, open, probe};

fn on(path: &Path) -> (Ring, FileDrive) {
    let ring = Ring::new().unwrap();
    let drive = open(path, &ring, Access::Exclusive).unwrap();
    (ring, drive)
}

fn unmap() -> Operation {
    Operation::WriteZeroes { fua: false, unmap: true, fast: false }
}

#[test]
fn probe_tells_what_a_file_is() {
    let folder = Folder::on_disk();
    let info = probe(&folder.file("member", (1 << 20) + 700)).unwrap();
    assert_eq!((info.kind, info.limits.size_sectors), (DriveKind::File, 2049), "a part of a sector is left out");
    assert_eq!((info.limits.logical_block_bytes, info.limits.physical_block_bytes), (512, 4096));
    assert!(info.limits.volatile_cache && info.limits.unmap_zeroes && info.limits.discard_granularity_bytes == 4096);
    assert!(info.direct && info.direct_note.is_none(), "this test's file system does direct I/O");
}

#[test]
fn looking_changes_nothing_and_opening_no_byte() {
    for folder in [Folder::on_disk(), Folder::in_memory()] {
        let path = folder.file("member", 1 << 20);
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let metadata = || std::fs::metadata(&path).unwrap();
        let before = metadata();
        std::thread::sleep(Duration::from_millis(20));
        let looked = probe(&path).unwrap();
        assert_eq!((metadata().modified().unwrap(), metadata().ctime_nsec()), (before.modified().unwrap(), before.ctime_nsec()));
        let opened = SyncDrive::open(&path, Access::Exclusive).unwrap();
        assert_eq!(opened.info().limits, looked.limits, "both find the same");
        assert_eq!((metadata().len(), metadata().blocks()), (before.len(), before.blocks()));
        assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 7));
    }
}

#[test]
fn a_watch_tells_when_the_last_request_ended() {
    let folder = Folder::on_disk();
    let (ring, mut drive) = on(&folder.file("member", 1 << 20));
    let watch = drive.watch();
    assert_eq!(watch.last_end(), 0);
    let mut last = 0;
    let transfer = Operation::Write { from: smallvec::smallvec![Buffer::zeroed(4096).freeze()], fua: false };
    for (sectors, operation) in [(8, transfer), (0, Operation::Flush), (8, unmap())] {
        std::thread::sleep(Duration::from_millis(2));
        carry_out(&ring, &mut drive, 0, sectors, operation).result.unwrap();
        assert!(watch.last_end() > last && watch.oldest().is_none());
        last = watch.last_end();
    }
}

#[test]
fn same_drive_is_recognised_through_links() {
    let folder = Folder::on_disk();
    let path = folder.file("member", 1 << 20);
    let (soft, hard) = (folder.0.join("soft"), folder.0.join("hard"));
    symlink(&path, &soft).unwrap();
    std::fs::hard_link(&path, &hard).unwrap();
    let identity = |path| probe(path).unwrap().identity;
    assert_eq!(identity(&path), identity(&soft));
    assert_eq!(identity(&path), identity(&hard));
    assert_ne!(identity(&path), identity(&folder.file("other", 1 << 20)));
}

#[test]
fn block_device_is_recognised_by_number() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, 1 << 20, 4096) else { return };
    let info = probe(&device.device).unwrap();
    assert_eq!((info.kind, info.limits.size_sectors, info.limits.logical_block_bytes), (DriveKind::BlockDevice, 2048, 4096));
    assert!(info.direct && info.limits.discard_granularity_bytes >= 4096);
    let node = folder.0.join("node");
    let number = device.device.to_str().unwrap().trim_start_matches("/dev/loop");
    run("mknod", &[node.to_str().unwrap(), "b", "7", number]).unwrap();
    // A file system mounted without devices refuses to open the node; where it opens, the number is reported.
    if let Ok(other) = probe(&node) {
        assert_eq!(other.identity, info.identity);
    }
}

#[test]
fn what_cannot_be_a_member_is_refused_with_words() {
    let folder = Folder::on_disk();
    let refusal = |path: &Path| SyncDrive::open(path, Access::Exclusive).unwrap_err().to_string();
    assert_eq!(
        refusal(&folder.0),
        format!("{} cannot be a member: it is a directory; give a block device or a regular file", folder.0.display())
    );
    assert!(refusal("/dev/null".as_ref()).contains("it is a character device"));
    assert!(refusal(&folder.file("empty", 0)).contains("it is an empty file, which carries no array"));
    assert!(refusal(&folder.0.join("nothing")).ends_with("does not exist: check the name"));
    let fifo = folder.0.join("fifo");
    run("mkfifo", &[fifo.to_str().unwrap()]).unwrap();
    assert!(refusal(&fifo).contains("it is a pipe or socket"), "and does not hang");
}

#[test]
fn drive_held_by_this_process_is_busy() {
    let folder = Folder::on_disk();
    let path = folder.file("member", 1 << 20);
    let first = SyncDrive::open(&path, Access::Exclusive).unwrap();
    let error = SyncDrive::open(&path, Access::Exclusive).unwrap_err();
    assert!(matches!(&error, DriveError::Busy { holder, .. } if holder == "this very process"), "{error}");
    SyncDrive::open(&path, Access::ReadOnly).expect("looking is free");
    drop(first);
    SyncDrive::open(&path, Access::Exclusive).expect("free again");
}

/// The other process of the next test; not a test by itself.
#[test]
fn holder_process() {
    let Ok(path) = std::env::var("STRIA_TEST_HOLD") else { return };
    let _drive = SyncDrive::open(path.as_ref(), Access::Exclusive).unwrap();
    println!("\nheld");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn drive_held_by_another_process_is_busy_until_that_is_killed() {
    let folder = Folder::on_disk();
    let device = Loop::new(&folder, 1 << 20, 512);
    for path in [Some(folder.file("member", 1 << 20)), device.as_ref().map(|device| device.device.clone())].into_iter().flatten()
    {
        let mut holder = Command::new(std::env::current_exe().unwrap());
        holder.args(["--exact", "holder_process", "--nocapture"]).env("STRIA_TEST_HOLD", &path).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "held"));
        let error = SyncDrive::open(&path, Access::Exclusive).unwrap_err().to_string();
        let words = format!("{} is in use by another process (drive-", path.display());
        assert!(error.starts_with(&words) && error.contains(&format!("pid {}); stop it first", holder.id())), "{error}");
        // udev reads devices under such a lock, and postpones its work while it cannot get it.
        let as_udev = std::fs::File::open(&path).unwrap().try_lock_shared();
        assert_eq!(as_udev.is_ok(), path.starts_with("/dev"), "{}: {as_udev:?}", path.display());
        holder.kill().unwrap();
        holder.wait().unwrap();
        SyncDrive::open(&path, Access::Exclusive).expect("free again");
    }
}

/// Regression: between its kill and its end a process counted as a user that stays, so a start beside it was refused at once.
#[test]
fn a_killed_process_that_has_not_ended_yet_is_waited_for() {
    let folder = Folder::on_disk();
    let path = folder.file("member", 1 << 20);
    let mut holder = Command::new(std::env::current_exe().unwrap());
    holder.args(["--exact", "holder_process", "--nocapture"]).env("STRIA_TEST_HOLD", &path).stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    let pid = libc::pid_t::try_from(holder.id()).unwrap();
    let stops = libc::PTRACE_O_TRACEEXIT as *mut libc::c_void;
    // SAFETY: the child is ours, and no memory of either process is touched. From here on its first thread stops where it ends.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, std::ptr::null_mut::<libc::c_void>(), stops) }, 0);
    holder.kill().unwrap();
    let mut status = 0;
    // SAFETY: as above; `status` is written.
    let stopped = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    assert!(stopped == pid && libc::WIFSTOPPED(status), "{status:#x}");
    let opening = std::thread::spawn(move || SyncDrive::open(&path, Access::Exclusive).map(drop));
    // It is refused in far less, if at all.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!opening.is_finished(), "{:?}", opening.join());
    // SAFETY: as above.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, 0) }, 0);
    holder.wait().unwrap();
    opening.join().unwrap().expect("it has ended");
}

#[test]
fn mounted_device_is_busy() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, 16 << 20, 512) else { return };
    run("mkfs.ext4", &["-q", device.device.to_str().unwrap()]).unwrap();
    let Some(mount) = Mount::new(&folder, &[device.device.to_str().unwrap()]) else { return };
    let error = SyncDrive::open(&device.device, Access::Exclusive).unwrap_err().to_string();
    assert!(error.contains(&format!("the file system mounted at {}", mount.0.display())), "{error}");
    probe(&device.device).expect("looking is free");
}

#[test]
fn file_under_a_loop_device_is_busy() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, 1 << 20, 512) else { return };
    let error = SyncDrive::open(&device.file, Access::Exclusive).unwrap_err().to_string();
    assert!(error.ends_with(&format!("is in use by the loop device {}; stop it first", device.device.display())), "{error}");
    probe(&device.file).expect("looking is free");
}

/// Regression: two loop devices over one file, or a file and a loop device over it, could be written at the same time.
#[test]
fn second_path_to_a_drive_in_use_is_busy() {
    let folder = Folder::on_disk();
    let Some(first) = Loop::new(&folder, 1 << 20, 512) else { return };
    let second = Loop::over(&first.file, &[]).expect("a second one");
    let half = Loop::over(&first.file, &["--offset", "524288"]).expect("a third one");
    let refused = |path: &Path, by: &[&str]| {
        let error = SyncDrive::open(path, Access::Exclusive).expect_err("in use").to_string();
        assert!(by.iter().all(|by| error.contains(by)), "{error}");
        probe(path).expect("looking is free");
    };
    let held = SyncDrive::open(&first.device, Access::Exclusive).expect("nothing uses it");
    refused(&second.device, &["this very process"]);
    refused(&half.device, &["this very process"]);
    drop(held);
    // The user of another path may be other software.
    let claim = SyncDrive::open(&second.device, Access::Exclusive).expect("free again");
    drop(claim);
    let excl = rustix::fs::OFlags::EXCL.bits() as i32;
    let foreign = std::fs::File::options().read(true).custom_flags(excl).open(&half.device).expect("it opens");
    refused(&first.device, &["by another path to the same drive", &half.device.display().to_string()]);
    drop(foreign);
    // The lock on the file belongs to a user without a loop device.
    let file = std::fs::File::open(&first.file).expect("it opens");
    file.lock().expect("locked");
    refused(&first.device, &["this very process, which uses the file behind it", &first.file.display().to_string()]);
    drop(file);
    SyncDrive::open(&first.device, Access::Exclusive).expect("free again");
}

/// "another process, a mounted file system or swap" was said, and none was there.
#[test]
fn users_of_a_disk_and_of_its_partitions_are_found() {
    let folder = Folder::on_disk();
    let Some(disk) = Loop::new(&folder, 16 << 20, 512) else { return };
    let whole = disk.device.to_str().unwrap();
    if let Err(error) = run("addpart", &[whole, "1", "2048", "16384"]) {
        println!("skipped: no partition: {error}");
        return;
    }
    let part = PathBuf::from(format!("{whole}p1"));
    let info = |path: &Path| probe(path).expect("it is there").identity;
    assert_eq!(info(&part).disk(), Some(info(&disk.device)));
    assert_eq!(info(&disk.device).disk(), None);
    let refused = |path: &Path| SyncDrive::open(path, Access::Exclusive).expect_err("in use").to_string();
    let held = SyncDrive::open(&disk.device, Access::Exclusive).expect("free");
    let error = refused(&part);
    assert!(error.contains(&format!("in use by this very process, which uses its disk {whole}")), "{error}");
    drop(held);
    let held = SyncDrive::open(&part, Access::Exclusive).expect("free");
    let error = refused(&disk.device);
    assert!(error.contains(&format!("in use by this very process, which uses its partition {whole}p1")), "{error}");
    drop(held);
    let _ = run("delpart", &[whole, "1"]);
}

#[test]
fn write_protected_device_is_refused() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::with(&folder, 1 << 20, 512, &["--read-only"]) else { return };
    let error = SyncDrive::open(&device.device, Access::Exclusive).unwrap_err().to_string();
    assert!(error.contains(" cannot be a member: it is write-protected; "), "{error}");
    SyncDrive::open(&device.device, Access::ReadOnly).expect("looking is free");
}

#[test]
fn read_only_drive_refuses_changes() {
    let folder = Folder::on_disk();
    let path = folder.file("member", 1 << 20);
    let ring = Ring::new().unwrap();
    let mut drive = open(&path, &ring, Access::ReadOnly).unwrap();
    read(&ring, &mut drive, 0, 8).unwrap();
    let error = write(&ring, &mut drive, 0, &[0; 512]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.context.ends_with("was opened for reading only"), "{error}");
    assert!(drive.drive().write_at(0, &[0; 512]).is_err());
    carry_out(&ring, &mut drive, 0, 0, Operation::Flush).result.expect("there is nothing to flush");
}

#[test]
fn requests_outside_the_drive_or_its_blocks_are_refused() {
    let folder = Folder::on_disk();
    let (ring, mut drive) = on(&folder.file("member", 1 << 20));
    for (start, sectors) in [(2048, 1), (2047, 2), (u64::MAX, 2), (0, 0)] {
        assert_eq!(carry_out(&ring, &mut drive, start, sectors, unmap()).result.unwrap_err().kind, ErrorKind::Invalid);
    }
    let Some(device) = Loop::new(&folder, 1 << 20, 4096) else { return };
    let (ring, mut drive) = on(&device.device);
    assert_eq!(read(&ring, &mut drive, 1, 8).unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(write(&ring, &mut drive, 0, &[0; 512]).unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn blocking_calls_see_what_the_ring_wrote_and_the_reverse() {
    let folder = Folder::on_disk();
    let device = Loop::new(&folder, 1 << 20, 4096);
    for path in [Some(folder.file("member", 1 << 20)), device.as_ref().map(|device| device.device.clone())].into_iter().flatten()
    {
        let (ring, mut drive) = on(&path);
        write(&ring, &mut drive, 8, &[1; 4096]).unwrap();
        let mut sector = [0; 512];
        drive.drive().read_at(11, &mut sector).expect("a part of a block, too");
        assert_eq!(sector, [1; 512]);
        let many = vec![2; 3 << 20 >> 2];
        drive.drive().write_at(16, &many).unwrap();
        drive.drive().sync().unwrap();
        assert!(read(&ring, &mut drive, 16, (many.len() / 512) as u64).unwrap() == many);
        assert_eq!(drive.drive().read_at(2048, &mut sector).unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(drive.drive().write_at(0, &[0; 100]).unwrap_err().kind, ErrorKind::Invalid);
    }
}

#[test]
fn more_segments_than_one_call_takes_are_transferred() {
    let folder = Folder::on_disk();
    let (ring, mut drive) = on(&folder.file("member", 4 << 20));
    let pieces = 3000;
    let mut chance = Chance::from_state(5);
    let mut expected = Vec::new();
    let from = (0..pieces).map(|_| {
        let mut buffer = Buffer::zeroed(512);
        buffer.iter_mut().for_each(|byte| *byte = chance.any() as u8);
        expected.extend_from_slice(&buffer);
        buffer.freeze()
    });
    let operation = Operation::Write { from: from.collect(), fua: true };
    carry_out(&ring, &mut drive, 3, pieces, operation).result.unwrap();
    assert!(read(&ring, &mut drive, 3, pieces).unwrap() == expected);
    let into = (0..pieces).map(|_| Buffer::zeroed(512)).collect();
    let completion = carry_out(&ring, &mut drive, 3, pieces, Operation::Read { into });
    let Operation::Read { into } = completion.operation else { panic!() };
    assert!(into.iter().flat_map(|buffer| buffer.iter()).eq(expected.iter()));
}

#[test]
fn more_requests_than_the_ring_holds_are_carried_out() {
    let folder = Folder::in_memory();
    let (ring, mut drive) = on(&folder.file("member", 16 << 20));
    let count = 16384;
    for tag in 0..count {
        let mut buffer = Buffer::zeroed(512);
        buffer.fill(tag as u8);
        let from = Segments::from_iter([buffer.freeze()]);
        drive.submit(Request { tag, start_sector: tag, sectors: 1, operation: Operation::Write { from, fua: false } });
    }
    let mut ended = Vec::new();
    while ended.len() < count as usize {
        drive.poll(0, &mut ended);
        if drive.next_wake().is_none() && ended.len() < count as usize {
            ring.wait(Some(Duration::from_secs(10)));
        }
    }
    assert!(ended.iter().all(|completion| completion.result.is_ok()));
    let all = read(&ring, &mut drive, 0, count).unwrap();
    assert!(all.chunks(512).enumerate().all(|(tag, sector)| sector.iter().all(|&byte| byte == tag as u8)));
}

/// Memory that a wrongly freed buffer would occupy: it must never be written to.
struct Marked(Vec<Buffer>);

impl Marked {
    fn new() -> Self {
        Self((0..64).map(|_| Buffer::copy_of(&[0xaa; 64 << 10])).collect())
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(5));
        assert!(self.0.iter().all(|buffer| buffer.iter().all(|&byte| byte == 0xaa)), "the kernel wrote to freed memory");
    }
}

#[test]
fn memory_in_flight_outlives_its_drive_and_its_ring() {
    let folder = Folder::on_disk();
    let path = folder.file("member", 8 << 20);
    for round in 0..24 {
        let (ring, mut drive) = on(&path);
        for tag in 0..64 {
            let into = Segments::from_iter([Buffer::zeroed(64 << 10)]);
            let from = Segments::from_iter([Buffer::zeroed(64 << 10).freeze()]);
            let operation = if tag % 4 != 0 { Operation::Read { into } } else { Operation::Write { from, fua: true } };
            drive.submit(Request { tag, start_sector: tag * 128, sectors: 128, operation });
        }
        let seen_by_the_kernel = round % 2 == 0;
        if seen_by_the_kernel {
            ring.poll();
        }
        drop(drive);
        match round % 3 {
            0 => drop(ring),
            1 => {
                let _marked = Marked::new();
                ring.drain();
            }
            _ => {
                let _marked = Marked::new();
                let mut other = open(&folder.file("other", 1 << 20), &ring, Access::Exclusive).unwrap();
                write(&ring, &mut other, 0, &[9; 4096]).unwrap();
                ring.drain();
            }
        }
        let _marked = Marked::new();
        SyncDrive::open(&path, Access::Exclusive).expect("a ring that is drained or dropped holds no lock");
    }
}

/// Writes wait in the kernel while their file system is frozen: on threads of the drive, not on the ring's thread.
#[test]
fn drive_that_hangs_holds_up_nobody_and_is_held_until_its_last_call_returns() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, 64 << 20, 512) else { return };
    run("mkfs.ext4", &["-q", device.device.to_str().unwrap()]).unwrap();
    let Some(mount) = Mount::new(&folder, &[device.device.to_str().unwrap()]) else { return };
    let path = mount.file("member", 1 << 20);
    let (ring, mut drive) = on(&path);
    let mut other = open(&folder.file("other", 1 << 20), &ring, Access::Exclusive).unwrap();
    let point = mount.0.to_str().unwrap();
    run("fsfreeze", &["--freeze", point]).unwrap();
    let start = std::time::Instant::now();
    for tag in 0..100 {
        let from = Segments::from_iter([Buffer::zeroed(4096).freeze()]);
        drive.submit(Request { tag, start_sector: tag * 8, sectors: 8, operation: Operation::Write { from, fua: false } });
        drive.submit(Request { tag: 100 + tag, start_sector: 0, sectors: 0, operation: Operation::Flush });
    }
    let mut ended = Vec::new();
    for _ in 0..20 {
        drive.poll(0, &mut ended);
        carry_out(
            &ring,
            &mut other,
            0,
            8,
            Operation::Write { from: [Buffer::zeroed(4096).freeze()].into_iter().collect(), fua: true },
        )
        .result
        .expect("the other drive answers");
        carry_out(&ring, &mut other, 0, 0, Operation::Flush).result.expect("its flushes too");
        let zeroes = Operation::WriteZeroes { fua: true, unmap: true, fast: false };
        carry_out(&ring, &mut other, 0, 8, zeroes).result.expect("and what needs its threads");
    }
    assert!(!ended.iter().any(|completion| completion.tag < 100), "no write goes to a frozen file system");
    drop(drive);
    assert!(start.elapsed() < Duration::from_secs(20), "dropping a drive does not wait for what hangs");
    assert!(SyncDrive::open(&path, Access::Exclusive).is_err(), "nobody else gets it while a write may still reach it");
    run("fsfreeze", &["--unfreeze", point]).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while let Err(error) = SyncDrive::open(&path, Access::Exclusive) {
        assert!(std::time::Instant::now() < end, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Data that was written before a flush was submitted is durable when the flush ends, even if the flush waited for another.
#[test]
fn flushes_that_come_together_go_as_one() {
    let folder = Folder::on_disk();
    let (ring, mut drive) = on(&folder.file("member", 1 << 20));
    for tag in 0..1000 {
        drive.submit(Request { tag, start_sector: 0, sectors: 0, operation: Operation::Flush });
    }
    let mut ended = Vec::new();
    while ended.len() < 1000 {
        ring.wait(Some(Duration::from_secs(10)));
        drive.poll(0, &mut ended);
    }
    let tags: std::collections::BTreeSet<_> = ended.iter().map(|completion| completion.tag).collect();
    assert!(tags.len() == 1000 && ended.iter().all(|completion| completion.result.is_ok()));
}

#[test]
fn waker_ends_a_wait_from_another_thread() {
    let ring = Ring::new().unwrap();
    let start = std::time::Instant::now();
    ring.wait(Some(Duration::from_millis(30)));
    assert!(start.elapsed() >= Duration::from_millis(25), "a wait lasts");
    for _ in 0..3 {
        let waker = ring.waker();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        let start = std::time::Instant::now();
        ring.wait(Some(Duration::from_secs(10)));
        assert!(start.elapsed() < Duration::from_secs(5));
        thread.join().unwrap();
    }
    ring.waker().wake();
    ring.wait(None);
}

#[test]
fn full_disk_under_a_file_is_told() {
    let folder = Folder::on_disk();
    let Some(mount) = Mount::new(&folder, &["-t", "tmpfs", "-o", "size=1M", "tmpfs"]) else { return };
    let (ring, mut drive) = on(&mount.file("member", 8 << 20));
    let errors: Vec<_> = (0..16).filter_map(|index| write(&ring, &mut drive, index * 1024, &[1; 512 << 10]).err()).collect();
    assert!(!errors.is_empty() && errors.iter().all(|error| error.kind == ErrorKind::NoSpace), "{errors:?}");
    assert!(errors[0].context.contains("write of 512 KiB at sector "), "{}", errors[0]);
    assert!(read(&ring, &mut drive, 0, 8).unwrap().iter().all(|&byte| byte == 1), "what was written is there");
    // A hole frees space.
    carry_out(&ring, &mut drive, 0, 16384, unmap()).result.unwrap();
    write(&ring, &mut drive, 0, &[1; 4096]).unwrap();
}

#[test]
fn zeroes_with_unmap_give_room_back() {
    let folder = Folder::on_disk();
    let device = Loop::new(&folder, 1 << 20, 512);
    let file = folder.file("member", 1 << 20);
    let places = [Some((file.clone(), file)), device.as_ref().map(|device| (device.device.clone(), device.file.clone()))];
    for (path, file) in places.into_iter().flatten() {
        let (ring, mut drive) = on(&path);
        let used_sectors = || std::fs::metadata(&file).unwrap().blocks();
        let full = |drive: &mut FileDrive| {
            write(&ring, drive, 0, &[1; 1 << 20]).unwrap();
            carry_out(&ring, drive, 0, 0, Operation::Flush).result.unwrap();
            assert!(used_sectors() >= 2048);
        };
        full(&mut drive);
        let zeroes = |unmap| Operation::WriteZeroes { fua: true, unmap, fast: true };
        carry_out(&ring, &mut drive, 0, 1024, zeroes(true)).result.unwrap();
        assert!(used_sectors() <= 1040, "{} of 2048", used_sectors());
        assert!(read(&ring, &mut drive, 0, 1024).unwrap().iter().all(|&byte| byte == 0));
        full(&mut drive);
        carry_out(&ring, &mut drive, 0, 1024, zeroes(false)).result.unwrap();
        assert!(read(&ring, &mut drive, 0, 1024).unwrap().iter().all(|&byte| byte == 0));
    }
}

#[test]
fn zeroes_are_written_where_the_file_system_has_no_quick_way() {
    // tmpfs punches holes but has no zeroing that keeps the space.
    let folder = Folder::in_memory();
    let (ring, mut drive) = on(&folder.file("member", 1 << 20));
    write(&ring, &mut drive, 0, &[1; 1 << 20]).unwrap();
    let zeroes = |fast| Operation::WriteZeroes { fua: false, unmap: false, fast };
    let error = carry_out(&ring, &mut drive, 0, 2048, zeroes(true)).result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    carry_out(&ring, &mut drive, 1, 2046, zeroes(false)).result.unwrap();
    let all = read(&ring, &mut drive, 0, 2048).unwrap();
    assert!(all[512..(1 << 20) - 512].iter().all(|&byte| byte == 0) && all[0] == 1 && all[(1 << 20) - 1] == 1);
}

#[test]
fn extents_tell_holes_from_data() {
    let folder = Folder::on_disk();
    let (ring, mut drive) = on(&folder.file("member", 1 << 20));
    write(&ring, &mut drive, 512, &[1; 64 << 10]).unwrap();
    let completion = carry_out(&ring, &mut drive, 256, 1024, Operation::Extents { extents: Vec::new() });
    completion.result.unwrap();
    let Operation::Extents { extents } = completion.operation else { panic!() };
    let told: Vec<_> = extents.iter().map(|extent| (extent.sectors, extent.hole)).collect();
    assert_eq!(told, [(256, true), (128, false), (640, true)]);
}

#[test]
fn file_without_direct_io_says_so_and_works() {
    // FUSE and others refuse O_DIRECT; here, ext4 that journals data does none.
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, 64 << 20, 512) else { return };
    run("mkfs.ext4", &["-q", device.device.to_str().unwrap()]).unwrap();
    let Some(mount) = Mount::new(&folder, &["-o", "data=journal", device.device.to_str().unwrap()]) else { return };
    let (ring, mut drive) = on(&mount.file("member", 1 << 20));
    assert!(!drive.info().direct);
    let note = drive.info().direct_note.clone().unwrap();
    assert!(note.contains("direct I/O") && note.ends_with("I/O goes through the page cache"), "{note}");
    let mut odd = Buffer::zeroed(1024);
    odd.fill(5);
    let first = odd.split_to(100);
    let from = Segments::from_vec(vec![first.freeze(), odd.freeze()]);
    carry_out(&ring, &mut drive, 1, 2, Operation::Write { from, fua: true }).result.unwrap();
    assert!(read(&ring, &mut drive, 1, 2).unwrap().iter().all(|&byte| byte == 5));
}

#[test]
fn several_drives_on_one_ring_share_it() {
    let folder = Folder::in_memory();
    let ring = Ring::new().unwrap();
    let mut drives: Vec<_> =
        (0..8).map(|index| open(&folder.file(&index.to_string(), 1 << 20), &ring, Access::Exclusive).unwrap()).collect();
    for (index, drive) in drives.iter_mut().enumerate() {
        write(&ring, drive, 0, &[index as u8; 4096]).unwrap();
    }
    for (index, drive) in drives.iter_mut().enumerate() {
        drive.submit(Request {
            tag: index as u64,
            start_sector: 0,
            sectors: 8,
            operation: Operation::Read { into: Segments::from_iter([Buffer::zeroed(4096)]) },
        });
    }
    for (index, drive) in drives.iter_mut().enumerate() {
        let mut ended = Vec::new();
        while ended.is_empty() {
            drive.poll(0, &mut ended);
        }
        assert_eq!(ended[0].tag, index as u64);
        let Operation::Read { into } = &ended[0].operation else { panic!() };
        assert!(into[0].iter().all(|&byte| byte == index as u8));
    }
}

/// Requests too large for a queue were handed to a worker thread of the kernel, as the block layer does not split requests that
/// may not wait. Workers are named after the thread that they work for.
#[test]
fn large_transfers_need_no_kernel_worker() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::with(&folder, 32 << 20, 4096, &["--direct-io=on"]) else { return };
    let (ring, mut drive) = on(&device.device);
    assert!((4096..8 << 20).contains(&drive.info().transfer_bytes_max), "{}", drive.info().transfer_bytes_max);
    let bytes: Vec<u8> = (0..8 << 20).map(|index: usize| (index / 512) as u8 ^ (index >> 17) as u8).collect();
    write(&ring, &mut drive, 4096, &bytes).unwrap();
    assert!(read(&ring, &mut drive, 4096, (bytes.len() / 512) as u64).unwrap() == bytes);
    let worker = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    let names: Vec<String> = threads.filter_map(|comm| std::fs::read_to_string(comm).ok()).collect();
    assert!(!names.iter().any(|name| name.trim() == worker), "{worker} in {names:?}");
}
