//! `bench`: a load in this process on an array and on its bare members, compared with the limits of the geometry.
//!
//! There are three kinds of arrays: one that exists on drives (read only, unless --force allows overwriting), one made on image
//! files for this run, and one in memory, which shows the engine's own figures.

#![forbid(unsafe_code)]

use clap::{Args, Parser, ValueEnum, ValueHint};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use stria_array::Level;
use stria_bench::report::{Section, page};
use stria_bench::{
    Comparison, Environment, Latency, Ledger, Limit, Load, Order, Subject, Target, array_over, compare, scaling::shape_of,
    usual_loads,
};
use stria_block::{BlockDevice, RamDevice};
use stria_drive::{Access, Ring};
use stria_format::md::BitmapChoice;
use stria_host::{ArrayLevel, CreateSpec, HostedArray, OpenOptions, choose, default_strip_sectors, sort_arguments};
use stria_terminal::output::{self, confirm_by, print, print_json, write_file};
use stria_terminal::progress::steps_bar;
use stria_terminal::{Failure, size};

/// Measure an array, its bare members, and the limits of its geometry.
#[derive(Parser)]
#[command(name = "stria bench", bin_name = "stria bench", max_term_width = 110)]
struct Cli {
    /// Print JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    bench: Bench,
}

#[derive(Args, Debug)]
struct Bench {
    /// Drives of an array that is not served. They are only read, unless --force is given.
    #[arg(value_name = "DRIVE", value_hint = ValueHint::FilePath, conflicts_with_all = ["ram", "files"])]
    drives: Vec<PathBuf>,
    /// An array of this many members in memory, which shows the limits of the engine itself.
    #[arg(long, value_name = "N", conflicts_with = "files")]
    ram: Option<usize>,
    /// An array of this many image files, made for this run.
    #[arg(long, value_name = "N")]
    files: Option<usize>,
    /// Folder for the image files; by default the system's folder for temporary files.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Level of an array made for this run.
    #[arg(long, short, default_value = "5")]
    level: ArrayLevel,
    /// Strip of an array made for this run; the default depends on the number of drives.
    #[arg(long, visible_alias = "chunk", value_name = "SIZE", value_parser = size::parse_sectors)]
    strip: Option<u64>,
    /// Size of each member of an array made for this run.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse)]
    size: u64,
    /// One pattern, named as in fio, instead of the usual table.
    #[arg(long, value_name = "PATTERN")]
    rw: Option<Pattern>,
    /// Percentage of reads of rw and randrw.
    #[arg(long, value_name = "PERCENT", default_value_t = 70, value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixread: u8,
    /// Size of requests; without --rw: only the rows of the usual table with this size.
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    bs: Option<u32>,
    /// Requests in flight; without --rw: only the rows of the usual table with this depth.
    #[arg(long, value_name = "N")]
    iodepth: Option<usize>,
    /// Seconds of each load, after a warm-up of a fifth of this time.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    runtime: f64,
    /// Number of rounds; figures are medians.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Verify every block instead of comparing: half of the requests are writes, and everything is read back.
    #[arg(long)]
    verify: bool,
    /// Overwrite the contents of the array on the drives.
    #[arg(long, visible_alias = "yes", short_alias = 'y')]
    force: bool,
    /// Write a page with charts to this file.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Write the figures to this file.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,
}

/// Loads, named as in fio.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "lower")]
enum Pattern {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential reads and writes.
    Rw,
    /// Random reads.
    Randread,
    /// Random writes.
    Randwrite,
    /// Random reads and writes.
    Randrw,
}

fn block_size(text: &str) -> Result<u32, String> {
    let bytes = size::parse_sectors(text)? * 512;
    u32::try_from(bytes).ok().filter(|bytes| (512..=64 << 20).contains(bytes)).ok_or("use 512 to 64M".into())
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|seconds| (0.01..=86400.0).contains(seconds)).ok_or("use 0.01 to 86400".into())
}

fn main() -> ExitCode {
    stria_terminal::run_tool(|cli: &Cli| cli.json, |cli, json| bench(&cli.bench, json).map(|()| 0))
}

/// A subject, and the folder of its image files, which must live as long.
struct Bound {
    subject: Subject,
    /// An array with metadata is stopped at the end.
    array: Option<HostedArray>,
    members: String,
    _folder: Option<tempfile::TempDir>,
}

