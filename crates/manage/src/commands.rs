//! Every command except `serve` and `daemon`.

mod adopt;
mod explain;
mod firmware;
mod health;
mod import;
mod life;
mod manual;
mod orders;
mod set;
mod spare;
mod token;
mod ublk;
pub mod wizard;

use crate::api::{
    AddRequest, AdoptedState, ArrayView, Done, HealthView, MemberRequest, ReplaceRequest, ScrubRequest, SpeedRequest,
    StopRequest, TrimRequest,
};
use crate::cli::{self, Cli, Command};
use crate::control::client::{self, Client, SilentServe, array_path};
use crate::daemon::daemon;
use crate::drive_name::{self, Prefer};
use crate::fronts::attach;
use crate::monitor::StandingView;
use crate::serve::serve;
use crate::status::plain::Machine;
use crate::{meant, progress, status, tools, view};
use clap::CommandFactory;
use hyper::Method;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, UNIX_EPOCH};
use stria_alarm::Event;
use stria_array::Level;
use stria_block::{shell_word, shown, shown_sentence};
use stria_format::md::assemble::missed;
use stria_format::md::raw::RawField;
use stria_format::md::{Assembly, Verdict, examine};
use stria_health::Seat;
use stria_host::{
    ArrayLevel, CreateSpec, Examined, HostError, OpenOptions, Overwrite, choose_among, named, short_name, sort_arguments,
};
use stria_terminal::output::{self, confirm, print, print_json, say, tell};
use stria_terminal::{Failure, NOT_WELL, size};

/// The time for a look at the drives that a new array is to have.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// The time between two looks, while arrays stop, for drives that they wait for.
const LOOK_FOR_SILENCE: Duration = Duration::from_secs(1);
/// A stop names the drives that have left a request unanswered for so long.
const SILENT_FOR_MS: u64 = 2000;

/// Runs a command and returns the exit code.
///
/// # Errors
/// Why the command failed.
pub fn run(cli: Cli, json: bool) -> Result<u8, Failure> {
    match cli.command {
        Command::Create(create) => self::create(create, json)?,
        Command::Examine(examine) => return self::examine(&examine, json),
        Command::Assemble(assemble) => return self::assemble(&assemble, json),
        Command::Serve(command) => {
            let (drives, names) = sort_arguments(&command.what);
            serve(&drives, &names, &command.options, json)?;
        }
        Command::Daemon(command) => daemon(&command, json)?,
        Command::Adopt(command) => adopt::adopt(&command, json)?,
        Command::Import(command) => return import::import(&command, json),
        Command::Release(command) => adopt::release(&command, json)?,
        Command::Start(command) => done(&orders::start(&command)?, json),
        Command::Incremental(command) => {
            if let Some(answer) = orders::incremental(&command)? {
                done(&answer, json);
            }
        }
        Command::Reload(command) => done(&orders::reload(&command)?, json),
        Command::Config(command) => return adopt::config(&command, json),
        Command::Explain(command) => return explain::explain(&command, json),
        Command::Token(command) => token::token(&command, json)?,
        Command::PamCheck => token::pam_check()?,
        Command::Rename(command) => life::rename(&command, json)?,
        Command::Destroy(command) => life::destroy(&command, json)?,
        Command::Wipe(command) => life::wipe(&command, json)?,
        Command::Grow(command) => return Err(life::grow(&command)),
        Command::Spare(command) => spare::spare(&command, json)?,
        Command::Events(command) => orders::events(&command, json)?,
        Command::Status(status) => return self::status(&status, json),
        Command::Ublk(command) => return ublk::ublk(command, json),
        Command::Attach(attach) => return attach::attach(&attach, json),
        Command::Detach(detach) => attach::detach(&detach, json)?,
        Command::Fail(member) => self::fail(&member, json)?,
        Command::Remove(member) => self::remove(&member, json)?,
        Command::Add(add) => self::add(&add, json)?,
        Command::Replace(replace) => self::replace(&replace, json)?,
        Command::Scrub(scrub) => return self::scrub(&scrub, json),
        Command::Trim(trim) => self::trim(&trim, json)?,
        Command::Set(command) => set::set(&command, json)?,
        Command::Speed(speed) => self::speed(&speed, json)?,
        Command::Pause(named) => pause(&named, "/pause", json)?,
        Command::Resume(named) => pause(&named, "/resume", json)?,
        Command::Stop(stop) => self::stop(&stop, json)?,
        Command::Alarm(command) => return health::alarm(&command, json),
        Command::Health(command) => return health::health(&command, json),
        Command::Firmware(command) => firmware::firmware(&command, json)?,
        Command::Routine(command) => orders::routine(&command, json)?,
        Command::Locate(command) => self::locate(&command, json)?,
        Command::Manual { folder } => manual::write(&folder)?,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut tools::with_options(Cli::command()), "stria", &mut text);
            print(&String::from_utf8_lossy(&text));
        }
    }
    Ok(0)
}

fn done(done: &Done, json: bool) {
    say(json, || done.message.clone(), || json!(done));
}

