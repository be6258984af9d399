//! Questions to the machine's directory (the name service: files, LDAP …), which may not answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use stria_block::shell_word;
use stria_drive::within;

/// The time that the directory may take to find a group.
const GROUP_WITHIN: Duration = Duration::from_secs(5);
/// So long after a question without an answer the next ones get [`BRIEFLY`] only: each may cost a thread, and several groups are
/// asked for in turn.
const HUNG_FOR: Duration = Duration::from_secs(60);
/// The time that a start waits for a group. After that it goes on without.
const START_WITHIN: Duration = Duration::from_secs(1);
/// The time for an answer while the directory hangs. Groups in files are found meanwhile.
const BRIEFLY: Duration = Duration::from_millis(200);

/// The directory, and when it last did not answer.
#[derive(Default)]
pub struct Directory(Mutex<Option<Instant>>);

static DIRECTORY: Directory = Directory(Mutex::new(None));

impl Directory {
    /// True if a question was not answered lately.
    pub fn hangs(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|since| since.elapsed() < HUNG_FOR)
    }

    /// The answer; `None`: there is none in time.
    pub fn ask<T: Send + 'static>(&self, patience: Duration, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let answer = within(if self.hangs() { patience.min(BRIEFLY) } else { patience }, question).ok();
        // An answer from a file says nothing about a server that hangs.
        if answer.is_none() {
            self.note_hang();
        }
        answer
    }

    fn note_hang(&self) {
        let mut hung = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hung.is_none_or(|since| since.elapsed() >= HUNG_FOR) {
            *hung = Some(Instant::now());
        }
    }

    fn group(&self, text: &str, find: impl FnOnce(&str) -> Result<u32, String> + Send + 'static) -> Result<u32, String> {
        if let Some(number) = number(text) {
            return number;
        }
        let asked = text.to_owned();
        self.ask(GROUP_WITHIN, move || find(&asked)).unwrap_or_else(|| {
            let (within, word) = (GROUP_WITHIN.as_secs(), shell_word(text));
            Err(format!(
                "the name service of this machine did not find group {text:?} within {within} s: `getent group {word}` shows \
                 whether it answers; a group's number needs no answer"
            ))
        })
    }
}

/// The time that the directory may take to name a user.
const NAME_WITHIN: Duration = Duration::from_millis(500);
/// The directory as far as names of users are concerned: they are for the record, so groups are not hurried for them.
static NAMES: Directory = Directory(Mutex::new(None));

/// `alice (user 1000)`, or `user 1000` if the directory does not say in time.
pub fn user_name(uid: u32) -> String {
    let find = move || nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    let name = if NAMES.hangs() { None } else { NAMES.ask(NAME_WITHIN, find).flatten() };
    name.map_or_else(|| format!("user {uid}"), |name| format!("{name} (user {uid})"))
}

/// A group's number, from that or its name.
///
/// # Errors
/// When there is none, or the name service does not answer.
pub fn group(text: &str) -> Result<u32, String> {
    DIRECTORY.group(text, find)
}

/// An answer that may come later.
pub enum GroupAnswer {
    /// The group's number, or why there is none.
    Known(Result<u32, String>),
    /// The name service has not answered yet.
    Late(Receiver<Result<u32, String>>),
}

/// Begins to look up a group, and waits for its number at most `patience`.
pub fn begin_group(text: &str, patience: Duration) -> GroupAnswer {
    begin(text, patience, find)
}

fn begin(text: &str, patience: Duration, find: impl FnOnce(&str) -> Result<u32, String> + Send + 'static) -> GroupAnswer {
    if let Some(number) = number(text) {
        return GroupAnswer::Known(number);
    }
    let ((found, answer), asked) = (channel(), text.to_owned());
    let thread = std::thread::Builder::new().name("group".into()).spawn(move || drop(found.send(find(&asked))));
    if let Err(error) = thread {
        return GroupAnswer::Known(Err(format!("group {text:?} cannot be looked up: {error}")));
    }
    match answer.recv_timeout(patience) {
        Ok(found) => GroupAnswer::Known(found),
        Err(RecvTimeoutError::Timeout) => GroupAnswer::Late(answer),
        Err(RecvTimeoutError::Disconnected) => GroupAnswer::Known(Err(format!("group {text:?} cannot be looked up"))),
    }
}

/// A group that was not found when it was asked for first. The machine may know it later: a directory on the network while it
/// boots, or a package that makes the group.
pub struct LateGroup {
    name: String,
    /// The answer that is still to come.
    answer: Option<Receiver<Result<u32, String>>>,
}

