//! Drives as members, and the thread that an array runs on.
//!
//! [`probe`] and [`SyncDrive`] inspect and hold a block device or a file. [`FileDrive`] makes a
//! [`BlockDevice`](stria_block::BlockDevice) of it over io_uring. All drives of one thread share a [`Ring`]. A [`Lane`] is that
//! thread; it serves a device of any kind by message.
//!
//! This crate knows nothing of RAID: neither the meaning of sectors, nor the effect of a failed member.

mod access;
mod blocking;
mod clock;
mod error;
mod extents;
mod file_drive;
mod info;
mod job;
mod lane;
mod lock;
mod multipath;
pub mod numa;
mod other_paths;
mod parts;
mod passthrough;
mod program;
mod registered;
mod reports;
mod ring;
mod size;
mod size_limit;
mod sync_drive;
pub mod sysfs;
mod within;
mod workers;

pub use access::{Access, IoOptions};
pub use clock::monotonic_now;
pub use error::{DriveError, Unfit};
pub use file_drive::{DriveWatch, FileDrive, Way, open};
pub use info::{DriveInfo, DriveKind, Identity, real_path_within};
pub use lane::{Lane, LaneHandle, LaneRouter, LaneStopped, PanicGroup, keep_to};
pub use lock::{PATIENCE_WITH_THE_DEAD, lock_holder};
pub use multipath::multipath_of;
pub use program::{NoResult, run_within};
pub use ring::{Ring, RingCounters, Waker};
pub use sync_drive::{SyncDrive, probe};
pub use within::{NotInTime, each_within_at, metadata_of_each_within, metadata_within, within, within_at, within_each};
pub use workers::held_by;
