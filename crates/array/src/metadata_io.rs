//! The tasks that make metadata updates: what each says, and what must be durable before it says so.
//!
//! One update runs at a time (R5). Each carries everything wanted by then, so many writes share one.

use crate::core::Core;
use crate::log::StartStage;
use crate::member::add_rows;
use crate::{Flaw, Health, MemberState, MetadataUpdate, Synced, UpdateEnd};
use stria_block::Nanos;

/// 1 s: the pause before an update that could not be written is made again.
const AGAIN_AFTER: Nanos = 1_000_000_000;

impl Core {
    /// Makes durable what the start relies on, before clients read by it (R31). If some slot is `unsynced`, the
    /// superblocks say so: otherwise the member could return after another crash as if it had never left, without what its
    /// cache held. If log records were replayed, a new log session voids them: replayed again with a member less, they could
    /// give the new data of a write whose old data a client has read.
    pub async fn prepare_start(&self, unsynced: bool, replays: bool) {
        self.ready.until(&self.sweep_changed, || !self.run.is_read_only()).await;
        // R30, R31: replay raises the barrier for the same members, and one update serves both.
        if unsynced && !self.has(Flaw::ServedBeforeDrop) {
            self.metadata.raise_ack_barrier(&self.ready);
            self.wait_for_ack_barrier().await;
        }
        if replays && !self.has(Flaw::ServedBeforeSession) {
            // A failing flush makes writes fail, and reads may go on: waiting would not help.
            let _ = self.log_open().await;
        }
        self.run.set_prepared();
    }

