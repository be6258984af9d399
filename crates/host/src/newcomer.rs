//! A drive that is to join a running array. Whatever waits for it is done here, on threads of its own and within a bound: a drive
//! that hangs in that moment stops no lane, and its command ends with words.
//!
//! ```text
//!   open, look (thread) ─ what is to be written (home lane) ─ write (thread) ─ join (home lane, then the others)
//! ```

use crate::HostError;
use crate::checked::{Unbound, prepare_drive};
use crate::examine::{candidate_of, wipe};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use stria_array::{MemberId, MetadataWrite};
use stria_drive::{Access, Identity, IoOptions, SyncDrive};
use stria_format::md::Candidate;
use stria_format::md::recorder::Adopt;
use uuid::Uuid;

/// 20 s: how long a drive may take to be opened, or to take its metadata. A hard disk that wakes up takes some ten.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// What a lane must know of a drive that is to join.
pub(crate) struct Newcomer {
    pub path: PathBuf,
    pub identity: Identity,
    pub candidate: Candidate,
    pub adopt: Adopt,
}

/// A drive that was opened and looked at: it may join.
pub struct NewDrive {
    drive: SyncDrive,
    new: Arc<Newcomer>,
}

/// How it is to join.
#[derive(Clone, Debug)]
pub(crate) struct Aim {
    /// To which array of the tree, by name.
    pub span: Option<String>,
    /// Whatever it carries.
    pub force: bool,
    /// A drive that still works.
    pub replaces: Option<PathBuf>,
}

/// Where a drive is to go.
pub(crate) struct Joining {
    /// Which array of the tree.
    pub array: usize,
    /// `None`: it comes back as it is.
    pub writes: Option<NewMetadata>,
    pub replaces: Option<MemberId>,
    /// What is done, in words.
    pub text: String,
}

/// What makes a drive a spare.
pub(crate) struct NewMetadata {
    pub writes: Vec<MetadataWrite>,
    /// What must have room.
    pub places: Vec<Range<u64>>,
}

/// A drive that carries what it is to carry.
pub(crate) struct ReadyDrive {
    pub new: Arc<Newcomer>,
    pub unbound: Unbound,
    /// It has new metadata.
    pub is_new: bool,
}

impl NewDrive {
    /// Opens a drive for an array, to be reached as its others are.
    ///
    /// # Errors
    /// When it is in use, cannot be opened, or does not answer in time.
    pub fn open(path: &Path, io: IoOptions) -> Result<Self, HostError> {
        let asked = path.to_owned();
        in_time(path, "to be opened and looked at, and nothing was changed", move |_| {
            let drive = SyncDrive::open_with(&asked, Access::Exclusive, io)?;
            let (candidate, info) = (candidate_of(&drive), drive.info());
            let adopt = Adopt {
                name: info.path.display().to_string(),
                size_sectors: info.limits.size_sectors,
                logical_block_bytes: info.limits.logical_block_bytes,
                device_uuid: *Uuid::new_v4().as_bytes(),
            };
            let new = Newcomer { path: info.path.clone(), identity: info.identity, candidate, adopt };
            Ok(Self { drive, new: Arc::new(new) })
        })
    }

    pub(crate) fn newcomer(&self) -> Arc<Newcomer> {
        Arc::clone(&self.new)
    }

    /// Writes what the drive is to carry, and waits until it is durable.
    ///
    /// # Errors
    /// When it cannot be written, or the drive does not answer in time.
    pub(crate) fn prepare(self, metadata: Option<NewMetadata>) -> Result<ReadyDrive, HostError> {
        let Self { drive, new } = self;
        let path = new.path.clone();
        in_time(&path, "to take its metadata, and did not join", move |is_late| {
            let is_new = metadata.is_some();
            let on_time =
                || if is_late.load(Ordering::SeqCst) { Err(HostError::Refused("it is too late".into())) } else { Ok(()) };
            let mut candidate = new.candidate.clone();
            if let Some(NewMetadata { writes, places }) = metadata {
                for place in places {
                    drive.allocate(place)?;
                }
                on_time()?;
                wipe(&drive)?;
                for write in writes {
                    on_time()?;
                    drive.write_at(write.start_sector, &write.data)?;
                }
                drive.sync()?;
                candidate = candidate_of(&drive);
            }
            on_time()?;
            let unbound = prepare_drive(drive, &candidate, false)?;
            Ok(ReadyDrive { new, unbound, is_new })
        })
    }
}

/// Does what waits for a drive on a thread of its own. `for_what`: what it is waited for, and what has come of it; `work` is told when
/// nobody waits any longer.
fn in_time<T: Send + 'static>(
    path: &Path,
    for_what: &str,
    work: impl FnOnce(&AtomicBool) -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let is_late = Arc::new(AtomicBool::new(false));
    let (done, outcome) = channel();
    let told = Arc::clone(&is_late);
    let thread = std::thread::Builder::new().name("stria new drive".into()).spawn(move || {
        // What nobody waits for any more is closed here.
        let _ = done.send(work(&told));
    });
    thread.map_err(|error| HostError::Refused(format!("{}: no thread to open it: {error}", path.display())))?;
    match outcome.recv_timeout(ANSWERS_WITHIN) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => {
            is_late.store(true, Ordering::SeqCst);
            Err(HostError::Refused(format!(
                "{} does not answer: it was given {} s {for_what}; look at the drive and its cable, and try again when it answers",
                path.display(),
                ANSWERS_WITHIN.as_secs()
            )))
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err(HostError::Refused(format!("{}: it could not be looked at (a defect, please report it)", path.display())))
        }
    }
}
