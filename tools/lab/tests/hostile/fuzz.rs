//! Mutations of the shipped experiments, of a run's folder, of a trace of each format, and of fio's JSON.
//!
//! Short by default; for a night: STRIA_FUZZ_ROUNDS=1000000 cargo test -p stria-lab --test hostile fuzz -- --nocapture A round
//! depends only on its number: STRIA_FUZZ_FIRST=4711 STRIA_FUZZ_ROUNDS=1 repeats one.

#[path = "../report/sample.rs"]
#[allow(dead_code, reason = "it is shared with the tests of reports")]
pub mod sample;

use sample::{Story, point, target};
use std::ops::ControlFlow;
use std::path::Path;
use stria_lab::compare::compare;
use stria_lab::experiment::Experiment;
use stria_lab::import::{Request, import};
use stria_lab::plan::plan;
use stria_lab::result::{Point, SectionKind, TargetKind};
use stria_lab::shipped::EXPERIMENTS;
use stria_lab::stage::Scale;
use stria_lab::target::{Pool, TargetSpec};
use stria_lab::trace::{Format, Source};
use stria_lab::{export, report};

const ROUNDS: u64 = 480;
/// Processor time of a round, which does not depend on the load of other programs.
const SECONDS_MAX: f64 = 5.0;
/// Of this whole process.
const MEMORY_KIB_MAX: u64 = 2 << 20;

const TRACES: [(Format, &[u8]); 7] = [
    (Format::Msr, b"128166372003061629,usr,0,Read,7014609920,24576,41286\n128166372016382155,usr,1,Write,2517798912,4096,1963\n"),
    (
        Format::Alibaba,
        b"device_id,opcode,offset,length,timestamp\n419,W,8792731648,16384,1577808144360767\n725,R,4096,512,1577808144360292\n",
    ),
    (Format::Tencent, b"1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n1538323201,1904106496,384,0,1360\n"),
    (Format::Blkparse, b"8,0 3 11 0.009507758 697 Q W 223490 + 8 [kjournald]\n8,0 3 12 0.01 697 D FWFS 8 + 8 [x]\n"),
    (Format::Iolog, b"fio version 3 iolog\n1 x add\n1 x open\n1 x write 0 8192\n50000 x trim 65536 4096\n100000 x datasync\n"),
    (Format::Iolog, b"fio version 2 iolog\nx add\nx open\nx wait 5\nx write 0 8192\nx read 4096 4096\nx close\n"),
    (Format::DiskSim, b"0.5 0 1000 8 1\n1.25 1 2000 16 0\n0.75 0 3000 8 1\n"),
];

const WORDS: [&[u8]; 22] = [
    b"1e308",
    b"-1",
    b"18446744073709551615",
    b"9223372036854775808",
    b"0",
    b"nan",
    b"inf",
    b"null",
    b"[",
    b"{",
    b"\"",
    b"\n",
    b"\0",
    b"../../etc/passwd",
    b"\xff\xfe",
    b"\x1b[2J",
    b"[[section]]\n",
    b"fio = { ioengine = \"exec\" }",
    b"0.0000001",
    b"999999999999",
    b",",
    b"true",
];

/// The same on every machine: xorshift64*.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(64)).min(bytes.len());
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let part = bytes[at..end].repeat(1 + self.below(40));
                    bytes.splice(at..at, part);
                }
                3 => bytes.truncate(at),
                // A number becomes another one.
                4 => {
                    let from = (at..bytes.len()).find(|at| bytes[*at].is_ascii_digit()).unwrap_or(at);
                    let to = (from..bytes.len()).find(|at| !bytes[*at].is_ascii_digit()).unwrap_or(bytes.len());
                    let word = WORDS[self.below(7)];
                    bytes.splice(from..to, word.iter().copied());
                }
                _ => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(at..at, word.iter().copied());
                }
            }
        }
    }

    /// One value of JSON becomes another of its kind.
    fn mutate_json(&mut self, value: &mut serde_json::Value) {
        use serde_json::{Value, json};
        let numbers = [
            json!(0),
            json!(-1),
            json!(1),
            json!(1e17),
            json!(999_999_999_999_999_999_u64),
            json!(1e-300),
            json!(4_294_967_295_u64),
            json!(1e300),
        ];
        match value {
            Value::Object(map) if !map.is_empty() => {
                let at = self.below(map.len());
                let inner = map.values_mut().nth(at).expect("counted");
                self.mutate_json(inner);
            }
            Value::Array(list) if !list.is_empty() && self.below(8) > 0 => {
                let at = self.below(list.len());
                self.mutate_json(&mut list[at]);
            }
            Value::Array(list) => match self.below(3) {
                0 => list.clear(),
                1 if !list.is_empty() => list.extend(vec![list[0].clone(); 1000]),
                _ => list.reverse(),
            },
            Value::Number(_) => *value = numbers[self.below(numbers.len())].clone(),
            Value::String(text) => {
                *text = ["", "x", "\u{1b}[2J<script>", "../..", "ü".repeat(5000).as_str()][self.below(5)].to_owned()
            }
            Value::Bool(is) => *is = !*is,
            Value::Null | Value::Object(_) => *value = json!(5),
        }
    }
}

