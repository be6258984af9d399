//! Where in a TOML file a mistake is.

/// The line of a mistake, as `:7` behind the file's name. Empty if it has none.
pub(crate) fn of_error(text: &str, error: &toml::de::Error) -> String {
    error.span().map_or_else(String::new, |span| format!(":{}", at(text, span.start)))
}

/// The line of a byte, from 1.
pub(crate) fn at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
