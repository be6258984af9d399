//! One HTML page that needs nothing else: no network, no script. Charts are SVG in the page, coloured by its style sheet,
//! so that light, dark and paper all work; every chart has its figures in a table below it.

mod chart;
mod comparison;
mod scaling;
mod story;

use crate::scaling::Scaling;
use crate::story::Story;
use crate::{Comparison, Environment};
use std::fmt::Write;

/// The style sheet of the page: light, dark and paper. The laboratory's pages begin with it too.
pub const STYLE: &str = include_str!("report/page.css");

/// A part of the page.
pub enum Section<'a> {
    /// The scaling table with its charts.
    Scaling(&'a Scaling),
    /// An array beside its bare members.
    Comparison(&'a Comparison),
    /// Steps and samples over time.
    Story(&'a Story),
}

/// The page, with what was found in plain words at the top.
pub fn page(title: &str, environment: &Environment, sections: &[Section<'_>]) -> String {
    let mut verdict = Vec::new();
    let mut body = String::new();
    for section in sections {
        match section {
            Section::Scaling(scaling) => {
                verdict.extend(scaling.verdict());
                scaling::draw(&mut body, scaling);
            }
            Section::Comparison(comparison) => {
                verdict.extend(comparison.verdict());
                comparison::draw(&mut body, comparison);
            }
            Section::Story(story) => {
                verdict.push(format!("{}: {}", story.title, story.verdict));
                story::draw(&mut body, story);
            }
        }
    }
    let sentences: String = verdict.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
    let Environment { date, stria, kernel, cpu, cpu_count, memory_gib, members } = environment;
    let facts = [
        ("Measured", date.clone()),
        ("Stria", stria.clone()),
        ("Kernel", kernel.clone()),
        ("CPU", format!("{cpu}, {cpu_count} in use")),
        ("Memory", format!("{memory_gib:.0} GiB")),
        ("Members", members.clone()),
    ];
    let facts: String =
        facts.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value))).collect();
    let style = STYLE;
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{style}</style>\n</head>\n\
         <body>\n<header>\n<h1>{title}</h1>\n<ul class=\"verdict\">{sentences}</ul>\n<dl>{facts}</dl>\n</header>\n\
         <main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Text as HTML shows it.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Three digits and a prefix: "34.1 k", "1.25 M".
pub fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        size if !size.is_finite() => return "–".into(),
        size if size >= 999.5e6 => (value / 1e9, " G"),
        size if size >= 999.5e3 => (value / 1e6, " M"),
        size if size >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 99.95 || (size == size.trunc() && prefix.is_empty()) => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{prefix}")
}

/// Nanoseconds with a unit that suits.
pub fn time(nanos: u64) -> String {
    match nanos as f64 {
        value if value >= 1e9 => format!("{} s", short(value / 1e9)),
        value if value >= 1e6 => format!("{} ms", short(value / 1e6)),
        value if value >= 1e3 => format!("{} µs", short(value / 1e3)),
        value => format!("{value:.0} ns"),
    }
}

/// A share as a table cell, tinted by how much of the law was reached; the number says it too.
fn share_cell(share: Option<f64>, more: &str) -> String {
    let Some(share) = share else { return format!("<td>–{more}</td>") };
    let tint = (share.clamp(0.0, 1.0) * 60.0).round();
    format!("<td class=\"share\" style=\"--tint:{tint}%\">{share:.2}{more}</td>")
}

/// A table; cells of `rows` are whole `<td>…</td>`.
fn table(out: &mut String, caption: &str, heads: &[String], rows: impl Iterator<Item = (String, Vec<String>)>) {
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let _ = write!(out, "<div class=\"scroll\"><table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>");
    for (name, cells) in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{name}</th>{}</tr>", cells.concat());
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests;
