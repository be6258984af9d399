//! Instruments that are programs of their own: `stria lab …` starts `stria-lab …`, as git starts git-foo.
//!
//! A tool lies beside this program (links followed), or in `PATH`. It replaces this process, so arguments, environment, signals
//! and exit code are its own. A machine that only serves arrays needs none of them.

use clap::Command;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process;
use stria_terminal::{Failure, describe, program};

/// The words that start a tool, and their descriptions in `stria help`.
const TOOLS: [(&str, &str); 5] = [
    ("bench", "Measure an array beside its bare members and what its geometry allows"),
    ("lab", "The laboratory: measure any storage that fio can reach, by SNIA's method, and report"),
    ("demo", "Measure every level on image files, then take a RAID 6 through two failures under load"),
    ("sim", "Run histories of arrays on hostile drives, in virtual time; the first loss ends it"),
    ("plan", "Plan an array: which level, how many drives and which strip suit a purpose, on modelled drives"),
];

/// A command line for a tool.
pub struct Handover {
    tool: &'static str,
    arguments: Vec<OsString>,
    /// True if it asks for JSON before the tool's name.
    pub json: bool,
}

impl Handover {
    /// `stria [--json] lab …`, or `stria help lab …`; `arguments` are those of this program.
    pub fn of(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.into_iter().peekable();
        let json = arguments.next_if(|argument| argument == "--json");
        let help = arguments.next_if(|argument| argument == "help").map(|_| OsString::from("--help"));
        let word = arguments.next()?;
        let (tool, _) = TOOLS.into_iter().find(|(tool, _)| word == *tool)?;
        Some(Self { tool, json: json.is_some(), arguments: json.into_iter().chain(arguments).chain(help).collect() })
    }

    /// Becomes the tool; returns only if that is impossible.
    pub fn start(&self) -> Failure {
        let Self { tool, arguments, .. } = self;
        let name = format!("stria-{tool}");
        let error = process::Command::new(program::find(&name)).args(arguments).exec();
        match error.kind() {
            ErrorKind::NotFound => Failure::Usage(format!(
                "`stria {tool}` needs the program {name}, which is neither beside stria nor in PATH: build it with `cargo build --release \
                 --bin {name}`, and copy it to where stria lies"
            )),
            _ => Failure::Failed(format!("{name} does not start: {error}")),
        }
    }
}

/// The command line with the tools' names, for help and the parser's hints.
pub fn with_names(command: Command) -> Command {
    command.subcommands(TOOLS.map(|(tool, about)| Command::new(tool).about(about)))
}

/// The same with all options of the installed tools, for completions.
pub fn with_options(command: Command) -> Command {
    TOOLS.into_iter().fold(with_names(command), |command, (tool, about)| {
        let described = process::Command::new(program::find(&format!("stria-{tool}"))).arg(describe::FLAG).output();
        match described.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()) {
            Some(described) => command.mut_subcommand(tool, |_| describe::command(tool, &described).about(about)),
            None => command,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_tools_are_handed_over_with_all_that_follows() {
        let cases = [
            ("lab run --json x", Some(("lab", "run --json x"))),
            ("--json bench --ram 4", Some(("bench", "--json --ram 4"))),
            ("help sim price", Some(("sim", "price --help"))),
            ("plan advise --drives 8xp4510", Some(("plan", "advise --drives 8xp4510"))),
            ("lab compare a -- b", Some(("lab", "compare a -- b"))),
            ("status lab", None),
            ("help status", None),
            ("", None),
        ];
        for (line, expected) in cases {
            let found = Handover::of(line.split_whitespace().map(OsString::from));
            let described = found.map(|found| (found.tool, found.arguments.join(" ".as_ref()).into_string().expect("text")));
            assert_eq!(described.as_ref().map(|(tool, rest)| (*tool, &**rest)), expected, "{line}");
        }
    }
}
