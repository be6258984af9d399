//! The events of arrays and drives, in sentences.

use crate::HostedDrive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use stria_array::{ArraySector, DropCause, Event, Findings, MemberId, MemberState, StopCause, SweepKind};
use stria_sentence::{Names, schemars, sentences, serde};
use stria_tree::Tree;

/// A sweep by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "stria_sentence::serde", rename_all = "lowercase")]
#[schemars(crate = "stria_sentence::schemars")]
pub enum Sweep {
    /// Redundancy is computed anew after a crash, or for the first time.
    Resync,
    /// A drive is filled.
    Rebuild,
    /// Redundancy is compared.
    Scrub,
    /// Redundancy is compared and repaired.
    Repair,
}

impl From<SweepKind> for Sweep {
    fn from(kind: SweepKind) -> Self {
        match kind {
            SweepKind::Resync => Self::Resync,
            SweepKind::Rebuild => Self::Rebuild,
            SweepKind::Scrub { repair: false } => Self::Scrub,
            SweepKind::Scrub { repair: true } => Self::Repair,
        }
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resync => "resync",
            Self::Rebuild => "rebuild",
            Self::Scrub => "scrub",
            Self::Repair => "scrub with repair",
        })
    }
}

/// A drive with sectors that a scrub found wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "stria_sentence::serde")]
#[schemars(crate = "stria_sentence::schemars")]
pub struct WrongDrive {
    /// The drive.
    pub drive: String,
    /// Its wrong sectors.
    pub sectors: u64,
}

/// Drives with sectors that a scrub found wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "stria_sentence::serde", transparent)]
#[schemars(crate = "stria_sentence::schemars")]
pub struct WrongDrives(pub Vec<WrongDrive>);

impl fmt::Display for WrongDrives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> =
            self.0.iter().map(|WrongDrive { drive, sectors }| format!("{sectors} wrong on {drive}")).collect();
        f.write_str(&words.join("; "))
    }
}

