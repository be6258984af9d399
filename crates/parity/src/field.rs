//! GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), whose element 2 generates all 255 non-zero elements.
//!
//! Addition is XOR. Everything here is `const`: the compiler computes the tables, and none is checked in.
//! Source: H. P. Anvin, "The mathematics of RAID-6", section 2.

/// x^8 reduced by the polynomial: 0x11d without its highest bit.
pub(crate) const POLYNOMIAL_LOW: u8 = 0x1d;

/// 2a
pub(crate) const fn double(a: u8) -> u8 {
    (a << 1) ^ (if a & 0x80 != 0 { POLYNOMIAL_LOW } else { 0 })
}

/// ab, by schoolbook multiplication: the definition, not the fast way.
pub(crate) const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut sum = 0;
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    sum
}

/// `EXPONENTIAL[i]` = 2^i, for i up to 254.
pub(crate) const EXPONENTIAL: [u8; 255] = {
    let mut table = [1; 255];
    let mut i = 1;
    while i < 255 {
        table[i] = double(table[i - 1]);
        i += 1;
    }
    table
};

/// `LOGARITHM[2^i]` = i; the entry of 0 has no meaning.
pub(crate) const LOGARITHM: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXPONENTIAL[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// 2^i for any i: the exponent counts modulo 255.
pub(crate) const fn power_of_two(i: usize) -> u8 {
    EXPONENTIAL[i % 255]
}

/// 1/a
pub(crate) const fn invert(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    power_of_two(255 - LOGARITHM[a as usize] as usize)
}

/// ab, by logarithms: for run time.
pub(crate) fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    power_of_two(usize::from(LOGARITHM[usize::from(a)]) + usize::from(LOGARITHM[usize::from(b)]))
}

/// The coefficient of data strip `index` in parity `parity` (0 = P, 1 = Q, 2 = R): (2^parity)^index.
pub(crate) const fn coefficient(parity: usize, index: usize) -> u8 {
    power_of_two(parity * index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_generates_every_non_zero_element() {
        let mut seen = [false; 256];
        EXPONENTIAL.iter().for_each(|&e| seen[e as usize] = true);
        assert!(!seen[0] && seen[1..].iter().all(|&s| s));
    }

    #[test]
    fn product_by_logarithms_is_the_product() {
        (0..=255).for_each(|a| (0..=255).for_each(|b| assert_eq!(product(a, b), multiply(a, b))));
    }

    #[test]
    fn inverse_times_element_is_one() {
        (1..=255).for_each(|a| assert_eq!(multiply(a, invert(a)), 1));
    }

    #[test]
    fn worked_example_of_the_paper_holds() {
        // "The mathematics of RAID-6": {02}·{80} = {1d}, and {02}^8 = {1d}.
        assert_eq!((double(0x80), power_of_two(8)), (0x1d, 0x1d));
        assert_eq!(multiply(0x8e, 2), 1, "1/2 is 0x8e");
    }
}
