//! `stria plan reproduce`: the command line of [`stria_plan::reproduce`].

use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use stria_plan::reproduce::{self, Case, page};
use stria_terminal::Failure;
use stria_terminal::output::{check_file, print, print_json, write_file};
use stria_terminal::progress::steps_bar;

/// Run the models of every published measurement and compare
#[derive(Args)]
pub struct Reproduce {
    /// Write the page (Markdown) to a file instead of printing it
    #[arg(long)]
    page: Option<PathBuf>,
    /// Write the numbers as CSV to a file
    #[arg(long)]
    csv: Option<PathBuf>,
}

impl Reproduce {
    /// True if it writes files.
    pub fn writes(&self) -> bool {
        self.page.is_some() || self.csv.is_some()
    }
}

/// All numbers and sentences; `quiet` shows no progress.
///
/// # Errors
/// Failed, where the reference or a profile is not as it should be.
pub fn answer(quiet: bool) -> Result<Vec<Case>, Failure> {
    let bar = steps_bar(quiet);
    let cases = reproduce::all_showing(&|ended, count| {
        bar.set_length(count as u64);
        bar.set_position(ended as u64);
    });
    bar.finish_and_clear();
    cases.map_err(Failure::failed)
}

/// Carries out the command. Ends with 3 if a sentence of a publication does not hold.
///
/// # Errors
/// As [`answer`]; usage or failed, where a file cannot be written.
pub fn run(options: &Reproduce, as_json: bool) -> Result<u8, Failure> {
    [&options.page, &options.csv].into_iter().flatten().try_for_each(|path| check_file(path))?;
    let cases = answer(as_json)?;
    let markdown = page::markdown(&cases).map_err(Failure::failed)?;
    if let Some(path) = &options.csv {
        write_file(path, &page::csv(&cases))?;
    }
    if let Some(path) = &options.page {
        write_file(path, &markdown)?;
    }
    if as_json {
        print_json(&told(&cases));
    } else if !options.writes() {
        print(&markdown);
    }
    let holds = cases.iter().flat_map(|case| &case.sentences).all(|sentence| sentence.holds);
    Ok(if holds { 0 } else { 3 })
}

/// The same as JSON.
pub fn told(cases: &[Case]) -> Value {
    let rows: Vec<Value> = cases
        .iter()
        .flat_map(|case| &case.rows)
        .map(|row| {
            json!({
                "place": row.place, "what": row.what, "unit": row.unit, "published": row.published,
                "model": row.model, "error": row.error(), "kind": row.count.word(),
            })
        })
        .collect();
    let sentences: Vec<Value> = cases
        .iter()
        .flat_map(|case| case.sentences.iter().map(move |sentence| (case.key, sentence)))
        .map(|(key, sentence)| {
            json!({
                "publication": key, "sentence": sentence.index, "claim": sentence.claim,
                "found": sentence.found, "holds": sentence.holds, "calibrates": sentence.calibrates,
            })
        })
        .collect();
    json!({ "numbers": rows, "sentences": sentences })
}
