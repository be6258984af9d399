//! The requests to members that a request to an array causes, step by step: a step begins when the one before has ended.

use super::layout::{Layout, Piece};
use crate::model::{Ask, Kind};

/// A member, and the request to it; the tag is not used.
pub type MemberAsk = (usize, Ask);

/// The steps of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The reads before the writes, if any.
    pub reads: Vec<MemberAsk>,
    /// The writes; of a read, its reads.
    pub last: Vec<MemberAsk>,
}

fn ask(kind: Kind, start_sector: u64, sectors: u64) -> Ask {
    Ask { tag: 0, kind, start_sector, sectors }
}

/// A read. `choose` picks one of the copies that begin at a member, for the sector.
pub fn read(layout: &Layout, request: &Ask, mut choose: impl FnMut(usize, usize, u64) -> usize) -> Steps {
    let mut last: Vec<MemberAsk> = Vec::new();
    for piece in layout.pieces(request.start_sector, request.sectors) {
        let sector = layout.member_sector(piece.stripe) + piece.offset_sectors;
        let first = layout.data_member(piece.stripe, piece.column);
        let member = choose(first, layout.copies(), sector);
        push(&mut last, member, ask(Kind::Read, sector, piece.sectors));
    }
    Steps { reads: Vec::new(), last }
}

/// A write or a trim: of whole stripes at once, of parts by read-modify-write where that reads less, else by reconstruct-write.
pub fn write(layout: &Layout, request: &Ask) -> Steps {
    let mut steps = Steps::default();
    let pieces: Vec<Piece> = layout.pieces(request.start_sector, request.sectors).collect();
    for stripe in pieces.chunk_by(|a, b| a.stripe == b.stripe) {
        let base = layout.member_sector(stripe[0].stripe);
        for piece in stripe {
            let first = layout.data_member(piece.stripe, piece.column);
            for member in first..first + layout.copies() {
                push(&mut steps.last, member, ask(request.kind, base + piece.offset_sectors, piece.sectors));
            }
        }
        if layout.level.parities() > 0 && request.kind != Kind::Trim {
            with_parity(layout, request.kind, stripe, base, &mut steps);
        }
    }
    steps
}

/// The number of requests to members that a read or a write takes.
pub fn count(layout: &Layout, request: &Ask) -> usize {
    let reads = request.kind == Kind::Read;
    // Most requests lie within one strip: their number is known without a list of them.
    if request.start_sector % layout.strip_sectors + request.sectors <= layout.strip_sectors {
        return if reads { 1 } else { count_in_strip(layout, request.sectors == layout.strip_sectors) };
    }
    let steps = if reads { read(layout, request, |first, _, _| first) } else { write(layout, request) };
    steps.reads.len() + steps.last.len()
}

/// The same of a write within one strip. `whole`: it covers the strip.
fn count_in_strip(layout: &Layout, whole: bool) -> usize {
    let (columns, parities) = (layout.columns(), layout.level.parities());
    let reads = if parities == 0 || (whole && columns == 1) { 0 } else { (columns - 1).min(1 + parities) };
    reads + layout.copies() + parities
}

fn with_parity(layout: &Layout, kind: Kind, stripe: &[Piece], base: u64, steps: &mut Steps) {
    let number = stripe[0].stripe;
    let from = stripe.iter().map(|piece| piece.offset_sectors).min().unwrap_or(0);
    let to = stripe.iter().map(|piece| piece.offset_sectors + piece.sectors).max().unwrap_or(0);
    let parities = (0..layout.level.parities()).map(|parity| layout.parity_member(number, parity));
    let whole = stripe.len() == layout.columns() && stripe.iter().all(|piece| piece.sectors == layout.strip_sectors);
    if !whole {
        let untouched: Vec<usize> = (0..layout.columns()).filter(|column| stripe.iter().all(|p| p.column != *column)).collect();
        let same = stripe.iter().all(|piece| piece.offset_sectors == from && piece.offset_sectors + piece.sectors == to);
        if same && untouched.len() <= stripe.len() + layout.level.parities() {
            for column in untouched {
                push(&mut steps.reads, layout.data_member(number, column), ask(Kind::Read, base + from, to - from));
            }
        } else {
            for piece in stripe {
                let member = layout.data_member(number, piece.column);
                push(&mut steps.reads, member, ask(Kind::Read, base + piece.offset_sectors, piece.sectors));
            }
            parities.clone().for_each(|member| push(&mut steps.reads, member, ask(Kind::Read, base + from, to - from)));
        }
    }
    parities.for_each(|member| push(&mut steps.last, member, ask(kind, base + from, to - from)));
}

