//! `spare`: the pool of spares that the arrays of the daemon share.

use super::adopt::tell_daemon;
use crate::cli;
use crate::config::edit::Edit;
use crate::config::{self, Config};
use crate::keeper::{PoolState, enclosure_of, look_at_pool};
use serde_json::json;
use std::path::{Path, PathBuf};
use stria_host::wipe_drives;
use stria_terminal::output::{confirm, print, print_json, say, table};
use stria_terminal::{Failure, absolute, size};

/// Shows or changes the pool.
///
/// # Errors
/// When a drive is unfit, or the configuration cannot be changed.
pub fn spare(command: &cli::SpareCommand, json: bool) -> Result<(), Failure> {
    let path = config::path(command.config.as_deref());
    match &command.action {
        cli::SpareAction::Add { drives, force } => add(&path, command, drives, *force, json),
        cli::SpareAction::List => {
            list(&Config::read(&path)?, json);
            Ok(())
        }
        cli::SpareAction::Remove { drives } => remove(&path, command, drives, json),
    }
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

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

fn add(path: &Path, command: &cli::SpareCommand, drives: &[PathBuf], force: bool, json: bool) -> Result<(), Failure> {
    let drives: Vec<PathBuf> = drives.iter().map(|drive| lasting(&absolute(drive))).collect();
    for (drive, state) in look_at_pool(&drives) {
        let shown = drive.display();
        let carries = match state {
            PoolState::Free(_) => continue,
            PoolState::Taken(array) => format!("{shown} is a member of array \"{array}\""),
            PoolState::Unfit(why) if !drive.exists() => return Err(Failure::Failed(format!("{shown}: {why}"))),
            PoolState::Unfit(why) => format!("{shown}: {why}"),
        };
        confirm(&format!("A spare of the pool must be blank. {carries}. Wipe it?"), force)?;
        wipe_drives(std::slice::from_ref(&drive))?;
    }
    let mut edit = Edit::open(path)?;
    let mut pool = edit.before().spares.drives.clone();
    pool.extend(drives.iter().filter(|drive| !edit.before().spares.drives.iter().any(|known| is_same(known, drive))).cloned());
    edit.spares(&pool)?;
    edit.save()?;
    let told = tell_daemon(command.control.socket.as_deref())?;
    let list: Vec<String> = drives.iter().map(|drive| drive.display().to_string()).collect();
    say(json, || format!("{} in the pool of spares; {told}", list.join(", ")), || json!({"added": list, "pool": pool}));
    Ok(())
}

fn remove(path: &Path, command: &cli::SpareCommand, drives: &[PathBuf], json: bool) -> Result<(), Failure> {
    let mut edit = Edit::open(path)?;
    let mut pool = edit.before().spares.drives.clone();
    for drive in drives {
        let drive = absolute(drive);
        let Some(index) = pool.iter().position(|known| is_same(known, &drive)) else {
            return Err(Failure::Failed(format!(
                "{} is not in the pool of spares: `stria spare list` shows it",
                drive.display()
            )));
        };
        pool.remove(index);
    }
    edit.spares(&pool)?;
    edit.save()?;
    let told = tell_daemon(command.control.socket.as_deref())?;
    let list: Vec<String> = drives.iter().map(|drive| drive.display().to_string()).collect();
    let words =
        || format!("{} no longer in the pool of spares; a drive that an array has taken stays in it; {told}", list.join(", "));
    say(json, words, || json!({"removed": list, "pool": pool}));
    Ok(())
}

fn list(config: &Config, json: bool) {
    let pool = look_at_pool(&config.spares.drives);
    let words = |state: &PoolState| match state {
        PoolState::Free(_) => "free".to_owned(),
        PoolState::Taken(array) => format!("taken by \"{array}\""),
        PoolState::Unfit(why) => why.clone(),
    };
    let bytes = |state: &PoolState| if let PoolState::Free(info) = state { Some(info.limits.size_sectors * 512) } else { None };
    if json {
        let view = |(path, state): &(PathBuf, PoolState)| json!({"path": path, "free": bytes(state).is_some(), "state": words(state), "size_bytes": bytes(state), "enclosure": enclosure_of(path)});
        return print_json(&pool.iter().map(view).collect::<Vec<_>>());
    }
    if pool.is_empty() {
        return print("the pool of spares is empty: `stria spare add DRIVE` puts drives into it\n");
    }
    let row = |(path, state): &(PathBuf, PoolState)| {
        vec![
            path.display().to_string(),
            words(state),
            bytes(state).map_or("-".into(), size::show),
            enclosure_of(path).unwrap_or("-".into()),
        ]
    };
    print(&format!("{}\n", table(&["drive", "state", "size", "enclosure"], &[2], pool.iter().map(row).collect())));
}
