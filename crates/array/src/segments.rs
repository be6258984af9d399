//! Cutting the memory of requests.

use smallvec::smallvec;
use std::collections::VecDeque;
use stria_block::{Buffer, Data, SECTOR_BYTES, Segments};

/// Cuts segments into consecutive pieces.
pub(crate) struct Cutter<T>(VecDeque<T>);

impl Cutter<Buffer> {
    pub fn new(segments: Segments<Buffer>) -> Self {
        Self(segments.into_iter().collect())
    }

    /// The next `len` bytes.
    pub fn take(&mut self, mut len: usize) -> Segments<Buffer> {
        let mut piece = Segments::new();
        while len > 0 {
            let first = self.0.front_mut().expect("the request has memory for its range");
            let take = len.min(first.len());
            if take == first.len() {
                piece.extend(self.0.pop_front());
            } else {
                piece.push(first.split_to(take));
            }
            len -= take;
        }
        piece
    }
}

/// Cuts data segments into consecutive pieces.
pub(crate) struct DataCutter<'a> {
    rest: &'a [Data],
    /// Bytes of the first of them that were cut off before.
    taken: usize,
}

impl<'a> DataCutter<'a> {
    pub fn new(segments: &'a [Data]) -> Self {
        Self { rest: segments, taken: 0 }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, mut len: usize) -> Segments<Data> {
        let mut piece = Segments::new();
        while len > 0 {
            let (first, rest) = self.rest.split_first().expect("the request has data for its range");
            let take = len.min(first.len() - self.taken);
            piece.push(first.slice(self.taken, take));
            (len, self.taken) = (len - take, self.taken + take);
            if self.taken == first.len() {
                (self.rest, self.taken) = (rest, 0);
            }
        }
        piece
    }
}

/// `len` bytes of data segments from `from` on.
pub(crate) fn slice_segments<'a>(
    segments: impl IntoIterator<Item = &'a Data>,
    mut from: usize,
    mut len: usize,
) -> Segments<Data> {
    let mut piece = Segments::new();
    for segment in segments {
        if from >= segment.len() {
            from -= segment.len();
            continue;
        }
        let take = len.min(segment.len() - from);
        piece.push(segment.slice(from, take));
        (from, len) = (0, len - take);
        if len == 0 {
            break;
        }
    }
    piece
}

/// The length of segments, in sectors, which each of them need not be.
pub(crate) fn sectors_of(segments: &[Data]) -> u64 {
    (segments.iter().map(|data| data.len()).sum::<usize>() / SECTOR_BYTES) as u64
}

/// The same segments for one more member. Most requests have one segment, so that case avoids a general copy.
pub(crate) fn shared(segments: &Segments<Data>) -> Segments<Data> {
    match &segments[..] {
        [one] => smallvec![one.clone()],
        _ => segments.clone(),
    }
}

/// Segments of whole sectors, as parity needs them. If the end of one lies within a sector, all are copied into one.
pub(crate) fn of_sectors(from: Segments<Data>) -> Segments<Data> {
    match from.iter().all(|data| data.len().is_multiple_of(SECTOR_BYTES)) {
        true => from,
        false => smallvec![one_piece(from)],
    }
}

/// Segments in one piece of memory: copied where they are several.
pub(crate) fn one_piece(mut from: Segments<Data>) -> Data {
    if from.len() == 1 {
        return from.remove(0);
    }
    let mut whole = Buffer::zeroed(from.iter().map(|data| data.len()).sum());
    let mut rest = &mut whole[..];
    for data in from {
        let (front, back) = rest.split_at_mut(data.len());
        front.copy_from_slice(&data);
        rest = back;
    }
    whole.freeze()
}