fn pause(named: &cli::Named, rest: &str, json: bool) -> Result<(), Failure> {
    let (client, array) = client::find(named.control.socket.as_deref(), &named.name)?;
    done(&client.send(Method::POST, &array_path(&array.identity.name, rest), &())?, json);
    Ok(())
}

/// Refuses a change of members before anything is asked.
fn refuse_read_only(array: &ArrayView) -> Result<(), Failure> {
    match array.condition.read_only {
        true => Err(Failure::failed(view::is_read_only(&array.identity.name))),
        false => Ok(()),
    }
}

fn fail(member: &cli::Member, json: bool) -> Result<(), Failure> {
    let (client, array) = client::find(member.control.socket.as_deref(), &member.name)?;
    refuse_read_only(&array)?;
    let drive = drive_name::find(&array, &member.drive, Prefer::Working)?;
    let question = format!("Failing {} takes redundancy from array \"{}\".", drive.display(), array.identity.name);
    confirm(&question, member.force)?;
    let body = MemberRequest { path: drive };
    done(&client.send(Method::POST, &array_path(&array.identity.name, "/members/fail"), &body)?, json);
    Ok(())
}

fn remove(member: &cli::Remove, json: bool) -> Result<(), Failure> {
    let (client, array) = client::find(member.control.socket.as_deref(), &member.name)?;
    refuse_read_only(&array)?;
    if member.force {
        return Err(Failure::Usage("`remove` asks nothing, so it takes neither --force nor --yes: leave the option out".into()));
    }
    let body = MemberRequest { path: drive_name::find(&array, &member.drive, Prefer::Failed)? };
    done(&client.send(Method::POST, &array_path(&array.identity.name, "/members/remove"), &body)?, json);
    Ok(())
}

/// Sends a command that overwrites `drive`, and asks before that loses what the drive carries. `body`: the command, with what was
/// confirmed. `may_ask`: as for [`write_array`].
fn overwrite<B: Serialize>(
    client: &Client,
    path: &str,
    drive: &Path,
    body: impl Fn(Option<String>) -> B,
    may_ask: bool,
) -> Result<Done, Failure> {
    if !(may_ask && output::can_ask()) {
        return client.send(Method::POST, path, &body(None));
    }
    // Before the request whose refusal names what is lost, as in `write_array`. A drive that cannot be read is refused anyhow.
    let seen = stria_host::examine(&[drive.to_owned()]).into_iter().flatten().next();
    match (client.send(Method::POST, path, &body(None)), seen) {
        (Err(Failure::Unsafe(sentence)), Some(seen)) => {
            confirm(&format!("{sentence}. Overwrite?"), false)?;
            client.send(Method::POST, path, &body(Some(seen.mark())))
        }
        (sent, _) => sent,
    }
}

fn add(add: &cli::Add, json: bool) -> Result<(), Failure> {
    let (client, array) = client::find(add.control.socket.as_deref(), &add.name)?;
    let mut first = None;
    for path in &add.drives {
        let (path, force) = (drive_name::path(path, "add", Some(&array))?, add.force);
        let body = |confirmed| AddRequest {
            path: path.clone(),
            span: add.span.clone(),
            force,
            confirmed,
            seen: None,
            return_only: false,
        };
        let answer = overwrite(&client, &array_path(&array.identity.name, "/members"), &path, body, !add.yes)?;
        first.get_or_insert(answer.sequence);
        done(&answer, json);
    }
    if let Some(sequence) = first.filter(|_| add.wait) {
        progress::wait(&client, &array.identity.name, sequence, &["rebuild"], json)?;
    }
    Ok(())
}

fn replace(replace: &cli::Replace, json: bool) -> Result<(), Failure> {
    let (client, array) = client::find(replace.control.socket.as_deref(), &replace.name)?;
    let old = drive_name::find(&array, &replace.old, Prefer::Working)?;
    let (new, force) = (drive_name::path(&replace.new, "replace", Some(&array))?, replace.force);
    let body = |confirmed| ReplaceRequest { old: old.clone(), new: new.clone(), force, confirmed };
    let answer = overwrite(&client, &array_path(&array.identity.name, "/members/replace"), &new, body, !replace.yes)?;
    done(&answer, json);
    if replace.wait {
        progress::wait(&client, &array.identity.name, answer.sequence, &["rebuild"], json)?;
    }
    Ok(())
}

fn trim(trim: &cli::Trim, json: bool) -> Result<(), Failure> {
    let (client, array) = client::find(trim.control.socket.as_deref(), &trim.name)?;
    let (start_bytes, length_bytes) = trim.range.map_or((0, None), |(start, length)| (start, Some(length)));
    let what = match length_bytes {
        Some(length) => format!("{} at {} of array \"{}\"", size::show(length), size::show(start_bytes), array.identity.name),
        None => format!("all {} of array \"{}\"", size::show(array.geometry.size_bytes), array.identity.name),
    };
    confirm(&format!("Trim destroys what lies in {what} (fstrim trims the free space of a mounted file system)."), trim.force)?;
    let body = TrimRequest { start_bytes, length_bytes, force: true };
    done(&client.send_long(Method::POST, &array_path(&array.identity.name, "/trim"), &body)?, json);
    Ok(())
}

