//! Goal: whatever lies on image files, with every checksum right, `examine`, `assemble` and `serve --read-only` end within five
//! seconds of processor time (a minute on a busy machine), with one of their exit codes and without a panic, and change no file.
//! Method: the mutants that the tests of `format` try in memory, as files for the real program. `STRIA_MUTANTS=5000` tries more,
//! from another seed on with `STRIA_MUTANTS_FROM`.

#[path = "../../format/tests/mutants/mod.rs"]
mod mutants;
mod support;

use mutants::alter::{Mutant, Target, alter, targets};
use mutants::scenes::{Scene, all};
use mutants::support::MemoryDrive;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stria_chance::Chance;
use support::{Place, contents};

/// Of the processor, as other work may hold up a program that does nothing wrong.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of the clock: a program that waits for nothing.
const LONGEST: Duration = Duration::from_secs(60);
const SEEDS: u64 = 200;
/// 16 MiB: larger ones are tried in memory.
const SECTORS_MAX: u64 = 1 << 15;

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn image(place: &Place, index: usize, drive: &MemoryDrive) -> String {
    let path = place.path(&format!("d{index}"));
    let file = std::fs::File::create(&path).expect("an image file");
    file.set_len(drive.size_sectors * 512).expect("room");
    for (sector, bytes) in &drive.sectors {
        file.write_all_at(bytes, sector * 512).expect("room");
    }
    path.to_str().expect("a plain path").to_owned()
}

/// The processor time that a program has taken.
fn worked(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; user and system time are the twelfth and thirteenth field after it, in
    // hundredths.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Waits for its end. Returns its standard error.
fn ended(mut child: Child, what: &str, seed: &str) -> String {
    let begun = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if worked(child.id()) > PATIENCE || begun.elapsed() > LONGEST {
            child.kill().expect("it runs");
            panic!("{what} does not end: {seed}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let code = child.wait().expect("it has ended").code();
    assert!(matches!(code, Some(0 | 1 | 3 | 4)), "{what} ends with {code:?}: {said}\n{seed}");
    assert!(!said.contains("panicked"), "{what}: {said}\n{seed}");
    said
}

fn tried(place: &Place, mutant: &Mutant, seed: &str) -> bool {
    let images: Vec<String> = mutant.drives.iter().enumerate().map(|(index, drive)| image(place, index, drive)).collect();
    let before = contents(&images);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    let start = |arguments: &[&str]| {
        let mut command = place.command(&[arguments, &drives[..]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    };
    for arguments in [&["examine"][..], &["examine", "--raw"], &["--json", "assemble"]] {
        let mut child = start(arguments);
        // Its output must be read, or it waits.
        let mut stdout = child.stdout.take().expect("a pipe");
        let reader = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        ended(child, &arguments.join(" "), seed);
        reader.join().expect("no panic").expect("it reads");
    }
    let socket = format!("unix:{}", place.path("nbd.sock").display());
    let begun = Instant::now();
    let mut serve = start(&["serve", "--read-only", "--nbd", &socket]);
    let lines = BufReader::new(serve.stdout.take().expect("a pipe")).lines();
    let serves = lines.map_while(Result::ok).any(|line| line.starts_with("control"));
    let worked = worked(serve.id());
    assert!(worked < PATIENCE && begun.elapsed() < LONGEST, "serve takes {worked:?} of {:?} to start: {seed}", begun.elapsed());
    if serves {
        let stopped = std::process::Command::new("kill").arg(serve.id().to_string()).status().expect("kill is everywhere");
        assert!(stopped.success(), "{seed}");
    }
    ended(serve, "serve --read-only", seed);
    assert!(before == contents(&images), "bytes were changed: {seed}");
    serves
}

#[test]
fn mutants_change_nothing_through_the_program() {
    let scenes: Vec<Scene> =
        all().into_iter().filter(|scene| scene.drives.iter().all(|drive| drive.size_sectors <= SECTORS_MAX)).collect();
    let targets: Vec<Vec<Target>> = scenes.iter().map(|scene| targets(&scene.drives)).collect();
    let (first, count) = (asked("STRIA_MUTANTS_FROM").unwrap_or(0), asked("STRIA_MUTANTS").unwrap_or(SEEDS));
    let (next, served) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        let place = Place::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            let mut chance = Chance::from_state(seed ^ 0x5eed << 32);
            let index = chance.below(scenes.len() as u64) as usize;
            let mutant = alter(&scenes[index], &targets[index], &scenes, &mut chance);
            let changes: Vec<String> = mutant.changes.iter().map(ToString::to_string).collect();
            let told = format!(
                "seed {seed} (STRIA_MUTANTS_FROM={seed} STRIA_MUTANTS=1), {}: {}",
                scenes[index].name,
                changes.join("; ")
            );
            if mutant.drives.iter().all(|drive| drive.size_sectors <= SECTORS_MAX) && tried(&place, &mutant, &told) {
                served.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(work))));
    let served = served.into_inner();
    eprintln!("{served} of {count} mutants were served");
    assert!(count < SEEDS || served > count / 4, "only {served} of {count} were served");
}
