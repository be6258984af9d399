//! What each level would make of drives that are chosen: by the planner where it is installed and knows the drives, by law
//! otherwise.
//!
//! The planner is a program of its own, `stria-plan`. Its answers are the same every time, so they are kept. On a busy machine one
//! may take minutes. Then the request is answered with `later`, and the planner goes on.

use super::drives;
use super::machine::Machine;
use crate::api::{ApiError, ApiErrorKind};
use crate::words::error::ErrorSentence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_block::NO_THREAD;
use stria_terminal::program;

/// The planner has so long for an answer.
const PATIENCE: Duration = Duration::from_secs(600);
/// The planner has so long to tell its catalogue, which it reads from no drive.
const CATALOGUE_PATIENCE: Duration = Duration::from_secs(25);
/// A request waits for so long before it is answered with `later`.
const WAIT: Duration = Duration::from_secs(10);
/// Answers that are kept.
const KEPT_MAX: usize = 64;
/// The most drives that are planned with.
const DRIVES_MAX: usize = 64;

/// What is to be forecast.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForecastRequest {
    /// The drives that would be members.
    pub drives: Vec<String>,
    /// Spares beside them.
    #[serde(default)]
    pub spares: usize,
    /// The drive of the planner's catalogue that they are taken for; by their model if not given.
    #[serde(default)]
    pub like: Option<String>,
    /// `database`, `vm`, `media`, `backup` or `desktop`; `vm` if not given.
    #[serde(default)]
    pub purpose: Option<String>,
}

/// A drive that the planner knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct KnownDrive {
    /// Its key, for `like`.
    pub key: String,
    /// Its name.
    pub name: String,
}

/// What one level makes of the drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelForecast {
    /// `0`, `1`, `5`, `6`, `10`.
    pub level: String,
    /// Requests of the purpose a second.
    pub requests_per_s: f64,
    /// Bytes of them.
    pub bytes_per_s: f64,
    /// The mean time of a request.
    pub mean_us: f64,
    /// The time that 99 of 100 reads do not exceed.
    pub read_p99_us: Option<f64>,
    /// The speed with one drive missing, as a share of the speed with all.
    pub degraded_share: Option<f64>,
    /// The time to fill a spare while clients are idle.
    pub rebuild_s: Option<f64>,
    /// Bytes written to drives for each byte of clients.
    pub wear: f64,
    /// The probability that any data are lost within a year.
    pub loss_per_year: f64,
    /// The strip that was best.
    pub strip_bytes: Option<u64>,
}

/// What each level makes of the drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecasts {
    /// True: the planner's models say it. False: nothing but laws is known, for the reason in `text`.
    pub by_plan: bool,
    /// True: the planner is at work. Ask again.
    pub later: bool,
    /// The drive and purpose that the models are of, or why there are none.
    pub text: String,
    /// The drive of the catalogue that was taken.
    pub like: Option<String>,
    /// Drives that the planner knows.
    pub known: Vec<KnownDrive>,
    /// Each level that was planned.
    pub levels: Vec<LevelForecast>,
}

/// Levels of a forecast, or why there are none.
type Answer = Result<Vec<LevelForecast>, String>;

/// What the planner knows by itself.
#[derive(Clone, Debug, PartialEq)]
struct Catalogue {
    drives: Vec<KnownDrive>,
    /// Parts of model names with the keys of their drives.
    models: Vec<(String, String)>,
}

/// The planner's answers.
pub struct Planner {
    program: PathBuf,
    catalogue: Mutex<Option<Catalogue>>,
    work: Arc<Work>,
}

/// What the planner is at.
#[derive(Default)]
struct Work {
    state: Mutex<WorkState>,
    /// An answer has come.
    answered: Condvar,
}

#[derive(Default)]
struct WorkState {
    /// The wish that the planner works on. It takes a processor for many seconds, and every viewer may order one, so there is
    /// one at a time.
    at: Option<String>,
    /// Reasons are told once, and the planner is tried again when somebody asks again.
    answers: BTreeMap<String, Answer>,
}

fn laws(text: String, known: Vec<KnownDrive>) -> Forecasts {
    Forecasts { by_plan: false, later: false, text, like: None, known, levels: Vec::new() }
}

