//! From a range of the array to ranges of members.
//!
//! A stripe is one strip of every member of a span. Parity wanders one member to the left with each stripe, and data begin
//! right of it (left-symmetric, the default of md and of LSI's controllers). Stripes go round the spans.

use super::Level;

/// A part of one strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The stripe of the array.
    pub stripe: u64,
    /// The data strip of the stripe.
    pub column: usize,
    /// First sector within the strip.
    pub offset_sectors: u64,
    /// Count of sectors.
    pub sectors: u64,
}

/// An array's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The level.
    pub level: Level,
    /// Members.
    pub members: usize,
    /// Size of a strip.
    pub strip_sectors: u64,
    /// Sectors of each member.
    pub member_sectors: u64,
}

impl Layout {
    /// Copies of every strip.
    pub fn copies(&self) -> usize {
        self.level.copies(self.members)
    }

    /// Data strips of a stripe.
    pub fn columns(&self) -> usize {
        self.level.data_members(self.members) / self.level.spans()
    }

    /// Size of the array.
    pub fn size_sectors(&self) -> u64 {
        self.stripes() * self.columns() as u64 * self.strip_sectors
    }

    fn stripes(&self) -> u64 {
        self.member_sectors / self.strip_sectors * self.level.spans() as u64
    }

    /// The pieces of a range, in its order.
    pub fn pieces(&self, start_sector: u64, sectors: u64) -> impl Iterator<Item = Piece> + '_ {
        let end = start_sector + sectors;
        let columns = self.columns() as u64;
        (start_sector / self.strip_sectors..end.div_ceil(self.strip_sectors)).map(move |strip| {
            let from = start_sector.max(strip * self.strip_sectors);
            let to = end.min((strip + 1) * self.strip_sectors);
            Piece {
                stripe: strip / columns,
                column: (strip % columns) as usize,
                offset_sectors: from - strip * self.strip_sectors,
                sectors: to - from,
            }
        })
    }

    /// The member's sector at which a stripe begins, the same on every member of its span.
    pub fn member_sector(&self, stripe: u64) -> u64 {
        stripe / self.level.spans() as u64 * self.strip_sectors
    }

    /// The member of a data strip; with copies the first of them, and the others follow it.
    pub fn data_member(&self, stripe: u64, column: usize) -> usize {
        let (first, members, row) = self.span_of(stripe);
        match self.level.parities() {
            0 => first + column * self.copies(),
            parities => first + (self.parity_start(members, row) + parities + column) % members,
        }
    }

    /// The member of a parity strip.
    pub fn parity_member(&self, stripe: u64, parity: usize) -> usize {
        let (first, members, row) = self.span_of(stripe);
        first + (self.parity_start(members, row) + parity) % members
    }

    fn parity_start(&self, members: usize, row: u64) -> usize {
        match self.level {
            Level::Raid4 => members - 1,
            _ => members - 1 - (row % members as u64) as usize,
        }
    }

    /// The first member of a stripe's span, their count, and the stripe's row.
    fn span_of(&self, stripe: u64) -> (usize, usize, u64) {
        let spans = self.level.spans() as u64;
        let members = self.members / spans as usize;
        ((stripe % spans) as usize * members, members, stripe / spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const LEVELS: [(Level, usize); 13] = [
        (Level::Single, 1),
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid10, 6),
        (Level::Raid10, 2),
        (Level::Raid4, 4),
        (Level::Raid5 { spans: 1 }, 2),
        (Level::Raid5 { spans: 1 }, 4),
        (Level::Raid5 { spans: 2 }, 8),
        (Level::Raid6 { spans: 1 }, 5),
        (Level::Raid6 { spans: 2 }, 10),
        (Level::Raid5 { spans: 4 }, 12),
    ];

    /// Every sector of every member holds one thing: data of one place, a copy, or a parity.
    #[test]
    fn every_member_sector_has_one_role() {
        for (level, members) in LEVELS {
            let layout = Layout { level, members, strip_sectors: 4, member_sectors: 4 * 60 };
            let mut seen = HashSet::new();
            for piece in layout.pieces(0, layout.size_sectors()) {
                for copy in 0..layout.copies() {
                    assert!(
                        seen.insert((layout.data_member(piece.stripe, piece.column) + copy, layout.member_sector(piece.stripe)))
                    );
                }
            }
            for stripe in 0..layout.stripes() {
                for parity in 0..level.parities() {
                    assert!(seen.insert((layout.parity_member(stripe, parity), layout.member_sector(stripe))));
                }
            }
            assert_eq!(seen.len(), members * 60, "{level}");
        }
    }

    #[test]
    fn pieces_add_up_to_the_range() {
        let layout = Layout { level: Level::Raid5 { spans: 1 }, members: 4, strip_sectors: 32, member_sectors: 3200 };
        for (start, sectors) in [(0, 1), (31, 2), (5, 200), (96, 96)] {
            assert_eq!(layout.pieces(start, sectors).map(|piece| piece.sectors).sum::<u64>(), sectors);
        }
    }

    #[test]
    fn counts_that_make_no_array_are_refused() {
        assert_eq!(
            Level::Raid5 { spans: 2 }.refusal(7).as_deref(),
            Some("RAID 50 of 2 spans takes a multiple of 2 members, not 7")
        );
        assert_eq!(Level::Raid6 { spans: 1 }.refusal(3).as_deref(), Some("RAID 6 takes 4 to 255 members, not 3"));
        assert!(LEVELS.iter().all(|(level, members)| level.model_refusal(*members).is_none()));
    }
}
