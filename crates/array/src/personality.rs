//! The duties of a level. The engine validates requests and dispatches them; a family of levels is one implementation of
//! [`Personality`]: [`striped`](crate::striped) (linear, RAID 0), [`mirror`](crate::mirror) (RAID 1, 10) and
//! [`parity`](crate::parity) (RAID 4, 5, 6). Its file names the modules that do the work.
//!
//! A new level of a [`Family`](crate::Family) that exists, such as triple parity, owes this:
//!
//! | where | what | the compiler names it |
//! | --- | --- | --- |
//! | `level.rs` | its family, its count of parities, its default layout, which layouts suit it, its name | yes |
//! | | its name read back, and the message that lists the names; `of_all_levels`, which tests go through; `ParityLayout::suits` | no |
//! | `geometry.rs` | the least members (the most follow from the code); `losses_survived` of a mirror | the first |
//! | `geometry/parity.rs` | the slot of each parity: layouts place P and Q, and more fails an assertion at the start | no |
//! | `parity_sweep.rs`, `parity/locate.rs` | a scrub finds the wrong strip by P and Q. R is not asked | no |
//! | lists of parities | two lie inline (`Parities`, `Frozen`, `StripeMap::parity`, a write's records). A third costs allocations | no |
//! | `format/md/shape.rs` | its number for md, and the way back (`level_of`) | the first |
//! | `format/md/examine.rs` | its name, layouts and size, as mdadm prints them | no |
//! | `host/create.rs` | the list of names with 50 and 60, and whether a RAID 0 may lie over it | no |
//! | `manage` | lists in `cli`, `api`, `rest/types`, `rest/forecast`; words in `status`, `plain_status`, `view`; `wizard`, `rest/takes` | no |
//! | `page/src` | what `create.tsx` offers, what `change.tsx` lets be set, the words in `catalogue.ts` | no |
//! | `tools/plan` | its own `level.rs`, `platform.rs`, `level_name.rs`, advice, reliability | in part |
//! | `tools/lab` | lists in `md.rs`, `experiment/check.rs`, `target.rs`, `modelled.rs`; `verify.rs`, `stage/cost.rs` | no |
//! | `tools/bench` | `theory.rs`, `scaling.rs`, `report/scaling.rs` | in part |
//! | `tools/sim` | `setup.rs`, `reference.rs`, `world/faults.rs`, `exhaustive.rs`; what `price` and `beside` measure | in part |
//! | `docs` | COMMANDS, ON_DISK, GLOSSARY, PLAN, LAB, SIM; the README; `packaging`'s deb and man | no |
//!
//! `crates/parity` computes P, Q and R, and plans, log records and replay take any count up to
//! [`PARITY_COUNT_MAX`](stria_parity::PARITY_COUNT_MAX). md has no level of three parities: superblocks would hold a number of
//! Stria's own, and Linux would refuse the array.
//!
//! A fourth parity S owes more, in `crates/parity`: that constant, `DATA_COUNT_MAX`, coefficients in `code.rs`, a matrix of four
//! in `recover.rs`, every file of `kernel/`, and `reference.rs`. The coefficients cannot be 8^i: P, Q and S together would not
//! recover three strips with 2^i + 2^j + 2^k = 0. A log record has a number for S, but `format/md/raw.rs` and the simulator's
//! `trace.rs` have no name.
//!
//! A new family also needs a name in [`Family`](crate::Family), an implementation of these duties, and a line in
//! [`of_level`](crate::of_level). Whatever else in this crate depends on family or level is a `match` that names them all, so the
//! compiler asks for the new one: losses in `member.rs`, limits, lanes' partitions, footprints, hedged reads, sweeps.
//! `tests/modules.rs` keeps it so. Other crates ask for `is_redundant` and `parity_count`, and a few compare with RAID 0 or 1:
//! search them for `Level::`.
//!
//! A declustered layout is such a family, as [`parity`](crate::parity) takes stripe *s* to be strip *s* of every member: rows,
//! locks, bits and watermarks are the same numbers for all of them (`rows_of_strip`, `sync_of_rows`). It needs a sync space of
//! its own in `address.rs` and `partition.rs`, and space for spares within the members, which [`members`](crate::member) do not
//! know: a slot is filled by a member.
//!
//! | duty | what a level does |
//! | --- | --- |
//! | [`alone`](Personality::alone) | names the member that can do all of a request by itself; most requests end here |
//! | [`read`](Personality::read) | splits a read, and says which member is asked for each run |
//! | [`read_elsewhere`](Personality::read_elsewhere) | reads what a missing member would hold |
//! | [`correct`](Personality::correct) | answers for a member that could not read, and writes back |
//! | [`write`](Personality::write), [`clear`](Personality::clear) | keep redundancy, by the crash rules |
//! | [`extents`](Personality::extents) | says which member knows of holes |
//! | [`read_from_others`](Personality::read_from_others) | answers for a member that is slow, or says that the others cannot |
//! | [`recover_rows`](Personality::recover_rows) | reconstructs what a member lacks, under the lock of its rows |
//! | [`recoverable`](Personality::recoverable) | lists what its lane owns of a member's rows, in pieces for that |
//! | [`resync_piece`](Personality::resync_piece), [`resync`](Personality::resync) | make redundancy consistent for a client that reads |
//! | [`sweep`](Personality::sweep) | does one window of a resync, rebuild or scrub |

