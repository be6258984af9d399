//! The sentences of why an array cannot be made.

use crate::words::error::ErrorSentence;
use stria_array::{Geometry, GeometryError};
use stria_block::show_size;
use stria_format::md::bitmap::ChunkError;
use stria_format::md::create::CreateError;
use stria_format::md::superblock::ROLES_MAX;

impl From<&CreateError> for ErrorSentence {
    fn from(error: &CreateError) -> Self {
        match error.clone() {
            CreateError::Geometry(error) => (&error).into(),
            CreateError::Name { name } => Self::NameUnusable { name },
            CreateError::TooManyMissing { missing_count, level, survives } => {
                Self::MembersTooMany { missing_count, level: level.to_string(), survives }
            }
            CreateError::TooManyDrives { count } => Self::DrivesTooMany { drive_count: count, most: ROLES_MAX },
            CreateError::AllMissing => Self::AllAreMissing {},
            CreateError::NoRedundancy { level } => Self::LevelTakesNoSpares { level: level.to_string() },
            CreateError::NoUseForBitmap { level } => Self::LevelTakesNoBitmap { level: level.to_string() },
            CreateError::Chunk(ChunkError::MembersTooSmall) => Self::BitmapNoSpace {},
            CreateError::Chunk(ChunkError::Impossible { chunk_bytes, least_bytes }) => {
                Self::BitmapChunkInvalid { chunk_bytes, least_bytes }
            }
            CreateError::UnequalSpans { drive_count, span_count } => Self::SpansUnequal { drive_count, span_count },
            CreateError::DriveTooSmall { drive, metadata_bytes, drive_bytes } => {
                Self::DriveTooSmall { drive, needed: show_size(metadata_bytes), size: show_size(drive_bytes) }
            }
            CreateError::SizeTooLarge { asked_bytes, excess_bytes } => {
                Self::SizeTooLarge { asked: show_size(asked_bytes), excess: show_size(excess_bytes) }
            }
            CreateError::SizeBelowStrip { asked_bytes, strip_bytes } => {
                Self::SizeBelowStrip { asked: show_size(asked_bytes), strip: show_size(strip_bytes) }
            }
        }
    }
}

impl From<&GeometryError> for ErrorSentence {
    fn from(error: &GeometryError) -> Self {
        match error.clone() {
            GeometryError::MemberCount { level, least, most, count } => {
                Self::MemberCountInvalid { level: level.to_string(), least, most, given_count: count }
            }
            GeometryError::CopyCount { layout, copies } => {
                Self::CopiesTooMany { layout: layout.to_string(), copy_count: copies, most: Geometry::MEMBER_COUNT_MAX }
            }
            GeometryError::NoCopies { layout } => Self::CopiesTooFew { layout: layout.to_string() },
            GeometryError::Strip { strip_sectors } => Self::StripUnusable { strip_sectors },
            GeometryError::Layout { layout, level } => {
                Self::LayoutOfOtherLevel { layout: layout.to_string(), level: level.to_string() }
            }
            GeometryError::TooLarge { count, sectors } => {
                Self::ArrayTooLarge { member_count: count, sectors: sectors.to_string() }
            }
            GeometryError::TooSmall { sectors, strip_sectors } => {
                Self::MembersTooSmall { sectors: sectors.to_string(), strip_sectors }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_array::Level;

    /// Programs get the sentence, and terminals the text of the crate that refuses: both say the same.
    #[test]
    fn an_array_that_cannot_be_made_and_its_sentence_have_the_same_words() {
        let layout = Level::Raid10.default_layout();
        let errors = [
            GeometryError::MemberCount { level: Level::Raid6, least: 4, most: 258, count: 3 }.into(),
            GeometryError::CopyCount { layout, copies: 400 }.into(),
            GeometryError::NoCopies { layout }.into(),
            GeometryError::Strip { strip_sectors: 3 }.into(),
            GeometryError::Layout { layout, level: Level::Raid5 }.into(),
            GeometryError::TooLarge { count: 384, sectors: 1 << 50 }.into(),
            GeometryError::TooSmall { sectors: 8, strip_sectors: 128 }.into(),
            CreateError::Name { name: "a/b".into() },
            CreateError::TooManyMissing { missing_count: 2, level: Level::Raid5, survives: 1 },
            CreateError::TooManyDrives { count: 2000 },
            CreateError::AllMissing,
            CreateError::NoRedundancy { level: Level::Raid0 },
            CreateError::NoUseForBitmap { level: Level::Linear },
            ChunkError::MembersTooSmall.into(),
            ChunkError::Impossible { chunk_bytes: 3000, least_bytes: 4096 }.into(),
            CreateError::UnequalSpans { drive_count: 7, span_count: 2 },
            CreateError::DriveTooSmall { drive: "/dev/sdb".into(), metadata_bytes: 1 << 20, drive_bytes: 1 << 19 },
            CreateError::SizeTooLarge { asked_bytes: 1 << 40, excess_bytes: 1 << 30 },
            CreateError::SizeBelowStrip { asked_bytes: 4096, strip_bytes: 65536 },
        ];
        for error in errors {
            assert_eq!(ErrorSentence::from(&error).to_string(), error.to_string());
        }
    }
}