/// A small run in a folder, with everything that a page shows.
pub fn run(folder: &Path) {
    let target = target("raid5 x4", TargetKind::Array, Some("5"), 4);
    let mut story = Story::new("run", vec![target.clone()]);
    let section = story.section("1", "sweep", SectionKind::Sweep, "raid5 x4");
    for round in 1..=3 {
        for queue_depth in [1, 8] {
            let rate = story.chance.noisy(10_000.0, 0.01);
            story.measure(&section, &Point { queue_depth, ..point(&target) }, round, rate, 8.0);
            story.series("rebuild", 0.0, 1.0);
        }
    }
    let section = story.section("2", "wsat", SectionKind::Wsat, "raid5 x4");
    for round in 1..=5 {
        story.measure(&section, &Point { read_percent: 0, ..point(&target) }, round, 5000.0, 8.0);
    }
    story.steady(true, 1, &[5000.0; 5]);
    story.write(folder);
}

fn folders(chance: &mut Chance, place: &Path) {
    let base = place.join("base");
    if !base.exists() {
        run(&base);
    }
    let copy = place.join("copy");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("series")).expect("a folder");
    std::fs::create_dir_all(copy.join("raw")).expect("a folder");
    for name in [
        "manifest.json",
        "records.jsonl",
        "notes.jsonl",
        "series/00000.json",
        "series/00001.json",
        "series/00002.json",
        "series/00003.json",
        "series/00004.json",
        "series/00005.json",
    ] {
        std::fs::copy(base.join(name), copy.join(name)).expect("copied");
    }
    let name = ["manifest.json", "records.jsonl", "records.jsonl", "notes.jsonl", "series/00000.json"][chance.below(5)];
    let text = std::fs::read(copy.join(name)).expect("there");
    let mutated = if chance.below(4) > 0 {
        let lines = text.split(|byte| *byte == b'\n' && name.ends_with('l'));
        let mut values: Vec<serde_json::Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        for _ in 0..=chance.below(3) {
            let at = chance.below(values.len());
            chance.mutate_json(&mut values[at]);
        }
        values.iter().map(|value| format!("{value}\n")).collect::<String>().into_bytes()
    } else {
        let mut text = text;
        chance.mutate(&mut text);
        text
    };
    std::fs::write(copy.join(name), mutated).expect("written");
    let _ = report::write(&copy, &place.join("x.html"));
    let _ = compare(&base, &copy);
    let _ = export::csv(std::slice::from_ref(&copy), &place.join("csv"));
    let _ = report::write_together(&[base, copy], &place.join("x.html"));
}

fn experiments(chance: &mut Chance) {
    let mut text = EXPERIMENTS[chance.below(EXPERIMENTS.len())].1.as_bytes().to_vec();
    chance.mutate(&mut text);
    let Ok(experiment) = Experiment::parse("x.toml", &String::from_utf8_lossy(&text)) else { return };
    let pool = Pool { folder: Some("/nowhere".into()), drive_bytes: Some(64 << 20), ..Pool::default() };
    let scale = Scale::new(Some(experiment.scaled.clone()));
    let mut targets = vec![TargetSpec::array("5", 4, Some(65536), None, &pool).expect("possible")];
    if let Some(arrays) = experiment.arrays(true) {
        targets.extend(TargetSpec::all(&arrays, &pool).unwrap_or_default().into_iter().take(20));
    }
    let plan = plan(&experiment, &targets, &scale, 500.0, Some(1 << 40));
    assert!(plan.seconds_max >= plan.seconds_min && plan.seconds_max.is_finite(), "{}", String::from_utf8_lossy(&text));
}

