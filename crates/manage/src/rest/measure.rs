//! What the members of an array could do, and what a sweep costs its clients: measured when a person asks, within seconds.
//!
//! Members are read and never written, so nothing is known of what they could write. What the array draws from a member meanwhile
//! counts as well: the figure is what the member gives, not what clients leave of it.

use super::looks::tasks;
use super::machine::Machine;
use crate::api::{ApiError, ApiErrorKind, ArrayView, MemberView};
use crate::system::clock::now_ms;
use crate::view::all_members;
use crate::words::error::{ErrorSentence, Words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use stria_block::{NO_THREAD, SECTOR_BYTES};
use stria_drive::{Access, SyncDrive};

/// The time for one kind of read on one member.
const WINDOW: Duration = Duration::from_millis(400);
/// The time for all members, one after another, at most.
const ALL_MEMBERS: Duration = Duration::from_secs(15);
/// A member that does not answer within this is named, and left out.
const PATIENCE: Duration = Duration::from_secs(5);
/// Random reads under way on one member.
const RANDOM_DEPTH: u64 = 32;
/// Long reads under way on one member.
const LONG_DEPTH: u64 = 4;
const RANDOM_BYTES: usize = 4 << 10;
const LONG_BYTES: usize = 1 << 20;
/// One stretch of a sweep running or held; there are two of each, in turn.
const STRETCH: Duration = Duration::from_secs(3);
/// The beginning of a stretch, in which requests of the one before end.
const SETTLING: Duration = Duration::from_millis(400);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A sweep that is no longer held runs again within this, unless it has ended meanwhile.
const GOES_ON_WITHIN: Duration = Duration::from_secs(2);

/// What one member could do.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemberLimit {
    /// The member's path.
    pub path: String,
    /// Reads of 4 KiB at random positions, 32 under way.
    pub reads_per_s: f64,
    /// Bytes of reads of 1 MiB, one after another, 4 under way.
    pub read_bytes_per_s: f64,
    /// The median time of a read of 4 KiB with no other beside it.
    pub read_us: u64,
    /// Why nothing is known.
    pub error: Option<String>,
}

/// What the members of an array could do, each by itself and all together.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// When it was measured, in milliseconds since 1970.
    pub at_ms: u64,
    /// Each member.
    pub members: Vec<MemberLimit>,
    /// Bytes of long reads from all members at once: less than the sum, if a bus or a processor limits them.
    pub together_bytes_per_s: f64,
}

/// The clients of an array over some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientSide {
    /// Requests answered.
    pub requests_per_s: f64,
    /// Bytes read and written.
    pub bytes_per_s: f64,
    /// The mean time of a request by Little's law: requests under way over requests a second. Null: there were none.
    pub mean_us: Option<f64>,
}

/// What a sweep costs clients: their work with it and without it, in turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SweepPrice {
    /// When it was measured, in milliseconds since 1970.
    pub at_ms: u64,
    /// `resync`, `rebuild`, `scrub`, `repair`.
    pub kind: String,
    /// The sweep's speed meanwhile.
    pub sweep_bytes_per_s: u64,
    /// While it ran.
    pub running: ClientSide,
    /// While it was held.
    pub held: ClientSide,
    /// By how much requests a second differed between stretches of the same kind, as a share: a smaller difference between the two kinds says
    /// nothing.
    pub noise: f64,
}

/// The last limits of arrays, by UUID, and whether something is being measured.
#[derive(Default)]
pub struct Measurements {
    limits: Mutex<HashMap<String, Limits>>,
    is_busy: AtomicBool,
}

/// The turn to measure: one at a time, as two would measure each other.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Measurements {
    fn turn(&self) -> Result<Turn<'_>, ApiError> {
        match self.is_busy.swap(true, Ordering::SeqCst) {
            false => Ok(Turn(&self.is_busy)),
            true => Err(refused(ErrorSentence::MeasuresAlready {})),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Limits>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits that were measured last since the daemon started.
    pub fn limits(&self, uuid: &str) -> Option<Limits> {
        self.lock().get(uuid).cloned()
    }
}

fn refused(text: impl Into<Words>) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, text)
}

/// The members that work.
fn working(view: &ArrayView) -> Vec<&MemberView> {
    let mut members = all_members(view);
    members.retain(|member| member.size_bytes.is_some() && !matches!(member.role.as_str(), "failed" | "spare"));
    members
}

