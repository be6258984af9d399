//! How far away a stripe's bytes are: near (first or second level cache), in the shared cache, or in memory.
//!
//! The answer decides two things that no caller knows and that pull in opposite directions. From afar, prefetching is
//! worth 5 to 8 % and storing past the caches as much again; near, the first costs a third of P's speed and the second half
//! of everything's (docs of `MEASURED_BYTES_MIN`). So the first step of every larger job is timed, which costs 20 ns, and
//! compared with what a stripe flushed to memory took when the kernel was chosen.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    Near,
    Shared,
    Memory,
}

/// Bytes of data times parities, from which on a job is timed: below, 20 ns cost more than is won.
///
/// Cascade Lake 2.5 GHz, 8 strips, P and Q, GB/s without / with prefetch / with both, medians of 9:
/// 16 KiB strips from memory 9.0 / 9.5 / 9.7, from L2 57 / 53 / 21. Threshold distances in ticks per 1000 bytes: L2 up to 120,
/// shared cache 180 to 560, memory 400 (22 strips) and 560 (8 strips) to 2500.
const MEASURED_BYTES_MIN: usize = 64 << 10;

/// Ticks that a first step took from memory, per MiB; beyond all reach until calibrated, so that all is near.
static MEMORY_TICKS_PER_MIB: AtomicU64 = AtomicU64::new(u64::MAX / 8);

/// Whether a job of so many data bytes and parities shall be timed.
pub(super) fn is_measured(bytes: usize, level: usize) -> bool {
    cfg!(all(target_arch = "x86_64", not(miri))) && bytes * level > MEASURED_BYTES_MIN
}

/// From the duration of a first step over `bytes` bytes of strips of `strip_bytes` each.
///
/// Large strips lie on as many pages, and the first step pays for their translation: twice the time then tells.
pub(super) fn of(ticks: u64, bytes: usize, strip_bytes: usize) -> Distance {
    let (ticks, memory) = ((ticks << 20) / bytes as u64, MEMORY_TICKS_PER_MIB.load(Relaxed));
    let threshold = if strip_bytes < 256 << 10 { memory / 8 * 5 } else { memory * 2 };
    #[cfg(test)]
    match PRETENDED.load(Relaxed) {
        1 => return Distance::Near,
        2 => return Distance::Shared,
        3 => return Distance::Memory,
        _ => {}
    }
    match () {
        () if ticks > threshold => Distance::Memory,
        () if ticks * 3 > memory => Distance::Shared,
        () => Distance::Near,
    }
}

/// The time-stamp counter. Cheap, since nothing waits for it.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has it.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[allow(unreachable_code)]
    0
}

/// The time-stamp counter once all loads before are done; loads after may already run.
#[inline(always)]
pub(super) fn ticks_after_loads() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reached only where `is_measured`, that is where `calibrate` has found the instruction.
    return unsafe { std::arch::x86_64::__rdtscp(&mut 0) };
    #[allow(unreachable_code)]
    0
}

/// Times `first_step` over strips that were flushed out of all caches, a few times, and keeps the best but one. Microseconds.
///
/// A machine that traps the counter (some virtual ones) would pay for it on every call: there, all stays near.
pub(super) fn calibrate(mut first_step: impl FnMut(&[[u8; 4096]; 8]) -> usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // Leaf 0x8000_0001, EDX bit 27: `rdtscp`.
        if std::arch::x86_64::__cpuid(0x8000_0001).edx >> 27 & 1 == 0 {
            return;
        }
        let strips = Box::new([[1u8; 4096]; 8]);
        let mut bytes = 0;
        let mut samples = [(); 9].map(|()| {
            for line in strips.as_flattened().chunks(64) {
                // SAFETY: an address of our own; every x86-64 processor has both instructions.
                unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr()) };
            }
            // SAFETY: as above.
            unsafe { std::arch::x86_64::_mm_mfence() };
            let start = ticks();
            bytes = first_step(&strips);
            ticks_after_loads() - start
        });
        samples.sort_unstable();
        let start = ticks();
        let counter_ticks = ticks_after_loads() - start;
        if counter_ticks * 4 < samples[1] {
            MEMORY_TICKS_PER_MIB.store((samples[1] << 20) / bytes as u64, Relaxed);
        }
    }
    let _ = &mut first_step;
}

#[cfg(test)]
static PRETENDED: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
pub(super) fn pretend(distance: &str) {
    let place = super::PRETENDED_DISTANCES.iter().position(|&name| name == distance);
    PRETENDED.store(place.expect("a distance") as u64 + 1, Relaxed);
}
