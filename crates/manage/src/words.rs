//! Sentences for people that programs can tell apart: refusals, warnings, events, plans, results and orders of the service.
//!
//! ```text
//!   values of lower crates ─ create denial drive … start sweep unserved ─▶ error, warning
//!   texts of steps         ─ event::told reads them back ─▶ result, warning, error
//!   requests of the API    ─ request ─▶ order
//! ```
//! A sentence is a variant of an enum: its name is the `code`, its fields are the values, its text is the English. The web page
//! has the same codes in other languages (`page/src/sentences.ts`). The sentences of arrays and drives are in `stria-host`. What
//! is here decides nothing: it neither reads a drive nor knows the service.

pub mod alarm;
pub mod create;
pub mod denial;
pub mod drive;
pub mod drop;
pub mod error;
pub mod event;
pub mod firmware;
pub mod health;
pub mod host;
pub mod io;
pub mod join;
pub mod order;
pub mod plan;
pub mod plan_values;
pub mod refusal;
pub mod request;
pub mod result;
pub mod start;
pub mod sweep;
pub mod unserved;
pub mod warning;
pub mod warning_values;
