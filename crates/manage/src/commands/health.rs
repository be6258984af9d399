//! `stria alarm` and `stria health`.

use crate::api::ArrayView;
use crate::cli::{Acknowledge, Alarm, AlarmAction, Health};
use crate::config::{self, Config};
use crate::control::client::{self, Client, SilentServe};
use crate::monitor::{AcknowledgeRequest, DriveEntry, HealthPage, StandingView, ask};
use crate::view::all_members;
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use stria_alarm::Outcome;
use stria_block::{shown, shown_sentence};
use stria_health::{DriveHealth, Seat, Verdict};
use stria_terminal::output::{paragraphs, print, print_json, tables};
use stria_terminal::{Failure, NOT_WELL, absolute, size};

/// Lists the causes that stand, or sends a test.
///
/// # Errors
/// When no serve answers.
pub fn alarm(command: &Alarm, json: bool) -> Result<u8, Failure> {
    let (services, silent) = client::services(command.control.socket.as_deref())?;
    match &command.action {
        Some(AlarmAction::Acknowledge(what)) => acknowledge(&services, &silent, what, json),
        Some(AlarmAction::Test) => test(&services.into_iter().map(|(client, _)| client).collect::<Vec<_>>(), &silent, json),
        None => {
            let mut standing: Vec<StandingView> = Vec::new();
            for (client, _) in &services {
                standing.extend(client.get::<Vec<StandingView>>("/v1/alarms")?);
            }
            if json {
                print_json(&with_silent(&standing, &silent));
            } else if standing.is_empty() && silent.is_empty() {
                print("no alarm is open\n");
            } else {
                let row = |standing: &StandingView| {
                    let since = UNIX_EPOCH + Duration::from_secs(standing.since_s);
                    let since = humantime::format_rfc3339_seconds(since).to_string();
                    let known = standing.acknowledged_words().map_or_else(String::new, |words| format!(" [{words}]"));
                    let text = shown_sentence(&format!("{}{known}", standing.cause.text)).to_string();
                    vec![standing.cause.event.name().into_owned(), since, text]
                };
                let words = paragraphs(110, standing.iter().map(row).collect());
                print(&format!("{}{words}{}", client::silent_words(&silent), if standing.is_empty() { "" } else { "\n" }));
            }
            Ok(if silent.is_empty() { 0 } else { client::NO_ANSWER })
        }
    }
}

/// Acknowledges the open alarms that are meant, or takes that back.
fn acknowledge(
    services: &[(Client, Vec<ArrayView>)],
    silent: &[SilentServe],
    what: &Acknowledge,
    json: bool,
) -> Result<u8, Failure> {
    let is_meant = |StandingView { cause, .. }: &StandingView| {
        cause.array == what.name
            && what.event.as_ref().is_none_or(|event| cause.event.name().eq_ignore_ascii_case(event))
            && what.member.as_ref().is_none_or(|member| cause.component.as_ref() == Some(member))
    };
    let mut done: Vec<StandingView> = Vec::new();
    for (client, _) in services {
        let open: Vec<StandingView> = client.get("/v1/alarms")?;
        for StandingView { cause, .. } in open.into_iter().filter(is_meant) {
            let (event, array, component) = (cause.event, cause.array, cause.component);
            let request = AcknowledgeRequest { event, array, component, note: what.note.clone(), undo: what.undo };
            done.push(client.send(Method::POST, "/v1/alarms/acknowledge", &request)?);
        }
    }
    if done.is_empty() && silent.is_empty() {
        let name = shown(&what.name);
        return Err(Failure::Failed(format!("no such alarm is open on array {name}: `stria alarm` lists those that are open")));
    }
    if json {
        print_json(&with_silent(&done, silent));
    } else {
        print(&(client::silent_words(silent) + &done.iter().map(acknowledged).collect::<String>()));
    }
    Ok(if silent.is_empty() { 0 } else { client::NO_ANSWER })
}

