//! Goal: a pool counts at least the memory that its buffers take, whatever their size. Bounds on what clients may use rest on it.
//! Method: many buffers of one size; the process's resident memory is compared with the count. One test, because it measures the
//! process.

use stria_block::{Buffer, Pool};

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
    pages.split(' ').nth(1).expect("resident").parse::<usize>().expect("a number") * 4096
}

#[test]
fn a_pool_counts_what_its_buffers_take() {
    for (len, count) in [(512, 16_000), (8 << 10, 8_000), (64 << 10, 1_000), (1 << 20, 64)] {
        let mut pool = Pool::default();
        let before = resident_bytes();
        let taken: Vec<Buffer> = (0..count)
            .map(|_| {
                let mut buffer = pool.take(len);
                buffer.fill(1);
                buffer
            })
            .collect();
        let (grown, counted) = (resident_bytes() - before, count * Pool::held_bytes(len));
        // A twentieth for the handles and the pages of the allocator's own.
        assert!(grown <= counted + counted / 20, "{count} buffers of {len} bytes take {grown} bytes and count {counted}");
        taken.into_iter().for_each(|buffer| pool.give(buffer));
    }
}
