//! The figures as lines, CSV, and a table with the ratio to the best peer.

use std::fmt::Write;

use crate::Cell;

impl Cell {
    fn median(&self) -> f64 {
        self.samples[self.samples.len() / 2]
    }
    /// Interquartile range over the median, in percent.
    fn spread(&self) -> f64 {
        let quarter = self.samples.len() / 4;
        (self.samples[self.samples.len() - 1 - quarter] - self.samples[quarter]) / self.median() * 100.0
    }
    fn place(&self) -> (&str, usize, usize, &str) {
        (self.op, self.data, self.bytes, self.temperature)
    }
}

pub fn line(c: &Cell) {
    println!(
        "{:24} {:9} {:2} × {:7} {:4} {:8.2} GB/s  ±{:.0} %",
        c.who,
        c.op,
        c.data,
        c.bytes,
        c.temperature,
        c.median(),
        c.spread()
    );
}

pub fn write(folder: &str, cells: &[Cell]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut csv = String::from("who,operation,data_strips,strip_bytes,temperature,gb_per_s,spread_percent\n");
    for c in cells {
        let _ = writeln!(csv, "{},{},{},{},{},{:.2},{:.0}", c.who, c.op, c.data, c.bytes, c.temperature, c.median(), c.spread());
    }
    std::fs::write(format!("{folder}/parity.csv"), csv)?;

    let mut table = String::from(
        "| operation | data | strip bytes | | ours GB/s | spread | best peer GB/s | spread | who | ratio |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for ours in cells.iter().filter(|c| c.who == "stria") {
        let peers = cells.iter().filter(|c| c.who != "stria" && c.place() == ours.place());
        let Some(best) = peers.max_by(|a, b| a.median().total_cmp(&b.median())) else { continue };
        let (op, data, bytes, temperature) = ours.place();
        let _ = writeln!(
            table,
            "| {op} | {data} | {bytes} | {temperature} | {:.1} | {:.0} % | {:.1} | {:.0} % | {} | {:.2} |",
            ours.median(),
            ours.spread(),
            best.median(),
            best.spread(),
            best.who,
            ours.median() / best.median()
        );
    }
    print!("{table}");
    std::fs::write(format!("{folder}/parity.md"), table)
}
