//! OpenDocument spreadsheets, written by hand: sheets of plain values are three short files in a ZIP, for which a library of the
//! whole format would bring some thirty crates.

use super::{Table, Values};
use crate::select::escape;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The most rows of LibreOffice and Excel.
const ROWS_MAX: usize = 1 << 20;
const TYPE: &str = "application/vnd.oasis.opendocument.spreadsheet";

pub fn write(tables: &[(&'static str, Table)], file: &mut File) -> io::Result<()> {
    if let Some((name, table)) = tables.iter().find(|(_, table)| table.rows() >= ROWS_MAX) {
        let words = format!("{name} has {} rows, a spreadsheet takes {}: export CSV or Parquet", table.rows(), ROWS_MAX - 1);
        return Err(io::Error::other(words));
    }
    let mut zip = ZipWriter::new(BufWriter::new(file));
    // The type comes first and is not compressed, so that it is at a fixed position.
    zip.start_file("mimetype", SimpleFileOptions::default().compression_method(CompressionMethod::Stored))?;
    zip.write_all(TYPE.as_bytes())?;
    let packed = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).large_file(true);
    zip.start_file("META-INF/manifest.xml", packed)?;
    write!(
        zip,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <manifest:manifest xmlns:manifest=\"urn:oasis:names:tc:opendocument:xmlns:manifest:1.0\" manifest:version=\"1.3\">\n\
         <manifest:file-entry manifest:full-path=\"/\" manifest:version=\"1.3\" manifest:media-type=\"{TYPE}\"/>\n\
         <manifest:file-entry manifest:full-path=\"content.xml\" manifest:media-type=\"text/xml\"/>\n</manifest:manifest>\n"
    )?;
    zip.start_file("content.xml", packed)?;
    zip.write_all(
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
          <office:document-content xmlns:office=\"urn:oasis:names:tc:opendocument:xmlns:office:1.0\" \
          xmlns:table=\"urn:oasis:names:tc:opendocument:xmlns:table:1.0\" \
          xmlns:text=\"urn:oasis:names:tc:opendocument:xmlns:text:1.0\" office:version=\"1.3\"><office:body><office:spreadsheet>\n",
    )?;
    for (name, table) in tables {
        sheet(&mut zip, name, table)?;
    }
    zip.write_all(b"</office:spreadsheet></office:body></office:document-content>\n")?;
    zip.finish()?.flush()
}

fn sheet(out: &mut impl Write, name: &str, table: &Table) -> io::Result<()> {
    writeln!(out, "<table:table table:name=\"{name}\">")?;
    writeln!(out, "<table:table-column table:number-columns-repeated=\"{}\"/>", table.columns.len())?;
    write!(out, "<table:table-header-rows><table:table-row>")?;
    for (name, _) in &table.columns {
        words(out, name)?;
    }
    writeln!(out, "</table:table-row></table:table-header-rows>")?;
    for row in 0..table.rows() {
        write!(out, "<table:table-row>")?;
        for (_, values) in &table.columns {
            match values {
                Values::Text(values) => words(out, &values[row])?,
                Values::Whole(values) => number(out, values[row])?,
                Values::Number(values) => number(out, values[row].filter(|value| value.is_finite()))?,
            }
        }
        writeln!(out, "</table:table-row>")?;
    }
    writeln!(out, "</table:table>")
}

fn words(out: &mut impl Write, words: &str) -> io::Result<()> {
    match words {
        "" => write!(out, "<table:table-cell/>"),
        words => {
            write!(out, "<table:table-cell office:value-type=\"string\"><text:p>{}</text:p></table:table-cell>", escape(words))
        }
    }
}

fn number(out: &mut impl Write, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, "<table:table-cell office:value-type=\"float\" office:value=\"{value}\"/>"),
        None => write!(out, "<table:table-cell/>"),
    }
}
