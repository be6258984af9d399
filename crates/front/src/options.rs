//! Bounds on what clients may use, and which clients may connect.

use crate::FrontError;
use crate::session::STAGING_BYTES;
use crate::socket_file::SocketAccess;
use crate::tls::TlsConfig;
use ipnet::IpNet;
use std::time::Duration;
use stria_block::Pool;

/// Bounds on what clients may use. The memory of all clients together is at most `bytes_max`, and some 64 KiB more for each
/// connection and handshake (with TLS 300 KiB); the kernel's socket buffers come on top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Clients at a time that have agreed on an export. If all places are taken, a new client takes that of a client which has
    /// never sent a request, or is refused. A client that has sent one is never closed for another.
    pub connections_max: usize,
    /// Such clients of one peer, which is a user of this machine, an IPv4 address or an IPv6 network. The other places are for
    /// other peers.
    pub peer_connections_max: usize,
    /// Clients at a time that have not agreed yet. Another one takes the place of the oldest of the peer that has most.
    pub handshakes_max: usize,
    /// Memory for requests and replies of all clients together. Half of it is divided into `connections_max` shares, one for
    /// each client; the other half is lent to clients that need more.
    pub bytes_max: usize,
    /// Largest read or write, as announced to clients. A multiple of 4096.
    pub request_bytes_max: u32,
    /// Requests of one client at a time; beyond that its socket is not read.
    pub requests_in_flight_max: usize,
    /// Bytes of one client's requests at a time; beyond that its socket is not read.
    pub bytes_in_flight_max: usize,
    /// The time that a client may take to agree on an export.
    pub handshake_timeout: Duration,
    /// A client that has replies to take, or a write to finish, and moves less than 1 MiB in this time is closed. A client
    /// without open requests may be silent for ever.
    pub stall_timeout: Duration,
    /// How long a client that ends, or is ended, may take to read its last replies.
    pub drain_timeout: Duration,
    /// Which users may connect to unix sockets.
    pub socket_access: SocketAccess,
    /// The server's certificate, and whether clients must show one. `None`: no TLS.
    pub tls: Option<TlsConfig>,
    /// Addresses that TCP clients may have; none: any.
    pub allow: Vec<IpNet>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 128,
            peer_connections_max: 96,
            handshakes_max: 32,
            bytes_max: 512 << 20,
            request_bytes_max: 32 << 20,
            requests_in_flight_max: 1024,
            bytes_in_flight_max: 64 << 20,
            handshake_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            socket_access: SocketAccess::default(),
            tls: None,
            allow: Vec::new(),
        }
    }
}

/// 512 KiB: what each connection needs for itself, including the buffer for what it receives.
const SHARE_BYTES_MIN: usize = 2 * STAGING_BYTES;

impl Options {
    /// The defaults for so many clients with so much memory. The largest request shrinks with the memory.
    #[must_use]
    pub fn sized(connections_max: usize, bytes_max: usize) -> Self {
        let defaults = Self::default();
        let largest = (bytes_max / 4).max(64 << 10) / 4096 * 4096;
        let request_bytes_max = u32::try_from(largest).unwrap_or(u32::MAX).min(defaults.request_bytes_max);
        Self {
            connections_max,
            peer_connections_max: (connections_max * 3).div_ceil(4),
            handshakes_max: defaults.handshakes_max,
            bytes_max,
            request_bytes_max,
            bytes_in_flight_max: defaults.bytes_in_flight_max.max(request_bytes_max as usize),
            ..defaults
        }
    }

    /// What each connection has for its requests, whatever the others use.
    pub(crate) fn share(&self) -> usize {
        self.bytes_max / 2 / self.connections_max - STAGING_BYTES
    }

    pub(crate) fn check(&self) -> Result<(), FrontError> {
        let request_bytes = u64::from(self.request_bytes_max);
        let request_rule = "a multiple of 4096 from 65536 to 1073741824";
        let request_fits = request_bytes % 4096 == 0 && (64 << 10..=1 << 30).contains(&request_bytes);
        let bytes = self.bytes_in_flight_max as u64;
        let least_bytes =
            (2 * Pool::held_bytes(self.request_bytes_max as usize)).max(self.connections_max.saturating_mul(2 * SHARE_BYTES_MIN));
        let bytes_rule = "at least 1 MiB for each of connections_max, and twice request_bytes_max";
        [
            ("connections_max", self.connections_max as u64, "at least 1", self.connections_max > 0),
            ("peer_connections_max", self.peer_connections_max as u64, "at least 1", self.peer_connections_max > 0),
            ("handshakes_max", self.handshakes_max as u64, "at least 1", self.handshakes_max > 0),
            ("request_bytes_max", request_bytes, request_rule, request_fits),
            ("requests_in_flight_max", self.requests_in_flight_max as u64, "at least 1", self.requests_in_flight_max > 0),
            ("bytes_in_flight_max", bytes, "at least request_bytes_max", bytes >= request_bytes),
            ("bytes_max", self.bytes_max as u64, bytes_rule, self.bytes_max >= least_bytes),
        ]
        .into_iter()
        .try_for_each(|(option, value, rule, holds)| holds.then_some(()).ok_or(FrontError::Options { option, value, rule }))
    }
}
