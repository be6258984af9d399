//! A table, and its cells with spread.

use crate::select::short;
use crate::stats::Summary;
use std::fmt::Write;

/// A table; `caption` and `heads` are HTML; `rows` have their name and cells that are whole `<td>…</td>`.
pub fn table(out: &mut String, caption: &str, heads: &[&str], rows: Vec<(String, Vec<String>)>) {
    // Words are aligned left, and so are their heads.
    let words =
        |index: usize| index > 0 && rows.first().is_some_and(|(_, cells)| cells[index - 1].starts_with("<td class=\"words"));
    let head = |(index, head): (usize, &&str)| {
        let class = if words(index) { " class=\"words\"" } else { "" };
        format!("<th scope=\"col\"{class}>{head}</th>")
    };
    let heads: String = heads.iter().enumerate().map(head).collect();
    let _ = write!(
        out,
        "<p class=\"caption\">{caption}</p><div class=\"scroll\" tabindex=\"0\"><table aria-label=\"{caption}\"><thead><tr>{heads}</tr></thead><tbody>"
    );
    for (name, cells) in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{name}</th>{}</tr>", cells.concat());
    }
    out.push_str("</tbody></table></div>\n");
}

/// "12.3 k IOPS ±2 %".
pub fn spread_cell(summary: &Summary, unit: &str) -> String {
    format!("<td>{} {unit}<small>{}</small></td>", short(summary.median), plus_minus(summary))
}

fn plus_minus(summary: &Summary) -> String {
    if summary.count < 2 {
        return "once".into();
    }
    format!("±{:.1} % ({:.0} %)", summary.plus_minus_percent(), summary.interval.confidence * 100.0)
}
