//! The operation of a request, or the reason for its refusal. A pure function of the request's header: no data is read.

use crate::budget::CHARGE_BYTES_MIN;
use crate::export::Facts;
use crate::session::extents;
use crate::wire::{Errno, RequestHeader, command, command_flag};
use std::ops::Range;
use stria_block::Pool;

/// The operation of a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Success without the device: a length of zero.
    Nothing,
    Read,
    Write {
        fua: bool,
    },
    Flush,
    WriteZeroes {
        fua: bool,
        unmap: bool,
        fast: bool,
    },
    Status {
        one: bool,
    },
    Disconnect,
}

impl Work {
    /// The memory that the request holds while it is in flight.
    pub fn charge_bytes(self, header: &RequestHeader, facts: &Facts) -> usize {
        match self {
            Work::Read => {
                let blocks = blocks(header, facts);
                Pool::held_bytes((blocks.end - blocks.start) as usize)
            }
            Work::Write { .. } => Pool::held_bytes(header.length_bytes as usize),
            Work::Status { .. } => extents::REPLY_BYTES_MAX,
            Work::Nothing | Work::Flush | Work::WriteZeroes { .. } | Work::Disconnect => CHARGE_BYTES_MIN,
        }
    }
}

/// The whole blocks, as bytes, that a valid request touches. Only a read may begin or end inside a block: clients that ask for no
/// block size may read by bytes.
pub fn blocks(header: &RequestHeader, facts: &Facts) -> Range<u64> {
    let mask = u64::from(facts.block_min_bytes) - 1;
    let end = header.offset_bytes + u64::from(header.length_bytes);
    header.offset_bytes & !mask..(end + mask) & !mask
}

/// The reason for a refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub errno: Errno,
    pub message: &'static str,
}

/// Checks a request by its header.
///
/// # Errors
/// The error value that the protocol names for the case, and a sentence for the client's user.
pub fn examine(header: &RequestHeader, facts: &Facts, structured: bool, allocation: bool) -> Result<Work, Refusal> {
    use command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
    let refuse = |errno, message| Err(Refusal { errno, message });
    let has = |flag: u16| header.flags & flag != 0;
    let fua = has(FUA);
    let (work, flags_known) = match header.command {
        command::READ => (Work::Read, if structured { DF } else { 0 }),
        command::WRITE => (Work::Write { fua }, 0),
        command::DISC => return Ok(Work::Disconnect),
        command::FLUSH => (Work::Flush, 0),
        command::TRIM if facts.can_trim || facts.read_only => (Work::WriteZeroes { fua, unmap: true, fast: false }, 0),
        command::TRIM => return refuse(Errno::Invalid, "this export cannot trim"),
        command::WRITE_ZEROES => (Work::WriteZeroes { fua, unmap: !has(NO_HOLE), fast: has(FAST_ZERO) }, NO_HOLE | FAST_ZERO),
        command::BLOCK_STATUS if allocation => (Work::Status { one: has(REQ_ONE) }, REQ_ONE),
        command::BLOCK_STATUS => return refuse(Errno::Invalid, "block status without a context agreed on"),
        _ => return refuse(Errno::Invalid, "unknown command"),
    };
    // FUA is valid with every command.
    if header.flags & !(flags_known | FUA) != 0 {
        return refuse(Errno::Invalid, "unknown flag for this command");
    }
    let writes = matches!(work, Work::Write { .. } | Work::WriteZeroes { .. });
    if facts.read_only && writes {
        return refuse(Errno::Perm, "the export is read-only");
    }
    let (offset, length) = (header.offset_bytes, u64::from(header.length_bytes));
    if work == Work::Flush {
        let plain = (offset, length) == (0, 0);
        return if plain { Ok(work) } else { refuse(Errno::Invalid, "a flush with an offset or a length") };
    }
    if offset.checked_add(length).is_none_or(|end| end > facts.size_bytes) {
        let errno = match header.command {
            command::WRITE | command::WRITE_ZEROES => Errno::NoSpace,
            _ => Errno::Invalid,
        };
        return refuse(errno, "the request reaches beyond the end of the export");
    }
    let blocks = blocks(header, facts);
    if work != Work::Read && blocks != (offset..offset + length) {
        return refuse(Errno::Invalid, "the request is not aligned to the minimum block size of the export");
    }
    if blocks.end - blocks.start > u64::from(facts.payload_bytes_max) {
        match work {
            Work::Read if structured => return refuse(Errno::Overflow, "the read is larger than the largest payload"),
            Work::Read | Work::Write { .. } => {
                return refuse(Errno::Invalid, "the request is larger than the largest payload");
            }
            _ => {}
        }
    }
    match (length, work) {
        (0, Work::Status { .. }) => refuse(Errno::Invalid, "block status of nothing"),
        (0, _) => Ok(Work::Nothing),
        _ => Ok(work),
    }
}
