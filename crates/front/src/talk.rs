//! The log of clients, at a bounded rate: a client that connects and leaves a thousand times a second must not fill a disk, nor
//! hide important lines.

use log::Level;
use std::fmt::Arguments;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most lines in a [`WINDOW`]: a boot that connects every array of a large machine is logged in full.
const LINES_MAX: u32 = 200;
const WINDOW: Duration = Duration::from_secs(10);

/// The log of one server's clients.
#[derive(Debug)]
pub(crate) struct Talk(Mutex<State>);

#[derive(Debug)]
struct State {
    since: Instant,
    said: u32,
    left_out: u64,
}

impl Default for Talk {
    fn default() -> Self {
        Self(Mutex::new(State { since: Instant::now(), said: 0, left_out: 0 }))
    }
}

impl Talk {
    pub fn say(&self, level: Level, words: Arguments) {
        let (said, left_out) = self.0.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now());
        if left_out > 0 {
            log::warn!("{left_out} lines on clients were left out: more than {LINES_MAX} in {} s", WINDOW.as_secs());
        }
        if said {
            log::log!(level, "{words}");
        }
    }
}

impl State {
    /// Whether a line may be logged, and how many were left out in the last window.
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if now.duration_since(self.since) >= WINDOW {
            left_out = std::mem::take(&mut self.left_out);
            (self.since, self.said) = (now, 0);
        }
        let admitted = self.said < LINES_MAX;
        if admitted {
            self.said += 1
        } else {
            self.left_out += 1
        }
        (admitted, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let start = Instant::now();
        let mut state = State { since: start, said: 0, left_out: 0 };
        let admitted = (0..10_000).filter(|_| state.admit(start).0).count();
        assert_eq!(admitted, LINES_MAX as usize);
        assert_eq!(state.admit(start + WINDOW), (true, 10_000 - u64::from(LINES_MAX)));
        assert_eq!(state.admit(start + WINDOW), (true, 0));
    }
}