/// Adds a request, as part of the member's last one where it continues that.
fn push(asks: &mut Vec<MemberAsk>, member: usize, ask: Ask) {
    if let Some((_, last)) = asks.iter_mut().rev().find(|(at, _)| *at == member)
        && last.kind == ask.kind
        && last.end_sector() == ask.start_sector
    {
        last.sectors += ask.sectors;
        return;
    }
    asks.push((member, ask));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Level;

    fn layout(level: Level, members: usize) -> Layout {
        Layout { level, members, strip_sectors: 32, member_sectors: 32 * 100 }
    }

    /// Reads and writes of members for a write of `sectors` at the start of the array.
    fn counts(level: Level, members: usize, sectors: u64) -> (usize, usize) {
        let steps = write(&layout(level, members), &ask(Kind::Write { fua: false }, 0, sectors));
        (steps.reads.len(), steps.last.len())
    }

    #[test]
    fn small_writes_cost_what_the_level_says() {
        assert_eq!(counts(Level::Raid0, 4, 8), (0, 1));
        assert_eq!(counts(Level::Raid10, 4, 8), (0, 2));
        assert_eq!(counts(Level::Raid5 { spans: 1 }, 6, 8), (2, 2));
        assert_eq!(counts(Level::Raid6 { spans: 1 }, 8, 8), (3, 3));
        // Of three members the other data strip alone is read: reconstruct-write.
        assert_eq!(counts(Level::Raid5 { spans: 1 }, 3, 8), (1, 2));
    }

    #[test]
    fn whole_stripes_are_written_without_reading() {
        assert_eq!(counts(Level::Raid5 { spans: 1 }, 4, 96), (0, 4));
        assert_eq!(counts(Level::Raid6 { spans: 1 }, 6, 128), (0, 6));
    }

    #[test]
    fn the_number_of_requests_is_that_of_the_steps() {
        let levels = [
            (Level::Raid0, 3),
            (Level::Raid1, 3),
            (Level::Raid10, 4),
            (Level::Raid4, 4),
            (Level::Raid5 { spans: 1 }, 2),
            (Level::Raid5 { spans: 1 }, 3),
            (Level::Raid5 { spans: 1 }, 6),
            (Level::Raid5 { spans: 2 }, 8),
            (Level::Raid6 { spans: 1 }, 4),
            (Level::Raid6 { spans: 1 }, 8),
            (Level::Raid6 { spans: 2 }, 10),
        ];
        for (level, members) in levels {
            let layout = layout(level, members);
            for (start, sectors) in [(0, 8), (8, 24), (0, 32), (32, 32), (30, 2), (30, 3), (0, 64), (5, 200), (96, 320)] {
                for kind in [Kind::Read, Kind::Write { fua: false }] {
                    let request = ask(kind, start, sectors);
                    let steps = match kind {
                        Kind::Read => read(&layout, &request, |first, _, _| first),
                        _ => write(&layout, &request),
                    };
                    let expected = steps.reads.len() + steps.last.len();
                    assert_eq!(count(&layout, &request), expected, "{level} of {members}: {request:?}");
                }
            }
        }
    }

    #[test]
    fn neighbouring_strips_of_a_member_become_one_request() {
        let steps = read(&layout(Level::Raid0, 2), &ask(Kind::Read, 0, 128), |first, _, _| first);
        assert_eq!(steps.last, [(0, ask(Kind::Read, 0, 64)), (1, ask(Kind::Read, 0, 64))]);
    }
}
