//! The settings of a served array, and the drives' own write caches compared with them.
//!
//! An array asks once, when it opens a drive, whether the drive has a volatile cache. It sends no flush to a drive that has none.
//! So a cache is not switched on under an array that counts on there being none, but only while the array is stopped. If another
//! program or a reset switches one on, it is switched off again.

use crate::service::free::check_free;
use crate::settings::WriteMode;
use crate::words::error::{ErrorSentence, Words};
use crate::words::warning::WarningSentence;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stria_array::MemberState;
use stria_block::shell_word;
use stria_drive::{DriveInfo, DriveKind};
use stria_host::{ArrayReport, MemberReport, PlannedArray};

/// Why a cache stays off under a running array, and the next step.
const AT_NEXT_START: &str = "the array sends no flushes to it, because its cache was off when it was opened: it is switched on when the array is stopped and started";

/// The present settings of a served array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When writes are acknowledged.
    pub write: WriteMode,
    /// The drives' caches, if they were set.
    pub drive_caches: Option<bool>,
    /// Writes are refused.
    pub read_only: bool,
}

/// The drives' write caches beside their setting.
#[derive(Default)]
pub struct Caches {
    /// The drives that have another state than was set, and do not change it.
    pub differ: Mutex<Vec<PathBuf>>,
    /// The drives whose caches are on, and to which the array sends no flushes.
    pub unflushed: Mutex<Vec<PathBuf>>,
    /// The last time that drives were asked.
    pub(super) asked: Mutex<Option<Instant>>,
    /// They are being asked: one of them may hang.
    pub(super) is_asking: AtomicBool,
}

/// Compares drives' write caches with their setting, and sets those that differ again. Returns the drives that still differ, and
/// warnings; none of a drive that is `known` to differ. A drive that does not answer counts as set.
pub fn keep<E: ToString>(
    drives: &[PathBuf],
    known: &[PathBuf],
    on: bool,
    ask: impl Fn(&Path) -> Result<bool, E>,
    set: impl Fn(&Path, bool) -> Result<(), E>,
) -> (Vec<PathBuf>, Vec<WarningSentence>) {
    use WarningSentence as Say;
    let said = |drive: &Path, outcome: Result<(), Words>| {
        let drive = drive.display().to_string();
        match (on, outcome.map_err(Words::parts)) {
            (true, Ok(())) => Say::CacheOnAgain { drive },
            (false, Ok(())) => Say::CacheOffAgain { drive },
            (true, Err((reason, cause))) => Say::CacheStaysOff { drive, reason, cause },
            (false, Err((reason, cause))) => Say::CacheStaysOn { drive, reason, cause },
        }
    };
    set_again(drives, known, on, ask, set, said)
}

/// Switches the write caches off that are on although their array sends no flushes to their drives. Returns the drives on which
/// that fails, and warnings, as [`keep`] does.
pub fn keep_off<E: ToString>(
    array: &str,
    drives: &[PathBuf],
    known: &[PathBuf],
    ask: impl Fn(&Path) -> Result<bool, E>,
    set: impl Fn(&Path, bool) -> Result<(), E>,
) -> (Vec<PathBuf>, Vec<String>) {
    let words = |drive: &Path, outcome: Result<(), Words>| {
        let (word, drive) = (shell_word(array), drive.display());
        let found = format!(
            "the write cache of {drive} was switched on by another program or by a reset. Array \"{array}\" sends it no flushes, because its cache was off when it was opened"
        );
        match outcome {
            Ok(()) => format!("{found}; so it is off again. `stria set {word} --drive-caches on` switches it on"),
            Err(why) => format!(
                "{found}; a power cut may lose what clients have flushed. It cannot be switched off ({why}): `stria stop {word}`, then `stria start {word}`"
            ),
        }
    };
    set_again(drives, known, false, ask, set, words)
}

