//! The kernels: one set of loops (`horner`), one file per instruction set. `chosen` picks one.
//!
//! Knows only pointers and lengths; `code` and `recover` turn slices and strips into these jobs, and are responsible for them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod distance;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod horner;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod nothing;
mod portable;
#[cfg(target_arch = "x86_64")]
mod ssse3;

pub(crate) use distance::calibrate;

/// The most parities: P, Q and R. A job computes P, P and Q, or all three. Sums without an output are discarded.
pub const PARITY_COUNT_MAX: usize = 3;

/// What happens to the sums over the data strips. Integers, since stable Rust has no enums as const parameters.
pub(crate) struct Purpose;
impl Purpose {
    /// Store each sum where `output` says.
    pub(crate) const GENERATE: u8 = 0;
    /// Compare each sum with `input`; bit j of the answer: parity j differs.
    pub(crate) const CHECK: u8 = 1;
    /// Add `input`, multiply by `matrix`, store. Data strips may be null.
    pub(crate) const RECOVER: u8 = 2;
    /// As `GENERATE`, and store every data strip where `copy` says.
    pub(crate) const COPY: u8 = 3;
    const COUNT: usize = 4;
}

/// One pass over a stripe. Pointers are null where there is nothing to read or write.
pub(crate) struct Job<'a> {
    /// Start of each data strip, in order, at least one; null (missing: zeros) only for `RECOVER`.
    pub data: &'a [*const u8],
    /// The target of each data strip, only for `COPY`.
    pub copy: &'a [*mut u8],
    /// Parities to add to the sums.
    pub input: [*const u8; PARITY_COUNT_MAX],
    pub output: [*mut u8; PARITY_COUNT_MAX],
    /// output k = sum over j of matrix[k][j] · (sum j + input j)
    pub matrix: [[u8; PARITY_COUNT_MAX]; PARITY_COUNT_MAX],
    /// This output is the first syndrome less all outputs before it: cheaper than its row of the matrix.
    pub closing: Option<usize>,
    /// Of each strip; a multiple of 64.
    pub bytes: usize,
    /// Outputs may be stored past the caches, as they are 64-byte aligned.
    pub stream: bool,
    /// They are read soon, so only those that do not fit into a cache are stored past it.
    pub soon: bool,
}

impl Job<'_> {
    /// Reads and writes nothing.
    pub(crate) const EMPTY: Self = Job {
        data: &[],
        copy: &[],
        input: [std::ptr::null(); PARITY_COUNT_MAX],
        output: [std::ptr::null_mut(); PARITY_COUNT_MAX],
        matrix: [[0; PARITY_COUNT_MAX]; PARITY_COUNT_MAX],
        closing: None,
        bytes: 0,
        stream: false,
        soon: false,
    };
}

/// The change of one data strip on its way to up to three parities.
pub(crate) struct Update {
    /// Null: zeros.
    pub before: *const u8,
    pub after: *const u8,
    /// Null: leave alone.
    pub parity: [*mut u8; PARITY_COUNT_MAX],
    pub coefficient: [u8; PARITY_COUNT_MAX],
    /// Of each strip; a multiple of 64.
    pub bytes: usize,
}

type Syndromes = unsafe fn(&Job<'_>) -> u8;

/// One instruction set's entry points.
pub(crate) struct Kernel {
    pub name: &'static str,
    pub is_present: fn() -> bool,
    /// By purpose, then level - 1. Every pointer that is not null is valid for `bytes`, outputs overlap nothing.
    pub syndromes: [[Syndromes; PARITY_COUNT_MAX]; Purpose::COUNT],
    pub update: unsafe fn(&Update),
}

impl Kernel {
    /// # Safety
    /// Every pointer of `job` that is not null is valid for `bytes` bytes; the outputs overlap nothing but an input of the same
    /// start.
    pub(crate) unsafe fn syndromes(&self, purpose: u8, level: usize, job: &Job<'_>) -> u8 {
        debug_assert!(!job.data.is_empty() && job.bytes.is_multiple_of(64));
        // SAFETY: the caller's promise; a kernel is reached only where `is_present`.
        unsafe { self.syndromes[usize::from(purpose)][level - 1](job) }
    }

    /// # Safety
    /// Every pointer of `job` that is not null is valid for `bytes` bytes; the parities overlap nothing.
    pub(crate) unsafe fn update(&self, job: &Update) {
        debug_assert!(job.bytes.is_multiple_of(64));
        // SAFETY: the caller's promise; a kernel is reached only where `is_present`.
        unsafe { (self.update)(job) }
    }
}

/// Writes an instruction set's entry points: `entries!(Lanes, "name", [W at level 1, 2, 3], [M …], ahead: F, update: U,
/// is_present: …, features …)`, with the step widths that `horner` explains.
macro_rules! entries {
    ($lanes:ty, $name:literal, [$w1:literal, $w2:literal, $w3:literal], [$m1:literal, $m2:literal, $m3:literal], ahead: $f:literal, update: $u:literal, is_present: $present:expr $(, $feature:literal)?) => {
        $(#[target_feature(enable = $feature)])?
        unsafe fn syndromes<const W: usize, const M: usize, const LEVEL: usize, const PURPOSE: u8>(job: &super::Job<'_>) -> u8 {
            // SAFETY: the caller's promise, passed on.
            unsafe { super::horner::syndromes::<$lanes, W, M, $f, { 64 / <$lanes>::BYTES }, LEVEL, PURPOSE>(job) }
        }

        $(#[target_feature(enable = $feature)])?
        unsafe fn update(job: &super::Update) {
            // SAFETY: the caller's promise, passed on.
            unsafe { super::horner::update::<$lanes, $u, { 64 / <$lanes>::BYTES }>(job) }
        }

        pub(super) static KERNEL: super::Kernel = super::Kernel {
            name: $name,
            is_present: || $present,
            syndromes: [
                [syndromes::<$w1, $m1, 1, 0>, syndromes::<$w2, $m2, 2, 0>, syndromes::<$w3, $m3, 3, 0>],
                [syndromes::<$w1, $m1, 1, 1>, syndromes::<$w2, $m2, 2, 1>, syndromes::<$w3, $m3, 3, 1>],
                [syndromes::<$w1, $m1, 1, 2>, syndromes::<$w2, $m2, 2, 2>, syndromes::<$w3, $m3, 3, 2>],
                [syndromes::<$w1, $m1, 1, 3>, syndromes::<$w2, $m2, 2, 3>, syndromes::<$w3, $m3, 3, 3>],
            ],
            update,
        };
    };
}
use entries;

/// All kernels of this build, the best first.
static KERNELS: &[&Kernel] = &[
    #[cfg(target_arch = "x86_64")]
    &gfni::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &avx512::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &avx2::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &ssse3::KERNEL,
    #[cfg(target_arch = "aarch64")]
    &neon::KERNEL,
    &portable::KERNEL,
];

/// The kernels that this processor can run, the best first; the last is the portable one.
pub(crate) fn present() -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter().copied().filter(|kernel| (kernel.is_present)())
}

/// The kernel of strips whose bytes nobody keeps. It is none of the present ones: it is never chosen.
pub(crate) fn nothing() -> &'static Kernel {
    &nothing::KERNEL
}

/// Makes every job that would be timed take this way, whatever its timing.
#[cfg(test)]
pub(crate) fn pretend_way(prefetch: bool, stream: bool) {
    distance::pretend(distance::Way { prefetch, stream });
}
