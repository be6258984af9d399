//! Short lists, which live on the stack.

use smallvec::{Array, SmallVec};

/// A list of a few items. Every request needs some, and this is quicker than `collect`.
pub(crate) fn few<A: Array>(items: impl IntoIterator<Item = A::Item>) -> SmallVec<A> {
    let mut list = SmallVec::new();
    for item in items {
        list.push(item);
    }
    list
}
