//! Finds the arrays on a set of drives, including nested ones.
//!
//! The function [`nest`] decides which array lies on which, as in the simulator.
//!
//! Everything is read before anything is written: arrays are planned level by level, bound on every lane from their plans, and
//! activated only then.

use crate::answers::{ANSWERS_WITHIN, answer_within, not_in_time, open_each, silent_drive};
use crate::beneath::may_hold_clients_data;
use crate::block_devices::block_devices;
use crate::candidate::candidate_of;
use crate::checked::{ArrayPlan, ReadyDrive, prepare_drive};
use crate::examine::{allocate, refuse_same, refuse_twins};
use crate::firmware::{FirmwareRaid, as_members};
use crate::lacking::start_warnings;
use crate::warning::OpenWarning;
use crate::{HostError, HostedArray};
use std::collections::BTreeMap;
use std::path::PathBuf;
use stria_array::{MemberId, WritePolicy};
use stria_drive::{Access, IoOptions, Ring, SyncDrive};
use stria_format::md::Candidate;
use stria_format::md::assemble::{Assembly, Start, Stranger};
use stria_tree::{Nested, PlannedMember, Provider, nest, plan_known, plan_new};

/// The way in which arrays are opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Start although data may be lost.
    pub force: bool,
    /// Serve reads only. Nothing is written to any member.
    pub read_only: bool,
    /// Trust the data on the drives even where it does not match its checksums, and record the checksums again.
    pub forget_checksums: bool,
    /// Search for another array on unmarked arrays, this many levels deep. mdadm marks no spans, and neither did Stria until
    /// 2026.
    pub nested: u8,
    /// Which volumes of firmware RAID are opened. It needs `read_only`.
    pub firmware: FirmwareRaid,
    /// The way in which requests should reach the drives.
    pub io: IoOptions,
    /// When writes are acknowledged.
    pub write_policy: WritePolicy,
    /// Switch the drives' own write caches on or off; `None`: they stay as they are.
    pub drive_caches: Option<bool>,
}

