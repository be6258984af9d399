use super::*;
use crate::plan::Mix;

fn fio() -> Fio {
    Fio { version: "fio-3.33".into(), engine: "io_uring" }
}

fn lines(job: &Job) -> Vec<String> {
    job.text(&fio()).lines().map(str::to_owned).collect()
}

#[test]
fn a_mixed_load_becomes_the_job_that_fio_understands() {
    let load = Load { queue_depth: 8, threads: 2, ..Load::new(Pattern::Random, 8192, 65, 1.5) };
    let places = [Place::Path("/tmp/a:b.img".into())];
    let job = Job { places: &places, span_bytes: 1 << 30, work: Work::Load(&load), seed: 7, logs: None };
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
    let lines = lines(&Job { places: &places, span_bytes: 100 << 20, work: Work::Load(&load), seed: 0, logs: None });
    for wanted in ["rw=write", "size=34603008", "offset_increment=34603008", "ioengine=nbd", "uri=nbd+unix:///a?socket=/tmp/s"] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} in {lines:?}");
    }
}

#[test]
fn bare_members_share_the_depth_and_each_has_a_thread() {
    let load = Load { queue_depth: 16, threads: 2, ..Load::new(Pattern::Random, 4096, 100, 1.0) };
    let places: Vec<Place> = (0..4).map(|at| Place::Path(format!("/tmp/d{at}").into())).collect();
    let job = Job { places: &places, span_bytes: 4 << 30, work: Work::Load(&load), seed: 0, logs: None };
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
    let lines = lines(&Job { places: &places, span_bytes: 1 << 30, work: Work::Load(&load), seed: 0, logs: None });
    for wanted in ["bssplit=8k/70:64k/30", "random_distribution=zoned:50/5:50/95", "zero_buffers=1", "fsync=8"] {
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
    };
    // Three requests of 100 ns and one of 500 ns: mean 200, variance (3 * 100^2 + 300^2) / 4 = 30000.
    let total = sum([&part(3, 100.0, vec![(100, 3)]), &part(1, 500.0, vec![(500, 1)])]);
    assert_eq!((total.requests, total.bytes, total.iops, total.mb_per_s), (4, 16384, 4.0, 2.0));
    assert!((total.latency.mean_ns - 200.0).abs() < 1e-9 && (total.latency.stddev_ns - 30000_f64.sqrt()).abs() < 1e-6);
    assert_eq!(
        (total.latency.min_ns, total.latency.p50_ns, total.latency.p99_ns, total.latency.max_ns),
        (100.0, 100.0, 500.0, 500.0)
    );
    assert_eq!(total.latency.bins, [(100, 3), (500, 1)]);
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
