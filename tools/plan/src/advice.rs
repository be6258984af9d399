//! Which array of given drives suits a purpose: level, count of drives, spares and strip, each tried by the engine on the modelled drives.
//!
//! - [`purpose`]: what an array is for, as loads.
//! - [`wish`]: what is asked for, and which arrays come into question.
//! - [`trial`]: what one of them reaches. [`wear`]: what that takes of its drives.
//! - [`mod@what_if`]: one array, and what would change with a drive more, another strip, a failed drive, twice the load.
//! - [`explain`]: where each figure comes from. [`page`]: the answer as HTML.
//! - This module: the ranking, and why.

pub mod explain;
pub mod page;
pub mod purpose;
pub mod trial;
pub mod wear;
pub mod what_if;
pub mod wish;

pub use purpose::{Part, Purpose};
pub use trial::{BusyRebuild, PartFigures, Risk, Trial};
pub use what_if::{Variant, what_if};
pub use wish::{Candidate, State, Wish};

use crate::amount::{self, money, space};
use crate::campaign::at_once;

/// 3 %: arrays whose speeds differ by less count as equally fast. Source: the standard error of a trial is below it
/// (`tests/advice.rs`).
pub const ALIKE: f64 = 0.03;
/// One in a million a year: below it, causes that are not modelled (batches that fail together, controllers, people) lose data more often.
const LOSS_NEGLIGIBLE: f64 = 1e-6;

/// The arrays that come into question, the best first, and why.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The arrays that fulfil the wish: of each level and number of drives the one with the best strip.
    pub ranking: Vec<Trial>,
    /// The same for arrays that lack space or redundancy.
    pub unfit: Vec<Trial>,
    /// The speed of one drive.
    pub single: Vec<PartFigures>,
    /// Sentences: why the first array is first, and what would change the answer.
    pub reasons: Vec<String>,
}

impl Advice {
    /// The Pareto front of the ranking: arrays to which none is superior in space or speed without being inferior in the other.
    /// By space, the largest first.
    pub fn front(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.ranking.len()).collect();
        let of = |index: &usize| &self.ranking[*index];
        order.sort_by(|a, b| of(b).usable_bytes.cmp(&of(a).usable_bytes).then(of(b).speed.total_cmp(&of(a).speed)));
        let mut fastest = 0.0;
        order.retain(|index| {
            let beats = of(index).speed > fastest;
            fastest = of(index).speed.max(fastest);
            beats
        });
        order
    }
}

/// The reason why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The wish is invalid.
    #[error("{0}")]
    Wish(String),
    /// No array of these drives fulfils it.
    #[error("{0}")]
    NothingFits(String),
}

/// Tries every candidate, several at once, and ranks them. `tried` is called after each trial with the number of trials that
/// ended, and of all.
///
/// # Errors
/// [`AdviceError`], in words.
pub fn advise(wish: &Wish, tried: &(dyn Fn(usize, usize) + Sync)) -> Result<Advice, AdviceError> {
    let candidates = wish.candidates().map_err(AdviceError::Wish)?;
    if let Some(sentence) = wish.too_dear() {
        return Err(AdviceError::Wish(sentence));
    }
    // Space and redundancy are known without a trial.
    let found: Vec<(&Candidate, (u64, usize))> =
        candidates.iter().map(|candidate| (candidate, trial::space(wish, candidate))).collect();
    let fits = |&(candidate, (usable_bytes, survives)): &(&Candidate, (u64, usize))| {
        wish.is_affordable(candidate.drives()) && survives >= wish.losses_min && usable_bytes >= wish.capacity_bytes_min
    };
    if !found.iter().any(fits) {
        return Err(AdviceError::NothingFits(nothing_fits(wish, &found)));
    }
    let single = trial::single(wish);
    let trials = at_once(&candidates, tried, |candidate| trial::run(wish, candidate, &single));
    let best = at_once(&best_strips(trials), &|_, _| (), |trial| trial::completed(wish, trial.clone(), &single));
    let (mut ranking, mut unfit): (Vec<Trial>, Vec<Trial>) = best.into_iter().partition(|trial| wish.lack(trial).is_none());
    rank(&mut ranking);
    rank(&mut unfit);
    assert!(!ranking.is_empty(), "an array fits, and was tried");
    let reasons = reasons(wish, &ranking, &unfit);
    Ok(Advice { ranking, unfit, single, reasons })
}

