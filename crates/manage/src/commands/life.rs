//! `rename`, `destroy`, `wipe`, and why not yet `grow`.

use super::adopt::notify_daemon;
use crate::config::edit::Edit;
use crate::config::{self, Config, Uuid};
use crate::control::client;
use crate::meant::{chosen, drives, look, tree};
use crate::ownership::mdadm::{keep_away, refuse_unless_it_follows};
use crate::wipe::{self, WipeMeans};
use crate::{cli, drive_name, ownership};
use serde_json::json;
use std::path::Path;
use stria_block::shell_word;
use stria_host::{Examined, examine, short_name, sort_arguments};
use stria_terminal::Failure;
use stria_terminal::output::{confirm, say, tell};

/// Refuses what must not happen to an array that is served.
pub(super) fn refuse_served(socket: Option<&Path>, uuid: Uuid, what: &str) -> Result<(), Failure> {
    let (services, _) = client::survey(None)?;
    // The given socket may be none of the usual ones, and may have no listener.
    let named = socket.and_then(|socket| client::survey(Some(socket)).ok()).map(|(services, _)| services).unwrap_or_default();
    let arrays = services.into_iter().chain(named).flat_map(|(_, arrays)| arrays);
    match arrays.into_iter().find(|array| array.identity.uuid == uuid.to_string()) {
        Some(array) => {
            let name = array.identity.name;
            Err(Failure::Failed(format!(
                "array \"{name}\" is served: `stria stop {word}` first, then {what} it",
                word = shell_word(&name)
            )))
        }
        None => Ok(()),
    }
}

/// Gives an array another name, on its drives and in the configuration.
///
/// # Errors
/// When it is served, or a drive cannot be written.
pub fn rename(command: &cli::Rename, json: bool) -> Result<(), Failure> {
    let paths = drive_name::paths(&command.drives, "rename")?;
    let (path, new) = (config::path(command.config.config.as_deref()), &command.new);
    let (assemblies, _) = look(&paths, &path)?;
    let array = chosen(&assemblies, std::slice::from_ref(&command.old))?;
    let (uuid, socket) = (Uuid(array.uuid), command.control.socket.as_deref());
    refuse_served(socket, uuid, "rename")?;
    let renamed = ownership::rename(&path, &assemblies, array, new)?;
    let reply = if renamed.is_known { format!("; {}", notify_daemon(socket)) } else { String::new() };
    let words = || renamed.words(new) + &reply;
    say(json, words, || json!({"old": renamed.old, "new": new, "uuid": uuid.to_string(), "drives": renamed.drive_count}));
    Ok(())
}

/// Destroys an array.
///
/// # Errors
/// When it is served or in use, or nobody confirms it.
pub fn destroy(command: &cli::Destroy, json: bool) -> Result<(), Failure> {
    let (paths, names) = sort_arguments(&command.what);
    let path = config::path(command.config.config.as_deref());
    let (assemblies, _) = look(&paths, &path)?;
    let array = chosen(&assemblies, &names)?;
    let (uuid, socket) = (Uuid(array.uuid), command.control.socket.as_deref());
    refuse_served(socket, uuid, "destroy")?;
    let arrays = tree(&assemblies, array);
    let (paths, uuids): (_, Vec<[u8; 16]>) = (drives(&arrays), arrays.iter().map(|one| one.uuid).collect());
    let (name, list) = (short_name(&array.name), paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
    confirm(&format!("Destroying array \"{name}\" ({uuid}) loses all its data, on {}.", list.join(", ")), command.force)?;
    let is_known = Config::read(&path)?.arrays.iter().any(|known| known.uuid == uuid);
    let edit = is_known.then(|| without(&path, uuid)).transpose()?;
    let kept = stria_host::destroy(&paths, &uuids)?;
    let mut notes = kept.iter().map(|note| format!("; {note}")).collect::<String>();
    if let Some(edit) = edit {
        let followed = edit.save().and_then(|config| keep_away(&config));
        followed.map_err(|failure| ownership::after(&format!("array \"{name}\" is destroyed"), failure.into()))?;
        notes.push_str(&format!("; {}", notify_daemon(socket)));
    }
    let words = || format!("array \"{name}\" is destroyed; {}{notes}", wipe::destroyed(list.len(), &kept));
    say(json, words, || json!({"destroyed": name, "uuid": uuid.to_string(), "drives": list, "notes": kept}));
    Ok(())
}

/// The locked configuration without an array, which can be written, and mdadm's can follow.
fn without(path: &Path, uuid: Uuid) -> Result<Edit, Failure> {
    let mut edit = Edit::open(path)?;
    edit.remove(uuid)?;
    refuse_unless_it_follows(&edit.check()?)?;
    edit.refuse_unwritable()?;
    Ok(edit)
}

/// Removes signatures from drives.
///
/// # Errors
/// When a drive is in use, or nobody confirms it.
pub fn wipe(command: &cli::Wipe, json: bool) -> Result<(), Failure> {
    let (paths, means) = (drive_name::paths(&command.drives, "wipe")?, command.means());
    wipe::check(&paths, means)?;
    let mut carries = Vec::new();
    let seen: Vec<Examined> = examine(&paths).into_iter().collect::<Result<_, _>>()?;
    for examined in &seen {
        let path = examined.info.path.display();
        match &examined.candidate.found {
            Ok(member) => carries.push(format!("{path} carries a member of array \"{}\"", member.superblock.name())),
            Err(_) => carries.extend(examined.candidate.carries.first().map(|what| format!("{path} carries {what}"))),
        }
    }
    let list: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    // Signatures show what is lost. An erasure of all data also loses what has no signature.
    if means != WipeMeans::Signatures && carries.is_empty() {
        carries = list.clone();
    }
    if !carries.is_empty() {
        confirm(&format!("Wiping: {}. {}", carries.join("; "), means.remains()), command.force)?;
    }
    let mut shown = None;
    let progress = |path: &Path, percent: u8| {
        if shown.replace(percent) != Some(percent) && !json {
            tell(&format!("{}: {percent} % sanitized; the drive goes on if this is interrupted", path.display()));
        }
    };
    let marks: Vec<String> = seen.iter().map(Examined::mark).collect();
    wipe::wipe(&paths, &marks, means, progress)?;
    say(json, || format!("{} {}", list.join(", "), means.done(list.len())), || json!({"wiped": list, "means": means}));
    Ok(())
}

/// The reason why an array does not grow.
pub fn grow(command: &cli::Grow) -> Failure {
    let cli::Grow { name, drives, members, level, layout, strip, .. } = command;
    let geometry = [("level", level), ("layout", layout), ("strip", strip)];
    let geometry: Vec<&str> = geometry.iter().filter(|(_, wanted)| wanted.is_some()).map(|(what, _)| *what).collect();
    let what = match (&geometry[..], drives.is_empty() && members.is_none()) {
        ([], true) => "grow to larger drives".to_owned(),
        ([], false) => "grow by more drives".to_owned(),
        (several, _) => format!("change its {}", several.join(" and ")),
    };
    Failure::Failed(format!(
        "\"{name}\" cannot {what} yet, because the write log and the checksums lie where md moves data during a reshape. Until Stria can, stop \
         the array and use `mdadm --grow` on Linux md: `stria serve` takes it back when the reshape has ended"
    ))
}
