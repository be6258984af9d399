//! Goal: an array is the disk of a virtual machine, and the machine does not notice when its server dies.
//! Method: the real `stria serve` is killed while a driver works. One driver is a plain one that uses the rings in shared memory,
//! which is quick; the other is Linux in a QEMU guest, with fio and a file system.

use crate::support::{Place, Serve, guest};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use stria_testkit::nvme;
use stria_testkit::vhost_user::{FLUSH, GET_ID, Machine, QUEUES, READ, SLOTS, WRITE};

const OK: u8 = 0;

fn stamp(block: u64, round: u64) -> Vec<u8> {
    (block << 20 | round).to_le_bytes().repeat(512)
}

/// A RAID 5, and the way in which it is served as a disk.
struct Disk {
    place: Place,
    images: Vec<String>,
    socket: PathBuf,
}

impl Disk {
    fn new(image_bytes: u64, options: &[&str]) -> Self {
        let place = Place::new();
        let images = place.images(4, image_bytes);
        let drives: Vec<&str> = images.iter().map(String::as_str).collect();
        place.ok(&[&["create", "tank", "--level", "5"], options, &drives].concat());
        let socket = place.path("disk.sock");
        Self { place, images, socket }
    }

    fn serve(&self, options: &[&str]) -> Serve {
        let drives: Vec<&str> = self.images.iter().map(String::as_str).collect();
        let socket = self.socket.to_str().expect("a plain path");
        self.place.serve(&[&drives[..], &["--vhost-user", socket], options].concat())
    }
}

#[test]
fn a_killed_serve_is_only_a_pause_to_a_driver() {
    for options in [&["--clients", "lane", "--lanes", "2"][..], &["--clients", "apart"]] {
        let disk = Disk::new(32 << 20, &[]);
        let mut serve = disk.serve(options);
        let mut machine = Machine::new();
        machine.connect(&disk.socket);
        let mut seed = 7_u64;
        let mut held = std::collections::BTreeMap::new();
        for round in 1..=12 {
            // As many requests as there is space for, each to a block of its own.
            let mut sent = Vec::new();
            for _ in 0..SLOTS {
                for queue in 0..QUEUES {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let block = (seed >> 40) % 4096;
                    if sent.iter().all(|&(_, _, other)| other != block) {
                        sent.push((queue, machine.send(queue, WRITE, block * 8, &stamp(block, round), 0), block));
                    }
                }
            }
            // Killed with most of them under way, or with few.
            let left = (seed >> 33) as u16 % (2 * SLOTS);
            while machine.open(0) + machine.open(1) > left {
                std::thread::yield_now();
            }
            serve.kill();
            serve = disk.serve(options);
            machine.connect(&disk.socket);
            for (queue, slot, block) in sent {
                assert_eq!(machine.wait(queue, slot), OK, "round {round}");
                held.insert(block, round);
            }
            for (&block, &round) in &held {
                let (status, bytes) = machine.ask(block as usize % QUEUES, READ, block * 8, &[], 4096);
                assert!(status == OK && bytes == stamp(block, round), "block {block} of round {round}");
            }
        }
        // The same without a member.
        let first = disk.images[0].as_str();
        disk.place.ok(&["fail", "tank", first, "-y"]);
        for (&block, &round) in &held {
            assert_eq!(machine.ask(0, READ, block * 8, &[], 4096), (OK, stamp(block, round)));
        }
        disk.place.ok(&["stop", "tank", "--force"]);
        serve.ended_well();
    }
}

#[test]
fn people_see_the_disk_and_who_uses_it() {
    let disk = Disk::new(32 << 20, &[]);
    let serve = disk.serve(&[]);
    let status = disk.place.status("tank");
    assert_eq!(status["vhost_user"][0].as_str(), disk.socket.to_str());
    assert_eq!(status["clients"].as_array().map(Vec::len), Some(0));
    let mut machine = Machine::new();
    machine.connect(&disk.socket);
    assert_eq!(machine.ask(0, WRITE, 8, &stamp(1, 1), 0).0, OK);
    assert_eq!(machine.ask(1, FLUSH, 0, &[], 0).0, OK);
    let (status, serial) = machine.ask(0, GET_ID, 0, &[], 20);
    let uuid: String =
        disk.place.status("tank")["uuid"].as_str().expect("a UUID").chars().filter(char::is_ascii_hexdigit).collect();
    assert_eq!((status, String::from_utf8(serial).expect("text")), (OK, uuid[..20].to_owned()));
    let text = crate::support::unwrapped(&disk.place.ok(&["status", "tank"]));
    assert!(text.contains("by vhost-user: 3 requests, 0 B read, 4 KiB written"), "{text}");
    // A disk in use is not stopped without --force.
    disk.place.run(&["stop", "tank"]).refused(4, &["in use by process", "vhost-user", "--force"]);
    disk.place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    assert!(!disk.socket.exists());
}

