//! What memory itself does: a plain read of all data strips, and `memcpy` of one half of them onto the other.

use super::{Contender, contender};

pub fn of() -> Vec<Contender> {
    let read = contender("read", |s| {
        for i in 0..s.data {
            // SAFETY: strips are page aligned and a multiple of 64 bytes.
            let words = unsafe { std::slice::from_raw_parts(s.strips[i].cast::<[u64; 32]>(), s.bytes / 256) };
            let mut sum = [0u64; 32];
            for word in words {
                for (sum, w) in sum.iter_mut().zip(word) {
                    *sum ^= w;
                }
            }
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
