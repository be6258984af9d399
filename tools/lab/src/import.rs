//! Results of fio from elsewhere, as a run's folder: its JSON, plain or json+, single files or the folders of bench-fio.
//!
//! fio reports the load and the figures. It does not report the drive, its preparation, the machine, or whether the state was
//! steady. A note in the run says so.

use crate::fio;
use crate::result::{
    ArrayState, BLOCK_BYTES_MAX, DEPTH_MAX, DriveState, Environment, IoMode, Manifest, Measured, Note, NoteKind, Pattern, Point,
    Record, ResultError, RunStatus, RunWriter, Section, SectionKind, Series, TargetInfo, TargetKind, inside, now_ms,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use stria_block::shown;

/// The reason why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file of fio's.
    #[error("{}: {problem}", shown(&path.to_string_lossy()))]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// There are no results.
    #[error("there is no file of fio's JSON (fio --output-format=json) among the named files and folders")]
    Nothing,
    /// The new folder.
    #[error(transparent)]
    Folder(#[from] ResultError),
}

/// The experiment that the manifest of an imported run names.
pub(crate) const EXPERIMENT: &str = "import";

/// The import.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Files, or folders with files named `*.json` at any depth.
    pub from: Vec<PathBuf>,
    /// The name of what was measured.
    pub target: String,
    /// A remark.
    pub note: String,
    /// The words on the command line.
    pub command: Vec<String>,
}

/// Files of a folder of results, and a file of 1024 jobs with histograms.
const FILES_MAX: usize = 10_000;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// All files together: the records of a run are at most as large.
const BYTES_MAX: u64 = 1 << 30;
/// Longer than any option of a job that was ever of use, and more than fio has.
const OPTION_CHARS_MAX: usize = 1024;
const OPTIONS_MAX: usize = 1000;
/// The year 5138.
const TIME_MS_MAX: u64 = 100_000_000_000_000;

/// Options of jobs that do not affect the measurement, or have a key in a point.
const KNOWN: [&str; 24] = [
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "blocksize",
    "bsrange",
    "bssplit",
    "iodepth",
    "numjobs",
    "direct",
    "buffered",
    "sync",
    "zero_buffers",
    "buffer_compress_percentage",
    "name",
    "description",
    "group_reporting",
    "randseed",
    "loops",
    "output",
    "output-format",
    "status-interval",
    "invalidate",
];

/// The results of one job: its clones and hosts together.
struct Job {
    /// The file's index.
    file: usize,
    options: BTreeMap<String, String>,
    point: Point,
    measured: Measured,
    begun_ms: u64,
    hosts: usize,
}

