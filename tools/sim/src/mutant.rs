//! Deliberate bugs, which the checkers must find.
//!
//! Most are between engine and drives, and act as an engine with the bug would.

use stria_array::Flaw;
use stria_block::{Buffer, Data, Nanos, Operation, Request, SECTOR_BYTES};
use stria_parity::crc32c;

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Clients' flushes do not reach the members.
    FlushDropped,
    /// Only clients' flushes reach the members: "clean" and cleared bits are recorded before data is durable.
    OwnFlushDropped,
    /// FUA writes of data are plain writes.
    DataFuaForgotten,
    /// Superblock updates are acknowledged before they are durable.
    RecordFuaForgotten,
    /// Write-intent bits never reach the members.
    IntentDropped,
    /// Superblocks never reach the members after creation.
    SuperblockDropped,
    /// The superblock of one member is not written.
    OneSuperblockDropped,
    /// The write log never reaches the members; write-intent bits do.
    LogDropped,
    /// Partial parity in the log has a wrong bit, under right checksums.
    PartialWrong,
    /// New bytes in the log have a wrong bit, under right checksums.
    NewDataWrong,
    /// Log records that a crash left are not replayed.
    ReplaySkipped,
    /// A member's write-intent bits are cleared as soon as the next write to its data has ended.
    IntentClearedEarly,
    /// A superblock that drops a member counts as recorded 2 ms before it is written.
    DropRecordedLate,
    /// P and Q of a degraded array reach each other's member.
    ParitySwapped,
    /// Of several lanes only the first one's parts of the write log reach the members.
    LaneLogDropped,
    /// Of several lanes only the first one's flushes reach the members.
    LaneFlushDropped,
    /// Of several lanes' write-intent bits only those of the first one's partition reach the members.
    LaneIntentDropped,
    /// An array is looked for on every array, where clients write.
    LooksInside,
    /// Of several superblocks on a drive the newest counts, at any position.
    YoungestTaken,
    /// Short reads of a drive that was cut short count as unreadable sectors.
    ShortReadsUnreadable,
    /// Short reads of a drive that was cut short count as zeros.
    ShortReadsZeros,
    /// A drive is opened while requests of a dead process are in flight on it.
    OpenedWhileHeld,
    /// The steps of a change of metadata are done at once, in any order.
    ChangedAtOnce,
    /// A repeated write is acknowledged by the next process without being done.
    RepeatIgnored,
    /// The engine itself breaks a rule.
    Engine(Flaw),
}

/// 2 ms: the time by which a superblock update counts as durable too early.
pub(crate) const LATE: Nanos = 2_000_000;

/// The first bytes of an append to the write log, and of the bitmap.
const LOG_APPEND: &[u8] = b"StriaApp";
const BITMAP: &[u8] = b"bitm";
/// In a bitmap: the offset of its chunk size, and of the first bits.
const CHUNK_BYTES: std::ops::Range<usize> = 52..56;
const BITS: usize = 256;

/// md's superblock, version 1.2: its position, its length here, and the offsets of its member's identity and of the roles.
pub(crate) const SUPERBLOCK_SECTOR: u64 = 8;
pub(crate) const SUPERBLOCK_SECTORS: u64 = 2;
const DEVICE_UUID: std::ops::Range<usize> = 0xa8..0xb8;
const ROLES: usize = 0x100;
const FAULTY: [u8; 2] = 0xfffe_u16.to_le_bytes();

fn begins_with(request: &Request, mark: &[u8]) -> bool {
    matches!(&request.operation, Operation::Write { from, .. } if from.first().is_some_and(|data| data.starts_with(mark)))
}

/// First sector of the bitmap as arrays of the simulator lay it out, and the end of superblocks.
const BITMAP_SECTOR: u64 = 16;

impl Mutant {
    /// Every mutant that is not the engine's.
    const OUTSIDE: [Mutant; 24] = [
        Mutant::FlushDropped,
        Mutant::OwnFlushDropped,
        Mutant::DataFuaForgotten,
        Mutant::RecordFuaForgotten,
        Mutant::IntentDropped,
        Mutant::SuperblockDropped,
        Mutant::OneSuperblockDropped,
        Mutant::LogDropped,
        Mutant::PartialWrong,
        Mutant::NewDataWrong,
        Mutant::ReplaySkipped,
        Mutant::IntentClearedEarly,
        Mutant::DropRecordedLate,
        Mutant::ParitySwapped,
        Mutant::LaneLogDropped,
        Mutant::LaneFlushDropped,
        Mutant::LaneIntentDropped,
        Mutant::LooksInside,
        Mutant::YoungestTaken,
        Mutant::ShortReadsUnreadable,
        Mutant::ShortReadsZeros,
        Mutant::OpenedWhileHeld,
        Mutant::ChangedAtOnce,
        Mutant::RepeatIgnored,
    ];

    /// Every mutant.
    pub fn all() -> impl Iterator<Item = Mutant> {
        Self::OUTSIDE.into_iter().chain(Flaw::ALL.map(Mutant::Engine))
    }

