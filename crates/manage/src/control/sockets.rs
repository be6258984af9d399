//! Where control sockets are: `serve` makes them, the other commands find them.
//!
//! `--socket` or `$STRIA_SOCKET` names one. Otherwise they are in `$XDG_RUNTIME_DIR/stria`, in `/run/stria` (root), or in
//! `/tmp/stria-UID`: one for each `serve`, named after its first array and ending in `.sock`.

use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stria_front::{SocketAccess, SocketError, SocketFile};
use stria_terminal::Failure;

/// 2 s: how long a serve waits for what one that ends, or was killed, still holds. The kernel closes the files of a killed
/// process only after it has wound up its io_uring.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// Tries until something is free, for [`GONE_AFTER`]. `is_held`: whether an error says that another process holds it.
///
/// # Errors
/// The last one.
pub fn once_free<T, E>(mut attempt: impl FnMut() -> Result<T, E>, is_held: impl Fn(&E) -> bool) -> Result<T, E> {
    let end = Instant::now() + GONE_AFTER;
    loop {
        match attempt() {
            Err(error) if is_held(&error) && Instant::now() < end => std::thread::sleep(GONE_AFTER / 40),
            outcome => return outcome,
        }
    }
}

/// The folders that may hold control sockets; new ones go into the first that can be used.
fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let mut folders: Vec<PathBuf> = runtime.map(|path| Path::new(&path).join("stria")).into_iter().collect();
    folders.push("/run/stria".into());
    folders.push(format!("/tmp/stria-{}", geteuid().as_raw()).into());
    folders
}

/// The daemon's control socket, in a folder of control sockets.
const DAEMON: &str = "stria.sock";

/// The control socket of a new daemon.
///
/// # Errors
/// The errors of [`own_folder`].
pub fn for_daemon() -> Result<PathBuf, Failure> {
    Ok(own_folder()?.join(DAEMON))
}

/// The control sockets that a daemon may listen at.
pub fn of_daemons() -> Vec<PathBuf> {
    all().into_iter().filter(|path| path.file_name().is_some_and(|name| name == DAEMON)).collect()
}

/// True if only this user or root can have put something into the folder.
fn is_ours(folder: &Path) -> bool {
    let owner = |metadata: fs::Metadata| {
        metadata.is_dir()
            && (metadata.uid() == geteuid().as_raw() || metadata.uid() == 0)
            && metadata.permissions().mode() & 0o022 == 0
    };
    fs::symlink_metadata(folder).is_ok_and(owner)
}

/// The folder for new sockets. If necessary it is made, for this user alone.
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

/// Every control socket that may be in use.
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

/// Checks that a `serve` could listen at `path`. Removes the socket of a dead one. One that has just been stopped still gives its
/// last answers, and is waited for.
///
/// # Errors
/// When the path is taken, or nothing can be made there.
pub fn check(path: &Path) -> Result<(), Failure> {
    let is_in_use = |error: &SocketError| matches!(error, SocketError::InUse);
    once_free(|| SocketFile::check(path), is_in_use).map_err(|error| refused(path, &error))
}

/// Listens at `path`, for this user alone; the socket of a dead `serve` is replaced.
///
/// # Errors
/// When the path is taken, or nothing can be made there.
pub fn listen(path: &Path) -> Result<SocketFile, Failure> {
    SocketFile::listen(path, SocketAccess::default()).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &SocketError) -> Failure {
    let path = path.display();
    Failure::Failed(match error {
        SocketError::InUse => {
            format!(
                "cannot listen for commands at {path}: another `stria serve` or `stria daemon` listens there; name another path with --socket"
            )
        }
        error => format!("cannot listen for commands at {path}: {error}; --socket names another path"),
    })
}
