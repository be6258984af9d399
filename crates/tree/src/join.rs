//! The way of a drive that is added: a member that was away comes back by the write-intent bitmap, any other drive becomes a
//! spare, or fills the slot of a member that it replaces.
//!
//! On the coordinator [`Tree::plan_join`] decides what is written to the drive. Once that is durable, [`Tree::offer_first`]
//! decides again, since the array may have changed, and returns the command by which the drive joins. Every other lane is offered
//! the drive ([`Tree::offer`]), and the command is given. If it is refused, every lane withdraws the offer.

use crate::ArrayCommand;
use crate::join_error::{Carried, JoinError, Unfilled};
use crate::tree::{MemberDrive, Tree};
use std::ops::Range;
use stria_array::{Command, DriveSector, Health, MemberId, MemberState, MemberStatus, MetadataWrite};
use stria_block::BlockDevice;
use stria_format::md::recorder::{Adopt, Newcomer};
use stria_format::md::superblock::Role;
use stria_format::md::{Candidate, Superblock};

/// A drive that joins, as the coordinator must know it.
#[derive(Clone, Debug)]
pub struct NewDrive<I> {
    /// Stays the same when the drive leaves and comes back.
    pub identity: I,
    /// Its contents.
    pub candidate: Candidate,
    /// Its description, should it become a spare.
    pub adopt: Adopt,
}

/// The way in which a drive joins.
#[derive(Clone, Debug, Default)]
pub struct JoinRequest {
    /// The array of the tree, by name, for a drive that was never a member; `None`: the one that lacks a member most.
    pub array: Option<String>,
    /// True if data that is found on it may be overwritten.
    pub force: bool,
    /// The drive has come back by itself: it may only return to the slot that it held, or as the spare that it was.
    pub return_only: bool,
    /// The member that it replaces, which still works: the array by index, and the handle there.
    pub replaces: Option<(usize, MemberId)>,
}

/// Where a drive joins.
#[derive(Clone, Debug)]
pub struct Joining {
    /// The array, by index.
    pub array: usize,
    /// What the drive is prepared for.
    pub intended: Intended,
    /// `None`: a member that returns with its metadata.
    pub writes: Option<NewMetadata>,
    /// The member that it replaces.
    pub replaces: Option<MemberId>,
    /// A sentence about what happens.
    pub text: String,
}

/// What a drive was prepared for before it joins. The array may change meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intended {
    /// The identity of the array of the tree whose metadata the drive has.
    pub array: [u8; 16],
    /// True if its metadata are new.
    pub is_new: bool,
}

/// The metadata of a new spare.
#[derive(Clone, Debug)]
pub struct NewMetadata {
    /// The metadata for the drive. They are written in this order, and are durable before the drive is offered.
    pub writes: Vec<MetadataWrite>,
    /// Ranges of the drive whose space is allocated first.
    pub ranges: Vec<Range<DriveSector>>,
}

/// A drive that the coordinator has offered.
#[must_use = "offer it on the other lanes, and give the command"]
pub struct Joined {
    /// The array, by index.
    pub array: usize,
    /// The number of the offer.
    pub offer: u64,
    /// The command by which the drive joins.
    pub command: ArrayCommand,
    /// A sentence about what is done.
    pub text: String,
}

/// What lies on a drive. `None`: nothing that is known.
fn carried_by(candidate: &Candidate) -> Option<Carried> {
    let contents = match &candidate.found {
        Ok(member) => format!("a member of array \"{}\"", member.superblock.name()),
        Err(_) => candidate.carries.first()?.to_string(),
    };
    Some(Carried { drive: candidate.name.clone(), contents })
}

/// Refuses to overwrite drives that carry something.
///
/// # Errors
/// The contents of all of them.
pub fn refuse_contents<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> Result<(), JoinError> {
    let carried: Vec<Carried> = candidates.into_iter().filter_map(carried_by).collect();
    if carried.is_empty() { Ok(()) } else { Err(JoinError::Carries { carried }) }
}

