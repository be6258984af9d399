//! The life of a log record: opening the [write log](crate::log), appending, making durable, retiring.

use crate::action::Action;
use crate::core::{Core, drop_failed_flushes, lost};
use crate::log::{Full, LogHolders, Logged, StartStage, Waiter};
use crate::log_record::LogRecord;
use crate::member_requests::MemberIo;
use crate::plan::Rectangle;
use crate::{Flaw, MemberId, MemberSector, MemberState, MetadataUpdate, StripSector, Synced};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{IoError, Operation};

/// 1 s: the pause before a flush that failed is tried again.
const FLUSH_AGAIN_AFTER: stria_block::Nanos = 1_000_000_000;

impl Core {
    /// Waits until the log takes records. The first write of a run begins a new log session, after a flush: the old records
    /// count until then, and records of this run rely on what the last run left in caches (R32).
    ///
    /// # Errors
    /// A member cannot flush and cannot be dropped.
    pub async fn log_open(&self) -> Result<(), IoError> {
        let log = &self.log;
        if log.config.is_none() || log.stage() == StartStage::Open {
            return Ok(());
        }
        self.ready.until(&log.stage_changed, || log.stage() >= StartStage::Replayed).await;
        if log.stage() == StartStage::Replayed {
            log.begin_opening();
            if let Err(error) = self.flush_volatile().await {
                log.enter(StartStage::Replayed, &self.ready);
                return Err(error);
            }
            // R95: the session voids the records of every lane.
            if !self.all_replayed().await {
                log.enter(StartStage::Replayed, &self.ready);
                return Err(lost("write", "another lane could not carry out what the last run left"));
            }
            if log.is_newest_only() {
                // R32: a partial parity log names no session. What a run left counts no more if superblocks were updated since,
                // and an array that was never in sync says so before its first entry.
                if let Err(error) = self.try_record("write", self.metadata.request_commit(&self.ready)).await {
                    log.enter(StartStage::Replayed, &self.ready);
                    return Err(error);
                }
            }
            // R5, R32: a superblock update beside it would name a session that some member's log does not have yet.
            let lock = self.metadata.lock(&self.ready).await;
            self.update(&lock, MetadataUpdate::ResetLog).await;
        }
        self.ready.until(&log.stage_changed, || log.stage() != StartStage::Opening).await;
        match log.stage() {
            StartStage::Open => Ok(()),
            StartStage::Replaying | StartStage::Readable | StartStage::Replayed | StartStage::Opening => {
                Err(lost("write", "members cannot flush what the last run left in their caches"))
            }
        }
    }

    /// Before a write that relies on the strips beside `written`: makes durable what these hold (R20).
    ///
    /// # Errors
    /// A member cannot flush and cannot be dropped.
    pub async fn flush_neighbours(&self, stripe: u64, rows: &Range<StripSector>, written: &Range<usize>) -> Result<(), IoError> {
        while self.log.is_unflushed(stripe, rows, written) && !self.has(Flaw::NeighboursNotFlushed) {
            self.flush_volatile().await?;
        }
        Ok(())
    }

    /// Logs records, and makes them durable. The write may start when this returns (R17).
    ///
    /// # Errors
    /// A member could not log its record and cannot be dropped either. Nothing was changed.
    pub async fn log_begin(&self, groups: Vec<SmallVec<[(MemberId, LogRecord); 2]>>) -> Result<Logged, IoError> {
        let mut logged = self.log_append_records(groups).await?;
        match self.log.durable(&mut logged).await {
            Ok(()) => Ok(logged),
            Err(error) => {
                self.log_forget(logged);
                Err(error)
            }
        }
    }

    /// Logs records: when this returns they survive a process crash. The write may start after
    /// [`Log::durable`](crate::log::Log::durable).
    ///
    /// # Errors
    /// As [`Core::log_begin`].
    pub async fn log_append_records(&self, groups: Vec<SmallVec<[(MemberId, LogRecord); 2]>>) -> Result<Logged, IoError> {
        if groups.is_empty() {
            return Ok(Logged::nothing());
        }
        let mut logged = self.log_send(groups, Waiter::Task(self.ready.current()));
        if self.log.logged(&logged).await {
            return Ok(logged);
        }
        let error = self.log.durable(&mut logged).await.expect_err("it is known");
        self.log_forget(logged);
        Err(error)
    }

