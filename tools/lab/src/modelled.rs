//! Modelled drives and arrays as targets: the models of `stria plan` in virtual time, in the place of a drive and of fio.
//!
//! ```text
//!   model:p4510                        a drive of the catalogue, on the platform stria
//!   model:savvio10k5@lsi2208:5:9:256K  nine of them as RAID 5 of a controller: @PLATFORM, :LEVEL:COUNT[:STRIP[:SPANS]]
//!   model:d3700:bare:12                twelve drives, each by itself
//! ```

use crate::experiment::{Arrays, parse_split, parse_zones};
use crate::fio::sum;
use crate::result::{DriveInfo, Figures, IoMode, Latency, Measured, Pattern};
use crate::stage::Load;
use crate::units::parse_size;
use std::cell::RefCell;
use stria_plan::array::Level;
use stria_plan::load::{self, Latencies};
use stria_plan::profile;
use stria_plan::subject::{Shape, Subject, SubjectSpec};

/// Strip of a modelled array when none is given, as `stria create` has it.
const STRIP_BYTES: u64 = 64 << 10;
/// 128: steps of a histogram between a latency and its double.
const BIN_BITS: u32 = 7;
/// The form of such a target.
const GRAMMAR: &str = "write model:DRIVE[@PLATFORM][:LEVEL:COUNT[:STRIP[:SPANS]]], as model:p4510:5:4:64K; LEVEL is 0, 1, 4, 5, 6, 10, 50, 60 or bare";

/// A platform with the drives that are modelled on it: `lsi2208`, `stria:p4510`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct On {
    platform: String,
    drive: String,
}

impl On {
    /// `PLATFORM[:DRIVE]`; without a drive the one with which the platform was published.
    ///
    /// # Errors
    /// One of them is not in the catalogue, or a drive must be named.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (platform, drive) = text.split_once(':').map_or((text, None), |(platform, drive)| (platform, Some(drive)));
        let usage = |problem: String| format!("--on {text}: {problem}");
        let found = profile::platform(platform).map_err(|error| usage(error.to_string()))?;
        let drive = drive.or_else(|| profile::published_with(platform)).ok_or_else(|| {
            usage(format!("platform {} has no published drives: name the drives too, as --on {platform}:p4510", found.name))
        })?;
        profile::catalogue_drive(drive).map_err(|error| usage(error.to_string()))?;
        Ok(Self { platform: platform.into(), drive: drive.into() })
    }

    /// The arrays of an experiment that are possible there, or one drive if it names none.
    pub(crate) fn models(&self, arrays: Option<&Arrays>) -> Result<Vec<Model>, String> {
        let model = |level: &str, strip, spans, count| Model::new(&self.platform, &self.drive, level, count, strip, spans);
        let Some(arrays) = arrays else { return Ok(vec![model("single", None, None, 1)?]) };
        let mut models = Vec::new();
        for &count in &arrays.members {
            let possible = |model: &Model| model.spec.refusal().is_none();
            let mut add =
                |level: &str, strip, spans| models.extend(model(level, Some(strip), spans, count).ok().filter(possible));
            if arrays.bare {
                add("bare", STRIP_BYTES, None);
            }
            for level in &arrays.levels {
                let nested = is_nested(level);
                for strip in arrays.strips.iter().take(if level == "1" { 1 } else { usize::MAX }) {
                    for spans in arrays.spans.iter().take(if nested { usize::MAX } else { 1 }) {
                        add(level, strip.0, nested.then_some(*spans));
                    }
                }
            }
        }
        match models.is_empty() {
            true => Err(format!("no array of this experiment is modelled on {}", self.platform)),
            false => Ok(models),
        }
    }
}

fn is_nested(level: &str) -> bool {
    level == "50" || level == "60"
}

/// As a target names it.
impl std::fmt::Display for On {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}@{}", self.drive, self.platform)
    }
}

