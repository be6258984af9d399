//! A level by what it keeps: copies, parities, spans.

use crate::calibration::Redundancy;
use std::fmt;

/// A level. JBOD is drives of their own: ask each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One drive.
    Single,
    /// Strips over all members.
    Raid0,
    /// The same on both members.
    Raid1,
    /// Strips over pairs.
    Raid10,
    /// One parity for each stripe, over as many spans; RAID 5 has one, RAID 50 several.
    Raid5 {
        /// Spans.
        spans: usize,
    },
    /// Two parities: RAID 6 and 60.
    Raid6 {
        /// Spans.
        spans: usize,
    },
}

impl Level {
    /// Copies of every strip.
    pub fn copies(self) -> usize {
        match self {
            Self::Raid1 | Self::Raid10 => 2,
            Self::Single | Self::Raid0 | Self::Raid5 { .. } | Self::Raid6 { .. } => 1,
        }
    }

    /// Parity strips of every stripe.
    pub fn parities(self) -> usize {
        match self {
            Self::Single | Self::Raid0 | Self::Raid1 | Self::Raid10 => 0,
            Self::Raid5 { .. } => 1,
            Self::Raid6 { .. } => 2,
        }
    }

    /// The same as a kind of level.
    pub fn redundancy(self) -> Redundancy {
        match (self.copies(), self.parities()) {
            (1, 0) => Redundancy::None,
            (_, 0) => Redundancy::Copies,
            _ => Redundancy::Parity,
        }
    }

    /// Spans, each with stripes of its own.
    pub fn spans(self) -> usize {
        match self {
            Self::Single | Self::Raid0 | Self::Raid1 | Self::Raid10 => 1,
            Self::Raid5 { spans } | Self::Raid6 { spans } => spans,
        }
    }

    /// Members that hold data and not redundancy.
    pub fn data_members(self, members: usize) -> usize {
        (members - self.spans() * self.parities()) / self.copies()
    }

    /// The reason why there is no array of so many members, if there is none.
    pub fn refusal(self, members: usize) -> Option<String> {
        let (least, multiple) = match self {
            Self::Single => (1, 1),
            Self::Raid0 => (1, 1),
            Self::Raid1 => (2, 2),
            Self::Raid10 => (4, 2),
            Self::Raid5 { spans } => (3 * spans, spans.max(1)),
            Self::Raid6 { spans } => (4 * spans, spans.max(1)),
        };
        let most = match self {
            Self::Single => 1,
            Self::Raid1 => 2,
            _ => usize::MAX,
        };
        if self.spans() == 0 {
            Some(format!("{self} needs one span at least"))
        } else if members < least || members > most {
            let bound = if members < least { format!("at least {least}") } else { format!("at most {most}") };
            Some(format!("{self} takes {bound} members, not {members}"))
        } else if !members.is_multiple_of(multiple) {
            Some(format!("{self} takes a multiple of {multiple} members, not {members}"))
        } else {
            None
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => write!(f, "a single drive"),
            Self::Raid0 => write!(f, "RAID 0"),
            Self::Raid1 => write!(f, "RAID 1"),
            Self::Raid10 => write!(f, "RAID 10"),
            Self::Raid5 { spans: 1 } => write!(f, "RAID 5"),
            Self::Raid6 { spans: 1 } => write!(f, "RAID 6"),
            Self::Raid5 { spans } => write!(f, "RAID 50 of {spans} spans"),
            Self::Raid6 { spans } => write!(f, "RAID 60 of {spans} spans"),
        }
    }
}
