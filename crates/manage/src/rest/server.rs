//! The server of the API: sockets, connections within bounds, who may ask what, and the answers.
//!
//! Its threads are its own and of low priority: requests of clients of arrays come first. What may block runs on further threads,
//! of which there are [`BLOCKING_MAX`] at most; so does the look for a caller's groups, which may ask a directory on the network.
//!
//! Browsers are kept honest: a request on the unix socket must name this machine (no DNS rebinding), one that changes something
//! must come from the page itself (no request forgery), and no answer may be framed, stored or run scripts of others.

use super::accounts::Refusal;
use super::auth::{Begun, Caller, Counts, LASTS, LOGINS_SHOWN, Peer, Shown, sha256};
use super::parts::Rest;
use super::reading::{Read, Waiting};
use super::route::{RawCall, Route};
use super::routes::{document, routes};
use super::stream::{self, Seen};
use super::tcp::{Opened, Tcp};
use super::types::{Action, Login, LoginWays, Via};
use super::{page, reports};
use crate::api::{ApiError, ApiErrorKind};
use crate::config::{self, ApiOptions};
use crate::matter::API;
use crate::system::threads;
use crate::view::{self, cut};
use crate::words::error::{ErrorSentence, Words};
use crate::words::event::ServiceSentence;
use crate::words::order::OrderSentence;
use crate::words::request::{acknowledged_of, order_words};
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stria_block::with_limit;
use stria_front::{SocketAccess, SocketFile, TlsFiles};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections at a time on the unix socket, and as many by TLS. A further one takes the place of the oldest that
/// has not identified itself.
const CONNECTIONS_MAX: usize = 64;
/// Those of them that one address may have, or one network where addresses are of 128 bits.
const CONNECTIONS_OF_ONE_MAX: usize = 16;
/// Those on the unix socket that one user may have, root apart: a proxy is one user.
const CONNECTIONS_OF_USER_MAX: usize = 48;
/// The time that TLS, a request's head, and its body may take each; also the silence between two requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A larger head is refused.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// A larger body is refused: a configuration is the longest.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Requests that are worked on at a time; others wait.
const BLOCKING_MAX: usize = 16;
/// Threads that look up callers. They do no other work, so that long work delays no lookup. As many more threads are for lookups
/// in the machine's directory, which may hang.
const CALLERS_MAX: usize = 4;
/// The part of an order's body, path and refusal that the record has, in bytes each.
const SHOWN_BYTES_MAX: usize = 512;
/// The part of an array's name that the record has, in bytes.
const ARRAY_BYTES_MAX: usize = 64;
/// Orders of a user within [`COUNTED_FOR`](super::auth::COUNTED_FOR).
const ORDERS_MAX: u32 = 300;
/// The refused orders of one user with the right that have an event within that time.
const REFUSED_ORDERS_MAX: u32 = 30;
/// How much the priority of its threads is below that of others.
const NICE: i32 = 5;

/// The running server.
pub struct ApiServer {
    thread: JoinHandle<()>,
    tcp: Arc<Tcp>,
}

impl ApiServer {
    /// Its addresses on TCP.
    pub fn tcp(&self) -> Arc<Tcp> {
        Arc::clone(&self.tcp)
    }

    /// Waits for its end, for a bounded time. Then the socket's file is gone.
    pub fn finish(self, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(patience / 100);
        }
    }
}

struct Server {
    rest: Arc<Rest>,
    routes: Vec<Route>,
    /// The document, as it is sent.
    document: String,
    /// Names under which browsers may reach the unix socket.
    hosts: Vec<String>,
    /// The last look; only streams receive it.
    seen: watch::Sender<Seen>,
    /// Refusals that may have an event, by origin. Requests without the right have one event within
    /// [`COUNTED_FOR`](super::auth::COUNTED_FOR): more would push orders out of the record.
    refusals: Mutex<Counts>,
    /// Orders, by user: each is an event, and may take a lane's time.
    orders: Mutex<Counts>,
    /// The threads on which callers are looked up.
    callers: Handle,
    /// The threads on which callers are looked up in the machine's directory, which may hang.
    directory: Handle,
    /// Answers that clients have yet to read.
    waiting: Waiting,
}

