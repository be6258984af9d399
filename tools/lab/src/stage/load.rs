//! A load that fio makes for some time, and all loads of a line of an experiment.

use crate::experiment::{LoadSpec, parse_split};
use crate::result::{ArrayState, DriveState, IoMode, Pattern};
use crate::units::counted;

/// Requests that differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Its name.
    pub name: String,
    /// Sizes and shares, as fio's `bssplit`.
    pub block_split: Option<String>,
    /// Requests by addresses, as fio's `random_distribution=zoned`.
    pub zones: Option<String>,
}

/// A load for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Order of addresses.
    pub pattern: Pattern,
    /// Bytes of a request, or their mean.
    pub block_bytes: u64,
    /// The mix of requests, if they differ.
    pub mix: Option<Mix>,
    /// Share of reads.
    pub read_percent: u8,
    /// Requests in flight in each thread.
    pub queue_depth: u32,
    /// Threads.
    pub threads: u32,
    /// Share of the data that could be compressed.
    pub compressible_percent: u8,
    /// The mode of access.
    pub mode: IoMode,
    /// The number of writes before each flush.
    pub flush_every: Option<u32>,
    /// The time that is measured.
    pub seconds: f64,
    /// The time before it that does not count.
    pub warmup_seconds: f64,
    /// True if the load gives no result.
    pub preparation: bool,
    /// See [`crate::result::Point::variant`].
    pub variant: String,
    /// The state of the drive.
    pub drive_state: DriveState,
    /// The state of the array.
    pub array_state: ArrayState,
    /// True to store a sample a second.
    pub series: bool,
    /// The index of a part from 0, and the number of equal parts of the span; absent: the entire span.
    pub part: Option<(u32, u32)>,
    /// More options of fio's.
    pub options: Vec<(String, String)>,
}

impl Load {
    /// Bytes of all requests in flight, each as large as the largest.
    pub fn memory_bytes(&self) -> u64 {
        let split = self.mix.as_ref().and_then(|mix| mix.block_split.as_ref());
        let sizes = split.and_then(|split| parse_split(split).ok()).unwrap_or_default();
        let largest = sizes.iter().map(|(bytes, _)| *bytes).fold(self.block_bytes, u64::max);
        largest.saturating_mul(u64::from(self.queue_depth)).saturating_mul(u64::from(self.threads))
    }

    /// One thread with one request in flight; the rest by struct update.
    pub fn new(pattern: Pattern, block_bytes: u64, read_percent: u8, seconds: f64) -> Self {
        Self {
            pattern,
            block_bytes,
            mix: None,
            read_percent,
            queue_depth: 1,
            threads: 1,
            compressible_percent: 0,
            mode: IoMode::Direct,
            flush_every: None,
            seconds,
            warmup_seconds: 0.0,
            preparation: false,
            variant: String::new(),
            drive_state: DriveState::AsFound,
            array_state: ArrayState::Optimal,
            series: false,
            part: None,
            options: Vec::new(),
        }
    }

    /// More words for the varied properties.
    pub(crate) fn also(&mut self, words: &str) {
        let between = if self.variant.is_empty() { "" } else { ", " };
        self.variant = format!("{}{between}{words}", self.variant);
    }
}

/// All combinations of a load's lists.
pub(crate) fn expand(spec: &LoadSpec, seconds: f64, warmup_seconds: f64) -> Vec<Load> {
    let mix = (!spec.mix.is_empty()).then(|| Mix {
        name: spec.mix.clone(),
        block_split: spec.block_split.clone(),
        zones: spec.zones.clone(),
    });
    let mean = spec.block_split.as_ref().map(|split| {
        let parts = parse_split(split).expect("it was checked when it was read");
        parts.iter().map(|(bytes, share)| *bytes as f64 * share / 100.0).sum::<f64>() as u64
    });
    let options: Vec<(String, String)> = spec.fio.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
    let mut words: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.extend(spec.flush_every.map(|writes| format!("a flush after {}", counted(writes, "write", "writes"))));
    let parts: Vec<Option<(u32, u32)>> =
        spec.parts.map_or(vec![None], |parts| (0..parts).map(|part| Some((part, parts))).collect());
    let mut loads = Vec::new();
    for &mode in &spec.mode.0 {
        for &compressible_percent in &spec.compressible_percent.0 {
            for &pattern in &spec.pattern.0 {
                for &read_percent in &spec.read_percent.0 {
                    for block in &spec.block.0 {
                        for &threads in &spec.threads.0 {
                            for &queue_depth in &spec.queue_depth.0 {
                                for &part in &parts {
                                    let part_words = part.map(|(part, of)| format!("part {:02} of {of}", part + 1));
                                    loads.push(Load {
                                        mix: mix.clone(),
                                        queue_depth,
                                        threads,
                                        compressible_percent,
                                        mode,
                                        flush_every: spec.flush_every,
                                        warmup_seconds,
                                        series: true,
                                        part,
                                        options: options.clone(),
                                        variant: part_words.iter().chain(&words).cloned().collect::<Vec<_>>().join(", "),
                                        ..Load::new(pattern, mean.unwrap_or(block.0), read_percent, seconds)
                                    });
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    loads
}
