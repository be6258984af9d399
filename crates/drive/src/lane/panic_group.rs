//! Lanes that depend on each other end together.

use std::sync::{Arc, Mutex, PoisonError};

/// Lanes whose devices send each other requests: when one breaks off after a panic, the others do as well, since its answers
/// would never come. Clones are the same group.
#[derive(Clone, Default)]
pub struct PanicGroup(Arc<Mutex<Vec<BreakOff>>>);

/// Ends one lane.
type BreakOff = Box<dyn Fn() + Send>;

impl PanicGroup {
    pub(super) fn join(&self, break_off: impl Fn() + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(break_off));
    }

    /// Ends every lane. The caller's lane has ended already.
    pub(super) fn break_off(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|break_off| break_off());
    }
}
