//! State and events as a stream of Server-Sent Events.
//!
//! One task looks at the arrays once a second while anybody listens, and all listeners get what it saw. Events have an id
//! `BOOT.SEQUENCE`; a browser that lost the connection sends the last one it had, and gets what it missed.

use super::auth::{Caller, Peer, Shown};
use super::parts::Rest;
use super::reading::Held;
use crate::api::EventView;
use crate::system::clock::now_ms;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The pause between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// How often new events are looked for.
const GLANCE_EVERY: Duration = Duration::from_millis(200);
/// Events that are sent to a listener that is new or was away.
const MISSED_MAX: usize = 1000;
/// Events that wait for a listener at a time: the log has the others.
const QUEUED_MAX: usize = 100;
/// The memory of these, each of some 400 bytes.
const QUEUED_BYTES: usize = 40 << 10;

/// The last look, as it is sent.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Counts changes.
    version: u64,
    /// The state without its time, to tell a change.
    content: String,
    /// The state as JSON.
    text: String,
}

/// Looks once a second while anybody listens, until the daemon ends.
pub async fn look(rest: Arc<Rest>, seen: watch::Sender<Seen>) {
    let mut over = rest.machine.service.shutdown().subscribe();
    loop {
        let due = Instant::now() + EVERY;
        if seen.receiver_count() > 0 {
            let asked = Arc::clone(&rest);
            let state = tokio::task::spawn_blocking(move || asked.state()).await.ok();
            // While nothing can be seen, no beat is sent: the page says since when it has no answer.
            if let Some(mut state) = state {
                let text = serde_json::to_string(&state).expect("a state is plain data");
                state.time_ms = 0;
                let content = serde_json::to_string(&state).expect("a state is plain data");
                seen.send_modify(|seen| {
                    if seen.content != content {
                        seen.version += 1;
                    }
                    (seen.content, seen.text) = (content, text);
                });
            }
        }
        tokio::select! {
            () = sleep_until(due) => {}
            _ = over.wait_for(|over| *over) => return,
        }
    }
}

/// The server's side of a stream.
pub struct Feed {
    /// The looks.
    pub seen: watch::Receiver<Seen>,
    /// The threads on which callers are looked up.
    pub callers: Handle,
    /// Its part of the memory of answers.
    pub held: Held,
}

/// The memory of a listener: a state that is being sent, the next one, and events.
pub fn memory_of(state: &str) -> usize {
    2 * state.len() + QUEUED_BYTES
}

/// A listener.
struct Listener {
    rest: Arc<Rest>,
    peer: Peer,
    shown: Shown,
    caller: Caller,
    seen: watch::Receiver<Seen>,
    over: watch::Receiver<bool>,
    /// What is to be sent next.
    queue: VecDeque<Event>,
    /// The last event of the log that was sent.
    sequence: u64,
    /// The last state that was sent.
    version: u64,
    /// The threads on which callers are looked up.
    callers: Handle,
    _held: Held,
}

/// The answer to `GET /api/v1/stream`. `state`: that of now as JSON, which comes first. `last`: the last event that the listener
/// had.
pub fn answer(
    rest: Arc<Rest>,
    peer: Peer,
    shown: Shown,
    caller: Caller,
    Feed { seen, callers, held }: Feed,
    state: &str,
    last: Option<&str>,
) -> Response {
    let state = Event::default().event("state").data(state);
    let mut queue = VecDeque::from([state]);
    let log = rest.machine.service.events();
    let newest = log.sequence();
    let reset = || Event::default().event("reset").data(json!({"boot": rest.boot}).to_string());
    let sequence = match last.map(|last| last.split_once('.')) {
        None => newest,
        Some(Some((boot, sequence))) if boot == rest.boot => {
            let sequence = sequence.parse().unwrap_or(newest).min(newest);
            let kept = log.since(sequence);
            let is_whole = kept.first().map_or(sequence == newest, |first| first.sequence == sequence + 1);
            if is_whole && kept.len() <= MISSED_MAX {
                sequence
            } else {
                queue.push_back(reset());
                newest
            }
        }
        // Another run of the daemon.
        Some(_) => {
            queue.push_back(reset());
            newest
        }
    };
    let over = rest.machine.service.shutdown().subscribe();
    let listener = Listener { rest, peer, shown, caller, seen, over, queue, sequence, version: 0, callers, _held: held };
    Sse::new(stream(listener)).into_response()
}

fn stream(listener: Listener) -> impl Stream<Item = Result<Event, Infallible>> {
    unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    })
}

impl Listener {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            self.events();
            if !self.queue.is_empty() {
                continue;
            }
            let news = tokio::select! {
                changed = self.seen.changed() => changed.is_ok().then_some(true),
                () = tokio::time::sleep(GLANCE_EVERY) => Some(false),
                _ = self.over.wait_for(|over| *over) => None,
            };
            if news? {
                // A session may have ended, a token been removed.
                let (rest, peer) = (Arc::clone(&self.rest), self.peer.clone());
                let (shown, caller) = (self.shown.clone(), self.caller.clone());
                let knows = self.callers.spawn_blocking(move || rest.guard.still_knows(&peer, &shown, &caller)).await;
                if !knows.unwrap_or(false) {
                    return None;
                }
                self.state();
            }
        }
    }

    /// Queues the first events since the last one.
    fn events(&mut self) {
        let log = self.rest.machine.service.events();
        if log.sequence() == self.sequence {
            return;
        }
        let events = log.since(self.sequence);
        if events.first().is_some_and(|first| first.sequence != self.sequence + 1) {
            self.queue.push_back(Event::default().event("reset").data(json!({"boot": self.rest.boot}).to_string()));
        }
        for event in events.into_iter().take(QUEUED_MAX) {
            let EventView { sequence, .. } = event;
            self.sequence = sequence;
            let id = format!("{}.{sequence}", self.rest.boot);
            self.queue.push_back(Event::default().event("event").id(id).json_data(&event).expect("events are plain data"));
        }
    }

    /// Queues the state, or that nothing has changed.
    fn state(&mut self) {
        let seen = self.seen.borrow_and_update();
        if seen.version == 0 {
            return;
        }
        let event = if seen.version == self.version {
            Event::default().event("beat").data(json!({"time_ms": now_ms()}).to_string())
        } else {
            Event::default().event("state").data(&seen.text)
        };
        self.version = seen.version;
        self.queue.push_back(event);
    }
}