use crate::address::SweepSector;
use crate::core::{Core, FailedPart};
use crate::member_requests::Pieces;
use crate::status::SweepFault;
use crate::window::{Found, Work};
use crate::{ArraySector, MemberId, MemberSector, SyncSector};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, Operation, Request};

/// The part of a request that lies in one piece on one member.
pub(crate) struct Run {
    pub slot: usize,
    pub start_sector: MemberSector,
    pub sectors: u64,
    pub pieces: Pieces,
}

/// The source that a run is read from.
pub(crate) enum Source {
    Member(MemberId),
    /// The others, since this one is unresponsive; it is asked if they lack the data.
    OthersFirst(MemberId),
    /// The others: the member is missing, or does not hold it.
    Others,
}

pub(crate) type Runs = SmallVec<[(Run, Source); 8]>;

/// The way in which a range is zeroed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zeroing {
    /// It is durable when it ends.
    pub fua: bool,
    /// The space may be unmapped.
    pub unmap: bool,
    /// It fails where that would take as long as to write zeros.
    pub fast: bool,
}

impl Zeroing {
    pub fn operation(self) -> Operation {
        Operation::WriteZeroes { fua: self.fua, unmap: self.unmap, fast: self.fast }
    }
}

/// A range in the array and on one member: first sectors, and count.
pub(crate) type Place = (ArraySector, MemberSector, u64);

/// See the [module](self).
pub(crate) trait Personality {
    /// The member that can do all of a read or write by itself, and the first sector there.
    fn alone(core: &Core, request: &Request) -> Option<(MemberId, MemberSector)>;

    /// The runs of a client's read. `None`: redundancy of the range must be made consistent first (R36).
    fn read(core: &Core, range: Range<ArraySector>) -> Option<Runs>;

    /// Reads a part in `slot` whose member is missing or does not hold it.
    fn read_elsewhere(core: &Rc<Core>, part: FailedPart, slot: usize);

    /// The member in `slot` could not read a part.
    fn correct(core: &Rc<Core>, part: FailedPart, slot: usize);

    /// Writes. Member requests that can go at once go to `send`.
    fn write(core: &Rc<Core>, request: &mut Request, send: &mut impl FnMut(MemberId, Request));

    /// Zeroes, and unmaps where it may.
    fn clear(core: &Rc<Core>, request: Request, zeroing: Zeroing);

    /// The slot and sector of a member that knows whether the first of these sectors are a hole, for how many it does, and where
    /// they lie in the sync space.
    fn extents(core: &Core, start_sector: ArraySector, sectors: u64) -> (usize, MemberSector, u64, Range<SyncSector>);

    /// The data of a place according to members other than the first of `slow`, if possible without any of these: piece by piece,
    /// each with its offset. `None`: they lack it.
    async fn read_from_others(core: &Core, slow: &[MemberId], place: Place) -> Option<SmallVec<[(u64, Buffer); 1]>>;

    /// The data of `rows` of a slot according to the others. The rows lie at `sync` in the sync space. The caller has their lock.
    async fn recover_rows(core: &Core, slot: usize, rows: &Range<MemberSector>, sync: &Range<SyncSector>) -> Option<Buffer>;

    /// What this lane owns of `rows` of a slot, in pieces for [`recover_rows`](Personality::recover_rows), with their places in
    /// the sync space.
    fn recoverable(core: &Core, slot: usize, rows: &Range<MemberSector>) -> Vec<(Range<MemberSector>, Range<SyncSector>)>;

    /// The first piece of array sectors that [`resync`](Personality::resync) takes at once: where it lies in the sync space, and
    /// its length.
    fn resync_piece(core: &Core, range: &Range<ArraySector>) -> (Range<SyncSector>, u64);

    /// Makes redundancy of a part of the sync space consistent.
    async fn resync(core: &Core, range: &Range<SyncSector>) -> Result<(), SweepFault>;

    /// One window of a sweep.
    async fn sweep(core: &Core, work: &Work<'_>, window: Range<SweepSector>) -> Result<Found, SweepFault>;
}
