//! The health of the drives of all arrays, and of the machine's other drives, read now and then.
//!
//! A drive may hang when it is asked, so each is asked on a thread of its own, and the board shows what was read last.

use crate::api::ArrayView;
use crate::system::clock::now_s;
use crate::view::all_members;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_drive::within_each;
use stria_health::{DriveHealth, HealthConfig, Seat, read};

/// The pause between two questions to the drives.
pub const EVERY: Duration = Duration::from_secs(300);
/// The time that a drive may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after which a drive outside of arrays that answered nothing is asked again: each question to one that hangs costs a
/// thread.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// The last answer of one drive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DriveEntry {
    /// The drive.
    pub path: PathBuf,
    /// When it was asked, in seconds since 1970.
    pub read_at_s: u64,
    /// Its health; `None`: it is unknown.
    pub health: Option<DriveHealth>,
    /// The reason why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where it sits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<Seat>,
}

impl DriveEntry {
    /// Keeps what the last answer had and this one lacks.
    fn keep_from(&mut self, before: &Self) {
        if let (Some(health), Some(before)) = (self.health.as_mut().filter(|health| health.asleep), &before.health) {
            // A drive that sleeps has not become better, nor another one.
            (health.verdict, health.findings) = (before.verdict, before.findings.clone());
            (health.model, health.serial, health.firmware) =
                (before.model.clone(), before.serial.clone(), before.firmware.clone());
            health.self_test = before.self_test.filter(|test| !test.running);
            health.self_test_results = before.self_test_results;
        }
        let has_slot = |entry: &Self| entry.seat.as_ref().is_some_and(|seat| seat.slot.is_some());
        let is_same = self.health.as_ref().is_none_or(|health| {
            health.serial.is_some() && health.serial == before.health.as_ref().and_then(|health| health.serial.clone())
        });
        // A dead drive leaves sysfs, and is still where it was: a person looks for it there.
        if !has_slot(self) && has_slot(before) && is_same {
            self.seat.clone_from(&before.seat);
        }
    }
}

/// The last answers of all drives.
#[derive(Default)]
pub struct Board {
    known: Mutex<BTreeMap<PathBuf, DriveEntry>>,
    /// The drives that are in no array.
    others: Mutex<BTreeMap<PathBuf, DriveEntry>>,
    /// Those of them that answered nothing, and when they are asked again.
    mute: Mutex<BTreeMap<PathBuf, Instant>>,
    /// The members at the last look, by path and serial number.
    members: Mutex<BTreeSet<(PathBuf, Option<String>)>>,
    /// The answers were judged by other thresholds.
    expired: AtomicBool,
}

impl Board {
    /// Forgets what was known of the paths of drives that have joined an array since the last look: it may be that of another
    /// drive. Returns true if there are any.
    pub fn forget_joined(&self, arrays: &[ArrayView]) -> bool {
        let members = arrays.iter().flat_map(all_members).filter(|member| member.size_bytes.is_some() && member.role != "failed");
        let members: BTreeSet<_> = members.map(|member| (PathBuf::from(&member.path), member.serial.clone())).collect();
        let before = std::mem::replace(&mut *self.members.lock().unwrap_or_else(PoisonError::into_inner), members.clone());
        let joined: Vec<&PathBuf> = members.difference(&before).map(|(path, _)| path).collect();
        for path in &joined {
            lock(&self.known).remove(*path);
            lock(&self.others).remove(*path);
        }
        !joined.is_empty()
    }

    /// Asks the drives of these arrays. Drives of other arrays are forgotten.
    pub fn refresh(&self, arrays: &[ArrayView], thresholds: &HealthConfig) {
        self.expired.store(false, Ordering::SeqCst);
        let mut entries = ask(paths(arrays, thresholds.smartctl.is_some()), thresholds);
        // A drive that has joined was known before.
        let others = lock(&self.others).clone();
        let mut known = lock(&self.known);
        for entry in &mut entries {
            if let Some(before) = known.get(&entry.path).or_else(|| others.get(&entry.path)) {
                entry.keep_from(before);
            }
        }
        *known = entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    }

