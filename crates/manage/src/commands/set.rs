//! `set`: settings of an array that is served, or that is not.

use super::adopt::notify_daemon;
use crate::api::Done;
use crate::config::{self, Uuid};
use crate::control::client::{self, array_path};
use crate::meant::{chosen, look};
use crate::settings::{SettingsRequest, WriteMode};
use crate::words::plan::PlanSentence;
use crate::{cli, drive_name, ownership};
use hyper::Method;
use serde_json::json;
use stria_block::shell_word;
use stria_host::short_name;
use stria_terminal::Failure;
use stria_terminal::output::{confirm, say};

/// The costs of settings that take protection away; those of a write policy come with the answer.
fn costs(request: &SettingsRequest) -> Vec<String> {
    let is_none = |wanted: &Option<String>| wanted.as_deref() == Some("none");
    let bitmap = is_none(&request.bitmap).then_some(
        "without a write-intent bitmap, the next start after a crash resyncs everything, and a member that was away is rebuilt in full",
    );
    let log = is_none(&request.log)
        .then_some("without a write log, a crash together with a lost drive can damage data that was not being written");
    bitmap.into_iter().chain(log).map(str::to_owned).collect()
}

/// Changes settings of an array.
///
/// # Errors
/// When it is not found, a change is impossible, or nobody confirms it.
pub fn set(command: &cli::Set, json: bool) -> Result<(), Failure> {
    let request = command.request();
    let socket = command.control.socket.as_deref();
    let (services, _) = client::survey(None)?;
    let named = socket.and_then(|socket| client::survey(Some(socket)).ok()).map(|(services, _)| services).unwrap_or_default();
    let is_it = |name: &str, full_name: &str, uuid: &str| [name, full_name, uuid].contains(&&*command.name);
    let served = services.into_iter().chain(named).find_map(|(client, arrays)| {
        Some((client, arrays.into_iter().find(|a| is_it(&a.identity.name, &a.identity.full_name, &a.identity.uuid))?))
    });
    let path = config::path(command.config.config.as_deref());
    let found = match &served {
        Some(_) => None,
        None => Some(look(&drive_name::paths(&command.drives, "set")?, &path)?.0),
    };
    let known = found.as_ref().map(|assemblies| chosen(assemblies, std::slice::from_ref(&command.name))).transpose()?;
    // After the array was found: nobody weighs the cost of a setting for one that is not here.
    if command.write == Some(WriteMode::Back) {
        confirm(&PlanSentence::BackCosts {}.to_string(), command.yes || command.force)?;
    }
    let (uuid, name, mut notes) = match &served {
        Some((client, array)) => {
            let done: Done = client.send(Method::PUT, &array_path(&array.identity.name, "/settings"), &request)?;
            let uuid: Uuid = array.identity.uuid.parse().map_err(Failure::Failed)?;
            (uuid, array.identity.name.clone(), vec![done.message])
        }
        None => {
            let (assemblies, array) = found.as_deref().zip(known).expect("an array that is not served is looked for");
            let name = short_name(&array.name).to_owned();
            let notes = ownership::change(assemblies, array, &request)?.into_iter().collect();
            (Uuid(array.uuid), name, notes)
        }
    };
    notes.extend(costs(&request));
    let keeps = request.is_kept();
    let stored = if keeps { ownership::keep(&path, uuid, &request) } else { Ok(false) };
    // The setting holds all the same.
    let stored = stored.map_err(|failure| ownership::not_stored(&notes, failure))?;
    match (keeps, stored) {
        (false, _) => {}
        (true, true) => {
            notify_daemon(socket);
            notes.push(format!("stored in {}", path.display()));
        }
        (true, false) if served.is_some() => {
            notes.push(format!(
                "the setting is lost when the array stops: to store it, `stria adopt {word}`, or give `stria serve` the same option",
                word = shell_word(&name)
            ));
        }
        (true, false) => {
            return Err(Failure::Failed(format!(
                "array \"{name}\" is neither served nor Stria's by {}: give --write, --drive-caches and --read-only to `stria serve`, or \
                 `stria adopt` it first",
                path.display()
            )));
        }
    }
    say(
        json,
        || notes.join("; "),
        || json!({"name": name, "uuid": uuid.to_string(), "served": served.is_some(), "notes": notes}),
    );
    Ok(())
}
