//! A run's folder: read completely, written piece by piece, so that an interruption at any moment loses at most one measurement.
//!
//! A folder may come from an untrusted source. Its content is data: [`super::inside`] reads and writes nothing outside of it, and
//! a file that is too large or holds impossible numbers is an error.

use super::inside;
use super::{FORMAT, Manifest, Note, Record, ResultError, Series};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most records, rounds and steps; a run has far fewer. Pages of several runs add their numbers.
const RECORDS_MAX: u32 = 1_000_000;

/// The most members and spans. An experiment has at most 256; a hardware array may have more.
pub(crate) const MEMBERS_MAX: u32 = 4096;
/// The deepest queue and the most threads, each. An experiment has fewer; fio's own results may have more.
pub(crate) const DEPTH_MAX: u32 = 1 << 20;
/// The largest requests: no program's are larger than the memory of a machine.
pub(crate) const BLOCK_BYTES_MAX: u64 = 1 << 40;

/// The content of a run's folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Where.
    pub folder: PathBuf,
    /// All about it.
    pub manifest: Manifest,
    /// Measurements in the order of their times.
    pub records: Vec<Record>,
    /// Notes in order.
    pub notes: Vec<Note>,
}

impl Run {
    /// Reads a run folder.
    ///
    /// # Errors
    /// It is not a run folder, or a newer program wrote it.
    pub fn open(folder: &Path) -> Result<Self, ResultError> {
        let path = folder.join("manifest.json");
        let manifest: Manifest = inside::read_json(folder, "manifest.json").map_err(|error| match error {
            ResultError::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                let problem = match folder.exists() {
                    true => "is not a run's folder, as it has no manifest.json; name a folder that `stria lab run`, `replay` or `import` wrote",
                    false => "there is no such folder; name one that `stria lab run`, `replay` or `import` wrote",
                };
                ResultError::Content { path: folder.to_path_buf(), problem: problem.into() }
            }
            other => other,
        })?;
        if manifest.format > FORMAT {
            let problem = format!("format {} is newer than this program ({FORMAT}); use a newer stria", manifest.format);
            return Err(ResultError::Content { path, problem });
        }
        let records: Vec<Record> = inside::read_lines(folder, "records.jsonl")?;
        let notes: Vec<Note> = inside::read_lines(folder, "notes.jsonl")?;
        let of_records = records.iter().flat_map(|record| [record.index, record.round, record.step]);
        let mut numbers = of_records.chain(notes.iter().filter_map(|note| note.record));
        if let Some(number) = numbers.find(|number| *number >= RECORDS_MAX) {
            let problem =
                format!("has a record, round or step with the number {number}, above the limit of {RECORDS_MAX}: measure anew");
            return Err(ResultError::Content { path: folder.to_path_buf(), problem });
        }
        let of_targets = manifest.targets.iter().map(|target| (target.members, target.spans, 1, 1));
        let of_points = records.iter().map(|Record { point, .. }| (point.members, point.spans, point.queue_depth, point.threads));
        let bounded = |(members, spans, depth, threads): (Option<u32>, Option<u32>, u32, u32)| {
            let numbers = [("members", members, MEMBERS_MAX), ("spans", spans, MEMBERS_MAX)].into_iter();
            let numbers = numbers.chain([("queue depth", Some(depth), DEPTH_MAX), ("threads", Some(threads), DEPTH_MAX)]);
            numbers.filter_map(|(what, number, most)| Some((what, number?, most))).find(|(_, number, most)| number > most)
        };
        if let Some((what, number, most)) = of_targets.chain(of_points).find_map(bounded) {
            let problem = format!("has a target or load with the {what} {number}, above the limit of {most}: measure anew");
            return Err(ResultError::Content { path: folder.to_path_buf(), problem });
        }
        if let Some(bytes) = records.iter().map(|record| record.point.block_bytes).find(|bytes| *bytes > BLOCK_BYTES_MAX) {
            let most = crate::units::show_size(BLOCK_BYTES_MAX);
            let problem = format!("has a load with requests of {bytes} bytes, above the limit of {most}: measure anew");
            return Err(ResultError::Content { path: folder.to_path_buf(), problem });
        }
        Ok(Self { folder: folder.to_path_buf(), manifest, records, notes })
    }

    /// The series of a record, if one was taken.
    ///
    /// # Errors
    /// It is named but missing, or its name is not one of this program's.
    pub fn series(&self, record: &Record) -> Result<Option<Series>, ResultError> {
        let Some(name) = &record.series else { return Ok(None) };
        if *name != RunWriter::series_name(record.index) {
            let problem =
                format!("record {} names \"{name}\" as its series: a series is in series/ under its number", record.index);
            return Err(ResultError::Content { path: self.folder.join("records.jsonl"), problem });
        }
        inside::read_json(&self.folder, name).map(Some)
    }
}