#[test]
fn sockets_that_cannot_be_are_refused_before_anything_starts() {
    let disk = Disk::new(16 << 20, &[]);
    let drives: Vec<&str> = disk.images.iter().map(String::as_str).collect();
    let serve = |options: &[&str]| disk.place.run(&[&["serve"], options, &drives[..]].concat());
    std::fs::write(&disk.socket, "a file").expect("a file");
    let socket = disk.socket.to_str().expect("a plain path");
    serve(&["--vhost-user", socket]).refused(1, &["disk.sock", "not a socket"]);
    serve(&["--vhost-user", &format!("pool={socket}")]).refused(2, &["\"pool\"", "served are: tank"]);
    serve(&["--vhost-user-group", "0"]).refused(2, &["--vhost-user"]);
    std::fs::remove_file(&disk.socket).expect("a file");
    let running = disk.serve(&[]);
    // Beside the images of the array, which are served.
    let others = ["other0", "other1"].map(|name| {
        let path = disk.place.path(name);
        std::fs::File::create(&path).and_then(|file| file.set_len(16 << 20)).expect("an image file");
        path.to_str().expect("a plain path").to_owned()
    });
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    disk.place.ok(&[&["create", "pool", "--level", "1"], &others[..]].concat());
    disk.place
        .run(&[&["serve", "--vhost-user", socket], &others[..]].concat())
        .refused(1, &["disk.sock", "another server listens"]);
    disk.place.ok(&["stop", "tank"]);
    running.ended_well();
}

/// The guest's work: random writes at a depth, verified; a file system with writes and flushes, verified and checked; a discard;
/// and the attributes of the disk.
const GUEST: &str = r#"
fio=$P1; mke2fs=$P2; e2fsck=$P3
queue=/sys/block/vda/queue
[ $(ls /sys/block/vda/mq | wc -l) = 2 ]
[ "$(cat $queue/write_cache)" = "write back" ]
[ $(cat $queue/discard_max_bytes) != 0 ]
[ $(cat $queue/write_zeroes_max_bytes) != 0 ]
cat /sys/block/vda/serial; echo
$fio --name=raw --filename=$V0 --size=24M --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2 \
     --offset_increment=24M --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/raw || { cat /tmp/raw; exit 1; }
dd if=/dev/zero of=/tmp/zeros bs=1M count=8 2>/dev/null
blkdiscard -o 0 -l 8388608 $V0
dd if=$V0 bs=1M count=8 2>/dev/null | cmp - /tmp/zeros
$mke2fs -q -t ext4 $V0
mount -t ext4 $V0 /mnt
$fio --name=files --directory=/mnt --size=12M --rw=randwrite --bs=8k --ioengine=psync --fsync=32 --numjobs=2 \
     --verify=crc32c --verify_fatal=1 --output-format=json --output=/tmp/files || { cat /tmp/files; exit 1; }
umount /mnt
$e2fsck -fn $V0
echo "write through" >/sys/block/vda/cache_type
[ "$(cat $queue/write_cache)" = "write through" ]
dd if=/tmp/zeros of=$V0 bs=64k count=4 2>/dev/null
for report in raw files; do echo "fio:"; cat /tmp/$report; done
echo all is well
"#;

#[test]
fn a_virtual_machine_writes_on_while_its_server_is_killed() {
    if !nvme::wanted() {
        return;
    }
    let disk = Disk::new(96 << 20, &[]);
    let mut serve = disk.serve(&[]);
    let socket = disk.socket.clone();
    let (over, guest_ended) = channel();
    let guest = std::thread::spawn(move || {
        let programs = ["/usr/bin/fio", "/usr/sbin/mke2fs", "/usr/sbin/e2fsck"];
        let kernel = nvme::Kernel { version: "6.12", modules: &["virtio_blk"] };
        let ran = std::panic::catch_unwind(|| nvme::run_beside(kernel, "vhost-user", &[&socket], &programs, GUEST));
        over.send(()).expect("it listens");
        ran
    });
    // Each server is killed once it has written some MiB.
    let mut restarts = Vec::new();
    loop {
        match guest_ended.recv_timeout(Duration::from_millis(50)) {
            Err(RecvTimeoutError::Timeout) => {}
            ended => break ended.expect("the guest's thread"),
        }
        let status = disk.place.status("tank");
        let written: u64 =
            status["clients"].as_array().expect("a list").iter().filter_map(|client| client["written_bytes"].as_u64()).sum();
        if written > 5 << 20 {
            let killed = Instant::now();
            serve.kill();
            serve = disk.serve(&[]);
            restarts.push(killed.elapsed());
        }
    }
    let output = guest.join().expect("it caught").unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert!(output.contains("all is well"), "{output}");
    assert!(restarts.len() >= 3, "killed {} times only", restarts.len());
    let longest = output.split("fio:\n").skip(1).map(guest::longest).max().expect("two reports");
    guest::print_pause("vhost-user", longest, &restarts);
    disk.place.ok(&["scrub", "tank", "--wait"]);
    disk.place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
}

