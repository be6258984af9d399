//! The commands that say which arrays belong to Stria on this machine: `adopt`, `release`, `config`.

use crate::api::AdoptedState;
use crate::cli;
use crate::client;
use crate::config::edit::Edit;
use crate::config::{self, Array, Block, Config, Uuid};
use crate::mdadm::keep_away;
use crate::meant::{chosen, drives_of, look};
use crate::rest::auth::read_tokens;
use crate::sockets::once_free;
use serde_json::json;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stria_block::shown;
use stria_host::{short_name, sort_arguments};
use stria_terminal::output::{print, say};
use stria_terminal::{Failure, absolute};

/// Gives an array to Stria.
///
/// # Errors
/// When it is not found, or a file cannot be changed.
pub fn adopt(command: &cli::Adopt, json: bool) -> Result<(), Failure> {
    let (drives, names) = sort_arguments(&command.what);
    let (assemblies, _) = look(&drives)?;
    let array = chosen(&assemblies, &names)?;
    let uuid = Uuid(array.uuid);
    let parts = || assemblies.iter().filter(|one| one.freshest.span_of == Some(array.uuid));
    let spans = parts().map(|one| Uuid(one.uuid)).collect();
    let drives = drives_of(parts().chain([array]));
    let path = config::path(command.config.config.as_deref());
    let mut edit = Edit::open(&path)?;
    let known = edit.before().arrays.iter().find(|known| known.uuid == uuid).cloned();
    let mut entry = Array { spans, ..known.unwrap_or_else(|| Array::new(uuid)) };
    entry.name = command.name.clone().or(entry.name).or_else(|| Some(short_name(&array.name).to_owned()));
    if let Some(number) = command.ublk {
        entry.ublk = number.map_or(Block::Any, Block::Number);
    }
    if !command.vhost_user.is_empty() {
        entry.vhost_user = command.vhost_user.iter().map(|path| absolute(path)).collect();
    }
    entry.read_only |= command.read_only;
    entry.lanes = command.lanes.or(entry.lanes);
    edit.put(&entry)?;
    edit.search(drives.iter().filter(|path| path.is_file()))?;
    let config = edit.save()?;
    let mut notes = keep_away(&config)?;
    notes.extend(take_from_linux(&drives));
    notes.push(tell_daemon(command.control.socket.as_deref())?);
    let name = entry.title();
    let words = || format!("array \"{name}\" ({uuid}) belongs to Stria; {}", notes.join("; "));
    say(json, words, || json!({"name": name, "uuid": uuid.to_string(), "config": path, "notes": notes}));
    Ok(())
}

/// Gives an array back.
///
/// # Errors
/// When the daemon serves it, it is not Stria's, or a file cannot be changed.
pub fn release(command: &cli::Release, json: bool) -> Result<(), Failure> {
    let path = config::path(command.config.config.as_deref());
    let socket = command.control.socket.as_deref();
    let mut edit = Edit::open(&path)?;
    let known = edit.before().arrays.iter().find(|array| array.is_called(&command.name)).map(|array| (array.uuid, array.title()));
    let Some((uuid, name)) = known else {
        return Err(Failure::Failed(format!(
            "no array \"{}\" belongs to Stria by {}: `stria config show` lists those that do",
            command.name,
            path.display()
        )));
    };
    let served = client::adopted(socket).into_iter().find(|array| array.uuid == uuid.to_string());
    if served.is_some_and(|array| array.state == AdoptedState::Served) {
        return Err(Failure::Failed(format!("array \"{name}\" is served: `stria stop {name}` first, then release it")));
    }
    edit.remove(uuid)?;
    let config = edit.save()?;
    let mut notes = keep_away(&config)?;
    notes.push(tell_daemon(socket)?);
    let words = || format!("array \"{name}\" ({uuid}) is no longer Stria's; {}", notes.join("; "));
    say(json, words, || json!({"name": name, "uuid": uuid.to_string(), "config": path, "notes": notes}));
    Ok(())
}

