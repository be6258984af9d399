//! Closed forms that judge the models: write amplification and queues.

/// The share of live pages of the blocks that greedy collection takes, under uniform random overwrites, in blocks of
/// `block_pages` pages, with `alpha` physical pages for each logical one.
///
/// A sealed block with j live pages loses one at the rate j/U (U logical pages). In the steady state as many blocks pass
/// every j from b down to v, where they are collected, one for every b - v host writes. Summing their stay at every j gives
///
/// `alpha = b / (b - v) (psi(b + 1) - psi(v + 1))`
///
/// For b to infinity it is `ln(1/r) / (1 - r) = alpha`, r = v/b, the law of Xiang and Kurkoski ([`amplification_limit`]).
/// Source of both: L. Xiang, B. Kurkoski, arXiv 1110.4245; P. Desnoyers, "Analytic modeling of SSD write performance", 2012.
pub fn greedy_live_share(alpha: f64, block_pages: u32) -> f64 {
    assert!(alpha > 1.0, "no spare area");
    let b = f64::from(block_pages);
    let stay = |v: f64| b / (b - v) * (digamma(b + 1.0) - digamma(v + 1.0));
    // `stay` falls from psi(b+1) - psi(1) at v = 0 to about 1 at v = b - 1.
    let (mut low, mut high) = (0.0, b - 1e-9);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if stay(middle) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    low / b
}

/// Write amplification of uniform random overwrites under greedy collection: 1 / (1 - v/b).
pub fn amplification_greedy(alpha: f64, block_pages: u32) -> f64 {
    1.0 / (1.0 - greedy_live_share(alpha, block_pages))
}

/// The same for blocks of very many pages, and of any size when the oldest block is collected:
/// `alpha / (alpha + W(-alpha e^-alpha))` with Lambert's W. Source: L. Xiang, B. Kurkoski, arXiv 1110.4245.
pub fn amplification_limit(alpha: f64) -> f64 {
    alpha / (alpha + lambert_w(-alpha * (-alpha).exp()))
}

/// The share of pages in use when writes and, with probability `trim_share`, trims of pages in use come at random. Source:
/// T. Frankie et al., arXiv 1210.5975.
pub fn trimmed_use_share(trim_share: f64) -> f64 {
    (1.0 - 2.0 * trim_share) / (1.0 - trim_share)
}

/// The principal branch of Lambert's W, for -1/e <= x < 0, by Halley's method.
fn lambert_w(x: f64) -> f64 {
    let mut w: f64 = if x > -0.2 { x } else { -1.0 + (2.0 * (1.0 + std::f64::consts::E * x)).max(0.0).sqrt() };
    for _ in 0..50 {
        let e = w.exp();
        let f = w * e - x;
        w -= f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
    }
    w
}

/// The digamma function for x >= 1. Source: M. Abramowitz, I. Stegun, 6.3.5 and 6.3.18.
fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 10.0 {
        below += 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    x.ln() - 0.5 / x - square * (1.0 / 12.0 - square * (1.0 / 120.0 - square / 252.0)) - below
}

/// A server of a closed queueing network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Mean time that one job needs at it, visits times service.
    pub demand: f64,
    /// True if jobs do not queue there (latency, think time).
    pub delay: bool,
}

/// Jobs completed in a unit of time in a closed network with exponential service and `jobs` in it: mean value analysis.
/// Source: M. Reiser, S. Lavenberg, "Mean-value analysis of closed multichain queuing networks", 1980.
pub fn mean_value_analysis(servers: &[Server], jobs: u32) -> f64 {
    let mut queues = vec![0.0; servers.len()];
    let mut throughput = 0.0;
    for job in 1..=jobs {
        let stay = |(server, queue): (&Server, &f64)| if server.delay { server.demand } else { server.demand * (1.0 + queue) };
        let stays: Vec<f64> = servers.iter().zip(&queues).map(stay).collect();
        throughput = f64::from(job) / stays.iter().sum::<f64>();
        queues = stays.iter().map(|stay| throughput * stay).collect();
    }
    throughput
}

/// The share of time for which each of `servers` alike works, with `jobs` that choose one at random: `N / (N + M - 1)`.
pub fn balanced_utilisation(servers: u32, jobs: u32) -> f64 {
    f64::from(jobs) / f64::from(jobs + servers - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, share: f64) {
        assert!((found / expected - 1.0).abs() <= share, "{found} instead of {expected}");
    }

    /// Values of the closed form at the spare shares of Xiang and Kurkoski's figure.
    #[test]
    fn amplification_meets_the_published_values() {
        for (spare, expected) in [(0.05, 10.672), (0.07, 7.817), (0.10, 5.677), (0.28, 2.481), (0.30, 2.364), (1.0, 1.255)] {
            near(amplification_limit(1.0 + spare), expected, 1e-3);
            near(amplification_greedy(1.0 + spare, 1 << 20), expected, 1e-3);
        }
    }

    #[test]
    fn finite_blocks_amplify_less() {
        // Simulations of greedy collection in blocks of 64 and 256 pages, 13 overwrites, the second half counted.
        for (spare, block_pages, simulated) in [(0.07, 64, 7.021), (0.07, 256, 7.639), (0.28, 64, 2.403), (0.28, 256, 2.464)] {
            near(amplification_greedy(1.0 + spare, block_pages), simulated, 1e-2);
        }
    }

    #[test]
    fn analysis_of_balanced_servers_is_the_balanced_law() {
        for servers in [1u32, 8, 32] {
            let network = vec![Server { demand: 1.0 / f64::from(servers), delay: false }; servers as usize];
            near(mean_value_analysis(&network, 32), f64::from(servers) * balanced_utilisation(servers, 32), 1e-9);
        }
    }

    #[test]
    fn one_job_sees_the_sum_of_demands() {
        let network = [Server { demand: 3.0, delay: false }, Server { demand: 5.0, delay: true }];
        near(mean_value_analysis(&network, 1), 1.0 / 8.0, 1e-12);
    }
}