sentences! {
    /// An event of an array or its drives, for programs: `code` stays the same when its words change.
    pub enum HostSentence {
        MemberDropped { drive: String, slot: usize, reason: String } => "{drive} (slot {slot}) was dropped: {reason}",
        SpareDropped { drive: String, reason: String } => "{drive} (a spare) was dropped: {reason}",
        MemberReplaced { drive: String, slot: usize } => "{drive} (slot {slot}) was dropped: replaced",
        MemberFailedOnCommand { drive: String, slot: usize } => "{drive} (slot {slot}) was dropped: failed on command",
        MemberGone { drive: String, slot: usize, reason: String } => "{drive} (slot {slot}) is gone, and no redundancy replaces it: requests that need it fail ({reason}); stop the array, bring the drive back as it was, and serve again",
        SpareGone { drive: String, reason: String } => "{drive} (a spare) is gone, and no redundancy replaces it: requests that need it fail ({reason}); stop the array, bring the drive back as it was, and serve again",
        NoSpaceLeft { drive: String, reason: String } => "{drive} has no space left: writes that need space on it fail with \"no space\" ({reason}); free space on its file system or pool, or `fail` it if the other members have space",
        SuperblockRefused { drive: String, reason: String } => "{drive} takes no superblock updates, and the array cannot do without it: writes and flushes fail until it does ({reason}); copy off what you need and replace this drive",
        SpareTaken { drive: String, slot: usize } => "spare {drive} takes slot {slot}",
        MemberInSync { drive: String, slot: usize } => "{drive} is in sync in slot {slot}",
        ReadCorrected { drive: String, sectors: u64, start_sector: u64 } => "{drive}: {sectors} unreadable sectors at {start_sector} were recovered from redundancy and rewritten",
        WrongBytes { drive: String, sectors: u64, start_sector: u64 } => "{drive}: {sectors} sectors at {start_sector} do not match their checksums",
        WrongBytesForGood { drive: String, sectors: u64, start_sector: u64 } => "{drive}: {sectors} sectors at {start_sector} do not match their checksums: the drive changed them, or Linux wrote to the array, which leaves no trace at this level; `stria serve --forget-checksums` accepts the present data",
        BadBlocks { drive: String, sectors: u64, start_sector: u64 } => "{drive}: {sectors} sectors at {start_sector} are unrecoverable: too many members are lost; reads fail until they are rewritten",
        Unreadable { sectors: u64, sync_sector: u64 } => "{sectors} sectors near {sync_sector} cannot be read from any member: clients' reads of them fail until they are rewritten",
        SweepStarted { sweep: Sweep } => "{sweep} started",
        SweepFinished { sweep: Sweep, ms: u64, mismatch_sectors: u64 } => "{sweep} finished in {ms} ms, {mismatch_sectors} sectors with mismatches",
        ScrubLeftUnchecked { sweep: Sweep, ms: u64, mismatch_sectors: u64, unchecked_sectors: u64 } => "{sweep} finished in {ms} ms, {mismatch_sectors} sectors with mismatches; {unchecked_sectors} sectors could not be compared, as members are missing or cannot be read: scrub again when the array is optimal",
        ScrubFoundWrongInPart { sweep: Sweep, ms: u64, mismatch_sectors: u64, unchecked_sectors: u64, wrong: WrongDrives } => "{sweep} finished in {ms} ms, {mismatch_sectors} sectors with mismatches; {wrong}; {unchecked_sectors} sectors could not be compared, as members are missing or cannot be read: scrub again when the array is optimal",
        SweepFoundWrong { sweep: Sweep, ms: u64, mismatch_sectors: u64, wrong: WrongDrives } => "{sweep} finished in {ms} ms, {mismatch_sectors} sectors with mismatches; {wrong}",
        RepairFinished { ms: u64, mismatch_sectors: u64 } => "scrub with repair finished in {ms} ms: {mismatch_sectors} sectors did not match, and were repaired",
        RepairFoundWrong { ms: u64, mismatch_sectors: u64, wrong: WrongDrives } => "scrub with repair finished in {ms} ms: {mismatch_sectors} sectors did not match, and were repaired; {wrong}",
        RepairLeftUnchecked { ms: u64, mismatch_sectors: u64, unchecked_sectors: u64 } => "scrub with repair finished in {ms} ms: {mismatch_sectors} sectors did not match, and were repaired; {unchecked_sectors} sectors could not be compared, as members are missing or cannot be read: scrub again when the array is optimal",
        RepairFoundWrongInPart { ms: u64, mismatch_sectors: u64, unchecked_sectors: u64, wrong: WrongDrives } => "scrub with repair finished in {ms} ms: {mismatch_sectors} sectors did not match, and were repaired; {wrong}; {unchecked_sectors} sectors could not be compared, as members are missing or cannot be read: scrub again when the array is optimal",
        SweepPaused { sweep: Sweep, percent: u64 } => "{sweep} stopped: paused at {percent} %",
        SweepGivesWay { sweep: Sweep, percent: u64 } => "{sweep} stopped: paused at {percent} % for a rebuild, and goes on after it",
        SweepCancelled { sweep: Sweep, percent: u64, at_sector: u64 } => "{sweep} stopped: cancelled at {percent} %; `stria scrub --from {at_sector}s` resumes it",
        SweepEndsWithArray { sweep: Sweep, percent: u64, at_sector: u64 } => "{sweep} stopped: the array stops, at {percent} %; `stria scrub --from {at_sector}s` resumes it",
        SweepStopped { sweep: Sweep, reason: String } => "{sweep} stopped: {reason}",
        MismatchNamed { sectors: u64, sync_sector: u64, drive: String, slot: usize } => "mismatch in {sectors} sectors near {sync_sector}: {drive} (slot {slot}) is wrong",
        MismatchRewritten { sectors: u64, sync_sector: u64, drive: String, slot: usize } => "mismatch in {sectors} sectors near {sync_sector}: {drive} (slot {slot}) was wrong and was rewritten from the others",
        MismatchUnnamed { sectors: u64, sync_sector: u64 } => "mismatch in {sectors} sectors near {sync_sector}: data and parity differ, and redundancy cannot name the wrong member of the stripe",
        MismatchOfCopies { sectors: u64, sync_sector: u64, drives: Names } => "mismatch in {sectors} sectors near {sync_sector}: the copies on {drives} differ, and redundancy cannot name the wrong one",
        MismatchCopied { sectors: u64, sync_sector: u64, drives: Names } => "mismatch in {sectors} sectors near {sync_sector}: the copies on {drives} differed, and redundancy cannot name the wrong one, so the first was copied to the others",
        MismatchParityMade { sectors: u64, sync_sector: u64 } => "mismatch in {sectors} sectors near {sync_sector}: redundancy cannot name the wrong member, so parity was made to match the data",
        DriveSilent { drive: String, seconds: u64 } => "{drive} has had a request outstanding for {seconds} s: requests that need it wait; check the drive and its cable; `stria explain` says whether the array can do without it",
        DriveAnswers { drive: String } => "{drive} answers again",
        FileDeleted { drive: String } => "the file of {drive} was deleted or replaced: its bytes are lost when the array stops; replace this drive, or copy the data off, before that",
    }
}

