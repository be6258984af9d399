//! Reports of the machine and its drives, before, during and after a run.

use crate::array::Array;
use crate::endurance::Smart;
use crate::result::{DriveInfo, Environment, MemberFigures, SweepSample};
use rustix::fs::{Mode, OFlags, open};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn number(path: impl AsRef<Path>) -> Option<f64> {
    text(path).parse().ok()
}

/// Bytes of a file or block device.
///
/// # Errors
/// When it cannot be opened, or is neither.
pub fn size_of(path: &Path) -> Result<u64, String> {
    // A pipe must not block this program.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let end = || -> std::io::Result<u64> {
        let mut file: File = open(path, flags, Mode::empty())?.into();
        let kind = file.metadata()?.file_type();
        match kind.is_file() || kind.is_block_device() {
            true => file.seek(SeekFrom::End(0)),
            false => Err(std::io::Error::other("it is neither a file nor a block device")),
        }
    };
    end().map_err(|error| format!("{}: {error}", path.display()))
}

/// Bytes of memory that programs may still use.
pub fn memory_available() -> Option<u64> {
    let page = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = page.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok())?;
    Some(kib * 1024)
}

/// The machine now. Watches it for a second to measure the load of other programs.
pub fn environment() -> Environment {
    let disk_bytes = || {
        let stats = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        let sectors = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_drive = fields.get(2).is_some_and(|name| !Path::new("/sys/class/block").join(name).join("partition").exists());
            let of = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
            if is_drive { of(5) + of(9) } else { 0.0 }
        };
        stats.lines().map(sectors).sum::<f64>() * 512.0
    };
    let (cpu_before, disks_before) = (CpuTimes::now(), disk_bytes());
    std::thread::sleep(Duration::from_secs(1));
    let (cpu_after, disks_after) = (CpuTimes::now(), disk_bytes());
    let share = |of: fn(&CpuTimes) -> f64| (of(&cpu_after) - of(&cpu_before)) / (cpu_after.all - cpu_before.all).max(1.0) * 100.0;
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let after_colon = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let virtualization =
        Command::new("systemd-detect-virt").output().ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    Environment {
        host: text("/proc/sys/kernel/hostname"),
        kernel: format!("Linux {}", text("/proc/sys/kernel/osrelease")),
        os: os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("").trim_matches('"').into(),
        cpu: cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(after_colon).unwrap_or_default(),
        cpu_count: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        cpu_governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        memory_bytes: memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
            * 1024,
        load_average: text("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        busy_percent: share(|times| times.busy),
        steal_percent: share(|times| times.stolen),
        cpu_pressure_percent: pressure("cpu"),
        io_pressure_percent: pressure("io"),
        background_bytes_per_s: disks_after - disks_before,
        temperatures: temperatures(),
        virtualization: virtualization.filter(|name| name != "none").unwrap_or_default(),
    }
}

/// Ticks of all processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTimes {
    pub all: f64,
    /// Not idle.
    pub busy: f64,
    /// Given to other machines by the host of a virtual machine.
    pub stolen: f64,
}

impl CpuTimes {
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let times: Vec<f64> =
            stat.lines().next().unwrap_or("").split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
        let of = |at: usize| times.get(at).copied().unwrap_or(0.0);
        let all = times.iter().take(8).sum::<f64>();
        Self { all, busy: all - of(3) - of(4), stolen: of(7) }
    }
}

/// The part of the last ten seconds in which a task waited, in percent; 0 if the kernel does not report it.
fn pressure(what: &str) -> f64 {
    let pressure = text(format!("/proc/pressure/{what}"));
    let some = pressure.lines().find_map(|line| line.strip_prefix("some avg10="));
    some.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0.0)
}

