//! Tables read back.

use crate::sample;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use stria_lab::export;
use stria_lab::result::Run;

#[test]
fn csv_and_parquet_hold_the_same_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, out) = (folder.path().join("run"), folder.path().join("tables"));
    sample::full(&run);
    let runs = [run.clone()];
    let comma = export::csv(&runs, &out).expect("tables");
    let packed = export::parquet(&runs, &out).expect("tables");
    assert_eq!((comma.len(), packed.len()), (3, 3));
    for (comma, packed) in comma.iter().zip(&packed) {
        let mut reader = csv::Reader::from_path(comma).expect("a table");
        let heads: Vec<String> = reader.headers().expect("heads").iter().map(str::to_string).collect();
        let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
        let file = SerializedFileReader::new(File::open(packed).expect("a file")).expect("Parquet");
        let schema = file.metadata().file_metadata().schema();
        assert_eq!(heads, schema.get_fields().iter().map(|field| field.name().to_string()).collect::<Vec<_>>());
        assert_eq!(file.metadata().file_metadata().num_rows() as usize, rows.len());
        let number = heads.iter().position(|head| matches!(head.as_str(), "iops" | "median" | "read_iops")).expect("a figure");
        for (row, expected) in file.get_row_iter(None).expect("rows").zip(&rows) {
            let row = row.expect("a row");
            assert_eq!(row.get_double(number).expect("a figure").to_string(), expected[number]);
            assert_eq!(row.get_string(0).expect("the run"), &expected[0]);
        }
    }
    let records = Run::open(&run).expect("the run").records;
    let text = std::fs::read_to_string(&comma[0]).expect("a table");
    assert!(text.lines().count() > records.len() && text.contains("raid5 x4") && text.contains("scaled"));
    let summary = std::fs::read_to_string(&comma[1]).expect("a table");
    assert!(
        summary.contains("latency_p999_ns")
            && summary.lines().next().is_some_and(|heads| heads.contains("mean_deviation_percent"))
    );
}

#[test]
fn failed_measurements_are_marked_in_the_tables_and_not_summed_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    sample::full(&run);
    let whole = export::csv(std::slice::from_ref(&run), &folder.path().join("whole")).expect("tables");
    sample::add_failures(&run);
    let failed = export::csv(&[run], &folder.path().join("failed")).expect("tables");
    let column = |path: &Path| -> Vec<String> {
        let mut reader = csv::Reader::from_path(path).expect("a table");
        let at = reader.headers().expect("heads").iter().position(|head| head == "failed").expect("a column");
        reader.records().map(|row| row.expect("a row")[at].to_owned()).collect()
    };
    assert!(column(&whole[0]).iter().chain(&column(&whole[2])).all(String::is_empty));
    let marks = column(&failed[0]);
    let marked = marks.iter().filter(|mark| *mark == sample::FAILED).count();
    assert!(marked > 0 && marks.len() - marked == column(&whole[0]).len(), "{marked} of {}", marks.len());
    let text = |path: &Path| std::fs::read_to_string(path).expect("a table");
    assert_eq!(text(&failed[1]), text(&whole[1]), "the summary counts results only");
}

/// The sheets of a spreadsheet as JSON: name, rows, and the value and type of each cell. It reports violations of the format.
const READ: &str = r#"
import json, sys, xml.etree.ElementTree as tree, zipfile
spaces = {name: "urn:oasis:names:tc:opendocument:xmlns:" + name + ":1.0" for name in ("office", "table", "text", "manifest")}
def name(space, word): return "{" + spaces[space] + "}" + word
file = zipfile.ZipFile(sys.argv[1])
assert file.testzip() is None
first = file.infolist()[0]
assert (first.filename, first.compress_type, first.extra) == ("mimetype", zipfile.ZIP_STORED, b""), first
assert file.read("mimetype") == b"application/vnd.oasis.opendocument.spreadsheet"
listed = [entry.get(name("manifest", "full-path")) for entry in tree.fromstring(file.read("META-INF/manifest.xml"))]
assert listed == ["/", "content.xml"], listed
def cell(node):
    kind = node.get(name("office", "value-type"))
    if kind == "float": return float(node.get(name("office", "value")))
    return None if kind is None else "".join(node.find(name("text", "p")).itertext())
sheets = {}
for sheet in tree.fromstring(file.read("content.xml")).iter(name("table", "table")):
    rows = [[cell(node) for node in row] for row in sheet.iter(name("table", "table-row"))]
    sheets[sheet.get(name("table", "name"))] = rows
json.dump(sheets, sys.stdout)
"#;

fn read_back(sheets: &Path) -> serde_json::Value {
    let output = Command::new("python3").args(["-c", READ]).arg(sheets).output().expect("python3, of scripts/setup");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_spreadsheet_of_two_runs_is_read_by_another_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = ["old", "new"].map(|name| folder.path().join(name));
    sample::full(&runs[0]);
    let target = sample::target("a & \"b\" <c>", stria_lab::result::TargetKind::Block, None, 1);
    let mut other = sample::Story::new("other", vec![target.clone()]);
    let section = other.section("1-one", "One", stria_lab::result::SectionKind::Sweep, &target.name);
    other.measure(&section, &sample::point(&target), 1, 1234.5, 6.0);
    other.write(&runs[1]);
    let sheets = read_back(&export::ods(&runs, folder.path()).expect("a spreadsheet")[0]);
    let tables = export::csv(&runs, folder.path()).expect("tables");
    for (table, name) in tables.iter().zip(["records", "summary", "series"]) {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(table).expect("a table");
        let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
        let sheet = sheets[name].as_array().expect("a sheet");
        assert_eq!(sheet.len(), rows.len(), "{name}");
        for (cells, row) in sheet.iter().zip(&rows) {
            for (cell, expected) in cells.as_array().expect("cells").iter().zip(row) {
                match cell {
                    // serde_json reads numbers exactly except for the last digit.
                    serde_json::Value::Number(number) => {
                        let (number, expected) = (number.as_f64().expect("a number"), expected.parse::<f64>().expect("a number"));
                        assert!((number - expected).abs() <= 1e-12 * expected.abs(), "{number} for {expected}");
                    }
                    serde_json::Value::String(words) => assert_eq!(words, expected),
                    other => assert!(other.is_null() && expected.is_empty(), "{other} for {expected:?}"),
                }
            }
        }
        let figures = |head: &str| {
            let column = rows[0].iter().position(|known| known == head)?;
            Some(sheet[1..].iter().all(|row| row[column].is_number() || row[column].is_null()))
        };
        assert!([figures("iops"), figures("median"), figures("at_ms")].contains(&Some(true)), "{name}: numbers are numbers");
    }
    let both = |id: &str| sheets["records"].as_array().expect("rows").iter().any(|row| row[0] == id);
    assert!(both("other") && sheets.to_string().contains("a & \\\"b\\\" <c>"));
}