/// Makes a run's folder of fio's results.
///
/// # Errors
/// A named file is not from fio, nothing is found, or the folder cannot be made.
pub fn import(request: &Request, folder: &Path) -> Result<Manifest, ImportError> {
    let Found { files, mut jobs, mut notes, versions } = found(request, BYTES_MAX)?;
    if jobs.is_empty() {
        return Err(ImportError::Nothing);
    }
    tell_apart(&mut jobs);
    let mut manifest = manifest(request, &jobs, files.len(), &versions);
    let mut writer = RunWriter::create(folder, &manifest, "# Imported from results of fio: no experiment was run.\n")?;
    let section = manifest.sections[0].id.clone();
    let mut logs = BTreeMap::<PathBuf, usize>::new();
    jobs.iter().filter_map(|job| job.log(&files[job.file].path)).for_each(|log| *logs.entry(log).or_default() += 1);
    let (mut rounds, mut raw_of) = (BTreeMap::<Point, u32>::new(), BTreeMap::new());
    for (index, job) in (0..).zip(&jobs) {
        let raw = raw_of.entry(job.file).or_insert_with(|| RunWriter::raw_name(index)).clone();
        let file = &files[job.file];
        let path = &file.path;
        if raw == RunWriter::raw_name(index) {
            inside::write(folder, &raw, file.again()?.as_bytes())?;
        }
        // A log that several jobs wrote belongs to the last of them, and it is unknown which one that was.
        let log = job.log(path).filter(|log| logs[log] == 1);
        let series = job.series(log.as_ref()).unwrap_or_else(|problem| {
            notes.push((NoteKind::Fallback, Some(index), format!("{}: its logs are left out: {problem}", path.display())));
            Series::default()
        });
        let round = rounds.entry(job.point.clone()).or_default();
        *round += 1;
        let record = Record {
            index,
            section: section.clone(),
            preparation: false,
            point: job.point.clone(),
            round: *round,
            step: index,
            begun_ms: job.begun_ms,
            measured: job.measured.clone(),
            raw,
            series: (!series.samples.is_empty()).then(|| RunWriter::series_name(index)),
            members: Vec::new(),
            extra: BTreeMap::new(),
        };
        writer.append(&[record], &series)?;
        if let Some(words) = &job.measured.failed {
            notes.push((NoteKind::Error, Some(index), format!("{}: no result: {words}", path.display())));
        } else if job.measured.total.latency.p50_ns.is_none() {
            let words = format!("{}: no percentiles of latency: fio was told to measure none", path.display());
            notes.push((NoteKind::Fallback, Some(index), words));
        }
        if job.hosts > 1 {
            notes.push((NoteKind::Step, Some(index), format!("{}: the sum of {} hosts", path.display(), job.hosts)));
        }
        notes.push((NoteKind::Step, Some(index), format!("imported from {}", path.display())));
    }
    manifest.sections[0].rounds = rounds.values().copied().max().unwrap_or(0);
    writer.save_manifest(&manifest)?;
    let shared: usize = logs.values().filter(|jobs| **jobs > 1).sum();
    notes.splice(..0, limits(&files, shared).map(|text| (NoteKind::Fallback, None, text)));
    for (kind, record, text) in notes {
        writer.note(&Note { at_ms: manifest.begun_ms, section: section.clone(), record, kind, text })?;
    }
    Ok(manifest)
}

/// A file that was read. Only its figures are kept: the files of a folder may be larger than the memory.
struct File {
    path: PathBuf,
    /// The checksum of its JSON.
    checksum: u64,
    has_histograms: bool,
}

impl File {
    /// Its JSON once more.
    fn again(&self) -> Result<String, ImportError> {
        let failed = |problem| ImportError::File { path: self.path.clone(), problem };
        let (json, _) = read(&self.path).map_err(failed)?;
        match checksum_of(&json) == self.checksum {
            true => Ok(json),
            false => Err(failed("it changed while it was imported; import again into another folder".into())),
        }
    }
}

fn checksum_of(text: &str) -> u64 {
    let mut sum = DefaultHasher::new();
    text.hash(&mut sum);
    sum.finish()
}

/// What was found in the files.
#[derive(Default)]
struct Found {
    files: Vec<File>,
    jobs: Vec<Job>,
    notes: Vec<(NoteKind, Option<u32>, String)>,
    versions: BTreeSet<String>,
}

fn found(request: &Request, bytes_max: u64) -> Result<Found, ImportError> {
    let mut files = Vec::new();
    for path in &request.from {
        find(path, true, &mut files)?;
    }
    let (mut all, mut bytes) = (Found::default(), 0);
    for (path, is_named) in files {
        let read = read(&path).and_then(|(json, value)| Ok((json, jobs_of(&value, all.files.len(), &request.target)?, value)));
        match read {
            Ok((json, jobs, value)) => {
                bytes += json.len() as u64;
                if bytes > bytes_max {
                    let most = crate::units::show_size(bytes_max);
                    let problem = format!("with it the named and found files hold more than {most}: import fewer at a time");
                    return Err(ImportError::File { path, problem });
                }
                all.versions.extend(value["fio version"].as_str().map(str::to_owned));
                all.jobs.extend(jobs);
                all.files.push(File { path, checksum: checksum_of(&json), has_histograms: json.contains("\"bins\"") });
            }
            Err(problem) if is_named => return Err(ImportError::File { path, problem }),
            Err(problem) => all.notes.push((NoteKind::Fallback, None, format!("{} was left out: {problem}", path.display()))),
        }
    }
    Ok(all)
}