fn temperatures() -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for hwmon in fs::read_dir("/sys/class/hwmon").into_iter().flatten().flatten() {
        let name = text(hwmon.path().join("name"));
        for at in 1..=8 {
            if let Some(milli) = number(hwmon.path().join(format!("temp{at}_input"))) {
                let label = text(hwmon.path().join(format!("temp{at}_label")));
                all.push((format!("{name} {label}").trim().to_owned(), milli / 1000.0));
            }
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The folder in /sys of a block device: for a partition its own, for a link that of its target.
fn sys_folder(path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path)
        .ok()
        .filter(|path| fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device()))?;
    let folder = Path::new("/sys/class/block").join(real.file_name()?);
    fs::canonicalize(folder).ok()
}

fn temperature(folder: &Path) -> Option<f64> {
    let device = folder.join("device");
    let direct = fs::read_dir(device.join("hwmon")).into_iter().flatten().flatten().map(|entry| entry.path());
    let nvme = fs::read_dir(&device).into_iter().flatten().flatten().map(|entry| entry.path());
    let nvme = nvme.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("hwmon")));
    direct.chain(nvme).find_map(|hwmon| number(hwmon.join("temp1_input"))).map(|milli| milli / 1000.0)
}

/// The description of a drive: by smartctl if that works, else by /sys, else by its file system.
pub fn drive_info(path: &Path) -> DriveInfo {
    let shown = path.display().to_string();
    let size_bytes = size_of(path).unwrap_or(0);
    let Some(folder) = sys_folder(path) else {
        return DriveInfo {
            path: shown,
            size_bytes,
            transport: "file".into(),
            source: "file system".into(),
            ..DriveInfo::default()
        };
    };
    // For a partition: the drive that it is on.
    let drive = if folder.join("partition").exists() { folder.parent().unwrap_or(&folder).to_path_buf() } else { folder.clone() };
    let name = drive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let scheduler = text(drive.join("queue/scheduler"));
    let current = scheduler.split(['[', ']']).nth(1).unwrap_or(&scheduler);
    let mut info = DriveInfo {
        path: shown,
        model: text(drive.join("device/model")),
        serial: text(drive.join("device/serial")),
        firmware: [text(drive.join("device/firmware_rev")), text(drive.join("device/rev"))]
            .into_iter()
            .find(|rev| !rev.is_empty())
            .unwrap_or_default(),
        transport: if name.starts_with("nvme") { "nvme" } else { name.trim_end_matches(|c: char| c.is_ascii_digit()) }.into(),
        size_bytes,
        rotational: number(drive.join("queue/rotational")).map(|turns| turns != 0.0),
        write_cache: text(drive.join("queue/write_cache")),
        scheduler: current.into(),
        temperature_c: temperature(&drive),
        source: "sysfs".into(),
        ..DriveInfo::default()
    };
    let output = Command::new("smartctl").args(["--json", "--all"]).arg(format!("/dev/{name}")).output();
    if let Some(smart) = output.ok().and_then(|output| Smart::parse(&String::from_utf8_lossy(&output.stdout)).ok()) {
        smart.fill(&mut info);
        info.source = "smartctl".into();
    }
    info
}

/// The temperature from which a drive counts as throttling, if it does not report throttling.
pub const HOT_C: f64 = 75.0;

/// Counters of a block device: reads, sectors read, ms of reads, writes, sectors written, ms of writes.
type Counters = [u64; 6];

/// The counts since an earlier look. The kernel prints the times as 32-bit numbers of milliseconds, which wrap. A device that
/// was made anew counts from zero.
fn since(now: &Counters, before: &Counters) -> Counters {
    if [0, 1, 3, 4].into_iter().any(|at| now[at] < before[at]) {
        return *now;
    }
    std::array::from_fn(|at| match at {
        2 | 5 => u64::from((now[at] as u32).wrapping_sub(before[at] as u32)),
        _ => now[at] - before[at],
    })
}

fn counters(folder: &Path) -> Option<Counters> {
    let fields: Vec<u64> = text(folder.join("stat")).split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Some([*fields.first()?, *fields.get(2)?, *fields.get(3)?, *fields.get(4)?, *fields.get(6)?, *fields.get(7)?])
}

