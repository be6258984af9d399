//! A client's read of several members, or of one that cannot give all of it.

use crate::core::{Core, FailedPart};
use crate::member_requests::MemberIo;
use crate::of_level::of_level;
use crate::personality::{Personality, Run, Runs, Source};
use crate::plan::Presence;
use crate::segments::Cutter;
use crate::{ArraySector, MemberId, MemberSector, hedge};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{Buffer, ErrorKind, IoError, Operation, Request, Segments, bytes};

/// Performs a client's read that has been split.
pub(crate) fn read(core: &Rc<Core>, mut request: Request, runs: Runs) {
    let parent = core.begin(&mut request, runs.len());
    let array_start = ArraySector::new(request.start_sector);
    let Operation::Read { into } = request.operation else { unreachable!("this is a read") };
    // A single run takes the memory as it is. Several take theirs piece by piece, in the order of the request.
    let memories: SmallVec<[Segments<Buffer>; 8]> =
        if runs.len() == 1 { std::iter::once(into).collect() } else { deal(into, &runs) };
    for ((run, source), into) in runs.into_iter().zip(memories) {
        match source {
            Source::Member(member) => {
                let io = MemberIo {
                    member,
                    start_sector: run.start_sector,
                    sectors: run.sectors,
                    operation: Operation::Read { into },
                };
                core.send_part(parent, run.pieces, io);
            }
            Source::OthersFirst(member) => read_elsewhere(core, parent, array_start, run, into, Some(member)),
            Source::Others => read_elsewhere(core, parent, array_start, run, into, None),
        }
    }
}

/// Reads a run whose member is missing, cannot read it, or is unresponsive (`slow`).
fn read_elsewhere(
    core: &Rc<Core>,
    parent: usize,
    array_start: ArraySector,
    run: Run,
    into: Segments<Buffer>,
    slow: Option<MemberId>,
) {
    let mut memory = Cutter::new(into);
    let mut start_sector = run.start_sector;
    core.requests.more_parts(parent, run.pieces.len() - 1);
    for (offset_sectors, sectors) in run.pieces {
        let part = FailedPart {
            parent,
            offset_sectors,
            array_sector: array_start + offset_sectors,
            member: slow,
            start_sector,
            sectors,
            into: memory.take(bytes(sectors)),
            error: IoError::new(ErrorKind::Failed, reason(core, run.slot, &start_sector.run(sectors))),
        };
        start_sector += sectors;
        match slow {
            Some(member) => core.ready.spawn(hedge::ask_others_first(Rc::clone(core), part, member)),
            None => of_level!(core, P => P::read_elsewhere(core, part, run.slot)),
        }
    }
}

/// Why the member of a slot is not asked for these rows.
fn reason(core: &Core, slot: usize, rows: &Range<MemberSector>) -> String {
    let members = core.members.borrow();
    let Some(member) = members.slots()[slot].member else { return format!("the member in slot {slot} is missing") };
    let member = members.get(member);
    let name = &member.config.name;
    if member.has_bad(rows) {
        format!("these sectors of {name} are bad blocks")
    } else if members.presence(slot, rows) == Presence::WriteOnly {
        format!("{name} is not rebuilt up to here")
    } else if core.log.is_not_in_place(slot, rows) {
        format!("{name} does not hold the last write to these sectors yet")
    } else {
        format!("{name} is unresponsive")
    }
}

/// Deals the memory of a request out to its runs, in the order of the request.
fn deal(into: Segments<Buffer>, runs: &[(Run, Source)]) -> SmallVec<[Segments<Buffer>; 8]> {
    let mut order: SmallVec<[(u64, u64, usize); 16]> = SmallVec::new();
    for (index, (run, _)) in runs.iter().enumerate() {
        order.extend(run.pieces.iter().map(|&(offset, sectors)| (offset, sectors, index)));
    }
    order.sort_unstable();
    let mut memory = Cutter::new(into);
    let mut memories: SmallVec<[Segments<Buffer>; 8]> = runs.iter().map(|_| Segments::new()).collect();
    for (_, sectors, index) in order {
        memories[index].extend(memory.take(bytes(sectors)));
    }
    memories
}
