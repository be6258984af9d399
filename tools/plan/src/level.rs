//! A level by what it keeps: copies, parities, spans.

use crate::calibration::Redundancy;
use std::fmt;
use stria_array::{Geometry, GeometryError};

/// A level. JBOD is drives of their own: ask each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One drive.
    Single,
    /// Strips over all members.
    Raid0,
    /// The same on all members.
    Raid1,
    /// Strips over pairs; of an odd count every strip has its copy on the next member.
    Raid10,
    /// One parity for each stripe, all on the last member.
    Raid4,
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
    /// Copies of every strip, on so many members.
    pub fn copies(self, members: usize) -> usize {
        match self {
            Self::Raid1 => members,
            Self::Raid10 => 2,
            Self::Single | Self::Raid0 | Self::Raid4 | Self::Raid5 { .. } | Self::Raid6 { .. } => 1,
        }
    }

    /// True if it keeps copies.
    pub fn is_mirrored(self) -> bool {
        self.redundancy() == Redundancy::Copies
    }

    /// True if it keeps copies or parity.
    pub fn is_redundant(self) -> bool {
        self.redundancy() != Redundancy::None
    }

    /// Parity strips of every stripe.
    pub fn parities(self) -> usize {
        match self {
            Self::Single | Self::Raid0 | Self::Raid1 | Self::Raid10 => 0,
            Self::Raid4 | Self::Raid5 { .. } => 1,
            Self::Raid6 { .. } => 2,
        }
    }

    /// The same as a kind of level.
    pub fn redundancy(self) -> Redundancy {
        match self {
            Self::Single | Self::Raid0 => Redundancy::None,
            Self::Raid1 | Self::Raid10 => Redundancy::Copies,
            Self::Raid4 | Self::Raid5 { .. } | Self::Raid6 { .. } => Redundancy::Parity,
        }
    }

    /// Spans, each with stripes of its own.
    pub fn spans(self) -> usize {
        match self {
            Self::Single | Self::Raid0 | Self::Raid1 | Self::Raid10 | Self::Raid4 => 1,
            Self::Raid5 { spans } | Self::Raid6 { spans } => spans,
        }
    }

    /// Members that hold data and not redundancy, of an array that is modelled; of RAID 10 over an odd count the whole ones.
    pub fn data_members(self, members: usize) -> usize {
        self.space(members) as usize
    }

    /// The share of the members' space that data take, of any array that Stria makes.
    pub fn data_share(self, members: usize) -> f64 {
        self.space(members) / members as f64
    }

    /// The space for data, in members.
    fn space(self, members: usize) -> f64 {
        let (level, spans) = (self.in_engine(), self.spans());
        spans as f64 * level.data_members(level.default_layout(), members / spans.max(1))
    }

    /// The engine's level: that of each span, and RAID 0 for a single drive.
    pub(crate) fn in_engine(self) -> stria_array::Level {
        match self {
            Self::Single | Self::Raid0 => stria_array::Level::Raid0,
            Self::Raid1 => stria_array::Level::Raid1,
            Self::Raid10 => stria_array::Level::Raid10,
            Self::Raid4 => stria_array::Level::Raid4,
            Self::Raid5 { .. } => stria_array::Level::Raid5,
            Self::Raid6 { .. } => stria_array::Level::Raid6,
        }
    }

    /// The reason why Stria makes no array of so many members, if it makes none.
    pub fn refusal(self, members: usize) -> Option<String> {
        if self == Self::Single {
            return (members != 1).then(|| format!("{self} takes 1 member, not {members}"));
        }
        let (level, spans, most) = (self.in_engine(), self.spans(), Geometry::MEMBER_COUNT_MAX);
        if spans == 0 {
            return Some(format!("{self} needs one span at least"));
        }
        if spans > most {
            return Some(format!("{self}: use at most {most} spans"));
        }
        if !members.is_multiple_of(spans) {
            return Some(format!("{self} takes a multiple of {spans} members, not {members}"));
        }
        // One member too many stands for every larger number.
        let sizes = vec![MEMBER_SECTORS; (members / spans).min(most + 1)];
        match Geometry::new(level, level.default_layout(), STRIP_SECTORS, &sizes) {
            Ok(_) => None,
            Err(GeometryError::MemberCount { least, most, .. }) => {
                let each = if spans == 1 { "" } else { " in each span" };
                Some(format!("{self} takes {least} to {most} members{each}, not {}", members / spans))
            }
            Err(error) => Some(format!("{self}: {error}")),
        }
    }

    /// The reason why an array of so many members is not modelled, if it is not: Stria does not make it, or it is a drive by
    /// itself.
    pub fn model_refusal(self, members: usize) -> Option<String> {
        let alone = || format!("Stria makes {self} over {members} drives, but it is not modelled: ask for 2 drives or more");
        self.refusal(members).or_else(|| (self == Self::Raid1 && members == 1).then(alone))
    }

    /// The arrays that are asked for instead of a rare one, which is advised only if it is asked for, and of which nothing is
    /// published.
    pub fn instead_of_rare(self, members: usize) -> Option<&'static str> {
        match self {
            Self::Raid4 => Some("RAID 5"),
            Self::Raid10 if members < 4 || !members.is_multiple_of(2) => Some("an even number of drives, 4 at least"),
            Self::Raid5 { spans: 1 } if members == 2 => Some("3 drives or more"),
            Self::Raid5 { spans } if members / spans == 2 => Some("3 drives or more in each span"),
            Self::Single | Self::Raid0 | Self::Raid1 | Self::Raid10 | Self::Raid5 { .. } | Self::Raid6 { .. } => None,
        }
    }
}