    /// Asks these drives as well, except those of arrays. All others outside of arrays are forgotten.
    pub fn refresh_others(&self, mut drives: Vec<PathBuf>, thresholds: &HealthConfig) {
        let members = lock(&self.known).clone();
        let before = lock(&self.others).clone();
        drives.retain(|drive| !members.contains_key(drive) && (thresholds.smartctl.is_some() || drive.starts_with("/dev")));
        let mut mute = self.mute.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Not by the time of the day, which may be set back.
        let now = Instant::now();
        let is_mute = |drive: &PathBuf| mute.get(drive).is_some_and(|again_at| *again_at > now) && before.contains_key(drive);
        let (kept, asked): (Vec<PathBuf>, Vec<PathBuf>) = drives.into_iter().partition(is_mute);
        let mut entries = ask(asked, thresholds);
        for entry in &mut entries {
            if let Some(before) = before.get(&entry.path) {
                entry.keep_from(before);
            }
        }
        mute.retain(|drive, _| kept.contains(drive));
        let silent = entries.iter().filter(|entry| entry.health.is_none());
        mute.extend(silent.map(|entry| (entry.path.clone(), now + AGAIN_AFTER)));
        *self.mute.lock().unwrap_or_else(PoisonError::into_inner) = mute;
        entries.extend(kept.iter().filter_map(|drive| before.get(drive).cloned()));
        *lock(&self.others) = entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    }

    /// Makes all answers old.
    pub fn expire(&self) {
        self.expired.store(true, Ordering::SeqCst);
    }

    /// True if the drives should be asked at once.
    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::SeqCst)
    }

    /// Asks one drive of those that are known.
    pub fn ask_one(&self, drive: &Path, config: &HealthConfig) -> Option<DriveHealth> {
        let entry = ask(vec![drive.to_owned()], config).pop()?;
        let health = entry.health.clone();
        lock(&self.known).entry(drive.to_owned()).and_modify(|known| {
            let before = std::mem::replace(known, entry);
            known.keep_from(&before);
        });
        health
    }

    /// The last answers of the drives of arrays, by path.
    pub fn entries(&self) -> Vec<DriveEntry> {
        lock(&self.known).values().cloned().collect()
    }

    /// The last answers of the other drives.
    pub fn others(&self) -> Vec<DriveEntry> {
        lock(&self.others).values().cloned().collect()
    }
}

fn lock(known: &Mutex<BTreeMap<PathBuf, DriveEntry>>) -> MutexGuard<'_, BTreeMap<PathBuf, DriveEntry>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The drives of arrays and their spans, each once.
fn paths(arrays: &[ArrayView], with_images: bool) -> Vec<PathBuf> {
    // A span is no drive. Image files have no health, unless a program says so.
    let members = arrays.iter().flat_map(all_members).filter(|member| member.size_bytes.is_some());
    let mut paths: Vec<PathBuf> =
        members.map(|member| PathBuf::from(&member.path)).filter(|path| with_images || path.starts_with("/dev")).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The drives with an open question, and when it was asked. A further one to a drive that hangs would cost a thread, and wait
/// behind the first.
static ASKED: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());
/// The pause between two looks whether another question has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// An open question to a drive; its end, however it comes, allows the next.
struct Question(PathBuf);

