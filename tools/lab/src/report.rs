//! One self-contained HTML page of a run: no network, no script. The verdict comes first, then a chart for each kind of question,
//! then every figure with its spread, then the source of each figure.

mod chart;
mod context;
mod curves;
mod drawing;
mod groups;
mod modes;
mod table;
mod tables;
mod timeline;
mod together;
mod words;

use crate::result::{Manifest, NoteKind, ResultError, Run, RunStatus, SectionKind, Series, inside};
use crate::select::{self, escape};
use crate::stats::Summary;
use crate::theory::BareDrives;
use crate::units::{counted, show_seconds as duration};
use chart::Figure;
use context::Report;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use words::when;

/// The reason why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run cannot be read.
    #[error(transparent)]
    Run(#[from] ResultError),
    /// The page cannot be written.
    #[error("cannot write report {path}: {source}")]
    Page {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A chart cannot be drawn or written.
    #[error("cannot write chart {path}: {problem}")]
    Chart {
        /// Where to.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}

/// The style of charts in files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charts {
    /// PNG instead of SVG.
    pub png: bool,
    /// Light on dark.
    pub dark: bool,
}

/// Writes the page of the run in folder `run` to the file `out`.
///
/// # Errors
/// When the run cannot be read or the page not be written.
pub fn write(run: &Path, out: &Path) -> Result<(), ReportError> {
    save(&drawn(&[run.to_path_buf()])?.html, out)
}

/// Writes one page of several runs, side by side; the others are compared with the first.
///
/// # Errors
/// As [`write`](fn@write).
pub fn write_together(runs: &[PathBuf], out: &Path) -> Result<(), ReportError> {
    save(&drawn(runs)?.html, out)
}

/// Writes every chart of the page of these runs as a file of its own in `folder`; gives the files.
///
/// # Errors
/// When a run cannot be read or a chart not be written.
pub fn write_charts(runs: &[PathBuf], folder: &Path, how: Charts) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |problem| ReportError::Chart { path, problem }
    };
    let page = drawn(runs)?;
    std::fs::create_dir_all(folder).map_err(|error| failed(folder)(error.to_string()))?;
    let painter = if how.png { Some(drawing::Painter::new().map_err(failed(folder))?) } else { None };
    let mut known = BTreeSet::new();
    let mut written = Vec::new();
    for (anchor, figure) in &page.figures {
        // Charts with the same caption differ by their remarks.
        let name = file_name(anchor, &figure.caption);
        let longer = file_name(&name, &figure.remark);
        let free = (2..).map(|number| format!("{longer}-{number}"));
        let mut names = [name, longer.clone()].into_iter().chain(free);
        let name = names.find(|name| !known.contains(name)).expect("some number is free");
        let path = folder.join(format!("{name}.{}", if how.png { "png" } else { "svg" }));
        let svg = drawing::svg(figure, how.dark);
        let bytes = match &painter {
            Some(painter) => painter.paint(&svg).map_err(failed(&path))?,
            None => svg.into_bytes(),
        };
        inside::output(&path, |file| file.write_all(&bytes)).map_err(|error| failed(&path)(error.to_string()))?;
        known.insert(name);
        written.push(path);
    }
    Ok(written)
}

fn save(html: &str, out: &Path) -> Result<(), ReportError> {
    let written = inside::output(out, |file| file.write_all(html.as_bytes()));
    written.map_err(|source| ReportError::Page { path: out.to_path_buf(), source })
}

fn drawn(runs: &[PathBuf]) -> Result<Page, ResultError> {
    let mut opened = runs.iter().map(|run| Run::open(run)).collect::<Result<Vec<Run>, ResultError>>()?;
    if opened.len() == 1 {
        return page_of(&opened.remove(0));
    }
    let joined = together::join(opened)?;
    let bare = BareDrives::of_runs(&joined.run, &joined.run_of);
    Ok(draw(&joined.run, joined.series, bare, joined.sentences))
}

/// The part of the page, and the caption without its explanation: "depth-raid5-x4-4-kib-random-read".
fn file_name(anchor: &str, caption: &str) -> String {
    let letters = caption.split(';').next().unwrap_or_default().to_lowercase();
    let words = letters.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = anchor.to_string();
    for word in words {
        if name.len() + word.len() > 120 {
            break;
        }
        name.extend(["-", word]);
    }
    name
}

/// A part of the page: its anchor, heading, and HTML.
struct Part {
    anchor: &'static str,
    heading: &'static str,
    body: String,
}

