//! A run as large and as awkward as real ones: arrays that scale, a matrix, saturation, states, a rebuild, long and hostile
//! names.

use std::collections::BTreeMap;
use std::path::Path;
use stria_lab::result::{
    ArrayState, DriveInfo, DriveState, Environment, Figures, IoMode, Latency, Manifest, Measured, MemberFigures, Note, NoteKind,
    Pattern, Phase, Point, Record, RunStatus, RunWriter, Sample, Scaled, Section, SectionKind, Series, SteadyVerdict,
    SweepSample, TargetInfo, TargetKind,
};

/// Numbers that are the same in every run.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `value` with some noise.
    pub fn noisy(&mut self, value: f64, sigma: f64) -> f64 {
        value * (1.0 + sigma * ((0..12).map(|_| self.next()).sum::<f64>() - 6.0))
    }
}

pub fn point(target: &TargetInfo) -> Point {
    Point {
        target: target.name.clone(),
        level: target.level.clone(),
        members: target.members,
        strip_bytes: target.strip_bytes,
        spans: target.spans,
        pattern: Pattern::Random,
        block_bytes: 4096,
        mix: String::new(),
        read_percent: 100,
        queue_depth: 32,
        threads: 1,
        compressible_percent: 0,
        drive_state: DriveState::AsFound,
        array_state: ArrayState::Optimal,
        mode: IoMode::Direct,
        variant: String::new(),
    }
}

pub fn target(name: &str, kind: TargetKind, level: Option<&str>, members: u32) -> TargetInfo {
    let drive = |index| DriveInfo {
        path: format!("/dev/disk/by-id/nvme-SAMPLE_SSD_800GB_S6P1NX0T{index:05}"),
        model: "SAMPLE SSD 800 GB".into(),
        serial: format!("S6P1NX0T{index:05}"),
        firmware: "8DV10171".into(),
        transport: "nvme".into(),
        size_bytes: 800_166_076_416,
        wear_percent: Some(f64::from(3 + index % 3)),
        written_bytes: Some(41_000_000_000_000),
        media_written_bytes: Some(60_000_000_000_000),
        rated_written_bytes: (index % 2 == 0).then_some(14_600_000_000_000_000),
        temperature_c: Some(41.0),
        media_errors: Some(0),
        source: "nvme".into(),
        ..DriveInfo::default()
    };
    TargetInfo {
        name: name.into(),
        spec: name.into(),
        kind,
        size_bytes: 800_000_000_000,
        span_bytes: 80_000_000_000,
        offset_bytes: 0,
        level: level.map(Into::into),
        members: Some(members),
        strip_bytes: level.map(|_| 65_536),
        spans: None,
        platform: "C226 chipset, 6 × SATA 6G".into(),
        drives: (0..members).map(drive).collect(),
    }
}

/// Collects sections and records.
pub struct Story {
    pub chance: Chance,
    pub manifest: Manifest,
    pub records: Vec<(Record, Series)>,
    now_ms: u64,
}

