//! Hostile clients of the REST API, for the tests and for `fuzz/`.

pub mod machine;
mod requests;
/// Choices from a string of bytes, as the fuzzer of NBD makes them.
#[allow(dead_code, reason = "the requests of NBD stand there too")]
#[path = "../../../front/src/fuzz/stream.rs"]
pub mod stream;
