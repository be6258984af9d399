//! Finds the arrays on a set of drives, nested arrays included.
//!
//! Which array lies on which is decided by [`nest`], as in the simulator.
//!
//! Everything is read before anything is written: arrays are opened read-only, level by level, and activated only when the last
//! one is open.

use crate::answers::open_each;
use crate::checked::prepare_drive;
use crate::choose::block_devices;
use crate::examine::{candidate_of, refuse_twins};
use crate::lacking::start_warnings;
use crate::plan::{ArrayPlan, PlannedMember};
use crate::{HostError, HostedArray, MemberSource};
use std::path::PathBuf;
use stria_array::{MemberId, Ports};
use stria_block::BlockDevice;
use stria_drive::{Access, IoOptions, Ring, SyncDrive};
use stria_format::md::Candidate;
use stria_format::md::assemble::{AssembleErrorKind, Assembly, Stranger};
use stria_format::md::nest::{Nested, Provider, Source, bind_new, nest};

/// How to open.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Start although data may be lost.
    pub force: bool,
    /// Serve reads only. Nothing is written to any member.
    pub read_only: bool,
    /// Trust what the drives hold, whatever its checksums say, and record the checksums again.
    pub forget_checksums: bool,
    /// Search for another array on arrays without a mark, so many levels deep. mdadm marks none, nor did Stria up to 2026.
    pub nested: u8,
    /// How requests should reach the drives.
    pub io: IoOptions,
}

/// An array that could be opened, and the drives it needs.
#[derive(Clone, Debug)]
pub struct PlannedArray {
    /// `name` or `host:name`.
    pub name: String,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Every drive below it.
    pub drives: Vec<PathBuf>,
}

/// What was found on a set of drives.
pub struct Found {
    /// Arrays that can be opened and are not part of another.
    pub arrays: Vec<PlannedArray>,
    /// Every array that was found, spans before the arrays above them.
    pub assemblies: Vec<Assembly>,
    /// Drives that belong to no array.
    pub strangers: Vec<Stranger>,
}

const NO_POLLING: &str = "none of the drives offers polled completion: NVMe drives do once their driver keeps queues for it, with \
                          nvme.poll_queues=N on the kernel's command line (N: one for each lane); or serve without --io-poll";

/// For several arrays that may be spans without a mark.
const NESTED_HINT: &str = "; if they are spans of one array that mdadm or an early Stria made, open it with --nested";

/// What lies on some drives: arrays that are not part of another, every array that was found, drives of no array, and messages.
type Built = (Vec<(HostedArray, ArrayPlan)>, Vec<Assembly>, Vec<Stranger>, Vec<String>);

/// Finds the arrays on `paths`. Nothing is written, no drive is locked.
///
/// # Errors
/// When a drive cannot be opened or is named twice. An array that cannot start says so in its assembly.
pub fn find(paths: &[PathBuf], options: OpenOptions) -> Result<Found, HostError> {
    let opened = open_each(paths, Access::ReadOnly, IoOptions::default());
    find_on(opened.into_iter().collect::<Result<_, _>>()?, options)
}

/// The same on all block devices of this machine, and why some could not be looked at.
///
/// # Errors
/// As [`find`].
pub fn find_everywhere(options: OpenOptions) -> Result<(Found, Vec<HostError>), HostError> {
    let (mut drives, mut refused) = (Vec::new(), Vec::new());
    for opened in open_each(&block_devices(), Access::ReadOnly, IoOptions::default()) {
        match opened {
            Ok(drive) => drives.push(drive),
            Err(error) => refused.push(error),
        }
    }
    Ok((find_on(drives, options)?, refused))
}

fn find_on(drives: Vec<(SyncDrive, Candidate)>, options: OpenOptions) -> Result<Found, HostError> {
    let ring = Ring::new()?;
    let options = OpenOptions { read_only: true, io: IoOptions::default(), ..options };
    let (arrays, assemblies, strangers, _) = build(drives, &ring, options)?;
    let planned = |array: &HostedArray| PlannedArray {
        name: array.name().to_owned(),
        uuid: array.uuid(),
        drives: array.drives().collect(),
    };
    Ok(Found { arrays: arrays.iter().map(|(array, _)| planned(array)).collect(), assemblies, strangers })
}

