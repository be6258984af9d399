//! Carries messages to the channels: each has a thread and a queue of its own, so that a server that hangs delays nothing else.

use crate::channel::Channel;
use crate::{AlarmConfig, AlarmError, Message};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most messages that wait for one channel. Further ones are dropped and counted.
const QUEUE_MAX: usize = 256;
/// The pauses before a message is tried again.
const TRY_AGAIN_AFTER: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120)];
/// The time that unsent messages get when the process ends.
const LAST_MESSAGES: Duration = Duration::from_secs(5);
/// The pause between two checks whether they are sent.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The result of a test message on one channel.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Outcome {
    /// `program`, `mail`, `webhook`, `console` or `journal`.
    pub channel: String,
    /// The reason why it was not delivered.
    pub error: Option<String>,
}

/// The results of the messages so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The number of causes that last.
    pub standing: usize,
    /// The name of each channel, and its messages that were delivered and that were given up.
    pub channels: Vec<(&'static str, u64, u64)>,
}

struct Line {
    channel: Arc<Channel>,
    /// `None`: the messenger has ended.
    queue: Mutex<Option<SyncSender<Message>>>,
    delivered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The channels of one process.
pub struct Messenger {
    lines: Vec<Line>,
}

impl Messenger {
    /// Prepares the channels of a configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// When one cannot work as it is configured.
    pub fn start(config: &AlarmConfig) -> Result<Self, AlarmError> {
        Ok(Self { lines: Channel::all(config)?.into_iter().map(Line::start).collect() })
    }

    /// True if there is no channel: alarms are only logged.
    pub fn is_mute(&self) -> bool {
        self.lines.is_empty()
    }

    /// The names of the channels.
    pub fn names(&self) -> Vec<&'static str> {
        self.lines.iter().map(|line| line.channel.name()).collect()
    }

    /// Sends a message on every channel that it is for, without waiting for that.
    pub fn send<S>(&self, message: &Message<S>) {
        let message = message.in_text();
        for line in &self.lines {
            if message.is_for_people() || !line.channel.is_for_people() {
                line.send(&message);
            }
        }
    }

    /// Sends a message on every channel, waits for that, and returns the results.
    pub fn test(&self, message: &Message) -> Vec<Outcome> {
        let send = |line: &Line| {
            let error = line.channel.send(message).err();
            let counter = if error.is_none() { &line.delivered } else { &line.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            Outcome { channel: line.channel.name().into(), error }
        };
        self.lines.iter().map(send).collect()
    }

    /// Takes no further message, and waits some seconds for those that are not sent yet. Threads that still use the messenger
    /// keep it from being dropped at the end of a process, so a process that ends calls this.
    pub fn finish(&self) {
        let end = Instant::now() + LAST_MESSAGES;
        self.lines.iter().for_each(|line| drop(lock(&line.queue).take()));
        for line in &self.lines {
            let Some(thread) = lock(&line.thread).take() else { continue };
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    /// The name of each channel, and its messages that were delivered and that were given up.
    pub fn counts(&self) -> Vec<(&'static str, u64, u64)> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.lines.iter().map(|line| (line.channel.name(), count(&line.delivered), count(&line.failed))).collect()
    }
}

/// Unsent messages get some seconds.
impl Drop for Messenger {
    fn drop(&mut self) {
        self.finish();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    fn start(channel: Channel) -> Self {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let (delivered, failed) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let channel = Arc::new(channel);
        let name = format!("alarm {}", channel.name());
        let thread = std::thread::Builder::new().name(name).spawn({
            let (channel, delivered, failed) = (Arc::clone(&channel), Arc::clone(&delivered), Arc::clone(&failed));
            move || carry(&channel, &messages, &delivered, &failed)
        });
        let thread = thread.expect("a process that starts can start a thread");
        Self { channel, queue: Mutex::new(Some(queue)), delivered, failed, thread: Mutex::new(Some(thread)) }
    }

    fn send(&self, message: &Message) {
        let (name, subject) = (self.channel.name(), message.subject());
        let why = match lock(&self.queue).as_ref().map(|queue| queue.try_send(message.clone())) {
            Some(Ok(())) => return,
            Some(Err(TrySendError::Full(_))) => format!("{QUEUE_MAX} wait already, and this one is dropped"),
            // At every stop of the process the end of each array is such a message. It is no loss.
            Some(Err(TrySendError::Disconnected(_))) | None if !message.is_for_people() => return,
            Some(Err(TrySendError::Disconnected(_))) | None => "this one is dropped, as the process ends".into(),
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        tracing::error!("alarms by {name} are delayed: {why}: {subject}");
    }
}

/// Sends one message after the other, until the queue is closed and empty.
fn carry(channel: &Channel, messages: &Receiver<Message>, delivered: &AtomicU64, failed: &AtomicU64) {
    for message in messages {
        let counter = if deliver(channel, &message) { delivered } else { failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn deliver(channel: &Channel, message: &Message) -> bool {
    let mut pauses = TRY_AGAIN_AFTER.iter();
    loop {
        let Err(error) = channel.send(message) else { return true };
        let (name, subject) = (channel.name(), message.subject());
        match pauses.next().filter(|_| channel.may_try_again()) {
            Some(pause) => {
                tracing::warn!("alarm by {name} was not delivered ({error}); again in {} s: {subject}", pause.as_secs());
                std::thread::sleep(*pause);
            }
            None => {
                tracing::error!("alarm by {name} was not delivered, and is given up ({error}): {subject}");
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Event};

    /// The messenger is shared by threads that do not end, so nothing dropped it at the end of the process.
    #[test]
    fn unsent_messages_are_sent_at_the_end_although_the_messenger_is_still_in_use() {
        let folder = tempfile::tempdir().expect("a folder");
        let (program, output) = (folder.path().join("hook"), folder.path().join("output"));
        stria_testkit::script(&program, &format!("#!/bin/sh\nsleep 0.3\necho $1 >> {}\n", output.display()));
        let config = AlarmConfig { program: Some(program), journal: crate::JournalConfig::Off, ..AlarmConfig::default() };
        let messenger = Arc::new(Messenger::start(&config).expect("a channel"));
        let still_used = Arc::clone(&messenger);
        let cause: Condition =
            Condition { event: Event::Fail, array: "tank".into(), component: None, text: String::new(), said: None };
        (0..2).for_each(|_| messenger.send(&Message::once(cause.clone())));
        messenger.finish();
        assert_eq!(std::fs::read_to_string(&output).expect("they were sent"), "Fail\nFail\n");
        still_used.send(&Message::once(cause));
        assert_eq!(messenger.counts(), [("program", 2, 1)], "none is taken any more");
    }
}
