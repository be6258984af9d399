//! `stria daemon`: one process for the machine, which starts every array that belongs to Stria, as its drives come, and stays.
//!
//! ```text
//!   read the configuration ─ take commands ─ look at all drives, start what can start ─ let clients in ─ READY ─ keep ─ stop
//! ```
//! The control socket listens before the drives are looked at, so a drive that udev reports meanwhile is not missed. Clients are
//! let in after the first look: one that reconnects after a restart finds its array there. The [`Keeper`] decides which array
//! starts when; everything else is as in `serve`.

mod api;
mod groups;
mod nbd;
mod notify;

use crate::config::edit::Edit;
use crate::config::{self, Config};
use crate::control::sockets;
use crate::events::file::EventFile;
use crate::fronts::nbd::{LateTcp, NbdOptions, NbdStart};
use crate::keeper::Keeper;
use crate::ledger::Ledger;
use crate::log::log_to_stderr;
use crate::matter::{API, NBD, TOKENS};
use crate::monitor::{Monitor, MonitorPlan};
use crate::rest::auth::Guard;
use crate::rest::{self, Rest, Tcp};
use crate::routine::Routine;
use crate::service::{Service, watchdog};
use crate::signals::{OnHangup, Sockets, Wish, Wishes};
use crate::system::threads;
use crate::words::error::Told;
use crate::{cli, control, events, view};
use groups::{LateGroups, NbdGroup};
use nbd::NbdOverTcp;
use notify::Supervisor;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use stria_block::NO_THREAD;
use stria_drive::held_by;
use stria_front::Closing;
use stria_terminal::output::{line, try_print};
use stria_terminal::{Failure, absolute};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The time that an array which is just being started has for that before all are stopped.
const KEEPER_ENDS: Duration = Duration::from_secs(20);
/// The pause before files that could not be used are looked at again.
const FILES_EVERY: Duration = Duration::from_secs(5);
/// The time that answers in progress may take when everything else has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves the arrays of the configuration until told to stop.
///
/// # Errors
/// When the configuration is invalid, a socket cannot be made, or an array does not stop cleanly.
pub fn daemon(command: &cli::Daemon, json: bool) -> Result<(), Failure> {
    log_to_stderr(if command.quiet { tracing::Level::WARN } else { tracing::Level::INFO });
    let path = config::path(command.config.config.as_deref());
    // A fault in the configuration has an exit code of its own: another start is of no use (`RestartPreventExitStatus=` of the
    // unit).
    let config = Config::read(&path).map_err(|failure| Failure::Usage(failure.to_string()))?;
    config.nbd.options()?.check_keys()?;
    let watching = config.monitor_plan()?;
    let runtime = threads::runtime()?;
    let outcome = runtime.block_on(run(path, config, watching, command, json));
    runtime.shutdown_background();
    outcome
}

