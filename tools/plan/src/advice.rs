//! Which array of given drives suits a purpose: level, count of drives, spares and strip, each tried by the engine on the
//! modelled drives.
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
/// One in a million a year: below it, causes that are not modelled (batches that fail together, controllers, people) lose data
/// more often.
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
    if let Some(sentence) = wish.too_dear().or_else(|| wish.lifetime_refusal()) {
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
    let best = at_once(&best_strips(wish, trials), &|_, _| (), |trial| trial::completed(wish, trial.clone(), &single));
    let (mut ranking, mut unfit): (Vec<Trial>, Vec<Trial>) = best.into_iter().partition(|trial| wish.lack(trial).is_none());
    let alike = rank(&mut ranking);
    rank(&mut unfit);
    assert!(!ranking.is_empty(), "an array fits, and was tried");
    let reasons = reasons(wish, &ranking, alike, &unfit);
    Ok(Advice { ranking, unfit, single, reasons })
}

/// The reason why no array of the wish fits, and what would help. `found`: the arrays with their space and the failures that each
/// survives.
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
    let holds = (wish.capacity_bytes_min > 0).then(|| format!("holds {asked}"));
    let survives = (wish.losses_min > 0).then(|| format!("survives {failures}"));
    let conditions = [holds, survives].into_iter().flatten().collect::<Vec<String>>().join(" and ");
    if largest < wish.capacity_bytes_min {
        let as_safe = if wish.losses_min > 0 { " that survives as many" } else { "" };
        return format!("no array of {drives} {conditions}: the largest{as_safe} holds {held}; take more drives, or larger ones");
    }
    // An array fulfils everything but the budget.
    let large = safe.filter(|(_, (bytes, _))| *bytes >= wish.capacity_bytes_min);
    let cheapest = large.map(|(candidate, _)| *candidate).min_by_key(|candidate| candidate.drives());
    let (cheapest, budget) = cheapest.zip(wish.budget).expect("only the budget is left");
    let which = if conditions.is_empty() { String::new() } else { format!(" that {conditions}") };
    format!(
        "a budget of {} buys no array of {drives}{which}: the cheapest is {} over {} drives, which cost {}",
        money(budget),
        cheapest.level,
        cheapest.drives(),
        money(wish.cost(cheapest.drives()).expect("a budget has a price"))
    )
}

/// One array of each level and number of drives: among equally fast arrays, the one with the strip nearest to 64 KiB, the default
/// of `stria create`. If some strips fulfil the wish, the others do not count.
fn best_strips(wish: &Wish, trials: Vec<Trial>) -> Vec<Trial> {
    let mut groups: Vec<Vec<Trial>> = Vec::new();
    for trial in trials {
        let Candidate { level, members, .. } = trial.candidate;
        let same = |group: &&mut Vec<Trial>| (group[0].candidate.level, group[0].candidate.members) == (level, members);
        match groups.iter_mut().find(same) {
            None => groups.push(vec![trial]),
            Some(group) => group.push(trial),
        }
    }
    let distance = |trial: &Trial| (trial.candidate.strip_kib as f64 / 64.0).log2().abs();
    let best = |mut group: Vec<Trial>| {
        if group.iter().any(|trial| wish.lack(trial).is_none()) {
            group.retain(|trial| wish.lack(trial).is_none());
        }
        let fastest = speed_max(&group);
        group.retain(|trial| is_alike(trial, fastest));
        group.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)).then(b.speed.total_cmp(&a.speed)))
    };
    groups.into_iter().filter_map(best).collect()
}

fn speed_max(trials: &[Trial]) -> f64 {
    trials.iter().map(|trial| trial.speed).fold(0.0, f64::max)
}

/// True if an array counts as being as fast as the fastest.
fn is_alike(trial: &Trial, fastest: f64) -> bool {
    trial.speed >= fastest * (1.0 - ALIKE)
}

/// The fastest first. Among equally fast arrays, the one with the fewest drives, then the one with the least expected loss, then
/// the one with the most space. Returns how many are equally fast.
fn rank(trials: &mut [Trial]) -> usize {
    let fastest = speed_max(trials);
    trials.sort_by(|a, b| b.speed.total_cmp(&a.speed));
    let alike = trials.partition_point(|trial| is_alike(trial, fastest));
    trials[..alike].sort_by(|a, b| {
        let drives = |trial: &Trial| trial.candidate.drives();
        drives(a).cmp(&drives(b)).then(relevant_loss(a).total_cmp(&relevant_loss(b))).then(b.usable_bytes.cmp(&a.usable_bytes))
    });
    alike
}

/// The probability of data loss within a year, as far as it can decide between two arrays.
fn relevant_loss(trial: &Trial) -> f64 {
    trial.risk.map_or(0.0, |risk| risk.loss.loss).max(LOSS_NEGLIGIBLE)
}

