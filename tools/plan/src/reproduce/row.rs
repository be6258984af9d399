//! One published number beside the model's, and one published sentence beside what the models say.

use super::published::{Missing, Published};

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
        self.sentences.push(Sentence { index, claim: claim.into(), found, holds: left <= factor * right, calibrates: None });
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
