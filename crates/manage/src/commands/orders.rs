//! The commands to the daemon: `start`, `incremental`, `reload`, `events`.

use crate::api::{Done, DriveRequest, EventView, RoutineView, StartRequest};
use crate::config::{self, Config};
use crate::control::client::{self, Client};
use crate::events::file::stored;
use crate::{cli, drive_name};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};
use stria_block::{shown, shown_sentence};
use stria_routine::{TimeZone, local_text};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, table};

fn daemon(control: &cli::Control) -> Result<Client, Failure> {
    client::daemon(control.socket.as_deref()).ok_or_else(|| {
        let what = "`systemctl start stria` starts it; `stria serve` serves arrays without it";
        Failure::Failed(format!("no daemon runs: {what}"))
    })
}

/// Starts an array of the daemon's.
///
/// # Errors
/// The reason why it does not start.
pub fn start(command: &cli::Start) -> Result<Done, Failure> {
    let path = format!("/v1/adopted/{}/start", utf8_percent_encode(&command.name, NON_ALPHANUMERIC));
    daemon(&command.control)?.order(&path, &StartRequest { force: command.force })
}

/// Reports a drive to the daemon. `None`: no daemon runs, and none is needed.
///
/// # Errors
/// When it cannot be read, or belongs to no array of the daemon's.
pub fn incremental(command: &cli::Incremental) -> Result<Option<Done>, Failure> {
    let daemon = match daemon(&command.control) {
        Err(_) if command.if_running => return Ok(None),
        daemon => daemon?,
    };
    let body = DriveRequest { path: drive_name::path(&command.drive, "incremental", None)?, plugged_in: command.plugged_in };
    daemon.order("/v1/drives", &body).map(Some)
}

/// Makes the daemon read its configuration.
///
/// # Errors
/// When that is invalid.
pub fn reload(command: &cli::Reload) -> Result<Done, Failure> {
    daemon(&command.control)?.order("/v1/reload", &())
}

/// Shows the routine work of the daemon.
///
/// # Errors
/// When no daemon runs.
pub fn routine(command: &cli::Routine, json: bool) -> Result<(), Failure> {
    let work: Vec<RoutineView> = daemon(&command.control)?.get("/v1/routine")?;
    if json {
        print_json(&work);
        return Ok(());
    }
    let time = |time: Option<u64>| {
        let seconds = time.and_then(|time| i64::try_from(time).ok());
        seconds.map_or_else(|| "-".into(), |seconds| local_text(seconds, &TimeZone::system()))
    };
    let row = |work: &RoutineView| {
        let next = match (work.running, work.interrupted) {
            (true, _) => "runs".into(),
            (false, true) => "goes on".into(),
            (false, false) => time(work.next_s),
        };
        let outcome = work.outcome.clone().unwrap_or_else(|| "-".into());
        vec![work.what.clone(), shown(&work.of).to_string(), work.schedule.clone(), time(work.last_s), outcome, next]
    };
    match work.is_empty() {
        true => print("nothing is done by schedule: see [routine] in stria.toml(5)\n"),
        false => print(&(table(&["what", "of", "when", "last", "found", "next"], &[], work.iter().map(row).collect()) + "\n")),
    }
    Ok(())
}

/// Shows the events that daemons kept.
///
/// # Errors
/// When they cannot be read.
pub fn events(command: &cli::Events, json: bool) -> Result<(), Failure> {
    let config = Config::read(&config::path(command.config.config.as_deref()))?;
    let mut events = stored(&config.daemon.state)?;
    let is_bare = events.is_empty();
    events.retain(|event| command.name.as_ref().is_none_or(|name| event.array == *name));
    events.retain(|event| !command.orders || event.kind == "ordered");
    if let Some(last) = command.last {
        events.drain(..events.len().saturating_sub(last));
    }
    if json {
        print_json(&events);
    } else if is_bare {
        let folder = config.daemon.state.display().to_string();
        print(&format!("no event is stored in {}: the daemon stores events; `stria serve` only logs them\n", shown(&folder)));
    } else if events.is_empty() {
        print("no stored event is of this kind\n");
    } else {
        print(&events.iter().map(words).collect::<String>());
    }
    Ok(())
}

fn words(event: &EventView) -> String {
    let mut text = String::new();
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(event.time_ms)).unwrap_or(UNIX_EPOCH);
    let array = if event.array.is_empty() { "-" } else { &event.array };
    let time = humantime::format_rfc3339_seconds(time);
    let _ = writeln!(text, "{time}  {}  {}  {}", shown(array), shown(&event.kind), shown_sentence(&event.text));
    text
}
