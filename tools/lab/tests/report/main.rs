//! A run made by hand, whose truth is known: what the report, the comparison, the theory and the tables make of it.

mod browser;
mod charts;
mod compare;
mod export;
mod page;
mod sample;
mod theory;
