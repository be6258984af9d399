use super::*;
use crate::stage::Mix;

fn fio() -> Fio {
    Fio { version: "fio-3.33".into(), engine: "io_uring" }
}

/// Without the mend the advice was to install fio. The words of fio itself name no limit.
#[test]
fn a_limit_that_stops_fio_is_named() {
    for (number, named, installs) in [(2, "apt-get install fio", true), (24, "`ulimit -n`", false), (11, "`ulimit -u`", false)] {
        let words = FioError::Missing(io::Error::from_raw_os_error(number)).to_string();
        // The program adds what its last words are about.
        let words = with_limit(&words);
        assert!(words.contains(named) && words.contains("install") == installs, "{words}");
    }
    for (words, named) in [
        ("fio: pid=6, err=12/file:engines/io_uring.c:998, func=io_queue_init, error=Cannot allocate memory", "`ulimit -l`"),
        ("pthread_create: Resource temporarily unavailable fio: 1 job failed to start", "`ulimit -u`"),
        ("fio: try reducing/setting openfiles (failed at 0 of 1) fopen log: Too many open files", "`ulimit -n`"),
        ("fio: error while loading shared libraries: libm.so: failed to map segment from shared object", "`ulimit -v`"),
    ] {
        let told = with_remedy(words);
        assert!(told.starts_with(words) && told.contains(named), "{told}");
    }
    assert_eq!(with_remedy("fio: file hash not empty on exit"), "fio: file hash not empty on exit");
}

fn lines(job: &Job) -> Vec<String> {
    job.text(&fio()).lines().map(str::to_owned).collect()
}

#[test]
fn a_mixed_load_becomes_the_job_that_fio_understands() {
    let load = Load { queue_depth: 8, threads: 2, ..Load::new(Pattern::Random, 8192, 65, 1.5) };
    let places = [Place::Path("/tmp/a:b.img".into())];
    let job = Job { places: &places, span_bytes: 1 << 30, offset_bytes: 0, work: Work::Load(&load), seed: 7, logs: None };
    let lines = lines(&job);
    for wanted in [
        "rw=randrw",
        "rwmixread=65",
        "bs=8192",
        "iodepth=8",
        "numjobs=2",
        "runtime=1500ms",
        "direct=1",
        "refill_buffers=1",
        "size=1073741824",
        "randseed=8",
        "filename=/tmp/a\\:b.img",
    ] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} in {lines:?}");
    }
    assert_eq!(job.outstanding(), 16);
}

#[test]
fn threads_that_write_sequentially_have_ranges_of_their_own() {
    let load = Load { threads: 3, ..Load::new(Pattern::Sequential, 1 << 20, 0, 1.0) };
    let places = [Place::Nbd("nbd+unix:///a?socket=/tmp/s".into())];
    let lines =
        lines(&Job { places: &places, span_bytes: 100 << 20, offset_bytes: 0, work: Work::Load(&load), seed: 0, logs: None });
    for wanted in ["rw=write", "size=34603008", "offset_increment=34603008", "ioengine=nbd", "uri=nbd+unix:///a?socket=/tmp/s"] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} in {lines:?}");
    }
}

#[test]
fn bare_members_share_the_depth_and_each_has_a_thread() {
    let load = Load { queue_depth: 16, threads: 2, ..Load::new(Pattern::Random, 4096, 100, 1.0) };
    let places: Vec<Place> = (0..4).map(|at| Place::Path(format!("/tmp/d{at}").into())).collect();
    let job = Job { places: &places, span_bytes: 4 << 30, offset_bytes: 0, work: Work::Load(&load), seed: 0, logs: None };
    let lines = lines(&job);
    assert!(lines.iter().any(|line| line == "iodepth=8") && !lines.iter().any(|line| line.starts_with("numjobs")));
    assert_eq!(lines.iter().filter(|line| line.starts_with("filename=")).count(), 4);
    assert!(lines.iter().any(|line| line == "size=1073741824"));
    assert_eq!(job.outstanding(), 32);
}

