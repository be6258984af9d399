//! Large transfers as several smaller ones, each no larger than the device takes at once.
//!
//! io_uring submits without waiting, and the block layer refuses to split a request that may not wait: larger transfers would
//! go to a worker thread of the kernel, one after the other. Parts run at the same time, and end as one.

use smallvec::SmallVec;
use stria_block::{Buffer, Completion, Data, IoError, Operation, Request, SECTOR_BYTES, Segments, Tag};

/// The position of a part: the index of its transfer, and its index there.
pub(crate) type PartOf = (u32, u32);

/// The transfers of one drive that were cut.
#[derive(Default)]
pub(crate) struct CutTransfers {
    open: Vec<Option<CutTransfer>>,
}

struct CutTransfer {
    tag: Tag,
    /// A write's own operation; a read's is reassembled from its parts.
    operation: Operation,
    /// Lengths of a read's segments as they arrived.
    segment_lens: SmallVec<[usize; 4]>,
    parts: Vec<Segments<Buffer>>,
    open_count: usize,
    result: Result<(), IoError>,
}

impl CutTransfers {
    /// Cuts a read or write into parts of at most `len_max` bytes. [`CutTransfers::end`] must be called for each of them.
    pub(crate) fn cut(&mut self, mut request: Request, len_max: usize) -> Vec<(Request, PartOf)> {
        let index = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        let sectors_max = (len_max / SECTOR_BYTES) as u64;
        let mut segment_lens = SmallVec::new();
        let mut pieces: Vec<(u64, Operation)> = Vec::new();
        let mut left = request.sectors;
        let mut each = |operation: &mut dyn FnMut(usize) -> Operation| {
            while left > 0 {
                let sectors = left.min(sectors_max);
                pieces.push((sectors, operation(stria_block::bytes(sectors))));
                left -= sectors;
            }
        };
        match &mut request.operation {
            Operation::Read { into } => {
                segment_lens.extend(into.iter().map(|buffer| buffer.len()));
                let mut rest = std::mem::take(into).into_iter().peekable();
                each(&mut |len| Operation::Read { into: take_buffers(&mut rest, len) });
            }
            Operation::Write { from, fua } => {
                let mut skip = 0;
                each(&mut |len| {
                    skip += len;
                    Operation::Write { from: slice_data(from, skip - len, len), fua: *fua }
                });
            }
            _ => unreachable!("only transfers are cut"),
        }
        let parts = pieces.iter().map(|_| Segments::new()).collect();
        let (tag, operation, open_count) = (request.tag, request.operation, pieces.len());
        self.open[index] = Some(CutTransfer { tag, operation, segment_lens, parts, open_count, result: Ok(()) });
        let mut start_sector = request.start_sector;
        let piece = |(part, (sectors, operation)): (usize, (u64, Operation))| {
            let request = Request { tag: 0, start_sector, sectors, operation };
            start_sector += sectors;
            (request, (index as u32, part as u32))
        };
        pieces.into_iter().enumerate().map(piece).collect()
    }

    /// A part has ended. Returns the completion of the transfer if it was the last. The first error of any part is the
    /// transfer's.
    pub(crate) fn end(&mut self, (index, part): PartOf, ended: Operation, result: Result<(), IoError>) -> Option<Completion> {
        let entry = &mut self.open[index as usize];
        let transfer = entry.as_mut().expect("it ends with its last part");
        if let Operation::Read { into } = ended {
            transfer.parts[part as usize] = into;
        }
        if transfer.result.is_ok() {
            transfer.result = result;
        }
        transfer.open_count -= 1;
        if transfer.open_count > 0 {
            return None;
        }
        let CutTransfer { tag, mut operation, segment_lens, parts, result, .. } = entry.take().expect("it was just there");
        if let Operation::Read { into } = &mut operation {
            let mut parts = parts.into_iter().flatten();
            for len in segment_lens {
                let mut buffer = parts.next().expect("every part came back");
                while buffer.len() < len {
                    buffer.unite(parts.next().expect("every part came back")).expect("parts are in order");
                }
                into.push(buffer);
            }
        }
        Some(Completion { tag, result, operation })
    }
}

