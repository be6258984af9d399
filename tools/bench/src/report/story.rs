//! An array over time: the rates of clients, with the steps marked, and the steps in words.

use super::chart::{Axes, Series, legend, ticks};
use super::html::{escape, table};
use crate::Spread;
use crate::story::{Ending, Sample, Step, Story};
use std::fmt::Write;

pub fn draw(out: &mut String, story: &Story) {
    let _ = writeln!(out, "<section>\n<h2>{}</h2>\n<p>{}</p>", escape(&story.title), escape(&story.verdict));
    let end = story.samples.iter().map(|sample| sample.at_s).chain(story.steps.iter().map(|step| step.at_s)).fold(0.0, f64::max);
    if story.samples.len() > 1 {
        let series = |kind, value: fn(&Sample) -> f64| {
            let point = |sample: &Sample| {
                let value = value(sample);
                (sample.at_s, Spread { median: value, min: value, max: value })
            };
            Series { kind, points: story.samples.iter().map(point).collect() }
        };
        let all = [
            series("bare", |sample| sample.sweep_mb_per_s),
            series("allowed", |sample| sample.write_mb_per_s),
            series("measured", |sample| sample.read_mb_per_s),
        ];
        let highest = all.iter().flat_map(|series| &series.points).map(|(_, spread)| spread.median).fold(0.0, f64::max);
        let axes = Axes {
            x_ticks: ticks(end),
            x_name: "seconds",
            y_name: "MB/s".into(),
            y_ticks: ticks(highest),
            width: 900.0,
            height: 260.0,
        };
        let marks: Vec<f64> = story.steps.iter().map(|step| step.at_s).collect();
        out.push_str(&legend(&[
            ("measured", "clients' reads"),
            ("allowed", "clients' writes"),
            ("bare", "rebuild or scrub, of each member"),
        ]));
        let _ = writeln!(
            out,
            "<figure><figcaption>{} <small>numbers are the steps below</small></figcaption>{}</figure>",
            escape(&story.title),
            axes.lines(&story.title, &all, &marks)
        );
    }
    let row = |(index, step): (usize, &Step)| {
        let (class, sign) = match step.ending {
            Ending::Good => ("good", "✓ good"),
            Ending::Notable => ("notable", "! notable"),
            Ending::Bad => ("bad", "✗ bad"),
        };
        let cells = vec![
            format!("<td>{:.1} s</td>", step.at_s),
            format!("<td class=\"words\">{}</td>", escape(&step.what)),
            format!("<td class=\"words\">{}</td>", escape(&step.detail)),
            format!("<td class=\"{class}\">{sign}</td>"),
        ];
        ((index + 1).to_string(), cells)
    };
    let heads = ["", "at", "what", "", "ending"].map(String::from);
    out.push_str("<div class=\"left\">");
    table(out, "Steps", &heads, story.steps.iter().enumerate().map(row));
    out.push_str("</div></section>\n");
}
