//! `stria ublk`: the block devices of this machine that arrays are.

use crate::cli::{Ublk, UblkAction};
use crate::fronts::ublk::notes;
use serde_json::json;
use stria_block::shown;
use stria_format::md::uuid_text;
use stria_front::ublk::{Copier, UblkError, list, remove};
use stria_terminal::output::say;
use stria_terminal::{Failure, NOT_WELL};

/// Lists the devices, or removes one. Returns the exit code: [`NOT_WELL`] if a device has no server.
///
/// # Errors
/// When the kernel has no ublk, or a device cannot be removed.
pub fn ublk(command: Ublk, json: bool) -> Result<u8, Failure> {
    match command.action {
        Some(UblkAction::Remove { id, force }) => {
            let entry = remove(&notes(), id, force).map_err(failure)?;
            let words = || format!("/dev/ublkb{id} of array \"{}\" was removed", shown(&entry.name));
            say(json, words, || json!({"removed": format!("/dev/ublkb{id}"), "array": entry.name}));
            Ok(0)
        }
        None => {
            let entries = list(&notes()).map_err(failure)?;
            for entry in &entries {
                let (id, uuid) = (entry.id, uuid_text(&entry.uuid));
                let state = match entry.pid {
                    Some(pid) => format!("served by process {pid}"),
                    None => format!(
                        "LEFT BEHIND by a dead server: `stria serve --ublk` goes on with it, `stria ublk remove {id}` removes it, and its requests fail"
                    ),
                };
                let (side, copied) = match entry.copier {
                    Copier::Server => ("server", ""),
                    Copier::Driver => ("driver", ", data copied by the driver"),
                };
                let words = || format!("/dev/ublkb{id}  {}  {uuid}  {state}{copied}", shown(&entry.name));
                let device = format!("/dev/ublkb{id}");
                say(json, words, || json!({"device": device, "array": entry.name, "uuid": uuid, "pid": entry.pid, "copy": side}));
            }
            if entries.is_empty() {
                say(json, || "no array is a block device here".into(), || json!([]));
            }
            Ok(if entries.iter().all(|entry| entry.pid.is_some()) { 0 } else { NOT_WELL })
        }
    }
}

fn failure(error: UblkError) -> Failure {
    match error {
        UblkError::InUse { .. } => Failure::Unsafe(error.to_string()),
        error => Failure::failed(error),
    }
}
