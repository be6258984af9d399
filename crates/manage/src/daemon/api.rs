//! The part of the API that only the daemon has, and the record of commands with their users.

use crate::api::{ApiError, ApiErrorKind, Done, DriveRequest, StartRequest};
use crate::control::{Body, Order, answer};
use crate::keeper::Keeper;
use crate::order_words::order_words;
use crate::routine::Routine;
use crate::service::Service;
use crate::view;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stria_drive::within;

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

/// The time that the machine's directory may take to name a user.
const NAME_WITHIN: Duration = Duration::from_millis(500);
/// So long a user has no name after the directory did not answer: each question to one that hangs costs a thread.
const NAMELESS_FOR: Duration = Duration::from_secs(60);

/// Names of users, as far as the machine's directory answers.
#[derive(Default)]
struct Names(Mutex<Option<Instant>>);

impl Names {
    fn name(&self, uid: u32) -> Option<String> {
        self.ask(move || nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten().map(|user| user.name))
    }

    fn ask(&self, question: impl FnOnce() -> Option<String> + Send + 'static) -> Option<String> {
        let mut hung = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hung.is_some_and(|since| since.elapsed() < NAMELESS_FOR) {
            return None;
        }
        let answer = within(NAME_WITHIN, question);
        *hung = answer.is_err().then(Instant::now);
        answer.ok().flatten()
    }
}

/// Makes an event of every order: who gave it, what it was, and what became of it. udev's reports of drives are no orders.
pub fn witness(service: Arc<Service>) -> Arc<dyn Fn(Order) + Send + Sync> {
    let names = Names::default();
    Arc::new(move |order: Order| {
        let Order { uid, pid, what, body, status } = order;
        if what == "POST /v1/drives" {
            return;
        }
        let user = names.name(uid).map_or_else(|| format!("user {uid}"), |name| format!("{name} (user {uid})"));
        let process = pid.map_or_else(String::new, |pid| format!(", process {pid}"));
        let outcome = if status < 300 { "done".to_owned() } else { format!("refused or failed (status {status})") };
        let (method, path) = what.split_once(' ').unwrap_or(("", what.as_str()));
        let words = order_words(method, path, &body);
        let array = what.split('/').skip_while(|part| *part != "arrays" && *part != "adopted").nth(1).unwrap_or_default();
        let array = percent_encoding::percent_decode_str(array).decode_utf8_lossy().into_owned();
        let text = format!("{user}{process} ordered: {words}; {outcome}");
        service.events().push(view::plain_event(&array, "ordered", text));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_hangs_is_waited_for_once() {
        let names = Names::default();
        let hangs = || {
            std::thread::sleep(Duration::from_secs(20));
            Some("late".to_owned())
        };
        assert_eq!(names.ask(|| Some("ann".into())).as_deref(), Some("ann"));
        let begin = Instant::now();
        for _ in 0..20 {
            assert_eq!(names.ask(hangs), None);
        }
        assert!(begin.elapsed() < NAME_WITHIN * 10, "{:?}", begin.elapsed());
    }
}
