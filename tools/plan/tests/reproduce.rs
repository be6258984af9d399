//! The published measurements, computed by the models: how many numbers they meet, which they miss, and that none is left out.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use stria_plan::profile::{self, Origin};
use stria_plan::reproduce::published::Published;
use stria_plan::reproduce::{self, Case, Count, page};

fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| reproduce::all().expect("every profile and number can be read"))
}

/// Numbers that are not measurements: they describe the drives or the load, or repeat other rows.
const CONTEXT: &[&str] = &[
    "z87.default_strip_kib.",          // parameters of the platforms
    "c226.workers",                    // parameter of the load
    "spread.read.",                    // the runs that the statistics are made of
    "spread.write.",                   // the same
    "spread.file_api_modes.", // the same; its printed deviation of writes, 0.71, is a misprint for 0.416 and not in the file
    "nvme_matrix.mix_read_pct", // parameter of the load
    "nvme_twelve.mix_read_pct", // the same
    "nvme_matrix.latency_ms_mean.mix", // the same
    "nvme_matrix.latency_ms_max.mix", // the same
];

#[test]
fn every_published_number_has_a_row_or_a_reason() {
    let rows: BTreeSet<&str> = cases().iter().flat_map(|case| &case.rows).map(|row| row.place.as_str()).collect();
    for place in Published::read().expect("it parses").places() {
        let context = CONTEXT.iter().any(|prefix| place.starts_with(prefix));
        assert!(rows.contains(place.as_str()) != context, "{place}: has it a row, or is it context?");
    }
}

#[test]
fn every_published_sentence_is_checked_or_claims_nothing() {
    let published = Published::read().expect("it parses");
    let all: BTreeSet<(&str, usize)> =
        ["z87", "c226", "controllers", "spread", "endurance", "nvme_two_drives", "nvme_matrix", "nvme_twelve"]
            .into_iter()
            .flat_map(|key| (0..published.sentences(key).len()).map(move |index| (key, index)))
            .collect();
    let found: BTreeSet<(&str, usize)> = cases()
        .iter()
        .flat_map(|case| {
            let claims = case.sentences.iter().map(|sentence| sentence.index);
            claims.chain(case.no_claim.iter().map(|(index, _)| *index)).map(|index| (case.key, index))
        })
        .collect();
    assert_eq!(all.difference(&found).collect::<Vec<_>>(), Vec::<&(&str, usize)>::new());
}

/// The predictable numbers that the models miss, by name, so that every change of the list is visible.
#[test]
fn the_numbers_that_are_missed_are_known() {
    let missed: Vec<&str> = cases()
        .iter()
        .flat_map(|case| &case.rows)
        .filter(|row| row.count == Count::Predicted && !row.is_near())
        .map(|row| row.place.as_str())
        .collect();
    assert_eq!(missed, include_str!("missed.txt").lines().collect::<Vec<_>>());
}

#[test]
fn the_sentences_that_are_violated_are_known() {
    let violated: Vec<String> = cases()
        .iter()
        .flat_map(|case| case.sentences.iter().map(move |sentence| (case.key, sentence)))
        .filter(|(_, sentence)| !sentence.holds)
        .map(|(key, sentence)| format!("{key}: {}", sentence.claim))
        .collect();
    // Beside each stands why no mechanism with a source makes it hold, on a line that is indented.
    let known: Vec<&str> = include_str!("violated.txt").lines().collect();
    let (claims, causes): (Vec<&str>, Vec<&str>) = known.iter().partition(|line| !line.starts_with("  "));
    assert_eq!(violated, claims);
    assert_eq!(claims.len(), causes.len(), "a cause for each");
}

/// Calibrated numbers are met, each by a parameter that names it.
#[test]
fn calibrated_numbers_are_met() {
    for row in cases().iter().flat_map(|case| &case.rows).filter(|row| row.count == Count::Calibrated) {
        assert!(row.is_near(), "{}: {:?} instead of {}", row.place, row.model, row.published);
    }
}

/// A parameter that was taken from an array's result counts as calibrated, whatever else its source says.
#[test]
fn no_other_parameter_names_a_result_of_an_array() {
    let rows: Vec<&stria_plan::reproduce::Row> = cases().iter().flat_map(|case| &case.rows).collect();
    for (key, parameter) in profile::parameters().expect("all profiles parse") {
        let names = |row: &&&stria_plan::reproduce::Row| {
            !matches!(row.count, Count::Given | Count::Arithmetic) && parameter.source.contains(&row.place)
        };
        let named = rows.iter().find(names).map(|row| &row.place);
        assert!(parameter.origin == Origin::Calibrated || named.is_none(), "{key}: {} names {named:?}", parameter.name);
    }
}

/// The goal is fewer than a tenth. It was missed by one in November 2026, until the slot of LSI's controllers took the place of a
/// calibrated ceiling.
#[test]
fn fewer_parameters_are_calibrated_than_a_tenth_of_the_numbers() {
    let calibrated =
        profile::parameters().expect("all profiles parse").into_iter().filter(|(_, p)| p.origin == Origin::Calibrated);
    let calibrated = calibrated.count() + reproduce::CALIBRATED_IN_RUNS.len();
    let numbers = cases().iter().flat_map(|case| &case.rows).count();
    assert_eq!((calibrated, numbers), (18, 185));
    assert!(10 * calibrated < numbers);
}

/// Against overfitting: every publication has at least twice as many correct predictions as numbers used for calibration.
#[test]
fn each_publication_predicts_more_than_was_taken_from_it() {
    for case in cases() {
        let count = |counted: &dyn Fn(&stria_plan::reproduce::Row) -> bool| case.rows.iter().filter(|row| counted(row)).count();
        let calibrated = count(&|row| row.count == Count::Calibrated);
        let met = count(&|row| row.count == Count::Predicted && row.is_near());
        assert!(met >= 2 * calibrated, "{}: {met} predictions are met, {calibrated} numbers calibrated on", case.key);
    }
}

#[test]
fn what_is_calibrated_names_a_number_that_counts_as_such() {
    let published = Published::read().expect("it parses");
    for (key, parameter) in profile::parameters().expect("all profiles parse") {
        let Some(place) = parameter.calibrated_on() else { continue };
        if published.is_text(place) {
            continue;
        }
        let row = cases().iter().flat_map(|case| &case.rows).find(|row| row.place == place);
        assert_eq!(row.map(|row| row.count), Some(Count::Calibrated), "{key}: {} is calibrated on {place}", parameter.name);
    }
}

/// The page in the repository is the present result of the engine and the models. A change of either may change it. To renew it,
/// in `tools/plan`: `cargo run --release -p stria-plan -- reproduce --page results/reproduction.md --csv
/// results/reproduction.csv`.
#[test]
fn the_page_and_the_numbers_in_the_repository_are_these() {
    assert!(
        page::markdown(cases()).expect("the profiles parse") == include_str!("../results/reproduction.md"),
        "the page is another one: renew it, and look at what changed"
    );
    assert!(page::csv(cases()) == include_str!("../results/reproduction.csv"), "the numbers are others");
}