    /// Writes superblock updates, one at a time, each with the latest state.
    pub async fn record_states(&self) {
        // The claims of the last durable update.
        let mut durable = self.members.borrow().state(self.metadata.is_clean(), self.consistency.synced());
        loop {
            self.metadata.requested(&self.ready).await;
            // R88: on a read-only array the loss of a member is known in memory only, until the array may be written to.
            self.ready.until(&self.sweep_changed, || self.run.may_record()).await;
            let number = self.metadata.wanted();
            // R4: "clean" and the progress of sweeps are claimed as they were before the flush. Slots are written as they are
            // after it. If a member was dropped during the flush, it is repeated, since every claim may rely on the new
            // members. Until replay has ended, the log of the last run tells where redundancy may be inconsistent, so "clean"
            // waits for that.
            let redundancy_is_known = || self.log.stage() >= StartStage::Replayed && !self.consistency.suspects_parity();
            // A failed array stays dirty: a forced start must resync the writes that only dropped members took.
            let clean = || self.metadata.is_clean() && redundancy_is_known() && self.health() != Health::Failed;
            let state = || self.members.borrow().state(clean(), self.consistency.synced());
            let (lock, state) = loop {
                let dropped = state().failed.len();
                // R30, R25: a dropped member may hold the log records that replay or a write-behind still needs.
                let may_say = || {
                    self.log.replay_has_holders(&self.members.borrow())
                        || self.run.is_read_only()
                        || !self.members.borrow().have_dropped()
                };
                self.ready.until(&self.log.stage_changed, may_say).await;
                if !self.has(Flaw::DropBeforeBehind) {
                    self.log.behind.wait_for_orphans(&self.ready, &self.members).await;
                }
                let before = state();
                if before.failed.len() != dropped {
                    continue;
                }
                let flushed = self.flush_members().await.is_ok();
                let lock = self.metadata.lock(&self.ready).await;
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
            self.gate_state(&state);
            let end = self.update(&lock, MetadataUpdate::State(state.clone())).await;
            drop(lock);
            match end {
                UpdateEnd::Overtaken => {}
                UpdateEnd::Unwritten => {
                    self.metadata.refuse(&self.ready);
                    self.sleep_until(self.now() + AGAIN_AFTER).await;
                }
                UpdateEnd::Durable | UpdateEnd::NoSpace => {
                    durable = state;
                    self.metadata.set_durable(&self.ready, number);
                }
            }
        }
    }

    /// R3, R88: true if no member needs the bits of idle chunks, and bitmaps may be written.
    fn may_clear_intents(&self) -> bool {
        let needs_none = self.members.borrow().is_optimal() && self.consistency.resync_from() == Synced::All;
        needs_none && !self.run.is_read_only()
    }

    /// Writes bitmap updates. Bits that were wanted while the last update ran share the next.
    pub async fn record_intents(&self) {
        loop {
            let (mut set, mut idle) = (Vec::new(), Vec::new());
            self.ready
                .until(&self.metadata.intent_changed, || {
                    // Writes to cold chunks could keep lists of bad blocks waiting for ever.
                    if self.metadata.writes_bad_blocks() {
                        return false;
                    }
                    let mut intent = self.consistency.intent.borrow_mut();
                    let Some(intent) = intent.as_mut() else { return false };
                    let after = if self.run.is_stopping() { 0 } else { crate::intent::CLEAR_AFTER };
                    set = intent.take_wanted();
                    idle = if self.may_clear_intents() { intent.idle(self.now(), after) } else { Vec::new() };
                    !set.is_empty() || !idle.is_empty()
                })
                .await;
            self.metadata.set_intent_busy(true);
            // R3: a bit is cleared after a flush of what it covers. A member dropped during the flush may lack just that, and
            // needs the bit when it returns.
            let since = self.now();
            let flushed = idle.is_empty() || self.flush_volatile().await.is_ok();
            let clear = {
                let mut intent = self.consistency.intent.borrow_mut();
                let intent = intent.as_mut().expect("it was there");
                if !flushed {
                    intent.postpone(&idle, self.now());
                }
                if flushed && self.may_clear_intents() { intent.clear(idle, since) } else { Vec::new() }
            };
            let lock = self.metadata.lock(&self.ready).await;
            let end = self.update(&lock, MetadataUpdate::Intent { set: set.clone(), clear }).await;
            self.metadata.set_intent_busy(false);
            {
                let mut intent = self.consistency.intent.borrow_mut();
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
            self.metadata.intent_waiters.wake_all(&self.ready);
        }
    }

    /// Writes bad-block updates, one member at a time.
    pub async fn record_bad_blocks(&self) {
        loop {
            self.metadata.bad_blocks_wanted(&self.ready).await;
            let lock = self.metadata.lock(&self.ready).await;
            let Some(member) = self.metadata.begin_bad_blocks() else { continue };
            let mut blocks = self.members.borrow().get(member).config.bad_blocks.clone();
            // R69: rows that are no longer bad must not lose in a cache what was written to them. If a member that must stay cannot
            // flush, they are still listed.
            let flushed = self.flush_members().await.is_ok();
            if !flushed {
                self.metadata.durable_bad_blocks(member).into_iter().for_each(|rows| add_rows(&mut blocks, rows));
            }
            let end = self.update(&lock, MetadataUpdate::BadBlocks { member, blocks: blocks.clone() }).await;
            // R73: a list without space may leave an older one that still names rows which were written.
            let names_good_rows = || {
                let mut either = blocks.clone();
                self.metadata.durable_bad_blocks(member).into_iter().for_each(|rows| add_rows(&mut either, rows));
                either != blocks
            };
            let is_outdated = !flushed || end == UpdateEnd::Unwritten || end == UpdateEnd::NoSpace && names_good_rows();
            self.metadata.end_bad_blocks(&self.ready, member, blocks, end);
            drop(lock);
            if is_outdated && self.members.borrow().get(member).state != MemberState::Failed {
                self.metadata.want_bad_blocks_again(&self.ready, member);
            }
            if self.metadata.bad_blocks_are_durable() {
                self.members.borrow_mut().lists_are_durable();
            }
        }
    }

    /// Wants lists again that could not be written.
    pub async fn record_bad_blocks_again(&self) {
        loop {
            self.metadata.bad_blocks_wanted_again(&self.ready).await;
            self.sleep_until(self.now() + AGAIN_AFTER).await;
            self.metadata.begin_bad_blocks_again(&self.ready);
        }
    }
}
