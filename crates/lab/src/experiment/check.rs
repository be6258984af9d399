//! What an experiment may say: every value within bounds that make sense, with words for who wrote it.

use super::{Arrays, Experiment, LoadSpec, SectionSpec, parse_split};
use crate::result::SectionKind;
use crate::trace::synthetic::{APPLICATIONS, Application};
use std::collections::BTreeMap;

/// What a load's own options of fio's may not change: where it goes, how long it takes, what is recorded of it, and what other keys say.
const OWN_OPTIONS: &[&str] = &[
    "filename",
    "uri",
    "directory",
    "size",
    "io_size",
    "offset",
    "offset_increment",
    "runtime",
    "time_based",
    "ramp_time",
    "bs",
    "blocksize",
    "bssplit",
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "iodepth",
    "numjobs",
    "group_reporting",
    "direct",
    "exec_prerun",
    "exec_postrun",
    "include",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "log_avg_msec",
    "loops",
];

fn within(key: &str, value: f64, from: f64, to: f64) -> Result<(), String> {
    match (from..=to).contains(&value) {
        true => Ok(()),
        false => Err(format!("{key} = {value} cannot be: allowed is {from} to {to}")),
    }
}

impl Experiment {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(format!("name = \"{}\" cannot be: allowed are letters, digits, - _ .", self.name));
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
        // Points show the name only.
        let mut mixes = BTreeMap::new();
        for load in self.section.iter().flat_map(|section| &section.load).filter(|load| !load.mix.is_empty()) {
            let is = (&load.block_split, &load.zones);
            if *mixes.entry(&load.mix).or_insert(is) != is {
                return Err(format!("mix = \"{}\" stands for two different mixes: give each a name of its own", load.mix));
            }
        }
        Ok(())
    }
}

impl Arrays {
    fn check(&self) -> Result<(), String> {
        const LEVELS: [&str; 9] = ["0", "1", "4", "5", "6", "10", "50", "60", "jbod"];
        if let Some(level) = self.levels.iter().find(|level| !LEVELS.contains(&level.as_str())) {
            return Err(format!("arrays.levels: \"{level}\" is no level: allowed are {}", LEVELS.join(", ")));
        }
        for &members in &self.members {
            within("arrays.members", members.into(), 1.0, 256.0)?;
        }
        for strip in &self.strips {
            if !strip.0.is_power_of_two() || !(4096..=1 << 20).contains(&strip.0) {
                return Err(format!("arrays.strips: {} cannot be: allowed is a power of two from 4K to 1M", strip.0));
            }
        }
        Ok(())
    }
}

impl SectionSpec {
    /// It stands after those `before` it.
    fn check(&self, before: &[SectionSpec]) -> Result<(), String> {
        let key = |key: &str| format!("section \"{}\": {key}", self.name);
        if self.name.is_empty() || self.name.contains('/') || before.iter().any(|other| other.name == self.name) {
            return Err(format!(
                "section {}: name = \"{}\" must be unique, not empty and without /",
                before.len() + 1,
                self.name
            ));
        }
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
            return Err(key(&format!("traces: \"{name}\" is no application: there are {names}")));
        }
        if (self.test == SectionKind::FileCopy) == self.copy.is_empty() {
            return Err(key("file-copy needs at least one copy, and no other test has any"));
        }
        for copy in &self.copy {
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
            load.check(&format!("section \"{}\": load {}", self.name, at + 1))?;
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
                return Err(format!("{} = {} cannot be: allowed is a multiple of 512 up to 64M", key("block"), block.0));
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
            parse_split(split).map_err(|problem| format!("{}: {problem}", key("block_split")))?;
        }
        if let Some(zones) = &self.zones {
            parse_split(zones).map_err(|problem| format!("{}: {problem}", key("zones")))?;
        }
        if let Some(parts) = self.parts {
            within(&key("parts"), parts.into(), 2.0, 256.0)?;
        }
        for (option, value) in &self.fio {
            let is_name = option.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if !is_name || OWN_OPTIONS.contains(&option.as_str()) || value.to_string().contains('\n') {
                return Err(format!(
                    "{} cannot be: the lab sets it itself, or it is no option of fio's",
                    key(&format!("fio.{option}"))
                ));
            }
        }
        if self.mix.is_empty() && (self.block_split.is_some() || self.zones.is_some()) {
            return Err(format!("{} must name a load whose requests differ, as mix = \"database\"", key("mix")));
        }
        Ok(())
    }
}
