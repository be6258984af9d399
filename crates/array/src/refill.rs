//! Fills the bad blocks of members that [had no space](crate::no_space), as soon as there is some.

use crate::core::Core;
use crate::lock::Mode;
use crate::no_space::write_back;
use crate::of_level::of_level;
use crate::personality::Personality;
use crate::space::Unfilled;
use std::rc::Rc;
use stria_block::Nanos;

/// 2 s: how often it is tried to fill what members had no space for.
const REFILL_EVERY: Nanos = 2_000_000_000;

/// Fills what members had no space for, as soon as they have some. Rows that a client has written meanwhile are good already.
/// Rows that the other members cannot recover wait for a client's write.
pub(crate) async fn refill_forever(core: Rc<Core>) {
    loop {
        core.ready.until(&core.no_space.refill, || core.no_space.has_unfilled()).await;
        core.sleep_until(core.now() + REFILL_EVERY).await;
        let unfilled = core.no_space.take_unfilled();
        for piece in unfilled {
            if core.run.is_stopping() || core.run.is_read_only() {
                return;
            }
            if refill(&core, &piece).await.is_err() {
                core.no_space.add_unfilled(piece);
            }
        }
    }
}

/// `Err`: there is still no space.
async fn refill(core: &Core, piece: &Unfilled) -> Result<(), ()> {
    let Unfilled { member, rows, sync } = piece;
    let _guard = core.lock(sync.clone(), Mode::Exclusive).await;
    let slot = {
        let members = core.members.borrow();
        let state = members.get(*member);
        state.slot.filter(|&slot| state.has_bad(rows) && members.slots()[slot].member == Some(*member))
    };
    let Some(slot) = slot else { return Ok(()) };
    let right = of_level!(core, P => P::recover_rows(core, slot, rows, sync).await);
    let Some(right) = right else { return Ok(()) };
    write_back(core, *member, rows, right).await.map_err(drop)
}
