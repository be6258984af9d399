//! Metadata updates, and the beginning and end of writes: what members' metadata says is durable before the data that relies on
//! it.

use super::{BadCause, Core, lost};
use crate::action::Action;
use crate::address::Sectors;
use crate::log::StartStage;
use crate::metadata::UpdateLock;
use crate::task::Waiters;
use crate::{Event, MemberId, MemberSector, MetadataUpdate, SyncSector, UpdateEnd};
use std::ops::Range;
use stria_block::IoError;

impl Core {
    /// Waits until the superblock update of this number is durable, or cannot be written. In the second case nothing is
    /// acknowledged (R70), and lanes must not wait for each other (R71): one answers for a member in sync only together with the
    /// others. On a read-only array nothing is waited for (R88).
    pub async fn recorded(&self, number: u64) {
        self.metadata.durable_or(&self.ready, number, || self.metadata.is_refused() || !self.run.may_record()).await;
    }

    /// As [`Core::recorded`], where nothing must follow an update that could not be written.
    ///
    /// # Errors
    /// The update cannot be written.
    pub async fn try_record(&self, what: &str, number: u64) -> Result<(), IoError> {
        self.recorded(number).await;
        match self.metadata.is_durable(number) {
            true => Ok(()),
            false => Err(lost(what, "superblocks cannot be written")),
        }
    }

    /// Waits until the superblocks name every dropped member as failed (R6), or cannot be written, or the array is read-only
    /// (R88).
    pub async fn wait_for_ack_barrier(&self) {
        self.wait_for_ack_barrier_or(|| false).await;
    }

    /// As [`Core::wait_for_ack_barrier`], but only until `enough` is true. The loss of a member may make it so.
    pub async fn wait_for_ack_barrier_or(&self, enough: impl Fn() -> bool) {
        self.metadata.barrier_or(&self.ready, || enough() || !self.run.may_record()).await;
    }

    /// What a write or flush must say of drops, once it has waited for them: after a crash a dropped member would return as in
    /// sync. `what`: the request, for the error.
    ///
    /// # Errors
    /// Superblocks cannot be written (R70). Or lanes have together dropped more members than redundancy replaces: a flush of the
    /// remaining members does not make durable what only the dropped ones took (R74).
    pub fn drops_are_recorded(&self, what: &str) -> Result<(), IoError> {
        if self.members.borrow().have_failed() {
            return Err(lost(what, "more members have failed than redundancy replaces: `stria status` names them"));
        }
        match self.metadata.refuses_acks() {
            true => Err(lost(what, "superblocks that name the dropped members cannot be written")),
            false => Ok(()),
        }
    }

    /// Makes a metadata update, under the lock on these. Returns how it ended.
    pub async fn update(&self, _lock: &UpdateLock<'_>, update: MetadataUpdate) -> UpdateEnd {
        let waiters = self.waiters_of(&update);
        self.outbox.push(Action::Update(update.clone()));
        self.metadata.begin(update);
        self.ready.until(waiters, || !self.metadata.runs()).await;
        self.metadata.last_end()
    }

    /// Lets the task go on whose metadata update has ended.
    pub fn wake_updater(&self, update: &MetadataUpdate) {
        match update {
            MetadataUpdate::ResetLog => {
                let is_open = self.metadata.last_end() != UpdateEnd::Unwritten;
                self.log.enter(if is_open { StartStage::Open } else { StartStage::Replayed }, &self.ready);
            }
            update => self.waiters_of(update).wake_all(&self.ready),
        }
    }

    /// Where the task of a metadata update waits for its end.
    fn waiters_of(&self, update: &MetadataUpdate) -> &Waiters {
        match update {
            MetadataUpdate::State(_) => self.metadata.state_ended(),
            MetadataUpdate::Intent { .. } | MetadataUpdate::BadBlocks { .. } => self.metadata.other_ended(),
            MetadataUpdate::ResetLog => &self.log.stage_changed,
        }
    }