/// Lets the members of a second group connect to a unix socket, by an access control list (acl(5)).
///
/// # Errors
/// When its file system has none.
pub fn let_in(socket: &Path, group: u32) -> std::io::Result<()> {
    // The format is that of linux/posix_acl_xattr.h: version 2, then the entries in ascending order of their tags. Each entry has
    // a tag, permissions, and the number of a user or group.
    const UNDEFINED: u32 = u32::MAX;
    const READ_WRITE: u16 = 6;
    let [owner, own_group, other_group, mask, others] = [0x01_u16, 0x04, 0x08, 0x10, 0x20];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (owner, READ_WRITE, UNDEFINED),
        (own_group, READ_WRITE, UNDEFINED),
        (other_group, READ_WRITE, group),
        (mask, READ_WRITE, UNDEFINED),
        (others, 0, UNDEFINED),
    ] {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    Ok(rustix::fs::setxattr(socket, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty())?)
}

/// Starts the server. What cannot be listened on is an event: arrays are served whether or not the API is.
pub fn start(rest: Arc<Rest>, api: config::Api, options: &ApiOptions, socket: &Path) -> Option<ApiServer> {
    let service = Arc::clone(&rest.machine.service);
    let warn = |text: String| service.events().push(view::plain_event("", "warning", format!("the API: {text}")));
    let access =
        SocketAccess { mode: if options.group.is_some() || options.admin_group.is_some() { 0o660 } else { 0o600 }, group: None };
    let access = SocketAccess { group: options.group.or(options.admin_group), ..access };
    let unix = SocketFile::listen(socket, access).map_err(|error| warn(format!("{}: {error}", socket.display()))).ok();
    // A file has one group. Members of the other one would not reach the socket, whatever they may do behind it.
    if let (Some(socket), Some(group), Some(admins)) = (&unix, options.group, options.admin_group)
        && group != admins
        && let Err(error) = let_in(socket.path(), admins)
    {
        warn(format!("{} cannot be opened to admin-group: {error}; add its members to `group` too", socket.path().display()));
    }
    if let Err(fault) = options.check_service() {
        warn(fault);
    }
    options.unknown.iter().cloned().for_each(warn);
    let (tcp, opened) = Tcp::new(&rest.machine.service, api);
    if let Err(fault) = tcp.open() {
        rest.machine.monitor.stand(API, fault);
    }
    let mut hosts = options.hosts.clone();
    hosts.extend(["localhost", "127.0.0.1", "[::1]", "stria"].map(str::to_owned));
    hosts.push(rustix::system::uname().nodename().to_string_lossy().into_owned());
    let unheard = Arc::clone(&service);
    // The runtimes are made on the thread that drops them: tokio panics if that is a thread of another runtime.
    let work = move || {
        // A system that refuses it only loses the courtesy.
        let _ = rustix::process::nice(NICE);
        let (runtime, callers, directory) = match runtimes() {
            Ok(runtimes) => runtimes,
            Err(error) => {
                let text = with_limit(&format!("the API is not served: {error}"));
                return unheard.events().push(view::plain_event("", "warning", text));
            }
        };
        runtime.block_on(serve(rest, hosts, unix.as_ref(), opened, [callers.handle().clone(), directory.handle().clone()]));
        runtime.shutdown_timeout(Duration::from_millis(100));
        callers.shutdown_timeout(Duration::from_millis(100));
        directory.shutdown_timeout(Duration::from_millis(100));
        drop(unix);
    };
    let thread = threads::start("api", work).map_err(|failure| warn(failure.to_string())).ok()?;
    Some(ApiServer { thread, tcp })
}

/// That of the server, that of its callers, and that of a directory.
fn runtimes() -> std::io::Result<(Runtime, Runtime, Runtime)> {
    let named = |name: &str, threads: usize| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.max_blocking_threads(threads).thread_name(name);
        builder
    };
    let runtime = named("api", BLOCKING_MAX).enable_all().build()?;
    Ok((runtime, named("api-callers", CALLERS_MAX).build()?, named("api-directory", CALLERS_MAX).build()?))
}

