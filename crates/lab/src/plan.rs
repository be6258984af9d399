//! From an experiment and its targets to what will run, how long it takes and how much it writes.

use crate::experiment::{CopySpec, Experiment, FileSystem, LoadSpec, Prepare, Scaling, SectionSpec, parse_split};
use crate::raid_runs;
use crate::result::{ArrayState, DriveState, IoMode, Pattern, Scaled, SectionKind};
use crate::snia::{self, Choice, Demand, ROUNDS_MAX, WINDOW_ROUNDS};
use crate::target::TargetSpec;
use crate::units::{show_seconds, show_size};
use serde::Serialize;

/// How long things take, and how often they are done.
#[derive(Clone, Debug, Default)]
pub struct Scale(Option<Scaling>);

impl Scale {
    /// The method's own times, or those of a trial.
    pub fn new(scaling: Option<Scaling>) -> Self {
        Self(scaling)
    }

    /// It is a trial.
    pub fn is_scaled(&self) -> bool {
        self.0.is_some()
    }

    /// Seconds for what should take so long: a trial takes its share of a minute, half a second at least (or all of a shorter
    /// one), and no longer than ten such shares.
    pub fn seconds(&self, seconds: f64) -> f64 {
        self.0
            .as_ref()
            .map_or(seconds, |scaling| (seconds * scaling.seconds / 60.0).clamp(scaling.seconds.min(0.5), 10.0 * scaling.seconds))
    }

    /// Rounds at most.
    pub fn rounds(&self, rounds: u32) -> u32 {
        self.0.as_ref().map_or(rounds, |scaling| rounds.min(scaling.rounds_max))
    }

    /// Passes at most.
    pub fn passes(&self, passes: u32) -> u32 {
        self.0.as_ref().map_or(passes, |scaling| passes.min(scaling.passes_max))
    }

    /// Repetitions of what is repeated for hours.
    pub fn samples(&self, samples: u32) -> u32 {
        self.0.as_ref().map_or(samples, |scaling| samples.min(scaling.samples_max))
    }

    /// Bytes of a target that are used.
    pub fn span(&self, size_bytes: u64) -> u64 {
        let span = self.0.as_ref().map_or(size_bytes, |scaling| size_bytes.min(scaling.span.0));
        // Whole MiB, so that every block size fits.
        if span >= 1 << 20 { span >> 20 << 20 } else { span }
    }

    /// What a report prints about it.
    pub fn words(&self) -> Option<Scaled> {
        self.0.as_ref().map(|scaling| Scaled {
            time_share: scaling.seconds / 60.0,
            span_bytes: Some(scaling.span.0),
            rounds_max: Some(scaling.rounds_max),
            words: format!(
                "Scaled trial, not a measurement by the method: {} for a minute, at most {} of the target, {} rounds, {} passes and {} repetitions.",
                show_seconds(scaling.seconds),
                show_size(scaling.span.0),
                scaling.rounds_max,
                scaling.passes_max,
                scaling.samples_max
            ),
        })
    }
}

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
    /// Requests that differ.
    pub mix: Option<Mix>,
    /// Share of reads.
    pub read_percent: u8,
    /// Requests in flight in each thread.
    pub queue_depth: u32,
    /// Threads.
    pub threads: u32,
    /// Share of the data that could be compressed.
    pub compressible_percent: u8,
    /// How requests are made.
    pub mode: IoMode,
    /// A flush after so many writes.
    pub flush_every: Option<u32>,
    /// Measured.
    pub seconds: f64,
    /// Before that.
    pub warmup_seconds: f64,
    /// No result.
    pub preparation: bool,
    /// See [`crate::result::Point::variant`].
    pub variant: String,
    /// The drive then.
    pub drive_state: DriveState,
    /// The array then.
    pub array_state: ArrayState,
    /// Keep a sample a second.
    pub series: bool,
    /// One of so many equal parts of the span, counted from 0; absent: all of it.
    pub part: Option<(u32, u32)>,
    /// More options of fio's.
    pub options: Vec<(String, String)>,
}

impl Load {
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
}

/// What is done to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaidAction {
    /// Its first member fails.
    Fail,
    /// That member comes back empty: a rebuild begins.
    Refill,
    /// Everything is compared.
    Scrub,
}

