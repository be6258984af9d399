//! Linux md: superblocks, write-intent bitmaps and bad-block logs, and the decisions based on them.
//!
//! [`superblock`], [`bitmap`], [`badblocks`], [`log`] (Stria's write log, or [`ppl`], md's) and [`checksums`] are the structures.
//! [`member`] reads those of one drive, [`create`] makes them for a new array, [`mod@assemble`] makes an array of them, and
//! [`recorder`] updates them while it runs. [`raw`] shows them byte by byte. An array that is a member of another one is marked
//! as its `span`.

pub mod assemble;
pub mod badblocks;
pub mod bitmap;
pub mod checksums;
mod counts;
pub mod create;
pub mod examine;
mod lane_log;
pub mod log;
pub mod member;
pub mod ppl;
pub mod raw;
pub mod recorder;
mod servable;
mod shape;
pub(crate) mod span;
pub mod superblock;
mod unserved;

pub use crate::read::Read;
pub use assemble::{Assembly, Options, Start, Verdict, assemble};
pub use bitmap::Bitmap;
pub use checksums::{Checksums, Opened};
pub use create::{BitmapChoice, Create, CreateMember, CreateZeros, Creation, LogChoice};
pub use lane_log::{LogLayout, MdLog};
pub use member::{Candidate, Member};
pub use recorder::{Change, MdRecorder};
pub use shape::{LayoutNumbers, layout_of, numbers_of};
pub use superblock::{Role, Superblock, SuperblockError, uuid_text};
pub use unserved::{Unserved, UnservedBitmap};
