//! Metadata updates: what the members' metadata says is durable before the data that relies on it.
//!
//! One update runs at a time (R5). Each carries everything wanted by then, so many writes share one.

use super::{Action, Core};
use crate::task::Waiters;
use crate::{Event, MemberId, MemberState, MetadataUpdate, UpdateEnd};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

/// What the engine wants in the members' metadata, and what is durable there.
#[derive(Default)]
pub(crate) struct MetadataUpdates {
    /// Superblock updates are numbered. A wanted number stands for "the state as it is now or later".
    wanted: Cell<u64>,
    durable: Cell<u64>,
    /// Nothing is acknowledged before this update is durable (R6).
    barrier: Cell<u64>,
    /// The update that says "dirty": no write starts before it is durable (R1).
    dirty: Cell<u64>,
    pub clean: Cell<bool>,
    pub intent_busy: Cell<bool>,
    pub state_waiters: Waiters,
    pub intent_waiters: Waiters,
    pub changed: Waiters,
    pub intent_changed: Waiters,
    /// Members whose bad blocks have changed since their last update.
    bad_changed: RefCell<BTreeSet<MemberId>>,
    bad_busy: Cell<bool>,
    /// The format had no space for the last list.
    bad_refused: Cell<bool>,
    bad_waiters: Waiters,
    /// Tasks that wait for the update lock.
    update_lock_waiters: Waiters,
    update_locked: Cell<bool>,
    /// The update that runs.
    running: RefCell<Option<MetadataUpdate>>,
    /// How the last one ended.
    end: Cell<UpdateEnd>,
    ended: Waiters,
}

/// The lock on metadata updates, held until this is dropped.
pub(crate) struct UpdateLock<'a>(&'a Core);

impl Drop for UpdateLock<'_> {
    fn drop(&mut self) {
        self.0.record.update_locked.set(false);
        self.0.record.update_lock_waiters.wake_all(&self.0.ready);
    }
}

impl MetadataUpdates {
    /// Whether metadata are being written.
    pub fn is_update_locked(&self) -> bool {
        self.update_locked.get()
    }
}

impl Core {
    /// Requests an update with the state as it is now. Returns its number.
    pub fn request_commit(&self) -> u64 {
        self.record.wanted.set(self.record.wanted.get() + 1);
        self.record.changed.wake_all(&self.ready);
        self.record.wanted.get()
    }

    /// Requests an update that every acknowledgement from now on waits for (R6). Returns its number.
    pub fn raise_ack_barrier(&self) -> u64 {
        self.record.barrier.set(self.request_commit());
        self.record.barrier.get()
    }

    /// True if the update of this number is durable.
    pub fn is_durable(&self, number: u64) -> bool {
        self.record.durable.get() >= number
    }

    /// True if a member was dropped in this run.
    pub fn has_dropped(&self) -> bool {
        self.members.borrow().iter().any(|member| member.role == MemberState::Failed)
    }

    /// True if the superblocks hold the current state.
    pub fn is_committed(&self) -> bool {
        self.record.durable.get() == self.record.wanted.get()
    }

    /// Waits until everything requested so far is durable.
    pub async fn all_committed(&self) {
        self.recorded(self.record.wanted.get()).await;
    }

    pub async fn recorded(&self, number: u64) {
        self.ready.until(&self.record.state_waiters, || self.record.durable.get() >= number).await;
    }

    /// Waits until the superblocks name every dropped member as failed (R6).
    pub async fn wait_for_ack_barrier(&self) {
        self.wait_for_ack_barrier_or(|| false).await;
    }

    /// As [`Core::wait_for_ack_barrier`], but only until `enough` is true. The loss of a member may make it so.
    pub async fn wait_for_ack_barrier_or(&self, enough: impl Fn() -> bool) {
        let barrier = self.record.barrier.get();
        self.ready.until(&self.record.state_waiters, || self.record.durable.get() >= barrier || enough()).await;
    }

