//! Connections to the control socket, within bounds: no client can keep others from being answered, whether by silence, by
//! endless requests, or by not reading answers.

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower_service::Service as _;

/// Connections at a time. Another one takes the place of the oldest for which no command runs.
const CONNECTIONS_MAX: usize = 64;
/// How long a request's head may take, and then its body; also how long a connection may be silent between requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A larger head is refused. hyper needs at least 8 KiB.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// A larger body is refused: commands are a few paths and numbers.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The part of a command's body that its witness receives, in bytes.
const SHOWN_BYTES_MAX: usize = 512;
/// The pause between attempts to accept when the system refuses, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection's task.
struct Connection {
    /// True while one of its commands runs.
    works: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// A command, and the user who gave it.
#[derive(Clone, Debug)]
pub struct Order {
    /// The user.
    pub uid: u32,
    /// The process, if the system reports it.
    pub pid: Option<i32>,
    /// Method and path.
    pub what: String,
    /// The body.
    pub body: String,
    /// The answer's status, as HTTP has it.
    pub status: u16,
}

/// The user at the other end of a connection, for orders that note it.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The user's number; `u32::MAX`: the system does not report it.
    pub uid: u32,
}

/// Receives every command once it was carried out or refused.
pub type Witness = Arc<dyn Fn(Order) + Send + Sync>;

/// Answers requests until `over` is true, and then finishes the answers in progress. `witness` receives what changes something.
pub async fn listen(listener: UnixListener, router: Router, witness: Option<Witness>, mut over: watch::Receiver<bool>) {
    let mut connections: VecDeque<Connection> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // An error means that the service is gone, which is an end as well.
            _ = over.wait_for(|over| *over) => break,
        };
        connections.retain(|connection| !connection.task.is_finished());
        match accepted {
            Ok((stream, _)) if make_space(&mut connections) => {
                let works = Arc::<AtomicBool>::default();
                let task = tokio::spawn(answer(stream, router.clone(), witness.clone(), Arc::clone(&works), over.clone()));
                connections.push_back(Connection { works, task });
            }
            Ok(_) => tracing::warn!("a command was refused: {CONNECTIONS_MAX} commands are running already"),
            Err(error) => {
                tracing::warn!("the control socket cannot accept: {error}; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    for connection in connections {
        let _ = connection.task.await;
    }
}

/// Closes an idle connection if necessary. True if one more may connect.
fn make_space(connections: &mut VecDeque<Connection>) -> bool {
    if connections.len() < CONNECTIONS_MAX {
        return true;
    }
    let idle = connections.iter().position(|connection| !connection.works.load(Ordering::Relaxed));
    idle.and_then(|index| connections.remove(index)).inspect(|connection| connection.task.abort()).is_some()
}

async fn answer(
    stream: UnixStream,
    router: Router,
    witness: Option<Witness>,
    works: Arc<AtomicBool>,
    mut over: watch::Receiver<bool>,
) {
    let peer = stream.peer_cred().map_or((u32::MAX, None), |peer| (peer.uid(), peer.pid()));
    let service = service_fn(move |request| carry_out(request, router.clone(), witness.clone(), peer, Arc::clone(&works)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = async move {
        let _ = over.wait_for(|over| *over).await;
    };
    // An error of a connection ends only that one.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ended => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

async fn carry_out(
    request: Request<Incoming>,
    mut router: Router,
    witness: Option<Witness>,
    (uid, pid): (u32, Option<i32>),
    works: Arc<AtomicBool>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let refuse = |status, words: &'static str| {
        let mut response = Response::new(Body::from(words));
        *response.status_mut() = status;
        Ok(response)
    };
    let body = match timeout(REQUEST_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is cut, or larger than 64 KiB"),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the body took longer than 10 s"),
    };
    works.store(true, Ordering::Relaxed);
    let witness = witness.filter(|_| head.method != Method::GET);
    let what = format!("{} {}", head.method, head.uri.path());
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)]).into_owned();
    let mut request = Request::from_parts(head, Body::from(body));
    request.extensions_mut().insert(Peer { uid });
    let answer = router.call(request).await;
    let status = answer.as_ref().map(|answer| answer.status().as_u16());
    if let (Some(witness), Ok(status)) = (witness, status) {
        // It looks up a name, for which the machine's directory may wait: other connections go on meanwhile.
        let order = Order { uid, pid, what, body: text, status };
        let _ = tokio::task::spawn_blocking(move || witness(order)).await;
    }
    works.store(false, Ordering::Relaxed);
    answer
}
