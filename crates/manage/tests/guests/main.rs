//! Fronts that need a guest, in one program: a guest keeps one processor busy, so tests of two files run at a time.

mod attach;
mod members;
mod new_user;
#[path = "../support/mod.rs"]
mod support;
mod ublk;
mod ublk_hangs;
mod ublk_refused;
mod vhost_user;
