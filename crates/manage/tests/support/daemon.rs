//! A daemon on a folder of image files, as a machine of its own.

use super::{Place, Running};
use std::path::PathBuf;

/// A running daemon; killed when dropped.
pub struct Daemon(Running);

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

    /// The same with these environment variables.
    pub fn start_with(place: &Place, variables: &[(&str, &str)]) -> Self {
        let mut command = place.command(&["daemon"]);
        let (mut running, mut lines) = Running::start("daemon", command.envs(variables.iter().copied()));
        match lines.next() {
            Some(Ok(line)) if line.starts_with("control ") => Self(running),
            other => panic!("the daemon ended before it was ready: {other:?}, {:?}", running.wait()),
        }
    }

    /// The address of an array for NBD clients.
    pub fn uri(&self, place: &Place, array: &str) -> String {
        place.status(array)["exports"][0].as_str().expect("an address").to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    pub fn signal(&self, name: &str) {
        self.0.signal(name);
    }

    /// Ends it as `kill -9` does.
    pub fn kill(self) {
        self.0.kill();
    }

    /// Checks that it ended with exit code 0. Returns its log.
    pub fn ended_well(self) -> String {
        self.0.ended_well()
    }
}