/// Opens the one array that lies on `paths`, on this thread's ring.
///
/// # Errors
/// When there is none or more than one, or it cannot start, with the reason.
pub fn open(paths: &[PathBuf], ring: &Ring, options: OpenOptions) -> Result<(HostedArray, Vec<String>), HostError> {
    let (array, _, warnings) = open_to_look(paths, ring, options)?;
    if !options.read_only {
        array.activate();
    }
    Ok((array, warnings))
}

/// Opens the one array that lies on `paths` for the home lane of up to `lanes_wanted`. Nothing is written before
/// [`HostedArray::activate`]; by then the other lanes must have made their parts from the plan.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_at_home(
    paths: &[PathBuf],
    ring: &Ring,
    options: OpenOptions,
    lanes_wanted: usize,
) -> Result<(HostedArray, ArrayPlan, Vec<String>), HostError> {
    let (array, plan, mut warnings) = open_to_look(paths, ring, options)?;
    let count = lanes_wanted.min(plan.lanes_max());
    if count == 1 {
        warnings.extend(make_room(&plan, options));
        return Ok((array, plan, warnings));
    }
    // So far it was only read from: made again, all its lanes start alike.
    drop(array);
    ring.drain();
    let plan = plan.on_lanes(count);
    warnings.extend(make_room(&plan, options));
    Ok((plan.make(ring, 0), plan, warnings))
}

/// Allocates the space of the metadata on image files, where a copy of an image may have left holes. Otherwise a full file system
/// could fail a superblock update. Returns a warning for each member without that space.
fn make_room(plan: &ArrayPlan, options: OpenOptions) -> Vec<String> {
    if options.read_only {
        return Vec::new();
    }
    let mut told = Vec::new();
    for (index, member) in plan.members.iter().enumerate() {
        match member {
            PlannedMember::Array(span) => told.extend(make_room(span, options)),
            PlannedMember::Drive(drive) => {
                let mut places = plan.start.recorder.metadata_places(MemberId(index)).into_iter();
                let lacking = places.find_map(|place| drive.allocate(place).err());
                let what = "its metadata have holes, and writes fail with \"no space\" until there is room";
                told.extend(lacking.map(|error| format!("{}; {what}", error.context)));
            }
        }
    }
    told
}

fn open_to_look(
    paths: &[PathBuf],
    ring: &Ring,
    options: OpenOptions,
) -> Result<(HostedArray, ArrayPlan, Vec<String>), HostError> {
    let (array, plan, warnings) = look(paths, ring, options)?;
    if options.read_only || !crate::marks::is_ours_without_marks(&plan) {
        return Ok((array, plan, warnings));
    }
    // So far it was only read from: opened again, its spans have their marks.
    drop(array);
    ring.drain();
    let told = crate::marks::write(&plan)?;
    drop(plan);
    let (array, plan, mut warnings) = look(paths, ring, options)?;
    warnings.push(told);
    Ok((array, plan, warnings))
}

fn look(paths: &[PathBuf], ring: &Ring, options: OpenOptions) -> Result<(HostedArray, ArrayPlan, Vec<String>), HostError> {
    let access = if options.read_only { Access::ReadOnly } else { Access::Exclusive };
    let drives = open_each(paths, access, options.io).into_iter().collect::<Result<_, _>>()?;
    let (mut arrays, assemblies, strangers, told) = build(drives, ring, options)?;
    for assembly in &assemblies {
        if let Err(error) = &assembly.outcome {
            // A stranger may be a member whose superblock is damaged.
            let told = strangers.first().map_or(error.to_string(), |stranger| format!("{error}; {stranger}"));
            return Err(match error.kind {
                AssembleErrorKind::DirtyDegraded => HostError::Unsafe(told),
                _ => HostError::Refused(told),
            });
        }
    }
    if let Some(stranger) = strangers.first() {
        return Err(HostError::Refused(stranger.to_string()));
    }
    if arrays.len() != 1 {
        let names: Vec<&str> = arrays.iter().map(|(array, _)| array.name()).collect();
        let hint = if options.nested == 0 { NESTED_HINT } else { "" };
        return Err(HostError::Refused(format!(
            "the drives hold {} arrays ({}): open one at a time{hint}",
            arrays.len(),
            names.join(", ")
        )));
    }
    let warnings = assemblies.iter().filter_map(|assembly| assembly.outcome.as_ref().ok());
    let warnings = warnings.flat_map(|start| start.warnings.iter().cloned().chain(start_warnings(&start.config)));
    let warnings = warnings.chain(told).collect();
    let (array, plan) = arrays.remove(0);
    Ok((array, plan, warnings))
}

