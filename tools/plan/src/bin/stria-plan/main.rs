//! `stria-plan`: advice on arrays for a purpose, arithmetic of arrays, and the reproduction of published measurements.

#![forbid(unsafe_code)]

mod advise;
mod campaign;
mod here;
mod level_name;
mod measured;
mod reproduce;
mod smart;
mod what_if;
mod wish;

use clap::{Parser, Subcommand};
use level_name::LevelName;
use serde_json::{Value, json};
use std::process::ExitCode;
use stria_plan::reproduce::row::short;
use stria_plan::{calc, profile};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};
use wish::{real, whole};

/// Plan an array: which level, how many drives and which strip suit a purpose, by the engine on modelled drives
#[derive(Parser)]
#[command(name = "stria plan", bin_name = "stria plan", max_term_width = 110)]
struct Cli {
    /// Print JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Try every array that drives can make on their models, and rank them for a purpose
    Advise(advise::Advise),
    /// Compare one array with variants: one drive more, another strip, a failed drive, twice the load
    WhatIf(what_if::WhatIf),
    /// Run the jobs of a folder (advise, what-if or reproduce), on all processors, and on all machines that share the folder
    Campaign(campaign::Campaign),
    /// Measure this machine as a platform, in some seconds, and write a profile
    Measure(here::Measure),
    /// List the modelled drives and platforms
    Catalogue,
    /// Compute endurance, failure rates, rebuilds and usable space
    #[command(subcommand)]
    Calc(Calc),
    /// Run the models of every published measurement and compare
    Reproduce(reproduce::Reproduce),
}

#[derive(Subcommand)]
enum Calc {
    /// Data that may be written in a year, a month and a day within an endurance rating
    Endurance {
        /// Terabytes written (TBW)
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        tbw: f64,
        /// Years of use
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        years: f64,
        /// Gigabytes of the drive, for full drive writes a day (DWPD)
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        capacity_gb: Option<f64>,
    },
    /// The endurance rating (TBW) from full drive writes a day
    Tbw {
        /// Full drive writes a day (DWPD)
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        dwpd: f64,
        /// Gigabytes of the drive
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        capacity_gb: f64,
        /// Years of the warranty
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        years: f64,
    },
    /// Days, years and annual failure rate from a mean time between failures
    Mtbf {
        /// Hours
        #[arg(value_parser = real, allow_negative_numbers = true)]
        hours: f64,
    },
    /// The mean time between failures from an annual failure rate
    Afr {
        /// Percent of drives a year
        #[arg(value_parser = real, allow_negative_numbers = true)]
        percent: f64,
    },
    /// The time to fill a drive, and the risk of an unreadable sector meanwhile
    Rebuild {
        /// Terabytes of the drive
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        capacity_tb: f64,
        /// Megabytes a second
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        mb_per_s: f64,
        /// Number of drives that are read, for the risk
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        read_drives: u32,
        /// Bits read for each unreadable bit, as in data sheets
        #[arg(long, value_parser = real, default_value_t = 1e15, allow_negative_numbers = true)]
        bits_per_error: f64,
    },
    /// The space for data on an array
    Usable {
        /// Level
        #[arg(long, value_enum)]
        level: LevelName,
        /// Drives
        #[arg(long, value_parser = whole::<usize>, allow_negative_numbers = true)]
        drives: usize,
        /// Terabytes of the smallest drive
        #[arg(long, value_parser = real, allow_negative_numbers = true)]
        capacity_tb: f64,
        /// Spans of RAID 50 and 60; the default is 2
        #[arg(long, value_parser = whole::<usize>, allow_negative_numbers = true)]
        spans: Option<usize>,
    },
}

