//! A run made by hand with known results, for the report, the comparison, the theory and the tables.

mod browser;
mod charts;
mod compare;
mod export;
mod findings;
mod page;
mod sample;
mod theory;
