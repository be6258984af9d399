//! Goal: with any content of drives under valid checksums, the program does not panic, hang, use unbounded memory, write to
//! forbidden positions, or treat old bytes as new.
//! Method: members of arrays of every level in every state, and drives with the marks of others, are altered: single fields,
//! several at once, bytes, torn halves of pages, drives cut short. Each mutant is examined, found, opened, replayed, read,
//! written, stopped and found again, in memory, as `stria-host` does it.
//!
//!     STRIA_MUTANTS=1000000 cargo test --release -p stria-format --test mutants      a night's worth
//!     STRIA_MUTANT=4711 cargo test -p stria-format --test mutants -- --nocapture     one of them, in words
//!
//! `crates/format/fuzz/run` alters drives as coverage suggests.

#[path = "mutants/mod.rs"]
mod mutants;

use mutants::alter::{Mutant, Target};
use mutants::life::{Tally, life};
use mutants::scenes::{LOOKED_AT, Scene};
use mutants::support::running::pattern;
use mutants::tree::World;
use mutants::{alter, scenes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stria_block::Buffer;
use stria_chance::Chance;
use stria_format::detect::detect;
use stria_format::md::Options;

/// The memory and time that one mutant may take. Most take some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// A mutant that takes this long never ends.
const STUCK: Duration = Duration::from_secs(20);

/// 320 MiB: the memory that opening the drives of one mutant may take. It is 64 MiB for zeros as long as the largest strip, as
/// much again for one strip in a request, 32 MiB for each bitmap, and what is read at once of a drive.
const MEMORY_MAX: u64 = 320 << 20;

const SEEDS: u64 = 10_000;

/// The mutant of a seed, and the generator that continues from there.
fn made<'a>(seed: u64, scenes: &'a [Scene], targets: &[Vec<Target>]) -> (&'a Scene, Mutant, Chance) {
    let mut chance = Chance::from_state(seed);
    let any = chance.below(scenes.len() as u64) as usize;
    // Members that missed updates are rare, and matter most.
    let stale: Vec<usize> = (0..scenes.len()).filter(|&index| scenes[index].stale.is_some()).collect();
    let index = if chance.one_in(8) { chance.pick(&stale) } else { any };
    let mutant = alter::alter(&scenes[index], &targets[index], scenes, &mut chance);
    (&scenes[index], mutant, chance)
}

/// Runs the mutant of a seed. Returns what went wrong, in words, and how much memory it took.
fn try_seed(seed: u64, scenes: &[Scene], targets: &[Vec<Target>], tally: &mut Tally) -> (Option<String>, u64) {
    let (scene, mutant, mut chance) = made(seed, scenes, targets);
    let begun = processor_time();
    let mut panicked = None;
    let memory = allocation_counter::measure(|| {
        let lived = catch_unwind(AssertUnwindSafe(|| life(scene, &mutant, &mut chance, tally)));
        panicked = lived.err().map(|cause| words(&*cause));
    });
    let took = processor_time() - begun;
    let wrong = match panicked {
        Some(words) => Some(words),
        None if memory.bytes_max > MEMORY_MAX => Some(format!("{} MiB of memory at once", memory.bytes_max >> 20)),
        None if took > PATIENCE => Some(format!("it took {took:?} of a processor")),
        None => None,
    };
    (wrong.map(|wrong| told(seed, scene, &mutant, &wrong)), memory.bytes_max)
}

/// What this thread has used of processors: a busy machine makes no mutant slow.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
}

fn words(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic".into())
}