/// A run folder that is being written.
#[derive(Debug)]
pub struct RunWriter {
    folder: PathBuf,
    next_index: u32,
}

impl RunWriter {
    /// Makes the folder, which must be missing or empty, with its manifest and the experiment's text.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(folder: &Path, manifest: &Manifest, experiment: &str) -> Result<Self, ResultError> {
        if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            let problem = "is not empty; name another folder, or use resume to continue the run in it".into();
            return Err(ResultError::Content { path: folder.to_path_buf(), problem });
        }
        for name in ["raw", "series"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(inside::io_error(&path))?;
        }
        inside::write(folder, "experiment.toml", experiment.as_bytes())?;
        let writer = Self { folder: folder.to_path_buf(), next_index: 0 };
        writer.save_manifest(manifest)?;
        Ok(writer)
    }

    /// Continues a folder: a broken last line is cut off.
    ///
    /// # Errors
    /// When it is not a run folder, or contains a link or special file, through which fio and this program would write.
    pub fn resume(folder: &Path) -> Result<(Self, Run), ResultError> {
        inside::refuse_links(folder)?;
        let run = Run::open(folder)?;
        rewrite(folder, "records.jsonl", &run.records)?;
        rewrite(folder, "notes.jsonl", &run.notes)?;
        let next_index = run.records.iter().map(|record| record.index.saturating_add(1)).max().unwrap_or(0);
        Ok((Self { folder: folder.to_path_buf(), next_index }, run))
    }

    /// Its path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The index of the next record.
    pub fn next_index(&self) -> u32 {
        self.next_index
    }

    /// `raw/00012.json`, relative to the folder.
    pub fn raw_name(index: u32) -> String {
        format!("raw/{index:05}.json")
    }

    /// `series/00012.json`, relative to the folder.
    pub fn series_name(index: u32) -> String {
        format!("series/{index:05}.json")
    }

    /// Replaces the manifest in one step.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save_manifest(&self, manifest: &Manifest) -> Result<(), ResultError> {
        inside::write(&self.folder, "manifest.json", &serde_json::to_vec_pretty(manifest).expect("plain data becomes JSON"))
    }

    /// Appends the records of one measurement, after its series; raw files are there already.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&mut self, records: &[Record], series: &Series) -> Result<(), ResultError> {
        for record in records {
            if let Some(name) = &record.series {
                inside::write(&self.folder, name, &serde_json::to_vec(series).expect("plain data becomes JSON"))?;
            }
            inside::append(&self.folder, "records.jsonl", &line_of(record))?;
            self.next_index = self.next_index.max(record.index.saturating_add(1));
        }
        Ok(())
    }

    /// Replaces all records: some of an interrupted run do not count.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn rewrite_records(&self, records: &[Record]) -> Result<(), ResultError> {
        rewrite(&self.folder, "records.jsonl", records)
    }

    /// Appends a note.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, note: &Note) -> Result<(), ResultError> {
        inside::append(&self.folder, "notes.jsonl", &line_of(note))
    }
}

fn line_of<T: Serialize>(item: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(item).expect("plain data becomes JSON");
    line.push(b'\n');
    line
}

fn rewrite<T: Serialize>(folder: &Path, name: &str, items: &[T]) -> Result<(), ResultError> {
    inside::write(folder, name, &items.iter().flat_map(line_of).collect::<Vec<u8>>())
}
