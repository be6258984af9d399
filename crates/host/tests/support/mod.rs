//! What the tests share: the arrays that they make.

use std::path::PathBuf;
use stria_format::md::{BitmapChoice, LogChoice};
use stria_host::{CreateSpec, Overwrite};

/// A small array on these drives, with short strips, and with a bitmap and a log where the level has them.
pub fn spec(name: &str, level: &str, drives: &[PathBuf]) -> CreateSpec {
    let redundant = !matches!(level, "jbod" | "0");
    CreateSpec {
        name: name.into(),
        level: level.parse().expect("a level"),
        layout: None,
        strip_sectors: (level != "1").then_some(16),
        span_count: None,
        drives: drives.iter().cloned().map(Some).collect(),
        spares: Vec::new(),
        bitmap: if redundant { BitmapChoice::Internal { chunk_bytes: Some(65536) } } else { BitmapChoice::None },
        member_sectors_max: None,
        log: LogChoice::Auto,
        checksums: false,
        assume_clean: false,
        overwrite: Overwrite::Nothing,
    }
}