impl Question {
    /// Waits for the end of another question. `None`: the drive has not answered that one in time.
    fn new(path: &Path) -> Option<Self> {
        loop {
            let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
            match asked.get(path) {
                Some(since) if since.elapsed() >= PATIENCE => return None,
                Some(_) => {}
                None => {
                    asked.insert(path.to_owned(), Instant::now());
                    return Some(Self(path.to_owned()));
                }
            }
            drop(asked);
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        ASKED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Asks drives, all at once.
pub fn ask(paths: Vec<PathBuf>, thresholds: &HealthConfig) -> Vec<DriveEntry> {
    let asked = within_each(PATIENCE, paths.clone(), |path: PathBuf| {
        let thresholds = thresholds.clone();
        move || {
            let Some(_open) = Question::new(&path) else {
                return Err(format!("{} has not answered the last question yet", path.display()));
            };
            read(&path, &thresholds).map_err(|error| error.to_string())
        }
    });
    let entry = |(path, outcome): (PathBuf, Result<_, _>)| {
        let silent = |_| Err(format!("{} did not answer within {} s", path.display(), PATIENCE.as_secs()));
        let (health, error) = match outcome.unwrap_or_else(silent) {
            Ok(health) => (Some(health), None),
            Err(error) => (None, Some(error)),
        };
        // Sysfs tells it without the drive.
        let seat = Some(Seat::of(&path));
        DriveEntry { path, read_at_s: now_s(), health, error, seat }
    };
    paths.into_iter().zip(asked).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_health::SelfTest;

    fn entry(serial: Option<&str>, slot: Option<&str>) -> DriveEntry {
        let health = serial.map(|serial| DriveHealth { serial: Some(serial.into()), ..DriveHealth::default() });
        let seat = serde_json::from_value(serde_json::json!({"slot": slot})).expect("a seat");
        DriveEntry { path: "/dev/sda".into(), read_at_s: 0, error: None, health, seat: Some(seat) }
    }

    #[test]
    fn a_dead_drive_keeps_the_seat_where_it_was_last_seen() {
        let slot_after = |before: &DriveEntry, mut now: DriveEntry| {
            now.keep_from(before);
            (now.seat.as_ref().and_then(|seat| seat.slot.clone()), now)
        };
        let seen = entry(Some("S1"), Some("7"));
        let (slot, dead) = slot_after(&seen, entry(None, None));
        assert_eq!(slot.as_deref(), Some("7"));
        assert_eq!(slot_after(&dead, entry(None, None)).0.as_deref(), Some("7"), "however often it is asked");
        assert_eq!(slot_after(&dead, entry(Some("S2"), None)).0, None, "another drive is elsewhere");
        assert_eq!(slot_after(&seen, entry(Some("S1"), None)).0.as_deref(), Some("7"));
        assert_eq!(slot_after(&seen, entry(Some("S1"), Some("9"))).0.as_deref(), Some("9"), "it was moved");
    }

    /// Its notes were those of its path while it slept.
    #[test]
    fn a_drive_that_sleeps_is_the_drive_that_it_was() {
        let mut seen = entry(Some("S1"), Some("7"));
        let test = SelfTest { long: true, running: false, passed: Some(true) };
        let health = seen.health.as_mut().expect("its health");
        (health.model, health.self_test) = (Some("WD Red".into()), Some(test));
        let asleep = || {
            let mut asleep = entry(None, None);
            asleep.health = Some(DriveHealth { asleep: true, ..DriveHealth::default() });
            asleep
        };
        for _ in 0..2 {
            let mut now = asleep();
            now.keep_from(&seen);
            let health = now.health.as_ref().expect("its health");
            assert_eq!((health.serial.as_deref(), health.model.as_deref()), (Some("S1"), Some("WD Red")));
            assert_eq!(health.self_test, Some(test));
            seen = now;
        }
        seen.health.as_mut().expect("its health").self_test = Some(SelfTest { running: true, ..test });
        let mut now = asleep();
        now.keep_from(&seen);
        assert_eq!(now.health.expect("its health").self_test, None, "it does not run while the drive sleeps");
    }

    #[test]
    fn drives_outside_of_arrays_are_asked_and_forgotten_when_they_are_gone() {
        let (board, config) = (Board::default(), HealthConfig::default());
        board.refresh_others(vec!["/dev/null".into(), "/srv/image".into()], &config);
        let known = |board: &Board| board.others().into_iter().map(|entry| (entry.path, entry.read_at_s)).collect::<Vec<_>>();
        let [(path, read_at_s)] = &known(&board)[..] else { panic!("{:?}", board.others()) };
        assert_eq!(path, Path::new("/dev/null"));
        lock(&board.others).values_mut().for_each(|entry| entry.read_at_s -= 9);
        board.refresh_others(vec!["/dev/null".into()], &config);
        assert_eq!(known(&board), [(path.clone(), read_at_s - 9)], "it answered nothing, so it is not asked again at once");
        // After an hour it is, also if the clock was set back meanwhile.
        lock(&board.others).values_mut().for_each(|entry| entry.read_at_s += 1_000_000);
        board.mute.lock().expect("no panic").values_mut().for_each(|again_at| *again_at = Instant::now());
        board.refresh_others(vec!["/dev/null".into()], &config);
        assert!(known(&board)[0].1 < read_at_s + 1000, "it is asked again");
        board.refresh_others(vec![], &config);
        assert!(board.others().is_empty() && board.entries().is_empty());
    }

    /// Its questions cost a thread and a process each, every five minutes, and every thirty seconds while it tested itself.
    #[test]
    fn a_drive_that_has_not_answered_is_not_asked_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (drive, program) = (folder.path().join("drive"), folder.path().join("smartctl"));
        std::fs::write(&drive, "").expect("a file");
        stria_testkit::script(&program, "#!/bin/sh\necho '{\"smartctl\": {\"exit_status\": 0}}'\n");
        let config = HealthConfig { smartctl: Some(program), ..HealthConfig::default() };
        let asked = || ask(vec![drive.clone()], &config).pop().expect("an entry");
        let open = Question::new(&drive).expect("the first");
        // It was asked that long ago.
        ASKED
            .lock()
            .expect("no panic")
            .insert(drive.clone(), Instant::now().checked_sub(PATIENCE).expect("the machine has run for longer"));
        let entry = asked();
        assert!(entry.health.is_none() && entry.error.is_some_and(|error| error.contains("has not answered the last question")));
        drop(open);
        assert!(asked().health.is_some() && asked().health.is_some());
        // One that is answered makes the next wait.
        let open = Question::new(&drive).expect("none is open");
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(open);
        });
        assert!(asked().health.is_some());
        later.join().expect("it ends");
    }

