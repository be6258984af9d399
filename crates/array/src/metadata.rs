//! Metadata updates that the engine wants, and those that are durable.
//!
//! Superblock updates are numbered. A wanted number stands for "the state as it is now or later". One update of any kind runs at
//! a time, under a lock (R5). [`metadata_io`](crate::metadata_io) has the tasks that make them.

use crate::task::{Ready, Waiters};
use crate::{MemberId, MemberSector, MetadataUpdate, UpdateEnd};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stria_block::IoError;

/// Metadata updates, from wish to end.
pub(crate) struct MetadataUpdates {
    wanted: Cell<u64>,
    durable: Cell<u64>,
    /// Nothing is acknowledged before this update is durable (R6).
    barrier: Cell<u64>,
    /// The last superblock update could not be written (R57, R70). It is made again after a pause.
    is_refused: Cell<bool>,
    /// Why, until one can be written.
    refusal: RefCell<Option<IoError>>,
    /// The update that says "dirty": no write starts before it is durable (R1).
    dirty: Cell<u64>,
    is_clean: Cell<bool>,
    /// A superblock update was requested, or one has ended.
    state_changed: Waiters,
    /// A superblock update is durable, the array is not clean any more, or a log holder was dropped.
    pub state_waiters: Waiters,
    /// Bits are to be written, or a bitmap update has ended.
    pub intent_changed: Waiters,
    /// A bitmap update is durable.
    pub intent_waiters: Waiters,
    is_intent_busy: Cell<bool>,
    bad: BadBlockUpdates,
    lock_waiters: Waiters,
    is_locked: Cell<bool>,
    running: RefCell<Option<MetadataUpdate>>,
    /// The end of the last one.
    end: Cell<UpdateEnd>,
    ended: Waiters,
}

/// Bad-block updates, one for each member whose bad blocks have changed.
#[derive(Default)]
struct BadBlockUpdates {
    wanted: RefCell<BTreeSet<MemberId>>,
    is_busy: Cell<bool>,
    /// The last list that is durable, of members whose list has changed.
    durable: RefCell<BTreeMap<MemberId, Vec<Range<MemberSector>>>>,
    /// Members whose list is wanted again after a pause.
    again: RefCell<BTreeSet<MemberId>>,
    /// Members whose last list the format has no space for, or that could not be written.
    refused: RefCell<BTreeSet<MemberId>>,
    /// Members whose durable list still names rows that were written, as theirs could not be written.
    outdated: RefCell<BTreeSet<MemberId>>,
    changed: Waiters,
}

/// The lock on metadata updates, held until this is dropped.
pub(crate) struct UpdateLock<'a> {
    updates: &'a MetadataUpdates,
    ready: &'a Ready,
}

impl Drop for UpdateLock<'_> {
    fn drop(&mut self) {
        self.updates.is_locked.set(false);
        self.updates.lock_waiters.wake_all(self.ready);
    }
}

impl MetadataUpdates {
    /// At the start the superblocks say "clean", or a resync is due.
    pub fn new() -> Self {
        Self {
            wanted: Cell::new(0),
            durable: Cell::new(0),
            barrier: Cell::new(0),
            is_refused: Cell::new(false),
            refusal: RefCell::default(),
            dirty: Cell::new(0),
            is_clean: Cell::new(true),
            state_changed: Waiters::default(),
            state_waiters: Waiters::default(),
            intent_changed: Waiters::default(),
            intent_waiters: Waiters::default(),
            is_intent_busy: Cell::new(false),
            bad: BadBlockUpdates::default(),
            lock_waiters: Waiters::default(),
            is_locked: Cell::new(false),
            running: RefCell::default(),
            end: Cell::default(),
            ended: Waiters::default(),
        }
    }

    /// Requests a superblock update with the state as it is now. Returns its number.
    pub fn request_commit(&self, ready: &Ready) -> u64 {
        self.wanted.set(self.wanted.get() + 1);
        self.state_changed.wake_all(ready);
        self.wanted.get()
    }

    /// Requests one that every acknowledgement from now on waits for (R6). Returns its number.
    pub fn raise_ack_barrier(&self, ready: &Ready) -> u64 {
        self.barrier.set(self.request_commit(ready));
        self.barrier.get()
    }

    /// The number of the last request.
    pub fn wanted(&self) -> u64 {
        self.wanted.get()
    }

    /// True if the update of this number is durable.
    pub fn is_durable(&self, number: u64) -> bool {
        self.durable.get() >= number
    }

    /// True if the superblocks hold the current state.
    pub fn is_current(&self) -> bool {
        self.durable.get() == self.wanted.get()
    }

    /// True if acknowledgements wait for a drop to become durable (R6).
    pub fn holds_acks(&self) -> bool {
        self.durable.get() < self.barrier.get()
    }

