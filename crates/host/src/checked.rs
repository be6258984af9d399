//! Drives with checksums of their content, opened with or without them.

use crate::HostError;
use crate::hosted_drive::HostedDrive;
use stria_block::BlockDevice;
use stria_drive::{Access, FileDrive, Ring, SyncDrive};
use stria_format::md::{Candidate, Opened};
use stria_integrity::{Header, IntegrityDevice};
use stria_tree::Plan;
use uuid::Uuid;

/// A warning for levels on which nothing else shows that other software wrote to the drive.
pub(crate) const ADVICE: &str = ": the drive changed them, or Linux wrote to the array, which leaves no trace at this level; \
                      `stria serve --forget-checksums` accepts the present data";

/// An array of this machine's drives that can be bound on any lane.
pub(crate) type ArrayPlan = Plan<ReadyDrive>;

/// A member, ready for a ring: nothing that is left to do waits for the drive.
#[derive(Clone)]
pub(crate) struct ReadyDrive {
    pub drive: SyncDrive,
    pub name: String,
    pub checksums: Option<Header>,
    /// The head that voids old checksums, until it is written: position and bytes.
    first: Option<(u64, Vec<u8>)>,
    warning: Option<String>,
}

/// Reads the header of a member's checksums, if it has some, and makes them void if Linux wrote to the member. Writes nothing:
/// the start may still be refused.
///
/// # Errors
/// A newer Stria wrote the checksums.
pub(crate) fn prepare_drive(drive: SyncDrive, candidate: &Candidate, forget: bool) -> Result<ReadyDrive, HostError> {
    let name = &candidate.name;
    let Some(found) = candidate.found.as_ref().ok().and_then(|member| member.checksums.as_ref()) else {
        return Ok(ReadyDrive { drive, name: name.clone(), checksums: None, first: None, warning: None });
    };
    let epoch = Uuid::new_v4().as_u64_pair().0;
    let opened = found.open(epoch);
    let mut opened = opened.map_err(|error| HostError::Refused(format!("{name}: {error}; use a newer Stria")))?;
    let mut warning = opened.first.as_ref().map(|_| match &found.header {
        Ok(_) => format!(
            "Linux wrote to {name}: its checksums are void, and are learned again as it is read; `stria scrub` reads everything"
        ),
        Err(error) => format!("{name}: {error}; they are learned again as it is read"),
    });
    if forget && opened.first.is_none() {
        opened = Opened::voided(opened.header);
        warning = Some(format!("{name}: its checksums are forgotten as asked, and are learned again as it is read"));
    }
    Ok(ReadyDrive { drive, name: name.clone(), checksums: Some(opened.header), first: opened.first, warning })
}

impl ReadyDrive {
    /// Writes the head that voids old checksums. It must be durable before a superblock claims that Stria was the last to write.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(&self) -> Result<(), HostError> {
        if let Some((sector, bytes)) = &self.first {
            self.drive.write_at(*sector, bytes)?;
            self.drive.sync()?;
        }
        Ok(())
    }

    /// Puts the member on the ring, behind its checksums if it has some. `read_only`: even if it was opened for writing. Returns
    /// also the warnings about both. Waits for nothing.
    pub fn bind(self, ring: &Ring, redundant: bool, read_only: bool) -> (Box<dyn BlockDevice>, HostedDrive, Vec<String>) {
        let read_only = read_only || self.drive.access() == Access::ReadOnly;
        let device = FileDrive::new(self.drive, ring);
        let mut hosted = HostedDrive::of(&device);
        let told = self.warning.into_iter().chain(device.way_note().map(str::to_owned)).collect();
        let Some(header) = self.checksums else { return (Box::new(device), hosted, told) };
        let advice = if redundant { "" } else { ADVICE };
        let checked = IntegrityDevice::new(device, self.name.as_str(), header, read_only).advising(advice);
        hosted.checked = Some(checked.clone());
        (Box::new(checked), hosted, told)
    }
}
