//! Sessions of a hostile client against a whole daemon in this process, guided by coverage. See `tests/hostile_api`.
//!
//! `STRIA_FUZZ_ROLE` is the client's: `view` (also: no drive may change), `operate`, `admin`.

#![no_main]

#[path = "../../tests/hostile_api/mod.rs"]
mod hostile_api;

use hostile_api::machine::Machine;
use hostile_api::stream::Choices;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

/// The machine, the client's role, and when each drive was written last.
static MACHINE: LazyLock<(Machine, String, Vec<i64>)> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("stria-fuzz-{}", std::process::id()));
    let run = |arguments: &[&str]| stria_manage::run(arguments).unwrap_or_else(|failure| panic!("{arguments:?}: {failure}"));
    let machine = Machine::new(&folder, run);
    let (config, control) = (machine.config(), machine.config().with_file_name("control.sock"));
    let (config, control) = (config.display().to_string(), control.display().to_string());
    thread::spawn(move || run(&["daemon", "--quiet", "--config", &config, "--socket", &control]));
    // Alarms, health and the ends of starts write their last within this.
    thread::sleep(Duration::from_secs(10));
    let role = std::env::var("STRIA_FUZZ_ROLE").unwrap_or_else(|_| "view".into());
    let written = written(&machine);
    (machine, role, written)
});

fn written(machine: &Machine) -> Vec<i64> {
    machine
        .drives
        .iter()
        .map(|drive| fs::metadata(drive).map(|meta| meta.mtime() * 1_000_000_000 + meta.mtime_nsec()).expect("a file"))
        .collect()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (machine, role, before) = &*MACHINE;
    machine.session(role, &mut Choices(bytes));
    assert!(role != "view" || written(machine) == *before, "a viewer has written");
});
