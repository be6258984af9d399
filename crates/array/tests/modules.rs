//! Modules of the engine stand in one order, and each uses only modules before it. A new arrow the other way fails here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// From the ground up: what is pure, and what everything is made of; state that owns itself; what tasks share; what levels owe, and
/// do; what is the same for all levels.
const ORDER: &str = "
    level geometry partition lists segments task lock steer plan log_record config status record command
    intent member consistent_ranges space gather peers log metadata
    requests member_requests races mirror_ledger parity_ledger
    core gates window
    personality parity_code mirror_io parity_io logging replay recording no_space mirror_sweep parity_sweep mirror_write parity_write
    striped mirror parity of_level
    hedge refill align sweep split_read carry_out engine lanes device
";

/// Arrows up that are left. `core` holds the state of modules above it. Take one out
/// when it is gone, and add none.
const UPHILL: &[(&str, &str)] = &[("core", "hedge"), ("core", "log"), ("core", "mirror_write"), ("core", "parity_write")];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            files(&path, found);
        } else if !path.to_string_lossy().ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The code of a file: without comments and unit tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("it can be read");
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().expect("one part").to_string() + "\n").collect()
}

fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The first words of a path's rest, which may be a list in braces.
fn names(text: &str) -> Vec<&str> {
    let Some(list) = text.strip_prefix('{') else { return vec![word(text)] };
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        if depth == 0 && (c == ',' || c == '}') {
            names.push(word(list[start..at].trim_start()));
            start = at + 1;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

#[test]
fn no_module_uses_one_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = code(&source.join("lib.rs"));
    let mut owners = BTreeMap::new();
    for module in root.split("mod ").skip(1).map(word) {
        assert!(
            ORDER.split_whitespace().any(|known| known == module) || module == "driver_tests",
            "module {module} has no place in the order"
        );
        owners.insert(module, module);
    }
    for export in root.split("pub use ").skip(1) {
        let module = word(export);
        owners.extend(names(&export[module.len() + 2..]).into_iter().map(|name| (name, module)));
    }
    let height = |module: &str| ORDER.split_whitespace().position(|known| known == module).expect("it is in the order");
    let mut found = Vec::new();
    files(&source, &mut found);
    let mut uphill = Vec::new();
    for path in found.iter().filter(|path| **path != source.join("lib.rs")) {
        let own = path.strip_prefix(&source).expect("it lies there").components().next().expect("a name");
        let own = own.as_os_str().to_str().expect("plain").trim_end_matches(".rs").to_string();
        for used in code(path).split("crate::").skip(1).flat_map(names) {
            let Some(&module) = owners.get(used) else { continue };
            if module != own && height(module) > height(&own) {
                uphill.push((own.clone(), module.to_string()));
            }
        }
    }
    uphill.sort();
    uphill.dedup();
    let known: Vec<(String, String)> = UPHILL.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect();
    assert_eq!(uphill, known, "arrows up, and those that are known");
}