impl Story {
    pub fn new(id: &str, targets: Vec<TargetInfo>) -> Self {
        let drives_after: Vec<DriveInfo> = targets
            .iter()
            .flat_map(|target| &target.drives)
            .map(|drive| DriveInfo {
                written_bytes: drive.written_bytes.map(|bytes| bytes + 2_000_000_000_000),
                media_written_bytes: drive.media_written_bytes.map(|bytes| bytes + 5_200_000_000_000),
                // No drive reports it: only the user knows it, before the run.
                rated_written_bytes: None,
                ..drive.clone()
            })
            .collect();
        let begun_ms = 1_789_000_000_000;
        let manifest = Manifest {
            format: 1,
            id: id.into(),
            experiment: "sample".into(),
            title: "Four arrays of SATA drives, measured as SNIA would".into(),
            question: "How do levels scale with drives, what does a small write cost, and what happens when a drive dies?".into(),
            status: RunStatus::Done,
            scaled: Some(Scaled {
                time_share: 1.0 / 60.0,
                span_bytes: Some(80_000_000_000),
                rounds_max: Some(10),
                words: "scaled trial: 1 s a measurement instead of 60 s, 80 GB of 800 GB".into(),
            }),
            begun_ms,
            ended_ms: Some(begun_ms + 11_640_000),
            resumed_ms: vec![begun_ms + 5_000_000],
            program: "stria 0.1.0".into(),
            fio: "fio-3.33".into(),
            command: ["stria", "lab", "run", "sample", "--scaled"].map(String::from).to_vec(),
            note: "drive 3 was hot <script>alert(1)</script>".into(),
            targets,
            environment: Environment {
                host: "bench-07".into(),
                kernel: "Linux 6.1.0-18-amd64".into(),
                os: "Debian GNU/Linux 12 (bookworm)".into(),
                cpu: "AMD EPYC 7302P 16-Core Processor".into(),
                cpu_count: 32,
                cpu_governor: "performance".into(),
                memory_bytes: 137_438_953_472,
                busy_percent: 2.0,
                background_bytes_per_s: 1.5e6,
                ..Environment::default()
            },
            hosts: BTreeMap::new(),
            sections: Vec::new(),
            drives_after,
        };
        Self { chance: Chance(1), manifest, records: Vec::new(), now_ms: begun_ms }
    }

    pub fn section(&mut self, id: &str, title: &str, kind: SectionKind, target: &str) -> String {
        let section = Section {
            id: id.into(),
            name: id.into(),
            title: title.into(),
            kind,
            target: target.into(),
            purge: Some("nvme format".into()),
            precondition: Some("sequential 128 KiB writes, twice the span".into()),
            rounds: 5,
            steady: None,
            steady_before: Vec::new(),
            failed: None,
            begun_ms: Some(self.now_ms),
            ended_ms: Some(self.now_ms + 60_000),
        };
        self.manifest.sections.push(section);
        id.into()
    }

    /// A verdict on the last section: the first round of its window, and all values.
    pub fn steady(&mut self, reached: bool, first: u32, values: &[f64]) {
        let window = &values[first as usize - 1..first as usize + 4];
        let mean = window.iter().sum::<f64>() / 5.0;
        let slope = (0..5).map(|index| (index as f64 - 2.0) * window[index]).sum::<f64>() / 10.0;
        let excursion = window.iter().copied().fold(0.0, f64::max) - window.iter().copied().fold(f64::INFINITY, f64::min);
        self.manifest.sections.last_mut().expect("a section").steady = Some(SteadyVerdict {
            reached,
            first_round: first,
            last_round: first + 4,
            tracked: "IOPS of random 4 KiB writes".into(),
            unit: "IOPS".into(),
            values: values.to_vec(),
            mean,
            excursion,
            excursion_allowed: 0.2 * mean,
            slope,
            intercept: mean - slope * f64::from(first + 2),
            slope_excursion: slope.abs() * 4.0,
            slope_excursion_allowed: 0.1 * mean,
            stride: 1,
            rounds_max: 25,
            steps: None,
        });
    }

