//! What clients do: their requests, and what the model says of the answers.

use super::clients::{Kind, Pending};
use super::{Outcome, Stop, World};
use crate::member_drive::PATIENCE;
use crate::model::{Lie, fill};
use std::ops::Range;
use stria_block::{Buffer, Completion, Operation, Request, SECTOR_BYTES, bytes};

impl World<'_> {
    fn note_client(&self, range: &Range<u64>, words: impl FnOnce() -> String) {
        if self.notes.shows(range) {
            self.power.note(words);
        }
    }

    pub(super) fn range_at(&self, at: u64, sectors: u64) -> Range<u64> {
        let size = self.model.sectors();
        let block = u64::from(self.node().limits().logical_block_bytes) / SECTOR_BYTES as u64;
        let sectors = sectors.next_multiple_of(block).min(size / block * block);
        let start = at % (size - sectors + 1) / block * block;
        start..start + sectors
    }

    pub(super) fn submit(&mut self, range: Range<u64>, kind: Kind, operation: Operation, write: u32) -> Outcome {
        while self.clients.are_busy() {
            self.wait_for_one()?;
        }
        self.begin(range, kind, operation, write);
        Ok(())
    }

    pub(super) fn begin(&mut self, range: Range<u64>, kind: Kind, operation: Operation, write: u32) {
        let kind = kind.under(self.policy);
        let tag = self.clients.next_tag();
        self.notes.tally.client_requests += 1;
        let begun = match kind {
            Kind::Read | Kind::Extents => self.model.begin_read(),
            Kind::Write { .. } | Kind::Discard => {
                let large = range.end - range.start > self.history.setup.untorn_sectors_max();
                self.model.begin_write(write, range.clone(), large)
            }
            Kind::Flush | Kind::LooseFlush => self.model.begin(),
        };
        if kind == Kind::Flush {
            self.power.client_flush.set(self.power.client_flush.get() + 1);
        }
        self.cross(kind, &range);
        self.note_client(&range, || format!("request {tag} begins: {} {range:?}", kind.words()));
        let since = self.power.now();
        self.clients.begin(Pending { tag, write, range: range.clone(), kind, begun, since, again: None }, &operation);
        let request = Request { tag, start_sector: range.start, sectors: range.end - range.start, operation };
        self.node.as_mut().expect("an array runs").submit(request);
    }

    pub(super) fn write(&mut self, range: Range<u64>, fua: bool) -> Outcome {
        let write = self.clients.next_write();
        let mut buffer = Buffer::zeroed(bytes(range.end - range.start));
        fill(write, range.start, &mut buffer);
        let superblocks = self.hostile_client.fill(write, range.start, &mut buffer, &self.drives, &mut self.model.contents);
        if superblocks > 0 {
            self.meet("superblock written by a client");
        }
        let from = if buffer.len() > SECTOR_BYTES && self.draws.first.one_in(4) {
            let data = buffer.freeze();
            let cut = bytes(1 + self.draws.first.below(range.end - range.start - 1));
            [data.slice(0, cut), data.slice(cut, data.len() - cut)].into_iter().collect()
        } else {
            std::iter::once(buffer.freeze()).collect()
        };
        self.submit_write(range, fua, Operation::Write { from, fua }, write)
    }

    pub(super) fn submit_write(&mut self, range: Range<u64>, fua: bool, operation: Operation, write: u32) -> Outcome {
        self.submit(range, Kind::Write { fua }, operation, write)
    }

    pub(super) fn read(&mut self, range: Range<u64>) -> Outcome {
        let into = std::iter::once(Buffer::zeroed(bytes(range.end - range.start))).collect();
        self.submit(range, Kind::Read, Operation::Read { into }, 0)
    }

    pub(super) fn read_all(&mut self) -> Outcome {
        let size = self.model.sectors();
        let mut start = 0;
        while start < size {
            let end = size.min(start + 256);
            self.read(start..end)?;
            start = end;
        }
        self.drain()
    }

    /// A request has ended. `is_behind`: some write that was acknowledged is not in place.
    pub(super) fn completed(&mut self, completion: Completion, is_behind: bool) -> Outcome {
        let Some(pending) = self.clients.end(completion.tag) else {
            return Err(Stop::Wrong(format!("request {} ended twice", completion.tag)));
        };
        self.ended_in_time(pending.since)?;
        let Range { start, end } = pending.range;
        self.note_client(&(start..end), || format!("request {} ends: {:?}", completion.tag, completion.result));
        if let Err(error) = &completion.result {
            if matches!(pending.kind, Kind::Write { .. } | Kind::Discard) && self.space.may_lack(pending.since, error) {
                self.meet("write without space");
                self.model.fail_write(pending.write, start..end, pending.begun);
                return Ok(());
            }
            if pending.kind == Kind::Flush && self.space.may_report(error) {
                self.meet("flush that reports a lost write");
                self.power.client_flush.set(self.power.client_flush.get() - 1);
                return Ok(());
            }
            return Err(Stop::Wrong(format!("a client's request for sectors {start}..{end} failed: {error}")));
        }
        if is_behind && matches!(pending.kind, Kind::Write { .. } | Kind::Discard) {
            self.model.note_behind(start..end);
        }
        match (pending.kind, completion.operation) {
            (Kind::Read, Operation::Read { into }) => {
                let whole;
                let bytes: &[u8] = match &into[..] {
                    [one] => one,
                    several => {
                        whole = several.iter().map(|buffer| &buffer[..]).collect::<Vec<_>>().concat();
                        &whole
                    }
                };
                if bytes.len() != stria_block::bytes(end - start) {
                    return Err(Stop::Wrong(format!("a read of sectors {start}..{end} brought {} bytes", bytes.len())));
                }
                let result = self.model.end_read(pending.begun, start, Some(bytes));
                result.map_err(|lie| Stop::Wrong(self.describe(&lie, start..end)))
            }
            (Kind::Extents, Operation::Extents { extents }) => {
                let mut next = start;
                let mut holes = Vec::new();
                for extent in &extents {
                    if extent.hole {
                        holes.push(next..(next + extent.sectors).min(end));
                    }
                    next += extent.sectors;
                }
                if next < start + 1 {
                    return Err(Stop::Wrong(format!("extents of sectors {start}..{end} say nothing")));
                }
                let result = self.model.end_extents(pending.begun, &holes);
                if !holes.is_empty() {
                    self.meet("hole");
                }
                result.map_err(|lie| Stop::Wrong(self.describe(&lie, start..end)))
            }
            (Kind::Write { fua }, _) => {
                self.model.end_write(pending.write, start..end, pending.begun, fua);
                Ok(())
            }
            // Reads return zeros from now on.
            (Kind::Discard, _) => {
                self.model.end_write(pending.write, start..end, pending.begun, false);
                Ok(())
            }
            (Kind::Flush, _) => {
                self.power.client_flush.set(self.power.client_flush.get() - 1);
                self.model.end_flush(pending.begun);
                Ok(())
            }
            (Kind::LooseFlush, _) => Ok(()),
            (Kind::Read | Kind::Extents, _) => Err(Stop::Wrong("a read came back as something else".into())),
        }
    }

    /// A stop has ended a request that waited for the start of the array, and so for a drive that hangs.
    pub(super) fn unserved(&mut self, completion: &Completion) {
        let Some(pending) = self.clients.end(completion.tag) else { return };
        self.meet("stopped before it could serve");
        match pending.kind {
            Kind::Write { .. } | Kind::Discard => self.model.fail_write(pending.write, pending.range, pending.begun),
            Kind::Read | Kind::Extents => self.model.fail_read(pending.begun),
            Kind::Flush => self.power.client_flush.set(self.power.client_flush.get() - 1),
            Kind::LooseFlush => {}
        }
    }

    pub(super) fn describe(&self, lie: &Lie, range: Range<u64>) -> String {
        let found = match lie.found {
            Some(0) => "zeros".to_owned(),
            Some(write) => format!("write {write}"),
            None => "garbage".to_owned(),
        };
        format!(
            "a read of sectors {}..{} ({}) found {found} in sector {}, where only writes {:?} may be",
            range.start, range.end, self.notes.phase, lie.sector, lie.allowed
        )
    }

    fn wait_for_one(&mut self) -> Outcome {
        let count = self.clients.pending_count();
        while self.clients.pending_count() >= count {
            let oldest = self.clients.oldest_since().expect("something is pending");
            let mut ends = self.turn(oldest + PATIENCE)? || self.clients.pending_count() < count;
            if !ends {
                // Drives in use may hang one after the other.
                let answers_by = self.answers_by();
                ends = self.turn(answers_by + PATIENCE)? || self.clients.pending_count() < count;
            }
            if !ends {
                return Err(Stop::Wrong("a request never ends".into()));
            }
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) -> Outcome {
        while self.clients.pending_count() > 0 {
            self.wait_for_one()?;
        }
        Ok(())
    }
}