fn traces(chance: &mut Chance, place: &Path) {
    let (format, text) = TRACES[chance.below(TRACES.len())];
    let mut text = text.repeat(1 + chance.below(50));
    chance.mutate(&mut text);
    let format = if chance.below(8) == 0 { Format::ALL[chance.below(Format::ALL.len())].1 } else { format };
    let path = place.join("trace");
    std::fs::write(&path, text).expect("written");
    let Ok(source) = Source::open(&path, format) else { return };
    let mut last = 0;
    let read = source.each(&mut |record| {
        assert!(record.time_ns >= last);
        last = record.time_ns;
        ControlFlow::Continue(())
    });
    read.expect("as it was read before");
}

fn results_of_fio(chance: &mut Chance, place: &Path) {
    let text = r#"{"fio version": "fio-3.33", "timestamp_ms": 1700000000000, "global options": {"ioengine": "libaio", "direct": "1"}, "jobs": [
        {"jobname": "a", "groupid": 0, "error": 0, "job_runtime": 1000, "usr_cpu": 5.0, "sys_cpu": 7.5,
         "job options": {"rw": "randrw", "rwmixread": "70", "bs": "4k", "iodepth": "8", "numjobs": "2", "write_iops_log": "log", "log_avg_msec": "500"},
         "read": {"total_ios": 100, "io_bytes": 409600, "runtime": 1000, "iops": 100.0, "bw_bytes": 409600,
                  "clat_ns": {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0, "percentile": {"50.000000": 5, "99.000000": 8}},
                  "lat_ns": {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0, "bins": {"5": 60, "9": 40}}},
         "write": {"total_ios": 50, "io_bytes": 204800, "runtime": 1000, "iops": 50.0, "lat_ns": {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0}}}]}"#;
    let (file, out) = (place.join("x.json"), place.join("imported"));
    let mut bytes = text.as_bytes().to_vec();
    if chance.below(2) == 0 {
        let mut value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        chance.mutate_json(&mut value);
        bytes = value.to_string().into_bytes();
    } else {
        chance.mutate(&mut bytes);
    }
    std::fs::write(&file, bytes).expect("written");
    let mut log = b"500, 100, 0, 0, 0\n1000, 100, 0, 0, 0\n1500, 300, 1, 0, 0\n2000, 100, 0, 0, 0\n".to_vec();
    chance.mutate(&mut log);
    std::fs::write(place.join("log_iops.log"), log).expect("written");
    let _ = std::fs::remove_dir_all(&out);
    let request = Request { from: vec![file], target: "x".into(), ..Request::default() };
    if import(&request, &out).is_ok() {
        report::write(&out, &place.join("x.html")).expect("what is imported can be shown");
    }
}

fn cpu_seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Prints the round.
struct Round(u64);

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat it: STRIA_FUZZ_FIRST={} STRIA_FUZZ_ROUNDS=1 cargo test -p stria-lab --test hostile fuzz", self.0);
        }
    }
}

#[test]
fn mutations_of_all_that_is_read_neither_panic_nor_hang_nor_fill_memory() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(default);
    let first = number("STRIA_FUZZ_FIRST", 0);
    let place = tempfile::tempdir().expect("a folder");
    for round in first..first + number("STRIA_FUZZ_ROUNDS", ROUNDS) {
        let told = Round(round);
        let mut chance = Chance(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let before = cpu_seconds();
        // A folder has the most to mutate.
        match round % 8 {
            0 => experiments(&mut chance),
            1 | 4..=6 => folders(&mut chance, place.path()),
            2 => traces(&mut chance, place.path()),
            _ => results_of_fio(&mut chance, place.path()),
        }
        let took = cpu_seconds() - before;
        assert!(took < SECONDS_MAX, "{took} s");
        drop(told);
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("there");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok());
    assert!(peak.expect("told") < MEMORY_KIB_MAX, "{peak:?} KiB");
}
