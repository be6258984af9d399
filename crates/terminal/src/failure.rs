//! How a command ends when it does not succeed: one sentence and an exit code.

/// The reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It failed, or is impossible: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The arguments are invalid: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Refused, because data might be lost; the sentence names the option that overrides the refusal: exit code 4.
    #[error("{0}")]
    Unsafe(String),
}

impl Failure {
    /// The program's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unsafe(_) => 4,
        }
    }

    /// A failure with this sentence.
    pub fn failed(sentence: impl std::fmt::Display) -> Self {
        Self::Failed(sentence.to_string())
    }
}

#[cfg(feature = "host")]
impl From<stria_host::HostError> for Failure {
    fn from(error: stria_host::HostError) -> Self {
        (&error).into()
    }
}

#[cfg(feature = "host")]
impl From<&stria_host::HostError> for Failure {
    fn from(error: &stria_host::HostError) -> Self {
        use stria_host::HostError;
        match error {
            HostError::Unsafe(sentence) => Self::Unsafe(sentence.clone()),
            HostError::Usage(sentence) => Self::Usage(sentence.clone()),
            HostError::Start { is_unsafe: true, .. } => Self::Unsafe(error.to_string()),
            HostError::Denied(denial) if denial.is_usage() => Self::Usage(error.to_string()),
            HostError::Create(impossible) if impossible.is_usage() => Self::Usage(error.to_string()),
            HostError::Join(refused) if refused.is_unsafe() => Self::Unsafe(error.to_string()),
            HostError::Drive(_)
            | HostError::Io(_)
            | HostError::Lane(_)
            | HostError::Refused(_)
            | HostError::Start { .. }
            | HostError::Engine(_)
            | HostError::Denied(_)
            | HostError::ErasedInPart { .. }
            | HostError::Create(_)
            | HostError::Join(_)
            | HostError::Silent { .. } => Self::failed(error),
        }
    }
}
