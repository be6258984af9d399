//! The choice of the jobs that begin now.

use crate::Calendar;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;

/// A last run that lies so far ahead is an error of the clock; a smaller step back is waited out. Also the time for which a clock
/// is watched before that is decided: at boot it may be years behind, until a time server is reached.
const DAY_S: i64 = 24 * 3600;

/// A repeated job.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The times of its runs.
    pub calendar: &'a Calendar,
    /// The time of its last run, or at which it was first seen, in seconds since 1970.
    pub since_s: i64,
    /// The things that it shares with other work: buses, links, arrays. Two jobs that share anything never run at once.
    pub links: BTreeSet<String>,
}

/// The time since which a job is due; `None`: it is not. One run makes up for all missed ones. A last run in the future, because
/// the clock was wrong then or is now, counts as a run at this moment: the job waits for its next time.
pub fn due(calendar: &Calendar, since_s: i64, now_s: i64, zone: &TimeZone) -> Option<i64> {
    calendar.next(since_s.min(now_s), zone).filter(|&due| due <= now_s)
}

/// The time of a job's last run, as it is to be remembered: never lowered because the clock is behind for a while, as every such
/// step would run the job once more when the clock is right again. `watched_s`: the time for which this process has watched the
/// clock.
pub fn last_run(since_s: i64, now_s: i64, watched_s: i64) -> i64 {
    let is_wrong = since_s.saturating_sub(now_s) > DAY_S && watched_s >= DAY_S;
    if is_wrong { now_s } else { since_s }
}

/// The jobs that may begin now, by index. The job that has been due longest comes first. None of them shares a link with another
/// or with the links in `busy`.
pub fn may_begin(jobs: &[Job], busy: &BTreeSet<String>, now_s: i64, zone: &TimeZone) -> Vec<usize> {
    let mut waiting: Vec<(i64, usize)> =
        jobs.iter().enumerate().filter_map(|(index, job)| Some((due(job.calendar, job.since_s, now_s, zone)?, index))).collect();
    waiting.sort_unstable();
    let mut busy = busy.clone();
    let mut begin = Vec::new();
    for (_, index) in waiting {
        let links = &jobs[index].links;
        if links.is_disjoint(&busy) {
            begin.push(index);
        }
        // Otherwise jobs that need fewer links could overtake an older one for ever.
        busy.extend(links.iter().cloned());
    }
    begin
}
