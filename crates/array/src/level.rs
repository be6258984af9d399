//! RAID levels and layouts by the names that mdadm's users know.

use std::fmt;
use std::str::FromStr;

/// The kind of redundancy of an array. 50 and 60 are a `Raid0` whose members are arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Members one after another (JBOD, md linear).
    Linear,
    /// Strips in turn, no redundancy.
    Raid0,
    /// Every member holds everything.
    Raid1,
    /// XOR parity on one member.
    Raid4,
    /// Rotating XOR parity.
    Raid5,
    /// Rotating P and Q.
    Raid6,
    /// Copies of strips spread over members.
    Raid10,
}

/// The way in which a level keeps data. Each has one implementation of the engine's duties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Without redundancy.
    Striped,
    /// By copies.
    Mirror,
    /// By parity.
    Parity,
}

/// The placement of data and parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Linear, RAID 1 and RAID 4 have one layout each.
    Plain,
    /// RAID 0 of unequal members has two; with equal members they are the same.
    Zones(Zones),
    /// RAID 5 and 6.
    Parity(ParityLayout),
    /// RAID 10.
    Copies(Copies),
}

/// Which member takes the first strip of the second and later zones of a RAID 0 of unequal members.
/// Linux kernels before 3.14 and later ones differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Zones {
    /// Counted from the start of the array (kernels before 3.14; layout 1).
    Original,
    /// Counted from the start of the zone (kernels from 3.14 on; layout 2).
    Alternate,
}

/// Where parity and data strips of a stripe lie, after `drivers/md/raid5.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParityLayout {
    /// Parity moves left, data starts on the first member.
    LeftAsymmetric,
    /// Parity moves right, data starts on the first member.
    RightAsymmetric,
    /// Parity moves left, data starts after parity: the default.
    LeftSymmetric,
    /// Parity moves right, data starts after parity.
    RightSymmetric,
    /// Parity on the first members.
    ParityFirst,
    /// Parity on the last members.
    ParityLast,
    /// RAID 6 of SNIA DDF: rotating parity 0, data restart.
    DdfZeroRestart,
    /// RAID 6 of SNIA DDF: rotating parity N, data restart.
    DdfNRestart,
    /// RAID 6 of SNIA DDF: rotating parity N, data continuation.
    DdfNContinue,
    /// RAID 6: left-asymmetric RAID 5 with Q on the last member.
    LeftAsymmetric6,
    /// RAID 6: right-asymmetric RAID 5 with Q on the last member.
    RightAsymmetric6,
    /// RAID 6: left-symmetric RAID 5 with Q on the last member.
    LeftSymmetric6,
    /// RAID 6: right-symmetric RAID 5 with Q on the last member.
    RightSymmetric6,
    /// RAID 6: P on the first member, Q on the last.
    ParityFirst6,
}

/// RAID 10 placement: `near` copies side by side, each of which `far` times at a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copies {
    /// Copies on neighbouring members.
    pub near: u8,
    /// Copies at a distance; 1 for a near layout.
    pub far: u8,
    /// Far copies lie in the next stripe (offset) rather than in another part of the member (far).
    pub offset: bool,
}

impl Copies {
    /// Copies in all.
    pub fn count(self) -> usize {
        usize::from(self.near) * usize::from(self.far)
    }
}

impl Level {
    /// Its family.
    #[inline]
    pub const fn family(self) -> Family {
        match self {
            Level::Linear | Level::Raid0 => Family::Striped,
            Level::Raid1 | Level::Raid10 => Family::Mirror,
            Level::Raid4 | Level::Raid5 | Level::Raid6 => Family::Parity,
        }
    }

    /// Strips of parity in a stripe; 0 for levels without.
    pub fn parity_count(self) -> usize {
        match self {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid10 => 0,
        }
    }

    /// The space for data of so many members of one size, in members: a fraction if the copies do not divide them.
    pub fn data_members(self, layout: Layout, member_count: usize) -> f64 {
        let copies = match (self, layout) {
            (Level::Raid1, _) => member_count,
            (_, Layout::Copies(copies)) => copies.count(),
            (_, Layout::Plain | Layout::Zones(_) | Layout::Parity(_)) => 1,
        };
        (member_count as f64 - self.parity_count() as f64) / copies as f64
    }

    /// Whether the level keeps data when a member is lost.
    pub fn is_redundant(self) -> bool {
        self.family() != Family::Striped
    }

