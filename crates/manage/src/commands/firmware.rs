//! `firmware`: shows the firmware of a member, or updates it.

use crate::api::{Done, FirmwareRequest};
use crate::cli;
use crate::control::client::{self, array_path};
use crate::drive_name::{self, Prefer};
use hyper::Method;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use stria_block::shown;
use stria_health::{Firmware, firmware as look};
use stria_terminal::output::{confirm, say};
use stria_terminal::{Failure, absolute};

/// Shows or updates the firmware of a member.
///
/// # Errors
/// When the drive does not take it, or the array cannot do without the member.
pub fn firmware(command: &cli::Firmware, json: bool) -> Result<(), Failure> {
    let (client, array) = client::find(command.control.socket.as_deref(), &command.name)?;
    let path = drive_name::find(&array, &command.drive, Prefer::Working)?;
    let Some(image) = &command.image else {
        let found = look(&path).map_err(Failure::failed)?;
        say(json, || words(&path, &found), || view(&path, &found));
        return Ok(());
    };
    let question = format!(
        "Writing firmware from {} to {}: a wrong image may make the drive unusable, and most drives take no older firmware back.",
        image.display(),
        path.display()
    );
    confirm(&question, command.yes || command.force)?;
    let (slot, activate, force) = (command.slot, command.activate, command.force);
    let body = FirmwareRequest { path, image: absolute(image), slot, activate, force };
    let done: Done = client.send_long(Method::POST, &array_path(&array.identity.name, "/members/firmware"), &body)?;
    say(json, || done.message.clone(), || json!(done));
    Ok(())
}

fn words(path: &Path, found: &Firmware) -> String {
    let mut text = format!("{}: firmware {}", shown(&path.display().to_string()), shown(&found.revision));
    for (index, revision) in found.slots.iter().enumerate() {
        let (slot, is) = (index + 1, |number: u8| usize::from(number) == index + 1);
        let revision = if revision.is_empty() { "empty" } else { revision };
        let active = if is(found.active_slot) { ", active" } else { "" };
        let next = if found.next_slot.is_some_and(is) { ", active after the next reset" } else { "" };
        let fixed = if index == 0 && found.first_is_read_only { ", read-only" } else { "" };
        let _ = write!(text, "\n  slot {slot}: {}{active}{next}{fixed}", shown(revision));
    }
    text + if found.activates_at_once { "\n  runs new firmware without a reset" } else { "\n  runs new firmware after a reset" }
}

fn view(path: &Path, found: &Firmware) -> serde_json::Value {
    json!({"drive": path, "revision": found.revision, "active_slot": found.active_slot, "next_slot": found.next_slot,
        "slots": found.slots, "first_slot_is_read_only": found.first_is_read_only, "activates_without_reset": found.activates_at_once})
}