impl OpenOptions {
    /// The same for one array that was found with these.
    #[must_use]
    pub fn of(self, array: &PlannedArray) -> Self {
        let firmware = if self.firmware == FirmwareRaid::Left { FirmwareRaid::Left } else { FirmwareRaid::Volume(array.uuid) };
        Self { firmware, ..self }
    }
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

/// The arrays that were found on a set of drives.
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

/// A hint for several arrays that may be unmarked spans.
const NESTED_HINT: &str = "; if they are spans of one array that mdadm or an early Stria made, serve them with --nested";

/// Finds the arrays on `paths`. Nothing is written, no drive is locked.
///
/// # Errors
/// A drive cannot be opened, falls silent or is named twice. For an array that cannot start, its assembly has the reason.
pub fn find(paths: &[PathBuf], options: OpenOptions) -> Result<Found, HostError> {
    let opened = open_each(paths, Access::ReadOnly, IoOptions::default());
    let (found, refused) = find_on(opened.into_iter().collect::<Result<_, _>>()?, options)?;
    refused.into_iter().find(|error| error.silent_drive().is_some()).map_or(Ok(found), Err)
}

/// The same on all block devices of this machine. Returns also the errors of those that could not be read.
///
/// # Errors
/// As [`find`].
pub fn find_everywhere(options: OpenOptions) -> Result<(Found, Vec<HostError>), HostError> {
    find_readable(&block_devices(), options)
}

/// The same on those of `paths` that can be read. Returns also the errors of the others.
///
/// # Errors
/// As [`find`].
pub fn find_readable(paths: &[PathBuf], options: OpenOptions) -> Result<(Found, Vec<HostError>), HostError> {
    let (mut drives, mut refused) = (Vec::new(), Vec::new());
    for opened in open_each(paths, Access::ReadOnly, IoOptions::default()) {
        match opened {
            Ok(drive) => drives.push(drive),
            Err(error) => refused.push(error),
        }
    }
    refused.extend(leave_out_forgeries(&mut drives));
    let (found, late) = find_on(drives, options)?;
    refused.extend(late.into_iter().filter(|error| error.silent_drive().is_some()));
    Ok((found, refused))
}

/// Leaves out drives that may hold what clients of an array write, and that another drive contradicts: both say that they are the
/// same member. A client can copy any member's image into its array. Returns the reasons.
fn leave_out_forgeries(drives: &mut Vec<(SyncDrive, Candidate)>) -> Vec<HostError> {
    let path = |index: usize| drives[index].0.info().path.as_path();
    let identity = |index: usize| {
        let header = &drives[index].1.found.as_ref().ok()?.superblock.header;
        Some((header.set_uuid, header.device_uuid))
    };
    // The drive that a forged one is a copy of.
    let original = |index: usize| {
        let own = identity(index)?;
        let mut copies = (0..drives.len()).filter(|&other| other != index && identity(other) == Some(own)).peekable();
        copies.peek()?;
        may_hold_clients_data(path(index)).then(|| copies.find(|&other| !may_hold_clients_data(path(other))))?
    };
    let forged: BTreeMap<usize, HostError> = (0..drives.len())
        .filter_map(|index| {
            let (path, original) = (path(index).display(), path(original(index)?).display());
            let reason = format!(
                "{path} is a copy of {original}, and a loop device over a file of FUSE, where clients of an array may have written it: if it \
                 is the right one, name the drives of the array"
            );
            Some((index, HostError::Refused(reason)))
        })
        .collect();
    let mut index = 0..;
    drives.retain(|_| !index.next().is_some_and(|index| forged.contains_key(&index)));
    forged.into_values().collect()
}

/// Returns also why arrays could not be made ready or read; their assemblies say it too.
fn find_on(drives: Vec<(SyncDrive, Candidate)>, options: OpenOptions) -> Result<(Found, Vec<HostError>), HostError> {
    let options = OpenOptions { read_only: true, io: IoOptions::default(), ..options };
    // A disk and its partitions may both be looked at.
    refuse_same(drives.iter().map(|(drive, _)| drive.info()))?;
    let drives = as_members(drives, options.firmware)?;
    let Nested { arrays, assemblies, strangers, refused } = plan(drives, options)?;
    let planned = |array: &ArrayPlan| PlannedArray {
        name: array.start.config.name.clone(),
        uuid: array.uuid,
        drives: array.drives().into_iter().map(|drive| drive.drive.info().path.clone()).collect(),
    };
    Ok((Found { arrays: arrays.iter().map(planned).collect(), assemblies, strangers }, refused))
}

/// Opens the one array that lies on `paths`, on this thread's ring.
///
/// # Errors
/// There is no array or more than one, or it cannot start, with the reason.
pub fn open(paths: &[PathBuf], ring: &Ring, options: OpenOptions) -> Result<(HostedArray, Vec<OpenWarning>), HostError> {
    let (array, _, warnings) = open_on_coordinator(paths, ring, options, 1)?;
    if !options.read_only {
        array.activate();
    }
    Ok((array, warnings))
}

/// Opens the one array that lies on `paths` for the coordinator of up to `lanes_wanted`. Nothing is written before
/// [`HostedArray::activate`](stria_tree::Tree::activate); by then the other lanes must have bound their parts of the plan.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_on_coordinator(
    paths: &[PathBuf],
    ring: &Ring,
    options: OpenOptions,
    lanes_wanted: usize,
) -> Result<(HostedArray, ArrayPlan, Vec<OpenWarning>), HostError> {
    let (plan, mut warnings) = look_and_mark(paths, options)?;
    if !options.read_only {
        plan.drives().into_iter().try_for_each(ReadyDrive::begin)?;
    }
    let count = lanes_wanted.min(plan.lanes_max());
    let plan = plan.on_lanes(count);
    let (array, told) = HostedArray::bind(&plan, ring, 0);
    warnings.extend(told.into_iter().chain(make_room(&plan, options)).map(OpenWarning::Told));
    Ok((array, plan, warnings))
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
                let mut ranges = plan.start.recorder.metadata_ranges(MemberId(index)).into_iter();
                let lacking = ranges.find_map(|range| allocate(&drive.drive, &range).err());
                let what = "its metadata have holes, so writes fail with \"no space\" until there is space";
                told.extend(lacking.map(|error| format!("{}; {what}", error.context)));
            }
        }
    }
    told
}

fn look_and_mark(paths: &[PathBuf], options: OpenOptions) -> Result<(ArrayPlan, Vec<OpenWarning>), HostError> {
    let (plan, warnings) = look(paths, options)?;
    if options.read_only || !crate::marks::is_ours_without_marks(&plan) {
        return Ok((plan, warnings));
    }
    // The drives were only read so far. They are read again once the marks are written.
    let told = crate::marks::write(&plan)?;
    drop(plan);
    let (plan, mut warnings) = look(paths, options)?;
    warnings.push(told.into());
    Ok((plan, warnings))
}

fn look(paths: &[PathBuf], options: OpenOptions) -> Result<(ArrayPlan, Vec<OpenWarning>), HostError> {
    let access = if options.read_only { Access::ReadOnly } else { Access::Exclusive };
    let drives = open_each(paths, access, options.io).into_iter().collect::<Result<Vec<_>, _>>()?;
    refuse_twins(drives.iter().map(|(drive, _)| drive.info()))?;
    let drives = if options.read_only { as_members(drives, options.firmware)? } else { drives };
    let Nested { mut arrays, assemblies, strangers, refused } = plan(drives, options)?;
    if let Some(error) = refused.into_iter().next() {
        return Err(error);
    }
    for assembly in &assemblies {
        if let Err(error) = &assembly.outcome {
            // A drive without an array may be a member whose superblock is damaged.
            let more = strangers.first().map_or_else(String::new, |stranger| format!("; {stranger}"));
            return Err(HostError::cannot_start(error, more));
        }
    }
    if let Some(stranger) = strangers.first() {
        return Err(HostError::Refused(stranger.to_string()));
    }
    if arrays.len() != 1 {
        let names: Vec<&str> = arrays.iter().map(|array| array.start.config.name.as_str()).collect();
        let hint = if options.nested == 0 { NESTED_HINT } else { "" };
        return Err(HostError::Refused(format!(
            "the drives hold {} arrays ({}): serve one at a time{hint}",
            arrays.len(),
            names.join(", ")
        )));
    }
    let warnings = assemblies.iter().filter_map(|assembly| assembly.outcome.as_ref().ok());
    let of_start = |start: &Start| {
        let accepted = start.warnings.iter().cloned().map(OpenWarning::Start);
        accepted.chain(start_warnings(&start.config).into_iter().map(OpenWarning::Told)).collect::<Vec<_>>()
    };
    let warnings = warnings.flat_map(of_start);
    let plan = arrays.remove(0);
    let warnings = warnings.chain(lacks_checksums(&plan).into_iter().map(OpenWarning::Told)).collect();
    Ok((plan, warnings))
}

