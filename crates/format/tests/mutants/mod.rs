//! Drives to be altered, the altering, and what is then done with them; for the tests of the program as well.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod alter;
pub mod life;
pub mod scenes;
#[path = "../support/mod.rs"]
pub mod support;
pub mod tree;