    /// A measurement of `seconds` at `iops`, with a latency that fits its depth.
    pub fn measure(&mut self, section: &str, point: &Point, round: u32, iops: f64, seconds: f64) -> &mut Record {
        let part = |share: f64, latency: &Latency| {
            let [min_ns, mean_ns, max_ns] = [latency.min_ns, latency.mean_ns, latency.max_ns].map(|ns| ns * share);
            Some(Phase { min_ns, mean_ns, stddev_ns: 0.0, max_ns })
        };
        let figures = |iops: f64, latency: &Latency| Figures {
            requests: (iops * seconds) as u64,
            bytes: (iops * seconds) as u64 * point.block_bytes,
            iops,
            mb_per_s: iops * point.block_bytes as f64 / 1e6,
            latency: latency.clone(),
            submission: part(0.1, latency),
            completion: part(0.9, latency),
        };
        let mean_ns = f64::from(point.queue_depth * point.threads) / iops * 1e9;
        let tail = 1.0 + 0.2 * self.chance.next();
        // An exponential distribution with a floor, as bins.
        let bins = (1..60).map(|step| {
            let from = mean_ns * (0.3 + 0.25 * f64::from(step));
            (from as u64, ((1e6 * (-0.25 * f64::from(step)).exp() * tail) as u64).max(u64::from(step < 58)))
        });
        let latency = Latency {
            min_ns: mean_ns * 0.3,
            mean_ns,
            stddev_ns: mean_ns * 0.5,
            p50_ns: Some(mean_ns * 0.85),
            p99_ns: Some(mean_ns * 3.4 * tail),
            p999_ns: Some(mean_ns * 6.0 * tail),
            p99999_ns: Some(mean_ns * 11.0 * tail),
            max_ns: mean_ns * 14.0 * tail,
            bins: bins.collect(),
        };
        let read_share = f64::from(point.read_percent) / 100.0;
        let index = self.records.len() as u32;
        let record = Record {
            index,
            section: section.into(),
            preparation: false,
            point: point.clone(),
            round,
            step: 0,
            begun_ms: self.now_ms,
            measured: Measured {
                host: String::new(),
                seconds,
                read: (read_share > 0.0).then(|| figures(iops * read_share, &latency)),
                write: (read_share < 1.0).then(|| figures(iops * (1.0 - read_share), &latency)),
                trim: None,
                total: figures(iops, &latency),
                cpu_user_percent: 12.0,
                cpu_system_percent: 30.0,
                failed: None,
                errors: 0,
            },
            raw: RunWriter::raw_name(index),
            series: None,
            members: Vec::new(),
            extra: BTreeMap::new(),
        };
        self.now_ms += (seconds * 1000.0) as u64;
        self.records.push((record, Series::default()));
        &mut self.records.last_mut().expect("just pushed").0
    }

    /// Gives the last record a series of one sample a second, and a sweep from `from` to `to` (fractions) of 100 GB.
    pub fn series(&mut self, kind: &str, from: f64, to: f64) {
        let chance = &mut self.chance;
        let (record, series) = self.records.last_mut().expect("a record");
        record.series = Some(RunWriter::series_name(record.index));
        let mb = |figures: &Option<Figures>| figures.as_ref().map_or(0.0, |figures| figures.mb_per_s);
        let (read, write, count) = (mb(&record.read), mb(&record.write), record.seconds as u64);
        series.interval_ms = 1000;
        for second in 1..=count {
            let (read, write) = (chance.noisy(read, 0.06), chance.noisy(write, 0.06));
            series.samples.push(Sample {
                at_ms: second * 1000,
                read_mb_per_s: read,
                write_mb_per_s: write,
                read_iops: read * 1e6 / record.point.block_bytes as f64,
                write_iops: write * 1e6 / record.point.block_bytes as f64,
                latency_mean_ns: Some(record.total.latency.mean_ns),
            });
            if !kind.is_empty() {
                let share = from + (to - from) * second as f64 / count as f64;
                series.sweep.push(SweepSample {
                    at_ms: second * 1000,
                    kind: kind.into(),
                    done_bytes: (share * 100e9) as u64,
                    total_bytes: 100_000_000_000,
                });
            }
        }
    }

    /// Writes the run folder.
    pub fn write(self, folder: &Path) {
        let mut writer = RunWriter::create(folder, &self.manifest, "name = \"sample\"\n").expect("an empty folder");
        for (record, series) in &self.records {
            writer.append(std::slice::from_ref(record), series).expect("room for a record");
        }
        let note = |kind, text: &str| Note {
            at_ms: self.manifest.begun_ms + 61_000,
            section: String::new(),
            record: None,
            kind,
            text: text.into(),
        };
        for note in [
            note(NoteKind::Step, "built raid5 x4"),
            note(NoteKind::Throttle, "nvme3 reached 78 °C and slowed down for 12 s"),
            note(
                NoteKind::Fallback,
                "no secure erase on /dev/disk/by-id/ata-A_DRIVE_WITH_A_VERY_LONG_NAME_THAT_GOES_ON_AND_ON_S6P1NX0T00001: discarded instead",
            ),
        ] {
            writer.note(&note).expect("room for a note");
        }
    }
}

