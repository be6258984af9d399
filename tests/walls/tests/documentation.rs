//! Goal: documentation has no examples that run, so `scripts/run-tests` need not compile it once more to find none. The crash
//! rules are complete: each stands once with its reason and a counter-example that exists, and what is cited is there.
//! Method: in each source, a fence in a doc comment names a language other than Rust. Of docs/CRASH_SAFETY.md the paragraphs that
//! begin with a number are rules; numbers of rules are looked for in all sources and pages, names and seeds in the sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).expect("text")
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    ["crates", "tools", "tests"].iter().for_each(|folder| sources(&root().join(folder), &mut found));
    assert!(found.len() > 300);
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("there").path()) {
        match entry.is_dir() {
            true if entry.ends_with("target") => {}
            true => sources(&entry, found),
            false if entry.extension().is_some_and(|ending| ending == "rs") => found.push(entry),
            false => {}
        }
    }
}

/// The number of the first line whose fence would be compiled.
fn example(text: &str) -> Option<usize> {
    let mut is_within = false;
    for (index, line) in text.lines().map(str::trim_start).enumerate() {
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(tag) = doc.and_then(|doc| doc.trim_start().strip_prefix("```")) else {
            is_within &= doc.is_some();
            continue;
        };
        if !is_within && !["text", "toml"].contains(&tag.trim()) {
            return Some(index + 1);
        }
        is_within = !is_within;
    }
    None
}

#[test]
fn no_documentation_has_an_example_that_runs() {
    assert_eq!(example("/// ```\n/// let x = 1;\n/// ```"), Some(1));
    assert_eq!(example("//! ```text\n//! x\n//! ```\n//! ```rust"), Some(4));
    for path in all_sources() {
        let line = example(&read(&path));
        assert_eq!(line, None, "{}: an example here needs `cargo test --doc` in scripts/run-tests", path.display());
    }
}

/// Words of letters, digits and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// The numbers of the rules that a text cites.
fn cited(text: &str) -> BTreeSet<usize> {
    words(text).filter_map(|word| word.strip_prefix('R').filter(|digits| digits.len() <= 2)?.parse().ok()).collect()
}

/// The rules of the page, by number, each with its counter-example. A rule without its three parts fails the test.
fn rules(page: &str) -> Vec<(usize, &str)> {
    page.split("\n\n")
        .filter_map(|paragraph| {
            let (number, rest) = paragraph.strip_prefix("**R")?.split_once(". ").expect("a number, a dot and a sentence");
            let (rule, reason) = rest.split_once("\nWhy: ").unwrap_or_else(|| panic!("R{number} has no reason"));
            let shown = reason.split_once("\nCounter-example: ").unwrap_or_else(|| panic!("R{number} has no counter-example")).1;
            assert!(rule.ends_with("**") && !shown.trim().is_empty(), "R{number}");
            Some((number.parse().expect("a number"), shown))
        })
        .collect()
}

#[test]
fn every_crash_rule_stands_once_and_is_carried_out_somewhere() {
    let page = read("docs/CRASH_SAFETY.md");
    let mut numbers: Vec<usize> = rules(&page).into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    let last = numbers.len();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    let contributing = read("CONTRIBUTING.md");
    assert!(contributing.contains(&format!("The rules R1 to R{last} ")), "CONTRIBUTING.md names another last rule than R{last}");
    let mut carried_out = BTreeSet::new();
    for path in all_sources() {
        let numbers = cited(&read(&path));
        assert!(numbers.iter().all(|number| (1..=last).contains(number)), "{} cites a rule that is not there", path.display());
        let is_of_product = path.starts_with(root().join("crates")) && path.components().any(|part| part.as_os_str() == "src");
        carried_out.extend(numbers.into_iter().filter(|_| is_of_product));
    }
    assert_eq!(carried_out, (1..=last).collect(), "the product cites the rules that it carries out");
    let pages = std::fs::read_dir(root().join("docs")).expect("a folder").map(|entry| entry.expect("there").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    for path in pages.chain(["ARCHITECTURE.md".into(), "tools/sim/tests/HISTORIES.md".into()]) {
        assert!(cited(&read(&path)).iter().all(|number| (1..=last).contains(number)), "{}", path.display());
    }
}

/// A seed of two digits may be any number; one that showed a rule once is called an earlier seed, and is kept nowhere.
#[test]
fn what_counter_examples_name_exists() {
    let sources: Vec<(PathBuf, String)> = all_sources().into_iter().map(|path| (path.clone(), read(&path))).collect();
    let known: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| words(text)).collect();
    let of_simulator = sources.iter().filter(|(path, _)| path.starts_with(root().join("tools/sim/tests")));
    let seeds: String = of_simulator.map(|(_, text)| text.replace('_', "")).collect();
    let seeds: BTreeSet<&str> = words(&seeds).collect();
    let page = read("docs/CRASH_SAFETY.md");
    for (number, shown) in rules(&page) {
        let mut prose = String::new();
        for (at, part) in shown.split('`').enumerate() {
            match at % 2 {
                0 => prose.push_str(part),
                _ if part.starts_with("--") => {}
                _ if part.contains('/') => assert!(root().join(part).exists(), "R{number}: there is no {part}"),
                _ => assert!(known.contains(part), "R{number}: there is no {part}"),
            }
        }
        let prose = prose.split_whitespace().collect::<Vec<_>>().join(" ");
        let kept = prose.split("earlier seed").enumerate().map(|(at, part)| match at {
            0 => part,
            _ => part.split_once([';', '(', ')', '.']).map_or("", |(_, rest)| rest),
        });
        // In "3,000" the zeros are no seed.
        for seed in kept.flat_map(|part| part.split(|letter: char| !letter.is_ascii_digit())).filter(|seed| seed.len() > 2) {
            assert!(seed.starts_with('0') || seeds.contains(seed), "R{number}: no test of the simulator keeps seed {seed}");
        }
    }
}
