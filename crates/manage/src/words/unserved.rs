//! The sentences of what metadata ask for that Stria does not serve.

use crate::words::error::ErrorSentence;
use stria_format::md::{Unserved, UnservedBitmap};

impl From<&Unserved> for ErrorSentence {
    fn from(unserved: &Unserved) -> Self {
        let hexadecimal = |number: &u32| format!("0x{number:x}");
        match unserved {
            Unserved::Features { bits } => Self::FeaturesUnknown { bits: hexadecimal(bits) },
            Unserved::Fields => Self::FieldsUnknown {},
            Unserved::Reshape => Self::ReshapeUnfinished {},
            Unserved::Cluster => Self::ClusterArray {},
            Unserved::JournalDevice => Self::ArrayHasJournal {},
            Unserved::PartialParityLogMisplaced => Self::PartialLogMisplaced {},
            Unserved::PartialParityLogTooShort => Self::PartialLogTooShort {},
            Unserved::Blocks { block_bytes } => Self::ArrayBlocksImpossible { block_bytes: (*block_bytes).into() },
            Unserved::LayoutBit => Self::LayoutBitElsewhere {},
            Unserved::Multipath => Self::LevelMultipath {},
            Unserved::Faulty => Self::LevelFaulty {},
            Unserved::LevelUnknown { level } => Self::LevelUnknown { level: level.to_string() },
            Unserved::ZonesUnknown { layout } => Self::ZonesUnknown { layout: layout.to_string() },
            Unserved::ParityLayout { layout, level } => {
                Self::ParityLayoutUnserved { layout: layout.to_string(), level: level.to_string() }
            }
            Unserved::FarSets { layout } => Self::FarSetsUnserved { layout: hexadecimal(layout) },
            Unserved::NoCopies { layout } => Self::LayoutWithoutCopies { layout: hexadecimal(layout) },
        }
    }
}

impl From<&UnservedBitmap> for ErrorSentence {
    fn from(unserved: &UnservedBitmap) -> Self {
        match unserved {
            UnservedBitmap::Cluster => Self::ClusterBitmap {},
            UnservedBitmap::Lockless => Self::LocklessBitmap {},
            UnservedBitmap::Version { version } => Self::BitmapVersionUnknown { version: version.to_string() },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use stria_array::Level;

    /// One of each.
    pub fn unserved() -> Vec<Unserved> {
        vec![
            Unserved::Features { bits: 0x8000_0000 },
            Unserved::Fields,
            Unserved::Reshape,
            Unserved::Cluster,
            Unserved::JournalDevice,
            Unserved::PartialParityLogMisplaced,
            Unserved::PartialParityLogTooShort,
            Unserved::Blocks { block_bytes: 8192 },
            Unserved::LayoutBit,
            Unserved::Multipath,
            Unserved::Faulty,
            Unserved::LevelUnknown { level: -7 },
            Unserved::ZonesUnknown { layout: 3 },
            Unserved::ParityLayout { layout: 16, level: Level::Raid5 },
            Unserved::FarSets { layout: 0x2_0102 },
            Unserved::NoCopies { layout: 0x100 },
        ]
    }

    /// Programs get the sentence, and terminals the text of the crate that refuses: both say the same.
    #[test]
    fn what_is_not_served_and_its_sentence_have_the_same_words() {
        for reason in unserved() {
            assert_eq!(ErrorSentence::from(&reason).to_string(), reason.to_string());
        }
        for reason in [UnservedBitmap::Cluster, UnservedBitmap::Lockless, UnservedBitmap::Version { version: 9 }] {
            assert_eq!(ErrorSentence::from(&reason).to_string(), reason.to_string());
        }
    }
}