/// What each level would make of these drives.
///
/// # Errors
/// When the request makes no sense.
pub fn forecast(planner: &Planner, machine: &Machine, wish: &ForecastRequest) -> Result<Forecasts, ApiError> {
    let invalid = |text: String| ApiError::new(ApiErrorKind::Invalid, text);
    let purpose = wish.purpose.as_deref().unwrap_or("vm");
    if !["database", "vm", "media", "backup", "desktop"].contains(&purpose) {
        return Err(invalid(format!("{purpose:?} is not a purpose: database, vm, media, backup or desktop")));
    }
    if wish.drives.is_empty() || wish.drives.len() > DRIVES_MAX || wish.spares > DRIVES_MAX {
        return Err(ApiError::new(ApiErrorKind::Invalid, ErrorSentence::ForecastCount { most: DRIVES_MAX }));
    }
    let Catalogue { drives: known, models } = match planner.catalogue() {
        Ok(catalogue) => catalogue,
        Err(text) => return Ok(laws(text, Vec::new())),
    };
    let pages = drives::pages(drives::paths(&machine.keeper.config().daemon), &machine.entries(false), &[], &[]);
    let model_of = |path: &String| pages.iter().find(|page| page.path == *path).and_then(|page| page.model.clone());
    let mut own: Vec<Option<&str>> = wish
        .drives
        .iter()
        .map(|path| {
            let model = model_of(path)?;
            models.iter().find(|(part, _)| model.contains(part.as_str())).map(|(_, key)| key.as_str())
        })
        .collect();
    own.dedup();
    let like = match (&wish.like, &own[..]) {
        (Some(like), _) if known.iter().any(|drive| drive.key == *like) => like.clone(),
        (Some(like), _) => return Err(invalid(format!("the planner knows no drive {like:?}"))),
        (None, [Some(key)]) => (*key).to_owned(),
        (None, _) => return Ok(laws("the planner's catalogue has no model of these drives".into(), known)),
    };
    let name = known.iter().find(|drive| drive.key == like).map_or_else(String::new, |drive| drive.name.clone());
    Ok(match planner.advise(wish.drives.len(), &like, wish.spares, purpose, WAIT) {
        Some(Ok(levels)) => Forecasts { by_plan: true, later: false, text: name, like: Some(like), known, levels },
        Some(Err(text)) => laws(text, known),
        None => Forecasts { later: true, ..laws("the planner is at work: ask again".into(), known) },
    })
}

impl Default for Planner {
    fn default() -> Self {
        Self { program: program::find("stria-plan"), catalogue: Mutex::default(), work: Arc::default() }
    }
}

impl Planner {
    fn catalogue(&self) -> Result<Catalogue, String> {
        let mut kept = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(catalogue) = kept.as_ref() {
            return Ok(catalogue.clone());
        }
        let answer = run(&self.program, &["catalogue", "--json"], CATALOGUE_PATIENCE)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let drives = answer["drives"].as_array().map(Vec::as_slice).unwrap_or_default();
        let known = drives.iter().filter_map(|one| Some(KnownDrive { key: text(&one["key"])?, name: text(&one["name"])? }));
        let models = drives.iter().flat_map(|one| {
            let parts = one["models"].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().filter_map(|part| Some((text(part)?, text(&one["key"])?)))
        });
        Ok(kept.insert(Catalogue { drives: known.collect(), models: models.collect() }).clone())
    }

    /// The answer to a wish; none if it has not come after `wait`, or the planner works on another wish.
    fn advise(&self, drives: usize, like: &str, spares: usize, purpose: &str, wait: Duration) -> Option<Answer> {
        // The planner's count has the spares in it.
        let (all, spares) = (format!("{}x{like}", drives + spares), spares.to_string());
        let wish = format!("{all} {spares} {purpose}");
        let mut state = self.work.state();
        if let Some(answer) = state.told(&wish) {
            return Some(answer);
        }
        if state.at.is_none() {
            let arguments = ["advise", "--json", "--drives", &all, "--spares", &spares, "--purpose", purpose];
            let arguments = [&arguments[..], &["--survive", "0", "--strip", "64K", "--requests", "3000"]].concat();
            if let Err(reason) = self.start(&wish, arguments.into_iter().map(str::to_owned).collect()) {
                return Some(Err(reason));
            }
            state.at = Some(wish.clone());
        }
        let is_at_it = |state: &mut WorkState| state.at.as_ref() == Some(&wish);
        let waited = self.work.answered.wait_timeout_while(state, wait, is_at_it);
        waited.unwrap_or_else(PoisonError::into_inner).0.told(&wish)
    }

    /// Lets the planner work on a wish, whether or not somebody waits for it.
    fn start(&self, wish: &str, arguments: Vec<String>) -> Result<(), String> {
        let (program, work, wish) = (self.program.clone(), Arc::clone(&self.work), wish.to_owned());
        let labour = move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let answer = run(&program, &arguments, PATIENCE).map(|answer| levels(&answer));
            let mut state = work.state();
            if state.answers.len() >= KEPT_MAX {
                state.answers.pop_first();
            }
            state.answers.insert(wish, answer);
            state.at = None;
            work.answered.notify_all();
        };
        std::thread::Builder::new().name("planner".into()).spawn(labour).map(drop).map_err(|error| without_thread(&error))
    }
}