    #[test]
    fn a_drive_that_joins_does_not_inherit_the_health_of_its_path() {
        let board = Board::default();
        let view = |members: serde_json::Value| -> ArrayView {
            let view = serde_json::json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "1", "layout": "", "size_bytes": 1,
                "health": "optimal", "state": "", "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": [],
                "spans": [], "resync_pending": false, "in_flight": 0, "events": 1, "created_s": 0, "exports": [], "clients": []});
            serde_json::from_value(view).expect("a view")
        };
        let member = |path: &str, role: &str, serial: &str| {
            serde_json::json!({"path": path, "role": role, "serial": serial, "size_bytes": 1, "read_errors": 0, "hedged_reads": 0,
                "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        let looks = |members: serde_json::Value| {
            let joined = board.forget_joined(&[view(members)]);
            (joined, board.entries().len())
        };
        assert_eq!(looks(serde_json::json!([member("/dev/sda", "in sync", "S1")])), (true, 0));
        lock(&board.known).insert("/dev/sda".into(), entry(Some("S1"), None));
        assert_eq!(looks(serde_json::json!([member("/dev/sda", "in sync", "S1")])), (false, 1));
        assert_eq!(looks(serde_json::json!([member("/dev/sda", "failed", "S1")])), (false, 1), "its fault is shown on");
        assert_eq!(looks(serde_json::json!([member("/dev/sda", "spare", "S2")])), (true, 0));
        lock(&board.known).insert("/dev/sda".into(), entry(Some("S2"), None));
        assert_eq!(looks(serde_json::json!([member("/dev/sda", "in sync", "S3")])), (true, 0), "between two looks");
    }

    /// As a path that is gone.
    #[test]
    fn a_drive_that_tells_nothing_of_itself_is_asked_for_its_seat() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("drive");
        std::fs::write(&file, "").expect("a file");
        let entry = ask(vec![file], &HealthConfig::default()).pop().expect("an entry");
        assert!(entry.health.is_none() && entry.error.is_some(), "{entry:?}");
        assert!(entry.seat.is_some_and(|seat| seat.link.is_some()));
    }
}
