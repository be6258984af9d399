//! The tasks that make metadata updates: what each says, and what must be durable before it says so.
//!
//! One update runs at a time (R5). Each carries everything wanted by then, so many writes share one.

use crate::core::Core;
use crate::log::StartStage;
use crate::member::add_rows;
use crate::metadata::UpdateLock;
use crate::{Flaw, Health, MemberId, MemberSector, MemberState, MetadataUpdate, Synced, UpdateEnd};
use std::ops::Range;
use std::rc::Rc;
use stria_block::Nanos;
use stria_block::ranges::without;

/// 1 s: the pause before an update that could not be written is made again.
const AGAIN_AFTER: Nanos = 1_000_000_000;

/// Makes durable what the start relies on, before clients read by it (R31). If some slot is `unsynced`, the superblocks say so:
/// otherwise the member could return after another crash as if it had never left, without what its cache held. If log records
/// were replayed, or not all members know that they do not count, a new log session voids them: replayed with a member less, they
/// could give the new data of a write whose old data a client has read.
pub(crate) async fn prepare_start(core: Rc<Core>, unsynced: bool, renews_log: bool) {
    core.ready.until(&core.sweep_changed, || !core.run.is_read_only()).await;
    // R30, R31: replay raises the barrier for the same members, and one update serves both.
    if unsynced && !core.has(Flaw::ServedBeforeDrop) {
        core.metadata.raise_ack_barrier(&core.ready);
        core.wait_for_ack_barrier().await;
    }
    if renews_log && !core.has(Flaw::ServedBeforeSession) {
        // A failing flush makes writes fail, and reads may go on: waiting would not help.
        let _ = core.log_open().await;
    }
    core.run.set_prepared();
}

/// Writes superblock updates, one at a time, each with the latest state.
pub(crate) async fn record_states(core: Rc<Core>) {
    // The claims of the last durable update.
    let mut durable = core.members.borrow().state(core.metadata.is_clean(), core.consistency.synced());
    loop {
        core.metadata.requested(&core.ready).await;
        // R88: on a read-only array the loss of a member is known in memory only, until the array may be written to.
        core.ready.until(&core.sweep_changed, || core.run.may_record()).await;
        let number = core.metadata.wanted();
        // R4: "clean" and the progress of sweeps are claimed as they were before the flush. Slots are written as they are
        // after it. If a member was dropped during the flush, it is repeated, since every claim may rely on the new
        // members. Until replay has ended, the log of the last run tells where redundancy may be inconsistent, so "clean"
        // waits for that.
        let redundancy_is_known = || core.log.stage() >= StartStage::Replayed && !core.consistency.suspects_parity();
        // A failed array stays dirty: a forced start must resync the writes that only dropped members took.
        let clean = || core.metadata.is_clean() && redundancy_is_known() && core.health() != Health::Failed;
        let state = || core.members.borrow().state(clean(), core.consistency.synced());
        let (lock, state) = loop {
            let dropped = state().failed.len();
            // R30, R25: a dropped member may hold the log records that replay or a write-behind still needs.
            let may_say = || {
                core.log.replay_has_holders(&core.members.borrow())
                    || core.run.is_read_only()
                    || !core.members.borrow().have_dropped()
            };
            core.ready.until(&core.log.stage_changed, may_say).await;
            if !core.has(Flaw::DropBeforeBehind) {
                core.log.behind.wait_for_orphans(&core.ready, &core.members).await;
            }
            let before = state();
            if before.failed.len() != dropped {
                continue;
            }
            let flushed = core.flush_members().await.is_ok();
            let lock = core.metadata.lock(&core.ready).await;
            let mut now = state();
            if now.failed.len() == before.failed.len() {
                now.claim_no_more_than(&before);
                if !flushed {
                    now.claim_no_more_than(&durable);
                    now.clean = false;
                }
                break (lock, now);
            }
        };
        core.gate_state(&state);
        let end = core.update(&lock, MetadataUpdate::State(state.clone())).await;
        drop(lock);
        match end {
            UpdateEnd::Overtaken => {}
            UpdateEnd::Unwritten => {
                core.metadata.refuse(&core.ready);
                core.sleep_until(core.now() + AGAIN_AFTER).await;
            }
            UpdateEnd::Durable | UpdateEnd::NoSpace => {
                durable = state;
                core.metadata.set_durable(&core.ready, number);
            }
        }
    }
}

/// R3, R88: true if no member needs the bits of idle chunks, and bitmaps may be written.
fn may_clear_intents(core: &Core) -> bool {
    let needs_none = core.members.borrow().is_optimal() && core.consistency.resync_from() == Synced::All;
    needs_none && !core.run.is_read_only()
}

