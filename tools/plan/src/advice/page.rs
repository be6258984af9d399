//! The answer as one page of HTML: sentences, the Pareto front as a chart, the table, and the source of every figure.
//!
//! It needs no network and no script, and follows the reader's light or dark. Its style is the bench's and the laboratory's.

use super::explain::{explain, hours, risk, time};
use super::{Advice, BusyRebuild, Trial, Wish};
use crate::amount;
use crate::profile::Parameter;
use std::fmt::Write;

const STYLE: &str = concat!(include_str!("../../../bench/src/report/page.css"), include_str!("../../../lab/src/report/page.css"));

const OWN_STYLE: &str = "th small { display: block; color: var(--soft); font-size: .78rem; font-weight: 400; }\n";

/// The size of the chart, in units of its SVG.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 96.0;

/// Text as HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Steps of 1, 2, 2.5 or 5 that cover `max` in five at most.
fn ticks(max: f64) -> Vec<f64> {
    let max = if max > 0.0 { max } else { 1.0 };
    let power = 10f64.powf((max / 5.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| max / step <= 5.0);
    let step = step.unwrap_or(max);
    (0..=(max / step).ceil() as usize).map(|index| index as f64 * step).collect()
}

/// "RAID 10 of 8".
fn short(trial: &Trial) -> String {
    format!("{} of {}", trial.candidate.level, trial.candidate.members)
}

/// The name of a point of the chart.
struct Label {
    x: f64,
    y: f64,
    text: String,
}

impl Label {
    /// A character of the labels' font is about so wide and high.
    const CHARACTER: (f64, f64) = (6.4, 11.0);

    fn is_over(&self, x: f64, y: f64, margin: f64) -> bool {
        let width = self.text.chars().count() as f64 * Self::CHARACTER.0;
        let across = x > self.x - margin && x < self.x + width + margin;
        across && y > self.y - Self::CHARACTER.1 - margin && y < self.y + margin
    }

    /// The label of a point at the first place of several where it hides no point and no other label; else the first.
    fn beside(x: f64, y: f64, text: String, points: &[(f64, f64)], labels: &[Self]) -> Self {
        let width = text.chars().count() as f64 * Self::CHARACTER.0;
        let places = [
            (8.0, 3.5),
            (-width / 2.0, -8.0),
            (-width / 2.0, 17.0),
            (-width - 8.0, 3.5),
            (-width / 2.0, -20.0),
            (-width / 2.0, 29.0),
        ];
        let at = |&(dx, dy): &(f64, f64)| Self { x: x + dx, y: y + dy, text: text.clone() };
        let is_free = |label: &Self| {
            let others = labels.iter().flat_map(|other| {
                let end = other.x + other.text.chars().count() as f64 * Self::CHARACTER.0;
                [(other.x, other.y - 4.0), ((other.x + end) / 2.0, other.y - 4.0), (end, other.y - 4.0)]
            });
            let hidden = points.iter().any(|&(px, py)| (px, py) != (x, y) && label.is_over(px, py, 5.0));
            label.x > LEFT && label.x + width < WIDTH && !hidden && !{ others }.any(|(px, py)| label.is_over(px, py, 6.0))
        };
        places.iter().map(at).find(is_free).unwrap_or_else(|| at(&places[0]))
    }
}

/// Arrays by space and speed. Shape and colour show how many failures each survives; a line joins those of the Pareto front.
fn chart(advice: &Advice) -> String {
    let all: Vec<&Trial> = advice.ranking.iter().chain(&advice.unfit).collect();
    let tb = |trial: &Trial| trial.usable_bytes as f64 / 1e12;
    let largest = |of: &dyn Fn(&Trial) -> f64| all.iter().map(|trial| of(trial)).fold(0.0, f64::max);
    let (x_ticks, y_ticks) = (ticks(largest(&tb)), ticks(largest(&|trial| trial.speed)));
    let last = |ticks: &[f64]| ticks.last().copied().unwrap_or(1.0);
    let x = |value: f64| LEFT + value / last(&x_ticks) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / last(&y_ticks) * (HEIGHT - BOTTOM - TOP);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Arrays by space and speed; the table below has the same figures\">"
    );
    for tick in &y_ticks {
        let _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{1:.1}\"/>", y(*tick), WIDTH - RIGHT);
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}x</text>", LEFT - 6.0, y(*tick) + 3.5);
    }
    for tick in &x_ticks {
        let _ =
            write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>", x(*tick), HEIGHT - BOTTOM + 15.0);
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{0}H{1}\"/>", HEIGHT - BOTTOM, WIDTH - RIGHT);
    let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">TB for data</text>", WIDTH - RIGHT, HEIGHT - 6.0);
    let front = advice.front();
    let path: Vec<String> =
        front.iter().map(|&index| &advice.ranking[index]).map(|t| format!("{:.1} {:.1}", x(tb(t)), y(t.speed))).collect();
    if path.len() > 1 {
        let _ = write!(svg, "<path class=\"s2 line\" d=\"M{}\"/>", path.join("L"));
    }
    let mut labels: Vec<Label> = Vec::new();
    let points: Vec<(f64, f64)> = all.iter().map(|trial| (x(tb(trial)), y(trial.speed))).collect();
    for (index, trial) in all.iter().enumerate() {
        let (x, y, class) = (x(tb(trial)), y(trial.speed), trial.survives.min(2));
        let shape = match class {
            0 => format!("<circle class=\"s4-dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
            1 => format!("<path class=\"s0-dot\" d=\"M{:.1} {:.1}h8v8h-8z\"/>", x - 4.0, y - 4.0),
            _ => format!("<path class=\"s2-dot\" d=\"M{x:.1} {:.1}l5 9h-10z\"/>", y - 5.0),
        };
        let fits = index < advice.ranking.len();
        let faint = if fits { "" } else { " opacity=\".45\"" };
        let space = amount::space(trial.usable_bytes as f64);
        let title = format!("{}: {space}, {:.2}x, survives {}", short(trial), trial.speed, trial.survives);
        let _ = write!(svg, "<g{faint}><title>{}</title>{shape}", escape(&title));
        if fits && (index == 0 || front.contains(&index)) {
            let label = Label::beside(x, y, short(trial), &points, &labels);
            let _ = write!(svg, "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", label.x, label.y, escape(&label.text));
            labels.push(label);
        }
        svg += "</g>";
    }
    svg += "</svg>";
    let key =
        |shape: &str, words: &str| format!("<span><svg viewBox=\"0 0 34 10\" aria-hidden=\"true\">{shape}</svg>{words}</span>");
    format!(
        "<figure><figcaption>Space and speed</figcaption><p class=\"legend\">{}{}{}{}</p>{svg}</figure>\n",
        key("<circle class=\"s4-dot\" cx=\"17\" cy=\"5\" r=\"4\"/>", "survives no failure"),
        key("<path class=\"s0-dot\" d=\"M13 1h8v8h-8z\"/>", "survives one"),
        key("<path class=\"s2-dot\" d=\"M17 0l5 9h-10z\"/>", "survives two"),
        key(
            "<path class=\"s2 line\" d=\"M2 5h30\"/>",
            "no array has more space and more speed; pale ones lack what is asked for"
        ),
    )
}

