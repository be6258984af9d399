//! The errors of opening a drive, and the [`IoError`]s that stand for the system's error numbers.

use rustix::io::Errno;
use std::io;
use std::path::PathBuf;
use stria_block::{Action, BLOCK_ALIGN, ErrorKind, IoError, NO_THREAD, SECTOR_BYTES, TroubleKind, with_limit};

/// Why a drive, a ring or a lane cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The path does not exist.
    #[error("{path} does not exist: check the name")]
    Missing {
        /// As it was given.
        path: PathBuf,
    },
    /// The user lacks the permission.
    #[error(
        "{path} may not be opened {how}: {source}; run as a user with this permission (for block devices root, or the group disk)"
    )]
    Denied {
        /// As it was given.
        path: PathBuf,
        /// "for reading" or "for writing".
        how: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// The drive is in use.
    #[error("{path} is in use by {holder}{}", if *ends { ", which is ending; try again in a moment" } else { "; stop it first" })]
    Busy {
        /// As it was given.
        path: PathBuf,
        /// The user of the drive, as far as it is known.
        holder: String,
        /// True if that is a process that has ended or is about to: the kernel still has its files open.
        ends: bool,
    },
    /// The drive does not answer.
    #[error(
        "{path} does not answer: it is a loop device over {file}, which did not answer within 5 s; check what serves that file"
    )]
    Silent {
        /// As it was given.
        path: PathBuf,
        /// The file behind it.
        file: PathBuf,
    },
    /// The path leads to something that cannot be a member.
    #[error("{path} cannot be a member: {reason}")]
    Unfit {
        /// As it was given.
        path: PathBuf,
        /// The cause and the remedy.
        reason: Unfit,
    },
    /// The drive takes no commands past the block layer.
    #[error("{path} cannot be reached by NVMe commands: {reason}; serve it without --passthrough")]
    NoPassthrough {
        /// As it was given.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// Anything else that the system reports.
    #[error("{}", with_limit(&format!("{}: cannot {action}: {source}", path.display())))]
    System {
        /// As it was given.
        path: PathBuf,
        /// The operation that was tried.
        action: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// No io_uring.
    #[error("io_uring cannot be set up: {source}; {}", ring_remedy(.source))]
    Ring {
        /// The system's words.
        source: io::Error,
    },
    /// A thread could not be started, or not on the processor that was asked for.
    #[error("lane {name} cannot {action}: {source}{}", thread_remedy(.source))]
    Lane {
        /// The lane's name.
        name: String,
        /// The operation that was tried.
        action: &'static str,
        /// The system's words.
        source: io::Error,
    },
}

/// Why something cannot be a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A file without bytes.
    #[error("it is an empty file, which carries no array and has no space for one")]
    EmptyFile,
    /// A device without sectors.
    #[error("it has no sectors: no medium is in it, or nothing is attached to it")]
    NoSectors,
    /// A directory.
    #[error("it is a directory; give a block device or a regular file")]
    Directory,
    /// A character device.
    #[error("it is a character device; give a block device or a regular file")]
    Characters,
    /// A pipe or a socket.
    #[error("it is a pipe or socket; give a block device or a regular file")]
    Pipe,
    /// The kernel lets nobody write to it.
    #[error("it is write-protected; remove the protection (blockdev --setrw), or name another drive")]
    Protected,
    /// A path of a multipath device.
    #[error("it is one of several paths to a drive: name {} instead, which is all of them", map.display())]
    OnePath {
        /// The device over all paths.
        map: PathBuf,
    },
    /// A file on a file system that cannot be written.
    #[error(
        "its file system is read-only, perhaps only for this process: add the path to ReadWritePaths= of the systemd unit \
         (`systemctl edit stria`)"
    )]
    FileSystemReadOnly,
    /// The kernel uses it.
    #[error("it is used as swap, or is the executable of a running program")]
    Swap,
    /// A device node that leads nowhere.
    #[error("there is no drive behind this device node")]
    NoDrive,
    /// Another thing was opened than was looked at.
    #[error("it changed from a file to a device, or back, while it was opened")]
    Changed,
    /// Its logical blocks are larger than a page.
    #[error("its blocks of {block_bytes} bytes are larger than {BLOCK_ALIGN}")]
    Blocks {
        /// Their size.
        block_bytes: u32,
    },
}

