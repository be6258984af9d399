//! The sentences of what befalls drives.

use crate::words::error::{Cause, ErrorSentence, Words};
use stria_block::{Action, IoError, Trouble, TroubleKind, in_largest_unit};

impl From<&IoError> for Words {
    fn from(error: &IoError) -> Self {
        Self { text: error.to_string(), said: said_of(error) }
    }
}

/// The sentence of a drive's error; `None`: it has text alone.
pub fn said_of(error: &IoError) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    let Trouble { drive, kind } = error.context.trouble.clone()?;
    Some(match kind {
        TroubleKind::Gone => Say::DriveIsGone { drive },
        TroubleKind::EndsWithin { end_sector, sectors, start_sector } => {
            let (end, length, start) = (end_sector.to_string(), sectors.to_string(), start_sector.to_string());
            Say::EndsWithin { drive, end, length, start }
        }
        TroubleKind::ChecksumWrong { .. } => {
            Say::MemberUnusable { drive, reason: kind.to_string(), cause: Cause(Some(Box::new(of_kind(&kind)?))) }
        }
        TroubleKind::Smaller { .. }
        | TroubleKind::CutShort { .. }
        | TroubleKind::CutShortAndLong { .. }
        | TroubleKind::Failed { .. }
        | TroubleKind::FlushFailed { .. }
        | TroubleKind::EarlierFlushFailed => {
            Say::OfMember { drive, reason: kind.to_string(), cause: Cause(Some(Box::new(of_kind(&kind)?))) }
        }
    })
}

/// The same where the text is without the drive's name, which stands beside it.
pub fn said_beside(error: &IoError, drive: &str) -> Option<ErrorSentence> {
    match &error.context.trouble {
        Some(trouble) if trouble.drive == drive && error.context.starts_with("member ") => {
            of_kind(&trouble.kind).or_else(|| said_of(error))
        }
        _ => said_of(error),
    }
}

/// The sentence of what stands after the drive's name and a colon.
fn of_kind(kind: &TroubleKind) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match kind.clone() {
        TroubleKind::CutShort { before_bytes, now_bytes, is_behind: false } => Say::CutShort { before_bytes, now_bytes },
        TroubleKind::CutShort { before_bytes, now_bytes, is_behind: true } => Say::CutShortBehind { before_bytes, now_bytes },
        TroubleKind::CutShortAndLong { left_bytes, before_bytes } => Say::CutShortAndLong { left_bytes, before_bytes },
        TroubleKind::Failed { action, bytes, sector, reason } => {
            let (size, sector) = (in_largest_unit(bytes), sector.to_string());
            match action {
                Action::Read => Say::ReadOf { size, sector, reason },
                Action::Write => Say::WriteOf { size, sector, reason },
                Action::WriteZeroes => Say::ZeroesOf { size, sector, reason },
                Action::Extents | Action::Allocate | Action::Flush => return None,
            }
        }
        TroubleKind::FlushFailed { reason } => Say::FlushFailed { reason, cause: Cause(None) },
        TroubleKind::EarlierFlushFailed => Say::OtherFlushFailed {},
        TroubleKind::ChecksumWrong { sector, advice } if advice.is_empty() => Say::ChecksumWrong { sector: sector.to_string() },
        TroubleKind::ChecksumWrong { .. } | TroubleKind::Gone | TroubleKind::Smaller { .. } | TroubleKind::EndsWithin { .. } => {
            return None;
        }
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use stria_block::ErrorKind;

    /// An error of each kind that has a sentence.
    pub fn errors(drive: &str) -> Vec<IoError> {
        let failed = |action| TroubleKind::Failed { action, bytes: 4096, sector: 8, reason: "Input/output error".into() };
        let kinds = [
            TroubleKind::Gone,
            TroubleKind::CutShort { before_bytes: 4096, now_bytes: 0, is_behind: false },
            TroubleKind::CutShort { before_bytes: 4096, now_bytes: 0, is_behind: true },
            TroubleKind::CutShortAndLong { left_bytes: 512, before_bytes: 4096 },
            TroubleKind::EndsWithin { end_sector: 7, sectors: 8, start_sector: 0 },
            failed(Action::Read),
            failed(Action::Write),
            failed(Action::WriteZeroes),
            TroubleKind::FlushFailed { reason: "Input/output error".into() },
            TroubleKind::EarlierFlushFailed,
            TroubleKind::ChecksumWrong { sector: 8, advice: String::new() },
        ];
        kinds.map(|kind| IoError::of_drive(ErrorKind::Other, drive, kind)).into()
    }

    /// Programs get the sentence, and logs the drive's own text: both say the same.
    #[test]
    fn an_error_of_a_drive_and_its_sentence_have_the_same_words() {
        for error in errors("/dev/a") {
            let said = said_of(&error).unwrap_or_else(|| panic!("{error:?} has no sentence"));
            assert_eq!(said.to_string(), error.to_string());
            let bare = error.context.strip_prefix("member /dev/a: ").unwrap_or(&error.context).to_owned();
            assert_eq!(said_beside(&error, "/dev/a").map(|said| said.to_string()), Some(bare));
            assert_eq!(said_beside(&error, "/dev/b"), Some(said));
        }
        let smaller = TroubleKind::Smaller { before_bytes: 4096, now_bytes: 512 };
        for error in [IoError::of_drive(ErrorKind::Gone, "/dev/a", smaller), IoError::new(ErrorKind::Other, "it rains")] {
            assert_eq!((said_of(&error), said_beside(&error, "/dev/a")), (None, None));
        }
    }
}
