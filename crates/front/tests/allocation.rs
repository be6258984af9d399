//! Goal: once it is warm, the data path allocates no memory from the system.
//! Method: an allocator that counts, a server, and a client in one process; the only test of this binary, so that
//! nothing else allocates meanwhile.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use stria_front::Options;
use support::raw::{Service, reply, request};

struct Counting;

static ALLOCATION_COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is the system allocator's own; the counter does not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller got `memory` from `alloc` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn reads_and_writes_allocate_nothing_once_warm() {
    let service = Service::start(Options::default());
    let mut client = service.client();
    // 32 writes and 32 reads at a time, of 4 KiB and of 64 KiB, in one piece each.
    let batches = [4096_u32, 65536].map(|len| {
        let writes: Vec<u8> =
            (0..32).flat_map(|n| [request(1, n, n * 65536, len), vec![n as u8; len as usize]].concat()).collect();
        let reads: Vec<u8> = (0..32).flat_map(|n| request(0, n, n * 65536, len)).collect();
        (writes, reads, vec![0; len as usize])
    });
    let mut batches = batches;
    let mut rounds = |count: usize| {
        for _ in 0..count {
            for (writes, reads, data) in &mut batches {
                client.write_all(writes).expect("writes");
                (0..32).for_each(|_| assert_eq!(reply(&mut client).1, 0));
                client.write_all(reads).expect("reads");
                for _ in 0..32 {
                    let (cookie, error) = reply(&mut client);
                    client.read_exact(data).expect("data");
                    assert!(error == 0 && data.iter().all(|&byte| byte == cookie as u8));
                }
            }
        }
    };
    rounds(50);
    let before = ALLOCATION_COUNT.load(Ordering::Relaxed);
    rounds(100);
    let count = ALLOCATION_COUNT.load(Ordering::Relaxed) - before;
    // Queues still grow to the deepest moment so far, which the scheduler decides; 12800 requests must not.
    assert!(count <= 20, "{count} allocations for 12800 requests");
}
