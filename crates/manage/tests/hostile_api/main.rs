//! Goal: no request of a user of the API makes the daemon panic, hang for 5 s, take memory for good or answer 500. A user with
//! the role `view` changes no drive and no configuration; with `operate`, no data, nothing of the configuration but the pool of
//! spares, and a plan that needs an admin is refused with 403.
//! Method: requests as the API's document describes them, some of them altered, against the real daemon with arrays on image
//! files. `STRIA_FUZZ_REQUESTS=100000 STRIA_FUZZ_SEED=1` tries more; `fuzz/run` lets coverage guide them.

#[path = "mod.rs"]
mod hostile_api;
#[path = "../support/mod.rs"]
mod support;

use hostile_api::machine::Machine;
use hostile_api::stream::{Choices, choices_of};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;
use support::daemon::Daemon;
use support::{PATIENCE, Place, contents};

const DATA: &[u8] = &[0x5a; 4096];
/// Far more than the daemon needs for three small arrays, and far less than what some hundred requests could leave.
const MEMORY_MIB_MAX: u64 = 400;

/// Sessions of a user. Returns how often each status was answered.
fn sessions(machine: &Machine, role: &str) -> BTreeMap<u16, u64> {
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let (first, count) = (number("STRIA_FUZZ_SEED", 0), number("STRIA_FUZZ_REQUESTS", 600));
    let mut seen = BTreeMap::new();
    for seed in first..first + count {
        let session = || machine.session(role, &mut Choices(&choices_of(seed)));
        let statuses = std::panic::catch_unwind(std::panic::AssertUnwindSafe(session))
            .unwrap_or_else(|_| panic!("the sessions of {role}: STRIA_FUZZ_SEED={seed} STRIA_FUZZ_REQUESTS=1"));
        statuses.into_iter().for_each(|status| *seen.entry(status).or_default() += 1);
    }
    println!("{role}: {seen:?}");
    assert!(count < 600 || (seen.len() >= 5 && seen.contains_key(&200)), "requests that are all alike: {seen:?}");
    seen
}

fn machine(place: &Place) -> Machine {
    Machine::new(&place.path(""), |arguments| {
        place.ok(arguments);
    })
}

fn ends_well(daemon: Daemon) {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("it runs");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(kib.is_some_and(|kib| kib < MEMORY_MIB_MAX << 10), "{kib:?} KiB");
    daemon.signal("-TERM");
    let log = daemon.ended_well();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_viewer_changes_nothing() {
    let place = Place::new();
    let machine = machine(&place);
    let daemon = Daemon::start(&place);
    let before = (contents(&machine.drives), fs::read(machine.config()).expect("a file"));
    let seen = sessions(&machine, "view");
    assert!(seen.contains_key(&403), "{seen:?}");
    assert!(before == (contents(&machine.drives), fs::read(machine.config()).expect("a file")), "something was written");
    ends_well(daemon);
}

#[test]
fn an_operator_loses_nothing() {
    let place = Place::new();
    let machine = machine(&place);
    let daemon = Daemon::start(&place);
    let (names, nbd) = (["tank", "pair", "wide"], place.path("control.nbd"));
    for name in names {
        support::nbd::Client::connect(&nbd, name).write(4096, DATA).expect("a write");
    }
    let config = || {
        let text = fs::read_to_string(machine.config()).expect("a file");
        let mut config: toml::Table = text.parse().expect("TOML");
        config.remove("spares");
        config
    };
    let before = config();
    let seen = sessions(&machine, "operate");
    let refused = machine.refused_jobs.load(Ordering::Relaxed);
    println!("plans of an admin that were refused: {refused}");
    assert!(
        std::env::var_os("STRIA_FUZZ_REQUESTS").is_some() || seen.contains_key(&202) && refused > 0,
        "too little was tried: {seen:?}"
    );
    assert_eq!(before, config(), "the configuration was written");
    for name in names {
        // It may be stopped, or be starting or stopping.
        let end = std::time::Instant::now() + PATIENCE;
        while !place.run(&["--json", "status", name]).stdout.contains("nbd+unix") {
            assert!(std::time::Instant::now() < end, "{name} does not start");
            place.run(&["start", name]);
        }
        let read = support::nbd::Client::connect(&nbd, name).read(4096, 4096).expect("a read");
        assert!(read == DATA, "data of {name} is lost");
    }
    ends_well(daemon);
}

#[test]
fn root_is_answered() {
    let place = Place::new();
    let machine = machine(&place);
    let daemon = Daemon::start(&place);
    sessions(&machine, "admin");
    ends_well(daemon);
}
