//! The formats of drives' contents, as pure functions: bytes in, decisions and bytes out.
//!
//! Owns the Linux md format, versions 1.x ([`md`]), reads two formats of firmware ([`firmware`]), and detects other contents of
//! drives ([`detect`]). Does not know how
//! bytes reach a drive: callers pass closures that read, and carry out the returned writes. Bytes from drives are never trusted;
//! no input makes this crate panic.
#![forbid(unsafe_code)]

pub mod detect;
mod fields;
pub mod firmware;
pub mod md;
mod read;

pub use fields::Field;
pub use read::Read;
