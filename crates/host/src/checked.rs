//! Drives with checksums of their content, opened with or without them.

use crate::{HostError, HostedDrive};
use stria_block::BlockDevice;
use stria_drive::{Access, FileDrive, Ring, SyncDrive};
use stria_format::md::Candidate;
use stria_integrity::IntegrityDevice;
use uuid::Uuid;

/// A drive whose data is verified.
pub(crate) type Checked = IntegrityDevice<FileDrive>;

/// For levels on which nothing else shows that other software wrote to the drive.
pub(crate) const ADVICE: &str = ": it changed by itself, or the array was written by Linux, which leaves no trace of that at this level; \
                      `stria serve --forget-checksums` takes what is there";

/// Puts a member on the ring, behind its checksums if it has some. Returns also what the administrator must know.
///
/// # Errors
/// When a newer version wrote the checksums, or old ones cannot be made void.
pub(crate) fn bind_drive(
    drive: SyncDrive,
    candidate: &Candidate,
    ring: &Ring,
    redundant: bool,
    forget: bool,
) -> Result<(Box<dyn BlockDevice>, HostedDrive, Vec<String>), HostError> {
    let found = candidate.found.as_ref().ok().and_then(|member| member.checksums.as_ref());
    let on_ring = |drive| {
        let device = FileDrive::new(drive, ring);
        let hosted = HostedDrive::of(&device);
        let note = device.way_note().map(str::to_owned);
        (device, hosted, note)
    };
    let Some(found) = found else {
        let (device, hosted, note) = on_ring(drive);
        return Ok((Box::new(device), hosted, Vec::from_iter(note)));
    };
    let name = &candidate.name;
    let epoch = Uuid::new_v4().as_u64_pair().0;
    let opened = found.open(epoch);
    let (mut header, mut void) = opened.map_err(|error| HostError::Refused(format!("{name}: {error}; use a newer Stria")))?;
    let mut warning = void.then(|| match &found.header {
        Ok(_) => format!(
            "{name} was written by Linux since: its checksums are void, and learned anew as it is read; `stria scrub` reads all"
        ),
        Err(error) => format!("{name}: {error}; they are learned anew as it is read"),
    });
    if forget && !void {
        (header, void) = (header.void(), true);
        warning = Some(format!("{name}: its checksums are forgotten as asked for, and learned anew as it is read"));
    }
    let read_only = drive.access() == Access::ReadOnly;
    if void && !read_only {
        // Must be durable before a superblock claims that Stria was the last to write.
        drive.write_at(header.sector(), &header.encode())?;
        drive.sync()?;
    }
    let advice = if redundant { "" } else { ADVICE };
    let (device, mut hosted, note) = on_ring(drive);
    let checked = IntegrityDevice::new(device, name.as_str(), header, read_only).advising(advice);
    hosted.checked = Some(checked.clone());
    Ok((Box::new(checked), hosted, warning.into_iter().chain(note).collect()))
}
