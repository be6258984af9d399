//! The decision which members are copied to a spare before they fail. It is pure: it holds what it has seen.
//!
//! A member is copied while it stays a member, so redundancy is never less than before. Only an array that lacks nothing gives a
//! spare away for this, one at a time, and only to a spare that is in better health. The worst member comes first.

use crate::api::{ArrayView, MemberView};
use crate::config::ReplacementConfig;
use crate::monitor::DriveEntry;
use crate::view::{may_write, tree};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use stria_health::{DriveHealth, SlowMember, Verdict};

/// The time in which the growth of media errors is counted.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// A copy that did not begin, or ended early, is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(600);

/// A member that is about to fail, and the spare that it is copied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The array as it is served.
    pub array: String,
    /// The member.
    pub member: String,
    /// The spare.
    pub spare: String,
    /// The reason.
    pub reason: String,
}

/// The observations so far.
#[derive(Default)]
pub struct Foresight {
    /// Counts of media errors, by path.
    errors: BTreeMap<String, Errors>,
    /// The times since when members have been slow.
    slow_since: BTreeMap<String, Instant>,
    tried: BTreeMap<String, Instant>,
}

/// Counts of media errors of a drive within the last day: one for each time that it was asked.
#[derive(Default)]
struct Errors {
    /// Its serial number and model. Another drive at its path has another history.
    drive: (Option<String>, Option<String>),
    counts: VecDeque<(Instant, u64, u64)>,
}

impl Errors {
    fn grown(&self) -> u64 {
        self.counts.back().zip(self.counts.front()).map_or(0, |(last, first)| last.2.saturating_sub(first.2))
    }
}

/// Reasons, the strongest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Failing(String),
    Errors(String),
    Slow(String),
}

impl Reason {
    fn words(self) -> String {
        match self {
            Self::Failing(words) | Self::Errors(words) | Self::Slow(words) => words,
        }
    }
}

impl Foresight {
    /// Takes the views of all arrays, their slow members, and what is known of their drives. Returns what is to be copied now.
    pub fn look(
        &mut self,
        now: Instant,
        views: &[ArrayView],
        drives: &[DriveEntry],
        config: &ReplacementConfig,
        slow: &[SlowMember],
    ) -> Vec<Forecast> {
        self.note_errors(now, drives);
        self.slow_since.retain(|path, _| slow.iter().any(|slow| slow.path == *path));
        for slow in slow {
            self.slow_since.entry(slow.path.clone()).or_insert(now);
        }
        self.tried.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        // Only the view of the array itself shows that it does not answer or is paused; its spans are as well then. All its spans
        // together have one copy at a time.
        let may_give_one = |view: &&ArrayView| view.condition.silent_s.is_none() && tree(view).into_iter().all(may_give);
        let forecasts: Vec<Forecast> = views
            .iter()
            .filter(may_give_one)
            .filter_map(|view| {
                let found = tree(view).into_iter().filter_map(|part| self.look_at(now, part, drives, slow, config));
                let (reason, member, spare) = found.min_by(|(one, ..), (other, ..)| one.cmp(other))?;
                Some(Forecast { array: view.identity.name.clone(), member, spare, reason: reason.words() })
            })
            .collect();
        self.tried.extend(forecasts.iter().map(|forecast| (forecast.member.clone(), now)));
        forecasts
    }

    fn note_errors(&mut self, now: Instant, drives: &[DriveEntry]) {
        self.errors.retain(|path, _| drives.iter().any(|entry| entry.path.as_os_str() == path.as_str()));
        for entry in drives {
            let Some((health, count)) = entry.health.as_ref().and_then(|health| Some((health, health.media_errors?))) else {
                continue;
            };
            let known = self.errors.entry(entry.path.display().to_string()).or_default();
            let drive = (health.serial.clone(), health.model.clone());
            // A count that falls is that of another drive as well, or begins anew.
            if known.drive != drive || known.counts.back().is_some_and(|&(.., last)| count < last) {
                *known = Errors { drive, counts: VecDeque::new() };
            }
            let counts = &mut known.counts;
            if counts.back().is_none_or(|&(_, read_at_s, _)| read_at_s != entry.read_at_s) {
                counts.push_back((now, entry.read_at_s, count));
            }
            while counts.len() > 1 && counts.front().is_some_and(|(at, ..)| now.duration_since(*at) > DAY) {
                counts.pop_front();
            }
        }
    }

