//! The daemon's memory of arrays and drives over restarts: when routine work was done, what it found, and bounds on speed.
//!
//! One file of JSON in the daemon's folder, replaced in one step whenever something changes. A disk that does not take it is
//! reported once and tried again, and the daemon goes on with what it has in memory. A file that cannot be read is put aside:
//! routine work then counts as new, and bounds on speed are those of the start.

use crate::api::{ArrayView, LastDrive, LatencyBound, ScrubView, SpeedRequest};
use crate::system::atomic_file::replace;
use crate::system::clock::now_s;
use crate::system::mounts::{Source, awaited};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_routine::last_run;

/// The pause before a disk that did not take the notes is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A piece of routine work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobNotes {
    /// The time when it last began, or was first seen, in seconds since 1970; `None`: it was never seen.
    pub since_s: Option<i64>,
    /// The position from which it goes on, if it has begun and not ended.
    pub position: Option<u64>,
    /// The mismatches before that position.
    pub found: u64,
    /// The sectors before it that could not be compared.
    pub unchecked: u64,
}

impl JobNotes {
    /// The time of its last run, or from which it is known. `watched`: the time for which this process has watched the clock.
    pub fn since(&mut self, now_s: i64, watched: Duration) -> i64 {
        let watched_s = i64::try_from(watched.as_secs()).unwrap_or(i64::MAX);
        let since_s = last_run(self.since_s.unwrap_or(now_s), now_s, watched_s);
        self.since_s = Some(since_s);
        since_s
    }
}

/// Notes of an array or span, by its UUID.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayNotes {
    /// Bounds on the speed of sweeps, in bytes.
    pub speed_min: Option<u64>,
    /// The upper bound.
    pub speed_max: Option<u64>,
    /// The latency that sweeps leave to clients.
    pub latency: Option<LatencyBound>,
    /// The last complete scrub.
    pub last_scrub: Option<ScrubView>,
    /// Its scrubs by schedule.
    pub scrub: JobNotes,
    /// The time when the daemon first saw it, in seconds since 1970.
    pub known_since_s: Option<u64>,
    /// The drive that each slot has or had last.
    pub drives: BTreeMap<usize, LastDrive>,
}

/// Notes of a drive, by its model and serial number, or else its path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveNotes {
    /// Short self-tests by schedule.
    pub short: JobNotes,
    /// Long ones.
    pub long: JobNotes,
}

/// All that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    /// Arrays by UUID.
    pub arrays: BTreeMap<String, ArrayNotes>,
    /// Drives by model and serial number.
    pub drives: BTreeMap<String, DriveNotes>,
}

/// The memory of one daemon.
pub struct Ledger {
    path: PathBuf,
    kept: Mutex<Kept>,
    /// The right to write the file.
    writing: Mutex<()>,
}

struct Kept {
    notes: Notes,
    /// The times of the next scrubs, by UUID. Not on disk, as it follows from the configuration.
    next_scrub_s: BTreeMap<String, u64>,
    /// The notes are not on disk, for this reason, and are written again then.
    unwritten: Option<(String, Instant)>,
    /// Where the notes were read.
    source: Source,
}

impl Kept {
    /// Adds the notes of a file system that was mounted now. They replace what was noted meanwhile.
    fn add(&mut self, (notes, warning): (Notes, Option<String>)) {
        self.notes.arrays.extend(notes.arrays);
        self.notes.drives.extend(notes.drives);
        self.unwritten = Some(("they are not written yet".into(), Instant::now()));
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
    }
}

impl Ledger {
    /// Reads what the last daemon left in `folder`. Returns a warning, too, if that cannot be read.
    pub fn open(folder: &Path) -> (Self, Option<String>) {
        let path = folder.join("routine.json");
        let source = Source::of(folder);
        let (notes, warning) = if source == Source::Awaited { (Notes::default(), None) } else { load(&path) };
        let kept = Kept { notes, next_scrub_s: BTreeMap::new(), unwritten: None, source };
        (Self { path, kept: Mutex::new(kept), writing: Mutex::default() }, warning)
    }

