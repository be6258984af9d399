//! The drives of this machine that are members of arrays, by what their superblocks say.

use crate::config::{self, Uuid, files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use stria_drive::real_path_within;
use stria_host::{Examined, HostError, block_devices, examine, holds_clients_data, may_hold_clients_data};

/// The array a drive says it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// That array.
    pub set: Uuid,
    /// The array above it, if it is a span.
    pub upper: Option<Uuid>,
    /// The drive's own identity.
    device: [u8; 16],
}

/// Members that were seen, by path.
#[derive(Debug, Default)]
pub struct Drives(BTreeMap<PathBuf, Membership>);

impl Drives {
    /// Looks at all drives again, at those of the pool of spares, and at those that were reported; but for those that are known
    /// not to answer (`is_silent`). Returns why some could not be read.
    pub fn scan(&mut self, config: &config::Daemon, pool: &[PathBuf], is_silent: impl Fn(&Path) -> bool) -> Vec<HostError> {
        let mut paths = if config.block_devices { block_devices() } else { Vec::new() };
        paths.retain(|path| !is_mapped(path));
        paths.extend(config.images());
        // A spare of the pool may have been taken.
        paths.extend(pool.iter().flat_map(|path| files(path)));
        paths.extend(self.0.keys().filter(|path| path.exists()).cloned());
        paths.sort();
        paths.dedup();
        paths.retain(|path| !is_silent(path));
        self.0.clear();
        examine(&paths).into_iter().filter_map(|examined| examined.map(|examined| self.note(&examined)).err()).collect()
    }

    /// Looks at one drive. `None`: it is no member.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn look(&mut self, path: &Path) -> Result<(PathBuf, Option<Membership>), HostError> {
        let path = real_path_within(path, config::RESOLVE_WITHIN);
        self.0.remove(&path);
        // Data of clients is no member, and a member that lies on its own array would wait for itself.
        if holds_clients_data(&path) {
            return Ok((path, None));
        }
        let examined = examine(std::slice::from_ref(&path)).pop().expect("one drive has one answer")?;
        let membership = self.note(&examined);
        Ok((path, membership))
    }

    fn note(&mut self, examined: &Examined) -> Option<Membership> {
        let superblock = &examined.candidate.found.as_ref().ok()?.superblock;
        let membership = Membership {
            set: Uuid(superblock.header.set_uuid),
            upper: superblock.span_of.map(Uuid),
            device: superblock.header.device_uuid,
        };
        self.0.insert(examined.info.path.clone(), membership);
        Some(membership)
    }

    /// The drives of an array and its spans. Those that have gone since are left out, and so are copies of a member that clients
    /// of an array may have written.
    pub fn of(&mut self, array: &config::Array) -> Vec<PathBuf> {
        self.0.retain(|path, _| path.exists());
        let owned = || self.0.iter().filter(|(_, membership)| array.owns(membership.set, membership.upper));
        let is_forged = |path: &Path, membership: &Membership| {
            let mut copies = owned().filter(|(other, of)| *other != path && of.device == membership.device).peekable();
            copies.peek().is_some() && may_hold_clients_data(path) && copies.any(|(other, _)| !may_hold_clients_data(other))
        };
        owned().filter(|(path, membership)| !is_forged(path, membership)).map(|(path, _)| path.clone()).collect()
    }
}

/// True if the device mapper made a device of this one: of the paths to a drive, only the map is used (multipath).
pub fn is_mapped(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let holders = std::fs::read_dir(Path::new("/sys/class/block").join(name).join("holders"));
    holders.into_iter().flatten().flatten().any(|holder| holder.file_name().to_string_lossy().starts_with("dm-"))
}
