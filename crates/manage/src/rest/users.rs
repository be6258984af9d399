//! The users of this machine, as its directory (files, LDAP …) knows them. The directory may hang. A user's last known entry then
//! holds for a minute, and the number of waiting questions is bounded.

use crate::api::{ApiError, ApiErrorKind};
use crate::system::directory::Directory;
use nix::unistd::{Uid, User, getgrouplist};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time that the directory may take.
const WITHIN: Duration = Duration::from_secs(2);
/// Questions that wait for the directory at a time. Each has a thread.
const ASKED_MAX: usize = 8;
/// The time for which a user's last known entry holds while the directory does not answer. A name is taken from it for as long
/// without a question.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Users that are remembered.
const KNOWN_MAX: usize = 1024;

/// A user's entry; that of an unknown number has neither name nor groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Option<String>,
    /// The groups, with that of the entry itself.
    pub groups: Vec<u32>,
}

/// The directory's answers.
pub struct Users {
    directory: Directory,
    known: Mutex<HashMap<u32, (Instant, Entry)>>,
    asked: Arc<AtomicUsize>,
    find: fn(u32) -> Entry,
}

static USERS: LazyLock<Arc<Users>> = LazyLock::new(|| Users::new(find));

fn find(uid: u32) -> Entry {
    let Some(user) = User::from_uid(Uid::from_raw(uid)).ok().flatten() else { return Entry::default() };
    let groups = CString::new(user.name.as_str()).ok().and_then(|name| getgrouplist(&name, user.gid).ok()).unwrap_or_default();
    let groups = groups.into_iter().chain([user.gid]).map(|group| group.as_raw()).collect();
    Entry { name: Some(user.name), groups }
}

/// The place of a question among the [`ASKED_MAX`] that may wait. It is given back also if the question panics, or if no thread
/// could be made for it.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// `None`: [`ASKED_MAX`] questions wait already.
    fn take(asked: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(asked));
        (asked.fetch_add(1, Ordering::SeqCst) < ASKED_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Users {
    /// The users that `find` looks up. `find` may hang.
    pub fn new(find: fn(u32) -> Entry) -> Arc<Self> {
        Arc::new(Self { directory: Directory::default(), known: Mutex::default(), asked: Arc::default(), find })
    }

    /// The users of this machine's directory.
    pub fn of_this_machine() -> Arc<Self> {
        Arc::clone(&USERS)
    }

    /// The answer to a question; `None`: there is none in time, or too many questions wait.
    pub fn ask<T: Send + 'static>(&self, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let place = Place::take(&self.asked)?;
        self.directory.ask(WITHIN, move || {
            let answer = question();
            drop(place);
            answer
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, (Instant, Entry)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a user as it is now, or as it was within the last minute if the directory does not answer.
    ///
    /// # Errors
    /// When the directory does not answer, and no entry of the last minute is known.
    pub fn entry(&self, uid: u32) -> Result<Entry, ApiError> {
        let find = self.find;
        let Some(found) = self.ask(move || find(uid)) else {
            return self.known(uid).ok_or_else(|| {
                let text = format!(
                    "the groups of user {uid} are not known, as the name service of this machine does not answer: `getent passwd {uid}` shows whether \
                     it does; root, and tokens of `stria token create`, need no answer"
                );
                ApiError::new(ApiErrorKind::Failed, text)
            });
        };
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.retain(|_, (since, _)| since.elapsed() < KNOWN_FOR);
        }
        if known.len() < KNOWN_MAX || known.contains_key(&uid) {
            known.insert(uid, (Instant::now(), found.clone()));
        }
        Ok(found)
    }

    fn known(&self, uid: u32) -> Option<Entry> {
        self.lock().get(&uid).filter(|(since, _)| since.elapsed() < KNOWN_FOR).map(|(_, entry)| entry.clone())
    }
}

/// `alice (user 1000)`, or `user 1000` if the directory does not say.
pub fn user_name(uid: u32) -> String {
    // The name of root needs no directory.
    if uid == 0 {
        return "root (user 0)".into();
    }
    let entry = USERS.known(uid).or_else(|| USERS.entry(uid).ok());
    entry.and_then(|entry| entry.name).map_or_else(|| format!("user {uid}"), |name| format!("{name} (user {uid})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: each question that broke off took one of the places for ever, and after eight of them no user was looked up any more.
    #[test]
    fn a_question_that_panics_gives_its_place_back() {
        fn breaks(_: u32) -> Entry {
            panic!("a fault of the name service");
        }
        let users = Users::new(breaks);
        for _ in 0..2 * ASKED_MAX {
            users.entry(1000).expect_err("there is no answer");
        }
        assert_eq!(users.asked.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_directory_that_hangs_is_answered_from_memory_and_costs_few_threads() {
        fn hangs(_: u32) -> Entry {
            std::thread::sleep(Duration::from_secs(60));
            Entry::default()
        }
        let users = Users::new(hangs);
        let ann = Entry { name: Some("ann".into()), groups: vec![7] };
        users.lock().insert(1000, (Instant::now(), ann.clone()));
        let begin = Instant::now();
        for _ in 0..3 * ASKED_MAX {
            assert_eq!(users.entry(1000).expect("it was known"), ann);
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        assert_eq!(users.asked.load(Ordering::SeqCst), ASKED_MAX);
        let refused = users.entry(1001).expect_err("nothing is known");
        assert!(refused.message.contains("getent passwd 1001"), "{}", refused.message);
    }
}
