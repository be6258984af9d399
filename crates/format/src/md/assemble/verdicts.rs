//! What each drive is to its array, and drives that contradict each other.

use super::updates::{counts, roles_of};
use super::{Found, Obstacle, Sorter, StartWarning, Unusable, Verdict};
use crate::md::bitmap::{Bitmap, BitmapError};
use crate::md::counts;
use crate::md::log::LogSpace;
use crate::md::recorder::{Unreturnable, returnable};
use crate::md::shape::keeps_parity;
use crate::md::superblock::{ROLES_MAX, Role, Superblock, feature, synced};
use std::collections::BTreeMap;
use stria_array::{ArraySector, Geometry, Layout, Level, Synced};

impl Sorter<'_> {
    pub(super) fn judge(&mut self, found: &Found) {
        let verdict = self.verdict(found);
        self.verdicts.insert(found.drive, verdict);
    }

    fn verdict(&self, found: &Found) -> Verdict {
        let (superblock, freshest) = (found.superblock(), self.freshest);
        let (header, truth) = (&superblock.header, &freshest.header);
        let unusable = |reason: Unusable| Verdict::Unusable { reason };
        let too_small = |space: u64| Unusable::TooSmall {
            missing_bytes: (truth.size - space).saturating_mul(512),
            needed_bytes: truth.size.saturating_mul(512),
        };
        if let Err(what) = &found.member.bad_blocks {
            return unusable(Unusable::BadBlocks { fault: what.clone() });
        }
        let own = superblock.role();
        if own == Role::Spare {
            return match header.data_size {
                // Its superblock would keep this shape in a slot.
                _ if superblock.shape() != freshest.shape() => unusable(Unusable::AnotherShape),
                space if space < truth.size => unusable(too_small(space)),
                _ if superblock.ppl().is_some() != freshest.ppl().is_some() => unusable(Unusable::OtherLog),
                _ => Verdict::Spare,
            };
        }
        let events_behind = truth.events.saturating_sub(header.events);
        let away = |slot: Option<usize>, obstacle: Option<Unreturnable>| Verdict::Away { slot, events_behind, obstacle };
        let own_slot = if let Role::Slot(slot) = own { Some(usize::from(slot)) } else { None };
        if events_behind > 1 {
            // What it requires does not concern the others, which ran without it.
            if let Err(error) = superblock.servable() {
                return unusable(error.into());
            }
            if let Some(Err(BitmapError::Unserved(what))) = &found.member.bitmap {
                return unusable(what.clone().into());
            }
            // R27: two events less means that it was away. Whether the bitmap reaches back is decided when the bitmap is known.
            return away(own_slot, None);
        }
        if shape(superblock) != shape(freshest) {
            return unusable(Unusable::AnotherShape);
        }
        if header.data_size < truth.size {
            return unusable(too_small(header.data_size));
        }
        // A member that is one event behind may have been failed in the update that it missed.
        let role = match events_behind {
            0 if !self.outdated.contains(&found.drive) => own,
            _ => freshest.roles.get(header.dev_number as usize).copied().unwrap_or(Role::Spare),
        };
        match role {
            Role::Slot(slot) if usize::from(slot) >= self.slot_count() => {
                unusable(Unusable::NoSuchSlot { slot, slot_count: self.slot_count() })
            }
            Role::Slot(slot) => {
                let slot = usize::from(slot);
                let recovering = superblock.has(feature::RECOVERY_OFFSET);
                let recovered = if recovering { synced(header.recovery_offset) } else { Synced::All };
                if superblock.has(feature::REPLACEMENT) {
                    Verdict::Replacement { slot, recovered }
                } else if recovering {
                    Verdict::Rebuilding { slot, recovered, by_bitmap: superblock.has(feature::RECOVERY_BITMAP) }
                } else {
                    Verdict::InSync { slot }
                }
            }
            Role::Faulty if own == Role::Faulty => Verdict::Faulty,
            Role::Spare | Role::Faulty => away(own_slot, None),
            Role::Journal => unusable(Unusable::Journal),
        }
    }

    /// The freshest member counts, unless its count of superblock updates contradicts those of the others.
    pub(super) fn refuse_counts(&mut self, found: &[Found]) {
        for other in found {
            if let Some(why) = counts::contradiction(self.freshest, other.superblock(), found.iter().map(Found::superblock)) {
                let name = |number: u32| {
                    let found = found.iter().find(|found| found.superblock().header.dev_number == number);
                    found.map_or("a member", |found| found.candidate.name.as_str())
                };
                self.conflict.get_or_insert(Obstacle::CountsContradict {
                    drive: name(self.freshest.header.dev_number).to_owned(),
                    events: self.freshest.header.events,
                    other: other.candidate.name.clone(),
                    other_events: other.events(),
                    why,
                });
            }
        }
    }

    /// Of two drives with one identity the older is a copy. With equal events neither can be preferred.
    pub(super) fn refuse_copies(&mut self, found: &[Found]) {
        for (index, one) in found.iter().enumerate() {
            for other in &found[index + 1..] {
                if one.superblock().header.device_uuid != other.superblock().header.device_uuid {
                    continue;
                }
                let (older, newer) = if one.events() <= other.events() { (one, other) } else { (other, one) };
                let reason = |of: &Found| Unusable::CopyOf { other: of.candidate.name.clone() };
                if older.events() == newer.events() {
                    self.verdicts.insert(newer.drive, Verdict::Unusable { reason: reason(older) });
                    let (drive, other) = (one.candidate.name.clone(), other.candidate.name.clone());
                    self.conflict.get_or_insert(Obstacle::Copies { drive, other });
                }
                self.verdicts.insert(older.drive, Verdict::Unusable { reason: reason(newer) });
            }
        }
    }

    /// Members of a firmware's mirror show the superblock of an array that was made on the mirror. Written apart, its copies
    /// would differ.
    pub(super) fn refuse_firmware_raid(&mut self, found: &[Found]) {
        let marked = found.iter().find_map(|one| Some((&one.candidate.name, one.member.firmware_raid.as_ref()?)));
        if let Some((name, mark)) = marked {
            self.conflict.get_or_insert(Obstacle::FirmwareRaid { drive: name.clone(), mark: Box::new(mark.clone()) });
        }
    }

    /// One superblock update writes the same roles everywhere. Members that count as many updates and yet differ
    /// were run apart, each without the other: neither knows what the other wrote.
    pub(super) fn refuse_histories(&mut self, found: &[Found]) {
        let truth = roles_of(self.freshest);
        let same_count = |found: &&Found| {
            let holds = matches!(
                self.verdicts[&found.drive],
                Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. }
            );
            holds && found.events() == self.freshest.header.events
        };
        let (one, other): (Vec<&Found>, Vec<_>) =
            found.iter().filter(same_count).partition(|found| roles_of(found.superblock()) == truth);
        let names = |side: &[&Found]| side.iter().map(|found| found.candidate.name.clone()).collect();
        if !other.is_empty() {
            self.conflict.get_or_insert(Obstacle::RunApart { drives: names(&one), others: names(&other) });
        }
    }

    /// Every member has its own device number, the index of its role. If a spare has the number of a member, the member keeps it:
    /// the spare may have been prepared and then refused.
    pub(super) fn refuse_numbers(&mut self, found: &[Found]) {
        let mut taken = BTreeMap::new();
        let roles_max = found.iter().map(|found| found.superblock().roles_max()).min().unwrap_or(ROLES_MAX);
        let mut order: Vec<&Found> = found.iter().collect();
        order.sort_by_key(|found| matches!(self.verdicts[&found.drive], Verdict::Spare));
        for found in order {
            let number = found.superblock().header.dev_number;
            let verdict = self.verdicts.get_mut(&found.drive).expect("every drive was judged");
            if matches!(verdict, Verdict::Away { .. } | Verdict::Faulty | Verdict::Unusable { .. }) {
                continue;
            }
            let reason = match taken.insert(number, &found.candidate.name) {
                Some(other) => Unusable::SameNumber { other: other.clone(), number },
                None if number as usize >= roles_max => Unusable::ImpossibleNumber { number },
                None => continue,
            };
            *verdict = Verdict::Unusable { reason };
        }
    }

    /// A member keeps its slot until it leaves. Where its own superblock and the freshest one name two slots for it, one of them
    /// is damaged, and bytes would be served from the wrong place.
    pub(super) fn refuse_other_slots(&mut self, found: &[Found]) {
        for one in found.iter().filter(|one| one.events() + 1 >= self.freshest.header.events) {
            let number = one.superblock().header.dev_number as usize;
            if let (Role::Slot(own), Some(&Role::Slot(other))) = (one.superblock().role(), self.freshest.roles.get(number))
                && own != other
            {
                let says = found.iter().find(|found| found.superblock().header.dev_number == self.freshest.header.dev_number);
                let says = says.map_or("another member", |found| found.candidate.name.as_str());
                let drive = one.candidate.name.clone();
                self.conflict.get_or_insert(Obstacle::OtherSlot { drive, own_slot: own, other: says.to_owned(), slot: other });
            }
        }
    }

    /// Of two members in one slot the fresher one keeps it. With equal events neither can be preferred.
    pub(super) fn refuse_rivals(&mut self, found: &[Found]) {
        let slot_of = |verdict: &Verdict| match *verdict {
            Verdict::InSync { slot } => Some((slot, false)),
            Verdict::Rebuilding { slot, .. } => Some((slot, false)),
            Verdict::Replacement { slot, .. } => Some((slot, true)),
            _ => None,
        };
        for (index, one) in found.iter().enumerate() {
            for other in &found[index + 1..] {
                let (Some(a), Some(b)) = (slot_of(&self.verdicts[&one.drive]), slot_of(&self.verdicts[&other.drive])) else {
                    continue;
                };
                if a != b {
                    continue;
                }
                let (older, newer) = if one.events() <= other.events() { (one, other) } else { (other, one) };
                if older.events() == newer.events() {
                    let (drive, other) = (one.candidate.name.clone(), other.candidate.name.clone());
                    self.conflict.get_or_insert(Obstacle::ClaimOneSlot { drive, other, slot: a.0 });
                }
                let reason = Unusable::Outdated { other: newer.candidate.name.clone(), slot: a.0 };
                self.verdicts.insert(older.drive, Verdict::Unusable { reason });
            }
        }
    }

    /// A member without space for the bitmap that it must get cannot take part.
    pub(super) fn refuse_cramped(&mut self, found: &[Found], bitmap: &Bitmap) {
        for found in found.iter().filter(|found| found.bitmap_space_sectors() < bitmap.size_sectors()) {
            let verdict = self.verdicts.get_mut(&found.drive).expect("every drive was judged");
            if matches!(verdict, Verdict::Rebuilding { .. } | Verdict::Replacement { .. } | Verdict::Spare) {
                *verdict = Verdict::Unusable { reason: Unusable::NoSpaceForBitmap };
            }
        }
    }

    /// A spare with less space for the write log than the members have would make the array do without.
    pub(super) fn refuse_spares_without_log(&mut self, found: &[Found], bitmap: Option<&Bitmap>) {
        let bitmap_sectors = bitmap.map_or(0, Bitmap::size_sectors);
        let space = |found: &Found| Some(LogSpace::of(found.superblock(), bitmap_sectors)?.cut(1)?.append_sectors_max());
        let members = found.iter().filter(|found| matches!(self.verdicts[&found.drive], Verdict::InSync { .. }));
        let Some(least) = members.map(space).min().flatten() else { return };
        if !keeps_parity(&self.freshest.header) || self.freshest.ppl().is_some() {
            return;
        }
        for found in found.iter().filter(|&found| space(found) < Some(least)) {
            let verdict = self.verdicts.get_mut(&found.drive).expect("every drive was judged");
            if *verdict == Verdict::Spare {
                *verdict = Verdict::Unusable { reason: Unusable::NoSpaceForLog };
            }
        }
    }

    pub(super) fn in_sync_slots(&self) -> Vec<bool> {
        let mut slots = vec![false; self.slot_count()];
        for verdict in self.verdicts.values() {
            match *verdict {
                Verdict::InSync { slot } | Verdict::Replacement { slot, recovered: Synced::All } => slots[slot] = true,
                _ => {}
            }
        }
        slots
    }

    pub(super) fn not_in_sync(&self) -> Vec<usize> {
        let in_sync = self.in_sync_slots();
        (0..self.slot_count()).filter(|&slot| !in_sync[slot]).collect()
    }

    pub(super) fn missing_slots(&self) -> Vec<usize> {
        let held = |slot: usize| {
            self.verdicts.values().any(|verdict| match *verdict {
                Verdict::InSync { slot: held } | Verdict::Rebuilding { slot: held, .. } => held == slot,
                Verdict::Replacement { slot: held, .. } => held == slot,
                _ => false,
            })
        };
        (0..self.slot_count()).filter(|&slot| !held(slot)).collect()
    }

    /// True if it is a member in sync, or a finished copy of one, which may be all that is left of it.
    pub(super) fn is_filled(&self, found: &Found) -> bool {
        let verdict = &self.verdicts[&found.drive];
        matches!(verdict, Verdict::InSync { .. } | Verdict::Replacement { recovered: Synced::All, .. })
    }

    /// The members that are behind and can be taken as they are, with the number of updates that they missed, and their slots.
    /// First those that the freshest superblock still counts: they kept their slots and took every write that succeeded, when
    /// their metadata could not be written. Then the freshest.
    pub(super) fn callable<'f, 'a>(&self, found: &'f [Found<'a>]) -> Vec<(u64, usize, &'f Found<'a>)> {
        let mut away: Vec<_> = found
            .iter()
            .filter_map(|found| match self.verdicts[&found.drive] {
                Verdict::Away { slot: Some(slot), events_behind, .. } => Some((events_behind, slot, found)),
                _ => None,
            })
            .filter(|(_, slot, found)| {
                *slot < self.slot_count()
                    && shape(found.superblock()) == shape(self.freshest)
                    && found.superblock().header.data_size >= self.freshest.header.size
                    && !found.superblock().has(feature::RECOVERY_OFFSET | feature::REPLACEMENT)
            })
            .collect();
        away.sort_by_key(|(events_behind, slot, found)| (!counts(self.freshest, found), *events_behind, *slot));
        away
    }

    /// With force: takes members that are behind as they are, until the array can start.
    pub(super) fn call_back(&mut self, found: &[Found], level: Level, layout: Layout, warnings: &mut Vec<StartWarning>) {
        for (events_behind, slot, found) in self.callable(found) {
            let in_sync = self.in_sync_slots();
            let sizes = vec![u64::from(self.freshest.header.chunksize).max(1 << 12) << 8; self.slot_count()];
            let strip = u64::from(self.freshest.header.chunksize);
            let enough = match Geometry::new(level, layout, strip, &sizes) {
                Ok(geometry) => suffices(&geometry, &in_sync),
                Err(_) => return,
            };
            if enough {
                return;
            }
            if in_sync[slot] {
                continue;
            }
            let (drive, keeps_slot) = (found.candidate.name.clone(), counts(self.freshest, found));
            warnings.push(StartWarning::MemberUsed { drive, slot, updates: events_behind, keeps_slot });
            self.verdicts.insert(found.drive, Verdict::InSync { slot });
            // A member that was being filled there is newer in part, and no full copy of it.
            for verdict in self.verdicts.values_mut() {
                if matches!(*verdict, Verdict::Rebuilding { slot: held, .. } | Verdict::Replacement { slot: held, .. } if held == slot)
                {
                    let reason = Unusable::PutInByForce { drive: found.candidate.name.clone(), slot };
                    *verdict = Verdict::Unusable { reason };
                }
            }
        }
    }

    pub(super) fn judge_away(&mut self, found: &[Found], bitmap: Option<&Bitmap>) {
        for found in found {
            if let Some(Verdict::Away { obstacle, .. }) = self.verdicts.get_mut(&found.drive) {
                *obstacle = returnable(self.freshest, bitmap, found.superblock(), false).err();
            }
        }
    }

    pub(super) fn take_back(&mut self, found: &[Found]) {
        for found in found {
            let missing = self.missing_slots();
            if let Verdict::Away { slot: Some(slot), obstacle: None, .. } = self.verdicts[&found.drive]
                && missing.contains(&slot)
            {
                self.verdicts.insert(found.drive, Verdict::Rebuilding { slot, recovered: Synced::up_to(0), by_bitmap: true });
            }
        }
    }
}

/// The shape of an array; it must be the same on all current members.
fn shape(superblock: &Superblock) -> impl PartialEq + use<> {
    let optional = feature::RAID0_LAYOUT | feature::BITMAP_OFFSET | feature::PPL | feature::MULTIPLE_PPLS;
    (superblock.shape(), superblock.header.feature_map & optional)
}

/// True if the members in sync have all data.
pub(super) fn suffices(geometry: &Geometry, in_sync: &[bool]) -> bool {
    let lost = in_sync.iter().filter(|in_sync| !**in_sync).count();
    match geometry.level() {
        // Placement repeats after as many strips as there are members.
        Level::Raid10 => (0..geometry.slot_count() as u64).all(|strip| {
            let sector = strip * geometry.strip_sectors();
            sector >= geometry.capacity_sectors()
                || geometry.copies_of(ArraySector::new(sector), 1).0.iter().any(|copy| in_sync[copy.slot])
        }),
        _ => lost <= geometry.losses_survived() && (lost == 0 || geometry.level().is_redundant()),
    }
}
