//! What lanes make their parts of an array from: the same tree on every lane, of drives that were opened once.

use crate::clock::unix_seconds_at_zero;
use crate::{HostedArray, HostedDrive, MemberSource};
use stria_array::{ArrayDevice, LaneLog, Ports, Recorder};
use stria_block::BlockDevice;
use stria_drive::{FileDrive, Ring, SyncDrive, monotonic_now};
use stria_format::md::MdRecorder;
use stria_format::md::assemble::Start;

/// How many lanes an array may have where its metadata set no bound.
const LANES_MAX: usize = 64;

/// An array as it was found, and what it is made of.
#[derive(Clone)]
pub(crate) struct ArrayPlan {
    pub uuid: [u8; 16],
    pub start: Start,
    pub members: Vec<PlannedMember>,
    pub ports: Ports<<<MdRecorder as Recorder>::Log as LaneLog>::Places>,
}

/// What a member is to be made of.
#[derive(Clone)]
pub(crate) enum PlannedMember {
    /// A drive without checksums, which belong to one lane.
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

    /// How many lanes all arrays of the tree may have.
    pub fn lanes_max(&self) -> usize {
        let own = self.start.recorder.lanes_max().min(LANES_MAX);
        self.spans().map(Self::lanes_max).fold(own, Ord::min)
    }

    /// The same, to be made on so many lanes.
    pub fn on_lanes(self, count: usize) -> Self {
        let members = self.members.into_iter().map(|member| match member {
            PlannedMember::Drive(drive) => PlannedMember::Drive(drive),
            PlannedMember::Array(span) => PlannedMember::Array(Box::new(span.on_lanes(count))),
        });
        Self { members: members.collect(), start: self.start.with_lanes(count), ports: Ports::new(count), ..self }
    }

    /// A lane's part.
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

    /// A lane's part over devices that are there already, by member handle.
    pub fn bind(&self, devices: Vec<Box<dyn BlockDevice>>, sources: Vec<MemberSource>, ring: &Ring, lane: usize) -> HostedArray {
        let (config, at_zero) = (&self.start.config, unix_seconds_at_zero(monotonic_now()));
        let recorder = (lane == 0).then(|| self.start.recorder.clone());
        let device = ArrayDevice::on_lane(config, devices, recorder, at_zero, &self.ports, lane);
        HostedArray::new(config.name.clone(), self.uuid, config.geometry.clone(), device, sources, ring.clone(), lane)
    }
}