/// An open alarm and its acknowledgement, in one line.
fn acknowledged(open: &StandingView) -> String {
    let StandingView { cause, .. } = open;
    let component = cause.component.as_ref().map_or_else(String::new, |part| format!(" ({})", shown(part)));
    let known = open.acknowledged_words().unwrap_or_else(|| "nobody has acknowledged it, so it is repeated".into());
    format!("{} on array {}{component}: {}\n", cause.event.name(), shown(&cause.array), shown_sentence(&known))
}

/// The acknowledged alarms, as `status` shows them below the arrays.
pub fn acknowledged_below_status(clients: &[&Client], name: Option<&str>, width: u16) -> String {
    // A serve of an earlier version knows none.
    let open = clients.iter().filter_map(|client| client.get::<Vec<StandingView>>("/v1/alarms").ok()).flatten();
    let is_meant = |open: &StandingView| open.acknowledged.is_some() && name.is_none_or(|name| open.cause.array == name);
    let rows: Vec<Vec<String>> =
        open.filter(is_meant).map(|open| vec!["alarm".into(), acknowledged(&open).trim_end().into()]).collect();
    if rows.is_empty() { String::new() } else { paragraphs(width, rows) + "\n" }
}

/// The entries, and servers that did not answer.
fn with_silent<T: Serialize>(entries: &[T], silent: &[SilentServe]) -> Vec<Value> {
    entries.iter().map(|entry| json!(entry)).chain(silent.iter().map(|silent| json!(silent))).collect()
}

fn test(services: &[Client], silent: &[SilentServe], json: bool) -> Result<u8, Failure> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for client in services {
        outcomes.extend(client.send_long::<Vec<Outcome>>(Method::POST, "/v1/alarms/test", &json!({}))?);
    }
    if json {
        print_json(&with_silent(&outcomes, silent));
    } else if outcomes.is_empty() && silent.is_empty() {
        print("no array is served: start one with `stria serve`\n");
    } else {
        let words = |outcome: &Outcome| match &outcome.error {
            None => format!("{}: delivered\n", outcome.channel),
            Some(error) => format!("{}: NOT delivered: {}\n", outcome.channel, shown_sentence(error)),
        };
        print(&(client::silent_words(silent) + &outcomes.iter().map(words).collect::<String>()));
    }
    Ok(u8::from(!silent.is_empty() || outcomes.iter().any(|outcome| outcome.error.is_some())))
}

/// Shows the health of drives.
///
/// # Errors
/// When a drive has none to show, or no serve answers.
pub fn health(command: &Health, json: bool) -> Result<u8, Failure> {
    let (page, silent) = match &command.what {
        Some(path) if is_drive(path) => {
            let config = Config::read(&config::path(command.config.config.as_deref()))?.health;
            (HealthPage { drives: ask(vec![absolute(path)], &config), slow: Vec::new() }, Vec::new())
        }
        what => of_arrays(command.control.socket.as_deref(), what.as_deref())?,
    };
    if let ([DriveEntry { error: Some(reason), .. }], Some(_)) = (&page.drives[..], &command.what) {
        return Err(Failure::Failed(reason.clone()));
    }
    match (json, silent.is_empty()) {
        (true, true) => print_json(&page),
        (true, false) => print_json(&json!({"drives": page.drives, "slow": page.slow, "silent": silent})),
        (false, _) if page.drives.is_empty() && page.slow.is_empty() && !silent.is_empty() => {
            print(&client::silent_words(&silent))
        }
        (false, _) => print(&(client::silent_words(&silent) + &words(&page, u16::MAX))),
    }
    if !silent.is_empty() {
        return Ok(client::NO_ANSWER);
    }
    let is_well = |entry: &DriveEntry| entry.health.as_ref().is_none_or(|health| health.verdict == Verdict::Good);
    Ok(if page.drives.iter().all(is_well) && page.slow.is_empty() { 0 } else { NOT_WELL })
}

/// A path, and no name of an array.
fn is_drive(what: &Path) -> bool {
    what.components().count() > 1 || what.exists()
}