fn speed(speed: &cli::Speed, json: bool) -> Result<(), Failure> {
    if let (Some(min), Some(max)) = (speed.min, speed.max)
        && min > max
        && max > 0
    {
        let (min, max) = (size::show(min), size::show(max));
        return Err(Failure::Usage(format!("--min {min} is above --max {max}: swap them")));
    }
    let (client, array) = client::find(speed.control.socket.as_deref(), &speed.name)?;
    let body = SpeedRequest { min_bytes_per_s: speed.min, max_bytes_per_s: speed.max, latency: speed.latency };
    done(&client.send(Method::PUT, &array_path(&array.identity.name, "/speed"), &body)?, json);
    Ok(())
}

fn locate(command: &cli::Locate, json: bool) -> Result<(), Failure> {
    let path = drive_name::path(&command.drive, "locate", None)?;
    if let Ok(false) = path.try_exists() {
        return Err(Failure::failed(format!("{} does not exist: check the name", path.display())));
    }
    let shown = Seat::locate(&path, !command.off).map_err(Failure::failed)?;
    let state = if command.off { "off" } else { "on" };
    say(json, || format!("{shown} is {state}"), || json!({"drive": command.drive, "light": state}));
    Ok(())
}

/// The array that the command line describes.
fn create_spec(create: cli::Create) -> Result<CreateSpec, Failure> {
    let level = create.level;
    let span_level = match level {
        ArrayLevel::Single(level) | ArrayLevel::Striped(level) => level,
    };
    let layout = create.layout.map(|name| span_level.parse_layout(&name)).transpose().map_err(Failure::Usage)?;
    if let Some(strip) = create.strip.filter(|strip| !strip.is_power_of_two() || !(8..=2048).contains(strip)) {
        let shown = size::show(strip * 512);
        return Err(Failure::Usage(format!("invalid strip size {shown}: use a power of two from 4K to 1M")));
    }
    if create.spans.is_some() && matches!(level, ArrayLevel::Single(_)) {
        return Err(Failure::Usage(format!("--spans is for levels 50 and 60, not for {level}")));
    }
    let slot = |path: &PathBuf| (path.as_os_str() != "missing").then(|| drive_name::path(path, "create", None)).transpose();
    Ok(CreateSpec {
        name: create.name,
        level,
        layout,
        strip_sectors: create.strip,
        span_count: create.spans,
        drives: create.drives.iter().map(slot).collect::<Result<_, _>>()?,
        spares: drive_name::paths(&create.spare, "create")?,
        bitmap: create.bitmap,
        member_sectors_max: create.size,
        log: create.log,
        checksums: create.integrity,
        assume_clean: create.assume_clean,
        overwrite: if create.force { Overwrite::Anything } else { Overwrite::Nothing },
    })
}

/// Refuses empty files: they have no space for an array.
fn refuse_empty_files(paths: &[PathBuf]) -> Result<(), Failure> {
    let is_empty = |path: &PathBuf| {
        let path = path.clone();
        move || path.metadata().is_ok_and(|found| found.is_file() && found.len() == 0)
    };
    // A file that hangs is named as such when it is opened.
    let empty = stria_drive::within_each(LOOK_WITHIN, paths, is_empty);
    if let Some((empty, _)) = paths.iter().zip(empty).find(|(_, is_empty)| matches!(is_empty, Ok(true))) {
        let empty = empty.display();
        return Err(Failure::Failed(format!(
            "{empty} is an empty file: give it its full size first, for example `truncate -s 10G {word}`",
            word = shell_word(&empty.to_string())
        )));
    }
    Ok(())
}

/// Writes an array, and asks before anything is overwritten. Returns its UUID.
///
/// `may_ask`: a question may be asked. An answer that was given in advance is no answer to one that names what is lost.
fn write_array(spec: &mut CreateSpec, paths: &[PathBuf], may_ask: bool) -> Result<[u8; 16], Failure> {
    if !(may_ask && output::can_ask()) {
        return Ok(stria_host::create(spec)?);
    }
    // Before the attempt whose refusal names what is lost: a drive that changes after this is not overwritten.
    let seen: Vec<String> = stria_host::examine(paths).into_iter().flatten().map(|examined| examined.mark()).collect();
    match stria_host::create(spec).map_err(Failure::from) {
        Err(Failure::Unsafe(sentence)) => {
            confirm(&format!("{sentence}. Overwrite?"), false)?;
            spec.overwrite = Overwrite::Confirmed(seen);
            Ok(stria_host::create(spec)?)
        }
        made => made,
    }
}

