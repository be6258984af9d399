//! The file of acknowledged alarms: a restart of the daemon knows them. `serve` has no folder, and forgets them at its end.

use super::{Condition, Tracker};
use crate::system::atomic_file::replace;
use crate::system::mounts::{Source, awaited};
use crate::words::alarm::AlarmSentence;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stria_alarm::{Acknowledged, Acknowledgement};

/// The pause before a disk that did not take the file is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    cause: Condition,
    /// How bad it was. Absent: another version wrote it, and the alarm speaks again.
    #[serde(default, deserialize_with = "stria_sentence::if_known")]
    said: Option<AlarmSentence>,
    acknowledged: Acknowledgement,
    /// The array, if it is about one. Absent: another version wrote it, and a rename of the array ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    array_uuid: Option<String>,
}

impl From<Acknowledged<AlarmSentence>> for Line {
    fn from(known: Acknowledged<AlarmSentence>) -> Self {
        let Acknowledged { cause, acknowledgement, array_uuid } = known;
        Self { said: cause.said.clone(), cause, acknowledged: acknowledgement, array_uuid }
    }
}

impl From<Line> for Acknowledged<AlarmSentence> {
    fn from(line: Line) -> Self {
        let Line { cause, said, acknowledged, array_uuid } = line;
        Self { cause: Condition { said, ..cause }, acknowledgement: acknowledged, array_uuid }
    }
}

/// The file.
pub struct Store {
    path: PathBuf,
    /// Where it was read; `None`: it was not read yet.
    source: Option<Source>,
    written: Vec<Line>,
    failed: Option<Instant>,
}

impl Store {
    /// The file in this folder, which is read when its file system is mounted.
    pub fn new(folder: &Path) -> Self {
        Self { path: folder.join("acknowledged.json"), source: None, written: Vec::new(), failed: None }
    }

    fn folder(&self) -> &Path {
        self.path.parent().expect("it is in a folder")
    }

    /// Reads the file, if that is due.
    pub fn read_into(&mut self, tracker: &mut Tracker) {
        let now = Source::of(self.folder());
        let is_due = match &mut self.source {
            Some(source) => source.follow(now),
            None => now != Source::Awaited,
        };
        self.source = Some(now);
        if !is_due {
            return;
        }
        match fs::read(&self.path).and_then(|text| Ok(serde_json::from_slice::<Vec<serde_json::Value>>(&text)?)) {
            Ok(lines) => {
                // A line of another version, about an event that is unknown here, is left out.
                self.written = lines.into_iter().filter_map(|line| serde_json::from_value(line).ok()).collect();
                tracker.restore(self.written.iter().cloned().map(Into::into));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = self.path.display();
                tracing::warn!("{path} cannot be read ({error}): alarms that were acknowledged before this start speak again");
            }
        }
    }

    /// Writes the file, if anything has changed.
    pub fn write(&mut self, tracker: &Tracker) {
        let lines: Vec<Line> = tracker.acknowledged().into_iter().map(Into::into).collect();
        let is_late = self.failed.is_some_and(|at| at.elapsed() < AGAIN_AFTER);
        let is_read = matches!(self.source, Some(Source::On(_)));
        if lines == self.written || is_late || !is_read || awaited(self.folder()).is_some() {
            return;
        }
        let text = serde_json::to_string_pretty(&lines).expect("alarms are plain data");
        let made = DirBuilder::new().recursive(true).mode(0o755).create(self.folder()).map_err(|error| error.to_string());
        match made.and_then(|()| replace(&self.path, &(text + "\n")).map_err(|failure| failure.to_string())) {
            Ok(()) => (self.written, self.failed) = (lines, None),
            Err(error) => {
                if self.failed.is_none() {
                    tracing::warn!("acknowledged alarms cannot be stored, so a restart of the daemon repeats them: {error}");
                }
                self.failed = Some(Instant::now());
            }
        }
    }
}
