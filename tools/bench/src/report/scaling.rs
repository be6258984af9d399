//! The scaling table: one chart for each level, in sections by pattern, and an overview of shares.

use super::chart::{Axes, Series, legend, ticks};
use super::html::{share_cell, short, table};
use crate::scaling::{Cell, Scaling};
use crate::{Order, Spread};
use std::fmt::Write;

/// Cells of one pattern.
struct Group<'a> {
    cells: Vec<&'a Cell>,
}

impl Group<'_> {
    fn title(&self) -> String {
        let cell = self.cells[0];
        let order = if cell.order == Order::Random { "Random" } else { "Sequential" };
        let direction = if cell.read { "reads" } else { "writes" };
        format!("{order} {direction} of {} KiB, queue depth {}", cell.block_bytes >> 10, cell.queue_depth)
    }

    fn short_title(&self) -> String {
        let cell = self.cells[0];
        let order = if cell.order == Order::Random { "random" } else { "seq." };
        format!("{order} {}<br>QD {}", if cell.read { "read" } else { "write" }, cell.queue_depth)
    }

    /// The factor from requests per second to the unit of the charts, and that unit.
    fn scale(&self) -> (f64, &'static str) {
        let cell = self.cells[0];
        if cell.order == Order::Random { (1.0, "IOPS") } else { (cell.block_bytes as f64 / 1e6, "MB/s") }
    }

    fn of_level(&self, level: &str) -> Vec<&Cell> {
        self.cells.iter().copied().filter(|cell| cell.level == level).collect()
    }
}

fn groups(scaling: &Scaling) -> Vec<Group<'_>> {
    let key = |cell: &Cell| (cell.order == Order::Sequential, !cell.read, cell.queue_depth);
    let mut keys: Vec<_> = scaling.cells.iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|wanted| Group { cells: scaling.cells.iter().filter(|cell| key(cell) == wanted).collect() }).collect()
}

fn name(level: &str) -> String {
    match level {
        "jbod" => "JBOD".into(),
        "bare" => "bare drives".into(),
        level => format!("RAID {level}"),
    }
}

/// In the order of measuring, bare drives first.
fn levels(scaling: &Scaling) -> Vec<String> {
    let mut levels: Vec<String> = Vec::new();
    for cell in &scaling.cells {
        if !levels.contains(&cell.level) {
            levels.push(cell.level.clone());
        }
    }
    let order = ["bare", "jbod", "0", "1", "10", "4", "5", "6", "50", "60"];
    levels.sort_by_key(|level| order.iter().position(|known| known == level));
    levels
}

fn scaled(spread: Spread, factor: f64) -> Spread {
    Spread { median: spread.median * factor, min: spread.min * factor, max: spread.max * factor }
}

pub fn draw(out: &mut String, scaling: &Scaling) {
    let (groups, levels) = (groups(scaling), levels(scaling));
    let mut counts: Vec<usize> = scaling.cells.iter().map(|cell| cell.drives).collect();
    counts.sort_unstable();
    counts.dedup();
    if groups.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>How levels scale with drives</h2>\n");
    let _ = writeln!(
        out,
        "<p>Each point is the median of {} runs of {} ms. <b>Allowed</b> is the lowest of three bounds: the busiest member at \
         the rate of one bare drive; all bare drives at once, without an array, divided by the member requests that the level \
         needs for each client request; and waiting for one request after the other at this queue depth. Shares of it compare the best runs on both sides, \
         because other work on the machine only ever slows a run.</p>",
        scaling.rounds,
        scaling.run.as_millis()
    );
    overview(out, &groups, &levels);
    for group in &groups {
        section(out, group, &levels, &counts);
    }
    out.push_str("</section>\n");
}

/// Share of allowed, median over drive counts, level by pattern.
fn overview(out: &mut String, groups: &[Group<'_>], levels: &[String]) {
    let heads: Vec<String> = std::iter::once("level".into()).chain(groups.iter().map(Group::short_title)).collect();
    let rows = levels.iter().filter(|level| *level != "bare").map(|level| {
        let share = |group: &Group<'_>| {
            let shares: Vec<f64> = group.of_level(level).iter().filter_map(|cell| cell.share).collect();
            share_cell((!shares.is_empty()).then(|| Spread::of(shares).median), "")
        };
        (name(level), groups.iter().map(share).collect())
    });
    out.push_str("<h3>Share of the drives' limit</h3>\n");
    table(
        out,
        "Best run / allowed, median over all drive counts; 1.00 is the drives' limit, and a value above it is noise",
        &heads,
        rows,
    );
}

