//! The loops, written once over `Lanes`. A step takes `W` registers from every strip, from the last strip to the first:
//! ```text
//! P = D_(n-1) + … + D_0        Q = (…(D_(n-1)·2 + D_(n-2))·2 …)·2 + D_0        R likewise with 4 for 2
//! ```
//! Two strips at a time, which saves a third of the additions where one instruction adds three registers.
//! Source: H. P. Anvin, "The mathematics of RAID-6", sections 2 and 4.

// Rows, sums and registers run in lockstep by index.
#![allow(clippy::needless_range_loop)]

use super::distance;
use super::lanes::{Lanes, STARTS};
use super::{Job, Purpose, Update};

/// Runs a whole job: `W` registers a step (`M` with many strips, `F` with prefetching), then `T`, which are 64 bytes, for the
/// rest.
///
/// # Safety
/// As `Kernel::syndromes`, and the processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn syndromes<
    V: Lanes,
    const W: usize,
    const M: usize,
    const F: usize,
    const T: usize,
    const LEVEL: usize,
    const PURPOSE: u8,
>(
    job: &Job<'_>,
) -> u8 {
    let mut differing = 0;
    let mut at = 0;
    // SAFETY: the caller's promises; `at` and the step stay within `bytes`.
    unsafe {
        let way = distance::way(job.data, job.bytes, LEVEL, job.copy.len(), job.soon);
        let stream = way.stream && job.stream;
        if way.prefetch {
            while at + F * V::BYTES <= job.bytes {
                differing |= step::<V, F, LEVEL, PURPOSE, true>(job, at, stream);
                at += F * V::BYTES;
            }
        }
        let is_near = LEVEL == 1 && job.bytes <= STRIP_NEAR_MAX;
        if M > W && (is_near || job.data.len() + job.copy.len() > STRIPS_FEW_MAX) {
            while at + M * V::BYTES <= job.bytes {
                differing |= step::<V, M, LEVEL, PURPOSE, false>(job, at, stream);
                at += M * V::BYTES;
            }
        }
        while at + W * V::BYTES <= job.bytes {
            differing |= step::<V, W, LEVEL, PURPOSE, false>(job, at, stream);
            at += W * V::BYTES;
        }
        while at < job.bytes {
            differing |= step::<V, T, LEVEL, PURPOSE, false>(job, at, stream);
            at += T * V::BYTES;
        }
        if stream {
            V::fence();
        }
    }
    differing
}

/// Strips often start at the same offset of a page, so that their lines share one set of the first level cache, which has 8 to
/// 12 ways. With more strips than that, a line fetched early is evicted before its turn, unless a step takes it at once. Zen 5,
/// P and Q of 22 strips of 16 KiB in L2, GB/s by 256 / 512 bytes a step: 96 / 160; of 4 strips 112 / 108.
const STRIPS_FEW_MAX: usize = 8;
/// Strips up to this size often lie in the first level cache, where P alone is quicker with the longer steps; from the second
/// level it is quicker with the shorter ones. Zen 5, 8 strips of 4 / 64 KiB, GB/s by 128 / 256 bytes a step: 236 / 250 and 180
/// / 165.
const STRIP_NEAR_MAX: usize = 4096;

/// How far ahead lines are prefetched if they are not near. 256 is better by 4 % for strips of 4 KiB, 512 no worse for all
/// others; 1024 loses 4 %. Hint T0: NTA halves the speed on Cascade Lake.
#[inline(always)]
fn ahead(bytes: usize) -> usize {
    if bytes <= 4096 { 256 } else { 512 }
}

/// Prefetches the lines that a later step will load.
#[inline(always)]
unsafe fn prefetch<V: Lanes, const W: usize>(from: *const u8, at: usize, bytes: usize) {
    let later = at + ahead(bytes);
    if later < bytes {
        for line in 0..(W * V::BYTES).div_ceil(64) {
            // SAFETY: a hint, any address may be given.
            unsafe { V::prefetch(from.wrapping_add(later + line * 64)) };
        }
    }
}