/// Strips of 64 KiB on members of 1 GiB: sizes that every level accepts, so that only the number of members decides.
const STRIP_SECTORS: u64 = 128;
const MEMBER_SECTORS: u64 = 1 << 21;

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => write!(f, "a single drive"),
            Self::Raid0 => write!(f, "RAID 0"),
            Self::Raid1 => write!(f, "RAID 1"),
            Self::Raid10 => write!(f, "RAID 10"),
            Self::Raid4 => write!(f, "RAID 4"),
            Self::Raid5 { spans: 1 } => write!(f, "RAID 5"),
            Self::Raid6 { spans: 1 } => write!(f, "RAID 6"),
            Self::Raid5 { spans } => write!(f, "RAID 50 of {spans} spans"),
            Self::Raid6 { spans } => write!(f, "RAID 60 of {spans} spans"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels() -> Vec<Level> {
        let spans = (1..=3).flat_map(|spans| [Level::Raid5 { spans }, Level::Raid6 { spans }]);
        [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid4].into_iter().chain(spans).collect()
    }

    /// The planner refuses exactly the arrays that Stria does not make. It once refused RAID 1 of three and more, RAID 5 of two,
    /// and RAID 10 of two and of odd counts.
    #[test]
    fn an_array_is_denied_if_stria_does_not_make_it() {
        for level in levels() {
            let engine = level.in_engine();
            for members in (0_usize..=8).chain([9, 12, 24, 256, 257, 258, 384, 385, 10_000]) {
                let made = |count| Geometry::new(engine, engine.default_layout(), 128, &vec![1 << 20; count]).ok();
                let each = members.is_multiple_of(level.spans()) && made(members / level.spans()).is_some();
                assert_eq!(level.refusal(members).is_none(), each, "{level} of {members}: {:?}", level.refusal(members));
                // Space and failures that are survived are the engine's too.
                if let (true, Some(geometry)) = (each && members <= 24, made(members / level.spans())) {
                    let share = geometry.capacity_sectors() as f64 * level.spans() as f64 / (members as f64 * f64::from(1 << 20));
                    assert!((share / level.data_share(members) - 1.0).abs() < 1e-3, "{level} of {members}: {share}");
                    if level.model_refusal(members).is_none() {
                        let survives = crate::reliability::groups(level, members).survives;
                        assert_eq!(survives, geometry.losses_survived(), "{level} of {members}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_array_that_is_not_modelled_is_said_to_exist() {
        let sentence = Level::Raid1.model_refusal(1).expect("it is not modelled");
        assert!(sentence.starts_with("Stria makes RAID 1 over 1 drives"), "{sentence}");
        assert_eq!((Level::Raid1.model_refusal(3), Level::Raid10.model_refusal(5)), (None, None));
    }

    /// Rare arrays are modelled.
    #[test]
    fn rare_arrays_have_a_usual_one_beside_them() {
        for (level, members) in [(Level::Raid4, 4), (Level::Raid10, 2), (Level::Raid10, 5), (Level::Raid5 { spans: 2 }, 4)] {
            assert!(level.model_refusal(members).is_none() && level.instead_of_rare(members).is_some(), "{level} of {members}");
        }
        for (level, members) in
            [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5 { spans: 1 }, 3), (Level::Raid6 { spans: 1 }, 4)]
        {
            assert_eq!(level.instead_of_rare(members), None, "{level} of {members}");
        }
    }

    /// The product of spans and members overflowed.
    #[test]
    fn any_number_of_spans_is_answered() {
        let spans = 9_223_372_036_854_775_807;
        assert!(Level::Raid5 { spans }.refusal(6).is_some_and(|sentence| sentence.contains("at most 384 spans")));
        assert!(Level::Raid6 { spans: 0 }.refusal(6).is_some_and(|sentence| sentence.contains("needs one span")));
    }
}
