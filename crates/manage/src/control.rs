//! The control socket: the HTTP interface of a [`Service`]. It owns paths and JSON, and knows neither arrays nor lanes.
//! [`sockets`] says where it is, [`client`] is its other side.

pub mod client;
mod listen;
pub mod sockets;

pub use listen::{Order, Peer, listen};

use crate::api::{
    AddRequest, ApiError, ApiErrorKind, Done, ErrorBody, EventView, FirmwareRequest, MemberRequest, ReplaceRequest, ScrubRequest,
    SettingsRequest, SpeedRequest, StopRequest, TrimRequest,
};
use crate::service::Service;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use futures_util::stream::{Stream, unfold};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

/// The body of a request, or why it is invalid.
pub type Body<T> = Result<Json<T>, JsonRejection>;
type On = State<Arc<Service>>;

/// The API's paths, version 1; see [`crate::api`].
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1", get(|State(service): On| on(service, |service| Ok(service.about()))))
        .route("/v1/arrays", get(|State(service): On| on(service, |service| Ok(service.arrays()))))
        .route("/v1/arrays/{name}", get(|State(service): On, Path(name): Path<String>| on(service, move |s| s.array(&name))))
        .route("/v1/arrays/{name}/stop", post(stop))
        .route("/v1/arrays/{name}/members", post(add))
        .route("/v1/arrays/{name}/members/fail", post(fail))
        .route("/v1/arrays/{name}/members/remove", post(remove))
        .route("/v1/arrays/{name}/members/replace", post(replace))
        .route("/v1/arrays/{name}/members/firmware", post(firmware))
        .route("/v1/arrays/{name}/scrub", post(scrub).delete(cancel_scrub))
        .route("/v1/arrays/{name}/pause", post(|service: On, name: Path<String>| pause(service, name, true)))
        .route("/v1/arrays/{name}/resume", post(|service: On, name: Path<String>| pause(service, name, false)))
        .route("/v1/arrays/{name}/speed", put(speed))
        .route("/v1/arrays/{name}/settings", put(settings))
        .route("/v1/arrays/{name}/trim", post(trim))
        .route("/v1/events", get(events))
        .route("/v1/stop", post(stop_all))
        .fallback(|| async {
            let text = "the process at this control socket takes no such order: `start`, `routine` and others are for `stria daemon`, \
                        not for `stria serve`; a newer command may need a newer server";
            ApiError::new(ApiErrorKind::NotFound, text).into_response()
        })
        .with_state(service)
}

async fn on<T: Serialize + Send + 'static>(
    service: Arc<Service>,
    work: impl FnOnce(&Arc<Service>) -> Result<T, ApiError> + Send + 'static,
) -> Response {
    answer(move || work(&service)).await
}

/// Runs `work`, which may block, on a thread other than that of the sockets.
pub async fn answer<T: Serialize + Send + 'static>(work: impl FnOnce() -> Result<T, ApiError> + Send + 'static) -> Response {
    let outcome = tokio::task::spawn_blocking(work).await;
    let outcome = outcome.unwrap_or_else(|panic| {
        Err(ApiError::new(ApiErrorKind::Failed, format!("the request broke off on an internal error, see the log: {panic}")))
    });
    match outcome {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => error.into_response(),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match self.kind {
            ApiErrorKind::NotFound => StatusCode::NOT_FOUND,
            ApiErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ApiErrorKind::Refused | ApiErrorKind::Unsafe | ApiErrorKind::PlanChanged => StatusCode::CONFLICT,
            ApiErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
            ApiErrorKind::Unauthorized => StatusCode::UNAUTHORIZED,
            ApiErrorKind::Forbidden => StatusCode::FORBIDDEN,
            ApiErrorKind::PlanNeeded => StatusCode::PRECONDITION_REQUIRED,
            ApiErrorKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        };
        (status, Json(ErrorBody { error: self })).into_response()
    }
}

