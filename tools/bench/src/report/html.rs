//! Text, figures and tables as HTML.

use std::fmt::Write;

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

/// A share as a table cell, tinted by the share of the law that was reached, which the number shows too.
pub fn share_cell(share: Option<f64>, more: &str) -> String {
    let Some(share) = share else { return format!("<td>–{more}</td>") };
    let tint = (share.clamp(0.0, 1.0) * 60.0).round();
    format!("<td class=\"share\" style=\"--tint:{tint}%\">{share:.2}{more}</td>")
}

/// A table; cells of `rows` are whole `<td>…</td>`.
pub fn table(out: &mut String, caption: &str, heads: &[String], rows: impl Iterator<Item = (String, Vec<String>)>) {
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let _ = write!(out, "<div class=\"scroll\"><table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>");
    for (name, cells) in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{name}</th>{}</tr>", cells.concat());
    }
    out.push_str("</tbody></table></div>\n");
}
