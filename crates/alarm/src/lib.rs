//! Alarms: the causes that last, and messages about them to people and programs.
//!
//! ```text
//!   conditions that hold now ─ Tracker ─▶ raised, repeated, ended ─┐
//!   single events ─────────────────────────────────────────────────┴▶ Messenger ─▶ program, mail, webhook, journal
//! ```
//! The crate does not read the state of arrays: its user reports the conditions. One cause is one message, repeated daily while
//! it lasts, and one more when it ends. Event names and the arguments of programs are those of `mdadm --monitor`, so that
//! existing scripts keep working (docs/ALARMS.md).

#![forbid(unsafe_code)]

mod acknowledged;
mod channel;
mod config;
mod event;
mod heartbeat;
mod journal;
mod messenger;
mod tracker;

pub use acknowledged::{Acknowledged, Acknowledgement, Degree, Names};
pub use channel::{AlarmError, JOURNAL};
pub use config::{AlarmConfig, HeartbeatConfig, JournalConfig, MailConfig};
pub use event::{Condition, Event, Message, Phase, Severity};
pub use heartbeat::Heartbeat;
pub use messenger::{Counts, Messenger, Outcome};
pub use tracker::{Open, Tracker};
