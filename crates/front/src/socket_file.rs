//! Unix sockets that appear complete and always disappear.
//!
//! A socket is made under a hidden name, gets its owner, group and mode, listens, and only then gets its name by a rename. So a
//! client that waits for the file finds a server behind it, and no other user can connect before the mode allows it. A lock on
//! the folder keeps two starting servers from mistaking each other's socket for a dead one.

use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// `sun_path` of linux/un.h holds 108 bytes with a zero behind them; clients cannot connect to a longer path.
const PATH_BYTES_MAX: usize = 107;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// Which users may connect to a unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// Permission bits of the file; clients need to write.
    pub mode: u32,
    /// The file's group; the group of the process if `None`.
    pub group: Option<u32>,
}

impl Default for SocketAccess {
    /// Only the user of the process.
    fn default() -> Self {
        Self { mode: 0o700, group: None }
    }
}

/// The reason why a socket cannot be made at a path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The file there is not a socket. It is not changed.
    #[error("a file that is not a socket is there; choose another path or remove it")]
    NotASocket,
    /// A program listens there. Its socket is not changed.
    #[error("another server listens there; stop it or choose another path")]
    InUse,
    /// The path is longer than a socket's address holds.
    #[error("the path has {0} bytes, and that of a unix socket at most {PATH_BYTES_MAX}; choose a shorter one")]
    LongPath(usize),
    /// The system refuses a step.
    #[error("{action}: {source}")]
    System {
        /// The step.
        action: &'static str,
        /// The system's message.
        source: io::Error,
    },
}

fn system(action: &'static str) -> impl Fn(Errno) -> SocketError {
    move |error| SocketError::System { action, source: error.into() }
}

/// A unix socket that listens. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, so that no other file is removed instead.
    identity: (u64, u64),
}

impl SocketFile {
    /// Checks that a socket could be made at `path` now. The socket of a dead server is removed; nothing else is changed.
    ///
    /// # Errors
    /// As [`SocketFile::listen`].
    pub fn check(path: &Path) -> Result<(), SocketError> {
        let folder = Folder::of(path)?;
        folder.clear(path)?;
        rustix::fs::accessat(&folder.handle, ".", rustix::fs::Access::WRITE_OK, AtFlags::empty())
            .map_err(system("the folder cannot be written"))
    }

    /// Listens at `path`. The socket of a dead server is replaced; that of a running one and any other file are not.
    ///
    /// # Errors
    /// When the path is taken, or the system refuses a step; then nothing is left behind.
    pub fn listen(path: &Path, access: SocketAccess) -> Result<Self, SocketError> {
        let folder = Folder::of(path)?;
        let hidden = Hidden::bind(&folder)?;
        if let Some(group) = access.group {
            let group = Some(Gid::from_raw(group));
            rustix::fs::chownat(&folder.handle, &hidden.name, None, group, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(system("its group cannot be set"))?;
        }
        let mode = Mode::from_raw_mode(access.mode);
        rustix::fs::chmodat(&folder.handle, &hidden.name, mode, AtFlags::empty()).map_err(system("its mode cannot be set"))?;
        rustix::net::listen(&hidden.socket, BACKLOG).map_err(system("it cannot listen"))?;
        let file = rustix::fs::statat(&folder.handle, &hidden.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(system("its file has vanished"))?;
        folder.clear(path)?;
        rustix::fs::renameat_with(&folder.handle, &hidden.name, CWD, path, RenameFlags::NOREPLACE).map_err(
            |error| match error {
                Errno::EXIST => SocketError::InUse,
                error => system("it cannot be renamed to its path")(error),
            },
        )?;
        let listener = UnixListener::from(
            hidden
                .socket
                .try_clone()
                .map_err(|source| SocketError::System { action: "its handle cannot be duplicated", source })?,
        );
        Ok(Self { listener, path: path.to_owned(), identity: (file.st_dev, file.st_ino) })
    }

    /// The socket, which is non-blocking.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, if it is still there. Harmless if repeated.
    pub fn remove(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The folder of a socket, locked against other servers that start.
struct Folder {
    handle: OwnedFd,
}

impl Folder {
    fn of(path: &Path) -> Result<Self, SocketError> {
        let len = path.as_os_str().len();
        if len > PATH_BYTES_MAX {
            return Err(SocketError::LongPath(len));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let open = |flags| rustix::fs::open(folder, flags | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        // A folder that may be written but not read can be used, though not locked.
        let handle = open(OFlags::RDONLY).or_else(|error| open(OFlags::PATH).map_err(|_| error));
        let handle = handle.map_err(system("its folder cannot be opened"))?;
        let _ = rustix::fs::flock(&handle, FlockOperation::LockExclusive);
        Ok(Self { handle })
    }

    /// Ensures that nothing is at `path`: the socket of a dead server is removed.
    fn clear(&self, path: &Path) -> Result<(), SocketError> {
        let Ok(file) = fs::symlink_metadata(path) else { return Ok(()) };
        if !file.file_type().is_socket() {
            return Err(SocketError::NotASocket);
        }
        match answer(path) {
            Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketError::InUse),
            Err(Errno::CONNREFUSED) => match rustix::fs::unlink(path) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(system("the socket of a dead server is there and cannot be removed")(error)),
            },
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(system("a socket is there, and the check whether a server listens failed")(error)),
        }
    }
}

/// Succeeds if a server takes connections at `path`. Does not wait for one whose queue is full.
fn answer(path: &Path) -> Result<(), Errno> {
    let socket = stream_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn stream_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// A socket under a name that no client looks for; removed unless it was renamed.
struct Hidden<'a> {
    folder: &'a Folder,
    name: String,
    socket: OwnedFd,
}

impl<'a> Hidden<'a> {
    fn bind(folder: &'a Folder) -> Result<Self, SocketError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let socket = stream_socket().map_err(system("no socket can be made"))?;
        // Linux gives the file the mode of the socket, less the umask: no other user may connect until all is set.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(system("its mode cannot be set"))?;
        // Through the folder's handle, as the hidden name may be longer than the final one.
        let mut tries = 0;
        loop {
            let name = format!(".stria-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let place = format!("/proc/self/fd/{}/{name}", folder.handle.as_raw_fd());
            let address = SocketAddrUnix::new(place).map_err(system("it cannot be named"))?;
            match rustix::net::bind(&socket, &address) {
                Ok(()) => return Ok(Self { folder, name, socket }),
                // A process of this number was killed here between two steps.
                Err(Errno::ADDRINUSE) if tries < 100 => tries += 1,
                Err(error) => return Err(system("it cannot be made")(error)),
            }
        }
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // Fails if it was renamed.
        let _ = rustix::fs::unlinkat(&self.folder.handle, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests;
