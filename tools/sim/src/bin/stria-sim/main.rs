//! `sim`: many histories in virtual time. A failure is shrunk, and printed with the command that replays it.

#![forbid(unsafe_code)]

mod beside;
mod price;

use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use stria_sim::campaign::{Plan, Report, campaign, caught};
use stria_sim::shrink::shrink;
use stria_sim::{Extras, Failure as Failed, History, Rules, run_traced};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};
use stria_terminal::progress::steps_bar;

/// The time for which the program tries to shorten a failing history.
const SHRINK_MAX: Duration = Duration::from_secs(60);

/// Run histories of arrays on hostile drives, in virtual time; the first loss ends it.
#[derive(Parser)]
#[command(name = "stria sim", bin_name = "stria sim", max_term_width = 110)]
struct Cli {
    /// Print JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    sim: Sim,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
struct Sim {
    /// Run another simulation instead of histories.
    #[command(subcommand)]
    what: Option<What>,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// The number of histories; by default 10000, unless --seconds is given.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Begin no history after this time.
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Run arrays of one level only.
    #[arg(long, value_parser = stria_sim::setup::FAMILIES)]
    level: Option<String>,
    /// The number of threads; by default one for each core.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print the cases that occurred, by level, and which requests met which states and faults.
    #[arg(long)]
    coverage: bool,
    /// Add more faults to the same seeds: bit rot, lost and misdirected writes, growing errors, torn metadata, starts that are
    /// cut short by another crash or lack a member.
    #[arg(long)]
    more_faults: bool,
    /// Let clients outlive a killed process and repeat its unanswered requests to the next one: a write may arrive twice.
    #[arg(long)]
    repeats: bool,
    /// Give RAID 5 and 50 md's partial parity log instead of Stria's write log.
    #[arg(long)]
    partial_parity: bool,
    /// Add and remove bitmap and write log while arrays are stopped, cut the power meanwhile, and change write policies.
    #[arg(long)]
    changes: bool,
    /// Let drives hang while members are rebuilt or replaced, with requests in their hands.
    #[arg(long)]
    hangs: bool,
    /// Let a member's file system be full for a while: its writes fail with "no space".
    #[arg(long)]
    full: bool,
    /// Add harsher faults of drives: logs that cannot be read at a start, flushes that fail, failed writes that are done in part;
    /// and commands that meet each other.
    #[arg(long)]
    harsh: bool,
    /// Let half of the drives with a volatile cache lie about flushes. Losses are then counted, not failures.
    #[arg(long)]
    lying_flush: bool,
    /// Run the history of --from alone, and print every event of it.
    #[arg(long, conflicts_with_all = ["seconds", "jobs", "coverage", "count"])]
    trace: bool,
    /// Print only the data requests that concern these sectors of the array.
    #[arg(long, value_name = "FIRST-LAST", requires = "trace", value_parser = stria_sim::trace::sectors)]
    sectors: Option<std::ops::Range<u64>>,
}

/// The other simulations.
#[derive(Debug, Subcommand)]
enum What {
    /// The cost of the write log on modelled SSDs: 4 KiB random writes with and without it, in virtual time.
    Price(price::Price),
    /// The latency of clients during a rebuild on modelled SSDs, and the speed of the rebuild, in virtual time.
    Rebuild(beside::Rebuild),
}

impl Sim {
    fn extras(&self) -> Extras {
        Extras {
            more_faults: self.more_faults,
            repeats: self.repeats,
            partial_parity: self.partial_parity,
            changes: self.changes,
            hangs: self.hangs,
            full: self.full,
            harsh: self.harsh,
        }
    }
}

fn main() -> ExitCode {
    stria_terminal::run_tool(|cli: &Cli| cli.json, |cli, json| sim(&cli.sim, json).map(|()| 0))
}

/// Runs histories.
///
/// # Errors
/// Something was lost.
fn sim(command: &Sim, json: bool) -> Result<(), Failure> {
    match &command.what {
        Some(What::Price(command)) => return price::run(command, json),
        Some(What::Rebuild(command)) => return beside::run(command, json),
        None => {}
    }
    if command.partial_parity && command.level.as_deref().is_some_and(|level| !matches!(level, "5" | "50")) {
        return Err(Failure::Usage(
            "only RAID 5 and 50 have a partial parity log: choose --level 5 or 50 with --partial-parity".into(),
        ));
    }
    if command.trace {
        return trace(command);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        from: command.from,
        count: command.count.unwrap_or(if command.seconds.is_some() { u64::MAX - command.from } else { 10_000 }),
        time_max: command.seconds.map(Duration::from_secs),
        family: command.level.clone(),
        jobs: command.jobs.unwrap_or(cores),
        extras: command.extras(),
        rules: Rules { lying_flush: command.lying_flush, cross: command.coverage, ..Rules::default() },
    };
    let bar = steps_bar(json);
    bar.set_length(plan.count);
    // A panic in a history is a failure that is printed below.
    std::panic::set_hook(Box::new(|_| {}));
    let report = campaign(&plan, &|ended| {
        bar.set_position(ended);
        true
    });
    let shrunk = report.failure.clone().map(|(seed, failure)| {
        let history = plan.history(seed);
        let (short, failure) = shrink(&history, failure, plan.rules, SHRINK_MAX);
        (seed, short, failure)
    });
    drop(std::panic::take_hook());
    bar.finish_and_clear();
    let speed = Speed::of(&report, plan.jobs.min(cores));
    if json {
        print_json(&in_json(&report, &speed, shrunk.as_ref(), command));
    } else {
        print(&format!(
            "{} histories in {:.1} s: {:.0} a second, {} crashes; {:.0} simulated requests to drives a second on each of {} cores\n",
            report.histories, speed.seconds, speed.histories_per_s, report.crashes, speed.requests_per_s_per_core, speed.cores,
        ));
        if command.lying_flush {
            print(&lost(&report));
        }
        if command.coverage {
            print(&coverage(&report));
        }
    }
    let Some((seed, short, failure)) = shrunk else { return Ok(()) };
    let mut words = format!("{}\nseed {seed}, made shorter: {}\n", failure.what, short.setup);
    for step in &short.steps {
        writeln!(words, "  {step:?}").expect("a string takes everything");
    }
    write!(words, "replay: {}", replay(seed, command)).expect("a string takes everything");
    Err(Failure::Failed(words))
}

/// How fast a campaign was.
struct Speed {
    seconds: f64,
    cores: usize,
    histories_per_s: f64,
    requests_per_s: f64,
    requests_per_s_per_core: f64,
}

impl Speed {
    fn of(report: &Report, cores: usize) -> Self {
        let seconds = report.duration.as_secs_f64().max(1e-9);
        let requests_per_s = report.requests as f64 / seconds;
        let histories_per_s = report.histories as f64 / seconds;
        Self { seconds, cores, histories_per_s, requests_per_s, requests_per_s_per_core: requests_per_s / cores as f64 }
    }
}

/// A report for programs. `shrunk`: the seed that failed, and its history made shorter.
fn in_json(report: &Report, speed: &Speed, shrunk: Option<&(u64, History, Failed)>, command: &Sim) -> Value {
    let met: Vec<_> =
        report.met.iter().map(|((level, what), count)| json!({"level": level, "what": what, "count": count})).collect();
    let crossed: Vec<_> = report
        .crossed
        .iter()
        .flat_map(|(level, crossed)| crossed.iter().map(move |(what, count)| (level, what, count)))
        .map(|(level, (request, state, fault), count)| {
            json!({"level": level, "request": request, "state": state, "fault": fault, "count": count})
        })
        .collect();
    let failure = shrunk.map(|(seed, short, failure)| {
        let steps: Vec<String> = short.steps.iter().map(|step| format!("{step:?}")).collect();
        json!({"seed": seed, "replay": replay(*seed, command), "what": failure.what, "array": short.setup.to_string(), "steps": steps})
    });
    json!({
        "histories": report.histories, "requests": report.requests, "client_requests": report.client_requests,
        "crashes": report.crashes, "seconds": speed.seconds, "histories_per_s": speed.histories_per_s,
        "requests_per_s": speed.requests_per_s, "requests_per_s_per_core": speed.requests_per_s_per_core,
        "met": met, "crossed": crossed, "failure": failure,
    })
}

/// Prints one history.
fn trace(command: &Sim) -> Result<(), Failure> {
    let history = History::draw_with(command.from, command.level.as_deref(), command.extras());
    print(&format!("{}\n", history.setup));
    let hear = Box::new(|line: &str| print(&format!("{line}\n")));
    let outcome = caught(&history, || run_traced(&history, Rules::default(), command.sectors.clone(), hear));
    outcome.map(drop).map_err(|failure| Failure::Failed(failure.what))
}

fn replay(seed: u64, command: &Sim) -> String {
    let level = command.level.as_ref().map_or(String::new(), |level| format!(" --level {level}"));
    format!("stria sim --from {seed} --count 1{level}{}", command.extras())
}

/// The cost of lying drives.
fn lost(report: &Report) -> String {
    let cases = report.met.iter().filter(|((_, what), _)| what.starts_with("lost: "));
    let all: u64 = cases.clone().map(|(_, count)| count).sum();
    let mut words = format!("with lying flushes {all} of {} histories lost something:\n", report.histories);
    for ((level, what), count) in cases {
        writeln!(words, "  {count:>9}  RAID {level}, {}", what.trim_start_matches("lost: ")).expect("a string takes everything");
    }
    words
}

fn coverage(report: &Report) -> String {
    let mut words = String::new();
    let mut last = "";
    for ((level, what), count) in &report.met {
        if level != last {
            writeln!(words, "RAID {level}").expect("a string takes everything");
            last = level;
        }
        writeln!(words, "  {count:>9}  {what}").expect("a string takes everything");
    }
    for (level, crossed) in &report.crossed {
        let faults: BTreeSet<&'static str> = crossed.keys().map(|(_, _, fault)| *fault).collect();
        let lines: BTreeSet<(&'static str, &'static str)> =
            crossed.keys().map(|(request, state, _)| (*request, *state)).collect();
        let header: Vec<&str> = ["request", "state"].into_iter().chain(faults.iter().copied()).collect();
        let count = |request, state, fault| crossed.get(&(request, state, fault)).map_or("-".into(), u64::to_string);
        let row = |&(request, state): &(&'static str, &'static str)| {
            let counts = faults.iter().map(|fault| count(request, state, fault));
            [request.to_owned(), state.to_owned()].into_iter().chain(counts).collect()
        };
        let numbers: Vec<usize> = (2..header.len()).collect();
        write!(
            words,
            "\nRAID {level}, requests by what they met\n{}\n",
            table(&header, &numbers, lines.iter().map(row).collect())
        )
        .expect("a string takes everything");
    }
    words
}
