//! Where alarms go, as a form shows and sets it: the addresses of `[alarms.mail]` and the URL of `[alarms] webhook`.

use super::auth::sha256;
use super::machine::Machine;
use super::types::Message;
use crate::api::{ApiError, ApiErrorKind};
use crate::config::edit::Edit;
use crate::words::error::{ErrorSentence, Told};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The channels that need one line each. Others, and what a mail server asks for, stand in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlarmSettings {
    /// The addresses that get a mail; empty: none.
    #[serde(default)]
    pub mail: Vec<String>,
    /// The URL that gets a POST; empty: none.
    #[serde(default)]
    pub webhook: String,
    /// Names the settings that were read, so that no change of somebody else is lost. A change carries the one it is based on.
    #[serde(default)]
    pub tag: String,
}

impl AlarmSettings {
    fn tagged(self) -> Self {
        let bare = Self { tag: String::new(), ..self };
        Self { tag: sha256(&serde_json::to_vec(&bare).expect("settings are plain data")), ..bare }
    }
}

fn failed(failure: impl Into<Told>) -> ApiError {
    ApiError::new(ApiErrorKind::Failed, *failure.into().words)
}

/// The channels of the configuration.
///
/// # Errors
/// When it cannot be read.
pub fn settings(machine: &Machine) -> Result<AlarmSettings, ApiError> {
    let alarms = machine.config()?.alarms;
    let mail = alarms.mail.map(|mail| mail.to).unwrap_or_default();
    Ok(AlarmSettings { mail, webhook: alarms.webhook.unwrap_or_default(), tag: String::new() }.tagged())
}

/// Writes them into the configuration, which keeps its comments, and applies it.
///
/// # Errors
/// When an address or the URL makes no sense, or the settings are others than those that were read; then nothing has changed.
pub fn set(machine: &Machine, wanted: &AlarmSettings) -> Result<Message, ApiError> {
    // From here on no command changes the file.
    let mut edit = Edit::open(&machine.config_path).map_err(failed)?;
    if settings(machine)?.tag != wanted.tag {
        return Err(ApiError::new(ApiErrorKind::PlanChanged, ErrorSentence::ChannelsChanged {}));
    }
    edit.alarms(&wanted.mail, &wanted.webhook).map_err(failed)?;
    edit.check().map_err(|failure| ApiError::new(ApiErrorKind::Invalid, *failure.words))?;
    edit.save().map_err(failed)?;
    Ok(machine.keeper.reload()?.into())
}