fn set_again<E: ToString, S>(
    drives: &[PathBuf],
    known: &[PathBuf],
    on: bool,
    ask: impl Fn(&Path) -> Result<bool, E>,
    set: impl Fn(&Path, bool) -> Result<(), E>,
    words: impl Fn(&Path, Result<(), Words>) -> S,
) -> (Vec<PathBuf>, Vec<S>) {
    let (mut differ, mut warnings) = (Vec::new(), Vec::new());
    for drive in drives.iter().filter(|drive| ask(drive).is_ok_and(|found| found != on)) {
        let outcome = match set(drive, on) {
            Err(error) => Err(Words::from(error.to_string())),
            Ok(()) if ask(drive).is_ok_and(|found| found == on) => Ok(()),
            Ok(()) => Err(ErrorSentence::CacheIgnoresCommand {}.into()),
        };
        differ.extend(outcome.is_err().then(|| drive.clone()));
        if outcome.is_ok() || !known.contains(drive) {
            warnings.push(words(drive, outcome));
        }
    }
    (differ, warnings)
}

/// The drives below an array that have not failed.
pub fn drives_in_use(array: &ArrayReport) -> Vec<PathBuf> {
    in_use(array).into_iter().map(|info| info.path.clone()).collect()
}

/// Those of them that had no volatile cache when they were opened, so that the array sends them no flushes.
pub fn drives_without_cache(array: &ArrayReport) -> Vec<PathBuf> {
    without_cache(array).map(|info| info.path.clone()).collect()
}

/// The same, as they are open.
pub fn without_cache(array: &ArrayReport) -> impl Iterator<Item = &DriveInfo> {
    in_use(array).into_iter().filter(|info| is_without_cache(info))
}

fn is_without_cache(info: &DriveInfo) -> bool {
    info.kind == DriveKind::BlockDevice && !info.limits.volatile_cache
}

fn in_use(array: &ArrayReport) -> Vec<&DriveInfo> {
    fn of(array: &ArrayReport) -> impl Iterator<Item = &DriveInfo> {
        let with_status = array.members.iter().zip(&array.status.members);
        with_status.filter_map(|(member, status)| match member {
            MemberReport::Drive(drive) if status.state != MemberState::Failed => Some(&drive.info),
            MemberReport::Drive(_) | MemberReport::Array(_) | MemberReport::Removed => None,
        })
    }
    array.tree().into_iter().flat_map(of).collect()
}

/// Switches the write cache of a drive of a running array. `bare`: see [`drives_without_cache`].
///
/// # Errors
/// The drive refuses, or the array would not flush the cache.
pub fn switch(bare: &[PathBuf], drive: &Path, on: bool) -> Result<(), String> {
    match on && bare.iter().any(|bare| bare == drive) {
        true => Err(AT_NEXT_START.into()),
        false => stria_health::set_write_cache(drive, on).map_err(|error| error.to_string()),
    }
}

/// Switches the write caches of the drives of an array that is to start, unless one of them is in use: an array that another
/// process serves may have found the caches off, and would not flush them.
///
/// # Errors
/// A drive is in use, or refuses.
pub fn set_free_caches(planned: &PlannedArray, read_only: bool, on: bool) -> Result<(), String> {
    let free = check_free(std::slice::from_ref(planned), read_only);
    free.map_err(|failure| format!("the write caches stay as they are: {failure}"))?;
    set_caches(&planned.drives, on)
}

