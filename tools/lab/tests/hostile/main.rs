//! Goal: whatever an experiment, a trace, a result of fio's or a run's folder says, nothing outside of what the user named is
//! started, overwritten or removed, and reading it neither panics nor hangs nor takes unbounded memory.
//! Method: the attacks that were found, and variants; then mutations of everything that is shipped (`fuzz`).

mod experiments;
mod folders;
mod fuzz;
mod resume;
mod traces;