fn section(out: &mut String, group: &Group<'_>, levels: &[String], counts: &[usize]) {
    let (factor, unit) = group.scale();
    let highest = |cell: &&Cell| cell.iops.max.max(cell.bounds.map_or(0.0, |bounds| bounds.allowed)) * factor;
    let x_ticks = match counts {
        [_, .., last] if *last > 12 => {
            [1, 4, 8, 12, 16, 20, 24].iter().filter(|tick| *tick <= last).map(|&tick| tick as f64).collect()
        }
        counts => counts.iter().map(|&count| count as f64).collect(),
    };
    let axes = Axes {
        x_ticks,
        x_name: "drives",
        y_name: unit.into(),
        y_ticks: ticks(group.cells.iter().map(highest).fold(0.0, f64::max)),
        width: 250.0,
        height: 170.0,
    };
    let points = |cells: &[&Cell]| cells.iter().map(|cell| (cell.drives as f64, scaled(cell.iops, factor))).collect();
    let bare = group.of_level("bare");
    let _ = writeln!(out, "<h3>{}</h3>", group.title());
    out.push_str(&legend(&[
        ("measured", "measured (bar: lowest and highest run)"),
        ("allowed", "allowed"),
        ("bare", "all bare drives at once"),
    ]));
    out.push_str("<div class=\"panels\">\n");
    for level in levels.iter().filter(|level| *level != "bare") {
        let cells = group.of_level(level);
        if cells.is_empty() {
            continue;
        }
        let exact = |value: f64| Spread { median: value, min: value, max: value };
        let allowed = cells.iter().filter_map(|cell| Some((cell.drives as f64, exact(cell.bounds?.allowed * factor))));
        let series = [
            Series { kind: "bare", points: points(&bare) },
            Series { kind: "allowed", points: allowed.collect() },
            Series { kind: "measured", points: points(&cells) },
        ];
        let title = format!("{}, {} by drive count", name(level), group.title());
        let last = cells.last().expect("there is one");
        let share = last.share.map_or(String::new(), |share| format!("{share:.2} of allowed at {}", last.drives));
        let _ = writeln!(
            out,
            "<figure><figcaption>{}<small>{share}</small></figcaption>{}</figure>",
            name(level),
            axes.lines(&title, &series, &[])
        );
    }
    out.push_str("</div>\n");
    let heads: Vec<String> = std::iter::once("level".into())
        .chain(counts.iter().map(|count| format!("{count} drive{}", if *count == 1 { "" } else { "s" })))
        .collect();
    let rows = levels.iter().map(|level| {
        let cells = group.of_level(level);
        let cell = |count: &usize| match cells.iter().find(|cell| cell.drives == *count) {
            None => "<td></td>".to_string(),
            Some(cell) => {
                let share = cell.share.map_or(String::new(), |share| format!("{share:.2}, "));
                let spread = (cell.iops.relative() * 50.0).round();
                format!("<td>{}<small>{share}±{spread:.0} %</small></td>", short(cell.iops.median * factor))
            }
        };
        (name(level), counts.iter().map(cell).collect())
    });
    table(
        out,
        &format!("{unit}; below it the share of allowed, and half the distance between lowest and highest run"),
        &heads,
        rows,
    );
}

impl Scaling {
    /// The findings, in a few sentences.
    pub fn verdict(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let arrays: Vec<&Cell> = self.cells.iter().filter(|cell| cell.share.is_some()).collect();
        let shares: Vec<f64> = arrays.iter().filter_map(|cell| cell.share).collect();
        if shares.is_empty() {
            return sentences;
        }
        let spread = Spread::of(self.cells.iter().map(|cell| cell.iops.relative() / 2.0)).median;
        sentences.push(format!(
            "Half of all {} measurements reach {:.2} or more of the drives' limit. Repeats of one run differ by ±{:.0} % in \
             the middle: smaller differences between levels say nothing.",
            shares.len(),
            Spread::of(shares).median,
            spread * 100.0
        ));
        if spread > 0.15 {
            sentences.push(
                "That is a lot: the machine or its disk was busy with other work, or is shared. The figures are rough, so \
                 measure again when it is idle."
                    .into(),
            );
        }
        let most = arrays.iter().map(|cell| cell.drives).max().unwrap_or(0);
        let best = |read: bool, order: Order| {
            let fits = |cell: &&&Cell| cell.read == read && cell.order == order && cell.drives == most;
            arrays.iter().filter(fits).max_by(|a, b| a.iops.median.total_cmp(&b.iops.median))
        };
        if let (Some(read), Some(write)) = (best(true, Order::Random), best(false, Order::Random)) {
            sentences.push(format!(
                "With {most} drives, {} serves the most random reads ({} a second at queue depth {}) and {} the most random \
                 writes ({} a second at queue depth {}).",
                name(&read.level),
                short(read.iops.median),
                read.queue_depth,
                name(&write.level),
                short(write.iops.median),
                write.queue_depth
            ));
        }
        let bare = |drives: usize| {
            let cells = self.cells.iter().filter(|cell| cell.level == "bare" && cell.drives == drives && cell.read);
            cells.filter(|cell| cell.order == Order::Random).map(|cell| cell.iops.max).fold(0.0, f64::max)
        };
        if most > 1 && bare(1) > 0.0 {
            let times = bare(most) / bare(1);
            sentences.push(if times < 0.6 * most as f64 {
                format!(
                    "{most} bare drives at once give {times:.1} times the random reads of one: they share something (a disk, a \
                     bus, the CPU), so no level can scale further here; shares take that into account."
                )
            } else {
                format!("{most} bare drives at once give {times:.1} times the random reads of one.")
            });
        }
        if let Some(worst) = arrays.iter().min_by(|a, b| a.share.unwrap_or(1.0).total_cmp(&b.share.unwrap_or(1.0))) {
            sentences.push(format!(
                "Furthest from the limit: {} of {}, {} {}s at queue depth {}, {:.2}.",
                name(&worst.level),
                worst.drives,
                if worst.order == Order::Random { "random" } else { "sequential" },
                if worst.read { "read" } else { "write" },
                worst.queue_depth,
                worst.share.unwrap_or(1.0)
            ));
        }
        sentences
    }
}
