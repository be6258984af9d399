//! One file replaced by another in one step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;
use stria_terminal::Failure;

/// Replaces a file's content: readers, and a power cut, find either the old or the new one, whole. Owner and mode stay.
///
/// # Errors
/// When a step fails; then the old file is there.
pub fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let hidden = hidden(path);
    let outcome = write(&hidden, path, text);
    if outcome.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    outcome.map_err(|error| Failure::Failed(format!("{} cannot be written, so it stays as it was: {error}", path.display())))
}

/// The name under which the new content is written, in the same folder.
fn hidden(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", process::id()))
}

fn write(hidden: &Path, path: &Path, text: &str) -> io::Result<()> {
    let _ = fs::remove_file(hidden);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(hidden)?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        // Only root may give a file away; another user's file stays that user's, whose it is already.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(hidden, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
