//! A set of files that is copied.

use crate::experiment::{CopySpec, FileSystem, parse_split};

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

impl CopySet {
    /// As many files as make the total, or a third of the span; the same ones each time.
    pub(crate) fn new(spec: &CopySpec, file_system: FileSystem, span_bytes: u64) -> Self {
        let total = spec.total.0.min(span_bytes / 3);
        let sizes = parse_split(&spec.sizes).expect("it was checked when it was read");
        let mut counts = vec![0_u32; sizes.len()];
        let (mut files, mut bytes) = (Vec::new(), 0);
        // The next size is the one that is farthest below its share; none is larger than half of all.
        while bytes < total && files.len() < 1_000_000 {
            let lag = |at: &usize| sizes[*at].1 * (files.len() + 1) as f64 / 100.0 - f64::from(counts[*at]);
            let next = (0..sizes.len()).max_by(|a, b| lag(a).total_cmp(&lag(b))).expect("there is a size");
            counts[next] += 1;
            files.push(sizes[next].0.min(total / 2).max(1));
            bytes += files[files.len() - 1];
        }
        Self { name: spec.name.clone(), files, threads: spec.threads, file_system }
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().sum()
    }
}
