//! Modules of the engine stand in one order, and each uses only modules before it. A new arrow the other way fails here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// From the ground up: what is pure, and what everything is made of; state that owns itself; what tasks share; what levels owe, and
/// do; what is the same for all levels.
const ORDER: &str = "
    address level geometry partition lists segments task lock steer plan log_record config status record command action
    buffers clock stripes activity
    intent member consistent_ranges consistency space coalesce peers log metadata
    requests member_requests races mirror_ledger parity_ledger
    core window
    personality logging parity_code mirror_io parity_io replay recording no_space mirror_sweep parity_sweep mirror_write parity_write
    striped mirror parity of_level
    hedge refill resync_on_read sweep split_read carry_out engine lanes device
";

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

/// The place of a module in the order.
fn height(module: &str) -> usize {
    ORDER.split_whitespace().position(|known| known == module).expect("it is in the order")
}

/// The module at the root to which a file belongs.
fn module_of(source: &Path, path: &Path) -> String {
    let own = path.strip_prefix(source).expect("it lies there").components().next().expect("a name");
    own.as_os_str().to_str().expect("plain").trim_end_matches(".rs").to_string()
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
    let mut found = Vec::new();
    files(&source, &mut found);
    let mut uphill = Vec::new();
    for path in found.iter().filter(|path| **path != source.join("lib.rs")) {
        let own = module_of(&source, path);
        for used in code(path).split("crate::").skip(1).flat_map(names) {
            let Some(&module) = owners.get(used) else { continue };
            if module != own && height(module) > height(&own) {
                uphill.push((own.clone(), module.to_string()));
            }
        }
    }
    uphill.sort();
    uphill.dedup();
    assert_eq!(uphill, []);
}

/// The bodies of `impl Core` in a file.
fn core_impls(code: &str) -> impl Iterator<Item = &str> {
    code.split("\nimpl Core {\n").skip(1).map(|rest| &rest[..rest.find("\n}").unwrap_or(rest.len())])
}

/// Names that follow `before` and are called.
fn calls<'a>(code: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    let called = |rest: &'a str| Some(word(rest)).filter(|name| rest[name.len()..].starts_with('('));
    code.split(before).skip(1).filter_map(called)
}

/// What an `impl Core` adds to, a module below could call without naming the module: that is an arrow as well.
#[test]
fn no_module_calls_a_method_of_core_that_stands_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    let found: Vec<(String, String)> = found
        .iter()
        .filter(|path| **path != source.join("lib.rs"))
        .map(|path| (module_of(&source, path), code(path)))
        .filter(|(module, _)| ORDER.split_whitespace().any(|known| known == module))
        .collect();
    let mut methods = BTreeMap::new();
    for (module, code) in &found {
        for name in core_impls(code).flat_map(|body| body.split("fn ").skip(1).map(word)) {
            methods.insert(name, module.as_str());
        }
    }
    assert!(methods.len() > 50, "Core has methods");
    let mut uphill = Vec::new();
    for (module, code) in &found {
        let own = core_impls(code).flat_map(|body| calls(body, "self."));
        for name in calls(code, "core.").chain(own) {
            if let Some(owner) = methods.get(name).filter(|owner| height(owner) > height(module)) {
                uphill.push(format!("{module} calls {name} of {owner}"));
            }
        }
    }
    assert_eq!(uphill, Vec::<String>::new());
}
