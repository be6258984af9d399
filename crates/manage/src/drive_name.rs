//! Finds a drive of an array by what the command line names: a path, serial number or slot; and any other drive by its path.

use crate::api::{ArrayView, MemberView};
use crate::control::client;
use crate::words::error::{ErrorSentence, Told};
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
        (_, []) => Err(Failure::Failed(does_not_use(&array.identity.name, word, &known()))),
        _ => {
            let several: Vec<String> = found.iter().map(|drive| drive.words()).collect();
            Err(Failure::Failed(format!("\"{text}\" may mean {}: name the drive by its path", several.join(" or "))))
        }
    }
}

/// The path of a drive that is no member, or whose array is not asked: only a path names such a drive. `command`: what takes
/// it. `of`: the array that the command names.
///
/// # Errors
/// When the word is no path here, and seems to mean something else: a slot, a serial number, an array, or a name in `/dev`.
pub fn path(word: &Path, command: &str, of: Option<&ArrayView>) -> Result<PathBuf, Failure> {
    let text = word.to_string_lossy();
    let is_absent = || word.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    if text.contains('/') || text.is_empty() || !is_absent() {
        return Ok(absolute(word));
    }
    let in_dev = Path::new("/dev").join(word);
    if in_dev.exists() {
        return Err(Failure::Usage(format!(
            "{text} does not exist here: if the drive is meant, name it by its path, {}",
            in_dev.display()
        )));
    }
    // Drives of other arrays are only known while these are served. A server that does not answer is no reason to fail.
    let named = std::env::var_os("STRIA_SOCKET").map(PathBuf::from);
    let sockets = std::iter::once(None).chain(named.as_deref().map(Some));
    let served = sockets.filter_map(|socket| client::survey(socket).ok()).flat_map(|(services, _)| services);
    let arrays: Vec<ArrayView> = of.cloned().into_iter().chain(served.flat_map(|(_, arrays)| arrays)).collect();
    match not_a_path(&text, command, of, &arrays) {
        Some(sentence) => Err(Failure::Usage(sentence)),
        None => Ok(absolute(word)),
    }
}

/// [`path`] of several.
///
/// # Errors
/// That of the first one that is no path.
pub fn paths(words: &[PathBuf], command: &str) -> Result<Vec<PathBuf>, Failure> {
    words.iter().map(|word| path(word, command, None)).collect()
}

/// What a word seems to mean that is no path, and how to write what the command takes. `of` is the first of `arrays`, if it is
/// known.
fn not_a_path(text: &str, command: &str, of: Option<&ArrayView>, arrays: &[ArrayView]) -> Option<String> {
    let takes = format!("`{command}` takes a drive by its path, such as /dev/sdb");
    let (before, slot) = text.rsplit_once(':').map_or((None, text), |(array, slot)| (Some(array), slot));
    let holders = |among: &[ArrayView]| -> Vec<String> {
        among.iter().flat_map(drives).filter(|drive| drive.has_slot(text)).map(|drive| drive.words()).collect()
    };
    let is_array = |name: &str| arrays.iter().any(|array| is_called(array, name));
    if slot.parse::<usize>().is_ok() && before.is_none_or(&is_array) {
        let known = holders(of.map_or(arrays, std::slice::from_ref));
        let slot_is = match (known.is_empty(), of) {
            (false, _) => format!(" ({})", known.join(", ")),
            (true, Some(array)) if has_missing(array, before, slot) => {
                format!(" of array \"{}\", which is missing", array.identity.name)
            }
            (true, _) => String::new(),
        };
        let next = match command {
            "add" => {
                "; the array finds its slot itself. A member that works is copied to another drive by `stria replace ARRAY SLOT DRIVE`"
            }
            "create" => "; as many drives as are named have slots, from 0 on",
            _ => "",
        };
        return Some(format!("{text} is the number of a slot{slot_is}, and {takes}{next}"));
    }
    if is_array(text) {
        return Some(format!("{text} is an array, and {takes}"));
    }
    let serial: Vec<String> =
        arrays.iter().flat_map(drives).filter(|drive| drive.has_serial(text)).map(|one| one.words()).collect();
    let first = serial.first()?;
    Some(format!("{text} is the serial number of {first}, and {takes}"))
}

/// True if the array or one of its spans has this name or UUID.
fn is_called(array: &ArrayView, name: &str) -> bool {
    [&array.identity.name, &array.identity.full_name, &array.identity.uuid].into_iter().any(|known| known == name)
        || array.parts.spans.iter().any(|span| is_called(span, name))
}

/// True if a slot of the array, or of the span that is named, has no drive.
fn has_missing(array: &ArrayView, span: Option<&str>, slot: &str) -> bool {
    let is_it = span.is_none_or(|span| span == array.identity.name);
    (is_it && slot.parse().is_ok_and(|slot| array.parts.missing_slots.contains(&slot)))
        || array.parts.spans.iter().any(|one| has_missing(one, span, slot))
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
    let own = array.parts.members.iter().filter(|member| member.direct.is_some());
    let own = own.map(|member| Drive { array: &array.identity.name, member });
    own.chain(array.parts.spans.iter().flat_map(drives)).collect()
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
pub fn refuse_twins(drives: &[PathBuf]) -> Result<(), Told> {
    for (index, drive) in drives.iter().enumerate() {
        if let Some(twin) = drives[..index].iter().find(|known| are_one(known, drive)) {
            let (drive, other) = (twin.display().to_string(), drive.display().to_string());
            return Err(Told::usage(ErrorSentence::SameDrive { drive, other }));
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

    /// What is no path is told as what it is, with what the command takes; any other word may be a file that is not there.
    #[test]
    fn a_slot_a_serial_number_or_an_array_is_no_path() {
        let members = vec![member(Some(0), "/x/a", "in sync", Some("S1")), member(Some(1), "/x/b", "failed", Some("S2"))];
        let mut tank = array("tank", members, vec![]);
        tank["missing_slots"] = json!([1, 2]);
        let tank: ArrayView = serde_json::from_value(tank).expect("an array");
        let arrays = std::slice::from_ref(&tank);
        let takes = |command: &str| format!("`{command}` takes a drive by its path, such as /dev/sdb");
        for (word, command, of, begins) in [
            ("1", "add", Some(&tank), "1 is the number of a slot (/x/b (tank slot 1, failed)), and "),
            ("2", "add", Some(&tank), "2 is the number of a slot of array \"tank\", which is missing, and "),
            ("9", "add", Some(&tank), "9 is the number of a slot, and "),
            ("tank:0", "replace", Some(&tank), "tank:0 is the number of a slot (/x/a (tank slot 0)), and "),
            ("0", "replace", Some(&tank), "0 is the number of a slot (/x/a (tank slot 0)), and "),
            ("3", "create", None, "3 is the number of a slot, and "),
            ("1", "locate", None, "1 is the number of a slot (/x/b (tank slot 1, failed)), and "),
            ("tank", "create", None, "tank is an array, and "),
            ("s1", "wipe", None, "s1 is the serial number of /x/a (tank slot 0), and "),
        ] {
            let told = not_a_path(word, command, of, arrays).unwrap_or_default();
            assert!(told.starts_with(&format!("{begins}{}", takes(command))), "{word}: {told}");
        }
        for word in ["disk.img", "lake", "lake:0", "sdzz", "-1", "0x1"] {
            assert_eq!(not_a_path(word, "add", Some(&tank), arrays), None, "{word}");
        }
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
