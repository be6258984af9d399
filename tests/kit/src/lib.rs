//! What the tests of several crates share: the real md driver, NVMe drives, certificates, scripts, the disk of a virtual machine.

pub mod certificates;
pub mod nvme;
pub mod oracle;
mod script;
pub mod vhost_user;

pub use script::script;

use std::path::{Path, PathBuf};

/// A guest that a script of the project sets up.
struct SetUp {
    /// Its name in messages.
    name: &'static str,
    /// The environment variable that skips its tests.
    skip: &'static str,
    /// The environment variable that names its folder, and the folder below `~/.cache` without it.
    cache: (&'static str, &'static str),
    /// The script. The folder keeps a copy of the one that set it up.
    script: &'static str,
}

impl SetUp {
    /// True if tests that need it are to run.
    fn is_wanted(&self) -> bool {
        if std::env::var_os(self.skip).is_some() {
            eprintln!("skipped: {} is set", self.skip);
            return false;
        }
        let (variable, folder) = self.cache;
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache").join(folder);
        let cache = std::env::var_os(variable).filter(|path| !path.is_empty()).map_or_else(home, PathBuf::from);
        let built = std::fs::read_to_string(cache.join("recipe")).is_ok_and(|recipe| recipe == self.script);
        assert!(built, "the {} is not set up: run `make setup`, or set {}=1 to go without", self.name, self.skip);
        true
    }
}

/// A file or folder of the project, by its path from the root.
fn project(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// The folder for scratch files that Cargo makes beside what it builds: the tests' `CARGO_TARGET_TMPDIR`.
///
/// # Panics
/// When the test runs from somewhere else.
fn scratch() -> PathBuf {
    let program = std::env::current_exe().expect("a test is a program");
    program.ancestors().nth(3).expect("a test lies in target/PROFILE/deps").join("tmp")
}