/// A drive that is modelled, or drives as an array or each by itself.
#[derive(Debug)]
pub(crate) struct Model {
    pub spec: SubjectSpec,
    /// "single", "bare", or the RAID level.
    pub level: String,
    pub spans: Option<u32>,
}

impl Model {
    fn new(platform: &str, drive: &str, level: &str, count: u32, strip: Option<u64>, spans: Option<u32>) -> Result<Self, String> {
        let span_count = spans.unwrap_or(2) as usize;
        let shape = match level {
            "single" => Shape::Array(Level::Single),
            "bare" => Shape::Apart,
            "0" => Shape::Array(Level::Raid0),
            "1" => Shape::Array(Level::Raid1),
            "10" => Shape::Array(Level::Raid10),
            "4" => Shape::Array(Level::Raid4),
            "5" => Shape::Array(Level::Raid5 { spans: 1 }),
            "6" => Shape::Array(Level::Raid6 { spans: 1 }),
            "50" => Shape::Array(Level::Raid5 { spans: span_count }),
            "60" => Shape::Array(Level::Raid6 { spans: span_count }),
            _ => return Err(format!("RAID {level} is not modelled: {GRAMMAR}")),
        };
        let spec = SubjectSpec::new(platform, drive, shape, count as usize, strip.unwrap_or(STRIP_BYTES));
        Ok(Self { spec: spec.map_err(|error| error.to_string())?, level: level.into(), spans })
    }

    /// The part of a target behind `model:`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (drive, platform) = parts[0].split_once('@').unwrap_or((parts[0], "stria"));
        let model = match parts[1..] {
            [] => Self::new(platform, drive, "single", 1, None, None)?,
            [level, count, ref rest @ ..] if rest.len() <= 2 => {
                let count = count.parse().ok().filter(|count| (1..=64).contains(count));
                let count = count.ok_or("1 to 64 drives are modelled")?;
                let strip = rest.first().map(|strip| parse_size(strip)).transpose()?;
                let spans = rest.get(1).map(|spans| spans.parse()).transpose().map_err(|_| GRAMMAR)?;
                Self::new(platform, drive, level, count, strip, spans.or(is_nested(level).then_some(2)))?
            }
            _ => return Err(GRAMMAR.into()),
        };
        model.spec.refusal().map_or(Ok(model), Err)
    }

    pub(crate) fn is_array(&self) -> bool {
        !matches!(&*self.level, "single" | "bare")
    }

    pub(crate) fn size_bytes(&self) -> Result<u64, String> {
        Ok(subject(&self.spec)?.size_bytes())
    }
}

fn subject(spec: &SubjectSpec) -> Result<Subject, String> {
    Subject::new(spec.clone(), 1)
}

/// The model that replaces drives and fio.
pub struct Machine(RefCell<Subject>);

impl std::fmt::Debug for Machine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Machine({:?})", self.0.borrow().spec().drive.key)
    }
}

