//! Other programs' use of the machine during a measurement, which makes figures less certain.
//!
//! Others' time is all busy processor time except that of this process, of the programs that it started (fio, `stria serve`), and
//! of the kernel's own threads. Time that a hypervisor gave to other machines counts as others' too.

use crate::result::{Record, Run};
use crate::state::CpuTimes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The keys of [`Record::extra`].
const OTHERS: &str = "others_cpu_percent";
const STOLEN: &str = "stolen_cpu_percent";
/// Share of all processors from which a machine counts as busy, percent.
pub(crate) const BUSY_PERCENT: f64 = 10.0;
/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// The moment from which others are watched.
#[derive(Debug)]
pub(crate) struct Others {
    times: CpuTimes,
    known: f64,
}

impl Others {
    pub fn since_now() -> Self {
        Self { times: CpuTimes::now(), known: known_ticks() }
    }

    /// Adds others' use since then, in percent of all processors.
    pub fn tell(&self, extra: &mut BTreeMap<String, f64>) {
        let now = CpuTimes::now();
        let all = now.all - self.times.all;
        if all < 10.0 {
            return;
        }
        let stolen = now.stolen - self.times.stolen;
        let others = (now.busy - self.times.busy - stolen - (known_ticks() - self.known)).clamp(0.0, all);
        let percent = |ticks: f64| (ticks / all * 1000.0).round() / 10.0;
        extra.insert(OTHERS.into(), percent(others));
        extra.insert(STOLEN.into(), percent(stolen.clamp(0.0, all)));
    }
}

/// Ticks of this process, of what it started and waited for, and of the kernel's threads.
fn known_ticks() -> f64 {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may hold anything.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        // utime, stime, and those of children that were waited for.
        let (own, waited) = (number(11) + number(12), number(13) + number(14));
        processes.insert(pid, (number(1) as u32, own, waited));
    }
    let mut ours = BTreeSet::from([std::process::id(), KTHREADD]);
    // A child may have a smaller number than its parent, so this is repeated until nothing is added.
    loop {
        let before = ours.len();
        ours.extend(processes.iter().filter(|(_, (parent, ..))| ours.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>());
        if ours.len() == before {
            break;
        }
    }
    ours.iter().filter_map(|pid| processes.get(pid)).map(|(_, own, waited)| own + waited).sum()
}

/// The share of all processors that other programs used during a measurement; `None` if it is unknown.
fn during(record: &Record) -> Option<f64> {
    let others = record.extra.get(OTHERS)?;
    Some((others + record.extra.get(STOLEN).unwrap_or(&0.0)).clamp(0.0, 100.0))
}

/// The use of the machine by others during a run, in percent of all processors: the mean over its measurements, or otherwise the
/// value just before it.
pub(crate) fn share_percent(run: &Run) -> Option<f64> {
    let shares: Vec<f64> = run.records.iter().filter(|record| !record.preparation).filter_map(during).collect();
    let environment = &run.manifest.environment;
    match shares.len() {
        0 => (environment.cpu_count > 0).then_some(environment.busy_percent),
        count => Some(shares.iter().sum::<f64>() / count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Children of this process do not count; a process that it did not start does.
    #[test]
    fn own_programs_are_no_others() {
        let spin = "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done";
        let before = known_ticks();
        let begun = Instant::now();
        assert!(Command::new("sh").args(["-c", spin]).status().expect("sh").success());
        let child = known_ticks() - before;
        assert!(begun.elapsed() > Duration::from_millis(900) && child > 10.0, "{child} ticks of a child that span");
        let mut extra = BTreeMap::new();
        let others = Others::since_now();
        std::thread::sleep(Duration::from_millis(300));
        others.tell(&mut extra);
        assert!((0.0..=100.0).contains(&extra[OTHERS]) && (0.0..=100.0).contains(&extra[STOLEN]), "{extra:?}");
    }
}
