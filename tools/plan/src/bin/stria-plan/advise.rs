//! `stria plan advise`: the command line of [`stria_plan::advice`].

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::Path;
use stria_plan::advice::wish::{self, DRIVES_MAX, STRIPS_KIB};
use stria_plan::advice::{Advice, AdviceError, PartFigures, Purpose, State, Trial, Wish, advise, purpose};
use stria_plan::load::Pattern;
use stria_plan::profile::{self, CatalogueDrive, Profile};
use stria_terminal::output::{print, print_json, table};
use stria_terminal::progress::steps_bar;
use stria_terminal::{Failure, size};

/// Try every array that drives can make on their models, and rank them for a purpose
#[derive(Args)]
pub struct Advise {
    /// How many drives, and which: 8xp4510; 2-8xp4510 for two to eight. `stria plan catalogue` lists them; a path that ends in .toml is a
    /// profile of your own
    #[arg(long, value_name = "COUNTxDRIVE")]
    drives: String,
    /// What the drives are attached to, and what makes the array; `stria plan catalogue` lists them
    #[arg(long, value_name = "PLATFORM", default_value = "stria")]
    platform: String,
    /// What the array is for
    #[arg(long, value_parser = purpose::NAMES, required_unless_present = "block", conflicts_with_all = ["block", "reads", "depth", "sequential"])]
    purpose: Option<String>,
    /// Instead of a purpose: size of a request, such as 4K
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block: Option<u64>,
    /// With --block: percent of reads
    #[arg(long, value_name = "PERCENT", default_value_t = 70.0, allow_negative_numbers = true)]
    reads: f64,
    /// With --block: requests under way
    #[arg(long, value_name = "N", default_value_t = 32)]
    depth: u32,
    /// With --block: requests follow each other
    #[arg(long)]
    sequential: bool,
    /// Space for data, at least: 10TB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    capacity: u64,
    /// Failures of any drives that must be survived
    #[arg(long, value_name = "N", default_value_t = 1)]
    survive: usize,
    /// Of the drives: those that wait for a failure
    #[arg(long, value_name = "N", default_value_t = 0)]
    spares: usize,
    /// Strips to try, such as 64K; several times for several
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    strip: Vec<u64>,
    /// State of SSDs: as new; used, after random overwrites of everything; or deleted since, which helps where trims reach the drives
    #[arg(long, value_enum, default_value_t = StateName::Used)]
    state: StateName,
    /// Hours until a failed drive is replaced where there is no spare
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, allow_negative_numbers = true)]
    replace_hours: f64,
    /// Requests that are measured of each load: more are slower and more exact
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    requests: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum StateName {
    Fresh,
    Used,
    Deleted,
}

fn drive(name: &str) -> Result<Profile<CatalogueDrive>, Failure> {
    if Path::new(name).extension().is_none_or(|ending| ending != "toml") {
        return profile::catalogue_drive(name).map_err(|error| Failure::Usage(error.to_string()));
    }
    let text =
        std::fs::read_to_string(name).map_err(|error| Failure::Usage(format!("cannot read the profile {name}: {error}")))?;
    profile::parse_drive(name, &text).map_err(|error| Failure::Usage(error.to_string()))
}

fn wish(command: &Advise) -> Result<Wish, Failure> {
    let (counts, name) = wish::parse_drives(&command.drives).map_err(Failure::Usage)?;
    let purpose = match (&command.purpose, command.block) {
        (Some(name), _) => Purpose::preset(name).ok_or_else(|| Failure::Usage(format!("there is no purpose {name}")))?,
        (None, block) => {
            let pattern = if command.sequential { Pattern::Sequential } else { Pattern::Random };
            let mix = Purpose::mix(block.unwrap_or(4096), command.reads / 100.0, command.depth, pattern);
            mix.map_err(Failure::Usage)?
        }
    };
    if !command.replace_hours.is_finite() || command.replace_hours < 0.0 {
        return Err(Failure::Usage(format!("--replace-hours is {}: say 0 or more", command.replace_hours)));
    }
    if let Some(strip) = command.strip.iter().find(|strip| *strip % 1024 != 0) {
        return Err(Failure::Usage(format!("invalid strip size {strip}: a power of two from 4K to 16M")));
    }
    let strips = command.strip.iter().map(|strip| strip >> 10).collect::<Vec<u64>>();
    Ok(Wish {
        drive: drive(name)?,
        counts,
        spares: command.spares.min(DRIVES_MAX),
        platform: profile::platform(&command.platform).map_err(|error| Failure::Usage(error.to_string()))?,
        purpose,
        capacity_bytes_min: command.capacity,
        losses_min: command.survive,
        strips_kib: if strips.is_empty() { STRIPS_KIB.to_vec() } else { strips },
        state: match command.state {
            StateName::Fresh => State::Fresh,
            StateName::Used => State::Used,
            StateName::Deleted => State::Deleted,
        },
        replace_hours: command.replace_hours,
        requests: command.requests,
    })
}

