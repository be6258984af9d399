//! Commands to a running array: its members, its sweeps, and trim.

use super::caches::{drives_without_cache, switch};
use super::served::{failed_here, full_name, lock, look_confirmed, open_confirmed, set_speed};
use super::{LOOK_AGAIN, Served, Service};
use crate::api::{AddRequest, ApiError, ApiErrorKind, ArrayView, Done, ReplaceRequest, ScrubRequest, SpeedRequest, TrimRequest};
use crate::view;
use crate::words::error::ErrorSentence;
use crate::words::event::ServiceSentence;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stria_block::{Completion, Mailbox, Operation, Request, SECTOR_BYTES};
use stria_format::md::uuid_text;

/// The event of the end of a sweep comes within this.
const ENDED_WITHIN: Duration = Duration::from_secs(1);
/// 1 GiB: what one request of `trim` covers.
const TRIM_SECTORS: u64 = (1 << 30) / SECTOR_BYTES as u64;

impl Service {
    /// The message of a drive that has joined, and what was stored for the next start.
    fn joined(&self, served: &Served, message: &str, path: &Path) -> String {
        let message = self.with_served_name(served, message);
        let note = self.finder.get().and_then(|finder| finder(path));
        note.map_or(message.clone(), |note| format!("{message}; {note}"))
    }

    /// A message that names the array as it is served, and not as its superblocks do.
    fn with_served_name(&self, served: &Served, message: &str) -> String {
        let names = lock(&self.names);
        let on_disk = names.iter().filter(|(_, name)| **name == served.name);
        let quoted = |name: &str| format!("\"{name}\"");
        on_disk.fold(message.to_owned(), |message, (on_disk, name)| message.replace(&quoted(on_disk), &quoted(name)))
    }

    /// Gives a drive that joined, or that was reset, the array's setting of write caches.
    pub(super) fn set_held_cache(&self, served: &Served, drive: &Path) {
        let Some(on) = lock(&served.held).drive_caches else { return };
        let switched = served.lanes.report().map_err(|error| error.to_string());
        let switched = switched.and_then(|report| switch(&drives_without_cache(&report), drive, on));
        let Err(error) = switched else { return };
        let (name, switch) = (&served.name, if on { "on" } else { "off" });
        let text =
            format!("array \"{name}\" is set to drive caches {switch}, which {} does not follow: {error}", drive.display());
        self.events.push(view::plain_event(name, "warning", text));
        let mut differ = lock(&served.caches.differ);
        if !differ.iter().any(|known| known == drive) {
            differ.push(drive.to_owned());
        }
    }

    /// The array with this name, whose members may change.
    fn find_writable(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        let served = self.find(name)?;
        match served.read_only {
            true => Err(ApiError::new(ApiErrorKind::Refused, view::is_read_only(&served.name))),
            false => Ok(served),
        }
    }

