//! `stria plan what-if`: the command line of [`stria_plan::advice::what_if`].

use crate::advise::{explained_loss, explained_wear, figures_json, price, purpose, row, wear};
use crate::level_name::LevelName;
use crate::wish::{WishArgs, whole};
use clap::Args;
use serde_json::{Value, json};
use stria_plan::advice::trial::speed_spread;
use stria_plan::advice::{Variant, Wish, what_if};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};
use stria_terminal::progress::steps_bar;

/// Compare one array with variants: one drive more, another strip, a failed drive, twice the load
#[derive(Args)]
pub struct WhatIf {
    #[command(flatten)]
    asked: WishArgs,
    /// Level of the array
    #[arg(long, value_enum)]
    level: LevelName,
    /// Spans of RAID 50 and 60; the default is 2
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    spans: Option<usize>,
}

impl WhatIf {
    /// The array options.
    pub fn asked(&self) -> &WishArgs {
        &self.asked
    }
}

/// The array and its variants.
///
/// # Errors
/// Usage, if there is no such array.
pub fn answer(command: &WhatIf, quiet: bool) -> Result<(Wish, Vec<Variant>), Failure> {
    let mut wish = command.asked.wish(quiet)?;
    if !command.asked.names_strips() {
        wish.strips_kib = vec![wish.platform.config.strip_kib_min.max(64)];
    } else if wish.strips_kib.len() > 1 {
        return Err(Failure::Usage("several strips are several arrays: give one --strip".to_owned()));
    }
    let level = command.level.level(command.spans).map_err(Failure::Usage)?;
    let bar = steps_bar(quiet);
    let variants = what_if(&wish, level, &|tried, count| {
        bar.set_length(count as u64);
        bar.set_position(tried as u64);
    });
    bar.finish_and_clear();
    Ok((wish, variants.map_err(Failure::Usage)?))
}

/// Carries out the command.
///
/// # Errors
/// As [`answer`].
pub fn run(command: &WhatIf, as_json: bool) -> Result<u8, Failure> {
    let (wish, variants) = answer(command, as_json)?;
    match as_json {
        true => print_json(&told(&wish, &variants)),
        false => print(&shown(&wish, &variants)),
    }
    Ok(0)
}

/// The speed of a variant over that of the array itself.
#[derive(Clone, Copy)]
struct Against {
    ratio: f64,
    /// Its standard error, relative to it.
    spread: f64,
}

fn against(wish: &Wish, variants: &[Variant], variant: &Variant) -> Option<Against> {
    let (this, other) = (variants[0].outcome.as_ref().ok()?, variant.outcome.as_ref().ok()?);
    let is_this = std::ptr::eq(this, other);
    let spread = if is_this { 0.0 } else { speed_spread(wish, &other.parts, &this.parts) };
    Some(Against { ratio: other.speed / this.speed, spread })
}

/// What it adds, and its standard error. 0.0 is added because -0.4, rounded, would be written as -0.
fn change(Against { ratio, spread }: Against) -> String {
    let added = (100.0 * (ratio - 1.0)).round() + 0.0;
    match (100.0 * ratio * spread).ceil() {
        0.0 => format!("{added:+.0} %"),
        error => format!("{added:+.0} ±{error:.0} %"),
    }
}

/// The same as JSON.
pub fn told(wish: &Wish, variants: &[Variant]) -> Value {
    let variant = |variant: &Variant| match &variant.outcome {
        Ok(trial) => {
            let against = against(wish, variants, variant);
            json!({
                "change": variant.change, "against_this": against.map(|against| against.ratio),
                "against_this_spread": against.map(|against| against.spread), "figures": figures_json(wish, trial)
            })
        }
        Err(refusal) => json!({ "change": variant.change, "refusal": refusal }),
    };
    json!({
        "drive": wish.drive.name, "platform": wish.platform.name, "purpose": wish.purpose.about,
        "purpose_measured": wish.purpose.measured,
        "variants": variants.iter().map(variant).collect::<Vec<_>>(),
    })
}

fn shown(wish: &Wish, variants: &[Variant]) -> String {
    const HEADER: [&str; 12] =
        ["IF", "LEVEL", "DRIVES", "STRIP", "USABLE", "SURVIVES", "SPEED", "AGAINST THIS", "IOPS", "MEAN", "P99", "LOSS A YEAR"];
    let mut header = HEADER.to_vec();
    header.extend(wish.written_tb_per_day.map(|_| "WEAR"));
    header.extend(wish.price.map(|_| "PRICE"));
    let right: Vec<usize> = (2..header.len()).collect();
    let rows = variants.iter().filter_map(|variant| {
        let trial = variant.outcome.as_ref().ok()?;
        let [level, drives, _, strip, usable, survives, speed, iops, _, mean, p99] = <[String; 11]>::try_from(row(trial)).ok()?;
        let change = against(wish, variants, variant).map_or(String::new(), change);
        let loss = trial.risk.map_or("-".to_owned(), |found| stria_plan::advice::explain::risk(found.loss.loss));
        let mut cells =
            vec![variant.change.clone(), level, drives, strip, usable, survives, speed, change, iops, mean, p99, loss];
        cells.extend(wish.written_tb_per_day.map(|_| wear(trial)));
        cells.extend(wish.price.map(|_| price(trial)));
        Some(cells)
    });
    let mut text = format!("{} on {}\n{}\n\n", wish.drive.name, wish.platform.name, purpose(wish));
    text += &table(&header, &right, rows.collect());
    text += "\n";
    for variant in variants {
        if let Err(refusal) = &variant.outcome {
            text += &format!("{}: {refusal}.\n", variant.change);
        }
    }
    let of_wear = wish.written_tb_per_day.map_or(String::new(), |_| format!(" {}", explained_wear(wish)));
    text += &format!(
        "\nSPEED is against one drive under the load that was asked about. ± is a standard error: a change that is smaller than twice that may be \
         chance, and more --requests make it smaller. {}{of_wear} docs/PLAN.md says how far to trust the figures.\n",
        explained_loss()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_rounded_to_nothing_has_no_minus() {
        let sure = |ratio| change(Against { ratio, spread: 0.0 });
        assert_eq!([0.996, 1.0, 1.004, 0.87, 1.33].map(sure), ["+0 %", "+0 %", "+0 %", "-13 %", "+33 %"]);
        assert_eq!(change(Against { ratio: 1.09, spread: 0.08 }), "+9 ±9 %");
    }
}