/// The facts that fio's files do not report.
fn unknown(files: usize) -> String {
    let files = if files == 1 { "a file".to_owned() } else { format!("{files} files") };
    format!(
        "Imported from {files} that fio wrote. The drives, their preparation, the machine, and \
         whether it was steady are unknown."
    )
}

/// The limits of fio's files, for notes. `shared`: jobs whose logs have the names of others.
fn limits(files: &[File], shared: usize) -> impl Iterator<Item = String> {
    let count = files.len();
    let shared = (shared > 0).then(|| format!("{shared} jobs logged to the same names as others: their logs are left out"));
    let plain = files.iter().filter(|file| !file.has_histograms).count();
    let plain = (plain > 0).then(|| {
        format!(
            "{plain} of {count} files have percentiles instead of histograms: those that fio printed are exact, and others are the next higher one, or \
             the largest latency at the end. Where they are of completion latency only (clat), the figures here are too."
        )
    });
    [Some(unknown(count)), shared, plain].into_iter().flatten()
}

/// Files of that path, in the order of their names; those that were found in a folder may be something else.
fn find(path: &Path, is_named: bool, files: &mut Vec<(PathBuf, bool)>) -> Result<(), ImportError> {
    let failed = |error: std::io::Error| {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file; name one that fio wrote, or a folder of them".into(),
            _ => format!("cannot be read: {error}"),
        };
        ImportError::File { path: path.to_path_buf(), problem }
    };
    // Links in a folder may lead anywhere, also to the folder itself.
    let metadata = if is_named { fs::metadata(path) } else { fs::symlink_metadata(path) };
    let metadata = metadata.map_err(failed)?;
    if !metadata.is_dir() {
        if !is_named && !metadata.is_file() {
            return Ok(());
        }
        if files.len() == FILES_MAX {
            let problem = format!("more than {FILES_MAX} files are named or found: import fewer at a time");
            return Err(ImportError::File { path: path.to_path_buf(), problem });
        }
        if is_named || path.extension().is_some_and(|extension| extension == "json") {
            files.push((path.to_path_buf(), is_named));
        }
        return Ok(());
    }
    let mut inside = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        inside.push(entry.map_err(failed)?.path());
    }
    inside.sort();
    inside.iter().try_for_each(|path| find(path, false, files))
}

/// The text of a plain file that is not too large to be from fio.
fn text_of(path: &Path) -> Result<String, String> {
    if !fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a plain file".into());
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("it is larger than {}, so fio did not write it", crate::units::show_size(FILE_BYTES_MAX))),
        false => Ok(text),
    }
}

/// The JSON in a file, without messages of fio around it, and its kind.
fn read(path: &Path) -> Result<(String, Value), String> {
    let text = text_of(path)?;
    let json = text.find('{').zip(text.rfind('}')).filter(|(start, end)| start < end).map(|(start, end)| &text[start..=end]);
    let json = json.ok_or("it holds no JSON")?;
    let value: Value = serde_json::from_str(json).map_err(|error| format!("it is no JSON: {error}"))?;
    match value["fio version"].as_str() {
        None => Err("it is not from fio: it names no fio version".into()),
        Some(version) if version.starts_with("fio-2") || version.starts_with("fio-1") => {
            Err(format!("{version} wrote other figures than fio 3 does; measure again with fio 3"))
        }
        Some(_) => Ok((json.to_owned(), value)),
    }
}

