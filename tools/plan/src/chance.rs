//! The only source of chance: SplitMix64 (G. Steele, D. Lea, C. Flood, 2014). A seed replays a run exactly.

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Chance(u64);

/// Makes every bit of `value` count in every bit of the result.
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Chance {
    /// The stream called `stream` of a seed; the streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed) ^ mix(stream.wrapping_mul(0xa24b_aed4_963e_e407)))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        let value = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        value
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.any()) * u128::from(bound)) >> 64) as u64
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
