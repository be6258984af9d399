//! The table of paths, the work behind short ones, and the document made of the table.

use super::auth::sha256;
use super::channels::{self, AlarmSettings};
use super::forecast::{self, ForecastRequest};
use super::machine::Machine;
use super::plans::{self, is_harmless};
use super::route::{self, Body, Call, Nothing, Query, Route, route};
use super::schedules::{self, RoutineSettings};
use super::types::{
    self, About, Action, ArrayEntry, ConfigText, ConfigVerdict, DrivePage, EventPage, Job, JobRequest, Message, PlanOffer, Role,
    SparePool, State, Summary, Who,
};
use super::{drives, jobs, measure, reports};
use crate::api::{ApiError, ApiErrorKind, ArrayView, EventView, RoutineView};
use crate::config::{Config, edit};
use crate::events::file::stored;
use crate::keeper::{count_of, look_at_pool, offers};
use crate::monitor::{AcknowledgeRequest, StandingView};
use crate::ownership::foreign::Foreign;
use crate::pool;
use crate::system::clock::now_ms;
use crate::words::error::ErrorSentence;
use axum::http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use stria_host::{OpenOptions, find_readable};
use stria_routine::{TimeZone, zone_text};

/// The version of the API.
const VERSION: u32 = 1;

/// Which events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EventQuery {
    /// Those of one array.
    array: Option<String>,
    /// Those of one kind.
    kind: Option<String>,
    /// Those that contain this text, for example a drive's path or serial number.
    text: Option<String>,
    /// Those before this time, in milliseconds since 1970.
    before_ms: Option<u64>,
    /// The most that are sent, the newest ones; 100 if not given, 1000 at most.
    limit: Option<usize>,
}

