//! Turns the causes that are present at each check into the messages that must be sent.
//!
//! A cause has one message when it begins, one after each day that it lasts, and one when it is over. It is over when it was
//! absent for some seconds: a condition that comes and goes within them is one cause, not many.
//!
//! A cause that begins again within an hour flaps. One message says so, with the number of times. After that it has only the
//! daily messages, until it has been absent for an hour.
//!
//! A cause that a person has acknowledged has no daily messages. It has one if it becomes worse, which ends the acknowledgement, and
//! one when it is over.
//!
//! The tracker has no clock and no thread.

use crate::acknowledged::{Acknowledged, Acknowledgement, Degree, Names, WaitingRoom};
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
    /// A person knows of it, as it was then.
    acknowledged: Option<Acknowledged<S>>,
}

impl<S: Degree> Standing<S> {
    fn new(cause: &Condition<S>, now: Instant) -> Self {
        let since = SystemTime::now();
        Self { cause: cause.clone(), since, notified: now, absent_since: None, begun: 1, begun_at: now, acknowledged: None }
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

    /// The message that it has become worse since a person acknowledged it, which then counts no more. `None`: it has not.
    fn worse(&mut self, now: Instant) -> Option<Message<S>> {
        let known = self.acknowledged.take_if(|known| S::is_worse(&known.cause, &self.cause))?;
        self.notified = now;
        let mut message = self.message(Phase::Raised);
        message.cause.text = format!("{}; worse than when {} acknowledged it", message.cause.text, known.acknowledgement.by);
        message.cause.said = None;
        Some(message)
    }
}

/// A cause that stands, as it is shown.
pub struct Open<'a, S> {
    /// The cause.
    pub cause: &'a Condition<S>,
    /// When it was first seen.
    pub since: SystemTime,
    /// The acknowledgement, if there is one.
    pub acknowledgement: Option<&'a Acknowledgement>,
}

/// The causes that stand.
pub struct Tracker<S = ()> {
    repeat_after: Duration,
    standing: Vec<Standing<S>>,
    /// Causes that were over lately, each with its end.
    ended: Vec<(Standing<S>, Instant)>,
    /// Causes that have begun anew and whose message is due.
    renewed: Vec<Condition<S>>,
    /// Acknowledgements whose cause does not stand now, and may again.
    waiting: WaitingRoom<S>,
    names: Names,
}

impl<S: Degree> Tracker<S> {
    /// `repeat_after`: the time between two messages about a lasting cause; zero: there is only the first.
    pub fn new(repeat_after: Duration) -> Self {
        let (waiting, names) = (WaitingRoom::new(), Names::new());
        Self { repeat_after, standing: Vec::new(), ended: Vec::new(), renewed: Vec::new(), waiting, names }
    }

