//! Listening sockets: reserved early, opened late.
//!
//! An address is checked and, if the system allows it, reserved before anything else is done, so that a start that cannot
//! succeed fails early. Clients can connect only after `open`, when there is an array to serve.

use crate::FrontError;
use crate::listener::Listener;
use crate::socket_file::{SocketAccess, SocketError, SocketFile};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

/// 1 MiB: the replies of 128 reads of 4 KiB, with the kernel's own overhead.
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// A client at the other end of a socket.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// For messages.
    pub words: String,
    pub origin: Origin,
    /// Its address, if it is no local one.
    pub address: Option<IpAddr>,
}

/// The peer for limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A user of this machine.
    User(u32),
    /// A machine; for an IPv6 address its 64-bit network, as a host has all addresses in it.
    Address(IpAddr),
}

impl Origin {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let [a, b, c, d, ..] = address.segments();
                Self::Address(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            address => Self::Address(address),
        }
    }
}

/// A socket that listens already. Another process has it open too, so that clients which connect while this process restarts
/// wait.
#[derive(Debug)]
pub enum Inherited {
    /// A unix socket. Its file stays.
    Unix(UnixListener),
    /// A TCP socket.
    Tcp(TcpListener),
}

impl Inherited {
    /// Another handle to it.
    ///
    /// # Errors
    /// When the process has too many files.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(socket) => socket.try_clone().map(Self::Unix),
            Self::Tcp(socket) => socket.try_clone().map(Self::Tcp),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_nonblocking(true),
            Self::Tcp(socket) => socket.set_nonblocking(true),
        }
    }

    /// # Errors
    /// When the system does not tell its address.
    pub(crate) fn close(self) -> io::Result<Closed> {
        let listener = match &self {
            Self::Unix(socket) => Listener::Unix(socket.local_addr()?.as_pathname().unwrap_or("(unnamed)".as_ref()).to_owned()),
            Self::Tcp(socket) => Listener::Tcp(socket.local_addr()?),
        };
        Ok(Closed::Inherited(self, listener))
    }
}

/// A listener whose address is free, and that accepts no client yet.
pub(crate) enum Closed {
    Inherited(Inherited, Listener),
    Unix(PathBuf),
    /// Bound, so that no other program takes the port.
    Tcp(OwnedFd, SocketAddr),
}

impl Closed {
    pub fn prepare(listener: &Listener) -> Result<Self, FrontError> {
        let failed = |source| FrontError::Bind { listener: listener.to_string(), source };
        match listener {
            Listener::Unix(path) => {
                SocketFile::check(path).map_err(|error| refused(listener, error))?;
                Ok(Self::Unix(path.clone()))
            }
            Listener::Tcp(address) => {
                let bound = || {
                    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
                    sockopt::set_socket_reuseaddr(&socket, true)?;
                    rustix::net::bind(&socket, address)?;
                    let address = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
                    Ok::<_, rustix::io::Errno>((socket, address))
                };
                let (socket, address) = bound().map_err(|error| failed(error.into()))?;
                Ok(Self::Tcp(socket, address))
            }
        }
    }

    /// The listener, with the port that the system chose.
    pub fn listener(&self) -> Listener {
        match self {
            Self::Inherited(_, listener) => listener.clone(),
            Self::Unix(path) => Listener::Unix(path.clone()),
            Self::Tcp(_, address) => Listener::Tcp(*address),
        }
    }

    /// # Errors
    /// When the address cannot be listened on; it is returned for another attempt.
    pub fn open(self, access: SocketAccess) -> Result<Door, Box<(Self, FrontError)>> {
        let listener = self.listener();
        let bind = |source| FrontError::Bind { listener: listener.to_string(), source };
        let socket = match self {
            Self::Unix(path) => match SocketFile::listen(&path, access) {
                Ok(file) => Socket::File(file),
                Err(error) => return Err(Box::new((Self::Unix(path), refused(&listener, error)))),
            },
            Self::Tcp(socket, address) => match rustix::net::listen(&socket, BACKLOG) {
                Ok(()) => Socket::Tcp(socket.into()),
                Err(error) => return Err(Box::new((Self::Tcp(socket, address), bind(error.into())))),
            },
            Self::Inherited(inherited, listener) => match inherited.set_nonblocking() {
                Ok(()) => Socket::Inherited(inherited),
                Err(error) => return Err(Box::new((Self::Inherited(inherited, listener), bind(error)))),
            },
        };
        Ok(Door { socket, listener })
    }
}

fn refused(listener: &Listener, error: SocketError) -> FrontError {
    FrontError::Socket { listener: listener.to_string(), source: error }
}

enum Socket {
    File(SocketFile),
    Inherited(Inherited),
    Tcp(TcpListener),
}

/// A listening socket. A unix socket's file is removed when this is dropped.
pub(crate) struct Door {
    socket: Socket,
    pub listener: Listener,
}

impl Door {
    /// Stops listening, as if it had never been open. No client has been accepted.
    ///
    /// # Errors
    /// When a port was taken by another program meanwhile.
    pub fn close(self) -> Result<Closed, FrontError> {
        let Self { socket, listener } = self;
        match (socket, listener) {
            (Socket::Inherited(inherited), listener) => Ok(Closed::Inherited(inherited, listener)),
            // Its path is checked again when it is opened.
            (Socket::File(_), Listener::Unix(path)) => Ok(Closed::Unix(path)),
            // A listening socket cannot go back to having an address only, so it is closed, and another one gets the address.
            (socket @ (Socket::Tcp(_) | Socket::File(_)), listener) => {
                drop(socket);
                Closed::prepare(&listener)
            }
        }
    }

    pub fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        match &self.socket {
            Socket::File(file) => Self::accept_local(file.listener()),
            Socket::Inherited(Inherited::Unix(socket)) => Self::accept_local(socket),
            Socket::Tcp(socket) | Socket::Inherited(Inherited::Tcp(socket)) => {
                let (stream, address) = socket.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let socket = OwnedFd::from(stream);
                // The loss of a client's machine is then noticed within some minutes.
                sockopt::set_socket_keepalive(&socket, true)?;
                sockopt::set_tcp_keepidle(&socket, Duration::from_secs(60))?;
                let peer = Peer { words: address.to_string(), origin: Origin::of(address.ip()), address: Some(address.ip()) };
                Ok((socket, peer))
            }
        }
    }

    fn accept_local(listener: &UnixListener) -> io::Result<(OwnedFd, Peer)> {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        let socket = OwnedFd::from(stream);
        // A hint: a larger buffer takes the replies of a deep queue in one send.
        let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
        let peer = sockopt::socket_peercred(&socket)?;
        let user = peer.uid.as_raw();
        let words = format!("process {} of user {user}", peer.pid.as_raw_nonzero());
        Ok((socket, Peer { words, origin: Origin::User(user), address: None }))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::File(file) => file.listener().as_fd(),
            Socket::Inherited(Inherited::Unix(socket)) => socket.as_fd(),
            Socket::Tcp(socket) | Socket::Inherited(Inherited::Tcp(socket)) => socket.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_peer() {
        let origin = |text: &str| Origin::of(text.parse().expect("an address"));
        assert_eq!(origin("2001:db8:1:2::1"), origin("2001:db8:1:2:ffff::9"));
        assert_ne!(origin("2001:db8:1:2::1"), origin("2001:db8:1:3::1"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
    }
}
