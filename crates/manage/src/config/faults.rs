//! Every fault of a configuration that can be found at once, each with its line: `stria config check`.
//!
//! A parser stops at the first fault. So the key or part that is to blame is blanked, which moves no line, and the rest is read
//! again.

use super::{Api, Array, Config, Daemon, Nbd, Spares};
use crate::monitor::MonitorPlan;
use crate::toml_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use stria_alarm::{AlarmConfig, JournalConfig};
use toml_edit::{Document, Item, Table};

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Its line, from 1, if one is to blame.
    pub line: Option<usize>,
    /// The part and key, the cause, and the remedy.
    pub text: String,
}

impl Fault {
    /// As it follows the name of the file.
    pub fn after_name(&self) -> String {
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{line}: {}", self.text)
    }

    /// All of them in one line, as it follows the name of the file.
    pub fn all_after_name(faults: &[Self]) -> String {
        let place = |fault: &Self| fault.line.map_or_else(String::new, |line| format!("line {line}: "));
        let others = faults.iter().skip(1).map(|fault| format!("; {}{}", place(fault), fault.text));
        faults.iter().take(1).map(Self::after_name).chain(others).collect()
    }
}

/// The key to blame: its part, the number of that part if there may be several, and its name there.
type KeyName = (&'static str, usize, &'static str);

/// A fault of keys that can be read.
struct Mistake {
    place: KeyName,
    text: String,
}

/// All faults of a text, and what remains of the configuration without the keys that cannot be read; `None`: it is no TOML.
pub fn of_text(text: &str) -> (Option<Config>, Vec<Fault>) {
    let Readable { config, mut faults, unread, rest } = readable(text);
    faults.extend(config.iter().flat_map(|config| placed(mistakes(config, &unread), &rest)));
    faults.sort_by_key(|fault| fault.line);
    (config, faults)
}

/// The same, and the faults of what it names on this machine, but for tokens.
pub fn of_file(text: &str) -> (Option<Config>, Vec<Fault>) {
    let Readable { config, mut faults, unread, rest } = readable(text);
    let all = |config| mistakes(config, &unread).into_iter().chain(absences(config));
    faults.extend(config.iter().flat_map(|config| placed(all(config), &rest)));
    faults.sort_by_key(|fault| fault.line);
    (config, faults)
}

/// Files of the daemon's unit, as packages and people install it.
const UNITS: [&str; 3] =
    ["/etc/systemd/system/stria.service", "/usr/lib/systemd/system/stria.service", "/lib/systemd/system/stria.service"];

/// True if systemd starts the daemon on this machine, within the bounds of its unit.
pub fn has_unit() -> bool {
    UNITS.iter().any(|path| Path::new(path).exists())
}

/// Warnings of valid settings that may have no effect here. `has_unit`: systemd starts the daemon.
pub fn warnings(config: &Config, has_unit: bool) -> Vec<String> {
    let by_program = config.alarms.mail.as_ref().is_some_and(|mail| mail.smtp.is_none());
    let text = "[alarms.mail]: `smtp` is missing, and stria.service keeps the program sendmail from writing a mail queue, so mails may never leave: \
                name a mail server, such as smtp = \"smtp://localhost\" where one runs, and try it by `stria alarm test`";
    if by_program && has_unit { vec![text.into()] } else { Vec::new() }
}

/// What can be read of a text.
struct Readable {
    config: Option<Config>,
    /// The faults of the rest.
    faults: Vec<Fault>,
    /// The names of that.
    unread: Vec<String>,
    /// The text without that.
    rest: String,
}

fn readable(text: &str) -> Readable {
    let (mut faults, mut unread, mut rest) = (Vec::new(), Vec::new(), text.to_owned());
    loop {
        let error = match toml::from_str::<Config>(&rest) {
            Ok(config) => return Readable { config: Some(config), faults, unread, rest },
            Err(error) => error,
        };
        let line = error.span().map(|span| toml_line::at(&rest, span.start));
        let key = error.span().and_then(|span| blank(&mut rest, span.start));
        let key_words = key.as_ref().map_or_else(String::new, |key| format!("{key}: "));
        faults.push(Fault { line, text: format!("{key_words}{}; see stria.toml(5)", error.message()) });
        match key {
            Some(key) => unread.push(key),
            None => return Readable { config: None, faults, unread, rest },
        }
    }
}

/// Mistakes with their lines in a text.
fn placed(mistakes: impl IntoIterator<Item = Mistake>, text: &str) -> Vec<Fault> {
    let document = Document::parse(text).ok();
    let line =
        |place: &KeyName| document.as_ref().and_then(|document| start_of(document, *place)).map(|at| toml_line::at(text, at));
    mistakes.into_iter().map(|Mistake { place, text }| Fault { line: line(&place), text }).collect()
}