/// The remedy when the system refused to set up a ring (io_uring_setup(2), *ERRORS*).
fn ring_remedy(source: &io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::NOMEM) => {
            "this user may not lock enough memory: raise the limit that `ulimit -l` shows to 64 MiB or more (LimitMEMLOCK= in a \
             systemd unit, memlock in limits.conf), or free memory"
        }
        Some(Errno::NOSYS) => {
            "it needs Linux 5.11 or later, with io_uring built in; in a container, a seccomp profile that allows it (docs/CONTAINER.md)"
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            "it is forbidden here: set sysctl kernel.io_uring_disabled=0, and use a container profile that allows it"
        }
        Some(Errno::MFILE | Errno::NFILE) => "raise the limit that `ulimit -n` shows (LimitNOFILE= in a systemd unit)",
        _ => "it needs Linux 5.11 or later, sysctl kernel.io_uring_disabled=0, and a container profile that allows it",
    }
}

/// The remedy when the system gave no thread.
fn thread_remedy(source: &io::Error) -> String {
    if Errno::from_io_error(source) == Some(Errno::AGAIN) { format!("; {NO_THREAD}") } else { String::new() }
}

/// The error of a request to the member `name` that the system ended with `errno`.
pub(crate) fn io_error(name: impl std::fmt::Display, action: Action, start_sector: u64, sectors: u64, errno: Errno) -> IoError {
    let kind = match errno {
        // Errors that stand for the block layer's status codes: medium error, protection, critical target, remote.
        Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::REMOTEIO | Errno::BADMSG if action == Action::Read => ErrorKind::Medium,
        Errno::NODEV | Errno::NXIO | Errno::BADF | Errno::NOMEDIUM | Errno::STALE => ErrorKind::Gone,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::NoSpace,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => ErrorKind::Unsupported,
        Errno::INVAL => ErrorKind::Invalid,
        _ => ErrorKind::Other,
    };
    let remedy = if errno == Errno::FBIG {
        "; raise the limit that `ulimit -f` shows (LimitFSIZE= in a systemd unit) above the member's size"
    } else {
        ""
    };
    let errno = io::Error::from(errno);
    let what = match action {
        Action::Flush => TroubleKind::FlushFailed { reason: errno.to_string() },
        Action::Read | Action::Write | Action::WriteZeroes | Action::Extents | Action::Allocate => TroubleKind::Failed {
            action,
            bytes: sectors * SECTOR_BYTES as u64,
            sector: start_sector,
            reason: format!("{errno}{remedy}"),
        },
    };
    IoError::of_drive(kind, name, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_error_names_member_range_and_cause() {
        let error = io_error("/dev/sdb", Action::Read, 2097152, 256, Errno::IO);
        assert_eq!(error.kind, ErrorKind::Medium);
        let words = "member /dev/sdb: read of 128 KiB at sector 2097152 failed: Input/output error";
        assert!(error.context.starts_with(words), "{error}");
    }

    #[test]
    fn a_ring_that_is_refused_names_the_remedy() {
        for (errno, remedy) in [
            (Errno::NOMEM, "ulimit -l"),
            (Errno::NOSYS, "Linux 5.11"),
            (Errno::PERM, "io_uring_disabled"),
            (Errno::MFILE, "ulimit -n"),
        ] {
            let text = DriveError::Ring { source: errno.into() }.to_string();
            assert!(text.contains(remedy), "{text}");
            assert_eq!(text.contains("5.11"), errno == Errno::NOSYS, "{text}");
        }
    }

    #[test]
    fn error_numbers_become_kinds() {
        let kind = |action, errno| io_error("x", action, 0, 8, errno).kind;
        for errno in [Errno::IO, Errno::NODATA, Errno::ILSEQ, Errno::REMOTEIO] {
            assert_eq!(kind(Action::Read, errno), ErrorKind::Medium);
            assert_eq!(kind(Action::Write, errno), ErrorKind::Other, "a write that fails says nothing about reading");
        }
        for (errno, expected) in [
            (Errno::NODEV, ErrorKind::Gone),
            (Errno::NXIO, ErrorKind::Gone),
            (Errno::BADF, ErrorKind::Gone),
            (Errno::NOSPC, ErrorKind::NoSpace),
            (Errno::OPNOTSUPP, ErrorKind::Unsupported),
            (Errno::INVAL, ErrorKind::Invalid),
            (Errno::TIMEDOUT, ErrorKind::Other),
        ] {
            assert_eq!(kind(Action::Write, errno), expected, "{errno}");
        }
    }
}
