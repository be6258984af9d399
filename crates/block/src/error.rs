//! How a request fails: a small kind to match on, a sentence to read.

use std::fmt;

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
    pub context: Box<str>,
}

impl IoError {
    /// An error with its sentence.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into().into_boxed_str() }
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for IoError {}