/// Every path of the API but the stream, the document itself, and those of a login, which the server answers.
pub fn routes() -> Vec<Route> {
    let (get, post, put) = (Method::GET, Method::POST, Method::PUT);
    use Role::{Admin, Operate, View};
    vec![
        route(get.clone(), "", View, "The daemon that answers, and who asks", about),
        route(get.clone(), "/session", View, "Who asks", |call: Call<Nothing>| Ok::<Who, _>(call.caller.who())),
        route(Method::DELETE, "/session", View, "Ends the session", |call: Call<Nothing>| {
            call.rest.guard.end(&call.caller);
            Ok(Message::from("the session has ended".to_owned()))
        }),
        route(get.clone(), "/state", View, "Everything that changes, as the stream sends it", |call: Call<Nothing>| {
            Ok::<State, _>(call.rest.state())
        }),
        route(get.clone(), "/summary", View, "The machine in one sentence, and what is wrong", |call: Call<Nothing>| {
            let (arrays, alarms) = (call.rest.machine.entries(false), call.rest.machine.monitor.standing());
            Ok::<Summary, _>(call.rest.summary(&arrays, &alarms))
        }),
        route(get.clone(), "/arrays", View, "The arrays that belong to Stria, served or not", |call: Call<Nothing>| {
            Ok::<Vec<ArrayEntry>, _>(call.rest.machine.entries(false))
        }),
        route(get.clone(), "/arrays/{name}", View, "One array, by name or UUID", |call: Call<Nothing>| {
            call.rest.machine.entry(&call.name)
        }),
        route(
            get.clone(),
            "/arrays/{name}/limits",
            View,
            "What its members could do, as it was measured last",
            |call: Call<Nothing>| measure::known(&call.rest.measurements, &call.rest.machine, &call.name),
        ),
        route(
            post.clone(),
            "/arrays/{name}/limits",
            Operate,
            "Measures what its members could do, by reads",
            |call: Call<Nothing>| measure::limits(&call.rest.measurements, &call.rest.machine, &call.name),
        ),
        route(
            post.clone(),
            "/arrays/{name}/price",
            Operate,
            "Measures what the running sweep costs clients",
            |call: Call<Nothing>| measure::price(&call.rest.measurements, &call.rest.machine, &call.name),
        ),
        route(post.clone(), "/forecast", View, "What each level would make of drives", |call: Call<Body<ForecastRequest>>| {
            forecast::forecast(&call.rest.planner, &call.rest.machine, &call.input.0)
        }),
        route(get.clone(), "/drives", View, "The drives of the machine, what lies on them, and their health", drives_of),
        route(get.clone(), "/spares", View, "The pool of spares, and which arrays it serves", spares),
        route(get.clone(), "/foreign", View, "What other machines and programs left on the drives here", foreign),
        route(post.clone(), "/plans", Operate, "Says what an action would do, and gives a token to carry it out", offer),
        route(post.clone(), "/actions", Operate, "Carries out an action that loses nothing", act),
        route(post.clone(), "/jobs", Operate, "Carries out a plan, if it still holds", carry_out),
        route(get.clone(), "/jobs", View, "The last jobs, the newest last", |call: Call<Nothing>| {
            Ok::<Vec<Job>, _>(call.rest.jobs.all())
        }),
        route(get.clone(), "/jobs/{id}", View, "One job", |call: Call<Nothing>| {
            let job = call.name.parse().ok().and_then(|id| call.rest.jobs.job(id));
            job.ok_or_else(|| jobs::no_job(&call.name))
        }),
        route(Method::DELETE, "/jobs/{id}", Operate, "Cancels a job whose work can end early", |call: Call<Nothing>| {
            let id = call.name.parse().map_err(|_| jobs::no_job(&call.name))?;
            call.rest.jobs.cancel(&call.rest.machine, id, &call.caller).map(Message::from)
        }),
        route(get.clone(), "/events", View, "Events of the past, over restarts", |call: Call<Query<EventQuery>>| {
            events(&call.rest.machine, call.input.0)
        }),
        route(get.clone(), "/audit", View, "Orders: who did what", |call: Call<Query<EventQuery>>| {
            events(&call.rest.machine, EventQuery { kind: Some("ordered".into()), ..call.input.0 })
        }),
        route(get.clone(), "/routine", View, "Scrubs and self-tests by schedule", |call: Call<Nothing>| {
            Ok::<Vec<RoutineView>, _>(call.rest.machine.routine.shown())
        }),
        route(get.clone(), "/routine/settings", View, "The schedules as they are set", |call: Call<Nothing>| {
            schedules::settings(&call.rest.machine)
        }),
        route(
            put.clone(),
            "/routine/settings",
            Admin,
            "Sets the schedules, and applies them",
            |call: Call<Body<RoutineSettings>>| schedules::set(&call.rest.machine, &call.input.0),
        ),
        route(get.clone(), "/reports", View, "Pages of the laboratory and the planner", |call: Call<Nothing>| {
            Ok::<reports::Reports, _>(reports::list(&call.rest.machine.state))
        }),
        route(get.clone(), "/alarms", View, "The causes of alarms that last", |call: Call<Nothing>| {
            Ok::<Vec<StandingView>, _>(call.rest.machine.monitor.standing())
        }),
        route(
            post.clone(),
            "/alarms/acknowledge",
            Operate,
            "Notes that the user knows of an open alarm: it is not repeated until it is over or becomes worse",
            |call: Call<Body<AcknowledgeRequest>>| {
                let monitor = &call.rest.machine.monitor;
                monitor.acknowledge(call.input.0, call.caller.name)
            },
        ),
        route(get.clone(), "/alarms/settings", Admin, "Where alarms go: mail and webhook", |call: Call<Nothing>| {
            channels::settings(&call.rest.machine)
        }),
        route(
            put.clone(),
            "/alarms/settings",
            Admin,
            "Sets where alarms go, and applies it",
            |call: Call<Body<AlarmSettings>>| channels::set(&call.rest.machine, &call.input.0),
        ),
        route(post.clone(), "/alarms/test", Operate, "Sends a test on every channel", |call: Call<Nothing>| {
            call.rest.machine.monitor.send_test()
        }),
        route(get, "/config", Admin, "The configuration's text", |call: Call<Nothing>| config_text(&call.rest.machine)),
        route(put, "/config", Admin, "Replaces the configuration, if it is good, and applies it", set_config),
        route(post, "/config/check", Admin, "Checks a configuration", |call: Call<Body<ConfigText>>| {
            let text = &call.input.0.text;
            let (good, (config, faults)) = (Config::parse(text).is_ok(), Config::check_text(text));
            let text = match (&faults[..], config) {
                ([fault, ..], _) => fault.after_name().trim_start_matches(": ").to_owned(),
                ([], config) => {
                    let count = config.map_or(0, |config| config.arrays.len());
                    format!("it is good; {} {} to Stria", count_of(count), if count == 1 { "belongs" } else { "belong" })
                }
            };
            Ok(ConfigVerdict { good, text, faults })
        }),
    ]
}