/// Runs `work` with the request's body, or refuses an invalid one.
async fn with<B: Send + 'static>(
    service: Arc<Service>,
    body: Body<B>,
    work: impl FnOnce(&Arc<Service>, B) -> Result<Done, ApiError> + Send + 'static,
) -> Response {
    match body {
        Ok(Json(body)) => on(service, move |service| work(service, body)).await,
        Err(rejection) => ApiError::new(ApiErrorKind::Invalid, rejection.body_text()).into_response(),
    }
}

async fn stop(State(service): On, Path(name): Path<String>, body: Body<StopRequest>) -> Response {
    with(service, body, move |service, body| service.stop(&name, body.force)).await
}

async fn stop_all(State(service): On, body: Body<StopRequest>) -> Response {
    with(service, body, |service, body| service.stop_by_command(body.force)).await
}

async fn add(State(service): On, Path(name): Path<String>, body: Body<AddRequest>) -> Response {
    with(service, body, move |service, body| service.add(&name, body)).await
}

async fn fail(State(service): On, Path(name): Path<String>, body: Body<MemberRequest>) -> Response {
    with(service, body, move |service, body| service.fail(&name, body.path)).await
}

async fn remove(State(service): On, Path(name): Path<String>, body: Body<MemberRequest>) -> Response {
    with(service, body, move |service, body| service.remove(&name, body.path)).await
}

async fn replace(State(service): On, Path(name): Path<String>, body: Body<ReplaceRequest>) -> Response {
    with(service, body, move |service, body| service.replace(&name, body)).await
}

async fn firmware(State(service): On, Path(name): Path<String>, body: Body<FirmwareRequest>) -> Response {
    with(service, body, move |service, body| service.update_firmware(&name, &body, |_| Ok(()))).await
}

async fn scrub(State(service): On, Path(name): Path<String>, body: Body<ScrubRequest>) -> Response {
    with(service, body, move |service, body| service.scrub(&name, &body)).await
}

async fn cancel_scrub(State(service): On, Path(name): Path<String>) -> Response {
    on(service, move |service| service.cancel_scrub(&name)).await
}

async fn pause(State(service): On, Path(name): Path<String>, paused: bool) -> Response {
    on(service, move |service| service.pause(&name, paused)).await
}

async fn speed(State(service): On, Path(name): Path<String>, body: Body<SpeedRequest>) -> Response {
    with(service, body, move |service, body| service.speed(&name, &body)).await
}

async fn settings(State(service): On, Path(name): Path<String>, body: Body<SettingsRequest>) -> Response {
    with(service, body, move |service, body| service.set(&name, &body)).await
}

async fn trim(State(service): On, Path(name): Path<String>, body: Body<TrimRequest>) -> Response {
    with(service, body, move |service, body| service.trim(&name, &body, || false)).await
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: u64,
}

/// A list of past events, or, with `text/event-stream`, all events as they happen.
async fn events(State(service): On, Query(Since { since }): Query<Since>, headers: HeaderMap) -> Response {
    let accepts = |headers: &HeaderMap| {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        accept.is_some_and(|accept| accept.contains("text/event-stream"))
    };
    if !accepts(&headers) {
        return Json(service.events().since(since)).into_response();
    }
    // A browser that lost the connection sends the last event it had.
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    Sse::new(stream(service, last.unwrap_or(since))).into_response()
}

fn stream(service: Arc<Service>, since: u64) -> impl Stream<Item = Result<Event, Infallible>> {
    let (before, live) = service.events().listen(since);
    let shutdown = service.shutdown().subscribe();
    unfold((before, live, shutdown), |(mut before, mut live, mut shutdown): (VecDeque<EventView>, _, _)| async move {
        let event = match before.pop_front() {
            Some(event) => event,
            None => loop {
                tokio::select! {
                    event = live.recv() => match event {
                        Ok(event) => break event,
                        // A client too slow for 256 events sees the gap in the sequence, and may ask for it.
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return None,
                    },
                    _ = shutdown.wait_for(|ended| *ended) => return None,
                }
            },
        };
        let line = Event::default().id(event.sequence.to_string()).event(event.kind.clone()).json_data(&event);
        Some((Ok(line.expect("events are plain data")), (before, live, shutdown)))
    })
}
