//! Other programs' use of the machine during a measurement, which makes figures less certain.
//!
//! Others' time is all busy processor time except that of this process, of the programs that it started (fio, `stria serve`), of
//! the servers of measured exports on this machine, and of the kernel's own threads. Time that a hypervisor gave to other
//! machines counts as others' too.

use crate::fio::Place;
use crate::nbd_uri::{Address, address};
use crate::result::{Record, Run};
use crate::state::CpuTimes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};

/// The keys of [`Record::extra`].
const OTHERS: &str = "others_cpu_percent";
const STOLEN: &str = "stolen_cpu_percent";
/// Share of all processors from which a machine counts as busy, percent.
pub(crate) const BUSY_PERCENT: f64 = 10.0;
/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// The moment from which others are watched.
#[derive(Debug)]
pub(crate) struct Others {
    times: CpuTimes,
    known: f64,
    servers: BTreeSet<u32>,
}

impl Others {
    /// Begins. The servers of exports among the measured places are part of the measurement.
    pub fn since_now(places: &[Place]) -> Self {
        let servers = servers(places);
        Self { times: CpuTimes::now(), known: known_ticks(&servers), servers }
    }

    /// Adds others' use since then, in percent of all processors.
    pub fn note(&self, extra: &mut BTreeMap<String, f64>) {
        let now = CpuTimes::now();
        let all = now.all - self.times.all;
        if all < 10.0 {
            return;
        }
        let stolen = now.stolen - self.times.stolen;
        let others = (now.busy - self.times.busy - stolen - (known_ticks(&self.servers) - self.known)).clamp(0.0, all);
        let percent = |ticks: f64| (ticks / all * 1000.0).round() / 10.0;
        extra.insert(OTHERS.into(), percent(others));
        extra.insert(STOLEN.into(), percent(stolen.clamp(0.0, all)));
    }
}

/// The processes of this machine that listen where exports are reached, as far as this user may see their descriptors.
fn servers(places: &[Place]) -> BTreeSet<u32> {
    let uris = places.iter().filter_map(|place| if let Place::Nbd(uri) = place { address(uri) } else { None });
    let sockets: BTreeSet<String> =
        uris.flat_map(|address| listeners(&address)).map(|inode| format!("socket:[{inode}]")).collect();
    let mut servers = BTreeSet::new();
    if sockets.is_empty() {
        return servers;
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let descriptors = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        if links.any(|link| link.to_str().is_some_and(|link| sockets.contains(link))) {
            servers.insert(pid);
        }
    }
    servers
}

/// The inodes of the sockets that listen at an address of this machine.
fn listeners(address: &Address) -> Vec<String> {
    // A connection has the listener's path too; it has the state 03 instead of 01.
    let of_unix = |line: &str, path: &str| {
        let (fields, found) = line.split_once(" /").map(|(fields, rest)| (fields, format!("/{rest}")))?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        (found == path && fields.get(5) == Some(&"01")).then(|| fields.get(6).map(ToString::to_string))?
    };
    // 0A is LISTEN; addresses are hexadecimal.
    let of_tcp = |line: &str, port: u16| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let listens = fields.get(3) == Some(&"0A") && u16::from_str_radix(local, 16) == Ok(port);
        listens.then(|| fields.get(9).map(ToString::to_string))?
    };
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    match address {
        Address::Unix(path) => {
            let path = std::path::absolute(path).map_or_else(|_| path.clone(), |path| path.display().to_string());
            read("/proc/net/unix").lines().filter_map(|line| of_unix(line, &path)).collect()
        }
        Address::Tcp(host) => {
            let here = host.to_socket_addrs().into_iter().flatten().find(|address: &SocketAddr| address.ip().is_loopback());
            let Some(port) = here.map(|address| address.port()) else { return Vec::new() };
            [read("/proc/net/tcp"), read("/proc/net/tcp6")]
                .iter()
                .flat_map(|text| text.lines())
                .filter_map(|line| of_tcp(line, port))
                .collect()
        }
    }
}

/// Ticks of this process, of what it started and waited for, of servers, and of the kernel's threads.
fn known_ticks(servers: &BTreeSet<u32>) -> f64 {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may hold anything.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        // utime, stime, and those of children that were waited for.
        let (own, waited) = (number(11) + number(12), number(13) + number(14));
        processes.insert(pid, (number(1) as u32, own, waited));
    }
    let mut ours = BTreeSet::from([std::process::id(), KTHREADD]);
    ours.extend(servers);
    // A child may have a smaller number than its parent, so this is repeated until nothing is added.
    loop {
        let before = ours.len();
        ours.extend(processes.iter().filter(|(_, (parent, ..))| ours.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>());
        if ours.len() == before {
            break;
        }
    }
    ours.iter().filter_map(|pid| processes.get(pid)).map(|(_, own, waited)| own + waited).sum()
}

/// The share of all processors that other programs used during a measurement; `None` if it is unknown.
fn during(record: &Record) -> Option<f64> {
    let others = record.extra.get(OTHERS)?;
    Some((others + record.extra.get(STOLEN).unwrap_or(&0.0)).clamp(0.0, 100.0))
}

/// The use of the machine by others during a run, in percent of all processors: the mean over its measurements, or otherwise the
/// value just before it.
pub(crate) fn share_percent(run: &Run) -> Option<f64> {
    let environment = &run.manifest.environment;
    let before = (environment.cpu_count > 0).then_some(environment.busy_percent);
    mean_percent(run.records.iter().filter(|record| !record.preparation)).or(before)
}

/// The mean over measurements, as far as it is known.
pub(crate) fn mean_percent<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<f64> {
    let shares: Vec<f64> = records.into_iter().filter_map(during).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn the_server_of_a_measured_export_is_found_and_no_client_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("nbd.sock");
        let uri = Place::Nbd(format!("nbd+unix:///?socket={}", socket.display()));
        assert_eq!(servers(std::slice::from_ref(&uri)), BTreeSet::new(), "nothing listens");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert_eq!(servers(&[uri, Place::Path("/dev/null".into())]), BTreeSet::from([std::process::id()]));
        drop(listener);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let uri = Place::Nbd(format!("nbd://{}/x", listener.local_addr().expect("bound")));
        assert_eq!(servers(std::slice::from_ref(&uri)), BTreeSet::from([std::process::id()]));
        drop(listener);
        assert_eq!(servers(&[uri]), BTreeSet::new());
    }

    /// Children of this process do not count; a process that it did not start does. The test is a process of its own, since
    /// children of other tests end meanwhile.
    #[test]
    fn own_programs_are_no_others() {
        const ALONE: &str = "STRIA_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let mut alone = Command::new(std::env::current_exe().expect("this program"));
            alone.args(["--exact", "others::tests::own_programs_are_no_others"]).env(ALONE, "1");
            let output = alone.output().expect("it starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        let spin = "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done";
        let before = known_ticks(&BTreeSet::new());
        let begun = Instant::now();
        assert!(Command::new("sh").args(["-c", spin]).status().expect("sh").success());
        let child = known_ticks(&BTreeSet::new()) - before;
        assert!(begun.elapsed() > Duration::from_millis(900) && child > 10.0, "{child} ticks of a child that span");
        let mut extra = BTreeMap::new();
        let others = Others::since_now(&[]);
        std::thread::sleep(Duration::from_millis(300));
        others.note(&mut extra);
        assert!((0.0..=100.0).contains(&extra[OTHERS]) && (0.0..=100.0).contains(&extra[STOLEN]), "{extra:?}");
    }
}