/// `stria config`: the exit code.
///
/// # Errors
/// A fault in the configuration.
pub fn config(command: &cli::ConfigCommand, json: bool) -> Result<u8, Failure> {
    let path = config::path(command.config.as_deref());
    let config = Config::read(&path)?;
    match &command.action {
        cli::ConfigAction::Check => {
            // Certificates and keys are read, too.
            config.nbd.options()?.check()?;
            let api = config.api.options().map_err(Failure::Failed)?;
            api.check().map_err(Failure::Failed)?;
            read_tokens(&api.tokens).map_err(Failure::Failed)?;
            let there = if path.exists() { "is good" } else { "is not there, which is as good as an empty one" };
            let count = config.arrays.len();
            let words = || format!("{} {there}; {count} arrays belong to Stria", path.display());
            say(json, words, || json!({"config": path, "arrays": count}));
        }
        cli::ConfigAction::Show => show(&config, json),
        cli::ConfigAction::Owns { uuid } => {
            let uuid: Uuid = uuid.parse().map_err(Failure::Usage)?;
            return Ok(u8::from(config.owner(uuid, None).is_none()));
        }
    }
    Ok(0)
}

fn show(config: &Config, json: bool) {
    for array in &config.arrays {
        let ublk = match array.ublk {
            Block::None => None,
            Block::Any => Some("any".to_owned()),
            Block::Number(number) => Some(number.to_string()),
        };
        let words = || {
            let mut text = format!("{}  {}", shown(&array.title()), array.uuid);
            if let Some(ublk) = &ublk {
                text += &format!("  block device ({ublk})");
            }
            array.vhost_user.iter().for_each(|path| text += &format!("  vhost-user {}", path.display()));
            text + if array.read_only { "  read-only" } else { "" } + if array.start { "" } else { "  not started by itself" }
        };
        let spans: Vec<String> = array.spans.iter().map(Uuid::to_string).collect();
        say(json, words, || {
            json!({"name": array.title(), "uuid": array.uuid.to_string(), "spans": spans, "start": array.start, "ublk": ublk,
                "vhost_user": array.vhost_user, "read_only": array.read_only, "lanes": array.lanes})
        });
    }
    if config.arrays.is_empty() && !json {
        print("no array belongs to Stria: `stria adopt` takes one\n");
    }
}

/// Ends what Linux made of these drives, if nothing uses it: mdadm's rules assemble an array as soon as it is made. Says what was done.
///
/// An mdadm that udev started before mdadm's configuration named the array may still be about to assemble it. So this waits until udev is idle; later
/// ones leave the array alone. Where udev is not, nothing starts mdadm.
fn take_from_linux(drives: &[PathBuf]) -> Vec<String> {
    if drives.iter().any(|path| !path.is_file()) {
        let _ = Command::new("udevadm").args(["settle", "--timeout=30"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    let names: BTreeSet<String> = drives
        .iter()
        .filter_map(|path| path.file_name()?.to_str())
        .flat_map(holders)
        .filter(|name| name.starts_with("md"))
        .collect();
    let take = |name: &String| match stop_md(name) {
        Ok(()) => format!("Linux ran it as /dev/{name}, which was stopped, as nothing used it"),
        Err(why) => format!(
            "Linux runs it as /dev/{name}, which was not stopped ({why}): `mdadm --stop /dev/{name}`, then `stria reload` starts it here"
        ),
    };
    names.iter().map(take).collect()
}

/// What lies on a block device, by names of the kernel.
fn holders(device: &str) -> Vec<String> {
    let holders = std::fs::read_dir(Path::new("/sys/class/block").join(device).join("holders"));
    holders.into_iter().flatten().flatten().map(|holder| holder.file_name().to_string_lossy().into_owned()).collect()
}

/// Stops an md device and those that lie on it (md(4): `clear`). The kernel refuses if one is in use; udev uses a new one for a moment.
fn stop_md(name: &str) -> Result<(), String> {
    for holder in holders(name) {
        if !holder.starts_with("md") {
            return Err(format!("it is in use by {holder}"));
        }
        stop_md(&holder)?;
    }
    let state = Path::new("/sys/class/block").join(name).join("md/array_state");
    let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
    let stopped = once_free(|| std::fs::write(&state, "clear"), is_busy);
    stopped.map_err(|error| if is_busy(&error) { "it is in use".into() } else { error.to_string() })
}

/// Makes a running daemon follow the configuration.
pub(super) fn tell_daemon(socket: Option<&Path>) -> Result<String, Failure> {
    match client::daemon(socket) {
        Some(daemon) => Ok(daemon.send::<crate::api::Done>(hyper::Method::POST, "/v1/reload", &())?.message),
        None => Ok("no daemon runs: `systemctl enable --now stria` starts it, here and at every boot".into()),
    }
}