fn create(create: cli::Create, json: bool) -> Result<(), Failure> {
    let may_ask = !create.yes;
    let mut spec = create_spec(create)?;
    let paths: Vec<PathBuf> = spec.drives.iter().flatten().chain(&spec.spares).cloned().collect();
    refuse_empty_files(&paths)?;
    let uuid = write_array(&mut spec, &paths, may_ask)?;
    let found = stria_host::find(&paths, OpenOptions { force: true, read_only: true, ..OpenOptions::default() })?;
    let made = found.assemblies.iter().find(|assembly| assembly.uuid == uuid);
    let Some(start) = made.and_then(|assembly| assembly.outcome.as_ref().ok()) else {
        return Err(Failure::Failed(meant::cannot_be_read_back(&spec.name).to_string()));
    };
    let bytes = start.config.geometry.capacity_sectors() * 512;
    // For a 50 or 60 the spans' strip counts: that is what a drive holds of a stripe.
    let span = found.assemblies.iter().find(|assembly| assembly.freshest.span_of == Some(uuid));
    let lowest = span.and_then(|span| span.outcome.as_ref().ok()).unwrap_or(start);
    let geometry = &lowest.config.geometry;
    let strip = geometry.strip_sectors() * 512;
    let uuid = stria_format::md::uuid_text(&uuid);
    let has_strips = !matches!(geometry.level(), stria_array::Level::Raid1) && strip > 0;
    let words = || {
        let chosen = if spec.strip_sectors.is_some() { "as asked for" } else { "chosen by drive count and kind" };
        let strip = if has_strips { format!(", strip {} ({chosen})", size::show(strip)) } else { String::new() };
        let checksums = if spec.checksums { ", with checksums" } else { "" };
        let drives = match spec.spares.len() {
            0 => format!("{} drives", paths.len()),
            1 => format!("{} drives and 1 spare", paths.len() - 1),
            spares => format!("{} drives and {spares} spares", paths.len() - spares),
        };
        let size = size::show(bytes);
        format!("array \"{}\" is made: RAID {} on {drives}, {size} for data{strip}{checksums}, {uuid}", spec.name, spec.level)
    };
    let warnings = create_warnings(&spec, &found.assemblies)?;
    warnings.iter().for_each(|warning| output::tell(&format!("warning: {warning}")));
    let next = serve_command(&paths);
    say(json, words, || {
        let strip_bytes = has_strips.then_some(strip);
        json!({"name": spec.name, "uuid": uuid, "level": spec.level.to_string(), "size_bytes": bytes, "strip_bytes": strip_bytes,
            "warnings": warnings, "next": next})
    });
    if !json {
        print(&format!("serve it: {}\n", shown_sentence(&next)));
    }
    Ok(())
}

/// What `create` warns of: members of different size, and a start without redundancy.
fn create_warnings(spec: &CreateSpec, made: &[Assembly]) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    let mut sizes = Vec::new();
    for path in spec.drives.iter().flatten() {
        sizes.push((stria_drive::probe(path).map_err(Failure::failed)?.limits.size_sectors * 512, path));
    }
    // JBOD and RAID 0 use all of each drive; a size that was asked for needs no warning.
    let uses_all = matches!(spec.level, ArrayLevel::Single(Level::Linear | Level::Raid0)) || spec.member_sectors_max.is_some();
    if let (Some((smallest, of)), Some((largest, _))) = (sizes.iter().min(), sizes.iter().max())
        && largest > smallest
        && !uses_all
    {
        warnings.push(format!(
            "the drives have {} to {}: each is used only up to the size of the smallest, {}",
            size::show(*smallest),
            size::show(*largest),
            of.display()
        ));
    }
    for assembly in made {
        let Ok(start) = &assembly.outcome else { continue };
        let left = start.config.geometry.losses_survived().saturating_sub(assembly.missing_slots.len());
        if left == 0 && !assembly.missing_slots.is_empty() {
            warnings.push(format!(
                "\"{}\" starts without redundancy, {} of its members missing: one failure loses data; `stria add` the missing drive soon",
                short_name(&assembly.name),
                assembly.missing_slots.len()
            ));
        }
    }
    Ok(warnings)
}

/// `stria serve` with these drives, for a shell.
fn serve_command(drives: &[PathBuf]) -> String {
    let words: Vec<String> = drives.iter().map(|path| shell_word(&path.display().to_string())).collect();
    format!("stria serve {}", words.join(" "))
}