/// The reason why no array of the wish fits, and what would help. `found`: the arrays with their space and the failures that each survives.
fn nothing_fits(wish: &Wish, found: &[(&Candidate, (u64, usize))]) -> String {
    let drives = format!("{} x {}", wish.counts_text(), wish.drive.key);
    let failures = failures(wish.losses_min);
    let safe = found.iter().filter(|(_, (_, survives))| *survives >= wish.losses_min);
    let Some(largest) = safe.clone().map(|(_, (bytes, _))| *bytes).max() else {
        let remedy = match wish.survivable() {
            (Some(count), _) => format!("take {count} drives, or let it survive fewer"),
            (None, most) => format!("{most} is the most that is modelled on {}: let it survive fewer", wish.platform.name),
        };
        return format!("no array of {drives} survives {failures}: {remedy}");
    };
    let (asked, held) = amount::spaces(wish.capacity_bytes_min as f64, largest as f64);
    if largest < wish.capacity_bytes_min {
        return match wish.losses_min {
            0 => format!("no array of {drives} holds {asked}: one holds {held} at most; take more drives, or larger ones"),
            _ => format!(
                "no array of {drives} holds {asked} and survives {failures}; of those that survive as many, one holds {held} at most: take more \
                 drives, or larger ones"
            ),
        };
    }
    // All but the budget can be had.
    let holds = safe.filter(|(_, (bytes, _))| *bytes >= wish.capacity_bytes_min);
    let cheapest = holds.map(|(candidate, _)| *candidate).min_by_key(|candidate| candidate.drives());
    let (cheapest, budget) = cheapest.zip(wish.budget).expect("only the budget is left");
    let mut asked = if wish.capacity_bytes_min > 0 { vec![format!("holds {asked}")] } else { Vec::new() };
    asked.extend((wish.losses_min > 0).then(|| format!("survives {failures}")));
    let which = if asked.is_empty() { String::new() } else { format!(" that {}", asked.join(" and ")) };
    format!(
        "a budget of {} buys no array of {drives}{which}: the cheapest is {} over {} drives, which cost {}",
        money(budget),
        cheapest.level,
        cheapest.drives(),
        money(wish.cost(cheapest.drives()).expect("a budget has a price"))
    )
}

/// Of each level and number of drives the fastest strip; of equally fast strips the one nearest to 64 KiB, which is the default
/// of `stria create`.
fn best_strips(trials: Vec<Trial>) -> Vec<Trial> {
    let mut best: Vec<Trial> = Vec::new();
    for trial in trials {
        let same = |other: &&mut Trial| {
            other.candidate.level == trial.candidate.level && other.candidate.members == trial.candidate.members
        };
        let distance = |trial: &Trial| (trial.candidate.strip_kib as f64 / 64.0).log2().abs();
        match best.iter_mut().find(same) {
            None => best.push(trial),
            Some(other) => {
                let faster = trial.speed > other.speed * (1.0 + ALIKE);
                let alike = trial.speed >= other.speed * (1.0 - ALIKE);
                if faster || (alike && distance(&trial) < distance(other)) {
                    *other = trial;
                }
            }
        }
    }
    best
}

/// The fastest first. Among equally fast arrays, the one with the fewest drives, then the one with the least expected loss, then the one with the
/// most space.
fn rank(trials: &mut [Trial]) {
    trials.sort_by(|a, b| b.speed.total_cmp(&a.speed));
    let Some(fastest) = trials.first().map(|trial| trial.speed) else { return };
    let alike = trials.iter().take_while(|trial| trial.speed >= fastest * (1.0 - ALIKE)).count();
    let drives = |trial: &Trial| trial.candidate.members + trial.candidate.spares;
    trials[..alike].sort_by(|a, b| {
        drives(a).cmp(&drives(b)).then(relevant_loss(a).total_cmp(&relevant_loss(b))).then(b.usable_bytes.cmp(&a.usable_bytes))
    });
}

/// The probability of data loss within a year, as far as it can decide between two arrays.
fn relevant_loss(trial: &Trial) -> f64 {
    trial.risk.map_or(0.0, |risk| risk.loss.loss).max(LOSS_NEGLIGIBLE)
}

/// "1 failure", "2 failures".
fn failures(count: usize) -> String {
    if count == 1 { "1 failure".to_owned() } else { format!("{count} failures") }
}

