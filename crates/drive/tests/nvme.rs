//! Goal: the special abilities of NVMe drives work on them, and their absence is reported elsewhere.
//! Method: this program runs again in a guest with emulated NVMe drives (tests/nvme). `model.rs` compares contents.

mod common;

use common::*;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stria_block::{BlockDevice, Buffer, ErrorKind, Mailbox, Operation, Request, Segments, bytes};
use stria_drive::{Access, FileDrive, IoOptions, Lane, Ring, SyncDrive, Way, open};
use stria_testkit::nvme;

const POLL: IoOptions = IoOptions { poll: true, passthrough: false };
const COMMANDS: IoOptions = IoOptions { poll: false, passthrough: true };
const BOTH: IoOptions = IoOptions { poll: true, passthrough: true };

fn on(path: &Path, io: IoOptions, ring: &Ring) -> FileDrive {
    FileDrive::new(SyncDrive::open_with(path, Access::Exclusive, io).unwrap(), ring)
}

fn reads(count: u64, sectors: u64) -> Vec<Request> {
    let read = |tag| Request {
        tag,
        start_sector: tag * sectors,
        sectors,
        operation: Operation::Read { into: Segments::from_iter([Buffer::zeroed(bytes(sectors))]) },
    };
    (0..count).map(read).collect()
}

/// The number of interrupts that the first drive has caused.
fn interrupts() -> u64 {
    let all = std::fs::read_to_string("/proc/interrupts").unwrap();
    let lines = all.lines().filter(|line| line.contains("nvme0q"));
    lines.flat_map(|line| line.split_whitespace().nth(1)).map(|count| count.parse::<u64>().expect("one processor")).sum()
}

/// The half of the last test that runs in the guest; not a test by itself.
#[test]
fn guests_half() {
    if !nvme::is_guest() {
        return;
    }
    let drive = Path::new("/dev/nvme0n1");
    who_offers_no_polling_says_so(drive);
    what_takes_no_commands_is_refused_with_words();
    for io in [POLL, COMMANDS, BOTH] {
        more_goes_aside_than_one_call_takes(drive, io);
        what_is_under_way_when_all_is_dropped_ends(drive, io);
        a_lane_serves_beside_what_goes_aside(drive, io);
    }
    the_block_device_is_held_meanwhile(drive);
    who_may_still_send_commands_holds_the_drive(drive);
    a_drive_that_is_pulled_out_is_gone(drive, BOTH);
    a_drive_that_is_pulled_out_is_gone(Path::new("/dev/nvme2n1"), COMMANDS);
}

/// The second drive keeps metadata beside its blocks, the third gets a partition.
fn what_takes_no_commands_is_refused_with_words() {
    let mut table = [0; 512];
    table[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0xff, 0xff, 0xff, 0, 8, 0, 0, 0, 0x40, 0, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write("/dev/nvme2n1", table).unwrap();
    run("blockdev", &["--rereadpt", "/dev/nvme2n1"]).unwrap();
    let folder = Folder::in_memory();
    let refusal = |path: &Path| SyncDrive::open_with(path, Access::Exclusive, COMMANDS).unwrap_err().to_string();
    for (path, words) in [
        (folder.file("member", 1 << 20).as_path(), "it is a file"),
        (Path::new("/dev/nvme1n1"), "its format keeps 8 bytes beside each block"),
        (Path::new("/dev/nvme2n1p1"), "it is a partition, and commands are for whole drives"),
    ] {
        let refusal = refusal(path);
        assert!(refusal.contains(&format!("cannot be reached by NVMe commands: {words}")), "{refusal}");
        open(path, &Ring::new().unwrap(), Access::Exclusive).expect("in the usual way it goes");
    }
}

fn the_block_device_is_held_meanwhile(path: &Path) {
    let _drive = on(path, COMMANDS, &Ring::new().unwrap());
    let error = SyncDrive::open(path, Access::Exclusive).unwrap_err().to_string();
    assert!(error.contains("is in use by"), "{error}");
}

/// Commands of a killed process may be under way although the block device is free. They keep the command device open and locked.
fn who_may_still_send_commands_holds_the_drive(path: &Path) {
    let commands = File::open("/dev/ng0n1").unwrap();
    commands.lock().unwrap();
    for io in [IoOptions::default(), COMMANDS] {
        let error = SyncDrive::open_with(path, Access::Exclusive, io).unwrap_err().to_string();
        assert!(error.contains("is in use by"), "{error}");
    }
    drop(commands);
    for io in [IoOptions::default(), COMMANDS] {
        let _drive = SyncDrive::open_with(path, Access::Exclusive, io).unwrap();
        assert!(File::open("/dev/ng0n1").unwrap().try_lock_shared().is_err());
    }
    // Other partitions may be in use.
    let _part = SyncDrive::open("/dev/nvme2n1p1".as_ref(), Access::Exclusive).unwrap();
    let commands = File::open("/dev/ng2n1").unwrap();
    assert!(commands.try_lock().is_err());
    commands.try_lock_shared().unwrap();
}

fn a_drive_that_is_pulled_out_is_gone(path: &Path, io: IoOptions) {
    let ring = Ring::new().unwrap();
    let mut drive = on(path, io, &ring);
    reads(200, 8).into_iter().for_each(|request| drive.submit(request));
    ring.poll();
    let name = path.file_name().unwrap().to_str().unwrap();
    let switch = format!("/sys/block/{name}/device/device/remove");
    // It waits for requests in flight, which must be polled for.
    let puller = std::thread::spawn(|| std::fs::write(switch, "1"));
    let mut ended = Vec::new();
    while ended.len() < 200 || !puller.is_finished() {
        drive.poll(0, &mut ended);
        ring.wait(Some(Duration::from_millis(10)));
    }
    puller.join().unwrap().unwrap();
    let error = read(&ring, &mut drive, 8, 16).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Gone, "{error}");
}

