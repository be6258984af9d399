//! The folder of a campaign: jobs, claims and answers as files, so that any number of processes and machines may work on it.
//!
//! ```text
//!   DIR/jobs.txt            a job a line, as on the command line: advise --drives 8xp4510 --purpose vm; # begins a comment
//!   DIR/claims/00001        empty; the process that carries out job 1 holds a lock (flock) on it
//!   DIR/answers/00001.json  the job's line, the files that it names, the program's version and the answer; written as 00001.part and renamed
//! ```
//! The kernel drops a lock when its process ends, however that ends, so no claim outlives its process. An answer counts only if
//! it is of the same line, version and content of files ([`super::inputs`]): after one of them was changed the job is carried out
//! again. A broken answer counts as none.

use super::inputs::Inputs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use stria_terminal::Failure;

/// 1 MiB, and 10,000 jobs: far more than a campaign takes in a week.
const JOBS_BYTES_MAX: u64 = 1 << 20;
const JOBS_MAX: usize = 10_000;
/// 16 MiB: an answer takes some KiB.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The folder.
pub struct Folder(PathBuf);

/// What lies in `answers`.
#[derive(Serialize, Deserialize)]
pub struct Answer {
    /// The line.
    pub job: String,
    /// `stria 0.1.0`.
    program: String,
    /// The content of the files that the line names, as it was when the job began.
    #[serde(default)]
    inputs: Inputs,
    /// What the job would have printed as JSON; of a failure its exit code and sentence, as commands print them.
    pub answer: Value,
}

impl Answer {
    /// The answer of a job by this program.
    pub fn new(job: &str, inputs: &Inputs, answer: Value) -> Self {
        Self { job: job.to_owned(), program: VERSION.to_owned(), inputs: inputs.clone(), answer }
    }

    /// The sentence of a job that failed.
    pub fn failure(&self) -> Option<&str> {
        self.answer["error"]["message"].as_str()
    }
}

const VERSION: &str = concat!("stria ", env!("CARGO_PKG_VERSION"));

/// A job that this process carries out, until it is dropped.
pub struct Claim {
    _lock: File,
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

fn read(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    file.take(bytes_max + 1).read_to_string(&mut text)?;
    match text.len() as u64 > bytes_max {
        true => Err(std::io::Error::other(format!("it is larger than {} MiB", bytes_max >> 20))),
        false => Ok(text),
    }
}

impl Folder {
    /// The folder, with its jobs.
    ///
    /// # Errors
    /// Usage, if there are none; failed, if nothing can be written beside them.
    pub fn open(path: &Path) -> Result<(Self, Vec<String>), Failure> {
        let list = path.join("jobs.txt");
        let text = read(&list, JOBS_BYTES_MAX).map_err(|error| {
            let sentence = "a campaign's jobs stand there, one a line: advise --drives 8xp4510 --purpose vm";
            Failure::Usage(format!("cannot read {} ({error}): {sentence}", list.display()))
        })?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let jobs: Vec<String> = lines.map(str::to_owned).collect();
        if jobs.is_empty() || jobs.len() > JOBS_MAX {
            return Err(Failure::Usage(format!("{} has {} jobs: write 1 to {JOBS_MAX}, one a line", list.display(), jobs.len())));
        }
        for folder in ["claims", "answers"] {
            let folder = path.join(folder);
            std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
        }
        Ok((Self(path.to_owned()), jobs))
    }

    fn answer_path(&self, index: usize, ending: &str) -> PathBuf {
        self.0.join("answers").join(format!("{:05}.{ending}", index + 1))
    }

    /// The answer of a job, if there is one.
    pub fn answer(&self, index: usize, job: &str, inputs: &Inputs) -> Option<Answer> {
        let text = read(&self.answer_path(index, "json"), ANSWER_BYTES_MAX).ok()?;
        let answer: Answer = serde_json::from_str(&text).ok()?;
        (answer.job == job && answer.program == VERSION && answer.inputs == *inputs).then_some(answer)
    }

    /// Claims a job; `None` if another process carries it out.
    ///
    /// # Errors
    /// Failed, if claims cannot be written or locked here.
    pub fn claim(&self, index: usize) -> Result<Option<Claim>, Failure> {
        let path = self.0.join("claims").join(format!("{:05}", index + 1));
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(|error| failed(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Claim { _lock: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&path, format!("{error}: a campaign needs a file system with locks"))),
        }
    }

    /// Keeps the answer of a claimed job.
    ///
    /// # Errors
    /// Failed, if it cannot be written.
    pub fn keep(&self, index: usize, answer: &Answer, _claim: &Claim) -> Result<(), Failure> {
        let (part, path) = (self.answer_path(index, "part"), self.answer_path(index, "json"));
        let text = serde_json::to_string_pretty(answer).expect("plain data becomes JSON");
        std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path)).map_err(|error| failed(&path, error))
    }
}
