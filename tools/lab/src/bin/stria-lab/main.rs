//! `stria lab`: the laboratory behind a command line.
#![forbid(unsafe_code)]

mod cli;
mod replay;

use clap::Parser;
use cli::{Format, Lab, Picture, Subject};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use stria_block::shown_sentence;
use stria_lab::compare::{Outcome, compare_folders};
use stria_lab::experiment::Experiment;
use stria_lab::fio::Host;
use stria_lab::result::{Manifest, Note, NoteKind, RunStatus};
use stria_lab::run::{Consent, Moment, Progress, Request, RunError, resume, run};
use stria_lab::target::{Part, TargetError};
use stria_lab::units::show_seconds;
use stria_lab::verify::{self, Line, Verdict};
use stria_lab::{export, import, plan, report, shipped};
use stria_terminal::output::{print, print_json, say, table};
use stria_terminal::progress::{ProgressBar, bar};
use stria_terminal::size::show;
use stria_terminal::{Failure, absolute, program};

/// The pause between two lines of progress if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// The laboratory: measure any storage that fio can reach, by SNIA's method, and report.
#[derive(Parser)]
#[command(name = "stria lab", bin_name = "stria lab", max_term_width = 110)]
struct Cli {
    /// Print JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Lab,
}

fn main() -> ExitCode {
    stria_terminal::run_tool(|cli: &Cli| cli.json, |cli, json| lab(cli.command, json))
}

/// Carries out a command of the laboratory. Returns the exit code.
fn lab(command: Lab, json: bool) -> Result<u8, Failure> {
    match command {
        Lab::List => list(json),
        Lab::Plan(command) => plan(&command, json),
        Lab::Run(command) => return self::run_experiment(command, json),
        Lab::Resume(command) => {
            let consent = Consent {
                destroy: command.destroy,
                targets: command.target,
                hosts: command.host.iter().map(|host| Host::parse(host)).collect(),
                program: program::find("stria"),
            };
            if let Some(code) = replay::resume(&command.run, &consent, json)? {
                return Ok(code);
            }
            let manifest =
                with_progress(json, |stop, progress| resume(&command.run, &consent, stop, progress))?.map_err(failure)?;
            return finish(&command.run, None, &manifest, json);
        }
        Lab::Replay(command) => return replay::replay(command, json),
        Lab::Import(command) => {
            let cli::Import { from, target, note, out } = command;
            let free = || (1..).map(|at| PathBuf::from(format!("lab-import-{at}"))).find(|path| !path.exists());
            let folder = out.or_else(free).expect("some number is free");
            let request = import::Request { from, target, note, command: program::command_line("lab") };
            let manifest = import::import(&request, &folder).map_err(Failure::failed)?;
            return finish(&folder, None, &manifest, json);
        }
        Lab::Report(command) => {
            let (out, written) = match &command.runs[..] {
                [run] => {
                    let out = command.out.unwrap_or_else(|| run.join("report.html"));
                    (out.clone(), report::write(run, &out))
                }
                runs => {
                    let out = command.out.unwrap_or_else(|| "together.html".into());
                    (out.clone(), report::write_together(runs, &out))
                }
            };
            written.map_err(Failure::failed)?;
            let how = report::Charts { png: command.format == Picture::Png, dark: command.dark };
            let charts = command.charts.as_ref().map(|folder| report::write_charts(&command.runs, folder, how));
            let charts = charts.transpose().map_err(Failure::failed)?.unwrap_or_default();
            let more = match &command.charts {
                Some(folder) => format!("; {} charts are in {}", charts.len(), folder.display()),
                None => String::new(),
            };
            say(json, || format!("the page is {}{more}", out.display()), || json!({"report": out, "charts": charts}));
            Ok(())
        }
        Lab::Purpose(command) => self::purpose(&command, json),
        Lab::Compare(command) => return self::compare_runs(&command, json),
        Lab::Export(command) => {
            let (name, write): (_, fn(&[PathBuf], &Path) -> _) = match command.format {
                Format::Csv => ("csv", export::csv),
                Format::Parquet => ("parquet", export::parquet),
                Format::Ods => ("ods", export::ods),
            };
            let out = command.out.unwrap_or_else(|| command.runs[0].join(name));
            let files: Vec<PathBuf> = write(&command.runs, &out).map_err(Failure::failed)?;
            match json {
                true => say(json, String::new, || json!({"files": files})),
                false => files.iter().for_each(|file| print(&format!("{}\n", shown_sentence(&file.display().to_string())))),
            }
            Ok(())
        }
    }
    .map(|()| 0)
}

