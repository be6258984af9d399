//! Durations and numbers: by the method, or less in a trial.

use crate::experiment::Scaling;
use crate::result::Scaled;
use crate::units::{counted, show_seconds, show_size};

/// The durations and numbers of a run.
#[derive(Clone, Debug, Default)]
pub struct Scale(Option<Scaling>);

impl Scale {
    /// Those of the method, or of a trial.
    pub fn new(scaling: Option<Scaling>) -> Self {
        Self(scaling)
    }

    /// True for a trial.
    pub fn is_scaled(&self) -> bool {
        self.0.is_some()
    }

    /// The seconds of a step that should take this long. A trial takes its share of a minute, at least half a second (or all of a
    /// shorter step), and at most ten such shares.
    pub fn seconds(&self, seconds: f64) -> f64 {
        self.0
            .as_ref()
            .map_or(seconds, |scaling| (seconds * scaling.seconds / 60.0).clamp(scaling.seconds.min(0.5), 10.0 * scaling.seconds))
    }

    /// The share of a trace that is replayed.
    pub fn share(&self) -> f64 {
        self.0.as_ref().map_or(1.0, |scaling| scaling.seconds / 60.0)
    }

    /// Rounds at most.
    pub fn rounds(&self, rounds: u32) -> u32 {
        self.0.as_ref().map_or(rounds, |scaling| rounds.min(scaling.rounds_max))
    }

    /// Passes at most.
    pub fn passes(&self, passes: u32) -> u32 {
        self.0.as_ref().map_or(passes, |scaling| passes.min(scaling.passes_max))
    }

    /// Repetitions of steps that are repeated for hours.
    pub fn samples(&self, samples: u32) -> u32 {
        self.0.as_ref().map_or(samples, |scaling| samples.min(scaling.samples_max))
    }

    /// Bytes of a target that are used.
    pub fn span(&self, size_bytes: u64) -> u64 {
        let span = self.0.as_ref().map_or(size_bytes, |scaling| size_bytes.min(scaling.span.0));
        // Whole MiB, so that every block size fits.
        if span >= 1 << 20 { span >> 20 << 20 } else { span }
    }

    /// Its description in a report.
    pub fn words(&self) -> Option<Scaled> {
        self.0.as_ref().map(|scaling| Scaled {
            time_share: scaling.seconds / 60.0,
            span_bytes: Some(scaling.span.0),
            rounds_max: Some(scaling.rounds_max),
            words: format!(
                "Scaled trial, not a measurement by the method: {} for a minute, at most {} of the target, {}, {} and {}.",
                show_seconds(scaling.seconds),
                show_size(scaling.span.0),
                counted(scaling.rounds_max, "round", "rounds"),
                counted(scaling.passes_max, "pass", "passes"),
                counted(scaling.samples_max, "repetition", "repetitions")
            ),
        })
    }
}
