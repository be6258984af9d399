//! What the tests share: the arrays that they make.

use std::path::PathBuf;
use stria_format::md::BitmapChoice;
use stria_host::CreateSpec;

/// A small array on these drives, with short strips, and with a bitmap and a log where the level has them.
pub fn spec(name: &str, level: &str, drives: &[PathBuf]) -> CreateSpec {
    let redundant = !matches!(level, "jbod" | "0");
    CreateSpec {
        strip_sectors: (level != "1").then_some(16),
        bitmap: if redundant { BitmapChoice::Internal { chunk_bytes: Some(65536) } } else { BitmapChoice::None },
        ..CreateSpec::new(name, level.parse().expect("a level"), drives)
    }
}
