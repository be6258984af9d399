//! The sentences of why an array does not start, and why a drive stays out of its array.

use crate::words::error::{Cause, Causes, ErrorSentence, Words};
use crate::words::warning::WarningSentence;
use crate::words::warning_values::Updates;
use stria_block::show_size;
use stria_format::md::assemble::{AssembleError, Contradiction, LackOfLog, Obstacle, Remedy, StartWarning, Unusable, Verdict};
use stria_host::{OpenWarning, StaysOut};

impl From<&AssembleError> for Words {
    fn from(error: &AssembleError) -> Self {
        (error, "").into()
    }
}

/// The error, and what stands behind it in the same text.
impl From<(&AssembleError, &str)> for Words {
    fn from((error, more): (&AssembleError, &str)) -> Self {
        let cause = if more.is_empty() { of_obstacle(&error.reason) } else { None };
        let reason = format!("{}{more}", error.reason);
        ErrorSentence::CannotStart { array: error.array.clone(), reason, cause: cause.into() }.into()
    }
}

/// `None`: it has text alone.
fn of_obstacle(obstacle: &Obstacle) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match obstacle.clone() {
        Obstacle::Copies { drive, other } => Say::CopiesOfOne { drive, other },
        Obstacle::FirmwareRaid { drive, mark } => {
            Say::MarkBehindData { drive, contents: mark.to_string(), sector: mark.start_sector.to_string() }
        }
        Obstacle::RunApart { drives, others } => Say::RunApart { drives: drives.join(", "), others: others.join(", ") },
        Obstacle::ClaimOneSlot { drive, other, slot } => Say::ClaimOneSlot { drive, other, slot },
        Obstacle::OtherSlot { drive, own_slot, other, slot } => {
            Say::ClaimsAnotherSlot { drive, own_slot: own_slot.to_string(), other, slot: slot.into() }
        }
        Obstacle::BlocksOfAllSmaller { block_bytes } => Say::BlocksOfAllSmaller { array_bytes: block_bytes.into() },
        Obstacle::LogOfAnotherVersion { drive, version } => Say::LogOfAnotherVersion { drive, version: version.to_string() },
        Obstacle::WriteBehind { drive } => Say::WriteBehind { drive },
        Obstacle::NoBitmapReadable { fault } => Say::NoBitmapReadable { fault },
        Obstacle::BitmapDoesNotFit { fault } => Say::BitmapDoesNotFit { fault },
        Obstacle::TooFew { slots, slot_count, survives, remedies } => {
            let survives = survives.map_or("none".to_owned(), |count| count.to_string());
            let advice = remedies.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let causes = Causes(remedies.into_iter().map(of_remedy).collect());
            match slots[..] {
                [slot] => Say::MemberMissing { slot_count, slot, survives, advice, causes },
                _ => {
                    let (missing_count, slots) = (slots.len(), list(&slots));
                    Say::MembersMissing { missing_count, slot_count, slots, survives, advice, causes }
                }
            }
        }
        Obstacle::Unclean { slots, slot_count, lack } => {
            let (reason, cause) = (lack.to_string(), Cause(Some(Box::new(of_lack(lack)))));
            match slots[..] {
                [slot] => Say::MemberMissingDirty { slot_count, slot, reason, cause },
                _ => {
                    let (missing_count, slots) = (slots.len(), list(&slots));
                    Say::MembersMissingDirty { missing_count, slot_count, slots, reason, cause }
                }
            }
        }
        Obstacle::LogIsForeign { excess } => Say::LogOfOthers { excess },
        Obstacle::CountsContradict { drive, events, other, other_events, why } => {
            let said = match why {
                Contradiction::TooFarApart => Say::CountsTooFarApart {},
                Contradiction::LossUnrecorded => Say::LossUnrecorded {},
            };
            let (events, other_events) = (events.to_string(), other_events.to_string());
            Say::CountsContradict { drive, events, other, other_events, reason: why.to_string(), cause: Some(said).into() }
        }
        Obstacle::Unserved(reason) => (&reason).into(),
        Obstacle::MemberUnserved { drive, reason } => {
            Say::MemberUnusable { drive, reason: reason.to_string(), cause: Some(Say::from(&reason)).into() }
        }
        Obstacle::BitmapUnserved { drive, reason } => {
            Say::MemberUnusable { drive, reason: reason.to_string(), cause: Some(Say::from(&reason)).into() }
        }
        Obstacle::StripUnserved { strip_sectors } => Say::StripUnserved { strip_sectors },
        Obstacle::NoCopies { layout } => Say::CopiesUnserved { layout: layout.to_string() },
        Obstacle::ShapeUnserved { reason } => {
            Say::ShapeUnserved { reason: reason.to_string(), cause: Some(Say::from(&reason)).into() }
        }
        Obstacle::ZonesUnknown => Say::ZonesUnrecorded {},
        Obstacle::WithoutUpper { upper, fault } => Say::WithoutUpper { upper, fault },
        Obstacle::NotReadBack => Say::WrittenNotReadBack {},
        Obstacle::Gone => Say::NoLongerOnDrives {},
        Obstacle::Unready { .. } => return None,
    })
}

