//! How an array becomes a block device.

use super::queue::Copier;
use std::path::PathBuf;

/// How an array becomes a block device.
#[derive(Clone, Debug)]
pub struct UblkOptions {
    /// Its number; `None`: any.
    pub id: Option<u32>,
    /// Queues, as many as the array has lanes. A device that is taken over has the queues with which it was made.
    pub queues: u16,
    /// The side that copies data. A device that is taken over has the one with which it was made.
    pub copier: Copier,
    /// The folder with a note for each device.
    pub notes: PathBuf,
}
