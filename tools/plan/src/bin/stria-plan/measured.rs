//! A purpose that was measured: a trace or a run of the laboratory. The laboratory reads both; its program says what they ask of
//! drives.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use stria_plan::advice::{Purpose, purpose};
use stria_terminal::{Failure, program};

/// The file or folder of a measured purpose; a format may stand before the path.
pub fn path(name: &str) -> PathBuf {
    match name.split_once(':') {
        Some((_, path)) if !Path::new(name).exists() => PathBuf::from(path),
        _ => PathBuf::from(name),
    }
}

/// The purpose of a trace (`trace.csv.gz`, `msr:trace.csv.gz`) or of a run's folder.
///
/// # Errors
/// Usage, if there is none in it.
pub fn purpose(name: &str) -> Result<Purpose, Failure> {
    if !path(name).exists() {
        let presets = purpose::NAMES.join(", ");
        return Err(Failure::Usage(format!(
            "there is no purpose {name}: choose one of {presets}, or name a trace or the folder of a run"
        )));
    }
    let lab = program::find("stria-lab");
    let output = Command::new(&lab).args(["--json", "purpose", "--", name]).output().map_err(|error| {
        let lab = lab.display();
        Failure::Failed(format!(
            "a trace or a run is read by {lab}, which does not start ({error}): install it beside stria-plan"
        ))
    })?;
    let failed = |sentence: &str| Failure::Usage(format!("{name} is not a purpose: {sentence}"));
    if !output.status.success() {
        let told: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let sentence = told.as_ref().and_then(|told| told["error"]["message"].as_str());
        return Err(failed(sentence.unwrap_or(String::from_utf8_lossy(&output.stderr).trim())));
    }
    let found: Purpose = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(&format!("{} of another version answered ({error})", lab.display())))?;
    found.checked().map_err(|sentence| failed(&sentence))
}
