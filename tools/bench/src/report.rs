//! One HTML page that needs nothing else: no network, no script. Charts are SVG in the page, coloured by its style sheet,
//! so that light, dark and paper all work; every chart has its figures in a table below it.

mod chart;
mod comparison;
mod html;
mod scaling;
mod story;

use crate::scaling::Scaling;
use crate::story::Story;
use crate::{Comparison, Environment};

pub use html::{escape, short, time};

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

/// The page, with the findings in plain words at the top.
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

#[cfg(test)]
mod tests;
