//! The parts of a run: stages of steps, and their cost.

mod copies;
mod cost;
mod demand;
mod load;
mod scale;
mod step;
mod traces;

pub use copies::CopySet;
pub use cost::{destroys, drive_share, step_cost};
pub use demand::{DIRTH_AXIS, Demand};
pub(crate) use load::expand;
pub use load::{Load, Mix};
pub use scale::Scale;
pub use step::{Goal, Metric, RaidAction, Rounds, Stage, Step};
pub use traces::AppTrace;
