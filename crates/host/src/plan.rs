//! How lanes make their parts of an array: the same tree on every lane, of drives that were opened once.

use crate::clock::unix_seconds_at_zero;
use crate::{HostedArray, HostedDrive, MemberSource};
use stria_array::{ArrayDevice, LaneLog, MetadataWriter, Ports};
use stria_block::BlockDevice;
use stria_drive::{FileDrive, Ring, SyncDrive, monotonic_now};
use stria_format::md::MdMetadata;
use stria_format::md::assemble::Start;

/// The most lanes of an array whose metadata sets no bound.
const LANES_MAX: usize = 64;

/// An array as it was found, and its members.
#[derive(Clone)]
pub(crate) struct ArrayPlan {
    pub uuid: [u8; 16],
    pub start: Start,
    pub members: Vec<PlannedMember>,
    pub ports: Ports<<<MdMetadata as MetadataWriter>::Log as LaneLog>::Places>,
}

/// What a member is made of.
#[derive(Clone)]
pub(crate) enum PlannedMember {
    /// A drive. [`ArrayPlan::make`] adds no checksums to it: an array with checksums runs on one lane.
    Drive(SyncDrive),
    Array(Box<ArrayPlan>),
}

impl ArrayPlan {
    fn spans(&self) -> impl Iterator<Item = &Self> {
        self.members.iter().filter_map(|member| match member {
            PlannedMember::Drive(_) => None,
            PlannedMember::Array(span) => Some(&**span),
        })
    }

    /// The most lanes that all arrays of the tree can have.
    pub fn lanes_max(&self) -> usize {
        let own = self.start.recorder.lanes_max().min(LANES_MAX);
        self.spans().map(Self::lanes_max).fold(own, Ord::min)
    }

    /// The same plan for so many lanes.
    pub fn on_lanes(self, count: usize) -> Self {
        let members = self.members.into_iter().map(|member| match member {
            PlannedMember::Drive(drive) => PlannedMember::Drive(drive),
            PlannedMember::Array(span) => PlannedMember::Array(Box::new(span.on_lanes(count))),
        });
        Self { members: members.collect(), start: self.start.with_lanes(count), ports: Ports::new(count), ..self }
    }

    /// Makes a lane's part.
    pub fn make(&self, ring: &Ring, lane: usize) -> HostedArray {
        let mut devices: Vec<Box<dyn BlockDevice>> = Vec::new();
        let mut sources = Vec::new();
        for member in &self.members {
            match member {
                PlannedMember::Drive(drive) => {
                    let device = FileDrive::new(drive.clone(), ring);
                    sources.push(MemberSource::Drive(Box::new(HostedDrive::of(&device))));
                    devices.push(Box::new(device));
                }
                PlannedMember::Array(span) => {
                    let array = span.make(ring, lane);
                    sources.push(MemberSource::Array(Box::new(array.clone())));
                    devices.push(Box::new(array));
                }
            }
        }
        let nudge = ring.nudge();
        self.ports.on_mail(lane, move || nudge());
        self.bind(devices, sources, ring, lane)
    }

    /// Makes a lane's part over devices that exist already, by member handle.
    pub fn bind(&self, devices: Vec<Box<dyn BlockDevice>>, sources: Vec<MemberSource>, ring: &Ring, lane: usize) -> HostedArray {
        let (config, at_zero) = (&self.start.config, unix_seconds_at_zero(monotonic_now()));
        let recorder = (lane == 0).then(|| self.start.recorder.clone());
        let device = ArrayDevice::on_lane(config, devices, recorder, at_zero, &self.ports, lane);
        HostedArray::new(config.name.clone(), self.uuid, config.geometry.clone(), device, sources, ring.clone(), lane)
    }
}
