//! Locks of targets: one run at a time measures a target.
//!
//! A file or device is locked with `flock`, which `stria serve` and udev respect. The server of an array locks its drives in the
//! same way; NBD exports cannot be locked. All of them are also locked by a name in the abstract namespace of sockets, which the
//! kernel frees at every end of this process. That does not lock out runs on other machines or in containers.

use crate::fio::{Host, Place};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The kernel may release the locks of a killed process a moment after its end, and a program that another thread starts holds them
/// until it runs: a run that follows at once waits this long for its target.
const FREE_AFTER: Duration = Duration::from_secs(1);

/// Tries until it succeeds or the time is over.
pub(crate) fn within<T>(time: Duration, mut attempt: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let end = Instant::now() + time;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => std::thread::sleep(time / 40),
            outcome => return outcome,
        }
    }
}

fn in_use(place: &dyn std::fmt::Display) -> String {
    format!("{place} is measured by another run, or served by another program, which would affect the figures: wait for its end")
}

/// One name for all paths of a file or device.
fn name_of(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    Ok(match metadata.file_type().is_block_device() {
        true => format!("block {}", metadata.rdev()),
        false => format!("file {} {}", metadata.dev(), metadata.ino()),
    })
}

/// Locks a file or device until the result is dropped.
fn by_flock(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| format!("{}: {error}", path.display()))?;
    let file: File = file.into();
    within(FREE_AFTER, || Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?)).map_err(|_| in_use(&path.display()))?;
    Ok(file)
}

/// Locks the plain files among the drives of an array, which no server has at this moment, before they are overwritten.
pub(crate) fn image_files(drives: &[PathBuf]) -> Result<Vec<File>, String> {
    drives.iter().filter(|drive| drive.is_file()).map(|drive| by_flock(drive)).collect()
}

/// Targets that are locked while this value exists.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Locked with `flock`, by the same names.
    files: BTreeMap<String, File>,
    names: BTreeMap<String, UnixListener>,
}

impl Held {
    /// Locks a target, or fails if another run has it. `by_file`: also with `flock`, unless a server of this run has it.
    pub(crate) fn take(&mut self, place: &Place, hosts: &[Host], by_file: bool) -> Result<(), String> {
        let taken = || in_use(place);
        if !hosts.is_empty() {
            return hosts.iter().try_for_each(|host| {
                let place = host.place.as_ref().unwrap_or(place);
                self.take_name(&format!("{} {place}", host.name)).map_err(|_| taken())
            });
        }
        let Place::Path(path) = place else { return self.take_name(&place.to_string()).map_err(|_| taken()) };
        let name = name_of(path).map_err(|error| format!("{}: {error}", path.display()))?;
        self.take_name(&name).map_err(|_| taken())?;
        if by_file && !self.files.contains_key(&name) {
            self.files.insert(name, by_flock(path)?);
        }
        Ok(())
    }

    /// Ends the `flock` of a file, so that a server of this run can take it. The name stays locked.
    pub(crate) fn release(&mut self, path: &Path) {
        if let Ok(name) = name_of(path) {
            self.files.remove(&name);
        }
    }

    /// This run may lock its own targets again, as it makes several arrays of the same drives, one after the other.
    fn take_name(&mut self, what: &str) -> std::io::Result<()> {
        if self.names.contains_key(what) {
            return Ok(());
        }
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let address = SocketAddr::from_abstract_name(format!("stria-lab-{:016x}", hasher.finish()))?;
        self.names.insert(what.to_owned(), within(FREE_AFTER, || UnixListener::bind_addr(&address))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_one_runs_at_a_time_by_whatever_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("x"), folder.path().join("link"));
        std::fs::write(&file, "x").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let uri = format!("nbd+unix:///x?socket={}", file.display());
        let mut held = Held::default();
        held.take(&Place::Path(file.clone()), &[], true).expect("free");
        held.take(&Place::new(&uri), &[], false).expect("free");
        for (place, by_file) in [(Place::Path(link.clone()), true), (Place::Path(file.clone()), false), (Place::new(&uri), false)]
        {
            let words = Held::default().take(&place, &[], by_file).expect_err("taken");
            assert!(words.contains("another run") && words.contains(&place.to_string()), "{words}");
        }
        drop(held);
        Held::default().take(&Place::Path(link), &[], true).expect("free again");
        // This also detects programs that lock the file as stria serve does.
        let other = File::open(&file).expect("there");
        flock(&other, FlockOperation::NonBlockingLockExclusive).expect("free");
        assert!(Held::default().take(&Place::Path(file), &[], true).is_err());
    }

    #[test]
    fn a_target_that_becomes_free_a_moment_later_is_taken() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let place = Place::Path(file.path().into());
        let mut held = Held::default();
        held.take(&place, &[], true).expect("free");
        let ends = std::thread::spawn(move || {
            std::thread::sleep(FREE_AFTER / 5);
            drop(held);
        });
        Held::default().take(&place, &[], true).expect("free by then");
        ends.join().expect("it ends");
    }
}
