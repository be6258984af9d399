//! A wish, and the arrays that come into question for it.

use super::purpose::Purpose;
use super::trial::Trial;
use crate::amount::{money, spaces};
use crate::array::Level;
use crate::calibration::Calibration;
use crate::platform::PlatformConfig;
use crate::profile::{CatalogueDrive, Profile};
use crate::reliability::groups;
use std::fmt;
use std::ops::RangeInclusive;

/// 64: the most drives of an advice. Source: none; beyond this number trials take minutes.
pub const DRIVES_MAX: usize = 64;

/// 4: the most copies that are tried, unless more failures must be survived. Source: none; further copies add no space.
const COPIES_MAX: usize = 4;

/// 1e-12: a relative difference of two amounts of money that is a rounding error, as in 3 * 0.1 > 0.3.
const ROUNDING: f64 = 1e-12;

/// All strips: KiB.
pub const STRIP_KIB: RangeInclusive<u64> = 4..=1024;

/// The strips that are tried if none is named: KiB.
pub const STRIPS_KIB: [u64; 3] = [16, 64, 256];

/// The state of SSDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Fresh from the factory, or trimmed as a whole.
    Fresh,
    /// After very many random overwrites of everything.
    Used,
    /// The same, and then everything was deleted: like fresh if the platform passes trims on for the level.
    Deleted,
}

/// A wish.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The drives.
    pub drive: Profile<CatalogueDrive>,
    /// The number of drives, spares included.
    pub counts: RangeInclusive<usize>,
    /// The number of spares among them.
    pub spares: usize,
    /// The platform that they are attached to.
    pub platform: Profile<PlatformConfig>,
    /// The purpose.
    pub purpose: Purpose,
    /// The least space for data.
    pub capacity_bytes_min: u64,
    /// The least number of failures that must be survived, whichever drives fail.
    pub losses_min: usize,
    /// Strips to try, in KiB.
    pub strips_kib: Vec<u64>,
    /// The state of the drives.
    pub state: State,
    /// Hours until a failed drive is replaced if there is no spare.
    pub replace_hours: f64,
    /// Hours from one scrub to the next.
    pub scrub_hours: f64,
    /// Terabytes that clients write to the array in a day, if that is known.
    pub written_tb_per_day: Option<f64>,
    /// The price of a drive, in any currency.
    pub price: Option<f64>,
    /// The most that all drives may cost.
    pub budget: Option<f64>,
    /// Requests that are measured of each load.
    pub requests: u64,
    /// Measurements on a machine beside these models, if they are to count.
    pub calibration: Option<Calibration>,
}

/// An array that comes into question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The level.
    pub level: Level,
    /// The number of its members.
    pub members: usize,
    /// The number of its spares.
    pub spares: usize,
    /// Its strip; it does not matter on RAID 1.
    pub strip_kib: u64,
}

impl Candidate {
    /// True if the strip matters.
    pub fn has_strips(&self) -> bool {
        !matches!(self.level, Level::Single | Level::Raid1)
    }

    /// Members and spares.
    pub fn drives(&self) -> usize {
        self.members + self.spares
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Single => write!(f, "a single drive")?,
            level => write!(f, "{level} over {} drives", self.members)?,
        }
        if self.has_strips() {
            write!(f, " with strips of {} KiB", self.strip_kib)?;
        }
        match self.spares {
            0 => Ok(()),
            1 => write!(f, " and a spare"),
            spares => write!(f, " and {spares} spares"),
        }
    }
}

/// The number and kind of drives: `8xp4510`, `2-8xp4510`.
///
/// # Errors
/// A sentence with the forms that do.
pub fn parse_drives(text: &str) -> Result<(RangeInclusive<usize>, &str), String> {
    let wrong = || format!("\"{text}\" names no drives: write it like 8xp4510, or 2-8xp4510 for two to eight");
    let (counts, drive) = text.split_once(['x', 'X', '*']).ok_or_else(wrong)?;
    let (least, most) = counts.split_once('-').unwrap_or((counts, counts));
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let (least, most, drive) = (number(least)?, number(most)?, drive.trim());
    if drive.is_empty() {
        return Err(wrong());
    }
    // A second count with its model, as in 4xp4510,4xd3700.
    let is_further = |part: &str| part.trim().split_once(['x', 'X', '*']).is_some_and(|(count, _)| is_count(count));
    if drive.split([',', '+', '&', ';']).skip(1).any(is_further) {
        return Err(format!(
            "\"{text}\" names drives of several models, which are not planned together: name one, the smaller or slower, as it \
             sets what an array of both holds and does"
        ));
    }
    if least == 0 || most > DRIVES_MAX {
        return Err(format!("{} drives are not modelled: use 1 to {DRIVES_MAX}", counts.trim()));
    }
    if least > most {
        return Err(format!("{} drives are not a range: use {most}-{least}", counts.trim()));
    }
    Ok((least..=most, drive))
}

