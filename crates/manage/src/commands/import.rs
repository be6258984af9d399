//! `import`: arrays that other machines and programs left on drives here.

use super::{adopt, life};
use crate::cli::{self, Cli};
use crate::config::{self, Config, Uuid};
use crate::meant::{chosen, look};
use clap::FromArgMatches;
use serde_json::json;
use std::path::PathBuf;
use stria_block::shown;
use stria_format::md::{Assembly, layout_of};
use stria_host::{OpenOptions, find, find_everywhere, short_name, sort_arguments};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};

/// Lists foreign arrays, or takes one. The exit code.
///
/// # Errors
/// When it is not found, its name clashes with another's, or it cannot start.
pub fn import(command: &cli::Import, json: bool) -> Result<u8, Failure> {
    let (paths, names) = sort_arguments(&command.what);
    let config = Config::read(&config::path(command.config.config.as_deref()))?;
    if names.is_empty() && command.name.is_none() && !command.once {
        list(&paths, &config, json)?;
        return Ok(0);
    }
    let (assemblies, _) = look(&paths)?;
    let array = chosen(&assemblies, &names)?;
    if let Err(error) = &array.outcome {
        return Err(Failure::Failed(error.to_string()));
    }
    let name = command.name.clone().unwrap_or_else(|| short_name(&array.name).to_owned());
    let drives = life::drives(&life::tree(&assemblies, array));
    if command.once {
        return once(&name, drives, command, json);
    }
    let uuid = Uuid(array.uuid);
    if let Some(other) = config.arrays.iter().find(|other| other.name.as_deref() == Some(&name) && other.uuid != uuid) {
        let text = format!(
            "another array here is called \"{name}\" ({}): give this one ({uuid}) another name with --name, which its drives get too",
            other.uuid
        );
        return Err(Failure::Failed(text));
    }
    let files: Vec<PathBuf> = drives.iter().filter(|path| path.is_file()).cloned().collect();
    // Of an array that is only read, the name on its drives stays as it is.
    if array.name != name && !command.read_only {
        let rename = cli::Rename {
            old: uuid.to_string(),
            new: name.clone(),
            drives: files.clone(),
            config: command.config.clone(),
            control: command.control.clone(),
        };
        life::rename(&rename, json)?;
    }
    // Image files are not searched for; block devices are found by the UUID.
    let what = if files.is_empty() { vec![PathBuf::from(uuid.to_string())] } else { files };
    let adopt = cli::Adopt {
        what,
        name: Some(name),
        ublk: command.ublk,
        vhost_user: Vec::new(),
        read_only: command.read_only,
        lanes: None,
        config: command.config.clone(),
        control: command.control.clone(),
    };
    adopt::adopt(&adopt, json)?;
    Ok(0)
}

/// Serves it in the foreground under a name, and keeps nothing of that.
fn once(name: &str, drives: Vec<PathBuf>, command: &cli::Import, json: bool) -> Result<u8, Failure> {
    let mut words: Vec<std::ffi::OsString> = ["stria", "serve", "--name", name].map(Into::into).to_vec();
    if command.read_only {
        words.push("--read-only".into());
    }
    if let Some(socket) = &command.control.socket {
        words.extend(["--socket".into(), socket.into()]);
    }
    words.push("--".into());
    words.extend(drives.into_iter().map(Into::into));
    let parsed = Cli::command_line().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    super::run(parsed.map_err(|error| Failure::Failed(error.to_string()))?, json)
}

/// The host of an array's name, if it has one.
fn host(name: &str) -> Option<&str> {
    name.split_once(':').map(|(host, _)| host)
}

fn list(paths: &[PathBuf], config: &Config, json: bool) -> Result<(), Failure> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let found = if paths.is_empty() { find_everywhere(options)?.0 } else { find(paths, options)? };
    let this_host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let this_host = this_host.trim().split('.').next().unwrap_or_default().to_owned();
    let is_known = |array: &Assembly| config.owner(Uuid(array.uuid), array.freshest.span_of.map(Uuid)).is_some();
    let arrays: Vec<&Assembly> = found.assemblies.iter().filter(|one| one.freshest.span_of.is_none() && !is_known(one)).collect();
    let clash = |array: &Assembly| {
        let name = short_name(&array.name);
        let same = |other: &&Assembly| other.uuid != array.uuid && short_name(&other.name) == name;
        config.arrays.iter().any(|other| other.name.as_deref() == Some(name)) || arrays.iter().any(same)
    };
    let origin = |array: &Assembly| match host(&array.name) {
        None => "no host".to_owned(),
        Some(host) if host == this_host => "this machine".to_owned(),
        Some(host) => host.to_owned(),
    };
    let level = |array: &Assembly| {
        layout_of(&array.freshest.header).map_or_else(|_| "unknown".to_owned(), |(level, _)| level.to_string())
    };
    let state = |array: &Assembly| match &array.outcome {
        Err(error) => error.to_string(),
        Ok(_) if clash(array) => "can be imported, under another name (--name): there is another array of this name".into(),
        Ok(_) if !array.missing_slots.is_empty() => "can be imported, degraded".into(),
        Ok(_) => "can be imported".into(),
    };
    let is_firmware = |reason: &str| reason.contains("RAID") && reason.contains("member");
    let firmware: Vec<_> = found.strangers.iter().filter(|stranger| is_firmware(&stranger.reason)).collect();
    const FIRMWARE: &str = "Stria does not serve it, as its metadata belong to firmware: `mdadm --assemble` runs IMSM and DDF";
    if json {
        let view = |array: &&Assembly| {
            json!({"name": short_name(&array.name), "host": host(&array.name), "uuid": Uuid(array.uuid).to_string(), "level": level(array),
                "starts": array.outcome.is_ok(), "clash": clash(array), "state": state(array),
                "drives": array.drives.iter().map(|drive| &drive.name).collect::<Vec<_>>()})
        };
        let others =
            firmware.iter().map(|stranger| json!({"path": stranger.name, "reason": stranger.reason, "remedy": FIRMWARE}));
        print_json(&json!({"arrays": arrays.iter().map(view).collect::<Vec<_>>(), "firmware": others.collect::<Vec<_>>()}));
        return Ok(());
    }
    let row = |array: &&Assembly| {
        vec![
            shown(short_name(&array.name)).to_string(),
            shown(&origin(array)).to_string(),
            level(array),
            Uuid(array.uuid).to_string(),
            state(array),
        ]
    };
    let mut text = match arrays.is_empty() {
        true => "no array lies here that does not belong to Stria already\n".to_owned(),
        false => format!("{}\n", table(&["array", "from", "level", "uuid", "state"], &[], arrays.iter().map(row).collect())),
    };
    for stranger in firmware {
        text += &format!("{}: {}; {FIRMWARE}\n", shown(&stranger.name), shown(&stranger.reason));
    }
    print(&text);
    Ok(())
}