/// The jobs of a file; clones and hosts are summed, as they ran at once.
fn jobs_of(value: &Value, file: usize, target: &str) -> Result<Vec<Job>, String> {
    let all = fio::parse(value)?;
    let entries = value["client_stats"].as_array().or(value["jobs"].as_array()).into_iter().flatten();
    let mut groups: BTreeMap<(u64, String), Vec<(&Value, Measured)>> = BTreeMap::new();
    for (job, measured) in entries.filter(|job| job["jobname"] != "All clients").zip(all) {
        let name = job["jobname"].as_str().unwrap_or("").to_owned();
        groups.entry((job["groupid"].as_u64().unwrap_or(0), name)).or_default().push((job, measured));
    }
    let ended_ms = value["timestamp_ms"]
        .as_u64()
        .or(value["timestamp"].as_u64().map(|seconds| seconds.saturating_mul(1000)))
        .unwrap_or(0)
        .min(TIME_MS_MAX);
    let mut jobs = Vec::new();
    for group in groups.into_values() {
        let mut options = options(&value["global options"]);
        options.extend(self::options(&group[0].0["job options"]));
        if options.len() > OPTIONS_MAX {
            return Err(format!("a job has {} options, more than fio knows", options.len()));
        }
        let hosts: BTreeSet<&str> = group.iter().filter_map(|(job, _)| job["hostname"].as_str()).collect();
        let clones = group.len() / hosts.len().max(1);
        let parts: Vec<Measured> = group.iter().map(|(_, measured)| measured.clone()).collect();
        let measured = Measured { host: String::new(), ..fio::together(&parts) };
        if let Some(figure) = measured.impossible() {
            return Err(format!("the sum of the jobs has the figure {figure:e}, which no measurement has"));
        }
        if measured.total.requests == 0 {
            continue;
        }
        let point = point(&options, &measured, clones, target)?;
        let begun_ms = ended_ms.saturating_sub((measured.seconds * 1000.0) as u64);
        jobs.push(Job { file, options, point, measured, begun_ms, hosts: hosts.len() });
    }
    match jobs.is_empty() {
        true => Err("nothing was measured in it".into()),
        false => Ok(jobs),
    }
}

/// The options in this part of a file. A text that no option has is cut, as it stays in memory: with its checksum it still
/// differs from others.
fn options(value: &Value) -> BTreeMap<String, String> {
    let short = |text: &str| match text.char_indices().nth(OPTION_CHARS_MAX) {
        Some((end, _)) => format!("{}… (sum {:016x})", &text[..end], checksum_of(text)),
        None => text.to_owned(),
    };
    let text = |value: &Value| value.as_str().map_or_else(|| short(&value.to_string()), short);
    value.as_object().into_iter().flatten().map(|(key, value)| (short(key), text(value))).collect()
}

/// The load of a job by its options, with fio's own defaults.
fn point(options: &BTreeMap<String, String>, measured: &Measured, clones: usize, target: &str) -> Result<Point, String> {
    let of = |names: &[&str]| names.iter().find_map(|name| options.get(*name)).map(String::as_str);
    let number = |name: &str, default: u32| of(&[name]).and_then(|text| text.trim().parse().ok()).unwrap_or(default);
    // A flag without a value is set.
    let is_set = |name: &str| of(&[name]).is_some_and(|text| !matches!(text, "0" | "none" | "false"));
    let order = of(&["rw", "readwrite"]).unwrap_or("read").split(':').next().unwrap_or_default();
    let pattern = if order.starts_with("rand") { Pattern::Random } else { Pattern::Sequential };
    let share = number("rwmixread", of(&["rwmixwrite"]).map_or(50, |_| 100 - number("rwmixwrite", 50).min(100)));
    let read_percent = match order {
        "read" | "randread" => 100,
        "write" | "randwrite" | "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => 0,
        "rw" | "readwrite" | "randrw" => u8::try_from(share.min(100)).expect("it is at most 100"),
        other => return Err(format!("its \"rw\" is \"{other}\", which is not a load")),
    };
    let sizes = of(&["bssplit", "bsrange", "bs", "blocksize"]).unwrap_or("4k");
    let is_mix = sizes.contains([',', ':', '/', '-']);
    // The measured size is more reliable than the option: fio treats 4ki as 4000 bytes by default.
    let mean = measured.total.bytes / measured.total.requests;
    if mean > BLOCK_BYTES_MAX {
        return Err(format!("its requests have {mean} bytes each, which no measurement has"));
    }
    let named = crate::units::parse_size(sizes).ok().filter(|bytes| bytes.abs_diff(mean) * 50 <= mean && !is_mix);
    // An engine without a queue does one request at a time, whatever its depth option.
    let engine = of(&["ioengine"]).unwrap_or("psync");
    let has_queue = !matches!(engine, "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap");
    let is_direct = is_set("direct") || of(&["buffered"]) == Some("0");
    let mode = match (is_direct, is_set("sync")) {
        (true, false) => IoMode::Direct,
        (true, true) => IoMode::DirectSync,
        (false, true) => IoMode::WriteThrough,
        (false, false) => IoMode::Cached,
    };
    Ok(Point {
        target: target.to_owned(),
        level: None,
        members: None,
        strip_bytes: None,
        spans: None,
        pattern,
        block_bytes: named.unwrap_or(mean),
        mix: if is_mix { sizes.to_owned() } else { String::new() },
        read_percent,
        queue_depth: if has_queue { number("iodepth", 1).clamp(1, DEPTH_MAX) } else { 1 },
        threads: number("numjobs", 1).max(u32::try_from(clones).unwrap_or(u32::MAX)).min(DEPTH_MAX),
        compressible_percent: match is_set("zero_buffers") {
            true => 100,
            false => u8::try_from(number("buffer_compress_percentage", 0).min(100)).expect("it is at most 100"),
        },
        drive_state: DriveState::AsFound,
        array_state: ArrayState::Optimal,
        mode,
        variant: if order.contains("trim") { order.to_owned() } else { String::new() },
    })
}

