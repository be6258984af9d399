//! The sentences of why a drive may not join an array.

use crate::words::error::{Cause, ErrorSentence, Words};
use stria_block::show_size;
use stria_format::md::recorder::{AdoptError, Unreturnable, Unsuited};
use stria_host::{JoinError, Unfilled};

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
        JoinError::CannotReturn { drive, part, array, reason } => {
            let cause = Cause(Some(Box::new(of_unfilled(&reason))));
            Say::CannotReturn { drive, part, reason: reason.to_string(), cause, array }
        }
        JoinError::NoSuchPart { name, names } => Say::NoSuchPart { name, names: names.into_iter().collect() },
        JoinError::Adopt(error) => return of_adopt(&error),
        JoinError::Engine(refusal) => return Words::from(refusal).said,
    })
}

impl From<&AdoptError> for Words {
    fn from(error: &AdoptError) -> Self {
        Self { text: error.to_string(), said: of_adopt(error) }
    }
}

/// `None`: it has text alone.
fn of_adopt(error: &AdoptError) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match error.clone() {
        AdoptError::Unsuited { drive, array, reason: Unsuited::TooSmall { missing_bytes, needed_bytes } } => {
            Say::TooSmallToAdopt { drive, array, missing: show_size(missing_bytes), needed: show_size(needed_bytes) }
        }
        AdoptError::Unsuited { drive, array, reason } => {
            Say::CannotJoin { drive, array, reason: reason.to_string(), cause: Cause(Some(Box::new(of_unsuited(&reason)))) }
        }
        AdoptError::Unreturnable(reason) => of_unreturnable(&reason),
        AdoptError::Unreadable { .. } => return None,
        AdoptError::ReturnsWithoutLog { drive } => Say::ReturnsWithoutLog { drive },
        AdoptError::ReturnsWithoutNumber { drive } => Say::ReturnsWithoutNumber { drive },
        AdoptError::BadBlocksFull { drive, count } => Say::BadBlockLogFull { drive, entry_count: count },
    })
}

fn of_unsuited(reason: &Unsuited) -> ErrorSentence {
    use ErrorSentence as Say;
    match *reason {
        Unsuited::NoRedundancy => Say::NoRedundancyToJoin {},
        Unsuited::Member => Say::IsMemberAlready {},
        Unsuited::SuperblocksAtTheEnd => Say::SuperblocksAtEnd {},
        Unsuited::TooSmall { missing_bytes, needed_bytes } => {
            Say::MemberTooSmall { missing: show_size(missing_bytes), needed: show_size(needed_bytes) }
        }
        Unsuited::Blocks { block_bytes } => Say::BlocksDoNotFit { block_bytes: block_bytes.into() },
        Unsuited::NoNumber => Say::NumbersTaken {},
        Unsuited::NoSpaceForLog => Say::NoSpaceForLog {},
        Unsuited::NoSpaceForBitmap => Say::NoSpaceForBitmap {},
    }
}

fn of_unfilled(reason: &Unfilled) -> ErrorSentence {
    match reason {
        Unfilled::CutShort => ErrorSentence::WasCutShort {},
        Unfilled::SlotTaken { slot } => ErrorSentence::SlotHasAnother { slot: *slot },
        Unfilled::Unreturnable(reason) => of_unreturnable(reason),
    }
}

/// The sentence of why a member that was away cannot return by the bitmap.
pub fn of_unreturnable(reason: &Unreturnable) -> ErrorSentence {
    use ErrorSentence as Say;
    match reason {
        Unreturnable::AnotherArray => Say::OfAnotherArray {},
        Unreturnable::AnotherVersion => Say::OfAnotherVersion {},
        Unreturnable::ShapeChanged => Say::ShapeHasChanged {},
        Unreturnable::Unserved(unserved) => unserved.into(),
        Unreturnable::TooSmall => Say::DataAreaTooSmall {},
        Unreturnable::HeldNoSlot => Say::HeldNoSlot {},
        Unreturnable::NoSuchSlot { slot } => Say::HeldSlotGone { slot: usize::from(*slot) },
        Unreturnable::RebuildUnended => Say::RebuildWasUnended {},
        Unreturnable::RunWithout => Say::RanWithoutMembers {},
        Unreturnable::RunWithOthers => Say::RanWithOthers {},
        Unreturnable::RunElsewhere => Say::RanElsewhere {},
        Unreturnable::NoBitmap => Say::NoBitmapKept {},
        Unreturnable::NoSpaceForBitmap => Say::NoSpaceForTheBitmap {},
        Unreturnable::LeftTooEarly { left, covered } => {
            Say::LeftTooEarly { left: left.to_string(), covered: covered.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_array::{Level, Refusal};
    use stria_format::md::Unserved;
    use stria_host::Carried;

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
            JoinError::NoSuchPart { name: "lake".into(), names: vec![array(), "tank-span0".into()] },
            AdoptError::ReturnsWithoutLog { drive: drive() }.into(),
            AdoptError::ReturnsWithoutNumber { drive: drive() }.into(),
            AdoptError::BadBlocksFull { drive: drive(), count: 600 }.into(),
        ];
        let unsuited = [
            Unsuited::NoRedundancy,
            Unsuited::Member,
            Unsuited::SuperblocksAtTheEnd,
            Unsuited::Blocks { block_bytes: 4096 },
            Unsuited::NoNumber,
            Unsuited::NoSpaceForLog,
            Unsuited::NoSpaceForBitmap,
        ];
        let unsuited = unsuited.map(|reason| AdoptError::Unsuited { drive: drive(), array: array(), reason }.into());
        let unreturnable = [
            Unreturnable::AnotherArray,
            Unreturnable::AnotherVersion,
            Unreturnable::ShapeChanged,
            Unreturnable::Unserved(Unserved::Reshape),
            Unreturnable::TooSmall,
            Unreturnable::HeldNoSlot,
            Unreturnable::NoSuchSlot { slot: 9 },
            Unreturnable::RebuildUnended,
            Unreturnable::RunWithout,
            Unreturnable::RunWithOthers,
            Unreturnable::RunElsewhere,
            Unreturnable::NoBitmap,
            Unreturnable::NoSpaceForBitmap,
            Unreturnable::LeftTooEarly { left: 7, covered: 9 },
        ];
        for reason in &unreturnable {
            assert_eq!(of_unreturnable(reason).to_string(), reason.to_string());
        }
        let unfilled = unreturnable.into_iter().map(Unfilled::from).chain([Unfilled::CutShort, Unfilled::SlotTaken { slot: 3 }]);
        let cannot_return = unfilled.map(|reason| JoinError::CannotReturn {
            drive: "/dev/my disk".into(),
            part: "tank-span0".into(),
            array: array(),
            reason,
        });
        for refusal in refusals.into_iter().chain(unsuited).chain(cannot_return) {
            let words = Words::from(&refusal);
            let said = words.said.unwrap_or_else(|| panic!("{refusal:?} has no sentence"));
            assert_eq!((words.text, said.to_string()), (refusal.to_string(), refusal.to_string()));
        }
        let with_text_alone = [JoinError::Carries { carried: vec![carried(drive()), carried(other())] }];
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
            ]
        );
    }
}