    /// Sends records to their members, those of one write together. `waiter` is woken when they are logged, and when they are
    /// durable.
    pub fn log_send<G>(&self, groups: impl IntoIterator<Item = G>, waiter: Waiter) -> Logged
    where
        G: IntoIterator<Item = (MemberId, LogRecord)>,
    {
        let (logged, members) = self.log.take(groups, waiter);
        members.into_iter().for_each(|member| self.log_append(member));
        logged
    }

    /// A write did not happen: its records are retired.
    pub fn log_forget(&self, logged: Logged) {
        self.log.retire_all(logged);
        self.log_retry();
    }

    /// A write to parts of a stripe has ended on all members. Its records are retired at once. In three cases the next flush
    /// retires them instead: members have volatile caches; no member takes a superblock that names the dropped ones; a list of
    /// bad blocks that names half-written rows is not durable (R21).
    pub fn log_end(&self, stripe: u64, parts: &[Rectangle], logged: Logged) {
        let log = &self.log;
        if log.config.is_none() {
            return;
        }
        let is_listed = self.metadata.all_lists_are_current() || self.bad_blocks_are_listed("write").is_ok();
        if !self.members.borrow().have_volatile_cache() && !self.metadata.refuses_acks() && is_listed {
            log.retire_all(logged);
        } else {
            log.retire_by_flush(stripe, parts, logged);
            log.flush_if_full(&self.ready);
            log.flush_if_stalled(&self.ready);
        }
        self.log_retry();
    }

    /// True if a write of all strips of `rows` (within the strips) needs a record: always with a partial parity log, otherwise
    /// if replay might find an older record of these rows (R19).
    pub fn needs_revoke(&self, stripe: u64, rows: &Range<StripSector>) -> bool {
        self.log.is_newest_only() || self.may_be_replayed(stripe, rows)
    }

    fn may_be_replayed(&self, stripe: u64, rows: &Range<StripSector>) -> bool {
        let members = self.members.borrow();
        // R18: replacements count too. Their logs take part when they take the slot.
        let holders = self.map(stripe).parity.iter().flat_map(|&slot| members.targets(usize::from(slot)));
        self.log.may_be_replayed(stripe, rows, holders)
    }

    /// The stripes of a range for which [`Core::needs_revoke`] is true, over all of their rows.
    pub fn log_covered(&self, stripes: &Range<u64>) -> Vec<u64> {
        let rows = StripSector::ZERO.run(self.geometry.strip_sectors());
        if self.log.is_newest_only() {
            return stripes.clone().collect();
        }
        self.log.covered(stripes.clone()).into_iter().filter(|&stripe| self.needs_revoke(stripe, &rows)).collect()
    }

    /// Revoke records over some rows of a stripe (within the strips), for its parity members.
    pub fn revoke_records(&self, stripe: u64, rows: &Range<StripSector>) -> SmallVec<[(MemberId, LogRecord); 2]> {
        let members = self.members.borrow();
        let map = self.map(stripe);
        let bare = |(parity, &slot): (usize, &u16)| {
            let record = LogRecord {
                number: 0,
                stripe,
                rows: rows.clone(),
                written: 0..map.data.len(),
                parity,
                partial: None,
                new_data: SmallVec::new(),
                new_data_is_zeros: false,
            };
            members.targets(usize::from(slot)).into_iter().map(move |member| (member, record.clone()))
        };
        map.parity.iter().enumerate().flat_map(bare).collect()
    }

    /// Sends as much of what waits for a member's log as one append holds.
    fn log_append(&self, member: MemberId) {
        let Some((records, terms)) = self.log.next_append(member) else { return };
        // A partial parity log is written with FUA: each append is durable when it ends.
        let fua = self.log.is_newest_only() || !self.members.borrow().get(member).limits.volatile_cache;
        self.outbox.push(Action::AppendLog { member, records, terms, fua });
    }

