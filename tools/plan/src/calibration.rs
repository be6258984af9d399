//! The deviation of real drives and arrays from their models, by kind of load: `stria lab run --verify-plan` stores it for a
//! machine, and `stria plan` applies it when asked to.
//!
//! A factor is the geometric mean of measured over modelled rates. Loads of a kind without a factor of its own take that of the
//! nearest kind.

use crate::load::Pattern;
use serde::{Deserialize, Serialize};

/// The way in which a level writes: here the models differ most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redundancy {
    /// Drives without an array, and RAID 0.
    None,
    /// Copies.
    Copies,
    /// Parity.
    Parity,
}

/// Loads that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// True if mostly reads; otherwise mostly writes.
    pub reads: bool,
    /// True if it both reads and writes. A calibration that was kept before mixes were a kind has none of them.
    #[serde(default)]
    pub mixed: bool,
    /// True if at random.
    pub random: bool,
    /// True if one request is under way at a time.
    pub alone: bool,
    /// The redundancy of the array.
    pub redundancy: Redundancy,
}

impl Kind {
    /// The kind of a load.
    pub fn of(read_share: f64, pattern: Pattern, outstanding: u32, redundancy: Redundancy) -> Self {
        let mixed = read_share > 0.0 && read_share < 1.0;
        Self { reads: read_share >= 0.5, mixed, random: pattern == Pattern::Random, alone: outstanding <= 1, redundancy }
    }

    /// The distance to another kind: whether both directions are mixed counts most, then the direction, the order of addresses,
    /// the array, and the depth.
    fn distance(self, other: Self) -> u32 {
        16 * u32::from(self.mixed != other.mixed)
            + 8 * u32::from(self.reads != other.reads)
            + 4 * u32::from(self.random != other.random)
            + 2 * u32::from(self.redundancy != other.redundancy)
            + u32::from(self.alone != other.alone)
    }
}

/// Measured over modelled, of one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The kind of the load.
    pub kind: Kind,
    /// Requests a second on the machine.
    pub measured: f64,
    /// Requests a second of the model.
    pub modelled: f64,
}

/// The factor of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The kind.
    pub kind: Kind,
    /// Measured rate over modelled rate.
    pub factor: f64,
    /// The standard deviation of its logarithm over the loads; 0 for one load.
    pub spread: f64,
    /// The number of loads.
    pub loads: usize,
}

impl Factor {
    /// True for a number that corrects a model: beyond a thousand or below a thousandth the two have nothing in common.
    pub fn is_sound(&self) -> bool {
        (1e-3..=1e3).contains(&self.factor) && (0.0..=1e3).contains(&self.spread)
    }
}

/// The factors of drives on a platform, on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Key of the drives' profile.
    pub drive: String,
    /// Key of the platform's profile.
    pub platform: String,
    /// Place and time of the measurement, in words.
    pub source: String,
    /// The factors, by kind.
    pub factors: Vec<Factor>,
}

/// The name of the file in which the calibration of drives on a platform is kept.
pub fn file_name(drive: &str, platform: &str) -> String {
    let plain = |key: &str| key.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect::<String>();
    format!("plan-{}-on-{}.json", plain(drive), plain(platform))
}