fn sum(a: &Counters, b: &Counters) -> Counters {
    std::array::from_fn(|at| a[at].saturating_add(b[at]))
}

/// The mean latency of the counted requests.
fn mean_ns(counters: &Counters) -> Option<f64> {
    let requests = counters[0].saturating_add(counters[3]);
    let ms = counters[2].saturating_add(counters[5]);
    (requests > 0).then(|| ms as f64 * 1e6 / requests as f64)
}

/// Watches drives and the array above them while a load runs.
#[derive(Debug)]
pub struct Watch {
    drives: Vec<WatchedDrive>,
    array_before: Vec<MemberFigures>,
    looked_at: Duration,
    /// The end of a warm-up that still runs: the load generator counts nothing before it.
    warmup: Option<Duration>,
    /// Progress of a sweep.
    pub sweep: Vec<SweepSample>,
    /// The time of the first look that found no sweep, if no later look found one. It counts as the end of the sweep, even if no
    /// look found that.
    pub sweep_ended: Option<Duration>,
}

#[derive(Debug)]
struct WatchedDrive {
    path: PathBuf,
    folder: Option<PathBuf>,
    last: Counters,
    /// From the beginning to the last look: one difference over hours would miss a wrap.
    done: Counters,
    worst_second_ns: Option<f64>,
    hottest_c: Option<f64>,
}

impl Watch {
    /// Begins. What happens in the first `warmup` of it does not count.
    pub fn new(drives: &[PathBuf], array: Option<&Array>, warmup: Duration) -> Self {
        let watched = |path: &PathBuf| {
            let folder = sys_folder(path);
            let last = folder.as_deref().and_then(counters).unwrap_or_default();
            WatchedDrive { path: path.clone(), folder, last, done: [0; 6], worst_second_ns: None, hottest_c: None }
        };
        Self {
            drives: drives.iter().map(watched).collect(),
            array_before: array.and_then(|array| array.members().ok()).unwrap_or_default(),
            looked_at: Duration::ZERO,
            warmup: (warmup > Duration::ZERO).then_some(warmup),
            sweep: Vec::new(),
            sweep_ended: None,
        }
    }

    /// Counts from here on: the warm-up is over.
    fn count_anew(&mut self, array: Option<&Array>) {
        self.warmup = None;
        for drive in &mut self.drives {
            drive.last = drive.folder.as_deref().and_then(counters).unwrap_or(drive.last);
            (drive.done, drive.worst_second_ns) = ([0; 6], None);
        }
        if let Some(Ok(members)) = array.map(Array::members) {
            self.array_before = members;
        }
    }

    /// Takes a sample if a second has passed (a fifth while a sweep runs).
    pub fn look(&mut self, at: Duration, array: Option<&Array>, sweeps: bool) {
        if self.warmup.is_some_and(|end| at >= end) {
            self.count_anew(array);
        }
        let due = if sweeps { Duration::from_millis(200) } else { Duration::from_secs(1) };
        if at < self.looked_at + due {
            return;
        }
        self.look_now(at, array, sweeps);
    }

    /// Takes a sample.
    pub fn look_now(&mut self, at: Duration, array: Option<&Array>, sweeps: bool) {
        self.looked_at = at;
        for drive in &mut self.drives {
            let Some(folder) = &drive.folder else { continue };
            if let Some(now) = counters(folder) {
                let new = since(&now, &drive.last);
                if let Some(mean_ns) = mean_ns(&new) {
                    drive.worst_second_ns = Some(drive.worst_second_ns.unwrap_or(0.0).max(mean_ns));
                }
                (drive.last, drive.done) = (now, sum(&drive.done, &new));
            }
            if let Some(now) = temperature(folder) {
                drive.hottest_c = Some(drive.hottest_c.unwrap_or(now).max(now));
            }
        }
        if let Some(array) = array.filter(|_| sweeps) {
            self.sweep_seen(at, array.sweep());
        }
    }

