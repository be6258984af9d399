//! A kernel is tested before it is used: one odd stripe, every operation, against the plain reference. Takes microseconds.

use crate::code::Code;
use crate::kernel::Kernel;
use crate::recover::Strip;
use crate::reference;

const DATA: usize = 5;
/// One wide step, one narrow one, for every kernel.
const BYTES: usize = 576;
/// The strips repeat after this many bytes, so that the reference, which is slow, need not compute more. No part of 64 bytes
/// equals the next.
const PERIOD_BYTES: usize = 67;

/// True if the kernel computes the same as the reference.
pub(crate) fn passes(kernel: &Kernel) -> bool {
    let code = Code::new(DATA, 3);
    let mut random = 1u32;
    let mut strips = [[0u8; BYTES]; DATA + 3];
    for strip in &mut strips[..DATA] {
        for at in 0..BYTES {
            random = random.wrapping_mul(0x915f_77f5).wrapping_add(1);
            strip[at] = if at < PERIOD_BYTES { (random >> 24) as u8 } else { strip[at - PERIOD_BYTES] };
        }
    }
    let (data, parity) = strips.split_at_mut(DATA);
    let data: [&[u8]; DATA] = std::array::from_fn(|i| data[i].as_slice());
    let period = data.map(|strip| &strip[..PERIOD_BYTES]);
    let expected = [0, 1, 2].map(|j| reference::parity(j, &period));
    let [p, q, r] = parity else { unreachable!() };
    code.generate_by(kernel, &data, &mut [Some(p), Some(q), Some(r)]);
    if !(0..3).all(|j| parity[j].chunks(PERIOD_BYTES).all(|part| expected[j].starts_with(part))) {
        return false;
    }
    let [p, q, r] = parity else { unreachable!() };
    // Strip 4 becomes a copy of strip 2, and back: in between, the parities belong to the changed data alone.
    let mut changed = data;
    changed[4] = data[2];
    code.update_by(kernel, 4, data[4], data[2], &mut [Some(&mut *p), Some(&mut *q), Some(&mut *r)]);
    let given = [Some(&*p), Some(&*q), Some(&*r)].map(|strip| strip.map(|strip| strip.as_slice()));
    if code.check_by(kernel, &changed, &given) != 0 || code.check_by(kernel, &data, &given) != 0b111 {
        return false;
    }
    code.update_by(kernel, 4, data[2], data[4], &mut [Some(p), Some(q), Some(r)]);
    [[0, 2, 4], [1, 3, 6], [0, 5, 7]].iter().all(|lost| {
        let mut found = [[0; BYTES]; 3];
        let mut view = strips.each_ref().map(|strip| Strip::Present(strip));
        for (&i, strip) in lost.iter().zip(&mut found) {
            view[i] = Strip::Lost(strip);
        }
        code.recover_by(kernel, &mut view).is_ok() && lost.iter().zip(&found).all(|(&i, strip)| strips[i] == *strip)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_this_processor_passes() {
        crate::kernel::present().for_each(|kernel| assert!(passes(kernel), "{}", kernel.name));
    }

    #[test]
    fn a_kernel_that_does_nothing_fails_in_every_operation() {
        let right = crate::kernel::present().last().expect("the portable kernel");
        let still = |_: &crate::kernel::Job<'_>| 0;
        for purpose in 0..3 {
            let mut wrong = Kernel { name: "wrong", is_present: || true, syndromes: right.syndromes, update: right.update };
            wrong.syndromes[purpose] = [still; 3];
            assert!(!passes(&wrong), "purpose {purpose}");
        }
        let wrong = Kernel { name: "wrong", is_present: || true, syndromes: right.syndromes, update: |_| () };
        assert!(!passes(&wrong));
    }
}
