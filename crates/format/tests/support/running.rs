//! Arrays that run on drives in memory until the power is cut after a given number of sectors.
#![allow(dead_code, reason = "each test file uses its part")]

use super::{MemoryDrive, started};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use stria_array::{ArrayDevice, Command};
use stria_block::{BlockDevice, Buffer, Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request};
use stria_format::md::{MdRecorder, Options, Start};

/// A drive that loses no data, and accepts no requests after the power cut.
pub struct CutDrive {
    drive: Rc<RefCell<MemoryDrive>>,
    /// Sectors that may still be written, on all drives together.
    left: Rc<Cell<u64>>,
    /// There is no space for data. Metadata has its space.
    is_full: Rc<Cell<bool>>,
    data_start: u64,
    limits: Limits,
    ended: Vec<Completion>,
}

impl BlockDevice for CutDrive {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, mut request: Request) {
        request.check(&self.limits).expect("the engine asks for what there is");
        let mut drive = self.drive.borrow_mut();
        match &mut request.operation {
            Operation::Read { into } => {
                let bytes = drive.read(request.start_sector, request.sectors).expect("it reads");
                let mut rest = &bytes[..];
                for buffer in into {
                    let (front, back) = rest.split_at(buffer.len());
                    buffer.copy_from_slice(front);
                    rest = back;
                }
            }
            Operation::Write { .. } if self.is_full.get() && request.start_sector >= self.data_start => {
                drop(drive);
                return self.ended.push(request.complete(Err(IoError::new(ErrorKind::NoSpace, "no space"))));
            }
            Operation::Write { from, .. } => {
                let bytes: Vec<u8> = from.iter().flat_map(|data| data.iter().copied()).collect();
                for (sector, data) in (request.start_sector..).zip(bytes.chunks(512)) {
                    if self.left.get() > 0 {
                        self.left.set(self.left.get() - 1);
                        drive.write(sector, data);
                    }
                }
            }
            _ => {}
        }
        drop(drive);
        self.ended.push(request.complete(Ok(())));
    }
    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
    }
    fn next_wake(&self) -> Option<Nanos> {
        (!self.ended.is_empty()).then_some(0)
    }
}

/// An array started from these drives.
pub struct Running {
    array: ArrayDevice<MdRecorder>,
    drives: Vec<Rc<RefCell<MemoryDrive>>>,
    /// As [`CutDrive::left`].
    pub left: Rc<Cell<u64>>,
    /// As [`CutDrive::is_full`].
    pub is_full: Rc<Cell<bool>>,
    now: Nanos,
}

impl Running {
    pub fn start(drives: &[MemoryDrive], left: u64, read_only: bool) -> Self {
        let start = started(drives, &Options { read_only, ..Options::default() });
        assert!(start.config.log.is_some(), "parity levels have a log by default");
        Self::of(start, drives, left)
    }

    pub fn of(start: Start, drives: &[MemoryDrive], left: u64) -> Self {
        let drives: Vec<_> = drives.iter().map(|drive| Rc::new(RefCell::new(drive.clone()))).collect();
        let (left, is_full) = (Rc::new(Cell::new(left)), Rc::new(Cell::new(false)));
        let device = |&drive: &usize| {
            let limits = Limits::plain(drives[drive].borrow().size_sectors);
            let data_start = drives[drive].borrow().candidate().found.expect("a member").superblock.header.data_offset;
            let (drive, left, is_full) = (Rc::clone(&drives[drive]), Rc::clone(&left), Rc::clone(&is_full));
            Box::new(CutDrive { drive, left, is_full, data_start, limits, ended: Vec::new() }) as Box<dyn BlockDevice>
        };
        let devices = start.drives.iter().map(device).collect();
        let array = ArrayDevice::new(&start.config, devices, start.recorder, 1_700_000_000);
        array.with_engine(|engine| engine.pause(true));
        Self { array, drives, left, is_full, now: 0 }
    }

    /// Runs until one request has ended, or nothing happens any more.
    pub fn request(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
        self.array.submit(Request { tag: 7, start_sector, sectors, operation });
        let mut ended = Vec::new();
        while ended.is_empty() {
            self.array.poll(self.now, &mut ended);
            self.now = self.now.max(self.array.next_wake().unwrap_or(0));
        }
        ended.pop().expect("one has ended")
    }

    pub fn read_all(&mut self, sectors: u64) -> Vec<u8> {
        let mut all = Vec::new();
        for start in (0..sectors).step_by(2048) {
            let sectors = (sectors - start).min(2048);
            let into = std::iter::once(Buffer::zeroed((sectors * 512) as usize)).collect();
            let completion = self.request(start, sectors, Operation::Read { into });
            completion.result.expect("it reads");
            let Operation::Read { into } = completion.operation else { unreachable!("a read") };
            into.iter().for_each(|buffer| all.extend_from_slice(buffer));
        }
        all
    }

    pub fn write(&mut self, start_sector: u64, bytes: &[u8]) {
        let from = std::iter::once(Buffer::copy_of(bytes).freeze()).collect();
        let completion = self.request(start_sector, (bytes.len() / 512) as u64, Operation::Write { from, fua: false });
        completion.result.expect("it writes");
    }

    /// The reason for which replay gave up.
    pub fn unreplayed(&self) -> Option<String> {
        self.array.status().unreplayed.map(|error| error.to_string())
    }