/// Switches the drives' own write caches.
///
/// # Errors
/// The first drive that refuses; those before it are switched.
pub fn set_caches(drives: &[PathBuf], on: bool) -> Result<(), String> {
    drives.iter().try_for_each(|drive| stria_health::set_write_cache(drive, on).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::error::Cause;
    use std::cell::RefCell;

    /// A reset of the controller once ended the setting, and the status went on to say "off, as set".
    #[test]
    fn a_cache_that_a_reset_has_switched_back_is_set_again_and_one_that_ignores_that_is_told() {
        let drives = ["/dev/good", "/dev/reset", "/dev/stubborn", "/dev/silent"].map(PathBuf::from);
        let was_set = RefCell::new(Vec::new());
        let ask = |drive: &Path| match drive.to_str() {
            Some("/dev/good") => Ok(false),
            Some("/dev/reset") => Ok(!was_set.borrow().contains(&drive.to_owned())),
            Some("/dev/stubborn") => Ok(true),
            _ => Err("no answer"),
        };
        let set = |drive: &Path, on: bool| {
            assert!(!on);
            was_set.borrow_mut().push(drive.to_owned());
            Ok(())
        };
        let (differ, warnings) = keep(&drives, &[], false, ask, set);
        assert_eq!(*was_set.borrow(), drives[1..3]);
        assert_eq!(differ, drives[2..3]);
        assert!(
            warnings[0].to_string().starts_with("the write cache of /dev/reset was on")
                && warnings[0].to_string().ends_with("it is off again, as set"),
            "{warnings:?}"
        );
        let WarningSentence::CacheStaysOn { drive, cause: Cause(Some(cause)), .. } = &warnings[1] else { panic!("{warnings:?}") };
        assert_eq!((&**drive, &**cause, warnings.len()), ("/dev/stubborn", &ErrorSentence::CacheIgnoresCommand {}, 2));
        let (differ, warnings) = keep(&drives[2..3], &[], false, ask, |_, _| Err("it refuses"));
        assert!(differ.len() == 1 && warnings[0].to_string().ends_with("cannot be switched: it refuses"), "{warnings:?}");
        let (still, warnings) = keep(&drives[2..3], &differ, false, ask, |_, _| Err("it refuses"));
        assert_eq!((still, warnings), (differ, vec![]), "it is told once, and not every minute");
    }

    /// `hdparm -W1` under an array that had found the cache off: the array sent no flush, and a power cut took what clients had
    /// flushed.
    #[test]
    fn a_cache_that_is_switched_on_under_an_array_that_does_not_flush_it_is_switched_off() {
        let drives = ["/dev/good", "/dev/switched", "/dev/stubborn", "/dev/gone"].map(PathBuf::from);
        let was_set = RefCell::new(Vec::new());
        let ask = |drive: &Path| match drive.to_str() {
            Some("/dev/good") => Ok(false),
            Some("/dev/switched") => Ok(!was_set.borrow().contains(&drive.to_owned())),
            Some("/dev/stubborn") => Ok(true),
            _ => Err("gone"),
        };
        let set = |drive: &Path, on: bool| {
            assert!(!on);
            was_set.borrow_mut().push(drive.to_owned());
            Ok(())
        };
        let (unflushed, warnings) = keep_off("tank", &drives, &[], ask, set);
        assert_eq!((&*was_set.borrow(), &*unflushed), (&drives[1..3].to_vec(), &drives[2..3]));
        assert!(warnings[0].contains("/dev/switched was switched on") && warnings[0].contains("it is off again"), "{warnings:?}");
        assert!(warnings[1].contains("/dev/stubborn") && warnings[1].ends_with("then `stria start tank`"), "{warnings:?}");
        let (still, warnings) = keep_off("tank", &drives[2..3], &unflushed, ask, |_, _| Err("it refuses"));
        assert_eq!((still, warnings), (unflushed, vec![]), "it is told once");
    }

    /// `set --drive-caches on` switched the caches on under an array that had found none, and that sent no flush from then on: a
    /// power cut took what clients had flushed.
    #[test]
    fn a_cache_is_not_switched_on_under_an_array_that_does_not_flush_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive");
        std::fs::write(&path, [0; 4096]).expect("a file");
        let mut info = stria_drive::probe(&path).expect("an image");
        assert!(!is_without_cache(&info), "a file is flushed in any case");
        info.limits.volatile_cache = false;
        info.kind = DriveKind::BlockDevice;
        assert!(is_without_cache(&info), "the kernel calls it write through");
        info.limits.volatile_cache = true;
        assert!(!is_without_cache(&info));
        let bare = [path.clone()];
        let why = switch(&bare, &path, true).expect_err("it stays off");
        assert!(why.contains("stopped and started"), "{why}");
        // The file takes no such command: it has been asked.
        for asked in [switch(&bare, &path, false), switch(&[], &path, true)] {
            assert!(asked.expect_err("a file").contains("is a file"));
        }
    }

    /// The daemon switched the caches of drives before it found that another process served their array.
    #[test]
    fn caches_of_drives_that_are_in_use_are_not_switched() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive");
        std::fs::write(&path, [0; 4096]).expect("a file");
        let planned = PlannedArray { name: "tank".into(), uuid: [7; 16], drives: vec![path.clone()] };
        let asked = |planned: &PlannedArray| set_free_caches(planned, false, true).expect_err("a file has no cache");
        let user = stria_drive::SyncDrive::open(&path, stria_drive::Access::Exclusive).expect("it opens");
        let why = asked(&planned);
        assert!(why.contains("is in use") && !why.contains("is a file"), "{why}");
        drop(user);
        assert!(asked(&planned).contains("is a file"));
    }
}
