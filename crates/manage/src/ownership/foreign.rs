//! What other machines and programs left on the drives here, as `stria import` and the API list it.

use crate::config::{Config, Uuid};
use crate::words::error::ErrorSentence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stria_format::detect::Signature;
use stria_format::md::assemble::Stranger;
use stria_format::md::{Assembly, layout_of};
use stria_host::{Found, short_name};

/// Arrays and members of arrays that do not belong to Stria.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Foreign {
    /// The arrays.
    pub arrays: Vec<ForeignArray>,
    /// Members of arrays that firmware made.
    pub firmware: Vec<FirmwareMember>,
}

/// An array that does not belong to Stria.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForeignArray {
    /// Its name on disk, without the host.
    pub name: String,
    /// The host in its name; null: it names none.
    pub host: Option<String>,
    /// True if that host is this machine.
    pub from_here: bool,
    /// Its identity.
    pub uuid: String,
    /// Its level; `unknown` if Stria does not know it.
    pub level: String,
    /// True if enough members are here.
    pub starts: bool,
    /// True if another array here has the name.
    pub clash: bool,
    /// What can be done with it, in words.
    pub state: String,
    /// Its drives that are here.
    pub drives: Vec<String>,
}

/// A drive of an array that firmware made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FirmwareMember {
    /// The drive.
    pub path: String,
    /// What lies on it, in words.
    pub reason: String,
    /// The same for programs, if it has a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_said: Option<ErrorSentence>,
    /// What can be done with it.
    pub remedy: String,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy_said: Option<ErrorSentence>,
}

/// The host of an array's name, if it has one.
pub fn host(name: &str) -> Option<&str> {
    name.split_once(':').map(|(host, _)| host)
}

impl Foreign {
    /// Those of what was found that the configuration does not know.
    pub fn of(found: &Found, config: &Config) -> Self {
        let this_host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let this_host = this_host.trim().split('.').next().unwrap_or_default();
        let is_known = |array: &Assembly| config.owner(Uuid(array.uuid), array.freshest.span_of.map(Uuid)).is_some();
        let arrays: Vec<&Assembly> =
            found.assemblies.iter().filter(|one| one.freshest.span_of.is_none() && !is_known(one)).collect();
        let clash = |array: &Assembly| {
            let name = short_name(&array.name);
            let same = |other: &&Assembly| other.uuid != array.uuid && short_name(&other.name) == name;
            config.arrays.iter().any(|other| other.name.as_deref() == Some(name)) || arrays.iter().any(same)
        };
        let state = |array: &Assembly| match &array.outcome {
            Err(error) => error.to_string(),
            Ok(_) if clash(array) => "can be imported, under another name (--name): there is another array of this name".into(),
            Ok(_) if !array.missing_slots.is_empty() => "can be imported, degraded".into(),
            Ok(_) => "can be imported".into(),
        };
        let level = |array: &Assembly| {
            layout_of(&array.freshest.header).map_or_else(|_| "unknown".to_owned(), |(level, _)| level.to_string())
        };
        let view = |array: &&Assembly| ForeignArray {
            name: short_name(&array.name).to_owned(),
            host: host(&array.name).map(str::to_owned),
            from_here: host(&array.name) == Some(this_host),
            uuid: Uuid(array.uuid).to_string(),
            level: level(array),
            starts: array.outcome.is_ok(),
            clash: clash(array),
            state: state(array),
            drives: array.drives.iter().map(|drive| drive.name.clone()).collect(),
        };
        let is_firmware = |stranger: &&Stranger| stranger.signature.as_ref().is_some_and(Signature::is_of_firmware_raid);
        let firmware = found.strangers.iter().filter(is_firmware).map(|stranger| {
            let contents = stranger.signature.as_ref().map(ToString::to_string).unwrap_or_default();
            let (carries, remedy) = (ErrorSentence::CarriesFirmwareRaid { contents }, ErrorSentence::FirmwareRaidRemedy {});
            FirmwareMember {
                path: stranger.name.clone(),
                reason: stranger.reason.clone(),
                // The metadata of md may be damaged as well; the text says which.
                reason_said: Some(carries).filter(|said| said.to_string() == stranger.reason),
                remedy: remedy.to_string(),
                remedy_said: Some(remedy),
            }
        });
        Self { arrays: arrays.iter().map(view).collect(), firmware: firmware.collect() }
    }
}
