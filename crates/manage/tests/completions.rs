//! Goal: the completions of fish and zsh complete a command, an option and its values.
//! Method: the real shells load what `stria completions` prints; zsh is typed to on a terminal of its own (zpty).

mod support;

use std::fs;
use support::{Place, run_tool};

#[test]
fn fish_completes_commands_options_and_values() {
    let place = Place::new();
    let file = place.path("stria.fish");
    fs::write(&file, place.ok(&["completions", "fish"])).expect("a file");
    let complete =
        |line: &str| run_tool("fish", &["--no-config", "-c", &format!("source '{}'; complete -C'{line}'", file.display())]);
    let Some(commands) = complete("stria rem") else { return };
    assert!(commands.lines().any(|line| line.starts_with("remove\t")), "{commands}");
    let options = complete("stria create --le").unwrap_or_default();
    assert!(options.lines().any(|line| line.starts_with("--level\t")), "{options}");
    let levels = complete("stria create tank --level ").unwrap_or_default();
    assert!(["0", "10", "60", "jbod"].iter().all(|level| levels.lines().any(|line| line.trim() == *level)), "{levels}");
}

/// Types a line and the key Tab twice, then prints what the shell showed.
const TYPE: &str = r#"
zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "PS1=; unsetopt zle_bracketed_paste; path=($3 \$path); fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; setopt nobeep; print rea''dy"
zpty -r -m shell seen "*ready*"
zpty -w -n shell "$2"$'\t\t'
shown=""
for (( at = 0; at < 200; at++ )); do
    zpty -r -t shell seen && shown+=$seen || sleep 0.05
    [[ $shown == *$4* ]] && break
done
zpty -d shell
print -r -- "$shown"
"#;

#[test]
fn zsh_completes_commands_options_and_values() {
    let place = Place::new();
    let folder = place.path("functions");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("_stria"), place.ok(&["completions", "zsh"])).expect("a file");
    let programs = support::stria().parent().expect("a folder").display().to_string();
    for (line, wanted) in [("stria renam", "rename"), ("stria create --leve", "--level"), ("stria create tank --level ", "jbod")]
    {
        let typed = ["-f", "-c", TYPE, "type", &folder.display().to_string(), line, &programs, wanted];
        let Some(shown) = run_tool("zsh", &typed) else { return };
        assert!(shown.contains(wanted), "{line}: {shown:?}");
    }
}
