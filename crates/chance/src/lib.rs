//! The only source of random numbers for the simulator, the models, the load generator and tests: SplitMix64 (G. Steele, D. Lea,
//! C. Flood, 2014). Nothing that serves drives uses it.
//!
//! A library would promise the same numbers for one version at a time. A seed that is kept in a test must replay the same run
//! for as long as the test stands.
#![forbid(unsafe_code)]

/// What the state grows by at each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Chance(u64);

/// Makes every bit of `value` count in every bit of the result.
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Chance {
    /// The stream called `stream` of a seed. The streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed) ^ mix(stream.wrapping_mul(0xa24b_aed4_963e_e407)))
    }

    /// The stream that begins at a state of the generator.
    pub fn from_state(state: u64) -> Self {
        Self(state)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        let value = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        value
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.any()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.any().to_le_bytes()[..word.len()]);
        }
    }

    /// A number from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed number of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the authors' reference, <https://prng.di.unimi.it/splitmix64.c>, from state 0.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut chance = Chance::from_state(0);
        let numbers: [u64; 3] = std::array::from_fn(|_| chance.any());
        assert_eq!(numbers, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
