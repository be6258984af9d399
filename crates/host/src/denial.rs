//! Why the drives that were named are not written, read or changed: as values, with the words beside them.

/// What this crate refuses itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Two names lead to one drive.
    #[error("{drive} and {other} are the same drive: name it once")]
    SameDrive {
        /// One name.
        drive: String,
        /// The other.
        other: String,
    },
    /// A disk and its partition were named.
    #[error("{part} is a partition of {whole}: name one of them")]
    PartitionOf {
        /// The partition.
        part: String,
        /// The disk.
        whole: String,
    },
    /// It changed since it was looked at.
    #[error(
        "{drive} is another drive, or carries something else, than what was confirmed: nothing was done; repeat the command to see \
         what it carries now"
    )]
    AnotherThanSeen {
        /// The drive.
        drive: String,
    },
    /// It left its array since it was looked at.
    #[error(
        "{drive} carries no member of the array that was confirmed: nothing was done; repeat the command to see what it carries now"
    )]
    NoMemberAnyMore {
        /// The drive.
        drive: String,
    },
    /// Signatures could not be erased.
    #[error("{drive} carries {left}: replace the drive, or let it erase all of its data (`stria wipe --help`)")]
    StillCarries {
        /// The drive.
        drive: String,
        /// The signatures, in words.
        left: String,
    },
    /// The same, seen before anything was written.
    #[error("nothing was written: {0}")]
    NothingWritten(Box<Denial>),
    /// A span is not where it was.
    #[error("span {span} is no longer on its drives: see `stria examine`")]
    SpanGone {
        /// Its identity.
        span: String,
    },
    /// A span cannot be written through.
    #[error("span \"{span}\" cannot be written: {reason}")]
    SpanUnwritable {
        /// Its name.
        span: String,
        /// Why, in words.
        reason: String,
    },
    /// Spans hold an array that was not meant.
    #[error("there is another array on its spans")]
    SpansHoldAnother,
    /// The metadata of an array do not take a change.
    #[error("array \"{array}\" cannot be changed: {reason}")]
    CannotBeChanged {
        /// Its name.
        array: String,
        /// Why, in words.
        reason: String,
    },
    /// A spare of one span was to replace a member of another.
    #[error("{spare} is a spare of \"{other}\", and {old} a member of \"{span}\": replace it by another drive")]
    SpareOfAnotherSpan {
        /// The spare.
        spare: String,
        /// Its span.
        other: String,
        /// The member.
        old: String,
        /// The member's span.
        span: String,
    },
    /// The drives carry no array.
    #[error("no array lies on these drives: see `stria examine`")]
    NoArray,
}

impl Denial {
    /// True if the request is invalid, whatever the drives carry.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::SameDrive { .. } | Self::PartitionOf { .. } => true,
            Self::AnotherThanSeen { .. }
            | Self::NoMemberAnyMore { .. }
            | Self::StillCarries { .. }
            | Self::NothingWritten(_)
            | Self::SpanGone { .. }
            | Self::SpanUnwritable { .. }
            | Self::SpansHoldAnother
            | Self::CannotBeChanged { .. }
            | Self::SpareOfAnotherSpan { .. }
            | Self::NoArray => false,
        }
    }
}
