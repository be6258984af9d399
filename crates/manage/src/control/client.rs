//! The client side of the control socket: one HTTP request at a time. The wait is bounded, as a server may be stopped, or stuck
//! in a drive that hangs.

use crate::api::{AdoptedState, AdoptedView, ApiError, ApiErrorKind, ArrayView, ErrorBody};
use crate::control::sockets;
use crate::view::no_array_served;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_block::shown_sentence;
use stria_front::socket_owner;
use stria_terminal::Failure;

/// How long a query to one server may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a command may take. It may wait for drives.
const DONE: Duration = Duration::from_secs(180);
/// How long an order to the daemon's keeper may take: longer than the keeper's own bound, whose words say what goes on.
pub const KEEPER_DONE: Duration = Duration::from_secs(330);
/// How long the query that goes to every serve may take.
const GLANCE: Duration = Duration::from_millis(1800);
/// How long a command waits for a serve of a busy machine that may have its array.
const PATIENCE: Duration = Duration::from_secs(15);

/// A `serve` that can be reached.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

/// As many connections wait for the server as the system lets wait.
#[derive(Debug, thiserror::Error)]
#[error("its queue of connections is full")]
struct QueueIsFull;

type Boxed = Box<dyn std::error::Error + Send + Sync>;

impl Client {
    /// The serve that listens at `socket`, if there is one.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The process that listens there, if there is one and the system reports it.
    fn listener(&self) -> Option<Option<i32>> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).ok()?;
        let address = SocketAddrUnix::new(&self.socket).ok()?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => Some(socket_peercred(&socket).ok().map(|peer| peer.pid.as_raw_nonzero().get())),
            // The queue of connections is full.
            Err(Errno::AGAIN) => Some(socket_owner(&self.socket).and_then(|pid| i32::try_from(pid).ok())),
            Err(_) => None,
        }
    }

    /// The refusal of a connection because as many wait as the system lets wait.
    fn queue_is_full(&self) -> Failure {
        let pid = self.listener().flatten();
        let what = pid.map_or_else(
            || "find its process with `ss -xlp`, and end and start it again".into(),
            |pid| format!("`kill -CONT {pid}` lets it go on if it was stopped; if that does not help, end it with `kill {pid}` and start it again"),
        );
        Failure::Failed(format!("{} does not answer, and its queue of connections is full: {what}", self.who()))
    }

    fn who(&self) -> String {
        let pid = self.listener().flatten().map_or_else(String::new, |pid| format!(" (pid {pid})"));
        format!("the server at {}{pid}", self.socket.display())
    }

    /// Reads a path of the API.
    ///
    /// # Errors
    /// The service's refusal, or that it cannot be reached.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.exchange(Method::GET, path, &(), Some(ANSWER))
    }

    /// Sends a command.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.exchange(method, path, body, Some(DONE))
    }

    /// Sends an order that the daemon's keeper carries out: it may start arrays.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn order<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.order_within(KEEPER_DONE, path, body)
    }

    /// The same with another limit.
    pub(crate) fn order_within<T: DeserializeOwned>(
        &self,
        patience: Duration,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.exchange(Method::POST, path, body, Some(patience))
    }

    /// Sends a command without a time limit.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn send_long<T: DeserializeOwned>(&self, method: Method, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.exchange(method, path, body, None)
    }

    fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
        patience: Option<Duration>,
    ) -> Result<T, Failure> {
        let exchange = async {
            let stream = tokio::net::UnixStream::connect(&self.socket).await.map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => Boxed::from(QueueIsFull),
                _ => error.into(),
            })?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let body = if method == Method::GET { Vec::new() } else { serde_json::to_vec(body)? };
            let request = Request::builder().method(method).uri(path).header("host", "stria");
            let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)))?;
            let response = sender.send_request(request).await?;
            let ok = response.status().is_success();
            Ok::<_, Boxed>((ok, response.into_body().collect().await?.to_bytes()))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
        let failed = |error: &dyn std::fmt::Display| {
            let socket = self.socket.display();
            Failure::Failed(format!(
                "the server at {socket} does not answer: {error}; is it running? (`stria status` lists all servers)"
            ))
        };
        let in_time = async {
            match patience {
                Some(patience) => tokio::time::timeout(patience, exchange).await.map_err(|_| patience),
                None => Ok(exchange.await),
            }
        };
        let (ok, bytes) = match runtime.block_on(in_time) {
            Ok(outcome) => outcome.map_err(|error| match error.is::<QueueIsFull>() {
                true => self.queue_is_full(),
                false => failed(&error),
            })?,
            Err(patience) => {
                let (who, seconds) = (self.who(), patience.as_secs_f64());
                let what = "it is stopped, or stuck; see its log";
                return Err(Failure::Failed(format!("{who} does not answer (waited for {seconds:.1} s): {what}")));
            }
        };
        if ok {
            return serde_json::from_slice(&bytes).map_err(|error| failed(&error));
        }
        let error = serde_json::from_slice(&bytes).map(|body: ErrorBody| body.error);
        Err(error.unwrap_or_else(|_| ApiError::new(ApiErrorKind::Failed, String::from_utf8_lossy(&bytes).into_owned())).into())
    }
}

/// Exit code of a look at all servers when one of them, or an array, does not answer.
pub const NO_ANSWER: u8 = 1;

/// A `serve` that takes connections and does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SilentServe {
    /// Its control socket.
    pub socket: PathBuf,
    /// The process, if the system reports it.
    pub pid: Option<i32>,
    /// In words.
    pub error: String,
}

/// The serves that answer, with their arrays, and those that do not.
pub type Survey = (Vec<(Client, Vec<ArrayView>)>, Vec<SilentServe>);

