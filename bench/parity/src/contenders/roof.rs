//! The speed of memory itself: a plain read of all data strips, and `memcpy` of one half of them onto the other.

use super::{Contender, contender};

pub fn of() -> Vec<Contender> {
    let read = contender("read", |s| {
        for i in 0..s.data {
            let sum = match is_x86_feature_detected!("avx2") {
                // SAFETY: just detected.
                true => unsafe { sum_avx2(s.read(i)) },
                false => sum(s.read(i)),
            };
            std::hint::black_box(sum);
        }
    });
    // Every strip read once and written once: the figure is bytes copied.
    let copy = contender("memcpy", |s| {
        for i in 0..s.data {
            let to = if i < s.data / 2 { i + s.data / 2 } else { i - s.data / 2 };
            s.write(to).copy_from_slice(s.read(i));
        }
    });
    vec![read, copy]
}

/// The compiler vectorizes it.
#[inline(always)]
fn sum(bytes: &[u8]) -> [u64; 32] {
    bytes.chunks_exact(256).fold([0; 32], |mut sum, chunk| {
        for (sum, word) in sum.iter_mut().zip(chunk.chunks_exact(8)) {
            *sum ^= u64::from_ne_bytes(word.try_into().unwrap());
        }
        sum
    })
}

#[target_feature(enable = "avx2")]
fn sum_avx2(bytes: &[u8]) -> [u64; 32] {
    sum(bytes)
}
