//! The sentences of the host's errors.

use crate::words::error::{ErrorSentence, Words};
use crate::words::{denial, drive, io};
use std::path::Path;
use stria_drive::DriveError;
use stria_host::HostError;

impl From<HostError> for Words {
    fn from(error: HostError) -> Self {
        let error = match error {
            HostError::Engine(refusal) => return refusal.into(),
            HostError::ErasedInPart { error, erased, left } => {
                let (words, (reason, cause)) = (HostError::words_of(&left), Self::from(*error).parts());
                let (erased, others) = (erased.join(", "), left.join(", "));
                return ErrorSentence::ErasedInPart { reason, cause, erased, others, words }.into();
            }
            HostError::Join(refused) => return (&*refused).into(),
            HostError::Start { error, more, .. } => return (&*error, &*more).into(),
            error => error,
        };
        let text = error.to_string();
        let shown = |path: &Path| path.display().to_string();
        let said = match &error {
            HostError::Drive(DriveError::Missing { path }) => Some(ErrorSentence::DriveMissing { drive: shown(path) }),
            HostError::Drive(DriveError::Busy { path, holder, ends }) => {
                let (drive, user) = (shown(path), holder.clone());
                Some(if *ends {
                    ErrorSentence::DriveHeldByDead { drive, user }
                } else {
                    ErrorSentence::DriveHeld { drive, user }
                })
            }
            HostError::Drive(DriveError::Unfit { path, reason }) => {
                let cause = drive::of_unfit(reason).into();
                Some(ErrorSentence::DriveUnfit { drive: shown(path), reason: reason.to_string(), cause })
            }
            HostError::Io(error) => io::said_of(error),
            HostError::Denied(denial) => Some(denial::said_of(denial)),
            HostError::Create(error) => Some(error.into()),
            _ => None,
        };
        // A program shows the sentence in place of the text, so a sentence that differs from the text is left out.
        Self { said: said.filter(|said| said.to_string() == text), text }
    }
}