    /// The worst member of an array without spans, or of a span, with the reason, and the spare for it.
    fn look_at(
        &self,
        now: Instant,
        view: &ArrayView,
        drives: &[DriveEntry],
        slow: &[SlowMember],
        config: &ReplacementConfig,
    ) -> Option<(Reason, String, String)> {
        let health_of =
            |path: &str| drives.iter().find(|entry| entry.path.as_os_str() == path).and_then(|entry| entry.health.as_ref());
        let is_free = |member: &&MemberView| {
            let is_slow = slow.iter().any(|slow| slow.path == member.path);
            member.role == "spare" && !is_slow && health_of(&member.path).is_none_or(|health| health.verdict < Verdict::Replace)
        };
        let verdict_of = |member: &&MemberView| health_of(&member.path).map_or(Verdict::Good, |health| health.verdict);
        let spare = view.parts.members.iter().filter(is_free).min_by_key(verdict_of)?;
        let members =
            view.parts.members.iter().filter(|member| member.role == "in sync" && !self.tried.contains_key(&member.path));
        let reasons = members.filter_map(|member| {
            let slow = slow.iter().find(|slow| slow.path == member.path);
            Some((self.reason(now, member, health_of(&member.path), slow, config)?, member))
        });
        let (reason, member) = reasons.min_by(|(one, _), (other, _)| one.cmp(other))?;
        Some((reason, member.path.clone(), spare.path.clone()))
    }

    fn reason(
        &self,
        now: Instant,
        member: &MemberView,
        health: Option<&DriveHealth>,
        slow: Option<&SlowMember>,
        config: &ReplacementConfig,
    ) -> Option<Reason> {
        if let Some(health) = health.filter(|health| config.failing && health.verdict == Verdict::Replace) {
            let sentence = health.findings.first().map_or("its health calls for replacement", |finding| &finding.sentence);
            return Some(Reason::Failing(sentence.to_owned()));
        }
        let grown = self.errors.get(&member.path).map_or(0, Errors::grown);
        if config.media_errors_per_day > 0 && grown >= config.media_errors_per_day {
            return Some(Reason::Errors(format!("its media errors have grown by {grown} within a day")));
        }
        let (slow, since) = (slow?, self.slow_since.get(&member.path)?);
        let patience = config.slow_for.0.filter(|patience| now.duration_since(*since) >= *patience)?;
        Some(Reason::Slow(format!("for {} it {}", humantime::format_duration(patience), slow.words())))
    }
}

