//! The sentences of why a drive may not join an array.

use crate::words::error::{ErrorSentence, Words};
use stria_block::show_size;
use stria_format::md::recorder::{AdoptError, Unsuited};
use stria_host::JoinError;

impl From<&JoinError> for Words {
    fn from(error: &JoinError) -> Self {
        match error {
            JoinError::Engine(refusal) => refusal.clone().into(),
            error => Self { text: error.to_string(), said: said_of(error) },
        }
    }
}

/// `None`: it has text alone.
fn said_of(error: &JoinError) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match error.clone() {
        JoinError::Carries { carried } => {
            let [one] = <[_; 1]>::try_from(carried).ok()?;
            Say::CarriesSomething { drive: one.drive, contents: one.contents }
        }
        JoinError::HoldsWhatIsLacking { drive, array } => Say::HoldsWhatIsLacking { drive, array },
        JoinError::HoldsBadBlocks { drive, array } => Say::HoldsBadBlocks { drive, array },
        JoinError::NotInSync { old } => Say::NotReplaceableByDrive { drive: old },
        JoinError::NoMember { drive, array } => Say::WasNoMember { drive, array },
        JoinError::SameMember { drive, other, array } => Say::SameMember { drive, other, array },
        JoinError::BlocksTooLarge { drive, block_bytes, array, array_bytes } => {
            Say::BlocksTooLarge { drive, drive_bytes: block_bytes.into(), array, array_bytes: array_bytes.into() }
        }
        JoinError::NoRedundancy { level } => Say::NoUseForDrive { level: level.to_string() },
        JoinError::ChangedMeanwhile { drive } => Say::ChangedMeanwhile { drive },
        JoinError::Adopt(AdoptError::Unsuited { drive, array, reason: Unsuited::TooSmall { missing_bytes, needed_bytes } }) => {
            Say::TooSmallToAdopt { drive, array, missing: show_size(missing_bytes), needed: show_size(needed_bytes) }
        }
        JoinError::CannotReturn { .. } | JoinError::NoSuchPart { .. } | JoinError::Adopt(_) | JoinError::Engine(_) => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_array::{Level, Refusal};
    use stria_host::{Carried, Unfilled};

    /// Programs get the sentence, and terminals the text of the crate that refuses: both say the same.
    #[test]
    fn a_refusal_of_a_drive_and_its_sentence_have_the_same_words() {
        let (drive, other, array) = (|| "/dev/a".to_owned(), || "/dev/b".to_owned(), || "tank".to_owned());
        let carried = |drive: String| Carried { drive, contents: "a member of array \"lake\"".into() };
        let refusals = [
            JoinError::Carries { carried: vec![carried(drive())] },
            JoinError::HoldsWhatIsLacking { drive: drive(), array: array() },
            JoinError::HoldsBadBlocks { drive: drive(), array: array() },
            JoinError::NotInSync { old: drive() },
            JoinError::NoMember { drive: drive(), array: array() },
            JoinError::SameMember { drive: drive(), other: other(), array: array() },
            JoinError::BlocksTooLarge { drive: drive(), block_bytes: 4096, array: array(), array_bytes: 512 },
            JoinError::NoRedundancy { level: Level::Raid0 },
            JoinError::ChangedMeanwhile { drive: drive() },
            AdoptError::Unsuited {
                drive: drive(),
                array: array(),
                reason: Unsuited::TooSmall { missing_bytes: 4096, needed_bytes: 1 << 40 },
            }
            .into(),
            Refusal::Stops.into(),
        ];
        for refusal in refusals {
            let words = Words::from(&refusal);
            let said = words.said.unwrap_or_else(|| panic!("{refusal:?} has no sentence"));
            assert_eq!((words.text, said.to_string()), (refusal.to_string(), refusal.to_string()));
        }
        let reason = Unfilled::SlotTaken { slot: 3 };
        let with_text_alone = [
            JoinError::Carries { carried: vec![carried(drive()), carried(other())] },
            JoinError::CannotReturn { drive: "/dev/my disk".into(), part: "tank-span0".into(), array: array(), reason },
            JoinError::NoSuchPart { name: "lake".into(), names: vec![array(), "tank-span0".into()] },
        ];
        let texts = with_text_alone.map(|refusal| {
            let words = Words::from(&refusal);
            assert_eq!(words.said, None, "{refusal:?}");
            words.text
        });
        assert_eq!(
            texts,
            [
                "/dev/a carries a member of array \"lake\"; /dev/b carries a member of array \"lake\": nothing was written; --force \
                 overwrites them",
                "/dev/my disk cannot return to \"tank-span0\", as slot 3 has another member: it was left as it is; `stria add tank \
                 '/dev/my disk'` makes it a new spare, and `stria wipe '/dev/my disk'` a blank drive",
                "there is no array or span \"lake\"; there are tank, tank-span0",
            ]
        );
    }
}
