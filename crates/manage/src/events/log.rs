//! Recent events, stored for a while and sent to listeners. Every event is also a log line.

use crate::api::EventView;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stria_block::shown_field;
use tokio::sync::broadcast;

/// 4096 events of about 200 bytes: days of a healthy array, and less than a MiB.
const KEPT_COUNT_MAX: usize = 4096;

/// The events of one service.
pub struct EventLog {
    kept: Mutex<Kept>,
    live: broadcast::Sender<EventView>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<EventView>,
    sequence: u64,
}

impl Default for EventLog {
    fn default() -> Self {
        Self { kept: Mutex::default(), live: broadcast::channel(256).0 }
    }
}

impl EventLog {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, and gives it its sequence number.
    pub fn push(&self, mut event: EventView) {
        let EventView { array, kind, text, .. } = &event;
        let array = shown_field(array);
        match kind.as_str() {
            "member_failed" | "member_gone" | "no_room" | "member_silent" | "sweep_stopped" | "read_corrected"
            | "wrong_bytes" | "bad_blocks" | "unreadable" | "lane_silent" | "mismatch" | "warning" | "alarm" => {
                tracing::warn!(%array, %kind, "{text}");
            }
            _ => tracing::info!(%array, %kind, "{text}"),
        }
        let mut kept = self.lock();
        kept.sequence += 1;
        event.sequence = kept.sequence;
        if kept.events.len() == KEPT_COUNT_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Fails if there is no listener. Sent under the lock, so that listeners see the order stored here.
        let _ = self.live.send(event);
    }

    /// The sequence number of the last event; 0 before the first.
    pub fn sequence(&self) -> u64 {
        self.lock().sequence
    }

    /// The events after `sequence`, as far as they are stored.
    pub fn since(&self, sequence: u64) -> Vec<EventView> {
        self.lock().events.iter().filter(|event| event.sequence > sequence).cloned().collect()
    }

    /// The stored events after `sequence`, and a receiver of all later ones.
    pub fn listen(&self, sequence: u64) -> (VecDeque<EventView>, broadcast::Receiver<EventView>) {
        let kept = self.lock();
        let before = kept.events.iter().filter(|event| event.sequence > sequence).cloned().collect();
        (before, self.live.subscribe())
    }
}
