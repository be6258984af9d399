//! The REST API of the daemon, version 1: `/api/v1/…`, on a unix socket beside the control socket and, by TLS, over TCP.
//!
//! ```text
//!   server ─ who calls (auth) ─ which route (route) ─ looks, plans, jobs ─▶ Service, Keeper, Monitor
//!         └ the page's files                         └ state and events as a stream (stream)
//! ```
//! It runs on threads of its own, of low priority, and reaches arrays as the control socket does: by message. However many
//! clients look, lanes are asked once a second. [`routes::routes`] declares every path; `docs/openapi.json` is generated from it.

mod accounts;
pub mod auth;
mod channels;
mod drives;
mod forecast;
mod jobs;
mod looks;
mod machine;
mod measure;
mod page;
mod parts;
mod plans;
mod reading;
mod reports;
mod route;
mod routes;
mod schedules;
mod server;
mod stream;
mod summary;
mod takes;
mod tcp;
pub mod types;
mod users;

pub use machine::Machine;
pub use parts::Rest;
pub use server::{let_in, start};
pub use tcp::Tcp;
