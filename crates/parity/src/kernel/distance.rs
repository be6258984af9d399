//! How far away a stripe's bytes are: near (first or second level cache), in the shared cache, or in memory; and what follows
//! from it.
//!
//! No caller knows this, and what pays for distant bytes costs time for near ones: storing past the caches halves the speed of
//! everything there, prefetching costs P a third. So the first lines of one larger job in eight are read and timed, and the
//! time is compared with that of lines that were flushed to memory when the kernel was chosen. Only loads are timed. Stores
//! still in flight from the previous call would make a near stripe look distant; being stored past the caches, it would then
//! stay distant.
//!
//! Processors differ. Intel's gain from prefetching (5 to 8 %), and from storing past the caches only for stripes that come
//! from memory. AMD's follow as many streams as a stripe has without help, and lose 5 to 30 % by prefetching; storing past the
//! caches gains as soon as the second level cache does not hold the stripe. (Cascade Lake and Zen 5,
//! `bench/results/*-parity.md`.)

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::sync::OnceLock;

/// How to process a job.
#[derive(Clone, Copy, Default)]
pub(super) struct Way {
    /// Prefetch lines before they are loaded.
    pub prefetch: bool,
    /// Store past the caches if alignment allows.
    pub stream: bool,
}

/// Bytes of data times parities, up to which a job is not timed: the 20 ns cost more than they gain.
///
/// Cascade Lake 2.5 GHz, 8 strips of 16 KiB, P and Q, GB/s without / with prefetch / with both, medians of 9: from memory
/// 9.0 / 9.5 / 9.7, from L2 57 / 53 / 21.
const UNTIMED_BYTES_MAX: usize = 64 << 10;

/// The end of a job waits for what was stored past the caches, some 250 ns (Zen 5): too much for strips up to this size.
const STREAMED_BYTES_MIN: usize = 4096;

/// One job in so many is timed.
const ASKED_EVERY: u8 = 8;

/// Lines that are timed, spread over the strips: enough to fill what a core can have in flight, few enough to cost little.
const LINES: usize = 32;
const LINE_BYTES: usize = 64;

/// What was measured on this machine. Empty if the clock is of no use; then everything counts as near.
#[cfg(all(target_arch = "x86_64", not(miri)))]
static MACHINE: OnceLock<Machine> = OnceLock::new();

#[cfg(all(target_arch = "x86_64", not(miri)))]
struct Machine {
    /// Ticks that `LINES` lines take from memory.
    memory_ticks: u64,
    is_amd: bool,
    /// The size of the second level cache of one core.
    cache_bytes: usize,
}

/// How to compute `level` parities of these strips and to store them and `copies` strips, which are read `soon` or not. Null
/// strips are skipped.
#[inline]
pub(super) fn way(strips: &[*const u8], strip_bytes: usize, level: usize, copies: usize, soon: bool) -> Way {
    if strips.len() * strip_bytes * level <= UNTIMED_BYTES_MAX {
        return Way::default();
    }
    #[cfg(test)]
    if let Some(way) = pretended() {
        return way;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(machine) = MACHINE.get() {
        // A core stores 38 GB/s past the caches (Zen 5). If that keeps up with what L2 delivers, timing costs more than it
        // gains.
        let is_kept_up_with = (level + copies) * 10 <= strips.len();
        if machine.is_amd && strip_bytes <= STREAMED_BYTES_MIN {
            return Way::default();
        }
        if machine.is_amd && !soon && (is_kept_up_with || strips.len() * strip_bytes > machine.cache_bytes) {
            return Way { prefetch: false, stream: true };
        }
        // SAFETY: each strip has at least 64 KiB / 255; the machine was measured, so it has `rdtscp`.
        let ticks = unsafe { ticks_lately(strips, strip_bytes) };
        // Large strips lie on as many pages, and their first lines pay for the address translation: then twice the time is the
        // bound.
        let threshold = if strip_bytes < 256 << 10 { machine.memory_ticks / 8 * 5 } else { machine.memory_ticks * 2 };
        return match machine.is_amd {
            true => Way { prefetch: false, stream: ticks * if soon { 2 } else { 5 } > machine.memory_ticks },
            false => Way { prefetch: ticks * 3 > machine.memory_ticks, stream: ticks > threshold },
        };
    }
    Way::default()
}

/// True if lines of these strips should be prefetched when they are updated in place.
#[inline]
pub(super) fn wants_prefetch(strips: &[*const u8], strip_bytes: usize) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if MACHINE.get().is_some_and(|machine| machine.is_amd) && !cfg!(test) {
        return false;
    }
    way(strips, strip_bytes, 1, 0, false).prefetch
}

