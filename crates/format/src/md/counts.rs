//! Checks whether the counts of superblock updates of two members can both be true.
//!
//! The superblock with the most events decides, so a count that was altered (by a hostile drive, or a tool that puts the checksum
//! right) would make old bytes count. [`EVENTS_MAX`](super::superblock::EVENTS_MAX) bounds the count of one superblock; here it
//! is compared with the others. Every honest history keeps three rules:
//!
//! - A superblock update goes to every member that it names. So a member that is behind was named as failed, or a crash tore that
//!   very update. A member that is away is not in sync after one update: it is filled first. A member is named by its device
//!   number. After a member was removed another drive may get its number, and the last update may be the one that readmits the
//!   member, which is filled then. So a name counts only if no other member knows the freshest one, and no other drive has the
//!   number by now.
//! - A larger count is written later. A count that was altered leaves the time of the member's last update as it was.
//! - Members are a few updates apart, or as many as a run makes, not thousands of millions.

use super::superblock::{Role, Superblock};

/// Why the counts of two members cannot both be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// They are too far apart.
    #[error("no array makes as many superblock updates while a member is away")]
    TooFarApart,
    /// The member with the lower count recorded the loss of the other one.
    #[error("the second had recorded the loss of the first, and the first has no record of it")]
    LossUnrecorded,
}

/// 2^32: at ten superblock updates a second, 13 years in which the other member was away.
const APART_MAX: u64 = 1 << 32;

/// Whether `one` names the device number of `other` as the holder of a slot.
fn names(one: &Superblock, other: &Superblock) -> bool {
    matches!(one.roles.get(other.header.dev_number as usize), Some(Role::Slot(_)))
}

/// The reason why the counts of the freshest member and `other` cannot both be true; `None`: they can. `found`: all members of
/// the array.
pub(crate) fn contradiction<'a>(
    freshest: &Superblock,
    other: &Superblock,
    mut found: impl Iterator<Item = &'a Superblock>,
) -> Option<Contradiction> {
    let ahead = freshest.header.events.saturating_sub(other.header.events);
    if ahead == 0 || !freshest.is_in_sync() || !other.is_in_sync() {
        return None;
    }
    if ahead > APART_MAX {
        return Some(Contradiction::TooFarApart);
    }
    // Had the freshest run without the other, it would name it as failed. Had it returned to the other, it would have been
    // filled.
    let tells_of_another = |third: &Superblock| {
        // The freshest member's last update may be torn, and readmit `other`.
        let beside = third.header.dev_number != freshest.header.dev_number
            && third.header.events.saturating_add(1) >= freshest.header.events
            && names(third, freshest);
        let succeeds = third.header.dev_number == other.header.dev_number && third.header.events > other.header.events;
        third.is_in_sync() && beside || succeeds
    };
    // A count that was altered does not make the member's last update younger.
    let is_older = freshest.updated_s() < other.updated_s();
    let lost = is_older && names(freshest, other) && !names(other, freshest) && !found.any(tells_of_another);
    lost.then_some(Contradiction::LossUnrecorded)
}