impl<D: MemberDrive> Tree<D> {
    /// Decides what a drive is to become; nothing is changed. On the coordinator.
    ///
    /// # Errors
    /// The array may not change, the drive does not suit, or it carries something and `request` does not allow to overwrite that.
    pub fn plan_join(&self, new: &NewDrive<D::Identity>, request: &JoinRequest) -> Result<Joining, JoinError> {
        self.with_engine(|engine| engine.may_change())?;
        let drive = &new.adopt.name;
        self.refuse_twin(new)?;
        let overwritten = (!request.force).then_some(&new.candidate);
        if let Some((index, member)) = request.replaces {
            refuse_contents(overwritten)?;
            let holder = self.array(index);
            let old = holder.name_of(member);
            if holder.status().members[member.0].state != MemberState::InSync {
                return Err(JoinError::NotInSync { old: old.to_owned() });
            }
            return self.as_spare(index, new, Some(member), format!("{drive} is being rebuilt to replace {old}"));
        }
        if let Some((index, superblock)) = self.array_of(new) {
            return self.as_former(index, new, superblock, request);
        }
        if request.return_only {
            return Err(JoinError::NoMember { drive: drive.clone(), array: self.name().to_owned() });
        }
        refuse_contents(overwritten)?;
        let index = self.needy(request.array.as_deref())?;
        self.as_spare(index, new, None, format!("{drive} joined \"{}\" as a spare", self.array(index).name()))
    }

