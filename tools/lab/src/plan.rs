//! From an experiment and its targets to the steps, their duration, and the bytes that they write.

mod dry_run;
mod sections;

pub use dry_run::{Plan, PlannedSection, plan};
pub use sections::{section_id, stages, stages_apart};