/// Why a member was dropped, without its name: what a drive says of itself begins with it.
pub fn bare_reason(cause: &DropCause, drive: &str) -> String {
    let reason = cause.to_string();
    reason.strip_prefix(&format!("member {drive}: ")).unwrap_or(&reason).to_owned()
}

/// An event of an array of the tree.
pub fn said(array: &Tree<HostedDrive>, event: &Event) -> HostSentence {
    use HostSentence as Say;
    let name = |member: &MemberId| array.name_of(*member);
    match event {
        Event::MemberFailed { member, slot, cause } => match (name(member), *slot, cause) {
            (drive, Some(slot), DropCause::Replaced) => Say::MemberReplaced { drive, slot },
            (drive, Some(slot), DropCause::Failed) => Say::MemberFailedOnCommand { drive, slot },
            (drive, Some(slot), cause) => Say::MemberDropped { reason: bare_reason(cause, &drive), drive, slot },
            (drive, None, cause) => Say::SpareDropped { reason: bare_reason(cause, &drive), drive },
        },
        Event::MemberGone { member, slot, cause } => match (name(member), *slot, cause.to_string()) {
            (drive, Some(slot), reason) => Say::MemberGone { drive, slot, reason },
            (drive, None, reason) => Say::SpareGone { drive, reason },
        },
        Event::NoSpace { member, error } => Say::NoSpaceLeft { drive: name(member), reason: error.to_string() },
        Event::SuperblockRefused { member, error } => Say::SuperblockRefused { drive: name(member), reason: error.to_string() },
        Event::SpareTaken { member, slot } => Say::SpareTaken { drive: name(member), slot: *slot },
        Event::MemberInSync { member, slot } => Say::MemberInSync { drive: name(member), slot: *slot },
        Event::ReadCorrected { member, start_sector, sectors } => {
            Say::ReadCorrected { drive: name(member), sectors: *sectors, start_sector: start_sector.get() }
        }
        Event::WrongBytes { member, start_sector, sectors } => {
            let (drive, sectors, start_sector) = (name(member), *sectors, start_sector.get());
            match array.geometry().level().is_redundant() {
                true => Say::WrongBytes { drive, sectors, start_sector },
                false => Say::WrongBytesForGood { drive, sectors, start_sector },
            }
        }
        Event::BadBlocks { member, start_sector, sectors } => {
            Say::BadBlocks { drive: name(member), sectors: *sectors, start_sector: start_sector.get() }
        }
        Event::Unreadable { sync_sector, sectors } => Say::Unreadable { sectors: *sectors, sync_sector: sync_sector.get() },
        Event::SweepStarted(kind) => Say::SweepStarted { sweep: (*kind).into() },
        Event::SweepFinished { kind, found, wrong, duration } => {
            let (sweep, ms) = (Sweep::from(*kind), duration / 1_000_000);
            let Findings { mismatch_sectors, unchecked_sectors } = *found;
            let is_repaired = sweep == Sweep::Repair && mismatch_sectors > 0;
            let blamed = |(member, sectors): &(MemberId, u64)| WrongDrive { drive: name(member), sectors: *sectors };
            let wrong = WrongDrives(wrong.iter().map(blamed).collect());
            match (is_repaired, wrong.0.is_empty(), unchecked_sectors) {
                (true, true, 0) => Say::RepairFinished { ms, mismatch_sectors },
                (true, true, _) => Say::RepairLeftUnchecked { ms, mismatch_sectors, unchecked_sectors },
                (true, false, 0) => Say::RepairFoundWrong { ms, mismatch_sectors, wrong },
                (true, false, _) => Say::RepairFoundWrongInPart { ms, mismatch_sectors, unchecked_sectors, wrong },
                (false, false, 0) => Say::SweepFoundWrong { sweep, ms, mismatch_sectors, wrong },
                (false, false, _) => Say::ScrubFoundWrongInPart { sweep, ms, mismatch_sectors, unchecked_sectors, wrong },
                (false, true, 0) => Say::SweepFinished { sweep, ms, mismatch_sectors },
                (false, true, _) => Say::ScrubLeftUnchecked { sweep, ms, mismatch_sectors, unchecked_sectors },
            }
        }
        Event::SweepStopped { kind, cause, at_sector, .. } => {
            let (sweep, at_sector) = ((*kind).into(), *at_sector);
            match cause.clone() {
                StopCause::Paused { percent } => Say::SweepPaused { sweep, percent },
                StopCause::GivesWay { percent } => Say::SweepGivesWay { sweep, percent },
                StopCause::Cancelled { percent } => Say::SweepCancelled { sweep, percent, at_sector },
                StopCause::ArrayStops { percent } => Say::SweepEndsWithArray { sweep, percent, at_sector },
                StopCause::Failed(fault) => Say::SweepStopped { sweep, reason: fault.to_string() },
            }
        }
        Event::Mismatch { sync_sector, sectors, culprit, repaired } => {
            let (sectors, sync_sector) = (*sectors, sync_sector.get());
            let is_mirror = array.geometry().level().parity_count() == 0;
            let drives = || copies_of(array, sync_sector, sectors);
            match (culprit, repaired) {
                (Some((member, slot)), false) => Say::MismatchNamed { sectors, sync_sector, drive: name(member), slot: *slot },
                (Some((member, slot)), true) => Say::MismatchRewritten { sectors, sync_sector, drive: name(member), slot: *slot },
                (None, false) if is_mirror => Say::MismatchOfCopies { sectors, sync_sector, drives: drives() },
                (None, true) if is_mirror => Say::MismatchCopied { sectors, sync_sector, drives: drives() },
                (None, false) => Say::MismatchUnnamed { sectors, sync_sector },
                (None, true) => Say::MismatchParityMade { sectors, sync_sector },
            }
        }
    }
}

/// The members in sync that hold these sectors of a mirror, the first copy first.
fn copies_of(array: &Tree<HostedDrive>, start: u64, sectors: u64) -> Names {
    let status = array.status();
    let (mut at, mut slots) = (start, Vec::new());
    while at < start + sectors {
        let (copies, run) = array.geometry().copies_of(ArraySector::new(at), start + sectors - at);
        slots.extend(copies.iter().map(|copy| copy.slot));
        at += run;
    }
    let holder =
        |slot: usize| status.members.iter().find(|member| member.slot == Some(slot) && member.state == MemberState::InSync);
    let mut known = BTreeSet::new();
    slots.retain(|slot| known.insert(*slot));
    slots.into_iter().filter_map(holder).map(|member| array.name_of(member.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::HostSentence as Say;
    use crate::checked::ADVICE;

    #[test]
    fn the_advice_on_wrong_bytes_is_that_of_the_failed_read() {
        let said = Say::WrongBytesForGood { drive: "a".into(), sectors: 1, start_sector: 0 };
        assert!(said.to_string().ends_with(ADVICE), "{said}");
    }
}
