//! Goal: a command that a message suggests is read by a shell as it is meant, whatever the names in it hold.
//! Method: every command in the sources is looked at. `sentences!` makes words of a shell by itself; other texts show it by the
//! names of their values. Then the real program suggests commands for an array and images with blanks in their names.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use support::Place;

/// Values that no shell reads otherwise: numbers, identities, choices among words of Stria's own.
const PLAIN: [&str; 10] = ["id", "uuid", "from", "at", "pid", "uid", "wanted", "tool", "what", "how"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The values that stand in commands, in the order of the text: each with its line.
fn values_in_commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        // Every other part stands between backticks, and a command has more than one word.
        for command in line.split('`').skip(1).step_by(2).filter(|part| part.contains(' ')) {
            let holes = command.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned()));
            found.extend(holes.map(|hole| (number + 1, hole)));
        }
    }
    found
}

#[test]
fn every_value_in_a_command_is_a_word_of_a_shell() {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    for entry in fs::read_dir(crates).expect("a folder") {
        let source = entry.expect("an entry").path().join("src");
        source.is_dir().then(|| sources(&source, &mut files));
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("a source");
        if text.contains("sentences! {") {
            continue;
        }
        for (line, value) in values_in_commands(&text) {
            seen += 1;
            if !(value.ends_with("word") || value.ends_with("words") || PLAIN.contains(&&*value)) {
                wrong.push(format!("{}:{line}: {{{value}}}", file.display()));
            }
        }
    }
    assert!(seen > 40, "only {seen} values were found in commands");
    assert!(wrong.is_empty(), "make words of these by `shell_word`, and name them so:\n{}", wrong.join("\n"));
}

#[test]
fn a_suggested_command_quotes_names_with_blanks() {
    let place = Place::new();
    let images = place.images(2, 16 << 20);
    place.ok(&["create", "my array", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    let empty = place.path("an empty image");
    fs::write(&empty, "").expect("a file");
    let wanted = format!("`truncate -s 10G '{}'`", empty.display());
    place.run(&["create", "other", "--level", "1", "an empty image", "missing"]).refused(1, &[&wanted]);
    let _serve = place.serve(&[&images[0], &images[1]]);
    place
        .run(&["destroy", "my array", "--force", &images[0], &images[1]])
        .refused(1, &["\"my array\" is served: `stria stop 'my array'` first"]);
    place.ok(&["fail", "my array", &images[1], "--force"]);
    let explained = place.run(&["--json", "explain", "my array"]);
    assert!(explained.stdout.contains("`stria add 'my array' DRIVE`"), "{explained:?}");
}