/// Loads that differ only in options without a key in a point get these as their variant, so that they do not count as repeats.
fn tell_apart(jobs: &mut [Job]) {
    let is_log = |key: &str| key.starts_with("write_") && key.ends_with("_log") || key.starts_with("log_");
    let mut alike: BTreeMap<Point, Vec<usize>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        alike.entry(job.point.clone()).or_default().push(index);
    }
    for indices in alike.into_values() {
        let keys: BTreeSet<String> = indices.iter().flat_map(|index| jobs[*index].options.keys().cloned()).collect();
        for key in keys.iter().filter(|key| !KNOWN.contains(&key.as_str()) && !is_log(key)) {
            let values: BTreeSet<Option<&String>> = indices.iter().map(|index| jobs[*index].options.get(key)).collect();
            if values.len() < 2 {
                continue;
            }
            for index in &indices {
                let job = &mut jobs[*index];
                let Some(value) = job.options.get(key) else { continue };
                let between = if job.point.variant.is_empty() { "" } else { ", " };
                job.point.variant = format!("{}{between}{key}={value}", job.point.variant);
            }
        }
    }
}

impl Job {
    /// The place of fio's logs beside its JSON while this job ran, if there are any.
    fn log(&self, json: &Path) -> Option<PathBuf> {
        let prefix = ["write_iops_log", "write_bw_log", "write_lat_log"].iter().find_map(|log| self.options.get(*log))?;
        Some(json.with_file_name(Path::new(prefix).file_name()?))
    }

    fn series(&self, log: Option<&PathBuf>) -> Result<Series, String> {
        // Without an interval fio logs every request, which gives no rate.
        let interval_ms =
            self.options.get("log_avg_msec").and_then(|text| text.parse::<u64>().ok()).filter(|interval| *interval > 0);
        log.zip(interval_ms).map_or_else(|| Ok(Series::default()), |(prefix, interval)| fio::series(prefix, interval))
    }
}

