//! Events on disk: one line of JSON each, in two files of bounded size, so that what happened before a restart can be read after
//! it.

use crate::api::EventView;
use crate::service::Service;
use crate::system::mounts::{Below, awaited};
use crate::system::threads;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stria_terminal::Failure;
use tokio::sync::broadcast::error::RecvError;

/// 8 MiB: the older half of the record is dropped when the newer has this size, some 40,000 events.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The time that the end of the process waits for the last events to be written, and the pause between two looks.
const LAST_EVENTS: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The pause between two looks whether the file system of the folder is mounted.
const LOOK_FOR_MOUNT: Duration = Duration::from_millis(500);

/// The pause before a disk that took no events is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(2);

fn newer(folder: &Path) -> PathBuf {
    folder.join("events.jsonl")
}

fn older(folder: &Path) -> PathBuf {
    folder.join("events.1.jsonl")
}

/// The thread that writes events to the file.
pub struct EventFile {
    /// The last event that it has written.
    written: Arc<AtomicU64>,
}

/// Keeps every event of the service in `folder` from now on, as long as the service lives. A disk that takes none is reported
/// once; the arrays go on. Until it takes them, or while the file system of the folder is yet to be mounted, events wait in
/// memory.
///
/// # Errors
/// The system gives no thread.
pub fn keep(service: &Arc<Service>, folder: &Path) -> Result<EventFile, Failure> {
    let mut record = Record { folder: folder.to_owned(), is_reported: false, written_to: Vec::new() };
    let (watched, written) = (Arc::downgrade(service), Arc::<AtomicU64>::default());
    let last = Arc::clone(&written);
    // A receipt only shows that there are new events. They are read from the service, which stores more than a receiver may lag
    // behind.
    let (_, mut live) = service.events().listen(0);
    let mut is_recalled = false;
    let work = move || {
        loop {
            let Some(service) = watched.upgrade() else { return };
            if let Some(point) = awaited(&record.folder) {
                drop(service);
                record.report(&format!("events are kept in memory until {} is mounted", point.display()));
                std::thread::sleep(LOOK_FOR_MOUNT);
                continue;
            }
            // Before the first event of this run is in the file.
            if !std::mem::replace(&mut is_recalled, true) {
                service.recall(stored(&record.folder).unwrap_or_default());
            }
            let since = if record.is_hidden() { 0 } else { last.load(Ordering::SeqCst) };
            let events = service.events().since(since);
            drop(service);
            if !record.write(&events) {
                std::thread::sleep(TRY_AGAIN);
                continue;
            }
            if let Some(event) = events.last() {
                last.store(event.sequence, Ordering::SeqCst);
            }
            if matches!(live.blocking_recv(), Err(RecvError::Closed)) {
                return;
            }
        }
    };
    threads::start("record", work)?;
    Ok(EventFile { written })
}

impl EventFile {
    /// Waits until the last events are written, for [`LAST_EVENTS`] at most.
    pub fn finish(&self, service: &Service) {
        let end = Instant::now() + LAST_EVENTS;
        while self.written.load(Ordering::SeqCst) < service.events().sequence() && Instant::now() < end {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

struct Record {
    folder: PathBuf,
    is_reported: bool,
    /// The file systems that have events of this process.
    written_to: Vec<Below>,
}

impl Record {
    /// True if a file system without events of this process was mounted over the one that has them: fstab does not announce all.
    fn is_hidden(&self) -> bool {
        let below = Below::of(&self.folder).filter(|below| !self.written_to.contains(below));
        below.is_some_and(|below| self.written_to.iter().any(|before| below.hides(*before)))
    }

    /// Returns false if they are to be tried again.
    fn write(&mut self, events: &[EventView]) -> bool {
        let outcome = self.try_write(events);
        match &outcome {
            Ok(()) => {
                self.is_reported = false;
                let below = Below::of(&self.folder).filter(|below| !self.written_to.contains(below));
                self.written_to.extend(below);
            }
            Err(error) => {
                let folder = self.folder.display();
                self.report(&format!("events are not kept in {folder}: {error}; they wait in memory, make space there"));
            }
        }
        outcome.is_ok()
    }

    fn report(&mut self, text: &str) {
        if !std::mem::replace(&mut self.is_reported, true) {
            tracing::warn!("{text}; the log of this process has them");
        }
    }

    /// The file is open only meanwhile: its file system may be unmounted while this process runs, and lie on one of its arrays.
    fn try_write(&self, events: &[EventView]) -> io::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let newer = newer(&self.folder);
        if newer.metadata().is_ok_and(|file| file.len() >= FILE_BYTES_MAX) {
            fs::rename(&newer, older(&self.folder))?;
        }
        DirBuilder::new().recursive(true).mode(0o755).create(&self.folder)?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o640).open(&newer)?;
        let mut lines = Vec::new();
        // A crash or a full disk may have cut the last line.
        let mut end = [b'\n'];
        let before = file.metadata()?.len();
        if before > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut end)?;
        }
        if end != *b"\n" {
            lines.push(b'\n');
        }
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        // One write: a line is never torn by another, and by a full disk only at its end.
        file.write_all(&lines).inspect_err(|_| {
            // All of them are written again later.
            let _ = file.set_len(before);
        })
    }
}

/// The events that a daemon kept in `folder`, the oldest first. Lines that a crash or a full disk has cut are left out.
///
/// # Errors
/// When they cannot be read.
pub fn stored(folder: &Path) -> Result<Vec<EventView>, Failure> {
    let mut events = Vec::new();
    for path in [older(folder), newer(folder)] {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::Failed(format!("{} cannot be read: {error}", path.display()))),
        };
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        events.extend(lines.filter_map(|line| serde_json::from_slice::<EventView>(&line).ok()));
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_front::{Listener, Options, Server};

    /// A unit of systemd mounts /var, so fstab does not announce it: the events of the boot stayed in the folder that it hides.
    #[test]
    fn a_file_system_that_is_mounted_over_the_folder_has_the_events_from_before() {
        let folder = tempfile::tempdir().expect("a folder");
        // Another file system below the root's, in place of one that is mounted.
        let real = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let state = folder.path().join("state");
        let nbd = Listener::Unix(folder.path().join("nbd.sock"));
        let service = Service::new(Server::start(vec![nbd], Vec::new(), Options::default()).expect("a server")).expect("threads");
        let event = |text: &str| service.events().push(crate::view::plain_event("tank", "warning", text.into()));
        let told = |folder: &Path| stored(folder).expect("events").into_iter().map(|event| event.text).collect::<Vec<_>>();
        let file = keep(&service, &state).expect("a thread");
        event("one");
        file.finish(&service);
        assert_eq!(told(&state), ["one"]);
        fs::rename(&state, folder.path().join("hidden")).expect("a move");
        std::os::unix::fs::symlink(real.path(), &state).expect("a link");
        ["two", "three"].iter().for_each(|text| {
            event(text);
            file.finish(&service);
        });
        assert_eq!(told(real.path()), ["one", "two", "three"]);
    }

    #[test]
    fn a_line_that_was_cut_spoils_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = Record { folder: folder.path().join("state"), is_reported: false, written_to: Vec::new() };
        let event = crate::view::plain_event("tank", "warning", "one".into());
        record.try_write(std::slice::from_ref(&event)).expect("it has space");
        let path = newer(&record.folder);
        let half = fs::metadata(&path).expect("a file").len() - 9;
        OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(half)).expect("a cut");
        record.try_write(&[event.clone(), event]).expect("it has space");
        assert_eq!(stored(&record.folder).expect("events").len(), 2);
    }
}
