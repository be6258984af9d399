//! A run's experiment, targets and end.

use super::{DriveInfo, Environment, Section, SteadyVerdict, TargetInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The description of a run, without its measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`super::FORMAT`] of the writer.
    pub format: u32,
    /// The run's name: the experiment's, with the time when it began.
    pub id: String,
    /// The experiment's name: `quick`, `snia-iops`.
    pub experiment: String,
    /// The experiment's title, for a heading.
    pub title: String,
    /// Its question, in a sentence or two.
    pub question: String,
    /// Its state.
    pub status: RunStatus,
    /// A trial: shorter and smaller than the experiment. Every page and table says so.
    pub scaled: Option<Scaled>,
    /// When it began.
    pub begun_ms: u64,
    /// When it ended or was interrupted; absent while it runs.
    pub ended_ms: Option<u64>,
    /// When it was resumed.
    pub resumed_ms: Vec<u64>,
    /// `stria 0.1.0`.
    pub program: String,
    /// `fio-3.33`.
    pub fio: String,
    /// The command line, for repeating it.
    pub command: Vec<String>,
    /// A remark by the user.
    pub note: String,
    /// The targets.
    pub targets: Vec<TargetInfo>,
    /// The machine.
    pub environment: Environment,
    /// The same machines as far as other hosts took part, by host name.
    pub hosts: BTreeMap<String, Environment>,
    /// The parts of the experiment in the order in which they ran, each with its verdict.
    pub sections: Vec<Section>,
    /// Drives after the run, if they answer: wear and writes to compare with [`TargetInfo::drives`].
    pub drives_after: Vec<DriveInfo>,
}

impl Manifest {
    /// All verdicts on steadiness, each with its section.
    pub fn verdicts(&self) -> impl Iterator<Item = (&Section, &SteadyVerdict)> {
        self.sections.iter().flat_map(|section| section.verdicts().map(move |steady| (section, steady)))
    }
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It runs, or was killed; `resume` finds out which.
    Running,
    /// All planned measurements exist.
    Done,
    /// It was stopped by the user.
    Interrupted,
    /// It ended, but a section was abandoned or a load has no result; resume measures these again.
    WithFailures,
    /// It could not continue; the last note has the reason.
    Failed,
}

/// The differences of a trial from the method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// Seconds of a measurement as a fraction of the method's: 1/60 if a round takes a second for each cell.
    pub time_share: f64,
    /// Bytes of the target that are used, where the target is larger.
    pub span_bytes: Option<u64>,
    /// Rounds at most, where the method allows 25.
    pub rounds_max: Option<u32>,
    /// The same in a sentence, printed beside all results: "scaled trial: 1 s instead of 60 s, …".
    pub words: String,
}
