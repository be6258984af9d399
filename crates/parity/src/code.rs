//! The erasure code of one stripe: what is computed, on slices. `kernel` defines how.

use crate::addresses::{Room, written};
use crate::field::coefficient;
use crate::kernel::{Job, Kernel, PARITY_COUNT_MAX, Purpose, Update};

/// Strips are processed in steps of 64 bytes, so this must divide every length.
pub const GRANULARITY_BYTES: usize = 64;

/// The most data strips, by parity count.
///
/// Q's coefficients 2^i are distinct for 255 strips, R's 4^i too since 4 = 2² and squaring permutes the field. Every set
/// of up to three erasures is then solvable: the determinants, with x, y, z for the lost strips' 2^i, are
/// P,Q: x + y · P,R: (x + y)² · Q,R: xy(x + y) · P,Q,R: (x + y)(x + z)(y + z), none zero for distinct x, y, z.
/// Hence 255, by the order of 2. Linux md stops at 253 for P and Q, and so do we there, since arrays are shared with it.
/// P alone has no limit in the algebra.
pub const DATA_COUNT_MAX: [usize; PARITY_COUNT_MAX + 1] = [255, 255, 253, 255];
const _: () = assert!(DATA_COUNT_MAX[3] == crate::field::EXPONENTIAL.len());

/// Erasure code of one stripe: `data_count` data strips and 0 to 3 parity strips P, Q, R.
/// ```text
/// P = Σ D_i        Q = Σ 2^i D_i        R = Σ 4^i D_i        over GF(2^8), polynomial 0x11d
/// ```
/// P and Q are bit for bit what Linux md writes, with D_0 the strip that md counts first after Q.
/// All operations work byte by byte, so strips may be cut into sub-ranges of multiples of 64 bytes.
/// Source: H. P. Anvin, "The mathematics of RAID-6".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    data_count: u8,
    parity_count: u8,
    pub(crate) computes_nothing: bool,
}

impl Code {
    /// # Panics
    /// When `parity_count` exceeds 3 or `data_count` is outside 1..=`DATA_COUNT_MAX[parity_count]`.
    pub fn new(data_count: usize, parity_count: usize) -> Code {
        assert!(parity_count <= PARITY_COUNT_MAX, "no code with {parity_count} parity strips, at most {PARITY_COUNT_MAX}");
        let max = DATA_COUNT_MAX[parity_count];
        assert!((1..=max).contains(&data_count), "{data_count} data strips: 1 to {max} with {parity_count} parity");
        Code { data_count: data_count as u8, parity_count: parity_count as u8, computes_nothing: false }
    }

    /// The same code for strips whose bytes nobody keeps: it checks what it is given, leaves every byte alone, and says that
    /// parity agrees.
    #[must_use]
    pub fn without_bytes(self) -> Self {
        Self { computes_nothing: true, ..self }
    }

    /// Data strips of a stripe.
    pub fn data_count(&self) -> usize {
        self.data_count.into()
    }

    /// Parity strips of a stripe.
    pub fn parity_count(&self) -> usize {
        self.parity_count.into()
    }

    /// [`Code::generate`] by this kernel; so are the others that end in `_by`.
    pub(crate) fn generate_by(&self, kernel: &Kernel, data: &[&[u8]], parity: &mut [Option<&mut [u8]>]) {
        let bytes = self.assert_data(data);
        let output = self.outputs(parity, bytes);
        let Some(level) = level_of(&output) else { return };
        let mut room = Room::uninit();
        let stream = are_aligned(&output);
        let job = Job { data: written(&mut room, data.iter().map(|strip| strip.as_ptr())), output, bytes, stream, ..Job::EMPTY };
        // SAFETY: all lengths were asserted equal; the outputs are exclusive borrows.
        unsafe { kernel.syndromes(Purpose::GENERATE, level, &job) };
    }