async fn serve(
    rest: Arc<Rest>,
    hosts: Vec<String>,
    unix: Option<&SocketFile>,
    mut opened: UnboundedReceiver<Opened>,
    [callers, directory]: [Handle; 2],
) {
    let seen = watch::Sender::new(Seen::default());
    let over = rest.machine.service.shutdown().subscribe();
    let mut looks = tokio::spawn(stream::look(Arc::clone(&rest), seen.clone()));
    let document = document().to_string();
    let server = Arc::new(Server {
        routes: routes(),
        document,
        hosts,
        seen,
        refusals: Mutex::default(),
        orders: Mutex::default(),
        callers,
        directory,
        waiting: Waiting::default(),
        rest,
    });
    let mut tasks = Vec::new();
    if let Some(listener) = unix.and_then(|unix| unix.listener().try_clone().and_then(UnixListener::from_std).ok()) {
        tasks.push(tokio::spawn(listen_unix(Arc::clone(&server), listener, over.clone())));
    }
    let connections = Arc::new(Mutex::new(Connections::default()));
    loop {
        let (listener, tls) = tokio::select! {
            Some(opened) = opened.recv() => opened,
            _ = &mut looks => break,
        };
        let Ok(listener) = TcpListener::from_std(listener) else { continue };
        tasks.push(tokio::spawn(listen_tls(Arc::clone(&server), listener, tls, Arc::clone(&connections), over.clone())));
    }
    for task in tasks {
        let _ = task.await;
    }
}

/// Connections of one kind, the oldest first.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

struct Connection {
    /// The other end.
    origin: String,
    /// It has shown who it is.
    is_known: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Connections {
    /// True if one more of `origin` may connect, after an unknown one was closed if necessary.
    fn make_space(&mut self, origin: &str, of_one_max: usize) -> bool {
        self.0.retain(|connection| !connection.task.is_finished());
        let of_one = self.0.iter().filter(|connection| connection.origin == origin).count();
        let is_full = self.0.len() >= CONNECTIONS_MAX;
        if of_one < of_one_max && !is_full {
            return true;
        }
        let is_of_one_too_many = of_one >= of_one_max;
        let may_go = |connection: &Connection| {
            !connection.is_known.load(Ordering::Relaxed) && (!is_of_one_too_many || connection.origin == origin)
        };
        let unknown = self.0.iter().position(may_go);
        unknown.and_then(|index| self.0.remove(index)).inspect(|connection| connection.task.abort()).is_some()
    }
}

async fn listen_unix(server: Arc<Server>, listener: UnixListener, mut over: watch::Receiver<bool>) {
    let mut connections = Connections::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = over.wait_for(|over| *over) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let peer = stream.peer_cred().map_or((u32::MAX, u32::MAX, None), |peer| (peer.uid(), peer.gid(), peer.pid()));
        let of_one_max = if peer.0 == 0 { CONNECTIONS_MAX } else { CONNECTIONS_OF_USER_MAX };
        let peer = Peer::Unix { uid: peer.0, gid: peer.1, pid: peer.2 };
        let origin = peer.origin();
        if !connections.make_space(&origin, of_one_max) {
            continue;
        }
        let is_known = Arc::<AtomicBool>::default();
        let task = tokio::spawn(connection(Arc::clone(&server), Read::new(stream), peer, Arc::clone(&is_known), over.clone()));
        connections.0.push_back(Connection { origin, is_known, task: task.abort_handle() });
    }
}