impl Work {
    fn state(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkState {
    fn told(&mut self, wish: &str) -> Option<Answer> {
        match self.answers.get(wish)? {
            Ok(levels) => Some(Ok(levels.clone())),
            Err(_) => self.answers.remove(wish),
        }
    }
}

fn without_thread(error: &std::io::Error) -> String {
    format!("cannot start a thread for the planner's answer: {error}; {NO_THREAD}")
}

/// The plain levels of an answer; levels of spans are made by the command line.
fn levels(answer: &Value) -> Vec<LevelForecast> {
    let number = |value: &Value| value.as_f64();
    let one = |row: &Value| {
        let level = row["level"].as_str()?.strip_prefix("RAID ")?;
        let (load, speed) = (&row["loads"][0], number(&row["speed"])?);
        ["0", "1", "5", "6", "10"].contains(&level).then_some(())?;
        Some(LevelForecast {
            level: level.to_owned(),
            requests_per_s: number(&load["iops"])?,
            bytes_per_s: number(&load["bytes_per_s"])?,
            mean_us: number(&load["mean_us"])?,
            read_p99_us: number(&load["read_p99_us"]),
            degraded_share: number(&row["degraded_speed"]).map(|degraded| degraded / speed),
            rebuild_s: number(&row["rebuild_hours"]).map(|hours| hours * 3600.0),
            wear: number(&row["wear"]["drive_bytes_per_client_byte"])?,
            loss_per_year: number(&row["simulated_loss"]["per_year"])?,
            strip_bytes: row["strip_kib"].as_u64().map(|kib| kib << 10),
        })
    };
    answer["ranking"].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(one).collect()
}

/// Runs the planner, within bounds. It has the low priority of the API's threads.
fn run(program: &Path, arguments: &[&str], patience: Duration) -> Result<Value, String> {
    let mut planner = Command::new(program);
    let planner = planner.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = planner.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the planner, stria-plan, is not installed on this machine".to_owned(),
        _ => format!("{} does not start: {error}", program.display()),
    })?;
    let mut pipe = child.stdout.take().expect("it was asked for");
    let read = move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut pipe, &mut text).map(|_| text)
    };
    let reader = std::thread::Builder::new().name("forecast".into()).spawn(read).map_err(|error| {
        let _ = child.kill();
        let _ = child.wait();
        without_thread(&error)
    })?;
    let end = Instant::now() + patience;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the planner gave no answer within {} s", patience.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    serde_json::from_str(&text).map_err(|_| "the planner gave no answer for these drives".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A planner that counts its starts and answers when `go` is there.
    fn slow_planner(folder: &Path) -> Planner {
        let script = "#!/bin/sh\ncd \"${0%/*}\"\necho >> starts\nuntil [ -e go ]; do sleep 0.01; done\ncat go\n";
        let program = folder.join("planner");
        // A file that this process wrote itself is busy while a child of another test has it open.
        let write =
            Command::new("sh").args(["-c", "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", script]).arg(&program).status();
        assert!(write.expect("a shell").success());
        Planner { program, catalogue: Mutex::default(), work: Arc::default() }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_forecast_goes_on_after_whoever_asked_is_told_to_ask_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let planner = slow_planner(folder.path());
        let ask = |drives, wait| planner.advise(drives, "x", 0, "vm", wait);
        for _ in 0..3 {
            assert_eq!(ask(3, Duration::from_millis(30)), None);
        }
        // Another wish waits for its turn, and is told so at once.
        assert_eq!(ask(4, LONG), None);
        std::fs::write(folder.path().join("answer"), r#"{"ranking": []}"#).expect("an answer");
        std::fs::rename(folder.path().join("answer"), folder.path().join("go")).expect("all of it at once");
        for _ in 0..2 {
            assert_eq!(ask(3, LONG), Some(Ok(Vec::new())));
        }
        assert_eq!(ask(4, LONG), Some(Ok(Vec::new())));
        let starts = std::fs::read_to_string(folder.path().join("starts")).expect("it was started");
        assert_eq!(starts.len(), 2, "each wish started it once");
    }

    #[test]
    fn a_reason_is_told_once_and_then_the_planner_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let planner = slow_planner(folder.path());
        let ask = || planner.advise(3, "x", 0, "vm", LONG);
        std::fs::write(folder.path().join("go"), "no JSON").expect("an answer");
        assert_eq!(ask(), Some(Err("the planner gave no answer for these drives".into())));
        std::fs::write(folder.path().join("go"), r#"{"ranking": []}"#).expect("an answer");
        assert_eq!(ask(), Some(Ok(Vec::new())));
        let absent = Planner { program: folder.path().join("absent"), ..Planner::default() };
        assert_eq!(absent.catalogue(), Err("the planner, stria-plan, is not installed on this machine".into()));
    }

    #[test]
    fn an_answer_of_the_planner_is_read_level_by_level() {
        let load = json!({"iops": 1000.0, "bytes_per_s": 4.0e6, "mean_us": 150.0, "read_p99_us": null});
        let row = |level: &str| {
            json!({"level": level, "speed": 2.0, "degraded_speed": 1.5, "rebuild_hours": 0.5, "strip_kib": 64, "loads": [load],
                "wear": {"drive_bytes_per_client_byte": 2.1}, "simulated_loss": {"per_year": 1e-6}})
        };
        let found = levels(&json!({"ranking": [row("RAID 10"), row("RAID 50 of 2 spans"), row("RAID 6")]}));
        assert_eq!(found.iter().map(|one| &*one.level).collect::<Vec<_>>(), ["10", "6"]);
        assert_eq!((found[0].degraded_share, found[0].rebuild_s, found[0].read_p99_us), (Some(0.75), Some(1800.0), None));
        assert!(levels(&json!({})).is_empty());
    }
}
