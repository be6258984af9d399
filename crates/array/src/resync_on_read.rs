//! Resync on read: what a client reads after a crash stays what it is (R36).
//!
//! A crash cuts writes short: copies differ, or parity does not match data. A resync repairs that, but takes time. If a member
//! were lost before the resync gets there, another copy or parity would count, and a client would find other data than it has
//! read: older, newer, or garbage where a large write was torn. So a read of a range that is not known to be consistent first
//! does there what the resync would do. Then the member may be lost. A flush after the read makes the result durable.
//!
//! Ranges where this was done are remembered, so that only the first read pays. A read-only array is left as it is.

use crate::ArraySector;
use crate::core::{Core, array_range, lost};
use crate::of_level::of_level;
use crate::personality::Personality;
use crate::status::SweepFault;
use std::ops::Range;
use std::rc::Rc;
use stria_block::Request;

/// Resyncs a range of array sectors, piece by piece: rows of a strip, or a window of copies.
async fn resync(core: &Rc<Core>, range: &Range<ArraySector>) -> Result<(), SweepFault> {
    let mut next = range.start;
    while next < range.end {
        let (part, sectors) = of_level!(core, P => P::resync_piece(core, &(next..range.end)));
        if !core.consistency.covers(&part) {
            of_level!(core, P => P::resync(core, &part).await)?;
        }
        // Noted also where it was consistent before, so that one read later finds one range.
        core.consistency.note_resync(part);
        next += sectors;
    }
    Ok(())
}

/// A client's read of a range that may be inconsistent: resyncs it, then reads.
pub(crate) fn read_after_resync(core: &Rc<Core>, request: Request) {
    core.requests.begin_resync();
    let reader = Rc::clone(core);
    core.ready.spawn(async move {
        let core = reader;
        let resynced = resync(&core, &array_range(&request)).await;
        core.requests.end_resync();
        match resynced {
            Ok(()) => core.requests.hold(request),
            Err(reason) => {
                let what = format!("read at sector {}", request.start_sector);
                core.done(request.complete(Err(lost(&what, &reason.to_string()))));
            }
        }
    });
}