    pub(crate) fn update_by(&self, kernel: &Kernel, index: usize, before: &[u8], after: &[u8], parity: &mut [Option<&mut [u8]>]) {
        assert_eq!(after.len(), before.len(), "before and after differ in length");
        self.change(kernel, index, before.as_ptr(), after, parity);
    }

    pub(crate) fn add_by(&self, kernel: &Kernel, index: usize, strip: &[u8], parity: &mut [Option<&mut [u8]>]) {
        self.change(kernel, index, std::ptr::null(), strip, parity);
    }

    /// `before` is null, for zeros, or as long as `after`.
    fn change(&self, kernel: &Kernel, index: usize, before: *const u8, after: &[u8], parity: &mut [Option<&mut [u8]>]) {
        assert!(index < self.data_count(), "no data strip {index} of {}", self.data_count);
        let bytes = after.len();
        assert_length(bytes);
        let job = Update {
            before,
            after: after.as_ptr(),
            parity: self.outputs(parity, bytes),
            coefficient: std::array::from_fn(|j| coefficient(j, index)),
            bytes,
        };
        // SAFETY: all lengths were asserted equal; the parities are exclusive borrows.
        unsafe { kernel.update(&job) };
    }

    pub(crate) fn check_by(&self, kernel: &Kernel, data: &[&[u8]], parity: &[Option<&[u8]>]) -> u8 {
        let bytes = self.assert_data(data);
        assert!(parity.len() <= self.parity_count(), "more parities given than the code has");
        let mut input = [std::ptr::null(); PARITY_COUNT_MAX];
        for (pointer, strip) in input.iter_mut().zip(parity) {
            if let Some(strip) = strip {
                assert_eq!(strip.len(), bytes, "parity and data differ in length");
                *pointer = strip.as_ptr();
            }
        }
        let Some(level) = input.iter().rposition(|p| !p.is_null()) else { return 0 };
        let mut room = Room::uninit();
        let job = Job { data: written(&mut room, data.iter().map(|strip| strip.as_ptr())), input, bytes, ..Job::EMPTY };
        // SAFETY: all lengths were asserted equal; nothing is written.
        unsafe { kernel.syndromes(Purpose::CHECK, level + 1, &job) }
    }

    /// The strips' common length.
    pub(crate) fn assert_data(&self, data: &[&[u8]]) -> usize {
        assert_eq!(data.len(), self.data_count(), "data strips given against those of the code");
        let bytes = data[0].len();
        assert_length(bytes);
        assert!(data.iter().all(|strip| strip.len() == bytes), "data strips differ in length");
        bytes
    }

    pub(crate) fn outputs(&self, parity: &mut [Option<&mut [u8]>], bytes: usize) -> [*mut u8; PARITY_COUNT_MAX] {
        assert!(parity.len() <= self.parity_count(), "more parities given than the code has");
        let mut output = [std::ptr::null_mut(); PARITY_COUNT_MAX];
        for (pointer, strip) in output.iter_mut().zip(parity) {
            if let Some(strip) = strip {
                assert_eq!(strip.len(), bytes, "parity and data differ in length");
                *pointer = strip.as_mut_ptr();
            }
        }
        output
    }
}

pub(crate) fn assert_length(bytes: usize) {
    assert!(bytes.is_multiple_of(GRANULARITY_BYTES), "{bytes} bytes: not a multiple of {GRANULARITY_BYTES}");
}

/// The level that computes every output; `None` if there is no output.
pub(crate) fn level_of(output: &[*mut u8; PARITY_COUNT_MAX]) -> Option<usize> {
    output.iter().rposition(|p| !p.is_null()).map(|last| last + 1)
}

/// True if every given output starts at a multiple of 64 bytes.
pub(crate) fn are_aligned(output: &[*mut u8; PARITY_COUNT_MAX]) -> bool {
    output.iter().all(|pointer| pointer.addr().is_multiple_of(64))
}
