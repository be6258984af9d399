//! The sentences of the reasons for which members are dropped.

use crate::error_words::{Cause, ErrorSentence, Words, read};
use stria_array::DropCause;
use stria_block::IoError;
use stria_host::bare_reason;

/// The sentence of why a drive was dropped, or is gone; `None`: it has text alone. What a drive says has no type: it is read.
pub fn said_of(cause: &DropCause, drive: &str) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    let with = |error: &IoError, say: fn(String, Cause<Say>) -> Say| {
        let (reason, cause) = Words::told(error.to_string()).parts();
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
        DropCause::Gone(_) => return read(&bare_reason(cause, drive)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::ErrorKind;

    /// Programs get the sentence, and logs the engine's own text: both say the same.
    #[test]
    fn a_cause_and_its_sentence_have_the_same_words() {
        let error = || {
            IoError::new(ErrorKind::Other, "member /dev/a: write of 4 KiB at sector 8 failed: Input/output error (os error 5)")
        };
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
            DropCause::Gone("member /dev/a: it was cut short while in use, from 4096 to 0 bytes".into()),
        ];
        for cause in causes {
            let said = said_of(&cause, "/dev/a").unwrap_or_else(|| panic!("{cause:?} has no sentence"));
            assert_eq!(said.to_string(), bare_reason(&cause, "/dev/a"));
        }
        assert_eq!(said_of(&DropCause::Gone("it rains".into()), "/dev/a"), None);
    }
}
