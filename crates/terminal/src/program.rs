//! `stria` and its tools: programs of their own that start each other, as git starts git-foo.

use std::path::PathBuf;

/// Another of these programs: the one in this program's folder, with links resolved; if there is none, the one in `PATH`, by its
/// bare name.
pub fn find(name: &str) -> PathBuf {
    let beside = std::env::current_exe().map(|program| program.with_file_name(name));
    beside.ok().filter(|program| program.exists()).unwrap_or_else(|| name.into())
}

/// The command line of the tool that this program is, as it is written with `stria`: `stria lab run quick`.
pub fn command_line(tool: &str) -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    ["stria".into(), tool.into()].into_iter().chain(arguments).collect()
}
