//! Messages to systemd (`sd_notify(3)`), and the watchdog.
//!
//! The protocol is a datagram of `KEY=VALUE` lines to a unix socket, so it needs no library.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The supervisor of this process, if it has one that listens.
pub struct Supervisor {
    address: Option<OsString>,
}

impl Supervisor {
    /// By `$NOTIFY_SOCKET`.
    pub fn of_this_process() -> Self {
        Self { address: std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) }
    }

    /// Sends lines such as `READY=1`. A supervisor that cannot be reached does not matter to clients: the loss is logged.
    pub fn notify(&self, state: &str) {
        if let Some(address) = &self.address
            && let Err(error) = send(address.as_bytes(), state)
        {
            tracing::warn!("systemd was not notified of \"{state}\": {error}");
        }
    }
}

fn send(address: &[u8], state: &str) -> std::io::Result<()> {
    let address = match address.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(address))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// The time within which systemd expects a signal from this process (`sd_watchdog_enabled(3)`); `None`: it expects none.
pub fn watchdog() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_other = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|micros| *micros > 0 && !is_other).map(Duration::from_micros)
}
