//! Fills the bad blocks of members that [had no space](crate::no_space), as soon as there is some (R48). Those that a start
//! finds, or that a member has when it comes in sync, are tried once, whatever their cause.

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
                // R66: until a resync that is due, parity may give other bytes than the member had.
                let may_write =
                    !core.run.is_read_only() && core.log.stage() >= StartStage::Replayed && core.consistency.covers(&sync);
                let refilled = if may_write { refill(&core, member, &rows, &sync).await } else { Refill::Later };
                match refilled {
                    Refill::Ended => {}
                    Refill::Later => core.no_space.add_unfilled(member, rows),
                    Refill::AfterOthers => core.no_space.add_unrecoverable(member, rows),
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

/// The end of an attempt.
enum Refill {
    /// They are filled, or the data is lost.
    Ended,
    /// There is still no space.
    Later,
    /// A member is missing or being filled that may hold what is needed.
    AfterOthers,
}

async fn refill(core: &Core, member: MemberId, rows: &Range<MemberSector>, sync: &Range<SyncSector>) -> Refill {
    let _guard = core.lock(sync.clone(), Mode::Exclusive).await;
    let slot = {
        let members = core.members.borrow();
        let state = members.get(member);
        if matches!(state.state, MemberState::Rebuilding | MemberState::Replacing) {
            return Refill::AfterOthers;
        }
        state.slot.filter(|&slot| state.has_bad(rows) && members.slots()[slot].member == Some(member))
    };
    let Some(slot) = slot else { return Refill::Ended };
    let right = of_level!(core, P => P::recover_rows(core, slot, rows, sync).await);
    let Some(right) = right else {
        return if core.members.borrow().is_optimal() { Refill::Ended } else { Refill::AfterOthers };
    };
    match write_back(core, member, rows, right).await {
        Ok(()) => Refill::Ended,
        Err(_) => Refill::Later,
    }
}
