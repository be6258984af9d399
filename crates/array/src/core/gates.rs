//! Assertions at the engine's gates: a bug stops here, before it costs data.
//!
//! | gate | what is asserted | in release |
//! | --- | --- | --- |
//! | submit | the request lies in this lane's partition | yes |
//! | plan | each strip to be read is there; every method but *data only* leaves parity that covers all data | yes |
//! | client's write to members | the superblocks say dirty, durably (R1); the array is not read-only | yes |
//! | | its rows are locked; its bits are set, durably (R2) | no |
//! | log record | this run's log session has begun (R32; in `Log::take`) | no |
//! | any request to a member | it lies in the data area (a dropped member gets nothing from the driver) | no |
//! | metadata write to a member | it lies outside of the data area | yes |
//! | bitmap | a bit that is cleared covers no write, and no resync is due there (R3; in `Intent::clear`) | yes |
//! | superblock | no other metadata update runs (R5); it says clean only while no write runs | yes |
//! | acknowledgement | the superblocks name each dropped member that did not take the write as failed, durably (R6) | yes |
//!
//! What drives and clients do wrong is an error, and not asserted here. Release builds keep what costs less than 0.5 % of the
//! instructions of every kind of request (bench/results/costs.md has the figures). All assertions hold in builds with
//! `debug_assertions`: tests, and the simulator's histories by the profile `checked`.

use super::Core;
use crate::plan::{Method, Presence, WritePlan};
use crate::{ArraySector, ArrayState, DriveSector, MemberId, MemberSector, MemberState, SyncSector};
use std::ops::Range;
use stria_block::{IoError, Operation, Request};

/// Release builds leave out assertions that every request would pay for.
const ALL: bool = cfg!(debug_assertions);

impl Core {
    /// At submit.
    #[inline]
    pub fn gate_submit(&self, request: &Request) {
        if self.partition.lane_count == 1 || request.sectors == 0 {
            return;
        }
        if matches!(request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. }) {
            let ((owner, end), lane) = (self.partition.lane_of(ArraySector::new(request.start_sector)), self.partition.lane);
            assert!(
                owner == lane && ArraySector::new(request.end_sector()) <= end,
                "{request:?} reached lane {lane}, but lane {owner} owns up to {end}"
            );
        }
    }

    /// Before the writes of a client's request go to members. `range`: of the sync space.
    #[inline]
    pub fn gate_client_write(&self, range: &Range<SyncSector>) {
        assert!(
            !self.metadata.is_clean() && self.metadata.is_dirty_durable(),
            "a write to {range:?} goes out while superblocks say \"clean\""
        );
        assert!(!self.run.is_read_only(), "a write to {range:?} goes out on a read-only array");
        if !ALL {
            return;
        }
        assert!(self.locks.is_exclusive(range), "a client's write to {range:?} goes out without its lock");
        assert!(
            self.consistency.has_durable_bits(range),
            "a write to {range:?} goes out before its write-intent bits are durable"
        );
    }

    /// Before anything is sent to a member.
    pub fn gate_member(&self, member: MemberId, start_sector: MemberSector, sectors: u64, operation: &Operation) {
        if !ALL {
            return;
        }
        let members = self.members.borrow();
        let state = members.get(member);
        let Some(slot) = state.slot else { return };
        let end = self.geometry.member_sectors(slot);
        assert!(
            (start_sector + sectors).get() <= end,
            "{operation:?} at {start_sector}+{sectors} runs past member {member:?}, which ends at {end}"
        );
    }

    /// Before a metadata write is sent to a member.
    pub fn gate_metadata(&self, member: MemberId, range: &Range<DriveSector>) {
        let members = self.members.borrow();
        let config = &members.get(member).config;
        let data = config.data_start_sector.run(config.data_sectors);
        assert!(
            range.end <= data.start || data.end <= range.start,
            "metadata of member {member:?} would be written to {range:?}, within its data area {data:?}"
        );
    }

    /// Before a superblock update is sent.
    pub fn gate_state(&self, state: &ArrayState) {
        assert!(self.metadata.is_locked(), "two updates of metadata at once");
        assert!(!state.clean || self.metadata.is_clean(), "superblocks are to say \"clean\", and the array is not");
    }

    /// Before a write is acknowledged. `failed`: members that did not take it. One that cannot be spared keeps its slot, and the
    /// write has failed (R7); such a member may be dropped later for another reason.
    pub fn gate_acknowledge(&self, result: &Result<(), IoError>, failed: impl IntoIterator<Item = MemberId>) {
        if result.is_err() {
            return;
        }
        for member in failed {
            let (state, dropped_by) = {
                let members = self.members.borrow();
                (members.get(member).state, members.get(member).dropped_by)
            };
            let is_recorded = state != MemberState::Failed || self.metadata.is_durable(dropped_by);
            assert!(is_recorded, "a write is acknowledged that member {member:?} lacks, and its loss is not recorded");
        }
    }
}

/// After planning: the plan reads what is there, and its parity covers all data.
pub(crate) fn gate_plan(plan: &WritePlan, data: &[Presence], parity: &[Presence], written: &Range<usize>) {
    assert!(
        plan.read_data.iter().all(|&index| data[index] == Presence::Readable),
        "{plan:?} reads data that is not there: {data:?}"
    );
    assert!(
        plan.read_parity.iter().all(|&index| parity[index] == Presence::Readable),
        "{plan:?} reads parity that is not there: {parity:?}"
    );
    let read_or_new = |index: usize| written.contains(&index) || plan.read_data.contains(&index);
    let lost = (0..data.len()).filter(|&index| !read_or_new(index)).count();
    match plan.method {
        Method::Full | Method::ReconstructWrite => assert_eq!(lost, 0, "{plan:?} computes parity without all data"),
        Method::ReadModifyWrite => {
            let there = parity.iter().filter(|&&presence| presence != Presence::Missing).count();
            assert_eq!(plan.read_parity.len(), there, "{plan:?} changes parity that it has not read: {parity:?}");
            assert!(written.clone().all(|index| plan.read_data.contains(&index)), "{plan:?} does not read what it replaces");
        }
        Method::RecoverWrite => {
            let unread = data.len() - plan.read_data.len();
            assert!(plan.read_parity.len() >= unread, "{plan:?} recovers {unread} strips from too few parities");
        }
        Method::DataOnly => assert!(parity.iter().all(|&presence| presence == Presence::Missing), "{plan:?} leaves parity old"),
    }
}
