//! The number of an entry, which its completion carries too. It identifies the thing that has completed.

/// The eventfd that wakes the thread.
const WAKE: u64 = 0;
/// The watch of the side that is not polled.
const SIDE: u64 = 1;
/// The cancellation of an alarm or a watch.
const CANCELLED: u64 = 2;
const ALARM: u64 = 3;
const WATCH: u64 = 4;
const SLOT: u64 = 5;
/// The kind is in the bits from here up, the index in those below.
const KIND_SHIFT: u32 = 32;

/// The origin of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Wake,
    Side,
    Cancelled,
    /// An alarm, by index.
    Alarm(usize),
    /// A watched socket, by index.
    Watch(usize),
    /// A job, by its slot.
    Slot(usize),
}

impl Entry {
    /// The number for the kernel. Indices are below 2^32.
    pub fn number(self) -> u64 {
        let (kind, index) = match self {
            Self::Wake => (WAKE, 0),
            Self::Side => (SIDE, 0),
            Self::Cancelled => (CANCELLED, 0),
            Self::Alarm(index) => (ALARM, index),
            Self::Watch(index) => (WATCH, index),
            Self::Slot(index) => (SLOT, index),
        };
        kind << KIND_SHIFT | index as u64
    }

    /// The entry that has this number.
    ///
    /// # Panics
    /// No entry has this number; the kernel returns the numbers that it was given.
    pub fn of(number: u64) -> Self {
        let index = number as u32 as usize;
        match number >> KIND_SHIFT {
            SLOT => Self::Slot(index),
            WATCH => Self::Watch(index),
            ALARM => Self::Alarm(index),
            WAKE => Self::Wake,
            SIDE => Self::Side,
            CANCELLED => Self::Cancelled,
            kind => unreachable!("no entry is of kind {kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Entry::*;

    #[test]
    fn numbers_lead_back_to_entries() {
        let last = u32::MAX as usize;
        for entry in [Wake, Side, Cancelled, Alarm(0), Alarm(7), Watch(0), Watch(last), Slot(0), Slot(last)] {
            assert_eq!(super::Entry::of(entry.number()), entry);
        }
    }
}
