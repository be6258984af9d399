//! One window of a sweep: what is to be done there, and what was found.

use crate::Health;
use crate::SyncSector;
use crate::address::Sectors;
use crate::core::Core;
use crate::member::RebuildTarget;
use crate::status::{Event, Findings, SweepFault, SweepKind};
use std::ops::Range;

/// 128 KiB of each member: large enough for a drive's sequential speed, and small enough for a window of all members to stay in
/// a processor's caches from reading to writing, and for clients to wait little.
pub(crate) const WINDOW_SECTORS: u64 = 256;

/// Whether a sweep goes on.
///
/// # Errors
/// The array has failed (R50). What cannot be read now is there again when the members are, so it must not count as lost.
pub(crate) fn check_health(core: &Core) -> Result<(), SweepFault> {
    match core.health() {
        Health::Optimal | Health::Degraded => Ok(()),
        Health::Failed => Err(SweepFault::ArrayFailed),
    }
}

/// The findings of a window.
#[derive(Default)]
pub(crate) struct Found {
    pub sectors: Findings,
    damages: Vec<Damage>,
}

/// A part of the sync space with a mismatch, and the member that is wrong, if redundancy shows it.
struct Damage {
    range: Range<SyncSector>,
    culprit: Option<usize>,
}

impl Found {
    /// A page has a mismatch because of the member in slot `culprit`.
    pub fn blame(&mut self, page: Range<SyncSector>, culprit: Option<usize>) {
        match self.damages.iter_mut().rev().find(|known| known.culprit == culprit) {
            Some(known) if known.range.end == page.start => known.range.end = page.end,
            _ => self.damages.push(Damage { range: page, culprit }),
        }
    }

    /// Nothing was left to compare these sectors with.
    pub fn pass_over(&mut self, kind: SweepKind, sectors: u64) {
        if let SweepKind::Scrub { .. } = kind {
            self.sectors.unchecked_sectors += sectors;
        }
    }

    /// Reports and counts mismatches, after a scrub has written its repairs.
    pub fn report(&mut self, core: &Core, kind: SweepKind) {
        let damages = std::mem::take(&mut self.damages);
        let SweepKind::Scrub { repair } = kind else { return };
        for Damage { range, culprit } in damages {
            let sectors = range.sectors();
            let mut members = core.members.borrow_mut();
            let culprit = culprit.and_then(|slot| Some((members.slots()[slot].member?, slot)));
            if let Some((member, _)) = culprit {
                let member = members.get_mut(member);
                member.wrong_sectors += sectors;
                member.repaired_sectors += if repair { sectors } else { 0 };
            }
            core.event(Event::Mismatch { sync_sector: range.start, sectors, culprit, repaired: repair });
        }
    }
}

/// The work of a sweep in its windows.
pub(crate) struct Work<'a> {
    pub kind: SweepKind,
    /// The members to rebuild.
    pub targets: &'a [RebuildTarget],
}