/// Blanks the key at this byte with its value, or the part if it has no such key. Returns what it was; `None`: the text is no
/// TOML, or nothing is there.
fn blank(text: &mut String, at: usize) -> Option<String> {
    let document = Document::parse(text.as_str()).ok()?;
    let (title, range) = blamed(document.as_table(), at, text.len());
    if text[range.clone()].trim().is_empty() {
        return None;
    }
    let blanks: String = text[range.clone()].chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect();
    text.replace_range(range, &blanks);
    Some(title)
}

/// A part with a header: its first byte, its name, and its keys.
type Part<'a> = (usize, String, &'a Table);

/// The key with its value, or the part, at this byte of a text with so many, and its name.
fn blamed(root: &Table, at: usize, end: usize) -> (String, Range<usize>) {
    let mut parts: Vec<Part> = vec![(0, String::new(), root)];
    collect_parts(root, "", &mut parts);
    let next = parts.iter().map(|(start, ..)| *start).filter(|start| *start > at).min().unwrap_or(end);
    let own = parts.into_iter().filter(|(start, ..)| *start <= at).max_by_key(|(start, ..)| *start);
    let (start, title, part) = own.unwrap_or((0, String::new(), root));
    let range = |name: &str, item: &Item| Some(part.key(name)?.span()?.start..item.as_value()?.span()?.end);
    let key = part.iter().filter_map(|(name, item)| Some((name, range(name, item)?))).find(|(_, range)| range.contains(&at));
    match key {
        // Without its identity an array cannot be told from others.
        Some(("uuid", _)) => (format!("{title} uuid"), start..next),
        Some((name, range)) => (format!("{title} {name}").trim_start().to_owned(), range),
        None => (title, start..next),
    }
}

/// The parts below a table that have a header.
fn collect_parts<'a>(table: &'a Table, above: &str, parts: &mut Vec<Part<'a>>) {
    for (name, item) in table.iter() {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        let mut collect = |part: &'a Table, title: String| {
            let header = part.span().filter(|_| !part.is_dotted() && !part.is_implicit());
            parts.extend(header.map(|span| (span.start, title, part)));
            collect_parts(part, &path, parts);
        };
        match item {
            Item::Table(part) => collect(part, format!("[{path}]")),
            Item::ArrayOfTables(list) => list.iter().for_each(|part| collect(part, format!("[[{path}]]"))),
            Item::Value(_) | Item::None => {}
        }
    }
}

/// The first byte of a key, or of its part if the key is not there.
fn start_of(document: &Document<&str>, (part, index, key): KeyName) -> Option<usize> {
    let table = match document.as_table().get(part)? {
        Item::Table(table) => table,
        Item::ArrayOfTables(list) => list.get(index)?,
        Item::Value(_) | Item::None => return None,
    };
    table.key(key).and_then(|key| key.span()).or_else(|| table.span()).map(|span| span.start)
}

/// True if a mistake may only follow from the absence of a key that could not be read.
fn may_follow((part, _, key): KeyName, unread: &[String]) -> bool {
    let causes: &[&str] = match (part, key) {
        ("nbd", "tls") => &["[nbd] tls"],
        ("api", "listen") => &["[api] listen", "[api] tls"],
        ("alarms", "mail") => &["[alarms.mail]"],
        _ => &[],
    };
    unread.iter().any(|name| causes.iter().any(|cause| name.starts_with(cause)))
}

/// The faults of keys that can be read. `unread`: the names of those that cannot.
fn mistakes(config: &Config, unread: &[String]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut note = |place: KeyName, result: Result<(), String>| {
        mistakes.extend(result.err().map(|text| Mistake { place, text }));
    };
    for (key, keys) in of_nbd(&config.nbd) {
        note(("nbd", 0, key), keys.options().map(drop).map_err(|failure| format!("[nbd]: {failure}")));
    }
    for (key, keys) in of_api(&config.api) {
        note(("api", 0, key), keys.check().map_err(|error| format!("[api]: {error}")));
    }
    let metrics = config.metrics.listen.as_deref().map(crate::monitor::address).transpose();
    note(("metrics", 0, "listen"), metrics.map(drop).map_err(|error| format!("[metrics] listen: {error}")));
    for (key, keys) in of_alarms(&config.alarms) {
        note(
            ("alarms", 0, key),
            MonitorPlan::of(keys, None, config.health.clone()).map(drop).map_err(|failure| failure.to_string()),
        );
    }
    note(("health", 0, ""), config.health.check().map_err(|error| format!("[health]: {error}")));
    mistakes.extend(of_arrays(&config.arrays));
    mistakes.extend(of_paths(&config.daemon, &config.spares));
    mistakes.retain(|mistake| !may_follow(mistake.place, unread));
    mistakes
}

