//! The tests of `hostile.rs` with clients on threads of their own, as with devices that take no on-lane clients.

#[path = "hostile.rs"]
mod hostile;