#[test]
fn mixes_and_zones_and_zeros_are_told_to_fio() {
    let mix = Mix { name: "database".into(), block_split: Some("8K/70:64K/30".into()), zones: Some("50/5:50/95".into()) };
    let load =
        Load { mix: Some(mix), compressible_percent: 100, flush_every: Some(8), ..Load::new(Pattern::Random, 25600, 0, 1.0) };
    let places = [Place::Path("/tmp/x".into())];
    let lines =
        lines(&Job { places: &places, span_bytes: 1 << 30, offset_bytes: 0, work: Work::Load(&load), seed: 0, logs: None });
    for wanted in ["bssplit=8192/70:65536/30", "random_distribution=zoned:50/5:50/95", "zero_buffers=1", "fsync=8"] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} in {lines:?}");
    }
}

/// Two directions whose joint figures are worked out by hand.
#[test]
fn figures_of_directions_add_up() {
    let part = |requests: u64, mean: f64, bins: Vec<(u64, u64)>| Figures {
        requests,
        bytes: requests * 4096,
        iops: requests as f64,
        mb_per_s: 1.0,
        latency: Latency {
            min_ns: bins[0].0 as f64,
            mean_ns: mean,
            stddev_ns: 0.0,
            max_ns: bins.last().unwrap().0 as f64,
            bins,
            ..Latency::default()
        },
        submission: (requests > 1).then_some(Phase { min_ns: 10.0, mean_ns: 20.0, stddev_ns: 0.0, max_ns: 30.0 }),
        completion: Some(Phase { min_ns: mean - 20.0, mean_ns: mean - 20.0, stddev_ns: 0.0, max_ns: mean }),
    };
    // Three requests of 100 ns and one of 500 ns: mean 200, variance (3 * 100^2 + 300^2) / 4 = 30000.
    let total = sum([&part(3, 100.0, vec![(100, 3)]), &part(1, 500.0, vec![(500, 1)])]);
    assert_eq!((total.requests, total.bytes, total.iops, total.mb_per_s), (4, 16384, 4.0, 2.0));
    assert!((total.latency.mean_ns - 200.0).abs() < 1e-9 && (total.latency.stddev_ns - 30000_f64.sqrt()).abs() < 1e-6);
    assert_eq!(
        (total.latency.min_ns, total.latency.p50_ns, total.latency.p99_ns, total.latency.max_ns),
        (100.0, Some(100.0), Some(500.0), 500.0)
    );
    assert_eq!(total.latency.bins, [(100, 3), (500, 1)]);
    let completion = total.completion.expect("both parts tell it");
    assert_eq!((completion.min_ns, completion.mean_ns, completion.max_ns), (80.0, 180.0, 500.0));
    assert_eq!(total.submission, None, "one part does not tell it");
}

