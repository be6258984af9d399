//! Whether there is space again below a member that had none for a write: its file system tells before the next write does.

use crate::api::{ArrayView, MemberView};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use stria_block::Nanos;
use stria_drive::{DriveKind, each_within_at};
use stria_host::ArrayReport;

/// Less may come and go by itself on a full file system.
const GROWN_BYTES: u64 = 1 << 20;
/// The file system of a member may hang.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is known of the file system of a member.
#[derive(Clone, Copy)]
struct Known {
    /// The time of the last write without space.
    failed_at: Option<Nanos>,
    /// How much was free about then: in the last look before or in the first look after, whichever found less. Space may be there
    /// again by the first look after.
    least: u64,
    /// How much was free in the last look.
    last: u64,
}

/// By member.
#[derive(Default)]
pub struct Space(Mutex<BTreeMap<String, Known>>);

impl Space {
    /// Takes the note from members whose file systems have more free space since. A quota or a pool below may still have none: the
    /// next write that fails brings the note back.
    pub fn look(&self, report: &ArrayReport, view: &mut ArrayView) {
        let drives: Vec<_> = report.tree().into_iter().flat_map(ArrayReport::drives).collect();
        let failed = |path: &str| {
            drives.iter().filter(|drive| drive.info.path == Path::new(path)).filter_map(|drive| drive.no_space).max()
        };
        let mut before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = BTreeMap::new();
        let free = free_bytes(drives.iter().filter(|drive| drive.info.kind == DriveKind::File).map(|drive| &drive.info.path));
        members(view, &mut |member| {
            let Some(&free) = free.get(Path::new(&member.path)) else { return };
            let failed_at = failed(&member.path).filter(|_| member.no_room);
            let least = match before.get(&member.path) {
                Some(known) if known.failed_at == failed_at => known.least,
                Some(known) => free.min(known.last),
                None => free,
            };
            member.no_room &= free < least.saturating_add(GROWN_BYTES);
            known.insert(member.path.clone(), Known { failed_at, least, last: free });
        });
        *before = known;
    }
}

fn members(view: &mut ArrayView, look: &mut impl FnMut(&mut MemberView)) {
    view.parts.members.iter_mut().for_each(&mut *look);
    view.parts.spans.iter_mut().for_each(|span| members(span, look));
}

/// The free space of the file systems below these image files, of those that answer.
fn free_bytes<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> BTreeMap<PathBuf, u64> {
    let paths: Vec<PathBuf> = paths.cloned().collect();
    let found = each_within_at("free space", paths.clone(), PATIENCE, |path| rustix::fs::statvfs(path).ok());
    let free = |(path, space): (PathBuf, Option<Option<rustix::fs::StatVfs>>)| {
        let space = space.flatten()?;
        Some((path, space.f_bavail * space.f_frsize))
    };
    paths.into_iter().zip(found).filter_map(free).collect()
}
