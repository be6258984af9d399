//! Fills the bad blocks of members that [had no space](crate::no_space), as soon as there is some. Those that a start finds are
//! tried once, whatever their cause.

use crate::core::Core;
use crate::lock::Mode;
use crate::log::StartStage;
use crate::no_space::write_back;
use crate::of_level::of_level;
use crate::personality::Personality;
use crate::{MemberId, MemberSector, MemberState, SyncSector};
use std::ops::Range;
use std::rc::Rc;
use stria_block::Nanos;

/// 2 s: how often it is tried to fill what members had no space for.
const REFILL_EVERY: Nanos = 2_000_000_000;

/// Fills what members had no space for, as soon as they have some. Rows that a client has written meanwhile are good already.
/// Rows that the other members cannot recover, although all are there, wait for a client's write.
pub(crate) async fn refill_forever(core: Rc<Core>) {
    add_bad_blocks(&core);
    loop {
        core.ready.until(&core.no_space.refill, || core.no_space.has_unfilled()).await;
        core.sleep_until(core.now() + REFILL_EVERY).await;
        for (member, rows) in core.no_space.take_unfilled() {
            // Each stripe has its strips on other members, so it goes piece by piece.
            let slot = core.members.borrow().get(member).slot;
            let pieces = slot.map_or_else(Vec::new, |slot| of_level!(core, P => P::recoverable(&core, slot, &rows)));
            for (rows, sync) in pieces {
                if core.run.is_stopping() {
                    return;
                }
                // Until a resync that is due, parity may give other bytes than the member had.
                let may_write =
                    !core.run.is_read_only() && core.log.stage() >= StartStage::Replayed && core.consistency.covers(&sync);
                if !may_write || refill(&core, member, &rows, &sync).await.is_err() {
                    core.no_space.add_unfilled(member, rows);
                }
            }
        }
    }
}

/// Adds the bad blocks that members in sync have at the start.
fn add_bad_blocks(core: &Core) {
    let members = core.members.borrow();
    for id in members.slots().iter().filter_map(|slot| slot.member) {
        let member = members.get(id);
        if member.state == MemberState::InSync {
            member.config.bad_blocks.iter().for_each(|rows| core.no_space.add_unfilled(id, rows.clone()));
        }
    }
}

/// `Err`: there is still no space, or a member is missing or being filled.
async fn refill(core: &Core, member: MemberId, rows: &Range<MemberSector>, sync: &Range<SyncSector>) -> Result<(), ()> {
    let _guard = core.lock(sync.clone(), Mode::Exclusive).await;
    let slot = {
        let members = core.members.borrow();
        let state = members.get(member);
        if matches!(state.state, MemberState::Rebuilding | MemberState::Replacing) {
            return Err(());
        }
        state.slot.filter(|&slot| state.has_bad(rows) && members.slots()[slot].member == Some(member))
    };
    let Some(slot) = slot else { return Ok(()) };
    let right = of_level!(core, P => P::recover_rows(core, slot, rows, sync).await);
    let Some(right) = right else {
        // A member that is rebuilt may hold what is needed. If all are there, the data is lost.
        return if core.members.borrow().is_optimal() { Ok(()) } else { Err(()) };
    };
    write_back(core, member, rows, right).await.map_err(drop)
}
