//! What shows that a drive has changed, without an access to it: a disk that sleeps stays asleep.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;
use stria_drive::metadata_within;
use stria_drive::sysfs::{SYSFS, block_page};

/// The time that the metadata of a path may take.
const WITHIN: Duration = Duration::from_secs(5);

/// What shows without opening it that a drive was written to, or is another.
#[derive(Debug, PartialEq, Eq)]
pub enum Mark {
    /// Its inode, its length and the time of its last change.
    File { id: (u64, u64), size_bytes: u64, changed_ns: i128 },
    /// The number of writes, as sysfs counts them, and of the disk, which is another for each that was attached.
    Device { id: u64, writes: Option<u64>, sequence: Option<u64> },
}

impl Mark {
    /// `None`: it is not here, or does not answer.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = metadata_within(path, WITHIN)?;
        if !metadata.file_type().is_block_device() {
            let changed_ns = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
            return Some(Self::File { id: (metadata.dev(), metadata.ino()), size_bytes: metadata.len(), changed_ns });
        }
        let id = metadata.rdev();
        let entry = block_page(Path::new(SYSFS), id);
        let text = |name: &str| std::fs::read_to_string(entry.join(name)).ok();
        // The kernel's Documentation/block/stat.rst: the fifth number counts writes.
        let writes = text("stat").and_then(|text| text.split_whitespace().nth(4)?.parse().ok());
        Some(Self::Device { id, writes, sequence: text("diskseq").and_then(|text| text.trim().parse().ok()) })
    }
}
