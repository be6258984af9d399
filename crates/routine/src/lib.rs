//! Routine work: the jobs that may begin now.
//!
//! ```text
//!   calendar  "Sun *-*-1..7 01:00" ─ next time ─┐
//!   hours     "22:00-06:00" ─ quiet now? ───────┼▶ plan ─ the jobs that may begin now
//!   links     of jobs and of what runs ─────────┘
//! ```
//! The crate knows neither arrays nor drives, and has no clock: its user passes the time, in seconds since 1970, and the running work. So a
//! test covers years in a moment. The calendar is that of systemd.time(7), and is tested against `systemd-analyze calendar`.

#![forbid(unsafe_code)]

mod calendar;
mod hours;
mod plan;

pub use calendar::{Calendar, Schedule};
pub use hours::QuietHours;
pub use jiff::tz::TimeZone;
pub use plan::{Job, due, may_begin};

/// The time zone with this name, such as `Europe/Berlin`.
///
/// # Errors
/// When this machine does not know it.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("unknown time zone {name:?}: see `timedatectl list-timezones`"))
}

/// The local date and time of a moment, as `2026-11-23 01:00`.
pub fn local_text(unix_s: i64, zone: &TimeZone) -> String {
    let Ok(moment) = jiff::Timestamp::from_second(unix_s) else { return "never".into() };
    let local = zone.to_datetime(moment);
    let (date, time) = (local.date(), local.time());
    format!("{}-{:02}-{:02} {:02}:{:02}", date.year(), date.month(), date.day(), time.hour(), time.minute())
}
