//! The content of the files that jobs name, as numbers that change with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Paths as the line has them, each with a number of its content: 16 hexadecimal digits, or "unreadable".
pub type Inputs = BTreeMap<String, String>;

/// 8: folders within folders of a run. Source: none; a run has two.
const FOLDERS_MAX: u32 = 8;

/// FNV-1a of 64 bits, which is the same on every machine: http://www.isthe.com/chongo/tech/comp/fnv/. It tells versions of a file
/// apart, and not forgeries.
struct Sum(u64);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    }

    /// A file's bytes; of a folder the names and content of all that lies in it.
    fn add_path(&mut self, path: &Path, folders_left: u32) -> io::Result<()> {
        let metadata = std::fs::metadata(path)?;
        if metadata.is_dir() {
            let entries: io::Result<Vec<PathBuf>> =
                std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect();
            let mut entries = entries?;
            entries.sort_unstable();
            for entry in entries.iter().filter(|_| folders_left > 0) {
                self.add(entry.file_name().map_or(&[][..], |name| name.as_encoded_bytes()));
                self.add_path(entry, folders_left - 1)?;
            }
        } else if metadata.is_file() {
            self.add(&metadata.len().to_le_bytes());
            let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 20]);
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    count => self.add(&buffer[..count]),
                }
            }
        }
        Ok(())
    }
}

/// The number of a file's or folder's content. One that cannot be read has a number as well: its job fails, and says why.
pub fn content(path: &Path) -> String {
    let mut sum = Sum(0xcbf2_9ce4_8422_2325);
    match sum.add_path(path, FOLDERS_MAX) {
        Ok(()) => format!("{:016x}", sum.0),
        Err(_) => "unreadable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published values of FNV-1a.
    #[test]
    fn sums_are_those_of_the_definition() {
        for (text, value) in [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8_u64)] {
            let mut sum = Sum(0xcbf2_9ce4_8422_2325);
            sum.add(text.as_bytes());
            assert_eq!(sum.0, value, "{text}");
        }
    }
}