/// Writes bitmap updates. Bits that were wanted while the last update ran share the next.
pub(crate) async fn record_intents(core: Rc<Core>) {
    loop {
        let (mut set, mut idle) = (Vec::new(), Vec::new());
        core.ready
            .until(&core.metadata.intent_changed, || {
                // Writes to cold chunks could keep lists of bad blocks waiting for ever.
                if core.metadata.writes_bad_blocks() {
                    return false;
                }
                let mut intent = core.consistency.intent.borrow_mut();
                let Some(intent) = intent.as_mut() else { return false };
                let after = if core.run.is_stopping() { 0 } else { crate::intent::CLEAR_AFTER };
                set = intent.take_wanted();
                idle = if may_clear_intents(&core) { intent.idle(core.now(), after) } else { Vec::new() };
                !set.is_empty() || !idle.is_empty()
            })
            .await;
        core.metadata.set_intent_busy(true);
        // R3: a bit is cleared after a flush of what it covers. A member dropped during the flush may lack just that, and
        // needs the bit when it returns.
        let since = core.now();
        let flushed = idle.is_empty() || core.flush_volatile().await.is_ok();
        let clear = {
            let mut intent = core.consistency.intent.borrow_mut();
            let intent = intent.as_mut().expect("it was there");
            if !flushed {
                intent.postpone(&idle, core.now());
            }
            if flushed && may_clear_intents(&core) { intent.clear(idle, since) } else { Vec::new() }
        };
        let lock = core.metadata.lock(&core.ready).await;
        let end = core.update(&lock, MetadataUpdate::Intent { set: set.clone(), clear }).await;
        core.metadata.set_intent_busy(false);
        {
            let mut intent = core.consistency.intent.borrow_mut();
            let intent = intent.as_mut().expect("it was there");
            match end {
                // R2: the writes that wait for these bits fail.
                UpdateEnd::Unwritten => intent.refused(&set),
                UpdateEnd::Durable => intent.recorded(&set),
                UpdateEnd::NoSpace => unreachable!("only a list of bad blocks may lack space"),
                UpdateEnd::Overtaken => unreachable!("only a state is overtaken by that of another lane"),
            }
        }
        drop(lock);
        core.metadata.intent_waiters.wake_all(&core.ready);
    }
}

/// Writes bad-block updates, one member at a time.
pub(crate) async fn record_bad_blocks(core: Rc<Core>) {
    loop {
        core.metadata.bad_blocks_wanted(&core.ready).await;
        let lock = core.metadata.lock(&core.ready).await;
        let Some(member) = core.metadata.begin_bad_blocks() else { continue };
        let mut blocks = core.members.borrow().get(member).config.bad_blocks.clone();
        // R69: rows that are no longer bad must not lose in a cache what was written to them. If a member that must stay cannot
        // flush, they are still listed.
        let good_elsewhere = good_elsewhere(&core, member, &blocks);
        let flushed = core.flush_members().await.is_ok();
        match flushed {
            true => shorten_lists(&core, &lock, good_elsewhere).await,
            false => core.metadata.durable_bad_blocks(member).into_iter().for_each(|rows| add_rows(&mut blocks, rows)),
        }
        let end = core.update(&lock, MetadataUpdate::BadBlocks { member, blocks: blocks.clone() }).await;
        let state = core.members.borrow().get(member).state;
        // R21, R73: a list without space may leave an older one, which still names rows that were written, or lacks bad ones.
        // What a member under rebuild lacks does not count before it is in sync.
        let is_older = || {
            let durable = core.metadata.durable_bad_blocks(member);
            let lacks_bad_rows = || state == MemberState::InSync && !without(&blocks, &durable).is_empty();
            !without(&durable, &blocks).is_empty() || lacks_bad_rows()
        };
        let is_outdated = !flushed || end == UpdateEnd::Unwritten || end == UpdateEnd::NoSpace && is_older();
        core.metadata.end_bad_blocks(&core.ready, member, blocks, end);
        drop(lock);
        if state == MemberState::Failed {
            core.metadata.forget_bad_blocks(member);
        } else if is_outdated {
            core.metadata.want_bad_blocks_again(&core.ready, member);
        }
        if core.metadata.bad_blocks_are_durable() {
            core.members.borrow_mut().lists_are_durable();
        }
    }
}

/// Rows that the durable lists of other members name although they are good, if the list of `member` is to name new ones.
fn good_elsewhere(core: &Core, member: MemberId, blocks: &[Range<MemberSector>]) -> Vec<(MemberId, Vec<Range<MemberSector>>)> {
    if without(blocks, &core.metadata.durable_bad_blocks(member)).is_empty() {
        return Vec::new();
    }
    let members = core.members.borrow();
    let good = |other| without(&core.metadata.durable_bad_blocks(other), &members.get(other).config.bad_blocks);
    let others = members.active().filter(|&other| other != member).map(|other| (other, good(other)));
    others.filter(|(_, good)| !good.is_empty()).collect()
}

/// R97: takes rows that are good from the durable lists of these members, and adds nothing to them.
async fn shorten_lists(core: &Core, lock: &UpdateLock<'_>, lists: Vec<(MemberId, Vec<Range<MemberSector>>)>) {
    for (member, good) in lists {
        let still_good = without(&good, &core.members.borrow().get(member).config.bad_blocks);
        let blocks = without(&core.metadata.durable_bad_blocks(member), &still_good);
        let update = MetadataUpdate::BadBlocks { member, blocks: blocks.clone() };
        if core.update(lock, update).await == UpdateEnd::Durable {
            core.metadata.list_is_durable(member, blocks);
        }
    }
}

/// Wants lists again that could not be written.
pub(crate) async fn record_bad_blocks_again(core: Rc<Core>) {
    loop {
        core.metadata.bad_blocks_wanted_again(&core.ready).await;
        core.sleep_until(core.now() + AGAIN_AFTER).await;
        core.metadata.begin_bad_blocks_again(&core.ready);
    }
}
