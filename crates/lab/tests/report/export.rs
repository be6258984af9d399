//! Tables read back.

use crate::sample;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::fs::File;
use stria_lab::export;
use stria_lab::result::Run;

#[test]
fn csv_and_parquet_hold_the_same_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, out) = (folder.path().join("run"), folder.path().join("tables"));
    sample::full(&run);
    let comma = export::csv(&run, &out).expect("tables");
    let packed = export::parquet(&run, &out).expect("tables");
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