    /// The array whose member a drive is or was, by its superblock. The superblocks of an array's members have one version, so
    /// one of another version was written by a client, and shows where the drive's own cannot be read.
    fn array_of<'a>(&self, new: &'a NewDrive<D::Identity>) -> Option<(usize, &'a Superblock)> {
        let superblock = &new.candidate.found.as_ref().ok()?.superblock;
        let index = self.index_of(superblock.header.set_uuid)?;
        let version = self.array(index).recorder().superblock().minor_version();
        (superblock.minor_version() == version).then_some((index, superblock))
    }

    /// Refuses a drive that carries what a member in use does: another path to that very drive, or a copy of it. Forced or not,
    /// since what is written to it may be written to the member.
    fn refuse_twin(&self, new: &NewDrive<D::Identity>) -> Result<(), JoinError> {
        let Some((index, superblock)) = self.array_of(new) else { return Ok(()) };
        let array = self.array(index);
        let in_use = |id: &MemberId| {
            let members = array.status().members;
            members.iter().any(|member| member.id == *id && member.state != MemberState::Failed)
        };
        let known = array.recorder().member_of(superblock);
        let Some(twin) = known.filter(in_use) else { return Ok(()) };
        let (drive, other) = (new.adopt.name.clone(), array.name_of(twin).to_owned());
        Err(JoinError::SameMember { drive, other, array: array.name().to_owned() })
    }

    /// A drive that was a member of this array comes back: into its slot where that is possible, else as a new spare.
    fn as_former(
        &self,
        index: usize,
        new: &NewDrive<D::Identity>,
        superblock: &Superblock,
        request: &JoinRequest,
    ) -> Result<Joining, JoinError> {
        let (array, drive, force) = (self.array(index), &new.adopt.name, request.force);
        let held_slot = matches!(superblock.role(), Role::Slot(_));
        // R91, here and where members have bad blocks.
        if held_slot && !force && array.status().health == Health::Failed {
            return Err(JoinError::HoldsWhatIsLacking { drive: drive.clone(), array: array.name().to_owned() });
        }
        let returnable = array.recorder().returnable(superblock);
        let why = match returnable {
            _ if array.was_cut_short(&new.identity) => Unfilled::CutShort,
            Ok(slot) if array.status().slots[slot].is_none() => {
                let text =
                    format!("{drive} is back in slot {slot} of \"{}\"; what it missed is copied by the bitmap", array.name());
                let intended = Intended { array: array.uuid(), is_new: false };
                return Ok(Joining { array: index, intended, writes: None, replaces: None, text });
            }
            Ok(slot) => Unfilled::SlotTaken { slot },
            Err(reason) => reason.into(),
        };
        if request.return_only && superblock.role() != Role::Spare {
            let (part, array) = (array.name().to_owned(), self.name().to_owned());
            return Err(JoinError::CannotReturn { drive: drive.clone(), part, array, reason: why });
        }
        // What a list on disk has no space for, or does not name yet, is lacking too.
        let has_bad_blocks = |member: &MemberStatus| member.bad_sectors > 0 || array.device().has_bad_blocks_elsewhere(member.id);
        let lacks_data = |member: &MemberStatus| {
            member.state != MemberState::Failed && (has_bad_blocks(member) || array.recorder().has_bad_blocks(member.id))
        };
        if held_slot && !force && array.status().members.iter().any(lacks_data) {
            return Err(JoinError::HoldsBadBlocks { drive: drive.clone(), array: array.name().to_owned() });
        }
        self.as_spare(index, new, None, format!("{drive} joined \"{}\" as a new spare ({why})", array.name()))
    }

    /// A drive gets fresh metadata, and waits for a slot in an array of this tree.
    fn as_spare(
        &self,
        index: usize,
        new: &NewDrive<D::Identity>,
        replaces: Option<MemberId>,
        text: String,
    ) -> Result<Joining, JoinError> {
        let writes = Some(self.metadata_of_spare(index, &new.adopt)?);
        let intended = Intended { array: self.array(index).uuid(), is_new: true };
        Ok(Joining { array: index, intended, writes, replaces, text })
    }

    /// The metadata that make a drive a spare of an array of this tree. On the coordinator.
    ///
    /// # Errors
    /// The drive does not suit.
    pub fn metadata_of_spare(&self, index: usize, adopt: &Adopt) -> Result<NewMetadata, JoinError> {
        let array = self.array(index);
        let (theirs, ours) = (adopt.logical_block_bytes, array.device().limits().logical_block_bytes);
        if theirs > ours {
            let (drive, array) = (adopt.name.clone(), array.name().to_owned());
            return Err(JoinError::BlocksTooLarge { drive, block_bytes: theirs, array, array_bytes: ours });
        }
        let id = array.with_engine(|engine| engine.next_member());
        let mut recorder = array.recorder().clone();
        let (_, writes) = recorder.adopt(id, adopt)?;
        Ok(NewMetadata { writes, ranges: recorder.metadata_ranges(id) })
    }

    /// The array that lacks a member most: the one named, else the first with an empty slot, else the first with redundancy.
    fn needy(&self, name: Option<&str>) -> Result<usize, JoinError> {
        let tree = self.tree();
        let index = match name {
            Some(name) => tree.iter().position(|array| array.name() == name),
            None => {
                let redundant = self.redundant();
                let lacks = |index: &usize| tree[*index].status().slots.iter().any(Option::is_none);
                redundant.iter().copied().find(lacks).or(redundant.first().copied())
            }
        };
        index.ok_or_else(|| match name {
            Some(name) => {
                let names = tree.iter().map(|array| array.name().to_owned()).collect();
                JoinError::NoSuchPart { name: name.to_owned(), names }
            }
            None => JoinError::NoRedundancy { level: self.geometry().level() },
        })
    }

    /// Offers a drive on the coordinator under `number`, and says by which command it joins. `prepared`: what it was prepared
    /// for; new metadata are durable on it. `bind` puts it on the lane. Waits for no drive.
    ///
    /// # Errors
    /// The drive may not join, or not as it was prepared to.
    pub fn offer_first(
        &mut self,
        new: &NewDrive<D::Identity>,
        prepared: Intended,
        request: &JoinRequest,
        number: u64,
        bind: impl FnOnce() -> (Box<dyn BlockDevice>, D),
    ) -> Result<Joined, JoinError> {
        let Joining { array, intended, replaces, text, .. } = self.plan_join(new, request)?;
        // Of two drives that are added at once, the second may be for another span by now than the one whose metadata it has.
        if intended != prepared {
            return Err(JoinError::ChangedMeanwhile { drive: new.adopt.name.clone() });
        }
        let newcomer = match intended.is_new {
            true => Newcomer::Spare(new.adopt.clone()),
            false => Newcomer::Former(Box::new(new.candidate.clone())),
        };
        let (device, drive) = bind();
        self.offer(array, number, device, drive);
        Ok(Joined { array, offer: number, command: Command::Add { newcomer, offer: number, replaces }, text })
    }
}
