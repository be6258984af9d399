//! Errors of NBD devices, each with its remedy.

use std::io;
use std::path::PathBuf;

/// A reason why there is no NBD device, or why it cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum NbdDeviceError {
    /// The kernel has no driver.
    #[error("this kernel has no NBD client: load it with `modprobe nbd` (built with CONFIG_BLK_DEV_NBD)")]
    NoDriver,
    /// The kernel cannot be reached.
    #[error("the kernel's NBD client cannot be reached (netlink: {0})")]
    Netlink(#[source] io::Error),
    /// The user lacks the permission.
    #[error("the kernel does not let this user {0} NBD devices: run it as root")]
    NotAllowed(&'static str),
    /// There is no such path.
    #[error("{0} is no NBD device: write /dev/nbdN, or none for any that is free")]
    NoDevice(PathBuf),
    /// The device is used by something else.
    #[error("{0} is in use already: name another device, or none for any that is free")]
    Busy(PathBuf),
    /// It is mounted, or has other users.
    #[error("{path} is in use: {users}; end these uses first, or fail their requests with --force")]
    InUse {
        /// The device.
        path: PathBuf,
        /// Its users, in words.
        users: String,
    },
    /// The driver refuses a command.
    #[error("the kernel cannot {action} {path}: {source}; `dmesg` may say why")]
    Refused {
        /// The request.
        action: &'static str,
        /// The device.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The server cannot be reached.
    #[error("the NBD server at {address} cannot be reached: {source}")]
    Unreachable {
        /// Its address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The server refuses.
    #[error("the NBD server at {address} refuses \"{export}\": {reason}")]
    Declined {
        /// Its address.
        address: String,
        /// The export.
        export: String,
        /// The answer.
        reason: String,
    },
    /// The server's export has changed.
    #[error(
        "{path} cannot be connected to the array again: {what}, so its requests wait; detach the device and attach the array again"
    )]
    Different {
        /// The device.
        path: PathBuf,
        /// The difference, in words.
        what: String,
    },
    /// The device is no longer what it was.
    #[error(
        "{0} was left alone, as it is no longer this array's: another program has detached it; `stria attach` makes a new device"
    )]
    NotOurs(PathBuf),
    /// A file of the device cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
