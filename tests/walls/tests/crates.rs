//! Goal: what serves drives (`crates/`) needs none of the instruments (`tools/`), in tests neither.
//! Method: manifests and paths of sources are read as text.

use std::path::{Path, PathBuf};

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

#[test]
fn nothing_in_crates_depends_on_a_tool() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &Path| std::fs::read_to_string(path).expect("text");
    let workspace = read(&root.join("Cargo.toml"));
    let tools: Vec<&str> = workspace.lines().filter(|line| line.contains("\"tools/") && line.contains("path =")).collect();
    let tools: Vec<&str> = tools.iter().filter_map(|line| line.split_once(" =").map(|(name, _)| name)).collect();
    assert!(tools.contains(&"stria-lab") && tools.contains(&"stria-sim") && tools.contains(&"stria-bench"), "{tools:?}");
    let (mut manifests, mut sources) = (Vec::new(), Vec::new());
    files(&root.join("crates"), "Cargo.toml", &mut manifests);
    files(&root.join("crates"), ".rs", &mut sources);
    assert!(manifests.len() > 8 && sources.len() > 100);
    for path in manifests {
        for line in read(&path).lines() {
            let named = tools.iter().find(|tool| line.starts_with(*tool));
            assert!(
                named.is_none() && !line.contains("../tools/"),
                "{}: {line}: crates/ must not depend on tools/",
                path.display()
            );
        }
    }
    for path in sources {
        let reaches = read(&path).lines().any(|line| line.trim_start().starts_with("#[path") && line.contains("/tools/"));
        assert!(!reaches, "{}: a source of tools/ is part of it: crates/ must not depend on tools/", path.display());
    }
}
