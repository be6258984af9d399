//! The addresses at which clients connect.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address at which clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listener {
    /// A unix socket at this path. It is made when the server listens and removed when it stops.
    Unix(PathBuf),
    /// A TCP socket at this address; port 0 lets the system choose.
    Tcp(SocketAddr),
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Unix(path) => write!(f, "unix:{}", path.display()),
            Listener::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}