fn of_lack(lack: LackOfLog) -> ErrorSentence {
    match lack {
        LackOfLog::None => ErrorSentence::NoLogCovers {},
        LackOfLog::Damaged(drives) => ErrorSentence::LogIsDamaged { drives: drives.join(", ") },
    }
}

fn of_remedy(remedy: Remedy) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match remedy {
        Remedy::Missed { drive, slot, updates: 1 } => Say::MemberMissedOne { drive, slot },
        Remedy::Missed { drive, slot, updates } => Say::MemberMissed { drive, slot, update_count: updates },
        Remedy::Unusable { drive, reason } => {
            let cause = of_unusable(&reason)?;
            Say::MemberUnusable { drive, reason: reason.to_string(), cause: Some(cause).into() }
        }
        Remedy::Attach { others_are_told: false } => Say::AttachThem {},
        Remedy::Attach { others_are_told: true } => Say::AttachMissing {},
        Remedy::Force { drives, is_lossy: false } => Say::AttachOrForce { drives: drives.join(", ") },
        Remedy::Force { drives, is_lossy: true } => Say::AttachOrForceLossy { drives: drives.join(", ") },
    })
}

/// The sentence of why a drive is of no use to its array; `None`: it has text alone.
pub fn of_unusable(reason: &Unusable) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match reason.clone() {
        Unusable::AnotherShape => Say::AnotherShape {},
        Unusable::TooSmall { missing_bytes, needed_bytes } => {
            Say::UnusableTooSmall { missing: show_size(missing_bytes), needed: show_size(needed_bytes) }
        }
        Unusable::Journal => Say::JournalDevice {},
        Unusable::CopyOf { other } => Say::CopyOfMember { other },
        Unusable::SameNumber { other, number } => Say::AddAnewNumber { other, number: number.to_string() },
        Unusable::Outdated { other, slot } => Say::OlderThanRival { other, slot },
        Unusable::PutInByForce { drive, slot } => Say::PutInByForce { drive, slot },
        Unusable::NoSpaceForBitmap => Say::OwnBitmapTooShort {},
        Unusable::NoSpaceForLog => Say::OwnLogTooShort {},
        Unusable::OtherLog => Say::OnePartialLog {},
        Unusable::Unserved(reason) => (&reason).into(),
        Unusable::UnservedBitmap(reason) => (&reason).into(),
        Unusable::NoSuchSlot { slot, slot_count } => Say::ClaimsNoSlot { slot: slot.into(), slot_count },
        Unusable::ImpossibleNumber { number } => Say::NumberImpossible { number: number.to_string() },
        Unusable::OtherVersion { minor, others_minor } => {
            Say::SuperblockOfOtherVersion { version: format!("1.{minor}"), others: format!("1.{others_minor}") }
        }
        Unusable::BadBlocks { .. } => return None,
    })
}

/// The sentence of a warning about an array that was opened; `None`: it has text alone.
pub fn of_opening(warning: &OpenWarning) -> Option<WarningSentence> {
    use WarningSentence as Say;
    let OpenWarning::Start(warning) = warning else { return None };
    Some(match warning.clone() {
        StartWarning::MemberUsed { drive, slot, updates, keeps_slot: true } => {
            Say::MemberUsedTorn { drive, slot, updates: Updates(updates) }
        }
        StartWarning::MemberUsed { drive, slot, updates, keeps_slot: false } => {
            Say::MemberUsedLossy { drive, slot, updates: Updates(updates) }
        }
        StartWarning::BitmapMadeAnew => Say::BitmapMadeAnew {},
        StartWarning::LogIsForeign { excess } => Say::LogIsForeign { excess },
        StartWarning::LogUnreadable { drive, reason } => Say::LogUnreadable { drive, reason },
        StartWarning::Dirty { lack } => {
            Say::StartedDirty { reason: lack.to_string(), cause: Cause(Some(Box::new(of_lack(lack)))) }
        }
    })
}

/// The sentence of a drive that stays out of its array; `None`: it takes part.
pub fn of_staying_out(out: &StaysOut) -> Option<WarningSentence> {
    use WarningSentence as Say;
    let (drive, array) = (out.drive.clone(), out.array.clone());
    Some(match &out.verdict {
        Verdict::Away { slot, events_behind, .. } => {
            let slot_text = slot.map_or("unknown".into(), |slot| slot.to_string());
            Say::StaysOutBehind { drive, slot_text, updates: Updates(*events_behind), array }
        }
        Verdict::Faulty => Say::StaysOutFailed { drive, array },
        Verdict::Unusable { reason } => {
            Say::StaysOutBecause { drive, array, reason: reason.to_string(), cause: of_unusable(reason).into() }
        }
        Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. } | Verdict::Spare => return None,
    })
}