async fn run(path: PathBuf, config: Config, watching: MonitorPlan, command: &cli::Daemon, json: bool) -> Result<(), Failure> {
    let mut wishes = Wishes::catch(OnHangup::Reload)?;
    let supervisor = Arc::new(Supervisor::of_this_process());
    let socket = match &command.control.socket {
        Some(path) => absolute(path),
        None => sockets::for_daemon()?,
    };
    sockets::check(&socket)?;
    let NewService { service, event_file, ledger, late_nbd, nbd_group } = new_service(&config, &socket)?;
    let control = sockets::listen(&socket)?;
    let listener = control.listener().try_clone().and_then(tokio::net::UnixListener::from_std).map_err(Failure::failed)?;
    let mut sockets = Sockets { service: Arc::clone(&service), control: Some(control) };

    let (api_options, api_groups) = config.api.options_or_late().map_err(Failure::Usage)?;
    let late_groups = LateGroups { nbd: nbd_group, api: api_groups, api_socket: socket.with_extension("api") };
    let (state, degraded_after) = (config.daemon.state.clone(), config.daemon.degraded_after.0);
    let (looked, first_look) = oneshot::channel();
    let metrics = watching.metrics;
    let monitor = Monitor::start(&service, watching)?;
    let (nbd, nbd_over_tcp) = NbdOverTcp::new(late_nbd, &config.nbd);
    nbd_over_tcp.fault().into_iter().for_each(|text| monitor.stand(NBD, text));
    monitor.recall(&state);
    let routine = Routine::start(&service, &monitor, &ledger, &config)?;
    let followed = Arc::clone(&routine);
    let first_look_ends = move || {
        // Nothing receives it if the process is ending.
        let _ = looked.send(());
    };
    let (api, api_on_tcp) = (config.api.clone(), Arc::<OnceLock<Arc<Tcp>>>::default());
    let reloaded_tcp = Arc::clone(&api_on_tcp);
    let told_by = Arc::clone(&monitor);
    let reloaded = move |config: &Config| {
        followed.reload(config);
        nbd.set(config.nbd.clone());
        told_by.set_alarms(config.alarms.clone());
        if let Some(tcp) = reloaded_tcp.get() {
            tcp.set(config.api.clone());
        }
    };
    let keeper = Keeper::start(path.clone(), config, Arc::clone(&service), first_look_ends, reloaded)?;
    let (file, reader) = (path.clone(), Arc::downgrade(&keeper));
    service.find_again_by(move |drive| search_for(drive, &file, &reader));
    let expected = Arc::downgrade(&keeper);
    monitor.expect(move || expected.upgrade().map(|keeper| keeper.adopted()).unwrap_or_default(), degraded_after);

    let router = control::router(Arc::clone(&service))
        .merge(api::router(Arc::clone(&keeper), Arc::clone(&routine)))
        .merge(monitor.router());
    let witness = api::witness(Arc::clone(&service));
    let server = tokio::spawn(control::listen(listener, router, Some(witness), service.shutdown().subscribe()));
    if let Some(address) = metrics {
        // The daemon serves arrays also without the port for metrics.
        tokio::spawn(Arc::clone(&monitor).listen_when_free(address, service.shutdown().subscribe()));
    }
    let machine = rest::Machine {
        service: Arc::clone(&service),
        keeper: Arc::clone(&keeper),
        monitor: Arc::clone(&monitor),
        routine,
        config_path: path,
        state,
        looks: Default::default(),
    };
    let rest = Rest::new(machine, &api_options);
    let guard = Arc::clone(&rest.guard);
    let rest = rest::start(rest, api, &api_options, &socket.with_extension("api"));
    if let Some(rest) = &rest {
        let _ = api_on_tcp.set(rest.tcp());
    }

    let latecomers = Latecomers { groups: late_groups, guard, api: api_on_tcp, nbd: nbd_over_tcp, mended: Vec::new() };
    let following = latecomers.follow(&monitor, &service);
    tokio::spawn(signal_watchdog(Arc::clone(&supervisor), Arc::clone(&service)));
    let running = Running { service: Arc::clone(&service), keeper, supervisor, socket, json };
    let outcome = match following {
        Ok(()) => running.until_over(&mut wishes, first_look, &mut sockets).await,
        Err(failure) => Err(failure),
    };
    if outcome.is_err() {
        // Members must not be left as after a crash because a socket cannot be made.
        let _ = running.stop().await;
    }

    let _ = tokio::time::timeout(LAST_ANSWERS, server).await;
    if let Some(rest) = rest {
        rest.finish(LAST_ANSWERS);
    }
    monitor.finish();
    event_file.finish(&service);
    drop(sockets);
    for drive in held_by() {
        tracing::warn!("{drive} has not answered a request that waits in the kernel: this process can end only when it does");
    }
    match service.failure() {
        Some(error) => Err(error.into()),
        None => outcome,
    }
}

/// A service without arrays, and what belongs to it.
struct NewService {
    service: Arc<Service>,
    event_file: EventFile,
    ledger: Arc<Ledger>,
    /// NBD over TCP, if it is not served although it should be.
    late_nbd: Option<LateTcp>,
    /// The group of its unix sockets, if the machine does not know it yet.
    nbd_group: Option<NbdGroup>,
}

