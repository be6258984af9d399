//! What to know of an array that was opened.

use std::fmt;
use stria_format::md::assemble::StartWarning;

/// A warning about an array that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenWarning {
    /// What was accepted for its start.
    Start(StartWarning),
    /// Anything else, in words.
    Told(String),
}

impl fmt::Display for OpenWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(warning) => warning.fmt(f),
            Self::Told(text) => f.write_str(text),
        }
    }
}

impl From<String> for OpenWarning {
    fn from(text: String) -> Self {
        Self::Told(text)
    }
}