/// The output of fio 3.1 on 2,785,387 random reads: no histogram, and percentiles of completion only, with zeros where it had
/// none.
#[test]
fn percentiles_of_plain_json_come_out_as_they_were_printed() {
    let value = serde_json::json!({"jobs": [{"jobname": "random-read", "error": 0,
        "read": {"total_ios": 2_785_387u64, "io_bytes": 11_408_945_152u64, "runtime": 60_004, "iops": 46420.0, "bw": 185_680,
            "slat_ns": {"min": 2527, "max": 952_331, "mean": 11399.5, "stddev": 10030.3},
            "clat_ns": {"min": 231_967, "max": 24_107_381, "mean": 2741879.7, "stddev": 176476.5, "percentile": {
                "1.000000": 2_539_520, "50.000000": 2_736_128, "99.000000": 3_096_576, "99.900000": 3_293_184, "99.990000": 3_489_792,
                "0.00": 0}},
            "lat_ns": {"min": 272_207, "max": 24_114_477, "mean": 2753743.1, "stddev": 176046.4}}}]});
    let measured = parse(&value).expect("a job").swap_remove(0);
    let latency = &measured.total.latency;
    assert_eq!((latency.p50_ns, latency.p99_ns, latency.p999_ns), (Some(2_736_128.0), Some(3_096_576.0), Some(3_293_184.0)));
    assert_eq!((latency.p99999_ns, latency.max_ns, latency.mean_ns), (Some(24_107_381.0), 24_114_477.0, 2_753_743.1));
    assert_eq!(latency.bins.iter().map(|(_, requests)| requests).sum::<u64>(), 2_785_387);
    assert_eq!(measured.total.submission.map(|part| part.mean_ns), Some(11399.5));
    assert_eq!(measured.total.completion.map(|part| part.max_ns), Some(24_107_381.0));
    assert!((measured.total.mb_per_s - 190.1).abs() < 0.1, "{}", measured.total.mb_per_s);
    // The submission took so long that the fastest request as a whole was slower than half of the completions.
    let mut slow = value.clone();
    slow["jobs"][0]["read"]["lat_ns"]["min"] = 2_800_000.into();
    assert_eq!(parse(&slow).expect("a job")[0].total.latency.p50_ns, Some(2_736_128.0));
}

/// The value of a bin is the middle of its range, and no request was slower than the slowest.
#[test]
fn bins_of_a_histogram_lie_between_the_extremes() {
    let value = serde_json::json!({"jobs": [{"jobname": "x", "error": 0, "read": {"total_ios": 4, "io_bytes": 16384, "runtime": 1000,
        "lat_ns": {"min": 1020, "max": 5000, "mean": 2000.0, "stddev": 1.0, "bins": {"1016": 3, "5056": 1}}}}]});
    let latency = &parse(&value).expect("a job")[0].total.latency;
    assert_eq!((latency.p50_ns, latency.p999_ns, &latency.bins[..]), (Some(1020.0), Some(5000.0), &[(1020, 3), (5000, 1)][..]));
}

fn read(prefix: &Path, interval_ms: u64) -> Series {
    series(prefix, interval_ms).expect("few lines")
}

/// Two jobs that log twice a second each, and all together once in five seconds.
#[test]
fn logs_of_any_interval_and_of_each_job_become_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("randread-iodepth-1-numjobs-2");
    let write = |name: &str, text: &str| fs::write(format!("{}_{name}.log", prefix.display()), text).expect("a log");
    for job in 1..=2 {
        write(&format!("iops.{job}"), "500, 100, 0, 0, 0\n1000, 100, 0, 0, 0\n1500, 300, 0, 0, 0\n2000, 100, 0, 0, 0\n");
        write(&format!("lat.{job}"), "500, 10, 0, 0, 0\n1000, 30, 0, 0, 0\n");
    }
    let samples = read(&prefix, 500).samples;
    let series_of: Vec<_> = samples.iter().map(|sample| (sample.at_ms, sample.read_iops)).collect();
    assert_eq!(series_of, [(1000, 200.0), (2000, 400.0)]);
    assert_eq!(samples[0].latency_mean_ns, Some(20.0));
    let slow = folder.path().join("slow");
    fs::write(folder.path().join("slow_iops.log"), "5000, 70, 1, 0, 0\n10000, 80, 1, 0, 0\n").expect("a log");
    let series_of: Vec<_> = read(&slow, 5000).samples.iter().map(|sample| (sample.at_ms, sample.write_iops)).collect();
    assert_eq!(series_of, [(5000, 70.0), (10000, 80.0)]);
}