/// Measures the members of an array.
///
/// # Errors
/// When the array is not served, or something is being measured already.
pub fn limits(measurements: &Measurements, machine: &Machine, array: &str) -> Result<Limits, ApiError> {
    let (entry, view) = machine.served(array)?;
    let _turn = measurements.turn()?;
    let paths: Vec<String> = working(&view).into_iter().map(|member| member.path.clone()).collect();
    let window = WINDOW.min(ALL_MEMBERS / (3 * paths.len().max(1)) as u32);
    let drawn = || machine.service.array(&entry.name).map(|view| counts(&view));
    let mut members = Vec::new();
    for path in &paths {
        members.push(member_limit(path, window, &drawn)?);
    }
    let able: Vec<String> = members.iter().filter(|member| member.error.is_none()).map(|member| member.path.clone()).collect();
    let before = drawn()?;
    let began = Instant::now();
    let runs: Vec<_> = able.iter().map(|path| begin(path, LONG_DEPTH, LONG_BYTES, window)).collect();
    let own: f64 = runs.into_iter().filter_map(|run| run.recv_timeout(PATIENCE).ok()?.ok()).map(|run| run.bytes_per_s()).sum();
    let array: u64 = difference(&before, &drawn()?, &able).iter().map(|(_, bytes)| bytes).sum();
    let together_bytes_per_s = own + array as f64 / began.elapsed().as_secs_f64();
    let limits = Limits { at_ms: now_ms(), members, together_bytes_per_s };
    measurements.lock().insert(entry.uuid, limits.clone());
    Ok(limits)
}

/// Reads ended and bytes read, by member.
type Counts = HashMap<String, (u64, u64)>;

fn counts(view: &ArrayView) -> Counts {
    all_members(view).into_iter().map(|member| (member.path.clone(), (member.read_count, member.read_bytes))).collect()
}

fn difference(before: &Counts, after: &Counts, paths: &[String]) -> Vec<(u64, u64)> {
    let of = |counts: &Counts, path: &String| counts.get(path).copied().unwrap_or_default();
    let one = |path| {
        let (before, after) = (of(before, path), of(after, path));
        (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
    };
    paths.iter().map(one).collect()
}

fn member_limit(path: &str, window: Duration, drawn: &impl Fn() -> Result<Counts, ApiError>) -> Result<MemberLimit, ApiError> {
    let mut limit = MemberLimit { path: path.to_owned(), ..MemberLimit::default() };
    for (depth, bytes) in [(1, RANDOM_BYTES), (RANDOM_DEPTH, RANDOM_BYTES), (LONG_DEPTH, LONG_BYTES)] {
        let (before, began) = (drawn()?, Instant::now());
        let run = match begin(path, depth, bytes, window).recv_timeout(PATIENCE) {
            Ok(Ok(run)) => run,
            Ok(Err(error)) => return Ok(MemberLimit { error: Some(error), ..limit }),
            Err(_) => return Ok(MemberLimit { error: Some(format!("{path} does not answer")), ..limit }),
        };
        let array = difference(&before, &drawn()?, &[path.to_owned()])[0];
        let seconds = began.elapsed().as_secs_f64();
        match (depth, bytes) {
            (1, _) => limit.read_us = run.median_us,
            (_, RANDOM_BYTES) => limit.reads_per_s = run.reads_per_s() + array.0 as f64 / seconds,
            _ => limit.read_bytes_per_s = run.bytes_per_s() + array.1 as f64 / seconds,
        }
    }
    Ok(limit)
}

/// Reads of one kind.
struct Run {
    reads: u64,
    bytes: u64,
    median_us: u64,
    lasted: Duration,
}

impl Run {
    fn reads_per_s(&self) -> f64 {
        self.reads as f64 / self.lasted.as_secs_f64()
    }
    fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.lasted.as_secs_f64()
    }
}

/// Starts reads on a thread of their own: a drive that hangs keeps the thread, and not the caller.
fn begin(path: &str, depth: u64, bytes: usize, window: Duration) -> std::sync::mpsc::Receiver<Result<Run, String>> {
    let ((sender, end), path) = (channel(), path.to_owned());
    let work = move || {
        let _ = sender.send(read(Path::new(&path), depth, bytes, window));
    };
    // Without a thread nothing is sent, which the caller notices at once.
    let _ = std::thread::Builder::new().name("measure".into()).spawn(work);
    end
}

