//! Checks an experiment: every value must be within sensible bounds. An error names the remedy.

use super::{Arrays, CopySpec, Experiment, LoadSpec, SectionSpec, options, parse_split, parse_zones};
use crate::result::SectionKind;
use crate::trace::synthetic::{APPLICATIONS, Application};
use crate::units::show_number;
use std::collections::BTreeMap;
use stria_block::shown;

/// The most loads of all sections together.
const LOADS_MAX: usize = 10_000;
/// The most arrays that `arrays` names.
const ARRAYS_MAX: usize = 4096;
const SECTIONS_MAX: usize = 256;
/// The most files of all copies together: their sizes are listed before the run begins.
const FILES_MAX: u64 = 4_000_000;
/// The longest heading or question.
const WORDS_BYTES_MAX: usize = 2000;

/// Texts that reach terminals, pages and job files must be printable and short.
fn printable(key: &str, words: &str) -> Result<(), String> {
    match words.len() <= WORDS_BYTES_MAX && !words.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(format!("invalid {key}: at most {WORDS_BYTES_MAX} bytes without control characters")),
    }
}

/// Keys of a section that only some tests use; all other keys are for every test.
const KEYS: &[(&str, &[SectionKind])] = {
    use SectionKind::{Composite, Dirth, FileCopy, Hir, Iops, Latency, Raid, Replay, States, Sweep, Throughput, Wsat, Xsr};
    &[
        ("state", &[Sweep, Replay]),
        ("passes", &[Sweep, Replay, States, Raid, FileCopy]),
        ("warmup", &[Sweep, States, Raid]),
        ("seconds", &[Sweep, States, Raid, Iops, Throughput, Latency, Wsat, Hir, Xsr, Dirth, Composite]),
        ("idle", &[States]),
        ("load", &[Sweep, States, Raid]),
        ("copy", &[FileCopy]),
        ("file_system", &[FileCopy]),
        ("traces", &[Replay]),
        ("queue_depth", &[Iops, Throughput, Latency, Wsat, Hir, Xsr, Dirth, Composite]),
        ("threads", &[Iops, Throughput, Latency, Wsat, Hir, Xsr, Dirth, Composite]),
        ("read_percent", &[Dirth]),
    ]
};

/// A key without effect is refused, as its author expects an effect.
pub(super) fn keys_apply(experiment: &Experiment, table: &toml::Table) -> Result<(), String> {
    let tables = table.get("section").and_then(toml::Value::as_array).into_iter().flatten();
    for (section, table) in experiment.section.iter().zip(tables) {
        let given = |key: &str| table.get(key).is_some();
        if let Some((key, tests)) = KEYS.iter().find(|(key, tests)| given(key) && !tests.contains(&section.test)) {
            let word = |test: &SectionKind| serde_json::to_string(test).unwrap_or_default().replace('"', "");
            let tests: Vec<String> = tests.iter().map(word).collect();
            let (name, test) = (shown(&section.name), word(&section.test));
            return Err(format!(
                "section \"{name}\": {key} does nothing in the test {test}: remove it; it is for {}",
                tests.join(", ")
            ));
        }
    }
    Ok(())
}

fn within(key: &str, value: f64, from: f64, to: f64) -> Result<(), String> {
    match (from..=to).contains(&value) {
        true => Ok(()),
        false => Err(format!("invalid {key} = {}: allowed is {from} to {to}", show_number(value))),
    }
}

