//! Erasure recovery: which syndromes to use and what to multiply them by.
//!
//! With the lost data strips x, y, z counted as zeros, each present parity j leaves the syndrome
//! ```text
//! S_j = parity_j + Σ (2^j)^i D_i = (2^j)^x D_x + (2^j)^y D_y + (2^j)^z D_z
//! ```
//! As many syndromes as lost data strips give a square system A D = S, so D = A^-1 S. A lost parity l follows from its own sum
//! over the present data, S_l, plus (2^l)^x D_x + …, which is again a row over the syndromes. So one pass over the strips
//! computes everything lost, by one matrix of at most 3 × 3.
//! Source: H. P. Anvin, "The mathematics of RAID-6", section 3.

use crate::addresses::{Room, written};
use crate::code::{Code, are_aligned, assert_length};
use crate::field::{coefficient, invert, product};
use crate::kernel::{Job, Kernel, PARITY_COUNT_MAX, Purpose};

/// One strip of a stripe that lost some.
pub enum Strip<'a> {
    /// Read correctly.
    Present(&'a [u8]),
    /// To be computed.
    Lost(&'a mut [u8]),
    /// Neither available nor wanted.
    Absent,
}

/// More data strips are missing than parities are present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecoverable;

impl std::fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("more data strips are gone than parities are there")
    }
}
impl std::error::Error for Unrecoverable {}

type Matrix = [[u8; PARITY_COUNT_MAX]; PARITY_COUNT_MAX];

