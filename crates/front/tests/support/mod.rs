//! Code that the tests share.

#![allow(dead_code)]

pub mod device;
pub mod raw;
pub mod tools;
