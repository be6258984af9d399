//! Goal: `stria lab` and the like become programs of their own, and a server works without them.
//! Method: the real `stria`, linked into a folder where no tool lies beside it, and a script in the place of a tool.

mod support;

use std::process::{Command, Stdio};
use support::Place;

const SCRIPT: &str = "#!/bin/sh\n\
    if [ \"$1\" = --describe-command-line ]; then echo '{\"name\": \"x\", \"subcommands\": [{\"name\": \"weigh\"}]}'; exit; fi\n\
    trap 'kill $! 2>/dev/null; echo ended; exit 9' TERM\n\
    echo \"$# $* in $STRIA_SOCKET, process $$\"\n\
    if [ \"$1\" = wait ]; then sleep 60 & wait; fi\n\
    exit 7\n";

/// `stria` alone in a folder.
fn alone(place: &Place) -> String {
    let program = place.path("stria");
    std::fs::hard_link(env!("CARGO_BIN_EXE_stria"), &program).expect("one file system");
    program.to_str().expect("a plain path").to_owned()
}

fn tool(place: &Place) {
    stria_testkit::script(&place.path("stria-lab"), SCRIPT);
}

fn said(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_tool_gets_arguments_environment_and_signals_and_gives_the_exit_code() {
    let place = Place::new();
    let stria = alone(&place);
    tool(&place);
    let socket = place.path("control.sock").display().to_string();
    for (arguments, passed) in [
        (&["lab", "run", "a b", "--", "--json"][..], "4 run a b -- --json"),
        (&["--json", "lab", "list"], "2 --json list"),
        (&["help", "lab", "run"], "2 run --help"),
        (&["lab"], "0 "),
    ] {
        let (code, out, error) = said(place.command_line(&stria, arguments));
        assert_eq!((code, &*error), (Some(7), ""), "{arguments:?}: {out}");
        assert!(out.starts_with(&format!("{passed} in {socket}, ")), "{arguments:?}: {out}");
    }
    // The tool is the process that was started, so a signal to that process reaches the tool.
    let mut child = place.command_line(&stria, &["lab", "wait"]);
    let mut child = child.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    let first = lines.next().expect("a line").expect("text");
    assert!(first.ends_with(&format!("process {}", child.id())), "{first}");
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("kill is everywhere").success());
    assert_eq!((lines.next().expect("a line").expect("text"), child.wait().expect("it ends").code()), ("ended".into(), Some(9)));
}

#[test]
fn a_tool_that_is_missing_is_named_with_the_remedy() {
    let place = Place::new();
    let stria = alone(&place);
    for tool in ["bench", "demo", "lab", "sim", "plan"] {
        let run = |arguments: &[&str]| {
            let mut command = place.command_line(&stria, arguments);
            command.env("PATH", place.path("bin"));
            said(command)
        };
        let name = format!("stria-{tool}");
        let (code, out, error) = run(&[tool, "--help"]);
        assert_eq!((code, &*out, error.lines().count()), (Some(2), "", 1), "{error}");
        assert!(error.contains(&name) && error.contains("PATH") && error.contains("cargo build"), "{error}");
        let (code, out, _) = run(&["--json", tool]);
        let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!((code, told["error"]["exit_code"].as_u64()), (Some(2), Some(2)), "{out}");
    }
}

#[test]
fn help_and_completions_name_the_tools_and_what_those_that_are_there_take() {
    let place = Place::new();
    let stria = alone(&place);
    let run = |arguments: &[&str]| {
        let mut command = place.command_line(&stria, arguments);
        command.env("PATH", place.path("bin"));
        let (code, out, error) = said(command);
        assert_eq!(code, Some(0), "{error}");
        out
    };
    let help = run(&["help"]);
    for words in ["  bench  ", "  demo  ", "  lab  ", "  sim  ", "  plan  ", "by SNIA's method"] {
        assert!(help.contains(words), "\"{words}\" is missing: {help}");
    }
    assert!(!run(&["completions", "bash"]).contains("weigh"));
    tool(&place);
    let bash = run(&["completions", "bash"]);
    assert!(bash.contains("stria__subcmd__lab__subcmd__weigh") || bash.contains("stria__lab__weigh"), "{bash}");
}
