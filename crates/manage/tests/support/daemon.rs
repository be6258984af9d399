//! A daemon on a folder of image files, as a machine of its own.

use super::{PATIENCE, Place};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running daemon; killed when dropped.
pub struct Daemon {
    child: Child,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Place {
    /// The daemon's configuration, which every command here uses.
    pub fn config(&self) -> PathBuf {
        self.path("stria.toml")
    }

    /// Writes a configuration that looks at nothing but what is adopted, and touches no file outside of this folder.
    pub fn is_a_machine(&self) {
        let (state, mdadm) = (self.path("state"), self.path("mdadm.conf"));
        let text = format!(
            "[daemon]\nblock-devices = false\nstate = {:?}\n\n[mdadm]\nconf = {:?}\n",
            state.display().to_string(),
            mdadm.display().to_string()
        );
        std::fs::write(self.config(), text).expect("a file");
    }

    /// Sets something in the part `[daemon]`.
    pub fn configure(&self, line: &str) {
        let text = std::fs::read_to_string(self.config()).expect("a configuration");
        std::fs::write(self.config(), text.replacen("[daemon]\n", &format!("[daemon]\n{line}\n"), 1)).expect("a file");
    }
}

impl Daemon {
    /// Starts one and waits until it has looked at all drives.
    pub fn start(place: &Place) -> Self {
        Self::start_with(place, &[])
    }

    /// The same with these variables.
    pub fn start_with(place: &Place, variables: &[(&str, &str)]) -> Self {
        let mut command = place.command(&["daemon"]);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stderr = child.stderr.take().expect("a pipe");
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                eprintln!("daemon: {line}");
                text += &line;
                text.push('\n');
            }
            text
        });
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        match lines.next() {
            Some(Ok(line)) if line.starts_with("control ") => Self { child, log: Some(log) },
            other => panic!("the daemon ended before it was ready: {other:?}, {:?}", child.wait()),
        }
    }

    /// How NBD clients reach an array.
    pub fn uri(&self, place: &Place, array: &str) -> String {
        place.status(array)["exports"][0].as_str().expect("an address").to_owned()
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill is everywhere");
        assert!(done.success());
    }

    /// As `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    fn ended(mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return (status, self.log.take().expect("once").join().expect("no panic"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the daemon does not end");
    }

    /// It ended in good order; its log.
    pub fn ended_well(self) -> String {
        let (status, log) = self.ended();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