impl Machine {
    /// Drives fresh from the factory.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn new(spec: &SubjectSpec) -> Result<Self, String> {
        Ok(Self(RefCell::new(subject(spec)?)))
    }

    /// The drives, for a report.
    pub fn drives(&self) -> Vec<DriveInfo> {
        let subject = self.0.borrow();
        let SubjectSpec { drive, members, .. } = subject.spec();
        let config = &drive.config.config;
        let info = |index: usize| DriveInfo {
            path: format!("model:{}#{index}", drive.key),
            model: drive.name.clone(),
            transport: "model".into(),
            size_bytes: config.capacity_bytes(),
            rotational: Some(config.is_rotational()),
            write_cache: if config.has_volatile_cache() { "write back".into() } else { "write through".into() },
            rated_written_bytes: drive.config.facts.tbw_tb.map(|tb| (tb * 1e12) as u64),
            source: "the catalogue of stria plan".into(),
            ..DriveInfo::default()
        };
        (0..*members).map(info).collect()
    }

    /// Makes everything as new.
    pub fn purge(&self) {
        self.0.borrow_mut().purge();
    }

    /// See [`Subject::trim`].
    pub fn trim(&self) -> bool {
        self.0.borrow_mut().trim()
    }

    /// Lets the drives idle for so long.
    pub fn idle(&self, seconds: f64) {
        self.0.borrow_mut().idle((seconds * 1e9) as u64);
    }

    /// Writes a multiple of the span. It takes no time, so there is no rate.
    pub fn fill(&self, fills: f64, span_bytes: u64, block_bytes: u64, pattern: Pattern) -> Measured {
        self.0.borrow_mut().fill(fills, span_bytes, block_bytes, order(pattern));
        let bytes = (span_bytes as f64 * fills) as u64;
        let written = Figures { requests: bytes / block_bytes.max(1), bytes, ..Figures::default() };
        Measured { write: Some(written.clone()), total: written, ..Measured::default() }
    }

    /// Requests under way, over all threads.
    pub fn outstanding(&self, load: &Load) -> u32 {
        let (threads, depth) = self.shared(load);
        threads * depth
    }

    /// Threads, and the requests in flight of each. Drives without an array have one thread each.
    fn shared(&self, load: &Load) -> (u32, u32) {
        let subject = self.0.borrow();
        match subject.spec().shape {
            Shape::Array(_) => (load.threads, load.queue_depth),
            Shape::Apart => {
                let members = subject.spec().members as u32;
                (members, (load.threads * load.queue_depth / members).max(1))
            }
        }
    }

    /// Runs a load for its time.
    pub fn measure(&self, load: &Load, span_bytes: u64, offset_bytes: u64) -> Measured {
        let (threads, depth) = self.shared(load);
        let mut subject = self.0.borrow_mut();
        let (at, of) = load.part.unwrap_or((0, 1));
        let span_bytes = (span_bytes / u64::from(of)) >> 20 << 20;
        let mix = load.mix.as_ref();
        let sizes = mix.and_then(|mix| mix.block_split.as_ref()).map(|split| parse_split(split).expect("it was checked"));
        let zones = mix.and_then(|mix| mix.zones.as_ref()).map(|zones| parse_zones(zones).expect("it was checked"));
        let zones = zones.unwrap_or_default().into_iter().map(|(requests, percent)| (requests, percent / 100.0)).collect();
        let modelled = load::Load {
            threads,
            depth,
            block_bytes: load.block_bytes,
            read_share: f64::from(load.read_percent) / 100.0,
            pattern: order(load.pattern),
            offset_bytes: offset_bytes + span_bytes * u64::from(at),
            span_bytes,
            host_ns: 0,
            host_read_ns: 0,
            warm_up: 0,
            requests: 0,
            seed: 0,
            fua: load.mode == IoMode::DirectSync,
            apart: subject.spec().shape == Shape::Apart,
            sizes: sizes.unwrap_or_default(),
            zones,
            streams: Vec::new(),
        };
        let outcome = subject.measure(&modelled, load.seconds);
        let seconds = outcome.duration_ns as f64 / 1e9;
        let share = |latencies: &Latencies| {
            let requests = latencies.count() as u64;
            (requests > 0).then(|| {
                let all = outcome.reads.count() + outcome.writes.count();
                let part = requests as f64 / all as f64;
                let rate = outcome.bytes_per_s * part;
                figures(latencies, outcome.iops * part, rate, seconds)
            })
        };
        let (read, write) = (share(&outcome.reads), share(&outcome.writes));
        let total = sum([&read, &write].into_iter().flatten());
        Measured { seconds, read, write, total, ..Measured::default() }
    }
}

fn order(pattern: Pattern) -> load::Pattern {
    match pattern {
        Pattern::Random => load::Pattern::Random,
        Pattern::Sequential => load::Pattern::Sequential,
    }
}

/// The latency that represents a bin.
fn bin(ns: u64) -> u64 {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BIN_BITS + 1);
    (ns >> shift << shift) + ((1 << shift) >> 1)
}