    /// The notes. Notes on a file system that is mounted later are added then, and replace what was noted meanwhile.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.source == Source::Awaited && kept.source.follow(Source::of(self.folder())) {
            kept.add(load(&self.path));
        }
        kept
    }

    fn folder(&self) -> &Path {
        self.path.parent().expect("it is in a folder")
    }

    /// Adds the notes of a file system that was mounted over that of the folder. Readers do not wait for the disk.
    fn follow_mounts(&self) {
        let now = Source::of(self.folder());
        let is_mounted_over = self.lock().source.follow(now);
        if is_mounted_over {
            let loaded = load(&self.path);
            self.lock().add(loaded);
        }
    }

    /// The notes of an array.
    pub fn array(&self, uuid: &str) -> ArrayNotes {
        self.lock().notes.arrays.get(uuid).cloned().unwrap_or_default()
    }

    /// The arrays and spans that have had drives here and are none of `known`, with these drives.
    pub fn unknown(&self, known: &[String]) -> Vec<(String, Vec<LastDrive>)> {
        let kept = self.lock();
        let others = kept.notes.arrays.iter().filter(|(uuid, notes)| !known.contains(uuid) && !notes.drives.is_empty());
        others.map(|(uuid, notes)| (uuid.clone(), notes.drives.values().cloned().collect())).collect()
    }

    /// The notes of a drive, by its key.
    pub fn drive(&self, key: &str) -> DriveNotes {
        self.lock().notes.drives.get(key).cloned().unwrap_or_default()
    }

    /// Changes notes, and keeps them on disk if they differ then. Readers do not wait for the disk.
    pub fn change<T>(&self, change: impl FnOnce(&mut Notes) -> T) -> T {
        self.follow_mounts();
        let (outcome, differs) = {
            let mut kept = self.lock();
            let before = kept.notes.clone();
            (change(&mut kept.notes), kept.notes != before)
        };
        if differs {
            self.save();
        }
        outcome
    }

    /// Writes what the disk has not taken before, after a pause.
    pub fn save_again(&self) {
        self.follow_mounts();
        let is_due = self.lock().unwritten.as_ref().is_some_and(|(_, at)| *at <= Instant::now());
        if is_due {
            self.save();
        }
    }

    fn save(&self) {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let notes = {
            let mut kept = self.lock();
            if kept.source == Source::Awaited {
                return;
            }
            // An automount came after the start, or the file system was unmounted.
            if awaited(self.folder()).is_some() {
                kept.unwritten.get_or_insert_with(|| ("their file system is not mounted".into(), Instant::now()));
                return;
            }
            kept.notes.clone()
        };
        let error = self.write(&notes).err();
        let unwritten = error.clone().map(|error| (error, Instant::now() + AGAIN_AFTER));
        let before = std::mem::replace(&mut self.lock().unwritten, unwritten);
        if let Some(error) = error.filter(|_| before.is_none()) {
            tracing::warn!(
                "notes of routine work cannot be written, so a restart loses them ({error}): make space there, or mend the file \
                 system; they are tried again every {} s",
                AGAIN_AFTER.as_secs()
            );
        }
    }

    fn write(&self, notes: &Notes) -> Result<(), String> {
        let folder = self.folder();
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let text = serde_json::to_string_pretty(notes).expect("notes are plain data");
        replace(&self.path, &(text + "\n")).map_err(|failure| failure.to_string())
    }

    /// Notes bounds on the speed of an array's sweeps. Returns why a restart would lose them.
    pub fn note_speed(&self, uuid: &str, request: &SpeedRequest) -> Option<String> {
        self.change(|notes| {
            let notes = notes.arrays.entry(uuid.to_owned()).or_default();
            notes.speed_min = request.min_bytes_per_s.or(notes.speed_min);
            notes.speed_max = request.max_bytes_per_s.or(notes.speed_max).filter(|&max| max > 0);
            notes.latency = request.latency.or(notes.latency);
        });
        self.lock().unwritten.as_ref().map(|(why, _)| why.clone())
    }

    /// Forgets arrays and spans that no longer belong to Stria.
    pub fn forget(&self, uuids: &[String]) {
        self.change(|notes| uuids.iter().for_each(|uuid| drop(notes.arrays.remove(uuid))));
    }

    /// The bounds that were set on an array's sweeps; `None`: none were.
    pub fn speed(&self, uuid: &str) -> Option<SpeedRequest> {
        let ArrayNotes { speed_min, speed_max, latency, .. } = self.array(uuid);
        let is_any = speed_min.is_some() || speed_max.is_some() || latency.is_some();
        is_any.then_some(SpeedRequest { min_bytes_per_s: speed_min, max_bytes_per_s: speed_max, latency })
    }

    /// Notes which drives have the slots of arrays. `place`: where a drive sits, in words.
    pub fn note_drives(&self, views: &[ArrayView], place: impl Fn(&str) -> Option<String>) {
        self.change(|notes| views.iter().for_each(|view| note_drives(notes, view, &place)));
    }

    /// Says when an array is to be scrubbed next.
    pub fn set_next_scrub(&self, next_scrub_s: BTreeMap<String, u64>) {
        self.lock().next_scrub_s = next_scrub_s;
    }

    /// Adds to a view, and those of its spans, what is remembered. What a scrub of an earlier run found still holds.
    pub fn fill(&self, view: &mut ArrayView) {
        let kept = self.lock();
        fill(&kept, view);
    }
}

