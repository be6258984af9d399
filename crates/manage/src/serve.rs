//! `serve`: a process that holds arrays until it is told to stop.
//!
//! ```text
//!   choose drives and arrays ─ check that they are free ─ listen ─ open, on lanes ─ say so ─ wait ─ stop
//! ```
//! Nothing is written to any member before everything before `open` has succeeded. SIGINT, SIGTERM and `stria stop`
//! end it in good order; a later signal ends it at once, as a power cut would.

use crate::cli::{Clients, ServeOptions};
use crate::failure::Failure;
use crate::lane_spec::LaneSpec;
use crate::output::{self, line};
use crate::service::Service;
use crate::{control, sockets, view};
use serde_json::json;
use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::process;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stria_drive::{Access, DriveError, SyncDrive};
use stria_format::md::Verdict;
use stria_format::md::assemble::{AssembleError, AssembleErrorKind, Assembly};
use stria_front::{Listener, Options, Server};
use stria_host::{Found, OpenOptions, PlannedArray, find};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The kernel closes the files of a process that was killed only when their io_uring has been wound up: a serve that
/// follows at once waits so long for that.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// `timeout` and some supervisors signal the process and then its group: what follows so soon is the same wish.
const SAME_WISH: Duration = Duration::from_millis(500);
/// How long answers under way may take when everything else has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Where NBD clients connect, as it is written on the command line.
#[derive(Clone, Debug)]
pub struct Listen(Listener);

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self(Listener::Unix(absolute(Path::new(path))))),
            Some(("tcp", address)) => {
                let mut found = address.to_socket_addrs().map_err(|error| format!("{address}: {error}; write tcp:HOST:PORT"))?;
                found.next().map(|address| Self(Listener::Tcp(address))).ok_or_else(|| format!("{address} has no address"))
            }
            _ => Err("write unix:PATH or tcp:HOST:PORT".into()),
        }
    }
}

/// The path from the root: a serve and its commands may run in different folders. Links are kept.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Drives and array names among the arguments: what has a slash or exists is a drive.
pub fn sort_arguments(what: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let is_drive = |path: &&PathBuf| path.components().count() != 1 || path.is_absolute() || path.exists();
    let drives = what.iter().filter(is_drive).map(|path| absolute(path)).collect();
    (drives, what.iter().filter(|path| !is_drive(path)).map(|name| name.display().to_string()).collect())
}

/// All block devices of this machine that may be read; those that may not are told.
pub fn block_devices() -> (Vec<PathBuf>, Vec<String>) {
    let entries = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let mut devices: Vec<PathBuf> = entries
        .filter(|entry| std::fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0"))
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .collect();
    devices.sort();
    let (mut readable, mut refused) = (Vec::new(), Vec::new());
    for device in devices {
        match SyncDrive::open(&device, Access::ReadOnly) {
            Ok(_) => readable.push(device),
            Err(error) => refused.push(error.to_string()),
        }
    }
    (readable, refused)
}

fn is_named(full_name: &str, names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == full_name || name == view::short_name(full_name))
}

/// The arrays called so, all if `names` is empty, with the spans below them.
pub fn named<'a>(assemblies: &'a [Assembly], names: &[String]) -> Vec<&'a Assembly> {
    let mut below: HashSet<&str> = HashSet::new();
    let mut found = Vec::new();
    // Spans stand before the arrays above them.
    for assembly in assemblies.iter().rev() {
        if is_named(&assembly.name, names) || below.contains(&*assembly.name) {
            below.extend(assembly.drives.iter().map(|drive| &*drive.name));
            found.push(assembly);
        }
    }
    found.reverse();
    found
}

