//! A run, with the data that the parts of its report need, and its results in groups.

use super::chart::{Dot, Figure, Series as Curve};
use crate::result::{Point, Record, Run, Series};
use crate::select;
use crate::stats::Summary;
use crate::theory::BareDrives;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A run, with the data that the parts of its page need.
pub struct Report<'a> {
    pub run: &'a Run,
    /// Earlier findings.
    pub sentences: Vec<String>,
    pub results: BTreeMap<&'a Point, Vec<&'a Record>>,
    pub series: BTreeMap<u32, Series>,
    pub bare: BareDrives<'a>,
    /// The charts of a part so far.
    pub figures: RefCell<Vec<Figure>>,
}

impl Report<'_> {
    /// The figure on the page, which can also be saved by itself.
    pub fn draw(&self, figure: Figure) -> String {
        let html = figure.html();
        self.figures.borrow_mut().push(figure);
        html
    }

    /// A target's position among all targets; it determines the look in every chart.
    pub fn place_of(&self, target: &str) -> usize {
        self.run.manifest.targets.iter().position(|known| known.name == target).unwrap_or(0)
    }

    /// The results of a target, with the target's look.
    pub fn curve(&self, target: &str, dots: Vec<Dot>) -> Curve {
        Curve::nth(self.place_of(target), target, dots)
    }

    /// True if the rounds of these records show a change over time, and so are not repeats.
    pub fn is_story(&self, records: &[&Record]) -> bool {
        select::is_story(self.run, records)
    }

    /// A figure with its spread over repeats; a change over time is one repeat, without a spread.
    pub fn summary(&self, records: &[&Record], value: impl Fn(&Record) -> Option<f64>) -> Option<Summary> {
        Summary::of(&select::repeats(records, self.is_story(records), value))
    }

    /// The rate in its point's unit, as [`Self::summary`].
    pub fn rate(&self, records: &[&Record]) -> Option<Summary> {
        self.summary(records, |record| Some(select::rate(record)))
    }
}

pub type Found<'a> = (&'a Point, &'a Vec<&'a Record>);
pub type Group<'a> = Vec<Found<'a>>;

/// Groups of points that are equal once `forget` has erased the fields that may differ.
pub fn group<'a>(report: &'a Report<'_>, forget: impl Fn(&mut Point)) -> BTreeMap<Point, Group<'a>> {
    let mut groups: BTreeMap<Point, Group<'a>> = BTreeMap::new();
    for (point, records) in &report.results {
        let mut key = (*point).clone();
        forget(&mut key);
        groups.entry(key).or_default().push((point, records));
    }
    groups
}

pub fn forget_target(point: &mut Point) {
    *point = Point { target: String::new(), level: None, members: None, strip_bytes: None, spans: None, ..point.clone() };
}
