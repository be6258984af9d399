//! Requests of a driver: their operations, checked against the disk, and the answers to the driver.
//!
//! Source: virtio 1.2, 5.2.6 (device operation); `struct virtio_blk_outhdr`, `struct virtio_blk_discard_write_zeroes` of
//! linux/virtio_blk.h.

use super::chain::{Chain, Map, Ranges};
use super::config::{DISCARD_SECTORS_MAX, Facts, REQUEST_BYTES_MAX, WRITE_ZEROES_SECTORS_MAX, ZERO_RANGES_MAX};
use smallvec::SmallVec;
use stria_block::{ErrorKind, IoError, SECTOR_BYTES};
use virtio_bindings::bindings::virtio_blk as blk;
use vm_memory::GuestAddress;

/// Header of every request: type u32, priority u32, sector u64, little-endian.
pub(super) const HEADER_BYTES: usize = 16;
/// A range to discard or zero: sector u64, sectors u32, flags u32, little-endian.
const RANGE_BYTES: usize = 16;
/// Flag of such a range: the space may be freed.
const UNMAP: u32 = 1;
/// Length of the answer to GET_ID.
const ID_BYTES: usize = 20;

/// The byte that ends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    Ok = blk::VIRTIO_BLK_S_OK as u8,
    IoError = blk::VIRTIO_BLK_S_IOERR as u8,
    Unsupported = blk::VIRTIO_BLK_S_UNSUPP as u8,
}

impl Status {
    pub fn of(result: &Result<(), IoError>) -> Self {
        match result.as_ref().map_err(|error| error.kind) {
            Ok(()) => Self::Ok,
            Err(ErrorKind::Unsupported) => Self::Unsupported,
            Err(
                ErrorKind::Medium
                | ErrorKind::Gone
                | ErrorKind::NoSpace
                | ErrorKind::Invalid
                | ErrorKind::Failed
                | ErrorKind::Other,
            ) => Self::IoError,
        }
    }
}

/// Sectors to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZeroRange {
    pub start_sector: u64,
    pub sectors: u64,
    pub unmap: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Read { start_sector: u64, bytes: usize },
    Write { start_sector: u64, bytes: usize },
    Flush,
    Zero(SmallVec<[ZeroRange; 1]>),
    Identify([u8; ID_BYTES]),
}

/// A request of a driver.
#[derive(Debug)]
pub(super) struct Command {
    /// A refusal is answered at once.
    pub work: Result<Work, Status>,
    /// The part behind the header.
    pub data: Ranges,
    /// The memory for the answer's bytes.
    pub answer: Ranges,
    /// The memory for its status.
    pub status: GuestAddress,
}

impl Command {
    /// `None`: the chain has no place for a status.
    pub fn of(chain: Chain, map: &Map, facts: &Facts) -> Option<Self> {
        let Chain { readable, writable: mut answer } = chain;
        let status = answer.pop()?;
        let work = examine(&readable, &answer, map, facts);
        Some(Self { work, data: readable, answer, status })
    }
}

fn examine(readable: &Ranges, answer: &Ranges, map: &Map, facts: &Facts) -> Result<Work, Status> {
    let mut header = [0; HEADER_BYTES];
    readable.read(map, 0, &mut header).map_err(|_| Status::IoError)?;
    let [t0, t1, t2, t3, _, _, _, _, sector @ ..] = header;
    let (kind, start_sector) = (u32::from_le_bytes([t0, t1, t2, t3]), u64::from_le_bytes(sector));
    let data_bytes = readable.len() - HEADER_BYTES;
    let writes = || if facts.read_only { Err(Status::IoError) } else { Ok(()) };
    match kind {
        blk::VIRTIO_BLK_T_IN => transfer(start_sector, answer.len(), facts).map(|bytes| Work::Read { start_sector, bytes }),
        blk::VIRTIO_BLK_T_OUT => {
            writes()?;
            transfer(start_sector, data_bytes, facts).map(|bytes| Work::Write { start_sector, bytes })
        }
        blk::VIRTIO_BLK_T_FLUSH => Ok(Work::Flush),
        blk::VIRTIO_BLK_T_DISCARD if facts.can_discard() => zero_ranges(readable, data_bytes, map, facts, true).map(Work::Zero),
        blk::VIRTIO_BLK_T_WRITE_ZEROES => {
            writes()?;
            zero_ranges(readable, data_bytes, map, facts, false).map(Work::Zero)
        }
        blk::VIRTIO_BLK_T_GET_ID if answer.len() >= ID_BYTES => {
            let mut id = [0; ID_BYTES];
            id.iter_mut().zip(facts.serial.bytes()).for_each(|(to, from)| *to = from);
            Ok(Work::Identify(id))
        }
        _ => Err(Status::Unsupported),
    }
}