/// Three boots on one disk. The last block says which one is next. The first boot ends by a reset under load, and the second goes
/// on until its QEMU is killed.
const BOOTS: &str = r#"
fio=$P1; mke2fs=$P2; e2fsck=$P3
last=$(($(cat /sys/block/vda/size) / 8 - 1))
boot=$(dd if=$V0 bs=4096 skip=$last count=1 2>/dev/null | tr -d '\0')
next() { printf %s $1 | dd of=$V0 bs=4096 seek=$last count=1 conv=sync,fsync 2>/dev/null; }
letters() { for letter in a b c d e f g h; do yes $letter$1 | head -c 300000; done; }
load() { # NAME FLAG…
    name=$1
    shift
    $fio --name=$name --directory=/mnt --size=8M --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2 \
         --verify=crc32c --verify_fatal=1 --output=/tmp/$name "$@" || { cat /tmp/$name; exit 1; }
}
under_way() { # so much more is written
    begin=$(awk '{ print $7 }' /sys/block/vda/stat)
    until [ $(awk '{ print $7 }' /sys/block/vda/stat) -gt $((begin + 2048)) ]; do sleep 0.1; done
}
case $boot in
"")
    $mke2fs -q -t ext4 $V0 $(($last * 4 - 64))k
    mount -t ext4 $V0 /mnt
    letters 1 >/mnt/letters
    sync
    next 2
    load first --time_based --runtime=600 &
    under_way
    echo the first boot ends
    echo b >/proc/sysrq-trigger
    sleep 60 ;;
2)
    mount -t ext4 $V0 /mnt
    letters 1 | cmp - /mnt/letters
    letters 2 >/mnt/more
    sync
    load second --time_based --runtime=600 &
    under_way
    next 3
    wait ;;
3)
    mount -t ext4 $V0 /mnt
    letters 1 | cmp - /mnt/letters
    letters 2 | cmp - /mnt/more
    load third --loops=6
    umount /mnt
    $e2fsck -fn $V0
    next 4
    echo all is well ;;
esac
"#;

#[test]
fn a_virtual_machine_finds_its_disk_after_a_reset_and_after_the_death_of_qemu() {
    if !nvme::wanted() {
        return;
    }
    let disk = Disk::new(64 << 20, &["--assume-clean"]);
    let mut serve = disk.serve(&[]);
    let size_bytes = disk.place.status("tank")["size_bytes"].as_u64().expect("a size");
    let programs = ["/usr/bin/fio", "/usr/sbin/mke2fs", "/usr/sbin/e2fsck"];
    let kernel = nvme::Kernel { version: "6.12", modules: &["virtio_blk"] };
    let start = || nvme::start_beside(kernel, "vhost-user-boots", &[&disk.socket], &programs, BOOTS);
    // The machine, and how much it has written to the present server without an error.
    let machine = || {
        let status = disk.place.status("tank");
        let clients = status["clients"].as_array().expect("a list").clone();
        let machine =
            clients.into_iter().find(|client| client["peer"].as_str().is_some_and(|peer| peer.contains("vhost-user")))?;
        assert_eq!(machine["errors"], 0, "{status:#}");
        machine["written_bytes"].as_u64()
    };

    // A reset, with requests in its rings: the same server and the same connection serve the next boot.
    let mut guest = start();
    let mut reader = serve.client("tank");
    guest::wait_until("the second boot", || {
        assert!(!guest.has_ended(), "it ends only when it is killed");
        reader.read(size_bytes - 4096, 1).expect("it is served") == b"3"
    });
    drop(reader);
    // Then QEMU dies, and another one has the disk.
    drop(guest);
    guest::wait_until("the end of the machine", || machine().is_none());
    let mut guest = start();
    guest::wait_until("the third boot", || machine().is_some_and(|written| written > 1 << 20));
    // Two deaths of servers in a row: the second one has what the first one left, and little time to do it.
    for _ in 0..2 {
        serve.kill();
        serve = disk.serve(&[]);
        guest::wait_until("the machine", || machine().is_some());
    }
    assert!(!guest.has_ended(), "servers are killed under load");
    let output = guest.ended();
    assert!(output.contains("all is well"), "{output}");
    assert_eq!(serve.client("tank").read(size_bytes - 4096, 1).expect("it is served"), b"4");
    disk.place.ok(&["scrub", "tank", "--wait"]);
    disk.place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
}
