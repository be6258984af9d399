//! Goal: a queue carries out the kernel's requests and does nothing else, for any requests.
//! Method: the kernel's side is played in memory, the device is a RAM device, and a plain array of bytes is the model.

use super::*;
use std::cell::RefCell;
use stria_block::{BlockDevice, RamDevice};
use stria_chance::Chance;

const DEPTH: u16 = 8;
const SECTORS: u64 = 256;
const IO_SECTORS_MAX: u32 = 32;

const COPIERS: [Copier; 2] = [Copier::Driver, Copier::Server];

/// The driver's side of a queue, which objects to a tag that is used twice at once.
struct Kernel {
    copier: Copier,
    descriptors: Vec<Descriptor>,
    /// The memory of each request, by tag.
    data: RefCell<Vec<Vec<u8>>>,
    /// Whether the server waits for a request, by tag.
    is_fetched: Vec<bool>,
    ended: Vec<(u16, i32)>,
    refuses_data: bool,
    /// Memory for the data of writes, by tag.
    asked: Vec<Option<Buffer>>,
    /// Memory of reads that was copied.
    copied: Vec<Buffer>,
}

impl Port for Kernel {
    fn copier(&self) -> Copier {
        self.copier
    }

    fn ask_data(&mut self, tag: u16, into: Buffer) {
        assert!(!std::mem::replace(&mut self.is_fetched[usize::from(tag)], true), "tag {tag} is not the server's");
        assert!(self.asked[usize::from(tag)].replace(into).is_none());
    }

    fn asked_data(&mut self, tag: u16) -> Option<Buffer> {
        self.asked[usize::from(tag)].take()
    }

    fn commit_read(&mut self, tag: u16, result: i32, from: Buffer) {
        if result >= 0 {
            self.data.borrow_mut()[usize::from(tag)].copy_from_slice(&from[..result as usize]);
        }
        self.copied.push(from);
        self.commit(tag, result);
    }

    fn returned(&mut self) -> impl Iterator<Item = Buffer> {
        self.copied.drain(..)
    }

    fn descriptor(&self, tag: u16) -> Descriptor {
        self.descriptors[usize::from(tag)]
    }

    fn take_data(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        assert_eq!(self.copier, Copier::Server);
        if self.refuses_data {
            return Err(io::Error::other("refused"));
        }
        into.copy_from_slice(&self.data.borrow()[usize::from(tag)]);
        Ok(())
    }