fn take_buffers(rest: &mut std::iter::Peekable<impl Iterator<Item = Buffer>>, mut len: usize) -> Segments<Buffer> {
    let mut taken = Segments::new();
    while len > 0 {
        let next = rest.peek_mut().expect("segments add up to the range");
        let part = len.min(next.len());
        len -= part;
        if part == next.len() {
            taken.extend(rest.next());
        } else {
            taken.push(next.split_to(part));
        }
    }
    taken
}

fn slice_data(from: &[Data], mut skip: usize, mut len: usize) -> Segments<Data> {
    let mut taken = Segments::new();
    for data in from {
        let (start, end) = (skip.min(data.len()), (skip + len).min(data.len()));
        skip -= start;
        if start < end {
            taken.push(data.slice(start, end - start));
            len -= end - start;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::ErrorKind;

    const LENS: [usize; 5] = [512, 8192, 4096, 512, 3072];

    fn request(operation: Operation) -> Request {
        Request { tag: 7, start_sector: 100, sectors: (LENS.iter().sum::<usize>() / 512) as u64, operation }
    }

    /// Segments that follow each other in one allocation must come back as the segments that they were.
    #[test]
    fn read_comes_back_in_the_segments_that_it_had() {
        for len_max in [512, 4096, 5120, 16384] {
            let mut transfers = CutTransfers::default();
            let mut whole = Buffer::zeroed(LENS.iter().sum());
            let into: Segments<Buffer> = LENS.iter().map(|&len| whole.split_to(len)).collect();
            let mut parts = transfers.cut(request(Operation::Read { into }), len_max);
            let mut at = 100;
            for (part, _) in &mut parts {
                let Operation::Read { into } = &mut part.operation else { panic!("a part of a read reads") };
                assert_eq!((part.start_sector, into.iter().map(|b| b.len()).sum::<usize>()), (at, part.sectors as usize * 512));
                assert!(part.sectors as usize * 512 <= len_max);
                for sector in into.iter_mut().flat_map(|buffer| buffer.chunks_mut(512)) {
                    sector.fill(at as u8);
                    at += 1;
                }
            }
            parts.reverse();
            let mut ends = parts.into_iter().filter_map(|(part, of)| transfers.end(of, part.operation, Ok(())));
            let end = ends.next().expect("the last part ends the whole");
            let Operation::Read { into } = end.operation else { panic!("a read comes back") };
            assert_eq!((end.tag, end.result.is_ok()), (7, true));
            assert_eq!(into.iter().map(|buffer| buffer.len()).collect::<Vec<_>>(), LENS);
            let sectors = into.iter().flat_map(|buffer| buffer.chunks(512));
            assert!(sectors.enumerate().all(|(index, sector)| sector.iter().all(|&byte| usize::from(byte) == 100 + index)));
        }
    }

    #[test]
    fn write_is_cut_without_a_copy_and_fails_with_any_part() {
        let mut transfers = CutTransfers::default();
        let bytes: Vec<u8> = (0..LENS.iter().sum()).map(|index: usize| (index / 512) as u8).collect();
        let whole = Buffer::copy_of(&bytes).freeze();
        let mut at = 0;
        let cut = |&len: &usize| {
            at += len;
            whole.slice(at - len, len)
        };
        let parts = transfers.cut(request(Operation::Write { from: LENS.iter().map(cut).collect(), fua: true }), 4096);
        let mut ends = Vec::new();
        let mut seen = Vec::new();
        for (index, (part, of)) in parts.into_iter().enumerate() {
            let Operation::Write { from, fua: true } = &part.operation else { panic!("a part keeps FUA") };
            seen.extend(from.iter().flat_map(|data| data.iter().copied()));
            assert!(whole.as_ptr_range().contains(&from[0].as_ptr()));
            let result = if index == 1 { Err(IoError::new(ErrorKind::Medium, "bad".to_owned())) } else { Ok(()) };
            ends.extend(transfers.end(of, part.operation, result));
        }
        assert!(seen == bytes && ends.len() == 1);
        assert_eq!(ends[0].result.as_ref().unwrap_err().kind, ErrorKind::Medium);
        assert!(matches!(&ends[0].operation, Operation::Write { from, .. } if from.len() == LENS.len()));
    }
}
