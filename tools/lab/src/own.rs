//! The things that a run makes outside of its folder: files to measure, sockets, mount points, and the process of fio.
//!
//! A run's folder may come from an untrusted source, so no file in it decides what may be removed, ended or overwritten. A
//! private folder of this machine (made by mkdtemp, mode 0700) records that. It names the run's folder by device and inode
//! number:
//!
//! ```text
//!   /tmp/stria-lab-Xy12Zz/run         device and inode of the run's folder
//!                        /asked.json  files that the user had it make: resume makes no others
//!                        /made.jsonl  files that the run made, each with device and inode
//!                        /fio.pid     the fio that runs, with the time at which it began
//!                        /array       name and UUID of the array that the run made last
//!                        /control.sock, nbd.sock, md, mount/, export/
//!   RUN/own                           "stria-lab-Xy12Zz": where to look; believed only if all of the above agrees
//! ```
//! A folder that was copied, or made by another user, owns nothing.

use crate::result::{ResultError, inside};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A killed process ends within this time, unless the kernel keeps it in a request that hangs.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(10);
const PREFIX: &str = "stria-lab-";
/// In the run's folder: the name of the private one.
const POINTER: &str = "own";
/// In the private folder.
const RUN: &str = "run";
const ASKED: &str = "asked.json";
const MADE: &str = "made.jsonl";
const PID: &str = "fio.pid";
const ARRAY: &str = "array";

/// A file that this run made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// The time at which it was made, as its inode number may be reused later.
    born_ns: u64,
}

fn born_ns(metadata: &fs::Metadata) -> u64 {
    let born = metadata.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    born.map_or(0, |born| born.as_nanos() as u64)
}

impl Made {
    /// True if it is still that file, and no link to it.
    fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|now| {
            let same = now.dev() == self.device && now.ino() == self.inode && born_ns(&now) == self.born_ns;
            same && now.is_file() && now.nlink() == 1
        })
    }
}

/// The array that is on the drives of a run. The next array on the same drives replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptArray {
    name: String,
    uuid: String,
}