/// Carries out the command.
///
/// # Errors
/// Usage, where the wish makes no sense; failed, where no array fulfils it.
pub fn run(command: &Advise, as_json: bool) -> Result<u8, Failure> {
    let wish = wish(command)?;
    let bar = steps_bar(as_json);
    let advice = advise(&wish, &|tried, count| {
        bar.set_length(count as u64);
        bar.set_position(tried as u64);
    });
    bar.finish_and_clear();
    let advice = advice.map_err(|error| match error {
        AdviceError::Wish(sentence) => Failure::Usage(sentence),
        AdviceError::NothingFits(sentence) => Failure::Failed(sentence),
    })?;
    match as_json {
        true => print_json(&told(&wish, &advice)),
        false => print(&shown(&wish, &advice)),
    }
    Ok(0)
}

fn told(wish: &Wish, advice: &Advice) -> Value {
    let part = |part: &PartFigures| {
        json!({
            "name": part.name, "iops": part.iops, "bytes_per_s": part.bytes_per_s, "mean_us": part.mean_ns / 1e3,
            "read_p99_us": part.read_p99_ns.map(|ns| ns as f64 / 1e3), "write_p99_us": part.write_p99_ns.map(|ns| ns as f64 / 1e3),
        })
    };
    let trial = |trial: &Trial| {
        json!({
            "level": trial.candidate.level.to_string(), "members": trial.candidate.members, "spares": trial.candidate.spares,
            "strip_kib": trial.candidate.strip_kib, "usable_bytes": trial.usable_bytes, "survives": trial.survives,
            "speed": trial.speed, "degraded_speed": trial.degraded_speed, "rebuild_hours": trial.rebuild_hours,
            "loss_per_year": trial.loss_per_year, "loads": trial.parts.iter().map(part).collect::<Vec<_>>(),
            "lacks": wish.lack(trial),
        })
    };
    json!({
        "drive": wish.drive.name, "platform": wish.platform.name, "purpose": wish.purpose.about,
        "ranking": advice.ranking.iter().map(trial).collect::<Vec<_>>(),
        "unfit": advice.unfit.iter().map(trial).collect::<Vec<_>>(),
        "reasons": advice.reasons,
        "by_model": ["speed", "degraded_speed", "rebuild_hours", "loads"],
        "by_law": ["usable_bytes", "survives", "loss_per_year"],
    })
}

/// A time as people read it.
fn time(ns: f64) -> String {
    match ns {
        ..1e6 => format!("{:.0} us", ns / 1e3),
        ..1e9 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

/// A probability a year.
fn risk(share: f64) -> String {
    match share {
        0.01.. => format!("{:.0} %", share * 100.0),
        1e-9.. => format!("1 in {:.0e}", 1.0 / share),
        _ => "below 1 in 1e9".to_owned(),
    }
}

fn row(trial: &Trial) -> Vec<String> {
    let main = &trial.parts[0];
    let slowest = trial.parts.iter().flat_map(|part| [part.read_p99_ns, part.write_p99_ns]).flatten().max();
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let strip = matches!(trial.candidate.level.data_members(trial.candidate.members), 2..) || trial.candidate.members > 2;
    vec![
        trial.candidate.level.to_string(),
        trial.candidate.members.to_string(),
        trial.candidate.spares.to_string(),
        or_dash(strip.then(|| format!("{}K", trial.candidate.strip_kib))),
        format!("{:.1} TB", trial.usable_bytes as f64 / 1e12),
        trial.survives.to_string(),
        format!("{:.2}x", trial.speed),
        format!("{:.0}", main.iops),
        format!("{:.0}", main.bytes_per_s / 1e6),
        time(main.mean_ns),
        or_dash(slowest.map(|ns| time(ns as f64))),
        or_dash(trial.degraded_speed.map(|speed| format!("{speed:.2}x"))),
        or_dash(trial.rebuild_hours.map(|hours| size::show_duration((hours * 3600.0) as u64))),
        risk(trial.loss_per_year),
    ]
}

fn shown(wish: &Wish, advice: &Advice) -> String {
    const HEADER: [&str; 14] = [
        "LEVEL",
        "DRIVES",
        "SPARES",
        "STRIP",
        "USABLE",
        "SURVIVES",
        "SPEED",
        "IOPS",
        "MB/S",
        "MEAN",
        "P99",
        "DEGRADED",
        "REBUILD",
        "LOSS A YEAR",
    ];
    let right: Vec<usize> = (1..HEADER.len()).collect();
    let mut text = format!("{} on {}\n{}\n\n", wish.drive.name, wish.platform.name, wish.purpose.about);
    text += &table(&HEADER, &right, advice.ranking.iter().map(row).collect());
    text += "\n";
    for reason in &advice.reasons {
        text += &format!("{reason}\n");
    }
    text += "\nSPEED is against one drive, over all loads; IOPS, MB/S and MEAN are of the first load; DEGRADED is the speed with a drive missing. They come \
             from the engine on modelled drives, REBUILD as well, while clients are idle. USABLE, SURVIVES and LOSS A YEAR are laws. docs/PLAN.md says how far \
             to trust them.\n";
    text
}
