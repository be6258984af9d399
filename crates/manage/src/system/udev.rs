//! udev, which names devices.

use std::process::{Command, Stdio};

/// Waits until udev has processed what it knows of, but no longer than this. Returns at once where there is no udev.
pub(crate) fn wait(seconds: u32) {
    let timeout = format!("--timeout={seconds}");
    let _ = Command::new("udevadm").args(["settle", &timeout]).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