fn note_drives(notes: &mut Notes, view: &ArrayView, place: &impl Fn(&str) -> Option<String>) {
    notes.arrays.entry(view.identity.uuid.clone()).or_default().known_since_s.get_or_insert_with(now_s);
    for member in
        view.parts.members.iter().filter(|member| member.role == "in sync" && member.size_bytes.is_some() && !member.lost)
    {
        let Some(slot) = member.slot else { continue };
        let known = notes.arrays.entry(view.identity.uuid.clone()).or_default().drives.entry(slot).or_default();
        let is_same = known.path == member.path && (known.serial == member.serial || member.serial.is_none());
        let before = if is_same { std::mem::take(known) } else { LastDrive::default() };
        *known = LastDrive {
            slot,
            path: member.path.clone(),
            serial: member.serial.clone().or(before.serial),
            place: place(&member.path).or(before.place),
        };
    }
    view.parts.spans.iter().for_each(|span| note_drives(notes, span, place));
}

fn fill(kept: &Kept, view: &mut ArrayView) {
    if let Some(notes) = kept.notes.arrays.get(&view.identity.uuid) {
        view.parts.last_drives = view.parts.missing_slots.iter().filter_map(|slot| notes.drives.get(slot)).cloned().collect();
    }
    view.redundancy.next_scrub_s = kept.next_scrub_s.get(&view.identity.uuid).copied();
    view.redundancy.last_scrub = kept.notes.arrays.get(&view.identity.uuid).and_then(|notes| notes.last_scrub);
    if let (None, Some(last)) = (view.redundancy.mismatch_sectors, view.redundancy.last_scrub) {
        (view.redundancy.mismatch_sectors, view.redundancy.mismatch_repaired) = (Some(last.mismatch_sectors), last.repaired);
        view.redundancy.unchecked_sectors = last.unchecked_sectors;
    }
    view.parts.spans.iter_mut().for_each(|span| fill(kept, span));
}

/// Reads the notes of a file. A file that cannot be read is moved aside, and a warning says so.
fn load(path: &Path) -> (Notes, Option<String>) {
    match read(path) {
        Ok(notes) => (notes, None),
        Err(error) => {
            let aside = path.with_extension("json.damaged");
            let moved = fs::rename(path, &aside).map_or_else(
                |error| format!("remove it, as it cannot be moved aside: {error}"),
                |()| format!("it is now {}", aside.display()),
            );
            let meaning =
                "the dates of routine work and the bounds on speed are lost, and begin anew; set bounds again by `stria speed`";
            (Notes::default(), Some(format!("{} cannot be read ({error}): {meaning}; {moved}", path.display())))
        }
    }
}