/// The number of a group, if it is found within a second. `Err`: the reason, and the group to be looked up later.
pub fn group_or_late(name: &str) -> Result<u32, (String, LateGroup)> {
    let late = |answer| LateGroup { name: name.to_owned(), answer };
    match begin_group(name, if DIRECTORY.hangs() { BRIEFLY } else { START_WITHIN }) {
        GroupAnswer::Known(Ok(number)) => Ok(number),
        GroupAnswer::Known(Err(error)) => Err((error, late(None))),
        GroupAnswer::Late(answer) => {
            DIRECTORY.note_hang();
            let word = shell_word(name);
            let text = format!(
                "the name service of this machine has not found group {name:?} yet: `getent group {word}` shows whether it answers; a group's number \
                 needs no answer"
            );
            Err((text, late(Some(answer))))
        }
    }
}

impl LateGroup {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if the directory has not said that there is no such group.
    pub fn is_open(&self) -> bool {
        self.answer.is_some()
    }

    /// The number, once the machine knows it. One question is asked at a time, as each may cost a thread.
    pub fn poll(&mut self) -> Option<u32> {
        self.poll_by(find)
    }

    fn poll_by(&mut self, find: impl FnOnce(&str) -> Result<u32, String> + Send + 'static) -> Option<u32> {
        let found = match &self.answer {
            Some(answer) => match answer.try_recv() {
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => None,
                Ok(found) => found.ok(),
            },
            None => match begin(&self.name, BRIEFLY, find) {
                GroupAnswer::Known(found) => found.ok(),
                GroupAnswer::Late(answer) => {
                    self.answer = Some(answer);
                    return None;
                }
            },
        };
        self.answer = None;
        found
    }
}

/// A group that is given by its number. That is not looked up.
fn number(text: &str) -> Option<Result<u32, String>> {
    match text.parse::<u32>() {
        // The largest number means "leave it as it is".
        Ok(u32::MAX) => Some(Err(format!("{text} is not the number of a group"))),
        Ok(number) => Some(Ok(number)),
        Err(_) => None,
    }
}

fn find(text: &str) -> Result<u32, String> {
    match nix::unistd::Group::from_name(text) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("there is no group {text:?} on this machine; see `getent group`")),
        Err(error) => Err(format!("group {text:?} cannot be looked up: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hangs(_: &str) -> Result<u32, String> {
        std::thread::sleep(Duration::from_secs(60));
        Ok(7)
    }

    #[test]
    fn a_directory_that_hangs_is_waited_for_once() {
        let (directory, begin) = (Directory::default(), Instant::now());
        assert_eq!(directory.ask(BRIEFLY, || "ann"), Some("ann"));
        assert!(!directory.hangs());
        for name in ["a", "b", "c", "d", "e"] {
            let error = directory.group(name, hangs).expect_err("it hangs");
            assert!(error.contains("did not find group") && error.contains("getent group"), "{error}");
        }
        assert!(begin.elapsed() < GROUP_WITHIN + BRIEFLY * 12, "{:?}", begin.elapsed());
        assert!(directory.hangs() && directory.group("local", |_| Ok(9)) == Ok(9) && directory.group("8", hangs) == Ok(8));
    }

    #[test]
    fn a_group_is_asked_for_again_until_it_is_there() {
        let mut late = LateGroup { name: "people".into(), answer: None };
        assert_eq!(late.poll_by(|_| Err("there is none".into())), None);
        assert!(!late.is_open());
        let slow = |_: &str| {
            std::thread::sleep(BRIEFLY * 3);
            Ok(7)
        };
        assert_eq!(late.poll_by(slow), None);
        assert!(late.is_open());
        let end = Instant::now() + Duration::from_secs(20);
        while late.poll_by(|_| panic!("one question at a time")) != Some(7) {
            assert!(late.is_open() && Instant::now() < end);
            std::thread::sleep(BRIEFLY / 4);
        }
    }

    #[test]
    fn a_late_answer_is_received_when_it_comes() {
        let late = |_: &str| {
            std::thread::sleep(Duration::from_millis(300));
            Ok(7)
        };
        let GroupAnswer::Late(answer) = begin("people", Duration::from_millis(20), late) else { panic!("it is late") };
        assert_eq!(answer.recv_timeout(Duration::from_secs(20)), Ok(Ok(7)));
        assert!(matches!(begin("7", Duration::ZERO, hangs), GroupAnswer::Known(Ok(7))), "a number is not looked up");
    }
}
