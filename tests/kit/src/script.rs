//! Programs that a test writes and then starts.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a shell script that can be started at once.
///
/// A process of its own writes it. The kernel refuses to start a file that is open for writing ("Text file busy"), and a child
/// that another thread of the test forks in that moment holds what the test has open.
///
/// # Panics
/// When it cannot be written.
pub fn script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).stdin(Stdio::piped());
    let mut writer = shell.spawn().expect("sh starts");
    writer.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("sh reads it");
    assert!(writer.wait().expect("sh ends").success(), "{} is written", path.display());
}