    /// Marks `rows` of a member as bad. Returns `false` if the format has no space for that.
    pub async fn mark_bad(&self, member: MemberId, rows: Range<MemberSector>, cause: BadCause) -> bool {
        {
            let mut members = self.members.borrow_mut();
            self.metadata.keep_bad_blocks(member, &members.get(member).config.bad_blocks);
            members.mark_bad(member, rows.clone());
        }
        if cause == BadCause::NoSpace {
            self.members.borrow_mut().get_mut(member).lacks_space = true;
            self.no_space.add_unfilled(member, rows.clone());
            self.no_space.refill.wake_all(&self.ready);
        }
        let is_recorded = self.metadata.bad_blocks_durable(&self.ready, member).await;
        // The lack of space is reported once; its bad blocks are not, as they go when there is space.
        if cause == BadCause::Lost {
            self.event(Event::BadBlocks { member, start_sector: rows.start, sectors: rows.sectors() });
        }
        is_recorded
    }

    /// What a flush, and the end of a FUA write, must say of lists of bad blocks: after a crash one that is not durable could
    /// leave written data unreadable. `what`: the request, for the error.
    ///
    /// # Errors
    /// The list of a member that the array cannot do without is not durable.
    pub fn bad_blocks_are_listed(&self, what: &str) -> Result<(), IoError> {
        let members = self.members.borrow();
        match members.active().find(|&member| self.metadata.has_outdated_bad_blocks(member)) {
            Some(member) => {
                let name = &members.get(member).config.name;
                Err(lost(what, &format!("the bad-block log of {name} cannot be written: replace this member")))
            }
            None => Ok(()),
        }
    }

    /// Rows that were written are no longer bad.
    pub fn mark_good(&self, member: MemberId, rows: &Range<MemberSector>) {
        let mut members = self.members.borrow_mut();
        if members.have_bad_blocks() && members.get(member).has_bad(rows) {
            self.metadata.keep_bad_blocks(member, &members.get(member).config.bad_blocks);
            members.mark_good(member, rows);
            self.metadata.want_bad_blocks(&self.ready, member);
        }
    }

    /// Begins a write to `range` of the sync space: returns once superblocks say dirty and the bits are durable (R1, R2).
    ///
    /// # Errors
    /// The superblocks cannot be written, or a member that the array cannot do without does not take the bits. The write has not
    /// begun.
    pub async fn write_begin(&self, range: &Range<SyncSector>) -> Result<(), IoError> {
        self.activity.begin_write();
        self.metadata.set_dirty(&self.ready);
        if !self.metadata.is_dirty_durable() && !self.metadata.dirty(&self.ready).await {
            self.activity.end_write(self.now());
            return Err(lost("write", "superblocks that say \"dirty\" cannot be written"));
        }
        let wait = self.consistency.begin_write(range);
        if wait {
            self.metadata.intent_changed.wake_all(&self.ready);
            let before = self.consistency.bit_refusals();
            let durable = || self.consistency.has_durable_bits(range);
            let refused = || self.consistency.were_bits_refused(range, before);
            self.ready.until(&self.metadata.intent_waiters, || durable() || refused()).await;
            if !durable() {
                self.write_ended(range);
                return Err(lost("write", "the bitmap of a member cannot be written"));
            }
        }
        Ok(())
    }

    /// True if a write to `range` would not wait in [`Core::write_begin`].
    pub fn may_write_directly(&self, range: &Range<SyncSector>) -> bool {
        !self.metadata.is_clean() && self.metadata.is_dirty_durable() && self.consistency.has_durable_bits(range)
    }

    /// Begins a write for which [`Core::may_write_directly`] is true.
    pub fn begin_directly(&self, range: &Range<SyncSector>) {
        self.activity.begin_write();
        self.consistency.begin_write(range);
    }

    /// True if a write that all its members took may be acknowledged without a look at [`Core::drops_are_recorded`]: no drop
    /// waits to become durable (R6), and lanes have not together dropped more members than redundancy replaces (R74).
    pub fn may_acknowledge_at_once(&self) -> bool {
        !self.metadata.holds_acks() && !self.members.borrow().have_failed()
    }

    /// Ends a write. It may be acknowledged when this returns.
    ///
    /// # Errors
    /// A drop cannot be recorded (R70).
    pub async fn write_end(&self, range: &Range<SyncSector>) -> Result<(), IoError> {
        self.write_ended(range);
        self.wait_for_ack_barrier().await;
        // R73: after a crash a list that still names what was written over could leave it unreadable.
        self.metadata.bad_blocks_written(&self.ready).await;
        self.drops_are_recorded("write")
    }

    /// Ends a write. It may be acknowledged once [`Core::may_acknowledge_at_once`] is true.
    pub fn write_ended(&self, range: &Range<SyncSector>) {
        self.consistency.end_write(range, self.now());
        self.activity.end_write(self.now());
    }
}