    /// Writes superblock updates, one at a time, each with the latest state.
    pub async fn record_states(&self) {
        loop {
            self.ready.until(&self.record.changed, || self.record.wanted.get() > self.record.durable.get()).await;
            let number = self.record.wanted.get();
            // R4: "clean" and the progress of sweeps are claimed as they were before the flush. Slots are written as they are
            // after it. If a member was dropped during the flush, it is repeated, since every claim may rely on the new
            // members. Until replay has ended, the log of the last run tells where redundancy may be inconsistent, so "clean"
            // waits for that.
            let settled = || self.log.stage.get() >= crate::log::Stage::Replayed && self.suspect_parity_from.get() == u64::MAX;
            let clean = || self.record.clean.get() && settled();
            let state = || self.members.borrow().state(clean(), self.resync_sector.get());
            let (lock, state) = loop {
                let dropped = state().failed.len();
                // R30, R25: a dropped member may hold the log records that replay or a write-behind still needs.
                let may_say = || self.replay_has_holders() || self.read_only.get() || !self.has_dropped();
                self.ready.until(&self.log.stage_changed, may_say).await;
                self.wait_for_orphaned_writes().await;
                let before = state();
                if before.failed.len() != dropped {
                    continue;
                }
                let flushed = self.flush_members().await.is_ok();
                let lock = self.lock_updates().await;
                let mut now = state();
                if now.failed.len() == before.failed.len() {
                    now.claim_no_more_than(&before);
                    now.clean &= flushed;
                    break (lock, now);
                }
            };
            self.gate_state(&state);
            let end = self.update(&lock, MetadataUpdate::State(state)).await;
            drop(lock);
            if end == UpdateEnd::Overtaken {
                continue;
            }
            self.record.durable.set(number);
            self.record.state_waiters.wake_all(&self.ready);
        }
    }

    /// R3: true if no member needs the bits of idle chunks.
    fn may_clear_intents(&self) -> bool {
        self.members.borrow().whole() && self.resync_from() == u64::MAX
    }

    /// Writes bitmap updates. Bits that were wanted while the last update ran share the next.
    pub async fn record_intents(&self) {
        loop {
            let (mut set, mut idle) = (Vec::new(), Vec::new());
            self.ready
                .until(&self.record.intent_changed, || {
                    let mut intent = self.intent.borrow_mut();
                    let Some(intent) = intent.as_mut() else { return false };
                    let after = if self.stopping.get() { 0 } else { crate::intent::CLEAR_AFTER };
                    set = intent.take_wanted();
                    idle = if self.may_clear_intents() { intent.idle(self.now(), after) } else { Vec::new() };
                    !set.is_empty() || !idle.is_empty()
                })
                .await;
            self.record.intent_busy.set(true);
            // R3: a bit is cleared after a flush of what it covers. A member dropped during the flush may lack just that, and
            // needs the bit when it returns.
            let since = self.now();
            let flushed = idle.is_empty() || self.flush_volatile().await.is_ok();
            let clear = {
                let mut intent = self.intent.borrow_mut();
                let intent = intent.as_mut().expect("it was there");
                if !flushed {
                    intent.postpone(&idle, self.now());
                }
                if flushed && self.may_clear_intents() { intent.clear(idle, since) } else { Vec::new() }
            };
            let lock = self.lock_updates().await;
            self.update(&lock, MetadataUpdate::Intent { set: set.clone(), clear }).await;
            self.record.intent_busy.set(false);
            self.intent.borrow_mut().as_mut().expect("it was there").recorded(&set);
            drop(lock);
            self.record.intent_waiters.wake_all(&self.ready);
        }
    }

    /// Writes bad-block updates, one member at a time.
    pub async fn record_bad_blocks(&self) {
        loop {
            self.ready.until(&self.record.bad_waiters, || !self.record.bad_changed.borrow().is_empty()).await;
            let lock = self.lock_updates().await;
            let Some(member) = self.record.bad_changed.borrow_mut().pop_first() else { continue };
            let blocks = self.members.borrow().get(member).config.bad_blocks.clone();
            self.record.bad_busy.set(true);
            let end = self.update(&lock, MetadataUpdate::BadBlocks { member, blocks }).await;
            self.record.bad_busy.set(false);
            self.record.bad_refused.set(end == UpdateEnd::NoSpace);
            self.record.bad_waiters.wake_all(&self.ready);
            drop(lock);
        }
    }

