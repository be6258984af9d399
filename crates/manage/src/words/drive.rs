//! The sentences of why something is no drive.

use crate::words::error::ErrorSentence;
use stria_drive::Unfit;

/// The sentence of why something cannot be a member; `None`: it has text alone.
pub fn of_unfit(reason: &Unfit) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match reason {
        Unfit::EmptyFile => Say::UnfitEmptyFile {},
        Unfit::NoSectors => Say::UnfitNoSectors {},
        Unfit::Directory => Say::UnfitDirectory {},
        Unfit::Characters => Say::UnfitCharacters {},
        Unfit::Pipe => Say::UnfitPipe {},
        Unfit::Protected => Say::UnfitProtected {},
        Unfit::OnePath { map } => Say::UnfitOnePath { other: map.display().to_string() },
        Unfit::FileSystemReadOnly => Say::UnfitFileSystem {},
        Unfit::Swap => Say::UnfitSwap {},
        Unfit::NoDrive => Say::UnfitNoDrive {},
        Unfit::Changed => Say::UnfitChanged {},
        Unfit::Blocks { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs get the sentence, and terminals the text of the crate that looked: both say the same.
    #[test]
    fn what_is_no_drive_and_its_sentence_have_the_same_words() {
        let reasons = [
            Unfit::EmptyFile,
            Unfit::NoSectors,
            Unfit::Directory,
            Unfit::Characters,
            Unfit::Pipe,
            Unfit::Protected,
            Unfit::OnePath { map: "/dev/mapper/mpatha".into() },
            Unfit::FileSystemReadOnly,
            Unfit::Swap,
            Unfit::NoDrive,
            Unfit::Changed,
        ];
        for reason in reasons {
            assert_eq!(of_unfit(&reason).map(|said| said.to_string()), Some(reason.to_string()));
        }
        assert_eq!(of_unfit(&Unfit::Blocks { block_bytes: 65536 }), None);
    }
}
