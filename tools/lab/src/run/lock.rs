//! The lock of a run's folder: one program at a time uses it.

use super::RunError;
use crate::result::inside;
use crate::target_lock::within;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// The kernel may release the locks of a killed process a moment after its end: a run that follows at once waits this long.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// The lock of a folder.
pub(crate) fn lock(folder: &Path) -> Result<File, RunError> {
    let file = inside::touch(folder, "lock")?;
    within(GONE_AFTER, || Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?)).map_err(|_| {
        let folder = folder.display();
        RunError::Failed(format!("the run in {folder} is still running: wait for its end, or interrupt it"))
    })?;
    Ok(file)
}
