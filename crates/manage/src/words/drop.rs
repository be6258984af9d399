//! The sentences of the reasons for which members are dropped.

use crate::words::error::{Cause, ErrorSentence, Words};
use crate::words::io::said_beside;
use stria_array::DropCause;
use stria_block::IoError;

/// The sentence of why a drive was dropped, or is gone; `None`: it has text alone.
pub fn said_of(cause: &DropCause, drive: &str) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    let with = |error: &IoError, say: fn(String, Cause<Say>) -> Say| {
        let (reason, cause) = Words::from(error).parts();
        say(reason, cause)
    };
    Some(match cause {
        DropCause::Failed => Say::FailedOnCommand {},
        DropCause::Removed => Say::RemovedOnCommand {},
        DropCause::Replaced => Say::ReplacedByAnother {},
        DropCause::Write(error) => with(error, |reason, cause| Say::WriteFailed { reason, cause }),
        DropCause::Flush(error) => with(error, |reason, cause| Say::FlushFailed { reason, cause }),
        DropCause::Log(error) => with(error, |reason, cause| Say::LogUnwritten { reason, cause }),
        DropCause::Metadata(error) => with(error, |reason, cause| Say::MetadataUnwritten { reason, cause }),
        DropCause::Rewrite(error) => with(error, |reason, cause| Say::RewriteFailed { reason, cause }),
        DropCause::HalfWritten => Say::NoSpaceForRows {},
        DropCause::NoSpace => Say::NoSpaceToSaySo {},
        DropCause::Gone(error) => return said_beside(error, drive),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::io::tests::errors;
    use stria_block::ErrorKind;
    use stria_host::bare_reason;

    /// Programs get the sentence, and logs the engine's own text: both say the same.
    #[test]
    fn a_cause_and_its_sentence_have_the_same_words() {
        let error = || errors("/dev/a").remove(5);
        let causes = [
            DropCause::Failed,
            DropCause::Removed,
            DropCause::Replaced,
            DropCause::Write(error()),
            DropCause::Flush(error()),
            DropCause::Log(error()),
            DropCause::Metadata(error()),
            DropCause::Rewrite(error()),
            DropCause::HalfWritten,
            DropCause::NoSpace,
        ];
        let causes = causes.into_iter().chain(errors("/dev/a").into_iter().map(DropCause::Gone));
        for cause in causes {
            let said = said_of(&cause, "/dev/a").unwrap_or_else(|| panic!("{cause:?} has no sentence"));
            assert_eq!(said.to_string(), bare_reason(&cause, "/dev/a"));
        }
        assert_eq!(said_of(&DropCause::Gone(IoError::new(ErrorKind::Gone, "it rains")), "/dev/a"), None);
    }
}