fn figures(latencies: &Latencies, iops: f64, bytes_per_s: f64, seconds: f64) -> Figures {
    let all = latencies.sorted_ns();
    let mean_ns = latencies.mean_ns();
    let variance = all.iter().map(|&ns| (ns as f64 - mean_ns).powi(2)).sum::<f64>() / all.len() as f64;
    let mut bins: Vec<(u64, u64)> = Vec::new();
    // A bin's own value may lie beyond the extremes, and no latency does.
    let within = |ns: u64| ns.clamp(all.first().copied().unwrap_or(0), all.last().copied().unwrap_or(u64::MAX));
    for at in all.iter().map(|&ns| within(bin(ns))) {
        match bins.last_mut() {
            Some((ns, count)) if *ns == at => *count += 1,
            _ => bins.push((at, 1)),
        }
    }
    let latency = Latency {
        min_ns: all.first().map_or(0.0, |&ns| ns as f64),
        max_ns: all.last().map_or(0.0, |&ns| ns as f64),
        mean_ns,
        stddev_ns: variance.sqrt(),
        bins,
        ..Latency::default()
    };
    let (requests, bytes) = (all.len() as u64, (bytes_per_s * seconds).round() as u64);
    // Percentiles come from the histogram, as fio's do.
    sum([&Figures { requests, bytes, iops, mb_per_s: bytes_per_s / 1e6, latency, submission: None, completion: None }])
}

/// The reason why a load is not modelled.
pub(crate) fn impossible(load: &Load) -> Option<&'static str> {
    match load.mode {
        IoMode::Cached | IoMode::WriteThrough | IoMode::Sparse => Some("page caches and files are not modelled"),
        IoMode::Direct | IoMode::DirectSync if load.compressible_percent > 0 => Some("data that compress are not modelled"),
        IoMode::Direct | IoMode::DirectSync if load.flush_every.is_some() => Some("flushes between writes are not modelled"),
        IoMode::Direct | IoMode::DirectSync if !load.options.is_empty() => Some("options of fio are not modelled"),
        IoMode::Direct | IoMode::DirectSync => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_and_what_cannot_be_is_refused_in_words() {
        let model = Model::parse("p4510").expect("a drive");
        assert!(!model.is_array());
        assert_eq!(model.size_bytes().expect("it has a size") / 1_000_000_000_000, 4);
        let model = Model::parse("savvio10k5@lsi2208:50:9:256K:3").expect("an array");
        assert_eq!((&*model.level, model.spans, model.spec.strip_bytes), ("50", Some(3), 256 << 10));
        assert!(model.spec.platform.name.contains("LSI 2208") && model.spec.drive.name.contains("Savvio"));
        for (rest, words) in [
            ("", "no such drive"),
            ("p4510@mars", "no such platform"),
            ("p4510:5", "write model:"),
            ("p4510:3:4", "RAID 3 is not modelled"),
            ("p4510@lsi2208:5:2", "ask for 3 drives or more"),
            ("p4510:5:900", "1 to 64"),
            ("p4510:5:4:48K", "invalid strip"),
            ("p4510:5:4:x", "is not a size"),
            ("p4510:50:8:64K:x", "write model:"),
            ("p4510:0:2:64K:1:1", "write model:"),
        ] {
            let error = Model::parse(rest).expect_err(rest);
            assert!(error.contains(words), "{rest}: {error}");
        }
        assert!(On::parse("stria").is_err_and(|error| error.contains("name the drives")));
        assert!(On::parse("mars").is_err() && On::parse("stria:mars").is_err());
        assert_eq!(On::parse("lsi2208").expect("published").drive, "savvio10k5");
    }

    #[test]
    fn bins_are_within_a_percent() {
        for ns in [0, 1, 100, 255, 256, 12_345, 88_500, 7_000_000, u64::from(u32::MAX) * 1000] {
            let found = bin(ns);
            assert!(found.abs_diff(ns) * 100 <= ns, "{ns}: {found}");
            assert!(bin(ns + 1) >= found);
        }
    }
}