/// True if an array or span has all its redundancy, and nothing else to do with a spare.
fn may_give(view: &ArrayView) -> bool {
    let is_filling = view.parts.members.iter().any(|member| member.role == "rebuilding" || member.role == "replacing");
    let is_sweeping = view.redundancy.sweep.as_ref().is_some_and(|sweep| sweep.kind == "rebuild" || sweep.kind == "resync");
    let is_calm = !is_filling && !is_sweeping && !view.redundancy.resync_pending && !view.condition.paused;
    is_calm && view.parts.missing_slots.is_empty() && !view.condition.read_only && may_write(view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use stria_health::Finding;

    fn array(members: &[(&str, &str, u64)]) -> ArrayView {
        let latency =
            |median: u64| json!({"count": 1000, "median_us": median, "p99_us": median, "max_us": median, "slow_count": 0});
        let members: Vec<_> = members
            .iter()
            .map(|(path, role, median)| {
                json!({"path": path, "role": role, "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0, "repaired_sectors": 0,
                    "read_count": 1000, "write_count": 0, "read_bytes": 0, "written_bytes": 0, "read_latency": latency(*median)})
            })
            .collect();
        let view = json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "5", "layout": "", "size_bytes": 1, "health": "optimal",
            "state": "", "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": [], "spans": [],
            "resync_pending": false, "in_flight": 0, "events": 1, "created_s": 0, "exports": [], "clients": []});
        serde_json::from_value(view).expect("a view")
    }

    const WELL: [(&str, &str, u64); 5] =
        [("a", "in sync", 100), ("b", "in sync", 100), ("c", "in sync", 100), ("s", "spare", 0), ("t", "spare", 0)];

    fn entry(path: &str, read_at_s: u64, verdict: Verdict, media_errors: u64) -> DriveEntry {
        let findings = (verdict > Verdict::Good)
            .then(|| Finding { verdict, sentence: format!("{path} is ill"), said: None })
            .into_iter()
            .collect();
        let health = DriveHealth { verdict, findings, media_errors: Some(media_errors), ..DriveHealth::default() };
        DriveEntry { path: path.into(), read_at_s, health: Some(health), error: None, seat: None }
    }

    fn chosen(forecasts: &[Forecast]) -> Vec<(&str, &str)> {
        forecasts.iter().map(|forecast| (forecast.member.as_str(), forecast.spare.as_str())).collect()
    }

    fn look(
        foresight: &mut Foresight,
        now: Instant,
        view: &ArrayView,
        drives: &[DriveEntry],
        config: &ReplacementConfig,
    ) -> Vec<Forecast> {
        let own_us = |member: &MemberView| member.read_latency.as_ref().map_or(0, |latency| latency.median_us);
        let slow = view.parts.members.iter().filter(|member| own_us(member) > 1000);
        let slow =
            slow.map(|member| SlowMember { path: member.path.clone(), own_us: own_us(member), others_us: 100, tail: false });
        foresight.look(now, std::slice::from_ref(view), drives, config, &slow.collect::<Vec<_>>())
    }

    #[test]
    fn a_failing_member_is_copied_to_the_spare_in_better_health_and_tried_again_later() {
        let (mut foresight, now, config) = (Foresight::default(), Instant::now(), ReplacementConfig::default());
        let drives = [entry("b", 1, Verdict::Replace, 0), entry("s", 1, Verdict::Watch, 0), entry("t", 1, Verdict::Good, 0)];
        assert_eq!(look(&mut foresight, now, &array(&WELL), &[], &config), []);
        let forecasts = look(&mut foresight, now, &array(&WELL), &drives, &config);
        assert_eq!((chosen(&forecasts), forecasts[0].reason.as_str()), (vec![("b", "t")], "b is ill"));
        assert_eq!(look(&mut foresight, now + AGAIN_AFTER / 2, &array(&WELL), &drives, &config), []);
        assert_eq!(look(&mut foresight, now + AGAIN_AFTER, &array(&WELL), &drives, &config).len(), 1);
        let off = ReplacementConfig { failing: false, ..ReplacementConfig::default() };
        assert_eq!(look(&mut Foresight::default(), now, &array(&WELL), &drives, &off), []);
    }

    #[test]
    fn an_array_that_needs_its_spare_otherwise_or_has_none_that_is_better_gives_none() {
        let (now, config) = (Instant::now(), ReplacementConfig::default());
        let ill = [entry("b", 1, Verdict::Replace, 0)];
        let nothing = |view: &ArrayView, drives: &[DriveEntry]| {
            assert_eq!(look(&mut Foresight::default(), now, view, drives, &config), []);
        };
        nothing(&array(&WELL[..3]), &ill);
        nothing(&array(&WELL[..4]), &[ill[0].clone(), entry("s", 1, Verdict::Replace, 0)]);
        let mut degraded = array(&WELL);
        degraded.parts.missing_slots = vec![3];
        nothing(&degraded, &ill);
        let mut filling = array(&WELL);
        filling.parts.members[3].role = "replacing".into();
        nothing(&filling, &ill);
        let mut silent = array(&WELL);
        silent.condition.silent_s = Some(9);
        nothing(&silent, &ill);
        let mut upper = array(&[]);
        (upper.condition.silent_s, upper.parts.spans) = (Some(9), vec![array(&WELL)]);
        nothing(&upper, &ill);
        let mut pending = array(&WELL);
        pending.redundancy.resync_pending = true;
        nothing(&pending, &ill);
    }

    /// Each span decided for itself: both were copied at once, one of a paused array, and one beside a span that was degraded.
    #[test]
    fn an_array_of_spans_gives_one_spare_at_a_time_and_only_as_a_whole() {
        let (now, config) = (Instant::now(), ReplacementConfig::default());
        let other = [("d", "in sync", 100), ("e", "in sync", 100), ("f", "in sync", 100), ("u", "spare", 0)];
        let whole = || {
            let mut view = array(&[]);
            view.parts.spans = vec![array(&WELL), array(&other)];
            view
        };
        let drives = [entry("d", 1, Verdict::Replace, 0), entry("b", 1, Verdict::Replace, 0)];
        let found = |view: &ArrayView| look(&mut Foresight::default(), now, view, &drives, &config);
        assert_eq!(chosen(&found(&whole())), [("b", "s")], "one");
        let mut paused = whole();
        paused.condition.paused = true;
        assert_eq!(found(&paused), []);
        let mut degraded = whole();
        degraded.parts.spans[1].parts.missing_slots = vec![3];
        assert_eq!(found(&degraded), []);
        let mut copying = whole();
        copying.parts.spans[1].parts.members[3].role = "replacing".into();
        assert_eq!(found(&copying), []);
    }

    /// A drive that replaced another at the same path inherited its count.
    #[test]
    fn errors_are_those_of_a_drive_and_not_of_its_path() {
        let (now, config) = (Instant::now(), ReplacementConfig::default());
        let of = |serial: &str, read_at_s: u64, errors: u64| {
            let mut entry = entry("a", read_at_s, Verdict::Watch, errors);
            entry.health.as_mut().expect("its health").serial = Some(serial.into());
            entry
        };
        let grown = |counts: &[(&str, u64)]| {
            let mut foresight = Foresight::default();
            let mut forecasts = Vec::new();
            for (read_at_s, (serial, errors)) in counts.iter().enumerate() {
                let drives = [of(serial, read_at_s as u64, *errors)];
                forecasts.extend(look(&mut foresight, now, &array(&WELL), &drives, &config));
            }
            chosen(&forecasts).len()
        };
        assert_eq!(grown(&[("S1", 0), ("S2", 12)]), 0, "what it came with");
        assert_eq!(grown(&[("S1", 40), ("S2", 5), ("S2", 15)]), 1, "its own growth");
        assert_eq!(grown(&[("S1", 40), ("S1", 0), ("S1", 10)]), 1, "its count began anew");
        assert_eq!(grown(&[("S1", 0), ("S1", 12)]), 1);
    }

    #[test]
    fn errors_that_grow_within_a_day_count_and_old_ones_do_not() {
        let (mut foresight, now, config) = (Foresight::default(), Instant::now(), ReplacementConfig::default());
        let hour = Duration::from_secs(3600);
        let mut at = |hours: u32, errors: u64| {
            let drives = [entry("a", u64::from(hours), Verdict::Watch, errors)];
            look(&mut foresight, now + hour * hours, &array(&WELL), &drives, &config)
        };
        assert_eq!(at(0, 50), [], "what it came with");
        assert_eq!(at(20, 59), []);
        assert_eq!(at(40, 68), [], "nine in the last day");
        let forecasts = at(41, 69);
        assert_eq!(chosen(&forecasts), [("a", "s")]);
        assert!(forecasts[0].reason.contains("grown by 10"), "{forecasts:?}");
    }

    #[test]
    fn a_member_that_stays_slow_is_copied_only_if_that_is_configured_and_after_worse_ones() {
        let slow = array(&[("a", "in sync", 100), ("b", "in sync", 9000), ("c", "in sync", 100), ("s", "spare", 0)]);
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let config = ReplacementConfig { slow_for: crate::config::Patience(Some(hour)), ..ReplacementConfig::default() };
        let mut foresight = Foresight::default();
        assert_eq!(look(&mut foresight, now, &slow, &[], &config), []);
        assert_eq!(look(&mut foresight, now + hour / 2, &array(&WELL), &[], &config), [], "it was well in between");
        assert_eq!(look(&mut foresight, now + hour, &slow, &[], &config), []);
        assert_eq!(
            look(&mut foresight, now + hour * 2, &slow, &[], &ReplacementConfig::default()),
            [],
            "never, unless configured"
        );
        let forecasts = look(&mut foresight, now + hour * 2, &slow, &[], &config);
        assert!(forecasts[0].reason.contains("9000 µs"), "{forecasts:?}");
        let ill = [entry("c", 1, Verdict::Replace, 0)];
        assert_eq!(chosen(&look(&mut foresight, now + hour * 4, &slow, &ill, &config)), [("c", "s")]);
    }
}