/// `W` registers at `from`.
#[inline(always)]
unsafe fn load<V: Lanes, const W: usize>(from: *const u8) -> [V; W] {
    // SAFETY: the caller promises W registers' worth of bytes.
    std::array::from_fn(|w| unsafe { V::load(from.add(w * V::BYTES)) })
}

/// `W` registers of strip `index`; a missing strip counts as zeros.
#[inline(always)]
unsafe fn strip<V: Lanes, const W: usize, const PURPOSE: u8, const FAR: bool>(
    job: &Job<'_>,
    index: usize,
    at: usize,
    stream: bool,
) -> [V; W] {
    // SAFETY: `index` is below the count, `at` within the strip.
    unsafe {
        let from = *job.data.get_unchecked(index);
        if PURPOSE == Purpose::RECOVER && from.is_null() {
            return [V::splat(0); W];
        }
        if FAR {
            prefetch::<V, W>(from, at, job.bytes);
        }
        let strip = load(from.add(at));
        if PURPOSE == Purpose::COPY {
            save(strip, *job.copy.get_unchecked(index), at, stream);
        }
        strip
    }
}

#[inline(always)]
unsafe fn step<V: Lanes, const W: usize, const LEVEL: usize, const PURPOSE: u8, const FAR: bool>(
    job: &Job<'_>,
    at: usize,
    stream: bool,
) -> u8 {
    // SAFETY: the caller promises that `at` + W registers lies within every strip.
    unsafe {
        let steps = job.data.len() - 1;
        let mut i = job.data.len() - 1;
        let first = strip::<V, W, PURPOSE, FAR>(job, i, at, stream);
        let mut sums = [first; LEVEL];
        if V::IS_BIASED {
            for j in 1..LEVEL {
                let bias = V::splat(STARTS[j * steps % 255]);
                for w in 0..W {
                    sums[j][w] = first[w].add(bias);
                }
            }
        }
        if i % 2 == 1 {
            i -= 1;
            let d = strip::<V, W, PURPOSE, FAR>(job, i, at, stream);
            for w in 0..W {
                sums[0][w] = sums[0][w].add(d[w]);
                if LEVEL > 1 {
                    sums[1][w] = sums[1][w].double_add(d[w]);
                }
                if LEVEL > 2 {
                    sums[2][w] = sums[2][w].quadruple_add(d[w]);
                }
            }
        }
        while i > 0 {
            i -= 2;
            let high = strip::<V, W, PURPOSE, FAR>(job, i + 1, at, stream);
            let low = strip::<V, W, PURPOSE, FAR>(job, i, at, stream);
            for w in 0..W {
                sums[0][w] = sums[0][w].add3(high[w], low[w]);
                if LEVEL > 1 {
                    sums[1][w] = sums[1][w].double_add_two(high[w], low[w]);
                }
                if LEVEL > 2 {
                    sums[2][w] = sums[2][w].quadruple_add_two(high[w], low[w]);
                }
            }
        }
        match PURPOSE {
            Purpose::GENERATE | Purpose::COPY => {
                for j in 0..LEVEL {
                    save(sums[j], job.output[j], at, stream);
                }
                0
            }
            Purpose::CHECK => check(job, &mut sums, at),
            _ => {
                recover(job, &mut sums, at, stream);
                0
            }
        }
    }
}

/// Stores a row of registers, unless it has no target.
#[inline(always)]
unsafe fn save<V: Lanes, const W: usize>(row: [V; W], to: *mut u8, at: usize, stream: bool) {
    if to.is_null() {
        return;
    }
    for w in 0..W {
        // SAFETY: the caller promises W registers' worth of bytes, aligned where `stream` is set.
        unsafe {
            let to = to.add(at + w * V::BYTES);
            if stream { row[w].stream(to) } else { row[w].store(to) }
        }
    }
}

