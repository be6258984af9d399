//! Stops one array or all of them, and gives up an array that does not stop.

use super::served::lock;
use super::{LOOK_AGAIN, Served, Service};
use crate::api::{ApiError, ApiErrorKind, Done};
use crate::view;
use crate::words::error::ErrorSentence;
use crate::words::event::ServiceSentence;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stria_front::Closing;

/// The time that a stop waits for clients to leave before it is refused, the same as mdadm's.
const CLIENTS_LEAVE: Duration = Duration::from_secs(1);
/// A stop gives an array up once one of its lanes has stood still for this time: longer than a stop waits for drives (10 s), and
/// shorter than systemd waits for the process.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

impl Service {
    /// Stops one array cleanly. A process that does not stay ends with its last array.
    pub fn stop(self: &Arc<Self>, name: &str, force: bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        self.refuse_clients(std::slice::from_ref(&served), force)?;
        if served.stopping.load(Ordering::SeqCst) {
            Self::claim_stop(&served)?;
        }
        let goes_on = self.stays.load(Ordering::SeqCst) || self.all().len() > 1;
        let outcome = self.stop_each(std::slice::from_ref(&served), closing(force), force, goes_on);
        // Nothing is left to serve, even if this array did not stop cleanly.
        let is_left = |served: &Arc<Served>| !served.is_given_up.load(Ordering::SeqCst);
        if !self.all().iter().any(is_left) && !self.stays.load(Ordering::SeqCst) {
            self.shutdown.send_replace(true);
        }
        outcome?;
        self.done(sequence, format!("array \"{name}\" has stopped"))
    }

    /// Stops an array whose start failed half-way.
    pub fn give_up(&self, name: &str, closing: Closing) -> Result<(), ApiError> {
        self.stop_served(&self.find(name)?, closing, true)
    }

    /// Stops everything by command. A process that stays goes on without arrays.
    pub fn stop_by_command(self: &Arc<Self>, force: bool) -> Result<Done, ApiError> {
        if !self.stays.load(Ordering::SeqCst) {
            return self.stop_all(force, closing(force));
        }
        let (all, sequence) = (self.all(), self.events.sequence());
        self.refuse_clients(&all, force)?;
        self.stop_each(&all, closing(force), force, true)?;
        let names: Vec<&str> = all.iter().map(|served| served.name.as_str()).collect();
        let what = if names.is_empty() { "nothing was served, so nothing".into() } else { names.join(", ") };
        self.done(sequence, format!("{what} stopped; the daemon goes on"))
    }

    /// Stops everything; then the process ends. A stop that is refused changes nothing, so clients are looked for before the
    /// sockets close. A client that connects between the two is disconnected like any other client of an array that stops.
    /// `closing`: whether clients may hope for another process that serves the same.
    pub fn stop_all(self: &Arc<Self>, force: bool, closing: Closing) -> Result<Done, ApiError> {
        let (all, sequence) = (self.all(), self.events.sequence());
        self.refuse_clients(&all, force)?;
        self.close();
        let mut outcome = self.stop_each(&all, closing, force, false);
        // Some arrays were stopping already, or are started again after a change: the process must not end before they have
        // stopped.
        let is_left = |served: &Arc<Served>| !served.is_given_up.load(Ordering::SeqCst);
        while self.all().iter().any(is_left) || !lock(&self.pausing).is_empty() {
            let mut left = self.all();
            left.retain(is_left);
            outcome = outcome.and(self.stop_each(&left, closing, force, false));
            std::thread::sleep(LOOK_AGAIN);
        }
        self.shutdown.send_replace(true);
        outcome?;
        let names: Vec<&str> = all.iter().map(|served| served.name.as_str()).collect();
        self.done(sequence, format!("{} stopped", names.join(", ")))
    }

