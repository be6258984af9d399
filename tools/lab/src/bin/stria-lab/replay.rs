//! `stria lab replay`: a trace, or the look-alike of an application, on a file, block device or NBD export.

use clap::{Args, ValueEnum, ValueHint};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_lab::fio::Place;
use stria_lab::replay::{Fit, Options, Outcome, Pace};
use stria_lab::replay_run::{self, KeepError, Origin, Request, asked, keep};
use stria_lab::report;
use stria_lab::result::{Manifest, RunStatus};
use stria_lab::run::Consent;
use stria_lab::trace::synthetic::{self, APPLICATIONS, Application};
use stria_lab::trace::{Format, Source};
use stria_lab::units::show_number;
use stria_terminal::output::{print, print_json};
use stria_terminal::{Failure, absolute, program};

/// `stria lab replay`
#[derive(Args, Debug)]
pub struct Replay {
    /// A trace file; or, without --format, the name of an imitated application: word, excel, photoshop-light …
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: String,
    /// Format of the trace file: msr, alibaba, tencent, blkparse, blktrace, iolog, disksim or mqsim. A name in .gz is compressed.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// An existing file, a block device, or an NBD URI; offsets beyond its end are taken modulo its size.
    #[arg(long, short, value_name = "TARGET", value_hint = ValueHint::FilePath)]
    pub target: String,
    /// Replay with fio instead of the lab's own threads, which measure how late each request is.
    #[arg(long)]
    pub fio: bool,
    /// When requests are sent; the default is recorded, and closed for applications, which have no recorded times.
    #[arg(long)]
    pub pace: Option<When>,
    /// Factor for recorded times: 0.5 is twice as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub stretch: f64,
    /// The longest pause with --pace think, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub pause_max: f64,
    /// Wait for at most so many seconds without a request with --pace recorded; a trace with a longer gap is refused.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0)]
    pub gap_max: f64,
    /// The most requests in flight; by default 64 with --pace recorded, else 1.
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
    /// Scale offsets to the target's size instead of taking them modulo its size.
    #[arg(long)]
    pub scale_offsets: bool,
    /// Use the page cache.
    #[arg(long)]
    pub cached: bool,
    /// The number of passes.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub passes: u32,
    /// The seed for an imitated application.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Overwrite this target: needed for traces that write.
    #[arg(long, value_name = "TARGET", value_hint = ValueHint::FilePath)]
    pub destroy: Vec<String>,
    /// The run's folder, which must not exist; by default lab-replay-1 and so on.
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// At their recorded times.
    Recorded,
    /// When the previous request has ended.
    Closed,
    /// When the previous request has ended and the recorded pause is over.
    Think,
}

/// Opens a trace: a file of a format, or the look-alike of an application.
fn open(origin: &Origin) -> Result<Source, Failure> {
    let Some(format) = &origin.format else {
        let application = Application::named(&origin.trace).ok_or_else(|| {
            let names: Vec<&str> = APPLICATIONS.iter().map(|application| application.name).collect();
            Failure::Usage(format!(
                "\"{}\" is not an application: add --format for a trace file, or name one of {}",
                origin.trace,
                names.join(", ")
            ))
        })?;
        return Ok(synthetic::trace(&application, origin.seed).into());
    };
    let format: Format = format.parse().map_err(Failure::failed)?;
    Source::open(Path::new(&origin.trace), format).map_err(Failure::failed)
}

/// Resumes the replay in a folder; `None` if the folder has none. The user must allow overwriting again.
pub fn resume(folder: &Path, consent: &Consent, json: bool) -> Result<Option<u8>, Failure> {
    let Some(mut request) = asked(folder).map_err(failure)? else { return Ok(None) };
    let target = request.target.to_string();
    request.destroy = consent.destroy.contains(&target);
    consent.allow_contact(&[target], folder).map_err(crate::failure)?;
    if !json {
        eprintln!(
            "continues the replay of {} on {}",
            request.origin.trace.escape_debug(),
            request.target.to_string().escape_debug()
        );
    }
    let source = open(&request.origin)?;
    let went = crate::with_progress(json, |stop, progress| replay_run::resume(&source, &request, folder, stop, progress))?
        .map_err(failure)?;
    finish(&request, folder, went, json).map(Some)
}

