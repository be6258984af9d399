//! An array beside its bare members: a bar for each load, and every figure in a table.

use super::chart::share_bars;
use super::html::{escape, share_cell, short, table, time};
use crate::{Basis, Comparison, Row, Spread};
use std::fmt::Write;

pub fn draw(out: &mut String, comparison: &Comparison) {
    let basis = match comparison.basis {
        Basis::Second => "Rates are requests per second.",
        Basis::CpuSecond => {
            "Members are in memory and one CPU does the work of all of them, so shares compare requests per second of that CPU's \
             time, and allowed is the limit after the members' own work."
        }
    };
    let _ = writeln!(
        out,
        "<section>\n<h2>{}</h2>\n<p>Level {}, {} members, strips of {} KiB; {} rounds, array and bare members in turn. {basis}</p>",
        escape(&comparison.name),
        comparison.level,
        comparison.members,
        comparison.strip_bytes >> 10,
        comparison.rounds
    );
    let bar = |row: &Row| Some((row.label.clone(), row.share_of_allowed?, format!("{} IOPS", short(row.array.iops.median))));
    let bars: Vec<_> = comparison.rows.iter().filter_map(bar).collect();
    if !bars.is_empty() {
        let title = format!("{}: share of the members' limit", comparison.name);
        let _ = writeln!(
            out,
            "<figure><figcaption>Share of the members' limit <small>1 is the limit</small></figcaption>{}</figure>",
            share_bars(&title, &bars)
        );
    }
    let heads =
        ["load", "IOPS", "MB/s", "p50", "p99", "p99.9", "max", "CPU per I/O", "bare member IOPS", "/ bare", "/ allowed", "law"];
    let rows = comparison.rows.iter().map(|row| {
        let latency = if row.read_percent >= 50 { &row.array.reads } else { &row.array.writes };
        let text = |text: String| format!("<td>{text}</td>");
        let member = |value: fn(&crate::Figure) -> String| row.member.as_ref().map_or(String::new(), value);
        let law = row.write_work.as_ref().or(row.read_work.as_ref()).map_or("", |work| &work.law);
        let mut cells = vec![
            format!("<td>{}<small>±{:.0} %</small></td>", short(row.array.iops.median), row.array.iops.relative() * 50.0),
            text(short(row.array.mb_per_s)),
        ];
        cells.extend([latency.p50_ns, latency.p99_ns, latency.p999_ns, latency.max_ns].map(|nanos| text(time(nanos))));
        let bare_cpu = member(|figure| format!("<small>bare {}</small>", time(figure.cpu_ns_per_io as u64)));
        cells.push(text(time(row.array.cpu_ns_per_io as u64) + &bare_cpu));
        cells.push(text(row.member.as_ref().map_or("–".into(), |figure| short(figure.iops.median))));
        cells.push(text(row.share_of_member.map_or("–".into(), |share| format!("{share:.2}"))));
        let allowed = row.bounds.map_or(String::new(), |bounds| format!("<small>of {} / s</small>", short(bounds.allowed)));
        cells.push(share_cell(row.share_of_allowed, &allowed));
        cells.push(format!("<td class=\"words\">{}</td>", escape(law)));
        (escape(&row.label), cells)
    });
    let caption =
        "Latency is of reads, for loads that mostly write of writes; ± is half the distance between lowest and highest round";
    table(out, caption, &heads.map(String::from), rows);
    out.push_str("</section>\n");
}

impl Comparison {
    /// The finding, in a sentence.
    pub fn verdict(&self) -> Vec<String> {
        let shares: Vec<f64> = self.rows.iter().filter_map(|row| row.share_of_allowed).collect();
        let Some(worst) = self.rows.iter().filter(|row| row.share_of_allowed.is_some()).min_by(|a, b| {
            let share = |row: &Row| row.share_of_allowed.unwrap_or(f64::INFINITY);
            share(a).total_cmp(&share(b))
        }) else {
            return Vec::new();
        };
        vec![format!(
            "{} reaches {:.2} of its members' limit as the median of {} loads, and {:.2} at least ({}).",
            self.name,
            Spread::of(shares.iter().copied()).median,
            shares.len(),
            worst.share_of_allowed.unwrap_or(0.0),
            worst.label
        )]
    }
}
