use super::*;
use crate::{Data, ErrorKind, RamDevice, Segments};

const SECTORS: u64 = 8 * 16;

/// A device of 4 KiB blocks that carries requests out, and answers them, in any order.
struct Shuffler {
    ram: RamDevice,
    limits: Limits,
    held: Vec<Request>,
    done: Vec<Completion>,
    chance: u64,
    /// Reads of this sector fail.
    bad_sector: Option<u64>,
}

impl Shuffler {
    fn new(seed: u64) -> Self {
        let limits = Limits { logical_block_bytes: 4096, physical_block_bytes: 4096, ..Limits::plain(SECTORS) };
        let ram = RamDevice::with_limits(limits.clone());
        Self { ram, limits, held: Vec::new(), done: Vec::new(), chance: seed | 1, bad_sector: None }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance % bound as u64) as usize
    }
}

impl BlockDevice for Shuffler {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        self.held.push(request);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        if !self.held.is_empty() && self.below(2) == 0 {
            let index = self.below(self.held.len());
            let request = self.held.swap_remove(index);
            let is_bad = self.bad_sector.is_some_and(|bad| (request.start_sector..request.end_sector()).contains(&bad));
            if is_bad && matches!(request.operation, Operation::Read { .. }) {
                self.done.push(request.complete(Err(IoError::new(ErrorKind::Medium, "a bad sector"))));
            } else {
                self.ram.submit(request);
                self.ram.poll(now, &mut self.done);
            }
        }
        if !self.done.is_empty() && self.below(2) == 0 {
            let index = self.below(self.done.len());
            completions.push(self.done.swap_remove(index));
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        (!self.held.is_empty() || !self.done.is_empty()).then_some(0)
    }
}

fn read(tag: Tag, sector: u64, sectors: u64) -> Request {
    let into: Segments<Buffer> = smallvec![Buffer::zeroed(bytes(sectors))];
    Request { tag, start_sector: sector, sectors, operation: Operation::Read { into } }
}

fn write(tag: Tag, sector: u64, sectors: u64, stamp: u64) -> Request {
    let mut first = Buffer::copy_of(&stamp.to_le_bytes().repeat(bytes(sectors) / 8));
    // In two pieces where it has two sectors.
    let mut from: Segments<Data> = Segments::new();
    if sectors > 1 {
        from.push(first.split_to(SECTOR_BYTES).freeze());
    }
    from.push(first.freeze());
    Request { tag, start_sector: sector, sectors, operation: Operation::Write { from, fua: false } }
}

fn run<D: BlockDevice>(device: &mut D, requests: Vec<Request>) -> Vec<Completion> {
    let (mut ended, count) = (Vec::new(), requests.len());
    requests.into_iter().for_each(|request| device.submit(request));
    for _ in 0..100_000 {
        device.poll(0, &mut ended);
        if ended.len() == count && device.next_wake().is_none() {
            break;
        }
    }
    assert_eq!(ended.len(), count);
    ended.sort_by_key(|completion| completion.tag);
    ended
}

/// The stamps of the sectors that a read returned.
fn stamps(completion: &Completion) -> Vec<u64> {
    let Operation::Read { into } = &completion.operation else { panic!("a read") };
    let bytes: Vec<u8> = into.iter().flat_map(|segment| segment.iter().copied()).collect();
    let sectors = bytes.chunks(SECTOR_BYTES).map(|sector| {
        assert!(sector.chunks(8).all(|word| word == &sector[..8]), "a torn sector");
        u64::from_le_bytes(sector[..8].try_into().expect("eight bytes"))
    });
    sectors.collect()
}

/// What a sector may hold: the writes to it, with the times at which they began and ended.
#[derive(Clone)]
struct Model(Vec<(u64, usize, usize)>);