/// `docs/openapi.json`
pub fn document() -> Value {
    let text = |summary: &str, role: &str, media: &str, description: &str| {
        json!({"get": {"summary": summary, "x-role": role, "responses": {"200": {"description": description,
            "content": {media: {"schema": {"type": "string"}}}}}}})
    };
    let stream = "events of the kinds `state` (data: State), `beat` (data: {time_ms}, in a second without a change), `event` (data: EventView, \
                  with an id: `Last-Event-ID` resumes) and `reset` (data: {boot}: the daemon restarted or has forgotten events since the last id)";
    let mut document = route::document(
        &routes(),
        vec![
            ("/api/v1/openapi.json", text("This document", "view", "application/json", "the document")),
            ("/api/v1/stream", text("State and events as they change", "view", "text/event-stream", stream)),
            ("/api/v1/reports/{name}", text("One page of the laboratory or the planner", "view", "text/html", "the page")),
            ("/metrics", text("Figures for Prometheus", "view", "text/plain", "Prometheus' text")),
        ],
    );
    // The server answers these two itself, because a client that logs in has no role yet.
    let who = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Who"}}});
    document["paths"]["/api/v1/session"]["post"] = json!({
        "summary": "Begins a session, by a token or by name and password of an account of the system: sets its cookie",
        "operationId": "post_session",
        "security": [],
        "requestBody": {"required": true, "content": {"application/json": {"schema": schemars::schema_for!(types::Login)}}},
        "responses": {"200": {"description": "the user", "content": who}},
    });
    let ways = schemars::schema_for!(types::LoginWays);
    document["paths"]["/api/v1/login"]["get"] = json!({
        "summary": "The ways to begin a session",
        "operationId": "get_login",
        "security": [],
        "responses": {"200": {"description": "the ways", "content": {"application/json": {"schema": ways}}}},
    });
    document
}

fn about(call: Call<Nothing>) -> Result<About, ApiError> {
    Ok(About {
        version: env!("CARGO_PKG_VERSION").into(),
        api: VERSION,
        machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        boot: call.rest.boot.clone(),
        time_ms: now_ms(),
        zone: zone_text(i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX), &TimeZone::system()),
        user: call.caller.who(),
    })
}

fn drives_of(call: Call<Nothing>) -> Result<Vec<DrivePage>, ApiError> {
    let rest = &call.rest;
    let config = rest.machine.keeper.config();
    let (paths, pool) = (drives::paths(&config.daemon), &config.spares.drives);
    Ok(drives::pages(paths, &rest.machine.entries(false), &rest.machine.monitor.all_drives(), pool))
}

fn spares(call: Call<Nothing>) -> Result<SparePool, ApiError> {
    let (rest, policy) = (&call.rest, call.rest.machine.keeper.config().spares.clone());
    let looked = look_at_pool(&policy.drives);
    let arrays: Vec<ArrayView> = rest.machine.entries(false).into_iter().filter_map(|entry| entry.view).collect();
    Ok(SparePool {
        kind: policy.kind,
        enclosure: policy.enclosure,
        drives: looked.iter().map(|(path, state)| pool::drive(path, state)).collect(),
        offers: offers(&arrays, &looked, &policy),
    })
}

fn foreign(call: Call<Nothing>) -> Result<Foreign, ApiError> {
    let config = call.rest.machine.keeper.config();
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let (found, _) = find_readable(&drives::paths(&config.daemon), options)?;
    Ok(Foreign::of(&found, &config))
}

