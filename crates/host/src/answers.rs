//! Drives that may hang are opened and read on threads of their own, for a bounded time.

use crate::HostError;
use crate::candidate::candidate_of;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use stria_block::NO_THREAD;
use stria_drive::{Access, DriveError, IoOptions, NotInTime, PATIENCE_WITH_THE_DEAD, SyncDrive, within, within_each};
use stria_format::md::Candidate;

/// 20 s: the time in which a drive must be opened and read, or written with its metadata. A hard disk needs about ten to spin up.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// The time in which a drive of an array that was not read or written in time answers one read, if it answers at all.
const ONE_READ_WITHIN: Duration = Duration::from_secs(2);

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

/// Runs `work` for each of these drives at the same time, each on a thread. A drive that hangs ends that with an error that names
/// it. Its thread ends when the drive answers, and keeps the drive open until then (R16). `for_what`: as in [`not_in_time`].
pub(crate) fn each_in_time<T: Send + 'static>(
    drives: &[SyncDrive],
    for_what: &str,
    work: impl Fn(usize, &SyncDrive) -> Result<T, HostError> + Clone + Send + 'static,
) -> Result<Vec<T>, HostError> {
    each_within(ANSWERS_WITHIN, drives, |drive| drive.info().path.clone(), for_what, work)
}

fn each_within<C: Clone + Send + 'static, T: Send + 'static>(
    patience: Duration,
    drives: &[C],
    path_of: impl Fn(&C) -> PathBuf,
    for_what: &str,
    work: impl Fn(usize, &C) -> Result<T, HostError> + Clone + Send + 'static,
) -> Result<Vec<T>, HostError> {
    let done = within_each(patience, drives.iter().enumerate(), |(index, drive)| {
        let (drive, work) = (drive.clone(), work.clone());
        move || {
            let done = work(index, &drive);
            // Its lock must not outlive the answer.
            drop(drive);
            done
        }
    });
    let told = |(drive, done): (&C, Result<Result<T, HostError>, NotInTime>)| {
        done.unwrap_or_else(|error| Err(not_in_time(&path_of(drive), for_what, &error)))
    };
    drives.iter().zip(done).map(told).collect()
}

/// The same for work on all of these drives together, on one thread.
pub(crate) fn all_in_time<T: Send + 'static>(
    drives: Vec<SyncDrive>,
    for_what: &str,
    work: impl FnOnce(Vec<SyncDrive>) -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let known = drives.clone();
    within(ANSWERS_WITHIN, move || work(drives)).unwrap_or_else(|error| {
        let silent = silent_drive(&known).unwrap_or_else(|| known[0].info().path.clone());
        Err(not_in_time(&silent, for_what, &error))
    })
}

/// The one of these drives that does not answer a read.
pub(crate) fn silent_drive(drives: &[SyncDrive]) -> Option<PathBuf> {
    let read = |drive: SyncDrive| {
        move || {
            let mut block = [0; 4096];
            // An error is an answer.
            let _ = drive.read_at(0, &mut block);
        }
    };
    let answers = within_each(ONE_READ_WITHIN, drives.iter().cloned(), read);
    let silent = answers.iter().position(|answer| matches!(answer, Err(NotInTime::Late)))?;
    Some(drives[silent].info().path.clone())
}

/// Runs `work` on a thread, and waits at most `patience` for what it answers, and a moment for its end: what it still has to do
/// may wait for a drive that hangs. Its thread ends when the drive answers, and keeps the drive open until then (R16).
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
            HostError::Refused(format!("{shown}: no thread could be started to reach it: {error}; {NO_THREAD}"))
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

    /// Before, `create` and `rename` waited for ever for a drive that hung once it had been opened.
    #[test]
    fn a_drive_that_hangs_while_it_is_written_is_named() {
        let (_go, wait) = channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let work = move |index: usize, name: &&'static str| {
            if index == 1 {
                let _ = wait.lock().expect("alone").recv();
            }
            Ok(name.len())
        };
        let within = |milliseconds, drives: &[&'static str]| {
            each_within(Duration::from_millis(milliseconds), drives, |name| PathBuf::from(name), "to be written", work.clone())
        };
        assert_eq!(within(60_000, &["/dev/a"]).expect("it answers"), [6]);
        let error = within(2000, &["/dev/a", "/dev/b", "/dev/c"]).expect_err("the second hangs");
        assert!(matches!(&error, HostError::Silent { path, .. } if path == Path::new("/dev/b")), "{error}");
        assert!(error.to_string().contains("/dev/b does not answer") && error.to_string().contains("to be written"), "{error}");
    }

    #[test]
    fn work_without_an_answer_is_waited_for_for_a_bounded_time() {
        let (_go, wait) = channel::<()>();
        let late = answer_within(Duration::from_millis(10), move |answer| answer(wait.recv().is_ok()));
        assert!(matches!(late, Err(NotInTime::Late)));
        assert!(matches!(answer_within::<u8>(Duration::from_secs(60), |_| panic!("on purpose")), Err(NotInTime::Panicked)));
    }
}
