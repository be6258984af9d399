//! Changes of members, by the same steps as on the host ([`Lanes`]).

use super::{Stop, World};
use crate::member_drive::{Attached, Prepared};
use stria_tree::{ArrayCommand, JoinError, Joined, Lanes, Tree};

/// The reason why a command has no effect.
pub(super) enum Ended {
    Stopped(Stop),
    Refused(JoinError),
}

/// Separates a refusal from the end of the run.
pub(super) trait Done {
    /// `false`: it was refused.
    fn done(self) -> Result<bool, Stop>;
}

impl<T> Done for Result<T, Ended> {
    fn done(self) -> Result<bool, Stop> {
        match self {
            Ok(_) => Ok(true),
            Err(Ended::Refused(_)) => Ok(false),
            Err(Ended::Stopped(stop)) => Err(stop),
        }
    }
}

/// The lanes of a world, for changes that concern all of them.
pub(super) struct AllLanes<'a, 'h>(pub &'a mut World<'h>);

impl Lanes for AllLanes<'_, '_> {
    type Drive = Attached;
    type Prepared = Prepared;
    type Error = Ended;

    fn on_each(&mut self, work: impl Fn(&mut Tree<Attached>) + Clone + Send + 'static) -> Result<(), Ended> {
        self.0.node.as_mut().expect("an array runs").lanes_mut().iter_mut().for_each(work);
        Ok(())
    }

    fn redundant_arrays(&mut self) -> Result<Vec<usize>, Ended> {
        Ok(self.0.node().coordinator().redundant())
    }

    fn command(&mut self, array: usize, command: ArrayCommand) -> Result<(), Ended> {
        let leaf = self.0.node().leaf_of(array);
        self.0.carry_out(leaf, command).map_err(Ended::Stopped)?.map_err(|refusal| Ended::Refused(refusal.into()))
    }

    fn offer(&mut self, drive: Prepared) -> Result<Joined, Ended> {
        let offered = self.0.node.as_mut().expect("an array runs").offer(&drive, &self.0.power);
        offered.map_err(Ended::Refused)
    }
}