    fn sweep_seen(&mut self, at: Duration, seen: Result<Option<SweepSample>, String>) {
        match seen {
            Ok(Some(sample)) => {
                self.sweep.push(SweepSample { at_ms: at.as_millis() as u64, ..sample });
                self.sweep_ended = None;
            }
            Ok(None) => self.sweep_ended = self.sweep_ended.or(Some(at)),
            Err(_) => {}
        }
    }

    /// The work of each member, by the counters of the array and of the drives below.
    pub fn finish(&self, array: Option<&Array>) -> Vec<MemberFigures> {
        let from_drive = |drive: &WatchedDrive| {
            let now = drive.folder.as_deref().and_then(counters).unwrap_or(drive.last);
            let all = sum(&drive.done, &since(&now, &drive.last));
            let [reads, read_sectors, _, writes, written_sectors, _] = all;
            let metadata = fs::metadata(&drive.path).ok().filter(fs::Metadata::is_file);
            MemberFigures {
                path: drive.path.display().to_string(),
                reads,
                writes,
                read_bytes: read_sectors.saturating_mul(512),
                written_bytes: written_sectors.saturating_mul(512),
                errors: 0,
                hedged_reads: 0,
                latency_mean_ns: mean_ns(&all),
                latency_worst_second_ns: drive.worst_second_ns,
                temperature_c: drive.hottest_c,
                allocated_bytes: metadata.map(|metadata| metadata.blocks() * 512),
            }
        };
        let mut members: Vec<MemberFigures> = self.drives.iter().map(from_drive).collect();
        self.count_by_array(&mut members, array.and_then(|array| array.members().ok()).unwrap_or_default());
        members
    }

