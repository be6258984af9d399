//! The scaling table on image files: `cargo run --release -p stria-bench --example scaling FOLDER [DRIVE_COUNT…]`
//! writes `scaling.html` and `scaling.csv` there.

use stria_bench::report::{Section, page};
use stria_bench::scaling::{Plan, scaling};
use stria_bench::{Environment, scaling::ScalingError};

fn main() -> Result<(), ScalingError> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("name a folder");
    let counts: Vec<usize> = arguments.map(|count| count.parse().expect("DRIVE_COUNT is a number")).collect();
    let mut plan = Plan::new(&folder);
    if !counts.is_empty() {
        plan.drive_counts = counts;
    }
    let mut before = String::new();
    let result = scaling(&plan, &mut |done: usize, total: usize, what: &str| {
        if before != what {
            eprintln!("{done:>5} of {total}: {what}");
            before = what.to_string();
        }
    })?;
    println!("{}\n{:.1} s", result.verdict().join("\n"), result.elapsed.as_secs_f64());
    let html = page("Stria: levels by drive count", &Environment::here(&result.members), &[Section::Scaling(&result)]);
    std::fs::write(format!("{folder}/scaling.html"), html).expect("the folder takes the page");
    std::fs::write(format!("{folder}/scaling.csv"), result.to_csv()).expect("the folder takes the table");
    Ok(())
}
