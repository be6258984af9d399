//! What steps have ordered of the next crash, and what it takes along.

/// The next crash.
#[derive(Default)]
pub struct NextCrash {
    /// It kills the process only.
    pub kill: bool,
    /// The member whose superblock cannot be read afterwards.
    pub superblock_to_lose: Option<u64>,
    /// The member of whose log or bitmap a sector cannot be read afterwards, and which.
    pub log_to_lose: Option<(u64, u64)>,
    /// The next start serves the array read-only at first.
    pub read_only: bool,
    /// A drive that is to be cut short while no process runs, and the sector.
    pub shrinks_at_start: Option<(u64, u64)>,
    /// The member that is lost with the power.
    pub member_to_lose: Option<u64>,
    /// The start afterwards is cut short after this many events, by a kill (`true`) or a power cut.
    pub again: Option<(bool, u64)>,
    /// A sole log holder of an early acknowledgement was failed: its log is lost with the crash.
    pub sole_log_holder_is_gone: bool,
}
