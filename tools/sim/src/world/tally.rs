//! What a history costs and covers.

use crate::crossed::Crossed;
use std::collections::BTreeMap;

/// The cost of a run, and its coverage.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests to drives.
    pub requests: u64,
    /// Requests of clients.
    pub client_requests: u64,
    /// Crashes, of either kind.
    pub crashes: u64,
    /// The count of each event, by name.
    pub met: BTreeMap<String, u64>,
    /// Client requests, by the cases that occurred together.
    pub crossed: Crossed,
}
