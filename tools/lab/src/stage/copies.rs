//! A set of files that is copied.

use crate::experiment::{CopySpec, FILES_OF_SET_MAX, FileSystem, parse_split};

/// Files that are copied.
#[derive(Clone, Debug, PartialEq)]
pub struct CopySet {
    /// Their description.
    pub name: String,
    /// Their sizes, in the order in which they are made.
    pub files: Vec<u64>,
    /// Files at a time.
    pub threads: u32,
    /// The file system to make if there is none.
    pub file_system: FileSystem,
}

/// The blocks of ext4, xfs, btrfs and ZFS are of this size, or become so for small files.
const BLOCK_BYTES: u64 = 4096;

fn stored_bytes(file_bytes: u64) -> u64 {
    file_bytes.next_multiple_of(BLOCK_BYTES)
}

impl CopySet {
    /// As many files as make the total, or fill a third of the span; the same ones each time.
    pub(crate) fn new(spec: &CopySpec, file_system: FileSystem, span_bytes: u64) -> Self {
        let stored_max = span_bytes / 3;
        let total = spec.total.0.min(stored_max);
        let sizes = parse_split(&spec.sizes).expect("it was checked when it was read");
        let mut counts = vec![0_u32; sizes.len()];
        let (mut files, mut bytes, mut stored) = (Vec::new(), 0, 0);
        // The next size is the one that is farthest below its share; none is larger than half of all.
        while bytes < total && stored < stored_max && (files.len() as u64) < FILES_OF_SET_MAX {
            let lag = |at: &usize| sizes[*at].1 * (files.len() + 1) as f64 / 100.0 - f64::from(counts[*at]);
            let next = (0..sizes.len()).max_by(|a, b| lag(a).total_cmp(&lag(b))).expect("there is a size");
            counts[next] += 1;
            files.push(sizes[next].0.min(total / 2).max(1));
            bytes += files[files.len() - 1];
            stored += stored_bytes(files[files.len() - 1]);
        }
        Self { name: spec.name.clone(), files, threads: spec.threads, file_system }
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().sum()
    }

    /// What all files take in a file system, which stores whole blocks.
    pub fn stored_bytes(&self) -> u64 {
        self.files.iter().map(|&bytes| stored_bytes(bytes)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Size;

    fn set(sizes: &str, total: u64, span_bytes: u64) -> CopySet {
        let spec = CopySpec { name: String::new(), sizes: sizes.into(), total: Size(total), threads: 1 };
        CopySet::new(&spec, FileSystem::Ext4, span_bytes)
    }

    /// A plan once promised 1.9 MiB for a million files of one byte, which take 3.9 GB each time they are written.
    #[test]
    fn files_take_whole_blocks() {
        let small = set("1/100", 1 << 40, 1 << 50);
        assert_eq!((small.files.len(), small.bytes(), small.stored_bytes()), (1_000_000, 1_000_000, 4_096_000_000));
        // Sources and copies fit into two thirds of a small span.
        let tight = set("1/100", 1 << 40, 3 << 20);
        assert_eq!((tight.files.len(), tight.stored_bytes()), (256, 1 << 20));
        let odd = set("5000/100", 10_000, 1 << 30);
        assert_eq!((odd.bytes(), odd.stored_bytes()), (10_000, 16_384));
    }
}
