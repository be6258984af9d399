//! Turns the causes that are present at each check into the messages that must be sent.
//!
//! A cause has one message when it begins, one after each day that it lasts, and one when it is over. It is over when it was
//! absent for some seconds: a condition that comes and goes within them is one cause, not many.
//!
//! A cause that begins again within an hour flaps. One message says so, with the number of times. After that it has only the
//! daily messages, until it has been absent for an hour.
//!
//! The tracker has no clock and no thread.

use crate::{Condition, Message, Phase};
use std::time::{Duration, Instant, SystemTime};

/// The time after which an absent cause is over.
const CLEAR_AFTER: Duration = Duration::from_secs(5);
/// A cause that begins again within this time flaps. It is over only once it has been absent for as long.
const FLAPS_WITHIN: Duration = Duration::from_secs(3600);

#[derive(Clone)]
struct Standing<S> {
    cause: Condition<S>,
    since: SystemTime,
    notified: Instant,
    absent_since: Option<Instant>,
    /// How often it has begun, each time soon after the last.
    begun: u32,
    begun_at: Instant,
}

impl<S: Clone> Standing<S> {
    fn new(cause: &Condition<S>, now: Instant) -> Self {
        let since = SystemTime::now();
        Self { cause: cause.clone(), since, notified: now, absent_since: None, begun: 1, begun_at: now }
    }

    fn flaps(&self) -> bool {
        self.begun > 1
    }

    /// Counts one more beginning. Returns true if it has a message.
    fn begin_again(&mut self, now: Instant, last: Instant) -> bool {
        if now.duration_since(last) >= FLAPS_WITHIN {
            *self = Self::new(&self.cause, now);
            return true;
        }
        (self.begun, self.begun_at) = (self.begun.saturating_add(1), now);
        let has_message = self.begun == 2;
        if has_message {
            self.notified = now;
        }
        has_message
    }

    fn is_over(&self, now: Instant) -> bool {
        let after = if self.flaps() { FLAPS_WITHIN } else { CLEAR_AFTER };
        self.absent_since.is_some_and(|since| now.duration_since(since) >= after)
    }

    fn message(&self, phase: Phase) -> Message<S> {
        let mut cause = self.cause.clone();
        if self.flaps() {
            let since = humantime::format_rfc3339_seconds(self.since);
            cause.text = format!("{}; it comes and goes: {} times since {since}", cause.text, self.begun);
            cause.said = None;
        }
        Message { phase, cause, since: self.since }
    }
}

/// The causes that stand.
pub struct Tracker<S = ()> {
    repeat_after: Duration,
    standing: Vec<Standing<S>>,
    /// Causes that were over lately, each with its end.
    ended: Vec<(Standing<S>, Instant)>,
    /// Causes that have begun anew and whose message is due.
    renewed: Vec<Condition<S>>,
}

impl<S: Clone> Tracker<S> {
    /// `repeat_after`: the time between two messages about a lasting cause; zero: there is only the first.
    pub fn new(repeat_after: Duration) -> Self {
        Self { repeat_after, standing: Vec::new(), ended: Vec::new(), renewed: Vec::new() }
    }

