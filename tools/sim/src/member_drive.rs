//! A modelled drive as a member: its superblock, the data that a start of its array reads from it, and its device on a lane.

use crate::drive::{Drive, DriveHandle};
use crate::mutant::Mutant;
use crate::power::Power;
use crate::swap::{Swap, Swapped};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stria_array::MemberId;
use stria_block::{BlockDevice, Nanos};
use stria_format::md::assemble::AssembleError;
use stria_format::md::{Candidate, Superblock};
use stria_integrity::{Header, IntegrityDevice};
use stria_tree::{Binder, Intended, JoinRequest, MemberDrive, NewDrive, Plan};

/// The reason why an array does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The power was cut meanwhile.
    PowerLost,
    /// The reason, in words.
    Refused(String),
}

impl From<AssembleError> for MountError {
    fn from(error: AssembleError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// The position of md's superblock on a drive.
pub const SUPERBLOCK: Range<u64> = 8..16;

/// The start of virtual time, in seconds since 1970.
pub const UNIX_SECONDS: u64 = 1_700_000_000;

/// The longest time of any operation in virtual time: far beyond every stall and timer.
pub const PATIENCE: Nanos = 600_000_000_000;

/// The name of the drive of this number.
pub(crate) fn drive_name(index: usize) -> String {
    format!("drive{index}")
}

/// The superblock of a drive, if it has one that can be read.
pub fn superblock_of(drive: &Drive) -> Option<Superblock> {
    let Range { start, end } = SUPERBLOCK;
    let readable = !drive.is_bad(&SUPERBLOCK);
    readable.then(|| Superblock::parse(&drive.image().bytes_of(start, end - start), start, drive.sectors()).ok())?
}

/// A drive with checksums.
pub type Checked = IntegrityDevice<DriveHandle>;

/// A drive that may be bound on any lane.
#[derive(Clone)]
pub struct Ready {
    index: usize,
    drive: Rc<RefCell<Drive>>,
    name: String,
    checksums: Option<Header>,
}

impl Ready {
    /// Opens a drive, and voids its old checksums.
    pub(crate) fn new(index: usize, drive: &Rc<RefCell<Drive>>, candidate: &Candidate) -> Self {
        drive.borrow_mut().open();
        let found = candidate.found.as_ref().ok().and_then(|member| member.checksums.as_ref());
        let checksums = found.map(|found| {
            let opened = found.open(0).expect("nobody else writes here");
            if let Some((sector, bytes)) = opened.first {
                drive.borrow_mut().put(sector, &bytes);
            }
            opened.header
        });
        Self { index, drive: Rc::clone(drive), name: candidate.name.clone(), checksums }
    }
}

/// A drive on a lane.
#[derive(Clone)]
pub struct Attached {
    /// Its number.
    pub index: usize,
    drive: Rc<RefCell<Drive>>,
    /// The device that verifies its data, if it has checksums.
    pub checked: Option<Checked>,
}

impl Attached {
    /// True while it has requests under way.
    pub fn is_busy(&self) -> bool {
        self.drive.borrow().is_busy()
    }
}

impl MemberDrive for Attached {
    /// The drive's number, and how often another drive took its place.
    type Identity = (usize, u32);

    fn identity(&self) -> (usize, u32) {
        (self.index, self.drive.borrow().renewals())
    }

    fn name(&self) -> String {
        drive_name(self.index)
    }

    fn is_cut_short(&self) -> bool {
        self.drive.borrow().is_cut()
    }

    fn cut_short(&self) -> Arc<AtomicBool> {
        self.drive.borrow().cut_short()
    }

    fn close(&self) -> bool {
        self.checked.as_ref().is_none_or(|checked| {
            checked.close();
            checked.closed().is_some()
        })
    }
}

/// Puts drives on a lane.
pub(crate) struct OnLane<'a> {
    power: &'a Rc<Power>,
    lane: usize,
    /// The exchange of P and Q that a mutant makes in each array that has both, by UUID.
    swaps: BTreeMap<[u8; 16], Rc<Swap>>,
}

impl<'a> OnLane<'a> {
    /// The lanes, the coordinator first.
    pub fn new(power: &'a Rc<Power>) -> Self {
        Self { power, lane: 0, swaps: BTreeMap::new() }
    }

    /// The drives that follow are bound on this lane.
    pub fn turn_to(&mut self, lane: usize) -> &mut Self {
        self.lane = lane;
        self
    }

    /// A drive's device on this lane, behind its checksums if it has any.
    pub fn attach(&self, ready: &Ready) -> (Box<dyn BlockDevice>, Attached) {
        let handle = DriveHandle::new(&ready.drive, self.lane);
        let attached = |checked| Attached { index: ready.index, drive: Rc::clone(&ready.drive), checked };
        match &ready.checksums {
            None => (Box::new(handle), attached(None)),
            Some(header) => {
                assert_eq!(self.lane, 0, "checksums are one lane's");
                let checked = IntegrityDevice::new(handle, ready.name.as_str(), header.clone(), false);
                (Box::new(checked.clone()), attached(Some(checked)))
            }
        }
    }

    fn swap(&mut self, array: &Plan<Ready>) -> Option<Rc<Swap>> {
        let config = &array.start.config;
        let wanted = self.power.mutant.get() == Some(Mutant::ParitySwapped) && config.geometry.level().parity_count() == 2;
        let data_start =
            || config.slots.iter().find_map(|slot| slot.member.as_ref()).map_or(0, |member| member.data_start_sector.get());
        let new = || Swap::new(config.geometry.clone(), data_start(), Rc::clone(self.power));
        wanted.then(|| Rc::clone(self.swaps.entry(array.uuid).or_insert_with(new)))
    }
}

impl Binder<Ready> for OnLane<'_> {
    type Drive = Attached;

    fn bind(&mut self, array: &Plan<Ready>, member: MemberId, ready: &Ready) -> (Box<dyn BlockDevice>, Attached) {
        let slots = &array.start.config.slots;
        let slot = slots.iter().position(|slot| slot.member.as_ref().is_some_and(|own| own.id == member));
        match (self.swap(array), slot) {
            (Some(swap), Some(slot)) => {
                let swapped = Swapped::new(slot, swap, DriveHandle::new(&ready.drive, self.lane));
                (Box::new(swapped), Attached { index: ready.index, drive: Rc::clone(&ready.drive), checked: None })
            }
            _ => self.attach(ready),
        }
    }
}

/// A drive that is to join, with its metadata on it.
pub struct Prepared {
    pub(crate) new: NewDrive<(usize, u32)>,
    /// Its metadata are new, or it returns with its own.
    pub intended: Intended,
    pub(crate) request: JoinRequest,
    pub(crate) ready: Ready,
}