fn who_offers_no_polling_says_so(drive: &Path) {
    let (folder, ring) = (Folder::in_memory(), Ring::new().unwrap());
    let mut file = on(&folder.file("member", 1 << 20), POLL, &ring);
    assert!(file.way_note().unwrap().ends_with("offers no polled completion: its requests end by interrupts"));
    let mut polled = on(drive, POLL, &ring);
    assert_eq!((file.watch().way(), polled.watch().way(), polled.way_note()), (Way::Usual, Way::Polled, None));
    for drive in [&mut file, &mut polled] {
        write(&ring, drive, 8, &[7; 8192]).unwrap();
        assert!(read(&ring, drive, 8, 16).unwrap() == [7; 8192]);
    }
    assert!(!ring.is_polling(), "nothing is under way");
}

/// The queue of a side holds 512 entries, and one transfer is bounded in size.
fn more_goes_aside_than_one_call_takes(path: &Path, io: IoOptions) {
    let ring = Ring::new().unwrap();
    let mut drive = on(path, io, &ring);
    reads(2000, 8).into_iter().for_each(|request| drive.submit(request));
    let (mut ended, before) = (Vec::new(), interrupts());
    while ended.len() < 2000 {
        drive.poll(0, &mut ended);
        ring.wait(Some(Duration::from_secs(1)));
    }
    assert_eq!(interrupts() == before, io.poll, "{} interrupts", interrupts() - before);
    assert!(ended.iter().all(|completion| completion.result.is_ok()));
    let pattern: Vec<u8> = (0..8 << 20).map(|index: u32| (index / 512) as u8 ^ (index >> 17) as u8).collect();
    write(&ring, &mut drive, 64, &pattern).unwrap();
    assert!(read(&ring, &mut drive, 64, 16384).unwrap() == pattern);
}

fn what_is_under_way_when_all_is_dropped_ends(path: &Path, io: IoOptions) {
    for turns in 0..3 {
        let ring = Ring::new().unwrap();
        let mut drive = on(path, io, &ring);
        reads(100, 256).into_iter().for_each(|request| drive.submit(request));
        (0..turns).for_each(|_| ring.poll());
        if turns == 2 {
            ring.wait(Some(Duration::from_millis(1)));
        }
        drop((drive, ring));
    }
}

fn a_lane_serves_beside_what_goes_aside(path: &Path, io: IoOptions) {
    let path = path.to_owned();
    let lane = Lane::new("aside").spawn(move |ring| {
        Ok::<_, stria_drive::DriveError>(FileDrive::new(SyncDrive::open_with(&path, Access::Exclusive, io)?, ring))
    });
    let lane = lane.unwrap();
    let (remote, reply) = (lane.remote(), Arc::new(Mailbox::new(|| {})));
    let mut ended = Vec::new();
    for _ in 0..20 {
        remote.submit(&mut reads(32, 8), &reply);
        // Requests are answered meanwhile, and a sleeping thread is woken.
        assert!(lane.call(|drive| drive.info().io_poll).unwrap());
        let end = std::time::Instant::now() + Duration::from_secs(60);
        let before = ended.len();
        while ended.len() < before + 32 {
            assert!(std::time::Instant::now() < end, "{} of 32 answered", ended.len() - before);
            reply.take(&mut ended);
            std::thread::yield_now();
        }
    }
    assert!(ended.iter().all(|completion: &stria_block::Completion| completion.result.is_ok()));
    lane.stop().unwrap();
}

#[test]
fn nvme_drives_are_reached_as_asked() {
    if nvme::wanted() {
        let drives = ["", ",ms=8", ""].map(|options| nvme::Drive { bytes: 64 << 20, options });
        nvme::run_test("ways", "guests_half", &drives, &[]);
    }
}