    /// Waits for the lock on metadata updates. Two at once could write one superblock or bitmap page, and the older might
    /// arrive last (R5).
    pub async fn lock_updates(&self) -> UpdateLock<'_> {
        self.ready.until(&self.record.update_lock_waiters, || !self.record.update_locked.get()).await;
        self.record.update_locked.set(true);
        UpdateLock(self)
    }

    /// Makes a metadata update, under the lock on these. Returns how it ended.
    pub async fn update(&self, _lock: &UpdateLock<'_>, update: MetadataUpdate) -> UpdateEnd {
        let waiters = self.waiters_of(&update);
        self.outbox.borrow_mut().push_back(Action::Update(update.clone()));
        let before = self.record.running.replace(Some(update));
        assert!(before.is_none(), "two metadata updates at once");
        self.ready.until(waiters, || self.record.running.borrow().is_none()).await;
        self.record.end.get()
    }

    /// The metadata update has ended. Returns it: its task goes on after [`Core::wake_updater`].
    pub fn update_ended(&self, end: UpdateEnd) -> MetadataUpdate {
        self.record.end.set(end);
        self.record.running.take().expect("a metadata update runs")
    }

    /// Lets the task go on whose metadata update has ended.
    pub fn wake_updater(&self, update: &MetadataUpdate) {
        if let MetadataUpdate::ResetLog = update {
            self.log.stage.set(crate::log::Stage::Open);
        }
        self.waiters_of(update).wake_all(&self.ready);
    }

    /// What the task of a metadata update waits by: superblock updates with the requests for more, so that after one that a member
    /// failed the next is made before anything else follows from that.
    fn waiters_of(&self, update: &MetadataUpdate) -> &Waiters {
        match update {
            MetadataUpdate::State(_) => &self.record.changed,
            MetadataUpdate::Intent { .. } | MetadataUpdate::BadBlocks { .. } => &self.record.ended,
            MetadataUpdate::ResetLog => &self.log.stage_changed,
        }
    }

    /// Marks `rows` of a member as bad. Returns `false` if the format has no space for that.
    pub async fn mark_bad(&self, member: MemberId, rows: Range<u64>) -> bool {
        self.members.borrow_mut().get_mut(member).mark_bad(rows.clone());
        self.record.bad_refused.set(false);
        self.record.bad_changed.borrow_mut().insert(member);
        self.record.bad_waiters.wake_all(&self.ready);
        let recorded = || self.record.bad_changed.borrow().is_empty() && !self.record.bad_busy.get();
        self.ready.until(&self.record.bad_waiters, recorded).await;
        // The lack of space is reported once; its bad blocks are not, as they go when there is space.
        if !self.no_space.is_careful(self.now()) {
            self.event(Event::BadBlocks { member, start_sector: rows.start, sectors: rows.end - rows.start });
        }
        !self.record.bad_refused.get()
    }

    /// Rows that were written are no longer bad.
    pub fn mark_good(&self, member: MemberId, rows: &Range<u64>) {
        let mut members = self.members.borrow_mut();
        let member_state = members.get_mut(member);
        if !member_state.config.bad_blocks.is_empty() && member_state.mark_good(rows) {
            self.record.bad_changed.borrow_mut().insert(member);
            self.record.bad_waiters.wake_all(&self.ready);
        }
    }

    /// Begins a write to `range` of the sync space: returns once superblocks say dirty and the bits are durable (R1, R2).
    pub async fn write_begin(&self, range: &Range<u64>) {
        self.writes_in_flight.set(self.writes_in_flight.get() + 1);
        if self.record.clean.get() {
            self.record.clean.set(false);
            self.request_commit();
            self.record.dirty.set(self.record.wanted.get());
        }
        if !self.says_dirty() {
            self.recorded(self.record.dirty.get()).await;
        }
        let wait = self.intent.borrow_mut().as_mut().is_some_and(|intent| intent.begin(range));
        if wait {
            self.record.intent_changed.wake_all(&self.ready);
            let durable = || self.intent.borrow().as_ref().is_none_or(|intent| intent.is_durable(range));
            self.ready.until(&self.record.intent_waiters, durable).await;
        }
    }

    /// True if the superblocks say dirty, durably.
    pub fn says_dirty(&self) -> bool {
        self.record.durable.get() >= self.record.dirty.get()
    }

    /// True if a write to `range` would not wait in [`Core::write_begin`].
    pub fn may_write_directly(&self, range: &Range<u64>) -> bool {
        !self.record.clean.get()
            && self.says_dirty()
            && self.intent.borrow().as_ref().is_none_or(|intent| intent.is_durable(range))
    }

    /// Begins a write for which [`Core::may_write_directly`] is true.
    pub fn begin_directly(&self, range: &Range<u64>) {
        self.writes_in_flight.set(self.writes_in_flight.get() + 1);
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            intent.begin(range);
        }
    }

    /// True if acknowledgements wait for a drop to become durable (R6).
    pub fn acks_are_held(&self) -> bool {
        self.record.durable.get() < self.record.barrier.get()
    }

    /// Ends a write. It may be acknowledged when this returns.
    pub async fn write_end(&self, range: &Range<u64>) {
        self.write_ended(range);
        self.wait_for_ack_barrier().await;
    }

    /// Ends a write. It may be acknowledged once [`Core::acks_are_held`] is false.
    pub fn write_ended(&self, range: &Range<u64>) {
        let whole = self.members.borrow().whole();
        if let Some(intent) = self.intent.borrow_mut().as_mut() {
            intent.end(range, whole, self.now());
        }
        self.writes_in_flight.set(self.writes_in_flight.get() - 1);
        self.last_write.set(self.now());
    }
}
