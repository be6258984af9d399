//! The modes of file access, and the meaning of their figures.

use super::context::{Report, group};
use crate::result::{IoMode, Point, Record, SectionKind};
use crate::select::{self, escape};
use crate::stats::Summary;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Above this fraction of the direct rate durability is called free.
const FREE: f64 = 0.9;
/// Above this multiple of the direct rate the measurement shows memory.
const MEMORY: f64 = 1.5;

fn meaning(mode: IoMode) -> (&'static str, &'static str) {
    match mode {
        IoMode::Direct => (
            "Direct",
            "past the page cache (O_DIRECT). A write ends when the drive has taken it, perhaps only into its volatile cache.",
        ),
        IoMode::DirectSync => (
            "Synchronous",
            "direct, and a write ends only when it is durable (O_DSYNC): a drive with a volatile cache must flush it each time. It is \
             what a database's log does.",
        ),
        IoMode::WriteThrough => (
            "Write-through",
            "through the page cache, but a write ends only when it is durable (O_DSYNC). Reads may come from memory, writes never end there.",
        ),
        IoMode::Cached => (
            "Cached",
            "through the page cache: a write ends in memory and reaches the drive later, and repeated reads come from memory. A \
             power failure loses the last seconds.",
        ),
        IoMode::Sparse => {
            ("Sparse file", "direct, into a file without blocks: the file system allocates and records them while it writes.")
        }
    }
}

/// A list of the measured modes, and a sentence for each load that was measured in several.
pub fn words(report: &Report<'_>) -> String {
    let used: BTreeSet<IoMode> = report.results.keys().map(|point| point.mode).collect();
    if used.iter().all(|mode| *mode == IoMode::Direct) {
        return String::new();
    }
    // A replay through the page cache has its own remark.
    let replayed = report.run.manifest.sections.iter().all(|section| section.kind == SectionKind::Replay);
    if replayed {
        return String::new();
    }
    let mut out = String::from("<dl class=\"modes\">");
    for (name, text) in used.into_iter().map(meaning) {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{text}</dd></div>");
    }
    out.push_str("</dl>\n");
    let found: Vec<String> =
        group(report, |point: &mut Point| point.mode = IoMode::Direct).values().flat_map(|points| compared(points)).collect();
    if !found.is_empty() {
        let items: String = found.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
        let _ = writeln!(out, "<ul class=\"verdict\">{items}</ul>");
    }
    out
}

/// Compares the other modes of one load with its direct mode, in a sentence.
fn compared(points: &[(&Point, &Vec<&Record>)]) -> Option<String> {
    let rate = |mode: IoMode| {
        let (_, records) = points.iter().find(|(point, _)| point.mode == mode)?;
        Some(Summary::of(&select::values(records, select::rate))?.median)
    };
    let direct = rate(IoMode::Direct).filter(|rate| *rate > 0.0)?;
    let times = |mode| rate(mode).map(|rate| rate / direct);
    let (first, _) = points[0];
    let load = select::load(&Point { mode: IoMode::Direct, ..first.clone() });
    let all = [IoMode::DirectSync, IoMode::WriteThrough, IoMode::Cached, IoMode::Sparse];
    let parts: Vec<String> =
        all.into_iter().filter_map(|mode| Some(format!("{} {:.2}", select::mode(mode), times(mode)?))).collect();
    if parts.is_empty() {
        return None;
    }
    let mut sentence = format!("{}, {load}: against direct, {} times the rate.", first.target, parts.join(", "));
    if first.read_percent < 100 {
        match times(IoMode::DirectSync) {
            Some(times) if times >= FREE => {
                sentence += " Durable writes cost almost nothing here: the storage has no volatile cache, or does not flush it.";
            }
            Some(times) => {
                let _ = write!(sentence, " Making every write durable costs {:.0} % of the rate.", (1.0 - times) * 100.0);
            }
            None => {}
        }
    }
    if times(IoMode::Cached).is_some_and(|times| times >= MEMORY) {
        sentence += " The higher rate of cached is the speed of memory, not of the drive.";
    }
    Some(sentence)
}