    /// True if a request that a lane sends to a member ends without effect.
    pub(crate) fn swallows(self, lane: usize, request: &Request, metadata: bool, client_flush: bool) -> bool {
        let flush = matches!(request.operation, Operation::Flush);
        let write = matches!(request.operation, Operation::Write { .. });
        match self {
            Mutant::FlushDropped => flush && client_flush,
            Mutant::OwnFlushDropped => flush && !client_flush,
            Mutant::IntentDropped => write && metadata && request.start_sector >= BITMAP_SECTOR,
            Mutant::SuperblockDropped | Mutant::OneSuperblockDropped => write && metadata && request.start_sector < BITMAP_SECTOR,
            Mutant::LogDropped => begins_with(request, LOG_APPEND),
            Mutant::LaneLogDropped => lane > 0 && begins_with(request, LOG_APPEND),
            Mutant::LaneFlushDropped => lane > 0 && flush,
            Mutant::DataFuaForgotten
            | Mutant::RecordFuaForgotten
            | Mutant::PartialWrong
            | Mutant::NewDataWrong
            | Mutant::ReplaySkipped
            | Mutant::IntentClearedEarly
            | Mutant::DropRecordedLate
            | Mutant::ParitySwapped
            | Mutant::LaneIntentDropped
            | Mutant::LooksInside
            | Mutant::YoungestTaken
            | Mutant::ShortReadsUnreadable
            | Mutant::ShortReadsZeros
            | Mutant::OpenedWhileHeld
            | Mutant::ChangedAtOnce
            | Mutant::RepeatIgnored
            | Mutant::Engine(_) => false,
        }
    }

    /// The rule that the engine itself breaks.
    pub(crate) fn flaw(self) -> Option<Flaw> {
        match self {
            Mutant::Engine(flaw) => Some(flaw),
            _ => None,
        }
    }

    /// The name on command lines.
    pub fn name(self) -> String {
        match self {
            Mutant::Engine(flaw) => format!("{flaw:?}"),
            _ => format!("{self:?}"),
        }
    }

    /// True if a write's FUA is dropped.
    pub(crate) fn forgets_fua(self, metadata: bool) -> bool {
        match self {
            Mutant::DataFuaForgotten => !metadata,
            Mutant::RecordFuaForgotten => metadata,
            _ => false,
        }
    }
}

/// True if a request writes the bitmap's first page.
pub(crate) fn writes_bits(request: &Request) -> bool {
    begins_with(request, BITMAP)
}

/// Clears the bits of the first sector of a bitmap.
pub(crate) fn clear_bits(sector: &mut [u8]) {
    sector[BITS..].fill(0);
}

/// The first page of a bitmap without the bits of chunks that begin in other partitions than the first of `lanes`.
pub(crate) fn without_other_lanes(page: &Data, lanes: usize, group_sectors: u64) -> Data {
    let mut page = Buffer::copy_of(page);
    let chunk_bytes = u32::from_le_bytes(page[CHUNK_BYTES].try_into().expect("four bytes"));
    let chunk_sectors = u64::from(chunk_bytes) / SECTOR_BYTES as u64;
    for (chunk, byte, bit) in (0..(page.len() - BITS) as u64 * 8).map(|chunk| (chunk, BITS + chunk as usize / 8, chunk % 8)) {
        let group = chunk * chunk_sectors / group_sectors;
        if !group.is_multiple_of(lanes as u64) {
            page[byte] &= !(1 << bit);
        }
    }
    page.freeze()
}

fn faulty_count(superblock: &[u8]) -> usize {
    superblock.get(ROLES..).unwrap_or(&[]).chunks_exact(2).filter(|role| **role == FAULTY).count()
}

/// True if a request writes a superblock that records more faulty members than `before`.
pub(crate) fn drops_a_member(request: &Request, before: &[u8]) -> bool {
    let Operation::Write { from, .. } = &request.operation else { return false };
    request.start_sector == SUPERBLOCK_SECTOR && from.first().is_some_and(|now| faulty_count(now) > faulty_count(before))
}

/// An append to the write log with one wrong bit in the partial parity of its first record, or in its new data (`new_data`) if it
/// has any, under correct checksums.
pub(crate) fn with_wrong_bit(append: &Data, superblock: &[u8], new_data: bool) -> Option<Data> {
    const PAGE: usize = 4096;
    let entry = append.get(0x40..0x80)?;
    let (partial, new) = (entry[0x1d] & 1 != 0, entry[0x1d] & 2 != 0);
    if !append.starts_with(LOG_APPEND) || append.len() <= PAGE || !(if new_data { new } else { partial }) {
        return None;
    }
    let rows = u32::from_le_bytes(entry[0x14..0x18].try_into().expect("four bytes")) as usize;
    let at = PAGE + if new_data && partial { rows * SECTOR_BYTES } else { 0 };
    let mut wrong = Buffer::copy_of(append);
    wrong[at] ^= 1;
    let payload = crc32c(&wrong[PAGE..]);
    wrong[0x30..0x34].copy_from_slice(&payload.to_le_bytes());
    wrong[0x2c..0x30].fill(0);
    let count = u32::from_le_bytes(wrong[0x28..0x2c].try_into().expect("four bytes")) as usize;
    let head = crc32c(&[&wrong[..0x40 + 0x40 * count], &superblock[DEVICE_UUID]].concat());
    wrong[0x2c..0x30].copy_from_slice(&head.to_le_bytes());
    Some(wrong.freeze())
}