impl Experiment {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(format!("invalid name = \"{}\": allowed are letters, digits, - _ .", shown(&self.name)));
        }
        printable("title", &self.title)?;
        printable("question", &self.question)?;
        within("the number of sections", self.section.len() as f64, 0.0, SECTIONS_MAX as f64)?;
        let loads = self.load_count();
        if loads > LOADS_MAX {
            return Err(format!("the lists of all loads make {loads} together: at most {LOADS_MAX} are measured"));
        }
        if self.section.is_empty() {
            return Err("there is no [[section]]: an experiment needs at least one".into());
        }
        within("scaled.seconds", self.scaled.seconds, 0.1, 60.0)?;
        within("scaled.passes_max", self.scaled.passes_max.into(), 1.0, 1000.0)?;
        within("scaled.rounds_max", self.scaled.rounds_max.into(), 1.0, 25.0)?;
        within("scaled.samples_max", self.scaled.samples_max.into(), 1.0, 1440.0)?;
        within("scaled.span", self.scaled.span.0 as f64, (8 << 20) as f64, 1e15)?;
        for arrays in [self.arrays(false), self.arrays(true)].into_iter().flatten() {
            arrays.check()?;
        }
        for (at, section) in self.section.iter().enumerate() {
            section.check(&self.section[..at])?;
        }
        let files = self.section.iter().flat_map(|section| &section.copy).map(CopySpec::files_max).fold(0, u64::saturating_add);
        if files > FILES_MAX {
            return Err(format!(
                "the copies of all sections have up to {files} files together, and at most {FILES_MAX} are copied: copy fewer sets, \
                 a smaller total, or larger files"
            ));
        }
        // Points show the name only.
        let mut mixes = BTreeMap::new();
        for load in self.section.iter().flat_map(|section| &section.load).filter(|load| !load.mix.is_empty()) {
            let is = (&load.block_split, &load.zones);
            if *mixes.entry(&load.mix).or_insert(is) != is {
                return Err(format!("mix = \"{}\" names two different mixes: give each a name of its own", load.mix));
            }
        }
        Ok(())
    }
}

impl Arrays {
    fn check(&self) -> Result<(), String> {
        const LEVELS: [&str; 9] = ["0", "1", "4", "5", "6", "10", "50", "60", "jbod"];
        if let Some(level) = self.levels.iter().find(|level| !LEVELS.contains(&level.as_str())) {
            return Err(format!("arrays.levels: \"{level}\" is not a level: allowed are {}", LEVELS.join(", ")));
        }
        let product = [self.levels.len(), self.members.len(), self.strips.len(), self.spans.len()];
        let arrays = product.iter().fold(1_usize, |product, count| product.saturating_mul(*count));
        if arrays > ARRAYS_MAX {
            return Err(format!("arrays: the lists make {arrays} arrays: at most {ARRAYS_MAX} are measured"));
        }
        for &spans in &self.spans {
            within("arrays.spans", spans.into(), 2.0, 128.0)?;
        }
        for &members in &self.members {
            within("arrays.members", members.into(), 1.0, 256.0)?;
        }
        for strip in &self.strips {
            if !strip.0.is_power_of_two() || !(4096..=1 << 20).contains(&strip.0) {
                return Err(format!("arrays.strips: invalid strip {}: allowed is a power of two from 4K to 1M", strip.0));
            }
        }
        Ok(())
    }
}

