//! Many histories, on several threads; the first failure ends it.

use crate::crossed::Crossed;
use crate::workload::{Extras, History};
use crate::world::{Failure, Rules, Tally, run};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The histories to run, and their rules.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first seed.
    pub from: u64,
    /// The number of histories.
    pub count: u64,
    /// No history begins after this time.
    pub time_max: Option<Duration>,
    /// The family of arrays, if only one is wanted.
    pub family: Option<String>,
    /// The number of threads.
    pub jobs: usize,
    /// Steps that seeds originally did not have.
    pub extras: Extras,
    /// The rules of each run.
    pub rules: Rules,
}

impl Plan {
    /// The history of a seed.
    pub fn history(&self, seed: u64) -> History {
        History::draw_with(seed, self.family.as_deref(), self.extras)
    }
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of histories that ended.
    pub histories: u64,
    /// The number of requests to drives.
    pub requests: u64,
    /// The number of client requests.
    pub client_requests: u64,
    /// The number of crashes.
    pub crashes: u64,
    /// The duration of the campaign.
    pub duration: Duration,
    /// The count of each case that occurred, by family.
    pub met: BTreeMap<(String, String), u64>,
    /// The count of cases that occurred together, by family.
    pub crossed: BTreeMap<String, Crossed>,
    /// The failure of the lowest seed that failed.
    pub failure: Option<(u64, Failure)>,
}

/// Runs one history; a panic is a failure too.
///
/// # Errors
/// A forbidden outcome.
pub fn try_history(history: &History, rules: Rules) -> Result<Tally, Failure> {
    caught(history, || run(history, rules))
}

/// Runs a history by `run`; a panic is a failure too.
///
/// # Errors
/// A forbidden outcome.
pub fn caught(history: &History, run: impl FnOnce() -> Result<Tally, Failure>) -> Result<Tally, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Failure {
            step: history.steps.len(),
            what: format!("panic: {}", text.unwrap_or_else(|| "of an unknown kind".into())),
        })
    })
}

/// Makes the allocator keep memory that histories free. Otherwise glibc requests each large piece from the system again, and the
/// system zeroes it, until a larger one was freed; each array that starts has 1 MiB of zeros.
pub fn keep_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(16 << 20)));
}

/// Runs a plan. `progress` receives the number of histories regularly, and returns false to end the campaign.
pub fn campaign(plan: &Plan, progress: &(dyn Fn(u64) -> bool + Sync)) -> Report {
    keep_memory();
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let report = Mutex::new(Report::default());
    let work = || {
        let mut own = Report::default();
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= plan.count || plan.time_max.is_some_and(|max| begun.elapsed() >= max) {
                break;
            }
            let history = plan.history(plan.from + index);
            match try_history(&history, plan.rules) {
                Ok(tally) => {
                    own.histories += 1;
                    own.requests += tally.requests;
                    own.client_requests += tally.client_requests;
                    own.crashes += tally.crashes;
                    let crossed = own.crossed.entry(history.setup.family()).or_default();
                    for (what, count) in tally.crossed {
                        *crossed.entry(what).or_default() += count;
                    }
                    for (what, count) in tally.met {
                        *own.met.entry((history.setup.family(), what)).or_default() += count;
                    }
                }
                // Drives that lie about flushes guarantee nothing, so losses are counted and are not failures.
                Err(failure) if plan.rules.lying_flush => {
                    own.histories += 1;
                    *own.met.entry((history.setup.family(), lost_words(&failure))).or_default() += 1;
                }
                Err(failure) => {
                    own.failure = Some((history.seed, failure));
                    stop.store(true, Ordering::Relaxed);
                }
            }
            let ended = done.fetch_add(1, Ordering::Relaxed) + 1;
            if ended.is_multiple_of(64) && !progress(ended) {
                stop.store(true, Ordering::Relaxed);
            }
        }
        report.lock().expect("nobody panics with it").join(own);
    };
    // The threads beside this one that the system gives.
    std::thread::scope(|scope| {
        let more = (1..plan.jobs.max(1)).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok());
        more.for_each(drop);
        work();
    });
    let mut report = report.into_inner().expect("nobody panics with it");
    report.duration = begun.elapsed();
    report
}

/// The class of a failure.
fn lost_words(failure: &Failure) -> String {
    let what = &failure.what;
    let kinds = [
        ("does not start", "lost: an array that does not start"),
        ("found", "lost: a read found what must not be"),
        ("is wrong", "lost: parity is wrong"),
        ("differ", "lost: copies differ"),
        ("disagree", "lost: a scrub found what disagrees"),
    ];
    kinds.iter().find(|(mark, _)| what.contains(mark)).map_or_else(|| format!("lost: {what}"), |(_, words)| (*words).into())
}

impl Report {
    fn join(&mut self, other: Report) {
        self.histories += other.histories;
        self.requests += other.requests;
        self.client_requests += other.client_requests;
        self.crashes += other.crashes;
        for (key, count) in other.met {
            *self.met.entry(key).or_default() += count;
        }
        for (family, other) in other.crossed {
            let crossed = self.crossed.entry(family).or_default();
            for (what, count) in other {
                *crossed.entry(what).or_default() += count;
            }
        }
        let failures = [self.failure.take(), other.failure];
        self.failure = failures.into_iter().flatten().min_by_key(|(seed, _)| *seed);
    }
}

/// The first seed of a range whose history fails, and the failure.
pub fn first_failure(seeds: Range<u64>, family: Option<&str>, extras: Extras, rules: Rules) -> Option<(u64, Failure)> {
    let mut seeds = seeds;
    seeds.find_map(|seed| try_history(&History::draw_with(seed, family, extras), rules).err().map(|failure| (seed, failure)))
}
