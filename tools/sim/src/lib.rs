//! The proof that no acknowledged data is lost: histories in virtual time, one seed each, of the real engine and format on
//! modelled drives that lose writes, tear them, stall, fail and vanish.
//!
//! A seed draws a [`setup`] (an array and its drives) and a [`workload`] (steps: clients, faults, commands). The [`world`]
//! runs them. [`tree`] provides modelled drives ([`member_drive`]) to `stria-tree`, which opens arrays as on the host; [`lanes`]
//! runs their lanes in one thread; [`drive`] stores the bytes and decides what survives a power cut; [`power`] has the clock and
//! the power switch. The *atlas* in the world places only faults that redundancy must survive, so every objection of a checker is
//! a bug. Clients write superblocks too ([`hostile_client`]). Checkers know nothing of the workload: [`model`] judges every read,
//! sector by sector; [`mod@reference`] computes redundancy again from the bytes.
//!
//! [`campaign`] runs many seeds, [`trace`] prints one line by line, [`shrink`] makes a failing history short, [`exhaustive`]
//! cuts the power everywhere, [`mutant`] lists deliberate bugs that must be found. Apart from all that, [`price`] measures the
//! write log on an [`ssd`]. See docs/SIM.md.
#![forbid(unsafe_code)]

pub mod back;
pub mod beside;
pub mod beyond;
pub mod campaign;
pub mod crossed;
pub mod drive;
pub mod exhaustive;
pub mod hostile_client;
pub mod image;
pub mod lanes;
pub mod member_drive;
pub mod model;
pub mod modelled;
pub mod mutant;
mod partial_parity;
pub mod power;
pub mod price;
pub mod reference;
pub mod setup;
pub mod shrink;
pub mod ssd;
mod swap;
pub mod trace;
pub mod tree;
pub mod workload;
pub mod world;

pub use stria_chance as chance;

pub use mutant::Mutant;
pub use workload::{Extras, History, Step};
pub use world::{Failure, Rules, Tally, run, run_traced};