/// The rates of one drive, in requests per second: 4 KiB reads and writes, 128 KiB.
pub const READ: f64 = 75_000.0;
pub const WRITE: f64 = 24_000.0;
const LARGE: f64 = 3_800.0;

/// Everything that a report can show.
pub fn full(folder: &Path) {
    let counts = [2, 3, 4, 6, 8];
    let mut targets = vec![target("bare x1", TargetKind::Members, None, 1)];
    for count in counts {
        targets.push(target(&format!("bare x{count}"), TargetKind::Members, None, count));
        for level in ["0", "5", "10"] {
            let fits = match level {
                "5" => count > 2,
                "10" => count % 2 == 0 && count > 2,
                _ => true,
            };
            if fits {
                targets.push(target(&format!("raid{level} x{count}"), TargetKind::Array, Some(level), count));
            }
        }
    }
    let mut story = Story::new("sample-2026-11-21", targets.clone());
    let scaling = story.section("1-scaling", "Scaling over drives", SectionKind::Sweep, "bare x1");
    for target in &targets {
        let members = f64::from(target.members.expect("all have them"));
        let n = members * (1.0 - 0.015 * members);
        let (read, write, large) = match target.level.as_deref() {
            None => (n * READ, n * WRITE, n * LARGE),
            Some("0") => (0.96 * n * READ, 0.95 * n * WRITE, 0.97 * n * LARGE),
            Some("5") => (0.95 * n * READ, 0.8 * n * 0.5 / (1.0 / READ + 1.0 / WRITE), 0.85 * (n - 1.0) * LARGE),
            _ => (0.97 * n * READ, 0.9 * n / 2.0 * WRITE, 0.95 * n / 2.0 * LARGE),
        };
        for round in 1..=5 {
            for (read_percent, block_bytes, pattern, iops) in
                [(100, 4096, Pattern::Random, read), (0, 4096, Pattern::Random, write), (0, 131_072, Pattern::Sequential, large)]
            {
                let point = Point { read_percent, block_bytes, pattern, ..point(target) };
                let iops = story.chance.noisy(iops, 0.015);
                story.measure(&scaling, &point, round, iops, 1.0);
            }
        }
    }
    depth(&mut story, &targets);
    matrix(&mut story, &targets[9]);
    unsteady(&mut story, &targets[9]);
    states(&mut story, &targets[1]);
    modes(&mut story, &targets[1]);
    ways(&mut story, &targets[1]);
    square(&mut story, &targets[1]);
    places(&mut story, &targets[1]);
    saturation(&mut story, &targets[9]);
    raid(&mut story, targets.iter().find(|target| target.name == "raid5 x4").expect("there is one"));
    story.write(folder);
}

/// The reason of [`add_failures`].
pub const FAILED: &str = "7 requests failed";

/// Adds failed measurements with a thousand times the rate to a run: of each section, and of two hosts.
pub fn add_failures(folder: &Path) {
    let path = folder.join("records.jsonl");
    let text = std::fs::read_to_string(&path).expect("records");
    let records: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let mut index = records.iter().map(|record| record.index).max().expect("some") + 1;
    let mut sections: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    records.iter().for_each(|record| sections.entry(&record.section).or_default().push(record));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for like in sections.values() {
        for (record, host) in [like[0], like[like.len() / 2], like[like.len() - 1]].into_iter().zip(["", "one", "two"]) {
            let mut record = Record { index, series: None, preparation: false, ..record.clone() };
            index += 1;
            (record.host, record.failed) = (host.into(), Some(FAILED.into()));
            record.extra.insert("rebuild_seconds".into(), 9e6);
            let figures = [&mut record.measured.read, &mut record.measured.write].into_iter().flatten();
            for figures in figures.chain([&mut record.measured.total]) {
                (figures.iops, figures.mb_per_s, figures.latency.max_ns) = (figures.iops * 1e3, figures.mb_per_s * 1e3, 1e12);
            }
            if host == "two" { &mut after } else { &mut before }.push(record);
        }
    }
    let lines = before.iter().chain(&records).chain(&after).map(|record| serde_json::to_string(record).expect("JSON") + "\n");
    std::fs::write(&path, lines.collect::<String>()).expect("written");
}

