//! Drives to be altered, the changes, and the lives of the results; the tests of the program use them as well.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod alter;
pub mod life;
pub mod scenes;
#[path = "../support/mod.rs"]
pub mod support;
pub mod tree;