/// Adds the given parities: what remains of each sum is its syndrome.
#[inline(always)]
unsafe fn add_inputs<V: Lanes, const W: usize, const LEVEL: usize>(job: &Job<'_>, sums: &mut [[V; W]; LEVEL], at: usize) {
    for j in 0..LEVEL {
        if !job.input[j].is_null() {
            // SAFETY: an input that is not null is as long as the strips.
            unsafe {
                let parity = load::<V, W>(job.input[j].add(at));
                for w in 0..W {
                    sums[j][w] = sums[j][w].add(parity[w]);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn check<V: Lanes, const W: usize, const LEVEL: usize>(job: &Job<'_>, sums: &mut [[V; W]; LEVEL], at: usize) -> u8 {
    let mut differing = 0;
    // SAFETY: as for the caller.
    unsafe {
        add_inputs(job, sums, at);
        for j in 0..LEVEL {
            if !job.input[j].is_null() && !(0..W).all(|w| sums[j][w].is_zero()) {
                differing |= 1 << j;
            }
        }
    }
    differing
}

/// outputs = matrix · syndromes
#[inline(always)]
unsafe fn recover<V: Lanes, const W: usize, const LEVEL: usize>(
    job: &Job<'_>,
    sums: &mut [[V; W]; LEVEL],
    at: usize,
    stream: bool,
) {
    // SAFETY: as for the caller.
    unsafe {
        add_inputs(job, sums, at);
        // P's syndrome is the sum of the lost data, so the last of them needs no multiplication.
        let mut rest = sums[0];
        for k in 0..LEVEL {
            if job.output[k].is_null() {
                continue;
            }
            let mut row = [V::splat(0); W];
            if job.closing == Some(k) {
                row = rest;
            } else {
                for j in 0..LEVEL {
                    let c = job.matrix[k][j];
                    if c == 1 {
                        for w in 0..W {
                            row[w] = row[w].add(sums[j][w]);
                        }
                    } else if c != 0 {
                        for w in 0..W {
                            row[w] = row[w].add(sums[j][w].times(c));
                        }
                    }
                }
                for w in 0..W {
                    rest[w] = rest[w].add(row[w]);
                }
            }
            save(row, job.output[k], at, stream);
        }
    }
}

/// parity_j += coefficient_j (before + after)
///
/// # Safety
/// As `Kernel::update`, and the processor has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn update<V: Lanes, const W: usize, const T: usize>(job: &Update) {
    let mut at = 0;
    // SAFETY: the caller's promises; `at` and the step stay within `bytes`.
    unsafe {
        let strips = [job.before, job.after, job.parity[0], job.parity[1]];
        if distance::wants_prefetch(&strips, job.bytes) {
            while at + W * V::BYTES <= job.bytes {
                update_step::<V, W, true>(job, at);
                at += W * V::BYTES;
            }
        }
        while at + W * V::BYTES <= job.bytes {
            update_step::<V, W, false>(job, at);
            at += W * V::BYTES;
        }
        while at < job.bytes {
            update_step::<V, T, false>(job, at);
            at += T * V::BYTES;
        }
    }
}

#[inline(always)]
unsafe fn update_step<V: Lanes, const W: usize, const FAR: bool>(job: &Update, at: usize) {
    // SAFETY: the caller promises that `at` + W registers lies within every strip.
    unsafe {
        if FAR {
            prefetch::<V, W>(job.after, at, job.bytes);
        }
        let mut change = load::<V, W>(job.after.add(at));
        if !job.before.is_null() {
            if FAR {
                prefetch::<V, W>(job.before, at, job.bytes);
            }
            let before = load::<V, W>(job.before.add(at));
            for w in 0..W {
                change[w] = change[w].add(before[w]);
            }
        }
        for j in 0..3 {
            if job.parity[j].is_null() {
                continue;
            }
            if FAR {
                prefetch::<V, W>(job.parity[j], at, job.bytes);
            }
            let mut parity = load::<V, W>(job.parity[j].add(at));
            for w in 0..W {
                let c = job.coefficient[j];
                parity[w] = parity[w].add(if c == 1 { change[w] } else { change[w].times(c) });
            }
            save(parity, job.parity[j], at, false);
        }
    }
}
