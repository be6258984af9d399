//! Values of the sentences of plans, which other sentences have as well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use stria_terminal::size;

/// A size in bytes, in a text with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&size::show(self.0))
    }
}

/// `an SSD`, `a hard disk`, `an image file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// An SSD.
    Ssd,
    /// A hard disk.
    Hdd,
    /// An image file.
    File,
}

impl DriveKind {
    /// The kind that `GET /drives` names so.
    pub fn of(kind: &str) -> Self {
        match kind {
            "hdd" => Self::Hdd,
            "file" => Self::File,
            _ => Self::Ssd,
        }
    }
}

impl fmt::Display for DriveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssd => "an SSD",
            Self::Hdd => "a hard disk",
            Self::File => "an image file",
        })
    }
}

/// Further failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Failures(pub usize);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 1 { f.write_str("1 more failure") } else { write!(f, "{} more failures", self.0) }
    }
}

/// Slots of an array, in a text with "and" between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Slots(pub Vec<usize>);

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(usize::to_string).collect::<Vec<_>>().join(" and "))
    }
}
