//! `stria sim` without the rest of Stria: quick to build while engine and format change.
//!
//!     cargo run --release -p stria-sim --example histories -- --from 1 --count 1000 --level 5
//!
//! Unlike `stria sim` it continues after a failure, and prints every seed that fails.

use clap::Parser;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;
use stria_sim::campaign::{caught, keep_memory, try_history};
use stria_sim::setup::FAMILIES;
use stria_sim::shrink::shrink;
use stria_sim::{Extras, History, Mutant, Rules, run_traced};

#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Their number.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Arrays of one level only.
    #[arg(long, value_parser = FAMILIES)]
    level: Option<String>,
    /// With faults that seeds originally did not have.
    #[arg(long)]
    more_faults: bool,
    /// Clients send a killed process's requests to the next one.
    #[arg(long)]
    repeats: bool,
    /// Arrays have a partial parity log.
    #[arg(long)]
    partial_parity: bool,
    /// Metadata and write policies change.
    #[arg(long)]
    changes: bool,
    /// Drives hang while members are rebuilt or replaced.
    #[arg(long)]
    hangs: bool,
    /// A member's file system is full for a while.
    #[arg(long)]
    full: bool,
    /// Drives fail in harsher ways.
    #[arg(long)]
    harsh: bool,
    /// With a deliberate bug, by its name in `mutant.rs`, until it is found.
    #[arg(long, value_parser = mutant)]
    mutant: Option<Mutant>,
    /// Print at the end how often each case occurred.
    #[arg(long)]
    met: bool,
    /// Shorten failing histories first.
    #[arg(long)]
    shrink: bool,
    /// Print every event.
    #[arg(long)]
    trace: bool,
    /// Print only the data requests that concern these sectors of the array: FIRST-LAST.
    #[arg(long, value_parser = stria_sim::trace::sectors)]
    sectors: Option<Range<u64>>,
}

fn main() {
    let arguments = Arguments::parse();
    let (rules, level) = (Rules { mutant: arguments.mutant, ..Rules::default() }, arguments.level.as_deref());
    let extras = Extras {
        more_faults: arguments.more_faults,
        repeats: arguments.repeats,
        partial_parity: arguments.partial_parity,
        changes: arguments.changes,
        hangs: arguments.hangs,
        full: arguments.full,
        harsh: arguments.harsh,
    };
    if !arguments.trace {
        std::panic::set_hook(Box::new(|_| {}));
    }
    keep_memory();
    let (begun, mut failures, mut requests) = (Instant::now(), 0, 0);
    let mut met = BTreeMap::<String, u64>::new();
    for seed in arguments.from..arguments.from + arguments.count {
        let mut history = History::draw_with(seed, level, extras);
        let mut run = if arguments.trace && !arguments.shrink {
            told(&history, rules, arguments.sectors.clone())
        } else {
            try_history(&history, rules).map(|tally| {
                requests += tally.requests;
                tally.met.into_iter().for_each(|(what, count)| *met.entry(what).or_insert(0) += count);
            })
        };
        if let (Err(failure), true) = (&run, arguments.shrink) {
            let (short, failure) = shrink(&history, failure.clone(), rules, std::time::Duration::from_secs(60));
            (history, run) = (short, Err(failure));
            println!("{}: {:#?}", history.setup, history.steps);
            if arguments.trace {
                run = told(&history, rules, arguments.sectors.clone());
            }
        }
        if let Err(failure) = run {
            println!("seed {seed}, {}, step {}: {}", history.setup.family(), failure.step, failure.what);
            failures += 1;
            if arguments.mutant.is_some() {
                break;
            }
        }
    }
    for (what, count) in met.iter().filter(|_| arguments.met) {
        println!("{count:>9} {what}");
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} histories, {failures} failed; {:.0} histories and {:.0} requests to drives a second",
        arguments.count,
        arguments.count as f64 / seconds,
        requests as f64 / seconds
    );
    std::process::exit(i32::from(failures > 0));
}

fn mutant(name: &str) -> Result<Mutant, String> {
    let known = Mutant::all().find(|mutant| mutant.name() == name);
    known.ok_or_else(|| format!("the mutants are {}", Mutant::all().map(Mutant::name).collect::<Vec<_>>().join(", ")))
}

fn told(history: &History, rules: Rules, sectors: Option<Range<u64>>) -> Result<(), stria_sim::Failure> {
    println!("{}", history.setup);
    caught(history, || run_traced(history, rules, sectors, Box::new(|line| println!("{line}")))).map(drop)
}
