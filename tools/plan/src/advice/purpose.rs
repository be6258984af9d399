//! The purpose of an array, as loads with their shares of a single drive's time.

use crate::load::{Pattern, Stream};
use serde::{Deserialize, Serialize};

/// One load of a purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its description.
    pub name: String,
    /// The share of a single drive's time that the purpose spends on it.
    pub time_share: f64,
    /// The size of a request.
    pub block_bytes: u64,
    /// The share of reads.
    pub read_share: f64,
    /// The addresses of requests.
    pub pattern: Pattern,
    /// Requests under way, of all threads together.
    pub depth: u32,
    /// The threads that send them; a platform may take time of each.
    pub threads: u32,
    /// The first byte.
    pub offset_bytes: u64,
    /// The space in which the requests lie, if that is known.
    pub footprint_bytes: Option<u64>,
    /// Streams of requests instead of equal ones, see [`crate::load::Load::streams`].
    pub streams: Vec<Stream>,
    /// The rates at which a trace has these requests, if it has times.
    #[serde(default)]
    pub recorded: Option<Recorded>,
}

/// Requests a second of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Over all its time.
    pub mean_per_s: f64,
    /// In its busiest second.
    pub peak_per_s: f64,
}

/// Loads whose time shares add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Purpose {
    /// Its name on the command line.
    pub name: String,
    /// Its description, with the source.
    pub about: String,
    /// Where it was measured, if it was: a trace or a laboratory's run.
    pub measured: Option<String>,
    /// The loads.
    pub parts: Vec<Part>,
}

/// 64: the most loads of a measured purpose. Source: none; each takes as long as a preset.
pub const PARTS_MAX: usize = 64;
/// 32: the most streams of a load, and sizes of a stream. Source: a trace gives four streams of eleven sizes.
const STREAMS_MAX: usize = 32;
/// 4 MiB: the largest request.
pub const BLOCK_BYTES_MAX: u64 = 4 << 20;
/// 4,096: the most requests under way.
pub const DEPTH_MAX: u32 = 4096;
/// 400: the most bytes of a text. Source: none; names of files and experiments are shorter.
const TEXT_BYTES_MAX: usize = 400;

/// The names of the presets.
pub const NAMES: [&str; 5] = ["database", "vm", "media", "backup", "desktop"];

/// Half of a desktop's time on one drive goes to large requests, a third of that to reads: the mean over the traces of
/// [`crate::applications`] on an SSD of 550 MB/s reads, 200 MB/s writes when it is used, and 93 us for a small read
/// (`profiles/drives/ssd520.toml`).
const DESKTOP_LARGE: f64 = 0.50;
const DESKTOP_READS: f64 = 0.33;

impl Purpose {
    /// A preset.
    pub fn preset(name: &str) -> Option<Self> {
        let part = |name: &str, time_share, block_kib: u64, read_share, pattern, depth| Part {
            name: name.to_owned(),
            time_share,
            block_bytes: block_kib << 10,
            read_share,
            pattern,
            depth,
            threads: 1,
            offset_bytes: 0,
            footprint_bytes: None,
            streams: Vec::new(),
            recorded: None,
        };
        let (about, parts) = match name {
            "database" => (
                "8 KiB at random, 90 % reads, 32 under way",
                vec![part("8K random, 90 % reads", 1.0, 8, 0.9, Pattern::Random, 32)],
            ),
            "vm" => (
                "virtual machines: 4 KiB at random, 70 % reads, 64 under way",
                vec![part("4K random, 70 % reads", 1.0, 4, 0.7, Pattern::Random, 64)],
            ),
            "media" => ("1 MiB in order, reads, 8 under way", vec![part("1M reads", 1.0, 1024, 1.0, Pattern::Sequential, 8)]),
            "backup" => ("1 MiB in order, writes, 8 under way", vec![part("1M writes", 1.0, 1024, 0.0, Pattern::Sequential, 8)]),
            "desktop" => {
                let large = |name, share, reads| Part {
                    offset_bytes: 20 << 10,
                    ..part(name, DESKTOP_LARGE * share, 128, reads, Pattern::Sequential, 4)
                };
                (
                    "applications: half of the time 4 KiB reads one by one, else files in 128 KiB, 4 under way",
                    vec![
                        part("4K random reads, 1 under way", 1.0 - DESKTOP_LARGE, 4, 1.0, Pattern::Random, 1),
                        large("128K writes", 1.0 - DESKTOP_READS, 0.0),
                        large("128K reads", DESKTOP_READS, 1.0),
                    ],
                )
            }
            _ => return None,
        };
        Some(Self { name: name.to_owned(), about: about.to_owned(), measured: None, parts })
    }

