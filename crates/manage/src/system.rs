//! What the program asks of the operating system: files, mounts, threads, time, users, names of devices.
//!
//! Nothing here knows arrays. The drives themselves are those of `stria-drive`.

pub mod atomic_file;
pub mod clock;
pub mod directory;
pub mod mounts;
pub mod threads;
pub mod udev;