/// Runs the loads and shows the results.
///
/// # Errors
/// There is no such array, writes were not allowed, or a load failed.
fn bench(command: &Bench, json: bool) -> Result<(), Failure> {
    if command.drives.is_empty() && command.ram.is_none() && command.files.is_none() {
        return Err(Failure::Usage("name the drives of an array, or measure a temporary one: --ram N or --files N".into()));
    }
    let level = command.level;
    let loads = loads(command)?;
    let writes = loads.iter().any(|load| load.read_percent < 100);
    let mut bound = match (command.ram, command.files) {
        (Some(count), _) => in_memory(count, level, command)?,
        (None, Some(count)) => on_files(count, level, command)?,
        (None, None) => {
            if writes || command.verify {
                confirm_by("The load overwrites the data of the array.", command.force, "--force")?;
            }
            on_drives(&command.drives, writes || command.verify)?
        }
    };
    let outcome = match command.verify {
        true => verify(&mut bound, &loads, json),
        false => measure(&mut bound, &loads, command, json),
    };
    if let Some(array) = &mut bound.array {
        array.sync_io(|io| io.stop())?;
    }
    outcome
}

/// The requested loads: one, or the usual table. On drives, reads only, unless overwriting was allowed.
///
/// # Errors
/// No row of the table is wanted.
fn loads(command: &Bench) -> Result<Vec<Load>, Failure> {
    let precious = !command.drives.is_empty() && !command.force;
    let run = Duration::from_secs_f64(command.runtime);
    let Some(pattern) = command.rw else {
        let fits = |load: &Load| {
            (!precious || load.read_percent == 100)
                && command.bs.is_none_or(|bs| load.block_bytes == bs)
                && command.iodepth.is_none_or(|depth| load.queue_depth == depth)
        };
        let wanted: Vec<Load> = usual_loads(run).into_iter().filter(fits).collect();
        return if wanted.is_empty() { Err(no_row(command)) } else { Ok(wanted) };
    };
    let (order, read_percent) = match pattern {
        Pattern::Read => (Order::Sequential, 100),
        Pattern::Write => (Order::Sequential, 0),
        Pattern::Rw => (Order::Sequential, command.rwmixread),
        Pattern::Randread => (Order::Random, 100),
        Pattern::Randwrite => (Order::Random, 0),
        Pattern::Randrw => (Order::Random, command.rwmixread),
    };
    let block_bytes = command.bs.unwrap_or(if order == Order::Random { 4 << 10 } else { 128 << 10 });
    let queue_depth = command.iodepth.unwrap_or(32);
    Ok(vec![Load { block_bytes, read_percent, queue_depth, order, warm_up: run / 5, limit: Limit::Time(run), ..Load::default() }])
}

/// The usual table has no row of this size and depth.
fn no_row(command: &Bench) -> Failure {
    let mut rows: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for load in usual_loads(Duration::ZERO) {
        rows.entry(load.block_bytes).or_default().insert(load.queue_depth);
    }
    let size = |bytes: u32| size::show(u64::from(bytes));
    let listed = |(bytes, depths): (&u32, &BTreeSet<usize>)| {
        let depths: Vec<String> = depths.iter().map(ToString::to_string).collect();
        format!("{} at depth {}", size(*bytes), depths.join(", "))
    };
    let listed: Vec<String> = rows.iter().map(listed).collect();
    let wanted = [command.bs.map(|bs| format!("--bs {}", size(bs))), command.iodepth.map(|depth| format!("--iodepth {depth}"))];
    let wanted: Vec<String> = wanted.into_iter().flatten().collect();
    Failure::Usage(format!(
        "no row of the usual table has {}: it has {}; for any other load add --rw, as in --rw randwrite",
        wanted.join(" and "),
        listed.join("; ")
    ))
}

fn in_memory(count: usize, level: ArrayLevel, command: &Bench) -> Result<Bound, Failure> {
    let strip = command.strip.unwrap_or_else(|| default_strip_sectors(count, false));
    let sectors = command.size / 512;
    let ram = |_| Box::new(RamDevice::new(sectors)) as Box<dyn BlockDevice>;
    let (mut array, shape) = array_over(level, strip, (0..count).map(ram).collect()).map_err(Failure::failed)?;
    let mut members: Vec<Box<dyn BlockDevice>> = (0..count).map(ram).collect();
    // Untouched memory is mapped to one page of zeros, which is faster than any drive.
    let devices = std::iter::once(&mut array).chain(&mut members);
    for device in devices {
        let operations = device.limits().size_sectors / 2048;
        let fill = Load {
            block_bytes: 1 << 20,
            read_percent: 0,
            order: Order::Sequential,
            limit: Limit::Operations(operations.max(1)),
            ..Load::default()
        };
        fill.run(Target { device, ring: None }, None).map_err(Failure::failed)?;
    }
    let name = format!("RAID {level} of {count} in memory");
    let members_words = format!("{count} members of {} in memory", size::show(command.size));
    let subject = Subject { name, array, shape, members, members_writable: true, ring: None };
    Ok(Bound { subject, array: None, members: members_words, _folder: None })
}

