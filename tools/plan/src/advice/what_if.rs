//! What would change about an array: a drive more, other strips, a failed drive, twice the load.

use super::trial::{self, PartFigures, Trial};
use super::wish::{Candidate, DRIVES_MAX, Wish};
use crate::array::Level;
use crate::campaign::at_once;

/// An array beside the one in question.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The difference, in words.
    pub change: String,
    /// Its result, or the reason why there is no such array.
    pub outcome: Result<Trial, String>,
}

/// The array, and variants with one change each. Speeds are relative to one drive under the same load. `tried` is called after
/// each with the number of variants that ended, and of all.
///
/// # Errors
/// A sentence, if there is no such array.
pub fn what_if(wish: &Wish, level: Level, tried: &(dyn Fn(usize, usize) + Sync)) -> Result<Vec<Variant>, String> {
    let (members, strip_kib) = (wish.members()?, wish.strips_kib.first().copied().unwrap_or(64));
    let this = Candidate { level, members, spares: wish.spares, strip_kib };
    wish.refusal(&this).or_else(|| wish.lifetime_refusal()).map_or(Ok(()), Err)?;
    let single = trial::single(wish);
    let twice = wish.with_depth_times(2);
    let redundant = level.is_redundant();
    let refusal = |members: usize| wish.refusal(&Candidate { members, ..this });
    let members_max = DRIVES_MAX.saturating_sub(wish.spares);
    // A usual array grows to a usual one: RAID 10 by pairs.
    let is_alike = |count: usize| level.instead_of_rare(members).is_some() || level.instead_of_rare(count).is_none();
    let grown = (members + 1..=members_max).find(|&count| is_alike(count) && refusal(count).is_none()).ok_or_else(|| {
        refusal(members + 1).unwrap_or_else(|| format!("{DRIVES_MAX} drives are the most that are modelled, spares included"))
    });
    let of = |strip_kib: u64| Candidate { strip_kib, ..this };
    let mut asked: Vec<(String, &Wish, Result<Candidate, String>)> = vec![("this array".to_owned(), wish, Ok(this))];
    let more = match &grown {
        Ok(count) if count - members > 1 => format!("{} drives more", count - members),
        Ok(_) | Err(_) => "one drive more".to_owned(),
    };
    asked.push((more, wish, grown.map(|members| Candidate { members, ..this })));
    if this.has_strips() {
        asked.push(("half the strip".to_owned(), wish, Ok(of(strip_kib / 2))));
        asked.push(("twice the strip".to_owned(), wish, Ok(of(strip_kib * 2))));
    }
    asked.push(("twice the load".to_owned(), &twice, Ok(this)));
    let count = asked.len() + 1;
    let outcomes = at_once(&asked, &|ended, _| tried(ended, count), |(_, wish, candidate)| {
        let candidate = candidate.clone()?;
        wish.refusal(&candidate).map_or(Ok(()), Err)?;
        Ok(trial::completed(wish, trial::run(wish, &candidate, &single), &single))
    });
    let changes = asked.into_iter().map(|(change, ..)| change);
    let mut variants: Vec<Variant> = changes.zip(outcomes).map(|(change, outcome)| Variant { change, outcome }).collect();
    let failed = match (redundant, wish.platform.config.is_served_by_engine(level)) {
        (false, _) => Err(format!("{level} loses its data with a drive")),
        (true, false) => Err(format!("how {} serves without a drive is not modelled", wish.platform.name)),
        (true, true) => variants[0].outcome.clone().map(|whole| without_a_drive(wish, whole, &single)),
    };
    variants.insert(variants.len() - 1, Variant { change: "a failed drive".to_owned(), outcome: failed });
    tried(count, count);
    Ok(variants)
}

/// The array until its drive is replaced. Figures of a year are of no use to it: they are those of the whole array.
fn without_a_drive(wish: &Wish, whole: Trial, single: &[PartFigures]) -> Trial {
    let parts = trial::degraded(wish, &whole.candidate);
    Trial {
        speed: trial::speed(wish, &parts, single),
        speed_spread: trial::speed_spread(wish, &parts, single),
        parts,
        survives: whole.survives - 1,
        degraded_speed: None,
        risk: None,
        wear: None,
        ..whole
    }
}
