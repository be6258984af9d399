//! From an experiment and its targets to the steps, their duration, and the bytes that they write.

mod copies;
mod cost;
mod dry_run;
mod load;
mod scale;
mod sections;
mod stage;
mod traces;

pub use copies::CopySet;
pub use cost::{destroys, drive_share, step_cost};
pub use dry_run::{Plan, PlannedSection, plan};
pub use load::{Load, Mix};
pub use scale::Scale;
pub use sections::{section_id, stages, stages_apart};
pub use stage::{Goal, Metric, RaidAction, Rounds, Stage, Step};
pub use traces::AppTrace;
