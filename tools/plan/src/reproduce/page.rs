//! The table as a page (Markdown) and as CSV.

use super::CALIBRATED_IN_RUNS;
use super::row::{Case, Count, Row, short};
use crate::profile::{self, Origin, ProfileError};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Rows of one kind: how many, and how many within a tenth.
fn tally(cases: &[Case], kind: &str) -> (usize, usize) {
    let rows = cases.iter().flat_map(|case| &case.rows).filter(|row| row.count.word() == kind);
    rows.fold((0, 0), |(all, near), row| (all + 1, near + usize::from(row.is_near())))
}

fn percent(row: &Row) -> String {
    row.error().map_or("–".to_owned(), |error| format!("{:+.1} %", error * 100.0))
}

/// The numbers that were moved to "not predictable", judged again.
const JUDGED: &str = "\n## Which numbers count as not predictable\n\n\
    A number is not predictable if its source hides what decides it: a state of the drives, a misprint, or the load. In November 2026, 23 numbers were \
    moved there after their errors were known. They were judged again by published numbers alone, without the model.\n\n\
    19 stay. 13 are mixes of the D3700: another mix of the same row has both more reads and more writes. Three are writes by 128 threads on RAID 0 of \
    two P4510: each drive of VROC's mirror writes 2.3 times as often as the single drive, and each of its RAID 0 less often. Three are knees: 22 drives \
    of the RS25 contradict its ceiling and its RAID 50, and 8 is a reading of \"lags at nine and more\".\n\n\
    Four were moved back. Two are reads of md's and VROC's mirror: no state of the drives decides a read. They are met since the sending thread's time is \
    modelled. Two count as missed, the 65 % mix and the writes of 1 MiB of twelve D3700: no published number contradicts them, and twelve times one drive \
    meets the mix within 4 %.\n";

/// The page.
///
/// # Errors
/// If a profile cannot be read.
pub fn markdown(cases: &[Case]) -> Result<String, ProfileError> {
    let mut page = String::from(
        "# Published measurements, and what the models say\n\nMade by `stria-plan reproduce`; do not edit. Every run has one seed, so the \
         table is the same on every machine. *Predicted*: parameters come from data sheets or from the single drive's row. \
         *Calibrated*: a parameter was taken from that number. *Given*: the single drive's row itself. *Not predictable*: the source hides \
         what decides it. *Arithmetic*: statistics of the source's own numbers. The kinds are never added up.\n\n\
         | kind | numbers | within 10 % |\n| --- | --- | --- |\n",
    );
    for kind in ["predicted", "calibrated", "given", "arithmetic", "not predictable"] {
        let (all, near) = tally(cases, kind);
        let near = if kind == "not predictable" { "–".to_owned() } else { near.to_string() };
        let _ = writeln!(page, "| {kind} | {all} | {near} |");
    }
    let sentences: Vec<_> = cases.iter().flat_map(|case| &case.sentences).collect();
    let held = sentences.iter().filter(|sentence| sentence.holds).count();
    let taken: BTreeSet<&str> = sentences.iter().filter_map(|sentence| sentence.calibrates).collect();
    let calibrated = sentences.iter().filter(|sentence| sentence.calibrates.is_some()).count();
    let calibrated_held = sentences.iter().filter(|sentence| sentence.calibrates.is_some() && sentence.holds).count();
    let _ = writeln!(
        page,
        "\nThe publications' sentences make {} inequalities. Of {} that count as predicted {} hold. Of {calibrated} that a parameter was taken from \
         {calibrated_held} hold: {}.",
        sentences.len(),
        sentences.len() - calibrated,
        held - calibrated_held,
        taken.into_iter().collect::<Vec<_>>().join(", ")
    );
    for case in cases {
        let mut reasons: Vec<&str> = Vec::new();
        let _ = writeln!(page, "\n## {}\n", case.title);
        if !case.rows.is_empty() {
            page.push_str("| what | published | model | error | kind |\n| --- | --- | --- | --- | --- |\n");
        }
        for row in &case.rows {
            let model = row.model.map_or("–".to_owned(), short);
            let mark = if row.count == Count::Predicted && !row.is_near() { "**" } else { "" };
            let (what, unit) = (&row.what, row.unit);
            let word = match row.count {
                Count::NotPredictable(reason) => {
                    let index = reasons.iter().position(|known| *known == reason).unwrap_or(reasons.len());
                    reasons.extend((index == reasons.len()).then_some(reason));
                    format!("{} ({})", row.count.word(), index + 1)
                }
                count => count.word().to_owned(),
            };
            let published = short(row.published);
            let _ = writeln!(page, "| {what} | {published} {unit} | {model} | {mark}{}{mark} | {word} |", percent(row));
        }
        if !case.sentences.is_empty() {
            page.push_str("\n| sentence | found | holds |\n| --- | --- | --- |\n");
        }
        for sentence in &case.sentences {
            let holds = match (sentence.holds, sentence.calibrates) {
                (false, _) => "**no**",
                (true, Some(_)) => "yes, calibrated",
                (true, None) => "yes",
            };
            let _ = writeln!(page, "| {}: {} | {} | {holds} |", sentence.index + 1, sentence.claim, sentence.found);
        }
        for (index, reason) in &case.no_claim {
            let _ = writeln!(page, "\nSentence {} {reason}.", index + 1);
        }
        let numbered = reasons.iter().enumerate();
        numbered.for_each(|(index, reason)| _ = writeln!(page, "\n({}) Not predictable: {reason}.", index + 1));
        case.notes.iter().for_each(|note| _ = writeln!(page, "\n{note}"));
    }
    page.push_str(JUDGED);
    page.push_str("\n## Parameters\n\n| profile | parameter | value | kind | source |\n| --- | --- | --- | --- | --- |\n");
    for (key, parameter) in profile::parameters()? {
        let kind = match parameter.origin {
            Origin::Calibrated => "**calibrated**",
            origin => origin.word(),
        };
        let _ = writeln!(page, "| {key} | {} | {} | {kind} | {} |", parameter.name, parameter.value, parameter.source);
    }
    page.push_str("\nCalibrated beside those of the profiles:\n\n");
    CALIBRATED_IN_RUNS.iter().for_each(|(parameter, source)| _ = writeln!(page, "- {parameter} ({source})"));
    Ok(page)
}

/// The rows as CSV: place, what, unit, published, model, error, kind.
pub fn csv(cases: &[Case]) -> String {
    let mut text = String::from("place,what,unit,published,model,error,kind\n");
    for row in cases.iter().flat_map(|case| &case.rows) {
        let model = row.model.map_or(String::new(), |model| format!("{model:.6}"));
        let error = row.error().map_or(String::new(), |error| format!("{error:.4}"));
        let (place, what) = (&row.place, row.what.replace('"', "'"));
        let _ = writeln!(text, "\"{place}\",\"{what}\",{},{},{model},{error},{}", row.unit, row.published, row.count.word());
    }
    text
}
