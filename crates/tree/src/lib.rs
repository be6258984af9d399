//! Arrays and their spans on a lane, over any kind of drive.
//!
//! The host and the simulator open, command and stop arrays by this code. Drives, clock and names are theirs ([`Provider`],
//! [`Binder`], [`MemberDrive`]). This crate decides which array lies on which, how lanes are bound, in which order arrays start
//! and stop, what becomes of a drive that is added, and what a new array consists of.
//!
//! ```text
//!   nest (drives to plans) ─ Plan::bind (on every lane) ─ activate ─ commands ─ stop
//!                                                            └ add: plan_join ─ write ─ offer ─ Command::Add
//!   NewTree::plan (drives to bytes) ─ TreeCreation::carry_out
//! ```
//!
//! Changes that concern several lanes are methods of [`Lanes`], whose implementor waits. Nothing knows files, rings, threads or
//! clocks.
#![forbid(unsafe_code)]

mod create;
mod join;
mod join_error;
mod lanes;
mod nest;
mod plan;
mod tree;

pub use create::{ArrayCreation, Maker, NewTree, SpanIdentity, TreeCreation, span_name};
pub use join::{Intended, JoinRequest, Joined, Joining, NewDrive, NewMetadata, refuse_contents};
pub use join_error::{Carried, JoinError, Unfilled};
pub use lanes::Lanes;
pub use nest::{Nested, Provider, nest, plan_known, plan_new};
pub use plan::{Binder, Plan, PlannedMember};
pub use tree::{Member, MemberDrive, Tree};

/// A command for an array of a tree.
pub type ArrayCommand = stria_array::Command<stria_format::md::recorder::Newcomer>;
