//! Members that answer far more slowly than the other members of their array.
//!
//! All members of an array do the same work, so a member that needs far longer is about to fail, is throttled, or is in a bad
//! slot. It slows every request that needs it. Two figures are compared, each with the median of the other members' figures,
//! which one or two odd members do not move:
//! - the median: half of the requests take longer than on the others;
//! - the tail: one request in a hundred does. A drive that corrects errors of its media shows there first. A tail needs more
//!   requests, and has to be longer by more, as it varies more from drive to drive: of 2000 requests 20 are in it.
//!
//! Both are of recent requests: of the last 65,536 at full weight (`block::timings`). Reads are compared with reads, writes with
//! writes.

use crate::HealthConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The least requests for a median.
pub const REQUESTS_MIN: u64 = 200;
/// The least for a tail.
const TAIL_REQUESTS_MIN: u64 = 2000;
/// A tail is slow from this many times [`HealthConfig::slow_factor`] and [`HealthConfig::slow_least_us`] on.
const TAIL_FACTOR: u64 = 2;
const TAIL_LEAST: u64 = 50;

/// The answer times of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLatency {
    /// The member.
    pub path: String,
    /// Recent requests.
    pub count: u64,
    /// Half of the recent ones took no longer.
    pub median_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
}

/// A member that is slower than its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowMember {
    /// The member.
    pub path: String,
    /// Its figure: the median, or the 99th percentile.
    pub own_us: u64,
    /// The median of the other members' figures.
    pub others_us: u64,
    /// True if the figure is the 99th percentile.
    pub tail: bool,
}

impl SlowMember {
    /// The fault as part of a sentence.
    pub fn words(&self) -> String {
        let (own, others) = (self.own_us, self.others_us);
        match self.tail {
            false => format!("takes {own} µs, while the others take {others} µs"),
            true => format!("takes over {own} µs for one request in a hundred, while the others take {others} µs"),
        }
    }
}

/// The members that are slow beside the others: fewer than half of those that have answered enough requests. Of two, or of two
/// halves, none can be called the odd one.
pub fn slow_members(members: &[PeerLatency], config: &HealthConfig) -> Vec<SlowMember> {
    let (factor, least) = (config.slow_factor, config.slow_least_us);
    let mut slow = outliers(members, REQUESTS_MIN, |member| member.median_us, (factor, least), false);
    let tail = (factor.saturating_mul(TAIL_FACTOR), least.saturating_mul(TAIL_LEAST));
    for member in outliers(members, TAIL_REQUESTS_MIN, |member| member.p99_us, tail, true) {
        if slow.iter().all(|known| known.path != member.path) {
            slow.push(member);
        }
    }
    slow
}

fn outliers(
    members: &[PeerLatency],
    requests_min: u64,
    figure: fn(&PeerLatency) -> u64,
    (factor, least_us): (u64, u64),
    tail: bool,
) -> Vec<SlowMember> {
    let known: Vec<&PeerLatency> = members.iter().filter(|member| member.count >= requests_min).collect();
    if known.len() < 3 {
        return Vec::new();
    }
    let slow = known.iter().enumerate().filter_map(|(index, member)| {
        let others = known.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others: Vec<u64> = others.map(|(_, other)| figure(other)).collect();
        others.sort_unstable();
        let (own_us, others_us) = (figure(member), others[others.len() / 2]);
        let is_slow = own_us >= least_us && own_us >= others_us.saturating_mul(factor);
        is_slow.then(|| SlowMember { path: member.path.clone(), own_us, others_us, tail })
    });
    Some(slow.collect()).filter(|slow: &Vec<_>| slow.len() * 2 < known.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(path: usize, count: u64, median_us: u64, p99_us: u64) -> PeerLatency {
        PeerLatency { path: path.to_string(), count, median_us, p99_us }
    }

    fn slow_of(members: &[PeerLatency]) -> Vec<usize> {
        slow_members(members, &HealthConfig::default()).into_iter().map(|member| member.path.parse().unwrap()).collect()
    }

    fn slow(medians: &[u64]) -> Vec<usize> {
        slow_of(&medians.iter().enumerate().map(|(index, &median_us)| member(index, 1000, median_us, 0)).collect::<Vec<_>>())
    }

    #[test]
    fn only_the_odd_one_is_slow() {
        assert_eq!(slow(&[100, 120, 90, 8000]), [3]);
        assert_eq!(slow(&[9000, 8000, 9500, 8000]), [0; 0], "all alike");
        assert_eq!(slow(&[100, 120, 90, 900]), [0; 0], "below a millisecond");
        assert_eq!(slow(&[100, 8000]), [0; 0], "of two, either may be the odd one");
        assert_eq!(slow(&[5000, 20_000, 5000]), [1], "at the factor");
        assert_eq!(slow(&[5000, 19_999, 5000]), [0; 0], "below it");
        assert_eq!(slow(&[100, 8000, 90, 110, 9000]), [1, 4], "two of five");
        assert_eq!(slow(&[100, 8000, 90, 9000]), [0; 0], "two of four may be the usual ones");
    }

    #[test]
    fn a_member_whose_tail_is_long_is_slow_though_its_median_is_not() {
        let with = |count, p99: [u64; 4]| {
            let members: Vec<_> = p99.iter().enumerate().map(|(index, &p99)| member(index, count, 100, p99)).collect();
            slow_of(&members)
        };
        assert_eq!(with(2000, [900, 80_000, 1000, 1100]), [1]);
        assert_eq!(with(1999, [900, 80_000, 1000, 1100]), [0; 0], "too few requests for a tail");
        assert_eq!(with(2000, [900, 49_999, 1000, 1100]), [0; 0], "below 50 ms");
        assert_eq!(with(2000, [12_000, 80_000, 12_000, 12_000]), [0; 0], "below eight times the others'");
    }

    #[test]
    fn the_configuration_says_how_slow_is_slow() {
        let members = [member(0, 1000, 100, 0), member(1, 1000, 250, 0), member(2, 1000, 110, 0)];
        assert_eq!(slow_of(&members), [0; 0]);
        let config = HealthConfig { slow_factor: 2, slow_least_us: 200, ..HealthConfig::default() };
        assert_eq!(slow_members(&members, &config).len(), 1);
    }

    #[test]
    fn a_member_with_few_requests_is_not_judged() {
        assert_eq!(
            slow_of(&[member(0, 1000, 100, 0), member(1, 1000, 100, 0), member(2, 1000, 100, 0), member(3, 199, 90_000, 0)]),
            [0; 0]
        );
    }
}
