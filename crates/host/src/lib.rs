//! From drives to a running array and back.
//!
//! Opens drives, lets `format` parse their content, and binds arrays, nested ones too, into one block device on one lane or
//! several. Has no policy: the engine decides when to rebuild, and the caller what to serve.
#![forbid(unsafe_code)]

mod answers;
mod beneath;
mod block_devices;
mod candidate;
mod checked;
mod choose;
mod clock;
mod create;
mod denial;
mod error;
mod examine;
mod firmware;
mod hosted;
mod hosted_drive;
mod lacking;
mod lanes;
mod marks;
mod merger;
mod newcomer;
mod open;
mod report;
mod rework;
mod sync_io;
mod warning;
mod words;

pub use beneath::{beneath, holds_clients_data, may_hold_clients_data};
pub use block_devices::block_devices;
pub use choose::{StaysOut, awaited_slots, choose, choose_among, named, short_name, sort_arguments, stays_out};
pub use create::{ArrayLevel, CreateSpec, Overwrite, Preview, create, default_strip_sectors, preview};
pub use denial::Denial;
pub use error::HostError;
pub use examine::{Examined, examine, examine_raw};
pub use firmware::FirmwareRaid;
pub use hosted::{HostedArray, Notice, NoticeKind, does_not_use};
pub use hosted_drive::HostedDrive;
pub use lanes::{ArrayLanes, LaneReport};
pub use newcomer::OpenedDrive;
pub use open::{Found, OpenOptions, PlannedArray, find, find_everywhere, find_readable, open};
pub use report::{ArrayReport, DriveReport, MemberReport};
pub use rework::{change, destroy, rename, rename_spans, wipe_drives, wipe_drives_and};
pub use stria_tree::{Carried, JoinError, Unfilled};
pub use sync_io::SyncIo;
pub use warning::OpenWarning;
pub use words::{HostSentence, Sweep, WrongDrive, WrongDrives, bare_reason};