fn reasons(wish: &Wish, ranking: &[Trial], unfit: &[Trial]) -> Vec<String> {
    let first = &ranking[0];
    let speed = first.speed;
    let mut reasons = Vec::new();
    let mut conditions = Vec::new();
    if wish.losses_min > 0 {
        conditions.push(format!("surviving {}", failures(wish.losses_min)));
    }
    if wish.capacity_bytes_min > 0 {
        conditions.push(format!("holding {}", space(wish.capacity_bytes_min as f64)));
    }
    if let Some(budget) = wish.budget {
        conditions.push(format!("costing at most {}", money(budget)));
    }
    let asked = if conditions.is_empty() { String::new() } else { format!(" {}", conditions.join(" and ")) };
    let alike = ranking.iter().skip(1).filter(|trial| trial.speed >= speed * (1.0 - ALIKE)).count();
    reasons.push(match ranking.len() {
        1 => format!("{} is the only array{asked}: {speed:.2} times one drive.", first.candidate),
        compared if alike == 0 => {
            format!("{} is the fastest of {compared} arrays{asked}: {speed:.2} times one drive.", first.candidate)
        }
        compared => format!(
            "{} is the best of {compared} arrays{asked}: {speed:.2} times one drive, and none is faster by more than {:.0} %.",
            first.candidate,
            ALIKE * 100.0
        ),
    });
    for trial in &ranking[1..=alike.min(2)] {
        let why = match first.candidate.drives().cmp(&trial.candidate.drives()) {
            std::cmp::Ordering::Less => "takes more drives",
            _ if relevant_loss(trial) > relevant_loss(first) => "is expected to lose data more often",
            _ if trial.usable_bytes < first.usable_bytes => "has less space",
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => "has no advantage",
        };
        reasons.push(format!("{} is as fast within {:.0} %, but {why}.", trial.candidate, ALIKE * 100.0));
    }
    let fastest = |trials: &mut dyn Iterator<Item = &Trial>| trials.max_by(|a, b| a.speed.total_cmp(&b.speed)).cloned();
    if let Some(worst) = alone_why(wish, first, ranking) {
        reasons.push(worst);
    }
    reasons.extend(recorded_rates(wish, first));
    let share = |trial: &Trial| format!("{:.0} % of the speed", 100.0 * trial.speed / speed);
    if let Some(roomy) = fastest(&mut ranking[1..].iter().filter(|trial| trial.usable_bytes > first.usable_bytes)) {
        let more = roomy.usable_bytes as f64 / first.usable_bytes as f64;
        reasons.push(format!("If space matters more: {} holds {more:.2} times as much, at {}.", roomy.candidate, share(&roomy)));
    }
    let cheaper = |trial: &&Trial| trial.price.zip(first.price).is_some_and(|(price, first)| price < 0.99 * first);
    if let Some(cheaper) = fastest(&mut ranking.iter().filter(cheaper)) {
        let price = cheaper.price.unwrap_or(0.0);
        reasons.push(format!("If money matters more: {} costs {}, at {}.", cheaper.candidate, money(price), share(&cheaper)));
    }
    let safer = |trial: &&Trial| trial.survives > first.survives && trial.usable_bytes >= wish.capacity_bytes_min;
    if let Some(safer) = fastest(&mut ranking.iter().filter(safer)) {
        let survived = failures(safer.survives);
        reasons.push(format!("If {survived} must be survived: {}, at {}.", safer.candidate, share(&safer)));
    }
    if let Some(faster) = fastest(&mut unfit.iter().filter(|trial| trial.speed > speed * (1.0 + ALIKE))) {
        let lack = wish.lack(&faster).unwrap_or_default();
        reasons.push(format!("{} would be {:.2} times as fast, but {lack}.", faster.candidate, faster.speed / speed));
    }
    reasons
}

/// The rates of a trace beside what the first array serves.
fn recorded_rates(wish: &Wish, first: &Trial) -> Option<String> {
    let [part] = &wish.purpose.parts[..] else { return None };
    let recorded = part.recorded?;
    let served = first.parts[0].iops;
    let percent = |rate: f64| {
        let share = 100.0 * rate / served;
        if share < 1.0 { "below 1 %".to_owned() } else { format!("{share:.0} %") }
    };
    let beyond = if recorded.peak_per_s > served { " In that second requests wait longer than the table says." } else { "" };
    Some(format!(
        "The trace has {:.0} requests a second, {} of what this array serves, and {:.0} in its busiest second, {}.{beyond}",
        recorded.mean_per_s,
        percent(recorded.mean_per_s),
        recorded.peak_per_s,
        percent(recorded.peak_per_s)
    ))
}

/// The advantage of the first array over the fastest of another level: the load whose time is most below the other's.
fn alone_why(wish: &Wish, first: &Trial, ranking: &[Trial]) -> Option<String> {
    let other = ranking
        .iter()
        .filter(|trial| trial.candidate.level != first.candidate.level && trial.speed < first.speed * (1.0 - ALIKE))
        .max_by(|a, b| a.speed.total_cmp(&b.speed))?;
    let gain = |index: usize| first.parts[index].iops / other.parts[index].iops;
    let index = (0..first.parts.len()).max_by(|&a, &b| {
        let weight = |index: usize| wish.purpose.parts[index].time_share * (gain(index) - 1.0);
        weight(a).total_cmp(&weight(b))
    })?;
    let (own, others) = (&first.parts[index], &other.parts[index]);
    let level = other.candidate.level;
    let cause = match (own.written_share, others.written_share) {
        (Some(own), Some(others)) if others > 1.05 * own => {
            format!(", as it writes {own:.1} bytes to drives for each byte of clients, and {level} writes {others:.1}")
        }
        _ if other.candidate.level.parities() > 0 && own.written_share.is_some() => {
            format!(", as {level} reads old data and parity before it writes")
        }
        _ => String::new(),
    };
    Some(format!(
        "Its advantage is {}: {:.0} requests a second against {:.0} of {}{cause}.",
        own.name, own.iops, others.iops, other.candidate
    ))
}
