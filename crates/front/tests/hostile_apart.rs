//! The stories of `hostile.rs` with clients on threads of their own, as where devices take no guests.

#[path = "hostile.rs"]
mod hostile;
