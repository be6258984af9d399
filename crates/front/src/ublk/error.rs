//! Errors of block devices, each with its remedy.

use super::uapi::CONTROL_PATH;
use super::uapi::feature::NEEDED;
use std::io;

/// Why there is no block device, or it cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no driver.
    #[error(
        "this kernel has no ublk driver ({CONTROL_PATH} is missing): load it with `modprobe ublk_drv` (Linux 6.5 or later, built with \
         CONFIG_BLK_DEV_UBLK), or serve over NBD"
    )]
    NoDriver,
    /// The user lacks the permission.
    #[error("{CONTROL_PATH}: permission denied; run as root to make block devices, or serve over NBD")]
    NotAllowed,
    /// The driver is old.
    #[error(
        "this kernel's ublk driver is too old (features {0:#x}, needed {NEEDED:#x}): use Linux 6.5 or later, or serve over NBD"
    )]
    TooOld(u64),
    /// The driver refuses a command.
    #[error("the kernel cannot {action} /dev/ublkb{id}: {source}")]
    Refused {
        /// What it was asked for.
        action: &'static str,
        /// The device.
        id: u32,
        /// Its answer.
        source: io::Error,
    },
    /// The number is in use.
    #[error("/dev/ublkb{0} belongs to another device: choose another number, or none")]
    Taken(u32),
    /// Requests of its users cannot end.
    #[error("/dev/ublkb{id} has requests that cannot end: {reason}")]
    Hopeless {
        /// The device.
        id: u32,
        /// What keeps them.
        reason: String,
    },
    /// A user keeps a device that was stopped.
    #[error(
        "/dev/ublkb{id} ends all requests with an error, and the kernel removes it once nothing uses it: unmount what lies on it"
    )]
    StillOpen {
        /// The device.
        id: u32,
    },
    /// The driver does not answer.
    #[error("the kernel did not {action} /dev/ublkb{id} within {seconds} s: try again, and see `dmesg` if it lasts")]
    Silent {
        /// What it was asked for.
        action: &'static str,
        /// The device.
        id: u32,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The array's device cannot be taken over: it has another number.
    #[error(
        "the array has /dev/ublkb{id}, which another server left: take that over (--ublk={id}), or remove it: `stria ublk remove {id}`"
    )]
    OtherNumber {
        /// Its number.
        id: u32,
    },
    /// The array's device cannot be taken over: it has a server.
    #[error("/dev/ublkb{id} of this array belongs to process {pid}, and Linux does not release it")]
    Served {
        /// The device.
        id: u32,
        /// The process.
        pid: i32,
    },
    /// The array's device cannot be taken over: it is not as the array is.
    #[error(
        "/dev/ublkb{id}, which another server left, cannot become the array's again: {what}; serve the array as it was, or remove the device \
         (`stria ublk remove {id}`)"
    )]
    Different {
        /// The device.
        id: u32,
        /// The difference, in words.
        what: String,
    },
    /// It is in use.
    #[error("/dev/ublkb{id} is in use: {users}")]
    InUse {
        /// The device.
        id: u32,
        /// Its users, as `UblkDevice::users` describes them.
        users: String,
    },
    /// A queue cannot be served.
    #[error("/dev/ublkb{id} cannot be served: {reason}")]
    Queue {
        /// The device.
        id: u32,
        /// Why.
        reason: String,
    },
    /// There is no such device, or it is not Stria's.
    #[error("there is no /dev/ublkb{0} of Stria's: `stria ublk` lists them")]
    Unknown(u32),
}
