//! Calendar events as systemd writes them (systemd.time(7), "Calendar events").
//!
//! `[WEEKDAYS] [[YEAR-]MONTH-DAY] [HOUR:MINUTE[:SECOND]] [ZONE]`, with lists, ranges (`1..7`), repetitions (`0/15`), days from
//! the end of a month (`*-*~1`), and the words `daily`, `weekly`, `monthly` and others. Fractions of a second and `@SECONDS` are
//! refused. A local time that a change of the clocks skips does not occur on that day; one that occurs twice counts once, the
//! first time: as in systemd.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// The years that systemd knows.
const YEARS: (u16, u16) = (1970, 2199);
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// A set of small numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Set(u64);

impl Set {
    fn of(numbers: impl IntoIterator<Item = u16>) -> Self {
        Self(numbers.into_iter().fold(0, |set, number| set | 1 << number))
    }

    fn has(self, number: i8) -> bool {
        self.0 >> number & 1 == 1
    }

    /// The members from `least` on, in order.
    fn from(self, least: i8) -> impl Iterator<Item = i8> {
        (least..64).filter(move |&number| self.has(number))
    }
}

/// The times of a repeated event.
#[derive(Clone)]
pub struct Calendar {
    text: String,
    /// Days of the week, from Monday: 0.
    weekdays: Set,
    /// `None`: every year.
    years: Option<Vec<u16>>,
    months: Set,
    days: Set,
    /// True if days are counted from the end of the month, the last one being 1.
    from_end: bool,
    hours: Set,
    minutes: Set,
    seconds: Set,
    /// `None`: that of the machine.
    zone: Option<TimeZone>,
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({})", self.text)
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Calendar {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text.trim()).map_err(|why| {
            let example = "write it as systemd does, such as \"weekly\", \"Sun 01:00\" or \"Sun *-*-1..7 01:00\"";
            format!("invalid calendar event {text:?} ({why}): {example}, see systemd.time(7)")
        })
    }
}

impl<'de> Deserialize<'de> for Calendar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A calendar event, or `never`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule(pub Option<Calendar>);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(calendar) => calendar.fmt(f),
            None => f.write_str("never"),
        }
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Self(None));
        }
        text.parse().map(|calendar| Self(Some(calendar))).map_err(de::Error::custom)
    }
}

fn parse(text: &str) -> Result<Calendar, String> {
    let (text_in_full, zone) = match text.rsplit_once(char::is_whitespace) {
        Some((rest, name)) if is_zone(name) => (rest.trim(), Some(crate::time_zone(name)?)),
        _ => (text, None),
    };
    let expanded = shorthand(text_in_full).unwrap_or(text_in_full);
    let mut parts = expanded.split_whitespace().peekable();
    let weekdays = match parts.next_if(|part| part.starts_with(|c: char| c.is_ascii_alphabetic())) {
        Some(list) => self::weekdays(list)?,
        None => Set::of(0..7),
    };
    let date = parts.next_if(|part| !part.contains(':'));
    let time = parts.next_if(|part| part.contains(':'));
    if let Some(more) = parts.next() {
        return Err(format!("{more:?} is too much"));
    }
    if expanded.is_empty() {
        return Err("it is empty".into());
    }
    let (years, months, days, from_end) = self::date(date.unwrap_or("*-*-*"))?;
    let (hours, minutes, seconds) = self::time(time.unwrap_or("00:00:00"))?;
    Ok(Calendar { text: text.to_owned(), weekdays, years, months, days, from_end, hours, minutes, seconds, zone })
}

/// A zone follows a date or a time, and no weekday looks like one.
fn is_zone(name: &str) -> bool {
    name == "UTC" || name.contains('/') && name.starts_with(|c: char| c.is_ascii_uppercase())
}

fn shorthand(text: &str) -> Option<&'static str> {
    Some(match text.to_ascii_lowercase().as_str() {
        "minutely" => "*-*-* *:*:00",
        "hourly" => "*-*-* *:00:00",
        "daily" => "*-*-* 00:00:00",
        "weekly" => "Mon *-*-* 00:00:00",
        "monthly" => "*-*-01 00:00:00",
        "quarterly" => "*-01,04,07,10-01 00:00:00",
        "semiannually" => "*-01,07-01 00:00:00",
        "yearly" | "annually" => "*-01-01 00:00:00",
        _ => return None,
    })
}

fn weekdays(list: &str) -> Result<Set, String> {
    let day = |name: &str| {
        let name = name.to_ascii_lowercase();
        let found = WEEKDAYS.iter().position(|day| *day == name || day[..3] == name);
        found.map(|day| day as u16).ok_or_else(|| format!("{name:?} is not a weekday"))
    };
    let mut days = Vec::new();
    for item in list.split(',').filter(|item| !item.is_empty()) {
        match item.split_once("..").or_else(|| item.split_once('-')) {
            None => days.push(day(item)?),
            Some((first, last)) if day(first)? <= day(last)? => days.extend(day(first)?..=day(last)?),
            Some(_) => return Err(format!("{item:?} ends before it begins")),
        }
    }
    Ok(Set::of(days))
}

fn date(text: &str) -> Result<(Option<Vec<u16>>, Set, Set, bool), String> {
    let (rest, day, from_end) = match text.rsplit_once('~') {
        Some((rest, day)) => (rest, day, true),
        None => text.rsplit_once('-').map(|(rest, day)| (rest, day, false)).ok_or_else(|| format!("{text:?} is not a date"))?,
    };
    let (year, month) = rest.rsplit_once('-').unwrap_or(("*", rest));
    let years = match year {
        "*" => None,
        year => Some(numbers(year, YEARS, false)?),
    };
    Ok((years, set(month, (1, 12))?, Set::of(numbers(day, (1, 31), from_end)?), from_end))
}

