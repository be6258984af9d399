//! What the tests of several crates share: the real md driver, NVMe drives, certificates.

pub mod certificates;
pub mod nvme;
pub mod oracle;

use std::path::{Path, PathBuf};

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