/// A second of 900 reads of 10 ns and 100 writes of 110 ns; then one whose writes logged no latency, and one of writes alone.
#[test]
fn the_latency_of_a_second_is_the_mean_over_its_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("mixed");
    let write = |name: &str, text: &str| fs::write(format!("{}_{name}.log", prefix.display()), text).expect("a log");
    write("iops", "1000, 900, 0\n1000, 100, 1\n2000, 900, 0\n2000, 100, 1\n3000, 50, 1\n3000, 50, 1\n");
    write("lat", "1000, 10, 0\n1000, 110, 1\n2000, 10, 0\n3000, 100, 1\n3000, 120, 1\n4000, 7, 0\n");
    let latencies: Vec<_> = read(&prefix, 1000).samples.iter().map(|sample| sample.latency_mean_ns).collect();
    assert_eq!(latencies, [20.0, 10.0, 110.0].map(Some));
    // A thread that hangs serves few requests: its latency is that of few.
    write("iops", "1000, 990, 0\n1000, 10, 0\n");
    write("lat", "1000, 10, 0\n1000, 1010, 0\n");
    assert_eq!(read(&prefix, 1000).samples[0].latency_mean_ns, Some(20.0));
}

/// Of 128 jobs a few log the last second, and one comes even later: neither is a collapse.
#[test]
fn a_last_second_that_few_jobs_logged_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("s");
    let second = |at: u32, jobs: usize| format!("{at}, 100, 0, 0, 0\n").repeat(jobs);
    let cases: [(&[usize], usize); 6] = [
        (&[128, 128, 128, 5], 3),
        (&[128, 127, 128, 128, 120, 1], 4),
        // A job that makes no progress for a while does not log either, so only the end is checked.
        (&[128, 3, 128, 128], 4),
        (&[1, 1, 1], 3),
        (&[128], 1),
        (&[128, 4], 1),
    ];
    for (jobs, wanted) in cases {
        let text: String = (1..).zip(jobs).map(|(at, jobs)| second(at * 1000, *jobs)).collect();
        fs::write(folder.path().join("s_iops.log"), text).expect("a log");
        let samples = read(&prefix, 1000).samples;
        assert_eq!(samples.len(), wanted, "{jobs:?}: {samples:?}");
        assert_eq!(samples.last().expect("one").read_iops, 100.0 * jobs[wanted - 1] as f64);
    }
    let hostile =
        "1e308, 1, 0\n-1e308, 1, 0\nnan, 1, 0\n1000, inf, 0\n1000, -5, 0\n1000, 1e300, 1\n1000, 7, 0\n99999999999999, 7, 0\n";
    fs::write(folder.path().join("s_iops.log"), hostile).expect("a log");
    let samples = read(&prefix, u64::MAX).samples;
    assert!(samples.len() <= 2 && samples.iter().all(|sample| sample.read_iops.is_finite()), "{samples:?}");
}

/// fio logs no line of a second in which nothing ended.
#[test]
fn seconds_in_which_nothing_was_served_have_the_rate_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("stall");
    let write = |name: &str, text: &str| fs::write(format!("{}_{name}.log", prefix.display()), text).expect("a log");
    write("iops", "1000, 90, 0\n2000, 90, 0\n6000, 30, 0\n");
    write("lat", "1000, 10, 0\n2000, 20, 0\n6000, 4000, 0\n");
    let found: Vec<_> = read(&prefix, 1000).samples.iter().map(|now| (now.at_ms, now.read_iops, now.latency_mean_ns)).collect();
    let stalled = [3000, 4000, 5000].map(|at_ms| (at_ms, 0.0, None));
    assert_eq!(
        found,
        [&[(1000, 90.0, Some(10.0)), (2000, 90.0, Some(20.0))][..], &stalled, &[(6000, 30.0, Some(4000.0))]].concat()
    );
    // A line of two weeks later must not cost a sample for each second until then.
    write("iops", "1000, 90, 0\n999999000, 90, 0\n");
    let long = read(&prefix, 1000);
    assert!(long.samples.len() <= 100_000 && long.interval_ms == 10_000);
    // The first stands for ten seconds, the last for nine.
    let (first, last) = (long.samples[0], long.samples[long.samples.len() - 1]);
    assert_eq!((first.read_iops, last.read_iops, last.at_ms), (9.0, 10.0, 999_999_000));
}

