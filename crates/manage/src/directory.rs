//! Questions to the machine's directory (the name service: files, LDAP …), which may not answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use stria_drive::within;

/// The time that the directory may take to find a group.
const GROUP_WITHIN: Duration = Duration::from_secs(5);
/// So long after a question without an answer the next ones get [`BRIEFLY`] only: each may cost a thread, and several groups are asked for in turn.
const HUNG_FOR: Duration = Duration::from_secs(60);
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
        let mut hung = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An answer from a file says nothing about a server that hangs.
        if answer.is_none() && hung.is_none_or(|since| since.elapsed() >= HUNG_FOR) {
            *hung = Some(Instant::now());
        }
        answer
    }

    fn group(&self, text: &str, find: impl FnOnce(&str) -> Result<u32, String> + Send + 'static) -> Result<u32, String> {
        if let Some(number) = number(text) {
            return number;
        }
        let asked = text.to_owned();
        self.ask(GROUP_WITHIN, move || find(&asked)).unwrap_or_else(|| {
            let within = GROUP_WITHIN.as_secs();
            Err(format!(
                "the name service of this machine did not find group {text:?} within {within} s: `getent group {text}` shows \
                 whether it answers; a group's number needs no answer"
            ))
        })
    }
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
