//! The kernel of this process, and the operations of the code by it.

use crate::code::Code;
use crate::kernel::{Kernel, calibrate, nothing, present};
use crate::recover::{Strip, Unrecoverable};
use crate::selftest::passes;
use std::sync::OnceLock;

/// The kernel of this process: the one that `STRIA_PARITY_KERNEL` names, else the best. It has passed its self-test.
pub(crate) fn chosen() -> &'static Kernel {
    static CHOSEN: OnceLock<&'static Kernel> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let kernel = match std::env::var("STRIA_PARITY_KERNEL") {
            Err(_) => present().next().expect("the portable kernel is always present"),
            Ok(name) => present().find(|kernel| kernel.name == name).unwrap_or_else(|| {
                let names: Vec<_> = present().map(|kernel| kernel.name).collect();
                panic!("STRIA_PARITY_KERNEL={name}: not a kernel of this processor; there are {}", names.join(", "))
            }),
        };
        assert!(passes(kernel), "parity kernel {} computes wrong parity on this processor", kernel.name);
        calibrate();
        kernel
    })
}

impl Code {
    /// The kernel that computes this code.
    fn kernel(&self) -> &'static Kernel {
        if self.computes_nothing { nothing() } else { chosen() }
    }

    /// Generates `parity[j]` for every j for which it is `Some`; P is 0, Q 1, R 2.
    ///
    /// `data`: `data_count` strips. All slices have the same length, a multiple of 64; they may start anywhere.
    ///
    /// # Panics
    /// When counts or lengths are not as described.
    pub fn generate(&self, data: &[&[u8]], parity: &mut [Option<&mut [u8]>]) {
        self.generate_by(self.kernel(), data, parity);
    }

    /// Adds to each given parity the change of data strip `index` (read-modify-write).
    /// ```text
    /// P' = P + D + D'        Q' = Q + 2^i (D + D')        R' = R + 4^i (D + D')
    /// ```
    /// `before`, `after` and the parities have the same length, a multiple of 64.
    ///
    /// # Panics
    /// When index or lengths are not as described.
    pub fn update(&self, index: usize, before: &[u8], after: &[u8], parity: &mut [Option<&mut [u8]>]) {
        self.update_by(self.kernel(), index, before, after, parity);
    }

    /// Adds data strip `index` to each given parity: its part of a sum that is built strip by strip, or removed again.
    /// ```text
    /// P' = P + D        Q' = Q + 2^i D        R' = R + 4^i D
    /// ```
    /// As `update` with zeros for the other contents, which are not read.
    ///
    /// # Panics
    /// When index or lengths are not as described.
    pub fn add(&self, index: usize, strip: &[u8], parity: &mut [Option<&mut [u8]>]) {
        self.add_by(self.kernel(), index, strip, parity);
    }

    /// Copies `source` strip by strip to `target` and generates each given parity, in one pass.
    ///
    /// With `checksums`, also the CRC-32C of every 4 KiB of data: `checksums[i * blocks + b]` is that of block b of data strip i,
    /// for `blocks` = strip bytes / 4096; strips are then multiples of 4096. Other shapes as in `generate`.
    ///
    /// # Panics
    /// When counts or lengths are not as described.
    pub fn copy_and_generate(
        &self,
        source: &[&[u8]],
        target: &mut [&mut [u8]],
        parity: &mut [Option<&mut [u8]>],
        checksums: Option<&mut [u32]>,
    ) {
        self.copy_and_generate_by(self.kernel(), source, target, parity, checksums);
    }

    /// Compares the given parities with the data: bit j is set if parity j differs in any byte.
    ///
    /// Shapes as in `generate`.
    ///
    /// # Panics
    /// When counts or lengths are not as described.
    #[must_use]
    pub fn check(&self, data: &[&[u8]], parity: &[Option<&[u8]>]) -> u8 {
        self.check_by(self.kernel(), data, parity)
    }

    /// Computes every `Lost` strip from the `Present` ones, in place, in one pass.
    ///
    /// `strips`: the data strips in order, then P, Q, R as far as the code has them. All slices have the same length, a
    /// multiple of 64; they may start anywhere. Reads every present data strip and, for k missing data strips, the first k
    /// parities.
    ///
    /// # Errors
    /// `Unrecoverable` when strips are `Lost` and more data strips are `Lost` or `Absent` than parities are `Present`.
    /// Nothing is written then.
    ///
    /// # Panics
    /// When counts or lengths are not as described.
    pub fn recover(&self, strips: &mut [Strip<'_>]) -> Result<(), Unrecoverable> {
        self.recover_by(self.kernel(), strips)
    }
}