/// A step of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make it as new.
    Purge,
    /// Write all of the span, so many times; a preparation with a record.
    Fill {
        /// Times.
        fills: f64,
        /// Size of requests.
        block_bytes: u64,
        /// Order; random: as many requests as fill it, anywhere.
        pattern: Pattern,
    },
    /// Measure.
    Load(Load),
    /// Measure at the threads and depth that the rounds before it tell.
    Demand(Demand, Load),
    /// Measure, and do this to the array as soon as the load runs.
    LoadDuring(Load, RaidAction),
    /// Do this to the array.
    Raid(RaidAction),
    /// Until no rebuild or scrub runs.
    WaitForSweep,
    /// Leave it alone.
    Idle {
        /// So long.
        seconds: f64,
    },
    /// Discard all of the span, through the target.
    Trim,
    /// Copy files in a file system on the target.
    Copy(CopySet),
}

/// Files that are copied.
#[derive(Clone, Debug, PartialEq)]
pub struct CopySet {
    /// What they are.
    pub name: String,
    /// Their sizes, in the order in which they are made.
    pub files: Vec<u64>,
    /// Files at a time.
    pub threads: u32,
    /// Where there is no file system.
    pub file_system: FileSystem,
}

impl CopySet {
    /// As many files as make the total, or a third of the span; the same ones each time.
    fn new(spec: &CopySpec, file_system: FileSystem, span_bytes: u64) -> Self {
        let total = spec.total.0.min(span_bytes / 3);
        let sizes = parse_split(&spec.sizes).expect("it was checked when it was read");
        let mut counts = vec![0_u32; sizes.len()];
        let (mut files, mut bytes) = (Vec::new(), 0);
        // The size that lags farthest behind its share comes next; none is larger than half of all.
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

impl Step {
    /// Its load, if fio runs for a time.
    pub fn load(&self) -> Option<&Load> {
        match self {
            Self::Load(load) | Self::Demand(_, load) | Self::LoadDuring(load, _) => Some(load),
            Self::Purge | Self::Fill { .. } | Self::Raid(_) | Self::WaitForSweep => None,
            Self::Idle { .. } | Self::Trim | Self::Copy(_) => None,
        }
    }
}

/// What of a load is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests per second.
    Iops,
    /// 10^6 bytes per second.
    MbPerS,
    /// Mean latency in microseconds.
    LatencyUs,
}

impl Metric {
    /// Of a record.
    pub fn of(self, record: &crate::result::Record) -> f64 {
        match self {
            Self::Iops => record.total.iops,
            Self::MbPerS => record.total.mb_per_s,
            Self::LatencyUs => record.total.latency.mean_ns / 1e3,
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerS => "MB/s",
            Self::LatencyUs => "us",
        }
    }
}

/// How often a stage is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Rounds {
    /// So often.
    Times(u32),
    /// Until what is tracked is steady.
    UntilSteady {
        /// Index of the tracked step in the stage.
        step: usize,
        /// What of it.
        metric: Metric,
        /// In words.
        tracked: String,
        /// At most.
        rounds_max: u32,
        /// Every so-manieth round counts.
        stride: u32,
        /// Or until so much is written.
        bytes_max: Option<u64>,
    },
    /// While a rebuild or scrub runs, at most so often; never, if it has ended already.
    WhileSweep(u32),
}

/// Steps that are done together, in rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// For progress.
    pub title: String,
    /// What.
    pub steps: Vec<Step>,
    /// How often.
    pub rounds: Rounds,
}

impl Stage {
    /// In rounds.
    pub fn new(title: &str, steps: Vec<Step>, rounds: Rounds) -> Self {
        Self { title: title.into(), steps, rounds }
    }

    /// Done once.
    pub fn once(title: &str, steps: Vec<Step>) -> Self {
        Self::new(title, steps, Rounds::Times(1))
    }

    /// Fewest and most rounds.
    pub fn rounds_range(&self) -> (u32, u32) {
        match &self.rounds {
            Rounds::Times(times) => (*times, *times),
            Rounds::UntilSteady { rounds_max, stride, .. } => ((stride * (WINDOW_ROUNDS - 1) + 1).min(*rounds_max), *rounds_max),
            Rounds::WhileSweep(most) => (0, *most),
        }
    }
}