/// A column of the table: its head, and its cell of each array.
type Column<'a> = (&'a str, Box<dyn Fn(&Trial) -> Option<String> + 'a>);

fn rows(wish: &Wish, advice: &Advice) -> String {
    let front = advice.front();
    let slowest = |trial: &Trial| trial.parts.iter().flat_map(|part| [part.read_p99_ns, part.write_p99_ns]).flatten().max();
    let columns: Vec<Column<'_>> = vec![
        ("Strip", Box::new(|trial| trial.candidate.has_strips().then(|| format!("{} KiB", trial.candidate.strip_kib)))),
        ("Usable", Box::new(|trial| Some(amount::space(trial.usable_bytes as f64)))),
        ("Survives", Box::new(|trial| Some(trial.survives.to_string()))),
        ("Speed", Box::new(|trial| Some(format!("{:.2}x <small>± {:.1} %</small>", trial.speed, 100.0 * trial.speed_spread)))),
        ("IOPS", Box::new(|trial| Some(format!("{:.0}", trial.parts[0].iops)))),
        ("MB/s", Box::new(|trial| Some(format!("{:.0}", trial.parts[0].bytes_per_s / 1e6)))),
        ("Mean", Box::new(|trial| Some(time(trial.parts[0].mean_ns)))),
        ("p99", Box::new(|trial| slowest(trial).map(|ns| time(ns as f64)))),
        ("Degraded", Box::new(|trial| trial.degraded_speed.map(|speed| format!("{speed:.2}x")))),
        ("Rebuild", Box::new(|trial| trial.rebuild_hours.map(hours))),
        ("Busy rebuild", Box::new(|trial| trial.busy_rebuild.as_ref().map(|busy| hours(busy.hours)))),
        ("Busy speed", Box::new(|trial| trial.busy_rebuild.as_ref().map(|busy| format!("{:.2}x", busy.speed)))),
        ("Busy p99", Box::new(|trial| trial.busy_rebuild.as_ref().and_then(BusyRebuild::p99_ns).map(|ns| time(ns as f64)))),
        ("Loss a year", Box::new(|trial| trial.risk.map(|found| risk(found.loss.loss)))),
        ("NOMDL", Box::new(|trial| trial.risk.map(|found| format!("{} /TB", super::explain::bytes(found.loss.bytes_per_tb))))),
        ("Writes a day", Box::new(|trial| trial.wear.as_ref().map(|wear| amount::space(wear.tb_per_day * 1e12)))),
        ("Price", Box::new(|trial| trial.price.map(amount::money))),
    ];
    let trials: Vec<&Trial> = advice.ranking.iter().chain(&advice.unfit).collect();
    // A column of which nothing is known takes the place of others.
    let columns: Vec<Column<'_>> =
        columns.into_iter().filter(|(_, cell)| trials.iter().any(|trial| cell(trial).is_some())).collect();
    let heads: String = columns.iter().map(|(head, _)| format!("<th>{head}</th>")).collect();
    let mut html = format!("<div class=\"scroll\"><table><thead><tr><th>Array</th>{heads}</tr></thead>\n<tbody>");
    for (index, trial) in trials.into_iter().enumerate() {
        let remark = match wish.lack(trial) {
            Some(lack) => lack,
            None if index == 0 => "advised".to_owned(),
            None if front.contains(&index) => "on the front".to_owned(),
            None => String::new(),
        };
        let spares = match trial.candidate.spares {
            0 => String::new(),
            count => format!(" + {count}"),
        };
        let remark = if remark.is_empty() { remark } else { format!(" <small>{}</small>", escape(&remark)) };
        let cells: String =
            columns.iter().map(|(_, cell)| format!("<td>{}</td>", cell(trial).unwrap_or_else(|| "–".to_owned()))).collect();
        let _ = writeln!(html, "<tr><th scope=\"row\">{}{spares}{remark}</th>{cells}</tr>", escape(&short(trial)));
    }
    html + "</tbody></table></div>\n"
}