fn time(text: &str) -> Result<(Set, Set, Set), String> {
    let mut parts = text.split(':');
    let (hour, minute, second) =
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or("00"));
    match parts.next() {
        Some(more) => Err(format!("{more:?} is too much")),
        None => Ok((set(hour, (0, 23))?, set(minute, (0, 59))?, set(second, (0, 59))?)),
    }
}

fn set(text: &str, bounds: (u16, u16)) -> Result<Set, String> {
    numbers(text, bounds, false).map(Set::of)
}

/// The numbers that a list means. `downwards`: a repetition counts towards 1, as days from the end of a month do.
fn numbers(text: &str, (least, most): (u16, u16), downwards: bool) -> Result<Vec<u16>, String> {
    if text == "*" {
        return Ok((least..=most).collect());
    }
    let number = |text: &str| {
        let number = text.parse::<u16>().ok().filter(|number| (least..=most).contains(number));
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        number.filter(|_| digits).ok_or_else(|| format!("{text:?} is not a number from {least} to {most}"))
    };
    let mut all = Vec::new();
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => {
                let step = step.parse::<usize>().ok().filter(|&step| step > 0);
                (range, Some(step.ok_or_else(|| format!("the repetition in {item:?} is 0 or no number"))?))
            }
            None => (item, None),
        };
        match (range.split_once(".."), step) {
            (Some((first, last)), step) if number(first)? <= number(last)? && !downwards => {
                all.extend((number(first)?..=number(last)?).step_by(step.unwrap_or(1)));
            }
            (Some(_), _) if downwards => return Err(format!("{item:?} is a range of days from the end: write a list")),
            (Some(_), _) => return Err(format!("{item:?} ends before it begins")),
            (None, None) => all.push(number(range)?),
            (None, Some(step)) if downwards => all.extend((1..=number(range)?).rev().step_by(step)),
            (None, Some(step)) => all.extend((number(range)?..=most).step_by(step)),
        }
    }
    Ok(all)
}

impl Calendar {
    /// The first time after `after_s`, in seconds since 1970; `None`: there is none before the year 2200. `zone`: of the machine.
    pub fn next(&self, after_s: i64, zone: &TimeZone) -> Option<i64> {
        let zone = self.zone.as_ref().unwrap_or(zone);
        let after = zone.to_datetime(Timestamp::from_second(after_s).ok()?);
        let mut date = after.date();
        let mut is_first = true;
        while (date.year() as u16) <= YEARS.1 {
            if !self.has_month(date) {
                date = first_of_next_month(date)?;
            } else {
                let from = if is_first { (after.hour(), after.minute(), after.second()) } else { (0, 0, 0) };
                if self.has_day(date)
                    && let Some(moment) = self.on(date, from, after_s, zone)
                {
                    return Some(moment);
                }
                date = date.tomorrow().ok()?;
            }
            is_first = false;
        }
        None
    }

    fn has_month(&self, date: Date) -> bool {
        self.years.as_ref().is_none_or(|years| years.contains(&(date.year() as u16))) && self.months.has(date.month())
    }

    fn has_day(&self, date: Date) -> bool {
        let day = if self.from_end { date.days_in_month() - date.day() + 1 } else { date.day() };
        self.days.has(day) && self.weekdays.has(date.weekday().to_monday_zero_offset())
    }

    /// The first time on this day, from this time of the day on.
    fn on(&self, date: Date, from: (i8, i8, i8), after_s: i64, zone: &TimeZone) -> Option<i64> {
        for hour in self.hours.from(from.0) {
            for minute in self.minutes.from(if hour == from.0 { from.1 } else { 0 }) {
                for second in self.seconds.from(if (hour, minute) == (from.0, from.1) { from.2 } else { 0 }) {
                    if let Some(moment) = moment(date.at(hour, minute, second, 0), zone).filter(|&moment| moment > after_s) {
                        return Some(moment);
                    }
                }
            }
        }
        None
    }
}

/// `None`: a change of the clocks skips this time.
fn moment(local: DateTime, zone: &TimeZone) -> Option<i64> {
    let found = zone.to_ambiguous_timestamp(local);
    let is_skipped = matches!(found.offset(), AmbiguousOffset::Gap { .. });
    found.earlier().ok().filter(|_| !is_skipped).map(Timestamp::as_second)
}

fn first_of_next_month(date: Date) -> Option<Date> {
    let (year, month) = if date.month() == 12 { (date.year() + 1, 1) } else { (date.year(), date.month() + 1) };
    Date::new(year, month, 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("", "empty"),
            ("foo", "weekday"),
            ("5", "not a date"),
            ("25:00", "0 to 23"),
            ("10..2:00", "ends before"),
            ("Sun..Mon", "ends before"),
            ("*-13-1", "1 to 12"),
            ("02:30:0.5", "0 to 59"),
            ("0/0:00", "is 0 or no number"),
            ("1:2:3:4", "too much"),
            ("Mon 2026-01-01 12:00 13:00", "too much"),
            ("12:00 Mars/Olympus", "time zone"),
        ] {
            let error = text.parse::<Calendar>().expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn what_never_comes_has_no_time() {
        for text in ["2020-01-01", "*-02-30", "2026-02-29"] {
            let calendar: Calendar = text.parse().expect("it is valid");
            assert_eq!(calendar.next(1_800_000_000, &TimeZone::UTC), None, "{text}");
        }
    }
    #[test]
    fn a_schedule_is_shown_as_it_is_written() {
        let weekly = Schedule(Some("weekly".parse().expect("it is valid")));
        assert_eq!((weekly.to_string(), Schedule(None).to_string()), ("weekly".into(), "never".into()));
    }
}
