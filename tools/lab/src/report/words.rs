//! Sentences and dates.

use crate::compare;
use crate::result::Record;
use crate::{select, stats};

/// "A is faster than B by 12 %" or that noise is larger than the difference. `comparisons`: how many the reader is shown.
pub fn sentence_of_pair(
    what: &str,
    (first, before): (&str, &[&Record]),
    (second, after): (&str, &[&Record]),
    comparisons: usize,
) -> Option<String> {
    let (a, b) = (select::values(before, select::rate), select::values(after, select::rate));
    let difference = stats::difference(&a, &b, comparisons)?;
    let change = (difference.ratio - 1.0) * 100.0;
    if difference.method == stats::Method::TooFew {
        return Some(format!("{what}: {second} measured {change:+.0} % against {first}, once only, so it may be noise."));
    }
    let certain = difference.p * comparisons.max(1) as f64;
    let noise = difference.before.mean_deviation_percent().max(difference.after.mean_deviation_percent());
    Some(if certain < stats::SIGNIFICANCE && change.abs() >= compare::TOLERANCE * 100.0 {
        let ends = difference.interval.map_or(String::new(), |interval| {
            format!(" (95 %: {:+.0} to {:+.0} %)", (interval.low - 1.0) * 100.0, (interval.high - 1.0) * 100.0)
        });
        format!("{what}: {second} gives {change:+.0} % against {first}{ends}.")
    } else if noise >= change.abs() {
        format!(
            "{what}: {second} measured {change:+.1} % against {first}, but repeats scatter by ±{noise:.1} %: the noise is larger than \
             the difference."
        )
    } else {
        let repeats = before.len().min(after.len());
        format!("{what}: {second} measured {change:+.1} % against {first}, but {repeats} repeats are too few to exclude chance.")
    })
}

/// Milliseconds since 1970 as a date, UTC (Howard Hinnant's `civil_from_days`).
pub fn when(milliseconds: u64) -> String {
    let (days, second) = ((milliseconds / 86_400_000) as i64, milliseconds / 1000 % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, leap) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{}-{month:02}-{day:02} {:02}:{:02} UTC", year_of_era + era * 400 + leap, second / 3600, second / 60 % 60)
}