/// The stages of a section on a span of a target.
pub fn stages(section: &SectionSpec, span_bytes: u64, small_blocks: bool, scale: &Scale) -> Vec<Stage> {
    let seconds = scale.seconds(section.seconds);
    let (passes, warmup) = (scale.passes(section.passes), if scale.is_scaled() { 0.0 } else { section.warmup });
    let loads = |state: DriveState| -> Vec<Load> {
        let all =
            section.load.iter().flat_map(|spec| expand(spec, seconds, warmup)).map(|load| Load { drive_state: state, ..load });
        all.filter(|load| small_blocks || load.block_bytes >= 4096).collect()
    };
    let steps = |state| loads(state).into_iter().map(Step::Load).collect::<Vec<_>>();
    let fill =
        |fills, pattern| Step::Fill { fills, block_bytes: if pattern == Pattern::Random { 4096 } else { 128 << 10 }, pattern };
    match section.test {
        SectionKind::FileCopy => {
            let set = |spec| Step::Copy(CopySet::new(spec, section.file_system, span_bytes));
            let copies = section.copy.iter().map(set).collect();
            vec![Stage::once("purge", vec![Step::Purge]), Stage::new("passes", copies, Rounds::Times(passes))]
        }
        SectionKind::Sweep => {
            let (prepare, state) = match section.state {
                Prepare::AsFound => (vec![], DriveState::AsFound),
                Prepare::Fresh => (vec![Step::Purge], DriveState::Fresh),
                Prepare::Filled => (vec![Step::Purge, fill(1.0, Pattern::Sequential)], DriveState::Used),
                Prepare::Used => {
                    (vec![Step::Purge, fill(2.0, Pattern::Sequential), fill(1.0, Pattern::Random)], DriveState::Used)
                }
            };
            let mut stages = Vec::new();
            if !prepare.is_empty() {
                stages.push(Stage::once("preparation", prepare));
            }
            stages.push(Stage::new("passes", steps(state), Rounds::Times(passes)));
            stages
        }
        // The reviews' own protocol: there is no test of SNIA's for it. Everything relative to fresh.
        SectionKind::States => {
            let measure = |title: &str, before: Vec<Step>, state| {
                let mut stages = vec![Stage::once(title, before)];
                stages.push(Stage::new(title, steps(state), Rounds::Times(passes)));
                stages
            };
            [
                measure("fresh", vec![Step::Purge], DriveState::Fresh),
                measure("used", vec![fill(1.0, Pattern::Sequential), fill(1.0, Pattern::Random)], DriveState::Used),
                measure("idle", vec![Step::Idle { seconds: scale.seconds(section.idle) }], DriveState::Idle),
                measure("trimmed", vec![Step::Trim, Step::Idle { seconds: scale.seconds(10.0) }], DriveState::Trimmed),
            ]
            .concat()
        }
        SectionKind::Raid => raid_runs::stages(&loads(DriveState::Used), passes, fill(1.0, Pattern::Sequential)),
        SectionKind::Replay => Vec::new(),
        kind => {
            let SectionSpec { queue_depth, threads, read_percent, .. } = *section;
            snia::stages(kind, Choice { queue_depth, threads, read_percent, small_blocks }, span_bytes, scale)
        }
    }
}

/// All products of a load's lists.
fn expand(spec: &LoadSpec, seconds: f64, warmup_seconds: f64) -> Vec<Load> {
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
    let words: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
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

// -------------------------------------------------------------------------------------------------------------------- dry run

/// What will run on what.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The experiment.
    pub experiment: String,
    /// The mark of a trial.
    pub scaled: Option<String>,
    /// Parts, in the order in which they run.
    pub sections: Vec<PlannedSection>,
    /// Seconds, at least.
    pub seconds_min: f64,
    /// Seconds, at most, when nothing becomes steady early.
    pub seconds_max: f64,
    /// Bytes written to targets, at most.
    pub bytes_max: u64,
    /// Bytes written to the most written drive, at most; by the arrays' write penalty.
    pub drive_bytes_max: u64,
    /// That as a share of what the maker allows, in percent; absent when that is not known.
    pub endurance_percent: Option<f64>,
    /// The speed that was assumed for loads that write for a time.
    pub assumed_mb_per_s: f64,
}

/// A section on a target.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedSection {
    /// [`crate::result::Section::id`].
    pub id: String,
    /// Test.
    pub kind: SectionKind,
    /// Target.
    pub target: String,
    /// Bytes of it that are used.
    pub span_bytes: u64,
    /// Results of a round, over all stages.
    pub loads: usize,
    /// Rounds of the longest stage: fewest and most.
    pub rounds: (u32, u32),
    /// Seconds, fewest and most.
    pub seconds: (f64, f64),
    /// Bytes written, fewest and most.
    pub bytes: (u64, u64),
    /// What is done, stage by stage, in words.
    pub words: Vec<String>,
    /// Everything on it is overwritten.
    pub destroys: bool,
}