    /// Drops a drive as if it had failed.
    pub fn fail(&self, name: &str, path: PathBuf) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find_writable(name)?, self.events.sequence());
        let shown = path.display().to_string();
        served.lanes.fail(path)?;
        self.done(sequence, format!("{shown} was failed in \"{name}\""))
    }

    /// Removes a failed drive or a spare.
    pub fn remove(&self, name: &str, path: PathBuf) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find_writable(name)?, self.events.sequence());
        let shown = path.display().to_string();
        served.lanes.remove(path)?;
        self.done(sequence, format!("{shown} was removed from \"{name}\""))
    }

    /// Adds a drive.
    pub fn add(&self, name: &str, request: AddRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find_writable(name)?, self.events.sequence());
        let AddRequest { path, span, force, confirmed, seen, return_only } = request;
        let report = served.lanes.report()?;
        let span = span.map(|span| full_name(&report, &span));
        let may_overwrite = force || confirmed.is_some();
        let mark = confirmed.as_deref().or(seen.as_deref());
        let joined = |message: String| {
            self.set_held_cache(&served, &path);
            self.done(sequence, self.joined(&served, &message, &path))
        };
        if let Some(failed) = failed_here(&report, &path) {
            // It leaves only once the drive at its path may join. If that is the same drive, it is still open here, and opens
            // anew only afterwards.
            let drive = look_confirmed(&served, &path, mark)?;
            let is_another = !failed.contains(&drive.identity());
            served.lanes.may_add(drive, span.clone(), may_overwrite, return_only)?;
            if is_another {
                let drive = open_confirmed(&served, &path, mark)?;
                return joined(served.lanes.add_at(path.clone(), drive, span, may_overwrite, return_only)?);
            }
            served.lanes.remove(path.clone())?;
        }
        let open = || open_confirmed(&served, &path, mark);
        joined(if return_only { served.lanes.take_back(open)? } else { served.lanes.add(open, span, may_overwrite)? })
    }

    /// Replaces a drive that still works.
    pub fn replace(&self, name: &str, request: ReplaceRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find_writable(name)?, self.events.sequence());
        if let Some(message) = served.lanes.replace_by_spare(request.old.clone(), request.new.clone())? {
            return self.done(sequence, self.with_served_name(&served, &message));
        }
        let new = open_confirmed(&served, &request.new, request.confirmed.as_deref())?;
        let may_overwrite = request.force || request.confirmed.is_some();
        let message = served.lanes.replace(request.old, new, may_overwrite)?;
        self.set_held_cache(&served, &request.new);
        self.done(sequence, self.joined(&served, &message, &request.new))
    }

    /// Begins a scrub.
    pub fn scrub(&self, name: &str, request: &ScrubRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let (repair, from_sector) = (request.repair, request.from_bytes / SECTOR_BYTES as u64);
        served.lanes.scrub(repair, from_sector)?;
        self.done(sequence, format!("scrub of \"{name}\" began{}", if repair { "; mismatches are repaired" } else { "" }))
    }

    /// Stops a scrub before its end.
    pub fn cancel_scrub(&self, name: &str) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let scrubs = |served: &Served| {
            let view = view::array(&served.lanes.report()?);
            let is_scrub = |view: &ArrayView| {
                view.redundancy.sweep.as_ref().is_some_and(|sweep| sweep.kind == "scrub" || sweep.kind == "repair")
            };
            Ok::<_, ApiError>(is_scrub(&view) || view.parts.spans.iter().any(is_scrub))
        };
        let runs = scrubs(&served)?;
        served.lanes.cancel_scrub()?;
        // A scrub that a pause or a measurement holds is not in the view. The event of its end shows that there was one.
        let is_end = |event: &crate::api::EventView| {
            event.kind == "sweep_stopped" && matches!(event.sweep.as_deref(), Some("scrub" | "repair")) && !view::is_held(event)
        };
        let ended = || self.events.since(sequence).iter().any(is_end);
        let may_be_held = served.paused.load(Ordering::SeqCst) || served.measuring.load(Ordering::SeqCst);
        let end = Instant::now() + if may_be_held { ENDED_WITHIN } else { Duration::ZERO };
        while !runs && !ended() {
            if Instant::now() >= end {
                return Err(ApiError::new(ApiErrorKind::Refused, ErrorSentence::NoScrubRuns { array: name.to_owned() }));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        while scrubs(&served)? {
            std::thread::sleep(LOOK_AGAIN);
        }
        self.done(sequence, format!("scrub of \"{name}\" was cancelled"))
    }

    /// Pauses sweeps, or lets them go on.
    pub fn pause(&self, name: &str, paused: bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        served.lanes.pause(paused)?;
        let (kind, said) = match (paused, name.to_owned()) {
            (true, array) => ("paused", ServiceSentence::SweepsPaused { array }),
            (false, array) => ("resumed", ServiceSentence::SweepsResumed { array }),
        };
        let message = said.to_string();
        if served.paused.swap(paused, Ordering::SeqCst) != paused {
            self.events.push(view::said_event(&served.name, kind, said));
        }
        self.done(sequence, message)
    }

    /// Holds sweeps for a measurement, or lets them go on unless they are paused by command.
    pub fn hold(&self, name: &str, held: bool) -> Result<(), ApiError> {
        let served = self.find(name)?;
        Ok(served.lanes.pause(held || served.paused.load(Ordering::SeqCst))?)
    }

    /// Notes that the cost of sweeps is being measured: a sweep that is held meanwhile has not ended.
    pub fn set_measuring(&self, name: &str, measuring: bool) -> Result<(), ApiError> {
        self.find(name)?.measuring.store(measuring, Ordering::SeqCst);
        Ok(())
    }

    /// Bounds the speed of sweeps. A daemon remembers that.
    pub fn speed(&self, name: &str, request: &SpeedRequest) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        set_speed(&served, request)?;
        let lost = self.ledger.get().and_then(|ledger| ledger.note_speed(&uuid_text(&served.uuid), request));
        let lost =
            lost.map_or_else(String::new, |why| format!(", but not on disk yet: a restart of the daemon loses them ({why})"));
        self.done(sequence, format!("speed bounds of \"{name}\" are set{lost}"))
    }

    /// Trims a range: it reads as zeros afterwards. It ends early once `is_cancelled` says so, which is asked between parts of 1
    /// GiB.
    pub fn trim(&self, name: &str, request: &TrimRequest, is_cancelled: impl Fn() -> bool) -> Result<Done, ApiError> {
        let (served, sequence) = (self.find(name)?, self.events.sequence());
        let remote = served.lanes.remote();
        let limits = remote.limits();
        let refuse = |kind, said: ErrorSentence| Err(ApiError::new(kind, said));
        let array = || name.to_owned();
        let size_bytes = limits.size_sectors * SECTOR_BYTES as u64;
        let start = request.start_bytes;
        let length = request.length_bytes.unwrap_or(size_bytes.saturating_sub(start));
        let block = u64::from(limits.logical_block_bytes);
        let Some(end) = start.checked_add(length).filter(|&end| end <= size_bytes && length > 0) else {
            return refuse(ApiErrorKind::Invalid, ErrorSentence::TrimOutside { array: array(), size_bytes });
        };
        if !(start | end).is_multiple_of(block) {
            return refuse(ApiErrorKind::Invalid, ErrorSentence::TrimUnaligned { block_bytes: block });
        }
        if !request.force {
            let what = format!("trim destroys what lies in {length} bytes at {start} of \"{name}\"; --force trims them anyway");
            let text = format!("{what} (a mounted file system trims its free space with fstrim)");
            return Err(ApiError::new(ApiErrorKind::Unsafe, text));
        }
        if limits.discard_granularity_bytes == 0 {
            return refuse(ApiErrorKind::Refused, ErrorSentence::TrimImpossible { array: array() });
        }
        let sectors = start / SECTOR_BYTES as u64..end / SECTOR_BYTES as u64;
        let thread = std::thread::current();
        let reply = Arc::new(Mailbox::<Completion>::new(move || thread.unpark()));
        for start_sector in sectors.clone().step_by(TRIM_SECTORS as usize) {
            if is_cancelled() {
                let done_bytes = start_sector * SECTOR_BYTES as u64 - start;
                let said = ErrorSentence::TrimCancelled { array: array(), done_bytes, length_bytes: length };
                return refuse(ApiErrorKind::Refused, said);
            }
            let count = TRIM_SECTORS.min(sectors.end - start_sector);
            let operation = Operation::WriteZeroes { fua: false, unmap: true, fast: false };
            let request = Request { tag: 0, start_sector, sectors: count, operation };
            remote.submit(&mut vec![request], &reply);
            let mut ended = Vec::new();
            while ended.is_empty() {
                if reply.prepare_sleep() {
                    std::thread::park();
                }
                reply.take(&mut ended);
            }
            if let Err(error) = &ended[0].result {
                let said = ErrorSentence::TrimFailed { array: array(), reason: error.to_string() };
                return refuse(ApiErrorKind::Failed, said);
            }
        }
        self.done(sequence, format!("{length} bytes at {start} of \"{name}\" were trimmed and read as zeros"))
    }
}
