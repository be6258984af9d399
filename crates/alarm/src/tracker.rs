//! Turns the causes that are present at each check into the messages that must be sent.
//!
//! A cause has one message when it begins, one after each day that it lasts, and one when it is over. It is over when it was
//! absent for some seconds: a condition that comes and goes within them is one cause, not many. Has no clock and no thread.

use crate::{Condition, Message, Phase};
use std::time::{Duration, Instant, SystemTime};

/// The time after which an absent cause is over.
const CLEAR_AFTER: Duration = Duration::from_secs(5);

struct Standing {
    cause: Condition,
    since: SystemTime,
    notified: Instant,
    absent_since: Option<Instant>,
}

/// The causes that stand.
pub struct Tracker {
    repeat_after: Duration,
    standing: Vec<Standing>,
}

impl Tracker {
    /// `repeat_after`: the time between two messages about a lasting cause.
    pub fn new(repeat_after: Duration) -> Self {
        Self { repeat_after, standing: Vec::new() }
    }

    /// Takes all present causes. Returns the messages to send. `is_unknown`: nobody can tell whether the cause lasts, so it neither ends nor is
    /// repeated.
    pub fn update(&mut self, now: Instant, conditions: &[Condition], is_unknown: impl Fn(&Condition) -> bool) -> Vec<Message> {
        let mut messages = Vec::new();
        for standing in &mut self.standing {
            if is_unknown(&standing.cause) {
                standing.absent_since = None;
                continue;
            }
            let current = conditions.iter().find(|condition| condition.is_same_cause(&standing.cause));
            let Some(current) = current else {
                standing.absent_since.get_or_insert(now);
                continue;
            };
            standing.absent_since = None;
            standing.cause.text.clone_from(&current.text);
            if now.duration_since(standing.notified) >= self.repeat_after {
                standing.notified = now;
                messages.push(message(Phase::Repeated, standing));
            }
        }
        let is_over =
            |standing: &mut Standing| standing.absent_since.is_some_and(|since| now.duration_since(since) >= CLEAR_AFTER);
        let over: Vec<Standing> = self.standing.extract_if(.., is_over).collect();
        messages.extend(over.iter().map(|standing| message(Phase::Cleared, standing)));
        for condition in conditions {
            if self.standing.iter().all(|standing| !standing.cause.is_same_cause(condition)) {
                let new = Standing { cause: condition.clone(), since: SystemTime::now(), notified: now, absent_since: None };
                messages.push(message(Phase::Raised, &new));
                self.standing.push(new);
            }
        }
        messages
    }

    /// Forgets a cause that has begun anew, so that the next update reports it. Sends no message, as it is not over.
    pub fn renew(&mut self, cause: &Condition) {
        self.standing.retain(|standing| !standing.cause.is_same_cause(cause));
    }

    /// Forgets the causes of an array that is no longer served. Sends no message, as they are not over.
    pub fn forget(&mut self, array: &str) {
        self.standing.retain(|standing| standing.cause.array != array);
    }

    /// The lasting causes, each with the time at which it was first seen.
    pub fn standing(&self) -> impl Iterator<Item = (&Condition, SystemTime)> {
        self.standing.iter().map(|standing| (&standing.cause, standing.since))
    }
}

fn message(phase: Phase, standing: &Standing) -> Message {
    Message { phase, cause: standing.cause.clone(), since: standing.since }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn fail(component: &str, text: &str) -> Condition {
        Condition { event: Event::Fail, array: "tank".into(), component: Some(component.into()), text: text.into() }
    }

    /// The messages at these seconds, if these causes are present.
    fn messages(tracker: &mut Tracker, start: Instant, second: u64, conditions: &[Condition]) -> Vec<(Phase, String)> {
        let messages = tracker.update(start + Duration::from_secs(second), conditions, |_| false);
        messages.into_iter().map(|message| (message.phase, message.cause.component.unwrap_or_default())).collect()
    }

    #[test]
    fn a_cause_is_told_once_daily_while_it_lasts_and_when_it_is_over() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        let day = DAY.as_secs();
        let here = [fail("sda", "1")];
        assert_eq!(messages(&mut tracker, start, 0, &here), [(Phase::Raised, "sda".into())]);
        assert_eq!(messages(&mut tracker, start, 1, &[fail("sda", "other words")]), []);
        assert_eq!(tracker.standing().next().map(|(cause, _)| cause.text.clone()), Some("other words".into()));
        assert_eq!(messages(&mut tracker, start, day - 1, &here), []);
        assert_eq!(messages(&mut tracker, start, day, &here), [(Phase::Repeated, "sda".into())]);
        assert_eq!(messages(&mut tracker, start, day + 1, &here), []);
        assert_eq!(messages(&mut tracker, start, 2 * day + 2, &here), [(Phase::Repeated, "sda".into())]);
        assert_eq!(messages(&mut tracker, start, 2 * day + 3, &[]), []);
        assert_eq!(messages(&mut tracker, start, 2 * day + 8, &[]), [(Phase::Cleared, "sda".into())]);
        assert_eq!(messages(&mut tracker, start, 2 * day + 9, &[]), []);
        assert_eq!(tracker.standing().count(), 0);
    }

    #[test]
    fn what_comes_and_goes_is_one_cause() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        let here = [fail("sda", "")];
        assert_eq!(messages(&mut tracker, start, 0, &here).len(), 1);
        for second in (2..40).step_by(4) {
            assert_eq!(messages(&mut tracker, start, second, &[]), []);
            assert_eq!(messages(&mut tracker, start, second + 3, &here), []);
        }
    }

    #[test]
    fn an_unknown_cause_is_neither_over_nor_repeated() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        assert_eq!(messages(&mut tracker, start, 0, &[fail("sda", "")]).len(), 1);
        assert_eq!(messages(&mut tracker, start, 1, &[]), []);
        for second in [3, 60, DAY.as_secs() * 3] {
            let at = start + Duration::from_secs(second);
            assert_eq!(tracker.update(at, &[fail("sda", "")], |_| true), []);
            assert_eq!(tracker.update(at, &[], |_| true), []);
        }
        let later = DAY.as_secs() * 3;
        assert_eq!(messages(&mut tracker, start, later + 1, &[]), []);
        assert_eq!(messages(&mut tracker, start, later + 6, &[]), [(Phase::Cleared, "sda".into())]);
    }

    #[test]
    fn two_causes_are_told_apart() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        assert_eq!(messages(&mut tracker, start, 0, &[fail("sda", "")]).len(), 1);
        assert_eq!(messages(&mut tracker, start, 1, &[fail("sda", ""), fail("sdb", "")]), [(Phase::Raised, "sdb".into())]);
        let mut other = fail("sda", "");
        other.event = Event::MemberSilent;
        assert_eq!(messages(&mut tracker, start, 2, &[fail("sda", ""), fail("sdb", ""), other]).len(), 1);
    }
}
