//! The superblock updates that members have: a crash tears an update, and then members of one array differ by it.

use super::Found;
use crate::md::member::Member;
use crate::md::superblock::{Role, Superblock, feature};

/// The roles in a superblock without the spares at the end, so that lists of different lengths compare.
pub(super) fn roles_of(superblock: &Superblock) -> &[Role] {
    let roles = &superblock.roles;
    &roles[..roles.iter().rposition(|role| *role != Role::Spare).map_or(0, |last| last + 1)]
}

/// True if a superblock counts `of` as a member.
pub(super) fn counts(superblock: &Superblock, of: &Found) -> bool {
    let number = of.superblock().header.dev_number as usize;
    matches!(superblock.roles.get(number), Some(Role::Slot(_)))
}

/// The member as it was before its last update, which a crash tore.
pub(super) fn without_last_update(member: &Member) -> Member {
    let mut before = member.clone();
    let events = &mut before.superblock.header.events;
    *events = events.saturating_sub(1);
    before
}

/// True if two members have equal events and yet different roles.
pub(super) fn are_rivals(one: &Found, other: &Found) -> bool {
    one.events() == other.events() && roles_of(one.superblock()) != roles_of(other.superblock())
}

/// The members that have the last update of `one`, and hold a slot according to it.
fn side_of<'f, 'a>(one: &'f Found<'a>, found: &'f [Found<'a>]) -> impl Iterator<Item = &'f Found<'a>> {
    let is_beside = |other: &&Found| other.events() == one.events() && !are_rivals(other, one);
    found.iter().filter(is_beside).filter(|other| counts(other.superblock(), other))
}

/// R55: true if `one` has as many events as `other` and other roles, because a crash tore its last update. It still counts the
/// members on the side of `other` as members, so it never ran without them. They may have run without it.
pub(super) fn has_torn_update(one: &Found, other: &Found, found: &[Found]) -> bool {
    // A member that is being filled there may have joined later.
    are_rivals(one, other)
        && side_of(other, found).filter(|side| side.superblock().is_in_sync()).all(|side| counts(one.superblock(), side))
}

/// R55: true if `one` has another update in place of the last one of `other`, and missed nothing else. Each of the two counts a
/// member that has the other one, so both were torn, and nothing was acknowledged after either.
pub(super) fn missed_last(one: &Found, other: &Found, found: &[Found]) -> bool {
    let is_torn = || side_of(other, found).any(|side| side.superblock().is_in_sync() && counts(one.superblock(), side));
    are_rivals(one, other) && counts(other.superblock(), one) && is_torn()
}

/// R62: a crash cut short a change that adds or removes the bitmap. A member that missed only that change is read as the freshest
/// superblock says, since the array did not run in between. `None`: the member is read as it is.
///
/// A start without the member that the change had come to, cut short as well, leaves the others with as many events as that one
/// (R56).
pub(super) fn as_freshest_says(found: &Found, freshest: &Superblock) -> Option<Member> {
    let superblock = found.superblock();
    let before = freshest.header.events.checked_sub(1)?;
    let missed_one = (before..=freshest.header.events).contains(&superblock.header.events);
    let is_same = superblock.clean() && freshest.clean() && roles_of(superblock) == roles_of(freshest);
    let differs = superblock.has(feature::BITMAP_OFFSET) != freshest.has(feature::BITMAP_OFFSET);
    let fits = superblock.shape() == freshest.shape() && superblock.ppl().is_none() && freshest.ppl().is_none();
    if !(missed_one && is_same && differs && fits) {
        return None;
    }
    let mut adapted = Member { bitmap: None, ..found.member.clone() };
    let header = &mut adapted.superblock.header;
    header.events = before;
    header.bitmap_offset = freshest.header.bitmap_offset;
    header.feature_map = header.feature_map & !feature::BITMAP_OFFSET | freshest.header.feature_map & feature::BITMAP_OFFSET;
    adapted.superblock.contradiction(found.candidate.size_sectors).is_none().then_some(adapted)
}