fn failure(error: impl Into<RunError>) -> Failure {
    match error.into() {
        error @ (RunError::Schema(_) | RunError::Target(TargetError::Usage(_))) => Failure::Usage(error.to_string()),
        RunError::Target(TargetError::Unsafe(sentence)) => Failure::Unsafe(sentence),
        error @ (RunError::Target(TargetError::Failed(_)) | RunError::Result(_) | RunError::Fio(_) | RunError::Failed(_)) => {
            Failure::failed(error)
        }
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let all = shipped::EXPERIMENTS.iter().map(|(file, text)| Experiment::parse(file, text));
    let all: Vec<Experiment> = all.collect::<Result<_, _>>().map_err(Failure::failed)?;
    if json {
        print_json(&all);
        return Ok(());
    }
    let needs = |experiment: &Experiment| if experiment.arrays.is_some() { "drives" } else { "a target" };
    let row = |experiment: &Experiment| vec![experiment.name.clone(), needs(experiment).into(), experiment.question.clone()];
    print(&format!("{}\n", table(&["experiment", "needs", "question"], &[], all.iter().map(row).collect())));
    Ok(())
}

fn request(subject: &Subject) -> Request {
    Request {
        targets: subject.target.clone(),
        on: subject.on.clone(),
        size: subject.size,
        drives: subject.drive.iter().map(|drive| absolute(drive)).collect(),
        pool: subject.pool.as_deref().map(absolute),
        drive_bytes: subject.drive_size,
        scaled: subject.scaled,
        hosts: subject.host.iter().map(|host| Host::parse(host)).collect(),
        part: Part { offset: subject.offset, share: subject.share },
        rated_bytes: subject.tbw,
        level: subject.level.clone(),
        members: subject.members,
        read_only: subject.read_only,
        ..Request::default()
    }
}

/// Prints the load that a trace or a run puts on drives.
fn purpose(command: &cli::Purpose, json: bool) -> Result<(), Failure> {
    let purpose = stria_lab::purpose::of(&command.from).map_err(Failure::failed)?;
    if json {
        print_json(&purpose);
        return Ok(());
    }
    let source = purpose.measured.as_deref().unwrap_or_default();
    print(&format!("{}\nmeasured: {source}\n\n", purpose.about));
    let row = |part: &stria_plan::advice::Part| vec![part.name.clone(), format!("{:.0} %", 100.0 * part.time_share)];
    print(&format!("{}\n", table(&["LOAD", "TIME"], &[1], purpose.parts.iter().map(row).collect())));
    for part in &purpose.parts {
        let all = part.streams.iter().map(|stream| stream.share).sum();
        part.streams.iter().for_each(|stream| print(&format!("{}\n", words_of(stream, all))));
    }
    Ok(())
}

/// "writes in order, 12 % of the requests: 64 KiB 80 %, 128 KiB 20 %".
fn words_of(stream: &stria_plan::load::Stream, all: f64) -> String {
    let kind = if stream.write { "writes" } else { "reads" };
    let order = match stream.pattern {
        stria_plan::load::Pattern::Random => "at random",
        stria_plan::load::Pattern::Sequential => "in order",
    };
    let sum: f64 = stream.sizes.iter().map(|(_, share)| share).sum();
    let sizes = stream.sizes.iter().map(|(bytes, share)| format!("{} {:.0} %", show(*bytes), 100.0 * share / sum));
    format!("{kind} {order}, {:.0} % of the requests: {}", 100.0 * stream.share / all, sizes.collect::<Vec<_>>().join(", "))
}

fn plan(command: &cli::Plan, json: bool) -> Result<(), Failure> {
    let request = request(&command.subject);
    let (experiment, _) = Experiment::find(&command.subject.experiment).map_err(failure)?;
    let experiment = request.experiment(experiment).map_err(failure)?;
    let targets = request.target_specs(&experiment).map_err(failure)?;
    let plan = plan::plan(&experiment, &targets, &request.scale(&experiment), command.speed, request.rated_bytes);
    if json {
        print_json(&plan);
        return Ok(());
    }
    let range = |(least, most): (f64, f64)| {
        let (least, most) = (show_seconds(least), show_seconds(most));
        if least == most { least } else { format!("{least} to {most}") }
    };
    if let Some(words) = &plan.scaled {
        print(&format!("{words}\n\n"));
    }
    for section in &plan.sections {
        let span = show(section.span_bytes);
        print(&format!("{} ({span}): {}, writes up to {}\n", section.id, range(section.seconds), show(section.bytes.1)));
        for words in &section.words {
            print(&format!("    {words}\n"));
        }
    }
    let endurance = match plan.endurance_percent {
        Some(percent) => format!("{percent:.3} % of what the maker allows each drive"),
        None => "add --tbw for its share of the drives' endurance".into(),
    };
    print(&format!(
        "\nIn all {}; writes up to {}, the most written drive {}: {endurance}.\nLoads that run for a fixed time are assumed to write {} MB/s (--speed).\n",
        range((plan.seconds_min, plan.seconds_max)),
        show(plan.bytes_max),
        show(plan.drive_bytes_max),
        plan.assumed_mb_per_s
    ));
    if !plan.commands.is_empty() {
        print(&format!("\nmd arrays, also after each purge:\n    {}\n", plan.commands.join("\n    ")));
    }
    let models_only = targets.iter().all(|target| target.model.is_some());
    if plan.sections.iter().any(|section| section.destroys) && !models_only {
        print("It overwrites the targets: a run needs --destroy with the name of each drive that it does not make itself.\n");
    }
    Ok(())
}

fn run_experiment(command: cli::Run, json: bool) -> Result<u8, Failure> {
    let (experiment, text) = Experiment::find(&command.subject.experiment).map_err(failure)?;
    let request = Request {
        destroy: command.destroy,
        note: command.note,
        platform: command.platform,
        keep: command.keep,
        command: program::command_line("lab"),
        program: program::find("stria"),
        ..request(&command.subject)
    };
    let experiment = request.experiment(experiment).map_err(failure)?;
    if let Some(model) = &command.verify_plan {
        verify::subject(model).map_err(failure)?;
        // The calibration of this machine's drives would be replaced by one of a model.
        if let Some(target) = request.targets.iter().find(|target| target.starts_with("model:")) {
            return Err(Failure::Usage(format!(
                "--verify-plan compares drives with their models, and target {target} is a model itself: name a drive, a file or an \
                 array as the target, or leave out --verify-plan"
            )));
        }
    }
    let free = || (1..).map(|at| PathBuf::from(format!("lab-{}-{at}", experiment.name))).find(|path| !path.exists());
    let folder = command.out.or_else(free).expect("some number is free");
    let asked = request.clone();
    let manifest =
        with_progress(json, |stop, progress| run(&experiment, &text, request, &folder, stop, progress))?.map_err(failure)?;
    let has_ended = matches!(manifest.status, RunStatus::Done | RunStatus::WithFailures);
    let Some(model) = command.verify_plan.as_ref().filter(|_| has_ended) else {
        return finish(&folder, command.html.as_deref(), &manifest, json);
    };
    let keep = stria_terminal::state_folder();
    let verified = with_progress(json, |stop, progress| {
        verify::verify((&experiment, &text), &asked, &folder, model, &keep, (stop, progress))
    })?;
    let verdict = verified.map_err(failure)?;
    if json {
        print_json(&json!({"status": manifest.status, "folder": folder, "verified": verdict}));
        return Ok(u8::from(manifest.status != RunStatus::Done));
    }
    let code = finish(&folder, command.html.as_deref(), &manifest, json)?;
    print(&verified_words(&verdict));
    Ok(code)
}

/// Prints the errors of the models, and the place where they are stored.
fn verified_words(verdict: &Verdict) -> String {
    let row = |line: &Line| {
        let time = |ns: f64| format!("{:.0} us", ns / 1e3);
        vec![
            line.target.clone(),
            line.load.clone(),
            format!("{:.0}", line.measured_iops),
            format!("{:.0}", line.modelled_iops),
            format!("{:+.1} %", line.error_percent),
            time(line.measured_p99_ns),
            time(line.modelled_p99_ns),
        ]
    };
    let header = ["target", "load", "measured IOPS", "model", "error", "measured p99", "model"];
    let all = table(&header, &[2, 3, 4, 5, 6], verdict.lines.iter().map(row).collect());
    let left = match verdict.unmatched {
        0 => String::new(),
        count => format!(" {count} loads are not modelled."),
    };
    format!(
        "\n{all}\nBoth side by side: {}.{left} The errors are stored in {}: stria plan advise --calibrated applies them.\n",
        verdict.page.display(),
        verdict.stored.display()
    )
}

/// Prints the end of a run, and the path of its page.
fn finish(folder: &Path, html: Option<&Path>, manifest: &Manifest, json: bool) -> Result<u8, Failure> {
    let page = html.map_or_else(|| folder.join("report.html"), Path::to_path_buf);
    report::write(folder, &page).map_err(Failure::failed)?;
    let (folder_shown, page_shown) = (folder.display(), page.display());
    let how = match manifest.status {
        RunStatus::Done => format!("done: the page is {page_shown}, the results are in {folder_shown}"),
        RunStatus::Interrupted => {
            format!("interrupted: continue with stria lab resume {folder_shown}; the page so far is {page_shown}")
        }
        RunStatus::WithFailures => format!(
            "ended with failures, see the notes on {page_shown}; repeat the failed measurements with stria lab resume {folder_shown}"
        ),
        RunStatus::Running | RunStatus::Failed => {
            format!(
                "stopped by an error, see the last note in {folder_shown}/notes.jsonl; continue with stria lab resume {folder_shown}"
            )
        }
    };
    say(json, || how.clone(), || json!({"status": manifest.status, "folder": folder, "report": page}));
    Ok(u8::from(manifest.status != RunStatus::Done))
}

fn compare_runs(command: &cli::Compare, json: bool) -> Result<u8, Failure> {
    let (before, after) = match (&command.runs[..], &command.others[..]) {
        ([before], [after]) | ([before, after], []) => (std::slice::from_ref(before), std::slice::from_ref(after)),
        (runs, []) => {
            let words =
                format!("{} runs do not make two sides: name two runs, or several on each side as A1 A2 -- B1 B2", runs.len());
            return Err(Failure::Usage(words));
        }
        sides => sides,
    };
    let comparison = compare_folders(before, after).map_err(Failure::failed)?;
    if let Some(page) = &command.html {
        report::write_together(&[before, after].concat(), page).map_err(Failure::failed)?;
    }
    match json {
        true => print_json(&comparison),
        false => print(&format!("{}\n", comparison.sentences().join("\n"))),
    }
    Ok(match comparison.outcome() {
        Outcome::Same | Outcome::Better => 0,
        Outcome::Worse => 1,
        Outcome::Nothing => 2,
    })
}

/// Shows a bar on a terminal and lines elsewhere. The first interrupt ends the run cleanly, a second one at once.
fn with_progress<T>(json: bool, work: impl FnOnce(&AtomicBool, &mut dyn Progress) -> T) -> Result<T, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    // A terminal that is closed sends SIGHUP.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let caught = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        caught.map_err(|error| Failure::Failed(format!("cannot catch signals: {error}")))?;
    }
    let bar = bar(1000, "[{bar:30}] {percent:>3} %, {msg}", json);
    let mut teller = Teller { bar, quiet: json, line_due: Instant::now() };
    let done = work(&stop, &mut teller);
    teller.bar.finish_and_clear();
    Ok(done)
}

