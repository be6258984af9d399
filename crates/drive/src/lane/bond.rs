//! Lanes that rely on each other end together.

use std::sync::{Arc, Mutex, PoisonError};

/// Binds lanes whose devices ask each other for work: when one breaks off on a panic the others do as well, since what they
/// asked it for would never end. Clones are the same bond.
#[derive(Clone, Default)]
pub struct Bond(Arc<Mutex<Vec<BreakOff>>>);

/// Has one lane break off.
type BreakOff = Box<dyn Fn() + Send>;

impl Bond {
    pub(super) fn join(&self, break_off: impl Fn() + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(break_off));
    }

    /// Every lane breaks off, also the one that says so, which has already.
    pub(super) fn break_off(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|break_off| break_off());
    }
}
