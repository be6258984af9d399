//! Real members, and the thread an array lives on.
//!
//! [`probe`] and [`SyncDrive`] find and hold a block device or a file; [`FileDrive`] makes a
//! [`BlockDevice`](stria_block::BlockDevice) of it over io_uring; a [`Ring`] is shared by all drives
//! of one thread; a [`Lane`] is that thread, with a device of any kind on it, served by message.
//!
//! This crate knows nothing of RAID: not what the sectors mean, nor what a failed member costs.

mod blocking;
mod error;
mod extents;
mod file_drive;
mod info;
mod job;
mod lane;
mod lock;
pub mod numa;
mod parts;
mod passthrough;
mod ring;
mod size;
mod sync_drive;
mod workers;

pub use error::DriveError;
pub use file_drive::{DriveWatch, FileDrive, Way, open};
pub use info::{DriveInfo, DriveKind, Identity, real_path_within};
pub use lane::{Bond, Dealer, Lane, LaneHandle, LaneStopped, keep_to, monotonic_now};
pub use ring::{Ring, RingCounters, Waker};
pub use sync_drive::{Access, IoOptions, SyncDrive, probe};