    /// Takes all present causes. Returns the messages to send. `is_unknown`: whether the cause lasts is unknown, so it neither
    /// ends nor is repeated.
    pub fn update(
        &mut self,
        now: Instant,
        conditions: &[Condition<S>],
        is_unknown: impl Fn(&Condition<S>) -> bool,
    ) -> Vec<Message<S>> {
        let mut messages = Vec::new();
        let renewed = std::mem::take(&mut self.renewed);
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
            standing.cause.text.clone_from(&current.text);
            standing.cause.said.clone_from(&current.said);
            let absent_since = standing.absent_since.take();
            // It would have been over, but flaps.
            if absent_since.is_some_and(|since| now.duration_since(since) >= CLEAR_AFTER) {
                standing.begin_again(now, now);
            }
            if renewed.iter().any(|cause| cause.is_same_cause(&standing.cause)) {
                messages.push(standing.message(Phase::Raised));
            } else if !self.repeat_after.is_zero() && now.duration_since(standing.notified) >= self.repeat_after {
                standing.notified = now;
                messages.push(standing.message(Phase::Repeated));
            }
        }
        for over in self.standing.extract_if(.., |standing| standing.is_over(now)) {
            messages.push(over.message(Phase::Cleared));
            self.ended.push((over, now));
        }
        self.ended.retain(|(_, end)| now.duration_since(*end) < FLAPS_WITHIN);
        for condition in conditions {
            if self.standing.iter().any(|standing| standing.cause.is_same_cause(condition)) {
                continue;
            }
            let ended = self.ended.iter().position(|(past, _)| past.cause.is_same_cause(condition));
            let new = match ended.map(|index| self.ended.swap_remove(index)) {
                // A message reported its end, so one reports its beginning.
                Some((past, end)) => {
                    let mut again = Standing { cause: condition.clone(), absent_since: None, notified: now, ..past };
                    again.begin_again(now, end);
                    again
                }
                None => Standing::new(condition, now),
            };
            messages.push(new.message(Phase::Raised));
            self.standing.push(new);
        }
        messages
    }

    /// Notes that a cause has begun anew, so that the next update reports it, unless it flaps. Sends no message of its end, as it
    /// is not over.
    pub fn renew(&mut self, now: Instant, cause: &Condition<S>) {
        let Some(standing) = self.standing.iter_mut().find(|standing| standing.cause.is_same_cause(cause)) else { return };
        standing.absent_since = None;
        let last = standing.begun_at;
        if standing.begin_again(now, last) {
            self.renewed.push(cause.clone());
        }
    }

    /// Changes the time between two messages about a lasting cause, from the last message on.
    pub fn repeat_after(&mut self, time: Duration) {
        self.repeat_after = time;
    }

    /// Forgets the causes of an array that is no longer served. Sends no message, as they are not over.
    pub fn forget(&mut self, array: &str) {
        self.standing.retain(|standing| standing.cause.array != array);
        self.ended.retain(|(past, _)| past.cause.array != array);
    }

    /// A message about each cause that lasts.
    pub fn repetitions(&self) -> impl Iterator<Item = Message<S>> {
        self.standing.iter().map(|standing| standing.message(Phase::Repeated))
    }

    /// The lasting causes, each with the time at which it was first seen.
    pub fn standing(&self) -> impl Iterator<Item = (&Condition<S>, SystemTime)> {
        self.standing.iter().map(|standing| (&standing.cause, standing.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn fail(component: &str, text: &str) -> Condition {
        Condition { event: Event::Fail, array: "tank".into(), component: Some(component.into()), text: text.into(), said: None }
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
    fn without_repetition_a_cause_is_told_when_it_begins_and_when_it_is_over() {
        let (mut tracker, start) = (Tracker::new(Duration::ZERO), Instant::now());
        let here = [fail("sda", "")];
        assert_eq!(messages(&mut tracker, start, 0, &here).len(), 1);
        assert!((1..100).all(|day| messages(&mut tracker, start, day * DAY.as_secs(), &here).is_empty()));
        assert_eq!(messages(&mut tracker, start, 100 * DAY.as_secs(), &[]), []);
        assert_eq!(messages(&mut tracker, start, 101 * DAY.as_secs(), &[]), [(Phase::Cleared, "sda".into())]);
        tracker.repeat_after(DAY);
        assert_eq!(messages(&mut tracker, start, 102 * DAY.as_secs(), &here).len(), 1);
        assert_eq!(messages(&mut tracker, start, 103 * DAY.as_secs(), &here), [(Phase::Repeated, "sda".into())]);
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

    /// A member that leaves and returns every two minutes was two messages each time.
    #[test]
    fn a_cause_that_flaps_is_told_twice_then_daily_and_when_it_stays_away() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        let here = [fail("sda", "dropped")];
        let mut told = Vec::new();
        let mut at = |second: u64, conditions: &[Condition]| {
            let messages = tracker.update(start + Duration::from_secs(second), conditions, |_| false);
            told.extend(messages.into_iter().map(|message| (second, message.phase, message.cause.text)));
        };
        let day = DAY.as_secs();
        let end = day + 1200;
        for begin in (0..end).step_by(120) {
            (0..60).step_by(3).for_each(|second| at(begin + second, &here));
            (60..120).step_by(3).for_each(|second| at(begin + second, &[]));
        }
        (end..end + 3600).step_by(3).for_each(|second| at(second, &[]));
        let words: Vec<(u64, Phase, bool)> =
            told.iter().map(|(second, phase, text)| (*second, *phase, text.contains("comes and goes: "))).collect();
        let (first, over, again) = ((0, Phase::Raised, false), (66, Phase::Cleared, false), (120, Phase::Raised, true));
        assert_eq!(words[..3], [first, over, again], "{told:?}");
        assert_eq!(words[3..], [(day + 120, Phase::Repeated, true), (end - 60 + 3600, Phase::Cleared, true)], "{told:?}");
        assert!(told[2].2.contains(": 2 times since ") && told[3].2.contains(": 722 times since "), "{told:?}");
    }

    /// Its user words the text by its sentence, which says nothing of how often the cause has begun.
    #[test]
    fn a_message_has_the_sentence_of_its_text_unless_more_is_said() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        let said = |number: u8| Condition { said: Some(number), text: number.to_string(), ..without() };
        fn without() -> Condition<u8> {
            Condition { event: Event::Fail, array: "tank".into(), component: None, text: String::new(), said: None }
        }
        let mut at = |second: u64, conditions: &[Condition<u8>]| {
            let messages = tracker.update(start + Duration::from_secs(second), conditions, |_| false);
            messages.into_iter().map(|message| (message.cause.text, message.cause.said)).collect::<Vec<_>>()
        };
        assert_eq!(at(0, &[said(1)]), [("1".into(), Some(1))]);
        assert_eq!((at(1, &[said(2)]), at(2, &[])), (vec![], vec![]));
        assert_eq!(at(7, &[]), [("2".into(), Some(2))], "the last words");
        let again = at(8, &[said(3)]);
        assert!(again.len() == 1 && again[0].0.contains("comes and goes") && again[0].1.is_none(), "{again:?}");
    }

    #[test]
    fn a_cause_that_begins_again_much_later_does_not_flap() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        let here = [fail("sda", "")];
        for begin in [0, 4000, 8000] {
            assert_eq!(messages(&mut tracker, start, begin, &here), [(Phase::Raised, "sda".into())], "{begin}");
            messages(&mut tracker, start, begin + 100, &[]);
            assert_eq!(messages(&mut tracker, start, begin + 106, &[]), [(Phase::Cleared, "sda".into())], "{begin}");
        }
    }

    #[test]
    fn a_cause_that_begins_anew_is_told_again_unless_it_flaps() {
        let (mut tracker, start) = (Tracker::new(DAY), Instant::now());
        let here = [fail("sda", "")];
        let mut renew = |second| {
            tracker.renew(start + Duration::from_secs(second), &here[0]);
            messages(&mut tracker, start, second, &here).len()
        };
        assert_eq!([0, 60, 120, 180].map(&mut renew), [1, 1, 0, 0]);
        assert_eq!([4000, 4060, 4120].map(&mut renew), [1, 1, 0], "an hour later it is a new one");
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