fn offer(call: Call<Body<Action>>) -> Result<PlanOffer, ApiError> {
    let based = plans::plan(&call.rest.machine, &call.input.0, &call.caller)?;
    let takes = based.fill.as_ref().map(|fill| fill.takes(call.rest.measurements.limits(&fill.uuid).as_ref()));
    Ok(call.rest.plans.offer(based, takes, &call.caller))
}

fn act(call: Call<Body<Action>>) -> Result<Job, ApiError> {
    if !is_harmless(&call.input.0) {
        return Err(ApiError::new(ApiErrorKind::PlanNeeded, ErrorSentence::PlanNeeded {}));
    }
    let based = plans::plan(&call.rest.machine, &call.input.0, &call.caller)?;
    call.rest.jobs.begin(&call.rest.machine, based, &call.caller)
}

fn carry_out(call: Call<Body<JobRequest>>) -> Result<Job, ApiError> {
    let JobRequest { token, confirm } = call.input.0;
    let offered = call.rest.plans.take(&token, &call.caller)?;
    let plan = &offered.plan;
    if plan.role > call.caller.role {
        let (role, mine) = (plan.role.word().to_owned(), call.caller.role.word().to_owned());
        let said = ErrorSentence::PlanNeedsRole { role, name: call.caller.name.clone(), mine };
        return Err(ApiError::new(ApiErrorKind::Forbidden, said));
    }
    if plan.confirm.is_some() && plan.confirm != confirm {
        let wanted = plan.confirm.clone().unwrap_or_default();
        return Err(ApiError::new(ApiErrorKind::Invalid, ErrorSentence::PlanNeedsText { wanted }));
    }
    let now = plans::plan(&call.rest.machine, &plan.action, &call.caller).map_err(|error| {
        let (reason, cause) = error.words().parts();
        ApiError::new(ApiErrorKind::PlanChanged, ErrorSentence::PlanHoldsNoMore { reason, cause })
    })?;
    if now != offered {
        return Err(ApiError::new(ApiErrorKind::PlanChanged, ErrorSentence::PlanOutdated {}));
    }
    call.rest.jobs.begin(&call.rest.machine, now, &call.caller)
}

/// An event that is not in the file after this time counts as unstored: the file system is full, or hangs.
const STORED_WITHIN_MS: u64 = 10_000;

/// Joins the events of the file with those of this run that it lacks. Returns also the number that it has lacked for longer than
/// [`STORED_WITHIN_MS`].
fn joined(mut stored: Vec<EventView>, run: Vec<EventView>, now_ms: u64) -> (Vec<EventView>, usize) {
    let known: HashSet<(u64, u64)> = stored.iter().map(|event| (event.sequence, event.time_ms)).collect();
    let missing = run.into_iter().filter(|event| !known.contains(&(event.sequence, event.time_ms))).collect::<Vec<_>>();
    let unstored = missing.iter().filter(|event| event.time_ms + STORED_WITHIN_MS < now_ms).count();
    stored.extend(missing);
    (stored, unstored)
}

fn events(machine: &Machine, query: EventQuery) -> Result<EventPage, ApiError> {
    // This run's events are read first. An event that is stored in between is then found twice, which `joined` expects, and never
    // missed.
    let run = machine.service.events().since(0);
    let stored = stored(&machine.state).map_err(|failure| ApiError::new(ApiErrorKind::Failed, failure.to_string()))?;
    let (mut events, unstored) = joined(stored, run, now_ms());
    let EventQuery { array, kind, text, before_ms, limit } = query;
    events.retain(|event| {
        array.as_ref().is_none_or(|array| event.array == *array)
            && kind.as_ref().is_none_or(|kind| event.kind == *kind)
            && text.as_ref().is_none_or(|text| event.text.contains(text.as_str()))
            && before_ms.is_none_or(|before| event.time_ms < before)
    });
    let skipped = events.len().saturating_sub(limit.unwrap_or(100).clamp(1, 1000));
    Ok(EventPage { unstored, more: skipped > 0, events: events.split_off(skipped) })
}