/// A service without arrays, which stores its events and remembers arrays over restarts.
fn new_service(config: &Config, socket: &Path) -> Result<NewService, Failure> {
    let (group, late) = match config.nbd.group_or_late() {
        Ok(group) => (group, None),
        Err(late) => (None, Some(late)),
    };
    let options = NbdOptions { nbd_group: group, ..config.nbd.options()? };
    let NbdStart { server, late_tcp: late_nbd, sockets } = options.server_anyhow(&socket.with_extension("nbd"))?;
    let (no_group, late) = late.unzip();
    let nbd_group = late.map(|group| NbdGroup { group, sockets, mode: options.group_mode(), number: None });
    let service = Service::new(server)?;
    watchdog::start(&service)?;
    service.stay();
    let event_file = events::file::keep(&service, &config.daemon.state)?;
    let (ledger, damage) = Ledger::open(&config.daemon.state);
    let ledger = Arc::new(ledger);
    tell_unnamed(&service, &ledger, config);
    service.remember(Arc::clone(&ledger));
    for text in damage.into_iter().chain(no_group) {
        service.events().push(view::plain_event("", "warning", text));
    }
    Ok(NewService { service, event_file, ledger, late_nbd, nbd_group })
}

/// Warns once of arrays that the daemon has served and the configuration names no more: an editor, or a file system after a power
/// cut, may have emptied the file, which is a valid one.
fn tell_unnamed(service: &Service, ledger: &Ledger, config: &Config) {
    let known: Vec<String> = config
        .arrays
        .iter()
        .flat_map(|array| std::iter::once(&array.uuid).chain(&array.spans))
        .map(ToString::to_string)
        .collect();
    let unnamed = ledger.unknown(&known);
    for (uuid, drives) in &unnamed {
        let drives: String = drives.iter().map(view::last_drive).collect();
        let text = format!(
            "array or span {uuid} was served before, and the configuration does not name it any more, so it is not started: if that was \
             not meant, restore the configuration, or `stria adopt` the array{drives}"
        );
        service.events().push(view::plain_event("", "warning", text));
    }
    ledger.forget(&unnamed.into_iter().map(|(uuid, _)| uuid).collect::<Vec<_>>());
}

/// A daemon that has begun, and obeys signals.
struct Running {
    service: Arc<Service>,
    keeper: Arc<Keeper>,
    supervisor: Arc<Supervisor>,
    socket: PathBuf,
    json: bool,
}

impl Running {
    /// Obeys signals until the service is shut down.
    async fn until_over(
        &self,
        wishes: &mut Wishes,
        mut first_look: oneshot::Receiver<()>,
        sockets: &mut Sockets,
    ) -> Result<(), Failure> {
        let mut over = self.service.shutdown().subscribe();
        let mut is_ready = false;
        loop {
            tokio::select! {
                _ = &mut first_look, if !is_ready => {
                    is_ready = true;
                    if !wishes.is_stop() {
                        self.let_clients_in()?;
                    }
                }
                wish = wishes.next() => match wish {
                    Wish::Stop => drop(self.stop()),
                    Wish::Reload => self.reload(),
                    end @ Wish::Exit(_) => end.obey(sockets),
                },
                _ = over.wait_for(|over| *over) => return Ok(()),
            }
        }
    }

    fn let_clients_in(&self) -> Result<(), Failure> {
        self.service.listen().map_err(Failure::failed)?;
        self.supervisor.notify("READY=1\nSTATUS=serving the arrays of the configuration");
        let (shown, pid) = (self.socket.display().to_string(), process::id());
        let _ = try_print(&line(self.json, || format!("control {shown}"), || json!({"control": shown, "pid": pid})));
        Ok(())
    }

    /// Stops all arrays, on a thread of its own.
    fn stop(&self) -> JoinHandle<()> {
        self.supervisor.notify("STOPPING=1");
        let (keeper, service) = (Arc::clone(&self.keeper), Arc::clone(&self.service));
        tokio::task::spawn_blocking(move || {
            keeper.end(KEEPER_ENDS);
            // The service remembers a failure.
            let _ = service.stop_all(true, Closing::Disconnect);
        })
    }

    /// Reads the configuration again, on a thread of its own.
    fn reload(&self) {
        let (keeper, service) = (Arc::clone(&self.keeper), Arc::clone(&self.service));
        tokio::task::spawn_blocking(move || {
            let outcome = keeper.reload();
            let kind = if outcome.is_ok() { "reloaded" } else { "warning" };
            let text = outcome.unwrap_or_else(|error| error.to_string());
            service.events().push(view::plain_event("", kind, text));
        });
    }
}

