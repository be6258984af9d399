//! The array engine: where every byte lives, what a request turns into, and when each step may start.
//!
//! The engine does no I/O: it is told what happened and asked what to do next. It knows no files, clocks, threads or on-disk
//! formats.
#![forbid(unsafe_code)]

mod action;
mod activity;
pub mod address;
mod buffers;
mod clock;
mod coalesce;
mod command;
mod command_tasks;
mod config;
mod consistency;
mod consistent_ranges;
mod core;
mod device;
mod drop_cause;
mod engine;
mod geometry;
mod hedge;
mod intent;
mod lanes;
mod level;
mod lists;
mod lock;
mod log;
mod log_io;
mod log_record;
mod member;
mod member_requests;
mod metadata;
mod metadata_io;
mod mirror;
mod mirror_io;
mod mirror_sweep;
mod mirror_write;
mod mirror_writes;
mod no_space;
mod of_level;
mod parity;
mod parity_code;
mod parity_io;
mod parity_sweep;
mod parity_write;
mod parity_zeroing;
mod partition;
mod peers;
mod personality;
pub mod plan;
mod races;
mod recorder;
mod refill;
mod refusal;
mod replay;
mod requests;
mod resync_on_read;
mod segments;
mod space;
mod split_read;
mod status;
mod steer;
mod straight_writes;
mod striped;
mod stripes;
mod sweep;
mod task;
mod window;
#[cfg(test)]
mod write_path_tests;

pub use action::Action;
pub use address::{ArraySector, DriveSector, MemberSector, StripSector, StripeSector, SyncSector};
pub use command::{Command, CommandId, Step};
pub use command_tasks::RELIED_ON_MAX;
#[doc(hidden)]
pub use config::Flaw;
pub use config::{ArrayConfig, BAD_BLOCK_SECTORS_MAX, IntentConfig, MemberConfig, MemberId, SlotConfig, Synced, WritePolicy};
pub use device::ArrayDevice;
pub use drop_cause::DropCause;
pub use engine::Engine;
pub use geometry::{Copy, Extent, Geometry, GeometryError, StripeMap};
pub use lanes::{LaneEvents, Ports};
pub use level::{Copies, Family, Layout, Level, ParityLayout, Zones};
pub use log_record::{AppendTerms, LogConfig, LogRecord, NEW_DATA_SECTORS_MAX};
pub use recorder::{
    ArrayState, IoFailures, LaneLog, MemberProgress, MetadataUpdate, MetadataWrite, NoMetadata, Recorder, SlotState, UpdateEnd,
};
pub use refusal::{NoNewMembers, NotAdmitted, Refusal};
pub use status::{
    ArrayStatus, Event, Findings, Health, LogStatus, MemberState, MemberStatus, StopCause, SweepFault, SweepKind, SweepStatus,
};
pub use steer::LatencyTarget;
