//! `rename`, `destroy`, `wipe`, and why not yet `grow`.

use super::adopt::tell_daemon;
use crate::config::edit::Edit;
use crate::config::{self, Array, Config, Uuid};
use crate::mdadm::keep_away;
use crate::meant::{chosen, look};
use crate::{cli, client};
use serde_json::json;
use std::path::{Path, PathBuf};
use stria_format::md::{Assembly, Verdict};
use stria_host::{examine, short_name, sort_arguments};
use stria_terminal::output::{confirm, say};
use stria_terminal::{Failure, absolute};

/// Refuses what must not happen to an array that is served.
fn refuse_served(socket: Option<&Path>, uuid: Uuid, what: &str) -> Result<(), Failure> {
    let (services, _) = client::survey(None)?;
    // The socket that was named may be none of the usual ones, and nobody need listen there.
    let named = socket.and_then(|socket| client::survey(Some(socket)).ok()).map(|(services, _)| services).unwrap_or_default();
    let arrays = services.into_iter().chain(named).flat_map(|(_, arrays)| arrays);
    match arrays.into_iter().find(|array| array.uuid == uuid.to_string()) {
        Some(array) => {
            let name = array.name;
            Err(Failure::Failed(format!("array \"{name}\" is served: `stria stop {name}` first, then {what} it")))
        }
        None => Ok(()),
    }
}

/// The arrays of the tree: the array, and its spans.
pub(super) fn tree<'a>(assemblies: &'a [Assembly], array: &Assembly) -> Vec<&'a Assembly> {
    let uuid = array.uuid;
    assemblies.iter().filter(|one| one.uuid == uuid || one.freshest.span_of == Some(uuid)).collect()
}

/// The drives of these arrays; an array above is on none itself.
pub(super) fn drives(arrays: &[&Assembly]) -> Vec<PathBuf> {
    let names = arrays.iter().flat_map(|array| &array.drives).map(|drive| PathBuf::from(&drive.name));
    let mut paths: Vec<PathBuf> = names.filter(|path| path.is_absolute()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Gives an array another name, on its drives and in the configuration.
///
/// # Errors
/// When it is served, or a drive cannot be written.
pub fn rename(command: &cli::Rename, json: bool) -> Result<(), Failure> {
    let paths: Vec<PathBuf> = command.drives.iter().map(|path| absolute(path)).collect();
    let (assemblies, _) = look(&paths)?;
    let array = chosen(&assemblies, std::slice::from_ref(&command.old))?;
    let (uuid, socket) = (Uuid(array.uuid), command.control.socket.as_deref());
    let arrays = tree(&assemblies, array);
    refuse_served(socket, uuid, "rename")?;
    let old = short_name(&array.name).to_owned();
    let path = config::path(command.config.config.as_deref());
    let known = Config::read(&path)?.arrays.into_iter().find(|known| known.uuid == uuid);
    let mut notes = Vec::new();
    // Checked before the drives are written: another array may have the name here.
    let edit = match &known {
        Some(known) => {
            let mut edit = Edit::open(&path)?;
            edit.put(&Array { name: Some(command.new.clone()), ..known.clone() })?;
            edit.check()?;
            Some(edit)
        }
        None => None,
    };
    let mut spans: Vec<&Assembly> = arrays.iter().copied().filter(|one| one.uuid != array.uuid).collect();
    let count = if spans.is_empty() {
        stria_host::rename(&drives(&arrays), &array.uuid, &command.new)?
    } else {
        if let Err(error) = &array.outcome {
            return Err(Failure::Failed(format!("all spans must be here to be renamed: {error}")));
        }
        // By their slots in the array above, which are their numbers.
        let slot = |verdict: &Verdict| if let Verdict::InSync { slot } = verdict { Some(*slot) } else { None };
        let place =
            |span: &Assembly| array.drives.iter().find(|drive| drive.name == span.name).and_then(|drive| slot(&drive.verdict));
        spans.sort_by_key(|span| (place(span), span.name.clone()));
        let spans: Vec<_> = spans.into_iter().map(|span| (span.uuid, drives(&[span]))).collect();
        stria_host::rename_spans(&spans, &array.uuid, &command.new)?
    };
    if let Some(edit) = edit {
        keep_away(&edit.save()?)?;
        notes.push(tell_daemon(socket)?);
    }
    let new = &command.new;
    let words = || {
        let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
        format!("array \"{old}\" is called \"{new}\" now, on {count} drives{notes}")
    };
    say(json, words, || json!({"old": old, "new": new, "uuid": uuid.to_string(), "drives": count}));
    Ok(())
}

/// Destroys an array.
///
/// # Errors
/// When it is served or in use, or nobody confirms it.
pub fn destroy(command: &cli::Destroy, json: bool) -> Result<(), Failure> {
    let (paths, names) = sort_arguments(&command.what);
    let (assemblies, _) = look(&paths)?;
    let array = chosen(&assemblies, &names)?;
    let (uuid, socket) = (Uuid(array.uuid), command.control.socket.as_deref());
    refuse_served(socket, uuid, "destroy")?;
    let paths = drives(&tree(&assemblies, array));
    let (name, list) = (short_name(&array.name), paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
    confirm(&format!("Destroying array \"{name}\" ({uuid}) loses all its data, on {}.", list.join(", ")), command.force)?;
    stria_host::destroy(&paths)?;
    let path = config::path(command.config.config.as_deref());
    let mut notes = String::new();
    if Config::read(&path)?.arrays.iter().any(|known| known.uuid == uuid) {
        let mut edit = Edit::open(&path)?;
        edit.remove(uuid)?;
        keep_away(&edit.save()?)?;
        notes = format!("; {}", tell_daemon(socket)?);
    }
    let words = || format!("array \"{name}\" is destroyed; {} drives carry nothing any more{notes}", list.len());
    say(json, words, || json!({"destroyed": name, "uuid": uuid.to_string(), "drives": list}));
    Ok(())
}

/// Removes signatures from drives.
///
/// # Errors
/// When a drive is in use, or nobody confirms it.
pub fn wipe(command: &cli::Wipe, json: bool) -> Result<(), Failure> {
    let paths: Vec<PathBuf> = command.drives.iter().map(|path| absolute(path)).collect();
    let mut carries = Vec::new();
    for examined in examine(&paths) {
        let examined = examined?;
        let path = examined.info.path.display();
        match &examined.candidate.found {
            Ok(member) => carries.push(format!("{path} carries a member of array \"{}\"", member.superblock.name())),
            Err(_) => carries.extend(examined.candidate.carries.first().map(|what| format!("{path} carries {what}"))),
        }
    }
    if !carries.is_empty() {
        confirm(&format!("Wiping: {}. What lies there cannot be found again afterwards.", carries.join("; ")), command.force)?;
    }
    stria_host::wipe_drives(&paths)?;
    let list: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    say(json, || format!("{} carry nothing any more", list.join(", ")), || json!({"wiped": list}));
    Ok(())
}

/// The reason why an array does not grow.
pub fn grow(command: &cli::Grow) -> Failure {
    let name = &command.name;
    let why = if command.drives.is_empty() { "to larger drives" } else { "by more drives" };
    Failure::Failed(format!(
        "\"{name}\" cannot grow {why} yet, because the write log and the checksums lie where md moves data during a reshape. Until Stria can, stop \
         the array and use `mdadm --grow` on Linux md: `stria serve` takes it back when the reshape has ended"
    ))
}
