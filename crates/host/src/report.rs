//! An array at one moment, as plain data: made on each lane, and merged into a report of the whole array.

use crate::{HostedArray, HostedDrive};
use stria_array::{ArrayStatus, Geometry};
use stria_block::{Nanos, Timings};
use stria_drive::{DriveInfo, Way};
use stria_format::md::recorder::Description;
use stria_integrity::{Counts, IntegrityDevice};
use stria_tree::{Member, Tree};

/// An array and what is below it.
#[derive(Clone, Debug)]
pub struct ArrayReport {
    /// `name` or `host:name`.
    pub name: String,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Level, layout, sizes.
    pub geometry: Geometry,
    /// Its state.
    pub status: ArrayStatus,
    /// Its metadata. Only the coordinator knows it.
    pub description: Option<Description>,
    /// The members, by handle.
    pub members: Vec<MemberReport>,
}

/// The thing that a member is made of.
#[derive(Clone, Debug)]
pub enum MemberReport {
    /// A drive.
    Drive(Box<DriveReport>),
    /// An array of its own: a span.
    Array(Box<ArrayReport>),
    /// A drive that was removed.
    Removed,
}

/// A drive that is a member.
#[derive(Clone, Debug)]
pub struct DriveReport {
    /// The kind of drive.
    pub info: DriveInfo,
    /// The way in which its reads and writes reach it.
    pub way: Way,
    /// The durations of its requests.
    pub timings: Timings,
    /// The arrival time of the oldest request that it has not answered, by the clock of lanes.
    pub oldest: Option<Nanos>,
    /// The time at which it last ended a request, by the same clock; 0: never.
    pub last_end: Nanos,
    /// The time at which a request last failed because the file system or pool below has no space, by the same clock; `None`:
    /// never.
    pub no_space: Option<Nanos>,
    /// Its file was deleted or replaced, or the one behind it: its bytes are lost when the array stops.
    pub is_deleted: bool,
    /// The findings of its checksums; `None`: it has none.
    pub checksums: Option<Counts>,
}

impl DriveReport {
    /// The time since the drive has requests and has ended none, by the clock of lanes. A drive with a long queue ends one now
    /// and then.
    pub fn silence(&self, now: Nanos) -> Nanos {
        self.oldest.map_or(0, |oldest| now.saturating_sub(oldest.max(self.last_end)))
    }
}

impl ArrayReport {
    pub(crate) fn of(array: &HostedArray) -> Self {
        array.settle_times();
        Self::of_tree(array, array.is_coordinator())
    }

    fn of_tree(array: &Tree<HostedDrive>, is_coordinator: bool) -> Self {
        let member = |member: &Member<HostedDrive>| match member {
            Member::Drive(drive) => MemberReport::Drive(Box::new(DriveReport {
                info: drive.info.clone(),
                way: drive.watch.way(),
                timings: drive.watch.timings(),
                oldest: drive.watch.oldest(),
                last_end: drive.watch.last_end(),
                no_space: drive.watch.no_space(),
                is_deleted: drive.watch.drive().is_some_and(|drive| drive.is_deleted()),
                checksums: drive.checked.as_ref().map(IntegrityDevice::counts),
            })),
            Member::Array(span) => MemberReport::Array(Box::new(Self::of_tree(span, is_coordinator))),
            Member::Removed => MemberReport::Removed,
        };
        Self {
            name: array.name().to_owned(),
            uuid: array.uuid(),
            geometry: array.geometry().clone(),
            status: array.status(),
            description: is_coordinator.then(|| array.recorder().description()),
            members: array.members().iter().map(member).collect(),
        }
    }

    /// Merges the reports of an array's lanes, the coordinator first.
    ///
    /// # Panics
    /// Without any report.
    pub fn joined(lanes: Vec<Self>) -> Self {
        let mut lanes = lanes.into_iter();
        let mut all = lanes.next().expect("an array has a lane");
        let mut statuses = vec![all.status];
        let mut spans: Vec<Vec<Self>> = Vec::new();
        for lane in lanes {
            statuses.push(lane.status);
            // Not all lanes may know a drive that is just joining.
            for (index, (known, other)) in all.members.iter_mut().zip(lane.members).enumerate() {
                match (known, other) {
                    (MemberReport::Drive(known), MemberReport::Drive(other)) => {
                        known.timings.add(&other.timings);
                        known.oldest = known.oldest.into_iter().chain(other.oldest).min();
                        known.last_end = known.last_end.max(other.last_end);
                        known.no_space = known.no_space.max(other.no_space);
                    }
                    (MemberReport::Array(_), MemberReport::Array(other)) => {
                        spans.resize_with(spans.len().max(index + 1), Vec::new);
                        spans[index].push(*other);
                    }
                    _ => {}
                }
            }
        }
        for (member, others) in all.members.iter_mut().zip(spans) {
            if let MemberReport::Array(span) = member {
                let whole = Self::joined(std::iter::once((**span).clone()).chain(others).collect());
                **span = whole;
            }
        }
        all.status = ArrayStatus::joined(statuses);
        all
    }

    /// The arrays among the members, by handle.
    pub fn spans(&self) -> impl Iterator<Item = &Self> {
        self.members.iter().filter_map(|member| match member {
            MemberReport::Array(span) => Some(&**span),
            MemberReport::Drive(_) | MemberReport::Removed => None,
        })
    }

    /// The drives among the members, by handle.
    pub fn drives(&self) -> impl Iterator<Item = &DriveReport> {
        self.members.iter().filter_map(|member| match member {
            MemberReport::Drive(drive) => Some(&**drive),
            MemberReport::Array(_) | MemberReport::Removed => None,
        })
    }

    /// This array and its spans, depth first.
    pub fn tree(&self) -> Vec<&Self> {
        let mut found = vec![self];
        found.extend(self.spans().flat_map(Self::tree));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_ends_requests_is_not_silent() {
        let info = stria_drive::probe(&std::env::current_exe().expect("this test")).expect("a file");
        let (way, timings) = (Way::default(), Timings::default());
        let mut drive =
            DriveReport { info, way, timings, oldest: None, last_end: 70, no_space: None, is_deleted: false, checksums: None };
        assert_eq!(drive.silence(100), 0, "nothing is asked of it");
        drive.oldest = Some(20);
        assert_eq!(drive.silence(100), 30, "its queue is long, and it works");
        drive.oldest = Some(90);
        assert_eq!(drive.silence(100), 10, "it had nothing to do before");
    }
}
