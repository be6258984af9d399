//! Many random requests in flight on a real drive, against a plain array of bytes.
//!
//! Requests in flight never overlap unless both read, since their order is undefined. Every read is compared when it ends, and
//! the whole drive at the end. A failure names the position and the seed.

mod common;

use common::*;
use std::path::Path;
use std::time::Duration;
use stria_block::{BlockDevice, Buffer, Completion, Data, Operation, Pool, Request, SECTOR_BYTES, Segments};
use stria_chance::Chance;
use stria_drive::{Access, FileDrive, IoOptions, Ring, SyncDrive, Way};
use stria_testkit::nvme;

struct InFlight {
    tag: u64,
    start: usize,
    len: usize,
    reads: bool,
    /// The content after a write; `None` for a discard: any.
    bytes: Option<Vec<u8>>,
}

struct Play {
    ring: Ring,
    drive: FileDrive,
    chance: Chance,
    bytes: Vec<u8>,
    in_flight: Vec<InFlight>,
    seed: u64,
}

/// Cuts `len` bytes at random; `odd`: also inside sectors.
fn cuts(chance: &mut Chance, len: usize, odd: bool) -> Vec<usize> {
    let mut lens = Vec::new();
    let mut left = len;
    while left > 0 {
        let unit = if odd { 4 } else { 512 };
        let cut = if chance.below(2) == 0 { left } else { (chance.below((left / unit) as u64) as usize + 1) * unit };
        lens.push(cut);
        left -= cut;
    }
    lens
}

/// Memory of `len` bytes in one allocation or several, starting at any multiple of 512 (or 4: `odd`).
fn segments(chance: &mut Chance, len: usize) -> Vec<Buffer> {
    let odd = chance.below(8) == 0;
    let lead = if odd { 4 } else { 512 } * chance.below(4) as usize;
    let one = chance.below(2) == 0;
    let mut whole = Pool::default().take(len + lead);
    whole.split_to(lead);
    let lens = cuts(chance, len, odd);
    lens.into_iter().map(|len| if one { whole.split_to(len) } else { Pool::default().take(len) }).collect()
}

impl Play {
    fn submit(&mut self, tag: u64) {
        let block = self.drive.limits().logical_block_bytes as usize;
        let blocks = self.bytes.len() / block;
        let blocks_max = if self.chance.one_in(4) { 64 } else { 6 };
        let len = (self.chance.below(blocks_max) as usize + 1).min(blocks) * block;
        let start = self.chance.below(((self.bytes.len() - len) / block) as u64 + 1) as usize * block;
        let kind = self.chance.below(16);
        let reads = kind < 6 || kind == 15;
        if self
            .in_flight
            .iter()
            .any(|other| start < other.start + other.len && other.start < start + len && !(reads && other.reads))
        {
            return;
        }
        let fua = self.chance.below(4) == 0;
        let mut bytes = None;
        let operation = match kind {
            0..6 => Operation::Read { into: Segments::from_vec(segments(&mut self.chance, len)) },
            6..11 => {
                let mut written = Vec::with_capacity(len);
                let fill = |mut buffer: Buffer| -> Data {
                    buffer.iter_mut().for_each(|byte| *byte = self.chance.any() as u8);
                    written.extend_from_slice(&buffer);
                    buffer.freeze()
                };
                let memory = segments(&mut Chance::from_state(self.seed ^ tag), len);
                let from = memory.into_iter().map(fill).collect();
                bytes = Some(written);
                Operation::Write { from, fua }
            }
            11 => Operation::Flush,
            12..15 => {
                bytes = Some(vec![0; len]);
                Operation::WriteZeroes { fua, unmap: self.chance.below(2) == 0, fast: self.chance.below(4) == 0 }
            }
            _ => Operation::Extents { extents: Vec::new() },
        };
        let sectors = (len / SECTOR_BYTES) as u64;
        let (start_sector, sectors, start, len) = match operation {
            Operation::Flush => (0, 0, 0, 0),
            _ => ((start / SECTOR_BYTES) as u64, sectors, start, len),
        };
        self.in_flight.push(InFlight { tag, start, len, reads, bytes });
        self.drive.submit(Request { tag, start_sector, sectors, operation });
    }

    fn check(&self, start: usize, read: &[u8], what: &str) {
        for (index, sector) in read.chunks(SECTOR_BYTES).enumerate() {
            let at = start + index * SECTOR_BYTES;
            let same = sector == &self.bytes[at..][..SECTOR_BYTES];
            assert!(same, "{what}: sector {} differs (seed {})", at / SECTOR_BYTES, self.seed);
        }
    }

    fn end(&mut self, completion: Completion) {
        let index = self.in_flight.iter().position(|request| request.tag == completion.tag).expect("ended once");
        let InFlight { start, len, bytes, .. } = self.in_flight.swap_remove(index);
        if let Err(error) = &completion.result {
            let may = matches!(completion.operation, Operation::WriteZeroes { fast: true, .. });
            assert!(may && error.kind == stria_block::ErrorKind::Unsupported, "{error} (seed {})", self.seed);
            return;
        }
        match completion.operation {
            Operation::Read { into } => {
                let read: Vec<u8> = into.iter().flat_map(|buffer| buffer.to_vec()).collect();
                self.check(start, &read, "read");
            }
            Operation::Extents { extents } => {
                assert!(!extents.is_empty());
                let mut at = start;
                for extent in extents {
                    let len = stria_block::bytes(extent.sectors);
                    if extent.hole {
                        self.check(at, &vec![0; len], "hole");
                    }
                    at += len;
                }
                assert!(at <= start + len, "extents stay within the range");
            }
            Operation::Flush => {}
            Operation::Write { .. } | Operation::WriteZeroes { .. } => {
                self.bytes[start..start + len].copy_from_slice(&bytes.expect("writes leave bytes"));
            }
        }
    }

