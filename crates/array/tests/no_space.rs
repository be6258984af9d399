//! Goal: a write that a member has no space for costs nothing but itself, also while another member is missing.
//! Method: a member of a degraded parity array takes no write and keeps what it had, as on a full file system that copies what it
//! overwrites; a plain array of bytes says what reads must give.

mod support;

use std::cell::Cell;
use std::rc::Rc;
use stria_array::{ArrayConfig, ArrayDevice, Command, Geometry, IntentConfig, Level, MemberId, NoMetadata};
use stria_block::{
    BlockDevice, Buffer, Completion, ErrorKind, IoError, Limits, Nanos, Operation, RamDevice, Request, SECTOR_BYTES, bytes,
};
use support::Chance;

/// A file on a file system that copies what it overwrites, and that may be full.
struct Copying {
    ram: RamDevice,
    is_full: Rc<Cell<bool>>,
    ended: Vec<Completion>,
}

impl BlockDevice for Copying {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }
    fn submit(&mut self, request: Request) {
        let writes = matches!(request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. });
        match writes && self.is_full.get() {
            true => self.ended.push(request.complete(Err(IoError::new(ErrorKind::NoSpace, "the file system is full")))),
            false => self.ram.submit(request),
        }
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        if self.ended.is_empty() { self.ram.next_wake() } else { Some(0) }
    }
}

struct World {
    array: ArrayDevice<NoMetadata>,
    full: Vec<Rc<Cell<bool>>>,
    model: Vec<u8>,
    now: Nanos,
    chance: Chance,
    ended: Vec<Completion>,
}

impl World {
    fn new(level: Level, members: usize, seed: u64) -> Self {
        let geometry = Geometry::new(level, level.default_layout(), 16, &vec![512; members]).expect("good");
        let model = vec![0; bytes(geometry.capacity_sectors())];
        let full: Vec<Rc<Cell<bool>>> = (0..members).map(|_| Rc::default()).collect();
        let device = |is_full: &Rc<Cell<bool>>| {
            let is_full = Rc::clone(is_full);
            Box::new(Copying { ram: RamDevice::new(512), is_full, ended: Vec::new() }) as Box<dyn BlockDevice>
        };
        let intent = Some(IntentConfig { chunk_sectors: 64, dirty: Vec::new() });
        let config = ArrayConfig { intent, ..ArrayConfig::optimal("test", geometry) };
        let array = ArrayDevice::new(&config, full.iter().map(device).collect(), NoMetadata, 0);
        Self { array, full, model, now: 0, chance: Chance::from_state(seed), ended: Vec::new() }
    }

    fn fail(&mut self, member: usize) {
        let command = Command::Fail(MemberId(member));
        support::carry_out(std::slice::from_mut(&mut self.array), &mut self.now, &mut self.ended, command)
            .expect("it survives that");
    }

    fn ask(&mut self, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
        self.array.submit(Request { tag: 7, start_sector, sectors, operation });
        for _ in 0..100_000 {
            self.array.poll(self.now, &mut self.ended);
            if let Some(ended) = self.ended.pop() {
                return ended;
            }
            self.now = self.array.next_wake().expect("the request ends").max(self.now);
        }
        panic!("a request never ends");
    }

    fn read(&mut self, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        let completion =
            self.ask(start, sectors, Operation::Read { into: std::iter::once(Buffer::zeroed(bytes(sectors))).collect() });
        completion.result?;
        let Operation::Read { into } = completion.operation else { panic!("a read comes back as a read") };
        Ok(into.iter().flat_map(|buffer| buffer.to_vec()).collect())
    }

    /// Writes. If there is no space, every sector is as before or as it should be.
    fn write(&mut self, start: u64, sectors: u64) -> Result<(), IoError> {
        let mut new = Buffer::zeroed(bytes(sectors));
        new.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.chance.any().to_le_bytes()));
        let place = bytes(start)..bytes(start + sectors);
        let from = std::iter::once(Buffer::copy_of(&new).freeze()).collect();
        let result = self.ask(start, sectors, Operation::Write { from, fua: false }).result;
        let read = if result.is_ok() { new.to_vec() } else { self.read(start, sectors).expect("it is there") };
        let sector = SECTOR_BYTES;
        let parts = read.chunks(sector).zip(new.chunks(sector)).zip(self.model[place.clone()].chunks(sector));
        assert!(parts.into_iter().all(|((read, new), before)| read == new || read == before), "neither old nor new");
        self.model[place].copy_from_slice(&read);
        result
    }
}

/// R40. What the missing member held was lost in the rows that the other one had no space for.
#[test]
fn a_degraded_array_keeps_what_a_write_without_space_leaves_alone() {
    let mut refused = 0;
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 5)] {
        for seed in 1..20 {
            eprintln!("{level:?} of {members}, seed {seed}");
            let mut world = World::new(level, members, seed);
            let size = world.model.len() as u64 / 512;
            (0..size / 16).for_each(|strip| world.write(strip * 16, 16).expect("there is space"));
            world.fail(1);
            world.full[if seed % 2 == 0 { 0 } else { members - 1 }].set(true);
            for _ in 0..60 {
                // Of one strip: of a larger write more may be lost (docs/MEMBERS.md).
                let sectors = 1 + world.chance.below(8);
                let start = world.chance.below(size / 16) * 16 + world.chance.below(17 - sectors);
                if let Err(error) = world.write(start, sectors) {
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    refused += 1;
                }
            }
            let read = world.read(0, size).expect("nothing is lost");
            assert!(read == world.model, "differs");
        }
    }
    assert!(refused > 300, "only {refused} writes had no space");
}