    /// One load.
    ///
    /// # Errors
    /// A sentence, where the load is invalid.
    pub fn mix(block_bytes: u64, read_share: f64, depth: u32, pattern: Pattern) -> Result<Self, String> {
        if !is_modelled(block_bytes) {
            return Err(format!("requests of {block_bytes} bytes are not modelled: take a multiple of 4K, at most 4M"));
        }
        if !(0.0..=1.0).contains(&read_share) {
            return Err(format!("{} % reads are not possible: use 0 to 100", read_share * 100.0));
        }
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(format!("{depth} requests under way are not modelled: use 1 to 4096"));
        }
        let kind = if pattern == Pattern::Random { "at random" } else { "in order" };
        let name = format!("{}K {kind}, {:.0} % reads, {depth} under way", block_bytes >> 10, read_share * 100.0);
        let threads = 1;
        let part = Part {
            name: name.clone(),
            time_share: 1.0,
            block_bytes,
            read_share,
            pattern,
            depth,
            threads,
            offset_bytes: 0,
            footprint_bytes: None,
            streams: Vec::new(),
            recorded: None,
        };
        Ok(Self { name: "mix".to_owned(), about: name, measured: None, parts: vec![part] })
    }
}

/// True for sizes of requests that are modelled.
pub fn is_modelled(block_bytes: u64) -> bool {
    block_bytes.is_multiple_of(4096) && (4096..=BLOCK_BYTES_MAX).contains(&block_bytes)
}

/// True for shares of which one at least is above 0.
fn are_shares(shares: impl Iterator<Item = f64> + Clone) -> bool {
    shares.clone().all(|share| (0.0..=1e18).contains(&share)) && shares.sum::<f64>() > 0.0
}

impl Part {
    /// The share of its bytes that are written.
    pub fn written_bytes_share(&self) -> f64 {
        let mean = |sizes: &[(u64, f64)]| {
            let all: f64 = sizes.iter().map(|(_, share)| share).sum();
            sizes.iter().map(|(bytes, share)| *bytes as f64 * share / all).sum::<f64>()
        };
        let bytes = |stream: &Stream| stream.share * mean(&stream.sizes);
        let all: f64 = self.streams.iter().map(bytes).sum();
        match all > 0.0 {
            true => self.streams.iter().filter(|stream| stream.write).map(bytes).sum::<f64>() / all,
            false => 1.0 - self.read_share,
        }
    }

    /// What cannot be modelled of it.
    fn defect(&self) -> Option<String> {
        let sizes = |stream: &Stream| {
            stream.sizes.len() <= STREAMS_MAX
                && stream.sizes.iter().all(|(bytes, _)| is_modelled(*bytes))
                && are_shares(stream.sizes.iter().map(|(_, share)| *share))
                && stream.zones.len() <= STREAMS_MAX
                && (stream.zones.is_empty() || are_shares(stream.zones.iter().map(|(requests, _)| *requests)))
                && stream.zones.iter().all(|(_, space)| (0.0..=1.0).contains(space))
        };
        let rates = self.recorded.iter().flat_map(|recorded| [recorded.mean_per_s, recorded.peak_per_s]);
        let streams = self.streams.is_empty() || are_shares(self.streams.iter().map(|stream| stream.share));
        if !is_modelled(self.block_bytes) {
            Some(format!("requests of {} bytes", self.block_bytes))
        } else if !(0.0..=1.0).contains(&self.read_share) {
            Some(format!("{} % reads", self.read_share * 100.0))
        } else if !(1..=DEPTH_MAX).contains(&self.depth) || self.threads == 0 || !self.depth.is_multiple_of(self.threads) {
            Some(format!("{} requests of {} threads under way", self.depth, self.threads))
        } else if self.streams.len() > STREAMS_MAX || !streams || !self.streams.iter().all(sizes) {
            Some("its streams".to_owned())
        } else if !rates.clone().all(|rate| rate.is_finite() && rate >= 0.0) {
            Some("its recorded rates".to_owned())
        } else if self.offset_bytes > 0 || self.name.len() > TEXT_BYTES_MAX {
            Some("its place or name".to_owned())
        } else {
            None
        }
    }
}