/// The arrays that were asked for, all of which can start: on these drives, or, if there are none, on all block devices.
///
/// # Errors
/// The first that cannot, or what was not found.
pub fn choose(drives: &[PathBuf], names: &[String], options: OpenOptions) -> Result<Vec<PlannedArray>, Failure> {
    let scanned = drives.is_empty();
    let drives = if scanned { &block_devices().0 } else { drives };
    let Found { mut arrays, assemblies, strangers } = find(drives, options)?;
    // A member whose superblock is damaged is among them.
    let stranger = strangers.first().filter(|_| !scanned);
    let told = |error: &AssembleError| stranger.map_or(error.to_string(), |stranger| format!("{error}; {stranger}"));
    for assembly in named(&assemblies, names) {
        match &assembly.outcome {
            // Everything was asked for: what can start does, as under mdadm.
            Err(error) if scanned && names.is_empty() && !arrays.is_empty() => tracing::warn!("not served: {error}"),
            Err(error) if error.kind == AssembleErrorKind::DirtyDegraded => return Err(Failure::Unsafe(told(error))),
            Err(error) if arrays.is_empty() || !names.is_empty() => return Err(Failure::Failed(told(error))),
            Err(error) => {
                let theirs: Vec<&str> = assembly.drives.iter().map(|drive| &*drive.name).collect();
                return Err(Failure::Failed(format!("{error}; or leave {} out to go without this array", theirs.join(", "))));
            }
            Ok(_) => {}
        }
        for drive in &assembly.drives {
            match &drive.verdict {
                Verdict::Away { slot, events_behind, .. } => tracing::warn!(
                    "{} (slot {}) missed {events_behind} records of \"{}\" and stays out; `stria add` brings it back",
                    drive.name,
                    slot.map_or("unknown".into(), |slot| slot.to_string()),
                    assembly.name
                ),
                Verdict::Faulty => tracing::warn!("{} was failed in \"{}\" and stays out", drive.name, assembly.name),
                Verdict::Unusable { reason } => tracing::warn!("{} stays out of \"{}\": {reason}", drive.name, assembly.name),
                Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. } | Verdict::Spare => {}
            }
        }
    }
    if let Some(stranger) = stranger {
        return Err(Failure::Failed(format!("{stranger}; leave it out to go without it")));
    }
    arrays.retain(|array| is_named(&array.name, names));
    let missing =
        names.iter().find(|name| !arrays.iter().any(|array| array.name == **name || view::short_name(&array.name) == **name));
    match missing {
        Some(name) => {
            let place = match scanned {
                true => "this machine's block devices, and image files are not searched for",
                false => "these drives",
            };
            Err(Failure::Failed(format!("no array \"{name}\" lies on {place}: name its drives, or see `stria assemble`")))
        }
        None if arrays.is_empty() => Err(Failure::Failed("no array lies on these drives: see `stria examine`".into())),
        None => Ok(arrays),
    }
}

/// Holds drives that are only read against others who would write; tells who uses them before anything is changed.
fn check_free(arrays: &[PlannedArray], read_only: bool) -> Result<Vec<File>, Failure> {
    let mut held = Vec::new();
    for path in arrays.iter().flat_map(|array| &array.drives) {
        if !read_only {
            let end = Instant::now() + GONE_AFTER;
            loop {
                match SyncDrive::open(path, Access::Exclusive) {
                    Ok(_) => break,
                    Err(DriveError::Busy { .. }) if Instant::now() < end => std::thread::sleep(GONE_AFTER / 40),
                    Err(error) => return Err(Failure::failed(error)),
                }
            }
            continue;
        }
        let file = File::open(path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        match file.try_lock_shared() {
            Ok(()) => held.push(file),
            Err(TryLockError::WouldBlock) => {
                let holder = "another process that may write it".into();
                return Err(Failure::failed(DriveError::Busy { path: path.clone(), holder }));
            }
            Err(TryLockError::Error(error)) => return Err(Failure::Failed(format!("{}: {error}", path.display()))),
        }
    }
    Ok(held)
}

/// Logs on standard error, and serves what is asked for until told to stop.
///
/// # Errors
/// When something cannot be opened or listened on, or does not stop in good order.
pub fn serve(drives: &[PathBuf], names: &[String], options: &ServeOptions, json: bool) -> Result<(), Failure> {
    output::log_to_stderr(if options.quiet { tracing::Level::WARN } else { tracing::Level::INFO });
    let how = options.how();
    let planned = choose(drives, names, how)?;
    let names = export_names(&planned, options.name.as_deref())?;
    let _held = check_free(&planned, options.read_only)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
    let outcome = runtime.block_on(run(&planned, &names, options, json));
    // Whatever still blocks in the background was given its time.
    runtime.shutdown_background();
    outcome
}

fn export_names(planned: &[PlannedArray], name: Option<&str>) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = match name {
        Some(name) if planned.len() == 1 => vec![name.to_owned()],
        Some(_) => return Err(Failure::Usage(format!("--name is for one array, and these drives hold {}", planned.len()))),
        None => planned.iter().map(|array| view::short_name(&array.name).to_owned()).collect(),
    };
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        Some((_, twin)) => {
            Err(Failure::Failed(format!("two different arrays are called \"{twin}\": serve them apart, one of them with --name")))
        }
        None => Ok(names),
    }
}