fn manifest(request: &Request, jobs: &[Job], files: usize, versions: &BTreeSet<String>) -> Manifest {
    let begun_ms = jobs.iter().map(|job| job.begun_ms).min().unwrap_or_else(now_ms);
    let end = |job: &Job| job.begun_ms.saturating_add((job.measured.seconds * 1000.0) as u64);
    let ended_ms = jobs.iter().map(end).max();
    let is_device = jobs.iter().filter_map(|job| job.options.get("filename")).any(|name| name.starts_with("/dev/"));
    Manifest {
        format: crate::result::FORMAT,
        id: format!("import-{begun_ms}"),
        experiment: EXPERIMENT.into(),
        title: format!("{}: imported results of fio", request.target),
        question: unknown(files),
        status: RunStatus::Done,
        scaled: None,
        begun_ms,
        ended_ms,
        resumed_ms: Vec::new(),
        program: concat!("stria ", env!("CARGO_PKG_VERSION")).into(),
        fio: versions.iter().cloned().collect::<Vec<_>>().join(", "),
        command: request.command.clone(),
        note: request.note.clone(),
        targets: vec![TargetInfo {
            name: request.target.clone(),
            spec: "imported".into(),
            kind: if is_device { TargetKind::Block } else { TargetKind::File },
            size_bytes: 0,
            span_bytes: 0,
            offset_bytes: 0,
            level: None,
            members: None,
            strip_bytes: None,
            spans: None,
            platform: String::new(),
            drives: Vec::new(),
        }],
        environment: Environment::default(),
        hosts: BTreeMap::new(),
        sections: vec![Section {
            id: format!("1-import/{}", request.target),
            name: "import".into(),
            title: "Imported".into(),
            kind: SectionKind::Sweep,
            target: request.target.clone(),
            purge: None,
            precondition: None,
            rounds: 1,
            steady: None,
            steady_before: Vec::new(),
            failed: None,
            begun_ms: Some(begun_ms),
            ended_ms,
        }],
        drives_after: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(folder: &Path, name: &str) -> PathBuf {
        let value = serde_json::json!({"fio version": "fio-3.33", "timestamp_ms": 1, "jobs": [{"jobname": "a", "error": 0,
            "job options": {"rw": "randread", "bs": "4k"},
            "read": {"total_ios": 10, "io_bytes": 40960, "runtime": 1000, "iops": 10.0, "bw_bytes": 40960,
                     "lat_ns": {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0, "bins": {"5": 10}}}}]});
        let path = folder.join(name);
        fs::write(&path, value.to_string()).expect("a file");
        path
    }

    #[test]
    fn more_bytes_than_a_run_can_hold_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["a.json", "b.json", "c.json"].map(|name| result(folder.path(), name));
        let bytes = fs::metadata(&files[0]).expect("there").len();
        let request = Request { from: vec![folder.path().into()], ..Request::default() };
        assert_eq!(found(&request, 3 * bytes).expect("all").files.len(), 3);
        let problem = found(&request, 2 * bytes).err().expect("too many").to_string();
        assert!(problem.contains("c.json") && problem.contains("import fewer at a time"), "{problem}");
    }

    /// Before, every job kept all of its texts, and a file of 64 MiB may have a thousand jobs that share the texts of its global
    /// options.
    #[test]
    fn texts_of_options_stay_short_and_different() {
        let long = |end: &str| "ä".repeat(1 << 20) + end;
        let job = |end: &str| {
            serde_json::json!({"jobname": end, "error": 0, "job options": {"rw": "randread", "x": long(end)},
                "read": {"total_ios": 10, "io_bytes": 40960, "runtime": 1000, "iops": 10.0, "bw_bytes": 40960,
                     "lat_ns": {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0, "bins": {"5": 10}}}})
        };
        let value =
            serde_json::json!({"fio version": "fio-3.33", "global options": {"y": long("")}, "jobs": [job("a"), job("b")]});
        let jobs = jobs_of(&value, 0, "drive").expect("two jobs");
        let kept: usize = jobs.iter().flat_map(|job| job.options.iter()).map(|(key, value)| key.len() + value.len()).sum();
        assert!(kept < 20_000, "{kept} bytes are kept");
        assert_ne!(jobs[0].options["x"], jobs[1].options["x"]);
        let many: serde_json::Map<String, Value> = (0..2000).map(|at| (format!("o{at}"), Value::from("1"))).collect();
        let many = serde_json::json!({"fio version": "fio-3.33", "global options": many, "jobs": [job("a")]});
        assert!(jobs_of(&many, 0, "drive").err().expect("too many").contains("more than fio knows"));
    }

    #[test]
    fn a_file_that_changes_while_it_is_imported_is_no_evidence() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = result(folder.path(), "a.json");
        let found = found(&Request { from: vec![path.clone()], ..Request::default() }, BYTES_MAX).expect("one");
        let text = fs::read_to_string(&path).expect("there");
        assert_eq!(found.files[0].again().expect("unchanged"), text);
        fs::write(&path, text.replace("40960", "81920")).expect("written");
        assert!(found.files[0].again().expect_err("changed").to_string().contains("it changed while"));
    }
}
