//! Progress bars on standard error; hidden if standard error is no terminal.

pub use indicatif::ProgressBar;
use indicatif::ProgressStyle;
use std::io::{self, IsTerminal};

/// A bar of `length` steps; hidden if standard error is no terminal, or for JSON. `template` is indicatif's.
pub fn bar(length: u64, template: &str, json: bool) -> ProgressBar {
    let bar = if io::stderr().is_terminal() && !json { ProgressBar::new(length) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.set_style(style.progress_chars("=> "));
    bar
}

/// A bar for `done` of `total` steps, which are set later.
pub fn steps_bar(json: bool) -> ProgressBar {
    bar(0, "[{bar:30}] {percent:>3} %  {elapsed}, about {eta} left  {msg}", json)
}
