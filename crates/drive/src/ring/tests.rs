use super::*;
use crate::{Access, FileDrive, open};
use rustix::fs::OFlags;
use std::path::PathBuf;
use std::time::Instant;
use stria_block::{BlockDevice, Operation, Request, Segments};

/// A file, its drive on `ring`, and 2000 reads submitted: more than one call hands over.
fn reads(ring: &Ring, name: &str, flags: OFlags) -> (PathBuf, FileDrive) {
    let path = std::env::temp_dir().join(format!("stria-ring-{name}-{}", std::process::id()));
    // The file is synced first; otherwise direct reads would have to wait for that.
    let mut file = std::fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut file, &vec![7; 1 << 20]).and_then(|()| file.sync_all()).unwrap();
    let mut drive = open(&path, ring, Access::Exclusive).unwrap();
    rustix::fs::fcntl_setfl(drive.drive().file(), flags).unwrap();
    for tag in 0..2000 {
        let into = Segments::from_iter([Buffer::zeroed(512)]);
        drive.submit(Request { tag, start_sector: tag, sectors: 1, operation: Operation::Read { into } });
    }
    (path, drive)
}

fn all_end(ring: &Ring, (path, mut drive): (PathBuf, FileDrive)) {
    let start = Instant::now();
    let mut ended = Vec::new();
    while ended.len() < 2000 {
        ring.wait(Some(Duration::from_secs(10)));
        drive.poll(0, &mut ended);
    }
    assert!(ended.iter().all(|completion| completion.result.is_ok()));
    assert!(start.elapsed() < Duration::from_secs(9), "no wait slept through");
    std::fs::remove_file(path).unwrap();
}

/// Kernels that lack the cheaper modes get the plainer ones: each carries requests and wakes.
#[test]
fn ring_works_in_every_mode() {
    let modes = modes();
    for (index, mode) in modes.iter().enumerate() {
        let ring = Ring::with_modes(&modes[index..]).unwrap();
        assert_eq!(ring.setup(), mode.1, "this test's kernel has all modes");
        all_end(&ring, reads(&ring, "mode", OFlags::DIRECT));
        let waker = ring.waker();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        let start = Instant::now();
        ring.wait(Some(Duration::from_secs(10)));
        assert!(start.elapsed() < Duration::from_secs(5), "woken");
        thread.join().unwrap();
    }
}

/// Reads from the page cache end while they are handed over. A wait that needed several calls for that saw all of them end, and
/// then slept although nothing else was to come.
#[test]
fn wait_does_not_sleep_on_what_ended_while_it_handed_over() {
    for skipped in 0..3 {
        let ring = Ring::with_modes(&modes()[skipped..]).unwrap();
        all_end(&ring, reads(&ring, "cached", OFlags::empty()));
    }
}

/// Jobs that the kernel had never seen were leaked, with their drive and its lock.
#[test]
fn a_ring_that_goes_leaves_no_drive_locked() {
    let ring = Ring::new().unwrap();
    let (path, drive) = reads(&ring, "goes", OFlags::DIRECT);
    assert!(!ring.0.borrow().backlog.is_empty(), "more than the submission queue takes");
    drop((drive, ring));
    crate::SyncDrive::open(&path, Access::Exclusive).unwrap();
    std::fs::remove_file(path).unwrap();
}

/// A wait with a full submission queue before it armed the wake-up only with the next wait.
#[test]
fn wait_arms_its_wake_up_behind_more_than_one_call_takes() {
    let ring = Ring::new().unwrap();
    let reads = reads(&ring, "full", OFlags::DIRECT);
    ring.wait(Some(Duration::ZERO));
    assert!(ring.0.borrow().backlog.is_empty());
    all_end(&ring, reads);
}

/// Reads from the page cache end while they are handed over: 2000 of them take the calls that 2000 entries need, 512 each.
#[test]
fn entries_go_to_the_kernel_in_batches() {
    let ring = Ring::new().unwrap();
    all_end(&ring, reads(&ring, "batch", OFlags::empty()));
    let counters = ring.counters();
    assert_eq!((counters.job_count, counters.entry_count), (2000, 2002), "and the wake-up's, and the alarm's");
    assert!(counters.call_count <= 6, "{counters:?}");
}