fn config_text(machine: &Machine) -> Result<ConfigText, ApiError> {
    let bytes = match std::fs::read(&machine.config_path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => edit::TEMPLATE.into(),
        Err(error) => {
            let text = format!("{} cannot be read: {error}", machine.config_path.display());
            return Err(ApiError::new(ApiErrorKind::Failed, text));
        }
    };
    // A text that is not UTF-8 can be replaced all the same.
    Ok(ConfigText { tag: sha256(&bytes), text: String::from_utf8_lossy(&bytes).into_owned() })
}

fn set_config(call: Call<Body<ConfigText>>) -> Result<Message, ApiError> {
    let ConfigText { text, tag } = call.input.0;
    let machine = &call.rest.machine;
    Config::parse(&text).map_err(|fault| {
        let reason = fault.trim_start_matches(": ").to_owned();
        ApiError::new(ApiErrorKind::Invalid, ErrorSentence::ConfigInvalid { reason })
    })?;
    // The lock beside the configuration keeps commands from changing it meanwhile. The text that is replaced may be invalid.
    let file = edit::Replacement::open(&machine.config_path);
    let file = file.map_err(|failure| ApiError::new(ApiErrorKind::Failed, failure.to_string()))?;
    if config_text(machine)?.tag != tag {
        return Err(ApiError::new(ApiErrorKind::PlanChanged, ErrorSentence::ConfigChanged {}));
    }
    file.write(&text).map_err(|failure| ApiError::new(ApiErrorKind::Failed, failure.to_string()))?;
    Ok(machine.keeper.reload()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn events_that_the_file_lacks_are_shown_and_counted_once_they_are_old() {
        let event =
            |sequence, time_ms| EventView { sequence, time_ms, ..crate::view::plain_event("tank", "warning", "x".into()) };
        let stored = vec![event(3, 5), event(1, 100), event(2, 200)];
        let run = vec![event(1, 100), event(2, 200), event(3, 300), event(4, 90_000)];
        let (events, unstored) = joined(stored, run, 95_000);
        assert_eq!(events.iter().map(|event| event.time_ms).collect::<Vec<_>>(), [5, 100, 200, 300, 90_000]);
        assert_eq!(unstored, 1, "the last one is on its way");
    }

    /// Goal: the document that is checked in is what the routes say. `STRIA_WRITE=1` writes it.
    #[test]
    fn the_document_is_that_of_the_routes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let text = serde_json::to_string_pretty(&document()).expect("plain data") + "\n";
        if std::env::var_os("STRIA_WRITE").is_some() {
            std::fs::write(&path, &text).expect("a file");
        }
        let known = std::fs::read_to_string(&path).expect("docs/openapi.json");
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert!(
            parse(&known) == parse(&text),
            "STRIA_WRITE=1 cargo test -p stria-manage --lib rest:: writes docs/openapi.json anew"
        );
    }

    /// Every reference has its target, and every path its role.
    #[test]
    fn the_document_is_whole() {
        let document = document();
        let text = document.to_string();
        for target in text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(document["components"]["schemas"][target].is_object(), "{target} is not described");
        }
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.len() > 15 && paths["/api/v1/plans"]["post"]["x-role"] == "operate", "{text}");
        assert!(document["components"]["schemas"]["Plan"]["description"].is_string());
    }

    #[test]
    fn what_loses_data_needs_a_plan() {
        let harmless =
            [r#"{"action":"stop","array":"a"}"#, r#"{"action":"scrub","array":"a"}"#, r#"{"action":"pause","array":"a"}"#];
        let others = [
            r#"{"action":"stop","array":"a","force":true}"#,
            r#"{"action":"scrub","array":"a","repair":true}"#,
            r#"{"action":"destroy","array":"a"}"#,
            r#"{"action":"wipe","drives":["/dev/sda"]}"#,
            r#"{"action":"create","name":"a","level":"1","drives":["/dev/sda",null]}"#,
        ];
        let read = |text: &str| serde_json::from_str::<Action>(text).expect(text);
        assert!(harmless.iter().all(|text| is_harmless(&read(text))) && !others.iter().any(|text| is_harmless(&read(text))));
        assert!(serde_json::from_str::<Action>(r#"{"action":"destroy","array":"a","force":true}"#).is_err(), "no unknown key");
    }
}