#[derive(Serialize)]
struct ExaminedView {
    path: String,
    size_bytes: u64,
    logical_block_bytes: u32,
    physical_block_bytes: u32,
    direct: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    direct_note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    member: bool,
    /// Why it is not a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    carries: Vec<String>,
    /// Volumes that a mainboard or a controller made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<VolumeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volumes_problem: Option<String>,
    superblock: Vec<(&'static str, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bitmap_dirty_count: Option<u64>,
    /// The array above its array, if that is a span.
    #[serde(skip_serializing_if = "Option::is_none")]
    span_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_log: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksums: Option<String>,
    raw: Vec<RawView>,
}

#[derive(Serialize)]
struct VolumeView {
    name: String,
    fields: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct RawView {
    offset: u64,
    structure: &'static str,
    name: String,
    bytes: String,
    meaning: String,
}

fn examine(command: &cli::Examine, json: bool) -> Result<u8, Failure> {
    let (mut views, mut failures) = (Vec::new(), Vec::new());
    let paths = drive_name::paths(&command.drives, "examine")?;
    let examined: Vec<Result<_, _>> = match command.raw {
        true => stria_host::examine_raw(&paths),
        false => stria_host::examine(&paths).into_iter().map(|examined| examined.map(|one| (one, Vec::new()))).collect(),
    };
    for (path, examined) in paths.iter().zip(examined) {
        match examined {
            Ok((examined, raw)) => views.push(examined_view(examined, raw)),
            Err(error) => failures.push((path.display().to_string(), error.to_string())),
        }
    }
    let sentence = failures.iter().map(|(_, error)| error.as_str()).collect::<Vec<_>>().join("; ");
    if json {
        // One value, whatever failed: a program parses all of the output at once.
        let failed = failures.iter().map(|(path, error)| json!({"path": path, "error": error}));
        print_json(&views.iter().map(|view| json!(view)).chain(failed).collect::<Vec<_>>());
    } else {
        print(&views.iter().map(examined_words).collect::<Vec<_>>().join("\n"));
    }
    if failures.is_empty() {
        return Ok(0);
    }
    output::tell(&sentence);
    Ok(1)
}

fn examined_view(examined: Examined, raw: Vec<RawField>) -> ExaminedView {
    let Examined { info, candidate, volumes } = examined;
    let (volumes, volumes_problem) = match volumes {
        Ok(volumes) => (volumes, None),
        Err(problem) => (Vec::new(), Some(format!("{}: {problem}", candidate.name))),
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let bitmap = candidate.found.as_ref().ok().and_then(|member| member.bitmap.as_ref()?.as_ref().ok());
    ExaminedView {
        size_bytes: info.limits.size_sectors * 512,
        logical_block_bytes: info.limits.logical_block_bytes,
        physical_block_bytes: info.limits.physical_block_bytes,
        direct: info.direct,
        direct_note: info.direct_note,
        model: info.model,
        serial: info.serial,
        member: candidate.found.is_ok(),
        problem: candidate.found.as_ref().err().map(ToString::to_string),
        carries: candidate.carries.iter().map(ToString::to_string).collect(),
        volumes: volumes.iter().map(|volume| VolumeView { name: volume.name.clone(), fields: volume.lines() }).collect(),
        volumes_problem,
        superblock: examine::lines(&candidate),
        bitmap_dirty_count: bitmap.map(|bitmap| bitmap.set_chunks().count() as u64),
        span_of: examine::span_of(&candidate),
        write_log: examine::write_log(&candidate),
        checksums: examine::checksums(&candidate),
        raw: raw
            .into_iter()
            .map(|field| RawView {
                offset: field.offset_bytes,
                structure: field.structure,
                name: field.name,
                bytes: hex(&field.bytes),
                meaning: field.meaning,
            })
            .collect(),
        path: info.path.display().to_string(),
    }
}

/// The date for seconds since 1970; `None` if it is not a time, or beyond every calendar.
fn date(name: &str, value: &str) -> Option<String> {
    let seconds = name.ends_with("Time").then(|| value.parse().ok()).flatten()?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?)).ok()?;
    Some(text)
}

fn examined_words(view: &ExaminedView) -> String {
    let mut text = String::new();
    let io =
        if view.direct { String::new() } else { format!(", buffered: {}", shown(view.direct_note.as_deref().unwrap_or(""))) };
    let names: Vec<&str> = [&view.model, &view.serial].into_iter().filter_map(|name| name.as_deref()).collect();
    let names = if names.is_empty() { String::new() } else { format!(", {}", shown(&names.join(" "))) };
    let blocks = view.logical_block_bytes;
    let _ = writeln!(text, "{}: {}, blocks of {blocks} bytes{names}{io}", shown(&view.path), size::show(view.size_bytes));
    match &view.problem {
        None => {}
        Some(problem) if view.carries.is_empty() => {
            let _ = writeln!(text, "  no member of an array: {}", shown_sentence(problem));
        }
        Some(_) => {
            let _ = writeln!(text, "  no member of an array; it carries {}", shown_sentence(&view.carries.join(", ")));
        }
    }
    for volume in &view.volumes {
        let _ = writeln!(text, "  volume {}, which `stria serve --read-only` reads:", shown(&volume.name));
        for (name, value) in &volume.fields {
            let _ = writeln!(text, "{name:>16} : {value}");
        }
    }
    if let Some(problem) = &view.volumes_problem {
        let _ = writeln!(text, "  {}", shown_sentence(problem));
    }
    for (name, value) in &view.superblock {
        let value = date(name, value).unwrap_or_else(|| value.clone());
        let _ = writeln!(text, "{name:>16} : {}", shown_sentence(&value));
    }
    if let Some(count) = view.bitmap_dirty_count {
        let bits = if count == 1 { "bit" } else { "bits" };
        let _ = writeln!(text, "{:>16} : {count} {bits} set", "Bitmap");
    }
    if let Some(upper) = &view.span_of {
        let _ = writeln!(text, "{:>16} : {upper}", "Span Of");
    }
    if let Some(log) = &view.write_log {
        let _ = writeln!(text, "{:>16} : {log}", "Write Log");
    }
    if let Some(checksums) = &view.checksums {
        let _ = writeln!(text, "{:>16} : {checksums}", "Checksums");
    }
    let short = |bytes: &str| if bytes.len() > 32 { format!("{}…", &bytes[..32]) } else { bytes.to_owned() };
    let row = |field: &RawView| {
        let offset = format!("{:#010x}", field.offset);
        vec![offset, field.structure.into(), field.name.clone(), short(&field.bytes), field.meaning.clone()]
    };
    if !view.raw.is_empty() {
        let header = ["offset", "structure", "field", "bytes", "meaning"];
        let _ = writeln!(text, "{}", output::table(&header, &[], view.raw.iter().map(row).collect()));
    }
    text
}

#[derive(Serialize)]
struct AssemblyView {
    name: String,
    uuid: String,
    level: String,
    starts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    missing_slots: Vec<usize>,
    /// Slots whose member is not complete yet.
    filling_slots: Vec<usize>,
    drives: Vec<DriveView>,
}

#[derive(Serialize)]
struct DriveView {
    path: String,
    events: u64,
    verdict: String,
}

fn assemble(command: &cli::Assemble, json: bool) -> Result<u8, Failure> {
    let (drives, names) = match command.scan {
        true => (Vec::new(), command.what.iter().map(|name| name.display().to_string()).collect()),
        false => sort_arguments(&command.what),
    };
    if command.start {
        return serve(&drives, &names, &command.options, json).map(|()| 0);
    }
    let options = OpenOptions { read_only: true, ..command.options.how() };
    let (found, refused) = match command.scan {
        true => stria_host::find_everywhere(options)?,
        false => (stria_host::find(&drives, options)?, Vec::new()),
    };
    if let (false, [], Some(name)) = (command.scan, &drives[..], names.first()) {
        return Err(Failure::Usage(format!(
            "no drive is named on which to look for array \"{name}\": name its drives, or add --scan"
        )));
    }
    let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let views: Vec<AssemblyView> = named(&found.assemblies, &names)
        .into_iter()
        .map(|assembly| AssemblyView {
            name: assembly.name.clone(),
            uuid: stria_format::md::uuid_text(&assembly.uuid),
            level: stria_format::md::layout_of(&assembly.freshest.header)
                .map_or("unknown".into(), |(level, _)| level.to_string()),
            starts: assembly.outcome.is_ok(),
            reason: assembly.outcome.as_ref().err().map(ToString::to_string),
            missing_slots: assembly.missing_slots.clone(),
            filling_slots: assembly.drives.iter().filter_map(|drive| filling_slot(&drive.verdict)).collect(),
            drives: assembly
                .drives
                .iter()
                .map(|drive| DriveView { path: drive.name.clone(), events: drive.events, verdict: verdict_words(&drive.verdict) })
                .collect(),
        })
        .collect();
    let strangers: Vec<(String, String)> =
        found.strangers.iter().map(|stranger| (stranger.name.clone(), stranger.reason.clone())).collect();
    let told_strangers = if command.scan { &[] } else { &strangers[..] };
    let absent = names.iter().find(|name| !views.iter().any(|view| **name == view.name || *name == short_name(&view.name)));
    if let Some(name) = absent {
        if !json {
            print(&assembly_words(&views, told_strangers, &refused, None));
        }
        let known: Vec<&str> = found.assemblies.iter().map(|assembly| short_name(&assembly.name)).collect();
        return Err(Failure::Failed(format!("no array \"{name}\" lies on these drives ({})", view::there_are(&known))));
    }
    let (code, obstacle) = match command.scan {
        // `serve` would not be given all that was found.
        true => {
            let refusals = found.assemblies.iter().filter_map(|assembly| assembly.outcome.as_ref().err());
            (
                refusals.map(|error| Failure::from(HostError::cannot_start(error, String::new())).exit_code()).max().unwrap_or(0),
                None,
            )
        }
        false => match choose_among(found, false, &names, &|_| ()).map_err(Failure::from) {
            Ok(_) => (0, None),
            Err(failure) => (failure.exit_code(), Some(failure.to_string())),
        },
    };
    if json {
        let strangers: Vec<_> = strangers.iter().map(|(path, reason)| json!({"path": path, "reason": reason})).collect();
        print_json(&json!({"arrays": views, "strangers": strangers, "refused": refused, "serve_refuses": obstacle}));
    } else {
        print(&assembly_words(&views, told_strangers, &refused, obstacle.as_deref()));
    }
    Ok(code)
}

fn filling_slot(verdict: &Verdict) -> Option<usize> {
    match verdict {
        Verdict::Rebuilding { slot, .. } => Some(*slot),
        Verdict::InSync { .. } | Verdict::Replacement { .. } | Verdict::Spare => None,
        Verdict::Away { .. } | Verdict::Faulty | Verdict::Unusable { .. } => None,
    }
}

fn verdict_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::InSync { slot } => format!("slot {slot}, in sync"),
        Verdict::Rebuilding { slot, .. } => format!("slot {slot}, rebuilding"),
        Verdict::Replacement { slot, .. } => format!("to replace slot {slot}"),
        Verdict::Spare => "spare".into(),
        Verdict::Away { slot, events_behind, obstacle } => {
            let slot = slot.map_or("no known slot".into(), |slot| format!("slot {slot}"));
            let how = obstacle
                .as_ref()
                .map_or("`stria add` brings it back by the bitmap".into(), |why| format!("needs a full rebuild: {why}"));
            format!("{slot}, {}; {how}", missed(*events_behind))
        }
        Verdict::Faulty => "failed in the array".into(),
        Verdict::Unusable { reason } => format!("unusable: {reason}"),
    }
}

