//! `spare`: the pool of spares that the arrays of the daemon share.

use super::adopt::notify_daemon;
use crate::config::{self, Config};
use crate::pool::{self, Changed, PoolDrive};
use crate::{cli, drive_name};
use serde_json::json;
use std::path::Path;
use stria_terminal::output::{confirm, print, print_json, say, table, tell};
use stria_terminal::{Failure, size};

/// Shows or changes the pool.
///
/// # Errors
/// When a drive is unfit, or the configuration cannot be changed.
pub fn spare(command: &cli::SpareCommand, json: bool) -> Result<(), Failure> {
    let (path, socket) = (config::path(command.config.as_deref()), command.control.socket.as_deref());
    match &command.action {
        cli::SpareAction::Add { drives, force } => {
            let changed = pool::add(&path, &drive_name::paths(drives, "spare add")?, None, |what| confirm(what, *force))?;
            say_changed(&changed, "added", "in the pool of spares now", socket, json)
        }
        cli::SpareAction::List => {
            list(&pool::list(&Config::read(&path)?.spares.drives), json);
            Ok(())
        }
        cli::SpareAction::Remove { drives } => {
            let changed = pool::remove(&path, &drive_name::paths(drives, "spare remove")?)?;
            let what = "no longer in the pool of spares; a drive that an array has taken stays in it";
            say_changed(&changed, "removed", what, socket, json)
        }
    }
}

/// Notifies the daemon, and prints what has become of the drives.
fn say_changed(changed: &Changed, key: &str, what: &str, socket: Option<&Path>, json: bool) -> Result<(), Failure> {
    let reply = notify_daemon(socket);
    let list: Vec<String> = changed.drives.iter().map(|drive| drive.display().to_string()).collect();
    say(
        json,
        || format!("{} {} {what}; {reply}", list.join(", "), if list.len() == 1 { "is" } else { "are" }),
        || json!({key: list, "pool": changed.pool, "warnings": changed.notes}),
    );
    if !json {
        changed.notes.iter().for_each(|note| tell(&format!("warning: {note}")));
    }
    Ok(())
}

fn list(pool: &[PoolDrive], json: bool) {
    if json {
        return print_json(&pool);
    }
    if pool.is_empty() {
        return print("the pool of spares is empty: `stria spare add DRIVE` puts drives into it\n");
    }
    let row = |drive: &PoolDrive| {
        vec![
            drive.path.display().to_string(),
            drive.state.clone(),
            drive.size_bytes.map_or("-".into(), size::show),
            drive.enclosure.clone().unwrap_or("-".into()),
        ]
    };
    print(&format!("{}\n", table(&["drive", "state", "size", "enclosure"], &[2], pool.iter().map(row).collect())));
}
