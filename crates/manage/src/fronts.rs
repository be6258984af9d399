//! Where clients reach arrays: the options of each front of `stria-front`, and `attach`, which makes an array a device by NBD.
//!
//! `serve` and the daemon give these options to the service, which starts the fronts.

pub mod attach;
pub mod nbd;
pub mod ublk;
pub mod vhost_user;