/// Replays, stores the run, writes its page and prints the result.
pub fn replay(command: Replay, json: bool) -> Result<u8, Failure> {
    let file = command.format.map(|_| PathBuf::from(&command.trace));
    let name = file.as_ref().and_then(|file| file.file_name());
    let name = name.map_or_else(|| command.trace.clone(), |name| name.to_string_lossy().into_owned());
    let named = |format| Format::ALL.iter().find(|(_, known)| *known == format).map(|(name, _)| (*name).to_owned());
    let origin = Origin {
        trace: file.map_or_else(|| command.trace.clone(), |file| absolute(&file).display().to_string()),
        format: command.format.and_then(named),
        seed: command.seed,
    };
    let source = open(&origin)?;
    let when = command.pace.unwrap_or(if origin.format.is_some() { When::Recorded } else { When::Closed });
    let pause_max = Duration::try_from_secs_f64(command.pause_max).map_err(|_| {
        let pause = show_number(command.pause_max);
        Failure::Usage(format!("invalid --pause-max {pause}: allowed is a number of seconds from 0 on"))
    })?;
    let pace = match when {
        When::Recorded => Pace::Open { stretch: command.stretch },
        When::Closed => Pace::Closed,
        When::Think => Pace::ThinkTime { pause_max },
    };
    let options = Options {
        pace,
        depth: command.depth.unwrap_or(if when == When::Recorded { 64 } else { 1 }),
        fit: if command.scale_offsets { Fit::Scale } else { Fit::Fold },
        direct: !command.cached,
        gap_max_s: command.gap_max,
        ..Options::default()
    };
    let request = Request {
        origin,
        name,
        destroy: command.destroy.contains(&command.target),
        target: Place::new(command.target.strip_prefix("file:").unwrap_or(&command.target)),
        options,
        through_fio: command.fio,
        passes: command.passes,
        command: program::command_line("lab"),
    };
    let free = || (1..).map(|at| PathBuf::from(format!("lab-replay-{at}"))).find(|path| !path.exists());
    let folder = command.out.or_else(free).expect("some number is free");
    let went = crate::with_progress(json, |stop, progress| keep(&source, &request, &folder, stop, progress))?.map_err(failure)?;
    finish(&request, &folder, went, json)
}

/// Writes the page and prints the result.
fn finish(request: &Request, folder: &Path, (manifest, outcomes): (Manifest, Vec<Outcome>), json: bool) -> Result<u8, Failure> {
    let page = folder.join("report.html");
    report::write(folder, &page).map_err(Failure::failed)?;
    if json {
        print_json(&json!({"status": manifest.status, "folder": folder, "report": page, "passes": outcomes}));
        return Ok(u8::from(manifest.status != RunStatus::Done));
    }
    for (index, outcome) in outcomes.iter().enumerate() {
        let drift = if request.options.pace == Pace::Closed || request.through_fio {
            String::new()
        } else {
            format!(" {}", outcome.drift.sentence())
        };
        let cut = if outcome.cut_short { ", cut short" } else { "" };
        print(&format!(
            "pass {}{cut}: {:.1} s, {:.0} requests a second, {:.1} MB/s while busy, {} errors.{drift}\n",
            index + 1,
            outcome.seconds,
            outcome.total.iops,
            outcome.busy_mb_per_s(),
            outcome.errors
        ));
    }
    if manifest.status == RunStatus::WithFailures {
        print(&format!("ended with failures; replay these passes again with stria lab resume {}\n", folder.display()));
    }
    if manifest.status == RunStatus::Interrupted {
        print(&format!("interrupted: continue with stria lab resume {}\n", folder.display()));
    }
    print(&format!("the page is {}\n", page.display()));
    Ok(u8::from(manifest.status != RunStatus::Done))
}

fn failure(error: KeepError) -> Failure {
    match error {
        KeepError::NotAllowed { .. } | KeepError::Busy(_) => Failure::Unsafe(error.to_string()),
        KeepError::Usage(_) => Failure::Usage(error.to_string()),
        KeepError::Replay(_) | KeepError::Folder(_) | KeepError::Resume(_) => Failure::failed(error),
    }
}
