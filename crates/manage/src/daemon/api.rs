//! The part of the API that only the daemon has, and the record of commands with their users.

use crate::api::{ApiError, ApiErrorKind, Done, DriveRequest, StartRequest};
use crate::control::{Body, Order, answer};
use crate::keeper::Keeper;
use crate::routine::Routine;
use crate::service::Service;
use crate::system::directory::user_name;
use crate::view;
use crate::words::event::ServiceSentence;
use crate::words::request::{acknowledged_of, order_words};
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;

type On = State<Arc<Keeper>>;

/// The paths that only the daemon has.
pub fn router(keeper: Arc<Keeper>, routine: Arc<Routine>) -> Router {
    Router::new()
        .route("/v1/routine", get(move || std::future::ready(axum::Json(routine.shown()))))
        .route("/v1/adopted", get(|State(keeper): On| answer(move || Ok(keeper.adopted()))))
        .route("/v1/adopted/{name}/start", post(start))
        .route("/v1/drives", post(drive))
        .route("/v1/reload", post(|State(keeper): On| answer(move || keeper.reload().map(done))))
        .with_state(keeper)
}

fn done(message: String) -> Done {
    Done { message, sequence: 0 }
}

async fn drive(State(keeper): On, body: Body<DriveRequest>) -> Response {
    match body {
        Ok(axum::Json(DriveRequest { path, plugged_in })) => answer(move || keeper.drive(path, plugged_in).map(done)).await,
        Err(rejection) => ApiError::new(ApiErrorKind::Invalid, rejection.body_text()).into_response(),
    }
}

async fn start(State(keeper): On, Path(name): Path<String>, body: Body<StartRequest>) -> Response {
    match body {
        Ok(axum::Json(StartRequest { force })) => answer(move || keeper.start_array(name, force).map(done)).await,
        Err(rejection) => ApiError::new(ApiErrorKind::Invalid, rejection.body_text()).into_response(),
    }
}

/// Makes an event of every order: who gave it, what it was, and what became of it. udev's reports of drives are no orders.
pub fn witness(service: Arc<Service>) -> Arc<dyn Fn(Order) + Send + Sync> {
    Arc::new(move |order: Order| {
        let Order { uid, pid, what, body, status } = order;
        if what == "POST /v1/drives" {
            return;
        }
        let process = pid.map_or_else(String::new, |pid| format!(", process {pid}"));
        let (method, path) = what.split_once(' ').unwrap_or(("", what.as_str()));
        let (by, order) = (format!("{}{process}", user_name(uid)), order_words(method, path, &body));
        let array = what.split('/').skip_while(|part| *part != "arrays" && *part != "adopted").nth(1).unwrap_or_default();
        let array = match acknowledged_of(path, &body) {
            Some(array) => array,
            None => percent_encoding::percent_decode_str(array).decode_utf8_lossy().into_owned(),
        };
        let said = match status {
            ..300 => ServiceSentence::OrderDone { by, order },
            _ => ServiceSentence::OrderFailed { by, order, status },
        };
        service.events().push(view::said_event(&array, "ordered", said));
    })
}