/// What draws it.
type PartOf = fn(&Report<'_>) -> String;

/// A page, and its charts by the part that they are in.
struct Page {
    html: String,
    figures: Vec<(&'static str, Figure)>,
}

/// The page of a run.
///
/// # Errors
/// When a series that a record names is missing.
pub fn page(run: &Run) -> Result<String, ResultError> {
    Ok(page_of(run)?.html)
}

fn page_of(run: &Run) -> Result<Page, ResultError> {
    let mut series = BTreeMap::new();
    for record in &run.records {
        if let Some(found) = run.series(record)? {
            series.insert(record.index, found);
        }
    }
    Ok(draw(run, series, BareDrives::of(run), Vec::new()))
}

fn draw(run: &Run, series: BTreeMap<u32, Series>, bare: BareDrives<'_>, sentences: Vec<String>) -> Page {
    let results = select::results(run);
    let report = Report { run, sentences, results, series, bare, figures: RefCell::default() };
    let mut figures = Vec::new();
    let parts: [(&str, &str, PartOf); 20] = [
        ("steady", "Steady state", timeline::convergence),
        ("matrix", "Read share and block size", tables::heat_maps),
        ("square", "Depth and threads", tables::depth_by_threads),
        ("depth", "Latency against throughput", groups::depth_curves),
        ("sizes", "By the size of requests", curves::sizes),
        ("places", "From the first address to the last", curves::places),
        ("scaling", "Scaling with drives", groups::scaling),
        ("levels", "Side by side", groups::side_by_side),
        ("variants", "In other ways", groups::variants),
        ("states", "Fresh, used, idle, trimmed", groups::states),
        ("time", "Over time", timeline::over_time),
        ("seconds", "Second by second", curves::seconds),
        ("raid", "Degraded, rebuilding, rebuilt", timeline::raid),
        ("tail", "Distribution of latencies", groups::ccdf),
        ("figures", "Every figure", tables::figures),
        ("phases", "Submission and completion", tables::phases),
        ("hosts", "Host by host", tables::hosts),
        ("drives", "Drives, wear and rebuild", tables::drives),
        ("notes", "Notes", tables::notes),
        ("method", "Where the figures come from", tables::method),
    ];
    let draw_part = |(anchor, heading, part): (&'static str, &'static str, PartOf)| {
        let body = part(&report);
        figures.extend(report.figures.take().into_iter().map(|figure| (anchor, figure)));
        Part { anchor, heading, body }
    };
    let parts: Vec<Part> = parts.into_iter().map(draw_part).filter(|part| !part.body.is_empty()).collect();
    let manifest = &run.manifest;
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{}{}</style>\n</head>\n\
         <body>\n<header>\n<h1>{title}</h1>\n",
        stria_bench::report::STYLE,
        include_str!("report/page.css"),
        title = escape(&manifest.title)
    );
    let mut body = String::new();
    header(&mut body, &report, &parts);
    body.push_str("</header>\n<main>\n");
    for part in parts {
        let _ = writeln!(body, "<section id=\"{}\">\n<h2>{}</h2>\n{}</section>", part.anchor, part.heading, part.body);
    }
    // A percent sign stays with its number, and threads with their depth.
    html.push_str(&body.replace(" %", "\u{a0}%").replace(" × ", "\u{a0}×\u{a0}"));
    html.push_str("</main>\n</body>\n</html>\n");
    Page { html, figures }
}

fn header(html: &mut String, report: &Report<'_>, parts: &[Part]) {
    let manifest = &report.run.manifest;
    let _ = write!(html, "<p class=\"question\">{}</p>\n<ul class=\"badges\">", escape(&manifest.question));
    for (class, words) in badges(manifest) {
        let _ = write!(html, "<li class=\"badge {class}\">{}</li>", escape(&words));
    }
    html.push_str("</ul>\n");
    if let Some(scaled) = &manifest.scaled {
        let _ = writeln!(
            html,
            "<p class=\"scaled\">{} The figures show only that everything works; the method would give other figures.</p>",
            escape(&sentence(&scaled.words))
        );
    }
    let sentences: String = verdict(report).iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
    let _ = writeln!(html, "<ul class=\"verdict\">{sentences}</ul>");
    let environment = &manifest.environment;
    let targets: Vec<&str> = manifest.targets.iter().map(|target| target.name.as_str()).collect();
    let platforms: Vec<&str> =
        manifest.targets.iter().map(|target| target.platform.as_str()).filter(|platform| !platform.is_empty()).collect();
    let hosts: Vec<&str> = manifest.hosts.keys().map(String::as_str).collect();
    // The machine of imported results is unknown.
    let known = |words: String| if environment.cpu_count > 0 { words } else { "–".into() };
    let facts = [
        ("Measured", when(manifest.begun_ms)),
        ("Took", manifest.ended_ms.map_or("–".into(), |end| duration(end.saturating_sub(manifest.begun_ms) as f64 / 1000.0))),
        (
            if manifest.hosts.is_empty() { "Machine" } else { "Led by" },
            known(format!(
                "{}, {}, {}",
                environment.cpu,
                counted(environment.cpu_count, "CPU", "CPUs"),
                select::size(environment.memory_bytes).replace(' ', "\u{a0}")
            )),
        ),
        ("System", known(format!("{}, {}", environment.os, environment.kernel))),
        ("With", format!("{}, {}", manifest.fio, manifest.program)),
        ("Platform", platforms.first().map_or("–".into(), ToString::to_string)),
        ("Targets", targets.join(" · ")),
        ("Load from", if hosts.is_empty() { "–".into() } else { hosts.join(", ") }),
    ];
    let facts: String = facts
        .iter()
        .filter(|(_, value)| value != "–")
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value)))
        .collect();
    let links: String = parts.iter().map(|part| format!("<a href=\"#{}\">{}</a> ", part.anchor, part.heading)).collect();
    let _ = writeln!(html, "<dl>{facts}</dl>\n<nav>{links}</nav>");
}