/// `obstacle`: why `serve` refuses.
fn assembly_words(views: &[AssemblyView], strangers: &[(String, String)], refused: &[String], obstacle: Option<&str>) -> String {
    let mut text = String::new();
    for view in views {
        let outcome = match (&view.reason, view.missing_slots.len(), view.filling_slots.len()) {
            (Some(reason), ..) => shown_sentence(reason).to_string(),
            (None, 0, 0) => "would start with all members".into(),
            (None, missing, filling) => format!("would start degraded, {missing} missing, {filling} rebuilding"),
        };
        let _ = writeln!(text, "array \"{}\", RAID {}, {}: {outcome}", shown(&view.name), view.level, view.uuid);
        for drive in &view.drives {
            let _ = writeln!(text, "  {}: {} (events {})", shown(&drive.path), shown_sentence(&drive.verdict), drive.events);
        }
    }
    for (path, reason) in strangers {
        let _ = writeln!(text, "{} is not a member of an array: {}", shown(path), shown_sentence(reason));
    }
    for sentence in refused {
        let _ = writeln!(text, "not read: {}", shown_sentence(sentence));
    }
    if views.is_empty() {
        let _ = writeln!(text, "no array was found");
    } else if let Some(obstacle) = obstacle.filter(|_| views.iter().all(|view| view.starts)) {
        // The obstacles of an array are listed above.
        let _ = writeln!(text, "`stria serve` refuses these drives: {}", shown_sentence(obstacle));
    }
    text
}

