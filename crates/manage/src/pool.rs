//! The drives of the pool of spares, as commands and the API show and change them.

use crate::config::edit::Edit;
use crate::drive_name::{are_one, refuse_twins};
use crate::keeper::{PoolState, enclosure_of, look_at_pool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
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
    let size_bytes = if let PoolState::Free(info) = state { Some(info.limits.size_sectors * 512) } else { None };
    let state = match state {
        PoolState::Free(_) => "free".to_owned(),
        PoolState::Taken(array) => format!("taken by \"{array}\""),
        PoolState::Unfit(why) => why.clone(),
    };
    PoolDrive { path: path.to_owned(), free: size_bytes.is_some(), state, size_bytes, enclosure: enclosure_of(path) }
}

/// A name of a drive that outlives a restart of the machine: by its identity, where udev has one.
fn lasting(path: &Path) -> PathBuf {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let links = std::fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten().map(|link| link.path());
    let mut same: Vec<PathBuf> = links.filter(|link| link.canonicalize().is_ok_and(|target| target == real)).collect();
    // The shortest is the model and serial number rather than a number that nobody has seen.
    same.sort_by_key(|link| (link.to_string_lossy().contains("/wwn-") || link.to_string_lossy().contains("eui."), link.clone()));
    same.into_iter().next().unwrap_or(real)
}

/// The pool after a change of it.
pub struct Changed {
    /// The drives that were named, by their lasting names.
    pub drives: Vec<PathBuf>,
    /// All drives of the pool.
    pub pool: Vec<PathBuf>,
}

/// Puts drives into the pool of the configuration at `path`. `consent` is asked before a drive that carries something is wiped.
///
/// # Errors
/// When a drive cannot be looked at or wiped, `consent` is refused, or the configuration cannot be changed.
pub fn add(path: &Path, drives: &[PathBuf], consent: impl Fn(&str) -> Result<(), Failure>) -> Result<Changed, Failure> {
    refuse_twins(drives)?;
    let drives: Vec<PathBuf> = drives.iter().map(|drive| lasting(drive)).collect();
    // Before the look whose findings are told: a drive that changes after this is not wiped.
    let seen: Vec<Examined> = examine(&drives).into_iter().flatten().collect();
    let mut carrying = Vec::new();
    for (drive, state) in look_at_pool(&drives) {
        let shown = drive.display();
        let carries = match state {
            PoolState::Free(_) => continue,
            PoolState::Taken(array) => format!("{shown} is a member of array \"{array}\""),
            PoolState::Unfit(why) if !drive.exists() => return Err(Failure::Failed(format!("{shown}: {why}"))),
            PoolState::Unfit(why) => format!("{shown}: {why}"),
        };
        consent(&format!("A spare of the pool must be blank. {carries}. Wipe it?"))?;
        carrying.push(drive);
    }
    // A refusal of one leaves all as they are.
    if !carrying.is_empty() {
        wipe_drives(&carrying, &seen)?;
    }
    let mut edit = Edit::open(path)?;
    let mut pool = edit.before().spares.drives.clone();
    pool.extend(drives.iter().filter(|drive| !edit.before().spares.drives.iter().any(|known| are_one(known, drive))).cloned());
    edit.spares(&pool)?;
    edit.save()?;
    Ok(Changed { drives, pool })
}

/// Takes drives out of the pool. A drive that an array has taken stays in that array.
///
/// # Errors
/// When one is not in the pool, or the configuration cannot be changed.
pub fn remove(path: &Path, drives: &[PathBuf]) -> Result<Changed, Failure> {
    let mut edit = Edit::open(path)?;
    let mut pool = edit.before().spares.drives.clone();
    for drive in drives {
        let Some(index) = pool.iter().position(|known| are_one(known, drive)) else {
            return Err(not_in_pool(drive));
        };
        pool.remove(index);
    }
    edit.spares(&pool)?;
    edit.save()?;
    Ok(Changed { drives: drives.to_vec(), pool })
}

/// The refusal to take out a drive that is not in the pool.
pub fn not_in_pool(drive: &Path) -> Failure {
    Failure::Failed(format!("{} is not in the pool of spares: `stria spare list` shows it", drive.display()))
}