fn badges(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let mut badges = Vec::new();
    badges.push(match manifest.status {
        RunStatus::Done => ("good", "✓ complete".to_string()),
        RunStatus::Running => ("notable", "! still running".to_string()),
        RunStatus::Interrupted if manifest.sections.iter().all(|section| section.kind == SectionKind::Replay) => {
            ("notable", "! cut short, can be resumed".to_string())
        }
        RunStatus::WithFailures => ("bad", "✗ ended with failures; these loads can be measured again".to_string()),
        RunStatus::Interrupted => ("notable", "! interrupted, can be resumed".to_string()),
        RunStatus::Failed => ("bad", "✗ failed".to_string()),
    });
    let asked: Vec<bool> = manifest.verdicts().map(|(_, steady)| steady.reached).collect();
    let reached = asked.iter().filter(|reached| **reached).count();
    if !asked.is_empty() {
        badges.push(match (reached, asked.len()) {
            (reached, all) if reached == all => ("good", "✓ steady state reached".to_string()),
            (0, _) => ("bad", "✗ steady state not reached".to_string()),
            (reached, all) => ("notable", format!("! steady state in {reached} of {all} parts")),
        });
    }
    if manifest.scaled.is_some() {
        badges.push(("notable", "scaled trial".to_string()));
    }
    badges
}

/// The findings, in a few sentences.
fn verdict(report: &Report<'_>) -> Vec<String> {
    let mut sentences = report.sentences.clone();
    let spreads: Vec<f64> = report
        .results
        .values()
        .filter(|records| records.len() > 1 && !report.is_story(records))
        .filter_map(|records| Some(Summary::of(&select::values(records, select::rate))?.mean_deviation_percent()))
        .collect();
    let points = report.results.len();
    sentences.push(match Summary::of(&spreads) {
        Some(spread) => format!(
            "{points} kinds of load were measured{}; repeats of one differ by {:.1} % of their mean in the middle, {:.1} % at worst (mean \
             deviation).{}",
            if spread.count < points { format!(", {} of them more than once", spread.count) } else { String::new() },
            spread.median,
            spread.max,
            if spread.median > 10.0 { " That is a lot, so another load was active; the figures are rough." } else { "" }
        ),
        None => format!("{points} kinds of load were measured once each, so their scatter is unknown. Repeat the run to measure it."),
    });
    for (section, steady) in report.run.manifest.verdicts() {
        let title = format!("{}{}", section.title, timeline::of_several(section, steady));
        sentences.push(if steady.reached {
            format!(
                "{title} is steady in {}: {} {}, excursion {:.0} % and slope {:.0} % of it.",
                timeline::window_words(report, steady),
                select::short(steady.mean),
                steady.unit,
                steady.excursion / steady.mean * 100.0,
                steady.slope_excursion / steady.mean * 100.0
            )
        } else if !steady.has_window() {
            format!(
                "{title} did not become steady: it ended with {}, and a verdict needs five; its figures are those of all rounds.",
                counted(steady.values.len() as u32, "round that counts", "rounds that count")
            )
        } else {
            let (done, rounds) = (timeline::rounds_done(report, section, steady), timeline::rounds_word(report, steady));
            let last = if steady.stride > 1 { " that count" } else { "" };
            format!("{title} did not become steady in {done} {rounds}; its figures are those of the last five{last}.")
        });
    }
    sentences.extend(timeline::raid_findings(report));
    sentences.extend(groups::findings(report));
    let warnings =
        report.run.notes.iter().filter(|note| !matches!(note.kind, NoteKind::Step | NoteKind::Purge | NoteKind::Verdict));
    let warnings = warnings.count();
    let without = report.run.records.iter().filter(|record| record.failed.is_some()).count();
    if without > 0 {
        let what = if without == 1 { "measurement failed and is" } else { "measurements failed and are" };
        sentences.push(format!("{without} {what} no result; see the notes."));
    }
    for section in report.run.manifest.sections.iter().filter(|section| section.failed.is_some()) {
        sentences.push(format!(
            "{} on {} was given up: {}",
            section.title,
            section.target,
            section.failed.as_deref().unwrap_or_default()
        ));
    }
    if warnings > 0 {
        sentences.push(format!(
            "{warnings} {} below.",
            if warnings == 1 { "warning is among the notes" } else { "warnings are among the notes" }
        ));
    }
    sentences
}

/// A sentence ends with a full stop and begins with a capital.
fn sentence(words: &str) -> String {
    let mut letters = words.trim().trim_end_matches('.').chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}