/// A figure: its key in JSON, which names the unit, its name, value and unit.
struct Figure(&'static str, &'static str, f64, &'static str);

/// From 10^-30 to 10^30: numbers of which products and quotients are finite.
fn positive(name: &str, value: f64) -> Result<(), String> {
    match value {
        1e-30..=1e30 => Ok(()),
        _ => Err(format!("{name} is {}: use a number above 0, and at most 1e30", wish::number(value))),
    }
}

fn calc(command: Calc) -> Result<Vec<Figure>, String> {
    match command {
        Calc::Endurance { tbw, years, capacity_gb } => {
            positive("--tbw", tbw)?;
            positive("--years", years)?;
            let mut figures = vec![
                Figure("written_per_year_gb", "a year", calc::written_per_year_gb(tbw, years), "GB"),
                Figure("written_per_month_gb", "a month", calc::written_per_month_gb(tbw, years), "GB"),
                Figure("written_per_day_gb", "a day", calc::written_per_day_gb(tbw, years), "GB"),
            ];
            if let Some(capacity) = capacity_gb {
                positive("--capacity-gb", capacity)?;
                figures.push(Figure(
                    "drive_writes_per_day",
                    "full drive writes a day",
                    calc::drive_writes_per_day(tbw, capacity, years),
                    "",
                ));
            }
            Ok(figures)
        }
        Calc::Tbw { dwpd, capacity_gb, years } => {
            positive("--dwpd", dwpd)?;
            positive("--capacity-gb", capacity_gb)?;
            positive("--years", years)?;
            Ok(vec![Figure("written_tb", "terabytes written", calc::tbw_of_drive_writes(dwpd, capacity_gb, years), "TB")])
        }
        Calc::Mtbf { hours } => {
            positive("the mean time", hours)?;
            Ok(vec![
                Figure("mtbf_days", "days", calc::mtbf_days(hours), ""),
                Figure("mtbf_years", "years", calc::mtbf_years(hours), ""),
                Figure("annual_failure_rate_percent", "annual failure rate", 100.0 * calc::annual_failure_rate(hours), "%"),
            ])
        }
        Calc::Afr { percent } => {
            positive("the rate", percent)?;
            if percent >= 100.0 {
                return Err(format!("a rate of {percent} % leaves no drive: use less than 100"));
            }
            Ok(vec![Figure("mtbf_hours", "mean time between failures", calc::mtbf_of_rate(percent / 100.0), "hours")])
        }
        Calc::Rebuild { capacity_tb, mb_per_s, read_drives, bits_per_error } => {
            positive("--capacity-tb", capacity_tb)?;
            positive("--mb-per-s", mb_per_s)?;
            positive("--bits-per-error", bits_per_error)?;
            if bits_per_error < 1.0 {
                return Err(format!(
                    "--bits-per-error is {}: give how many bits are read for each error, 1 at least",
                    wish::number(bits_per_error)
                ));
            }
            let risk = calc::unreadable_probability(capacity_tb * f64::from(read_drives), 1.0 / bits_per_error);
            Ok(vec![
                Figure("rebuild_hours", "rebuild", calc::rebuild_hours(capacity_tb, mb_per_s), "hours"),
                Figure("unreadable_sector_percent", "risk of an unreadable sector", 100.0 * risk, "%"),
            ])
        }
        Calc::Usable { level, drives, capacity_tb, spans } => {
            positive("--capacity-tb", capacity_tb)?;
            let level = level.level(spans)?;
            let usable = calc::usable(level, drives, capacity_tb)?;
            let share = 100.0 * usable / (drives as f64 * capacity_tb);
            Ok(vec![Figure("usable_tb", "usable", usable, "TB"), Figure("usable_percent", "of the drives", share, "%")])
        }
    }
}

fn catalogue(as_json: bool) -> Result<u8, Failure> {
    let drives: Vec<(String, String)> =
        profile::drives().map_err(Failure::failed)?.into_iter().map(|profile| (profile.key, profile.name)).collect();
    let platforms: Vec<(String, String)> =
        profile::platforms().map_err(Failure::failed)?.into_iter().map(|profile| (profile.key, profile.name)).collect();
    if as_json {
        let drive = |(key, name): &(String, String)| json!({"key": key, "name": name, "models": profile::models_of_key(key)});
        let platform = |(key, name): &(String, String)| json!({"key": key, "name": name});
        let (drives, platforms): (Vec<_>, Vec<_>) =
            (drives.iter().map(drive).collect(), platforms.iter().map(platform).collect());
        print_json(&json!({ "drives": drives, "platforms": platforms }));
        return Ok(0);
    }
    let lines = |header, all: Vec<(String, String)>| {
        table(&[header, "NAME"], &[], all.into_iter().map(|(key, name)| vec![key, name]).collect())
    };
    print(&format!("{}\n\n{}\n", lines("DRIVE", drives), lines("PLATFORM", platforms)));
    Ok(0)
}

fn figures(command: Calc, as_json: bool) -> Result<u8, Failure> {
    let figures = calc(command).map_err(Failure::Usage)?;
    if as_json {
        let all: serde_json::Map<String, Value> =
            figures.iter().map(|Figure(key, _, value, _)| ((*key).to_owned(), json!(value))).collect();
        print_json(&Value::Object(all));
    } else {
        for Figure(_, name, value, unit) in figures {
            print(&format!("{}\n", format!("{name}: {} {unit}", short(value)).trim_end()));
        }
    }
    Ok(0)
}

fn main() -> ExitCode {
    stria_terminal::run_tool(
        |cli: &Cli| cli.json,
        |cli, json| match cli.command {
            Command::Advise(command) => advise::run(&command, json),
            Command::WhatIf(command) => what_if::run(&command, json),
            Command::Campaign(command) => campaign::run(&command, json),
            Command::Measure(command) => here::run(&command, json),
            Command::Catalogue => catalogue(json),
            Command::Calc(command) => figures(command, json),
            Command::Reproduce(command) => reproduce::run(&command, json),
        },
    )
}
