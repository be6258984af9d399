//! The sentences of the engine's refusals.

use crate::words::error::{ErrorSentence, Words};
use stria_array::{NoNewMembers, Refusal};
use stria_block::show_size;
use stria_format::md::recorder::AdoptError;

impl From<Refusal> for Words {
    fn from(refusal: Refusal) -> Self {
        use ErrorSentence as Say;
        match refusal {
            Refusal::ScrubWhile { running, percent } => Say::ScrubWhile { task: running.to_string(), percent },
            Refusal::ScrubWhilePaused => Say::ScrubWhilePaused {},
            Refusal::ScrubOfFailed => Say::ScrubOfFailed {},
            Refusal::ScrubWithoutRedundancy(level) => Say::ScrubWithoutRedundancy { level: level.to_string() },
            Refusal::ScrubBeforeResync => Say::ScrubBeforeResync {},
            Refusal::RepairOfReadOnly => Say::RepairOfReadOnly {},
            Refusal::ReadOnly => Say::MembersStay {},
            Refusal::NoMember(member) => Say::NoSuchMember { number: member.0 },
            Refusal::FailedAlready(drive) => Say::FailedAlready { drive },
            Refusal::NoRedundancyLeft(drive) => Say::NoRedundancyLeft { drive },
            Refusal::FailsNotYet(drive) => Say::FailsNotYet { drive },
            Refusal::FailedAndNotDurable(drive) => Say::FailedAndNotDurable { drive },
            Refusal::InUse(drive) => Say::RemovedWhileInUse { drive },
            Refusal::NotReplaceable(drive) => Say::NotReplaceable { drive },
            Refusal::ReplacedAlready(drive) => Say::ReplacedAlready { drive },
            Refusal::NoSpare(drive) => Say::NoSpare { drive },
            Refusal::Stops => Say::EngineStops {},
            Refusal::Replays => Say::EngineReplays {},
            Refusal::DropsNotDurable => Say::EngineStarts {},
            Refusal::NoUseForSpare(level) => Say::NoUseForSpare { level: level.to_string() },
            Refusal::TooSmall { name, missing_bytes, needed_bytes } => {
                Say::TooSmall { drive: name, missing: show_size(missing_bytes), needed: show_size(needed_bytes) }
            }
            Refusal::BlocksTooLarge { name, block_bytes, array_bytes } => {
                Say::BlocksOfDriveTooLarge { drive: name, drive_bytes: block_bytes.into(), array_bytes: array_bytes.into() }
            }
            Refusal::SlotTaken(slot) => Say::SlotTaken { slot },
            Refusal::NotAdmitted(why) => match why.reason::<AdoptError>() {
                Some(error) => return error.into(),
                None if why.reason::<NoNewMembers>().is_some() => Say::NoNewMembers {},
                None => return why.to_string().into(),
            },
            Refusal::StopFailed(error) => return (&error).into(),
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_array::{Level, MemberId, NotAdmitted, SweepKind};
    use stria_format::md::recorder::Unreturnable;

    /// Programs get the sentence, and logs the engine's own text: both say the same.
    #[test]
    fn a_refusal_and_its_sentence_have_the_same_words() {
        let drive = || "/dev/sdb".to_owned();
        let refusals = [
            Refusal::ScrubWhile { running: SweepKind::Rebuild, percent: 41 },
            Refusal::ScrubWhilePaused,
            Refusal::ScrubOfFailed,
            Refusal::ScrubWithoutRedundancy(Level::Raid0),
            Refusal::ScrubBeforeResync,
            Refusal::RepairOfReadOnly,
            Refusal::ReadOnly,
            Refusal::NoMember(MemberId(7)),
            Refusal::FailedAlready(drive()),
            Refusal::NoRedundancyLeft(drive()),
            Refusal::FailsNotYet(drive()),
            Refusal::FailedAndNotDurable(drive()),
            Refusal::InUse(drive()),
            Refusal::NotReplaceable(drive()),
            Refusal::ReplacedAlready(drive()),
            Refusal::NoSpare(drive()),
            Refusal::Stops,
            Refusal::Replays,
            Refusal::DropsNotDurable,
            Refusal::NoUseForSpare(Level::Linear),
            Refusal::TooSmall { name: drive(), missing_bytes: 1 << 20, needed_bytes: 1 << 30 },
            Refusal::BlocksTooLarge { name: drive(), block_bytes: 4096, array_bytes: 512 },
            Refusal::SlotTaken(3),
            NotAdmitted::new(NoNewMembers).into(),
            NotAdmitted::new(AdoptError::from(Unreturnable::RebuildUnended)).into(),
        ];
        for refusal in refusals {
            let words = Words::from(refusal.clone());
            assert_eq!(words.text, refusal.to_string());
            assert_eq!(words.said.map(|said| said.to_string()), Some(refusal.to_string()), "{refusal:?}");
        }
        let unknown = NotAdmitted::new(std::io::Error::other("it rains"));
        assert_eq!(Words::from(Refusal::from(unknown)), Words { text: "it rains".into(), said: None });
    }
}
