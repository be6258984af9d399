//! Routine work: the jobs that may begin now.
//!
//! ```text
//!   calendar  "Sun *-*-1..7 01:00" ─ next time ─┐
//!   hours     "22:00-06:00" ─ quiet now? ───────┼▶ plan ─ the jobs that may begin now
//!   links     of jobs and of what runs ─────────┘
//! ```
//! The crate knows neither arrays nor drives, and has no clock: its user passes the time, in seconds since 1970, and the running
//! work. So a test covers years in a moment. The calendar is that of systemd.time(7), and is tested against `systemd-analyze
//! calendar`.

#![forbid(unsafe_code)]

mod calendar;
mod hours;
mod plan;

pub use calendar::{Calendar, Schedule};
pub use hours::QuietHours;
pub use jiff::tz::TimeZone;
pub use plan::{Job, due, last_run, may_begin};

/// The time zone with this name, such as `Europe/Berlin`.
///
/// # Errors
/// When this machine does not know it.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("unknown time zone {name:?}: see `timedatectl list-timezones`"))
}

/// The name of a time zone, such as `Europe/Berlin`; of a zone without a name its distance from UTC at that moment, such as
/// `UTC+01:00`.
pub fn zone_text(unix_s: i64, zone: &TimeZone) -> String {
    // jiff takes UTC where the machine's setting is missing or wrong.
    if let Some(name) = zone.iana_name().filter(|_| !zone.is_unknown()) {
        return name.to_owned();
    }
    let Ok(moment) = jiff::Timestamp::from_second(unix_s) else { return "UTC".into() };
    match zone.to_offset(moment).seconds() / 60 {
        0 => "UTC".into(),
        minutes => format!("UTC{}{:02}:{:02}", if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60, minutes.abs() % 60),
    }
}

/// The local date and time of a moment, as `2026-11-23 01:00`.
pub fn local_text(unix_s: i64, zone: &TimeZone) -> String {
    let Ok(moment) = jiff::Timestamp::from_second(unix_s) else { return "never".into() };
    let local = zone.to_datetime(moment);
    let (date, time) = (local.date(), local.time());
    format!("{}-{:02}-{:02} {:02}:{:02}", date.year(), date.month(), date.day(), time.hour(), time.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_told_by_its_name_or_by_its_distance_from_utc() {
        let hour = |hours| TimeZone::fixed(jiff::tz::offset(hours));
        for (zone, text) in [
            (TimeZone::UTC, "UTC"),
            (TimeZone::unknown(), "UTC"),
            (hour(0), "UTC"),
            (hour(5), "UTC+05:00"),
            (hour(-3), "UTC-03:00"),
        ] {
            assert_eq!(zone_text(1_800_000_000, &zone), text);
        }
        let india = TimeZone::posix("IST-5:30").expect("a rule");
        assert_eq!(zone_text(1_800_000_000, &india), "UTC+05:30");
        if let Ok(zone) = time_zone("Europe/Berlin") {
            assert_eq!(zone_text(1_800_000_000, &zone), "Europe/Berlin");
        }
    }
}
