//! What commands ask of a member, and why one is refused.

use super::Members;
use crate::{MemberId, MemberState, Refusal};

impl Members {
    /// The state and the name of a member.
    ///
    /// # Errors
    /// The array has no such member.
    pub fn state_of(&self, member: MemberId) -> Result<(MemberState, String), Refusal> {
        match self.all.get(member.0) {
            Some(member) => Ok((member.state, member.config.name.clone())),
            None => Err(Refusal::NoMember(member)),
        }
    }

    /// The name of a member that is in use.
    ///
    /// # Errors
    /// It has failed, or there is no such member.
    pub fn name_in_use(&self, member: MemberId) -> Result<String, Refusal> {
        match self.state_of(member)? {
            (MemberState::Failed, name) => Err(Refusal::FailedAlready(name)),
            (_, name) => Ok(name),
        }
    }

    /// The slot of a member that may be replaced.
    ///
    /// # Errors
    /// It is not in sync, or is being replaced already.
    pub fn slot_to_replace(&self, member: MemberId) -> Result<usize, Refusal> {
        let (state, name) = self.state_of(member)?;
        if state != MemberState::InSync {
            return Err(Refusal::NotReplaceable(name));
        }
        let slot = self.get(member).slot.expect("in-sync members have a slot");
        match self.slots[slot].replacement {
            Some(_) => Err(Refusal::ReplacedAlready(name)),
            None => Ok(slot),
        }
    }

    /// A member may be taken out: it has failed, or is a spare.
    ///
    /// # Errors
    /// It is in use.
    pub fn may_remove(&self, member: MemberId) -> Result<(), Refusal> {
        match self.state_of(member)? {
            (MemberState::Failed | MemberState::Spare, _) => Ok(()),
            (MemberState::InSync | MemberState::Rebuilding | MemberState::Replacing, name) => Err(Refusal::InUse(name)),
        }
    }
}
