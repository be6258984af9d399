//! The one interface of every block device in Stria, and what passes through it.
//!
//! Members below, the array above, and a faulty drive, a tracing device or another array in between all implement
//! [`BlockDevice`], so arrays nest and tests replace drives by memory. This crate owns the requests, the buffers they carry, the
//! errors they end with, and the simplest device, [`RamDevice`]. It knows nothing of arrays, files, threads or clocks: time is an
//! argument.
//!
//! One unit everywhere: positions and lengths are in **sectors of 512 bytes** ([`SECTOR_BYTES`]),
//! whatever the logical block of the drive; names end in `_sector` (a position) or `_sectors` (a count).

mod arena;
mod buffer;
mod device;
mod error;
mod fault;
mod lane_client;
mod limits;
mod mailbox;
mod process_limits;
mod ram;
pub mod ranges;
mod request;
mod sectors;
mod shown;
mod timings;
mod trouble;

pub use arena::{Arena, BLOCK_ALIGN};
pub use buffer::{Buffer, Claim, Data, Pool};
pub use device::BlockDevice;
pub use error::{Context, ErrorKind, IoError};
pub use fault::{FaultDevice, FaultKind, FaultPlan};
pub use lane_client::{KeepOn, LaneClient};
pub use limits::{Extent, Limits, Nanos, Tag};
pub use mailbox::{Mailbox, RemoteDevice};
pub use process_limits::{NO_THREAD, with_limit};
pub use ram::RamDevice;
pub use request::{Completion, Operation, Request, Segments};
pub use sectors::SectorDevice;
pub use shown::{
    Shown, file_name, is_plain, of_shell_word, shell_word, show_size, shown, shown_field, shown_json, shown_lines, shown_sentence,
};
pub use timings::{Histogram, Latency, Timings};
pub use trouble::{Action, Trouble, TroubleKind, in_largest_unit};

/// Bytes in a sector, the unit of every position and length.
pub const SECTOR_BYTES: usize = 512;

/// The most sectors that a device may have: 8 EiB, as far as a 64-bit file offset reaches.
pub const SECTORS_MAX: u64 = i64::MAX as u64 / SECTOR_BYTES as u64;

/// Sectors as bytes.
pub const fn bytes(sectors: u64) -> usize {
    sectors as usize * SECTOR_BYTES
}