/// A warning for each array of the tree in which only some members have checksums.
fn lacks_checksums(plan: &ArrayPlan) -> Vec<String> {
    let mut told: Vec<String> = plan.spans().flat_map(lacks_checksums).collect();
    let drives =
        || plan.members.iter().filter_map(|member| if let PlannedMember::Drive(drive) = member { Some(drive) } else { None });
    let unchecked: Vec<&str> = drives().filter(|drive| drive.checksums.is_none()).map(|drive| drive.name.as_str()).collect();
    if !unchecked.is_empty() && drives().any(|drive| drive.checksums.is_some()) {
        let names = unchecked.join(", ");
        let remedy = "for checksums, `stria fail`, `stria remove` and `stria add` one drive after the other";
        told.push(format!("{names}: no checksums, as another program added it; {remedy}"));
    }
    told
}

/// Drives of this machine.
struct Opener {
    forget_checksums: bool,
}

fn plan(drives: Vec<(SyncDrive, Candidate)>, options: OpenOptions) -> Result<Nested<ReadyDrive, HostError>, HostError> {
    if options.io.poll && !drives.iter().any(|(drive, _)| drive.info().io_poll) {
        return Err(HostError::Refused(NO_POLLING.into()));
    }
    let mut opener = Opener { forget_checksums: options.forget_checksums };
    let drives = drives.into_iter().map(|(drive, candidate)| (candidate, drive)).collect();
    nest(&mut opener, drives, options.force, options.nested)
}

/// Opens an array that was just written on these drives, by its identity, for writing. It has no content yet.
pub(crate) fn open_new(drives: Vec<SyncDrive>, uuid: &[u8; 16], ring: &Ring) -> Result<HostedArray, HostError> {
    open_one(drives, ring, |opener, drives| plan_new(opener, drives, uuid))
}

/// Opens an array that has content, by its identity, for writing, without what lies on it. Nothing is forced.
pub(crate) fn open_known(drives: Vec<SyncDrive>, uuid: &[u8; 16], ring: &Ring) -> Result<HostedArray, HostError> {
    open_one(drives, ring, |opener, drives| plan_known(opener, drives, uuid))
}

fn open_one(
    drives: Vec<SyncDrive>,
    ring: &Ring,
    plan: impl FnOnce(&mut Opener, Vec<(Candidate, SyncDrive)>) -> Result<ArrayPlan, HostError>,
) -> Result<HostedArray, HostError> {
    let mut opener = Opener { forget_checksums: false };
    let drives = drives.into_iter().map(|drive| (candidate_of(&drive), drive)).collect();
    let plan = plan(&mut opener, drives)?;
    plan.drives().into_iter().try_for_each(ReadyDrive::begin)?;
    let (array, _) = HostedArray::bind(&plan, ring, 0);
    array.activate();
    Ok(array)
}

impl Provider for Opener {
    type Drive = SyncDrive;
    type Ready = ReadyDrive;
    type Error = HostError;

    fn prepare(&mut self, drive: SyncDrive, candidate: &Candidate) -> Result<ReadyDrive, HostError> {
        prepare_drive(drive, candidate, self.forget_checksums)
    }

    fn read(&mut self, array: &ArrayPlan, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, HostError> {
        let (plan, upper_uuid) = (array.clone(), upper_uuid.copied());
        let read = answer_within(ANSWERS_WITHIN, move |answer| {
            let ring = match Ring::new() {
                Ok(ring) => ring,
                Err(error) => return answer(Err(HostError::from(error))),
            };
            let mut array = HostedArray::bind_to_read(plan, &ring);
            answer(Ok(array.candidate(upper_uuid.as_ref())));
            drop(array);
            // The array is bound again once everything is known; until then its drives are idle.
            ring.drain();
        });
        read.unwrap_or_else(|error| {
            let drives: Vec<SyncDrive> = array.drives().into_iter().map(|ready| ready.drive.clone()).collect();
            let silent = silent_drive(&drives).unwrap_or_else(|| drives[0].info().path.clone());
            let name = &array.start.config.name;
            Err(not_in_time(&silent, &format!("to let array \"{name}\" be read"), &error))
        })
    }

    fn refusal(error: &HostError) -> Option<String> {
        Some(error.to_string())
    }
}