    /// The layout taken when none is named: mdadm's defaults.
    pub fn default_layout(self) -> Layout {
        match self {
            Level::Linear | Level::Raid1 | Level::Raid4 => Layout::Plain,
            Level::Raid0 => Layout::Zones(Zones::Alternate),
            Level::Raid5 | Level::Raid6 => Layout::Parity(ParityLayout::LeftSymmetric),
            Level::Raid10 => Layout::Copies(Copies { near: 2, far: 1, offset: false }),
        }
    }

    /// The layout called `name` in mdadm's words, of this level.
    ///
    /// # Errors
    /// A sentence that lists the layouts of the level.
    pub fn parse_layout(self, name: &str) -> Result<Layout, String> {
        let name = name.to_ascii_lowercase();
        let found = match self {
            Level::Linear | Level::Raid1 | Level::Raid4 => None,
            Level::Raid0 => match name.as_str() {
                "original" => Some(Layout::Zones(Zones::Original)),
                "alternate" => Some(Layout::Zones(Zones::Alternate)),
                _ => None,
            },
            Level::Raid5 | Level::Raid6 => PARITY_LAYOUTS
                .iter()
                .find(|(layout, names)| names.contains(&name.as_str()) && layout.suits(self))
                .map(|(layout, _)| Layout::Parity(*layout)),
            Level::Raid10 => parse_copies(&name).map(Layout::Copies),
        };
        found.ok_or_else(|| format!("layout \"{name}\" is not one of RAID level {self}: use {}", self.layout_names()))
    }

    fn layout_names(self) -> String {
        match self {
            Level::Linear | Level::Raid1 | Level::Raid4 => "no --layout, this level has only one".into(),
            Level::Raid0 => "original or alternate".into(),
            Level::Raid5 | Level::Raid6 => {
                let names = PARITY_LAYOUTS.iter().filter(|(layout, _)| layout.suits(self));
                names.map(|(_, names)| names[0]).collect::<Vec<_>>().join(", ")
            }
            Level::Raid10 => "n2, n3 … (near), f2 … (far), o2 … (offset)".into(),
        }
    }
}

fn parse_copies(name: &str) -> Option<Copies> {
    let (kind, count) = name.split_at_checked(1)?;
    let count = count.parse().ok().filter(|&count| count >= 2)?;
    match kind {
        "n" => Some(Copies { near: count, far: 1, offset: false }),
        "f" => Some(Copies { near: 1, far: count, offset: false }),
        "o" => Some(Copies { near: 1, far: count, offset: true }),
        _ => None,
    }
}

/// mdadm's names, the long one first.
const PARITY_LAYOUTS: [(ParityLayout, &[&str]); 14] = [
    (ParityLayout::LeftSymmetric, &["left-symmetric", "ls", "default"]),
    (ParityLayout::RightSymmetric, &["right-symmetric", "rs"]),
    (ParityLayout::LeftAsymmetric, &["left-asymmetric", "la"]),
    (ParityLayout::RightAsymmetric, &["right-asymmetric", "ra"]),
    (ParityLayout::ParityFirst, &["parity-first"]),
    (ParityLayout::ParityLast, &["parity-last"]),
    (ParityLayout::DdfZeroRestart, &["ddf-zero-restart"]),
    (ParityLayout::DdfNRestart, &["ddf-n-restart"]),
    (ParityLayout::DdfNContinue, &["ddf-n-continue"]),
    (ParityLayout::LeftSymmetric6, &["left-symmetric-6", "ls-6"]),
    (ParityLayout::RightSymmetric6, &["right-symmetric-6", "rs-6"]),
    (ParityLayout::LeftAsymmetric6, &["left-asymmetric-6", "la-6"]),
    (ParityLayout::RightAsymmetric6, &["right-asymmetric-6", "ra-6"]),
    (ParityLayout::ParityFirst6, &["parity-first-6"]),
];

impl Layout {
    /// Whether `level` can have this layout.
    pub fn suits(self, level: Level) -> bool {
        match level {
            Level::Linear | Level::Raid1 | Level::Raid4 => self == Layout::Plain,
            Level::Raid0 => matches!(self, Layout::Zones(_)),
            Level::Raid5 | Level::Raid6 => matches!(self, Layout::Parity(layout) if layout.suits(level)),
            Level::Raid10 => matches!(self, Layout::Copies(_)),
        }
    }

    /// True if the members of P and Q have positions in the code too, as strips of zeros: in the layouts of SNIA DDF.
    pub(crate) fn counts_parity(self) -> bool {
        use ParityLayout::{DdfNContinue, DdfNRestart, DdfZeroRestart};
        matches!(self, Layout::Parity(DdfZeroRestart | DdfNRestart | DdfNContinue))
    }