/// Records in a private folder that a target's array is on the drives from now on.
///
/// # Errors
/// It cannot be recorded.
pub fn keep_array(folder: &Path, name: &str, uuid: &str) -> Result<(), String> {
    let array = KeptArray { name: name.into(), uuid: uuid.into() };
    let path = folder.join(ARRAY);
    let written = fs::write(&path, serde_json::to_vec(&array).expect("plain data becomes JSON"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// The drives carry no array of the run any more.
///
/// # Errors
/// The record cannot be removed.
pub fn forget_array(folder: &Path) -> Result<(), String> {
    let path = folder.join(ARRAY);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

/// The private folder of a run.
#[derive(Debug)]
pub struct Own {
    folder: PathBuf,
    /// Files that the user had the run make.
    asked: Vec<PathBuf>,
    made: Vec<Made>,
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Device and inode of a folder, in words.
fn identity(folder: &Path) -> io::Result<String> {
    let metadata = fs::metadata(folder)?;
    Ok(format!("{} {}\n", metadata.dev(), metadata.ino()))
}

impl Own {
    /// Refuses a run that could have none.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn refuse_no_place() -> Result<(), String> {
        let place = std::env::temp_dir();
        tempfile::tempdir_in(&place).map(drop).map_err(|error| {
            let place = place.display();
            let cause = error.kind();
            format!("the run needs a folder of its own in {place}, which cannot be made: {cause}; set TMPDIR to another folder")
        })
    }

    /// Makes one for the run in a folder. `asked`: the files that the user had it make; a resumed run makes no others without
    /// being told, because a folder could name a place where a new file is obeyed, such as /etc/cron.d.
    ///
    /// # Errors
    /// There is no space for temporary files.
    pub fn create(run: &Path, asked: &[PathBuf]) -> Result<Self, ResultError> {
        let asked: Vec<PathBuf> = asked.iter().map(|path| absolute(path)).collect();
        let make = || {
            let mode = fs::Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new().prefix(PREFIX).permissions(mode).tempdir()?.keep();
            fs::write(folder.join(RUN), identity(run)?)?;
            fs::write(folder.join(ASKED), serde_json::to_vec(&asked)?)?;
            Ok(folder)
        };
        let path = std::env::temp_dir();
        let folder: PathBuf = make().map_err(|source| ResultError::Io { path, source })?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        inside::write(run, POINTER, name.as_bytes())?;
        Ok(Self { folder, asked, made: Vec::new() })
    }

    /// The private folder of the run in a folder, if it is on this machine and belongs to this user; otherwise a new one that
    /// owns nothing.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn find(run: &Path) -> Result<Self, ResultError> {
        Self::there(run).map_or_else(|| Self::create(run, &[]), Ok)
    }

    fn there(run: &Path) -> Option<Self> {
        let name = String::from_utf8(inside::read(run, POINTER, 64).ok()?).ok()?;
        let is_name = name.strip_prefix(PREFIX).is_some_and(|rest| rest.len() >= 6 && rest.chars().all(char::is_alphanumeric));
        let folder = std::env::temp_dir().join(is_name.then_some(name)?);
        let metadata = fs::symlink_metadata(&folder).ok()?;
        let is_private = metadata.is_dir()
            && metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.permissions().mode().trailing_zeros() >= 6;
        if !is_private || fs::read_to_string(folder.join(RUN)).ok()? != identity(run).ok()? {
            return None;
        }
        let lines = fs::read_to_string(folder.join(MADE)).unwrap_or_default();
        let made = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let asked = fs::read(folder.join(ASKED)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Some(Self { folder, asked, made })
    }

    /// The folder for sockets and mount points.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// True if the user had this run make the file.
    pub fn may_make(&self, path: &Path) -> bool {
        self.asked.contains(&absolute(path))
    }

    /// True if this run made the present file.
    pub fn owns(&self, path: &Path) -> bool {
        let path = absolute(path);
        self.made.iter().any(|made| made.path == path && made.is_there())
    }

    /// True if the file that this run made there is gone, or another has its place.
    pub fn lost(&self, path: &Path) -> bool {
        let path = absolute(path);
        let mut made = self.made.iter().filter(|made| made.path == path).peekable();
        made.peek().is_some() && !made.any(Made::is_there)
    }

    /// The UUID of a target's array, if that is the last one that the run made on its drives.
    pub fn array(&self, name: &str) -> Option<String> {
        let array: KeptArray = serde_json::from_slice(&fs::read(self.folder.join(ARRAY)).ok()?).ok()?;
        (array.name == name).then_some(array.uuid)
    }

    /// Makes a new file of holes.
    ///
    /// # Errors
    /// The path exists already, be it as a link, or the file cannot be made.
    pub fn make(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        let path = std::path::absolute(path)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let metadata = file.metadata()?;
        let made = Made { path, device: metadata.dev(), inode: metadata.ino(), born_ns: born_ns(&metadata) };
        let mut line = serde_json::to_vec(&made)?;
        line.push(b'\n');
        let mut list = OpenOptions::new().create(true).append(true).open(self.folder.join(MADE))?;
        list.write_all(&line)?;
        list.sync_data()?;
        self.made.push(made);
        file.set_len(bytes)
    }

    /// Records the fio that runs, or that it has ended.
    pub fn record_fio(&self, pid: Option<u32>) {
        let path = self.folder.join(PID);
        // Without the record a later run does not end it after a kill. That costs time and no data.
        let _ = match pid {
            Some(pid) => fs::write(path, format!("{pid} {}", began(pid).unwrap_or_default())),
            None => fs::remove_file(path),
        };
    }

    /// Ends a fio that a killed run left behind, if it is still that one.
    ///
    /// # Errors
    /// It does not end.
    pub fn end_left_fio(&self) -> Result<(), String> {
        let text = fs::read_to_string(self.folder.join(PID)).unwrap_or_default();
        let (pid, start) = text.split_once(' ').unwrap_or_default();
        let pid = pid.parse::<u32>().ok().filter(|pid| began(*pid).is_some_and(|now| now == start));
        if let Some(pid) = pid.and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            let killed = Instant::now();
            while fs::metadata(format!("/proc/{pid}/exe")).is_ok() {
                if killed.elapsed() > ENDS_WITHIN {
                    return Err(format!(
                        "fio (process {pid}) of this run was killed and does not end: a request hangs; see the kernel's log, free or \
                         replace the drive, then resume"
                    ));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.record_fio(None);
        Ok(())
    }

    /// Removes the files that the run made, as far as they are still those.
    pub fn remove_made(&mut self) {
        for made in self.made.drain(..).filter(Made::is_there) {
            let _ = fs::remove_file(&made.path);
        }
        let _ = File::create(self.folder.join(MADE));
    }

    /// Removes the private folder of a run that does not begin, unless it records a file or process.
    pub fn remove_if_empty(self) {
        if self.made.is_empty() && ["control.sock", "md", ARRAY].iter().all(|name| !self.folder.join(name).exists()) {
            self.remove();
        }
    }

    /// Removes the private folder with the files that a run leaves in it, and nothing else: mounted file systems stay.
    pub fn remove(self) {
        for name in [RUN, ASKED, MADE, PID, ARRAY, "md", "control.sock", "nbd.sock"] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        for name in ["mount", "export", ""] {
            let _ = fs::remove_dir(self.folder.join(name));
        }
    }
}

/// The time at which a process began, in ticks since the start of the machine, as its number may be reused later.
fn began(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    stat.rsplit(')').next()?.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        fs::create_dir(&run).expect("a folder");
        (folder, run)
    }

    #[test]
    fn what_a_run_made_is_found_again_and_nothing_else_is_removed() {
        let (folder, run) = run();
        let [own_file, taken, linked] = ["own", "taken", "linked"].map(|name| folder.path().join(name));
        let mut own = Own::create(&run, &[]).expect("made");
        assert_eq!(fs::metadata(own.folder()).expect("there").permissions().mode() & 0o777, 0o700);
        for file in [&own_file, &taken, &linked] {
            own.make(file, 4096).expect("made");
        }
        assert!(own.make(&own_file, 1).is_err(), "what is there is not made");
        // Another file replaces the second, and a link to a precious file the third.
        let precious = folder.path().join("precious");
        fs::write(&precious, "mine").expect("a file");
        fs::remove_file(&taken).and_then(|()| fs::write(&taken, "another")).expect("replaced");
        fs::remove_file(&linked).and_then(|()| std::os::unix::fs::symlink(&precious, &linked)).expect("replaced");
        drop(own);
        let mut again = Own::find(&run).expect("found");
        assert!(again.owns(&own_file) && !again.owns(&linked) && !again.owns(&precious));
        let private = again.folder().to_path_buf();
        again.remove_made();
        again.remove();
        assert!(!own_file.exists() && taken.exists() && linked.exists() && precious.exists());
        assert!(!private.exists());
    }

    #[test]
    fn a_copied_or_forged_folder_owns_nothing() {
        let (folder, run) = run();
        let file = folder.path().join("x.img");
        let mut own = Own::create(&run, &[]).expect("made");
        own.make(&file, 4096).expect("made");
        let copy = folder.path().join("copy");
        fs::create_dir(&copy).expect("a folder");
        fs::copy(run.join(POINTER), copy.join(POINTER)).expect("copied");
        let others = Own::find(&copy).expect("a new one");
        assert!(!others.owns(&file) && others.folder() != own.folder());
        others.remove();
        // A private folder that others may write to is not used.
        fs::set_permissions(own.folder(), fs::Permissions::from_mode(0o777)).expect("mine");
        let open = Own::find(&run).expect("a new one");
        assert!(!open.owns(&file));
        open.remove();
        for name in ["../../etc", "stria-lab-../x", "/etc", "stria-lab-"] {
            fs::write(copy.join(POINTER), name).expect("written");
            let own = Own::there(&copy);
            assert!(own.is_none(), "{name}");
        }
        own.remove();
    }
}