/// [`touch`], or for most jobs the result of a recent job of about the same size: timing takes as long as 6 KiB.
///
/// # Safety
/// As [`touch`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn ticks_lately(strips: &[*const u8], strip_bytes: usize) -> u64 {
    use std::cell::Cell;
    thread_local! {
        /// By the size of jobs: ticks, and for how many more jobs they count.
        static LATELY: [Cell<(u64, u8)>; 8] = const { [const { Cell::new((0, 0)) }; 8] };
    }
    let class = (((strips.len() * strip_bytes) >> 15) | 1).ilog2().min(7);
    LATELY.with(|lately| {
        let lately = &lately[class as usize];
        let (ticks, left) = match lately.get() {
            // SAFETY: the caller's promise.
            (_, 0) => (unsafe { touch(strips, strip_bytes) }, ASKED_EVERY),
            (ticks, left) => (ticks, left),
        };
        lately.set((ticks, left - 1));
        ticks
    })
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

/// The time-stamp counter once all loads before are done; later instructions may already run, so this is cheap.
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

/// Measures this machine: times strips that were flushed out of all caches, a few times, and takes the second-best result.
/// Takes microseconds.
///
/// A machine that lacks the counter, or traps it (some virtual ones), would pay for it on every call: there, everything counts
/// as near.
pub(crate) fn calibrate() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::__cpuid;
        // Leaf 0x8000_0001, EDX bit 27: `rdtscp`.
        if __cpuid(0x8000_0001).edx >> 27 & 1 == 0 {
            return;
        }
        const STRIP_BYTES: usize = 4096;
        let strips = vec![1u8; 8 * STRIP_BYTES];
        let starts: [*const u8; 8] = std::array::from_fn(|i| strips[i * STRIP_BYTES..].as_ptr());
        let mut samples = [(); 9].map(|()| {
            for line in starts.iter().flat_map(|start| (0..LINES / 8).map(move |line| start.wrapping_add(line * LINE_BYTES))) {
                // SAFETY: the address lies in our own strips; every x86-64 processor has both instructions.
                unsafe { std::arch::x86_64::_mm_clflush(line) };
            }
            // SAFETY: as above; `rdtscp` was found, and the strips have this length.
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
            // Leaf 0: the vendor's name, in this order.
            let name = [__cpuid(0).ebx, __cpuid(0).edx, __cpuid(0).ecx].map(u32::to_le_bytes);
            let is_amd = [*b"AuthenticAMD", *b"HygonGenuine"].contains(&name.concat().try_into().expect("twelve letters"));
            // Leaf 0x8000_0006, ECX bits 16 to 31: the second level cache in KiB, with both vendors. A hypervisor may hide it.
            let cache_bytes = match __cpuid(0x8000_0006).ecx >> 16 {
                0 => usize::MAX,
                kib => kib as usize * 1024,
            };
            MACHINE.get_or_init(|| Machine { memory_ticks: samples[1], is_amd, cache_bytes });
        }
    }
}

/// For tests: the way that every job takes that would be timed. 0: by timing; else 1 + prefetch + 2 stream.
#[cfg(test)]
static PRETENDED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

#[cfg(test)]
fn pretended() -> Option<Way> {
    let code = PRETENDED.load(std::sync::atomic::Ordering::Relaxed).checked_sub(1)?;
    Some(Way { prefetch: code & 1 != 0, stream: code & 2 != 0 })
}

#[cfg(test)]
pub(super) fn pretend(way: Way) {
    PRETENDED.store(1 + u8::from(way.prefetch) + 2 * u8::from(way.stream), std::sync::atomic::Ordering::Relaxed);
}
