//! `serve`: a process that runs arrays until it is told to stop.
//!
//! ```text
//!   choose drives and arrays ─ check that they and the addresses are free ─ open, on lanes ─ listen ─ report ─ wait ─ stop
//! ```
//! Nothing is written to any member before everything before `open` has succeeded. Sockets appear only when everything behind
//! them is ready, so a client that waits for one is served at once. They are removed at every end but a kill. SIGINT, SIGTERM,
//! SIGHUP and `stria stop` stop the arrays cleanly; a later signal ends the process at once, as a power cut would. SIGHUP stays
//! ignored if it was ignored at the start (`nohup`).

use crate::api::{ApiError, Done};
use crate::cli::{Clients, ServeOptions};
use crate::control;
use crate::control::sockets;
use crate::fronts::ublk::BlockSpec;
use crate::lane_spec::LaneSpec;
use crate::log::log_to_stderr;
use crate::monitor::{Monitor, MonitorPlan};
use crate::service::free::check_free;
use crate::service::{Service, watchdog};
use crate::signals::{OnHangup, Sockets, Wish, Wishes};
use crate::system::threads;
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;
use stria_block::shown_field;
use stria_drive::held_by;
use stria_front::Closing;
use stria_host::{PlannedArray, choose, short_name};
use stria_terminal::output::{line, try_print};
use stria_terminal::{Failure, absolute};
use tokio::task::{JoinError, JoinHandle};

/// How long answers in progress may take when everything else has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Logs to standard error, and serves the arrays that were asked for until told to stop.
///
/// # Errors
/// When something cannot be opened or listened on, or an array does not stop cleanly.
pub fn serve(drives: &[PathBuf], names: &[String], options: &ServeOptions, json: bool) -> Result<(), Failure> {
    log_to_stderr(if options.quiet { tracing::Level::WARN } else { tracing::Level::INFO });
    options.nbd.check()?;
    let plan = options.monitor.plan()?;
    let planned = choose(drives, names, options.how(), &|warning| tracing::warn!("{warning}"))?;
    let names = export_names(&planned, options.name.as_deref())?;
    if planned.len() > 1 && options.ublk.flatten().is_some() {
        return Err(Failure::Usage(format!("--ublk=N is for one array, and these drives hold {}", planned.len())));
    }
    let disks = options.vhost_user.resolve(&names)?;
    // Those that are only read are locked when they are opened.
    drop(check_free(&planned, options.read_only)?);
    let runtime = threads::runtime()?;
    let outcome = runtime.block_on(run(planned, names, disks, plan, options, json));
    // Threads that still block in the background had their time.
    runtime.shutdown_background();
    outcome
}

fn export_names(planned: &[PlannedArray], name: Option<&str>) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = match name {
        Some(name) if planned.len() == 1 => vec![name.to_owned()],
        Some(_) => return Err(Failure::Usage(format!("--name is for one array, and these drives hold {}", planned.len()))),
        None => planned.iter().map(|array| short_name(&array.name).to_owned()).collect(),
    };
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        Some((_, twin)) => {
            Err(Failure::Failed(format!("two different arrays are called \"{twin}\": serve them apart, one of them with --name")))
        }
        None => Ok(names),
    }
}

