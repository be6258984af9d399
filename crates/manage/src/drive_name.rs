//! Finds a drive of an array by what the command line names: a path, serial number or slot.

use crate::api::{ArrayView, MemberView};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_drive::real_path_within;
use stria_host::does_not_use;
use stria_terminal::{Failure, absolute};

/// How long a path may take to be looked up.
const LOOK_UP: Duration = Duration::from_millis(500);

/// Which of several drives a slot means: a failed one stays listed beside the drive that took its slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// The drive that holds the slot.
    Working,
    /// The drive that failed there.
    Failed,
}

/// The path of the drive that `word` means, as the array knows it.
///
/// A path has precedence, then a serial number, then a slot: `2`, or `tank-span0:2` if several spans have such a slot.
///
/// # Errors
/// When the array has no such drive, or several; the sentence lists what it has.
pub fn find(array: &ArrayView, word: &Path, prefer: Prefer) -> Result<PathBuf, Failure> {
    let drives = drives(array);
    let text = word.to_string_lossy();
    let by_path: Vec<&Drive> = drives.iter().filter(|drive| is_same(Path::new(&drive.member.path), word)).collect();
    let found = match by_path.is_empty() {
        false => by_path,
        true => drives.iter().filter(|drive| drive.has_serial(&text) || drive.has_slot(&text)).collect(),
    };
    let preferred: Vec<&&Drive> =
        found.iter().filter(|drive| (drive.member.role == "failed") == (prefer == Prefer::Failed)).collect();
    let known = || drives.iter().map(Drive::words).collect::<Vec<_>>();
    match (&preferred[..], &found[..]) {
        ([only], _) => Ok(only.member.path.clone().into()),
        ([], [only]) => Ok(only.member.path.clone().into()),
        // The newest entry of a drive that left and came back.
        ([first, rest @ ..], _) if rest.iter().all(|drive| drive.member.path == first.member.path) => {
            Ok(first.member.path.clone().into())
        }
        (_, []) => Err(Failure::Failed(does_not_use(&array.name, word, &known()))),
        _ => {
            let several: Vec<String> = found.iter().map(|drive| drive.words()).collect();
            Err(Failure::Failed(format!("\"{text}\" may mean {}: name the drive by its path", several.join(" or "))))
        }
    }
}

struct Drive<'a> {
    array: &'a str,
    member: &'a MemberView,
}

impl Drive<'_> {
    fn has_serial(&self, text: &str) -> bool {
        self.member.serial.as_deref().is_some_and(|serial| serial.trim().eq_ignore_ascii_case(text))
    }

    fn has_slot(&self, text: &str) -> bool {
        let slot = match text.rsplit_once(':') {
            Some((array, slot)) if array == self.array => slot,
            Some(_) => return false,
            None => text,
        };
        slot.parse().is_ok_and(|slot: usize| self.member.slot == Some(slot))
    }

    /// `/dev/sdb (tank slot 2)`
    fn words(&self) -> String {
        let slot = self.member.slot.map_or("spare".into(), |slot| format!("slot {slot}"));
        format!("{} ({} {slot}{})", self.member.path, self.array, if self.member.role == "failed" { ", failed" } else { "" })
    }
}

fn drives(array: &ArrayView) -> Vec<Drive<'_>> {
    let own = array.members.iter().filter(|member| member.direct.is_some());
    let own = own.map(|member| Drive { array: &array.name, member });
    own.chain(array.spans.iter().flat_map(drives)).collect()
}

/// True if both paths lead to one drive.
pub fn are_one(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

/// Refuses a drive that is named twice.
///
/// # Errors
/// Both names.
pub fn refuse_twins(drives: &[PathBuf]) -> Result<(), Failure> {
    for (index, drive) in drives.iter().enumerate() {
        if let Some(twin) = drives[..index].iter().find(|known| are_one(known, drive)) {
            let (a, b) = (twin.display(), drive.display());
            return Err(Failure::Usage(format!("{a} and {b} are the same drive: name it once")));
        }
    }
    Ok(())
}

fn is_same(known: &Path, word: &Path) -> bool {
    let wanted = absolute(word);
    // Does not wait for a file system that hangs.
    let real = |path: &Path| real_path_within(path, LOOK_UP);
    known == wanted || real(&wanted) == real(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn member(slot: Option<usize>, path: &str, role: &str, serial: Option<&str>) -> Value {
        json!({"slot": slot, "path": path, "role": role, "direct": true, "serial": serial, "read_errors": 0, "hedged_reads": 0,
            "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
    }

    fn array(name: &str, members: Vec<Value>, spans: Vec<Value>) -> Value {
        json!({"name": name, "full_name": name, "uuid": "", "level": "5", "layout": "", "size_bytes": 0, "health": "degraded",
            "state": "", "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": [],
            "spans": spans, "resync_pending": false, "in_flight": 0, "events": 0, "created_s": 0, "exports": [], "clients": []})
    }

    #[test]
    fn paths_serials_and_slots_find_a_drive() {
        let members = vec![
            member(Some(0), "/x/a", "in sync", Some("S1")),
            member(Some(1), "/x/b", "failed", Some("S2")),
            member(Some(1), "/x/c", "rebuilding", Some(" S3 ")),
            member(None, "/x/d", "spare", None),
        ];
        let tank: ArrayView = serde_json::from_value(array("tank", members, vec![])).expect("an array");
        let find = |word: &str, prefer| find(&tank, Path::new(word), prefer).map_err(|error| error.to_string());
        for (word, prefer, path) in [
            ("/x/d", Prefer::Working, "/x/d"),
            ("0", Prefer::Working, "/x/a"),
            ("0", Prefer::Failed, "/x/a"),
            ("1", Prefer::Working, "/x/c"),
            ("1", Prefer::Failed, "/x/b"),
            ("tank:1", Prefer::Failed, "/x/b"),
            ("s3", Prefer::Working, "/x/c"),
        ] {
            assert_eq!(find(word, prefer), Ok(path.into()), "{word}");
        }
        let error = find("7", Prefer::Working).expect_err("there is no slot 7");
        assert!(error.contains("does not use 7") && error.contains("/x/c (tank slot 1)"), "{error}");
    }

    #[test]
    fn a_slot_of_several_spans_is_asked_for_again() {
        let span = |name: &str, path: &str| array(name, vec![member(Some(0), path, "in sync", None)], vec![]);
        let spans = vec![span("tank-span0", "/x/a"), span("tank-span1", "/x/b")];
        let tank: ArrayView = serde_json::from_value(array("tank", vec![], spans)).expect("an array");
        let error = find(&tank, Path::new("0"), Prefer::Working).expect_err("both spans have a slot 0").to_string();
        assert!(error.contains("/x/a (tank-span0 slot 0) or /x/b (tank-span1 slot 0)"), "{error}");
        assert_eq!(find(&tank, Path::new("tank-span1:0"), Prefer::Working).expect("one"), PathBuf::from("/x/b"));
    }
}
