//! The drives of the pool of spares, as commands and the API show and change them.

use crate::config::edit::Edit;
use crate::drive_name::{are_one, refuse_twins};
use crate::keeper::{PoolState, enclosure_of, look_at_pool};
use crate::words::error::{ErrorSentence, Told, Words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use stria_drive::multipath_of;
use stria_host::{Examined, examine, wipe_drives};
use stria_terminal::Failure;

/// A drive of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolDrive {
    /// Its path, by its identity where udev has one.
    pub path: PathBuf,
    /// True if an array may take it.
    pub free: bool,
    /// `free`, the array that has taken it, or why it cannot be a spare.
    pub state: String,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<ErrorSentence>,
    /// Its size while it is free.
    pub size_bytes: Option<u64>,
    /// The enclosure that it sits in, where the machine says so.
    pub enclosure: Option<String>,
}

/// The drives of the pool as they are now.
pub fn list(pool: &[PathBuf]) -> Vec<PoolDrive> {
    look_at_pool(pool).iter().map(|(path, state)| drive(path, state)).collect()
}

/// A drive that was looked at.
pub fn drive(path: &Path, state: &PoolState) -> PoolDrive {
    let size_bytes = if let PoolState::Free(info, _) = state { Some(info.limits.size_sectors * 512) } else { None };
    let Words { text, said } = match state {
        PoolState::Free(..) => ErrorSentence::PoolDriveFree {}.into(),
        PoolState::Taken(array) => ErrorSentence::PoolDriveTaken { array: array.clone() }.into(),
        PoolState::Unfit(why) => why.clone(),
    };
    PoolDrive { path: path.to_owned(), free: size_bytes.is_some(), state: text, said, size_bytes, enclosure: enclosure_of(path) }
}

/// Links of `/dev/disk/by-id` that name the hardware, or a device of the device mapper. Others come from the content
/// (`lvm-pv-uuid-`) or from a name (`dm-name-`, `md-name-`): the wipe that makes a drive blank, or a new name, removes them.
const OF_HARDWARE: [&str; 11] =
    ["nvme-", "ata-", "scsi-", "wwn-", "usb-", "virtio-", "mmc-", "ieee1394-", "google-", "ccw-", "dm-uuid-"];

/// A name of a drive that outlives a restart of the machine: by its identity, where udev has one.
fn lasting(path: &Path) -> PathBuf {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let links = std::fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten().map(|link| link.path());
    let same = links.filter(|link| link.canonicalize().is_ok_and(|target| target == real));
    best_link(same).unwrap_or(real)
}

/// The best of several links to one drive.
fn best_link(links: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let name = |link: &PathBuf| link.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let named = links.map(|link| (name(&link), link));
    let of_hardware = named.filter(|(name, _)| OF_HARDWARE.iter().any(|kind| name.starts_with(kind)));
    // The shortest is the model and serial number rather than a number that nobody has seen.
    let best = of_hardware.min_by_key(|(name, _)| (name.starts_with("wwn-") || name.contains("eui."), name.clone()));
    best.map(|(_, link)| link)
}

/// What to know of a drive whose name may be another drive's after a restart of the machine. `None`: its name lasts, or it is an
/// image file.
fn doubt(drive: &Path) -> Option<String> {
    let is_device = || drive.metadata().is_ok_and(|found| found.file_type().is_block_device());
    (!drive.starts_with("/dev/disk") && is_device()).then(|| {
        format!(
            "{} has no name of its own in /dev/disk/by-id: after a restart of the machine another drive may have its name, and an array takes \
             that one if it looks blank",
            drive.display()
        )
    })
}

/// The pool after a change of it.
pub struct Changed {
    /// The drives that were named, by their lasting names.
    pub drives: Vec<PathBuf>,
    /// All drives of the pool.
    pub pool: Vec<PathBuf>,
    /// What else to know, in sentences.
    pub notes: Vec<String>,
}

/// Puts drives into the pool of the configuration at `path`. `consent` is asked before a drive that carries something is wiped.
/// `confirmed`: the drives that may join, if that was decided before ([`Examined::mark`]).
///
/// # Errors
/// When a drive cannot be looked at or wiped, or is no longer what was confirmed, `consent` is refused, or the configuration
/// cannot be changed.
pub fn add(
    path: &Path,
    drives: &[PathBuf],
    confirmed: Option<&[String]>,
    consent: impl Fn(&str) -> Result<(), Failure>,
) -> Result<Changed, Told> {
    refuse_twins(drives)?;
    if let Some((drive, map)) = drives.iter().find_map(|drive| Some((drive.display(), multipath_of(drive)?))) {
        let (drive, other) = (drive.to_string(), map.display().to_string());
        return Err(ErrorSentence::OnePathOfSeveral { drive, other }.into());
    }
    let drives: Vec<PathBuf> = drives.iter().map(|drive| lasting(drive)).collect();
    // Before the look whose findings are told: a drive that changes after this is not wiped.
    let seen: Vec<Examined> = examine(&drives).into_iter().flatten().collect();
    confirmed.map_or(Ok(()), |marks| seen.iter().try_for_each(|drive| drive.refuse_unless(marks)))?;
    let mut carrying = Vec::new();
    for (drive, state) in look_at_pool(&drives) {
        let shown = drive.display();
        let carries = match state {
            PoolState::Free(..) => continue,
            PoolState::Taken(array) => format!("{shown} is a member of array \"{array}\""),
            PoolState::Unfit(why) if !drive.exists() => return Err(Failure::Failed(format!("{shown}: {why}")).into()),
            PoolState::Unfit(why) => format!("{shown}: {why}"),
        };
        consent(&format!("A spare of the pool must be blank. {carries}. Wipe it?"))?;
        carrying.push(drive);
    }
    // Before a drive is wiped: the configuration may be one that cannot be changed.
    let mut edit = Edit::open(path)?;
    let mut pool = edit.before().spares.drives.clone();
    pool.extend(drives.iter().filter(|drive| !edit.before().spares.drives.iter().any(|known| are_one(known, drive))).cloned());
    edit.spares(&pool)?;
    edit.check()?;
    edit.refuse_unwritable()?;
    // A refusal of one leaves all as they are.
    if !carrying.is_empty() {
        wipe_drives(&carrying, &seen.iter().map(Examined::mark).collect::<Vec<_>>())?;
    }
    edit.save()?;
    let notes = drives.iter().filter_map(|drive| doubt(drive)).collect();
    Ok(Changed { drives, pool, notes })
}

