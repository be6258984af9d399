//! The array engine: where every byte lives, what a request turns into, and when each step may start.
//!
//! Sans-IO: it is told what happened and asked what to do next. It knows no files, clocks, threads or
//! on-disk formats.
#![forbid(unsafe_code)]

mod config;
mod geometry;
mod level;
mod record;

pub use config::{ArrayConfig, IntentConfig, MemberConfig, MemberId, SlotConfig};
pub use geometry::{Geometry, GeometryError};
pub use level::{Copies, Layout, Level, ParityLayout, Zones};
pub use record::{ArrayState, MetadataWrite, NoRecorder, Place, Recorder, SlotState};
