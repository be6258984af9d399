//! Files inside a run's folder, which is not trusted.
//!
//! ```text
//!   a name        is relative and has no `..`; no part of it is a link, the last one is a plain file
//!   a size        is bounded before anything is allocated for it
//!   a number      is at most 10^18, so that sums of many stay finite and whole
//!   a replacement is a new file in the place of the old one: it is never written through a link
//! ```

use super::ResultError;
use rustix::fs::{Mode, OFlags, openat};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// A manifest, a series, or a raw file: a day of samples takes 10 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// All records or notes of a run: 20 KiB each with its histogram.
const LINES_BYTES_MAX: u64 = 1 << 30;
/// One of them.
const LINE_BYTES_MAX: usize = 4 << 20;
/// An exabyte, or 30 years of nanoseconds: no figure of a measurement is larger.
const NUMBER_MAX: f64 = 1e18;
/// Entries of a folder that is resumed: four for each measurement.
const ENTRIES_MAX: usize = 1_000_000;

pub(super) fn io_error(path: &Path) -> impl Fn(io::Error) -> ResultError {
    move |source| ResultError::Io { path: path.to_path_buf(), source }
}

fn content(path: &Path, problem: String) -> ResultError {
    ResultError::Content { path: path.to_path_buf(), problem }
}

/// Opens a file by its name in `folder`.
fn open(folder: &Path, name: &str, flags: OFlags) -> Result<File, ResultError> {
    let path = folder.join(name);
    let failed = |error: rustix::io::Errno| match error {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => {
            content(&path, "is a link, or is behind one: a run's files must be in its own folder".into())
        }
        error => io_error(&path)(error.into()),
    };
    let parts: Vec<Component> = Path::new(name).components().collect();
    if parts.is_empty() || parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(content(&path, "leads out of the run's folder".into()));
    }
    let enter = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    // The folder itself may be reached by a link: the user named it.
    let mut at = rustix::fs::open(folder, enter, Mode::empty()).map_err(|error| io_error(folder)(error.into()))?;
    for part in &parts[..parts.len() - 1] {
        at = openat(&at, part.as_os_str(), enter | OFlags::NOFOLLOW, Mode::empty()).map_err(failed)?;
    }
    // A pipe must not block this program.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File = openat(&at, parts[parts.len() - 1].as_os_str(), flags, Mode::from_raw_mode(0o644)).map_err(failed)?.into();
    match file.metadata().map_err(io_error(&path))?.is_file() {
        true => Ok(file),
        false => Err(content(&path, "is not a plain file".into())),
    }
}

/// The text of a small file.
pub(crate) fn read(folder: &Path, name: &str, bytes_max: u64) -> Result<Vec<u8>, ResultError> {
    let path = folder.join(name);
    let mut bytes = Vec::new();
    open(folder, name, OFlags::RDONLY)?.take(bytes_max + 1).read_to_end(&mut bytes).map_err(io_error(&path))?;
    match bytes.len() as u64 > bytes_max {
        true => Err(content(&path, format!("is larger than {}, more than any run writes", crate::units::show_size(bytes_max)))),
        false => Ok(bytes),
    }
}

pub(super) fn read_json<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<T, ResultError> {
    let bytes = read(folder, name, FILE_BYTES_MAX)?;
    sound(&bytes).map_err(|problem| content(&folder.join(name), problem))
}

