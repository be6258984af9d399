//! Changes that concern every lane of a tree: each is a command to the coordinator, and what every lane does before or after it.

use crate::ArrayCommand;
use crate::join::Joined;
use crate::tree::{MemberDrive, Tree};
use stria_array::{Command, MemberId};

/// The lanes of one tree, for the code that runs them: on threads, or in virtual time.
///
/// The provided methods are the only way to change members, so that no caller forgets a step.
pub trait Lanes {
    /// A member's drive.
    type Drive: MemberDrive;
    /// A drive that is to join, with its metadata on it.
    type Prepared;
    /// Why a lane cannot be reached, or a command was refused.
    type Error;

    /// Runs `work` on every lane, the coordinator first.
    ///
    /// # Errors
    /// A lane has ended.
    fn on_each(&mut self, work: impl Fn(&mut Tree<Self::Drive>) + Clone + Send + 'static) -> Result<(), Self::Error>;

    /// The arrays of the tree that have redundancy, by index.
    ///
    /// # Errors
    /// The coordinator has ended.
    fn redundant_arrays(&mut self) -> Result<Vec<usize>, Self::Error>;

    /// Gives a command to an array of the tree, and polls every lane until it is answered.
    ///
    /// # Errors
    /// Why it was refused, or that a lane has ended.
    fn command(&mut self, array: usize, command: ArrayCommand) -> Result<(), Self::Error>;

    /// Offers a drive on every lane: on the coordinator by [`Tree::offer_first`], then on the others by [`Tree::offer`].
    ///
    /// # Errors
    /// Why it may not join, or that a lane has ended.
    fn offer(&mut self, drive: Self::Prepared) -> Result<Joined, Self::Error>;

    /// Adds a drive. `prepare` reads it, and writes its metadata if it is to be a spare; before, every drop is made durable, as
    /// only superblocks that name a drive as failed show what it lacks when it returns. Returns what was done, in words.
    ///
    /// # Errors
    /// As `prepare`, [`Lanes::command`] and [`Lanes::join`].
    fn add(&mut self, prepare: impl FnOnce(&mut Self) -> Result<Self::Prepared, Self::Error>) -> Result<String, Self::Error>
    where
        Self: Sized,
    {
        self.redundant_arrays()?.into_iter().try_for_each(|array| self.command(array, Command::CommitDrops))?;
        let drive = prepare(self)?;
        self.join(drive)
    }

    /// Drops a member as if it had failed.
    ///
    /// # Errors
    /// As [`Lanes::command`]: data would be lost.
    fn fail(&mut self, array: usize, member: MemberId) -> Result<(), Self::Error> {
        self.command(array, Command::Fail(member))
    }

    /// Lets a spare of the array replace a member that still works.
    ///
    /// # Errors
    /// As [`Lanes::command`]: the member is not in sync, or the drive is no spare.
    fn replace(&mut self, array: usize, member: MemberId, spare: MemberId) -> Result<(), Self::Error> {
        self.command(array, Command::Replace { member, spare })
    }

    /// Lets a drive join that never was a member, or whose array has recorded what it lacks. Returns what was done, in words.
    ///
    /// # Errors
    /// As [`Lanes::offer`] and [`Lanes::command`]; then no lane keeps the drive.
    fn join(&mut self, drive: Self::Prepared) -> Result<String, Self::Error> {
        let Joined { array, offer, command, text } = self.offer(drive)?;
        if let Err(error) = self.command(array, command) {
            self.on_each(move |tree| tree.withdraw(array, offer))?;
            return Err(error);
        }
        Ok(text)
    }

    /// Removes a failed member or a spare.
    ///
    /// # Errors
    /// As [`Lanes::command`]: it holds a slot.
    fn remove(&mut self, array: usize, member: MemberId) -> Result<(), Self::Error> {
        self.command(array, Command::Remove(member))?;
        self.on_each(move |tree| drop(tree.forget(array, member)))
    }

    /// Starts a scrub of all arrays that have redundancy, at a position of the sync space.
    ///
    /// # Errors
    /// As [`Lanes::command`]; then none of them runs one.
    fn scrub(&mut self, repair: bool, from_sector: u64) -> Result<(), Self::Error> {
        let arrays = self.redundant_arrays()?;
        let started = arrays.iter().try_for_each(|&array| self.command(array, Command::Scrub { repair, from_sector }));
        if started.is_err() {
            // Spans that have started the scrub must not run it alone.
            let _ = self.cancel_scrub();
        }
        started
    }

    /// Stops a scrub before its end.
    ///
    /// # Errors
    /// As [`Lanes::command`].
    fn cancel_scrub(&mut self) -> Result<(), Self::Error> {
        self.redundant_arrays()?.into_iter().try_for_each(|array| self.command(array, Command::CancelScrub))
    }
}