impl SectionSpec {
    /// The replay comes after `before` it.
    fn check(&self, before: &[SectionSpec]) -> Result<(), String> {
        let key = |key: &str| format!("section \"{}\": {key}", shown(&self.name));
        if self.name.is_empty() || self.name.contains('/') || before.iter().any(|other| other.name == self.name) {
            return Err(format!(
                "section {}: name = \"{}\" must be unique, not empty and without /",
                before.len() + 1,
                shown(&self.name)
            ));
        }
        printable(&key("name"), &self.name)?;
        printable(&key("title"), &self.title)?;
        within(&key("number of traces"), self.traces.len() as f64, 0.0, 100.0)?;
        within(&key("number of copies"), self.copy.len() as f64, 0.0, 100.0)?;
        within(&key("seconds"), self.seconds, 0.5, 86400.0)?;
        within(&key("warmup"), self.warmup, 0.0, 86400.0)?;
        within(&key("idle"), self.idle, 0.0, 864_000.0)?;
        within(&key("passes"), self.passes.into(), 1.0, 1000.0)?;
        within(&key("queue_depth"), self.queue_depth.into(), 1.0, 4096.0)?;
        within(&key("threads"), self.threads.into(), 1.0, 1024.0)?;
        within(&key("read_percent"), self.read_percent.into(), 0.0, 100.0)?;
        let needs_loads = matches!(self.test, SectionKind::Sweep | SectionKind::States | SectionKind::Raid);
        if (self.test == SectionKind::Replay) == self.traces.is_empty() {
            return Err(key(
                "replay needs at least one of traces, and no other test has any; a file is replayed by stria lab replay",
            ));
        }
        if let Some(name) = self.traces.iter().find(|name| Application::named(name).is_none()) {
            let names = APPLICATIONS.map(|application| application.name).join(", ");
            return Err(key(&format!("traces: \"{name}\" is not an application: there are {names}")));
        }
        if (self.test == SectionKind::FileCopy) == self.copy.is_empty() {
            return Err(key("file-copy needs at least one copy, and no other test has any"));
        }
        for copy in &self.copy {
            printable(&key("copy.name"), &copy.name)?;
            parse_split(&copy.sizes).map_err(|problem| format!("{}: {problem}", key("copy.sizes")))?;
            within(&key("copy.threads"), copy.threads.into(), 1.0, 1024.0)?;
            within(&key("copy.total"), copy.total.0 as f64, 4096.0, 1e15)?;
        }
        if needs_loads == self.load.is_empty() {
            let rule = match self.test {
                _ if needs_loads => "needs at least one load",
                SectionKind::FileCopy => "copies files and takes no load",
                SectionKind::Replay => "replays traces and takes no load",
                _ => "is fixed by SNIA and takes no load",
            };
            return Err(key(&format!("the test {rule}")));
        }
        for (at, load) in self.load.iter().enumerate() {
            load.check(&format!("section \"{}\": load {}", shown(&self.name), at + 1))?;
        }
        Ok(())
    }
}

impl LoadSpec {
    /// It stands `at` this place, in words.
    fn check(&self, at: &str) -> Result<(), String> {
        let key = |name: &str| format!("{at}: {name}");
        for block in &self.block.0 {
            if block.0 < 512 || block.0 % 512 != 0 || block.0 > 64 << 20 {
                return Err(format!("invalid {} = {}: allowed is a multiple of 512 up to 64M", key("block"), block.0));
            }
        }
        for &share in self.read_percent.0.iter().chain(&self.compressible_percent.0) {
            within(&key("read_percent and compressible_percent"), share.into(), 0.0, 100.0)?;
        }
        for &depth in &self.queue_depth.0 {
            within(&key("queue_depth"), depth.into(), 1.0, 4096.0)?;
        }
        for &threads in &self.threads.0 {
            within(&key("threads"), threads.into(), 1.0, 1024.0)?;
        }
        if let Some(split) = &self.block_split {
            let parts = parse_split(split).map_err(|problem| format!("{}: {problem}", key("block_split")))?;
            if let Some((bytes, _)) = parts.iter().find(|(bytes, _)| *bytes < 512 || bytes % 512 != 0 || *bytes > 64 << 20) {
                return Err(format!("{}: invalid size {bytes}: allowed is a multiple of 512 up to 64M", key("block_split")));
            }
        }
        printable(&key("mix"), &self.mix)?;
        if let Some(zones) = &self.zones {
            parse_zones(zones).map_err(|problem| format!("{}: {problem}", key("zones")))?;
        }
        if let Some(writes) = self.flush_every {
            within(&key("flush_every"), writes.into(), 1.0, 1e9)?;
        }
        if let Some(parts) = self.parts {
            within(&key("parts"), parts.into(), 2.0, 256.0)?;
        }
        for (option, value) in &self.fio {
            options::check(option, value)
                .map_err(|problem| format!("{} cannot be used: {problem}", key(&format!("fio.{option}"))))?;
        }
        options::check_together(&self.fio).map_err(|problem| key(&problem))?;
        if self.mix.is_empty() && (self.block_split.is_some() || self.zones.is_some()) {
            return Err(format!("{} must name a load whose requests differ, as mix = \"database\"", key("mix")));
        }
        Ok(())
    }
}