async fn listen_tls(
    server: Arc<Server>,
    listener: TcpListener,
    tls: Arc<TlsFiles>,
    connections: Arc<Mutex<Connections>>,
    mut over: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = over.wait_for(|over| *over) => return,
        };
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let from: SocketAddr = from;
        let address = from.ip().to_canonical();
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = Peer::Tls { address, certificate: None }.origin();
        if !connections.make_space(&origin, CONNECTIONS_OF_ONE_MAX) {
            continue;
        }
        let is_known = Arc::<AtomicBool>::default();
        let (server, acceptor, known, over) =
            (Arc::clone(&server), TlsAcceptor::from(tls.current()), Arc::clone(&is_known), over.clone());
        let task = tokio::spawn(async move {
            let Ok(Ok(stream)) = timeout(REQUEST_TIMEOUT, acceptor.accept(Read::new(stream))).await else { return };
            let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            let peer = Peer::Tls { address, certificate: certificate.map(|certificate| sha256(certificate)) };
            connection(server, stream, peer, known, over).await;
        });
        connections.0.push_back(Connection { origin, is_known, task: task.abort_handle() });
    }
}

async fn connection(
    server: Arc<Server>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    is_known: Arc<AtomicBool>,
    mut over: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let (server, peer, is_known) = (Arc::clone(&server), peer.clone(), Arc::clone(&is_known));
        async move {
            let waiting = server.waiting.clone();
            let response = server.answer(request, peer, &is_known).await;
            let response = waiting.count(response).await.unwrap_or_else(|| unread().into_response());
            Ok::<_, Infallible>(guarded(response))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = async move {
        let _ = over.wait_for(|over| *over).await;
    };
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ended => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(Duration::from_secs(1), connection).await;
        }
    }
}

/// The policy for scripts and the like: only what this server sends itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
                      manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds what every answer has, for browsers.