    /// Stops arrays, each on a thread of its own: one whose lane hangs must not keep the others from being stopped cleanly. It is
    /// given up after a time, and is then as after a power cut, unless the process goes on.
    fn stop_each(self: &Arc<Self>, arrays: &[Arc<Served>], closing: Closing, force: bool, goes_on: bool) -> Result<(), ApiError> {
        let stop = |served: &Arc<Served>| {
            let (service, stopped) = (Arc::clone(self), Arc::clone(served));
            // An array that is stopping already has its own thread, which is waited for as well.
            let is_begun = served.stopping.load(Ordering::SeqCst);
            let work = move || if is_begun { Ok(()) } else { service.stop_served(&stopped, closing, force) };
            (Arc::clone(served), is_begun, std::thread::Builder::new().name("stop".into()).spawn(work))
        };
        let (begun, mut outcome) = (Instant::now(), Ok(()));
        for (served, is_begun, thread) in arrays.iter().map(stop).collect::<Vec<_>>() {
            let Ok(thread) = thread else {
                outcome = outcome.and(self.stop_served(&served, closing, force));
                continue;
            };
            let is_here = || lock(&self.arrays).iter().any(|other| Arc::ptr_eq(other, &served));
            let is_over = || thread.is_finished() && !(is_begun && is_here());
            let mut still = Duration::ZERO;
            while !is_over() && (still < GIVE_UP_AFTER || begun.elapsed() < GIVE_UP_AFTER) {
                std::thread::sleep(LOOK_AGAIN);
                still = served.lanes.stands_still().0;
            }
            if is_over() {
                outcome = outcome.and(thread.join().unwrap_or_else(|_| {
                    served.is_given_up.store(true, Ordering::SeqCst);
                    Err(ApiError::new(ApiErrorKind::Failed, ErrorSentence::StopBrokeOff { array: served.name.clone() }))
                }));
                continue;
            }
            served.is_given_up.store(true, Ordering::SeqCst);
            let (array, seconds) = (served.name.clone(), still.as_secs());
            let (kind, said) = match goes_on {
                // The thread above still stops it once the lane answers.
                true => ("warning", ErrorSentence::StopGoesOn { array, seconds }),
                false => ("stopped", ErrorSentence::StoodStill { array, seconds }),
            };
            self.events.push(view::said_event(&served.name, kind, said.clone()));
            let error = ApiError::new(ApiErrorKind::Failed, said);
            if !goes_on {
                lock(&self.failure).get_or_insert_with(|| error.clone());
            }
            outcome = outcome.and(Err(error));
        }
        outcome
    }

    /// Refuses to stop arrays that are in use. A client that has just left is given the time until its lanes have seen that.
    fn refuse_clients(&self, arrays: &[Arc<Served>], force: bool) -> Result<(), ApiError> {
        let refused_at = Instant::now() + CLIENTS_LEAVE;
        for served in arrays.iter().filter(|_| !force) {
            let mut users = self.users(served);
            while !users.is_empty() && Instant::now() < refused_at {
                std::thread::sleep(LOOK_AGAIN);
                users = self.users(served);
            }
            if !users.is_empty() {
                let said = ErrorSentence::StopInUse { array: served.name.clone(), users: users.into_iter().collect() };
                return Err(ApiError::new(ApiErrorKind::Unsafe, said));
            }
        }
        Ok(())
    }

    /// Removes the export, waits for the end of requests, marks the members clean, and ends the lanes. `force`: even if the block
    /// device has users.
    pub(super) fn stop_served(&self, served: &Arc<Served>, closing: Closing, force: bool) -> Result<(), ApiError> {
        Self::claim_stop(served)?;
        self.stop_claimed(served, closing, force)
    }

    /// Takes the right to stop an array, which one caller gets.
    pub(super) fn claim_stop(served: &Served) -> Result<(), ApiError> {
        if served.stopping.swap(true, Ordering::SeqCst) {
            return Err(ApiError::new(ApiErrorKind::Refused, ErrorSentence::StopsAlready { array: served.name.clone() }));
        }
        Ok(())
    }

    /// [`Service::stop_served`] after [`Service::claim_stop`]: even after an error the array is served no more.
    pub(super) fn stop_claimed(&self, served: &Arc<Served>, closing: Closing, force: bool) -> Result<(), ApiError> {
        let array = served.name.clone();
        self.events.push(view::said_event(&served.name, "stopping", ServiceSentence::ArrayStops { array: array.clone() }));
        served.disks().iter().for_each(|disk| disk.stop());
        // It is gone already if an earlier attempt failed later on.
        let _ = self.nbd.remove_export(&served.name, closing);
        let block = self.give_up_block(served, closing == Closing::Disconnect || !force);
        let outcome = self.end(served, closing == Closing::Hurried);
        block.iter().for_each(|block| self.finish_block(served, block));
        lock(&served.locks).clear();
        lock(&self.arrays).retain(|other| !Arc::ptr_eq(other, served));
        let said = match &outcome {
            Ok(state) if state == "clean" => ServiceSentence::ArrayStoppedClean { array },
            Ok(state) => ServiceSentence::ArrayStopped { array, state: state.clone() },
            Err(error) => {
                lock(&self.failure).get_or_insert_with(|| error.clone());
                let (reason, cause) = error.words().parts();
                ServiceSentence::ArrayStoppedUnclean { array, reason, cause }
            }
        };
        self.events.push(view::said_event(&served.name, "stopped", said));
        outcome.map(|_| ())
    }
}

/// How a command that stops an array disconnects its clients. With `--force` neither they nor the array wait long for a drive
/// that is silent. A signal that ends the process is no such command: a slow drive must not lose its slot because the machine is
/// shut down.
fn closing(force: bool) -> Closing {
    if force { Closing::Hurried } else { Closing::Shutdown }
}