#[test]
fn files_are_registered_and_let_go() {
    let ring = Ring::new().unwrap();
    let (path, drive) = reads(&ring, "registered", OFlags::DIRECT);
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let fd = ring.0.borrow().uring.as_raw_fd();
    let known = || std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap().contains(&name);
    assert!(known());
    drop(drive);
    ring.poll();
    assert!(known(), "its requests are under way");
    ring.drain();
    assert!(!known(), "nobody uses it");
    std::fs::remove_file(path).unwrap();
}

/// A client left, and its socket was closed while an entry for it was not submitted yet. The entry then watched another file of
/// the same number, and the ring's drop waited for it for ever.
#[test]
fn watch_is_of_the_socket_and_not_of_its_number() {
    let ring = Ring::new().unwrap();
    let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    let socket = Arc::new(OwnedFd::from(near));
    ring.watch(&socket, false, 5);
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
    let number = socket.as_raw_fd();
    drop(socket);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_ne!(silent.as_raw_fd(), number, "the ring holds it");
    ring.wait(Some(Duration::from_secs(10)));
    let mut ready = Vec::new();
    ring.take_ready(&mut ready);
    assert_eq!(ready, [5]);
}

/// Sleeps that end early leave their alarm for the next ones, and a ring that is dropped takes it back.
#[test]
fn one_alarm_serves_many_sleeps() {
    let ring = Ring::new().unwrap();
    let start = Instant::now();
    ring.wait(Some(Duration::from_millis(20)));
    assert!(start.elapsed() >= Duration::from_millis(19), "nothing else ends it");
    let before = ring.counters().entry_count;
    for _ in 0..100 {
        ring.waker().wake();
        ring.wait(Some(Duration::from_secs(600)));
    }
    // The alarm, and the wake-up again each time but the first.
    assert_eq!(ring.counters().entry_count - before, 100);
    ring.waker().wake();
    ring.wait(Some(Duration::from_secs(300)));
    assert_eq!(ring.0.borrow().alarms.len(), 2, "an earlier one is set beside it");
    ring.wait(Some(Duration::from_millis(1)));
    ring.wait(Some(Duration::from_millis(1)));
    assert_eq!(ring.0.borrow().alarms.len(), 2, "an alarm that has fired is gone");
    drop(ring);
    assert!(start.elapsed() < Duration::from_secs(60));
}

/// The side's last completions came while the ring was dropped. The watch had fired but had not been reported, so it could not
/// be cancelled; it then found nothing and watched on for ever (seen with NVMe commands in flight).
#[test]
fn watch_of_a_side_is_taken_back_although_it_fires_meanwhile() {
    let (drop_seen, dropped) = std::sync::mpsc::channel();
    let ends_late = move || {
        let path = std::env::temp_dir().join(format!("stria-ring-side-{}", std::process::id()));
        std::fs::write(&path, [7; 512]).unwrap();
        let drive = crate::SyncDrive::open(&path, Access::Exclusive).unwrap();
        let ring = Ring::new().unwrap();
        ring.open_side(false).unwrap();
        let request = Request { tag: 0, start_sector: 0, sectors: 0, operation: Operation::Flush };
        let job = Job::new(request, crate::job::Step::Sync, 0, drive, Default::default());
        let after = Timespec::new().nsec(50_000_000);
        let entry = opcode::Timeout::new(&after).build();
        // SAFETY: the kernel reads the time when it takes the entry, which is in the wait.
        unsafe { ring.push_aside(false, entry.into(), job, &Rc::default()) };
        ring.wait(Some(Duration::from_millis(1)));
        assert!(ring.0.borrow().sides[0].watched);
        drop(ring);
        std::fs::remove_file(path).unwrap();
        drop_seen.send(()).unwrap();
    };
    std::thread::spawn(ends_late);
    dropped.recv_timeout(Duration::from_secs(20)).expect("the ring's end is not waited for for ever");
}
