//! A recorder that stores nothing, and answers each update as durable.

use std::ops::Range;
use stria_array::{AppendTerms, ArrayState, DriveSector, LaneLog, LogRecord, MemberId, MemberSector, MetadataWrite, Recorder};
use stria_block::{Buffer, Data, SECTOR_BYTES};

/// Writes what a log would append as one sector somewhere, so that its bytes are not part of the figure.
#[derive(Clone)]
pub struct Nowhere(Data);

impl Nowhere {
    /// 8 MiB: where its appends go on a drive, behind the data of members that are no larger.
    pub const START: u64 = 8 << 11;
}

impl Default for Nowhere {
    fn default() -> Self {
        Self(Buffer::zeroed(SECTOR_BYTES).freeze())
    }
}

impl Recorder for Nowhere {
    type Log = Self;
    type Newcomer = ();

    fn record_state(&mut self, _: &ArrayState, _: u64) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn record_intent(&mut self, _: &[u64], _: &[u64]) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn record_bad_blocks(&mut self, _: MemberId, _: &[Range<MemberSector>], _: u64) -> Option<Vec<MetadataWrite>> {
        Some(Vec::new())
    }
    fn log_layout(&self) {}
}

impl LaneLog for Nowhere {
    type Layout = ();

    fn set_layout(&mut self, _: usize, (): ()) {}
    fn append(&mut self, member: MemberId, _: &[LogRecord], _: AppendTerms) -> Option<MetadataWrite> {
        Some(MetadataWrite { member, start_sector: DriveSector::new(Self::START), data: self.0.clone() })
    }
    fn append_failed(&mut self, _: MemberId) {}
}