/// Drives and arrays of this machine, on one lane.
struct Opener<'a> {
    ring: &'a Ring,
    forget_checksums: bool,
    /// What the administrator must know.
    told: Vec<String>,
}

fn build(drives: Vec<(SyncDrive, Candidate)>, ring: &Ring, options: OpenOptions) -> Result<Built, HostError> {
    refuse_twins(drives.iter().map(|(drive, _)| drive.info()))?;
    if options.io.poll && !drives.iter().any(|(drive, _)| drive.info().io_poll) {
        return Err(HostError::Refused(NO_POLLING.into()));
    }
    let mut opener = Opener { ring, forget_checksums: options.forget_checksums, told: Vec::new() };
    let drives = drives.into_iter().map(|(drive, candidate)| (candidate, drive)).collect();
    let Nested { arrays, assemblies, strangers } = nest(&mut opener, drives, options.force, options.nested)?;
    Ok((arrays, assemblies, strangers, opener.told))
}

/// Opens an array that was just written on these drives, by its identity, for writing. It has no content yet.
pub(crate) fn open_new(drives: Vec<SyncDrive>, uuid: &[u8; 16], ring: &Ring) -> Result<HostedArray, HostError> {
    let mut opener = Opener { ring, forget_checksums: false, told: Vec::new() };
    let drives = drives.into_iter().map(|drive| (candidate_of(&drive), drive)).collect();
    let (array, _) = bind_new(&mut opener, drives, uuid)?;
    array.activate();
    Ok(array)
}

impl Provider for Opener<'_> {
    type Drive = SyncDrive;
    type Array = (HostedArray, ArrayPlan);
    type Error = HostError;

    fn bind(
        &mut self,
        assembly: &Assembly,
        members: Vec<(&Candidate, Source<SyncDrive, Self::Array>)>,
    ) -> Result<Self::Array, HostError> {
        let start = assembly.outcome.as_ref().expect("it can start");
        let redundant = start.config.geometry.level().is_redundant();
        let mut devices: Vec<Box<dyn BlockDevice>> = Vec::new();
        let (mut sources, mut planned) = (Vec::new(), Vec::new());
        let (mut checked, mut unchecked) = (false, Vec::new());
        for (candidate, member) in members {
            match member {
                Source::Drive(drive) => {
                    planned.push(PlannedMember::Drive(drive.clone()));
                    let unbound = prepare_drive(drive, candidate, self.forget_checksums)?;
                    let (device, drive, warnings) = unbound.bind(self.ring, redundant);
                    match drive.checked {
                        Some(_) => checked = true,
                        None => unchecked.push(candidate.name.as_str()),
                    }
                    sources.push(MemberSource::Drive(Box::new(drive)));
                    devices.push(device);
                    self.told.extend(warnings);
                }
                Source::Array((array, plan)) => {
                    planned.push(PlannedMember::Array(Box::new(plan)));
                    sources.push(MemberSource::Array(Box::new(array.clone())));
                    devices.push(Box::new(array));
                }
            }
        }
        if checked && !unchecked.is_empty() {
            let names = unchecked.join(", ");
            let remedy = "`fail`, `remove` and `add` it to have them";
            self.told.push(format!("{names}: no checksums, as another program added it; {remedy}"));
        }
        let plan = ArrayPlan { uuid: assembly.uuid, start: start.clone(), members: planned, ports: Ports::new(1) };
        Ok((plan.bind(devices, sources, self.ring, 0), plan))
    }

    fn read(&mut self, (array, _): &mut Self::Array, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, HostError> {
        Ok(array.candidate(upper_uuid))
    }
}
