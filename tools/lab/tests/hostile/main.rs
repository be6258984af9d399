//! Goal: no experiment, trace, result of fio or run folder makes the program start, overwrite or remove a thing that the user did
//! not name. Reading them neither panics nor hangs nor takes unbounded memory. Method: known attacks and variants; then mutations
//! of everything that is shipped (`fuzz`).

mod experiments;
mod folders;
mod fuzz;
mod resume;
mod traces;
