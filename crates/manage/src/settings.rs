//! Settings of an array that users of RAID controllers know: when a write is acknowledged, and what a power cut costs then.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;
use stria_array::WritePolicy;
use stria_format::md::{BitmapChoice, Change, LogChoice};
use stria_terminal::size;

/// The write policy, in the words of RAID controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WriteMode {
    /// Write through: a write is acknowledged when it is durable.
    Through,
    /// Write back where safe: a write is acknowledged when the drives or the write log have it; a flush makes it durable.
    #[default]
    Safe,
    /// Write back always: flushes are not waited for either.
    Back,
}

impl WriteMode {
    /// The policy and its cost, for `status`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Through => "through: a power cut costs no write that was acknowledged",
            Self::Safe => "back where safe: a power cut costs writes that were not flushed, as on a drive with a cache",
            Self::Back => "BACK: A POWER CUT COSTS THE WRITES OF THE LAST SECONDS, FLUSHED OR NOT, and may damage file systems",
        }
    }
}

impl From<WriteMode> for WritePolicy {
    fn from(mode: WriteMode) -> Self {
        match mode {
            WriteMode::Through => Self::Through,
            WriteMode::Safe => Self::Safe,
            WriteMode::Back => Self::Back,
        }
    }
}

impl From<WritePolicy> for WriteMode {
    fn from(policy: WritePolicy) -> Self {
        match policy {
            WritePolicy::Through => Self::Through,
            WritePolicy::Safe => Self::Safe,
            WritePolicy::Back => Self::Back,
        }
    }
}

/// `PUT /v1/arrays/{name}/settings`: what is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SettingsRequest {
    /// When a write is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<WriteMode>,
    /// The drives' own write caches: on or off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_caches: Option<bool>,
    /// Writes are refused, and no byte of a member is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The write-intent bitmap: `none`, `internal`, or `internal:CHUNK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitmap: Option<String>,
    /// The write log: `auto` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Checksums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<bool>,
    /// Disconnect clients where the change needs a pause.
    #[serde(default)]
    pub force: bool,
}

impl fmt::Display for SettingsRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = |on: bool| if on { "on" } else { "off" };
        let write = |mode: WriteMode| match mode {
            WriteMode::Through => "write through",
            WriteMode::Safe => "write back where safe",
            WriteMode::Back => "write back always",
        };
        let all = [
            self.write.map(|mode| write(mode).to_owned()),
            self.drive_caches.map(|on| format!("the drives' write caches {}", switch(on))),
            self.read_only.map(|on| format!("read-only {}", switch(on))),
            self.bitmap.as_ref().map(|choice| format!("write-intent bitmap {choice}")),
            self.log.as_ref().map(|choice| format!("write log {choice}")),
            self.integrity.map(|on| format!("checksums {}", switch(on))),
        ];
        f.write_str(&all.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl SettingsRequest {
    /// True if nothing is to be changed.
    pub fn names_nothing(&self) -> bool {
        *self == Self { force: self.force, ..Self::default() }
    }

    /// True if a setting is among it that the configuration keeps, as the drives do not hold it.
    pub fn is_kept(&self) -> bool {
        self.write.is_some() || self.drive_caches.is_some() || self.read_only.is_some()
    }

    /// The changes of metadata that are asked for.
    ///
    /// # Errors
    /// When one is misspelt.
    pub fn changes(&self) -> Result<Vec<Change>, String> {
        let mut changes = Vec::new();
        if let Some(text) = &self.log {
            changes.push(Change::Log(log(text)?));
        }
        if let Some(text) = &self.bitmap {
            changes.push(Change::Bitmap(bitmap(text)?));
        }
        changes.extend(self.integrity.map(Change::Checksums));
        Ok(changes)
    }
}

/// The option `--bitmap`.
///
/// # Errors
/// The spelling that is known.
pub fn bitmap(text: &str) -> Result<BitmapChoice, String> {
    match text.split_once(':') {
        None if text == "none" => Ok(BitmapChoice::None),
        None if text == "internal" => Ok(BitmapChoice::Internal { chunk_bytes: None }),
        Some(("internal", chunk)) => {
            let bytes = u32::try_from(size::parse(chunk)?).map_err(|_| format!("a bitmap chunk of {chunk} is too large"))?;
            Ok(BitmapChoice::Internal { chunk_bytes: Some(bytes) })
        }
        _ => Err("use none, internal, or internal:CHUNK (internal:64M)".into()),
    }
}

/// The option `--log`.
///
/// # Errors
/// The spelling that is known.
pub fn log(text: &str) -> Result<LogChoice, String> {
    match text {
        "auto" => Ok(LogChoice::Auto),
        "none" => Ok(LogChoice::None),
        _ => Err("use auto or none".into()),
    }
}

/// The options that are on or off.
///
/// # Errors
/// The spelling that is known.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off".into()),
    }
}