/// Every `serve`.
///
/// # Errors
/// When there is none at `socket`.
pub fn survey(socket: Option<&Path>) -> Result<Survey, Failure> {
    survey_within(socket, GLANCE)
}

fn survey_within(socket: Option<&Path>, patience: Duration) -> Result<Survey, Failure> {
    let sockets = socket.map_or_else(sockets::all, |socket| vec![socket.to_owned()]);
    let ask = move |path: PathBuf| {
        let client = Client::at(path);
        let arrays: Result<Vec<ArrayView>, _> = client.exchange(Method::GET, "/v1/arrays", &(), Some(patience));
        (client, arrays)
    };
    // All at once: one that does not answer must not delay the others' answers.
    let begin = |path: PathBuf| {
        let asked = path.clone();
        std::thread::Builder::new().spawn(move || ask(asked)).map_err(|_| path)
    };
    let asked: Vec<_> = sockets.into_iter().map(begin).collect();
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for thread in asked {
        let answer = thread.map_or_else(|path| Ok(ask(path)), std::thread::JoinHandle::join);
        let Ok((client, arrays)) = answer else { continue };
        match arrays {
            Ok(arrays) => found.push((client, arrays)),
            // Sockets of dead serves take no connections, and need no report.
            Err(error) => match client.listener() {
                Some(pid) => silent.push(SilentServe { socket: client.socket, pid, error: error.to_string() }),
                None if socket.is_some() => return Err(error),
                None => {}
            },
        }
    }
    Ok((found, silent))
}

/// As [`survey`], for a command that needs an answer.
///
/// # Errors
/// When none answers.
pub fn services(socket: Option<&Path>) -> Result<(Vec<(Client, Vec<ArrayView>)>, Vec<SilentServe>), Failure> {
    let (found, silent) = survey(socket)?;
    match silent.first().filter(|_| found.is_empty()) {
        Some(silent) => Err(Failure::Failed(silent.error.clone())),
        None => Ok((found, silent)),
    }
}

/// A line for each.
pub fn silent_words(silent: &[SilentServe]) -> String {
    silent.iter().map(|silent| format!("{}\n", shown_sentence(&silent.error))).collect()
}

/// The `serve` that has the array called `name`. A serve that does not answer at once may have it, and is waited for.
///
/// # Errors
/// When there is none, or more than one.
pub fn find(socket: Option<&Path>, name: &str) -> Result<(Client, ArrayView), Failure> {
    let (found, silent) = survey(socket)?;
    match find_among(&found, &silent, socket, name) {
        Err(_) if !silent.is_empty() => {
            let (found, silent) = survey_within(socket, PATIENCE)?;
            find_among(&found, &silent, socket, name)
        }
        known => known,
    }
}

/// The same, from the serves that answer at once.
///
/// # Errors
/// As [`find`].
pub fn find_at_once(socket: Option<&Path>, name: &str) -> Result<(Client, ArrayView), Failure> {
    let (found, silent) = survey(socket)?;
    find_among(&found, &silent, socket, name)
}

fn find_among(
    services: &[(Client, Vec<ArrayView>)],
    silent: &[SilentServe],
    socket: Option<&Path>,
    name: &str,
) -> Result<(Client, ArrayView), Failure> {
    let known: Vec<String> =
        services.iter().flat_map(|(_, arrays)| arrays.iter().map(|array| array.identity.name.clone())).collect();
    let all = services.iter().flat_map(|(client, arrays)| arrays.iter().map(|array| (client.clone(), array.clone())));
    // The name under which an array is served has precedence over the name on disk, which another array may have too.
    let (mut found, others): (Vec<_>, Vec<_>) = all.partition(|(_, array)| array.identity.name == name);
    if found.is_empty() {
        found = others.into_iter().filter(|(_, array)| array.identity.full_name == name || array.identity.uuid == name).collect();
    }
    if found.is_empty() {
        let is_it = |array: &AdoptedView| array.name == name || array.uuid == name;
        let waits = adopted(socket).into_iter().find(|array| is_it(array) && array.state != AdoptedState::Served);
        if let Some(array) = waits {
            return Err(Failure::Failed(format!("array \"{name}\" is not served: {}", array.text)));
        }
    }
    match found.len() {
        0 if !silent.is_empty() => {
            let errors: Vec<&str> = silent.iter().map(|silent| &*silent.error).collect();
            let what = format!("no server that answers has an array \"{name}\", and {}", errors.join("; "));
            Err(Failure::Failed(what))
        }
        1 => Ok(found.remove(0)),
        0 => Err(Failure::failed(no_array_served(name, &known))),
        _ => {
            let sockets: Vec<String> = found.iter().map(|(client, _)| client.socket.display().to_string()).collect();
            Err(Failure::Failed(format!("several arrays \"{name}\" are served ({}): choose with --socket", sockets.join(", "))))
        }
    }
}

/// The daemon, if one runs.
pub fn daemon(socket: Option<&Path>) -> Option<Client> {
    let sockets = socket.map_or_else(sockets::of_daemons, |socket| vec![socket.to_owned()]);
    sockets.into_iter().map(Client::at).find(|client| client.listener().is_some())
}

/// The arrays of the daemon's configuration; none if no daemon runs.
pub fn adopted(socket: Option<&Path>) -> Vec<AdoptedView> {
    let Some(daemon) = daemon(socket) else { return Vec::new() };
    // A serve, which `--socket` may name, has no such path.
    daemon.exchange(Method::GET, "/v1/adopted", &(), Some(GLANCE)).unwrap_or_default()
}

/// The API's path of an array. Characters that a path cannot hold are escaped.
pub fn array_path(name: &str, rest: &str) -> String {
    format!("/v1/arrays/{}{rest}", percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC))
}
