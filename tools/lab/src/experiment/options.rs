//! Options of fio that an experiment may set for a load: a list of allowed options, each with the form of its values.
//!
//! An experiment may come from an untrusted source. fio has options that run programs, load libraries, and read and write files
//! of any name, and every release adds some, so every option outside of this list is refused. Each value has a form, and no form
//! allows a path, a line break, or the `;` and `#` at which a line of a job file ends.

use super::Text;
use std::collections::BTreeMap;

/// The form of a value.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// 0 or 1.
    Flag,
    /// A whole number from and to.
    Whole(i64, i64),
    /// A number of bytes, as 64k: at most a gibibyte.
    Size,
    /// Up to three rates, of reads, writes and discards: "10m,5m".
    Rates,
    /// A time: a number of microseconds, or with us, ms or s; at most a day.
    Time,
    /// A time during which fio sends nothing, in the same form: fio looks for the end of the load only afterwards.
    Pause,
    /// One of these.
    Word(&'static [&'static str]),
    /// A name and up to two numbers after colons: "zipf:1.2:0.5".
    Distribution,
    /// 0x and hexadecimal digits, a whole number, or letters and digits in double quotes.
    Pattern,
    /// Numbers of processors: "0-3,6".
    Processors,
}

use Form::{Distribution, Flag, Pattern, Pause, Processors, Rates, Size, Time, Whole, Word};

