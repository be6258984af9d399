//! How a request fails: a small kind to match on, a sentence to read.

use crate::trouble::{Trouble, TroubleKind};
use std::fmt;
use std::ops::Deref;

/// The kind of failure, as finely as callers distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// These sectors cannot be read; the device works otherwise.
    Medium,
    /// The device is gone or refuses everything, for good: every later request ends with this too.
    Gone,
    /// No space under a thin or file-backed device.
    NoSpace,
    /// The device cannot do this operation; nothing was done.
    Unsupported,
    /// The request lies outside the device or is not aligned to its blocks; nothing was done.
    Invalid,
    /// An array has lost more members than it survives, or its data cannot be reconstructed.
    Failed,
    /// Anything else the system reports.
    Other,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What callers match on.
    pub kind: ErrorKind,
    /// What a person reads: the thing and the cause. Boxed, because failure is rare and results are moved often.
    pub context: Box<Context>,
}

/// The words of an error, and what they say in values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    words: String,
    /// What befell a drive; `None`: it has words alone.
    pub trouble: Option<Trouble>,
}

impl Deref for Context {
    type Target = str;
    fn deref(&self) -> &str {
        &self.words
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl IoError {
    /// An error with its sentence.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: Box::new(Context { words: context.into(), trouble: None }) }
    }

    /// The error of a drive.
    pub fn of_drive(kind: ErrorKind, drive: impl fmt::Display, what: TroubleKind) -> Self {
        Trouble { drive: drive.to_string(), kind: what }.error(kind)
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for IoError {}

impl Trouble {
    /// The error with which a request to the drive ends.
    pub fn error(self, kind: ErrorKind) -> IoError {
        IoError { kind, context: Box::new(Context { words: self.to_string(), trouble: Some(self) }) }
    }
}
