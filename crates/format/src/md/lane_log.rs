//! One lane's part of the members' logs while the array runs: Stria's own rings, or md's partial parity logs.

use super::log::{LogLocation, Memory, Ring};
use super::ppl::{Ppl, PplLocation};
use std::collections::BTreeMap;
use stria_array::{AppendTerms, Geometry, LaneLog, LogRecord, MemberId, MetadataWrite};

/// The position of each member's log in a session.
#[derive(Clone, Debug)]
pub struct LogLayout {
    pub(crate) session: u64,
    pub(crate) members: BTreeMap<MemberId, LogArea>,
}

/// A member's log, of either kind. A log whose area stays equal continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogArea {
    /// With the salt of its checksums.
    Ring(LogLocation, [u8; 16]),
    /// With the geometry, for the positions of parity.
    Ppl(PplLocation, Geometry),
}

/// md's [`LaneLog`].
#[derive(Debug, Default)]
pub struct MdLog {
    lane: usize,
    session: u64,
    members: BTreeMap<MemberId, (LogArea, MemberLog)>,
    memory: Memory,
}

/// The state of a member's log; one of the two is used.
#[derive(Debug, Default)]
struct MemberLog {
    ring: Ring,
    ppl: Ppl,
}

impl LaneLog for MdLog {
    type Layout = LogLayout;

    fn set_layout(&mut self, lane: usize, LogLayout { session, members }: LogLayout) {
        self.lane = lane;
        let mut before = std::mem::take(&mut self.members);
        if std::mem::replace(&mut self.session, session) != session {
            before.clear();
        }
        let goes_on = |(member, location)| {
            let same = before.remove(&member).filter(|(old, _)| *old == location);
            (member, same.unwrap_or_else(|| (location, MemberLog::default())))
        };
        self.members = members.into_iter().map(goes_on).collect();
    }

    fn append(&mut self, member: MemberId, records: &[LogRecord], terms: AppendTerms) -> Option<MetadataWrite> {
        let (location, log) = self.members.get_mut(&member).expect("an array with a log has space for it on every member");
        let (start_sector, data) = match location {
            LogArea::Ring(location, salt) => {
                log.ring.append((location, self.lane, salt, self.session), records, terms, &mut self.memory)?
            }
            LogArea::Ppl(location, geometry) => {
                log.ppl.append(location, geometry, self.session, records, terms.retired_below, &mut self.memory)?
            }
        };
        Some(MetadataWrite { member, start_sector, data })
    }

    fn append_failed(&mut self, member: MemberId) {
        if let Some((LogArea::Ring(..), log)) = self.members.get_mut(&member) {
            log.ring.take_back();
        }
    }
}
