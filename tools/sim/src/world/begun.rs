//! A command that is begun and not waited for.

use stria_array::{CommandId, MemberId};
use stria_block::Nanos;

/// A command that is not answered yet.
pub struct Begun {
    /// The leaf that it was given to.
    pub leaf: usize,
    pub id: CommandId,
    pub since: Nanos,
    /// The member that it fails.
    pub fails: Option<MemberId>,
    /// No other log has a write-behind that this member's log has.
    pub is_relied_on: bool,
}