/// In the order of docs/LAB.md, which is tested to have the same.
const ALLOWED: &[(&str, Form)] = &[
    // The way in which requests are made.
    ("ioengine", Word(&["io_uring", "libaio", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync", "mmap"])),
    ("hipri", Flag),
    ("hipri_percentage", Whole(0, 100)),
    ("fixedbufs", Flag),
    ("registerfiles", Flag),
    ("sqthread_poll", Flag),
    ("nonvectored", Flag),
    ("force_async", Whole(0, 4096)),
    ("userspace_reap", Flag),
    ("iodepth_batch", Whole(0, 4096)),
    ("iodepth_batch_submit", Whole(0, 4096)),
    ("iodepth_batch_complete", Whole(0, 4096)),
    ("iodepth_batch_complete_min", Whole(0, 4096)),
    ("iodepth_batch_complete_max", Whole(0, 4096)),
    ("iodepth_low", Whole(0, 4096)),
    ("serialize_overlap", Flag),
    ("io_submit_mode", Word(&["inline", "offload"])),
    ("iomem_align", Size),
    ("mem_align", Size),
    ("invalidate", Flag),
    ("fadvise_hint", Word(&["0", "1", "random", "sequential", "noreuse"])),
    ("write_hint", Word(&["none", "short", "medium", "long", "extreme"])),
    ("fdatasync", Whole(0, 1_000_000_000)),
    ("end_fsync", Flag),
    ("fsync_on_close", Flag),
    // Speed.
    ("rate", Rates),
    ("rate_min", Rates),
    ("rate_iops", Rates),
    ("rate_iops_min", Rates),
    ("rate_process", Word(&["linear", "poisson"])),
    ("rate_cycle", Whole(1, 86_400_000)),
    ("rate_ignore_thinktime", Flag),
    ("thinktime", Pause),
    ("thinktime_spin", Pause),
    ("thinktime_blocks", Whole(1, 1_000_000_000)),
    ("thinktime_blocks_type", Word(&["complete", "issue"])),
    ("thinktime_iotime", Pause),
    ("latency_target", Time),
    ("latency_window", Time),
    ("latency_percentile", Whole(1, 100)),
    ("latency_run", Flag),
    ("max_latency", Time),
    // Addresses.
    ("random_distribution", Distribution),
    ("percentage_random", Whole(0, 100)),
    ("norandommap", Flag),
    ("softrandommap", Flag),
    ("random_generator", Word(&["tausworthe", "lfsr", "tausworthe64"])),
    ("blockalign", Size),
    ("ba", Size),
    // Data.
    ("zero_buffers", Flag),
    ("refill_buffers", Flag),
    ("scramble_buffers", Flag),
    ("buffer_compress_percentage", Whole(0, 100)),
    ("buffer_compress_chunk", Size),
    ("buffer_pattern", Pattern),
    ("dedupe_percentage", Whole(0, 100)),
    ("dedupe_mode", Word(&["repeat", "working_set"])),
    ("dedupe_working_set_percentage", Whole(0, 100)),
    ("dedupe_global", Flag),
    // Verification; the lab adds verify_state_save=0.
    (
        "verify",
        Word(&[
            "md5",
            "crc64",
            "crc32c",
            "crc32c-intel",
            "crc32",
            "crc16",
            "crc7",
            "xxhash",
            "sha1",
            "sha256",
            "sha512",
            "sha3-224",
            "sha3-256",
            "sha3-384",
            "sha3-512",
            "meta",
            "pattern",
            "null",
        ]),
    ),
    ("do_verify", Flag),
    ("verify_interval", Size),
    ("verify_offset", Size),
    ("verify_pattern", Pattern),
    ("verify_fatal", Flag),
    ("verify_async", Whole(0, 64)),
    ("verify_backlog", Whole(0, 1_000_000)),
    ("verify_backlog_batch", Whole(0, 1_000_000)),
    // Processors.
    ("cpus_allowed", Processors),
    ("cpus_allowed_policy", Word(&["shared", "split"])),
    ("nice", Whole(-20, 19)),
    ("prio", Whole(0, 7)),
    ("prioclass", Whole(1, 3)),
];

/// Options that other keys of an experiment set.
const BY_KEYS: &[(&str, &str)] = &[
    ("bs", "block"),
    ("blocksize", "block"),
    ("bssplit", "block_split"),
    ("rw", "pattern and read_percent"),
    ("readwrite", "pattern and read_percent"),
    ("rwmixread", "read_percent"),
    ("rwmixwrite", "read_percent"),
    ("iodepth", "queue_depth"),
    ("numjobs", "threads"),
    ("direct", "mode"),
    ("buffered", "mode"),
    ("sync", "mode"),
    ("fsync", "flush_every"),
    ("runtime", "seconds of the section"),
    ("ramp_time", "warmup of the section"),
    ("filename", "--target"),
    ("uri", "--target"),
    ("size", "--size and --share"),
    ("offset", "--offset"),
];

impl Form {
    fn fits(self, value: &str) -> bool {
        let number = |text: &str, from: f64, to: f64| {
            let is_plain = !text.is_empty() && text.len() <= 24 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            is_plain && text.parse::<f64>().is_ok_and(|number| (from..=to).contains(&number))
        };
        let whole = |text: &str, most: u64| {
            let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_digits && text.parse::<u64>().is_ok_and(|number| number <= most)
        };
        let size = |text: &str, most: u64| {
            let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
            let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
                "" => 0,
                "k" | "kib" => 10,
                "m" | "mib" => 20,
                "g" | "gib" => 30,
                _ => return false,
            };
            whole(digits, most >> power)
        };
        match self {
            Flag => matches!(value, "0" | "1"),
            Whole(from, to) => {
                let digits = value.strip_prefix('-').unwrap_or(value);
                let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                is_digits && value.parse().is_ok_and(|number: i64| (from..=to).contains(&number))
            }
            Size => size(value, 1 << 30),
            Rates => {
                let rates: Vec<&str> = value.split(',').collect();
                rates.len() <= 3
                    && rates.iter().any(|rate| !rate.is_empty())
                    && rates.iter().all(|rate| rate.is_empty() || size(rate, 1 << 50))
            }
            Time | Pause => {
                let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
                let unit = match &value[digits.len()..] {
                    "" | "us" | "usec" => 1,
                    "ms" | "msec" => 1000,
                    "s" | "sec" => 1_000_000,
                    _ => return false,
                };
                let most = if matches!(self, Pause) { 10_000_000 } else { 86_400_000_000 };
                whole(digits, most / unit)
            }
            Word(words) => words.contains(&value),
            Distribution => {
                let mut parts = value.split(':');
                let name = parts.next().unwrap_or_default();
                let numbers: Vec<&str> = parts.collect();
                let most = match name {
                    "random" => 0,
                    "zipf" | "pareto" | "normal" => 2,
                    _ => return false,
                };
                numbers.len() <= most
                    && (most == 0 || !numbers.is_empty())
                    && numbers.iter().all(|text| number(text, 0.0, 1000.0))
            }
            Pattern => {
                let is_hex = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let is_text = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
                value.len() <= 512
                    && (value.strip_prefix("0x").is_some_and(is_hex)
                        || whole(value, u64::from(u32::MAX))
                        || quoted.is_some_and(is_text))
            }
            Processors => {
                let range = |part: &str| match part.split_once('-') {
                    Some((from, to)) => whole(from, 4095) && whole(to, 4095),
                    None => whole(part, 4095),
                };
                value.len() <= 256 && value.split(',').all(range)
            }
        }
    }

    fn words(self) -> String {
        match self {
            Flag => "0 or 1".into(),
            Whole(from, to) => format!("a whole number from {from} to {to}"),
            Size => "a size as 64k, at most 1g".into(),
            Rates => "a rate as 10m, or \"10m,5m\" for reads and writes".into(),
            Time => "a time as 500us, 10ms or 2s, at most a day".into(),
            Pause => "a time as 500us, 10ms or 2s, at most 10 s".into(),
            Word(words) => format!("one of {}", words.join(", ")),
            Distribution => "random, zipf:1.2, pareto:0.3 or normal:50, and a centre as zipf:1.2:0.5".into(),
            Pattern => "0x and hexadecimal digits, a whole number, or letters and digits in double quotes".into(),
            Processors => "numbers of processors as \"0-3,6\"".into(),
        }
    }
}

/// Refuses an option that is not in the list, and a value of another form.
pub(super) fn check(option: &str, value: &Text) -> Result<(), String> {
    const WHERE: &str = "docs/LAB.md, \"Options of fio\", lists those that are";
    if let Some((_, key)) = BY_KEYS.iter().find(|(name, _)| *name == option) {
        return Err(format!("the lab sets it itself: use {key}; {WHERE} allowed"));
    }
    let Some((_, form)) = ALLOWED.iter().find(|(name, _)| *name == option) else {
        return Err(format!("it is not among the options of fio that an experiment may set; {WHERE}"));
    };
    // Numbers are written as TOML has them.
    let is_number = !matches!(value, Text::Words(_)) && matches!(form, Word(_) | Pattern | Processors | Distribution);
    let fits = form.fits(&value.to_string()) && !(is_number && matches!(value, Text::Number(_)));
    match fits {
        true => Ok(()),
        false => Err(format!("invalid value {:?}: allowed is {}; {WHERE}", value.to_string(), form.words())),
    }
}

/// A time in microseconds, of an option whose value is one of [`Pause`].
fn microseconds(value: &Text) -> u64 {
    let text = value.to_string();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" | "msec" => 1000,
        "s" | "sec" => 1_000_000,
        _ => 1,
    };
    digits.parse::<u64>().unwrap_or(0).saturating_mul(unit)
}

/// Refuses values that are allowed alone but not together. With a spin as long as the think time, a load of a second did not end
/// within three minutes (fio 3.33).
pub(super) fn check_together(options: &BTreeMap<String, Text>) -> Result<(), String> {
    let time = |option: &str| options.get(option).map_or(0, microseconds);
    match time("thinktime_spin") > time("thinktime") / 2 {
        true => Err("fio.thinktime_spin must be at most half of fio.thinktime: fio may else never end".into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_takes_at_most_half_of_the_think_time() {
        let together = |think: Option<Text>, spin: &str| {
            let mut options = BTreeMap::from([("thinktime_spin".to_owned(), Text::Words(spin.into()))]);
            options.extend(think.map(|think| ("thinktime".to_owned(), think)));
            options.iter().for_each(|(option, value)| check(option, value).expect("allowed alone"));
            check_together(&options)
        };
        let words = |text: &str| Some(Text::Words(text.into()));
        for (think, spin) in [(words("10s"), "10s"), (words("10ms"), "6000"), (Some(Text::Whole(100)), "51us"), (None, "1")] {
            assert!(together(think, spin).expect_err(spin).contains("at most half of fio.thinktime"));
        }
        for (think, spin) in [(words("10s"), "5s"), (words("2msec"), "1ms"), (Some(Text::Whole(100)), "50"), (None, "0")] {
            together(think, spin).expect(spin);
        }
        check_together(&BTreeMap::from([("thinktime".to_owned(), Text::Whole(5))])).expect("it spins by none");
    }

    #[test]
    fn options_that_run_programs_or_reach_files_are_refused_by_name() {
        let no = [
            "ioengine=exec",
            "ioengine=external:/tmp/x.so",
            "ioengine=/tmp/x.so",
            "ioengine=./x",
            "ioengine=net",
            "ioengine=rbd",
            "ioengine=mtd",
            "ioengine=splice",
            "ioengine=filecreate",
            "program=/bin/sh",
            "arguments=x",
            "grace_time=1",
            "opendir=/etc",
            "read_iolog=/etc/passwd",
            "write_iolog=/tmp/x",
            "merge_blktrace_file=/tmp/x",
            "replay_redirect=/dev/sda",
            "iomem=mmapshared:/etc/passwd",
            "mem=mmapshared:/x",
            "iomem=malloc",
            "filename_format=/etc/$jobname",
            "verify_state_save=1",
            "verify_state_load=1",
            "verify_dump=1",
            "exec_prerun=id",
            "exec_postrun=id",
            "exec_preun=id",
            "include=/etc/x",
            "directory=/etc",
            "filename=/etc/x",
            "uri=nbd://x",
            "hostname=example.org",
            "zonefile=/x",
            "profile=tiobench",
            "aux-path=/tmp",
            "aux_path=/tmp",
            "cgroup=/x",
            "ioscheduler=noop",
            "allow_mounted_write=1",
            "unlink=1",
            "nrfiles=4",
            "write_bw_log=/x",
            "log_prefix=/x",
            "per_job_logs=1",
            "flow_id=1",
            "wait_for=x",
            "IOENGINE=libaio",
            "ioengine =libaio",
            "rate=",
            "rate=1m\nexec_prerun=id",
            "rate=1m;x",
            "rate=1m#x",
            "rate=$HOME",
            "rate=-1",
            "rate=1,2,3,4",
            "rate=1e9",
            "rate=inf",
            "thinktime=nan",
            "thinktime=1h",
            "thinktime=11s",
            "thinktime=10000001",
            "thinktime_spin=86400s",
            "thinktime_iotime=10001ms",
            "buffer_pattern='/etc/passwd'",
            "buffer_pattern=%o",
            "buffer_pattern=\"a\";b",
            "verify_pattern=\"a'/etc/x'\"",
            "buffer_pattern=\"\"",
            "random_distribution=zipf",
            "random_distribution=zipf:nan",
            "random_distribution=zoned:50/5:50/95",
            "random_distribution=zipf:1:2:3",
            "random_distribution=zipf:1e300",
            "cpus_allowed=0-3;x",
            "verify=/etc/x",
            "verify=md5 ",
            "nice=-21",
            "nice=--5",
            "hipri=2",
            "dedupe_percentage=101",
            "bs=4k",
            "iodepth=1",
            "",
            "=1",
            "x",
        ];
        for text in no {
            let (option, value) = text.split_once('=').unwrap_or((text, "1"));
            let words = check(option, &Text::Words(value.into())).expect_err(text);
            assert!(words.contains("LAB.md"), "{text}: {words}");
        }
        assert!(check("nice", &Text::Number(0.5)).is_err() && check("rate", &Text::Number(f64::INFINITY)).is_err());
        assert!(check("hipri", &Text::Whole(7)).is_err() && check("ioengine", &Text::Truth(true)).is_err());
        for text in [
            "ioengine=libaio",
            "ioengine=psync",
            "rate=10m,5m",
            "rate_iops=100",
            "rate=,1m",
            "thinktime=500us",
            "thinktime=10",
            "thinktime=10s",
            "latency_window=86400s",
            "latency_target=2ms",
            "random_distribution=zipf:1.2",
            "random_distribution=pareto:0.3:0.5",
            "random_distribution=random",
            "buffer_pattern=0xdeadbeef",
            "buffer_pattern=\"abc1\"",
            "verify=crc32c",
            "cpus_allowed=0-3,6",
            "nice=-5",
            "blockalign=64k",
            "dedupe_percentage=50",
        ] {
            let (option, value) = text.split_once('=').expect("a pair");
            check(option, &Text::Words(value.into())).expect(text);
        }
        check("hipri", &Text::Truth(true)).expect("1");
        check("thinktime", &Text::Whole(100)).expect("100");
    }

    #[test]
    fn the_manual_lists_what_is_allowed() {
        let manual = include_str!("../../../../docs/LAB.md");
        let part = manual.split("## Options of fio").nth(1).expect("the part").split("\n## ").next().expect("text");
        let named: Vec<&str> = part.split('`').skip(1).step_by(2).filter(|word| !word.contains([' ', '=', ':'])).collect();
        for (option, _) in ALLOWED {
            assert!(named.contains(option), "{option} is missing in docs/LAB.md");
        }
    }
}