fn read(path: &Path) -> Result<Notes, String> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Notes::default()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_outlive_a_restart_and_a_damaged_file_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let (ledger, warning) = Ledger::open(&state);
        assert_eq!(warning, None);
        ledger.note_speed("u", &SpeedRequest { min_bytes_per_s: Some(1), ..SpeedRequest::default() });
        ledger.note_speed("u", &SpeedRequest { max_bytes_per_s: Some(9), ..SpeedRequest::default() });
        let (again, _) = Ledger::open(&state);
        let speed = again.speed("u").expect("it was noted");
        assert_eq!((speed.min_bytes_per_s, speed.max_bytes_per_s), (Some(1), Some(9)));
        ledger.note_speed("u", &SpeedRequest { max_bytes_per_s: Some(0), ..SpeedRequest::default() });
        let speed = ledger.speed("u").expect("the other bound stays");
        assert_eq!((speed.min_bytes_per_s, speed.max_bytes_per_s), (Some(1), None), "0 lifts it");
        assert!(again.speed("other").is_none());
        again.forget(&["other".into()]);
        assert!(Ledger::open(&state).0.speed("u").is_some());
        again.forget(&["u".into()]);
        assert!(Ledger::open(&state).0.speed("u").is_none());
        fs::write(state.join("routine.json"), "{").expect("a file");
        let (anew, warning) = Ledger::open(&state);
        assert!(anew.speed("u").is_none() && warning.is_some_and(|warning| warning.contains("routine.json.damaged")));
        assert!(state.join("routine.json.damaged").exists());
    }

    /// A drive that is gone is in no view any more after a restart, and sysfs does not know where it was.
    #[test]
    fn the_drive_of_an_empty_slot_and_its_place_outlive_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let view = |members: serde_json::Value, missing: &[usize]| -> ArrayView {
            let view = serde_json::json!({"name": "tank", "full_name": "tank", "uuid": "u", "level": "5", "layout": "", "size_bytes": 1, "health": "degraded",
                "state": "", "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": missing, "spans": [],
                "resync_pending": false, "in_flight": 0, "events": 1, "created_s": 0, "exports": [], "clients": []});
            serde_json::from_value(view).expect("a view")
        };
        let member = |slot: usize, path: &str, serial: Option<&str>, role: &str| {
            serde_json::json!({"slot": slot, "path": path, "role": role, "serial": serial, "size_bytes": 1, "read_errors": 0, "hedged_reads": 0,
                "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        let (ledger, _) = Ledger::open(folder.path());
        let well = view(
            serde_json::json!([member(0, "/dev/sda", Some("S0"), "in sync"), member(1, "/dev/sdb", Some("S1"), "in sync")]),
            &[],
        );
        ledger.note_drives(&[well], |path| (path == "/dev/sdb").then(|| "slot 7 of enclosure 3".into()));
        // It fails, and sysfs loses it.
        let failed =
            view(serde_json::json!([member(0, "/dev/sda", Some("S0"), "in sync"), member(1, "/dev/sdb", None, "failed")]), &[1]);
        ledger.note_drives(&[failed], |_| None);
        let mut after = view(serde_json::json!([member(0, "/dev/sda", Some("S0"), "in sync")]), &[1]);
        let (again, _) = Ledger::open(folder.path());
        again.note_drives(&[after.clone()], |_| None);
        again.fill(&mut after);
        let last = LastDrive {
            slot: 1,
            path: "/dev/sdb".into(),
            serial: Some("S1".into()),
            place: Some("slot 7 of enclosure 3".into()),
        };
        assert_eq!(after.parts.last_drives, [last]);
        // Another drive takes the slot.
        let filled = view(serde_json::json!([member(1, "/dev/sdc", Some("S2"), "in sync")]), &[]);
        again.note_drives(&[filled], |_| None);
        again.fill(&mut after);
        let last = LastDrive { slot: 1, path: "/dev/sdc".into(), serial: Some("S2".into()), place: None };
        assert_eq!(after.parts.last_drives, [last]);
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_no_notes_in_memory() {
        let (ledger, _) = Ledger::open(Path::new("/proc/nowhere"));
        let why = ledger.note_speed("u", &SpeedRequest { min_bytes_per_s: Some(1), ..SpeedRequest::default() });
        assert!(ledger.speed("u").is_some() && why.is_some_and(|why| why.contains("/proc/nowhere")));
    }

    /// A unit of systemd mounts it, so fstab does not announce it: the notes of before were overwritten with those of this boot.
    #[test]
    fn a_file_system_that_is_mounted_over_the_folder_keeps_its_notes() {
        let folder = tempfile::tempdir().expect("a folder");
        // Another file system below the root's, in place of one that is mounted.
        let real = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let state = folder.path().join("state");
        let speed = |min| SpeedRequest { min_bytes_per_s: Some(min), ..SpeedRequest::default() };
        let min = |ledger: &Ledger, uuid| ledger.speed(uuid).and_then(|speed| speed.min_bytes_per_s);
        assert_eq!(Ledger::open(real.path()).0.note_speed("u", &speed(7)), None);
        let (ledger, _) = Ledger::open(&state);
        assert_eq!((ledger.note_speed("u", &speed(1)), ledger.note_speed("v", &speed(2))), (None, None));
        fs::rename(&state, folder.path().join("hidden")).expect("a move");
        std::os::unix::fs::symlink(real.path(), &state).expect("a link");
        assert_eq!(ledger.note_speed("w", &speed(3)), None);
        for ledger in [&ledger, &Ledger::open(&state).0, &Ledger::open(real.path()).0] {
            assert_eq!((min(ledger, "u"), min(ledger, "v"), min(ledger, "w")), (Some(7), Some(2), Some(3)));
        }
        // It is unmounted: what it hid is older.
        fs::remove_file(&state).and_then(|()| fs::rename(folder.path().join("hidden"), &state)).expect("a move");
        ledger.save_again();
        assert_eq!(min(&ledger, "u"), Some(7));
    }

    /// Notes that the disk refused waited in memory for the next change, which the next boot may have come before.
    #[test]
    fn notes_that_the_disk_did_not_take_are_written_when_it_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        // A file in its place takes no notes, as a full disk.
        fs::write(&state, "").expect("a file");
        let (ledger, _) = Ledger::open(&state);
        assert!(ledger.note_speed("u", &SpeedRequest { min_bytes_per_s: Some(1), ..SpeedRequest::default() }).is_some());
        fs::remove_file(&state).expect("a file");
        ledger.save_again();
        assert!(!state.exists(), "there is a pause between two tries");
        ledger.lock().unwritten.as_mut().expect("it is to be written").1 = Instant::now();
        ledger.save_again();
        assert!(Ledger::open(&state).0.speed("u").is_some());
        assert!(ledger.lock().unwritten.is_none());
    }

    /// Before, one moment with a clock that was behind made all work due when it was right again, at every boot.
    #[test]
    fn a_clock_that_is_behind_lowers_no_date_until_it_was_watched_for_a_day() {
        let (mut job, day) = (JobNotes::default(), Duration::from_secs(86_400));
        assert_eq!((job.since(5, Duration::ZERO), job.since(9, Duration::ZERO)), (5, 5));
        let mut job = JobNotes { since_s: Some(1_000_000), ..JobNotes::default() };
        assert_eq!((job.since(3, Duration::ZERO), job.since(1_000_009, Duration::ZERO)), (1_000_000, 1_000_000));
        assert_eq!((job.since(3, day), job.since(9, day)), (3, 3));
    }
}
