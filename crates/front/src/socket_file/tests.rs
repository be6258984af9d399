//! Goal: a socket is never visible before it is complete, never taken from a running server, and never left behind.
//! Method: the real system calls in a folder of the test's own, with another thread that watches.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::AtomicBool;
use std::thread;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain")).collect()
}

#[test]
fn mode_is_as_asked_whatever_the_umask() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    for mode in [0o600, 0o660, 0o666, 0o622] {
        let socket = SocketFile::listen(&path, SocketAccess { mode, group: None }).expect("a socket");
        assert_eq!(fs::symlink_metadata(&path).expect("it is there").permissions().mode() & 0o7777, mode);
        drop(socket);
        assert!(names(folder.path()).is_empty());
    }
}

#[test]
fn a_client_that_sees_the_file_finds_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..300 {
                let socket = SocketFile::listen(&path, SocketAccess::default()).expect("a socket");
                thread::yield_now();
                // The file goes before its server does, so a client never meets a dead one.
                socket.remove();
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut connected = 0;
        while !done.load(Ordering::SeqCst) {
            // The kernel finds the file first and its server afterwards, so a server that ends in between refuses. No dead socket
            // stays behind.
            let mut refused = 0;
            loop {
                match UnixStream::connect(&path) {
                    Ok(_) => connected += 1,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && refused < 3 => {
                        refused += 1;
                        continue;
                    }
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
                }
                break;
            }
        }
        assert!(connected > 0);
    });
}

#[test]
fn what_is_there_already_is_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    let listen = || SocketFile::listen(&path, SocketAccess::default());

    drop(UnixListener::bind(&path).expect("the socket of a dead server"));
    SocketFile::check(&path).expect("a dead server's socket is no obstacle");
    drop(UnixListener::bind(&path).expect("the check removed it"));
    let living = listen().expect("it is replaced");
    assert!(matches!(SocketFile::check(&path), Err(SocketError::InUse)));
    assert!(matches!(listen(), Err(SocketError::InUse)));
    // Connections are not accepted: the queue fills, and the server still counts as running.
    let _waiting: Vec<_> = std::iter::repeat_with(|| answer_socket(&path)).take_while(Result::is_ok).collect();
    assert!(matches!(listen(), Err(SocketError::InUse)));
    drop(living);

    let datagrams = UnixDatagram::bind(&path).expect("a socket of another kind");
    assert!(matches!(listen(), Err(SocketError::InUse)));
    drop(datagrams);
    fs::remove_file(&path).expect("it is there");

    fs::write(&path, "precious").expect("a file");
    assert!(matches!(listen(), Err(SocketError::NotASocket)));
    assert!(matches!(SocketFile::check(&path), Err(SocketError::NotASocket)));
    assert_eq!(fs::read(&path).expect("the file"), b"precious");
    fs::remove_file(&path).expect("it is there");

    // A link is no socket, wherever it leads.
    let elsewhere = folder.path().join("b.sock");
    drop(UnixListener::bind(&elsewhere).expect("a dead socket"));
    symlink(&elsewhere, &path).expect("a link");
    assert!(matches!(listen(), Err(SocketError::NotASocket)));
    assert!(elsewhere.exists() && path.exists());
    assert_eq!(names(folder.path()).len(), 2, "nothing hidden is left");
}

fn answer_socket(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = stream_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?).map(|()| socket)
}

#[test]
fn only_its_own_file_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    let socket = SocketFile::listen(&path, SocketAccess::default()).expect("a socket");
    fs::remove_file(&path).expect("somebody removes it");
    fs::write(&path, "precious").expect("and puts a file there");
    drop(socket);
    assert_eq!(fs::read(&path).expect("the file"), b"precious");
}

#[test]
fn paths_that_no_client_could_name_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let room = PATH_BYTES_MAX - folder.path().as_os_str().len() - 1;
    let longest = folder.path().join("n".repeat(room));
    let socket = SocketFile::listen(&longest, SocketAccess::default()).expect("the longest name");
    UnixStream::connect(&longest).expect("a client names it");
    drop(socket);
    let longer = folder.path().join("n".repeat(room + 1));
    assert!(matches!(SocketFile::listen(&longer, SocketAccess::default()), Err(SocketError::LongPath(_))));
    let nowhere = folder.path().join("no/such/folder");
    assert!(matches!(SocketFile::check(&nowhere), Err(SocketError::System { .. })));
}

#[test]
fn of_servers_that_start_at_once_one_gets_the_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    for _ in 0..20 {
        drop(UnixListener::bind(&path).expect("the socket of a dead server"));
        let started: Vec<_> = thread::scope(|scope| {
            let start = || SocketFile::listen(&path, SocketAccess::default());
            let starting: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            starting.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(started.iter().filter(|socket| socket.is_ok()).count(), 1, "{started:?}");
        UnixStream::connect(&path).expect("the one that listens is the one at the path");
    }
}