    fn give_data(&self, tag: u16, at: usize, from: &[u8]) -> io::Result<()> {
        assert_eq!(self.copier, Copier::Server);
        if self.refuses_data {
            return Err(io::Error::other("refused"));
        }
        self.data.borrow_mut()[usize::from(tag)][at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn fetch(&mut self, tag: u16) {
        assert!(!std::mem::replace(&mut self.is_fetched[usize::from(tag)], true), "tag {tag} is fetched twice");
    }

    fn commit(&mut self, tag: u16, result: i32) {
        self.fetch(tag);
        self.ended.push((tag, result));
    }
}

/// A queue between a kernel and a device.
struct Bench {
    kernel: Kernel,
    queue: Queue,
    device: RamDevice,
    /// On their way to the device.
    requests: Vec<Request>,
}

impl Bench {
    fn new(copier: Copier, limits: Limits, read_only: bool) -> Self {
        let kernel = Kernel {
            copier,
            descriptors: vec![Descriptor::default(); DEPTH.into()],
            data: RefCell::new(vec![Vec::new(); DEPTH.into()]),
            is_fetched: vec![false; DEPTH.into()],
            ended: Vec::new(),
            refuses_data: false,
            asked: (0..DEPTH).map(|_| None).collect(),
            copied: Vec::new(),
        };
        let queue = Queue::new(limits.clone(), IO_SECTORS_MAX * 512, DEPTH, read_only);
        let mut bench = Self { kernel, queue, device: RamDevice::with_limits(limits), requests: Vec::new() };
        bench.queue.begin(&mut bench.kernel);
        assert!(bench.kernel.is_fetched.iter().all(|is_fetched| *is_fetched));
        bench
    }

    fn plain(copier: Copier) -> Self {
        Self::new(copier, RamDevice::new(SECTORS).limits().clone(), false)
    }

    /// The kernel has a request with this tag.
    fn ask(&mut self, tag: u16, operation: u32, start_sector: u64, sectors: u32, data: Vec<u8>) {
        let index = usize::from(tag);
        assert!(std::mem::replace(&mut self.kernel.is_fetched[index], false), "the server does not wait for tag {tag}");
        self.kernel.descriptors[index] = Descriptor { operation, sectors, start_sector };
        self.kernel.data.borrow_mut()[index] = data;
        if self.kernel.copier == Copier::Driver && operation & operation::MASK == operation::WRITE {
            self.arrived(tag, result_of::NEEDS_DATA);
            // None: it was refused.
            let Some(into) = &mut self.kernel.asked[index] else { return };
            into.copy_from_slice(&self.kernel.data.borrow()[index]);
            self.kernel.is_fetched[index] = false;
        }
        self.arrived(tag, result_of::ARRIVED);
    }

    fn arrived(&mut self, tag: u16, result: i32) {
        self.queue.arrived(&mut self.kernel, tag.into(), result, &mut self.requests).expect("a tag that was fetched");
    }

    /// The device carries a request out, or fails it.
    fn carry_out(&mut self, request: Request, failure: Option<ErrorKind>) {
        let mut ended = Vec::new();
        match failure {
            Some(kind) => ended.push(request.complete(Err(stria_block::IoError::new(kind, "as the test wants")))),
            None => {
                self.device.submit(request);
                self.device.poll(0, &mut ended);
            }
        }
        ended.into_iter().for_each(|completion| self.queue.complete(&mut self.kernel, completion));
        self.queue.collect(&mut self.kernel);
    }

    /// One request from its arrival to its result.
    fn result_of(&mut self, operation: u32, start_sector: u64, sectors: u32, data: Vec<u8>) -> i32 {
        self.ask(0, operation, start_sector, sectors, data);
        while let Some(request) = self.requests.pop() {
            self.carry_out(request, None);
        }
        self.kernel.ended.pop().expect("a result").1
    }
}

#[test]
fn a_queue_is_a_plain_disk_in_whatever_order_requests_end() {
    COPIERS.into_iter().for_each(is_a_plain_disk);
}

fn is_a_plain_disk(copier: Copier) {
    let mut chance = Chance::new(18, 0);
    let mut bench = Bench::plain(copier);
    let mut disk = vec![0; SECTORS as usize * 512];
    let (mut fua_count, mut keep_count) = (0, 0);
    // The bytes that each read must bring, by tag.
    let mut awaited: Vec<Option<Vec<u8>>> = vec![None; DEPTH.into()];
    for round in 0..20_000 {
        let free = (0..DEPTH).filter(|tag| bench.kernel.is_fetched[usize::from(*tag)]).collect::<Vec<_>>();
        if !free.is_empty() && chance.one_in(2) {
            let tag = chance.pick(&free);
            let sectors = 1 + chance.below(IO_SECTORS_MAX.into()) as u32;
            let start = chance.below(SECTORS - u64::from(sectors) + 1);
            let kind =
                chance.pick(&[operation::READ, operation::WRITE, operation::FLUSH, operation::DISCARD, operation::WRITE_ZEROES]);
            let flags = chance.pick(&[0, operation::FUA]) | chance.pick(&[0, operation::NO_UNMAP]);
            // Flags that the server does not know (FAILFAST, SWAP) change nothing.
            let unknown = chance.pick(&[0, 1 << 8, 1 << 16]);
            let data = (0..sectors as usize * 512).map(|index| (round + index / 512) as u8).collect();
            bench.ask(tag, kind | flags | unknown, start, sectors, data);
        } else if !bench.requests.is_empty() {
            let request = bench.requests.swap_remove(chance.below(bench.requests.len() as u64) as usize);
            let tag = request.tag as u16;
            let descriptor = bench.kernel.descriptor(tag);
            let range =
                descriptor.start_sector as usize * 512..(descriptor.start_sector as usize + descriptor.sectors as usize) * 512;
            let (has_fua, keeps) = (descriptor.operation & operation::FUA != 0, descriptor.operation & operation::NO_UNMAP != 0);
            match (descriptor.operation & operation::MASK, &request.operation) {
                (operation::READ, Operation::Read { .. }) => awaited[usize::from(tag)] = Some(disk[range].to_vec()),
                (operation::WRITE, Operation::Write { fua, .. }) => {
                    assert_eq!(*fua, has_fua);
                    fua_count += u32::from(*fua);
                    disk[range].copy_from_slice(&bench.kernel.data.borrow()[usize::from(tag)]);
                }
                (operation::FLUSH, Operation::Flush) => {}
                (operation::DISCARD, Operation::WriteZeroes { fua: false, unmap: true, fast: false }) => disk[range].fill(0),
                (operation::WRITE_ZEROES, Operation::WriteZeroes { fua, unmap, fast: false }) => {
                    assert_eq!((*fua, *unmap), (has_fua, !keeps));
                    keep_count += u32::from(keeps);
                    disk[range].fill(0);
                }
                (asked, given) => panic!("{asked} became {given:?}"),
            }
            bench.carry_out(request, None);
            let (ended, result) = bench.kernel.ended.pop().expect("a result");
            let moves = matches!(descriptor.operation & operation::MASK, operation::READ | operation::WRITE);
            assert_eq!((ended, result), (tag, if moves { descriptor.sectors as i32 * 512 } else { 0 }));
            if let Some(wanted) = awaited[usize::from(tag)].take() {
                assert!(bench.kernel.data.borrow()[usize::from(tag)] == wanted, "a read brought something else");
            }
        }
        let open = bench.kernel.is_fetched.iter().filter(|is_fetched| !**is_fetched).count();
        assert_eq!((open, bench.requests.len()), (bench.queue.at_device(), bench.queue.at_device()));
    }
    assert!(bench.device.memory() == disk);
    assert!(fua_count > 100 && keep_count > 100, "{fua_count} {keep_count}");
    assert_eq!(bench.queue.counters().errors, 0);
}

#[test]
fn hostile_descriptors_are_refused_and_never_reach_the_device() {
    COPIERS.into_iter().for_each(refuses_hostile_descriptors);
}

fn refuses_hostile_descriptors(copier: Copier) {
    let mut bench = Bench::plain(copier);
    for (operation, start, sectors, error) in [
        (operation::READ, SECTORS, 1, errno::EINVAL),
        (operation::WRITE, SECTORS - 1, 2, errno::EINVAL),
        (operation::READ, u64::MAX, 1, errno::EINVAL),
        (operation::WRITE_ZEROES, u64::MAX - 3, u32::MAX, errno::EINVAL),
        (operation::DISCARD, 0, SECTORS as u32 + 1, errno::EINVAL),
        (operation::READ, 0, 0, errno::EINVAL),
        (operation::WRITE, 0, 0, errno::EINVAL),
        (operation::READ, 0, IO_SECTORS_MAX + 1, errno::EINVAL),
        (operation::WRITE, 0, IO_SECTORS_MAX + 1, errno::EINVAL),
        (operation::READ, 0, 1 << 23, errno::EINVAL),
        (4, 0, 1, errno::EOPNOTSUPP),
        (0xff, 0, 1, errno::EOPNOTSUPP),
        (15, 0, 1, errno::EOPNOTSUPP),
    ] {
        let data = vec![1; (sectors as usize * 512).min(1 << 20)];
        bench.ask(0, operation, start, sectors, data);
        assert!(bench.requests.is_empty(), "{operation} {start} {sectors}");
        assert_eq!(bench.kernel.ended.pop(), Some((0, error)), "{operation} {start} {sectors}");
    }
    // A flush has neither start nor length, whatever the kernel leaves in the fields.
    assert_eq!(bench.result_of(operation::FLUSH, u64::MAX, u32::MAX, Vec::new()), 0);
    assert_eq!(bench.queue.counters().errors, 13);
    assert!(bench.device.memory().iter().all(|byte| *byte == 0));
}

#[test]
fn what_a_device_cannot_do_is_refused() {
    COPIERS.into_iter().for_each(refuses_what_a_device_cannot_do);
}

fn refuses_what_a_device_cannot_do(copier: Copier) {
    let mut read_only = Bench::new(copier, RamDevice::new(SECTORS).limits().clone(), true);
    for operation in [operation::WRITE, operation::WRITE | operation::FUA, operation::DISCARD, operation::WRITE_ZEROES] {
        assert_eq!(read_only.result_of(operation, 0, 1, vec![1; 512]), errno::EROFS);
    }
    assert_eq!(read_only.result_of(operation::READ, 0, 1, vec![1; 512]), 512);
    assert!(read_only.kernel.asked.iter().all(Option::is_none), "what was lent for a refused write is free again");
    assert_eq!(read_only.result_of(operation::FLUSH, 0, 0, Vec::new()), 0);
    let mut no_discard = Bench::new(copier, Limits::plain(SECTORS), false);
    assert_eq!(no_discard.result_of(operation::DISCARD, 0, 1, Vec::new()), errno::EOPNOTSUPP);
    assert_eq!(no_discard.result_of(operation::WRITE_ZEROES, 0, 1, Vec::new()), 0);
    let mut large_blocks = Bench::new(copier, Limits { logical_block_bytes: 4096, ..Limits::plain(SECTORS) }, false);
    assert_eq!(large_blocks.result_of(operation::WRITE, 1, 8, vec![1; 4096]), errno::EINVAL);
}

const ERRORS: [(ErrorKind, i32); 6] = [
    (ErrorKind::NoSpace, errno::ENOSPC),
    (ErrorKind::Unsupported, errno::EOPNOTSUPP),
    (ErrorKind::Invalid, errno::EINVAL),
    (ErrorKind::Failed, errno::EIO),
    (ErrorKind::Gone, errno::EIO),
    (ErrorKind::Medium, errno::EIO),
];

#[test]
fn errors_of_the_device_are_those_of_the_block_layer() {
    for (copier, kind, error) in COPIERS.into_iter().flat_map(|copier| ERRORS.map(|(kind, error)| (copier, kind, error))) {
        let mut bench = Bench::plain(copier);
        for operation in [operation::READ, operation::WRITE] {
            bench.ask(3, operation, 0, 1, vec![9; 512]);
            let request = bench.requests.pop().expect("a request");
            bench.carry_out(request, Some(kind));
            assert_eq!(bench.kernel.ended.pop(), Some((3, error)));
            assert_eq!(bench.kernel.data.borrow()[3], [9; 512], "a failed read brings nothing");
        }
    }
}

#[test]
fn data_that_the_driver_does_not_pass_on_fails_the_request_alone() {
    let mut bench = Bench::plain(Copier::Server);
    bench.kernel.refuses_data = true;
    assert_eq!(bench.result_of(operation::WRITE, 0, 2, vec![1; 1024]), errno::EIO);
    assert_eq!(bench.result_of(operation::READ, 0, 2, vec![1; 1024]), errno::EIO);
    assert!(bench.device.memory().iter().all(|byte| *byte == 0));
    bench.kernel.refuses_data = false;
    assert_eq!(bench.result_of(operation::WRITE, 0, 2, vec![1; 1024]), 1024);
    assert_eq!(bench.device.memory()[1023], 1);
}

#[test]
fn a_driver_that_breaks_its_rules_ends_the_queue() {
    let mut bench = Bench::plain(Copier::Server);
    bench.ask(2, operation::FLUSH, 0, 0, Vec::new());
    let mut arrived = |tag, result| bench.queue.arrived(&mut bench.kernel, tag, result, &mut bench.requests);
    assert_eq!(arrived(2, 0), Err(Broken::Tag(2)), "the device has it");
    assert_eq!(arrived(DEPTH.into(), 0), Err(Broken::Tag(DEPTH.into())));
    assert_eq!(arrived(u64::MAX, 0), Err(Broken::Tag(u64::MAX)));
    assert_eq!(arrived(u64::from(u32::MAX) + 1, 0), Err(Broken::Tag(1 << 32)));
    assert_eq!(arrived(3, -22), Err(Broken::Fetch(-22)));
    assert_eq!(arrived(4, 1), Err(Broken::Fetch(1)), "a mode that was not asked for");
}

#[test]
fn a_stopped_device_ends_once_its_last_request_has() {
    let mut bench = Bench::plain(Copier::Server);
    bench.ask(5, operation::WRITE, 0, 1, vec![7; 512]);
    for tag in (0..DEPTH).filter(|tag| *tag != 5) {
        bench.queue.arrived(&mut bench.kernel, tag.into(), result_of::ABORTED, &mut bench.requests).expect("a tag that waits");
    }
    assert!(!bench.queue.is_over());
    let request = bench.requests.pop().expect("a write");
    bench.carry_out(request, None);
    assert_eq!(bench.kernel.ended, [(5, 512)]);
    assert!(!bench.queue.is_over(), "its tag is fetched again");
    bench.queue.arrived(&mut bench.kernel, 5, result_of::ABORTED, &mut bench.requests).expect("a tag that waits");
    assert!(bench.queue.is_over());
    let again = bench.queue.arrived(&mut bench.kernel, 5, result_of::ABORTED, &mut bench.requests);
    assert_eq!(again, Err(Broken::Tag(5)), "a tag is aborted once");
}

/// Where memory is short, the driver copies only a part of the data, and reports so by the request's length.
#[test]
fn a_write_whose_data_the_driver_copied_in_part_is_done_in_part() {
    let mut bench = Bench::plain(Copier::Driver);
    bench.kernel.is_fetched[4] = false;
    bench.kernel.descriptors[4] = Descriptor { operation: operation::WRITE, sectors: 16, start_sector: 8 };
    bench.arrived(4, result_of::NEEDS_DATA);
    assert_eq!((bench.requests.len(), bench.queue.at_device()), (0, 0));
    let lent = bench.kernel.asked[4].as_mut().expect("memory for the data");
    assert_eq!(lent.len(), 8192);
    lent[..4096].fill(7);
    lent[4096..].fill(0xee);
    bench.kernel.is_fetched[4] = false;
    bench.kernel.descriptors[4].sectors = 8;
    bench.arrived(4, result_of::ARRIVED);
    let request = bench.requests.pop().expect("a write");
    bench.carry_out(request, None);
    assert_eq!(bench.kernel.ended.pop(), Some((4, 4096)));
    let memory = bench.device.memory();
    assert!(memory[8 * 512..16 * 512].iter().all(|byte| *byte == 7) && memory[16 * 512..].iter().all(|byte| *byte == 0));

    // The data can neither grow, nor arrive without having been asked for.
    bench.kernel.is_fetched[4] = false;
    bench.arrived(4, result_of::NEEDS_DATA);
    bench.kernel.is_fetched[4] = false;
    bench.kernel.descriptors[4].sectors = 9;
    bench.arrived(4, result_of::ARRIVED);
    assert_eq!(bench.kernel.ended.pop(), Some((4, errno::EIO)));
    bench.kernel.is_fetched[4] = false;
    bench.arrived(4, result_of::ARRIVED);
    assert_eq!(bench.kernel.ended.pop(), Some((4, errno::EIO)));
    assert!(bench.requests.is_empty());

    // The device is stopped while the driver fills memory.
    bench.kernel.is_fetched[4] = false;
    bench.arrived(4, result_of::NEEDS_DATA);
    bench.arrived(4, result_of::ABORTED);
    assert!(bench.kernel.asked[4].is_none());
    let again = bench.queue.arrived(&mut bench.kernel, 4, result_of::NEEDS_DATA, &mut bench.requests);
    assert_eq!(again, Err(Broken::Tag(4)));
}

/// The server dies with every tag in its hands: some requests are carried out, some are not, none is answered. The next server
/// gets all of them again.
#[test]
fn requests_that_arrive_twice_with_a_new_server_in_between_are_done_once() {
    COPIERS.into_iter().for_each(does_repeated_requests_once);
}

fn does_repeated_requests_once(copier: Copier) {
    let mut chance = Chance::new(18, 1);
    for _ in 0..200 {
        let mut bench = Bench::plain(copier);
        let mut disk = vec![0; SECTORS as usize * 512];
        // Requests of one moment do not overlap, as those of a file system.
        for tag in 0..DEPTH {
            let start = u64::from(tag) * 16;
            let data = vec![chance.any() as u8 | 1; 4096];
            disk[start as usize * 512..][..4096].copy_from_slice(&data);
            bench.ask(tag, operation::WRITE, start, 8, data);
        }
        for _server in 0..2 {
            // The device ends some, and their results are lost with the server.
            let done = chance.below(u64::from(DEPTH) + 1) as usize;
            bench.requests.drain(..).take(done).for_each(|request| bench.device.submit(request));
            bench.device.poll(0, &mut Vec::new());
            bench.queue = Queue::new(bench.device.limits().clone(), IO_SECTORS_MAX * 512, DEPTH, false);
            bench.kernel.is_fetched.fill(false);
            bench.kernel.asked.fill_with(|| None);
            bench.queue.begin(&mut bench.kernel);
            for tag in 0..DEPTH {
                let (descriptor, data) = (bench.kernel.descriptor(tag), bench.kernel.data.borrow()[usize::from(tag)].clone());
                bench.ask(tag, descriptor.operation, descriptor.start_sector, descriptor.sectors, data);
            }
        }
        while let Some(request) = bench.requests.pop() {
            bench.carry_out(request, None);
        }
        assert_eq!(bench.kernel.ended.len(), usize::from(DEPTH), "each is answered once");
        assert!(bench.device.memory() == disk);
    }
}

#[test]
fn memory_is_returned_when_idle() {
    COPIERS.into_iter().for_each(returns_memory_when_idle);
}

fn returns_memory_when_idle(copier: Copier) {
    let mut bench = Bench::plain(copier);
    assert!(!bench.queue.keeps_warm());
    assert_eq!(bench.result_of(operation::WRITE, 0, 8, vec![1; 4096]), 4096);
    assert!(bench.queue.keeps_warm());
    bench.ask(1, operation::FLUSH, 0, 0, Vec::new());
    assert!(!bench.queue.keeps_warm(), "it works");
    let flush = bench.requests.pop().expect("a flush");
    bench.carry_out(flush, None);
    bench.queue.cool();
    assert!(!bench.queue.keeps_warm());
}