fn told(seed: u64, scene: &Scene, mutant: &Mutant, wrong: &str) -> String {
    let changes: Vec<String> = mutant.changes.iter().map(|change| format!("    {change}\n")).collect();
    format!("seed {seed}: {wrong}\n  {}, altered:\n{}  replay it with STRIA_MUTANT={seed}\n", scene.name, changes.concat())
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn scenes_are_what_they_are_said_to_be() {
    for scene in scenes::all() {
        let mut world = World::new(&scene.drives, u64::MAX);
        world.power.frozen.set(true);
        let mut tops = world.open(&Options::default(), true, true);
        assert_eq!(!tops.is_empty(), scene.starts, "{}: {:?}", scene.name, world.refusals);
        if let Some(node) = tops.first_mut() {
            let mut replays = false;
            node.each(&mut |node| replays |= !node.config.replay.is_empty());
            assert!(replays || !scene.replays, "{}: there is nothing to replay", scene.name);
            if scene.stale.is_some() {
                assert!(world.read(node, 0, LOOKED_AT).expect("it reads") == pattern(0, LOOKED_AT, 2), "{}", scene.name);
            }
        }
        // Valid structures stay the same when their checksums are computed again.
        let mut sealed = scene.drives.clone();
        sealed.iter_mut().for_each(alter::seal);
        let same = sealed.iter().zip(&scene.drives).position(|(now, before)| now.sectors != before.sectors);
        assert!(same.is_none() || scene.torn, "{}: a checksum changed on drive {same:?}", scene.name);
        if !scene.marks.is_empty() {
            let found = detect(scene.drives[0].size_sectors, &mut |start, count| scene.drives[0].read(start, count));
            assert!(!found.is_empty(), "{}: it is not found", scene.name);
        }
    }
}

#[test]
fn no_mutant_does_harm() {
    let scenes = scenes::all();
    let targets: Vec<Vec<Target>> = scenes.iter().map(|scene| alter::targets(&scene.drives)).collect();
    if let Some(seed) = asked("STRIA_MUTANT") {
        let (scene, mutant, _) = made(seed, &scenes, &targets);
        eprintln!("{}", told(seed, scene, &mutant, "as asked for"));
        mutant.drives.iter().for_each(|drive| eprintln!("{}: {}", drive.name, alter::shown(drive)));
        let (wrong, memory) = try_seed(seed, &scenes, &targets, &mut Tally::default());
        eprintln!("{} KiB of memory at once", memory >> 10);
        return assert_eq!(wrong, None);
    }
    let count = asked("STRIA_MUTANTS").unwrap_or(SEEDS);
    let first = asked("STRIA_MUTANTS_FROM").unwrap_or(0);
    let next = AtomicU64::new(first);
    let (found, most) = (Mutex::new((Vec::new(), Tally::default())), AtomicU64::new(0));
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    // The mutant that each thread runs.
    let busy: Vec<Mutex<Option<(u64, Instant)>>> = (0..lanes).map(|_| Mutex::new(None)).collect();
    let work = |busy: &Mutex<Option<(u64, Instant)>>| {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            *busy.lock().expect("nobody panics with it") = (seed < first + count).then(|| (seed, Instant::now()));
            if seed >= first + count {
                break;
            }
            let (wrong, memory) = try_seed(seed, &scenes, &targets, &mut tally);
            most.fetch_max(memory, Ordering::Relaxed);
            if let Some(wrong) = wrong {
                eprintln!("{wrong}");
                found.lock().expect("nobody panics with it").0.push(wrong);
            }
        }
        found.lock().expect("nobody panics with it").1.add(tally);
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = busy.iter().map(|busy| scope.spawn(|| work(busy))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            let stuck = busy
                .iter()
                .find_map(|busy| busy.lock().expect("nobody panics with it").filter(|(_, since)| since.elapsed() > STUCK));
            if let Some((seed, _)) = stuck {
                let (scene, mutant, _) = made(seed, &scenes, &targets);
                eprintln!("{}", told(seed, scene, &mutant, "it does not end"));
                std::process::exit(101);
            }
        }
    });
    let (wrong, tally) = found.into_inner().expect("nobody panics with it");
    eprintln!("{tally:#?}, {} MiB of memory at most", most.into_inner() >> 20);
    assert!(wrong.is_empty(), "{} of {count} mutants do harm, the first of them:\n{}", wrong.len(), wrong[0]);
    // Otherwise the test tries less than it seems to.
    let stale = "opened beside a member that stays stale";
    for (what, share) in [("opened", 4), ("refused", 10), ("replayed", 20), ("stopped", 10), (stale, 100)] {
        assert!(tally.of(what) >= count / share, "only {} of {count} mutants were {what}", tally.of(what));
    }
}

/// Any bytes of the fuzzer define a change of drives.
#[test]
fn any_bytes_make_a_mutant() {
    let scenes = scenes::all();
    let targets: Vec<Vec<Target>> = scenes.iter().map(|scene| alter::targets(&scene.drives)).collect();
    let mut chance = Chance::from_state(7);
    let mut altered = 0;
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..chance.below(64)).map(|_| chance.any() as u8).collect();
        let index = chance.below(scenes.len() as u64) as usize;
        let mutant = alter::by_bytes(&scenes[index], &targets[index], &bytes);
        altered += u64::from(mutant.drives.iter().zip(&scenes[index].drives).any(|(now, before)| now.sectors != before.sectors));
        life(&scenes[index], &mutant, &mut chance, &mut Tally::default());
    }
    assert!(altered > 100, "only {altered} of 200 were altered");
}

/// A read takes memory only for its own data.
#[test]
fn memory_is_counted() {
    let found = allocation_counter::measure(|| drop(Buffer::zeroed(1 << 20)));
    assert!((1 << 20..2 << 20).contains(&found.bytes_max), "{found:?}");
}
