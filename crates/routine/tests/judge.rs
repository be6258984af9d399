//! Goal: calendar events have the same meaning as in systemd.
//! Method: `systemd-analyze calendar` is the judge, over changes of the clocks too. It comes with systemd; without it the test is
//! skipped only where STRIA_SKIP_TOOLS allows that.

use std::process::Command;
use stria_routine::{Calendar, time_zone};

const EXPRESSIONS: [&str; 33] = [
    "minutely",
    "hourly",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "semiannually",
    "yearly",
    "annually",
    "Sun *-*-1..7 01:00",
    "Sun *-*-* 01:00",
    "Mon,Tue *-*-*",
    "Mon-Fri 22:00",
    "Sat..Sun 3:15:30",
    "mon..wed,sunday 1:2",
    "*-*-* *:0/15",
    "*:30",
    "02:30",
    "03:00",
    "*-2-29",
    "Mon *-05~07/1",
    "*-*~1",
    "*-*~3 2:30",
    "*-*-1/7",
    "12-25",
    "2027-01-01",
    "1:2/3",
    "*-1,4,7,10-01 00:00:00 UTC",
    "Mon *-*-* 02:30 Europe/Berlin",
    "2027,2029-*-13",
    "Fri *-*-13",
    "*:*:0/20",
    "0,12..14/2:5",
];

/// Systemd's answer: the next times after this one, in seconds since 1970; `None`: it refuses the expression.
fn judge(expression: &str, zone: &str, after: &str) -> Option<Vec<i64>> {
    let output = Command::new("systemd-analyze")
        .args(["calendar", "--iterations=6", &format!("--base-time={after}"), expression])
        .env("TZ", zone)
        .output()
        .expect("it started before");
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).expect("text");
    // Each time is followed by itself in UTC if the zone is another.
    let marks: &[&str] = if zone == "UTC" { &["Next elapse:", "Iter. #"] } else { &["(in UTC):"] };
    let times =
        text.lines().map(str::trim).filter(|line| marks.iter().any(|mark| line.starts_with(mark)) && line.ends_with("UTC"));
    let seconds = times.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let stamp = format!("{}T{}Z", words[words.len() - 3], words[words.len() - 2]);
        stamp.parse::<jiff::Timestamp>().expect("a time").as_second()
    });
    Some(seconds.collect())
}

#[test]
fn calendar_events_mean_what_they_mean_to_systemd() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("STRIA_SKIP_TOOLS").is_some(),
            "systemd-analyze is missing (or set STRIA_SKIP_TOOLS to go without)"
        );
        return;
    }
    let mut compared = 0;
    // Zones whose clocks change on the first of a month are left out: systemd 252 skips that day (`*-*-1/7` in New York, November
    // 2026).
    for zone in ["UTC", "Europe/Berlin"] {
        let here = time_zone(zone).expect("tzdata has it");
        // Times before both changes of the clocks in each zone, and at the end of a leap year's February.
        for after in
            ["2026-03-07 11:00:00", "2026-03-28 22:17:03", "2026-10-24 21:59:59", "2026-10-31 20:00:00", "2028-02-28 23:59:59"]
        {
            for expression in EXPRESSIONS {
                let wanted = judge(expression, zone, after);
                let own = expression.parse::<Calendar>();
                let Some(wanted) = wanted else {
                    assert!(own.is_err(), "systemd refuses {expression:?}");
                    continue;
                };
                let Ok(calendar) = own else { panic!("systemd takes {expression:?}: {own:?}") };
                let local: jiff::civil::DateTime = after.parse().expect("a time");
                let mut moment = here.to_ambiguous_timestamp(local).compatible().expect("it occurs").as_second();
                for wanted in wanted {
                    let next = calendar.next(moment, &here);
                    assert_eq!(next, Some(wanted), "{expression:?} in {zone} after {moment} ({after})");
                    moment = wanted;
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 1500, "{compared}");
}