impl Code {
    pub(crate) fn recover_by(&self, kernel: &Kernel, strips: &mut [Strip<'_>]) -> Result<(), Unrecoverable> {
        assert_eq!(strips.len(), self.data_count() + self.parity_count(), "strips given against those of the code");
        let (data, parity) = strips.split_at_mut(self.data_count());

        // One walk over the strips: for strips of 4 KiB every further one costs a twentieth of the time.
        let mut lengths = Lengths::default();
        let mut room = Room::uninit();
        let mut gone = [0; PARITY_COUNT_MAX];
        let mut gone_count = 0;
        let addresses = written(
            &mut room,
            data.iter().enumerate().map(|(i, strip)| {
                if let Strip::Present(strip) = strip {
                    lengths.note(strip.len());
                    return strip.as_ptr();
                }
                if let Strip::Lost(strip) = strip {
                    lengths.note_lost(strip.len());
                }
                if let Some(entry) = gone.get_mut(gone_count) {
                    *entry = i;
                }
                gone_count += 1;
                std::ptr::null()
            }),
        );
        let lost_data = lengths.lost;

        let sources = Sources::choose(parity, gone_count, &mut lengths);
        if lengths.lost == 0 {
            return Ok(());
        }
        let bytes = lengths.common();
        if sources.count < gone_count {
            return Err(Unrecoverable);
        }
        let gone = &gone[..gone_count];
        let used = &sources.parities[..sources.count];

        if let ([0], [x]) = (used, gone)
            && let Strip::Lost(strip) = &mut data[*x]
            && lengths.lost == lost_data
        {
            // One data strip from P is the sum of all others, in any order: P replaces it in the list.
            addresses[*x] = sources.input[0];
            let output = [strip.as_mut_ptr(), std::ptr::null_mut(), std::ptr::null_mut()];
            let stream = are_aligned(&output);
            let job = Job { data: addresses, output, bytes, stream, soon: true, ..Job::EMPTY };
            // SAFETY: as below.
            unsafe { kernel.syndromes(Purpose::GENERATE, 1, &job) };
            return Ok(());
        }

        let mut job = Job { input: sources.input, bytes, soon: true, ..Job::EMPTY };
        let level = sources.level.max(set_outputs(&mut job, used, gone, data, parity));
        job.stream = are_aligned(&job.output);
        job.data = addresses;
        // SAFETY: `Lengths::common` asserted all lengths equal; the outputs are exclusive borrows. There are at most three:
        // lost data strips are no more than the parities present, lost parities no more than the others.
        unsafe { kernel.syndromes(Purpose::RECOVER, level, &job) };
        Ok(())
    }
}

/// The present parities from which lost data is computed: as many as data strips are gone, from P on.
struct Sources {
    input: [*const u8; PARITY_COUNT_MAX],
    parities: [usize; PARITY_COUNT_MAX],
    count: usize,
    /// One more than the last of them.
    level: usize,
}

impl Sources {
    #[inline]
    fn choose(parity: &[Strip<'_>], gone_count: usize, lengths: &mut Lengths) -> Self {
        let mut sources =
            Self { input: [std::ptr::null(); PARITY_COUNT_MAX], parities: [0; PARITY_COUNT_MAX], count: 0, level: 0 };
        for (j, strip) in parity.iter().enumerate() {
            match strip {
                Strip::Present(strip) => {
                    lengths.note(strip.len());
                    if sources.count < gone_count {
                        sources.input[j] = strip.as_ptr();
                        sources.parities[sources.count] = j;
                        sources.count += 1;
                        sources.level = j + 1;
                    }
                }
                Strip::Lost(strip) => lengths.note_lost(strip.len()),
                Strip::Absent => {}
            }
        }
        sources
    }
}

/// Gives the job the lost strips as outputs, data before parity, each with its row of the matrix over the parities in `used`.
/// Returns the count of parities up to the last that a row needs.
#[inline]
fn set_outputs(job: &mut Job<'_>, used: &[usize], gone: &[usize], data: &mut [Strip<'_>], parity: &mut [Strip<'_>]) -> usize {
    let solution = solve(used, gone);
    let mut row = 0;
    for (strip, solved) in gone.iter().zip(&solution) {
        if let Strip::Lost(strip) = &mut data[*strip] {
            job.output[row] = strip.as_mut_ptr();
            job.matrix[row] = *solved;
            row += 1;
        }
    }
    if used.first() == Some(&0) && gone.len() > 1 && row == gone.len() {
        job.closing = Some(row - 1);
    }
    let mut level = 0;
    for (l, strip) in parity.iter_mut().enumerate() {
        if let Strip::Lost(strip) = strip {
            job.output[row] = strip.as_mut_ptr();
            job.matrix[row][l] = 1;
            for (&x, solved) in gone.iter().zip(&solution) {
                for (entry, &s) in job.matrix[row].iter_mut().zip(solved) {
                    *entry ^= product(coefficient(l, x), s);
                }
            }
            row += 1;
            level = l + 1;
        }
    }
    level.max(row)
}

/// The strips' lengths, collected while the strips are listed.
#[derive(Default)]
struct Lengths {
    /// The length of one strip, and the bits in which any other differs.
    one: usize,
    differing: usize,
    is_noted: bool,
    lost: usize,
}

impl Lengths {
    fn note(&mut self, bytes: usize) {
        if !self.is_noted {
            (self.one, self.is_noted) = (bytes, true);
        }
        self.differing |= self.one ^ bytes;
    }
    fn note_lost(&mut self, bytes: usize) {
        self.note(bytes);
        self.lost += 1;
    }
    fn common(&self) -> usize {
        assert_length(self.one);
        assert!(self.differing == 0, "strips differ in length");
        self.one
    }
}

/// Row c: data strip gone[c] as a row over the syndromes, by Gauss and Jordan. The columns are parities, not positions.
fn solve(used: &[usize], gone: &[usize]) -> Matrix {
    let count = gone.len();
    let mut a: Matrix =
        std::array::from_fn(|r| std::array::from_fn(|c| if r < count && c < count { coefficient(used[r], gone[c]) } else { 0 }));
    let mut inverse: Matrix = [[0; PARITY_COUNT_MAX]; PARITY_COUNT_MAX];
    for r in 0..count {
        inverse[r][used[r]] = 1;
    }
    for pivot in 0..count {
        // The leading minors are the determinants of `DATA_COUNT_MAX`, so a pivot is never zero.
        let scale = invert(a[pivot][pivot]);
        for c in 0..PARITY_COUNT_MAX {
            a[pivot][c] = product(a[pivot][c], scale);
            inverse[pivot][c] = product(inverse[pivot][c], scale);
        }
        for r in (0..count).filter(|&r| r != pivot) {
            let factor = a[r][pivot];
            for c in 0..PARITY_COUNT_MAX {
                a[r][c] ^= product(factor, a[pivot][c]);
                inverse[r][c] ^= product(factor, inverse[pivot][c]);
            }
        }
    }
    inverse
}