async fn run(planned: &[PlannedArray], names: &[String], options: &ServeOptions, json: bool) -> Result<(), Failure> {
    let caught = |kind| signal(kind).map_err(|error| Failure::Failed(format!("cannot catch signals: {error}")));
    let mut signals = [caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?];
    let socket = match &options.control.socket {
        Some(path) => absolute(path),
        None => sockets::own_folder()?.join(format!("{}.sock", names[0].replace('/', "_"))),
    };
    let control = Socket::listen(&socket)?;
    let listeners: Vec<Listener> = match options.nbd.is_empty() {
        true => vec![Listener::Unix(socket.with_extension("nbd"))],
        false => options.nbd.iter().map(|listen| listen.0.clone()).collect(),
    };
    for listener in &listeners {
        if let Listener::Tcp(address) = listener
            && !address.ip().is_loopback()
        {
            tracing::warn!("whoever reaches tcp:{address} may read and write: NBD asks for no password");
        }
    }
    let service = Service::new(Server::start(listeners, Vec::new(), Options::default()).map_err(Failure::failed)?);
    let how = options.how();
    let mut uris = Vec::new();
    let mut cpus = options.cpus.clone().unwrap_or_default();
    for (array, name) in planned.iter().zip(names) {
        let lanes = LaneSpec {
            count: options.lanes.map(usize::from),
            polls: options.poll,
            cpus: cpus.clone(),
            numa_node: options.numa_node,
            clients: options.clients.map(|clients| clients == Clients::Lane),
        };
        match service.start(array, name, how, lanes) {
            Ok((found, lane_count)) => {
                uris.extend(found.into_iter().map(|uri| (name, uri)));
                // The next array's lanes go on where these end.
                let used = lane_count % cpus.len().max(1);
                cpus.rotate_left(used);
            }
            Err(error) => {
                let _ = service.stop_all(true);
                return Err(error.into());
            }
        }
    }
    let mut ended = service.shutdown().subscribe();
    let router = control::router(Arc::clone(&service));
    let server = axum::serve(control.listener()?, router).with_graceful_shutdown(async move {
        // An error means that the service is gone, which is an end as well.
        let _ = ended.wait_for(|ended| *ended).await;
    });
    let server = tokio::spawn(server.into_future());
    let shown = socket.display().to_string();
    let mut lines: String = uris
        .iter()
        .map(|(name, uri)| line(json, || format!("nbd {name} {uri}"), || json!({"array": name, "nbd": uri})))
        .collect();
    lines += &line(json, || format!("control {shown}"), || json!({"control": shown, "pid": process::id()}));
    // Whoever does not listen finds it by `stria status`.
    let _ = output::try_print(&lines);

    let mut ended = service.shutdown().subscribe();
    let mut stopping: Option<Instant> = None;
    loop {
        tokio::select! {
            name = either(&mut signals) => {
                if let Some(since) = stopping {
                    if since.elapsed() < SAME_WISH {
                        continue;
                    }
                    tracing::error!("{name} again: ended at once; members are left as after a power cut");
                    let _ = std::fs::remove_file(&socket);
                    process::exit(1);
                }
                tracing::info!("{name}: stopping; once more ends at once");
                stopping = Some(Instant::now());
                let service = Arc::clone(&service);
                tokio::task::spawn_blocking(move || service.stop_all(true));
            }
            _ = ended.wait_for(|ended| *ended) => break,
        }
    }
    let _ = tokio::time::timeout(LAST_ANSWERS, server).await;
    match service.failure() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

async fn either([interrupt, terminate]: &mut [Signal; 2]) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}

/// The control socket's file, which goes when this does.
struct Socket {
    path: PathBuf,
    listener: std::os::unix::net::UnixListener,
}

impl Socket {
    fn listen(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), listener: sockets::listen(path)? })
    }

    fn listener(&self) -> Result<tokio::net::UnixListener, Failure> {
        let clone = self.listener.try_clone().and_then(tokio::net::UnixListener::from_std);
        clone.map_err(|error| Failure::Failed(format!("cannot listen at {}: {error}", self.path.display())))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