    /// True if acknowledgements are held, and the update that they wait for cannot be written.
    pub fn refuses_acks(&self) -> bool {
        self.is_refused.get() && self.holds_acks()
    }

    /// True if the last superblock update could not be written.
    pub fn is_refused(&self) -> bool {
        self.is_refused.get()
    }

    /// Notes why superblocks cannot be written. Returns `false` if that is known already.
    pub fn note_refusal(&self, error: &IoError) -> bool {
        self.refusal.borrow_mut().replace(error.clone()).is_none()
    }

    /// Why the last superblock update could not be written, if so.
    pub fn refusal(&self) -> Option<IoError> {
        self.refusal.borrow().clone()
    }

    /// Waits until the update of this number is durable, or `enough` is true. Returns whether it is durable.
    pub async fn durable_or(&self, ready: &Ready, number: u64, enough: impl Fn() -> bool) -> bool {
        ready.until(&self.state_waiters, || self.is_durable(number) || enough()).await;
        self.is_durable(number)
    }

    /// Waits until acknowledgements are not held any more, or the update that they wait for cannot be written, or `enough` is
    /// true.
    pub async fn barrier_or(&self, ready: &Ready, enough: impl Fn() -> bool) {
        self.durable_or(ready, self.barrier.get(), || self.is_refused() || enough()).await;
    }

    /// True if the superblocks are to say "clean".
    pub fn is_clean(&self) -> bool {
        self.is_clean.get()
    }

    /// Writes have paused: the next update says "clean".
    pub fn set_clean(&self) {
        self.is_clean.set(true);
    }

    /// A write is about to begin: if the superblocks say "clean", requests that they say "dirty".
    pub fn set_dirty(&self, ready: &Ready) {
        if self.is_clean.replace(false) {
            self.dirty.set(self.request_commit(ready));
        }
    }

    /// True if the superblocks say "dirty", durably.
    pub fn is_dirty_durable(&self) -> bool {
        self.durable.get() >= self.dirty.get()
    }

    /// Waits for that. Returns `false` if it cannot be written.
    pub async fn dirty(&self, ready: &Ready) -> bool {
        self.durable_or(ready, self.dirty.get(), || self.is_refused()).await
    }

    /// Waits for a request that is not durable.
    pub async fn requested(&self, ready: &Ready) {
        ready.until(&self.state_changed, || self.wanted.get() > self.durable.get()).await;
    }

    /// The update of this number is durable.
    pub fn set_durable(&self, ready: &Ready, number: u64) {
        assert!(number >= self.durable.get(), "superblock updates become durable in order");
        self.durable.set(number);
        self.is_refused.set(false);
        *self.refusal.borrow_mut() = None;
        self.state_waiters.wake_all(ready);
    }

    /// The update could not be written.
    pub fn refuse(&self, ready: &Ready) {
        self.is_refused.set(true);
        self.state_waiters.wake_all(ready);
    }

    /// A bitmap update begins or has ended.
    pub fn set_intent_busy(&self, is_busy: bool) {
        self.is_intent_busy.set(is_busy);
    }

    /// True while one is under way.
    pub fn is_intent_busy(&self) -> bool {
        self.is_intent_busy.get()
    }

    /// A member's bad blocks are about to change: notes those that are durable.
    pub fn keep_bad_blocks(&self, member: MemberId, blocks: &[Range<MemberSector>]) {
        self.bad.durable.borrow_mut().entry(member).or_insert_with(|| blocks.to_vec());
    }

    /// The bad blocks of a member that are durable, if they have changed since.
    pub fn durable_bad_blocks(&self, member: MemberId) -> Vec<Range<MemberSector>> {
        self.bad.durable.borrow().get(&member).cloned().unwrap_or_default()
    }

    /// True while lists of bad blocks are to be written.
    pub fn writes_bad_blocks(&self) -> bool {
        self.bad.is_busy.get() || !self.bad.wanted.borrow().is_empty()
    }

    /// True if every list is durable.
    pub fn bad_blocks_are_durable(&self) -> bool {
        !self.writes_bad_blocks() && self.bad.outdated.borrow().is_empty()
    }

    /// True if no list is outdated: each was written since it last changed.
    pub fn all_lists_are_current(&self) -> bool {
        self.bad.outdated.borrow().is_empty()
    }

    /// True if the durable list of a member is an older one, as the last could not be written.
    pub fn has_outdated_bad_blocks(&self, member: MemberId) -> bool {
        self.bad.outdated.borrow().contains(&member)
    }

    /// A member's bad blocks have changed.
    pub fn want_bad_blocks(&self, ready: &Ready, member: MemberId) {
        self.bad.wanted.borrow_mut().insert(member);
        self.bad.changed.wake_all(ready);
    }

