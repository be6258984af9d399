//! Goal: what a driver has at the device is bounded in memory, whatever it asks for.
//! Method: a queue over rings in memory, whose device is a list.

use super::*;
use crate::vhost_user::config::QUEUE_SIZE_MAX;
use rustix::event::{EventfdFlags, eventfd};
use stria_block::{Limits, Mailbox};

const AVAILABLE: u64 = 0x8000;
const USED: u64 = 0xa000;
/// Tables of indirect descriptors, and the requests.
const TABLES: u64 = 0x1_0000;
const REQUESTS: u64 = 0x10_0000;
const FLUSH: u32 = 4;
const WRITE_ZEROES: u32 = 13;

/// Counts how often its clients are stirred.
#[derive(Default)]
struct Stirred(AtomicU64);

impl RemoteDevice for Stirred {
    fn limits(&self) -> Limits {
        Limits::plain(1 << 20)
    }

    fn submit(&self, _requests: &mut Vec<Request>, _reply: &Arc<Mailbox<Completion>>) {}

    fn take_in(&self, client: Box<dyn LaneClient>) -> Result<(), Box<dyn LaneClient>> {
        Err(client)
    }

    fn broke_off(&self) -> bool {
        false
    }

    fn stir(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A driver whose queue has 1024 descriptors, each the head of an indirect table.
struct Driver {
    map: Map,
    common: Arc<Common>,
    device: Arc<Stirred>,
    run: Run,
}

impl Driver {
    /// `share_bytes`: all the memory that the queue may use.
    fn new(share_bytes: usize) -> Self {
        Self::with(share_bytes, Budget::new(0))
    }

    fn with(share_bytes: usize, budget: Arc<Budget>) -> Self {
        let map = Map::from_ranges(&[(GuestAddress(0), 4 << 20)]).expect("memory");
        let facts = Facts { limits: Limits::plain(1 << 20), read_only: false, serial: String::new() };
        let (device, lines) = (Arc::<Stirred>::default(), vec![Line::new().expect("an eventfd")]);
        let remote = Arc::clone(&device) as Arc<dyn RemoteDevice>;
        let common = Arc::new(Common::new(facts, &remote, "a test".into(), Arc::default(), budget, share_bytes, lines));
        common.set_memory(map.clone());
        common.queues[0].set_enabled(true);
        let mut queue = Queue::new(QUEUE_SIZE_MAX).expect("a queue");
        queue.try_set_size(QUEUE_SIZE_MAX).expect("its size");
        queue.try_set_desc_table_address(GuestAddress(0)).expect("an address");
        queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).expect("an address");
        queue.try_set_used_ring_address(GuestAddress(USED)).expect("an address");
        queue.set_ready(true);
        assert!(queue.is_valid(&map));
        let kick = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd"));
        let run = Run::new(Arc::clone(&common), 0, kick, queue, None, Vec::new());
        Self { map, common, device, run }
    }

    fn put(&self, table: u64, index: u16, start: u64, len: u32, flags: u16, next: u16) {
        let bytes = [&start.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        self.map.write_slice(&bytes, GuestAddress(table + u64::from(index) * 16)).expect("a descriptor");
    }

    /// Makes `count` requests of this kind available, each with `data` and this many pieces of one byte for an answer and the
    /// status.
    fn send(&mut self, count: u16, kind: u32, data: &[u8], pieces: u16) {
        let bytes = [&kind.to_le_bytes()[..], &[0; 12], data].concat();
        self.map.write_slice(&bytes, GuestAddress(REQUESTS)).expect("a request");
        self.put(TABLES, 0, REQUESTS, bytes.len() as u32, 1, 1);
        for piece in 1..=pieces {
            let next = u16::from(piece < pieces);
            self.put(TABLES, piece, REQUESTS + 0x1000, 1, 2 | next, piece + 1);
        }
        for head in 0..count {
            self.put(0, head, TABLES, (u32::from(pieces) + 1) * 16, 4, 0);
            self.map.write_obj(head, GuestAddress(AVAILABLE + 4 + u64::from(head) * 2)).expect("a ring");
        }
        self.map.store(count, GuestAddress(AVAILABLE + 2), Ordering::SeqCst).expect("a ring");
    }

    /// The queue's turns until it waits. Returns what the device gets.
    fn turns(&mut self, ended: &mut Vec<Completion>) -> Vec<Request> {
        let mut requests = Vec::new();
        while let KeepOn::Again = self.run.turn(0, false, ended, &mut requests) {}
        assert!(!self.run.is_broken);
        requests
    }
}

/// Bug: a flush counted for nothing and kept its chain, up to 16 KiB. 64 queues of 1024 could take 1 GiB.
#[test]
fn requests_without_data_are_charged_with_their_chains() {
    let mut driver = Driver::new(100 << 10);
    driver.send(64, FLUSH, &[], 1020);
    let mut flushes = driver.turns(&mut Vec::new());
    assert_eq!(flushes.len(), 5, "20 KiB each");
    assert!(driver.run.bytes_in_flight <= driver.common.share_bytes);
    let mut ended = vec![flushes.remove(0).complete(Ok(()))];
    assert_eq!(driver.turns(&mut ended).len(), 1, "the next one has its place");
    let mut rest = flushes.into_iter().map(|flush| flush.complete(Ok(()))).collect();
    assert_eq!(driver.turns(&mut rest).len(), 4);
}

#[test]
fn short_requests_are_charged_by_their_count_and_their_ranges() {
    let mut driver = Driver::new(100 << 10);
    driver.send(64, FLUSH, &[], 1);
    assert_eq!(driver.turns(&mut Vec::new()).len(), 25);
    let mut driver = Driver::new(100 << 10);
    let range = [&8_u64.to_le_bytes()[..], &8_u32.to_le_bytes(), &[0; 4]].concat();
    driver.send(64, WRITE_ZEROES, &range.repeat(4), 1);
    assert_eq!(driver.turns(&mut Vec::new()).len(), 5 * 4, "each range is a request of its own");
}

/// Bug: a queue that had borrowed memory and was idle kept it for up to a second while another one waited for it.
#[test]
fn a_queue_that_begins_to_wait_for_memory_stirs_the_others_once() {
    let budget = Budget::new(1 << 20);
    let mut driver = Driver::with(8 << 10, Arc::clone(&budget));
    let mut idle = budget.lease(0);
    assert!(idle.reach(1 << 20));
    driver.send(4, FLUSH, &[], 1);
    let stirred = |driver: &Driver| driver.device.0.load(Ordering::SeqCst);
    assert_eq!((driver.turns(&mut Vec::new()).len(), stirred(&driver)), (2, 1));
    assert_eq!((driver.turns(&mut Vec::new()).len(), stirred(&driver)), (0, 1), "they know");
    idle.shrink_to(0);
    assert_eq!((driver.turns(&mut Vec::new()).len(), stirred(&driver)), (2, 1));
}
