//! The hours in which routine work may run.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, de};
use std::str::FromStr;

/// A range of local times, in minutes of a day. One that ends before it begins goes on into the next day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    from: u16,
    until: u16,
}

/// Quiet hours, such as `22:00-06:00`; several have commas between them. Without any, all hours are quiet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuietHours(Vec<Range>);

impl FromStr for QuietHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("invalid hours {text:?}: write \"22:00-06:00\", or several such ranges with commas between them");
        let minute = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let range = |text: &str| {
            let (from, until) = text.split_once('-')?;
            let range = Range { from: minute(from)?, until: minute(until)? };
            (range.from != range.until).then_some(range)
        };
        text.split(',').map(|text| range(text).ok_or_else(usage)).collect::<Result<_, _>>().map(Self)
    }
}

impl<'de> Deserialize<'de> for QuietHours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl QuietHours {
    /// True if this moment is in these hours, by the clocks of `zone`.
    pub fn contain(&self, now_s: i64, zone: &TimeZone) -> bool {
        let Ok(now) = Timestamp::from_second(now_s) else { return false };
        let now = zone.to_datetime(now);
        let minute = now.hour() as u16 * 60 + now.minute() as u16;
        self.0.is_empty()
            || self.0.iter().any(|range| match range.from < range.until {
                true => (range.from..range.until).contains(&minute),
                false => minute >= range.from || minute < range.until,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_go_over_midnight() {
        let hours: QuietHours = "22:00-06:30, 12:00-13:00".parse().expect("hours");
        for (hour, minute, quiet) in
            [(21, 59, false), (22, 0, true), (0, 0, true), (6, 29, true), (6, 30, false), (12, 0, true), (13, 0, false)]
        {
            assert_eq!(hours.contain((hour * 60 + minute) * 60, &TimeZone::UTC), quiet, "{hour}:{minute}");
        }
        assert!(QuietHours::default().contain(0, &TimeZone::UTC));
    }

    #[test]
    fn hours_are_those_of_the_zone() {
        let (hours, berlin): (QuietHours, _) =
            ("02:00-03:00".parse().expect("hours"), crate::time_zone("Europe/Berlin").expect("it exists"));
        // 2026-07-01 00:30 UTC is 02:30 in Berlin.
        assert!(hours.contain(1_782_865_800, &berlin) && !hours.contain(1_782_865_800, &TimeZone::UTC));
    }

    #[test]
    fn mistakes_are_refused() {
        for text in ["", "22:00", "24:00-06:00", "22:00-06:60", "22:00-22:00", "ten-six"] {
            assert!(text.parse::<QuietHours>().is_err(), "{text}");
        }
    }
}
