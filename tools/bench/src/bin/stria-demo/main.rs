//! `demo`: shows and measures an array on image files, as an ordinary user.
//!
//! First it prints the scaling table (stria-bench). Then it plays the story. `stria serve` serves a RAID 6 with two spares over
//! NBD. fio writes all of it in random order and verifies. Two drives are pulled under that load, the second during the rebuild
//! of the first. When the spares are filled, a scrub compares everything. Then two more drives are pulled, and every byte is
//! verified once more, now from the rebuilt drives.

#![forbid(unsafe_code)]

mod story;

use clap::{Args, Parser, ValueHint};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use stria_bench::report::{Section, page};
use stria_bench::scaling::{Plan, Scaling, scaling};
use stria_bench::{Environment, Order};
use stria_terminal::output::{self, print, print_json, write_file};
use stria_terminal::progress::steps_bar;
use stria_terminal::{Failure, absolute};

/// Measure every level on image files, then take a RAID 6 through two failures under load.
#[derive(Parser)]
#[command(name = "stria demo", bin_name = "stria demo", max_term_width = 110)]
struct Cli {
    /// Print JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    demo: Demo,
}

#[derive(Args, Debug)]
struct Demo {
    /// Measure up to this many drives.
    #[arg(long, value_name = "8|24", default_value = "8", value_parser = ["8", "24"])]
    members_max: String,
    /// Folder for the image files, which are removed afterwards; they need 2 GiB.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// The page with the charts.
    #[arg(long, value_name = "PATH", default_value = "stria-demo.html", value_hint = ValueHint::FilePath, overrides_with = "out")]
    out: PathBuf,
    /// Take only half a minute, with fewer drive counts and shorter runs.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    stria_terminal::run_tool(|cli: &Cli| cli.json, |cli, json| demo(&cli.demo, json).map(|()| 0))
}

/// Runs the demo.
///
/// # Errors
/// When fio is missing, image files cannot be made, or a check fails.
fn demo(command: &Demo, json: bool) -> Result<(), Failure> {
    let begun = Instant::now();
    check_fio()?;
    let folder = absolute(&command.dir.clone().unwrap_or_else(std::env::temp_dir));
    let mut plan = Plan::new(&folder);
    if command.members_max == "24" {
        plan = plan.to_24_drives();
    }
    if command.quick {
        plan.drive_counts.retain(|count| [1, 2, 4, 6].contains(count));
        (plan.rounds, plan.run) = (1, Duration::from_millis(40));
    }
    if !json {
        print(&format!("1  every level that fits, on image files in {}\n", folder.display()));
    }
    let table = measure(&plan, json)?;
    if !json {
        print(&format!("\n{}\n\n2  a RAID 6 loses two drives under load\n", scaling_words(&table)));
    }
    let story = story::tell(&folder, command.quick, json)?;
    let environment = Environment::here(table.members.clone());
    let sections = [Section::Scaling(&table), Section::Story(&story.story)];
    write_file(&command.out, &page("Stria demo", &environment, &sections))?;
    let out = absolute(&command.out);
    if json {
        print_json(&serde_json::json!({"environment": environment, "scaling": table, "story": story.story, "report": out}));
    } else {
        for sentence in table.verdict() {
            print(&format!("{sentence}\n"));
        }
        print(&format!(
            "{}\n\nreport: {} (all of it took {} s)\n",
            story.story.verdict,
            out.display(),
            begun.elapsed().as_secs()
        ));
    }
    match story.failure {
        Some(failure) => Err(Failure::Failed(failure)),
        None => Ok(()),
    }
}

/// Checks for fio with its NBD engine before the long runs.
fn check_fio() -> Result<(), Failure> {
    let install = "install it with: sudo apt-get install fio";
    match Command::new("fio").arg("--enghelp").output() {
        Err(error) => Err(Failure::Failed(format!("the demo needs fio, which cannot be started ({error}): {install}"))),
        Ok(output) if !String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == "nbd") => {
            Err(Failure::Failed(format!("the fio of this machine was built without its nbd engine; Debian's has it: {install}")))
        }
        Ok(_) => Ok(()),
    }
}

fn measure(plan: &Plan, json: bool) -> Result<Scaling, Failure> {
    let bar = steps_bar(json);
    let lines = !io::stderr().is_terminal() && !json;
    let mut due = Instant::now();
    let mut watch = |done: usize, total: usize, what: &str| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
        if lines && Instant::now() >= due {
            due = Instant::now() + Duration::from_secs(10);
            eprintln!("{done} of {total} runs: {what}");
        }
    };
    let table = scaling(plan, &mut watch);
    bar.finish_and_clear();
    table.map_err(Failure::failed)
}

/// One line for each level at each drive count; each figure with its share of the drives' limit.
fn scaling_words(scaling: &Scaling) -> String {
    let mut columns: Vec<(Order, bool, usize)> = Vec::new();
    for cell in &scaling.cells {
        let column = (cell.order, cell.read, cell.queue_depth);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let title = |(order, read, depth): &(Order, bool, usize)| {
        let (unit, order) = if *order == Order::Random { ("IOPS", "random") } else { ("MB/s", "sequential") };
        format!("{order}\n{} QD{depth}\n{unit}", if *read { "read" } else { "write" })
    };
    let mut header = vec!["drives".to_owned(), "level".to_owned()];
    header.extend(columns.iter().map(title));
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for cell in &scaling.cells {
        if !lines.contains(&(cell.drives, &cell.level)) {
            lines.push((cell.drives, &cell.level));
        }
    }
    let rows = lines.iter().map(|&(drives, level)| {
        let mut row = vec![drives.to_string(), level.to_owned()];
        for column in &columns {
            let is_it = |cell: &&stria_bench::scaling::Cell| {
                (cell.drives, cell.level.as_str()) == (drives, level) && (cell.order, cell.read, cell.queue_depth) == *column
            };
            row.push(scaling.cells.iter().find(is_it).map_or(String::new(), |cell| {
                let rate = if cell.order == Order::Random { cell.iops.median } else { cell.mb_per_s };
                let share = cell.share.map_or(String::new(), |share| format!(" {:>3.0} %", share * 100.0));
                format!("{rate:.0}{share}")
            }));
        }
        row
    });
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let right: Vec<usize> = (2..header.len()).collect();
    let table = output::table(&header, &right, rows.collect());
    format!("{table}\n\nPer cent: of the limit of the geometry on these drives. {}.", scaling.members)
}
