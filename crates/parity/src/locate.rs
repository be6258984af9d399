//! Finds the wrong strip when P and Q do not match the data.
//!
//! An error E in data strip z alone leaves S_P = E and S_Q = 2^z E, so z = log S_Q - log S_P; an error in P alone
//! leaves S_Q = 0, one in Q alone S_P = 0. Source: H. P. Anvin, "The mathematics of RAID-6", section 4.

use crate::code::Code;
use crate::field::LOGARITHM;

const CHUNK_BYTES: usize = 4096;

impl Code {
    /// The one strip whose change would make data, `p` and `q` match: `data_count` stands for P, `data_count` + 1 for Q.
    ///
    /// Every byte that does not match has one vote. `None` if all bytes match, or no strip has more than half of the votes.
    /// Shapes as in `generate`. R is not used.
    ///
    /// # Panics
    /// When the code has no Q, or counts or lengths are not as in `generate`.
    #[must_use]
    pub fn locate(&self, data: &[&[u8]], p: &[u8], q: &[u8]) -> Option<usize> {
        assert!(self.parity_count() >= 2, "only P and Q together tell which strip is wrong");
        let bytes = self.assert_data(data);
        assert!(p.len() == bytes && q.len() == bytes, "parity and data differ in length");
        let mut votes = [0usize; 258];
        let mut part = [&[][..]; 255];
        for start in (0..bytes).step_by(CHUNK_BYTES) {
            let range = start..bytes.min(start + CHUNK_BYTES);
            let (mut sp, mut sq) = ([0; CHUNK_BYTES], [0; CHUNK_BYTES]);
            let (sp, sq) = (&mut sp[..range.len()], &mut sq[..range.len()]);
            for (part, strip) in part.iter_mut().zip(data) {
                *part = &strip[range.clone()];
            }
            self.generate(&part[..data.len()], &mut [Some(&mut *sp), Some(&mut *sq)]);
            for (i, at) in range.enumerate() {
                let strip = match (sp[i] ^ p[at], sq[i] ^ q[at]) {
                    (0, 0) => continue,
                    (_, 0) => data.len(),
                    (0, _) => data.len() + 1,
                    (sp, sq) => {
                        let z = (usize::from(LOGARITHM[usize::from(sq)]) + 255 - usize::from(LOGARITHM[usize::from(sp)])) % 255;
                        // No such strip: more than one strip is wrong in this byte.
                        if z < data.len() { z } else { 257 }
                    }
                };
                votes[strip] += 1;
            }
        }
        let total: usize = votes.iter().sum();
        votes[..data.len() + 2].iter().position(|&count| count * 2 > total)
    }
}
