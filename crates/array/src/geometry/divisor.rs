//! Division by a number that is known early: every request is placed by one or two, and processors divide slowly.

/// A divisor of numbers whose product with it stays below 2^64, as counts of strips do with counts of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: u64,
    /// ⌈2^64 / by⌉; 0 for powers of two, which shift.
    inverse: u64,
}

impl Divisor {
    /// # Panics
    /// `by` is 0.
    pub fn new(by: u64) -> Self {
        Self { by, inverse: if by.is_power_of_two() { 0 } else { u64::MAX / by + 1 } }
    }

    /// Quotient and remainder. With inverse · by = 2^64 + e, e < by, the quotient is too large by n·e / (by · 2^64) before it is
    /// cut off, less than 1 / by as long as n·by < 2^64.
    pub fn divide(self, n: u64) -> (u64, u64) {
        debug_assert!(n.checked_mul(self.by).is_some(), "{n} times {} is too large", self.by);
        let quotient = match self.inverse {
            0 => n >> self.by.trailing_zeros(),
            inverse => ((u128::from(n) * u128::from(inverse)) >> 64) as u64,
        };
        (quotient, n - quotient * self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_remainders_are_those_of_a_division() {
        for by in 1..=1000_u64 {
            let divisor = Divisor::new(by);
            let near = |middle: u64| middle.saturating_sub(2)..=middle + 2;
            let largest = u64::MAX / by - 2;
            let numbers = near(0).chain(near(by)).chain(near(1000 * by)).chain(near(largest / 3)).chain(near(largest));
            // And each side of where the quotient changes, near the largest.
            for n in numbers.chain(near(largest / by * by)) {
                assert_eq!(divisor.divide(n), (n / by, n % by), "{n} by {by}");
            }
        }
    }
}
