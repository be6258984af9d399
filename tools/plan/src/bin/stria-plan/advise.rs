//! `stria plan advise`: the command line of [`stria_plan::advice`].

use crate::wish::{WishArgs, amount, real, whole};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use stria_plan::advice::explain::{Explained, bytes, explain, hours, risk, time};
use stria_plan::advice::{Advice, AdviceError, BusyRebuild, PartFigures, Trial, Wish, advise, page};
use stria_plan::amount;
use stria_plan::reliability::simulated::READ_BYTES_PER_HOUR;
use stria_terminal::output::{check_file, paragraphs, print, print_json, table, write_file};
use stria_terminal::progress::steps_bar;
use stria_terminal::{Failure, size};

/// Try every array that drives can make on their models, and rank them for a purpose
#[derive(Args)]
pub struct Advise {
    #[command(flatten)]
    asked: WishArgs,
    /// Least space for data: 10TB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    capacity: u64,
    /// Number of failed drives that the array must survive, whichever they are
    #[arg(long, value_name = "N", value_parser = whole::<usize>, default_value_t = 1)]
    survive: usize,
    /// Budget for all drives, in the currency of --price
    #[arg(long, value_name = "AMOUNT", value_parser = real, allow_negative_numbers = true)]
    budget: Option<f64>,
    /// Print the source of each figure of the first array
    #[arg(long)]
    explain: bool,
    /// Write the answer as a page of HTML, with a chart and all sources
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Advise {
    /// The array options, and the page that is to be written.
    pub fn asked(&self) -> (&WishArgs, bool) {
        (&self.asked, self.out.is_some())
    }
}

/// The advice.
///
/// # Errors
/// Usage, if the requirements are invalid; failed, if no array meets them.
pub fn answer(command: &Advise, quiet: bool) -> Result<(Wish, Advice), Failure> {
    let mut wish = command.asked.wish(quiet)?;
    (wish.capacity_bytes_min, wish.losses_min) = (command.capacity, command.survive);
    wish.budget = amount("--budget", command.budget)?;
    let bar = steps_bar(quiet);
    let advice = advise(&wish, &|tried, count| {
        bar.set_length(count as u64);
        bar.set_position(tried as u64);
    });
    bar.finish_and_clear();
    let advice = advice.map_err(|error| match error {
        AdviceError::Wish(sentence) => Failure::Usage(sentence),
        AdviceError::NothingFits(sentence) => Failure::Failed(sentence),
    })?;
    Ok((wish, advice))
}

/// Carries out the command.
///
/// # Errors
/// As [`answer`]; usage or failed, if the page cannot be written.
pub fn run(command: &Advise, as_json: bool) -> Result<u8, Failure> {
    // An answer takes long enough that a path that cannot be written should be told of first.
    command.out.as_deref().map_or(Ok(()), check_file)?;
    let (wish, advice) = answer(command, as_json)?;
    if let Some(path) = &command.out {
        write_file(path, &page::html(&wish, &advice))?;
    }
    match as_json {
        true => print_json(&told(&wish, &advice)),
        false => print(&shown(&wish, &advice, command.explain)),
    }
    Ok(0)
}

/// The figures of an array.
pub fn figures_json(wish: &Wish, trial: &Trial) -> Value {
    let part = |part: &PartFigures| {
        json!({
            "name": part.name, "iops": part.iops, "bytes_per_s": part.bytes_per_s, "mean_us": part.mean_ns / 1e3,
            "read_p99_us": part.read_p99_ns.map(|ns| ns as f64 / 1e3), "write_p99_us": part.write_p99_ns.map(|ns| ns as f64 / 1e3),
        })
    };
    json!({
        "level": trial.candidate.level.to_string(), "members": trial.candidate.members, "spares": trial.candidate.spares,
        "strip_kib": trial.candidate.strip_kib, "usable_bytes": trial.usable_bytes, "survives": trial.survives,
        "speed": trial.speed, "speed_spread": trial.speed_spread, "degraded_speed": trial.degraded_speed,
        "rebuild_hours": trial.rebuild_hours,
        "busy_rebuild": trial.busy_rebuild.as_ref().map(|busy| json!({
            "hours": busy.hours, "speed": busy.speed, "p99_us": busy.p99_ns().map(|ns| ns as f64 / 1e3),
            "loads": busy.parts.iter().map(part).collect::<Vec<_>>(),
        })),
        "repair_hours": trial.repair_hours,
        "failures_per_year": trial.risk.map(|risk| risk.failures),
        "loss_per_year": trial.risk.map(|risk| risk.loss.loss),
        "simulated_loss": trial.risk.map(|risk| json!({
            "per_year": risk.loss.loss, "standard_error_share": risk.loss.spread, "array_per_year": risk.loss.array_loss,
            "nomdl_bytes_per_tb_year": risk.loss.bytes_per_tb,
        })),
        "loss_per_year_by_law": trial.risk.map(|risk| risk.loss_by_law),
        "mttdl_years": trial.risk.map(|risk| -1.0 / (-risk.loss_by_law).ln_1p()),
        "wear": trial.wear.as_ref().map(|wear| json!({
            "drive_bytes_per_client_byte": wear.written_share, "most_worn_drive_bytes_per_client_byte": wear.worn_share, "client_tb_per_day_for_5_years": wear.tb_per_day,
            "tbw_per_year": wear.used.map(|used| used.tbw_per_year), "years": wear.used.map(|used| used.years),
            "drive_writes_per_day": wear.used.map(|used| used.drive_writes_per_day),
        })),
        "price": trial.price, "loads": trial.parts.iter().map(part).collect::<Vec<_>>(),
        "lacks": wish.lack(trial),
    })
}

/// The advice as JSON.
pub fn told(wish: &Wish, advice: &Advice) -> Value {
    let explained =
        |figure: &Explained| json!({ "figure": figure.name, "value": figure.value, "origin": figure.origin, "how": figure.how });
    let first = &advice.ranking[0];
    json!({
        "drive": wish.drive.name, "platform": wish.platform.name, "purpose": wish.purpose.about,
        "purpose_measured": wish.purpose.measured, "purpose_loads": wish.purpose.parts,
        "calibration": wish.calibration,
        "ranking": advice.ranking.iter().map(|trial| figures_json(wish, trial)).collect::<Vec<_>>(),
        "unfit": advice.unfit.iter().map(|trial| figures_json(wish, trial)).collect::<Vec<_>>(),
        "front": advice.front(),
        "reasons": advice.reasons,
        "explained": explain(wish, first, &advice.single).iter().map(explained).collect::<Vec<_>>(),
        "by_model": ["speed", "degraded_speed", "rebuild_hours", "busy_rebuild", "loads"],
        "by_law": ["usable_bytes", "survives", "failures_per_year", "loss_per_year_by_law", "mttdl_years", "wear"],
        "by_simulation": ["loss_per_year", "simulated_loss"],
    })
}

/// The purpose, and where it was measured.
pub fn purpose(wish: &Wish) -> String {
    match &wish.purpose.measured {
        Some(source) => format!("{}\nmeasured: {source}", wish.purpose.about),
        None => wish.purpose.about.clone(),
    }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// Level, drives, spares, strip, usable, survives, speed, IOPS, MB/s, mean, p99.
pub fn row(trial: &Trial) -> Vec<String> {
    let main = &trial.parts[0];
    let slowest = trial.parts.iter().flat_map(|part| [part.read_p99_ns, part.write_p99_ns]).flatten().max();
    vec![
        trial.candidate.level.to_string(),
        trial.candidate.members.to_string(),
        trial.candidate.spares.to_string(),
        or_dash(trial.candidate.has_strips().then(|| format!("{}K", trial.candidate.strip_kib))),
        amount::space(trial.usable_bytes as f64),
        trial.survives.to_string(),
        format!("{:.2}x", trial.speed),
        format!("{:.0}", main.iops),
        format!("{:.0}", main.bytes_per_s / 1e6),
        time(main.mean_ns),
        or_dash(slowest.map(|ns| time(ns as f64))),
    ]
}

/// The drives' lifetime, or what may be written in a day.
pub fn wear(trial: &Trial) -> String {
    or_dash(trial.wear.map(|wear| match wear.used {
        Some(used) => format!("{} y", amount::number(used.years)),
        None => format!("{}/d", amount::space(wear.tb_per_day * 1e12)),
    }))
}

/// What the drives cost.
pub fn price(trial: &Trial) -> String {
    or_dash(trial.price.map(amount::money))
}

/// The meaning of LOSS A YEAR, for the line below a table.
pub fn explained_loss() -> String {
    let rate = amount::space(READ_BYTES_PER_HOUR);
    format!("LOSS A YEAR assumes that each drive is read at {rate} an hour, whatever the purpose.")
}

/// The meaning of WEAR, for the line below a table.
pub fn explained_wear(wish: &Wish) -> String {
    match (wish.wear_unknown(), wish.written_tb_per_day) {
        (Some(cause), _) => format!("WEAR is empty, as {cause}."),
        (None, Some(written)) => {
            format!("WEAR: the years until {} a day have used up the drives' endurance.", amount::space(written * 1e12))
        }
        (None, None) => "WEAR: what clients may write a day for five years.".to_owned(),
    }
}

/// The other columns of the table of advice: degraded, rebuild, loss, wear, price.
fn costs(trial: &Trial) -> Vec<String> {
    let busy = trial.busy_rebuild.as_ref();
    vec![
        or_dash(trial.degraded_speed.map(|speed| format!("{speed:.2}x"))),
        or_dash(trial.rebuild_hours.map(|hours| size::show_duration((hours * 3600.0) as u64))),
        or_dash(busy.map(|busy| hours(busy.hours))),
        or_dash(busy.map(|busy| format!("{:.2}x", busy.speed))),
        or_dash(busy.and_then(BusyRebuild::p99_ns).map(|ns| time(ns as f64))),
        or_dash(trial.risk.map(|found| risk(found.loss.loss))),
        or_dash(trial.risk.map(|found| bytes(found.loss.bytes_per_tb))),
        wear(trial),
        price(trial),
    ]
}

fn shown(wish: &Wish, advice: &Advice, explained: bool) -> String {
    const HEADER: [&str; 20] = [
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
        "BUSY REBUILD",
        "BUSY SPEED",
        "BUSY P99",
        "LOSS A YEAR",
        "NOMDL",
        "WEAR",
        "PRICE",
    ];
    let columns = HEADER.len() - usize::from(wish.price.is_none());
    let right: Vec<usize> = (1..columns).collect();
    let cells = |trial: &Trial| {
        let mut cells = [row(trial), costs(trial)].concat();
        cells.truncate(columns);
        cells
    };
    let calibrated = wish.calibration.as_ref().map_or(String::new(), |found| format!("calibrated: {}\n", found.source));
    let mut text = format!("{} on {}\n{}\n{calibrated}\n", wish.drive.name, wish.platform.name, purpose(wish));
    text += &table(&HEADER[..columns], &right, advice.ranking.iter().map(cells).collect());
    text += "\n";
    for reason in &advice.reasons {
        text += &format!("{reason}\n");
    }
    if explained {
        let first = &advice.ranking[0];
        text += &format!("\nFigures of {}:\n", first.candidate);
        let line = |figure: Explained| vec![figure.name.to_owned(), figure.value, format!("{}: {}", figure.origin, figure.how)];
        text += &paragraphs(110, explain(wish, first, &advice.single).into_iter().map(line).collect());
        text += "\n";
    }
    let (loss, wear) = (explained_loss(), explained_wear(wish));
    text += &format!(
        "\nSPEED is against one drive, over all loads; IOPS, MB/S and MEAN are of the first load; DEGRADED is the speed with a drive missing. They come \
         from the engine on modelled drives, REBUILD as well, while clients are idle; BUSY is while clients work as fast as they can. USABLE, SURVIVES and WEAR are laws; LOSS A YEAR and NOMDL, the bytes \
         lost of each TB in a year, are simulated. {loss} {wear} --explain says more, docs/PLAN.md how far to trust it.\n"
    );
    text
}