    /// Lets sweeps run until redundancy is consistent everywhere.
    pub fn resync(&mut self) {
        self.array.with_engine(|engine| engine.pause(false));
        while self.array.status().synced != stria_array::Synced::All {
            self.array.poll(self.now, &mut Vec::new());
            self.now = self.now.max(self.array.next_wake().unwrap_or(0));
        }
    }

    pub fn stop(mut self) -> Vec<MemoryDrive> {
        self.array.begin(Command::Stop);
        while !self.array.has_stopped() {
            self.array.poll(self.now, &mut Vec::new());
            self.now = self.now.max(self.array.next_wake().unwrap_or(0));
        }
        self.drives()
    }

    pub fn drives(self) -> Vec<MemoryDrive> {
        self.drives.iter().map(|drive| drive.borrow().clone()).collect()
    }
}

/// The content of sectors from `start` on; each `version` has another.
pub fn pattern(start: u64, sectors: u64, version: u8) -> Vec<u8> {
    (start..start + sectors).flat_map(|sector| [sector as u8 ^ 0x5a, version, (sector >> 8) as u8, 0x11].repeat(128)).collect()
}

pub fn without(drives: &[MemoryDrive], lost: &[usize]) -> Vec<MemoryDrive> {
    drives.iter().enumerate().filter(|(index, _)| !lost.contains(index)).map(|(_, drive)| drive.clone()).collect()
}

/// Every set of up to `most` of `count` members.
pub fn losses(count: usize, most: usize) -> Vec<Vec<usize>> {
    (0..1usize << count)
        .map(|set| (0..count).filter(|index| set >> index & 1 != 0).collect::<Vec<_>>())
        .filter(|lost| lost.len() <= most)
        .collect()
}

/// Cuts some writes after every sector, and checks the drives.
pub struct Cuts<'a> {
    pub what: String,
    /// Sectors of the array that are compared.
    pub sectors: u64,
    /// The number of their stripes.
    pub stripes: u64,
    /// Members that the array lacks from the start.
    pub missing: &'a [usize],
    /// How many more it may lose with the power.
    pub losses_max: usize,
    pub writes: &'a [(u64, u64)],
    /// Sectors that may be neither old nor new if members are lost.
    pub torn: Range<u64>,
    /// The first cut.
    pub from: u64,
}

impl Cuts<'_> {
    /// The configuration of the array on these drives.
    pub fn everywhere(&self, drives: &[MemoryDrive]) {
        let Self { what, sectors, stripes, missing, writes, .. } = self;
        let sectors = *sectors;
        let mut array = Running::start(drives, u64::MAX, false);
        array.write(0, &pattern(0, sectors, 1));
        // An older record of each stripe, which must not count.
        for stripe in 0..*stripes {
            let start = stripe * sectors / stripes;
            array.write(start + 1, &pattern(start + 1, 2, 1));
        }
        let drives = without(&array.stop(), missing);
        let before = pattern(0, sectors, 1);
        let mut after = before.clone();
        for &(start, sectors) in *writes {
            after[(start * 512) as usize..][..(sectors * 512) as usize].copy_from_slice(&pattern(start, sectors, 2));
        }
        let written = |left: u64| {
            let mut array = Running::start(&drives, left, false);
            for &(start, sectors) in *writes {
                array.write(start, &pattern(start, sectors, 2));
            }
            array
        };
        let total = u64::MAX - written(u64::MAX).left.get();
        assert!(total > self.from + 5, "log, superblocks and data were written");
        for cut in self.from..=total {
            let crashed = written(cut).drives();
            for lost in losses(crashed.len(), self.losses_max) {
                let rest = without(&crashed, &lost);
                let place = format!("{what} cut after {cut} of {total} sectors, {lost:?} of the rest lost");
                let torn = if missing.len() + lost.len() > 0 { self.torn.clone() } else { 0..0 };
                let check = |found: &[u8]| {
                    for sector in (0..sectors).filter(|sector| !torn.contains(sector)) {
                        let range = (sector * 512) as usize..((sector + 1) * 512) as usize;
                        let good = found[range.clone()] == before[range.clone()] || found[range.clone()] == after[range.clone()];
                        assert!(good, "{place}: sector {sector} is neither old nor new");
                    }
                };
                let mut looked_at = Running::start(&rest, 0, true);
                let first = looked_at.read_all(sectors);
                check(&first);
                if !(cut + lost.len() as u64).is_multiple_of(5) {
                    continue;
                }
                // A replay that is cut short, begun again, and completed.
                let same = |found: Vec<u8>, when: &str| {
                    let differs = (0..sectors as usize).find(|at| found[at * 512..][..512] != first[at * 512..][..512]);
                    assert_eq!(differs, None, "{place}: a sector changed {when}");
                };
                let mut broken = Running::start(&rest, 3, false);
                // The reads after the cut go nowhere.
                broken.read_all(sectors);
                let mut array = Running::start(&broken.drives(), u64::MAX, false);
                same(array.read_all(sectors), "in the replay after that");
                // The array goes on: writes beside the cut write and over it.
                array.write(sectors - 1, &pattern(sectors - 1, 1, 1));
                let stopped = array.stop();
                let found = Running::start(&stopped, 0, true).read_all(sectors);
                same([&found[..found.len() - 512], &first[first.len() - 512..]].concat(), "after a clean stop");
                assert_eq!(found[found.len() - 512..], pattern(sectors - 1, 1, 1), "what was written last");
            }
        }
    }
}
