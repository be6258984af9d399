//! Runs a program that may wait for a drive, a file system or a server that hangs, for a bounded time.
//!
//! Its input and its output are files in memory: a program that does not read, or whose children keep its output open, makes
//! nobody wait.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

/// The pause between two checks whether a program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why a program has no result.
#[derive(Debug)]
pub enum NoResult {
    /// It could not be started.
    NotStarted(io::Error),
    /// It was ended with its children. Holds what it had written to standard error by then.
    Late(Vec<u8>),
}

/// Runs `command` with `input`, and ends it with its children after `patience`. Returns what it has written so far when it ends.
///
/// # Errors
/// It has no result. Only a program that waits in the kernel, which no signal ends, can delay this further.
pub fn run_within(patience: Duration, mut command: Command, input: &[u8]) -> Result<Output, NoResult> {
    let mut files = Vec::new();
    for _ in 0..3 {
        files.push(memory().map_err(NoResult::NotStarted)?);
    }
    let start = |command: &mut Command, files: &mut [File]| {
        files[0].write_all(input)?;
        files[0].rewind()?;
        command.stdin(files[0].try_clone()?).stdout(files[1].try_clone()?).stderr(files[2].try_clone()?);
        // A group of its own, so that its children end with it.
        command.process_group(0).spawn()
    };
    let mut child = start(&mut command, &mut files).map_err(NoResult::NotStarted)?;
    match wait(&mut child, patience).map_err(NoResult::NotStarted)? {
        Some(status) => Ok(Output { status, stdout: content(&mut files[1]), stderr: content(&mut files[2]) }),
        None => Err(NoResult::Late(content(&mut files[2]))),
    }
}

/// An empty file in memory.
fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create("stria", MemfdFlags::CLOEXEC)?))
}

/// `None`: it was ended.
fn wait(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + patience;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if Instant::now() < end => std::thread::sleep(LOOK_EVERY),
            None => {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                child.wait()?;
                return Ok(None);
            }
        }
    }
}

/// What was written to a file in memory.
fn content(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Reads of memory do not fail, and half an answer is judged by its reader.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(text: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_program_gets_its_input_and_gives_its_output() {
        let output = run_within(LONG, shell("cat; echo words >&2; exit 7"), b"input").expect("it ends");
        assert_eq!((output.status.code(), &output.stdout[..], &output.stderr[..]), (Some(7), &b"input"[..], &b"words\n"[..]));
        let output = run_within(LONG, shell("exit 0"), &[7; 1 << 20]).expect("it reads nothing");
        assert!(output.status.success());
        assert!(matches!(run_within(LONG, Command::new("/nowhere"), b""), Err(NoResult::NotStarted(_))));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_its_children() {
        let begun = Instant::now();
        let outcome = run_within(Duration::from_millis(500), shell("sleep 1000 & echo $! >&2; wait"), b"");
        let Err(NoResult::Late(words)) = outcome else { panic!("{outcome:?}") };
        assert!(begun.elapsed() < LONG / 2);
        let child = String::from_utf8(words).expect("a number");
        // Its parent is gone, so it may stay a zombie for a while.
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        while !is_gone() && begun.elapsed() < LONG {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(!child.trim().is_empty() && is_gone());
    }

    /// A child of a program that has ended may keep its output open for ever.
    #[test]
    fn children_that_go_on_make_nobody_wait() {
        let begun = Instant::now();
        let output = run_within(LONG, shell("sleep 20 & echo done"), b"").expect("it ends");
        assert_eq!(output.stdout, b"done\n");
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
}