/// Keys that are checked alone, each by the name of the first.
fn of_nbd(nbd: &Nbd) -> Vec<(&'static str, Nbd)> {
    let other = Nbd::default;
    vec![
        ("listen", Nbd { listen: nbd.listen.clone(), ..other() }),
        ("mode", Nbd { mode: nbd.mode.clone(), ..other() }),
        ("allow", Nbd { allow: nbd.allow.clone(), ..other() }),
        ("clients", Nbd { clients: nbd.clients, ..other() }),
        ("memory", Nbd { memory: nbd.memory.clone(), ..other() }),
        (
            "tls",
            Nbd {
                tls: nbd.tls.clone(),
                tls_cert: nbd.tls_cert.clone(),
                tls_key: nbd.tls_key.clone(),
                tls_ca: nbd.tls_ca.clone(),
                ..other()
            },
        ),
    ]
}

fn of_api(api: &Api) -> Vec<(&'static str, Api)> {
    let other = Api::default;
    vec![
        (
            "listen",
            Api {
                listen: api.listen.clone(),
                tls_cert: api.tls_cert.clone(),
                tls_key: api.tls_key.clone(),
                tls_ca: api.tls_ca.clone(),
                ..other()
            },
        ),
        ("tokens", Api { tokens: api.tokens.clone(), ..other() }),
        ("system-accounts", Api { system_accounts: api.system_accounts, ..other() }),
        ("pam-service", Api { pam_service: api.pam_service.clone(), ..other() }),
    ]
}

fn of_alarms(alarms: &AlarmConfig) -> Vec<(&'static str, AlarmConfig)> {
    let other = || AlarmConfig { journal: JournalConfig::Off, ..AlarmConfig::default() };
    vec![
        ("repeat", AlarmConfig { repeat: alarms.repeat, ..other() }),
        ("program", AlarmConfig { program: alarms.program.clone(), ..other() }),
        ("mail", AlarmConfig { mail: alarms.mail.clone(), ..other() }),
        ("webhook", AlarmConfig { webhook: alarms.webhook.clone(), ..other() }),
        ("console", AlarmConfig { console: alarms.console.clone(), ..other() }),
    ]
}

fn of_arrays(arrays: &[Array]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let (mut uuids, mut names, mut disks) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    for (index, array) in arrays.iter().enumerate() {
        let title = array.title();
        let mut note = |key, text| mistakes.push(Mistake { place: ("array", index, key), text });
        if !uuids.insert(array.uuid) {
            note("uuid", format!("array {} is there twice: remove one of its [[array]] parts", array.uuid));
            continue;
        }
        if let Some(name) = &array.name
            && let Some(other) = names.insert(name, array.uuid)
        {
            note("name", format!("{other} and {} are both called \"{name}\": change the name of one", array.uuid));
        }
        for path in &array.vhost_user {
            let shown = path.display();
            if !disks.insert(path) {
                note("vhost-user", format!("{shown} is the socket of two disks: choose another path for array \"{title}\""));
            }
            if !path.is_absolute() {
                let text = format!("array \"{title}\": the socket {shown} must begin with a slash, as the daemon runs anywhere");
                note("vhost-user", text);
            }
        }
        if array.lanes.is_some_and(|lanes| !(1..=64).contains(&lanes)) {
            note("lanes", format!("array \"{title}\": lanes is a number from 1 to 64"));
        }
    }
    mistakes
}

fn of_paths(daemon: &Daemon, spares: &Spares) -> Vec<Mistake> {
    let check = |place: KeyName, path: &Path| {
        let (part, _, key) = place;
        let text = format!("[{part}] {key}: {} must begin with a slash, as the daemon runs anywhere", path.display());
        (!path.is_absolute()).then_some(Mistake { place, text })
    };
    let all = |place, paths: &[PathBuf]| paths.iter().filter_map(|path| check(place, path)).collect::<Vec<_>>();
    let (search, drives) = (all(("daemon", 0, "search"), &daemon.search), all(("spares", 0, "drives"), &spares.drives));
    search.into_iter().chain(drives).chain(check(("daemon", 0, "state"), &daemon.state)).collect()
}

/// What the configuration names and this machine does not have, or not so that it can be used.
fn absences(config: &Config) -> Vec<Mistake> {
    let mut absences = Vec::new();
    let mut note = |place: KeyName, result: Result<(), String>| {
        absences.extend(result.err().map(|text| Mistake { place, text }));
    };
    note(("nbd", 0, "group"), config.nbd.group().map(drop));
    // Invalid keys are reported already.
    if let Ok(options) = config.nbd.options() {
        note(("nbd", 0, "tls-cert"), options.check_for_daemon().map_err(|failure| failure.to_string()));
    }
    if let Ok(options) = config.api.options() {
        note(("api", 0, "tls-cert"), options.check_files());
        note(("api", 0, "system-accounts"), options.check_service());
        options.unknown.into_iter().for_each(|text| note(("api", 0, "group"), Err(text)));
    }
    for (index, array) in config.arrays.iter().enumerate() {
        let found = array.vhost_user_group.as_deref().map(crate::system::directory::group).transpose().map(drop);
        let named = |error| format!("array \"{}\": vhost-user-group: {error}", array.title());
        note(("array", index, "vhost-user-group"), found.map_err(named));
    }
    absences
}