    /// Takes the figures of the array's members, which count what the drives' own counters do not. A drive that joined meanwhile,
    /// such as a spare, is added.
    fn count_by_array(&self, members: &mut Vec<MemberFigures>, all: Vec<MemberFigures>) {
        // A path that leads nowhere any more is the same as itself only.
        let real = |path: &str| fs::canonicalize(path).unwrap_or_else(|_| path.into());
        for now in all {
            let before = self.array_before.iter().find(|before| before.path == now.path).cloned().unwrap_or_default();
            let at = members.iter().position(|member| real(&member.path) == real(&now.path)).unwrap_or_else(|| {
                members.push(MemberFigures { path: now.path.clone(), ..MemberFigures::default() });
                members.len() - 1
            });
            let member = &mut members[at];
            member.reads = now.reads.saturating_sub(before.reads);
            member.writes = now.writes.saturating_sub(before.writes);
            member.read_bytes = now.read_bytes.saturating_sub(before.read_bytes);
            member.written_bytes = now.written_bytes.saturating_sub(before.written_bytes);
            member.errors = now.errors.saturating_sub(before.errors);
            member.hedged_reads = now.hedged_reads.saturating_sub(before.hedged_reads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's line of a device, which a file stands in for.
    fn stat(folder: &Path, [reads, read_sectors, read_ms, writes, written_sectors, write_ms]: Counters) {
        let line = format!("{reads} 0 {read_sectors} {read_ms} {writes} 0 {written_sectors} {write_ms} 0 1 1\n");
        fs::write(folder.join("stat"), line).expect("a file");
    }

    /// Before, figures of a drive that joined were left out, and those of a drive that is gone went to another one that is gone.
    #[test]
    fn figures_of_the_array_go_to_their_drive_and_no_other() {
        let figures = |path: &str, reads: u64| MemberFigures { path: path.into(), reads, ..MemberFigures::default() };
        let mut watch = Watch::new(&[], None, Duration::ZERO);
        watch.array_before = vec![figures("/none/b", 10)];
        let mut members = vec![figures("/none/a", 1), figures("/none/b", 2)];
        watch.count_by_array(&mut members, vec![figures("/none/b", 15), figures("/none/spare", 7)]);
        let told: Vec<(&str, u64)> = members.iter().map(|member| (member.path.as_str(), member.reads)).collect();
        assert_eq!(told, [("/none/a", 1), ("/none/b", 5), ("/none/spare", 7)]);
    }

    #[test]
    fn counters_that_wrap_or_restart_are_counted_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let last = [100, 800, u64::from(u32::MAX) - 499, 10, 80, 7];
        let drive = WatchedDrive {
            path: folder.path().join("none"),
            folder: Some(folder.path().into()),
            last,
            done: [0; 6],
            worst_second_ns: None,
            hottest_c: None,
        };
        let mut watch = Watch {
            drives: vec![drive],
            array_before: Vec::new(),
            looked_at: Duration::ZERO,
            warmup: None,
            sweep: Vec::new(),
            sweep_ended: None,
        };
        // 1000 ms of 10 reads, and the time wraps after 500 of them.
        stat(folder.path(), [110, 880, 500, 10, 80, 7]);
        watch.look(Duration::from_secs(1), None, false);
        assert_eq!(watch.drives[0].worst_second_ns, Some(1e8));
        // The time wraps once more until the end: 2^32 ms of 10 reads.
        stat(folder.path(), [115, 920, 2_147_484_148, 10, 80, 7]);
        watch.look(Duration::from_secs(2), None, false);
        stat(folder.path(), [120, 960, 500, 10, 80, 7]);
        let figures = &watch.finish(None)[0];
        assert_eq!((figures.reads, figures.read_bytes, figures.writes), (20, 160 * 512, 0));
        assert_eq!(figures.latency_mean_ns, Some((4_294_967_296.0 + 1000.0) * 1e6 / 20.0));
        // The device was removed and made again.
        watch.look(Duration::from_secs(3), None, false);
        stat(folder.path(), [2, 16, 4, 1, 8, 2]);
        watch.look(Duration::from_secs(4), None, false);
        let figures = &watch.finish(None)[0];
        assert_eq!((figures.reads, figures.writes, figures.written_bytes), (22, 1, 8 * 512));
    }

    #[test]
    fn the_work_of_a_warm_up_does_not_count() {
        // A load of which the drive writes every byte once, with a warm-up as long as the measurement.
        let folder = tempfile::tempdir().expect("a folder");
        let mut watch = Watch::new(&[folder.path().join("none")], None, Duration::from_secs(10));
        watch.drives[0].folder = Some(folder.path().into());
        for second in 0..=20 {
            stat(
                folder.path(),
                [0, 0, 0, second * 100, second * 800, if second <= 5 { 900 * second } else { 4450 + 10 * second }],
            );
            watch.look(Duration::from_secs(second), None, false);
        }
        let figures = &watch.finish(None)[0];
        assert_eq!((figures.writes, figures.written_bytes), (1000, 8000 * 512));
        assert_eq!(figures.latency_worst_second_ns, Some(1e5), "the slow seconds were in the warm-up");
    }

    #[test]
    fn the_end_of_a_sweep_is_seen_though_no_look_saw_it_run() {
        let seconds = Duration::from_secs;
        let runs = || Ok(Some(SweepSample::default()));
        let mut watch = Watch::new(&[], None, Duration::ZERO);
        watch.sweep_seen(seconds(1), Ok(None));
        watch.sweep_seen(seconds(2), Ok(None));
        assert_eq!(watch.sweep_ended, Some(seconds(1)), "it ended between two loads");
        let mut watch = Watch::new(&[], None, Duration::ZERO);
        for (at, seen) in [(1, Ok(None)), (2, runs()), (3, Err("no answer".into())), (4, Ok(None)), (5, Ok(None))] {
            watch.sweep_seen(seconds(at), seen);
        }
        assert_eq!(watch.sweep_ended, Some(seconds(4)), "it had not begun at the first look");
    }

    #[test]
    fn this_machine_tells_what_it_is() {
        let environment = environment();
        assert!(environment.kernel.starts_with("Linux ") && environment.cpu_count > 0 && environment.memory_bytes > 1 << 20);
        assert!((0.0..=100.0).contains(&environment.busy_percent), "{environment:?}");
    }
}
