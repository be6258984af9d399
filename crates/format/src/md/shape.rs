//! md's numbers for levels and layouts, there and back.
//!
//! Source: `raid5.h`, `raid10.c` and `raid0.c` of Linux (`ALGORITHM_*`, `setup_geo`, `RAID0_*_LAYOUT`).

use super::superblock::{Header, feature};
use super::unserved::Unserved;
use stria_array::{Copies, Family, Layout, Level, ParityLayout, Zones};

/// A level and layout as the superblock holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutNumbers {
    /// `level`.
    pub level: i32,
    /// `layout`.
    pub layout: u32,
    /// Bits that `feature_map` must have.
    pub features: u32,
}

const PARITY: [(ParityLayout, u32); 14] = [
    (ParityLayout::LeftAsymmetric, 0),
    (ParityLayout::RightAsymmetric, 1),
    (ParityLayout::LeftSymmetric, 2),
    (ParityLayout::RightSymmetric, 3),
    (ParityLayout::ParityFirst, 4),
    (ParityLayout::ParityLast, 5),
    (ParityLayout::DdfZeroRestart, 8),
    (ParityLayout::DdfNRestart, 9),
    (ParityLayout::DdfNContinue, 10),
    (ParityLayout::LeftAsymmetric6, 16),
    (ParityLayout::RightAsymmetric6, 17),
    (ParityLayout::LeftSymmetric6, 18),
    (ParityLayout::RightSymmetric6, 19),
    (ParityLayout::ParityFirst6, 20),
];

/// The numbers of a level and layout.
pub fn numbers_of(level: Level, layout: Layout) -> LayoutNumbers {
    let number = match layout {
        Layout::Plain => 0,
        Layout::Zones(Zones::Original) => 1,
        Layout::Zones(Zones::Alternate) => 2,
        Layout::Parity(parity) => PARITY.iter().find(|(known, _)| *known == parity).expect("every parity layout has a number").1,
        Layout::Copies(Copies { near, far, offset }) => u32::from(near) | u32::from(far) << 8 | u32::from(offset) << 16,
    };
    let level = match level {
        Level::Linear => -1,
        Level::Raid0 => 0,
        Level::Raid1 => 1,
        Level::Raid4 => 4,
        Level::Raid5 => 5,
        Level::Raid6 => 6,
        Level::Raid10 => 10,
    };
    LayoutNumbers { level, layout: number, features: if level == 0 { feature::RAID0_LAYOUT } else { 0 } }
}

/// The level that a superblock names.
///
/// # Errors
/// A level that Stria does not serve.
pub fn level_of(header: &Header) -> Result<Level, Unserved> {
    match header.level {
        -1 => Ok(Level::Linear),
        0 => Ok(Level::Raid0),
        1 => Ok(Level::Raid1),
        4 => Ok(Level::Raid4),
        5 => Ok(Level::Raid5),
        6 => Ok(Level::Raid6),
        10 => Ok(Level::Raid10),
        -4 => Err(Unserved::Multipath),
        -5 => Err(Unserved::Faulty),
        level => Err(Unserved::LevelUnknown { level }),
    }
}

/// True if a superblock names a level with parity.
pub(crate) fn keeps_parity(header: &Header) -> bool {
    level_of(header).is_ok_and(|level| level.family() == Family::Parity)
}

/// The level and layout that a superblock names. That of a RAID 0 without layout bit is a guess, which
/// does no harm if its members are equal.
///
/// # Errors
/// A level or layout that Stria does not serve.
pub fn layout_of(header: &Header) -> Result<(Level, Layout), Unserved> {
    let number = header.layout;
    let level = level_of(header)?;
    let layout = match level {
        Level::Linear | Level::Raid1 | Level::Raid4 => Layout::Plain,
        Level::Raid0 => match number {
            1 => Layout::Zones(Zones::Original),
            2 => Layout::Zones(Zones::Alternate),
            _ if header.feature_map & feature::RAID0_LAYOUT == 0 => Layout::Zones(Zones::Alternate),
            _ => return Err(Unserved::ZonesUnknown { layout: number }),
        },
        Level::Raid5 | Level::Raid6 => match PARITY.iter().find(|(known, n)| *n == number && known.suits(level)) {
            Some((parity, _)) => Layout::Parity(*parity),
            None => return Err(Unserved::ParityLayout { layout: number, level }),
        },
        Level::Raid10 => {
            let (near, far) = (number as u8, (number >> 8) as u8);
            if number >> 17 != 0 {
                return Err(Unserved::FarSets { layout: number });
            }
            if near == 0 || far == 0 {
                return Err(Unserved::NoCopies { layout: number });
            }
            Layout::Copies(Copies { near, far, offset: number >> 16 & 1 == 1 })
        }
    };
    Ok((level, layout))
}
