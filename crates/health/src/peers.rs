//! Members that answer far more slowly than the other members of their array.
//!
//! All members of an array do the same work, so one that needs far longer is about to fail, is throttled, or sits in a bad slot. It
//! slows every request that needs it.

use serde::{Deserialize, Serialize};

/// A member is slow if its median is so many times the median of the others.
const FACTOR: u64 = 4;
/// One millisecond: below it no member is slow, whatever the others do.
const LEAST_US: u64 = 1000;
/// Fewer requests tell nothing.
const REQUESTS_MIN: u64 = 200;

/// The answer times of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLatency {
    /// The member.
    pub path: String,
    /// Requests so far.
    pub count: u64,
    /// Half of the recent ones took no longer.
    pub median_us: u64,
}

/// A member that is slower than its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowMember {
    /// The member.
    pub path: String,
    /// Its median.
    pub median_us: u64,
    /// The median of the other members' medians.
    pub others_us: u64,
}

/// The members that are slow beside the others. At least three members must have answered enough requests: of two, none can be
/// called the odd one.
pub fn slow_members(members: &[PeerLatency]) -> Vec<SlowMember> {
    let known: Vec<&PeerLatency> = members.iter().filter(|member| member.count >= REQUESTS_MIN).collect();
    if known.len() < 3 {
        return Vec::new();
    }
    let slow = known.iter().enumerate().filter_map(|(index, member)| {
        let mut others: Vec<u64> =
            known.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other.median_us).collect();
        others.sort_unstable();
        let others_us = others[others.len() / 2];
        let is_slow = member.median_us >= LEAST_US && member.median_us >= others_us.saturating_mul(FACTOR);
        is_slow.then(|| SlowMember { path: member.path.clone(), median_us: member.median_us, others_us })
    });
    slow.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(medians: &[u64]) -> Vec<usize> {
        let members: Vec<PeerLatency> = medians
            .iter()
            .enumerate()
            .map(|(index, &median_us)| PeerLatency { path: index.to_string(), count: 1000, median_us })
            .collect();
        slow_members(&members).into_iter().map(|member| member.path.parse().unwrap()).collect()
    }

    #[test]
    fn only_the_odd_one_is_slow() {
        assert_eq!(slow(&[100, 120, 90, 8000]), [3]);
        assert_eq!(slow(&[9000, 8000, 9500, 8000]), [0; 0], "all alike");
        assert_eq!(slow(&[100, 120, 90, 900]), [0; 0], "below a millisecond");
        assert_eq!(slow(&[100, 8000]), [0; 0], "of two, either may be the odd one");
        assert_eq!(slow(&[5000, 20_000, 5000]), [1], "at the factor");
        assert_eq!(slow(&[5000, 19_999, 5000]), [0; 0], "below it");
    }

    #[test]
    fn a_member_with_few_requests_is_not_judged() {
        let member = |count, median_us| PeerLatency { path: String::new(), count, median_us };
        assert!(slow_members(&[member(1000, 100), member(1000, 100), member(1000, 100), member(199, 90_000)]).is_empty());
    }
}
