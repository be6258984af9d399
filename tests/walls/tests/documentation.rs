//! Goal: documentation has no examples that run, so `scripts/run-tests` need not compile it once more to find none.
//! Method: in each source, a fence in a doc comment names a language other than Rust.

use std::path::{Path, PathBuf};

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    ["crates", "tools", "tests"].iter().for_each(|folder| sources(&root.join(folder), &mut found));
    assert!(found.len() > 300);
    for path in found {
        let line = example(&std::fs::read_to_string(&path).expect("text"));
        assert_eq!(line, None, "{}: an example here needs `cargo test --doc` in scripts/run-tests", path.display());
    }
}