/// A way to an array: `nbd` or `ublk`, the array's name here, the URI or device.
type Way = (&'static str, String, String);

/// Opens all arrays. If one cannot be opened, those before it are stopped cleanly. `disks` are the sockets where an array is the
/// disk of a virtual machine, each with the array's name.
fn open_all(
    service: &Arc<Service>,
    planned: &[PlannedArray],
    names: &[String],
    disks: &[(String, PathBuf)],
    options: &ServeOptions,
) -> Result<Vec<Way>, Failure> {
    let mut ways = Vec::new();
    let mut cpus = options.cpus.clone().unwrap_or_default();
    for (array, name) in planned.iter().zip(names) {
        let lanes = LaneSpec {
            count: options.lanes.map(usize::from),
            polls: options.poll,
            cpus: cpus.clone(),
            numa_node: options.numa_node,
            clients: options.clients.map(|clients| clients == Clients::Lane),
        };
        let block = options.ublk.map(|id| BlockSpec { id, copier: options.ublk_copy.into() });
        match service.start(array, name, options.how().of(array), lanes, block) {
            Ok((found, lane_count)) => {
                ways.extend(found.into_iter().map(|(kind, uri)| (kind, name.clone(), uri)));
                // The next array's lanes continue where these end.
                let used = lane_count % cpus.len().max(1);
                cpus.rotate_left(used);
            }
            Err(error) => {
                let _ = service.stop_all(true, Closing::Disconnect);
                return Err(error.into());
            }
        }
        for (_, path) in disks.iter().filter(|(disk, _)| disk == name) {
            if let Err(error) = service.add_disk(name, path.clone(), options.vhost_user.access(), disk_serial(&array.uuid)) {
                let _ = service.stop_all(true, Closing::Disconnect);
                return Err(error.into());
            }
        }
    }
    Ok(ways)
}

/// The number of an array's disk in virtual machines: the first ten bytes of its UUID in hexadecimal, 20 characters, as many as a
/// driver takes.
pub fn disk_serial(uuid: &[u8; 16]) -> String {
    uuid[..10].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The control socket's file, named after the array. If the name had to be changed, a part of the UUID follows, as another
/// array's name may change to the same.
fn socket_name(name: &str, uuid: &[u8; 16]) -> String {
    let plain = stria_block::file_name(name);
    match plain == name {
        true => format!("{plain}.sock"),
        false => format!("{plain}-{}.sock", &stria_format::md::uuid_text(uuid)[..8]),
    }
}

async fn run(
    planned: Vec<PlannedArray>,
    names: Vec<String>,
    disks: Vec<(String, PathBuf)>,
    plan: MonitorPlan,
    options: &ServeOptions,
    json: bool,
) -> Result<(), Failure> {
    let mut wishes = Wishes::catch(OnHangup::Stop)?;
    let socket = match &options.control.socket {
        Some(path) => absolute(path),
        None => sockets::own_folder()?.join(socket_name(&names[0], &planned[0].uuid)),
    };
    sockets::check(&socket)?;
    let service = Service::new(options.nbd.server(&socket.with_extension("nbd"))?)?;
    service.announce_late();
    watchdog::start(&service)?;
    let mut sockets = Sockets { service: Arc::clone(&service), control: None };

    // On another thread, as this one must receive signals meanwhile.
    let opening = tokio::task::spawn_blocking({
        let (service, options, disks) = (Arc::clone(&service), options.clone(), disks.clone());
        move || open_all(&service, &planned, &names, &disks, &options)
    });
    let ways = obey_until(opening, &mut wishes, &mut sockets).await.map_err(Failure::failed)??;
    if wishes.is_stop() {
        // Asked to stop before any client could connect.
        let _ = obey_until(stop_all(&service), &mut wishes, &mut sockets).await;
        return ended(&service);
    }
    let (monitor, server, metrics) = match let_in(&service, plan, &socket, &mut sockets).await {
        Ok(open) => open,
        Err(error) => {
            let _ = stop_all(&service).await;
            return Err(error);
        }
    };
    // If nothing reads the output, `stria status` shows the addresses.
    let _ = try_print(&addresses(&ways, &disks, metrics, &socket, json));

    let mut over = service.shutdown().subscribe();
    loop {
        tokio::select! {
            end = wishes.next() => {
                let first = matches!(end, Wish::Stop);
                end.obey(&mut sockets);
                if first {
                    drop(stop_all(&service));
                }
            }
            _ = over.wait_for(|over| *over) => break,
        }
    }
    let _ = tokio::time::timeout(LAST_ANSWERS, server).await;
    monitor.finish();
    // With them the sockets go, which would be left behind if a drive held the process up.
    drop(sockets);
    for drive in held_by() {
        tracing::warn!(
            "{drive} has not answered a request that waits in the kernel: process {} can end only when it does, and holds this drive alone; \
             its sockets and the other drives are free",
            process::id()
        );
    }
    ended(&service)
}

/// Takes commands and lets clients in. Also the address of the metrics, if they are served.
async fn let_in(
    service: &Arc<Service>,
    plan: MonitorPlan,
    socket: &Path,
    sockets: &mut Sockets,
) -> Result<(Arc<Monitor>, JoinHandle<()>, Option<SocketAddr>), Failure> {
    let control = sockets::listen(socket)?;
    let listener = control.listener().try_clone().and_then(tokio::net::UnixListener::from_std).map_err(Failure::failed)?;
    sockets.control = Some(control);
    let over = service.shutdown().subscribe();
    let address = plan.metrics;
    let monitor = Monitor::start(service, plan)?;
    let router = control::router(Arc::clone(service)).merge(monitor.router());
    let server = tokio::spawn(control::listen(listener, router, None, over));
    let metrics = match address {
        Some(address) => Some(monitor.listen(address, service.shutdown().subscribe()).await?),
        None => None,
    };
    service.listen().map_err(Failure::failed)?;
    Ok((monitor, server, metrics))
}

/// Obeys signals until the work ends.
async fn obey_until<T>(mut work: JoinHandle<T>, wishes: &mut Wishes, sockets: &mut Sockets) -> Result<T, JoinError> {
    loop {
        tokio::select! {
            outcome = &mut work => return outcome,
            end = wishes.next() => end.obey(sockets),
        }
    }
}

/// Begins to stop all arrays, on a thread that may wait.
fn stop_all(service: &Arc<Service>) -> JoinHandle<Result<Done, ApiError>> {
    let service = Arc::clone(service);
    tokio::task::spawn_blocking(move || service.stop_all(true, Closing::Disconnect))
}

/// The lines that say where everything is reached.
fn addresses(ways: &[Way], disks: &[(String, PathBuf)], metrics: Option<SocketAddr>, socket: &Path, json: bool) -> String {
    let mut lines: String = ways
        .iter()
        .map(|(kind, name, uri)| {
            line(json, || format!("{kind} {} {uri}", shown_field(name)), || json!({"array": name, *kind: uri}))
        })
        .collect();
    for (name, path) in disks {
        let path = path.display().to_string();
        lines +=
            &line(json, || format!("vhost-user {} {path}", shown_field(name)), || json!({"array": name, "vhost_user": path}));
    }
    if let Some(address) = metrics {
        let url = format!("http://{address}/metrics");
        lines += &line(json, || format!("metrics {url}"), || json!({"metrics": url}));
    }
    let shown = socket.display().to_string();
    lines + &line(json, || format!("control {shown}"), || json!({"control": shown, "pid": process::id()}))
}

fn ended(service: &Service) -> Result<(), Failure> {
    match service.failure() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::socket_name;

    #[test]
    fn sockets_are_plain_files_and_arrays_do_not_share_them() {
        assert_eq!(socket_name("tank", &[7; 16]), "tank.sock");
        for name in ["a b", "a\nb", "a/b", "../b", "a\x1b[2Jb", "\u{202e}b", "", "."] {
            let (one, other) = (socket_name(name, &[1; 16]), socket_name(name, &[2; 16]));
            assert_ne!(one, other, "{name:?}");
            let plain = one.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char));
            assert!(plain && one.ends_with("-01010101.sock") && !one.starts_with('.'), "{one}");
        }
    }
}
