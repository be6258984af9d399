//! Reads sources as text, and finds modules that use a module above them.
//!
//! The modules of a crate stand in one order, from what everything is made of to what joins it all, and each uses only modules
//! before it. So a reader can start at either end, and no change runs in a circle. `tests/orders.rs` has the orders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The order of the modules at the root of a crate.
pub struct Order<'a> {
    source: PathBuf,
    modules: Vec<&'a str>,
}

/// The sources below a folder, without unit tests in files of their own.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        match path.is_dir() {
            true if path.ends_with("bin") => {}
            true => files(&path, found),
            false if path.to_string_lossy().ends_with("tests.rs") => {}
            false => found.push(path),
        }
    }
}

/// The code of a file: without comments and unit tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("it can be read");
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().expect("one part").to_string() + "\n").collect()
}

/// The word at the beginning of a text.
pub fn word(text: &str) -> &str {
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

impl<'a> Order<'a> {
    /// The order of a crate by the names of its modules. `crate_folder`: from the root of the project.
    pub fn new(crate_folder: &str, modules: &'a str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(crate_folder).join("src");
        Self { source, modules: modules.split_whitespace().collect() }
    }

    /// The place of a module, if it has one.
    pub fn height(&self, module: &str) -> Option<usize> {
        self.modules.iter().position(|known| *known == module)
    }

    /// Every source with the module at the root to which it belongs, and its code. Modules without a place are left out.
    pub fn sources(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        files(&self.source, &mut found);
        let module_of = |path: &Path| {
            let own = path.strip_prefix(&self.source).expect("it lies there").components().next().expect("a name");
            own.as_os_str().to_str().expect("plain").trim_end_matches(".rs").to_string()
        };
        let known = found.iter().map(|path| (module_of(path), code(path)));
        known.filter(|(module, _)| self.height(module).is_some()).collect()
    }

    /// What is wrong: modules without a place, places without a module, and each use of a module above, as "low uses high".
    pub fn faults(&self) -> Vec<String> {
        let root = code(&self.source.join("lib.rs"));
        let mut owners = BTreeMap::new();
        for module in root.split("mod ").skip(1).map(word).filter(|module| !module.ends_with("tests")) {
            owners.insert(module, module);
        }
        let lost = owners.keys().filter(|module| self.height(module).is_none()).map(|module| format!("{module} has no place"));
        let gone = self.modules.iter().filter(|module| !owners.contains_key(*module)).map(|module| format!("{module} is gone"));
        let mut faults: Vec<String> = lost.chain(gone).collect();
        for export in root.split("pub use ").skip(1) {
            let module = word(export);
            let path = export[module.len()..].strip_prefix("::").unwrap_or_default();
            owners.extend(names(path).into_iter().map(|name| (name, module)));
        }
        for (own, code) in self.sources() {
            for used in code.split("crate::").skip(1).flat_map(names) {
                if let Some(&module) = owners.get(used)
                    && self.height(module) > self.height(&own)
                {
                    faults.push(format!("{own} uses {module}"));
                }
            }
        }
        faults.sort();
        faults.dedup();
        faults
    }
}
