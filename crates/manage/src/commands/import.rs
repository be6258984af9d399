//! `import`: arrays that other machines and programs left on drives here.

use super::{adopt, life};
use crate::cli::{self, Cli, Command};
use crate::config::{self, Block, Config, Uuid};
use crate::meant::{chosen, drives, find_on, look, tree};
use crate::ownership::foreign::{FirmwareMember, Foreign, ForeignArray};
use crate::ownership::{self, Terms};
use crate::serve::serve;
use clap::FromArgMatches;
use std::path::{Path, PathBuf};
use stria_block::shown;
use stria_host::{OpenOptions, sort_arguments};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};

/// Lists foreign arrays, or takes one. The exit code.
///
/// # Errors
/// When it is not found, its name clashes with another's, or it cannot start.
pub fn import(command: &cli::Import, json: bool) -> Result<u8, Failure> {
    let (paths, names) = sort_arguments(&command.what);
    let path = config::path(command.config.config.as_deref());
    let config = Config::read(&path)?;
    if names.is_empty() && command.name.is_none() && !command.once {
        list(&paths, &path, &config, json)?;
        return Ok(0);
    }
    let (assemblies, _) = look(&paths, &path)?;
    let array = chosen(&assemblies, &names)?;
    let name = ownership::name_of_import(&config, array, command.name.as_deref())?;
    if command.once {
        return once(&name, drives(&tree(&assemblies, array)), command, json);
    }
    let (uuid, socket) = (Uuid(array.uuid), command.control.socket.as_deref());
    if ownership::import_renames(array, &name, command.read_only) {
        life::refuse_served(socket, uuid, "import")?;
    }
    let terms = Terms {
        ublk: command.ublk.map(|number| number.map_or(Block::Any, Block::Number)),
        read_only: command.read_only,
        ..Terms::default()
    };
    let adopted = ownership::import(&path, &assemblies, array, &name, terms)?;
    adopt::say_adopted(&path, uuid, adopted, socket, json)?;
    Ok(0)
}

/// Serves it in the foreground under a name, and stores nothing.
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
    let Command::Serve(serving) = parsed.map_err(|error| Failure::Failed(error.to_string()))?.command else {
        unreachable!("the words are those of `stria serve`");
    };
    let (drives, names) = sort_arguments(&serving.what);
    serve(&drives, &names, &serving.options, json)?;
    Ok(0)
}

fn list(paths: &[PathBuf], path: &Path, config: &Config, json: bool) -> Result<(), Failure> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let found = find_on(paths, path, options)?;
    let foreign = Foreign::of(&found, config);
    if json {
        print_json(&foreign);
        return Ok(());
    }
    let row = |array: &ForeignArray| {
        let from = array.host.as_deref().unwrap_or("no host");
        vec![
            shown(&array.name).to_string(),
            shown(if array.from_here { "this machine" } else { from }).to_string(),
            array.level.clone(),
            array.uuid.clone(),
            array.state.clone(),
        ]
    };
    let rows = foreign.arrays.iter().map(row).collect();
    let mut text = match foreign.arrays.is_empty() {
        true => "no array lies here that does not belong to Stria already\n".to_owned(),
        false => format!("{}\n", table(&["array", "from", "level", "uuid", "state"], &[], rows)),
    };
    for FirmwareMember { path, reason, remedy, .. } in &foreign.firmware {
        text += &format!("{}: {}; {remedy}\n", shown(path), shown(reason));
    }
    print(&text);
    Ok(())
}