/// 5 s at a constant rate: whole intervals fit into a second, or not, and lines come up to 3 ms late.
#[test]
fn a_constant_rate_is_constant_at_every_interval_of_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("even");
    for interval in [50, 100, 250, 300, 400, 700, 999, 1000, 1500] {
        let ends: Vec<u64> = (1..).map(|number| number * interval).take_while(|at| *at <= 5000).collect();
        let text: String = ends.iter().map(|at| format!("{}, 800, 0\n{at}, 200, 1\n", at + at % 4)).collect();
        fs::write(folder.path().join("even_iops.log"), text).expect("a log");
        let samples = read(&prefix, interval).samples;
        assert!(
            samples.iter().all(|now| (now.read_iops - 800.0).abs() < 1e-6 && (now.write_iops - 200.0).abs() < 1e-6),
            "{interval}: {samples:?}"
        );
        assert_eq!(samples.last().map(|now| now.at_ms), ends.last().copied(), "nothing is left out");
    }
}

#[test]
fn logs_of_more_lines_than_memory_should_hold_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("long");
    fs::write(folder.path().join("long_iops.log"), "1000, 10, 0\n".repeat(101)).expect("a log");
    assert_eq!(series_of(&prefix, 1000, 101).expect("just enough").samples[0].read_iops, 1010.0);
    let problem = series_of(&prefix, 1000, 100).expect_err("too many");
    assert!(problem.contains("101 lines, more than 100") && problem.contains("log_avg_msec"), "{problem}");
}

#[test]
fn the_logs_of_all_jobs_count_however_many_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    for job in 3..515 {
        fs::write(folder.path().join(format!("many_iops.{job}.log")), "1000, 10, 0\n").expect("a log");
    }
    fs::write(folder.path().join("many_iops.x.log"), "1000, 10, 0\n").expect("another file");
    assert_eq!(read(&folder.path().join("many"), 1000).samples[0].read_iops, 5120.0);
}

#[test]
fn results_of_several_hosts_stay_apart_and_the_sum_of_fio_is_left_out() {
    let job = |name: &str, host: &str, ios: u64| {
        serde_json::json!({"jobname": name, "hostname": host, "error": 0, "job_runtime": 1000, "usr_cpu": 5.0, "sys_cpu": 10.0,
            "read": {"total_ios": ios, "io_bytes": ios * 4096, "runtime": 1000, "iops": ios, "bw_bytes": ios * 4096,
                     "lat_ns": {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0, "N": ios, "bins": {"5": ios}}},
            "write": {"total_ios": 0}, "trim": {"total_ios": 0}})
    };
    let value = serde_json::json!({"client_stats": [job("a", "one", 10), job("a", "two", 30), job("All clients", "", 40)]});
    let measured = parse(&value).expect("two hosts");
    assert_eq!(
        measured.iter().map(|one| (one.host.as_str(), one.total.requests)).collect::<Vec<_>>(),
        [("one", 10), ("two", 30)]
    );
    assert!(parse(&serde_json::json!({"jobs": []})).is_err());
}

#[test]
fn a_part_of_the_target_is_all_that_a_job_touches() {
    let load = Load { threads: 2, part: Some((1, 4)), ..Load::new(Pattern::Sequential, 65536, 0, 1.0) };
    let fill = Work::Fill { fills: 1.0, block_bytes: 1 << 20, pattern: Pattern::Sequential, zeros: false };
    for (work, places, wanted) in [
        // The second quarter of 64 MiB from 100 MiB on; each thread has a half of it.
        (Work::Load(&load), 1, ["offset=121634816", "size=8388608"]),
        (fill, 1, ["offset=104857600", "size=67108864"]),
        (Work::Trim, 1, ["offset=104857600", "size=67108864"]),
        // Each of two drives has half of the space and half of the bytes.
        (fill, 2, ["offset=52428800", "size=33554432"]),
    ] {
        let places = vec![Place::new("/dev/a"); places];
        let lines = lines(&Job { places: &places, span_bytes: 64 << 20, offset_bytes: 100 << 20, work, seed: 0, logs: None });
        for wanted in wanted {
            assert!(lines.iter().any(|line| line == wanted), "{wanted}: {lines:?}");
        }
    }
}

