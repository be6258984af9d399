//! Carries messages to the channels: each has a thread and a queue of its own, so that a server that hangs delays nothing else.

use crate::channel::Channel;
use crate::{AlarmConfig, AlarmError, Message};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most messages that wait for one channel. Further ones are dropped and counted.
const QUEUE_MAX: usize = 256;
/// The pauses before messages are tried again; the last one counts from then on.
const TRY_AGAIN_AFTER: [Duration; 5] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120), Duration::from_secs(600)];
/// A message that was not delivered for so long is given up: a cause that lasts has another one by then.
const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
/// So many messages that fail one after the other show that the channel takes none at present.
const FAIL_TOGETHER: usize = 2;
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
    /// Those of them that a person has acknowledged.
    pub acknowledged: usize,
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
    let pauses: &[Duration] = if channel.may_try_again() { &TRY_AGAIN_AFTER } else { &[] };
    let mut unsent = Unsent { name: channel.name(), messages: VecDeque::new(), failures: 0, delivered, failed };
    unsent.carry(messages, pauses, |message| channel.send(message));
}

/// The messages of a channel that it has not taken yet, in their order.
struct Unsent<'a> {
    name: &'static str,
    /// Each with the time of its first try.
    messages: VecDeque<(Message, Instant)>,
    /// How often no message was taken since one was.
    failures: usize,
    delivered: &'a AtomicU64,
    failed: &'a AtomicU64,
}

impl Unsent<'_> {
    /// `pauses`: those before messages are tried again; none: each is tried once. A queue that is closed has no last pause: the
    /// process ends, or another messenger has taken over.
    fn carry(&mut self, queue: &Receiver<Message>, pauses: &[Duration], send: impl Fn(&Message) -> Result<(), String>) {
        loop {
            let pause = self.failures.checked_sub(1).map(|index| pauses[index.min(pauses.len() - 1)]);
            let received = match pause {
                None => queue.recv().map_err(RecvTimeoutError::from),
                Some(pause) => queue.recv_timeout(pause),
            };
            match (received, pause) {
                (Ok(message), _) => self.messages.push_back((message, Instant::now())),
                (Err(RecvTimeoutError::Disconnected), Some(pause)) if self.failures < pauses.len() => std::thread::sleep(pause),
                (Err(RecvTimeoutError::Disconnected), _) => break,
                (Err(RecvTimeoutError::Timeout), _) => {}
            }
            self.messages.extend(queue.try_iter().map(|message| (message, Instant::now())));
            self.try_all(pauses, &send);
        }
        self.messages.drain(..).for_each(|(message, _)| give_up(self.name, self.failed, &message, "the process ends"));
    }

    /// Tries the messages in their order, up to those that fail together. One that fails again although a later one was taken is
    /// refused for itself.
    fn try_all(&mut self, pauses: &[Duration], send: impl Fn(&Message) -> Result<(), String>) {
        let mut refused: Vec<(Message, Instant, String)> = Vec::new();
        while let Some((message, since)) = self.messages.pop_front() {
            match send(&message) {
                Ok(()) => {
                    self.delivered.fetch_add(1, Ordering::Relaxed);
                    self.failures = 0;
                    for (message, ..) in refused.drain(..) {
                        match send(&message) {
                            Ok(()) => drop(self.delivered.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => give_up(self.name, self.failed, &message, &error),
                        }
                    }
                }
                Err(error) if pauses.is_empty() || since.elapsed() >= GIVE_UP_AFTER => {
                    give_up(self.name, self.failed, &message, &error);
                }
                Err(error) => refused.push((message, since, error)),
            }
            if refused.len() >= FAIL_TOGETHER {
                break;
            }
        }
        self.failures = if refused.is_empty() { 0 } else { self.failures + 1 };
        for (message, since, error) in refused.into_iter().rev() {
            let (name, subject, pause) = (self.name, message.subject(), pauses[(self.failures - 1).min(pauses.len() - 1)]);
            tracing::warn!("alarm by {name} was not delivered ({error}); again in {} s: {subject}", pause.as_secs());
            self.messages.push_front((message, since));
        }
        while self.messages.len() > QUEUE_MAX {
            let oldest = self.messages.pop_front();
            oldest.iter().for_each(|(message, _)| give_up(self.name, self.failed, message, "too many wait"));
        }
    }
}

fn give_up(name: &str, failed: &AtomicU64, message: &Message, error: &str) {
    failed.fetch_add(1, Ordering::Relaxed);
    tracing::error!("alarm by {name} was not delivered, and is given up ({error}): {}", message.subject());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Event};

    /// What a channel is offered, and what it takes. `is_taken`: by the subject and the number of the offer.
    fn offers(subjects: &[&str], closes: bool, is_taken: impl Fn(&str, usize) -> bool) -> (Vec<String>, Vec<String>, u64) {
        let (delivered, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let message = |array: &str| {
            Message::once(Condition { event: Event::Fail, array: array.into(), component: None, text: String::new(), said: None })
        };
        subjects.iter().for_each(|array| queue.send(message(array)).expect("it has space"));
        let queue = Mutex::new(Some(queue).filter(|_| !closes));
        let (offered, taken) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let mut unsent = Unsent { name: "mail", messages: VecDeque::new(), failures: 0, delivered: &delivered, failed: &failed };
        unsent.carry(&messages, &[Duration::from_millis(1); 5], |message| {
            let mut offered = lock(&offered);
            offered.push(message.cause.array.clone());
            if !is_taken(&message.cause.array, offered.len()) {
                return Err("no connection".into());
            }
            let mut taken = lock(&taken);
            taken.push(message.cause.array.clone());
            // The last one ends the test.
            if subjects.last() == Some(&message.cause.array.as_str()) {
                lock(&queue).take();
            }
            Ok(())
        });
        let into = |list: Mutex<Vec<String>>| list.into_inner().expect("no panic");
        (into(offered), into(taken), failed.load(Ordering::Relaxed))
    }

    /// A mail server that was away for three minutes cost an alarm: the next message about the cause came a day later, or never.
    #[test]
    fn a_message_waits_in_its_place_until_the_channel_takes_messages_again() {
        let (offered, taken, failed) = offers(&["a", "b", "c"], false, |_, number| number > 40);
        assert_eq!((taken, failed), (["a", "b", "c"].map(String::from).to_vec(), 0));
        assert!(offered.len() > 40 && offered[..40].iter().all(|array| array != "c"), "two show that it takes none: {offered:?}");
    }

    #[test]
    fn a_message_that_is_refused_for_itself_holds_up_no_other() {
        let (_, taken, failed) = offers(&["bad", "b", "c"], false, |array, _| array != "bad");
        assert_eq!((taken, failed), (["b", "c"].map(String::from).to_vec(), 1));
    }

    #[test]
    fn the_messages_of_a_queue_that_is_closed_are_tried_a_few_times() {
        let (offered, taken, failed) = offers(&["a"], true, |_, _| false);
        assert_eq!((offered.len(), taken.len(), failed), (5, 0, 1));
    }

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