/// How much longer a rebuild or scrub is taken to last under load than alone.
const SWEEP_SLOWDOWN: f64 = 4.0;

/// Seconds and bytes of one step at an assumed speed.
pub fn step_cost(step: &Step, span_bytes: u64, mb_per_s: f64) -> (f64, u64) {
    let bytes_per_s = mb_per_s * 1e6;
    match step {
        Step::Purge | Step::Trim | Step::Raid(_) => (1.0, 0),
        Step::WaitForSweep => (span_bytes as f64 / bytes_per_s, 0),
        Step::Idle { seconds } => (*seconds, 0),
        Step::Fill { fills, .. } => {
            let bytes = span_bytes as f64 * fills;
            (bytes / bytes_per_s, bytes as u64)
        }
        // Made once, read and written again in each pass.
        Step::Copy(set) => (2.0 * set.bytes() as f64 / bytes_per_s, 2 * set.bytes()),
        Step::Load(load) | Step::Demand(_, load) | Step::LoadDuring(load, _) => {
            let seconds = load.seconds + load.warmup_seconds;
            let bytes = seconds * bytes_per_s * f64::from(100 - load.read_percent) / 100.0;
            // fio takes a moment to start and to end.
            (seconds + 0.3, bytes as u64)
        }
    }
}

/// Whether a step writes to the target, or makes it lose what it holds.
pub fn destroys(step: &Step) -> bool {
    match step {
        Step::Purge | Step::Trim | Step::Fill { .. } | Step::Raid(_) | Step::LoadDuring(..) | Step::Copy(_) => true,
        // Options of fio's may make a write of anything.
        Step::Load(load) | Step::Demand(_, load) => load.read_percent < 100 || !load.options.is_empty(),
        Step::WaitForSweep | Step::Idle { .. } => false,
    }
}

/// Bytes that the most written drive takes for a byte that the array takes, for random writes smaller than a stripe: the worst.
pub fn drive_share(level: Option<&str>, members: u32) -> f64 {
    let n = f64::from(members.max(1));
    match level {
        Some("1") => 1.0,
        Some("10") => (2.0 / n).min(1.0),
        Some("4") => 1.0,
        Some("5" | "50") => 2.0 / n,
        Some("6" | "60") => 3.0 / n,
        Some("jbod") | None => 1.0,
        Some(_) => 1.0 / n,
    }
}

