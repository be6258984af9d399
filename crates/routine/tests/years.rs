//! Goal: over years of a virtual clock every run takes place once, in quiet hours, and never two on one link, even if the clock
//! jumps.
//! Method: a machine of arrays on shared links, that is off now and then, and whose clock jumps.

use std::collections::{BTreeMap, BTreeSet};
use stria_chance::Chance;
use stria_routine::{Calendar, Job, QuietHours, TimeZone, due, may_begin, time_zone};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// 2026-01-01 00:00 UTC.
const START: i64 = 1_767_225_600;

fn calendar(text: &str) -> Calendar {
    text.parse().expect("a calendar event")
}

/// A job of the machine.
struct Work {
    calendar: Calendar,
    links: BTreeSet<String>,
    lasts: i64,
    since: i64,
    ends: Option<i64>,
    began: Vec<i64>,
}

impl Work {
    fn new(text: &str, links: &[&str], lasts: i64) -> Self {
        let links = links.iter().map(|link| (*link).to_owned()).collect();
        Self { calendar: calendar(text), links, lasts, since: START, ends: None, began: Vec::new() }
    }
}

struct Machine {
    zone: TimeZone,
    hours: QuietHours,
    work: Vec<Work>,
}

impl Machine {
    /// One check of the daemon, at the time of its clock.
    fn look(&mut self, now: i64) {
        self.work.iter_mut().for_each(|work| work.ends = work.ends.filter(|&ends| ends > now));
        if !self.hours.contain(now, &self.zone) {
            return;
        }
        let running = self.work.iter().filter(|work| work.ends.is_some());
        let busy: BTreeSet<String> = running.flat_map(|work| work.links.clone()).collect();
        let idle: Vec<usize> = (0..self.work.len()).filter(|&index| self.work[index].ends.is_none()).collect();
        let jobs: Vec<Job> = idle
            .iter()
            .map(|&index| Job {
                calendar: &self.work[index].calendar,
                since_s: self.work[index].since,
                links: self.work[index].links.clone(),
            })
            .collect();
        let begin: Vec<usize> = may_begin(&jobs, &busy, now, &self.zone).into_iter().map(|index| idle[index]).collect();
        for index in begin {
            let work = &mut self.work[index];
            (work.since, work.ends) = (now, Some(now + work.lasts));
            work.began.push(now);
        }
        let mut used = BTreeMap::new();
        for (index, work) in self.work.iter().enumerate().filter(|(_, work)| work.ends.is_some()) {
            for link in &work.links {
                assert_eq!(used.insert(link.clone(), index), None, "two at once on {link} at {now}");
            }
        }
    }
}

fn machine(zone: &str, hours: &str) -> Machine {
    let work = vec![
        Work::new("Sun *-*-1..7 01:00", &["pci:a", "tank"], 5 * HOUR),
        Work::new("Sun *-*-1..7 01:00", &["pci:a", "pool"], 3 * HOUR),
        Work::new("Sun *-*-1..7 01:00", &["pci:b", "lake"], 2 * HOUR),
        Work::new("Sat 02:30", &["pci:a", "tank"], 10 * MINUTE),
    ];
    Machine { zone: time_zone(zone).expect("tzdata has it"), hours: hours.parse().expect("hours"), work }
}

#[test]
fn each_run_takes_place_once_in_its_time_over_years() {
    let mut machine = machine("Europe/Berlin", "22:00-06:00");
    let years = 3;
    for minute in (0..years * 365 * DAY).step_by(MINUTE as usize) {
        machine.look(START + minute);
    }
    for (index, lasts_months) in [(0, true), (1, true), (2, true), (3, false)] {
        let count = machine.work[index].began.len();
        let wanted = if lasts_months { years * 12 } else { years * 52 };
        // The local time 02:30 of the last Sunday in March is skipped, and this job's day is Saturday.
        assert!((wanted..=wanted + 1).contains(&(count as i64)), "{index}: {count} of {wanted}");
        for &began in &machine.work[index].began {
            assert!(machine.hours.contain(began, &machine.zone), "{index} began at {began}");
        }
    }
    let hour_of_day: BTreeSet<i64> = machine.work[2].began.iter().map(|began| (began - START) % DAY / HOUR).collect();
    assert_eq!(hour_of_day, BTreeSet::from([0, 23]), "01:00 in Berlin, in winter and in summer");
}

#[test]
fn runs_that_a_machine_slept_through_are_made_up_once() {
    let mut machine = machine("UTC", "22:00-06:00");
    machine.work[0].lasts = 8 * HOUR;
    // The machine is on for an hour a day in the afternoon, then at 23:00 after ten weeks.
    for day in 0..70 {
        (0..60).for_each(|minute| machine.look(START + day * DAY + 15 * HOUR + minute * MINUTE));
    }
    assert!(machine.work.iter().all(|work| work.began.is_empty()), "never in loud hours");
    (0..10 * 60).for_each(|minute| machine.look(START + 70 * DAY + 23 * HOUR + minute * MINUTE));
    assert!(machine.work.iter().all(|work| work.began.len() <= 1), "one makes up for all");
    // The long one ends after the night, so another on its link does not begin in it; what waited longest went first.
    let ran: usize = machine.work.iter().map(|work| work.began.len()).sum();
    assert_eq!(
        (ran, machine.work[2].began.len()),
        (3, 1),
        "{:?}",
        machine.work.iter().map(|work| &work.began).collect::<Vec<_>>()
    );
    (0..10 * 60).for_each(|minute| machine.look(START + 71 * DAY + 22 * HOUR + minute * MINUTE));
    assert!(machine.work[..3].iter().all(|work| work.began.len() == 1), "the rest comes in the next night");
}

#[test]
fn a_clock_that_jumps_neither_loses_nor_repeats_for_ever() {
    let zone = TimeZone::UTC;
    let weekly = calendar("Sun 01:00");
    // The clock was two years ahead at the last run. That does not postpone the next run by two years.
    let now = START + 10 * DAY;
    assert_eq!(due(&weekly, now + 730 * DAY, now, &zone), None);
    let mut since = now + 730 * DAY;
    let mut runs = 0;
    for hour in 0..28 * 24 {
        let now = now + hour * HOUR;
        since = since.min(now);
        if due(&weekly, since, now, &zone).is_some() {
            (since, runs) = (now, runs + 1);
        }
    }
    assert_eq!(runs, 4);
    // Random jumps of up to a month, back and forth: at most one run a step, and after calm weeks all is as usual.
    let mut chance = Chance::new(7, 0);
    let (mut now, mut since) = (START, START);
    for _ in 0..2000 {
        now += chance.below(60 * DAY as u64) as i64 - 30 * DAY;
        now = now.max(START - 3650 * DAY);
        since = since.min(now);
        if due(&weekly, since, now, &zone).is_some() {
            since = now;
            assert_eq!(due(&weekly, since, now, &zone), None, "once");
        }
    }
}

#[test]
fn a_large_job_is_not_starved_by_small_ones() {
    let daily = calendar("daily");
    let links = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let job = |since_s, names: &[&str]| Job { calendar: &daily, since_s, links: links(names) };
    let jobs = [job(START, &["a", "b"]), job(START + DAY, &["b"]), job(START + DAY, &["c"])];
    let begin = may_begin(&jobs, &links(&["a"]), START + 3 * DAY, &TimeZone::UTC);
    assert_eq!(begin, [2], "the second would keep the first waiting");
}
