//! Goal: a measurement (a trace, or a run of the laboratory) becomes a purpose of `stria plan`. Method: traces made by hand,
//! whose mix is known; a run on models; the real programs. Invalid input gets a message.

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use stria_lab::purpose;
use stria_plan::advice::Purpose;
use stria_plan::load::Pattern;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

fn of(path: &Path) -> Purpose {
    purpose::of(path.to_str().expect("text")).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn refused(name: &str) -> String {
    purpose::of(name).expect_err("it is not a purpose").to_string()
}

/// Two random reads of 4 KiB that begin together and take 2 ms each, for each sequential write of 64 KiB, which takes 1 ms alone.
fn msr(groups: u64) -> String {
    let mut text = String::new();
    for group in 0..groups {
        let time = group * 100_000;
        for read in [0, 1] {
            let at = ((2 * group + read) * 7919 % 4096) << 20;
            writeln!(text, "{time},web,0,Read,{at},4096,20000").expect("memory");
        }
        writeln!(text, "{},web,0,Write,{},65536,10000", time + 50_000, (1 << 40) + group * 65_536).expect("memory");
    }
    text
}

/// A trace of one request was "1 requests" and told shares of all or nothing without a word of doubt.
#[test]
fn a_trace_of_few_requests_is_said_to_tell_little() {
    let folder = folder();
    let measured = |name: &str, text: &str| of(&file(folder.path(), name, text)).measured.expect("a trace");
    let first = msr(1).lines().next().expect("a request").to_owned() + "\n";
    assert_eq!(measured("one.csv", &first), "1 request, too few to tell shares and sizes, of the trace one.csv (msr)");
    assert_eq!(measured("many.csv", &msr(40)), "120 requests of the trace many.csv (msr)");
}

/// The cost of a request grew with its size: a trace of 147 KB kept the program busy for minutes.
#[test]
fn a_request_of_a_gibibyte_costs_no_more_than_a_small_one() {
    let folder = folder();
    let mut text = String::new();
    (0..100_000_u64).for_each(|at| writeln!(text, "a,R,{},1073741824,{at}", (at % 1000) << 30).expect("memory"));
    let purpose = of(&file(folder.path(), "large.csv", &text));
    assert_eq!(purpose.parts[0].footprint_bytes, Some(1000 << 30));
}

#[test]
fn the_mix_of_a_trace_is_found_again() {
    let folder = folder();
    let purpose = of(&file(folder.path(), "web_0.csv", &msr(1000)));
    let [part] = &purpose.parts[..] else { panic!("one load: {purpose:?}") };
    assert!((part.read_share - 2.0 / 3.0).abs() < 1e-9, "{part:?}");
    // 4 ms of two reads and 1 ms of a write in 3 ms in which the drive is busy: 5/3.
    assert_eq!(part.depth, 2);
    assert!(
        purpose.about.contains("1.7 under way while busy") && purpose.about.contains("67 % reads, 67 % at random"),
        "{}",
        purpose.about
    );
    // 3,000 requests in 10 s; 2,000 reads in pieces of their own, and 62.5 MiB of writes.
    assert!(purpose.about.contains("300 requests a second"), "{}", purpose.about);
    assert_eq!(part.footprint_bytes.map(|bytes| bytes >> 20), Some(2000 + 63));
    let mean_kib = (2.0 * 4.0 + 64.0) / 3.0;
    assert_eq!(part.block_bytes >> 10, mean_kib as u64);
    let source = purpose.measured.as_deref().expect("it was measured");
    assert!(source.contains("3000 requests") && source.contains("web_0.csv (msr)"), "{source}");
    // The first write follows nothing.
    let of =
        |write, pattern| part.streams.iter().find(|stream| stream.write == write && stream.pattern == pattern).expect("a stream");
    assert_eq!(of(false, Pattern::Random).sizes, [(4096, 2000.0)]);
    assert_eq!(of(true, Pattern::Sequential).sizes, [(65_536, 999.0)]);
    assert_eq!(part.streams.len(), 3);
}

/// Hot spots are found, and none in an even load, whose pieces have a request or two each by chance. Rates are those of the
/// trace.
#[test]
fn hot_spots_and_rates_of_a_trace_are_found() {
    let folder = folder();
    let trace = |hot_of_ten: u64| {
        let mut text = String::new();
        let mut chance = stria_plan::chance::Chance::new(7, 0);
        // 1,000 requests a second, and 3,000 in one of the ten seconds.
        for second in 0..10_u64 {
            let count = if second == 4 { 3_000 } else { 1_000 };
            for request in 0..count {
                let hot = chance.below(10) < hot_of_ten;
                let piece = if hot { chance.below(40) * 97 % 4_000 } else { chance.below(4_000) };
                let time = second * 10_000_000 + request * 10_000_000 / count;
                let at = (piece << 20) + chance.below(200) * 4096;
                writeln!(text, "{time},web,0,Read,{at},4096,100").expect("memory");
            }
        }
        text
    };
    let hot = of(&file(folder.path(), "hot.csv", &trace(8)));
    // Some 1,800 pieces are touched: a hundredth of them is 18 of the 40 hot ones, and a twentieth has all 40.
    let zones = &hot.parts[0].streams[0].zones;
    let [(first, hundredth), (second, twentieth), ..] = zones[..] else { panic!("zones: {hot:?}") };
    assert!((hundredth - 0.01).abs() < 0.002 && (hundredth + twentieth - 0.05).abs() < 0.002, "{zones:?}");
    assert!((first - 0.8 * 18.0 / 40.0).abs() < 0.04 && (0.79..0.85).contains(&(first + second)), "{zones:?}");
    assert!(hot.about.contains("of the random requests in its hottest fifth"), "{}", hot.about);
    let even = of(&file(folder.path(), "even.csv", &trace(0)));
    assert!(even.parts[0].streams[0].zones.is_empty(), "{even:?}");
    let rates = hot.parts[0].recorded.expect("the trace has times");
    assert!((rates.mean_per_s - 1_200.0).abs() < 5.0 && (rates.peak_per_s - 3_000.0).abs() < 5.0, "{rates:?}");
}

/// A trace without response times says so; one with issues and ends has a depth, three requests at a time here.
#[test]
fn the_depth_is_measured_or_said_to_be_assumed() {
    let folder = folder();
    let (mut queued, mut whole) = (String::new(), String::new());
    for group in 0..100_u64 {
        for (request, sector) in [800, 80_000, 8_000].iter().enumerate() {
            let (sequence, sector) = (group * 9 + request as u64, sector + group * 64);
            let line = |time: &str, action| format!("8,0 0 {sequence} {group}.{time} 1 {action} R {sector} + 8 [fio]\n");
            queued += &line("0", "Q");
            whole += &(line("0", "Q") + &line("0", "D"));
        }
        for sector in [800, 80_000, 8_000].map(|sector| sector + group * 64) {
            writeln!(whole, "8,0 0 {} {group}.002 0 C R {sector} + 8 [0]", group * 9 + 8).expect("memory");
        }
    }
    let assumed = of(&file(folder.path(), "queued.txt", &queued));
    assert!(assumed.parts[0].depth == 32 && assumed.about.contains("assumed"), "{}", assumed.about);
    let found = of(&file(folder.path(), "whole.txt", &whole));
    assert!(found.parts[0].depth == 3 && found.about.contains("3.0 under way while busy"), "{}", found.about);
}

#[test]
fn what_is_no_purpose_gets_a_sentence() {
    let folder = folder();
    let path = |name: &str, text: &str| file(folder.path(), name, text).to_str().expect("text").to_owned();
    let ambiguous = path("ambiguous", "0.5 0 8 8 1\n");
    for (name, sentence) in [
        (path("empty", ""), "not a trace whose format is recognised"),
        (path("prose", "A trace this is not.\n"), "put the format first"),
        (ambiguous.clone(), "disksim: or mqsim:"),
        (path("huge", "1,a,0,Read,0,99999999999,1\n"), "99999999999 bytes at 0, which no drive has"),
        (path("far", "1,a,0,Read,18446744073709551615,4096,1\n"), "which no drive has"),
        (path("flushes", "fio version 2 iolog\n/dev/x add\n/dev/x sync\n"), "neither reads nor writes data"),
        (path("late", "1,a,0,Read,0,4096,1\n2,a,0,Reads,0,4096,1\n"), "line 2: type \"Reads\" is neither Read nor Write"),
        (format!("alibaba:{}", path("opcodes", "1,R,0,4096,1\n2,X,0,4096,2\n")), "line 2: opcode \"X\" is neither R nor W"),
        (format!("msr:{}", path("short", "1,a,0,Read,0,4096,1\n2,a,0\n")), "line 2: type is missing"),
        ("/nowhere/trace.csv".to_owned(), "No such file"),
        (folder.path().to_str().expect("text").to_owned(), "manifest.json"),
    ] {
        let said = refused(&name);
        assert!(said.contains(sentence), "{name}: {said}");
    }
    assert_eq!(of(Path::new(&format!("disksim:{ambiguous}"))).parts[0].block_bytes, 4096);
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_stria-lab")).with_file_name(name)
}

fn run(name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(program(name)).args(arguments).output().unwrap_or_else(|error| panic!("{name}: {error}: build it first"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Each load once, with the time that it was measured, whichever array it was measured on.
#[test]
fn the_loads_of_a_run_are_a_purpose() {
    let folder = folder();
    let experiment = "name = \"mine\"\ntitle = \"T\"\nquestion = \"Q?\"\n[[section]]\nname = \"s\"\ntest = \"sweep\"\nstate = \"fresh\"\n\
        load = [{ pattern = \"random\", block = \"8K\", read_percent = [70], queue_depth = 4, threads = 2 },\n\
        { pattern = \"sequential\", block = \"1M\", read_percent = [100], queue_depth = 2 },\n\
        { pattern = \"random\", block = \"512\", read_percent = [100], queue_depth = 1 }]\n";
    let experiment = file(folder.path(), "mine.toml", experiment);
    let out = folder.path().join("run");
    let (experiment, out) = (experiment.to_str().expect("text"), out.to_str().expect("text"));
    let targets = ["--target", "model:s3500", "--target", "model:s3500:0:2:64K"];
    let (code, _, error) = run("stria-lab", &[&["run", experiment, "--out", out][..], &targets].concat());
    assert_eq!(code, Some(0), "{error}");
    let purpose = of(Path::new(out));
    let words: Vec<&str> = purpose.parts.iter().map(|part| &*part.name).collect();
    assert_eq!(words, ["1 MiB in order, 100 % reads, 2 under way", "8 KiB at random, 70 % reads, 8 under way"], "{purpose:?}");
    assert_eq!(purpose.parts[1].threads, 2);
    assert!(purpose.measured.as_deref().is_some_and(|source| source.contains("experiment mine in run")), "{purpose:?}");
    assert!((purpose.parts.iter().map(|part| part.time_share).sum::<f64>() - 1.0).abs() < 1e-9);
    let (code, words, _) = run("stria-lab", &["purpose", out]);
    assert!(code == Some(0) && words.contains("2 loads, each with its share") && words.contains("8 KiB at random"), "{words}");
}

/// `stria-plan` starts `stria-lab`, and reports its answer as measured.
#[test]
fn a_plan_stands_on_a_trace() {
    let folder = folder();
    let trace = file(folder.path(), "web_0.csv", &msr(500));
    let trace = trace.to_str().expect("text");
    let asked = ["advise", "--drives", "4xs3500", "--requests", "1000", "--strip", "64K", "--json", "--purpose"];
    let (code, out, error) = run("stria-plan", &[&asked[..], &[trace]].concat());
    assert_eq!(code, Some(0), "{error}");
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert!(told["purpose"].as_str().is_some_and(|words| words.contains("67 % reads")), "{out}");
    assert!(told["purpose_measured"].as_str().is_some_and(|words| words.contains("web_0.csv (msr)")), "{out}");
    // Requests are 24 KiB in the mean.
    let load = &told["ranking"][0]["loads"][0];
    let bytes = load["bytes_per_s"].as_f64().expect("a rate") / load["iops"].as_f64().expect("a rate");
    assert!((bytes / 24_576.0 - 1.0).abs() < 0.1, "{bytes}");
    assert!(out.contains("The trace has 300 requests a second"), "{out}");
    let (code, words, _) = run("stria-plan", &[&asked[..7], &["--explain", "--depth", "8", "--purpose", trace]].concat());
    assert!(code == Some(0) && words.contains("PURPOSE") && words.contains("measured: 1500 requests"), "{words}");
    assert!(words.contains("8 requests under way, as --depth says"), "{words}");
    for (name, sentence) in [("games", "there is no purpose games"), (env!("CARGO_MANIFEST_DIR"), "manifest.json")] {
        let (code, out, error) = run("stria-plan", &[&asked[..7], &["--purpose", name]].concat());
        assert!(code == Some(2) && out.is_empty() && error.contains(sentence), "{error}");
    }
}
