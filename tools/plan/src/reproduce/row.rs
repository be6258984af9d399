//! One published number beside the model's, and one published sentence beside what the models say.

use super::published::{Missing, Published};
use std::ops::RangeInclusive;

/// 1 %: what is slower or faster is so by more than that. Source: runs of one sequential benchmark deviate by 0.1 to 0.5 % of
/// their mean (`spread`), so no publication tells smaller differences apart. Runs of the models repeat exactly, so this is no
/// allowance for chance in them.
const STRICT: f64 = 0.01;

/// The way in which a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Parameters come from data sheets or from the single drive's row; nothing of the array's rows was seen.
    Predicted,
    /// A parameter was taken from it.
    Calibrated,
    /// The single drive's row: parameters come from it.
    Given,
    /// Not to be predicted from what the source tells, with the reason.
    NotPredictable(&'static str),
    /// Statistics or arithmetic on other numbers of the source.
    Arithmetic,
}

impl Count {
    /// As in the page.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Calibrated => "calibrated",
            Self::Given => "given",
            Self::NotPredictable(_) => "not predictable",
            Self::Arithmetic => "arithmetic",
        }
    }
}

/// A published number and the model's.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its place in `published.toml`.
    pub place: String,
    /// What was measured.
    pub what: String,
    /// Unit of both numbers.
    pub unit: &'static str,
    /// As published.
    pub published: f64,
    /// What the model says; none where nothing is modelled.
    pub model: Option<f64>,
    /// How it counts.
    pub count: Count,
}

impl Row {
    /// The model's deviation over the published number.
    pub fn error(&self) -> Option<f64> {
        self.model.map(|model| model / self.published - 1.0)
    }

    /// True if the model is within a tenth.
    pub fn is_near(&self) -> bool {
        self.error().is_some_and(|error| error.abs() <= 0.10)
    }
}

/// A published sentence, or a part of one, as an inequality.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    /// Which sentence of the publication.
    pub index: usize,
    /// The inequality in words.
    pub claim: String,
    /// The numbers of the models.
    pub found: String,
    /// True if it holds.
    pub holds: bool,
    /// The parameter that was taken from it, if one was.
    pub calibrates: Option<&'static str>,
}

/// A publication.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its table in `published.toml`.
    pub key: &'static str,
    /// Its subject.
    pub title: &'static str,
    /// Its numbers.
    pub rows: Vec<Row>,
    /// Its sentences.
    pub sentences: Vec<Sentence>,
    /// Sentences that say nothing about performance, with the reason.
    pub no_claim: Vec<(usize, &'static str)>,
    /// Remarks on the source or the model.
    pub notes: Vec<&'static str>,
}

impl Case {
    /// A case without rows.
    pub fn new(key: &'static str, title: &'static str) -> Self {
        Self { key, title, rows: Vec::new(), sentences: Vec::new(), no_claim: Vec::new(), notes: Vec::new() }
    }

    /// Adds the number at a place.
    ///
    /// # Errors
    /// If there is none.
    pub fn add(
        &mut self,
        published: &Published,
        place: &str,
        what: impl Into<String>,
        unit: &'static str,
        count: Count,
        model: impl Into<Option<f64>>,
    ) -> Result<(), Missing> {
        let place = format!("{}.{place}", self.key);
        let number = published.number(&place)?;
        self.rows.push(Row { place, what: what.into(), unit, published: number, model: model.into(), count });
        Ok(())
    }

    /// Adds a part of a sentence: `left` is at most `factor` times `right`.
    pub fn at_most(&mut self, index: usize, claim: impl Into<String>, left: f64, factor: f64, right: f64) {
        let times = if factor == 1.0 { String::new() } else { format!("{factor} x ") };
        let found = format!("{} <= {times}{}", short(left), short(right));
        self.push(index, claim.into(), found, left <= factor * right);
    }

    /// Adds a part of a sentence: `left` is below `factor` times `right`, by more than one hundredth.
    pub fn below(&mut self, index: usize, claim: impl Into<String>, left: f64, factor: f64, right: f64) {
        let factor = factor * (1.0 - STRICT);
        let found = format!("{} < {factor} x {}", short(left), short(right));
        self.push(index, claim.into(), found, left < factor * right);
    }

    /// Adds a part of a sentence: so many times as much, neither fewer nor more.
    pub fn times(&mut self, index: usize, claim: impl Into<String>, found: f64, bounds: RangeInclusive<f64>) {
        let text = format!("{}, {} to {}", short(found), bounds.start(), bounds.end());
        self.push(index, claim.into(), text, bounds.contains(&found));
    }

    fn push(&mut self, index: usize, claim: String, found: String, holds: bool) {
        self.sentences.push(Sentence { index, claim, found, holds, calibrates: None });
    }

    /// A parameter was taken from the last sentence.
    pub fn calibrates(&mut self, parameter: &'static str) {
        self.sentences.last_mut().expect("a sentence was added").calibrates = Some(parameter);
    }
}

/// A number in four digits.
pub fn short(number: f64) -> String {
    let digits = if number == 0.0 { 0.0 } else { (3.0 - number.abs().log10().floor()).max(0.0) };
    format!("{number:.0$}", digits.min(6.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Slower" held of arrays that were exactly as fast, and "a third" of anything below.
    #[test]
    fn equal_is_not_slower_and_a_third_is_not_a_tenth() {
        let mut case = Case::new("x", "x");
        case.below(0, "equal", 100.0, 1.0, 100.0);
        case.below(0, "slower by half a percent", 99.5, 1.0, 100.0);
        case.below(0, "slower", 98.0, 1.0, 100.0);
        case.times(0, "a third", 0.34, 0.30..=0.367);
        case.times(0, "a tenth", 0.1, 0.30..=0.367);
        let holds: Vec<bool> = case.sentences.iter().map(|sentence| sentence.holds).collect();
        assert_eq!(holds, [false, false, true, true, false]);
        assert_eq!((&*case.sentences[2].found, &*case.sentences[3].found), ("98.00 < 0.99 x 100.0", "0.3400, 0.3 to 0.367"));
    }
}