    /// Every level with each of its layouts; RAID 10, which has one for any count of copies, with one of each kind.
    pub fn of_all_levels() -> impl Iterator<Item = (Level, Self)> {
        let zones = [Zones::Original, Zones::Alternate].map(|zones| (Level::Raid0, Layout::Zones(zones)));
        let plain = [Level::Raid1, Level::Raid4].map(|level| (level, Layout::Plain));
        let parity = [Level::Raid5, Level::Raid6].into_iter().flat_map(|level| {
            ParityLayout::all().filter(move |layout| layout.suits(level)).map(move |layout| (level, Layout::Parity(layout)))
        });
        let copies = [(2, 1, false), (3, 1, false), (1, 2, false), (1, 3, false), (1, 2, true), (2, 2, false), (1, 3, true)];
        let copies = copies.map(|(near, far, offset)| (Level::Raid10, Layout::Copies(Copies { near, far, offset })));
        std::iter::once((Level::Linear, Layout::Plain)).chain(zones).chain(plain).chain(parity).chain(copies)
    }
}

impl ParityLayout {
    /// Every layout.
    pub fn all() -> impl Iterator<Item = Self> {
        PARITY_LAYOUTS.iter().map(|(layout, _)| *layout)
    }

    /// Whether `level` can have this layout.
    pub fn suits(self, level: Level) -> bool {
        use ParityLayout::*;
        match self {
            LeftAsymmetric | RightAsymmetric | LeftSymmetric | RightSymmetric | ParityFirst | ParityLast => {
                matches!(level, Level::Raid5 | Level::Raid6)
            }
            DdfZeroRestart | DdfNRestart | DdfNContinue | LeftAsymmetric6 | RightAsymmetric6 | LeftSymmetric6
            | RightSymmetric6 | ParityFirst6 => level == Level::Raid6,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Linear => "jbod",
            Level::Raid0 => "0",
            Level::Raid1 => "1",
            Level::Raid4 => "4",
            Level::Raid5 => "5",
            Level::Raid6 => "6",
            Level::Raid10 => "10",
        })
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let lower = name.to_ascii_lowercase();
        Ok(match lower.strip_prefix("raid").unwrap_or(&lower) {
            "jbod" | "linear" => Level::Linear,
            "0" | "stripe" => Level::Raid0,
            "1" | "mirror" => Level::Raid1,
            "4" => Level::Raid4,
            "5" => Level::Raid5,
            "6" => Level::Raid6,
            "10" => Level::Raid10,
            _ => return Err(format!("RAID level \"{name}\" is unknown: use jbod, 0, 1, 4, 5, 6 or 10")),
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Plain => f.write_str("plain"),
            Layout::Zones(Zones::Original) => f.write_str("original"),
            Layout::Zones(Zones::Alternate) => f.write_str("alternate"),
            Layout::Parity(layout) => {
                let named = PARITY_LAYOUTS.iter().find(|(known, _)| known == layout);
                f.write_str(named.expect("every parity layout has a name").1[0])
            }
            Layout::Copies(copies) => {
                let mut parts = Vec::new();
                if copies.near > 1 || copies.far == 1 {
                    parts.push(format!("n{}", copies.near));
                }
                if copies.far > 1 {
                    parts.push(format!("{}{}", if copies.offset { 'o' } else { 'f' }, copies.far));
                }
                f.write_str(&parts.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_reads_back_by_its_own_name() {
        for layout in ParityLayout::all() {
            let shown = Layout::Parity(layout).to_string();
            assert_eq!(Level::Raid6.parse_layout(&shown), Ok(Layout::Parity(layout)));
        }
        // mdadm's short names, in any case.
        for (short, long) in [
            ("ls-6", "left-symmetric-6"),
            ("ra-6", "right-asymmetric-6"),
            ("la", "left-asymmetric"),
            ("rs-6", "right-symmetric-6"),
            ("LA-6", "left-asymmetric-6"),
        ] {
            assert_eq!(Level::Raid6.parse_layout(short).map(|layout| layout.to_string()), Ok(long.to_owned()));
        }
        assert!(Level::Raid5.parse_layout("ls-6").is_err());
        for name in ["n2", "n3", "f2", "o3"] {
            assert_eq!(Level::Raid10.parse_layout(name).expect("known").to_string(), name);
        }
        assert!(Level::Raid5.parse_layout("left-symmetric-6").is_err());
        assert!(Level::Raid10.parse_layout("x2").is_err());
        // They keep one copy of everything.
        for name in ["n1", "f1", "o1", "n0"] {
            assert!(Level::Raid10.parse_layout(name).is_err(), "{name}");
        }
    }
}