impl Model {
    /// True if a read from `begun` to `ended` may have returned `stamp`: no write that came between is known to be later.
    fn allows(&self, stamp: u64, begun: usize, ended: usize) -> bool {
        self.0.iter().any(|&(value, from, until)| {
            let is_overtaken = |&(_, later_from, later_until): &(u64, usize, usize)| later_from > until && later_until < begun;
            value == stamp && from < ended && !self.0.iter().any(is_overtaken)
        })
    }
}

/// Random reads, writes, zeros and flushes of any sectors, several at a time, against a plain model of each sector. Whatever
/// order the device chooses, no write is lost and nothing beside a write changes.
#[test]
fn no_write_is_lost_beside_another_in_any_order() {
    for seed in 1..=120 {
        let mut device = SectorDevice::new(Shuffler::new(seed * 0x9e37_79b9), true);
        assert_eq!((device.limits().logical_block_bytes, device.limits().physical_block_bytes), (512, 4096));
        let mut chance = Shuffler::new(seed * 7919);
        let mut models = vec![Model(vec![(0, 0, 0)]); SECTORS as usize];
        // The start, the sectors and the written version of each request, by tag.
        let mut open: Vec<(usize, Range<u64>, Option<u64>)> = Vec::new();
        let (mut ended, mut left, mut clock) = (Vec::new(), 0, 1);
        while open.len() < 300 || left > 0 {
            clock += 1;
            if open.len() < 300 && left < 12 && chance.below(2) == 0 {
                let (is_long, is_near, is_block) = (chance.below(3) == 0, chance.below(2) == 0, chance.below(4) == 0);
                let sectors = 1 + chance.below(if is_long { 40 } else { 7 }) as u64;
                // Most of it meets in few blocks.
                let start = chance.below(if is_near { 24 } else { (SECTORS - sectors) as usize }) as u64;
                let (start, sectors) = if is_block { (start / 8 * 8, 8) } else { (start, sectors) };
                let (tag, stamp) = (open.len() as Tag, open.len() as u64 + 1);
                let (request, stamp) = match chance.below(8) {
                    0..3 => (read(tag, start, sectors), None),
                    3 => {
                        let operation = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
                        (Request { tag, start_sector: start, sectors, operation }, Some(0))
                    }
                    4 => (Request { tag, start_sector: 0, sectors: 0, operation: Operation::Flush }, None),
                    _ => (write(tag, start, sectors, stamp), Some(stamp)),
                };
                let range = request.start_sector..request.end_sector();
                if let Some(stamp) = stamp {
                    range.clone().for_each(|sector| models[sector as usize].0.push((stamp, clock, usize::MAX)));
                }
                open.push((clock, range, stamp));
                device.submit(request);
                left += 1;
            }
            device.poll(0, &mut ended);
            for completion in ended.drain(..) {
                completion.result.as_ref().expect("nothing fails");
                left -= 1;
                let (begun, range, stamp) = open[completion.tag as usize].clone();
                match stamp {
                    Some(stamp) => {
                        for sector in range {
                            let entry = models[sector as usize].0.iter_mut().find(|entry| entry.0 == stamp && entry.1 == begun);
                            entry.expect("it was noted").2 = clock;
                        }
                    }
                    None if range.is_empty() => {}
                    None => {
                        for (sector, found) in range.zip(stamps(&completion)) {
                            assert!(
                                models[sector as usize].allows(found, begun, clock),
                                "seed {seed}: sector {sector} holds {found}"
                            );
                        }
                    }
                }
            }
        }
        let all = run(&mut device, vec![read(0, 0, SECTORS)]);
        for (sector, found) in stamps(&all[0]).into_iter().enumerate() {
            assert!(models[sector].allows(found, clock + 1, clock + 2), "seed {seed}: sector {sector} ends with {found}");
        }
        assert!(device.active.is_empty() && device.waiting.is_empty() && device.jobs.iter().all(Option::is_none));
    }
}