    /// A member's list could not be written.
    pub fn want_bad_blocks_again(&self, ready: &Ready, member: MemberId) {
        self.bad.again.borrow_mut().insert(member);
        self.bad.outdated.borrow_mut().insert(member);
        self.bad.changed.wake_all(ready);
    }

    /// The list of a member that was dropped does not count any more.
    pub fn forget_bad_blocks(&self, member: MemberId) {
        self.bad.outdated.borrow_mut().remove(&member);
    }

    /// Waits for such a list.
    pub async fn bad_blocks_wanted_again(&self, ready: &Ready) {
        ready.until(&self.bad.changed, || !self.bad.again.borrow().is_empty()).await;
    }

    /// Wants them now.
    pub fn begin_bad_blocks_again(&self, ready: &Ready) {
        self.bad.wanted.borrow_mut().append(&mut self.bad.again.borrow_mut());
        self.bad.changed.wake_all(ready);
    }

    /// Waits until all bad blocks are durable. Returns `false` if the format has no space for those of `member`.
    pub async fn bad_blocks_durable(&self, ready: &Ready, member: MemberId) -> bool {
        self.want_bad_blocks(ready, member);
        self.bad_blocks_written(ready).await;
        !self.bad.refused.borrow().contains(&member)
    }

    /// Waits until no list of bad blocks is still to be written.
    pub async fn bad_blocks_written(&self, ready: &Ready) {
        ready.until(&self.bad.changed, || !self.writes_bad_blocks()).await;
    }

    /// Waits for a member whose bad blocks have changed.
    pub async fn bad_blocks_wanted(&self, ready: &Ready) {
        ready.until(&self.bad.changed, || !self.bad.wanted.borrow().is_empty()).await;
    }

    /// Takes the next one, whose update begins.
    pub fn begin_bad_blocks(&self) -> Option<MemberId> {
        let member = self.bad.wanted.borrow_mut().pop_first()?;
        self.bad.is_busy.set(true);
        Some(member)
    }

    /// Ends that update, of this list.
    pub fn end_bad_blocks(&self, ready: &Ready, member: MemberId, blocks: Vec<Range<MemberSector>>, end: UpdateEnd) {
        self.bad.is_busy.set(false);
        if end == UpdateEnd::Durable {
            self.bad.refused.borrow_mut().remove(&member);
            self.bad.outdated.borrow_mut().remove(&member);
            self.list_is_durable(member, blocks);
        } else {
            self.bad.refused.borrow_mut().insert(member);
        }
        self.bad.changed.wake_all(ready);
        // Bits wait for lists.
        self.intent_changed.wake_all(ready);
    }

    /// This list of a member is durable. What it lacks is still wanted.
    pub fn list_is_durable(&self, member: MemberId, blocks: Vec<Range<MemberSector>>) {
        self.bad.durable.borrow_mut().insert(member, blocks);
    }

    /// Waits for the lock on metadata updates. Two at once could write one superblock or bitmap page, and the older might
    /// arrive last (R5).
    pub async fn lock<'a>(&'a self, ready: &'a Ready) -> UpdateLock<'a> {
        ready.until(&self.lock_waiters, || !self.is_locked.get()).await;
        self.is_locked.set(true);
        UpdateLock { updates: self, ready }
    }

    /// True if an update is being made.
    pub fn is_locked(&self) -> bool {
        self.is_locked.get()
    }

    /// An update begins.
    pub fn begin(&self, update: MetadataUpdate) {
        assert!(self.is_locked(), "a metadata update without the lock");
        let before = self.running.replace(Some(update));
        assert!(before.is_none(), "two metadata updates at once");
    }

    /// True if it is one of superblocks.
    pub fn is_of_state(&self) -> bool {
        matches!(*self.running.borrow(), Some(MetadataUpdate::State(_)))
    }

    /// True while one runs.
    pub fn runs(&self) -> bool {
        self.running.borrow().is_some()
    }

    /// It has ended. Returns it.
    pub fn end(&self, end: UpdateEnd) -> MetadataUpdate {
        self.end.set(end);
        self.running.take().expect("a metadata update runs")
    }

    /// The end of the last one.
    pub fn last_end(&self) -> UpdateEnd {
        self.end.get()
    }

    /// Where the task of superblock updates waits for the end of one. It waits for requests there too, so if a member failed the
    /// update, the next one, which drops that member, is made before other tasks go on.
    pub fn state_ended(&self) -> &Waiters {
        &self.state_changed
    }

    /// Where the tasks of bitmap and bad-block updates wait for the end of one.
    pub fn other_ended(&self) -> &Waiters {
        &self.ended
    }
}
