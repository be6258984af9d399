//! A device with a name, and what clients learn about it.

use crate::wire::transmission;
use std::fmt;
use std::sync::Arc;
use stria_block::{RemoteDevice, bytes, shown_sentence};

/// A device that clients may use under a name.
#[derive(Clone)]
pub struct Export {
    /// The name that clients ask for. The export named `""` is the default, or else the first.
    pub name: String,
    /// Text that a list of exports shows; may be empty. Clients get it in visible characters, since `nbdinfo` prints it as it is.
    pub description: String,
    /// The device that serves the requests.
    pub device: Arc<dyn RemoteDevice>,
    /// True if writes, trims and zeroes are refused.
    pub read_only: bool,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("name", &self.name).field("read_only", &self.read_only).finish_non_exhaustive()
    }
}

/// The properties of an export in the protocol. The pure parts know no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub name: String,
    pub description: String,
    /// A multiple of `block_min_bytes`.
    pub size_bytes: u64,
    /// Every offset and length is a multiple of it.
    pub block_min_bytes: u32,
    /// A power of two, at least `block_min_bytes`.
    pub block_preferred_bytes: u32,
    /// Largest read or write.
    pub payload_bytes_max: u32,
    pub read_only: bool,
    pub rotational: bool,
    pub can_trim: bool,
}

impl Facts {
    pub fn of(export: &Export, payload_bytes_max: u32) -> Self {
        let limits = export.device.limits();
        let block_min_bytes = limits.logical_block_bytes;
        // NBD needs a power of two here, which a full stripe of an array often is not.
        let preferred = [limits.optimal_io_bytes, limits.physical_block_bytes, 4096];
        let preferred = preferred
            .into_iter()
            .find(|&size| size.is_power_of_two() && size >= block_min_bytes.max(4096) && size <= payload_bytes_max);
        Self {
            name: export.name.clone(),
            description: shown_sentence(&export.description).to_string(),
            size_bytes: bytes(limits.size_sectors) as u64 / u64::from(block_min_bytes) * u64::from(block_min_bytes),
            block_min_bytes,
            block_preferred_bytes: preferred.unwrap_or(block_min_bytes),
            payload_bytes_max,
            read_only: export.read_only,
            rotational: limits.rotational,
            can_trim: limits.discard_granularity_bytes > 0,
        }
    }

    /// The transmission flags. `CAN_MULTI_CONN` always: every connection uses the same device, whose flush covers all writes
    /// that ended before. `CACHE` never: there is nothing to cache into.
    pub fn flags(&self, structured: bool) -> u16 {
        use transmission::*;
        let when = |condition: bool, flags: u16| if condition { flags } else { 0 };
        HAS_FLAGS
            | SEND_FLUSH
            | SEND_FUA
            | CAN_MULTI_CONN
            | when(self.read_only, READ_ONLY)
            | when(!self.read_only, SEND_WRITE_ZEROES | SEND_FAST_ZERO)
            | when(!self.read_only && self.can_trim, SEND_TRIM)
            | when(self.rotational, ROTATIONAL)
            | when(structured, SEND_DF)
    }
}