#[test]
fn a_block_that_cannot_be_read_fails_the_writes_of_its_parts_alone() {
    let mut device = SectorDevice::new(Shuffler::new(5), true);
    run(&mut device, vec![write(0, 0, 32, 7)]);
    device.bad_sector = Some(9);
    let ended = run(&mut device, vec![write(0, 6, 4, 8), write(1, 16, 3, 9), write(2, 8, 8, 10), write(3, 15, 1, 11)]);
    let failed: Vec<bool> = ended.iter().map(|completion| completion.result.is_err()).collect();
    assert_eq!(failed, [true, false, false, true]);
    assert!(ended.iter().all(|completion| matches!(&completion.operation, Operation::Write { from, .. } if !from.is_empty())));
    device.bad_sector = None;
    let found = stamps(&run(&mut device, vec![read(0, 0, 32)])[0]);
    let expected: Vec<u64> = (0..32)
        .map(|sector| {
            if sector < 8 {
                7
            } else if sector < 16 {
                10
            } else if sector < 19 {
                9
            } else {
                7
            }
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn zeros_cover_what_was_asked_for_and_extents_are_told_of_it() {
    let mut device = SectorDevice::new(Shuffler::new(11), true);
    run(&mut device, vec![write(0, 0, SECTORS, 3)]);
    let zero = |tag, start_sector, sectors| {
        let operation = Operation::WriteZeroes { fua: true, unmap: true, fast: false };
        Request { tag, start_sector, sectors, operation }
    };
    run(&mut device, vec![zero(0, 3, 2), zero(1, 13, 30), zero(2, 64, 9)]);
    let found = stamps(&run(&mut device, vec![read(0, 0, SECTORS)])[0]);
    let is_zero = |sector: u64| (3..5).contains(&sector) || (13..43).contains(&sector) || (64..73).contains(&sector);
    assert_eq!(found, (0..SECTORS).map(|sector| if is_zero(sector) { 0 } else { 3 }).collect::<Vec<_>>());
    let ask = Request { tag: 0, start_sector: 12, sectors: 33, operation: Operation::Extents { extents: Vec::new() } };
    let Operation::Extents { extents } = run(&mut device, vec![ask]).remove(0).operation else { panic!("extents") };
    let extent = |sectors, hole| Extent { sectors, hole };
    assert_eq!(extents, [extent(1, false), extent(30, true), extent(2, false)]);
}

#[test]
fn what_leaves_the_device_is_refused() {
    let mut device = SectorDevice::new(Shuffler::new(1), true);
    for request in [read(0, SECTORS, 1), write(0, SECTORS - 1, 2, 1), read(0, u64::MAX, 2)] {
        let ended = run(&mut device, vec![request]);
        assert_eq!(ended[0].result.as_ref().map_err(|error| error.kind), Err(ErrorKind::Invalid));
    }
    // A device that is left as it is refuses parts of blocks itself.
    let mut plain = SectorDevice::new(Shuffler::new(1), false);
    assert_eq!(plain.limits().logical_block_bytes, 4096);
    assert!(run(&mut plain, vec![read(0, 1, 1)])[0].result.is_err());
}

/// Else a busy block would keep a write of a part of it waiting for ever.
#[test]
fn a_write_that_waits_is_not_overtaken_by_later_ones() {
    let mut device = SectorDevice::new(Shuffler::new(1), true);
    device.submit(write(0, 0, 8, 1));
    device.submit(write(1, 3, 1, 2));
    device.submit(write(2, 0, 8, 3));
    device.submit(write(3, 8, 8, 4));
    let at_device: Vec<Tag> = device.held.iter().map(|request| request.tag).collect();
    assert_eq!(at_device, [0, 3], "one waits, one stands behind it, and one has nothing to do with them");
    let mut ended = Vec::new();
    while ended.len() < 4 {
        device.poll(0, &mut ended);
    }
    assert_eq!(stamps(&run(&mut device, vec![read(0, 2, 3)])[0]), [3; 3], "the later write is the later one");
}
