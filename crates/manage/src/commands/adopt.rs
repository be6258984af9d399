//! The commands that say which arrays belong to Stria on this machine: `adopt`, `release`, `config`.

use crate::api::{AdoptedState, AdoptedView, Done};
use crate::cli;
use crate::config::edit::Edit;
use crate::config::{self, Block, Config, Fault, Uuid};
use crate::control::client::{self, Client};
use crate::keeper::count_of;
use crate::meant::{chosen, look};
use crate::ownership::mdadm::{keep_away, refuse_unless_it_follows};
use crate::ownership::{self, Adopted, Terms};
use crate::rest::auth::read_tokens;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use stria_block::{shell_word, shown, shown_sentence};
use stria_host::sort_arguments;
use stria_terminal::output::{print, print_json, say, tell};
use stria_terminal::{Failure, absolute};

/// Gives an array to Stria.
///
/// # Errors
/// When it is not found, or a file cannot be changed.
pub fn adopt(command: &cli::Adopt, json: bool) -> Result<(), Failure> {
    let (drives, names) = sort_arguments(&command.what);
    let path = config::path(command.config.config.as_deref());
    let (assemblies, _) = look(&drives, &path)?;
    let array = chosen(&assemblies, &names)?;
    let terms = Terms {
        name: command.name.clone(),
        ublk: command.ublk.map(|number| number.map_or(Block::Any, Block::Number)),
        vhost_user: command.vhost_user.iter().map(|path| absolute(path)).collect(),
        read_only: command.read_only,
        lanes: command.lanes,
    };
    let adopted = ownership::adopt(&path, &assemblies, array, terms)?;
    say_adopted(&path, Uuid(array.uuid), adopted, command.control.socket.as_deref(), json)
}

/// Reports to the daemon an array that belongs to Stria now, and prints that.
pub(super) fn say_adopted(path: &Path, uuid: Uuid, adopted: Adopted, socket: Option<&Path>, json: bool) -> Result<(), Failure> {
    let Adopted { name, mut notes } = adopted;
    notes.push(notify_daemon(socket));
    let is_it = |array: &AdoptedView| array.uuid == uuid.to_string() && array.state != AdoptedState::Served;
    // An array that was adopted is expected to be served now.
    notes.extend(client::adopted(socket).into_iter().find(is_it).map(|array| format!("it is not served: {}", array.text)));
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
        return Err(Failure::Failed(format!(
            "array \"{name}\" is served: `stria stop {word}` first, then release it",
            word = shell_word(&name)
        )));
    }
    edit.remove(uuid)?;
    refuse_unless_it_follows(&edit.check()?)?;
    let config = edit.save()?;
    let mut notes = keep_away(&config)?;
    notes.push(notify_daemon(socket));
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
    if let cli::ConfigAction::Owns { uuid, udev } = &command.action {
        let is_owned = Config::names(&path, uuid.parse().map_err(Failure::Usage)?)?;
        if *udev {
            print(&format!("STRIA_MEMBER={}\n", u8::from(is_owned)));
        }
        return Ok(u8::from(!is_owned && !udev));
    }
    match &command.action {
        cli::ConfigAction::Check { alone } => return check(&path, *alone, json),
        cli::ConfigAction::Show => show(&Config::read(&path)?, json),
        cli::ConfigAction::Owns { .. } => unreachable!("it is answered above"),
    }
    Ok(0)
}

/// Lists every fault of the configuration and, unless `alone`, of the files and groups that it names. The exit code: 1 if there
/// is any.
fn check(path: &Path, alone: bool, json: bool) -> Result<u8, Failure> {
    let (config, mut faults) = Config::check(path, alone)?;
    let tokens = config.as_ref().filter(|_| !alone).map(|config| read_tokens(&config.api.tokens));
    faults.extend(tokens.and_then(Result::err).map(|text| Fault { line: None, text }));
    let warnings = config.as_ref().filter(|_| !alone).map(Config::warnings).unwrap_or_default();
    let shown = path.display();
    warnings.iter().filter(|_| !json).for_each(|warning| tell(&format!("{shown}: warning: {warning}")));
    if !faults.is_empty() {
        for fault in faults.iter().filter(|_| !json) {
            tell(&format!("{shown}{}", fault.after_name()));
        }
        if json {
            print_json(&json!({"config": path, "faults": faults, "warnings": warnings}));
        } else if faults.len() > 1 {
            tell(&format!("{shown} has {} faults", faults.len()));
        }
        return Ok(1);
    }
    let there = if path.exists() { "is good" } else { "is not there, which is as good as an empty one" };
    let count = config.map_or(0, |config| config.arrays.len());
    let belong = if count == 1 { "belongs" } else { "belong" };
    let words = || format!("{shown} {there}; {} {belong} to Stria", count_of(count));
    say(json, words, || json!({"config": path, "arrays": count, "warnings": warnings}));
    Ok(0)
}

fn show(config: &Config, json: bool) {
    let mut views = Vec::new();
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
        if !json {
            print(&format!("{}\n", shown_sentence(&words())));
        }
        views.push(
            json!({"name": array.title(), "uuid": array.uuid.to_string(), "spans": spans, "start": array.start, "ublk": ublk,
            "vhost_user": array.vhost_user, "read_only": array.read_only, "lanes": array.lanes}),
        );
    }
    if json {
        print_json(&views);
    } else if views.is_empty() {
        print("no array belongs to Stria: `stria adopt` takes one\n");
    }
}

/// Makes a running daemon follow the changed configuration. Returns what became of that; the change stands in any case.
pub(super) fn notify_daemon(socket: Option<&Path>) -> String {
    match client::daemon(socket) {
        Some(daemon) => told(&daemon, client::KEEPER_DONE),
        None => "no daemon runs: `systemctl enable --now stria` starts it, here and at every boot".into(),
    }
}

fn told(daemon: &Client, patience: Duration) -> String {
    match daemon.order_within::<Done>(patience, "/v1/reload", &()) {
        Ok(done) => done.message,
        Err(failure) => {
            // Not every command shows the text with --json.
            tell(&format!(
                "the configuration was changed, and the daemon does not follow it yet ({failure}): `stria reload` makes it"
            ));
            "the daemon does not follow it yet".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// The command had done its work by then, and ended with exit code 1.
    #[test]
    fn a_daemon_that_does_not_answer_in_time_is_no_failure_of_the_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("sock");
        let _deaf = UnixListener::bind(&socket).expect("a socket");
        assert_eq!(told(&Client::at(socket), Duration::from_millis(100)), "the daemon does not follow it yet");
    }
}