struct Teller {
    bar: ProgressBar,
    quiet: bool,
    line_due: Instant,
}

impl Progress for Teller {
    fn at(&mut self, moment: &Moment) {
        let left = show_seconds((moment.total_seconds - moment.done_seconds).max(0.0));
        let share = (moment.done_seconds / moment.total_seconds.max(1e-9)).min(1.0);
        self.bar.set_position((share * 1000.0) as u64);
        // Sections and notes hold names from the run's folder.
        let of = if moment.is_virtual { " of virtual time" } else { "" };
        let message = shown_sentence(&format!("{left}{of} left or more; {}: {}", moment.section, moment.words)).to_string();
        if self.bar.is_hidden() && !self.quiet && Instant::now() >= self.line_due {
            eprintln!("{:.0} %, {message}", share * 100.0);
            self.line_due = Instant::now() + LINE_EVERY;
        }
        self.bar.set_message(message);
    }

    fn say(&mut self, note: &Note) {
        let warning = !matches!(note.kind, NoteKind::Step | NoteKind::Purge | NoteKind::Verdict);
        let line = format!("{}{}", if warning { "note: " } else { "" }, shown_sentence(&note.text));
        match () {
            () if self.quiet => {}
            () if self.bar.is_hidden() => eprintln!("{line}"),
            () => self.bar.println(line),
        }
    }
}
