//! How clients reach a block device: an NBD server over unix and TCP sockets, a vhost-user-blk server for virtual machines, and a
//! block device of this machine's kernel.
//!
//! ```text
//!   server      one thread accepts clients
//!     ├ door         listening sockets, and the clients they accept
//!     │  └ socket_file  unix sockets that appear complete and disappear for certain
//!     │     └ socket_owner  the process that listens at one
//!     └ client       one thread per client: its socket and its mailbox in one epoll
//!          ├ registry     exports and the list of connections, for all threads
//!          │  └ budget       the memory that all clients share
//!          ├ link         the socket
//!          │  └ tls          wire bytes in and out, plain bytes in and out (pure)
//!          │     └ tls_files    certificates, also those that are renewed meanwhile
//!          ├ handshake    bytes in, bytes out: option haggling        (pure)
//!          └ session      bytes in, requests out, replies out         (pure)
//!               └ wire    every constant and structure of the protocol (pure)
//!   vhost_user  disks of virtual machines; its head lists its parts
//!   ublk        a block device: made, taken over, removed
//!     ├ lane_client  one queue: its driver and its device
//!     ├ queue        requests of the kernel in, results out           (pure)
//!     ├ kernel       system calls
//!     └ uapi         every constant and structure of the driver       (pure)
//!   nbd_device  a block device of the kernel's NBD client: connected, connected again, removed
//!     ├ greet        the client's side of the handshake: bytes in, bytes out (pure)
//!     └ netlink      the driver's messages
//!   device_note, device_users  the array and the users of a block device
//!   apart       clients on threads of their own, where the device takes none on its own
//! ```
//!
//! The crate knows the device only as a [`RemoteDevice`](stria_block::RemoteDevice): no arrays, no drives. The pure parts have
//! no socket, thread or clock, and never trust the peer: any bytes end in a reply, a refusal or the end of that one connection,
//! within a bounded amount of memory.

#![deny(unsafe_code)]

mod apart;
mod budget;
mod client;
mod connection;
mod device_note;
mod device_users;
mod door;
mod error;
mod export;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod fuzz;
mod handshake;
mod link;
mod listener;
pub mod nbd_device;
mod options;
mod registry;
mod server;
mod session;
mod socket_file;
mod socket_owner;
mod talk;
mod tls;
mod tls_files;
pub mod ublk;
mod uri;
mod vhost_user;
mod wire;

pub use connection::{Closing, ConnectionStatus};
pub use door::Inherited;
pub use error::FrontError;
pub use export::Export;
pub use listener::Listener;
pub use options::Options;
pub use server::{Server, ServerHandle};
pub use socket_file::{SocketAccess, SocketError, SocketFile};
pub use socket_owner::socket_owner;
pub use tls::TlsConfig;
pub use tls_files::{ServerTls, TlsError, TlsFiles};
pub use uri::{nbd_target, nbd_uri};
pub use vhost_user::{VhostUserDisk, VhostUserServer};