/// Before, only loads had a limit: a fill, trim or replay of a drive that hangs lasted for ever.
#[test]
fn every_work_has_a_time_within_which_it_must_end() {
    let places = [Place::new("/dev/a")];
    let seconds =
        |work, span_bytes: u64| Job { places: &places, span_bytes, offset_bytes: 0, work, seed: 0, logs: None }.seconds();
    let fill = |fills, block_bytes| Work::Fill { fills, block_bytes, pattern: Pattern::Random, zeros: false };
    // By the bytes, or by the requests where these are small.
    assert_eq!(seconds(fill(2.0, 1 << 20), 64 << 20), 64.0);
    assert_eq!(seconds(fill(1.0, 4096), 64 << 20), 1638.4);
    assert_eq!(seconds(Work::Trim, 64 << 20), 32.0);
    assert_eq!(seconds(Work::Replay { options: &[], seconds_max: 7.0 }, 64 << 20), 7.0);
    let load = Load { warmup_seconds: 2.0, ..Load::new(Pattern::Sequential, 65536, 0, 1.0) };
    assert_eq!(seconds(Work::Load(&load), 64 << 20), 3.0);
}

#[test]
fn the_probe_for_small_requests_makes_and_changes_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (missing, short) = (folder.path().join("missing"), folder.path().join("short"));
    std::fs::write(&short, "mine").expect("a file");
    let fio = Fio::find().expect("fio is installed");
    let host = Host::parse("elsewhere");
    assert!(!fio.takes_512(&Place::Path(missing.clone()), &[]) && !missing.exists());
    // fio reads what is there, and extends nothing.
    fio.takes_512(&Place::Path(short.clone()), &[]);
    assert_eq!(std::fs::read(&short).expect("there"), b"mine");
    assert!(!fio.takes_512(&Place::Path(missing.clone()), &[host]) && !missing.exists(), "it belongs to another host");
}

/// clat_percentiles=0, or gtod_reduce=1: the mean is no percentile.
#[test]
fn percentiles_that_fio_was_told_not_to_measure_are_unknown() {
    let lat = serde_json::json!({"min": 1020, "max": 5000, "mean": 2000.0, "stddev": 1.0});
    let with = serde_json::json!({"min": 1020, "max": 5000, "mean": 2000.0, "stddev": 1.0, "bins": {"1016": 4}});
    let job = |read: &Value, write: &Value| {
        let part = |lat: &Value| serde_json::json!({"total_ios": 4, "io_bytes": 16384, "runtime": 1000, "lat_ns": lat});
        let value = serde_json::json!({"jobs": [{"jobname": "x", "error": 0, "read": part(read), "write": part(write)}]});
        parse(&value).expect("a job").swap_remove(0)
    };
    let latency = job(&lat, &lat).total.latency;
    assert_eq!((latency.p50_ns, latency.p99_ns, latency.p99999_ns, latency.mean_ns), (None, None, None, 2000.0));
    // Half of the requests are not all of them.
    let half = job(&with, &lat);
    assert_eq!((half.read.expect("reads").latency.p99_ns, half.total.latency.p99_ns), (Some(1020.0), None));
}

#[test]
fn a_fio_without_the_options_of_jobs_is_refused() {
    for (version, old) in [
        ("fio-3.30", false),
        ("fio-3.33", false),
        ("fio-3.36-17-g2d3f", false),
        ("fio-4", false),
        ("fio-master", false),
        ("fio-3.29", true),
        ("fio-3.1", true),
        ("fio-2.99", true),
    ] {
        assert_eq!(is_too_old(version), old, "{version}");
    }
}
