//! How long requests and commands wait, and how long they may (R16).

use stria_block::Nanos;

/// The longest time that a request or a command takes while no member in use hangs.
const ANSWER_MAX: Nanos = 10_000_000_000;

/// The waiting of a history.
#[derive(Default)]
pub struct Waits {
    /// The last time at which a drive in use hung.
    hung_at: Nanos,
    /// The time that the last command took.
    answer_took: Nanos,
}

impl Waits {
    /// A drive in use hangs.
    pub fn note_hang(&mut self, now: Nanos) {
        self.hung_at = now;
    }

    /// A command has waited for so long.
    pub fn note_answer(&mut self, took: Nanos) {
        self.answer_took = took;
    }

    /// The seconds that the last command took, if they are too many.
    pub fn late_answer_s(&self) -> Option<u64> {
        too_many(self.answer_took)
    }

    /// The seconds since a request began at `since` and no drive hung, if they are too many.
    pub fn late_s(&self, since: Nanos, now: Nanos) -> Option<u64> {
        too_many(now - since.max(self.hung_at))
    }
}

fn too_many(waited: Nanos) -> Option<u64> {
    (waited > ANSWER_MAX).then_some(waited / 1_000_000_000)
}