fn guarded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), usb=()"),
    ] {
        // A report has a stricter policy of its own.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The name of the cookie of a session with this daemon, whose own name is `own`. The port that the browser sees follows: a
/// browser sends the cookies of a host to all of its ports, and machines that were copied from one image may share a name.
fn cookie_name(own: &str, headers: &HeaderMap) -> String {
    let port = text(headers, header::HOST).and_then(|host| host.rsplit_once(':')).map_or("", |(_, port)| port);
    match port.parse::<u16>() {
        Ok(port) => format!("{own}_{port}"),
        Err(_) => own.to_owned(),
    }
}

/// The credentials in a request's head, for the daemon with this name of its cookie.
fn shown(own: &str, headers: &HeaderMap) -> Shown {
    let token = text(headers, header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    let name = cookie_name(own, headers);
    let cookies =
        headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    let session = cookies.filter_map(|cookie| cookie.trim().split_once('=')).find(|(key, _)| *key == name);
    Shown { token, session: session.map(|(_, value)| value.to_owned()) }
}

/// What the record shows of an order's body, and its array. Bodies with tokens or a configuration stay out of the record.
fn recorded_of(path: &str, body: &[u8]) -> (String, String) {
    let whole = || String::from_utf8_lossy(body).into_owned();
    match path {
        "/api/v1/actions" => match serde_json::from_slice::<Action>(body) {
            Ok(action) => (whole(), action.array().map(str::to_owned).unwrap_or_default()),
            Err(_) => (String::new(), String::new()),
        },
        "/api/v1/alarms/acknowledge" => acknowledged_of(path, &whole()).map(|array| (whole(), array)).unwrap_or_default(),
        _ => (String::new(), String::new()),
    }
}

/// True if the page sent the request without its user, so that it does not keep the session alive. The stream counts as such: the
/// browser opens it again by itself.
fn is_unattended(path: &str, headers: &HeaderMap) -> bool {
    path == "/api/v1/stream" || headers.contains_key("x-stria-unattended")
}

fn forbidden(text: impl Into<Words>) -> ApiError {
    ApiError::new(ApiErrorKind::Forbidden, text)
}

/// Refuses what another page makes a browser send.
fn check_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let site = text(headers, "sec-fetch-site");
    if let Some(site) = site.filter(|site| !matches!(*site, "same-origin" | "none")) {
        return Err(forbidden(ErrorSentence::AnotherPage { origin: site.to_string() }));
    }
    let Some(origin) = text(headers, header::ORIGIN) else { return Ok(()) };
    let host = text(headers, header::HOST).unwrap_or_default();
    match origin.split_once("://") {
        Some((_, origin)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(forbidden(ErrorSentence::AnotherPage { origin: origin.to_string() })),
    }
}

fn check_media(headers: &HeaderMap, body: &[u8]) -> Result<(), ApiError> {
    let media = text(headers, header::CONTENT_TYPE).unwrap_or_default();
    let is_json = media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json");
    if body.is_empty() || is_json {
        return Ok(());
    }
    Err(ApiError::new(ApiErrorKind::Invalid, "a body is JSON: content-type: application/json"))
}

/// The refusal of an answer for which there is no memory.
fn unread() -> ApiError {
    ApiError::new(ApiErrorKind::TooMany, ErrorSentence::TooManyUnread {})
}

/// Carries out a request and writes its record, also if the client leaves before the answer. Without this, hyper would drop both
/// then.
async fn to_the_end(work: impl Future<Output = Response<Body>> + Send + 'static) -> Response<Body> {
    let failed = || ApiError::new(ApiErrorKind::Failed, ErrorSentence::DaemonFailed {}).into_response();
    tokio::spawn(work).await.unwrap_or_else(|_| failed())
}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: Peer, is_known: &AtomicBool) -> Response<Body> {
        let (head, body) = request.into_parts();
        let (path, method) = (head.uri.path().to_owned(), head.method.clone());
        if let Peer::Unix { .. } = peer
            && let Err(error) = self.check_host(&head.headers)
        {
            return with(StatusCode::MISDIRECTED_REQUEST, error);
        }
        let is_api = path == "/api" || path.starts_with("/api/") || path == "/metrics";
        if !is_api {
            return static_file(&path, &method, &head.headers);
        }
        let body = match timeout(REQUEST_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Ok(Ok(body)) => body.to_bytes().to_vec(),
            Ok(Err(_)) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is cut, or larger than 256 KiB"),
            Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the body took longer than 10 s"),
        };
        let changes = !matches!(method, Method::GET | Method::HEAD);
        if changes {
            if let Err(error) = check_origin(&head.headers) {
                return error.into_response();
            }
            if let Err(error) = check_media(&head.headers, &body) {
                return with(StatusCode::UNSUPPORTED_MEDIA_TYPE, error);
            }
        }
        let credentials = shown(&self.rest.guard.cookie, &head.headers);
        // Both are open to clients that have not logged in.
        if path == "/api/v1/login" && method == Method::GET {
            return axum::Json(LoginWays { accounts: self.rest.accounts.may_log_in() }).into_response();
        }
        if path == "/api/v1/session" && method == Method::POST {
            let name = cookie_name(&self.rest.guard.cookie, &head.headers);
            return to_the_end(self.begin_session(peer, name, body)).await;
        }
        let (server, asked, shown) = (Arc::clone(&self), peer.clone(), credentials.clone());
        let unattended = is_unattended(&path, &head.headers);
        let callers = if self.rest.guard.asks_directory(&peer, &credentials) { &self.directory } else { &self.callers }.clone();
        let caller = blocking_on(&callers, move || server.rest.guard.caller(&asked, &shown, unattended)).await;
        let caller = match caller {
            Ok(caller) => caller,
            Err(error) => {
                self.note_refusal(&peer, &error);
                return error.into_response();
            }
        };
        is_known.store(true, Ordering::Relaxed);
        if changes && caller.via == Via::Session && text(&head.headers, "x-stria-csrf") != caller.csrf.as_deref() {
            return forbidden("a session's request needs the header x-stria-csrf").into_response();
        }
        if method == Method::GET {
            match path.as_str() {
                "/api/v1/openapi.json" => return json(self.document.clone()),
                "/api/v1/stream" => {
                    let last = text(&head.headers, "last-event-id");
                    return self.stream(peer, credentials, caller, callers, last).await;
                }
                path if path.starts_with("/api/v1/reports/") => return self.report(&path["/api/v1/reports/".len()..]).await,
                "/metrics" => return self.figures().await,
                _ => {}
            }
        }
        let query = head.uri.query().unwrap_or_default().to_owned();
        to_the_end(async move { self.carry_out(&peer, caller, &method, &path, &query, body).await }).await
    }

    /// The stream of what changes, to a client that shows it.
    async fn stream(
        self: Arc<Self>,
        peer: Peer,
        credentials: Shown,
        caller: Caller,
        callers: Handle,
        last: Option<&str>,
    ) -> Response<Body> {
        let rest = Arc::clone(&self.rest);
        let state = match blocking(move || Ok(rest.state())).await {
            Ok(state) => serde_json::to_string(&state).expect("a state is plain data"),
            Err(error) => return error.into_response(),
        };
        let Some(held) = self.waiting.hold(stream::memory_of(&state)) else { return unread().into_response() };
        let feed = stream::Feed { seen: self.seen.subscribe(), callers, held };
        stream::answer(Arc::clone(&self.rest), peer, credentials, caller, feed, &state, last)
    }

    /// A stored report, by its name as the path has it.
    async fn report(self: Arc<Self>, name: &str) -> Response<Body> {
        let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned();
        let page = blocking(move || Ok(reports::page(&self.rest.machine.state, &name))).await;
        page.unwrap_or_else(IntoResponse::into_response)
    }

    /// The figures for Prometheus.
    async fn figures(self: Arc<Self>) -> Response<Body> {
        match blocking(move || self.rest.machine.monitor.figures()).await {
            Ok(text) => ([(header::CONTENT_TYPE, crate::monitor::TEXT)], text).into_response(),
            Err(error) => error.into_response(),
        }
    }

    async fn carry_out(
        self: Arc<Self>,
        peer: &Peer,
        caller: Caller,
        method: &Method,
        path: &str,
        query: &str,
        body: Vec<u8>,
    ) -> Response<Body> {
        let (index, name) = match self.route_of(method, path) {
            Ok(found) => found,
            Err(refusal) => return *refusal,
        };
        let route = &self.routes[index];
        let (status, least, by) = (route.status, route.role, caller.shown());
        // A plan and a forecast are questions.
        let is_order = *method != Method::GET && !matches!(path, "/api/v1/plans" | "/api/v1/config/check" | "/api/v1/forecast");
        // Refusals are counted by user: a new process must not begin a new count.
        let origin = format!("{} as {}", peer.origin(), caller.name);
        if caller.role < least {
            let (role, mine) = (least.word().to_owned(), caller.role.word().to_owned());
            let error = forbidden(ErrorSentence::NeedsRole { role, name: caller.name.clone(), mine });
            // Nothing that the caller has written.
            if is_order && self.refused(format!("{origin}, without the role"), 1).is_some() {
                let order = order_words(method.as_str(), &format!("/api/v1{}", route.path), "");
                let (reason, cause) = error.words().parts();
                let said = ServiceSentence::OrderForbidden { by, order, reason, cause };
                self.rest.machine.service.events().push(view::said_event("", "ordered", said));
            }
            return error.into_response();
        }
        if is_order && self.orders.lock().unwrap_or_else(PoisonError::into_inner).count(origin.clone(), ORDERS_MAX).is_none() {
            if self.refused(format!("{origin}, too many orders"), 1).is_some() {
                let text = format!(
                    "{by} was refused: more than {ORDERS_MAX} orders within a minute; further ones within the minute are not recorded"
                );
                self.rest.machine.service.events().push(view::plain_event("", "ordered", text));
            }
            let said = ErrorSentence::TooManyOrders { name: caller.name, most: ORDERS_MAX };
            return ApiError::new(ApiErrorKind::TooMany, said).into_response();
        }
        let (recorded, array) = recorded_of(path, &body);
        let (server, query) = (Arc::clone(&self), query.to_owned());
        let call = RawCall { rest: Arc::clone(&self.rest), caller, name, query, body };
        let outcome = blocking(move || (server.routes[index].work)(call)).await;
        if is_order {
            let order = match order_words(method.as_str(), cut(path, SHOWN_BYTES_MAX), &recorded) {
                OrderSentence::OrderOther { text } => OrderSentence::OrderOther { text: cut(&text, SHOWN_BYTES_MAX).to_owned() },
                order => order,
            };
            match &outcome {
                // Jobs note their orders themselves, before they begin.
                Ok(_) if matches!(path, "/api/v1/actions" | "/api/v1/jobs") => {}
                Ok(_) => self.note_order(&array, ServiceSentence::OrderTaken { by, order }),
                Err(error) => self.note_refused_order(error, by, order, &array, origin),
            }
        }
        match outcome {
            Ok(answer) => {
                let mut response = json(answer);
                *response.status_mut() = status;
                response
            }
            Err(error) => error.into_response(),
        }
    }

    /// The route of a path below `/api/v1`, by its index, and the name in the path.
    fn route_of(&self, method: &Method, path: &str) -> Result<(usize, String), Box<Response<Body>>> {
        let matches = |below: &str| -> Vec<(usize, String)> {
            self.routes.iter().enumerate().filter_map(|(index, route)| Some((index, route.matches(below)?))).collect()
        };
        let here = path.strip_prefix("/api/v1").map(matches).unwrap_or_default();
        here.iter().find(|(index, _)| self.routes[*index].method == *method).cloned().ok_or_else(|| {
            Box::new(match here.is_empty() {
                true => ApiError::new(ApiErrorKind::NotFound, "there is nothing at this path; see /api/v1/openapi.json")
                    .into_response(),
                false => refuse(StatusCode::METHOD_NOT_ALLOWED, "this path has other methods; see /api/v1/openapi.json"),
            })
        })
    }

    /// Records an order, or its refusal.
    fn note_order(&self, array: &str, said: ServiceSentence) {
        self.rest.machine.service.events().push(view::said_event(cut(array, ARRAY_BYTES_MAX), "ordered", said));
    }

    /// Records the refusal of an order, if not too many of its origin have been.
    fn note_refused_order(&self, error: &ApiError, by: String, order: OrderSentence, array: &str, origin: String) {
        // A text that is cut has no sentence: that would have the rest.
        let (text, cause) = error.words().parts();
        let reason = cut(&text, SHOWN_BYTES_MAX).to_owned();
        let cause = if reason == text { cause } else { None.into() };
        match self.refused(origin, REFUSED_ORDERS_MAX) {
            Some(REFUSED_ORDERS_MAX) => self.note_order(array, ServiceSentence::OrderRefusedLast { by, order, reason, cause }),
            Some(_) => self.note_order(array, ServiceSentence::OrderRefused { by, order, reason, cause }),
            None => {}
        }
    }

    async fn begin_session(self: Arc<Self>, peer: Peer, cookie_name: String, body: Vec<u8>) -> Response<Body> {
        let begun = match serde_json::from_slice(&body) {
            Ok(Login::Token { token }) => {
                let (server, asked) = (Arc::clone(&self), peer.clone());
                blocking_on(&self.callers, move || server.rest.guard.begin(&asked, &token)).await.map_err(Refusal::from)
            }
            Ok(Login::Account { user, password }) => self.rest.accounts.log_in(&self.rest.guard, &peer, user, password).await,
            Err(_) => {
                let text = "a session begins with {\"token\": \"…\"} or {\"user\": \"…\", \"password\": \"…\"}";
                return ApiError::new(ApiErrorKind::Invalid, text).into_response();
            }
        };
        match begun {
            Ok(Begun { number, caller, count }) => {
                let secure = if matches!(peer, Peer::Tls { .. }) { "; Secure" } else { "" };
                let cookie =
                    format!("{cookie_name}={number}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", LASTS.as_secs());
                if count <= LOGINS_SHOWN {
                    let further =
                        if count == LOGINS_SHOWN { "; its further ones within the minute are not recorded" } else { "" };
                    let text = format!("{} began a session{further}", caller.shown());
                    self.rest.machine.service.events().push(view::plain_event("", "ordered", text));
                }
                ([(header::SET_COOKIE, cookie)], axum::Json(caller.who())).into_response()
            }
            Err(Refusal { error, record }) => {
                match record {
                    Some(text) => self.rest.machine.service.events().push(view::plain_event("", "ordered", text)),
                    None => self.note_refusal(&peer, &error),
                }
                error.into_response()
            }
        }
    }

    /// Refuses a request on the unix socket that names another machine: a browser was led here by somebody else's name.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = text(headers, header::HOST).unwrap_or_default();
        let name = match host.rfind(':') {
            Some(colon) if !host.ends_with(']') => &host[..colon],
            _ => host,
        };
        match self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            true => Ok(()),
            false => Err(forbidden(ErrorSentence::NoNameOfMachine { host: host.to_string() })),
        }
    }

    /// Makes an event of a refusal, now and then.
    fn note_refusal(&self, peer: &Peer, error: &ApiError) {
        if self.refused(peer.origin(), 1).is_some() {
            let text = format!("{} was refused by the API: {}", peer.shown(), error.message);
            self.rest.machine.service.events().push(view::plain_event("", "ordered", text));
        }
    }

    fn refused(&self, origin: String, most: u32) -> Option<u32> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).count(origin, most)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, ApiError> + Send + 'static) -> Result<T, ApiError> {
    blocking_on(&Handle::current(), work).await
}

