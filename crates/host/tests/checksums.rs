//! Goal: the kernel runs arrays with checksums like any other, and its writes are never reported as wrong.
//! Method: Stria creates arrays with checksums and fills them; the kernel assembles them, changes them, and stops or loses
//! power; Stria opens them again, reports that it noticed, reads what the kernel reads, and verifies again from then on.

use harness::{End, Guest};
use std::fs::OpenOptions as File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use stria_array::MemberId;
use stria_block::{BlockDevice, IoError, bytes};
use stria_drive::Ring;
use stria_format::md::BitmapChoice;
use stria_host::*;
use stria_testkit::oracle as harness;

/// Level, and how many of the guest's disks it takes.
const ARRAYS: [(&str, usize); 5] = [("1", 2), ("5", 3), ("10", 4), ("6", 4), ("0", 2)];
const DISK_BYTES: u64 = 12 << 20;

struct Tank {
    level: &'static str,
    name: String,
    /// As the kernel calls them.
    disks: String,
    paths: Vec<PathBuf>,
}

fn tanks(guest: &Guest, arrays: &[(&'static str, usize)]) -> Vec<Tank> {
    let mut next = 0;
    let tank = |&(level, count): &(&'static str, usize)| {
        let taken = next..next + count;
        next += count;
        Tank {
            level,
            name: format!("tank{level}"),
            disks: taken.clone().map(|disk| format!("$D{disk} ")).collect(),
            paths: taken.map(|disk| guest.disk(disk)).collect(),
        }
    };
    arrays.iter().map(tank).collect()
}

impl Tank {
    fn make(&self) {
        create(&CreateSpec {
            strip_sectors: (self.level != "1").then_some(32),
            bitmap: BitmapChoice::Internal { chunk_bytes: Some(65536) },
            checksums: true,
            ..CreateSpec::new(&self.name, self.level.parse().expect("a level"), &self.paths)
        })
        .expect("it can be");
    }

    fn open(&self, forget_checksums: bool) -> (HostedArray, String) {
        let options = OpenOptions { forget_checksums, ..OpenOptions::default() };
        let ring = Ring::new().expect("a ring");
        let (array, warnings) = open(&self.paths, &ring, options).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        (array, warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    /// The number of blocks that did not match their checksums.
    fn wrong(&self, array: &HostedArray) -> u64 {
        let counts = |index| array.checksum_counts(MemberId(index)).expect("it has checksums").wrong;
        (0..self.paths.len()).map(counts).sum()
    }

    /// Flips a bit of the first member, in a strip that is data at every level here.
    fn rot(&self) {
        let image = File::new().read(true).write(true).open(&self.paths[0]).expect("an image");
        let mut byte = [0];
        let at = (2048 << 9) + (72 << 12) + 5;
        image.read_exact_at(&mut byte, at).and_then(|()| image.write_all_at(&[byte[0] ^ 8], at)).expect("it is a file");
    }
}

fn read_all(array: &mut HostedArray) -> Result<Vec<u8>, IoError> {
    let size = array.limits().size_sectors;
    array.sync_io(|io| {
        let mut all = Vec::with_capacity(bytes(size));
        for start in (0..size).step_by(512) {
            all.extend(io.read(start, 512.min(size - start))?);
        }
        Ok(all)
    })
}

fn fill(array: &mut HostedArray, seed: u64) -> Vec<u8> {
    let size = array.limits().size_sectors;
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let data: Vec<u8> = (0..bytes(size)).map(next).collect();
    array.sync_io(|io| {
        for (part, start) in data.chunks(1 << 20).zip((0..).step_by(2048)) {
            io.write(start, part).expect("drives work");
        }
    });
    data
}

fn stop(array: &mut HostedArray) {
    array.sync_io(|io| io.stop()).expect("it stops");
}

/// The kernel compares redundancy, changes some of every array, and copies all of it out.
fn kernel(tanks: &[Tank]) -> String {
    let one = |tank: &Tank| {
        let Tank { level, name, disks, .. } = tank;
        let check = match *level {
            "0" => "",
            _ => {
                "echo 900000 > /sys/block/md0/md/sync_speed_max; mdadm --wait /dev/md0 || true\n\
                  echo check > /sys/block/md0/md/sync_action; mdadm --wait /dev/md0 || true; cat /sys/block/md0/md/mismatch_cnt\n"
            }
        };
        format!(
            "mdadm --quiet --assemble /dev/md0 {disks}\n{check}\
             seq 100000000 | dd of=/dev/md0 bs=64k seek=3 count=11 iflag=fullblock conv=fsync status=none\n\
             dd if=/dev/md0 of=$SHARE/{name} bs=1M status=none\n"
        )
    };
    tanks.iter().map(|tank| one(tank) + "mdadm --quiet --stop /dev/md0\n").collect()
}

#[test]
fn what_the_kernel_writes_is_never_called_wrong() {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new("checksums", &[DISK_BYTES; 15]);
    let tanks = tanks(&guest, &ARRAYS);
    for tank in &tanks {
        tank.make();
        let (mut array, _) = tank.open(false);
        fill(&mut array, 7);
        assert_eq!(tank.wrong(&array), 0);
        stop(&mut array);
    }
    assert_eq!(guest.run(End::Stop, &kernel(&tanks)), "0\n0\n0\n0\n", "redundancy agrees for the kernel");
    for tank in &tanks {
        let kernels = std::fs::read(guest.share().join(&tank.name)).expect("its copy");
        let (mut array, warnings) = tank.open(false);
        if tank.level == "0" {
            // Linux leaves no trace of writes at this level: they are reported, with the remedy.
            let error = read_all(&mut array).expect_err("other bytes than ours");
            assert!(error.context.contains("--forget-checksums"), "{error}");
            stop(&mut array);
            drop(array);
            (array, _) = tank.open(true);
        } else {
            assert!(warnings.contains("Linux wrote to "), "{}: {warnings}", tank.name);
        }
        assert!(read_all(&mut array).expect("readable") == kernels, "{}: we read what the kernel wrote", tank.name);
        assert_eq!(tank.wrong(&array), 0, "{}", tank.name);
        stop(&mut array);
        drop(array);
        // From here on the checksums are valid again.
        tank.rot();
        let (mut array, warnings) = tank.open(false);
        assert_eq!(warnings, "");
        match tank.level {
            "0" => drop(read_all(&mut array).expect_err("nothing replaces it")),
            // The copy that is read is left to chance.
            "1" | "10" => assert!(read_all(&mut array).expect("readable") == kernels),
            _ => {
                assert!(read_all(&mut array).expect("readable") == kernels, "{}: healed", tank.name);
                assert_eq!(tank.wrong(&array), 1, "{}", tank.name);
            }
        }
        stop(&mut array);
    }
}

/// Stria is killed in the middle of writes; the kernel resyncs, writes, and loses power; Stria opens what is left.
#[test]
fn crashes_of_both_in_turn_call_nothing_wrong() {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new("checksums-crash", &[DISK_BYTES; 13]);
    let tanks = tanks(&guest, &ARRAYS[..4]);
    for tank in &tanks {
        tank.make();
        let (mut array, _) = tank.open(false);
        fill(&mut array, 7);
        stop(&mut array);
        drop(array);
        let (mut array, _) = tank.open(false);
        fill(&mut array, 8);
    }
    let all = kernel(&tanks);
    let cut = all.rfind("mdadm --quiet --stop").expect("the last one");
    guest.run(End::Crash, &all[..cut]);
    for tank in &tanks {
        let kernels = std::fs::read(guest.share().join(&tank.name)).expect("its copy");
        let (mut array, warnings) = tank.open(false);
        assert!(warnings.contains("Linux wrote to "), "{}: {warnings}", tank.name);
        assert!(read_all(&mut array).expect("readable") == kernels, "{}: we read what the kernel wrote", tank.name);
        assert_eq!(tank.wrong(&array), 0, "{}", tank.name);
        stop(&mut array);
    }
}
