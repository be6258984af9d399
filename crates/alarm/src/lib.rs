//! Alarms: which causes stand, and telling people and programs about them.
//!
//! ```text
//!   conditions that hold now ─ Tracker ─▶ raised, repeated, ended ─┐
//!   single happenings ─────────────────────────────────────────────┴▶ Messenger ─▶ program, mail, webhook, journal
//! ```
//! The crate does not look at arrays: its user says what is so. One cause is one message, repeated daily while it lasts, and its end is
//! told. Event names and the arguments of programs are those of `mdadm --monitor`, so that existing scripts go on (docs/ALARMS.md).

#![forbid(unsafe_code)]

mod channel;
mod config;
mod event;
mod heartbeat;
mod journal;
mod messenger;
mod tracker;

pub use channel::AlarmError;
pub use config::{AlarmConfig, HeartbeatConfig, JournalConfig, MailConfig};
pub use event::{Condition, Event, Message, Phase, Severity};
pub use heartbeat::Heartbeat;
pub use messenger::{Counts, Messenger, Outcome};
pub use tracker::Tracker;