fn sources(title: &str, parameters: &[Parameter]) -> String {
    let mut html = format!(
        "<h3>{}</h3>\n<div class=\"scroll\"><table><thead><tr><th>Parameter</th><th>Value</th><th class=\"words\">Kind</th>\
         <th class=\"words\">Source</th></tr></thead>\n<tbody>",
        escape(title)
    );
    for parameter in parameters {
        let kind = parameter.origin.word();
        let cell = |text: &str| format!("<td class=\"words\">{}</td>", escape(text));
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td>{}{}</tr>",
            escape(&parameter.name),
            escape(&parameter.value),
            cell(kind),
            cell(&parameter.source)
        );
    }
    html + "</tbody></table></div>\n"
}

/// The page.
pub fn html(wish: &Wish, advice: &Advice) -> String {
    let first = &advice.ranking[0];
    let title = format!("{} × {}: which array?", wish.counts_text(), wish.drive.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{0}</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n\
         <p class=\"question\">{1}, on {2}.</p>\n<ul class=\"verdict\">",
        escape(&title),
        escape(&wish.purpose.about),
        escape(&wish.platform.name)
    );
    for reason in &advice.reasons {
        let _ = write!(page, "<li>{}</li>", escape(reason));
    }
    page += "</ul>\n</header>\n<main>\n<section>\n<h2>The choice</h2>\n";
    page += &chart(advice);
    page += &rows(wish, advice);
    page += "</section>\n<section>\n<h2>Where the figures come from</h2>\n";
    let _ = writeln!(
        page,
        "<p>Of {}. {}: docs/PLAN.md says how far the models can be trusted.</p>",
        first.candidate,
        match (&wish.calibration, &wish.purpose.measured) {
            (Some(known), purpose) => format!(
                "No array was measured; rates and latencies are corrected by measurements ({}){}",
                escape(&known.source),
                if purpose.is_some() { ", and the purpose was measured too" } else { "" }
            ),
            (None, Some(_)) => "Only the purpose was measured; no array was".to_owned(),
            (None, None) => "Nothing here was measured on drives".to_owned(),
        }
    );
    page += "<div class=\"scroll\"><table><thead><tr><th>Figure</th><th class=\"words\">Value</th><th class=\"words\">Origin</th>\
             <th class=\"words\">How</th></tr></thead>\n<tbody>";
    for figure in explain(wish, first, &advice.single) {
        let cells = [&figure.value, figure.origin, &figure.how].map(|text| format!("<td class=\"words\">{}</td>", escape(text)));
        let _ = writeln!(page, "<tr><th scope=\"row\">{}</th>{}</tr>", figure.name, cells.concat());
    }
    page += "</tbody></table></div>\n</section>\n<section>\n<h2>What the models assume</h2>\n";
    page += &sources(&wish.drive.name, &wish.drive.parameters);
    page += &sources(&wish.platform.name, &wish.platform.parameters);
    page + "</section>\n</main>\n</body>\n</html>\n"
}
