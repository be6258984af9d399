//! Events on disk: one line of JSON each, in two files of bounded size, so that what happened before a restart can be read after it.

use crate::api::EventView;
use crate::service::Service;
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

fn newer(folder: &Path) -> PathBuf {
    folder.join("events.jsonl")
}

fn older(folder: &Path) -> PathBuf {
    folder.join("events.1.jsonl")
}

/// The thread that keeps events.
pub struct Recorder {
    /// The last event that it has written, or given up.
    written: Arc<AtomicU64>,
}

/// Keeps every event of the service in `folder` from now on, as long as the service lives. A disk that takes none is reported once; the
/// arrays go on.
pub fn keep(service: &Arc<Service>, folder: &Path) -> Recorder {
    let mut record = Record { folder: folder.to_owned(), file: None, is_reported: false };
    let (watched, written) = (Arc::downgrade(service), Arc::<AtomicU64>::default());
    let last = Arc::clone(&written);
    // A receipt only says that there is something: the service stores more than a receiver may lag behind.
    let (_, mut live) = service.events().listen(0);
    let work = move || {
        loop {
            let Some(service) = watched.upgrade() else { return };
            let events = service.events().since(last.load(Ordering::SeqCst));
            drop(service);
            record.write(&events);
            if let Some(event) = events.last() {
                last.store(event.sequence, Ordering::SeqCst);
            }
            if matches!(live.blocking_recv(), Err(RecvError::Closed)) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("record".into()).spawn(work).expect("a process that starts has room for a thread");
    Recorder { written }
}

impl Recorder {
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
    file: Option<File>,
    is_reported: bool,
}

impl Record {
    fn write(&mut self, events: &[EventView]) {
        match self.try_write(events) {
            Ok(()) => self.is_reported = false,
            Err(error) => {
                self.file = None;
                if !std::mem::replace(&mut self.is_reported, true) {
                    let folder = self.folder.display();
                    tracing::warn!("events are not kept in {folder}: {error}; the log of this process has them");
                }
            }
        }
    }

    fn try_write(&mut self, events: &[EventView]) -> io::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        if self.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|file| file.len() >= FILE_BYTES_MAX)) {
            self.file = None;
            fs::rename(newer(&self.folder), older(&self.folder))?;
        }
        if self.file.is_none() {
            DirBuilder::new().recursive(true).mode(0o755).create(&self.folder)?;
            let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o640).open(newer(&self.folder))?;
            // A crash or a full disk may have cut the last line.
            let mut end = [b'\n'];
            if file.metadata()?.len() > 0 {
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut end)?;
            }
            if end != *b"\n" {
                file.write_all(b"\n")?;
            }
            self.file = Some(file);
        }
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        // One write: a line is never torn by another, and by a full disk only at its end.
        self.file.as_mut().expect("it was just opened").write_all(&lines)
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