    /// An append has ended. Returns whether [`Core::log_flush`] must make it durable.
    #[must_use]
    pub fn log_appended(&self, member: MemberId, error: Option<&IoError>) -> bool {
        let durable = {
            let members = self.members.borrow();
            let member = members.get(member);
            self.log.is_newest_only() || !member.limits.volatile_cache || error.is_some() || member.state == MemberState::Failed
        };
        let flush = self.log.appended(member, durable, error, &mut self.waker());
        self.log_append(member);
        // Forgets stripes whose records are long retired.
        for stripe in self.log.covered_to_prune() {
            self.may_be_replayed(stripe, &StripSector::ZERO.run(self.geometry.strip_sectors()));
        }
        flush
    }

    /// An append found no space.
    pub fn log_full(&self, member: MemberId, records: Vec<LogRecord>) {
        match self.log.full(member, records) {
            Full::Waits => {
                self.log_append(member);
                self.log.flush_if_stalled(&self.ready);
            }
            Full::InVain => {}
            Full::Hopeless => {
                let error = lost("write", "the write log of a member is full and cannot be written");
                self.log.give_up(member, &error, &mut self.waker());
            }
        }
    }

    /// Flushes a member until all of its appends that have ended are durable.
    pub async fn log_flush(&self, member: MemberId) {
        while let Some(flush) = self.log.begin_flush(member) {
            let io = MemberIo { member, start_sector: MemberSector::ZERO, sectors: 0, operation: Operation::Flush };
            let result = self.io(std::iter::once(io).collect()).await.pop().expect("one was sent").0;
            let result = drop_failed_flushes(self, std::iter::once((member, &result)));
            self.log.flushed(member, &flush, result.as_ref().map(|&()| ()), &mut self.waker());
            self.log_append(member);
        }
    }

    /// Records were retired: appends that found no space may find some now.
    fn log_retry(&self) {
        self.log.stalled().into_iter().for_each(|member| self.log_append(member));
    }

    /// Makes durable what members with a volatile cache have ended, and retires the records of these writes, after every drop
    /// up to then is durable, and every list of bad blocks: a crash would bring a member back without what it missed (R21).
    ///
    /// # Errors
    /// A member cannot flush and cannot be dropped, or a drop or a list of bad blocks cannot be recorded.
    pub async fn flush_volatile(&self) -> Result<(), IoError> {
        let log = &self.log;
        let epoch = log.begin_epoch();
        self.flush_members().await?;
        if !self.has(Flaw::RetiredBeforeDrop) {
            self.wait_for_ack_barrier().await;
            self.drops_are_recorded("flush")?;
            self.bad_blocks_are_listed("flush")?;
        }
        log.retire_up_to(epoch);
        self.log_retry();
        Ok(())
    }

    /// True if a write that these members log may be acknowledged now, because the records would count after a crash (R23): a
    /// rebuilt member is in sync only after a superblock update, and logs count only after the update that ends the first
    /// resync.
    pub fn may_acknowledge_early(&self, log_holders: &LogHolders) -> bool {
        let all_lanes = || self.peers.is_resynced() || self.has(Flaw::EarlyOnOneLane);
        let resynced = self.consistency.synced() == Synced::All && all_lanes();
        let has_space = self.no_space.has_places(self.now());
        self.metadata.is_current() && resynced && has_space && self.log.behind.may_rely_on(log_holders, &self.members.borrow())
    }
}

/// Flushes when a log is full of writes that wait for nothing else.
pub(crate) async fn log_flush_forever(core: Rc<Core>) {
    loop {
        core.ready.until(&core.log.stage_changed, || core.log.is_flushing()).await;
        // Records that cannot be flushed cannot be retired. Writes that need their space fail.
        let flushed = core.flush_volatile().await;
        core.log.end_flushing();
        if let Err(error) = flushed {
            core.log.give_up_stalled(&error, &mut core.waker());
            core.sleep_until(core.now() + FLUSH_AGAIN_AFTER).await;
            core.log_retry();
        }
        // Writes that ended meanwhile are not covered, and may be all that the others wait for.
        core.log.flush_if_stalled(&core.ready);
    }
}