fn depth(story: &mut Story, targets: &[TargetInfo]) {
    let section = story.section("2-depth", "Queue depth", SectionKind::Sweep, "raid5 x4");
    for target in targets.iter().filter(|target| ["raid5 x4", "raid0 x4", "raid10 x4", "bare x4"].contains(&target.name.as_str()))
    {
        let most = match target.level.as_deref() {
            Some("5") => 250_000.0,
            Some("10") => 262_000.0,
            _ => 281_000.0,
        };
        for round in 1..=5 {
            for queue_depth in [1, 2, 4, 8, 16, 32, 64] {
                for read_percent in [100, 70] {
                    let q = f64::from(queue_depth) * 2.0;
                    let share = if read_percent == 100 { 1.0 } else { 0.4 };
                    let point = Point { queue_depth, threads: 2, read_percent, ..point(target) };
                    let iops = story.chance.noisy(share * most * q / (q + 16.0), 0.02);
                    story.measure(&section, &point, round, iops, 1.0);
                }
            }
        }
    }
}

fn matrix(story: &mut Story, target: &TargetInfo) {
    let section = story.section("3-iops", "SNIA IOPS", SectionKind::Iops, &target.name);
    let mut tracked = Vec::new();
    for round in 1..=8 {
        for read_percent in [100, 95, 65, 50, 35, 5, 0] {
            for block_bytes in [1 << 20, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 8192, 4096, 512] {
                let settle = 1.0 + 1.2 / f64::from(round * round);
                let reads = f64::from(read_percent) / 100.0;
                let bytes_per_s = 1.5e9 * reads + 0.6e9 * (1.0 - reads) * settle;
                let iops = story.chance.noisy(bytes_per_s / (block_bytes as f64 + 3500.0), 0.02);
                let point = Point { read_percent, block_bytes, queue_depth: 16, threads: 4, ..point(target) };
                story.measure(&section, &point, round, iops, 1.0);
                if read_percent == 0 && block_bytes == 4096 {
                    tracked.push(iops);
                }
            }
        }
    }
    story.steady(true, 4, &tracked);
}

fn unsteady(story: &mut Story, target: &TargetInfo) {
    let section = story.section("4-latency", "SNIA latency", SectionKind::Latency, &target.name);
    let values: Vec<f64> = (1..=10).map(|round| 9000.0 * 0.9f64.powi(round)).collect();
    for (round, value) in values.iter().enumerate() {
        let point = Point { read_percent: 0, queue_depth: 1, ..point(target) };
        story.measure(&section, &point, round as u32 + 1, *value, 1.0);
    }
    story.steady(false, 6, &values);
}

fn states(story: &mut Story, target: &TargetInfo) {
    let section = story.section("5-states", "Fresh, used, idle, trimmed", SectionKind::States, &target.name);
    for (drive_state, iops) in [
        (DriveState::Fresh, 46_000.0),
        (DriveState::Used, 15_000.0),
        (DriveState::Idle, 15_300.0),
        (DriveState::Trimmed, 44_000.0),
    ] {
        for round in 1..=3 {
            let point = Point { drive_state, read_percent: 0, variant: "states".into(), ..point(target) };
            let iops = story.chance.noisy(iops, 0.03);
            story.measure(&section, &point, round, iops, 5.0);
        }
    }
}

fn modes(story: &mut Story, target: &TargetInfo) {
    let section = story.section("8-modes", "Modes of files", SectionKind::FileCopy, &target.name);
    for (mode, variant, iops) in [
        (IoMode::Direct, "few large files", 900.0),
        (IoMode::DirectSync, "many small files", 310.0),
        (IoMode::Cached, "mixed files of a game and its saved states", 1400.0),
    ] {
        for round in 1..=3 {
            let point = Point { mode, variant: variant.into(), block_bytes: 1 << 20, queue_depth: 1, ..point(target) };
            let iops = story.chance.noisy(iops, 0.03);
            story.measure(&section, &point, round, iops, 5.0);
        }
    }
}

