//! NBD clients as programs.

#![allow(dead_code)]

use std::process::{Command, Output};

/// Runs a client to its end; `None`: it is not installed, and that is allowed.
pub fn try_run(program: &str, arguments: &[&str]) -> Option<Output> {
    // Distributions bind nbdsh to their own python: it must not find another.
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    match Command::new(program).args(arguments).env("PATH", path).output() {
        Ok(output) => Some(output),
        Err(error) if std::env::var_os("STRIA_SKIP_TOOLS").is_some() => {
            eprintln!("SKIPPED, because STRIA_SKIP_TOOLS is set: {program}: {error}");
            None
        }
        Err(error) => panic!(
            "{program} does not start: {error}; run: apt-get install libnbd-bin python3-libnbd qemu-utils fio \
             (or set STRIA_SKIP_TOOLS to go without)"
        ),
    }
}

/// Standard output of a client that must succeed.
pub fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = try_run(program, arguments)?;
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{program} {arguments:?} failed ({}):\n{out}{err}", output.status);
    Some(out.into_owned())
}
