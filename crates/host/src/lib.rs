//! From drives to a running array and back.
//!
//! Opens drives, lets `format` parse their content, and binds arrays, nested ones too, into one block device on one lane or
//! several. Makes no policy: the engine decides when to rebuild, the caller what to serve.
#![forbid(unsafe_code)]

mod answers;
mod checked;
mod choose;
mod clock;
mod create;
mod error;
mod examine;
mod hosted;
mod lacking;
mod lanes;
mod marks;
mod merger;
mod newcomer;
mod open;
mod report;
mod rework;
mod sync_io;

pub use choose::{block_devices, choose, named, refusal, short_name, sort_arguments, stays_out};
pub use create::{ArrayLevel, CreateSpec, Preview, create, default_strip_sectors, preview};
pub use error::HostError;
pub use examine::{Examined, examine};
pub use hosted::{HostedArray, HostedDrive, Notice, NoticeKind};
pub use lanes::{ArrayLanes, RingReport};
pub use newcomer::NewDrive;
pub use open::{Found, OpenOptions, PlannedArray, find, find_everywhere, open};
pub use report::{ArrayReport, DriveReport, MemberReport};
pub use rework::{change, destroy, rename, rename_spans, wipe_drives};
pub use sync_io::SyncIo;
