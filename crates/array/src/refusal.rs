//! Why a command was refused. Nothing was changed by it, but where a variant says so.

use crate::status::percent;
use crate::{Level, MemberId, SweepKind, SweepStatus};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use stria_block::{IoError, show_size};

/// Why a command was refused. A member stands here by the name that it was opened with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No scrub begins beside another sweep.
    #[error("scrub refused: {running} runs ({percent} %); it may start when that ends")]
    ScrubWhile {
        /// The sweep.
        running: SweepKind,
        /// How far it is.
        percent: u64,
    },
    /// No scrub begins while sweeps are paused.
    #[error("scrub refused: sweeps are paused; resume them first")]
    ScrubWhilePaused,
    /// The array has failed.
    #[error("scrub refused: the array has failed; serve it with enough members first")]
    ScrubOfFailed,
    /// The level has no redundancy.
    #[error("scrub refused: RAID level {0} has no redundancy, so there is nothing to compare")]
    ScrubWithoutRedundancy(Level),
    /// The array is read-only, and was not stopped cleanly.
    #[error(
        "scrub refused: redundancy is not yet in step after a crash, and a read-only array cannot correct that; serve it without \
         --read-only first"
    )]
    ScrubBeforeResync,
    /// A repair writes.
    #[error("repair refused: the array is read-only; scrub without --repair, or serve it without --read-only")]
    RepairOfReadOnly,
    /// Members of a read-only array do not change, since that writes superblocks.
    #[error("the array is read-only, and this would write to its members: serve it without --read-only")]
    ReadOnly,
    /// There is no such member.
    #[error("the array has no member {}: `status` shows the members", .0.0)]
    NoMember(MemberId),
    /// The member has failed.
    #[error("{0} has failed already; `stria remove` takes it off the list")]
    FailedAlready(String),
    /// The array cannot do without the member.
    #[error("{0} cannot be failed: the array has no redundancy left to replace it; add a member and let it rebuild first")]
    NoRedundancyLeft(String),
    /// No member fails by command before replay has ended (R82).
    #[error("{0} cannot be failed yet: the array has just started, and still replays its write log; fail it again in a moment")]
    FailsNotYet(String),
    /// The member was failed, and the superblocks do not say so yet (R92).
    #[error(
        "{0} has failed, but the other members do not say so yet, as another does not answer: leave the drive connected until \
         `status` shows no member that is unresponsive"
    )]
    FailedAndNotDurable(String),
    /// Only failed members and spares are removed.
    #[error("{0} is in use: `fail` it first, or `replace` it to keep redundancy meanwhile")]
    InUse(String),
    /// Only members that are in sync are replaced.
    #[error("{0} cannot be replaced: it is not an in-sync member; its slot is rebuilt instead")]
    NotReplaceable(String),
    /// The member has a replacement.
    #[error("{0} is being replaced already")]
    ReplacedAlready(String),
    /// Only a spare replaces a member.
    #[error("{0} is not a spare: `add` one first")]
    NoSpare(String),
    /// An array that stops takes no command but to fail a member.
    #[error("the array is being stopped: give the command after its next start")]
    Stops,
    /// Replay has not ended within the time for which a command waits.
    #[error("the array still replays its write log: try again when `status` no longer says so")]
    Replays,
    /// The array has not started, or superblocks do not name a dropped member yet (R11, R31).
    #[error("the array is still starting, or a failure of a member is not on disk yet; repeat the command in a moment")]
    DropsNotDurable,
    /// The level cannot rebuild.
    #[error("RAID level {0} has no use for a spare: it cannot rebuild")]
    NoUseForSpare(Level),
    /// The drive has too little space for data.
    #[error("{name} is {} too small: {} are needed for data; use a larger drive", show_size(*.missing_bytes), show_size(*.needed_bytes))]
    TooSmall {
        /// The drive.
        name: String,
        /// The bytes that it lacks.
        missing_bytes: u64,
        /// The bytes that a member needs.
        needed_bytes: u64,
    },
    /// The drive has larger blocks than clients were told.
    #[error(
        "{name} has blocks of {block_bytes} bytes, and the array serves blocks of {array_bytes}: use a drive with blocks as small"
    )]
    BlocksTooLarge {
        /// The drive.
        name: String,
        /// The size of its blocks.
        block_bytes: u32,
        /// The size of the array's blocks.
        array_bytes: u32,
    },
    /// Another drive has the slot to which this one was to return.
    #[error("slot {0} was given to another drive meanwhile; `add` this one again, and it becomes a spare")]
    SlotTaken(usize),
    /// The format does not admit the drive.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// The array did not stop cleanly: the error of a member. The members are as after a power cut.
    #[error("{0}")]
    StopFailed(IoError),
}

/// Why a format does not admit a drive: a value of the format, which the engine hands on.
#[derive(Clone, Debug)]
pub struct NotAdmitted(Arc<dyn Error + Send + Sync>);

impl NotAdmitted {
    /// From the format's value.
    pub fn new(reason: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(reason))
    }

    /// The format's value, if it is of this type.
    pub fn reason<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NotAdmitted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Values of one meaning have the same words.
impl PartialEq for NotAdmitted {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for NotAdmitted {}

/// The format takes no new members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this format takes no new members")]
pub struct NoNewMembers;

impl Refusal {
    /// The refusal of a scrub beside a sweep that runs.
    pub fn scrub_beside(sweep: &SweepStatus) -> Self {
        Self::ScrubWhile { running: sweep.kind, percent: percent(sweep.done_sectors, sweep.total_sectors) }
    }
}
