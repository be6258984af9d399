//! Schedules of routine work, as a form shows and sets them: `[routine]` of the configuration.

use super::auth::sha256;
use super::machine::Machine;
use super::types::Message;
use crate::api::{ApiError, ApiErrorKind};
use crate::config::{RoutineConfig, edit::Edit};
use crate::words::error::{ErrorSentence, Told};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// When routine work is done. Schedules are written as systemd writes them (`weekly`, `Sun *-*-1..7 01:00`), or are `never`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoutineSettings {
    /// Scrubs of all arrays with redundancy.
    pub scrub: String,
    /// Scrubs of single arrays, by name.
    #[serde(default)]
    pub scrubs: BTreeMap<String, String>,
    /// Short self-tests of drives.
    pub self_test: String,
    /// Long ones.
    pub long_self_test: String,
    /// The hours in which such work runs, `22:00-06:00`; empty: all.
    #[serde(default)]
    pub hours: String,
    /// Names the settings that were read, so that no change of somebody else is lost. A change carries the one it is based on.
    #[serde(default)]
    pub tag: String,
}

impl RoutineSettings {
    fn tagged(self) -> Self {
        let bare = Self { tag: String::new(), ..self };
        Self { tag: sha256(&serde_json::to_vec(&bare).expect("settings are plain data")), ..bare }
    }
}

fn failed(failure: impl Into<Told>) -> ApiError {
    ApiError::new(ApiErrorKind::Failed, *failure.into().words)
}

/// The schedules of the configuration.
///
/// # Errors
/// When it cannot be read.
pub fn settings(machine: &Machine) -> Result<RoutineSettings, ApiError> {
    let RoutineConfig { scrub, scrubs, self_test, long_self_test, .. } = machine.config()?.routine;
    // Hours are shown as they were written.
    let text = std::fs::read_to_string(&machine.config_path).unwrap_or_default();
    let written = text.parse::<toml::Table>().unwrap_or_default();
    let hours = written.get("routine").and_then(|part| part.get("hours")).and_then(|hours| hours.as_str());
    let settings = RoutineSettings {
        scrub: scrub.to_string(),
        scrubs: scrubs.into_iter().map(|(name, schedule)| (name, schedule.to_string())).collect(),
        self_test: self_test.to_string(),
        long_self_test: long_self_test.to_string(),
        hours: hours.unwrap_or_default().to_owned(),
        tag: String::new(),
    };
    Ok(settings.tagged())
}

/// Writes them into the configuration, which keeps its comments, and applies it.
///
/// # Errors
/// When a schedule makes no sense, or the settings are others than those that were read; then nothing has changed.
pub fn set(machine: &Machine, wanted: &RoutineSettings) -> Result<Message, ApiError> {
    // From here on no command changes the file.
    let mut edit = Edit::open(&machine.config_path).map_err(failed)?;
    if settings(machine)?.tag != wanted.tag {
        return Err(ApiError::new(ApiErrorKind::PlanChanged, ErrorSentence::SchedulesChanged {}));
    }
    let defaults = RoutineConfig::default();
    let own = |text: &String, usual: String| if *text == usual { String::new() } else { text.clone() };
    let keys = [
        ("scrub", own(&wanted.scrub, defaults.scrub.to_string())),
        ("self-test", own(&wanted.self_test, defaults.self_test.to_string())),
        ("long-self-test", own(&wanted.long_self_test, defaults.long_self_test.to_string())),
        ("hours", wanted.hours.clone()),
    ];
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, text)| (*key, text.as_str())).collect();
    edit.routine(&keys, &wanted.scrubs).map_err(failed)?;
    edit.check().map_err(|failure| ApiError::new(ApiErrorKind::Invalid, *failure.words))?;
    edit.save().map_err(failed)?;
    Ok(machine.keeper.reload()?.into())
}
