//! The sentences of why the drives that were named do not do.

use crate::words::error::{Cause, ErrorSentence};
use stria_host::Denial;

/// The sentence of a denial.
pub fn said_of(denial: &Denial) -> ErrorSentence {
    use ErrorSentence as Say;
    match denial.clone() {
        Denial::SameDrive { drive, other } => Say::SameDrive { drive, other },
        Denial::PartitionOf { part, whole } => Say::PartitionOf { drive: part, other: whole },
        Denial::AnotherThanSeen { drive } => Say::AnotherDriveThanSeen { drive },
        Denial::NoMemberAnyMore { drive } => Say::NoMemberAnyMore { drive },
        Denial::StillCarries { drive, left } => Say::StillCarries { drive, contents: left },
        Denial::NothingWritten(why) => {
            Say::NothingWritten { reason: why.to_string(), cause: Cause(Some(Box::new(said_of(&why)))) }
        }
        Denial::SpanGone { span } => Say::SpanGone { span },
        Denial::SpanUnwritable { span, reason } => Say::SpanUnwritable { span, reason },
        Denial::SpansHoldAnother => Say::SpansHoldAnother {},
        Denial::CannotBeChanged { array, reason } => Say::CannotBeChanged { array, reason },
        Denial::SpareOfAnotherSpan { spare, other, old, span } => Say::SpareOfAnotherSpan { drive: spare, other, old, span },
        Denial::NoArray => Say::NoArrayOnDrives {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs get the sentence, and terminals the text of the crate that refuses: both say the same.
    #[test]
    fn a_denial_and_its_sentence_have_the_same_words() {
        let (drive, other, name) = (|| "/dev/a".to_owned(), || "/dev/b".to_owned(), || "tank".to_owned());
        let left = Denial::StillCarries { drive: drive(), left: "a GPT at sector 8".into() };
        let denials = [
            Denial::SameDrive { drive: drive(), other: other() },
            Denial::PartitionOf { part: drive(), whole: other() },
            Denial::AnotherThanSeen { drive: drive() },
            Denial::NoMemberAnyMore { drive: drive() },
            left.clone(),
            Denial::NothingWritten(left.into()),
            Denial::SpanGone { span: "1:2:3:4".into() },
            Denial::SpanUnwritable { span: name(), reason: "it rains".into() },
            Denial::SpansHoldAnother,
            Denial::CannotBeChanged { array: name(), reason: "it rains".into() },
            Denial::SpareOfAnotherSpan { spare: drive(), other: "tank-span1".into(), old: other(), span: name() },
            Denial::NoArray,
        ];
        for denial in denials {
            assert_eq!(said_of(&denial).to_string(), denial.to_string());
        }
    }
}
