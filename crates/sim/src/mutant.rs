//! Deliberate bugs, which the checkers must find: what is wrong with a world, from outside the product.
//!
//! Most sit between engine and drives and do what an engine would do that had the bug.

use stria_block::{Operation, Request};

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Clients' flushes do not reach the members.
    FlushDropped,
    /// Only clients' flushes reach the members: "clean" and cleared bits are recorded before data is durable.
    OwnFlushDropped,
    /// FUA writes of data are plain writes.
    DataFuaForgotten,
    /// Records are acknowledged before they are durable.
    RecordFuaForgotten,
    /// Write-intent bits never reach the members.
    IntentDropped,
    /// Superblocks never reach the members after creation.
    SuperblockDropped,
    /// A member that was away is taken back as if it had missed nothing.
    StaleAccepted,
    /// The superblock of one member is not written.
    OneSuperblockDropped,
}

/// First sector of the bitmap as arrays of the simulator lay it out, and the end of superblocks.
const BITMAP_SECTOR: u64 = 16;

impl Mutant {
    /// Every one.
    pub const ALL: [Mutant; 8] = [
        Mutant::FlushDropped,
        Mutant::OwnFlushDropped,
        Mutant::DataFuaForgotten,
        Mutant::RecordFuaForgotten,
        Mutant::IntentDropped,
        Mutant::SuperblockDropped,
        Mutant::StaleAccepted,
        Mutant::OneSuperblockDropped,
    ];

    /// Whether a member's request ends without being done.
    pub(crate) fn swallows(self, request: &Request, metadata: bool, client_flush: bool) -> bool {
        let flush = matches!(request.operation, Operation::Flush);
        let write = matches!(request.operation, Operation::Write { .. });
        match self {
            Mutant::FlushDropped => flush && client_flush,
            Mutant::OwnFlushDropped => flush && !client_flush,
            Mutant::IntentDropped => write && metadata && request.start_sector >= BITMAP_SECTOR,
            Mutant::SuperblockDropped | Mutant::OneSuperblockDropped => write && metadata && request.start_sector < BITMAP_SECTOR,
            Mutant::DataFuaForgotten | Mutant::RecordFuaForgotten | Mutant::StaleAccepted => false,
        }
    }

    /// Whether a write's FUA is forgotten.
    pub(crate) fn forgets_fua(self, metadata: bool) -> bool {
        match self {
            Mutant::DataFuaForgotten => !metadata,
            Mutant::RecordFuaForgotten => metadata,
            _ => false,
        }
    }
}
