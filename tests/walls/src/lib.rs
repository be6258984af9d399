//! Reads sources as text, and finds modules that use a module above them.
//!
//! The modules of a crate stand in one order, from what everything is made of to what joins it all, and each uses only modules
//! before it. So a reader can start at either end, and no change runs in a circle. `tests/orders.rs` has the orders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The order of the modules of a crate: of those at its root, and of those in a module if one of them is in the order
/// (`md::log`).
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

/// The code of a file: without comments and unit tests. In a module within the file, `super` is the file, and is left out.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("it can be read");
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let (mut code, mut is_within) = (String::new(), false);
    for line in text[..end].lines() {
        let line = line.split("//").next().expect("one part");
        let begins = (line.starts_with("mod ") || line.starts_with("pub mod ")) && line.ends_with('{');
        is_within = begins || is_within && line != "}";
        code += &if is_within { line.replacen("super::", "", 1) } else { line.to_string() };
        code.push('\n');
    }
    code
}

/// The word at the beginning of a text.
pub fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The items of a list in braces, which begins behind its brace.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        if depth == 0 && (c == ',' || c == '}') {
            items.push(list[start..at].trim_start());
            start = at + 1;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    items
}

/// The paths at the beginning of a text: one, or all that its lists in braces make.
fn paths(text: &str) -> Vec<String> {
    if let Some(list) = text.strip_prefix('{') {
        return items(list).into_iter().flat_map(paths).collect();
    }
    let first = word(text);
    match text[first.len()..].strip_prefix("::") {
        Some(rest) => paths(rest).into_iter().map(|rest| format!("{first}::{rest}")).collect(),
        None => vec![first.into()],
    }
}

/// The module in which another one stands; "": the root.
fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// A name in a module.
fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.into() } else { format!("{module}::{name}") }
}

/// What a text uses of its crate, as paths from the root. `module`: where the text stands.
fn uses(module: &str, code: &str) -> Vec<String> {
    let mut used: Vec<String> = code.split("crate::").skip(1).flat_map(paths).collect();
    for (at, _) in code.match_indices("super::").filter(|(at, _)| !code[..*at].ends_with("super::")) {
        let (mut base, mut rest) = (module, &code[at..]);
        while let Some(upper) = rest.strip_prefix("super::") {
            (base, rest) = (parent(base), upper);
        }
        used.extend(paths(rest).iter().map(|path| join(base, path)));
    }
    used
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

    /// The module of a source, from the root of the crate; "": the root.
    fn module_of(&self, path: &Path) -> String {
        let own = path.strip_prefix(&self.source).expect("it lies there").with_extension("");
        let names: Vec<&str> = own.iter().map(|name| name.to_str().expect("plain")).collect();
        names.strip_suffix(&["mod"]).or(names.strip_suffix(&["lib"])).unwrap_or(&names).join("::")
    }

    /// The module of the order to which a path belongs.
    fn owner<'p>(&self, mut path: &'p str) -> Option<&'p str> {
        while self.height(path).is_none() && !path.is_empty() {
            path = parent(path);
        }
        (!path.is_empty()).then_some(path)
    }

    /// Every source by its module.
    fn texts(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        files(&self.source, &mut found);
        found.iter().map(|path| (self.module_of(path), code(path))).collect()
    }

    /// Every source with the module of the order to which it belongs, and its code. Modules without a place are left out.
    pub fn sources(&self) -> Vec<(String, String)> {
        let owned = |(module, code): (String, String)| Some((self.owner(&module)?.to_string(), code));
        self.texts().into_iter().filter_map(owned).collect()
    }

    /// True if modules of the order stand in this one: then all that stand in it need a place.
    fn is_opened(&self, module: &str) -> bool {
        module.is_empty() || self.modules.iter().any(|known| parent(known) == module)
    }

    /// What a module uses of the modules in it, which it names without `self`.
    fn uses_within(&self, module: &str, code: &str) -> Vec<String> {
        let within = self.modules.iter().filter(|known| !module.is_empty() && parent(known) == module);
        let names = |name: &str| {
            let begins = |(at, _): (usize, &str)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            code.match_indices(&format!("{name}::")).any(begins)
        };
        within.filter(|known| names(&known[module.len() + 2..])).map(|known| (*known).into()).collect()
    }

    /// What is wrong: modules without a place, places without a module, and each use of a module above, as "low uses high".
    pub fn faults(&self) -> Vec<String> {
        let texts = self.texts();
        let (mut declared, mut exports) = (Vec::new(), BTreeMap::new());
        for (module, code) in texts.iter().filter(|(module, _)| self.is_opened(module)) {
            let names = code.split("mod ").skip(1).map(word).filter(|name| !name.ends_with("tests"));
            declared.extend(names.map(|name| join(module, name)));
            for path in code.split("pub use ").skip(1).flat_map(paths).filter(|path| !path.ends_with("::")) {
                let from = path.strip_prefix("crate::").map_or_else(|| join(module, &path), String::from);
                exports.insert(join(module, path.rsplit("::").next().expect("a name")), from);
            }
        }
        let lost = declared.iter().filter(|module| self.height(module).is_none() && !self.is_opened(module));
        let gone = self.modules.iter().filter(|module| !declared.iter().any(|known| known == *module));
        let mut faults: Vec<String> = lost.map(|module| format!("{module} has no place")).collect();
        faults.extend(gone.map(|module| format!("{module} is gone")));
        for (module, code) in &texts {
            let Some(own) = self.owner(module) else { continue };
            for used in uses(module, code).into_iter().chain(self.uses_within(module, code)) {
                let beginnings = std::iter::successors(Some(&*used), |path| Some(parent(path)).filter(|path| !path.is_empty()));
                let path = beginnings.filter_map(|path| exports.get(path)).next().unwrap_or(&used);
                if let Some(used) = self.owner(path).filter(|used| self.height(used) > self.height(own)) {
                    faults.push(format!("{own} uses {used}"));
                }
            }
        }
        faults.sort();
        faults.dedup();
        faults
    }
}
