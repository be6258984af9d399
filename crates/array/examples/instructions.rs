//! A fixed count of requests on an array, for `bench/instructions/check` to count what they cost the processor.
//!
//! `instructions SUBJECT KIND BYTES OPERATIONS [ram]`: a subject such as `bare`, `0/4` (level and members) or `5/4+log`
//! (with a write log whose records go nowhere), `read` or `write`; 32 requests in flight, on places by chance, or one
//! after another where they are larger than 4 KiB. Members move no bytes, or lie in RAM. Time stands still and chance has
//! one seed, so every run is the same.

#[path = "../tests/support/nowhere.rs"]
mod nowhere;

use nowhere::Nowhere;
use std::process::exit;
use stria_array::{ArrayConfig, ArrayDevice, Geometry, Level, LogConfig, NEW_DATA_SECTORS_MAX};
use stria_block::{BlockDevice, Buffer, Completion, Limits, Nanos, Operation, RamDevice, Request, SECTOR_BYTES};

/// 8 MiB a member: more than the inner caches, and quickly made.
const MEMBER_SECTORS: u64 = Nowhere::START;
const DEPTH: u64 = 32;

/// Ends every request at the next poll and moves no bytes.
struct NullDevice {
    limits: Limits,
    ended: Vec<Completion>,
}

impl BlockDevice for NullDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, request: Request) {
        self.ended.push(request.complete(Ok(())));
    }
    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
    }
    fn next_wake(&self) -> Option<Nanos> {
        (!self.ended.is_empty()).then_some(0)
    }
}

fn member(ram: bool) -> Box<dyn BlockDevice> {
    match ram {
        true => Box::new(RamDevice::new(MEMBER_SECTORS + 8)),
        false => Box::new(NullDevice { limits: Limits::plain(MEMBER_SECTORS), ended: Vec::new() }),
    }
}

fn array(level: Level, count: usize, log: bool, ram: bool) -> Option<Box<dyn BlockDevice>> {
    let geometry = Geometry::new(level, level.default_layout(), 128, &vec![MEMBER_SECTORS; count]).ok()?;
    let config = ArrayConfig {
        log: log.then_some(LogConfig {
            append_sectors_max: 1024,
            new_data_sectors_max: NEW_DATA_SECTORS_MAX,
            newest_only: false,
        }),
        ..ArrayConfig::optimal("counted", geometry)
    };
    Some(Box::new(ArrayDevice::new(&config, (0..count).map(|_| member(ram)).collect(), Nowhere::default(), 0)))
}

fn subject(name: &str, ram: bool) -> Option<Box<dyn BlockDevice>> {
    if name == "bare" {
        return Some(member(ram));
    }
    let (name, log) = name.strip_suffix("+log").map_or((name, false), |name| (name, true));
    let (level, count) = name.split_once('/')?;
    array(level.parse().ok()?, count.parse().ok()?, log, ram)
}

fn run(device: &mut dyn BlockDevice, read: bool, sectors: u64, count: u64) {
    let places = device.limits().size_sectors / sectors;
    let mut chance = 1_u64;
    let mut next = 0;
    let mut place = || {
        // Knuth's MMIX; the upper bits are the good ones.
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        next += 1;
        (if sectors > 8 { next - 1 } else { chance >> 33 }) % places * sectors
    };
    let memory = || Buffer::zeroed((sectors as usize) * SECTOR_BYTES);
    let mut left = count;
    let mut ended: Vec<Completion> = Vec::with_capacity(DEPTH as usize);
    for tag in 0..DEPTH.min(count) {
        let operation = match read {
            true => Operation::Read { into: std::iter::once(memory()).collect() },
            false => Operation::Write { from: std::iter::once(memory().freeze()).collect(), fua: false },
        };
        device.submit(Request { tag, start_sector: place(), sectors, operation });
    }
    while left > 0 {
        // A moment later where somebody waits for that alone.
        let now = device.next_wake().expect("something is in flight");
        device.poll(now, &mut ended);
        for Completion { tag, result, operation } in ended.drain(..) {
            result.expect("memory does not fail");
            left -= 1;
            if left >= DEPTH {
                device.submit(Request { tag, start_sector: place(), sectors, operation });
            }
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || -> ! {
        eprintln!("usage: instructions (bare | LEVEL/MEMBERS[+log]) (read | write) BYTES OPERATIONS [ram]");
        exit(2)
    };
    let [name, kind, bytes, count, members @ ..] = &arguments[..] else { usage() };
    let ram = members.iter().any(|members| members == "ram");
    let (Some(mut device), Ok(bytes), Ok(count)) = (subject(name, ram), bytes.parse::<u64>(), count.parse()) else { usage() };
    run(&mut *device, kind == "read", bytes / SECTOR_BYTES as u64, count);
}