/// "1 failure", "2 failures".
fn failures(count: usize) -> String {
    if count == 1 { "1 failure".to_owned() } else { format!("{count} failures") }
}

/// Why the first array is first. `alike`: how many arrays count as equally fast, the first included.
fn reasons(wish: &Wish, ranking: &[Trial], alike: usize, unfit: &[Trial]) -> Vec<String> {
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
    reasons.push(match ranking.len() {
        1 => format!("{} is the only array{asked}: {speed:.2} times one drive.", first.candidate),
        compared if alike == 1 => {
            format!("{} is the fastest of {compared} arrays{asked}: {speed:.2} times one drive.", first.candidate)
        }
        compared => format!(
            "{} is the best of {compared} arrays{asked}: {speed:.2} times one drive, and none is faster by more than {:.0} %.",
            first.candidate,
            ALIKE * 100.0
        ),
    });
    for trial in &ranking[1..alike.min(3)] {
        let why = match first.candidate.drives().cmp(&trial.candidate.drives()) {
            std::cmp::Ordering::Less => "takes more drives",
            _ if relevant_loss(trial) > relevant_loss(first) => "is expected to lose data more often",
            _ if trial.usable_bytes < first.usable_bytes => "has less space",
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => "has no advantage",
        };
        reasons.push(format!("{} is as fast within {:.0} %, but {why}.", trial.candidate, ALIKE * 100.0));
    }
    let fastest = |trials: &mut dyn Iterator<Item = &Trial>| trials.max_by(|a, b| a.speed.total_cmp(&b.speed)).cloned();
    if let Some(worst) = alone_why(wish, first, &ranking[alike..]) {
        reasons.push(worst);
    }
    reasons.extend(recorded_rates(wish, first));
    if let Some(lacking) = wish.platform.config.ports_refusal(*wish.counts.end(), &wish.platform.name) {
        reasons.push(format!("{lacking}. Arrays of more are left out."));
    }
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

/// The advantage of the first array over the fastest array of another level: the load that saves the most time. `slower`: the
/// arrays that do not count as equally fast.
fn alone_why(wish: &Wish, first: &Trial, slower: &[Trial]) -> Option<String> {
    let other = slower
        .iter()
        .filter(|trial| trial.candidate.level != first.candidate.level)
        .max_by(|a, b| a.speed.total_cmp(&b.speed))?;
    let gain = |index: usize| first.parts[index].iops / other.parts[index].iops;
    let index = (0..first.parts.len()).max_by(|&a, &b| {
        let weight = |index: usize| wish.purpose.parts[index].time_share * (gain(index) - 1.0);
        weight(a).total_cmp(&weight(b))
    })?;
    let (own, others) = (&first.parts[index], &other.parts[index]);
    let Candidate { level, members, .. } = other.candidate;
    // Whole stripes are written without a read: then drives take in the data, its parity, and nothing else.
    let whole_stripes = 1.0 / level.data_share(members);
    let cause = match (own.written_share, others.written_share) {
        (Some(own), Some(others)) if others > 1.05 * own => {
            format!(", as it writes {own:.1} bytes to drives for each byte of clients, and {level} writes {others:.1}")
        }
        (Some(_), Some(others)) if level.parities() > 0 && others > 1.05 * whole_stripes => {
            format!(", as {level} reads old data and parity before it writes")
        }
        _ => String::new(),
    };
    Some(format!(
        "Its advantage is {}: {:.0} requests a second against {:.0} of {}{cause}.",
        own.name, own.iops, others.iops, other.candidate
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Level;
    use crate::reliability::Frailty;

    fn trial(level: Level, members: usize, strip_kib: u64, speed: f64) -> Trial {
        Trial {
            candidate: Candidate { level, members, spares: 0, strip_kib },
            usable_bytes: 1 << 40,
            survives: 1,
            parts: Vec::new(),
            speed,
            degraded_speed: None,
            rebuild_hours: None,
            busy_rebuild: None,
            repair_hours: 0.0,
            frailty: Frailty { mtbf_hours: 1e6, unreadable_per_bit: 0.0, capacity_tb: 1.0 },
            speed_spread: 0.0,
            risk: None,
            wear: None,
            price: None,
        }
    }

    fn part(iops: f64) -> PartFigures {
        PartFigures {
            name: "x".to_owned(),
            iops,
            iops_spread: 0.0,
            bytes_per_s: iops,
            mean_ns: 1.0,
            read_p99_ns: None,
            write_p99_ns: None,
            written_share: None,
            worn_share: None,
            calibration: None,
        }
    }

    fn wish() -> Wish {
        Wish {
            drive: crate::profile::catalogue_drive("s3500").expect("there is such a drive"),
            counts: 2..=8,
            spares: 0,
            platform: crate::profile::platform("stria").expect("there is such a platform"),
            purpose: Purpose::preset("vm").expect("there is such a purpose"),
            capacity_bytes_min: 0,
            losses_min: 1,
            strips_kib: Vec::new(),
            state: State::Used,
            replace_hours: 24.0,
            scrub_hours: 720.0,
            written_tb_per_day: None,
            price: None,
            budget: None,
            requests: 1_000,
            calibration: None,
        }
    }

    /// Steps of 2.5 % from 4 to 64 KiB. Each strip was compared with the one before it and counted as equally fast, so the
    /// slowest of all won.
    #[test]
    fn a_strip_is_compared_with_the_fastest_and_not_with_the_last() {
        let of = |speeds: &[(u64, f64)]| {
            let trials = speeds.iter().map(|&(kib, speed)| trial(Level::Raid0, 4, kib, speed)).collect();
            best_strips(&wish(), trials).iter().map(|trial| trial.candidate.strip_kib).collect::<Vec<_>>()
        };
        assert_eq!(of(&[(4, 1.0), (8, 0.975), (16, 0.951), (32, 0.927), (64, 0.904)]), [8]);
        assert_eq!(of(&[(16, 1.0), (64, 0.98), (256, 1.02)]), [256]);
        assert_eq!(of(&[(32, 0.99), (128, 1.0)]), [128]);
    }

    /// The answer left out the lifetime of a drive without an endurance rating, and did not say why.
    #[test]
    fn a_lifetime_without_a_rating_is_refused() {
        let mut asked = Wish { written_tb_per_day: Some(1.0), ..wish() };
        assert_eq!(asked.lifetime_refusal(), None);
        asked.drive.config.facts.tbw_tb = None;
        assert!(asked.lifetime_refusal().is_some_and(|sentence| sentence.contains("no endurance rating (tbw_tb): leave it out")));
        asked.written_tb_per_day = None;
        assert_eq!(asked.lifetime_refusal(), None);
    }

    /// RAID 6 of four in strips of 16 KiB takes in 2 bytes for each byte of a sequential writer, so it writes whole stripes. It
    /// was said to read before it writes.
    #[test]
    fn an_array_that_writes_whole_stripes_is_not_said_to_read_before() {
        let writing = |level, speed: f64, share| {
            let part = PartFigures { written_share: Some(share), worn_share: Some(share / 4.0), ..part(speed) };
            Trial { parts: vec![part], ..trial(level, 4, 16, speed) }
        };
        let asked = Wish { purpose: Purpose::mix(1 << 20, 0.0, 1, crate::load::Pattern::Sequential).expect("a load"), ..wish() };
        let why = |share: f64| {
            let (first, other) = (writing(Level::Raid10, 2.0, share), writing(Level::Raid6 { spans: 1 }, 1.0, share));
            alone_why(&asked, &first, &[other]).expect("there is another level")
        };
        assert!(why(2.0).ends_with("of RAID 6 over 4 drives with strips of 16 KiB."), "{}", why(2.0));
        assert!(why(4.0).ends_with(", as RAID 6 reads old data and parity before it writes."), "{}", why(4.0));
    }

    /// A strip that leaves too little space is no choice where another leaves enough.
    #[test]
    fn the_best_strip_is_one_that_fulfils_the_wish() {
        let small = Trial { usable_bytes: (1 << 40) - 1, ..trial(Level::Raid0, 4, 256, 2.0) };
        let asked = Wish { capacity_bytes_min: 1 << 40, ..wish() };
        let found = best_strips(&asked, vec![trial(Level::Raid0, 4, 64, 1.0), small]);
        assert_eq!((found.len(), found[0].candidate.strip_kib), (1, 64));
    }

    /// The first array is 2.9 % slower than the fastest and has fewer drives; a third is 2 % slower than the first, and not
    /// alike.
    #[test]
    fn reasons_speak_of_the_arrays_that_the_ranking_took_as_alike() {
        let with = |level, members, speed: f64| Trial { parts: vec![part(speed)], ..trial(level, members, 64, speed) };
        let mut ranking =
            vec![with(Level::Raid10, 8, 1.0), with(Level::Raid10, 4, 0.971), with(Level::Raid5 { spans: 1 }, 3, 0.952)];
        let alike = rank(&mut ranking);
        let told = reasons(&wish(), &ranking, alike, &[]);
        assert_eq!((alike, ranking[0].candidate.members, ranking[2].candidate.members), (2, 4, 3));
        assert!(told[1].starts_with("RAID 10 over 8 drives") && told[1].contains("takes more drives"), "{told:?}");
        assert!(told[2].starts_with("Its advantage is") && told[2].contains("of RAID 5 over 3 drives"), "{told:?}");
    }
}
