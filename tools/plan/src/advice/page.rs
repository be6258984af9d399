//! The answer as one page of HTML: sentences, the Pareto front as a chart, the table, and the source of every figure.
//!
//! It needs no network and no script, and follows the reader's light or dark. Its style is the bench's and the laboratory's.

use super::explain::{explain, risk, time};
use super::{Advice, Trial, Wish};
use crate::profile::Parameter;
use std::fmt::Write;

const STYLE: &str = concat!(include_str!("../../../bench/src/report/page.css"), include_str!("../../../lab/src/report/page.css"));

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
    for (index, trial) in all.iter().enumerate() {
        let (x, y, class) = (x(tb(trial)), y(trial.speed), trial.survives.min(2));
        let shape = match class {
            0 => format!("<circle class=\"s4-dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
            1 => format!("<path class=\"s0-dot\" d=\"M{:.1} {:.1}h8v8h-8z\"/>", x - 4.0, y - 4.0),
            _ => format!("<path class=\"s2-dot\" d=\"M{x:.1} {:.1}l5 9h-10z\"/>", y - 5.0),
        };
        let fits = index < advice.ranking.len();
        let faint = if fits { "" } else { " opacity=\".45\"" };
        let title = format!("{}: {:.1} TB, {:.2}x, survives {}", short(trial), tb(trial), trial.speed, trial.survives);
        let _ = write!(svg, "<g{faint}><title>{}</title>{shape}", escape(&title));
        if fits && (index == 0 || front.contains(&index)) {
            let _ =
                write!(svg, "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 8.0, y + 3.5, escape(&short(trial)));
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

fn rows(wish: &Wish, advice: &Advice) -> String {
    let front = advice.front();
    let mut html = String::from(
        "<div class=\"scroll\"><table><thead><tr><th>Array</th><th>Strip</th><th>Usable</th><th>Survives</th><th>Speed</th><th>IOPS</th>\
         <th>MB/s</th><th>Mean</th><th>p99</th><th>Degraded</th><th>Rebuild</th><th>Loss a year</th><th>NOMDL</th><th>Writes a day</th>\
         <th>Price</th><th class=\"words\">Remark</th></tr></thead>\n<tbody>",
    );
    let dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    for (index, trial) in advice.ranking.iter().chain(&advice.unfit).enumerate() {
        let main = &trial.parts[0];
        let slowest = trial.parts.iter().flat_map(|part| [part.read_p99_ns, part.write_p99_ns]).flatten().max();
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
        let cells = [
            trial.candidate.has_strips().then(|| format!("{} KiB", trial.candidate.strip_kib)),
            Some(format!("{:.1} TB", trial.usable_bytes as f64 / 1e12)),
            Some(trial.survives.to_string()),
            Some(format!("{:.2}x <small>± {:.1} %</small>", trial.speed, 100.0 * trial.speed_spread)),
            Some(format!("{:.0}", main.iops)),
            Some(format!("{:.0}", main.bytes_per_s / 1e6)),
            Some(time(main.mean_ns)),
            slowest.map(|ns| time(ns as f64)),
            trial.degraded_speed.map(|speed| format!("{speed:.2}x")),
            trial.rebuild_hours.map(|hours| format!("{hours:.1} h")),
            Some(format!("{} <small>simulated {}</small>", risk(trial.loss_per_year), risk(trial.loss.loss))),
            Some(format!("{} /TB", super::explain::bytes(trial.loss.bytes_per_tb))),
            trial.wear.as_ref().map(|wear| format!("{:.2} TB", wear.tb_per_day)),
            trial.price.map(|price| format!("{price:.0}")),
        ];
        let _ = write!(html, "<tr><th scope=\"row\">{}{spares}</th>", escape(&short(trial)));
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", dash(cell));
        }
        let _ = writeln!(html, "<td class=\"words\">{}</td></tr>", escape(&remark));
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
         <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n\
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
        match &wish.purpose.measured {
            Some(_) => "Only the purpose was measured; no array was",
            None => "Nothing here was measured on drives",
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
