//! Goal: what serves drives (`crates/`) needs none of the instruments (`tools/`), in tests neither.
//! Method: manifests are parsed, and paths of sources are read as text.

use std::path::{Path, PathBuf};
use toml::{Table, Value};

fn files(folder: &Path, ends: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("there").path()) {
        match entry.is_dir() {
            true if entry.ends_with("target") => {}
            true => files(&entry, ends, found),
            false if entry.to_str().is_some_and(|path| path.ends_with(ends)) => found.push(entry),
            false => {}
        }
    }
}

/// Dependencies of a manifest, also for some systems and for tests only: each name with its settings.
fn dependencies(manifest: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in manifest {
        let Some(inner) = value.as_table() else { continue };
        match key.as_str() {
            "dependencies" | "dev-dependencies" | "build-dependencies" => {
                found.extend(inner.iter().map(|(name, settings)| (name.clone(), settings.clone())));
            }
            "target" => found.extend(inner.values().filter_map(Value::as_table).flat_map(dependencies)),
            _ => {}
        }
    }
    found
}

/// The name of its package: a dependency may be renamed.
fn package<'a>(name: &'a str, settings: &'a Value) -> &'a str {
    settings.get("package").and_then(Value::as_str).unwrap_or(name)
}

/// The dependencies of a manifest that are tools of the workspace.
fn tools_in(manifest: &str, workspace: &Table) -> Vec<String> {
    let manifest: Table = manifest.parse().expect("TOML");
    let is_tool = |settings: &Value| {
        settings.get("path").and_then(Value::as_str).is_some_and(|path| path.split('/').any(|part| part == "tools"))
    };
    let shared = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let tools: Vec<&str> = shared
        .iter()
        .filter(|(_, settings)| is_tool(settings))
        .flat_map(|(name, settings)| [name.as_str(), package(name, settings)])
        .collect();
    assert!(tools.contains(&"stria-lab") && tools.contains(&"stria-sim") && tools.contains(&"stria-bench"), "{tools:?}");
    let found = dependencies(&manifest).into_iter();
    let found = found
        .filter(|(name, settings)| tools.contains(&&**name) || tools.contains(&package(name, settings)) || is_tool(settings));
    found.map(|(name, _)| name).collect()
}

fn workspace() -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    std::fs::read_to_string(path).expect("text").parse().expect("TOML")
}

#[test]
fn a_tool_is_found_however_it_is_written() {
    for manifest in [
        "[dependencies]\nstria-lab.workspace = true",
        "[dependencies]\nstria-lab = { workspace = true }",
        "[dependencies.stria-lab]\nworkspace = true",
        "[dependencies]\n  \"stria-lab\" = { workspace = true }",
        "dependencies = { stria-lab = { workspace = true } }",
        "[dev-dependencies]\nmeasure = { package = \"stria-lab\", version = \"0.1\" }",
        "[build-dependencies.x]\npath = \"../../tools/lab\"",
        "[target.'cfg(unix)'.dependencies.stria-lab]\nworkspace = true",
    ] {
        assert_eq!(tools_in(manifest, &workspace()).len(), 1, "{manifest}");
    }
    assert!(tools_in("[dependencies]\nserde.workspace = true\n[package]\nname = \"stria-lab\"", &workspace()).is_empty());
}

#[test]
fn nothing_in_crates_depends_on_a_tool() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &Path| std::fs::read_to_string(path).expect("text");
    let workspace = workspace();
    let (mut manifests, mut sources) = (Vec::new(), Vec::new());
    files(&root.join("crates"), "Cargo.toml", &mut manifests);
    files(&root.join("crates"), ".rs", &mut sources);
    assert!(manifests.len() > 8 && sources.len() > 100);
    for path in manifests {
        let found = tools_in(&read(&path), &workspace);
        assert!(found.is_empty(), "{}: {found:?}: crates/ must not depend on tools/", path.display());
    }
    for path in sources {
        let reaches = read(&path).lines().any(|line| line.trim_start().starts_with("#[path") && line.contains("/tools/"));
        assert!(!reaches, "{}: a source of tools/ is part of it: crates/ must not depend on tools/", path.display());
    }
}

/// An array of models computes no parity. One of drives that did so would lose what a failed drive held.
#[test]
fn nothing_that_serves_drives_leaves_parity_uncomputed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let (mut sources, mut named) = (Vec::new(), Vec::new());
    files(&crates, ".rs", &mut sources);
    for path in sources.into_iter().filter(|path| !path.starts_with(crates.join("array/tests"))) {
        let text = std::fs::read_to_string(&path).expect("text");
        let count = text.matches("set_members_keep_no_data").count();
        named.extend((count > 0).then(|| (path.strip_prefix(&crates).expect("inside").display().to_string(), count)));
    }
    assert_eq!(named, [("array/src/engine.rs".to_owned(), 1)], "only its own definition: models are in tools/");
}