impl Calibration {
    /// Only pairs with rates above 0 count.
    pub fn of(drive: &str, platform: &str, source: &str, pairs: &[Pair]) -> Self {
        let sound = |pair: &&Pair| pair.measured > 0.0 && pair.modelled > 0.0 && (pair.measured / pair.modelled).is_finite();
        let mut kinds: Vec<Kind> = pairs.iter().filter(sound).map(|pair| pair.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let factor = |kind: Kind| {
            let own = pairs.iter().filter(sound).filter(|pair| pair.kind == kind);
            let logs: Vec<f64> = own.map(|pair| (pair.measured / pair.modelled).ln()).collect();
            let count = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / count;
            let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            let spread = if logs.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
            Factor { kind, factor: mean.exp(), spread, loads: logs.len() }
        };
        let factors = kinds.into_iter().map(factor).collect();
        Self { drive: drive.to_owned(), platform: platform.to_owned(), source: source.to_owned(), factors }
    }

    /// The factor for a kind of load, or of the kind that is most like it; `None` if there is none with the same direction.
    pub fn factor(&self, kind: Kind) -> Option<&Factor> {
        let same_way = self.factors.iter().filter(|factor| factor.kind.reads == kind.reads);
        same_way.min_by_key(|factor| factor.kind.distance(kind))
    }

    /// The factor for a load. A mix takes the factor of measured mixes of the same pattern and redundancy. If there is none, it
    /// takes those of reads and writes, each weighted by its part of the modelled time. `read_time_share`: the reads' part of the
    /// sum of the modelled latencies.
    pub fn of_mix(
        &self,
        read_share: f64,
        read_time_share: f64,
        pattern: Pattern,
        outstanding: u32,
        redundancy: Redundancy,
    ) -> Option<f64> {
        let kind = |reads: f64| Kind::of(reads, pattern, outstanding, redundancy);
        let of = |kind: Kind| self.factor(kind).map(|factor| factor.factor);
        let own = kind(read_share);
        if !own.mixed {
            return of(own);
        }
        let is_like = |other: Kind| (other.mixed, other.random, other.redundancy) == (true, own.random, own.redundancy);
        if let Some(mix) = self.factor(own).filter(|factor| is_like(factor.kind)) {
            return Some(mix.factor);
        }
        match (of(kind(1.0)), of(kind(0.0))) {
            (Some(reads), Some(writes)) => Some(1.0 / (read_time_share / reads + (1.0 - read_time_share) / writes)),
            (reads, writes) => reads.or(writes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(read_share: f64, depth: u32, measured: f64, modelled: f64) -> Pair {
        Pair { kind: Kind::of(read_share, Pattern::Random, depth, Redundancy::None), measured, modelled }
    }

    #[test]
    fn factors_are_geometric_means_and_the_nearest_kind_stands_in() {
        let pairs = [
            pair(1.0, 32, 80.0, 100.0),
            pair(1.0, 32, 125.0, 100.0),
            pair(1.0, 1, 50.0, 100.0),
            pair(0.0, 32, 200.0, 100.0),
            pair(0.0, 32, 0.0, 100.0),
        ];
        let found = Calibration::of("p4510", "stria", "here", &pairs);
        let of = |share, pattern, depth, redundancy| found.of_mix(share, share, pattern, depth, redundancy).expect("it is known");
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
        near(of(1.0, Pattern::Random, 32, Redundancy::None), 1.0);
        near(of(1.0, Pattern::Random, 1, Redundancy::None), 0.5);
        near(of(0.0, Pattern::Random, 1, Redundancy::Parity), 2.0);
        near(of(1.0, Pattern::Sequential, 8, Redundancy::Copies), 1.0);
        near(of(0.5, Pattern::Random, 32, Redundancy::None), 1.0 / 0.75);
        assert_eq!(found.factors.iter().map(|factor| factor.loads).sum::<usize>(), 4);
        let reads_only = Calibration::of("p4510", "stria", "here", &pairs[..1]);
        assert_eq!(reads_only.of_mix(0.0, 0.0, Pattern::Random, 1, Redundancy::None), None);
        assert_eq!(Calibration::default().of_mix(1.0, 1.0, Pattern::Random, 1, Redundancy::None), None);
        let text = serde_json::to_string(&found).expect("plain data");
        let read: Calibration = serde_json::from_str(&text).expect("the same");
        assert_eq!((read.factors.len(), &read.drive), (found.factors.len(), &found.drive));
        near(read.factors[0].factor, found.factors[0].factor);
        // As it was kept before mixes were a kind.
        let before = text.replace("\"mixed\":false,", "");
        assert!(before.len() < text.len() && serde_json::from_str::<Calibration>(&before).is_ok_and(|before| before == read));
    }

    /// Half of the requests read, in 0.1 ms each, and half write, in 0.9 ms. Drives whose writes take twice as long do 0.526 of
    /// the mix; weighted by requests it was 0.667.
    #[test]
    fn each_direction_of_a_mix_counts_by_its_time() {
        let found = Calibration::of("p4510", "stria", "here", &[pair(1.0, 32, 100.0, 100.0), pair(0.0, 32, 50.0, 100.0)]);
        let factor = found.of_mix(0.5, 0.1, Pattern::Random, 32, Redundancy::None).expect("it is known");
        assert!((factor - 1.0 / (0.1 + 0.9 * 2.0)).abs() < 1e-12, "{factor}");
    }

    /// A mix has the factor of measured mixes, which do not count as reads.
    #[test]
    fn mixes_are_a_kind_of_their_own() {
        let pairs = [pair(1.0, 32, 100.0, 100.0), pair(0.0, 32, 100.0, 100.0), pair(0.7, 32, 60.0, 100.0)];
        let found = Calibration::of("p4510", "stria", "here", &pairs);
        let of = |reads, redundancy| found.of_mix(reads, reads, Pattern::Random, 32, redundancy).expect("it is known");
        assert!((of(0.9, Redundancy::None) - 0.6).abs() < 1e-12 && (of(0.3, Redundancy::None) - 1.0).abs() < 1e-12);
        assert!((of(1.0, Redundancy::None) - 1.0).abs() < 1e-12 && (of(0.9, Redundancy::Parity) - 1.0).abs() < 1e-12);
        // Where nothing else was measured, a mix stands for its direction.
        let alone = Calibration::of("p4510", "stria", "here", &pairs[2..]);
        assert_eq!(alone.of_mix(1.0, 1.0, Pattern::Random, 32, Redundancy::None), Some(alone.factors[0].factor));
    }
}