/// Reads from `depth` threads for the length of the window: short reads at random positions, long ones one after another.
fn read(path: &Path, depth: u64, bytes: usize, window: Duration) -> Result<Run, String> {
    let drive = SyncDrive::open(path, Access::ReadOnly).map_err(|error| error.to_string())?;
    let pieces = drive.info().limits.size_sectors * SECTOR_BYTES as u64 / bytes as u64;
    if pieces == 0 {
        return Err(format!("{} is too small to be measured", path.display()));
    }
    let (began, next) = (Instant::now(), AtomicU64::new(now_ms() % pieces));
    let of_thread = |index: u64| -> Result<Vec<u32>, String> {
        let (mut buffer, mut took) = (vec![0; bytes], Vec::new());
        let mut random = (now_ms() << 8 | index) | 1;
        while began.elapsed() < window {
            // Xorshift: the positions need to be spread, and nothing else.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let piece = if bytes == LONG_BYTES { next.fetch_add(1, Ordering::Relaxed) } else { random } % pieces;
            let start = Instant::now();
            drive.read_at(piece * (bytes / SECTOR_BYTES) as u64, &mut buffer).map_err(|error| error.to_string())?;
            took.push(start.elapsed().as_micros().min(u128::from(u32::MAX)) as u32);
        }
        Ok(took)
    };
    let taken: Vec<_> = std::thread::scope(|scope| {
        let thread = |index| {
            let thread = std::thread::Builder::new().name("measure".into()).spawn_scoped(scope, move || of_thread(index));
            thread.map_err(|error| format!("cannot start a thread for a measurement: {error}; {NO_THREAD}"))
        };
        let threads: Vec<_> = (0..depth).map(thread).collect();
        let end = |thread: ScopedJoinHandle<_>| thread.join().unwrap_or_else(|_| Err("the measurement broke off".into()));
        threads.into_iter().map(|thread| thread.and_then(end)).collect()
    });
    let lasted = began.elapsed();
    let mut took = taken.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    took.sort_unstable();
    let reads = took.len() as u64;
    Ok(Run {
        reads,
        bytes: reads * bytes as u64,
        median_us: took.get(took.len() / 2).copied().unwrap_or_default().into(),
        lasted,
    })
}

/// Lets a sweep go on, whatever happens meanwhile.
struct GoesOn<'a>(&'a Machine, &'a str);

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        let Self(machine, array) = *self;
        // An array that was stopped has no sweep.
        let _ = machine.service.hold(array, false);
        let goes_on = || machine.service.array(array).map_or(true, |view| view.condition.paused || !tasks(&view).is_empty());
        let end = Instant::now() + GOES_ON_WITHIN;
        while !goes_on() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = machine.service.set_measuring(array, false);
    }
}

/// Measures what the running sweep costs clients: it is held twice for some seconds, and compared with the stretches between.
///
/// # Errors
/// When no sweep runs, no client works, or something is being measured already.
pub fn price(measurements: &Measurements, machine: &Machine, array: &str) -> Result<SweepPrice, ApiError> {
    let (entry, view) = machine.served(array)?;
    let _turn = measurements.turn()?;
    let running = |view: &ArrayView| tasks(view).into_iter().next();
    let Some(task) = running(&view).filter(|_| !view.condition.paused) else {
        return Err(refused(ErrorSentence::NoSweepRuns { array: entry.name }));
    };
    machine.service.set_measuring(&entry.name, true)?;
    let _goes_on = GoesOn(machine, &entry.name);
    let mut sides = [[Side::default(); 2]; 2];
    let mut speed = task.bytes_per_s;
    for stretch in 0..4 {
        let is_held = stretch % 2 == 1;
        machine.service.hold(&entry.name, is_held)?;
        std::thread::sleep(SETTLING);
        sides[stretch % 2][stretch / 2].add(machine, &entry.name)?;
        // A sweep that is held is not in the view of its array.
        if !is_held {
            let Some(task) = running(&machine.service.array(&entry.name)?) else {
                return Err(refused(ErrorSentence::SweepEnded { sweep_kind: task.kind }));
            };
            speed = task.bytes_per_s;
        }
    }
    let noise = sides.map(noise).into_iter().fold(0.0, f64::max);
    let [running, held] = sides.map(|[first, second]| first.and(second).clients());
    if held.requests_per_s == 0.0 && running.requests_per_s == 0.0 {
        return Err(refused(ErrorSentence::NoClientRequest {}));
    }
    Ok(SweepPrice { at_ms: now_ms(), kind: task.kind, sweep_bytes_per_s: speed, running, held, noise })
}