async fn blocking_on<T: Send + 'static>(
    threads: &Handle,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let outcome = threads.spawn_blocking(work).await;
    outcome.unwrap_or_else(|panic| {
        Err(ApiError::new(ApiErrorKind::Failed, ErrorSentence::InternalError { reason: panic.to_string() }))
    })
}

fn json(text: impl Into<Body>) -> Response<Body> {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

fn refuse(status: StatusCode, words: &'static str) -> Response<Body> {
    with(status, ApiError::new(ApiErrorKind::Invalid, words))
}

/// A refusal with a status of its own.
fn with(status: StatusCode, error: ApiError) -> Response<Body> {
    let mut response = error.into_response();
    *response.status_mut() = status;
    response
}

fn static_file(path: &str, method: &Method, headers: &HeaderMap) -> Response<Body> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "files are only read");
    }
    let accepts = |name, what: &str| text(headers, name).is_some_and(|value| value.contains(what));
    let found = page::file(path, accepts(header::ACCEPT_ENCODING, "gzip"), accepts(header::ACCEPT, "text/html"));
    let Some(file) = found else { return refuse(StatusCode::NOT_FOUND, "there is no such file") };
    let mut response = ([(header::CONTENT_TYPE, file.media)], file.bytes).into_response();
    if file.is_gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_and_what_the_page_asks_by_itself_are_no_use_of_a_session() {
        let (none, mut marked) = (HeaderMap::new(), HeaderMap::new());
        marked.insert("x-stria-unattended", HeaderValue::from_static("1"));
        assert!(is_unattended("/api/v1/stream", &none) && is_unattended("/api/v1/drives", &marked));
        assert!(!is_unattended("/api/v1/drives", &none));
    }

    /// Before, a login to a daemon on another port of the host ended the session with this one.
    #[test]
    fn daemons_on_two_ports_of_a_host_have_cookies_of_their_own() {
        let at = |own: &str, host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            headers.insert(
                header::COOKIE,
                HeaderValue::from_static("own=none; own_8443=one; own_9443=two; other=three; other_8443=four"),
            );
            (cookie_name(own, &headers), shown(own, &headers).session.expect("a session"))
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(at("own", "box.example:8443"), pair("own_8443", "one"));
        assert_eq!(at("other", "box.example:8443"), pair("other_8443", "four"), "another daemon behind the same proxy");
        assert_eq!(at("own", "[fd00::1]:9443"), pair("own_9443", "two"));
        assert_eq!(at("own", "box.example"), pair("own", "none"), "a proxy at the usual port");
        assert_eq!(at("own", "[fd00::1]").0, "own");
        // Nothing but a number comes into the answer's head.
        assert_eq!(at("own", "box.example:8443; Domain=x").0, "own");
    }

    /// HSTS covers every port of a host: a browser would refuse plain HTTP on the others for as long. This port speaks TLS alone,
    /// and needs no HSTS.
    #[test]
    fn no_answer_binds_other_ports_of_the_host() {
        let answer = guarded(Response::new(Body::empty()));
        assert!(answer.headers().contains_key(header::CONTENT_SECURITY_POLICY));
        assert!(!answer.headers().contains_key(header::STRICT_TRANSPORT_SECURITY));
    }
}
