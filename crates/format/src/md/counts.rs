//! Whether a member's count of records can be true beside another's.
//!
//! The member with the most events tells what the array is, so a count that was altered (by a hostile drive, or a tool that puts
//! the checksum right) would make old bytes the truth. [`EVENTS_MAX`](super::superblock::EVENTS_MAX) bounds what one superblock
//! may say by itself; what it says against the others is judged here. Honest histories keep three rules:
//!
//! - A record goes to every member that it names. So a member that is behind was named as gone, or the crash was in that very
//!   record, which then differs from the one before by what happened in it, and a member that is away does not become whole in
//!   one record: it is filled first. A member is named by its device number. The number of a member that was taken out may be
//!   another drive's since, and the last record may be the one that lets the member in again, which is filled then. So a name counts
//!   only where no other member knows the freshest one, and no drive has the number by now.
//! - A larger count is written later. A count that was altered leaves the time of the member's last record as it was.
//! - Members are a few records apart, or as many as a run makes, not thousands of millions.

use super::superblock::{Role, Superblock, feature};

/// 2^32: at ten records a second, 13 years in which the other member was away.
const APART_MAX: u64 = 1 << 32;

/// Holds a slot, and is not being filled.
fn is_whole(superblock: &Superblock) -> bool {
    matches!(superblock.role(), Role::Slot(_)) && !superblock.has(feature::RECOVERY_OFFSET | feature::REPLACEMENT)
}

/// Whether `one` names the device number of `other` as the holder of a slot.
fn names(one: &Superblock, other: &Superblock) -> bool {
    matches!(one.roles.get(other.header.dev_number as usize), Some(Role::Slot(_)))
}

/// Why the counts of the freshest member and `other` cannot both be true; `None`: they can. `found`: all members of the array.
pub(crate) fn contradiction<'a>(
    freshest: &Superblock,
    other: &Superblock,
    mut found: impl Iterator<Item = &'a Superblock>,
) -> Option<&'static str> {
    let ahead = freshest.header.events.saturating_sub(other.header.events);
    if ahead == 0 || !is_whole(freshest) || !is_whole(other) {
        return None;
    }
    if ahead > APART_MAX {
        return Some("no array makes as many superblock updates while a member is away");
    }
    // Had the freshest run without the other, it would say so; had it come back to the other, it would have been filled.
    let tells_of_another = |third: &Superblock| {
        // The freshest member's last record may be torn, and let `other` in again.
        let beside = third.header.dev_number != freshest.header.dev_number
            && third.header.events.saturating_add(1) >= freshest.header.events
            && names(third, freshest);
        let succeeds = third.header.dev_number == other.header.dev_number && third.header.events > other.header.events;
        is_whole(third) && beside || succeeds
    };
    // A count that was altered does not make the member's last record younger.
    let is_older = freshest.updated_s() < other.updated_s();
    let lost = is_older && names(freshest, other) && !names(other, freshest) && !found.any(tells_of_another);
    lost.then_some("the second had lost the first, which never noticed")
}
