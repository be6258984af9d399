//! The check that nothing else uses the drives of arrays.

use crate::control::sockets::once_free;
use rustix::fs::OFlags;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use stria_drive::{Access, DriveError, SyncDrive};
use stria_host::PlannedArray;
use stria_terminal::Failure;

/// Checks that the drives are free before anything is changed; the error names the user. Drives that are only read are locked
/// against writers, as long as the files that are returned.
///
/// # Errors
/// When one is in use.
pub fn check_free(arrays: &[PlannedArray], read_only: bool) -> Result<Vec<File>, Failure> {
    let mut held = Vec::new();
    for path in arrays.iter().flat_map(|array| &array.drives) {
        if !read_only {
            let is_busy = |error: &DriveError| matches!(error, DriveError::Busy { .. });
            once_free(|| SyncDrive::open(path, Access::Exclusive), is_busy).map_err(Failure::failed)?;
            continue;
        }
        let holder = || "another process that may write it".into();
        let busy = || Failure::failed(DriveError::Busy { path: path.clone(), holder: holder(), ends: false });
        let failed = |error: io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        // Of a block device nobody else may be the exclusive user; of a file nobody may have the writer's lock.
        let is_device = path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
        let flags = if is_device { OFlags::EXCL.bits().cast_signed() } else { 0 };
        let file = match File::options().read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Err(busy()),
            opened => opened.map_err(failed)?,
        };
        match file.try_lock_shared() {
            Ok(()) => held.push(file),
            Err(TryLockError::WouldBlock) => return Err(busy()),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    Ok(held)
}