/// The health of these arrays' drives, as `status -v` shows it below them; nothing if no drive reports any.
pub fn below_status(services: &[(Client, Vec<ArrayView>)], width: u16) -> String {
    let mut page = HealthPage::default();
    for (client, arrays) in services {
        // A serve of an earlier version knows none.
        let Ok(found) = client.get::<HealthPage>("/v1/health") else { continue };
        let is_here = |path: &str| arrays.iter().flat_map(all_members).any(|member| member.path == path);
        page.drives.extend(found.drives.into_iter().filter(|entry| is_here(&entry.path.to_string_lossy())));
        page.slow.extend(found.slow.into_iter().filter(|slow| is_here(&slow.path)));
    }
    if page.drives.is_empty() && page.slow.is_empty() { String::new() } else { format!("\n{}", words(&page, width)) }
}

/// The health of drives, and the servers that were asked and did not answer.
fn of_arrays(socket: Option<&Path>, name: Option<&Path>) -> Result<(HealthPage, Vec<SilentServe>), Failure> {
    let mut silent = Vec::new();
    let mut page = HealthPage::default();
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let clients: Vec<(Client, Option<Vec<String>>)> = match &name {
        Some(name) => {
            let (client, array) = client::find(socket, name)?;
            let paths = all_members(&array).iter().map(|member| member.path.clone()).collect();
            vec![(client, Some(paths))]
        }
        None => {
            let (services, others) = client::services(socket)?;
            silent = others;
            services.into_iter().map(|(client, _)| (client, None)).collect()
        }
    };
    for (client, paths) in clients {
        let found: HealthPage = client.get("/v1/health")?;
        let wanted = |path: &str| paths.as_ref().is_none_or(|paths| paths.iter().any(|known| known == path));
        page.drives.extend(found.drives.into_iter().filter(|entry| wanted(&entry.path.to_string_lossy())));
        page.slow.extend(found.slow.into_iter().filter(|slow| wanted(&slow.path)));
    }
    Ok((page, silent))
}

/// The health of drives as text within `width` columns: a line each, then the reasons.
pub fn words(page: &HealthPage, width: u16) -> String {
    let percent = |value: Option<u64>| value.map_or("-".into(), |value| format!("{value} %"));
    let count = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
    let row = |entry: &DriveEntry| {
        let path = shown(&entry.path.display().to_string()).to_string();
        let Some(health) = &entry.health else {
            return [vec!["unknown".to_owned()], vec!["-".into(); 9], vec![path]].concat();
        };
        let DriveHealth { temperature_c, wear_percent, spare_percent, .. } = *health;
        vec![
            if health.asleep { "asleep" } else { health.verdict.word() }.to_owned(),
            temperature_c.map_or("-".into(), |degrees| format!("{degrees} °C")),
            percent(wear_percent.map(u64::from)),
            percent(spare_percent.map(u64::from)),
            count(health.media_errors),
            count(health.link_errors),
            count(health.power_on_hours),
            health.written_bytes.map_or("-".into(), size::show),
            health.firmware.clone().unwrap_or("-".into()),
            health.serial.clone().unwrap_or("-".into()),
            path,
        ]
    };
    if page.drives.is_empty() && page.slow.is_empty() {
        return "no drive reports its health: image files have none\n".into();
    }
    let header = ["health", "temp", "wear", "spare", "media", "link", "hours", "written", "firmware", "serial", "drive"];
    let rows = page.drives.iter().map(row).collect();
    let mut text = tables(width, &header, &[1, 2, 3, 4, 5, 6, 7], rows, 0).trim_end().to_owned() + "\n";
    let mut say = |line: String| text += &(paragraphs(width, vec![vec![line]]) + "\n");
    for entry in &page.drives {
        let path = entry.path.display().to_string();
        if let Some(seat) = entry.seat.as_ref().and_then(Seat::words) {
            say(format!("{}: {}", shown(&path), shown(&seat)));
        }
        for finding in entry.health.iter().flat_map(|health| &health.findings) {
            say(format!("{}: {}: {}", shown(&path), finding.verdict.word(), finding.sentence));
        }
        if let Some(reason) = &entry.error {
            say(reason.clone());
        }
    }
    for slow in &page.slow {
        say(format!("{}: slow: it {}", shown(&slow.path), slow.words()));
    }
    text
}
