//! Looks at arrays whose lanes stand still, and at drives whose write caches differ from their setting.

use super::Service;
use super::caches::{drives_in_use, drives_without_cache, keep, keep_off, switch, without_cache};
use super::served::{STATUS_WITHIN, Served, lock};
use crate::api::ArrayView;
use crate::system::threads;
use crate::view;
use crate::words::event::{Asked, EventSentence, InKernel, ServiceSentence};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use stria_drive::DriveInfo;
use stria_host::ArrayReport;
use stria_terminal::Failure;

/// How often the watchdog checks that lanes make progress.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How long a lane may stand still before that is reported.
const STILL_FOR: Duration = Duration::from_secs(5);
/// How often drives are asked for their write caches. A reset of the controller, which any program can cause, ends the setting,
/// and any program can switch them.
const CACHES_EVERY: Duration = Duration::from_secs(60);

/// Begins to look, on a thread of its own.
///
/// # Errors
/// The system gives no thread.
pub fn start(service: &Arc<Service>) -> Result<(), Failure> {
    let watched = Arc::downgrade(service);
    threads::start("watchdog", move || watch(&watched)).map(drop)
}

/// Checks that lanes make progress, until the service is gone. A lane that stands still is reported here, as it cannot report
/// itself.
fn watch(service: &Weak<Service>) {
    let mut reported: BTreeSet<String> = BTreeSet::new();
    loop {
        std::thread::sleep(WATCH_EVERY);
        let Some(service) = service.upgrade() else { return };
        for served in service.all() {
            let (still, lane, waits_in) = served.lanes.stands_still();
            let name = &served.name;
            service.look_at_caches(&served);
            if still < STILL_FOR {
                if reported.remove(name) {
                    let said = ServiceSentence::ArrayAnswersAgain { array: name.clone() };
                    service.events.push(view::said_event(name, "lane_answers", said));
                }
                // Remembers a view in case the array stops answering. A sleeping lane is not woken.
                if served.lanes.is_awake() {
                    let _ = service.view(&served, STATUS_WITHIN);
                }
            } else if reported.insert(name.clone()) {
                let waits = match &*lock(&served.known) {
                    Some(view) => waiting(view),
                    None => Vec::new(),
                };
                let (array, seconds, in_kernel, asked) = (name.clone(), still.as_secs(), InKernel(waits_in), Asked(waits));
                let said = ServiceSentence::LaneSilent { lane, array, seconds, in_kernel, asked };
                service.events.push(view::said_event(name, "lane_silent", said));
            }
        }
    }
}

/// Drives with unanswered requests.
fn waiting(view: &ArrayView) -> Vec<String> {
    let own = view.parts.members.iter().filter(|member| member.waiting_ms.is_some()).map(|member| member.path.clone());
    own.chain(view.parts.spans.iter().flat_map(waiting)).collect()
}

impl Service {
    /// Asks the drives of an array for their write caches from time to time, on a thread of its own, and sets again what a reset
    /// or another program has undone.
    fn look_at_caches(self: &Arc<Self>, served: &Arc<Served>) {
        let mut asked = lock(&served.caches.asked);
        let is_due = asked.is_none_or(|asked| asked.elapsed() >= CACHES_EVERY);
        if !is_due || served.caches.is_asking.swap(true, Ordering::SeqCst) {
            return;
        }
        *asked = Some(Instant::now());
        drop(asked);
        let (service, array) = (Arc::clone(self), Arc::clone(served));
        let look = move || {
            service.keep_caches(&array);
            array.caches.is_asking.store(false, Ordering::SeqCst);
        };
        if std::thread::Builder::new().name("caches".into()).spawn(look).is_err() {
            served.caches.is_asking.store(false, Ordering::SeqCst);
        }
    }

    fn keep_caches(&self, served: &Served) {
        let Ok(Some((report, _))) = served.lanes.report_within(super::STATUS_WITHIN) else { return };
        self.keep_unflushed_off(served, &report);
        let Some(on) = lock(&served.held).drive_caches else { return };
        let (bare, known) = (drives_without_cache(&report), lock(&served.caches.differ).clone());
        let set = |drive: &Path, on| switch(&bare, drive, on);
        let ask = |drive: &Path| stria_health::write_cache(drive).map_err(|error| error.to_string());
        let (differ, warnings) = keep(&drives_in_use(&report), &known, on, ask, set);
        // A command may have changed the setting meanwhile.
        let is_current = lock(&served.held).drive_caches == Some(on);
        if is_current {
            *lock(&served.caches.differ) = differ;
            let event = |said| view::said_event(&served.name, "warning", EventSentence::Warning(said));
            warnings.into_iter().for_each(|said| self.events.push(event(said)));
        }
    }

    /// Switches the write caches off that are on although the array sends no flushes to their drives.
    fn keep_unflushed_off(&self, served: &Served, report: &ArrayReport) {
        let bare: Vec<&DriveInfo> = without_cache(report).collect();
        let paths: Vec<PathBuf> = bare.iter().map(|info| info.path.clone()).collect();
        // By the number of the open drive, and as the array has asked when it opened the drive.
        let info = |drive: &Path| bare.iter().find(|info| info.path == drive);
        let ask = |drive: &Path| info(drive).and_then(|info| info.has_volatile_cache_now()).ok_or_else(String::new);
        let set = |drive: &Path, on| stria_health::set_write_cache(drive, on).map_err(|error| error.to_string());
        let known = lock(&served.caches.unflushed).clone();
        let (unflushed, warnings) = keep_off(&served.name, &paths, &known, ask, set);
        *lock(&served.caches.unflushed) = unflushed;
        warnings.into_iter().for_each(|text| self.events.push(view::plain_event(&served.name, "warning", text)));
    }
}
