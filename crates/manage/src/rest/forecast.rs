//! What each level would make of drives that are chosen: by the planner where it is installed and knows the drives, by law
//! otherwise.
//!
//! The planner is a program of its own, `stria-plan`. Its answers are the same every time, so they are kept.

use super::drives;
use super::machine::Machine;
use crate::api::{ApiError, ApiErrorKind};
use crate::error_words::ErrorSentence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use stria_block::NO_THREAD;
use stria_terminal::program;

/// The planner has so long for an answer.
const PATIENCE: Duration = Duration::from_secs(25);
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
    /// The drive and purpose that the models are of, or why there are none.
    pub text: String,
    /// The drive of the catalogue that was taken.
    pub like: Option<String>,
    /// Drives that the planner knows.
    pub known: Vec<KnownDrive>,
    /// Each level that was planned.
    pub levels: Vec<LevelForecast>,
}

/// Answers of the planner.
#[derive(Default)]
pub struct Planner {
    answers: Mutex<BTreeMap<String, Vec<LevelForecast>>>,
    catalogue: Mutex<Option<(Vec<KnownDrive>, Vec<(String, String)>)>>,
    /// Held while the planner runs. A forecast takes a processor for many seconds, and every viewer may order one.
    turn: Mutex<()>,
}

/// Why the planner has no answer.
#[derive(Debug, PartialEq)]
enum Silence {
    /// It works on another one.
    Busy,
    /// The reason, in words.
    Unknown(String),
}

fn laws(text: String, known: Vec<KnownDrive>) -> Forecasts {
    Forecasts { by_plan: false, text, like: None, known, levels: Vec::new() }
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
    let (known, models) = match planner.catalogue() {
        Ok(catalogue) => catalogue,
        Err(Silence::Unknown(text)) => return Ok(laws(text, Vec::new())),
        Err(Silence::Busy) => return Err(busy()),
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
    match planner.advise(wish.drives.len(), &like, wish.spares, purpose) {
        Ok(levels) => Ok(Forecasts { by_plan: true, text: name, like: Some(like), known, levels }),
        Err(Silence::Unknown(text)) => Ok(laws(text, known)),
        Err(Silence::Busy) => Err(busy()),
    }
}

fn busy() -> ApiError {
    ApiError::new(ApiErrorKind::TooMany, ErrorSentence::ForecastsBusy {})
}

impl Planner {
    /// The drives that the planner knows, and parts of model names with their keys.
    fn catalogue(&self) -> Result<(Vec<KnownDrive>, Vec<(String, String)>), Silence> {
        let lock = || self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(catalogue) = lock().as_ref() {
            return Ok(catalogue.clone());
        }
        let answer = self.run(&["catalogue", "--json"])?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let drives = answer["drives"].as_array().map(Vec::as_slice).unwrap_or_default();
        let known = drives.iter().filter_map(|one| Some(KnownDrive { key: text(&one["key"])?, name: text(&one["name"])? }));
        let models = drives.iter().flat_map(|one| {
            let parts = one["models"].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().filter_map(|part| Some((text(part)?, text(&one["key"])?)))
        });
        let catalogue = (known.collect(), models.collect());
        Ok(lock().insert(catalogue).clone())
    }

    /// Runs the planner, unless it runs already.
    fn run(&self, arguments: &[&str]) -> Result<Value, Silence> {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Silence::Busy),
        };
        run(arguments).map_err(Silence::Unknown)
    }

    fn advise(&self, drives: usize, like: &str, spares: usize, purpose: &str) -> Result<Vec<LevelForecast>, Silence> {
        // The planner's count has the spares in it.
        let (all, spares) = (format!("{}x{like}", drives + spares), spares.to_string());
        let key = format!("{all} {spares} {purpose}");
        let lock = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        let answer = self.run(&[
            "advise",
            "--json",
            "--drives",
            &all,
            "--spares",
            &spares,
            "--purpose",
            purpose,
            "--survive",
            "0",
            "--strip",
            "64K",
            "--requests",
            "3000",
        ])?;
        let levels = levels(&answer);
        let mut answers = lock();
        if answers.len() >= KEPT_MAX {
            answers.pop_first();
        }
        Ok(answers.entry(key).or_insert(levels).clone())
    }
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

/// Runs the planner at low priority, within bounds.
fn run(arguments: &[&str]) -> Result<Value, String> {
    let path = program::find("stria-plan");
    let mut planner = Command::new(&path);
    let planner = planner.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = planner.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the planner, stria-plan, is not installed on this machine".to_owned(),
        _ => format!("{} does not start: {error}", path.display()),
    })?;
    let mut pipe = child.stdout.take().expect("it was asked for");
    let read = move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut pipe, &mut text).map(|_| text)
    };
    let reader = std::thread::Builder::new().name("forecast".into()).spawn(read).map_err(|error| {
        let _ = child.kill();
        let _ = child.wait();
        format!("cannot start a thread for the planner's answer: {error}; {NO_THREAD}")
    })?;
    let end = Instant::now() + PATIENCE;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the planner gave no answer within {} s", PATIENCE.as_secs()));
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

    #[test]
    fn one_forecast_is_made_at_a_time_and_known_ones_are_told_meanwhile() {
        let planner = Planner::default();
        let _turn = planner.turn.lock().expect("nobody has it");
        assert_eq!(planner.advise(3, "x", 0, "vm"), Err(Silence::Busy));
        planner.answers.lock().expect("nobody has it").insert("3xx 0 vm".into(), Vec::new());
        assert_eq!(planner.advise(3, "x", 0, "vm"), Ok(Vec::new()));
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
