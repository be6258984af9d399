//! Several runs on one page: their targets side by side, as if one run had measured them all.

use crate::compare::{TOLERANCE, caveats, compare_runs};
use crate::result::{Manifest, Note, NoteKind, ResultError, Run, RunStatus, Series};
use std::collections::BTreeMap;

/// Several runs as one, with its series, and the differences between the first and each of the others.
pub struct Together {
    pub run: Run,
    pub series: BTreeMap<u32, Series>,
    /// The number of the run that measured each target.
    pub run_of: BTreeMap<String, usize>,
    pub sentences: Vec<String>,
}

/// Joins runs, which are named by their folders; the others are compared with the first.
///
/// # Errors
/// When a series that a record names is missing.
pub fn join(runs: Vec<Run>) -> Result<Together, ResultError> {
    let labels = labels(&runs);
    let mut sentences = Vec::new();
    for (other, label) in runs.iter().zip(&labels).skip(1) {
        let found = compare_runs(&runs[0], other, TOLERANCE);
        let all = found.sentences();
        let differences = found.rows.iter().filter(|row| row.is_significant()).count();
        let words = all.iter().take(1 + differences.min(3)).map(|words| words.replace(&found.after, label));
        sentences.extend(words.map(|words| format!("{label} against {}: {words}", labels[0])));
    }
    let (mut series, mut run_of) = (BTreeMap::new(), BTreeMap::new());
    let mut joined: Option<Run> = None;
    let mut base = 0;
    for (at, mut run) in runs.iter().cloned().enumerate() {
        for record in &run.records {
            if let Some(found) = run.series(record)? {
                series.insert(base + record.index, found);
            }
        }
        rename(&mut run, &labels[at], base);
        run_of.extend(run.manifest.targets.iter().map(|target| (target.name.clone(), at)));
        base = run.records.iter().map(|record| record.index + 1).max().unwrap_or(base);
        let words = if at == 0 { Vec::new() } else { caveats(&runs[0], &runs[at]) };
        let note = |words: String| Note {
            at_ms: run.manifest.begun_ms,
            section: String::new(),
            record: None,
            kind: NoteKind::Fallback,
            text: format!("{} against {}: {words}", labels[at], labels[0]),
        };
        let notes: Vec<Note> = words.into_iter().map(note).collect();
        run.notes.extend(notes);
        joined = Some(match joined {
            None => run,
            Some(mut first) => {
                first.records.append(&mut run.records);
                first.notes.append(&mut run.notes);
                first.manifest = together(first.manifest, run.manifest);
                first
            }
        });
    }
    let mut run = joined.expect("there is a run to join");
    run.manifest.title = labels.join(" · ");
    Ok(Together { run, series, run_of, sentences })
}

/// The folders' names, with as many of the folders above them as make them differ.
fn labels(runs: &[Run]) -> Vec<String> {
    let name = |run: &Run, above: usize| {
        let parts: Vec<String> = run.folder.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        parts[parts.len().saturating_sub(above + 1)..].join("/")
    };
    let all = |above: usize| runs.iter().map(|run| name(run, above)).collect::<Vec<_>>();
    let distinct = |labels: &Vec<String>| labels.iter().collect::<std::collections::BTreeSet<_>>().len() == runs.len();
    let numbered = || all(0).into_iter().enumerate().map(|(at, name)| format!("{name} ({})", at + 1)).collect();
    (0..8).map(all).find(distinct).unwrap_or_else(numbered)
}

/// Makes all names of one run different from those of the others.
fn rename(run: &mut Run, label: &str, base: u32) {
    let one = run.manifest.targets.len() == 1;
    let target = |name: &mut String| *name = if one { label.to_owned() } else { format!("{label}: {name}") };
    let section = |id: &mut String| *id = format!("{label}/{id}");
    run.manifest.targets.iter_mut().for_each(|known| target(&mut known.name));
    for known in &mut run.manifest.sections {
        target(&mut known.target);
        section(&mut known.id);
    }
    for record in &mut run.records {
        target(&mut record.point.target);
        section(&mut record.section);
        record.index += base;
    }
    for note in &mut run.notes {
        section(&mut note.section);
        note.record = note.record.map(|record| record + base);
        note.text = format!("{label}: {}", note.text);
    }
}

fn together(mut first: Manifest, other: Manifest) -> Manifest {
    let add = |text: &mut String, more: &str, between: &str| {
        if !text.contains(more) {
            *text = format!("{text}{between}{more}");
        }
    };
    add(&mut first.question, &other.question, " ");
    add(&mut first.fio, &other.fio, " and ");
    add(&mut first.program, &other.program, " and ");
    add(&mut first.id, &other.id, ", ");
    if first.status == RunStatus::Done {
        first.status = other.status;
    }
    first.scaled = first.scaled.or(other.scaled);
    first.begun_ms = first.begun_ms.min(other.begun_ms);
    // Several runs have no common duration.
    first.ended_ms = None;
    first.targets.extend(other.targets);
    first.sections.extend(other.sections);
    first.drives_after.extend(other.drives_after);
    first.hosts.extend(other.hosts);
    first
}
