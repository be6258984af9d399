//! How arrays become block devices of this machine (`serve --ublk`).

use std::path::PathBuf;
use stria_front::ublk::UblkOptions;

/// The folder with a note for each device. Devices are root's, so it is root's folder whichever way the sockets are named.
pub fn notes() -> PathBuf {
    "/run/stria".into()
}

/// How an array on so many lanes becomes a block device.
pub fn options(id: Option<u32>, lane_count: usize) -> UblkOptions {
    UblkOptions { id, queues: u16::try_from(lane_count).unwrap_or(u16::MAX), notes: notes() }
}
