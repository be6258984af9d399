//! How far away a stripe's bytes are: near (first or second level cache), in the shared cache, or in memory.
//!
//! The answer decides two things that no caller knows and that pull in opposite directions. From afar, prefetching is
//! worth 5 to 8 % and storing past the caches as much again; near, the first costs a third of P's speed and the second half
//! of everything's. So the first lines of every larger job are touched against the clock, and the time is compared with
//! that of lines flushed to memory when the kernel was chosen. Loads alone are timed: stores still under way from the call
//! before would make a near stripe look far, and being stored past the caches, keep it so.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    Near,
    Shared,
    Memory,
}

/// Bytes of data times parities, up to which a job is not timed: 20 ns cost more than is won.
///
/// Cascade Lake 2.5 GHz, 8 strips of 16 KiB, P and Q, GB/s without / with prefetch / with both, medians of 9: from memory
/// 9.0 / 9.5 / 9.7, from L2 57 / 53 / 21.
const UNTIMED_BYTES_MAX: usize = 64 << 10;

/// Lines touched, spread over the strips: enough to fill what a core can have under way, few enough to cost little.
const LINES: usize = 32;
const LINE_BYTES: usize = 64;

/// Ticks that `LINES` lines took from memory; beyond all reach until calibrated, so that all is near.
static MEMORY_TICKS: AtomicU64 = AtomicU64::new(u64::MAX / 8);

/// Where the first bytes of these strips are; near if the job is too small to ask. Null strips are passed over.
#[inline]
pub(super) fn of(strips: &[*const u8], strip_bytes: usize, level: usize) -> Distance {
    if strips.len() * strip_bytes * level <= UNTIMED_BYTES_MAX || cfg!(any(miri, not(target_arch = "x86_64"))) {
        return Distance::Near;
    }
    #[cfg(test)]
    match PRETENDED.load(Relaxed) {
        1 => return Distance::Near,
        2 => return Distance::Shared,
        3 => return Distance::Memory,
        _ => {}
    }
    let memory = MEMORY_TICKS.load(Relaxed);
    if memory == u64::MAX / 8 {
        return Distance::Near;
    }
    // SAFETY: at least 64 KiB / 255 of each strip are there.
    let ticks = unsafe { touch(strips, strip_bytes) };
    // Large strips lie on as many pages, and their first lines pay for the translation: twice the time then tells.
    let threshold = if strip_bytes < 256 << 10 { memory / 8 * 5 } else { memory * 2 };
    match () {
        () if ticks > threshold => Distance::Memory,
        () if ticks * 3 > memory => Distance::Shared,
        () => Distance::Near,
    }
}

/// The time that `LINES` lines at the start of the strips take to load.
///
/// # Safety
/// Strips that are not null have `strip_bytes` bytes. The processor has `rdtscp`.
#[inline]
unsafe fn touch(strips: &[*const u8], strip_bytes: usize) -> u64 {
    let lines = (LINES / strips.len()).clamp(1, strip_bytes / LINE_BYTES);
    let start = ticks();
    let mut sum = 0;
    for strip in strips.iter().take(LINES).filter(|strip| !strip.is_null()) {
        for line in 0..lines {
            // SAFETY: within the strip, as just clamped.
            sum ^= unsafe { strip.add(line * LINE_BYTES).cast::<u64>().read_unaligned() };
        }
    }
    std::hint::black_box(sum);
    // SAFETY: the caller's promise.
    unsafe { ticks_after_loads() }.wrapping_sub(start)
}

/// The time-stamp counter.
#[inline(always)]
fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has it.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[allow(unreachable_code)]
    0
}

/// The time-stamp counter once all loads before are done; what comes after may already run, so this is cheap.
///
/// # Safety
/// The processor has `rdtscp`.
#[inline(always)]
unsafe fn ticks_after_loads() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise.
    return unsafe { std::arch::x86_64::__rdtscp(&mut 0) };
    #[allow(unreachable_code)]
    0
}

/// Times strips that were flushed out of all caches, a few times, and keeps the best but one. Microseconds.
///
/// A machine that lacks the counter, or traps it (some virtual ones), would pay for it on every call: there, all stays near.
pub(super) fn calibrate() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // Leaf 0x8000_0001, EDX bit 27: `rdtscp`.
        if std::arch::x86_64::__cpuid(0x8000_0001).edx >> 27 & 1 == 0 {
            return;
        }
        const STRIP_BYTES: usize = 4096;
        let strips = vec![1u8; 8 * STRIP_BYTES];
        let starts: [*const u8; 8] = std::array::from_fn(|i| strips[i * STRIP_BYTES..].as_ptr());
        let mut samples = [(); 9].map(|()| {
            for line in starts.iter().flat_map(|start| (0..LINES / 8).map(move |line| start.wrapping_add(line * LINE_BYTES))) {
                // SAFETY: an address of our own; every x86-64 processor has both instructions.
                unsafe { std::arch::x86_64::_mm_clflush(line) };
            }
            // SAFETY: as above; `rdtscp` was found, and the strips are as long as told.
            unsafe {
                std::arch::x86_64::_mm_mfence();
                touch(&starts, STRIP_BYTES)
            }
        });
        samples.sort_unstable();
        let start = ticks();
        // SAFETY: `rdtscp` was found.
        let counter_ticks = unsafe { ticks_after_loads() } - start;
        if counter_ticks * 4 < samples[1] {
            MEMORY_TICKS.store(samples[1], Relaxed);
        }
    }
}

#[cfg(test)]
static PRETENDED: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
pub(super) fn pretend(distance: &str) {
    let place = super::PRETENDED_DISTANCES.iter().position(|&name| name == distance);
    PRETENDED.store(place.expect("a distance") as u64 + 1, Relaxed);
}
