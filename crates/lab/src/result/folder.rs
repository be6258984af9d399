//! A run's folder: read as a whole, written piece by piece, so that an interruption at any moment loses one measurement at most.

use super::{FORMAT, Manifest, Note, Point, Record, ResultError, Series};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A run as it lies in its folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Where.
    pub folder: PathBuf,
    /// All about it.
    pub manifest: Manifest,
    /// Measurements in the order in which they were made.
    pub records: Vec<Record>,
    /// Notes in order.
    pub notes: Vec<Note>,
}

impl Run {
    /// Reads a run folder.
    ///
    /// # Errors
    /// When it is none, or of a newer program.
    pub fn open(folder: &Path) -> Result<Self, ResultError> {
        let path = folder.join("manifest.json");
        let manifest: Manifest = read_json(&path)?;
        if manifest.format > FORMAT {
            let problem = format!("format {} is newer than this program ({FORMAT}); use a newer stria", manifest.format);
            return Err(ResultError::Content { path, problem });
        }
        let records = read_lines(&folder.join("records.jsonl"))?;
        let notes = read_lines(&folder.join("notes.jsonl"))?;
        Ok(Self { folder: folder.to_path_buf(), manifest, records, notes })
    }

    /// Measurements that are results, by what they measure; each in the order of rounds.
    pub fn by_point(&self) -> BTreeMap<&Point, Vec<&Record>> {
        let mut points: BTreeMap<&Point, Vec<&Record>> = BTreeMap::new();
        for record in self.records.iter().filter(|record| !record.preparation) {
            points.entry(&record.point).or_default().push(record);
        }
        points
    }

    /// The series of a record, if one was taken.
    ///
    /// # Errors
    /// When it is named but not there.
    pub fn series(&self, record: &Record) -> Result<Option<Series>, ResultError> {
        record.series.as_ref().map(|name| read_json(&self.folder.join(name))).transpose()
    }
}

/// A run folder that is being written.
#[derive(Debug)]
pub struct RunWriter {
    folder: PathBuf,
    next_index: u32,
}

impl RunWriter {
    /// Makes the folder, which must not be there or be empty, with its manifest and the experiment's text.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(folder: &Path, manifest: &Manifest, experiment: &str) -> Result<Self, ResultError> {
        if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            let problem = "is not empty; name another folder, or use resume to go on with the run in it".into();
            return Err(ResultError::Content { path: folder.to_path_buf(), problem });
        }
        for name in ["raw", "series"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(io_error(&path))?;
        }
        let path = folder.join("experiment.toml");
        fs::write(&path, experiment).map_err(io_error(&path))?;
        let writer = Self { folder: folder.to_path_buf(), next_index: 0 };
        writer.save_manifest(manifest)?;
        Ok(writer)
    }

    /// Goes on with a folder: a broken last line is cut off.
    ///
    /// # Errors
    /// When it is no run folder.
    pub fn resume(folder: &Path) -> Result<(Self, Run), ResultError> {
        let run = Run::open(folder)?;
        rewrite(&folder.join("records.jsonl"), &run.records)?;
        rewrite(&folder.join("notes.jsonl"), &run.notes)?;
        let next_index = run.records.iter().map(|record| record.index + 1).max().unwrap_or(0);
        Ok((Self { folder: folder.to_path_buf(), next_index }, run))
    }

    /// Where it lies.
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

    /// Replaces the manifest as a whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save_manifest(&self, manifest: &Manifest) -> Result<(), ResultError> {
        write_whole(&self.folder.join("manifest.json"), &serde_json::to_vec_pretty(manifest).expect("plain data becomes JSON"))
    }

    /// Appends the records of one measurement, after its series; raw files are there already.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&mut self, records: &[Record], series: &Series) -> Result<(), ResultError> {
        for record in records {
            if let Some(name) = &record.series {
                write_whole(&self.folder.join(name), &serde_json::to_vec(series).expect("plain data becomes JSON"))?;
            }
            append_line(&self.folder.join("records.jsonl"), record)?;
            self.next_index = self.next_index.max(record.index + 1);
        }
        Ok(())
    }

    /// Replaces all records: some of an interrupted run do not count.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn rewrite_records(&self, records: &[Record]) -> Result<(), ResultError> {
        rewrite(&self.folder.join("records.jsonl"), records)
    }

    /// Appends a note.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, note: &Note) -> Result<(), ResultError> {
        append_line(&self.folder.join("notes.jsonl"), note)
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ResultError {
    move |source| ResultError::Io { path: path.to_path_buf(), source }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ResultError> {
    let bytes = fs::read(path).map_err(io_error(path))?;
    serde_json::from_slice(&bytes).map_err(|error| ResultError::Content { path: path.to_path_buf(), problem: error.to_string() })
}

/// Lines of JSON; a last line without an end is an interrupted write and left out.
fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, ResultError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(path)(error)),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(at, line)| {
        serde_json::from_str(line)
            .map_err(|error| ResultError::Content { path: path.to_path_buf(), problem: format!("line {}: {error}", at + 1) })
    };
    whole.lines().enumerate().map(parse).collect()
}

fn rewrite<T: Serialize>(path: &Path, items: &[T]) -> Result<(), ResultError> {
    let mut bytes = Vec::new();
    for item in items {
        serde_json::to_writer(&mut bytes, item).expect("plain data becomes JSON");
        bytes.push(b'\n');
    }
    write_whole(path, &bytes)
}

fn append_line<T: Serialize>(path: &Path, item: &T) -> Result<(), ResultError> {
    let mut line = serde_json::to_vec(item).expect("plain data becomes JSON");
    line.push(b'\n');
    let append = || {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(&line)?;
        file.sync_data()
    };
    append().map_err(io_error(path))
}

/// All or nothing: written aside, made durable, then put in place.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ResultError> {
    let aside = path.with_extension("new");
    let write = || {
        let mut file = File::create(&aside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&aside, path)
    };
    write().map_err(io_error(path))
}
