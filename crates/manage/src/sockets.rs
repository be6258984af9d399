//! Where control sockets lie: made by `serve`, found by the other commands.
//!
//! `--socket` or `$STRIA_SOCKET` names one. Otherwise they lie in `$XDG_RUNTIME_DIR/stria`, in `/run/stria` (root), or
//! in `/tmp/stria-UID`, one for each `serve`, named after its first array and ending in `.sock`.

use crate::failure::Failure;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The folders that may hold control sockets, the one to make new ones in first.
fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let mut folders: Vec<PathBuf> = runtime.map(|path| Path::new(&path).join("stria")).into_iter().collect();
    folders.push("/run/stria".into());
    folders.push(format!("/tmp/stria-{}", geteuid().as_raw()).into());
    folders
}

/// Whether nobody but us (or root) can have put something into the folder.
fn is_ours(folder: &Path) -> bool {
    let owner = |metadata: fs::Metadata| {
        metadata.is_dir()
            && (metadata.uid() == geteuid().as_raw() || metadata.uid() == 0)
            && metadata.permissions().mode() & 0o022 == 0
    };
    fs::symlink_metadata(folder).is_ok_and(owner)
}

/// The folder for new sockets; made if need be, for us alone.
///
/// # Errors
/// When none can be made.
pub fn own_folder() -> Result<PathBuf, Failure> {
    let mut reasons = Vec::new();
    for folder in folders() {
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&folder);
        match made {
            Err(error) => reasons.push(format!("{}: {error}", folder.display())),
            Ok(()) if !is_ours(&folder) => reasons.push(format!("{}: others may write there", folder.display())),
            Ok(()) if rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_err() => {
                reasons.push(format!("{}: it may not be written", folder.display()));
            }
            Ok(()) => return Ok(folder),
        }
    }
    Err(Failure::Failed(format!("there is no folder for the control socket ({}): name one with --socket", reasons.join("; "))))
}

/// Every control socket that may be alive.
pub fn all() -> Vec<PathBuf> {
    let mut sockets = Vec::new();
    for folder in folders().into_iter().filter(|folder| is_ours(folder)) {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let named = entries.flatten().map(|entry| entry.path());
        sockets.extend(named.filter(|path| path.extension().is_some_and(|extension| extension == "sock")));
    }
    sockets.sort();
    sockets.dedup();
    sockets
}

/// Listens at `path`, for this user alone; the socket of a dead `serve` is replaced.
///
/// # Errors
/// When the path is taken, or nothing can be made there.
pub fn listen(path: &Path) -> Result<std::os::unix::net::UnixListener, Failure> {
    let fail = |what: String| Failure::Failed(format!("cannot listen for commands at {}: {what}", path.display()));
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(fail("a file that is not a socket is there; remove it or name another path with --socket".into()));
        }
        match UnixStream::connect(path) {
            Ok(_) => return Err(fail("another `stria serve` listens there; name another path with --socket".into())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|error| fail(format!("the socket of a dead serve cannot be removed: {error}")))?;
            }
            Err(error) => return Err(fail(format!("the socket there does not answer: {error}"))),
        }
    }
    let before = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let bound = std::os::unix::net::UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|error| fail(format!("{error}; name another path with --socket")))?;
    listener.set_nonblocking(true).map_err(|error| fail(error.to_string()))?;
    Ok(listener)
}