impl Purpose {
    /// A purpose that was measured elsewhere: its time shares are made to add up to 1.
    ///
    /// # Errors
    /// A sentence, where it has no load, too many, or one that is not modelled.
    pub fn checked(mut self) -> Result<Self, String> {
        let count = self.parts.len();
        if count == 0 || count > PARTS_MAX {
            return Err(format!("{count} loads are no purpose: 1 to {PARTS_MAX} are modelled"));
        }
        if let Some((part, defect)) = self.parts.iter().find_map(|part| Some((part, part.defect()?))) {
            return Err(format!("the load \"{}\" is not modelled: {defect}", part.name.chars().take(80).collect::<String>()));
        }
        if [&self.name, &self.about].into_iter().chain(&self.measured).any(|text| text.len() > 4 * TEXT_BYTES_MAX) {
            return Err("its name or description is too long".to_owned());
        }
        if !are_shares(self.parts.iter().map(|part| part.time_share)) {
            return Err("the time shares of its loads are not numbers of which one is above 0".to_owned());
        }
        let all: f64 = self.parts.iter().map(|part| part.time_share).sum();
        self.parts.iter_mut().for_each(|part| part.time_share /= all);
        Ok(self)
    }

    /// The same, with so many requests of each load under way.
    ///
    /// # Errors
    /// A sentence, where that is not modelled.
    pub fn with_depth(mut self, depth: u32) -> Result<Self, String> {
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(format!("{depth} requests under way are not modelled: use 1 to {DEPTH_MAX}"));
        }
        self.parts.iter_mut().for_each(|part| (part.depth, part.threads) = (depth, 1));
        self.about += &format!("; {depth} requests under way, as --depth says");
        Ok(self)
    }

    /// The same, with the requests of each load sent by so many threads.
    ///
    /// # Errors
    /// A sentence, where a thread would have no request, or threads not as many as each other.
    pub fn with_threads(mut self, threads: u32) -> Result<Self, String> {
        for part in &mut self.parts {
            if threads == 0 || !part.depth.is_multiple_of(threads) {
                return Err(format!("{} requests under way cannot be shared by {threads} threads evenly", part.depth));
            }
            part.threads = threads;
            if threads > 1 {
                part.name += &format!(", {threads} threads");
            }
        }
        if threads > 1 {
            self.about += &format!(", {threads} threads");
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_every_purpose_add_up() {
        for name in NAMES {
            let purpose = Purpose::preset(name).expect("it has a preset");
            let sum: f64 = purpose.parts.iter().map(|part| part.time_share).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{name}: {sum}");
        }
        assert_eq!(Purpose::preset("games"), None);
    }

    /// A third of the requests write, and each of them has four times the bytes of a read.
    #[test]
    fn large_writes_are_more_of_the_bytes_than_of_the_requests() {
        let stream = |write, share, bytes| Stream {
            share,
            write,
            pattern: Pattern::Random,
            sizes: vec![(bytes, 1.0), (3 * bytes, 1.0)],
            zones: Vec::new(),
        };
        let mut part = Purpose::mix(4096, 2.0 / 3.0, 1, Pattern::Random).expect("a load").parts.remove(0);
        assert!((part.written_bytes_share() - 1.0 / 3.0).abs() < 1e-12);
        part.streams = vec![stream(false, 2.0, 4096), stream(true, 1.0, 16_384)];
        assert!((part.written_bytes_share() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn loads_that_make_no_sense_are_refused() {
        let mix = |bytes, reads, depth| Purpose::mix(bytes, reads, depth, Pattern::Random);
        assert!(mix(4096, 0.5, 1).is_ok());
        assert!(mix(1000, 0.5, 1).is_err_and(|sentence| sentence.contains("multiple of 4K")));
        assert!(mix(8 << 20, 0.5, 1).is_err());
        assert!(mix(4096, 1.2, 1).is_err_and(|sentence| sentence.contains("0 to 100")));
        assert!(mix(4096, f64::NAN, 1).is_err());
        assert!(mix(4096, 0.5, 0).is_err());
        let threads = |threads| mix(4096, 0.5, 32).and_then(|purpose| purpose.with_threads(threads));
        assert!(threads(4).is_ok_and(|purpose| purpose.parts[0].threads == 4));
        assert!(
            threads(0).is_err() && threads(5).is_err_and(|sentence| sentence.contains("by 5 threads")) && threads(64).is_err()
        );
    }
}
