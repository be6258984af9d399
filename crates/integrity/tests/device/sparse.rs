//! A very large drive with little content: memory follows use, not size.

use super::*;

/// Sectors that were written; the others are zeros.
#[derive(Clone)]
struct Sparse(Rc<RefCell<BTreeMap<u64, [u8; SECTOR_BYTES]>>>, Limits, Rc<RefCell<Vec<Completion>>>);

impl BlockDevice for Sparse {
    fn limits(&self) -> &Limits {
        &self.1
    }
    fn submit(&mut self, mut request: Request) {
        let mut sectors = self.0.borrow_mut();
        match &mut request.operation {
            Operation::Read { into } => {
                for (at, bytes) in into.iter_mut().flat_map(|piece| piece.chunks_mut(SECTOR_BYTES)).enumerate() {
                    bytes.copy_from_slice(sectors.get(&(request.start_sector + at as u64)).unwrap_or(&[0; SECTOR_BYTES]));
                }
            }
            Operation::Write { from, .. } => {
                for (at, bytes) in from.iter().flat_map(|piece| piece.chunks(SECTOR_BYTES)).enumerate() {
                    sectors.insert(request.start_sector + at as u64, bytes.try_into().expect("a sector"));
                }
            }
            _ => {}
        }
        self.2.borrow_mut().push(request.complete(Ok(())));
    }
    fn poll(&mut self, _now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.2.borrow_mut());
    }
    fn next_wake(&self) -> Option<Nanos> {
        (!self.2.borrow().is_empty()).then_some(0)
    }
}

/// Runs the device until this many requests have ended.
fn run(device: &mut IntegrityDevice<Sparse>, now: &mut Nanos, count: usize) -> Vec<Completion> {
    let mut ended = Vec::new();
    for _ in 0..1000 {
        if ended.len() >= count && count > 0 || count == 0 && device.closed().is_some() {
            return ended;
        }
        *now += 1_000_000_000;
        device.poll(*now, &mut ended);
    }
    panic!("it takes for ever");
}

/// Regression: the list of pages took 8 bytes for each 4 MiB of the drive at once, 16 TiB here, and the process was aborted.
#[test]
fn the_largest_drive_costs_no_more_than_what_is_used_of_it() {
    let data = 0..Region::data_sectors_within(SECTORS_MAX);
    let region = Region::behind(data.clone());
    let limits = Limits { size_sectors: SECTORS_MAX, volatile_cache: true, ..RamDevice::new(64).limits().clone() };
    let drive = Sparse(Rc::default(), limits, Rc::default());
    let mut header = Header::new(&region, [[1; 16], [2; 16]], 3);
    let mut now = 0;
    for byte in [7, 8] {
        let mut device = IntegrityDevice::new(drive.clone(), "d0", header.clone(), false);
        let blocks = [0, 1 << 40, data.end / BLOCK_SECTORS - 1];
        let write = |(tag, block): (usize, &u64)| {
            let from = std::iter::once(Buffer::copy_of(&[byte; 4096]).freeze()).collect();
            let operation = Operation::Write { from, fua: false };
            Request { tag: tag as Tag, start_sector: block * BLOCK_SECTORS, sectors: BLOCK_SECTORS, operation }
        };
        blocks.iter().enumerate().map(write).for_each(|request| device.submit(request));
        assert!(run(&mut device, &mut now, blocks.len()).iter().all(|completion| completion.result.is_ok()));
        device.close();
        run(&mut device, &mut now, 0);
        assert_eq!(device.closed(), Some(Ok(())));
        // Opened again, the checksums are known; a block that has changed by itself is refused.
        let head: Vec<u8> = (0..HEADERS_SECTORS)
            .flat_map(|at| drive.0.borrow().get(&(region.start_sector + at)).copied().unwrap_or([0; SECTOR_BYTES]))
            .collect();
        header = Header::choose(&head, |_| true).expect("the close wrote it");
        drive.0.borrow_mut().get_mut(&(blocks[1] * BLOCK_SECTORS)).expect("written")[5] ^= 1;
        let mut device = IntegrityDevice::new(drive.clone(), "d0", header.clone(), true);
        for (tag, block) in blocks.iter().enumerate() {
            let operation = World::read_operation(1);
            let (start_sector, sectors) = (block * BLOCK_SECTORS, BLOCK_SECTORS);
            device.submit(Request { tag: tag as Tag, start_sector, sectors, operation });
        }
        let mut ended = run(&mut device, &mut now, blocks.len());
        ended.sort_by_key(|completion| completion.tag);
        assert_eq!(ended.iter().map(|completion| completion.result.is_ok()).collect::<Vec<_>>(), [true, false, true]);
    }
}
