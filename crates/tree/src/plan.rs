//! The plan by which lanes make their parts of an array: the same tree on every lane, of drives that were opened once.

use crate::tree::{Member, MemberDrive, Tree};
use stria_array::{ArrayDevice, MemberId, Ports};
use stria_block::BlockDevice;
use stria_format::md::LogLayout;
use stria_format::md::assemble::Start;

/// The most lanes of an array whose metadata sets no bound.
const LANES_MAX: usize = 64;

/// An array as it was found, and its members. `R`: a drive that can be bound on any lane.
#[derive(Clone)]
pub struct Plan<R> {
    /// The array's identity.
    pub uuid: [u8; 16],
    /// Its start.
    pub start: Start,
    /// The members, by handle.
    pub members: Vec<PlannedMember<R>>,
    ports: Ports<LogLayout>,
}

/// What a member consists of.
#[derive(Clone)]
pub enum PlannedMember<R> {
    /// A drive.
    Drive(R),
    /// An array of its own: a span.
    Array(Box<Plan<R>>),
}

/// Puts drives on one lane.
pub trait Binder<R> {
    /// A drive on this lane.
    type Drive: MemberDrive;

    /// The device of a member, and what the tree keeps of it. Waits for nothing.
    fn bind(&mut self, array: &Plan<R>, member: MemberId, drive: &R) -> (Box<dyn BlockDevice>, Self::Drive);
}

impl<R> Plan<R> {
    pub(crate) fn new(uuid: [u8; 16], start: Start, members: Vec<PlannedMember<R>>) -> Self {
        Self { uuid, start, members, ports: Ports::new(1) }
    }

    /// The arrays among the members, by handle.
    pub fn spans(&self) -> impl Iterator<Item = &Self> {
        self.members.iter().filter_map(|member| match member {
            PlannedMember::Drive(_) => None,
            PlannedMember::Array(span) => Some(&**span),
        })
    }

    /// The drives of the whole tree.
    pub fn drives(&self) -> Vec<&R> {
        let mut drives = Vec::new();
        for member in &self.members {
            match member {
                PlannedMember::Drive(drive) => drives.push(drive),
                PlannedMember::Array(span) => drives.extend(span.drives()),
            }
        }
        drives
    }

    /// The most lanes that all arrays of the tree can have.
    pub fn lanes_max(&self) -> usize {
        let config = &self.start.config;
        let has_bad_blocks =
            config.slots.iter().filter_map(|slot| slot.member.as_ref()).any(|member| !member.bad_blocks.is_empty());
        // Without redundancy each lane has an engine of the whole array, and only the first one records metadata.
        let own = match has_bad_blocks && !config.geometry.level().is_redundant() {
            true => 1,
            false => self.start.recorder.lanes_max().min(LANES_MAX),
        };
        self.spans().map(Self::lanes_max).fold(own, Ord::min)
    }

    /// The number of lanes that are to bind it.
    pub fn lane_count(&self) -> usize {
        self.ports.lane_count()
    }

    /// The same plan for so many lanes.
    #[must_use]
    pub fn on_lanes(self, count: usize) -> Self {
        self.on_lanes_with(count, &|_, ports| ports)
    }

    /// The same, for simulations of small arrays: `with` may change how an array is dealt out to its lanes.
    #[must_use]
    pub fn on_lanes_with(self, count: usize, with: &impl Fn(&Start, Ports<LogLayout>) -> Ports<LogLayout>) -> Self {
        let members = self.members.into_iter().map(|member| match member {
            PlannedMember::Drive(drive) => PlannedMember::Drive(drive),
            PlannedMember::Array(span) => PlannedMember::Array(Box::new(span.on_lanes_with(count, with))),
        });
        let ports = with(&self.start, Ports::new(count));
        Self { uuid: self.uuid, members: members.collect(), start: self.start.with_lanes(count), ports }
    }

    /// Sets what makes a lane look at its mail soon, for all arrays of the tree. Only the first call counts.
    pub fn on_mail(&self, lane: usize, nudge: &(impl Fn() + Clone + Send + Sync + 'static)) {
        self.spans().for_each(|span| span.on_mail(lane, nudge));
        self.ports.on_mail(lane, nudge.clone());
    }

    /// Binds a lane's part. Nothing is written before [`Tree::activate`]; by then every lane must have its part.
    /// `unix_seconds_at_zero`: seconds since 1970 when the lanes' clock was 0.
    pub fn bind<B: Binder<R>>(&self, lane: usize, unix_seconds_at_zero: u64, binder: &mut B) -> Tree<B::Drive> {
        let mut devices: Vec<Box<dyn BlockDevice>> = Vec::new();
        let mut members = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            match member {
                PlannedMember::Drive(ready) => {
                    let (device, drive) = binder.bind(self, MemberId(index), ready);
                    members.push(Member::Drive(drive));
                    devices.push(device);
                }
                PlannedMember::Array(span) => {
                    let span = span.bind(lane, unix_seconds_at_zero, binder);
                    devices.push(Box::new(span.device().clone()));
                    members.push(Member::Array(Box::new(span)));
                }
            }
        }
        let config = &self.start.config;
        let recorder = (lane == 0).then(|| self.start.recorder.clone());
        let device = ArrayDevice::on_lane(config, devices, recorder, unix_seconds_at_zero, &self.ports, lane);
        Tree::new(config.name.clone(), self.uuid, config.geometry.clone(), device, lane == 0, members)
    }
}