/// Plans an experiment on targets whose sizes are known or assumed.
pub fn plan(
    experiment: &Experiment,
    targets: &[TargetSpec],
    scale: &Scale,
    assumed_mb_per_s: f64,
    rated_bytes: Option<u64>,
) -> Plan {
    let mut sections = Vec::new();
    let (mut drive_bytes, mut total) = (0.0, (0.0, 0.0, 0_u64));
    for target in targets {
        let span_bytes = scale.span(target.size_bytes());
        for (at, section) in experiment.section.iter().enumerate() {
            if section.test == SectionKind::Raid && !target.can_degrade() {
                continue;
            }
            let stages = stages(section, span_bytes, true, scale);
            let (mut seconds, mut bytes, mut rounds) = ((0.0, 0.0), (0, 0), (1, 1));
            let mut words = Vec::new();
            for stage in &stages {
                let (fewest, mut most) = stage.rounds_range();
                if let (Rounds::WhileSweep(_), Some(load)) = (&stage.rounds, stage.steps.first().and_then(Step::load)) {
                    let sweep_seconds = target.member_bytes() as f64 / (assumed_mb_per_s * 1e6) * SWEEP_SLOWDOWN;
                    most = most.min((sweep_seconds / load.seconds).ceil() as u32);
                }
                rounds = (rounds.0.max(fewest), rounds.1.max(most));
                let (mut stage_seconds, mut stage_bytes) = (0.0, 0);
                for step in &stage.steps {
                    let (step_seconds, step_bytes) = step_cost(step, span_bytes, assumed_mb_per_s);
                    stage_seconds += step_seconds;
                    stage_bytes += step_bytes;
                }
                seconds = (seconds.0 + stage_seconds * f64::from(fewest), seconds.1 + stage_seconds * f64::from(most));
                let most_bytes = match stage.rounds {
                    Rounds::UntilSteady { bytes_max: Some(cap), .. } => (stage_bytes * u64::from(most)).min(cap + stage_bytes),
                    Rounds::Times(_) | Rounds::UntilSteady { .. } | Rounds::WhileSweep(_) => stage_bytes * u64::from(most),
                };
                bytes = (bytes.0 + (stage_bytes * u64::from(fewest)).min(most_bytes), bytes.1 + most_bytes);
                words.push(stage_words(stage));
            }
            let sure = stages.iter().filter(|stage| !matches!(stage.rounds, Rounds::WhileSweep(_)));
            let loads = sure.flat_map(|stage| &stage.steps).filter(|step| match step {
                Step::Copy(_) => true,
                step => step.load().is_some_and(|load| !load.preparation),
            });
            let loads = loads.count();
            drive_bytes += bytes.1 as f64 * drive_share(target.level(), target.drive_count());
            total = (total.0 + seconds.0, total.1 + seconds.1, total.2 + bytes.1);
            sections.push(PlannedSection {
                id: section_id(at, section, target),
                kind: section.test,
                target: target.name.clone(),
                span_bytes,
                loads,
                rounds,
                seconds,
                bytes,
                words,
                destroys: stages.iter().flat_map(|stage| &stage.steps).any(destroys),
            });
        }
    }
    Plan {
        experiment: experiment.name.clone(),
        scaled: scale.words().map(|scaled| scaled.words),
        sections,
        seconds_min: total.0,
        seconds_max: total.1,
        bytes_max: total.2,
        drive_bytes_max: drive_bytes as u64,
        endurance_percent: rated_bytes.map(|rated| drive_bytes * 100.0 / rated as f64),
        assumed_mb_per_s,
    }
}

/// See [`crate::result::Section::id`].
pub fn section_id(at: usize, section: &SectionSpec, target: &TargetSpec) -> String {
    format!("{}-{}/{}", at + 1, section.name, target.name)
}

fn stage_words(stage: &Stage) -> String {
    let mut parts: Vec<String> = Vec::new();
    let loads: Vec<&Load> = stage.steps.iter().filter_map(Step::load).collect();
    for step in &stage.steps {
        match step {
            Step::Purge => parts.push("purge".into()),
            Step::Fill { fills, block_bytes, pattern } => {
                let order = if *pattern == Pattern::Random { "random" } else { "sequential" };
                parts.push(format!("write {fills} x the span, {order} {}", show_size(*block_bytes)));
            }
            Step::Idle { seconds } if loads.is_empty() => parts.push(format!("idle {}", show_seconds(*seconds))),
            Step::Trim => parts.push("trim all".into()),
            Step::Raid(RaidAction::Fail) => parts.push("fail a member".into()),
            Step::Raid(RaidAction::Refill) | Step::LoadDuring(_, RaidAction::Refill) => parts.push("rebuild it".into()),
            Step::Raid(RaidAction::Scrub) | Step::LoadDuring(_, RaidAction::Scrub) => parts.push("scrub".into()),
            Step::WaitForSweep => parts.push("wait for its end".into()),
            Step::Copy(set) => {
                parts.push(format!("copy {}: {} of {} in all", set.name, set.files.len(), show_size(set.bytes())));
            }
            Step::LoadDuring(_, RaidAction::Fail) | Step::Load(_) | Step::Demand(..) | Step::Idle { .. } => {}
        }
    }
    if let Some(first) = loads.first() {
        parts.push(match loads.len() {
            1 => format!("1 load of {}", show_seconds(first.seconds)),
            count => format!("{count} loads of {}", show_seconds(first.seconds)),
        });
    }
    let times = match (&stage.rounds, stage.rounds_range()) {
        (_, (1, 1)) => String::new(),
        (Rounds::Times(times), _) => format!(", {times} times"),
        (Rounds::UntilSteady { tracked, .. }, (fewest, most)) => {
            let most_words = if most == ROUNDS_MAX { "SNIA's limit" } else { "limit" };
            format!(", {fewest} to {most} rounds ({most_words}) until {tracked} are steady")
        }
        (Rounds::WhileSweep(_), _) => ", as long as that runs".into(),
    };
    format!("{}: {}{times}", stage.title, parts.join(", "))
}
