//! The points of SNIA's DIRTH, found in the matrix that was measured.

use crate::result::Record;
use crate::steady::WINDOW_ROUNDS;

/// Sizes of DIRTH's matrix: threads and queue depths alike.
pub const DIRTH_AXIS: [u32; 7] = [32, 16, 8, 6, 4, 2, 1];

/// The points of DIRTH whose latencies are measured in detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Most IOPS with a mean latency under 5 ms.
    Max,
    /// Nearest to the middle between the other two.
    Mid,
    /// One request at a time.
    Min,
}

impl Demand {
    /// For [`crate::result::Point::variant`].
    pub fn words(self) -> &'static str {
        match self {
            Self::Max => "maximal IOPS",
            Self::Mid => "middle IOPS",
            Self::Min => "minimal IOPS",
        }
    }

    /// Threads and queue depth of this demand, by the measured matrix: the mean of the last five rounds of each cell. Where no
    /// cell has a latency under 5 ms, the one with the least latency is the maximum. Records of an earlier demand are not of the
    /// matrix.
    pub fn choose(self, matrix: &[&Record]) -> (u32, u32) {
        let matrix: Vec<&&Record> = matrix.iter().filter(|record| record.point.variant.is_empty()).collect();
        let last = matrix.iter().map(|record| record.round).max().unwrap_or(1);
        let window: Vec<&&Record> = matrix.into_iter().filter(|record| record.round + WINDOW_ROUNDS > last).collect();
        let cells = DIRTH_AXIS.iter().flat_map(|&threads| DIRTH_AXIS.map(|depth| (threads, depth)));
        let means: Vec<((u32, u32), f64, f64)> = cells
            .filter_map(|cell| {
                let of = window.iter().filter(|record| (record.point.threads, record.point.queue_depth) == cell);
                let (count, iops, latency) = of.fold((0.0, 0.0, 0.0), |(count, iops, latency), record| {
                    (count + 1.0, iops + record.total.iops, latency + record.total.latency.mean_ns)
                });
                (count > 0.0).then_some((cell, iops / count, latency / count))
            })
            .collect();
        let swift = means.iter().filter(|(.., latency)| *latency < 5e6).max_by(|a, b| a.1.total_cmp(&b.1));
        let max = swift.or_else(|| means.iter().min_by(|a, b| a.2.total_cmp(&b.2)));
        let min = means.iter().find(|(cell, ..)| *cell == (1, 1));
        let (Some(max), Some(min)) = (max, min) else { return (1, 1) };
        match self {
            Self::Max => max.0,
            Self::Min => min.0,
            Self::Mid => {
                let middle = (max.1 + min.1) / 2.0;
                means.iter().min_by(|a, b| (a.1 - middle).abs().total_cmp(&(b.1 - middle).abs())).map_or((1, 1), |mid| mid.0)
            }
        }
    }
}