/// Lines of JSON, none if there is no such file; a last line without an end is an interrupted write and left out.
pub(super) fn read_lines<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Vec<T>, ResultError> {
    let path = folder.join(name);
    let file = match open(folder, name, OFlags::RDONLY) {
        Ok(file) => file,
        Err(ResultError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    if file.metadata().map_err(io_error(&path))?.len() > LINES_BYTES_MAX {
        let most = crate::units::show_size(LINES_BYTES_MAX);
        return Err(content(&path, format!("is larger than {most}, more than any run writes")));
    }
    let mut file = BufReader::with_capacity(1 << 20, file.take(LINES_BYTES_MAX));
    let (mut items, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        (&mut file).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line).map_err(io_error(&path))?;
        if line.len() == LINE_BYTES_MAX {
            return Err(content(&path, format!("line {number} is longer than 4 MiB, more than any run writes")));
        }
        if line.pop() != Some(b'\n') {
            break;
        }
        items.push(sound(&line).map_err(|problem| content(&path, format!("line {number}: {problem}")))?);
    }
    Ok(items)
}

/// JSON without numbers that no measurement has.
pub(crate) fn sound<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if let Some(number) = impossible(&value) {
        return Err(format!("{number} is not a figure of a measurement: figures are at most 10^18"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn impossible(value: &Value) -> Option<&Value> {
    match value {
        Value::Number(number) => (number.as_f64().is_none_or(|number| number.abs() > NUMBER_MAX)).then_some(value),
        Value::Array(values) => values.iter().find_map(impossible),
        Value::Object(values) => values.values().find_map(impossible),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// All or nothing: written to a temporary file, made durable, then renamed over the old file.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), ResultError> {
    let path = folder.join(name);
    let within = path.parent().unwrap_or(folder);
    if within != folder && fs::symlink_metadata(within).is_ok_and(|metadata| !metadata.is_dir()) {
        return Err(content(within, "is not a folder of this run's own".into()));
    }
    let write = || {
        let mut file = new_file(within)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        file.persist(&path).map(|_| ()).map_err(|error| error.error)
    };
    write().map_err(io_error(&path))
}

/// A temporary file that is renamed when it is complete.
fn new_file(within: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(".new-").permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644)).tempfile_in(within)
}

/// The folder of a path; `.` for a bare name.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// Writes a page, table or chart. In a run's folder, and in a folder of that, it replaces a file, link or pipe of its name; the
/// inner folder must not be a link. Elsewhere the user gave the name: it is followed, and may be a pipe.
pub(crate) fn output(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let within = folder_of(path).unwrap_or(Path::new("."));
    let is_run = |folder: &Path| fs::symlink_metadata(folder.join("manifest.json")).is_ok();
    let in_folder_of_run = folder_of(within).is_some_and(is_run);
    if !is_run(within) && !in_folder_of_run {
        return write(&mut File::create(path)?);
    }
    if in_folder_of_run && fs::symlink_metadata(within)?.is_symlink() {
        let words =
            format!("{} is a link in a run's folder, and may lead anywhere: remove it, or name another folder", within.display());
        return Err(io::Error::other(words));
    }
    let mut file = new_file(within)?;
    write(file.as_file_mut())?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

pub(super) fn append(folder: &Path, name: &str, line: &[u8]) -> Result<(), ResultError> {
    let mut file = open(folder, name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
    file.write_all(line).and_then(|()| file.sync_data()).map_err(io_error(&folder.join(name)))
}

/// Creates or truncates a file, for the output of other programs.
pub(crate) fn create(folder: &Path, name: &str) -> Result<File, ResultError> {
    open(folder, name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)
}

/// Opens a file without changing it, and makes it if it does not exist.
pub(crate) fn touch(folder: &Path, name: &str) -> Result<File, ResultError> {
    open(folder, name, OFlags::RDWR | OFlags::CREATE)
}

/// Refuses a folder that contains a link (of either kind) or a special file. fio writes logs by name, and would follow them.
pub(super) fn refuse_links(folder: &Path) -> Result<(), ResultError> {
    let mut seen = 0;
    for within in [folder.to_path_buf(), folder.join("raw"), folder.join("series")] {
        if within != folder && fs::symlink_metadata(&within).map_or(true, |metadata| !metadata.is_dir()) {
            return Err(content(&within, "is not a folder of this run's own: the run cannot continue".into()));
        }
        for entry in fs::read_dir(&within).map_err(io_error(&within))? {
            let path = entry.map_err(io_error(&within))?.path();
            let metadata = fs::symlink_metadata(&path).map_err(io_error(&path))?;
            let is_own = metadata.is_dir() || metadata.is_file() && metadata.nlink() == 1;
            if !is_own {
                let problem = "is a link or no plain file, and a resumed run might write through it: remove it, or measure anew";
                return Err(content(&path, problem.into()));
            }
            seen += 1;
            if seen > ENTRIES_MAX {
                return Err(content(&within, format!("has more than {ENTRIES_MAX} files, more than any run writes")));
            }
        }
    }
    Ok(())
}
