//! Drives that may hang are opened and read on threads of their own, for a bounded time.

use crate::HostError;
use crate::candidate::candidate_of;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_drive::{Access, DriveError, IoOptions, NotInTime, PATIENCE_WITH_THE_DEAD, SyncDrive, within_each};
use stria_format::md::Candidate;

/// 20 s: the time in which a drive must be opened and read, or written with its metadata. A hard disk needs about ten to spin up.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

// A drive that a killed process still has open is in use, and not silent: a daemon that was killed tries again until it is free.
const _: () = assert!(PATIENCE_WITH_THE_DEAD.as_secs() + 4 < ANSWERS_WITHIN.as_secs());

/// Opens drives, and reads md's metadata from them, all at the same time.
pub(crate) fn open_each(paths: &[PathBuf], access: Access, io: IoOptions) -> Vec<Result<(SyncDrive, Candidate), HostError>> {
    let open = move |path: PathBuf| {
        let drive = SyncDrive::open_with(&path, access, io)?;
        let candidate = candidate_of(&drive);
        Ok::<_, DriveError>((drive, candidate))
    };
    let opened = within_each(ANSWERS_WITHIN, paths, |path| {
        let path = path.clone();
        move || open(path)
    });
    let told = |(path, opened): (&PathBuf, Result<Result<_, DriveError>, NotInTime>)| match opened {
        Ok(opened) => opened.map_err(HostError::from),
        Err(error) => Err(not_in_time(path, "to be opened and read", &error)),
    };
    paths.iter().zip(opened).map(told).collect()
}

/// The error for a drive that did not answer in time. `for_what`: the purpose of the time, and the state of the drive now.
pub(crate) fn not_in_time(path: &Path, for_what: &str, error: &NotInTime) -> HostError {
    let (shown, seconds) = (path.display(), ANSWERS_WITHIN.as_secs());
    match error {
        NotInTime::Late => {
            let text = format!(
                "{shown} did not answer within {seconds} s {for_what}; check the drive and its cable, and try again when it answers"
            );
            HostError::Silent { path: path.to_owned(), text }
        }
        NotInTime::NoThread(error) => {
            HostError::Refused(format!("{shown}: no thread could be started to reach it: {error}; try again"))
        }
        NotInTime::Panicked => {
            HostError::Refused(format!("{shown}: it could not be read because of an internal error; please report it"))
        }
    }
}
