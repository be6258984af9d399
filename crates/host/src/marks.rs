//! Marks for nested arrays that early versions of Stria made, which did not mark spans.
//!
//! With `--nested` the administrator declares that the arrays on the drives are spans. If their names are those that `create`
//! gives to spans of the array found on them, they get the marks that they would have today, and start without `--nested` from
//! then on. Other nested arrays, such as mdadm's, get none: a client may have written their content, and the mark would make the
//! mistake permanent.

use crate::HostError;
use crate::candidate::candidate_of;
use crate::checked::ArrayPlan;
use stria_array::Level;
use stria_drive::SyncDrive;
use stria_format::md::Superblock;
use stria_tree::{PlannedMember, span_name};

/// True if Stria made this array over arrays before spans were marked, and some marks are missing.
pub(crate) fn is_ours_without_marks(plan: &ArrayPlan) -> bool {
    let config = &plan.start.config;
    let upper = plan.start.recorder.superblock();
    let span_in = |slot: usize| {
        let member = config.slots[slot].member.as_ref()?;
        let PlannedMember::Array(span) = &plan.members[member.id.0] else { return None };
        let superblock = span.start.recorder.superblock();
        let is_ours = superblock.minor_version() == 2 && superblock.name() == span_name(&config.name, slot);
        is_ours.then_some(superblock.span_of)
    };
    let marks: Option<Vec<Option<[u8; 16]>>> = (0..config.slots.len()).map(span_in).collect();
    let is_striped = config.geometry.level() == Level::Raid0 && upper.minor_version() == 2;
    is_striped && marks.is_some_and(|marks| marks.contains(&None))
}

/// Marks the spans, on every drive below them. Returns what was done, in words.
///
/// # Errors
/// A drive cannot be written. Marks that were written are valid; opening the array again writes the others.
pub(crate) fn write(plan: &ArrayPlan) -> Result<String, HostError> {
    for member in &plan.members {
        let PlannedMember::Array(span) = member else { continue };
        for member in &span.members {
            if let PlannedMember::Drive(drive) = member {
                mark(&drive.drive, span.uuid, plan.uuid)?;
            }
        }
    }
    let name = &plan.start.config.name;
    Ok(format!("the spans of \"{name}\" are marked now: it starts without --nested from now on"))
}

fn mark(drive: &SyncDrive, set_uuid: [u8; 16], upper_uuid: [u8; 16]) -> Result<(), HostError> {
    let candidate = candidate_of(drive);
    let found = candidate.found.ok().filter(|found| found.superblock.header.set_uuid == set_uuid);
    let Some(found) = found else { return Ok(()) };
    let superblock = Superblock { span_of: Some(upper_uuid), ..found.superblock };
    drive.write_at(superblock.header.super_offset, &superblock.encode())?;
    Ok(drive.sync()?)
}
