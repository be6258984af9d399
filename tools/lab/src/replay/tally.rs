//! Sums over requests, counted as they end: memory does not grow with their number.

use super::Drift;
use crate::result::Figures;
use crate::times::Times;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    pub times: Times,
    pub bytes: u64,
}

impl Kind {
    pub fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    pub fn figures(&self, seconds: f64) -> Option<Figures> {
        let requests = self.times.count();
        // A request takes some time, even if the clock is too coarse to show it.
        let seconds = seconds.max(1e-9);
        (requests > 0).then(|| Figures {
            requests,
            bytes: self.bytes,
            iops: requests as f64 / seconds,
            mb_per_s: self.bytes as f64 / 1e6 / seconds,
            latency: self.times.latency(),
            ..Figures::default()
        })
    }
}

/// How late requests were issued.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    times: Times,
    late: u64,
}

impl Lateness {
    pub fn add(&mut self, ns: u64) {
        self.times.add(ns);
        self.late += u64::from(ns > 1_000_000);
    }

    pub fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.late += other.late;
    }

    pub fn drift(&self) -> Drift {
        Drift {
            mean_ns: self.times.mean(),
            p50_ns: self.times.at(0.5),
            p99_ns: self.times.at(0.99),
            max_ns: self.times.max() as f64,
            late_share: self.late as f64 / self.times.count().max(1) as f64,
        }
    }
}

/// Time with at least one request outstanding.
#[derive(Debug, Default)]
pub struct Busy(Mutex<(u64, Option<Instant>, f64)>);

impl Busy {
    pub fn begin(&self) {
        let mut busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        busy.0 += 1;
        busy.1.get_or_insert_with(Instant::now);
    }

    pub fn end(&self) {
        let mut busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        busy.0 -= 1;
        if busy.0 == 0
            && let Some(since) = busy.1.take()
        {
            busy.2 += since.elapsed().as_secs_f64();
        }
    }

    pub fn seconds(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).2
    }
}