/// Takes drives out of the pool. A drive that an array has taken stays in that array.
///
/// # Errors
/// When one is not in the pool, or the configuration cannot be changed.
pub fn remove(path: &Path, drives: &[PathBuf]) -> Result<Changed, Told> {
    let mut edit = Edit::open(path)?;
    let mut pool = edit.before().spares.drives.clone();
    for drive in drives {
        let Some(index) = pool.iter().position(|known| are_one(known, drive)) else {
            return Err(not_in_pool(drive).into());
        };
        pool.remove(index);
    }
    edit.spares(&pool)?;
    edit.save()?;
    Ok(Changed { drives: drives.to_vec(), pool, notes: Vec::new() })
}

/// The refusal to take out a drive that is not in the pool.
pub fn not_in_pool(drive: &Path) -> ErrorSentence {
    ErrorSentence::NotInPool { drive: drive.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The link of an LVM volume was stored, which the wipe of the drive removes: the pool then named a drive that is not here.
    #[test]
    fn a_drive_of_the_pool_is_named_by_its_hardware() {
        let best = |names: &[&str]| best_link(names.iter().map(|name| Path::new("/dev/disk/by-id").join(name)));
        let link = |name: &str| Some(Path::new("/dev/disk/by-id").join(name));
        assert_eq!(best(&["lvm-pv-uuid-8bZQ", "md-name-host:0", "dm-name-data"]), None);
        assert_eq!(best(&["lvm-pv-uuid-8bZQ", "wwn-0x5000c500a1b2c3d4"]), link("wwn-0x5000c500a1b2c3d4"));
        let names = ["lvm-pv-uuid-8bZQ", "wwn-0x5000c500a1b2c3d4", "ata-DISK_S1", "nvme-eui.0025388b710116a1"];
        assert_eq!(best(&names), link("ata-DISK_S1"));
        // Before, a logical volume was stored as /dev/dm-3, which is another one after a restart.
        assert_eq!(best(&["dm-name-vg-spare", "dm-uuid-LVM-8bZQ"]), link("dm-uuid-LVM-8bZQ"));
        assert_eq!(best(&["dm-name-mpatha", "dm-uuid-mpath-35000c500a1b2c3d4"]), link("dm-uuid-mpath-35000c500a1b2c3d4"));
    }

    /// A plan of the API was carried out on the drives that lay at their paths some time after it was confirmed.
    #[test]
    fn a_drive_that_is_another_than_was_confirmed_does_not_join_the_pool() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (config, drive, other) = (path("stria.toml"), path("drive"), path("other"));
        std::fs::write(&config, "").and_then(|()| std::fs::write(&drive, vec![0; 1 << 20])).expect("files");
        std::fs::copy(&drive, &other).expect("a copy");
        let marks: Vec<String> =
            examine(std::slice::from_ref(&drive)).into_iter().map(|one| one.expect("it is here").mark()).collect();
        let drives = [drive.clone()];
        let joins = || add(&config, &drives, Some(&marks), |_| Ok(())).map(|changed| changed.pool);
        std::fs::rename(&drive, path("aside")).and_then(|()| std::fs::rename(&other, &drive)).expect("another drive");
        let refused = joins().expect_err("it is another drive").to_string();
        assert!(refused.contains("is another drive") && std::fs::read(&config).expect("a file").is_empty(), "{refused}");
        std::fs::rename(path("aside"), &drive).expect("it is back");
        assert_eq!(joins().expect("it is the drive"), std::slice::from_ref(&drive));
    }

    /// A drive without a serial number was stored as /dev/vdb without a word. After a restart an array took the drive that had this
    /// name then, if it carried nothing that is known.
    #[test]
    fn a_drive_whose_name_does_not_last_is_told_of() {
        let device = std::fs::read_dir("/dev")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.metadata().is_ok_and(|found| found.file_type().is_block_device()));
        if let Some(device) = device {
            assert!(doubt(&device).is_some_and(|text| text.contains("by-id")), "{}", device.display());
        }
        let image = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(doubt(image.path()), None, "the name of an image file is its own");
        assert_eq!(doubt(Path::new("/dev/disk/by-id/ata-DISK_S1")), None);
    }
}