fn status(command: &cli::Status, json: bool) -> Result<u8, Failure> {
    let socket = command.control.socket.as_deref();
    if command.nagios {
        let (line, code) = nagios(socket, command.name.as_deref());
        print(&line);
        return Ok(code);
    }
    loop {
        let (services, silent): (Vec<(Client, Vec<ArrayView>)>, Vec<SilentServe>) = match &command.name {
            Some(name) => {
                let (client, array) = client::find_at_once(socket, name)?;
                (vec![(client, vec![array])], Vec::new())
            }
            None => client::survey(socket)?,
        };
        let mut waiting = if command.name.is_some() { Vec::new() } else { client::adopted(socket) };
        waiting.retain(|array| array.state != AdoptedState::Served);
        let width = status::width();
        let health = if command.verbose && !json { health::below_status(&services, width) } else { String::new() };
        let known = if json || command.mdstat {
            String::new()
        } else {
            let clients: Vec<&Client> = services.iter().map(|(client, _)| client).collect();
            health::acknowledged_below_status(&clients, command.name.as_deref(), width)
        };
        let mut arrays: Vec<ArrayView> = services.into_iter().flat_map(|(_, arrays)| arrays).collect();
        arrays.sort_by_key(|array| std::cmp::Reverse((array.condition.health, view::found_mismatch(array))));
        if json {
            let arrays = arrays.iter().map(|array| json!(array));
            let others = silent.iter().map(|silent| json!(silent)).chain(waiting.iter().map(|array| json!(array)));
            print_json(&arrays.chain(others).collect::<Vec<_>>());
        } else {
            if command.watch && std::io::IsTerminal::is_terminal(&std::io::stdout()) {
                output::clear_terminal();
            }
            let is_quiet = arrays.is_empty() && !(silent.is_empty() && waiting.is_empty());
            let others = client::silent_words(&silent) + &waiting.iter().map(status::not_served).collect::<String>();
            match (command.mdstat, is_quiet) {
                // What reads the text knows no other lines.
                (true, _) => {
                    others.lines().for_each(tell);
                    print(&status::plain::mdstat(&arrays, &waiting));
                }
                (false, true) => print(&(others + &known)),
                (false, false) => print(&(others + &status::words(&arrays, command.verbose, width) + &health + &known)),
            }
        }
        if !command.watch {
            if !silent.is_empty() || arrays.iter().any(|array| array.condition.silent_s.is_some()) {
                return Ok(client::NO_ANSWER);
            }
            let is_well = |array: &ArrayView| array.condition.health == HealthView::Optimal && !view::needs_attention(array);
            let is_missed = waiting.iter().any(|array| array.state != AdoptedState::Stopped);
            return Ok(if arrays.iter().all(is_well) && !is_missed { 0 } else { NOT_WELL });
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The answer of a Nagios plug-in about all arrays, or about one that must be served.
fn nagios(socket: Option<&Path>, name: Option<&str>) -> (String, u8) {
    let (services, silent) = match client::survey(socket) {
        Ok(found) => found,
        Err(error) => return status::plain::nagios_unknown(error),
    };
    let is_meant = |array: &str| name.is_none_or(|name| array == name);
    let standing = services.iter().filter_map(|(client, _)| client.get::<Vec<StandingView>>("/v1/alarms").ok()).flatten();
    let faults = standing.filter(|alarm| name.is_none() && alarm.cause.event == Event::ConfigFault);
    let faults = faults.map(|alarm| alarm.cause.text).collect();
    let arrays = services.into_iter().flat_map(|(_, arrays)| arrays).filter(|array| is_meant(&array.identity.name));
    let waiting = client::adopted(socket).into_iter();
    let waiting = waiting.filter(|array| array.state != AdoptedState::Served && is_meant(&array.name));
    let machine = Machine { arrays: arrays.collect(), waiting: waiting.collect(), faults, silent };
    name.map_or_else(|| status::plain::nagios(&machine), |name| status::plain::nagios_of(&machine, name))
}

fn scrub(command: &cli::Scrub, json: bool) -> Result<u8, Failure> {
    let (client, array) = client::find(command.control.socket.as_deref(), &command.name)?;
    let path = array_path(&array.identity.name, "/scrub");
    if command.cancel {
        done(&client.send(Method::DELETE, &path, &())?, json);
        return Ok(0);
    }
    if command.repair {
        refuse_read_only(&array)?;
    }
    if command.repair
        && let Some(what) = view::cannot_name_the_wrong_member(&array)
    {
        confirm(
            &format!(
                "Array \"{}\" has {what}: a scrub finds mismatches but cannot name the wrong member, so a repair may keep the wrong data. \
                 First see what `stria scrub` finds, and whether a drive reports errors.",
                array.identity.name
            ),
            command.force,
        )?;
    }
    let answer: Done = client.send(Method::POST, &path, &ScrubRequest { repair: command.repair, from_bytes: command.from })?;
    done(&answer, json);
    if !command.wait {
        return Ok(0);
    }
    let ends = progress::wait(&client, &array.identity.name, answer.sequence, &["scrub", "repair"], json)?;
    let found = ends.iter().any(|end| end.mismatch_sectors.is_some_and(|sectors| sectors > 0));
    let unchecked = ends.iter().any(|end| end.unchecked_sectors.is_some());
    Ok(if (found && !command.repair) || unchecked { NOT_WELL } else { 0 })
}

/// Stops arrays, and names on stderr the silent drives for which the stop waits.
fn naming_silent_drives<T: Send>(client: &Client, names: &[String], json: bool, stop: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (over, ends) = std::sync::mpsc::channel::<()>();
        let watch = move || {
            let mut named = BTreeSet::new();
            while !json && ends.recv_timeout(LOOK_FOR_SILENCE) == Err(RecvTimeoutError::Timeout) {
                // An array that has stopped is not found any more.
                let arrays = names.iter().filter_map(|name| client.get::<ArrayView>(&array_path(name, "")).ok());
                for (path, silent_ms) in arrays.flat_map(|array| view::silent_members(&array, SILENT_FOR_MS)) {
                    if named.insert(path.clone()) {
                        eprintln!(
                            "the stop waits for {path}, which has not answered for {}",
                            size::show_duration(silent_ms / 1000)
                        );
                    }
                }
            }
        };
        // Without a thread no drive is named.
        let _ = std::thread::Builder::new().spawn_scoped(scope, watch);
        let stopped = stop();
        drop(over);
        stopped
    })
}

fn stop(command: &cli::Stop, json: bool) -> Result<(), Failure> {
    let socket = command.control.socket.as_deref();
    let body = StopRequest { force: command.force };
    if let Some(name) = &command.name {
        let (client, array) = client::find(socket, name)?;
        let path = array_path(&array.identity.name, "/stop");
        let stopped = naming_silent_drives(&client, std::slice::from_ref(&array.identity.name), json, || {
            client.send(Method::POST, &path, &body)
        });
        done(&stopped?, json);
        return Ok(());
    }
    let (mut services, silent) = client::services(socket)?;
    if let Some(silent) = silent.first() {
        // It may be the one that is meant.
        return Err(Failure::Failed(format!("{}; name the array to stop, or its server with --socket", silent.error)));
    }
    // A daemon without arrays has nothing to stop.
    if services.len() > 1 {
        services.retain(|(_, arrays)| !arrays.is_empty());
    }
    match &services[..] {
        [] => Err(Failure::Failed("nothing is served, so nothing can be stopped".into())),
        [(client, arrays)] => {
            let names: Vec<String> = arrays.iter().map(|array| array.identity.name.clone()).collect();
            done(&naming_silent_drives(client, &names, json, || client.send(Method::POST, "/v1/stop", &body))?, json);
            Ok(())
        }
        several => {
            let names = several.iter().flat_map(|(_, arrays)| arrays.iter().map(|array| array.identity.name.as_str()));
            let names: Vec<&str> = names.collect();
            Err(Failure::Usage(format!("several servers run ({}): name an array, or one server with --socket", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::date;

    /// A superblock may hold any number.
    #[test]
    fn dates_are_told_where_there_is_one() {
        assert_eq!(date("Update Time", "1700000000").as_deref(), Some("2023-11-14T22:13:20Z"));
        for (name, value) in [("Update Time", "1099511627775"), ("Update Time", "18446744073709551615"), ("Events", "1700000000")]
        {
            assert_eq!(date(name, value), None, "{name} {value}");
        }
    }
}