    fn poll(&mut self) {
        let mut ended = Vec::new();
        self.drive.poll(0, &mut ended);
        ended.into_iter().for_each(|completion| self.end(completion));
    }
}

/// The content of the drive, read in the usual way.
fn contents(path: &Path) -> Vec<u8> {
    let ring = Ring::new().unwrap();
    let mut drive = stria_drive::open(path, &ring, Access::Exclusive).unwrap();
    let sectors = drive.limits().size_sectors;
    read(&ring, &mut drive, 0, sectors).unwrap()
}

fn play(path: &Path, seed: u64, requests: u64) {
    play_by(path, IoOptions::default(), Way::Usual, seed, requests);
}

fn play_by(path: &Path, io: IoOptions, way: Way, seed: u64, requests: u64) {
    let bytes = contents(path);
    let ring = Ring::new().unwrap();
    ring.register_memory();
    let drive = FileDrive::new(SyncDrive::open_with(path, Access::Exclusive, io).unwrap(), &ring);
    let info = drive.info();
    println!("{}: {way:?}, {:?}, direct {}, {:?}", path.display(), info.limits, info.direct, info.direct_note);
    let mut play = Play { ring, drive, chance: Chance::from_state(seed), bytes, in_flight: Vec::new(), seed };
    let whole = read(&play.ring, &mut play.drive, 0, (play.bytes.len() / SECTOR_BYTES) as u64).unwrap();
    play.check(0, &whole, "at the start");
    for tag in 0..requests {
        play.submit(tag);
        while play.in_flight.len() >= 48 {
            play.poll();
            if play.in_flight.len() >= 48 && play.drive.next_wake().is_none() {
                play.ring.wait(Some(Duration::from_secs(10)));
            }
        }
        if play.chance.below(8) == 0 {
            play.poll();
        }
    }
    while !play.in_flight.is_empty() {
        play.poll();
        if !play.in_flight.is_empty() && play.drive.next_wake().is_none() {
            play.ring.wait(Some(Duration::from_secs(10)));
        }
    }
    let whole = read(&play.ring, &mut play.drive, 0, (play.bytes.len() / SECTOR_BYTES) as u64).unwrap();
    play.check(0, &whole, "at the end");
    let is_root = rustix::process::geteuid().is_root();
    let fixed = play.ring.counters().fixed_count > 0;
    assert!(fixed || !is_root || matches!(way, Way::Passthrough { .. }), "memory is registered where one may lock so much");
    assert_eq!((play.drive.watch().way(), play.drive.way_note()), (way, None), "as asked for, to the end");
    let Play { drive, ring, bytes, .. } = play;
    drop((drive, ring));
    assert!(contents(path) == bytes, "a read in the usual way returns the same");
}

const LEN: u64 = 2 << 20;

#[test]
fn file_on_disk_matches_model() {
    let folder = Folder::on_disk();
    for seed in 1..=4 {
        play(&folder.file("member", LEN), seed, 4000);
    }
}

#[test]
fn file_in_memory_matches_model() {
    let folder = Folder::in_memory();
    for seed in 11..=14 {
        play(&folder.file("member", LEN), seed, 4000);
    }
}

#[test]
fn loop_device_with_small_blocks_matches_model() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, LEN, 512) else { return };
    play(&device.device, 21, 4000);
}

#[test]
fn loop_device_with_large_blocks_matches_model() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, LEN, 4096) else { return };
    play(&device.device, 31, 4000);
}

#[test]
fn file_on_xfs_with_large_blocks_matches_model() {
    let folder = Folder::on_disk();
    let Some(device) = Loop::new(&folder, 320 << 20, 4096) else { return };
    if let Err(error) = run("mkfs.xfs", &["-q", "-f", device.device.to_str().unwrap()]) {
        return println!("skipped: {error}");
    }
    let Some(mount) = Mount::new(&folder, &[device.device.to_str().unwrap()]) else { return };
    play(&mount.file("member", LEN), 41, 4000);
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn guests_half() {
    if !nvme::is_guest() {
        return;
    }
    for path in ["/dev/nvme0n1", "/dev/nvme1n1"].map(Path::new) {
        let by = |poll, passthrough, way| play_by(path, IoOptions { poll, passthrough }, way, 51, 1500);
        by(true, false, Way::Polled);
        by(false, true, Way::Passthrough { polled: false });
        by(true, true, Way::Passthrough { polled: true });
    }
}

#[test]
fn nvme_drives_match_the_model_on_every_way() {
    if nvme::wanted() {
        let drives = ["", nvme::BLOCKS_OF_4096].map(|options| nvme::Drive { bytes: LEN, options });
        nvme::run_test("model", "guests_half", &drives, &[]);
    }
}
