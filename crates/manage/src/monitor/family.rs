//! Builds the text that Prometheus reads. One value is given at a time; values of one name are gathered, and given out together.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder as _, TextEncoder};
use std::collections::BTreeMap;
use stria_block::shown;

/// Names of labels with their values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// The values of one moment.
#[derive(Default)]
pub struct Families(BTreeMap<&'static str, MetricFamily>);

impl Families {
    fn add(&mut self, kind: MetricType, name: &'static str, help: &str, mut metric: Metric, labels: Labels) {
        metric.set_label(labels.iter().map(|(name, value)| pair(name, value)).collect());
        let family = self.0.entry(name).or_insert_with(|| {
            let mut family = MetricFamily::default();
            family.set_name(name.into());
            family.set_help(help.into());
            family.set_field_type(kind);
            family
        });
        family.mut_metric().push(metric);
    }

    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &str, labels: Labels, value: f64) {
        let (mut metric, mut gauge) = (Metric::default(), Gauge::default());
        gauge.set_value(value);
        metric.set_gauge(gauge);
        self.add(MetricType::GAUGE, name, help, metric, labels);
    }

    /// A count that only grows while the process lives. Its name ends with `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str, labels: Labels, value: u64) {
        debug_assert!(name.ends_with("_total"), "{name} is a counter");
        let (mut metric, mut counter) = (Metric::default(), Counter::default());
        counter.set_value(value as f64);
        metric.set_counter(counter);
        self.add(MetricType::COUNTER, name, help, metric, labels);
    }

    /// One value of 1 for the state that holds, 0 for each other one.
    pub fn state(&mut self, name: &'static str, help: &str, labels: Labels, of: &str, states: &[&str], now: &str) {
        for state in states {
            self.gauge(name, help, &[labels, &[(of, *state)]].concat(), f64::from(u8::from(*state == now)));
        }
    }

    /// The text, with `more` families that others have made.
    pub fn text(self, more: Vec<MetricFamily>) -> String {
        let families: Vec<MetricFamily> = self.0.into_values().chain(more).collect();
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text).expect("every family has a name and a value, and memory takes any text");
        String::from_utf8(text).expect("names and values are text")
    }
}

/// Values are names of arrays, drives and clients: they come from outside, and metrics are read on terminals too.
fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.into());
    pair.set_value(shown(value).to_string());
    pair
}
