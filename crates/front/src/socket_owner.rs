//! The process that listens at a unix socket, also when its queue of connections is full and nothing can ask it.
//!
//! Source: `include/uapi/linux/unix_diag.h` of Linux 6.12. Paths in `/proc/net/unix` are those at the bind, under a name that was
//! changed since.

use netlink_sys::Socket;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `NETLINK_SOCK_DIAG`
const SOCK_DIAG: isize = 4;
/// `SOCK_DIAG_BY_FAMILY`, also the type of the answers.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const DUMP: u16 = 0x301;
/// `AF_UNIX`
const UNIX: u8 = 1;
/// `TCP_LISTEN`, as a bit.
const LISTENS: u32 = 1 << 10;
/// `UDIAG_SHOW_VFS`
const SHOW_FILE: u32 = 2;
/// `UNIX_DIAG_VFS`
const FILE: u16 = 1;
/// The length of `nlmsghdr`, and of `unix_diag_msg`.
const HEAD_BYTES: usize = 16;

/// The process that listens at the unix socket `path`; `None` if the system does not tell, as for other users' processes.
pub fn socket_owner(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let device = rustix::fs::major(file.dev()) << 20 | rustix::fs::minor(file.dev());
    // The kernel reports the low half of the inode's number.
    let wanted = (file.ino() as u32, device);
    let sockets = listening(wanted).ok()?;
    let links: Vec<String> = sockets.iter().map(|socket| format!("socket:[{socket}]")).collect();
    let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| links.iter().any(|wanted| link == Path::new(wanted)))
    };
    // systemd holds the sockets that it passes, too.
    pids.filter(|pid| *pid != 1).find(has_it)
}

/// The numbers of the sockets that listen at this file: its inode and its device.
fn listening(file: (u32, u32)) -> io::Result<Vec<u32>> {
    let mut socket = Socket::new(SOCK_DIAG)?;
    socket.bind_auto()?;
    let mut request = Vec::new();
    request.extend(40_u32.to_ne_bytes());
    request.extend([BY_FAMILY, DUMP].into_iter().flat_map(u16::to_ne_bytes));
    request.extend([0_u32; 2].into_iter().flat_map(u32::to_ne_bytes));
    request.extend([UNIX, 0, 0, 0]);
    request.extend([LISTENS, 0, SHOW_FILE, 0, 0].into_iter().flat_map(u32::to_ne_bytes));
    socket.send(&request, 0)?;
    let mut found = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        if !take(&datagram, file, &mut found) {
            return Ok(found);
        }
    }
}

/// Takes the sockets at `file` out of one datagram. False after the last.
fn take(mut datagram: &[u8], file: (u32, u32), found: &mut Vec<u32>) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(datagram, 0), u16_at(datagram, 4)) {
        let Some(message) = datagram.get(..length as usize).filter(|message| message.len() >= HEAD_BYTES) else { return false };
        if kind != BY_FAMILY {
            return false;
        }
        let mut attributes = message.get(2 * HEAD_BYTES..).unwrap_or_default();
        while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
            if kind == FILE
                && (u32_at(attributes, 4), u32_at(attributes, 8)) == (Some(file.0), Some(file.1))
                && let Some(socket) = u32_at(message, HEAD_BYTES + 4)
            {
                found.push(socket);
            }
            attributes = attributes.get(usize::from(length).max(4).next_multiple_of(4)..).unwrap_or_default();
        }
        datagram = datagram.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SocketAccess, SocketFile};

    #[test]
    fn the_process_that_listens_is_found_by_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        let socket = SocketFile::listen(&path, SocketAccess::default()).expect("a socket");
        let _another = SocketFile::listen(&folder.path().join("b.sock"), SocketAccess::default()).expect("a socket");
        assert_eq!(socket_owner(&path), Some(std::process::id()));
        std::fs::write(folder.path().join("file"), "").expect("a file");
        assert_eq!(socket_owner(&folder.path().join("file")), None, "nothing listens there");
        drop(socket);
        assert_eq!(socket_owner(&path), None, "it is gone");
    }
}
