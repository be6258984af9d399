//! Drives that may hang are opened and read on threads of their own, for a bounded time.

use crate::HostError;
use crate::candidate::candidate_of;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use stria_drive::{Access, DriveError, IoOptions, NotInTime, PATIENCE_WITH_THE_DEAD, SyncDrive, within_each};
use stria_format::md::Candidate;

/// 20 s: the time in which a drive must be opened and read, or written with its metadata. A hard disk needs about ten to spin up.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// The time in which work ends that has answered.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

// A drive that a killed process still has open is in use, and not silent: a daemon that was killed tries again until it is free.
const _: () = assert!(PATIENCE_WITH_THE_DEAD.as_secs() + 4 < ANSWERS_WITHIN.as_secs());

/// Opens drives, and reads md's metadata from them, all at the same time.
pub(crate) fn open_each(paths: &[PathBuf], access: Access, io: IoOptions) -> Vec<Result<(SyncDrive, Candidate), HostError>> {
    open_each_and(paths, access, io, |_, _| ())
        .into_iter()
        .map(|opened| opened.map(|(drive, candidate, ())| (drive, candidate)))
        .collect()
}

/// The same, and what else is read from each.
pub(crate) fn open_each_and<T: Send + 'static>(
    paths: &[PathBuf],
    access: Access,
    io: IoOptions,
    also: fn(&SyncDrive, &Candidate) -> T,
) -> Vec<Result<(SyncDrive, Candidate, T), HostError>> {
    let open = move |path: PathBuf| {
        let drive = SyncDrive::open_with(&path, access, io)?;
        let candidate = candidate_of(&drive);
        let more = also(&drive, &candidate);
        Ok::<_, DriveError>((drive, candidate, more))
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

/// Runs `work` on a thread, and waits at most `patience` for what it answers, and a moment for its end: what it still has to do may wait for a drive
/// that hangs. Its thread ends when the drive answers, and keeps the drive open until then (R16).
pub(crate) fn answer_within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce(&dyn Fn(T)) + Send + 'static,
) -> Result<T, NotInTime> {
    let ((answer, answers), (end, ends)) = (channel(), channel::<()>());
    let thread = std::thread::Builder::new().name("stria may wait".into()).spawn(move || {
        // Dropped last, when nothing of the work is left.
        let _end = end;
        work(&|result| {
            let _ = answer.send(result);
        });
    });
    thread.map_err(NotInTime::NoThread)?;
    let answered = answers.recv_timeout(patience).map_err(|error| match error {
        RecvTimeoutError::Timeout => NotInTime::Late,
        RecvTimeoutError::Disconnected => NotInTime::Panicked,
    })?;
    let _ = ends.recv_timeout(ENDS_WITHIN);
    Ok(answered)
}

/// The error for a drive that did not answer in time. `for_what`: the purpose of the time, and the state of the drive now.
pub(crate) fn not_in_time(path: &Path, for_what: &str, error: &NotInTime) -> HostError {
    let (shown, seconds) = (path.display(), ANSWERS_WITHIN.as_secs());
    match error {
        NotInTime::Late => {
            let text = format!(
                "{shown} does not answer: it was given {seconds} s {for_what}; check the drive and its cable, and try again when it answers"
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn an_answer_counts_although_the_rest_of_the_work_hangs() {
        let (_go, wait) = channel::<()>();
        let begun = Instant::now();
        let answer = answer_within(Duration::from_secs(60), move |answer| {
            answer(7);
            let _ = wait.recv();
        });
        assert!(matches!(answer, Ok(7)) && begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn work_without_an_answer_is_waited_for_for_a_bounded_time() {
        let (_go, wait) = channel::<()>();
        let late = answer_within(Duration::from_millis(10), move |answer| answer(wait.recv().is_ok()));
        assert!(matches!(late, Err(NotInTime::Late)));
        assert!(matches!(answer_within::<u8>(Duration::from_secs(60), |_| panic!("on purpose")), Err(NotInTime::Panicked)));
    }
}