/// True for digits, or two of them with a hyphen between.
fn is_count(text: &str) -> bool {
    !text.trim().is_empty() && text.trim().chars().all(|letter| letter.is_ascii_digit() || letter == '-')
}

impl Wish {
    /// The counts in words.
    pub fn counts_text(&self) -> String {
        match (self.counts.start(), self.counts.end()) {
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} to {most}"),
        }
    }

    /// The price of so many drives.
    pub fn cost(&self, drives: usize) -> Option<f64> {
        self.price.map(|price| price * drives as f64)
    }

    /// True if the budget buys so many drives, or there is none.
    pub fn is_affordable(&self, drives: usize) -> bool {
        self.budget.zip(self.cost(drives)).is_none_or(|(budget, cost)| cost <= budget * (1.0 + ROUNDING))
    }

    /// The reason why the wear of the drives is unknown, if it is.
    pub fn wear_unknown(&self) -> Option<String> {
        let CatalogueDrive { config, facts } = &self.drive.config;
        if config.is_rotational() {
            Some("the wear of hard disks is not modelled".to_owned())
        } else if self.purpose.parts.iter().all(|part| part.written_bytes_share() <= 0.0) {
            Some("the purpose writes nothing".to_owned())
        } else if facts.tbw_tb.is_none() {
            Some(format!("the profile of {} has no endurance rating (tbw_tb)", self.drive.key))
        } else {
            None
        }
    }

    /// The reason why the drives' lifetime is unknown, if it is asked for.
    pub fn lifetime_refusal(&self) -> Option<String> {
        let cause = self.written_tb_per_day.and(self.wear_unknown())?;
        Some(format!("--written-a-day has no answer, as {cause}: leave it out"))
    }

    /// The least number of drives of which an array survives the failures that are asked for, and the most failures that any
    /// array survives.
    pub fn survivable(&self) -> (Option<usize>, usize) {
        let survives = |count: usize| {
            let found = Self { counts: count..=count, ..self.clone() }.candidates().unwrap_or_default();
            found.iter().map(|candidate| groups(candidate.level, candidate.members).survives).max().unwrap_or(0)
        };
        let all: Vec<usize> = (1..=DRIVES_MAX).map(survives).collect();
        let least = all.iter().position(|survives| *survives >= self.losses_min).map(|index| index + 1);
        (least, all.into_iter().max().unwrap_or(0))
    }

    /// The members of an array of the given number of drives.
    ///
    /// # Errors
    /// A sentence, if several counts are asked for, or no drive is left beside the spares.
    pub fn members(&self) -> Result<usize, String> {
        if self.counts.start() != self.counts.end() {
            return Err(format!("{} drives are several arrays: give one count", self.counts_text()));
        }
        self.counts.end().checked_sub(self.spares).filter(|members| *members > 0).ok_or_else(|| {
            format!("{} drives with {} spares make no array: take more drives or fewer spares", self.counts.end(), self.spares)
        })
    }

    /// The same with so many times the requests under way.
    pub fn with_depth_times(&self, factor: u32) -> Self {
        let mut wish = self.clone();
        wish.purpose.parts.iter_mut().for_each(|part| part.depth *= factor);
        wish
    }

    /// The reason why the level cannot be modelled over so many members on the platform, if it cannot.
    fn level_refusal(&self, level: Level, members: usize) -> Option<String> {
        let on_platform = || self.platform.config.level_refusal(level, members, &self.platform.name);
        level.model_refusal(members).or_else(on_platform)
    }

    /// The reason why there is no such array on the platform, if there is none.
    pub fn refusal(&self, candidate: &Candidate) -> Option<String> {
        let Candidate { level, members, spares, strip_kib } = *candidate;
        let platform = &self.platform;
        let lacks_ports = || platform.config.ports_refusal(candidate.drives(), &platform.name);
        if let Some(refusal) = lacks_ports().or_else(|| self.level_refusal(level, members)) {
            Some(refusal)
        } else if !level.is_redundant() && spares > 0 {
            Some(format!("spares are of no use to {level}"))
        } else if !strip_kib.is_power_of_two() || !STRIP_KIB.contains(&strip_kib) {
            // On a level without strips as well: the layout divides by it.
            Some(format!("invalid strip size {strip_kib}K: use a power of two from 4K to 1M"))
        } else if !candidate.has_strips() {
            None
        } else {
            platform.config.strip_refusal(strip_kib, &platform.name)
        }
    }

    /// All reasons why a trial does not fulfil the wish, if it does not.
    pub fn lack(&self, trial: &Trial) -> Option<String> {
        let fails = (trial.survives < self.losses_min).then(|| match trial.survives {
            0 => "survives no failure".to_owned(),
            survived => format!("survives {survived} of {} failures", self.losses_min),
        });
        let small = (trial.usable_bytes < self.capacity_bytes_min).then(|| {
            let (held, asked) = spaces(trial.usable_bytes as f64, self.capacity_bytes_min as f64);
            format!("holds {held} of {asked}")
        });
        let dear = self.budget.zip(trial.price).filter(|_| !self.is_affordable(trial.candidate.drives()));
        let dear = dear.map(|(budget, cost)| format!("costs {} of {}", money(cost), money(budget)));
        let all: Vec<String> = [fails, small, dear].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }

    /// The reason why the budget buys none of the arrays, if it does not.
    pub fn too_dear(&self) -> Option<String> {
        let (budget, price) = (self.budget?, self.price?);
        let least = *self.counts.start();
        let (key, needed) = (&self.drive.key, money(self.cost(least)?));
        let bought = (budget / price * (1.0 + ROUNDING)) as usize;
        let (budget, price) = (money(budget), money(price));
        (!self.is_affordable(least)).then(|| match bought {
            0 => format!("a budget of {budget} buys no {key} at {price} each: use a budget of at least {needed} for {least}"),
            _ => format!(
                "a budget of {budget} buys {bought} of {key} at {price} each, and not {least}: use fewer drives, or a budget of at least {needed}"
            ),
        })
    }

    /// Every array that the drives can make.
    ///
    /// # Errors
    /// A sentence, where there is none.
    pub fn candidates(&self) -> Result<Vec<Candidate>, String> {
        let platform = &self.platform.config;
        if self.budget.is_some() && self.price.is_none() {
            return Err("a budget needs the price of a drive: give it with --price, or in the profile".to_owned());
        }
        if let Some(strip) = self.strips_kib.iter().find(|strip| !strip.is_power_of_two() || !STRIP_KIB.contains(*strip)) {
            return Err(format!("invalid strip size {strip}K: use a power of two from 4K to 1M"));
        }
        let refusal = |strip: &u64| platform.strip_refusal(*strip, &self.platform.name);
        let mut strips: Vec<u64> = self.strips_kib.iter().copied().filter(|strip| refusal(strip).is_none()).collect();
        if let (true, Some(sentence)) = (strips.is_empty(), self.strips_kib.iter().find_map(refusal)) {
            return Err(sentence);
        }
        strips.sort_unstable();
        strips.dedup();
        if let Some(sentence) = platform.ports_refusal(*self.counts.start(), &self.platform.name) {
            return Err(sentence);
        }
        let mut found = Vec::new();
        for count in self.counts.clone().filter(|count| platform.ports.is_none_or(|ports| *count <= ports)) {
            let Some(members) = count.checked_sub(self.spares).filter(|members| *members > 0) else { continue };
            let spans = [2, 4].into_iter().filter(|spans| members / spans >= 3);
            let nested = spans.flat_map(|spans| [Level::Raid5 { spans }, Level::Raid6 { spans }]);
            let plain =
                [Level::Single, Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5 { spans: 1 }, Level::Raid6 { spans: 1 }];
            for level in plain.into_iter().chain(nested) {
                // A RAID 0 has more than one drive, spares are of no use without redundancy, and `what-if` answers for rare
                // arrays.
                let useless = (level == Level::Raid0 && members == 1)
                    || (!level.is_redundant() && self.spares > 0)
                    || level.instead_of_rare(members).is_some()
                    || (level == Level::Raid1 && members > COPIES_MAX.max(self.losses_min.saturating_add(1)));
                if useless || self.level_refusal(level, members).is_some() {
                    continue;
                }
                let one = [strips[0]];
                let tried = if matches!(level, Level::Single | Level::Raid1) { &one[..] } else { &strips };
                found.extend(tried.iter().map(|&strip_kib| Candidate { level, members, spares: self.spares, strip_kib }));
            }
        }
        match found.is_empty() {
            true => Err(format!(
                "{} drives with {} spares make no array on {}: take other drives, fewer spares or another platform",
                self.counts_text(),
                self.spares,
                self.platform.name
            )),
            false => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn drives_are_written_as_people_write_them() {
        assert_eq!(parse_drives("8xp4510"), Ok((8..=8, "p4510")));
        assert_eq!(parse_drives(" 2-8 x ./my.toml"), Ok((2..=8, "./my.toml")));
        for wrong in ["", "p4510", "x", "8x", "axp4510", "-8xp4510", "8-xp4510", "0xp4510", "9-8xp4510", "65xp4510", "-1xp4510"] {
            assert!(parse_drives(wrong).is_err(), "{wrong}");
        }
        for several in ["4xp4510,4xd3700", "4xp4510 + 2xd3700", "2xs3500, 2-4 x p4510"] {
            assert!(parse_drives(several).is_err_and(|sentence| sentence.contains("several models")), "{several}");
        }
        assert_eq!(parse_drives("8x./my 4x4, drives.toml"), Ok((8..=8, "./my 4x4, drives.toml")));
    }

    proptest! {
        #[test]
        fn no_words_for_drives_panic(text in ".{0,20}") {
            if let Ok((counts, drive)) = parse_drives(&text) {
                prop_assert!(*counts.start() >= 1 && *counts.end() <= DRIVES_MAX && !drive.is_empty());
            }
        }
    }
}
