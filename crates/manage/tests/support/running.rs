//! A program that runs beside a test: `stria serve`, `stria daemon`.

use super::PATIENCE;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Killed when dropped.
pub struct Running {
    name: &'static str,
    child: Child,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    /// Starts it. Its output comes line by line; its log is shown, and kept for the end.
    pub fn start(name: &'static str, command: &mut Command) -> (Self, Lines<BufReader<ChildStdout>>) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let stderr = child.stderr.take().expect("a pipe");
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                eprintln!("{name}: {line}");
                text += &line;
                text.push('\n');
            }
            text
        });
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        (Self { name, child, log: Some(log) }, lines)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.pid().to_string()]).status().expect("kill is everywhere");
        assert!(done.success());
    }

    pub fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }

    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.wait().expect("it ends");
    }

    pub fn ended(mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return (status, self.log.take().expect("once").join().expect("no panic"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} does not end", self.name);
    }

    pub fn ended_well(self) -> String {
        let (status, log) = self.ended();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