/// The same writes in every mode of access, with a curve of each.
fn ways(story: &mut Story, target: &TargetInfo) {
    let section = story.section("9-ways", "Ways to write", SectionKind::Sweep, &target.name);
    for (mode, iops) in [
        (IoMode::Direct, 20_000.0),
        (IoMode::DirectSync, 5_000.0),
        (IoMode::WriteThrough, 4_000.0),
        (IoMode::Cached, 300_000.0),
        (IoMode::Sparse, 16_000.0),
    ] {
        let point = Point { mode, read_percent: 0, queue_depth: 1, block_bytes: 8192, ..point(target) };
        story.measure(&section, &point, 1, iops, 60.0);
        story.series("", 0.0, 0.0);
    }
}

/// Depth by threads.
fn square(story: &mut Story, target: &TargetInfo) {
    let section = story.section("10-square", "Depth by threads", SectionKind::Sweep, &target.name);
    for queue_depth in [1, 4, 16, 64] {
        for threads in [1, 2, 8, 32] {
            let point = Point { queue_depth, threads, block_bytes: 16_384, ..point(target) };
            let q = f64::from(queue_depth * threads);
            story.measure(&section, &point, 1, 90_000.0 * q / (q + 16.0), 1.0);
        }
    }
}

/// A disk that is half as fast on its inner tracks.
fn places(story: &mut Story, target: &TargetInfo) {
    let section = story.section("11-places", "From rim to hub", SectionKind::Sweep, &target.name);
    for part in 0..16 {
        let variant = format!("part {:02} of 16", part + 1);
        let point = Point { pattern: Pattern::Sequential, block_bytes: 1 << 20, variant, ..point(target) };
        let record = story.measure(&section, &point, 1, 250.0 * (1.0 - f64::from(part) / 30.0), 1.0);
        record.extra.insert("place_percent".into(), (f64::from(part) + 0.5) * 100.0 / 16.0);
    }
}

fn saturation(story: &mut Story, target: &TargetInfo) {
    let section = story.section("6-wsat", "SNIA write saturation", SectionKind::Wsat, &target.name);
    for round in 1..=240 {
        let cliff = 1.0 / (1.0 + (-(f64::from(round) - 60.0) / 6.0).exp());
        let point = Point { read_percent: 0, variant: "saturation".into(), ..point(target) };
        let iops = story.chance.noisy(92_000.0 * (1.0 - 0.72 * cliff), 0.04);
        story.measure(&section, &point, round, iops, 60.0);
    }
}

fn raid(story: &mut Story, target: &TargetInfo) {
    let section = story.section("7-raid", "A drive dies", SectionKind::Raid, &target.name);
    let states = [
        (ArrayState::Optimal, 1.0, ""),
        (ArrayState::Degraded, 0.62, ""),
        (ArrayState::Rebuilding, 0.41, "rebuild"),
        (ArrayState::Rebuilt, 0.98, ""),
        (ArrayState::Scrubbing, 0.7, "scrub"),
    ];
    for (array_state, share, sweep) in states {
        let point = Point { array_state, read_percent: 70, variant: "service".into(), ..point(target) };
        let record = story.measure(&section, &point, 1, 61_000.0 * share, 40.0);
        record.members = (0..4)
            .map(|index| MemberFigures {
                path: format!("/dev/nvme{index}n1"),
                hedged_reads: if index == 2 && array_state == ArrayState::Rebuilt { 41 } else { 0 },
                written_bytes: record.write.as_ref().map_or(0, |write| write.bytes / 2),
                latency_mean_ns: Some(if index == 2 && array_state == ArrayState::Rebuilt {
                    2.1e6
                } else {
                    190e3 + f64::from(index) * 4e3
                }),
                ..MemberFigures::default()
            })
            .collect();
        if array_state == ArrayState::Rebuilding {
            record.extra.insert("rebuild_seconds".into(), 211.0);
        }
        if array_state == ArrayState::Scrubbing {
            record.extra.insert("mismatch_sectors".into(), 0.0);
            record.extra.insert("reclaimed_bytes".into(), 3.2e9);
        }
        story.series(sweep, 0.0, 1.0);
    }
}