    /// Takes the arrays that are seen now. What was acknowledged of an array is known under its new name. To be called before each
    /// update, once the arrays that are no longer served are [forgotten](Self::forget).
    pub fn set_names(&mut self, names: Names) {
        self.waiting.follow(&names);
        for Standing { cause, acknowledged, .. } in &mut self.standing {
            if let Some(known) = acknowledged {
                known.follow(&names);
                cause.array.clone_from(&known.cause.array);
            }
        }
        self.names = names;
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
            } else if standing.acknowledged.is_some() {
                messages.extend(standing.worse(now));
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
                    let cause = condition.clone();
                    let mut again = Standing { cause, absent_since: None, notified: now, acknowledged: None, ..past };
                    again.begin_again(now, end);
                    again
                }
                None => Standing { acknowledged: self.waiting.claim(condition, &self.names), ..Standing::new(condition, now) },
            };
            if new.acknowledged.is_none() {
                messages.push(new.message(Phase::Raised));
            }
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
            standing.acknowledged = None;
            self.renewed.push(cause.clone());
        }
    }

    /// Changes the time between two messages about a lasting cause, from the last message on.
    pub fn repeat_after(&mut self, time: Duration) {
        self.repeat_after = time;
    }

    /// Forgets the causes of an array that is no longer served. Sends no message, as they are not over. What was acknowledged is
    /// known when the array is served again.
    pub fn forget(&mut self, array: &str) {
        self.waiting.forget(array);
        let gone: Vec<Standing<S>> = self.standing.extract_if(.., |standing| standing.cause.array == array).collect();
        self.waiting.take(gone.into_iter().filter_map(|standing| standing.acknowledged));
        self.ended.retain(|(past, _)| past.cause.array != array);
    }

    /// A message about each cause that lasts, except those that a person knows of.
    pub fn repetitions(&self) -> impl Iterator<Item = Message<S>> {
        let unknown = self.standing.iter().filter(|standing| standing.acknowledged.is_none());
        unknown.map(|standing| standing.message(Phase::Repeated))
    }

    /// The lasting causes.
    pub fn standing(&self) -> impl Iterator<Item = Open<'_, S>> {
        self.standing.iter().map(|Standing { cause, since, acknowledged, .. }| {
            let acknowledgement = acknowledged.as_ref().map(|known| &known.acknowledgement);
            Open { cause, since: *since, acknowledgement }
        })
    }

    /// Notes that a person knows of a cause: it has no daily messages from now on. An acknowledgement that it has already stays,
    /// unless the new one has a note. Returns false if the cause does not stand.
    pub fn acknowledge(&mut self, cause: &Condition<S>, acknowledgement: Acknowledgement) -> bool {
        let Some(standing) = self.standing.iter_mut().find(|standing| standing.cause.is_same_cause(cause)) else { return false };
        if standing.acknowledged.is_none() || acknowledgement.note.is_some() {
            let cause = standing.cause.clone();
            let array_uuid = self.names.iter().find(|(_, name)| **name == cause.array).map(|(uuid, _)| uuid.clone());
            standing.acknowledged = Some(Acknowledged { cause, acknowledgement, array_uuid });
        }
        true
    }

    /// Takes an acknowledgement back: the daily messages begin again, the first one a day from now. Returns false if the cause does
    /// not stand.
    pub fn unacknowledge(&mut self, now: Instant, cause: &Condition<S>) -> bool {
        let Some(standing) = self.standing.iter_mut().find(|standing| standing.cause.is_same_cause(cause)) else { return false };
        if standing.acknowledged.take().is_some() {
            standing.notified = now;
        }
        true
    }

    /// Takes the acknowledgements of an earlier run. Their file may be read later than their causes begin.
    pub fn restore(&mut self, known: impl IntoIterator<Item = Acknowledged<S>>) {
        self.waiting.take(known);
        for standing in self.standing.iter_mut().filter(|standing| standing.acknowledged.is_none()) {
            standing.acknowledged = self.waiting.claim(&standing.cause, &self.names);
        }
    }

    /// Drops acknowledgements of an earlier run, or of an array that was stopped, whose cause is over. To be called after each
    /// update. `is_seen`: the array is looked at and answers, or it is none.
    pub fn expire_acknowledgements(&mut self, now: Instant, is_seen: impl Fn(&str) -> bool) {
        self.waiting.expire(now, &self.names, is_seen);
    }

    /// Everything that is acknowledged, the oldest first: to be stored, so that a restart knows it.
    pub fn acknowledged(&self) -> Vec<Acknowledged<S>> {
        let standing = self.standing.iter().filter_map(|standing| standing.acknowledged.as_ref());
        let mut all: Vec<Acknowledged<S>> = self.waiting.all().chain(standing).cloned().collect();
        all.sort_by_key(|known| known.acknowledgement.at_s);
        all
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
        assert_eq!(tracker.standing().next().map(|open| open.cause.text.clone()), Some("other words".into()));
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

    /// A cause that is worse with a greater number, as its sentence tells.
    fn graded(event: Event, component: Option<&str>, number: u8) -> Condition<u8> {
        Condition {
            event,
            array: "tank".into(),
            component: component.map(Into::into),
            text: number.to_string(),
            said: Some(number),
        }
    }

    fn anna() -> Acknowledgement {
        Acknowledgement { by: "anna".into(), at_s: 7, note: None }
    }

    /// The messages at this second.
    fn told(tracker: &mut Tracker<u8>, start: Instant, second: u64, conditions: &[Condition<u8>]) -> Vec<(Phase, String)> {
        let messages = tracker.update(start + Duration::from_secs(second), conditions, |_| false);
        tracker.expire_acknowledgements(start + Duration::from_secs(second), |_| true);
        messages.into_iter().map(|message| (message.phase, message.cause.text)).collect()
    }

    fn known(tracker: &Tracker<u8>) -> Vec<Option<String>> {
        tracker.standing().map(|open| open.acknowledgement.map(|known| known.by.clone())).collect()
    }

    #[test]
    fn a_cause_that_a_person_knows_of_is_not_repeated_and_its_end_is_told() {
        let (mut tracker, start, day) = (Tracker::<u8>::new(DAY), Instant::now(), DAY.as_secs());
        let here = [graded(Event::DriveWatch, Some("sda"), 1), graded(Event::DriveWatch, Some("sdb"), 1)];
        assert_eq!(told(&mut tracker, start, 0, &here).len(), 2);
        assert!(tracker.acknowledge(&here[0], anna()));
        assert!(!tracker.acknowledge(&graded(Event::Fail, None, 1), anna()), "it does not stand");
        assert_eq!(known(&tracker), [Some("anna".into()), None]);
        // The other one goes on, here and on a channel that is new.
        assert_eq!(told(&mut tracker, start, day, &here), [(Phase::Repeated, "1".into())]);
        assert_eq!(tracker.repetitions().map(|message| message.cause.component).collect::<Vec<_>>(), [Some("sdb".into())]);
        // A second person changes nothing.
        assert!(tracker.acknowledge(&here[0], Acknowledgement { by: "ben".into(), at_s: 9, note: None }));
        assert_eq!(known(&tracker)[0], Some("anna".into()));
        // Unless he has something to say of it.
        let ordered = Acknowledgement { by: "ben".into(), at_s: 9, note: Some("ordered".into()) };
        assert!(tracker.acknowledge(&here[0], ordered) && tracker.acknowledge(&here[0], anna()));
        assert_eq!(known(&tracker)[0], Some("ben".into()));
        assert_eq!(tracker.acknowledged()[0].acknowledgement.note.as_deref(), Some("ordered"));
        assert!(tracker.unacknowledge(start + 2 * DAY, &here[0]) && known(&tracker) == [None, None]);
        assert_eq!(told(&mut tracker, start, 2 * day + 1, &here).len(), 1, "that of the other");
        assert_eq!(told(&mut tracker, start, 3 * day, &here), [(Phase::Repeated, "1".into())]);
        assert!(tracker.acknowledge(&here[0], anna()));
        assert_eq!(told(&mut tracker, start, 3 * day + 2, &here[1..]).len(), 1, "that of the other");
        assert_eq!(told(&mut tracker, start, 3 * day + 9, &here[1..])[0].0, Phase::Cleared);
        assert_eq!(told(&mut tracker, start, 9 * day, &here)[1].0, Phase::Raised, "it is a new one");
        assert_eq!(known(&tracker), [None, None]);
    }

    #[test]
    fn a_cause_that_becomes_worse_is_told_although_a_person_knows_of_it() {
        let (mut tracker, start) = (Tracker::<u8>::new(DAY), Instant::now());
        let cause = |number| [graded(Event::Fail, Some("sda"), number)];
        told(&mut tracker, start, 0, &cause(2));
        tracker.acknowledge(&cause(2)[0], anna());
        assert_eq!(told(&mut tracker, start, 3, &cause(1)), [], "it is better");
        assert_eq!(told(&mut tracker, start, 6, &cause(2)), [], "it is as it was");
        let worse = told(&mut tracker, start, 9, &cause(3));
        assert_eq!(worse, [(Phase::Raised, "3; worse than when anna acknowledged it".into())]);
        assert_eq!(known(&tracker), [None]);
        assert_eq!(told(&mut tracker, start, 12, &cause(3)), []);
        assert_eq!(told(&mut tracker, start, 9 + DAY.as_secs(), &cause(3)), [(Phase::Repeated, "3".into())]);
        // A member that returned and fails again is one that nobody knows of.
        tracker.acknowledge(&cause(3)[0], anna());
        tracker.renew(start + 2 * DAY, &cause(3)[0]);
        assert_eq!(told(&mut tracker, start, 2 * DAY.as_secs(), &cause(3)), [(Phase::Raised, "3".into())]);
        assert_eq!(known(&tracker), [None]);
    }

    /// After a restart the array is degraded, and which member failed is not known any more.
    #[test]
    fn what_a_person_knows_of_is_known_after_a_restart_unless_it_is_over_or_worse() {
        let start = Instant::now();
        let fails = [graded(Event::Fail, Some("sda"), 2), graded(Event::DriveReplace, Some("sdb"), 1)];
        let stored = || {
            let mut tracker = Tracker::<u8>::new(DAY);
            told(&mut tracker, start, 0, &fails);
            fails.iter().for_each(|cause| assert!(tracker.acknowledge(cause, anna())));
            // The arrays stop with the daemon.
            tracker.forget("tank");
            assert_eq!(tracker.standing().count(), 0);
            tracker.acknowledged()
        };
        assert_eq!(stored().len(), 2);
        let after = |looks: &[(u64, &[Condition<u8>])]| {
            let mut tracker = Tracker::<u8>::new(DAY);
            tracker.restore(stored());
            let told: Vec<_> = looks.iter().flat_map(|(second, here)| told(&mut tracker, start, *second, here)).collect();
            (told.len(), known(&tracker), tracker.acknowledged().len())
        };
        let degraded = |number| graded(Event::DegradedArray, None, number);
        let (anna, health) = (Some("anna".to_owned()), fails[1].clone());
        // A drive's health is known some minutes later.
        assert_eq!(
            after(&[(0, &[degraded(2)]), (400, &[degraded(2), health.clone()])]),
            (0, vec![anna.clone(), anna.clone()], 2)
        );
        assert_eq!(after(&[(0, &[degraded(3)])]), (1, vec![None], 1), "it is worse");
        // The redundancy is back at the first look: another failure is a new one.
        assert_eq!(after(&[(0, &[]), (3, &[degraded(2)])]), (1, vec![None], 1));
        assert_eq!(after(&[(0, &[]), (900, &[]), (903, &[health])]), (1, vec![None], 0), "it was well for too long");
        // A second restart.
        let mut tracker = Tracker::<u8>::new(DAY);
        tracker.restore(stored());
        told(&mut tracker, start, 0, &[degraded(2)]);
        let stored = tracker.acknowledged();
        let mut tracker = Tracker::<u8>::new(DAY);
        tracker.restore(stored);
        assert_eq!((told(&mut tracker, start, 0, &[degraded(2)]), known(&tracker)), (vec![], vec![anna]));
    }

    /// The acknowledgement named the array, and was lost with the name. It went to another array that took the name.
    #[test]
    fn what_a_person_knows_of_an_array_is_known_under_its_new_name_and_of_no_other_array() {
        let names = |names: &[(&str, &str)]| names.iter().map(|(uuid, name)| ((*uuid).into(), (*name).into())).collect::<Names>();
        let degraded = |array: &str| Condition { array: array.into(), ..graded(Event::DegradedArray, None, 2) };
        let start = Instant::now();
        let mut tracker = Tracker::<u8>::new(DAY);
        tracker.set_names(names(&[("1", "tank")]));
        told(&mut tracker, start, 0, &[degraded("tank")]);
        assert!(tracker.acknowledge(&degraded("tank"), anna()));
        tracker.forget("tank");
        let stored = tracker.acknowledged();
        let restored = || {
            let mut tracker = Tracker::<u8>::new(DAY);
            tracker.restore(stored.clone());
            tracker
        };
        for mut tracker in [tracker, restored()] {
            // Another array has the name, and is degraded, or is not.
            tracker.set_names(names(&[("2", "tank")]));
            assert_eq!(told(&mut tracker, start, 10, &[]).len(), 0);
            assert_eq!(told(&mut tracker, start, 13, &[degraded("tank")])[0].0, Phase::Raised);
            // It is there under its new name.
            tracker.set_names(names(&[("2", "tank"), ("1", "lake")]));
            assert_eq!(told(&mut tracker, start, 16, &[degraded("tank"), degraded("lake")]), []);
            assert_eq!(known(&tracker), [None, Some("anna".into())]);
            assert_eq!(tracker.acknowledged()[0].cause.array, "lake");
            // A cause that stands goes on under another name.
            tracker.set_names(names(&[("2", "tank"), ("1", "pool")]));
            assert_eq!(told(&mut tracker, start, 19, &[degraded("tank"), degraded("pool")]), []);
            assert_eq!(known(&tracker), [None, Some("anna".into())]);
        }
    }

    impl Degree for u8 {
        fn is_worse(before: &Condition<u8>, now: &Condition<u8>) -> bool {
            now.said > before.said
        }
    }
}