/// The share by which the requests a second of two stretches differ.
fn noise(stretches: [Side; 2]) -> f64 {
    let [first, second] = stretches.map(|side| side.clients().requests_per_s);
    (first - second).abs() / first.max(second).max(f64::MIN_POSITIVE)
}

/// Clients over several stretches.
#[derive(Clone, Copy, Default)]
struct Side {
    requests: u64,
    bytes: u64,
    /// The sum of requests under way, and the looks.
    in_flight: u64,
    looks: u64,
    lasted: Duration,
}

impl Side {
    fn add(&mut self, machine: &Machine, array: &str) -> Result<(), ApiError> {
        let look = || -> Result<(u64, u64, u64), ApiError> {
            let view = machine.service.array(array)?;
            let sum = |of: fn(&crate::api::ClientView) -> u64| view.access.clients.iter().map(of).sum::<u64>();
            Ok((sum(|one| one.requests), sum(|one| one.read_bytes + one.written_bytes), sum(|one| one.in_flight)))
        };
        let (began, first) = (Instant::now(), look()?);
        let mut last = first;
        while began.elapsed() < STRETCH {
            std::thread::sleep(LOOK_EVERY);
            last = look()?;
            self.in_flight += last.2;
            self.looks += 1;
        }
        self.requests += last.0.saturating_sub(first.0);
        self.bytes += last.1.saturating_sub(first.1);
        self.lasted += began.elapsed();
        Ok(())
    }

    fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            in_flight: self.in_flight + other.in_flight,
            looks: self.looks + other.looks,
            lasted: self.lasted + other.lasted,
        }
    }

    fn clients(self) -> ClientSide {
        let seconds = self.lasted.as_secs_f64().max(f64::MIN_POSITIVE);
        let requests_per_s = self.requests as f64 / seconds;
        let under_way = self.in_flight as f64 / self.looks.max(1) as f64;
        let mean_us = (self.requests > 0).then(|| under_way / requests_per_s * 1e6);
        ClientSide { requests_per_s, bytes_per_s: self.bytes as f64 / seconds, mean_us }
    }
}

/// What is known of an array's limits, for a route.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LimitsKnown {
    /// The last measurement since the daemon started; null: none yet.
    pub limits: Option<Limits>,
}

/// The last limits of an array.
///
/// # Errors
/// When there is no such array.
pub fn known(measurements: &Measurements, machine: &Machine, array: &str) -> Result<LimitsKnown, ApiError> {
    let entry = machine.entry(array)?;
    Ok(LimitsKnown { limits: measurements.limits(&entry.uuid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_time_follows_from_requests_under_way() {
        let side = Side { requests: 4000, bytes: 1 << 20, in_flight: 80, looks: 10, lasted: Duration::from_secs(2) };
        let ClientSide { requests_per_s, mean_us, .. } = side.clients();
        assert_eq!((requests_per_s, mean_us), (2000.0, Some(4000.0)));
        assert_eq!(Side { requests: 0, ..side }.clients().mean_us, None);
        assert_eq!(noise([side, Side { requests: 3000, ..side }]), 0.25);
        assert_eq!(noise([Side::default(); 2]), 0.0);
        assert_eq!(side.and(Side::default()).clients(), side.clients());
    }

    #[test]
    fn a_drive_is_read_and_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive");
        std::fs::write(&path, vec![7; 8 << 20]).expect("a file");
        for (depth, bytes) in [(1, RANDOM_BYTES), (3, LONG_BYTES)] {
            let run = read(&path, depth, bytes, Duration::from_millis(30)).expect("it is read");
            assert!(run.reads > 0 && run.bytes == run.reads * bytes as u64 && run.reads_per_s() > 0.0);
        }
        assert!(std::fs::read(&path).expect("the file").iter().all(|byte| *byte == 7));
        assert!(read(&folder.path().join("none"), 1, RANDOM_BYTES, WINDOW).is_err());
    }
}
