//! A drive that joins a running array. Calls that may wait for the drive run on a thread of their own, for a bounded time. So a
//! drive that hangs stops no lane, and its command ends with an error.
//!
//! ```text
//!   open, inspect (thread) ─ choose what to write (coordinator) ─ write (thread) ─ offer (all lanes) ─ join (by command)
//! ```

use crate::HostError;
use crate::answers::{ANSWERS_WITHIN, not_in_time};
use crate::candidate::candidate_of;
use crate::checked::{ReadyDrive, prepare_drive};
use crate::examine::{allocate, refuse_other, wipe};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stria_array::DriveSector;
use stria_block::ErrorKind;
use stria_drive::{Access, Identity, IoOptions, SyncDrive, within};
use stria_format::md::recorder::Adopt;
use stria_tree::{Intended, Joining, NewMetadata};
use uuid::Uuid;

/// A drive that joins: what the coordinator must know of it.
pub(crate) type FoundDrive = stria_tree::NewDrive<Identity>;

/// A drive that was opened and inspected.
pub struct OpenedDrive {
    drive: SyncDrive,
    path: PathBuf,
    new: Arc<FoundDrive>,
}

/// The way in which a drive joins.
#[derive(Clone, Debug)]
pub(crate) struct JoinByPath {
    /// The array of the tree, by name.
    pub span: Option<String>,
    /// True if data on it may be overwritten.
    pub force: bool,
    /// True if it may only return to what it was.
    pub return_only: bool,
    /// The drive that it replaces, which still works.
    pub replaces: Option<PathBuf>,
}

/// A drive with its metadata on it, ready to join.
pub(crate) struct PreparedDrive {
    pub new: Arc<FoundDrive>,
    pub ready: ReadyDrive,
    /// What it was prepared for.
    pub intended: Intended,
}

impl OpenedDrive {
    /// Opens a drive for an array, in the same I/O mode as the array's other drives.
    ///
    /// # Errors
    /// The drive is in use, cannot be opened, or does not answer in time.
    pub fn open(path: &Path, io: IoOptions) -> Result<Self, HostError> {
        Self::open_as(path, Access::Exclusive, io)
    }

    /// The same for a drive that this process has open already, as a failed member: it can be inspected, but not join.
    ///
    /// # Errors
    /// As [`OpenedDrive::open`].
    pub fn look(path: &Path) -> Result<Self, HostError> {
        Self::open_as(path, Access::Beside, IoOptions::default())
    }

    fn open_as(path: &Path, access: Access, io: IoOptions) -> Result<Self, HostError> {
        let asked = path.to_owned();
        in_time(path, "to be opened and read, and nothing was changed", move |_| {
            let drive = SyncDrive::open_with(&asked, access, io)?;
            let (candidate, info) = (candidate_of(&drive), drive.info());
            let adopt = Adopt {
                name: info.path.display().to_string(),
                size_sectors: info.limits.size_sectors,
                logical_block_bytes: info.limits.logical_block_bytes,
                device_uuid: *Uuid::new_v4().as_bytes(),
            };
            let (path, identity) = (info.path.clone(), info.identity);
            let new = FoundDrive { identity, candidate, adopt };
            Ok(Self { drive, path, new: Arc::new(new) })
        })
    }

    /// Refuses a drive that is another, or carries something else, than was confirmed. `mark`: that of
    /// [`Examined`](crate::Examined). The drive is locked here, so what was compared is what is overwritten.
    ///
    /// # Errors
    /// As above.
    pub fn refuse_unless(&self, mark: &str) -> Result<(), HostError> {
        refuse_other(&[mark.to_owned()], self.drive.info(), &self.new.candidate)
    }

    /// Which drive it is, whatever its path.
    pub fn identity(&self) -> Identity {
        self.new.identity
    }

    /// Allocates the space that the metadata will need, where the drive is a file with holes. What it holds stays.
    ///
    /// # Errors
    /// The file system has not enough space, or the drive does not answer in time.
    pub(crate) fn allocate(self, joining: &Joining) -> Result<(), HostError> {
        let Self { drive, path, .. } = self;
        let Some(ranges) = joining.writes.as_ref().map(|new| new.ranges.clone()) else { return Ok(()) };
        in_time(&path, "to allocate the space of its metadata, and nothing was changed", move |_| allocate_all(&drive, &ranges))
    }

    pub(crate) fn found(&self) -> Arc<FoundDrive> {
        Arc::clone(&self.new)
    }

    /// Writes the metadata, and waits until it is durable.
    ///
    /// # Errors
    /// The drive cannot be written, or does not answer in time.
    pub(crate) fn prepare(self, Joining { intended, writes, .. }: Joining) -> Result<PreparedDrive, HostError> {
        let Self { drive, path, new } = self;
        in_time(&path, "to take its metadata, and did not join", move |is_late| {
            let on_time =
                || if is_late.load(Ordering::SeqCst) { Err(HostError::Refused("it is too late".into())) } else { Ok(()) };
            let mut candidate = new.candidate.clone();
            if let Some(NewMetadata { writes, ranges }) = writes {
                allocate_all(&drive, &ranges)?;
                on_time()?;
                wipe(&drive)?;
                for write in writes {
                    on_time()?;
                    drive.write_at(write.start_sector.get(), &write.data)?;
                    // In this order (`MdRecorder::adopt`).
                    drive.sync()?;
                }
                candidate = candidate_of(&drive);
            }
            on_time()?;
            let ready = prepare_drive(drive, &candidate, false)?;
            ready.begin()?;
            Ok(PreparedDrive { new, ready, intended })
        })
    }
}

/// Allocates the space of ranges where the drive is a file with holes.
fn allocate_all(drive: &SyncDrive, ranges: &[Range<DriveSector>]) -> Result<(), HostError> {
    ranges.iter().try_for_each(|range| allocate(drive, range)).map_err(|error| match error.kind {
        ErrorKind::NoSpace => {
            HostError::Refused(format!("{error}; free space on the file system that holds it, and repeat the command"))
        }
        _ => error.into(),
    })
}

/// Runs `work`, which may wait for a drive, on a thread. `for_what` completes the sentence of the error: the purpose of the time,
/// and the state of the drive now. `work` is given a flag that is set once its result is no longer wanted.
fn in_time<T: Send + 'static>(
    path: &Path,
    for_what: &str,
    work: impl FnOnce(&AtomicBool) -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let is_late = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_late);
    within(ANSWERS_WITHIN, move || work(&told)).unwrap_or_else(|error| {
        is_late.store(true, Ordering::SeqCst);
        Err(not_in_time(path, for_what, &error))
    })
}