/// Adds an image file that has joined an array to those that are searched: otherwise the array would lack it at the next start.
/// Block devices are searched anyhow. Returns what was stored, or why not.
fn search_for(drive: &Path, config: &Path, keeper: &Weak<Keeper>) -> Option<String> {
    if !drive.is_file() {
        return None;
    }
    let add = || -> Result<bool, Told> {
        let mut edit = Edit::open(config)?;
        let is_new = edit.search(std::iter::once(&drive.to_owned()))?;
        if is_new { edit.save().map(|_| true) } else { Ok(false) }
    };
    let file = config.display();
    match add() {
        Ok(false) => None,
        Ok(true) => {
            // On a thread of its own, as the keeper itself may be the one that adds the drive.
            let keeper = Weak::clone(keeper);
            let reload = move || drop(keeper.upgrade().map(|keeper| keeper.reload()));
            Some(match std::thread::Builder::new().name("reload".into()).spawn(reload) {
                Ok(_) => format!("{file} names it under `search`"),
                Err(error) => format!(
                    "{file} names it under `search`, and the daemon reads that at its next start: no thread could be started: \
                     {error}; {NO_THREAD}"
                ),
            })
        }
        Err(failure) => {
            Some(format!("the next start will not find it, as {failure}: add {} to `search` in {file}", drive.display()))
        }
    }
}

/// What was missing at the start and may come later: groups of sockets, files for TLS and tokens, free ports.
struct Latecomers {
    groups: LateGroups,
    guard: Arc<Guard>,
    /// The API over TCP, once it is started.
    api: Arc<OnceLock<Arc<Tcp>>>,
    nbd: NbdOverTcp,
    /// Parts of the configuration whose fault has ended, and whose alarm ends in the next round.
    mended: Vec<&'static str>,
}

impl Latecomers {
    /// Looks for them now and then until the service ends, on a thread of its own.
    fn follow(mut self, monitor: &Arc<Monitor>, service: &Arc<Service>) -> Result<(), Failure> {
        let watched = (Arc::downgrade(monitor), Arc::downgrade(service));
        let follow = move || {
            while let (Some(monitor), Some(service)) = (watched.0.upgrade(), watched.1.upgrade()) {
                self.groups.follow(&service, &self.guard);
                self.follow_files(&monitor, &service);
                drop((monitor, service));
                std::thread::sleep(FILES_EVERY);
            }
        };
        threads::start("files", follow).map(drop)
    }

    /// Opens the API and NBD over TCP as soon as that is possible, and ends the alarms about them.
    fn follow_files(&mut self, monitor: &Monitor, service: &Service) {
        // An alarm ends one round after its text has changed, so that the message of its end has the new text.
        self.mended.drain(..).for_each(|part| monitor.holds(part));
        let mut mend = |part, text: &str| {
            monitor.stand(part, text.into());
            self.mended.push(part);
        };
        let api = self.api.get();
        // Also after a reload: it may name other addresses.
        match api.map(|api| api.open()) {
            Some(Err(fault)) => monitor.stand(API, fault),
            Some(Ok(())) if monitor.is_faulty(API) => {
                mend(API, "the files that the configuration names are good now, and the API is served over TCP")
            }
            Some(Ok(())) | None => {}
        }
        match api.and_then(|api| api.tokens_fault()) {
            Some(fault) => monitor.stand(TOKENS, fault),
            None if monitor.is_faulty(TOKENS) => mend(TOKENS, "the file of tokens is good now, and tokens count again"),
            None => {}
        }
        match self.nbd.try_again(service) {
            None => {}
            Some(Err(fault)) => monitor.stand(NBD, fault),
            Some(Ok(text)) => mend(NBD, text),
        }
    }
}

/// Signals systemd's watchdog while this thread runs and every lane answers.
async fn signal_watchdog(supervisor: Arc<Supervisor>, service: Arc<Service>) {
    let Some(within) = notify::watchdog() else { return };
    // Twice in its time, and an answer may take as long as is left of that.
    let every = within / 4;
    loop {
        let asked = Arc::clone(&service);
        match tokio::task::spawn_blocking(move || asked.lanes_answer(every)).await {
            Ok(Ok(())) => supervisor.notify("WATCHDOG=1"),
            Ok(Err(silence)) => tracing::error!("{silence}: systemd's watchdog gets no signal, and restarts this process"),
            Err(panic) => tracing::error!("the lanes could not be asked: {panic}"),
        }
        tokio::time::sleep(every).await;
    }
}