fn on_files(count: usize, level: ArrayLevel, command: &Bench) -> Result<Bound, Failure> {
    let parent = command.dir.clone().unwrap_or_else(std::env::temp_dir);
    let failed = |error: io::Error| {
        Failure::Failed(format!("cannot make image files in {}: {error}; choose with --dir", parent.display()))
    };
    let folder = tempfile::Builder::new().prefix("stria-bench-").tempdir_in(&parent).map_err(failed)?;
    let file = |name: String| {
        let path = folder.path().join(name);
        // Written in full: reads of holes would cost nothing.
        let zeros = vec![0; 1 << 20];
        let mut file = std::fs::File::create(&path).map_err(failed)?;
        for _ in 0..command.size >> 20 {
            io::Write::write_all(&mut file, &zeros).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok::<PathBuf, Failure>(path)
    };
    let drives: Vec<PathBuf> = (0..count).map(|index| file(format!("member{index}"))).collect::<Result<_, _>>()?;
    let bare: Vec<PathBuf> = (0..count).map(|index| file(format!("bare{index}"))).collect::<Result<_, _>>()?;
    let (ArrayLevel::Single(inner) | ArrayLevel::Striped(inner)) = level;
    let spec = CreateSpec {
        strip_sectors: command.strip,
        bitmap: if inner == Level::Raid0 { BitmapChoice::None } else { BitmapChoice::Internal { chunk_bytes: None } },
        assume_clean: true,
        ..CreateSpec::new("bench", level, &drives)
    };
    stria_host::create(&spec)?;
    let ring = Ring::new().map_err(Failure::failed)?;
    let (array, _) = stria_host::open(&drives, &ring, OpenOptions::default())?;
    let name = format!("RAID {level} of {count} image files");
    bind(array, name, &bare, true, ring, Some(folder))
}

fn on_drives(what: &[PathBuf], writes: bool) -> Result<Bound, Failure> {
    let options = OpenOptions { read_only: !writes, ..OpenOptions::default() };
    let (drives, names) = sort_arguments(what);
    let mut planned = choose(&drives, &names, options, &|_| {})?;
    if planned.len() > 1 {
        let names: Vec<&str> = planned.iter().map(|array| array.name.as_str()).collect();
        return Err(Failure::Usage(format!(
            "there are several arrays on these drives ({}): name the drives of one",
            names.join(", ")
        )));
    }
    let planned = planned.remove(0);
    let ring = Ring::new().map_err(Failure::failed)?;
    let (array, _) = stria_host::open(&planned.drives, &ring, options)?;
    if writes {
        // A resync in the background would affect the figures.
        array.tree().iter().for_each(|array| array.with_engine(|engine| engine.pause(true)));
    }
    bind(array, format!("array \"{}\"", planned.name), &planned.drives, false, ring, None)
}

/// `bare`: the drives for comparison, which are written only if they are not the array's own.
fn bind(
    array: HostedArray,
    name: String,
    bare: &[PathBuf],
    members_writable: bool,
    ring: Ring,
    folder: Option<tempfile::TempDir>,
) -> Result<Bound, Failure> {
    let access = if members_writable { Access::Exclusive } else { Access::ReadOnly };
    let open = |path: &PathBuf| stria_drive::open(path, &ring, access).map(|drive| Box::new(drive) as Box<dyn BlockDevice>);
    let mut members = bare.iter().map(open).collect::<Result<Vec<_>, _>>().map_err(Failure::failed)?;
    let shape = shape_of(&array);
    members.truncate(shape.members);
    let info = stria_drive::probe(&bare[0]).map_err(Failure::failed)?;
    let how = match (info.direct, info.direct_note) {
        (true, _) => "direct I/O".into(),
        (false, note) => format!("through the page cache: {}", note.unwrap_or_default()),
    };
    let words =
        format!("{} drives like {} of {}, {how}", shape.members, bare[0].display(), size::show(info.limits.size_sectors * 512));
    let subject = Subject { name, array: Box::new(array.clone()), shape, members, members_writable, ring: Some(ring) };
    Ok(Bound { subject, array: Some(array), members: words, _folder: folder })
}

fn verify(bound: &mut Bound, loads: &[Load], json: bool) -> Result<(), Failure> {
    let mut results = Vec::new();
    for load in loads {
        let size = bound.subject.array.limits().size_sectors;
        let block_sectors = u64::from(load.block_bytes) / 512;
        let mut ledger = Ledger::new(load.seed, 0..size / block_sectors * block_sectors, load.block_bytes);
        // At least half writes, as there would be nothing to compare otherwise.
        let load = Load { read_percent: load.read_percent.min(50), ..load.clone() };
        let ring = bound.subject.ring.clone();
        let device: &mut dyn BlockDevice = &mut bound.subject.array;
        let outcome = load.run(Target { device, ring: ring.as_ref() }, Some(&mut ledger)).map_err(Failure::failed)?;
        let device: &mut dyn BlockDevice = &mut bound.subject.array;
        let check = Load::check(&ledger, 32);
        let checked = check.run(Target { device, ring: ring.as_ref() }, Some(&mut ledger)).map_err(Failure::failed)?;
        results.push((stria_bench::label(&load), outcome, checked.verified_blocks));
    }
    if json {
        let rows = results
            .iter()
            .map(|(label, outcome, end)| serde_json::json!({"load": label, "outcome": outcome, "verified_at_end": end}));
        print_json(&rows.collect::<Vec<_>>());
    } else {
        for (label, outcome, end) in &results {
            let (under, iops) = (outcome.verified_blocks, outcome.iops());
            print(&format!("{label}: {iops:.0} IOPS, {under} blocks verified under load and {end} at the end, none was wrong\n"));
        }
    }
    Ok(())
}

fn measure(bound: &mut Bound, loads: &[Load], command: &Bench, json: bool) -> Result<(), Failure> {
    let bar = steps_bar(json);
    let comparison = compare(&mut bound.subject, loads, command.rounds.max(1), &mut |done, total, what| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    let comparison = comparison.map_err(Failure::failed)?;
    let environment = Environment::here(bound.members.clone());
    if let Some(path) = &command.csv {
        write_file(path, &comparison.to_csv())?;
    }
    if let Some(path) = &command.html {
        write_file(path, &page(&format!("Stria bench: {}", comparison.name), &environment, &[Section::Comparison(&comparison)]))?;
    }
    if json {
        print_json(&serde_json::json!({"environment": environment, "comparison": comparison}));
    } else {
        print(&words(&comparison, &environment));
    }
    Ok(())
}

fn words(comparison: &Comparison, environment: &Environment) -> String {
    let Environment { cpu, cpu_count, kernel, members, .. } = environment;
    let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0));
    let micros = |nanos: u64| format!("{:.0}", nanos as f64 / 1e3);
    let rows = comparison.rows.iter().map(|row| {
        let latency: &Latency = if row.read_percent >= 50 { &row.array.reads } else { &row.array.writes };
        let mut cells = vec![
            row.label.clone(),
            format!("{:.0}", row.array.iops.median),
            format!("±{:.0} %", row.array.iops.relative() * 50.0),
            format!("{:.0}", row.array.mb_per_s),
        ];
        cells.extend([latency.p50_ns, latency.p99_ns, latency.p999_ns].map(micros));
        cells.push(format!("{:.1}", row.array.cpu_ns_per_io / 1e3));
        cells.extend([percent(row.share_of_member), percent(row.share_of_allowed)]);
        cells
    });
    let header =
        ["load", "IOPS", "spread", "MB/s", "p50 µs", "p99 µs", "p99.9 µs", "CPU µs/IO", "of a member", "of what is allowed"];
    let table = output::table(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9], rows.collect());
    let basis = match comparison.basis {
        stria_bench::Basis::Second => "Shares compare requests per second",
        stria_bench::Basis::CpuSecond => "Shares compare requests per second of CPU time, as members in memory wait for nothing",
    };
    let rounds = comparison.rounds;
    format!(
        "{}: RAID {}, {members}\n{cpu}, {cpu_count} CPUs, Linux {kernel}; median of {rounds} rounds\n\n{table}\n\n\
         {basis}; \"allowed\" is the limit of the geometry on members as fast as these.\n",
        comparison.name, comparison.level
    )
}