fn list(slots: &[usize]) -> String {
    slots.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{ErrorSentence as Say, *};
    use std::path::PathBuf;
    use stria_array::{GeometryError, Level};
    use stria_format::md::assemble::AssembleErrorKind;
    use stria_format::md::{Unserved, UnservedBitmap};

    #[test]
    fn an_array_that_cannot_start_says_why_for_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = |name: &str, level: &str, count: usize| -> Vec<PathBuf> {
            let drives: Vec<PathBuf> = (0..count).map(|index| folder.path().join(format!("{name}{index}"))).collect();
            for drive in &drives {
                std::fs::File::create(drive).and_then(|file| file.set_len(32 << 20)).expect("a file");
            }
            let spec = stria_host::CreateSpec {
                assume_clean: true,
                ..stria_host::CreateSpec::new(name, level.parse().expect("a level"), &drives)
            };
            stria_host::create(&spec).expect("an array");
            drives
        };
        let refusal = |drives: &[PathBuf]| {
            let found =
                stria_host::find(drives, stria_host::OpenOptions { read_only: true, ..Default::default() }).expect("drives");
            found.assemblies[0].outcome.clone().expect_err("too few are here")
        };
        let missing = |error: &AssembleError, array: &str| match Words::from(error).said {
            Some(Say::CannotStart { array: found, cause: Cause(Some(cause)), .. }) if found == array => *cause,
            said => panic!("{error}: {said:?}"),
        };
        let tank = made("tank", "5", 4);
        let Say::MembersMissing { missing_count, slot_count, slots, survives, causes, .. } =
            missing(&refusal(&tank[2..]), "tank")
        else {
            panic!("{}", refusal(&tank[2..]))
        };
        assert_eq!((missing_count, slot_count, &*slots, &*survives), (2, 4, "0, 1", "1"));
        assert_eq!(causes.0, Some(vec![Say::AttachThem {}]));
        let lake = made("lake", "0", 2);
        let Say::MemberMissing { slot_count, slot, survives, .. } = missing(&refusal(&lake[..1]), "lake") else {
            panic!("{}", refusal(&lake[..1]))
        };
        assert_eq!((slot_count, slot, &*survives), (2, 1, "none"));
        // A copy of a member is none, and the array lacks nothing else.
        let copy = folder.path().join("copy");
        std::fs::copy(&tank[0], &copy).expect("a copy");
        let error = refusal(&[&tank[..], &[copy]].concat());
        assert!(matches!(missing(&error, "tank"), Say::CopiesOfOne { .. }), "{error}");
    }

    /// Programs get the sentence, and terminals the text of the crate that warns: both say the same.
    #[test]
    fn a_warning_of_a_start_and_its_sentence_have_the_same_words() {
        let drive = || "/dev/a".to_owned();
        let warnings = [
            StartWarning::MemberUsed { drive: drive(), slot: 3, updates: 7, keeps_slot: true },
            StartWarning::MemberUsed { drive: drive(), slot: 3, updates: 1, keeps_slot: false },
            StartWarning::BitmapMadeAnew,
            StartWarning::LogIsForeign { excess: "more than 64 records".into() },
            StartWarning::LogUnreadable { drive: drive(), reason: "medium error".into() },
            StartWarning::Dirty { lack: LackOfLog::None },
            StartWarning::Dirty { lack: LackOfLog::Damaged(vec![drive(), "/dev/b".into()]) },
        ];
        for warning in warnings {
            let said = of_opening(&OpenWarning::Start(warning.clone()));
            assert_eq!(said.map(|said| said.to_string()), Some(warning.to_string()));
        }
    }

    fn obstacles() -> Vec<Obstacle> {
        let (drive, other) = (|| "/dev/a".to_owned(), || "/dev/b".to_owned());
        let unusable = [
            Unusable::AnotherShape,
            Unusable::TooSmall { missing_bytes: 4096, needed_bytes: 1 << 40 },
            Unusable::Journal,
            Unusable::CopyOf { other: other() },
            Unusable::SameNumber { other: other(), number: 3 },
            Unusable::Outdated { other: other(), slot: 2 },
            Unusable::PutInByForce { drive: other(), slot: 2 },
            Unusable::NoSpaceForBitmap,
            Unusable::NoSpaceForLog,
            Unusable::OtherLog,
            Unusable::Unserved(Unserved::Reshape),
            Unusable::UnservedBitmap(UnservedBitmap::Version { version: 9 }),
            Unusable::NoSuchSlot { slot: 7, slot_count: 4 },
            Unusable::ImpossibleNumber { number: 70_000 },
            Unusable::OtherVersion { minor: 0, others_minor: 2 },
        ];
        let unusable = unusable.into_iter().map(|reason| Remedy::Unusable { drive: drive(), reason });
        let remedies = [
            Remedy::Missed { drive: drive(), slot: 0, updates: 1 },
            Remedy::Missed { drive: drive(), slot: 0, updates: 7 },
            Remedy::Attach { others_are_told: false },
            Remedy::Attach { others_are_told: true },
            Remedy::Force { drives: vec![drive(), other()], is_lossy: false },
            Remedy::Force { drives: vec![drive()], is_lossy: true },
        ];
        let remedies: Vec<Remedy> = unusable.chain(remedies).collect();
        let contradiction =
            |why| Obstacle::CountsContradict { drive: drive(), events: 1 << 40, other: other(), other_events: 7, why };
        vec![
            Obstacle::Copies { drive: drive(), other: other() },
            Obstacle::RunApart { drives: vec![drive()], others: vec![other(), "/dev/c".into()] },
            Obstacle::ClaimOneSlot { drive: drive(), other: other(), slot: 1 },
            Obstacle::OtherSlot { drive: drive(), own_slot: 1, other: other(), slot: 2 },
            Obstacle::BlocksOfAllSmaller { block_bytes: 4096 },
            Obstacle::LogOfAnotherVersion { drive: drive(), version: 9 },
            Obstacle::WriteBehind { drive: drive() },
            Obstacle::LogIsForeign { excess: "more than 64 records".into() },
            contradiction(Contradiction::TooFarApart),
            contradiction(Contradiction::LossUnrecorded),
            Obstacle::Unserved(Unserved::JournalDevice),
            Obstacle::MemberUnserved { drive: drive(), reason: Unserved::Cluster },
            Obstacle::BitmapUnserved { drive: drive(), reason: UnservedBitmap::Lockless },
            Obstacle::StripUnserved { strip_sectors: 3000 },
            Obstacle::NoCopies { layout: Level::Raid10.default_layout() },
            GeometryError::TooLarge { count: 384, sectors: 1 << 50 }.into(),
            Obstacle::ZonesUnknown,
            Obstacle::WithoutUpper { upper: "0a:1b".into(), fault: "it is damaged".into() },
            Obstacle::NotReadBack,
            Obstacle::Gone,
            Obstacle::NoBitmapReadable { fault: "/dev/a: it is damaged".into() },
            Obstacle::BitmapDoesNotFit { fault: "it is damaged".into() },
            Obstacle::TooFew { slots: vec![1], slot_count: 2, survives: None, remedies: remedies[..1].to_vec() },
            Obstacle::TooFew { slots: vec![1, 2], slot_count: 4, survives: Some(1), remedies },
            Obstacle::Unclean { slots: vec![1], slot_count: 4, lack: LackOfLog::None },
            Obstacle::Unclean { slots: vec![1, 3], slot_count: 5, lack: LackOfLog::Damaged(vec![drive(), other()]) },
        ]
    }

    /// Programs get the sentence, and terminals the text of the crate that refuses: both say the same.
    #[test]
    fn an_obstacle_and_its_sentence_have_the_same_words() {
        for reason in obstacles() {
            let said = of_obstacle(&reason).unwrap_or_else(|| panic!("{reason:?} has no sentence"));
            assert_eq!(said.to_string(), reason.to_string());
            if let ErrorSentence::MembersMissing { causes, advice, .. } = &said {
                let causes: Vec<String> = causes.0.as_ref().expect("all have one").iter().map(ToString::to_string).collect();
                assert_eq!(causes.join("; "), *advice);
            }
            let error = AssembleError { array: "tank".into(), kind: AssembleErrorKind::Conflict, reason };
            let words = Words::from(&error);
            assert_eq!((words.text, words.said.map(|said| said.to_string())), (error.to_string(), Some(error.to_string())));
        }
    }

    #[test]
    fn a_reason_with_text_alone_stays_as_it_is() {
        let unready = || Obstacle::Unready { fault: "it rains".into() };
        assert_eq!(of_obstacle(&unready()), None);
        assert_eq!(of_unusable(&Unusable::BadBlocks { fault: "it rains".into() }), None);
        let error = AssembleError { array: "tank".into(), kind: AssembleErrorKind::Conflict, reason: unready() };
        let words = Words::from((&error, "; and it snows"));
        assert!(matches!(words.said, Some(ErrorSentence::CannotStart { cause: Cause(None), .. })), "{words}");
        assert_eq!(words.text, "cannot start array \"tank\": it rains; and it snows");
    }
}
