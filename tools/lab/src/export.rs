//! Runs' figures as tables, for spreadsheets and notebooks: CSV, Parquet with the same columns, and a spreadsheet with a sheet
//! for each.
//!
//! ```text
//!   OUT/records.csv   one row for each measurement and direction (total, read, write, trim)
//!   OUT/summary.csv   one row for each point: median, interval, mean, mean deviation and its percent
//!   OUT/series.csv    one row for each sample of a measurement over time
//!   OUT/tables.ods    all three
//! ```
//! Missing figures are empty (CSV, ODS) or null (Parquet). `failed` says why a measurement is no result; it is empty for results,
//! and the summary counts only these. Several runs share the tables; the first column names the run.

mod ods;

use crate::result::{Figures, Point, Record, ResultError, Run, inside};
use crate::select;
use crate::stats::Summary;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why tables were not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read.
    #[error(transparent)]
    Run(#[from] ResultError),
    /// A table cannot be written.
    #[error("cannot write table {path}: {source}")]
    Table {
        /// The table.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Values of one column.
enum Values {
    Text(Vec<String>),
    Whole(Vec<Option<u64>>),
    Number(Vec<Option<f64>>),
}

/// Columns of equal length.
#[derive(Default)]
struct Table {
    columns: Vec<(&'static str, Values)>,
}

impl Table {
    fn column(&mut self, name: &'static str, empty: fn() -> Values) -> &mut Values {
        let index = self.columns.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.columns.push((name, empty()));
            self.columns.len() - 1
        });
        &mut self.columns[index].1
    }

    fn text(&mut self, name: &'static str, value: impl ToString) {
        if let Values::Text(values) = self.column(name, || Values::Text(Vec::new())) {
            values.push(value.to_string());
        }
    }

    fn whole(&mut self, name: &'static str, value: impl Into<Option<u64>>) {
        if let Values::Whole(values) = self.column(name, || Values::Whole(Vec::new())) {
            values.push(value.into());
        }
    }

    fn number(&mut self, name: &'static str, value: impl Into<Option<f64>>) {
        if let Values::Number(values) = self.column(name, || Values::Number(Vec::new())) {
            values.push(value.into().filter(|value| value.is_finite()));
        }
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| match values {
            Values::Text(values) => values.len(),
            Values::Whole(values) => values.len(),
            Values::Number(values) => values.len(),
        })
    }

    fn point(&mut self, point: &Point) {
        self.text("target", &point.target);
        self.text("level", point.level.as_deref().unwrap_or_default());
        self.whole("members", point.members.map(u64::from));
        self.whole("strip_bytes", point.strip_bytes);
        self.whole("spans", point.spans.map(u64::from));
        self.text("pattern", word(&point.pattern));
        self.whole("block_bytes", point.block_bytes);
        self.text("mix", &point.mix);
        self.whole("read_percent", u64::from(point.read_percent));
        self.whole("queue_depth", u64::from(point.queue_depth));
        self.whole("threads", u64::from(point.threads));
        self.whole("compressible_percent", u64::from(point.compressible_percent));
        self.text("drive_state", word(&point.drive_state));
        self.text("array_state", word(&point.array_state));
        self.text("mode", word(&point.mode));
        self.text("variant", &point.variant);
    }

    fn csv(&self, file: &mut File) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(file);
        writer.write_record(self.columns.iter().map(|(name, _)| name))?;
        for row in 0..self.rows() {
            writer.write_record(self.columns.iter().map(|(_, values)| match values {
                Values::Text(values) => values[row].clone(),
                Values::Whole(values) => values[row].map_or(String::new(), |value| value.to_string()),
                Values::Number(values) => values[row].map_or(String::new(), |value| value.to_string()),
            }))?;
        }
        writer.flush()
    }

    fn parquet(&self, file: &mut File) -> Result<(), ParquetError> {
        let field = |(name, values): &(&str, Values)| match values {
            Values::Text(_) => format!("REQUIRED BYTE_ARRAY {name} (UTF8);"),
            Values::Whole(_) => format!("OPTIONAL INT64 {name};"),
            Values::Number(_) => format!("OPTIONAL DOUBLE {name};"),
        };
        let fields: String = self.columns.iter().map(field).collect();
        let schema = Arc::new(parquet::schema::parser::parse_message_type(&format!("message table {{ {fields} }}"))?);
        let properties = Arc::new(WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build());
        let mut writer = SerializedFileWriter::new(file, schema, properties)?;
        let mut group = writer.next_row_group()?;
        let present = |there: bool| i16::from(there);
        for (_, values) in &self.columns {
            let mut column = group.next_column()?.expect("the schema has these columns");
            match values {
                Values::Text(values) => {
                    let bytes: Vec<ByteArray> = values.iter().map(|value| value.as_str().into()).collect();
                    column.typed::<ByteArrayType>().write_batch(&bytes, None, None)?;
                }
                Values::Whole(values) => {
                    let levels: Vec<i16> = values.iter().map(|value| present(value.is_some())).collect();
                    let values: Vec<i64> =
                        values.iter().flatten().map(|value| i64::try_from(*value).unwrap_or(i64::MAX)).collect();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                Values::Number(values) => {
                    let levels: Vec<i16> = values.iter().map(|value| present(value.is_some())).collect();
                    let values: Vec<f64> = values.iter().flatten().copied().collect();
                    column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

/// The name of a variant in a run folder.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_string)).unwrap_or_default()
}

fn records(table: &mut Table, run: &Run) {
    let scaled = run.manifest.scaled.is_some();
    for record in &run.records {
        let directions: [(&str, Option<&Figures>); 4] = [
            ("total", Some(&record.total)),
            ("read", record.read.as_ref()),
            ("write", record.write.as_ref()),
            ("trim", record.trim.as_ref()),
        ];
        for (direction, figures) in directions.into_iter().filter_map(|(name, figures)| Some((name, figures?))) {
            record_row(table, run, record, scaled);
            table.text("direction", direction);
            table.whole("requests", figures.requests);
            table.whole("bytes", figures.bytes);
            table.number("iops", figures.iops);
            table.number("mb_per_s", figures.mb_per_s);
            let latency = &figures.latency;
            table.number("latency_min_ns", latency.min_ns);
            table.number("latency_mean_ns", latency.mean_ns);
            table.number("latency_stddev_ns", latency.stddev_ns);
            table.number("latency_p50_ns", latency.p50_ns);
            table.number("latency_p99_ns", latency.p99_ns);
            table.number("latency_p999_ns", latency.p999_ns);
            table.number("latency_p99999_ns", latency.p99999_ns);
            table.number("latency_max_ns", latency.max_ns);
            for (mean, max, phase) in
                [("slat_mean_ns", "slat_max_ns", figures.submission), ("clat_mean_ns", "clat_max_ns", figures.completion)]
            {
                table.number(mean, phase.map(|phase| phase.mean_ns));
                table.number(max, phase.map(|phase| phase.max_ns));
            }
        }
    }
}

fn record_row(table: &mut Table, run: &Run, record: &Record, scaled: bool) {
    table.text("run", &run.manifest.id);
    table.text("scaled", if scaled { "scaled" } else { "" });
    table.whole("record", u64::from(record.index));
    table.text("section", &record.section);
    table.text("preparation", if record.preparation { "preparation" } else { "" });
    table.whole("round", u64::from(record.round));
    table.whole("step", u64::from(record.step));
    table.text("host", &record.host);
    table.whole("begun_ms", record.begun_ms);
    table.number("seconds", record.seconds);
    table.point(&record.point);
    table.number("cpu_user_percent", record.cpu_user_percent);
    table.number("cpu_system_percent", record.cpu_system_percent);
    table.whole("errors", record.errors);
    table.text("failed", record.failed.as_deref().unwrap_or_default());
    let hedged = record.members.iter().map(|member| member.hedged_reads).fold(0, u64::saturating_add);
    table.whole("hedged_reads", Some(hedged).filter(|_| !record.members.is_empty()));
}

fn summary(table: &mut Table, run: &Run) {
    for (point, records) in select::results(run) {
        let metrics: [(&str, fn(&Record) -> Option<f64>); 5] = [
            ("iops", |record| Some(record.total.iops)),
            ("mb_per_s", |record| Some(record.total.mb_per_s)),
            ("latency_p50_ns", |record| record.total.latency.p50_ns),
            ("latency_p99_ns", |record| record.total.latency.p99_ns),
            ("latency_p999_ns", |record| record.total.latency.p999_ns),
        ];
        let is_story = select::is_story(run, &records);
        for (metric, value) in metrics {
            let Some(summary) = Summary::of(&select::repeats(&records, is_story, value)) else { continue };
            table.text("run", &run.manifest.id);
            table.text("scaled", if run.manifest.scaled.is_some() { "scaled" } else { "" });
            table.point(point);
            table.text("metric", metric);
            table.whole("count", summary.count as u64);
            table.number("median", summary.median);
            table.number("interval_low", summary.interval.low);
            table.number("interval_high", summary.interval.high);
            table.number("interval_confidence", summary.interval.confidence);
            table.number("mean", summary.mean);
            table.number("mean_deviation", summary.mean_deviation);
            table.number("mean_deviation_percent", summary.mean_deviation_percent());
            table.number("min", summary.min);
            table.number("max", summary.max);
        }
    }
}

fn series(table: &mut Table, run: &Run) -> Result<(), ResultError> {
    for record in &run.records {
        for sample in run.series(record)?.map(|series| series.samples).unwrap_or_default() {
            table.text("run", &run.manifest.id);
            table.whole("record", u64::from(record.index));
            table.text("section", &record.section);
            table.whole("round", u64::from(record.round));
            table.text("failed", record.failed.as_deref().unwrap_or_default());
            table.whole("at_ms", sample.at_ms);
            table.number("read_iops", sample.read_iops);
            table.number("write_iops", sample.write_iops);
            table.number("read_mb_per_s", sample.read_mb_per_s);
            table.number("write_mb_per_s", sample.write_mb_per_s);
            table.number("latency_mean_ns", sample.latency_mean_ns);
        }
    }
    Ok(())
}

/// Writes the tables of the runs in these folders into folder `out` as CSV; gives the files.
///
/// # Errors
/// When a run cannot be read or a table not written.
pub fn csv(runs: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>, ExportError> {
    each(runs, out, "csv", Table::csv)
}

/// As [`csv`](fn@csv), as Parquet, without compression.
///
/// # Errors
/// As [`csv`](fn@csv).
pub fn parquet(runs: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>, ExportError> {
    each(runs, out, "parquet", |table, file| table.parquet(file).map_err(io::Error::other))
}

/// As [`csv`](fn@csv), as one OpenDocument spreadsheet.
///
/// # Errors
/// As [`csv`](fn@csv), and when there are more rows than a spreadsheet takes.
pub fn ods(runs: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let path = out.join("tables.ods");
    let tables = tables(runs, out)?;
    inside::output(&path, |file| ods::write(&tables, file))
        .map_err(|source| ExportError::Table { path: path.clone(), source })?;
    Ok(vec![path])
}

fn tables(runs: &[PathBuf], out: &Path) -> Result<Vec<(&'static str, Table)>, ExportError> {
    let mut all = [("records", Table::default()), ("summary", Table::default()), ("series", Table::default())];
    for run in runs {
        let run = Run::open(run)?;
        records(&mut all[0].1, &run);
        summary(&mut all[1].1, &run);
        series(&mut all[2].1, &run)?;
    }
    fs::create_dir_all(out).map_err(|source| ExportError::Table { path: out.to_path_buf(), source })?;
    Ok(all.into_iter().filter(|(_, table)| table.rows() > 0).collect())
}

fn each(
    runs: &[PathBuf],
    out: &Path,
    extension: &str,
    write: impl Fn(&Table, &mut File) -> io::Result<()>,
) -> Result<Vec<PathBuf>, ExportError> {
    let mut written = Vec::new();
    for (name, table) in tables(runs, out)? {
        let path = out.join(name).with_extension(extension);
        inside::output(&path, |file| write(&table, file)).map_err(|source| ExportError::Table { path: path.clone(), source })?;
        written.push(path);
    }
    Ok(written)
}