fn transfer(start_sector: u64, bytes: usize, facts: &Facts) -> Result<usize, Status> {
    let has_valid_size = bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES) && bytes <= REQUEST_BYTES_MAX;
    match has_valid_size && is_within(start_sector, (bytes / SECTOR_BYTES) as u64, facts) {
        true => Ok(bytes),
        false => Err(Status::IoError),
    }
}

fn is_within(start_sector: u64, sectors: u64, facts: &Facts) -> bool {
    let block = facts.block_sectors();
    let end = start_sector.checked_add(sectors);
    end.is_some_and(|end| end <= facts.sectors()) && start_sector.is_multiple_of(block) && sectors.is_multiple_of(block)
}

fn zero_ranges(
    readable: &Ranges,
    bytes: usize,
    map: &Map,
    facts: &Facts,
    discards: bool,
) -> Result<SmallVec<[ZeroRange; 1]>, Status> {
    if bytes == 0 || !bytes.is_multiple_of(RANGE_BYTES) || bytes / RANGE_BYTES > ZERO_RANGES_MAX {
        return Err(Status::IoError);
    }
    let sectors_max = if discards { DISCARD_SECTORS_MAX } else { WRITE_ZEROES_SECTORS_MAX };
    let mut ranges = SmallVec::new();
    for index in 0..bytes / RANGE_BYTES {
        let mut range = [0; RANGE_BYTES];
        readable.read(map, HEADER_BYTES + index * RANGE_BYTES, &mut range).map_err(|_| Status::IoError)?;
        let [s0, s1, s2, s3, s4, s5, s6, s7, n0, n1, n2, n3, flags @ ..] = range;
        let start_sector = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let (sectors, flags) = (u32::from_le_bytes([n0, n1, n2, n3]), u32::from_le_bytes(flags));
        // Discards may not have the flag, and nothing another one.
        if flags & !UNMAP != 0 || (discards && flags != 0) {
            return Err(Status::Unsupported);
        }
        if sectors > sectors_max || !is_within(start_sector, u64::from(sectors), facts) {
            return Err(Status::IoError);
        }
        if sectors > 0 {
            ranges.push(ZeroRange { start_sector, sectors: u64::from(sectors), unmap: discards || flags & UNMAP != 0 });
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::Limits;
    use vm_memory::Bytes;

    fn facts(read_only: bool) -> Facts {
        let limits = Limits { logical_block_bytes: 4096, discard_granularity_bytes: 4096, ..Limits::plain(1024) };
        Facts { limits, read_only, serial: "a name of more than twenty bytes".into() }
    }

    /// A request with this header and data, and space for so many bytes and a status.
    fn command(facts: &Facts, kind: u32, sector: u64, data: &[u8], answer: u32) -> Result<Work, Status> {
        let map = Map::from_ranges(&[(GuestAddress(0), 64 << 20)]).expect("memory");
        let mut bytes = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes(), data].concat();
        bytes.truncate(1 << 20);
        map.write_slice(&bytes, GuestAddress(0x1000)).expect("memory");
        let descriptors = [(0x1000_u64, bytes.len() as u32, 1_u16, 1_u16), (0x20_0000, answer + 1, 2, 0)];
        for (index, (start, len, flags, next)) in descriptors.into_iter().enumerate() {
            let bytes = [&start.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
            map.write_slice(&bytes, GuestAddress(index as u64 * 16)).expect("memory");
        }
        let chain = Chain::read(&map, 0, 2, 0).expect("a chain");
        Command::of(chain, &map, facts).expect("it has a status").work
    }

    fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    }

    #[test]
    fn reads_and_writes_lie_on_the_disk_in_whole_blocks() {
        let facts = facts(false);
        assert_eq!(command(&facts, 0, 8, &[], 8192), Ok(Work::Read { start_sector: 8, bytes: 8192 }));
        assert_eq!(command(&facts, 1, 1016, &[7; 4096], 0), Ok(Work::Write { start_sector: 1016, bytes: 4096 }));
        for (sector, bytes) in [(8, 0), (8, 512), (9, 4096), (1016, 8192), (1024, 4096), (u64::MAX - 7, 4096), (!7, 8192)] {
            assert_eq!(command(&facts, 0, sector, &[], bytes), Err(Status::IoError), "{bytes} bytes at {sector}");
            assert_eq!(command(&facts, 1, sector, &vec![0; bytes as usize], 0), Err(Status::IoError));
        }
        assert_eq!(command(&facts, 0, 0, &[], 40 << 20), Err(Status::IoError), "more than was announced");
    }

    #[test]
    fn ranges_to_zero_are_bounded_and_their_flags_known() {
        let facts = facts(false);
        let zero = |start_sector, sectors, unmap| ZeroRange { start_sector, sectors, unmap };
        let several = [range(0, 8, 0), range(64, 0, 0), range(16, 960, 0)].concat();
        let expected = Work::Zero([zero(0, 8, true), zero(16, 960, true)].into_iter().collect());
        assert_eq!(command(&facts, 11, 0, &several, 0), Ok(expected));
        let expected = Work::Zero([zero(8, 8, true)].into_iter().collect());
        assert_eq!(command(&facts, 13, 0, &range(8, 8, 1), 0), Ok(expected));
        assert_eq!(command(&facts, 11, 0, &range(8, 8, 1), 0), Err(Status::Unsupported), "a discard with the flag of the other");
        assert_eq!(command(&facts, 13, 0, &range(8, 8, 2), 0), Err(Status::Unsupported));
        for odd in [
            range(8, 7, 0),
            range(1, 8, 0),
            range(1016, 16, 0),
            range(u64::MAX, 8, 0),
            range(0, u32::MAX, 0),
            vec![0; 15],
            vec![],
        ] {
            assert_eq!(command(&facts, 13, 0, &odd, 0), Err(Status::IoError), "{odd:?}");
        }
        assert_eq!(command(&facts, 13, 0, &range(0, 8, 0).repeat(17), 0), Err(Status::IoError), "more than were announced");
    }

    #[test]
    fn other_requests_and_those_that_a_read_only_disk_refuses() {
        let (facts, safe) = (facts(false), facts(true));
        assert_eq!(command(&facts, 8, 0, &[], 20), Ok(Work::Identify(*b"a name of more than ")));
        assert_eq!(command(&facts, 8, 0, &[], 19), Err(Status::Unsupported));
        assert_eq!(command(&safe, 4, 0, &[], 0), Ok(Work::Flush));
        assert_eq!(command(&safe, 1, 0, &[0; 4096], 0), Err(Status::IoError));
        assert_eq!(command(&safe, 13, 0, &range(0, 8, 0), 0), Err(Status::IoError));
        assert_eq!(command(&safe, 11, 0, &range(0, 8, 0), 0), Err(Status::Unsupported));
        for kind in [2, 3, 14, 16, u32::MAX] {
            assert_eq!(command(&facts, kind, 0, &[], 512), Err(Status::Unsupported), "type {kind}");
        }
    }
}
