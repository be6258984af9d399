//! A part of a member's ring while the array runs: where appends go, and their bytes.

use super::{
    APPEND_MAGIC, AppendHead, Entry, HOLDS_NEW_DATA, HOLDS_PARTIAL, HOLDS_ZEROS, LogLocation, PAGE_BYTES, PAGE_SECTORS,
    append_crc,
};
use std::collections::VecDeque;
use std::ops::Range;
use stria_array::address::Sectors;
use stria_array::{AppendTerms, DriveSector, LogRecord};
use stria_block::{Buffer, Claim, Data, Pool, bytes};
use stria_parity::crc32c;

/// An append that still counts.
#[derive(Clone, Debug)]
pub(super) struct Live {
    sequence: u64,
    range: Range<u64>,
    /// The append counts until all records with numbers up to here are retired. One without records declares the space of
    /// others free, until the next append does.
    pub(super) last_number: u64,
}

/// A part of one member's ring, while the array runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    pub(super) sequence: u64,
    pub(super) next: u64,
    pub(super) live: VecDeque<Live>,
    /// The last append, until it is taken back or another follows: its number, and where the next one would have gone before
    /// it.
    pub(super) last: Option<(u64, u64)>,
}

impl Ring {
    /// A position for an append of this size, if the space of records below `free_below` is free (R22). With records, it leaves
    /// space behind it for a head without any.
    fn next_start(&mut self, part_sectors: u64, sectors: u64, free_below: u64, has_records: bool) -> Option<u64> {
        while self.live.front().is_some_and(|live| live.last_number < free_below) {
            self.live.pop_front();
        }
        let from = |next: u64, sectors: u64| if next + sectors <= part_sectors { next } else { 0 };
        let is_free = |start: u64, sectors: u64| {
            let taken = |live: &Live| live.range.start < start + sectors && start < live.range.end;
            start + sectors <= part_sectors && !self.live.iter().any(taken)
        };
        let start = from(self.next, sectors);
        let behind = from(start + sectors, PAGE_SECTORS);
        let leaves_space = behind >= start + sectors || behind + PAGE_SECTORS <= start;
        let space = is_free(start, sectors) && (!has_records || leaves_space && is_free(behind, PAGE_SECTORS));
        space.then_some(start)
    }

    /// The bytes that append `records` to a part in a session, and their position on the drive. `None`: no space before more
    /// are retired.
    pub fn append(
        &mut self,
        at: (&LogLocation, usize, &[u8; 16], u64),
        records: &[LogRecord],
        terms: AppendTerms,
        memory: &mut Memory,
    ) -> Option<(DriveSector, Data)> {
        let AppendTerms { retired_below, free_below, unsure_count } = terms;
        // Without records the append exists to free the oldest; otherwise it would only fill the ring.
        if records.is_empty() && self.live.front().is_none_or(|live| live.last_number >= retired_below) {
            return None;
        }
        let (location, part, salt, session) = at;
        let payload: u64 = records.iter().map(LogRecord::payload_sectors).sum();
        let sectors = PAGE_SECTORS + payload.next_multiple_of(PAGE_SECTORS);
        let start = self.next_start(location.part_sectors, sectors, free_below, !records.is_empty())?;
        let mut buffer = memory.take(bytes(sectors));
        let (page, body) = buffer.split_at_mut(PAGE_BYTES);
        page.fill(0);
        let mut rest = &mut body[..];
        for (record, slot) in records.iter().zip(page[AppendHead::SIZE_BYTES..].chunks_exact_mut(Entry::SIZE_BYTES)) {
            let holds = if record.partial.is_some() { HOLDS_PARTIAL } else { 0 }
                | if record.new_data.is_empty() { 0 } else { HOLDS_NEW_DATA }
                | if record.new_data_is_zeros { HOLDS_ZEROS } else { 0 };
            let entry = Entry {
                number: record.number,
                stripe: record.stripe,
                row: record.rows.start.get() as u32,
                rows: record.rows.sectors() as u32,
                first: record.written.start as u16,
                count: record.written.len() as u16,
                parity: record.parity as u8,
                holds,
                reserved: [0; 34],
            };
            slot.copy_from_slice(&entry.write());
            for data in record.partial.iter().chain(&record.new_data) {
                let (front, back) = rest.split_at_mut(data.len());
                front.copy_from_slice(data);
                rest = back;
            }
        }
        rest.fill(0);
        self.sequence += 1;
        let mut head = AppendHead {
            magic: APPEND_MAGIC,
            session,
            sequence: self.sequence,
            retired_below,
            start_sector: (location.part_start(part) + start) as u32,
            sectors: sectors as u32,
            count: records.len() as u32,
            crc: 0,
            payload_crc: crc32c(body),
            live_from: self
                .live
                .iter()
                .find(|live| live.last_number >= retired_below)
                .map_or(self.sequence, |live| live.sequence),
            unsure_count,
        };
        page[..AppendHead::SIZE_BYTES].copy_from_slice(&head.write());
        head.crc = append_crc(&page[..AppendHead::SIZE_BYTES + records.len() * Entry::SIZE_BYTES], salt);
        page[..AppendHead::SIZE_BYTES].copy_from_slice(&head.write());
        let last_number = records.iter().map(|record| record.number).max().unwrap_or(retired_below);
        self.live.push_back(Live { sequence: self.sequence, range: start..start + sectors, last_number });
        self.last = Some((self.sequence, self.next));
        self.next = start + sectors;
        Some((location.ring_start() + location.part_start(part) + start, memory.give(buffer)))
    }

    /// The last append could not be written: the next one takes its number and its position.
    pub fn take_back(&mut self) {
        if let Some((sequence, next)) = self.last.take()
            && self.live.back().is_some_and(|live| live.sequence == sequence)
        {
            self.live.pop_back();
            (self.sequence, self.next) = (sequence - 1, next);
        }
    }
}

/// Memory of appends, reused once they are written.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pool: Pool,
    lent: VecDeque<Claim>,
}

impl Memory {
    pub fn take(&mut self, len: usize) -> Buffer {
        for _ in 0..self.lent.len() {
            let claim = self.lent.pop_front().expect("counted");
            match claim.redeem() {
                Ok(buffer) => self.pool.give(buffer),
                Err(claim) => self.lent.push_back(claim),
            }
        }
        self.pool.take(len)
    }

    pub fn give(&mut self, buffer: Buffer) -> Data {
        self.lent.push_back(buffer.claim());
        buffer.freeze()
    }
}
