//! Goal: over years of a virtual clock every run takes place once, in quiet hours, and never two on one link, even if the clock
//! jumps.
//! Method: a machine of arrays on shared links, that is off now and then, and whose clock jumps.

use std::collections::{BTreeMap, BTreeSet};
use stria_chance::Chance;
use stria_routine::{Calendar, Job, QuietHours, TimeZone, due, last_run, may_begin, time_zone};

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

/// A weekly job as the daemon does it, with the times of its runs by its clock.
struct Weekly {
    calendar: Calendar,
    since: i64,
    runs: Vec<i64>,
}

impl Weekly {
    fn new(since: i64) -> Self {
        Self { calendar: calendar("Sun 01:00"), since, runs: Vec::new() }
    }

    /// One check by a daemon that has run for so long.
    fn look(&mut self, now: i64, watched: i64) {
        self.since = last_run(self.since, now, watched);
        if due(&self.calendar, self.since, now, &TimeZone::UTC).is_some() {
            self.since = now;
            self.runs.push(now);
            assert_eq!(due(&self.calendar, self.since, now, &TimeZone::UTC), None, "once");
        }
    }

    /// Each run is one of another week.
    fn has_no_week_twice(&self) -> bool {
        self.runs.windows(2).all(|pair| self.calendar.next(pair[0], &TimeZone::UTC).is_some_and(|next| next <= pair[1]))
    }
}

#[test]
fn a_run_by_a_clock_that_was_years_ahead_does_not_postpone_the_next_by_years() {
    let now = START + 10 * DAY;
    let mut weekly = Weekly::new(now + 730 * DAY);
    assert_eq!(due(&weekly.calendar, weekly.since, now, &TimeZone::UTC), None);
    (0..29 * 24).for_each(|hour| weekly.look(now + hour * HOUR, hour * HOUR));
    assert_eq!(weekly.runs.len(), 4, "{:?}", weekly.runs);
}

/// The clock of a machine without a battery begins in 1970, or at the last shutdown, and is right once a time server is reached.
/// Every boot ran everything.
#[test]
fn a_clock_that_is_behind_at_each_boot_repeats_nothing() {
    for behind in [START - 7 * DAY, 2 * DAY, 3 * HOUR, 5 * MINUTE] {
        let mut weekly = Weekly::new(START);
        for day in 0..28 {
            let morning = START + day * DAY + 8 * HOUR;
            (0..30).for_each(|minute| weekly.look(morning - behind + minute * MINUTE, minute * MINUTE));
            (30..600).for_each(|minute| weekly.look(morning + minute * MINUTE, minute * MINUTE));
        }
        assert_eq!(weekly.runs.len(), 4, "{behind}: {:?}", weekly.runs);
        assert!(weekly.has_no_week_twice());
    }
}

#[test]
fn a_step_back_just_after_a_run_began_begins_no_second_one() {
    // A Sunday.
    let due = START + 3 * DAY + HOUR;
    for (step, watched) in [(1, 0), (1, 30 * DAY), (HOUR, 30 * DAY), (DAY, 30 * DAY)] {
        let mut weekly = Weekly::new(START);
        (-60..=0).for_each(|second| weekly.look(due + second, watched + second));
        (0..DAY + HOUR).step_by(10).for_each(|second| weekly.look(due - step + second, watched + second));
        assert_eq!(weekly.runs.len(), 1, "{step}: {:?}", weekly.runs);
    }
}

#[test]
fn a_clock_that_jumps_at_random_repeats_no_week_and_loses_none_afterwards() {
    let mut runs = 0;
    for seed in 0..50 {
        let mut chance = Chance::new(seed, 0);
        let (mut now, mut weekly) = (START, Weekly::new(START));
        // Back and forth by up to a month, each time with a boot.
        for _ in 0..500 {
            now += chance.below(60 * DAY as u64) as i64 - 30 * DAY;
            now = now.max(START - 3650 * DAY);
            (0..10).for_each(|minute| weekly.look(now + minute * MINUTE, minute * MINUTE));
        }
        assert!(weekly.has_no_week_twice(), "{seed}: {:?}", weekly.runs);
        // A clock that lies behind the last run is believed after a day, which may be that of a run.
        let before = weekly.runs.len();
        runs += before;
        (0..30 * 24).for_each(|hour| weekly.look(now + hour * HOUR, hour * HOUR));
        let calm = weekly.runs.len() - before;
        assert!((3..=5).contains(&calm), "{seed}: {calm}");
    }
    assert!(runs > 500, "{runs}");
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
