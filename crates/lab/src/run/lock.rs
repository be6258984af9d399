//! One program at a time has a run's folder, and nothing of an earlier one works on.

use super::RunError;
use crate::result::ResultError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// One program at a time has a folder.
pub(crate) fn lock(folder: &Path) -> Result<File, RunError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|source| ResultError::Io { path, source })?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| RunError::Failed(format!("the run in {} is going on: wait for it, or interrupt it", folder.display())))?;
    Ok(file)
}

/// Ends a fio that a killed run left behind, if it is still that one.
pub(super) fn end_left_fio(folder: &Path) {
    for entry in fs::read_dir(folder.join("raw")).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "pid") {
            continue;
        }
        let pid: Option<i32> = fs::read_to_string(&path).ok().and_then(|pid| pid.trim().parse().ok());
        let job = path.with_extension("fio").display().to_string();
        let is_ours =
            |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&job));
        if let Some(pid) = pid.filter(|pid| is_ours(*pid)).and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            while fs::metadata(format!("/proc/{pid}/exe")).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = fs::remove_file(&path);
    }
}
