//! The settings of a served array, and the drives' own write caches compared with them.

use crate::settings::WriteMode;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stria_array::MemberState;
use stria_host::{ArrayReport, MemberReport};

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
    /// The last time that drives were asked.
    pub(super) asked: Mutex<Option<Instant>>,
    /// They are being asked: one of them may hang.
    pub(super) is_asking: AtomicBool,
}

/// Compares drives' write caches with their setting, and sets those that differ again. Returns the drives that still differ, and
/// warnings. A drive that does not answer counts as set.
pub fn keep<E: ToString>(
    drives: &[PathBuf],
    on: bool,
    ask: impl Fn(&Path) -> Result<bool, E>,
    set: impl Fn(&Path, bool) -> Result<(), E>,
) -> (Vec<PathBuf>, Vec<String>) {
    let (mut differ, mut warnings) = (Vec::new(), Vec::new());
    let (wanted, other) = if on { ("on", "off") } else { ("off", "on") };
    for drive in drives.iter().filter(|drive| ask(drive).is_ok_and(|found| found != on)) {
        let shown = drive.display();
        match set(drive, on) {
            Ok(()) if ask(drive).is_ok_and(|found| found == on) => {
                warnings.push(format!(
                    "the write cache of {shown} was {other}, as after a reset of its controller: it is {wanted} again, as set"
                ));
            }
            outcome => {
                let why = outcome.err().map_or_else(|| "it ignores the command".into(), |error| error.to_string());
                warnings.push(format!(
                    "the write cache of {shown} is {other}, though {wanted} is set, and cannot be switched: {why}"
                ));
                differ.push(drive.clone());
            }
        }
    }
    (differ, warnings)
}

/// The drives below an array that have not failed.
pub fn drives_in_use(array: &ArrayReport) -> Vec<PathBuf> {
    let drives = |array: &ArrayReport| {
        let with_status = array.members.iter().zip(&array.status.members);
        let in_use = with_status.filter_map(|(member, status)| match member {
            MemberReport::Drive(drive) if status.state != MemberState::Failed => Some(drive.info.path.clone()),
            MemberReport::Drive(_) | MemberReport::Array(_) | MemberReport::Removed => None,
        });
        in_use.collect::<Vec<_>>()
    };
    array.tree().into_iter().flat_map(drives).collect()
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
        let (differ, warnings) = keep(&drives, false, ask, set);
        assert_eq!(*was_set.borrow(), drives[1..3]);
        assert_eq!(differ, drives[2..3]);
        assert!(
            warnings[0].starts_with("the write cache of /dev/reset was on") && warnings[0].ends_with("it is off again, as set"),
            "{warnings:?}"
        );
        assert!(warnings[1].contains("/dev/stubborn is on, though off is set") && warnings.len() == 2, "{warnings:?}");
        let (differ, warnings) = keep(&drives[2..3], false, ask, |_, _| Err("it refuses"));
        assert!(differ.len() == 1 && warnings[0].ends_with("cannot be switched: it refuses"), "{warnings:?}");
    }
}
