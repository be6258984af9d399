//! The other commands' end of the control socket: one HTTP request at a time, waited for.

use crate::api::{ApiError, ApiErrorKind, ArrayView, ErrorBody};
use crate::failure::Failure;
use crate::sockets;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A `serve` that can be talked to.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

type Boxed = Box<dyn std::error::Error + Send + Sync>;

impl Client {
    /// The one that listens at `socket`, if there is any.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks for what lies at a path of the API.
    ///
    /// # Errors
    /// The service's refusal, or that it cannot be reached.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.send(Method::GET, path, &())
    }

    /// Sends a command.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        let exchange = async {
            let stream = tokio::net::UnixStream::connect(&self.socket).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let body = if method == Method::GET { Vec::new() } else { serde_json::to_vec(body)? };
            let request = Request::builder().method(method).uri(path).header("host", "stria");
            let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)))?;
            let response = sender.send_request(request).await?;
            let ok = response.status().is_success();
            Ok::<_, Boxed>((ok, response.into_body().collect().await?.to_bytes()))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(Failure::failed)?;
        let told = |error: &dyn std::fmt::Display| {
            let socket = self.socket.display();
            Failure::Failed(format!("no answer from the serve at {socket}: {error}; does it run? (`stria status` lists all)"))
        };
        let (ok, bytes) = runtime.block_on(exchange).map_err(|error| told(&error))?;
        if ok {
            return serde_json::from_slice(&bytes).map_err(|error| told(&error));
        }
        let error = serde_json::from_slice(&bytes).map(|body: ErrorBody| body.error);
        Err(error.unwrap_or_else(|_| ApiError::new(ApiErrorKind::Failed, String::from_utf8_lossy(&bytes))).into())
    }
}

/// Every `serve` that answers, with what it serves.
pub fn services(socket: Option<&Path>) -> Result<Vec<(Client, Vec<ArrayView>)>, Failure> {
    if let Some(socket) = socket {
        let client = Client::at(socket);
        let arrays = client.get("/v1/arrays")?;
        return Ok(vec![(client, arrays)]);
    }
    // Sockets of dead serves do not answer, and are nobody's concern.
    let clients = sockets::all().into_iter().map(Client::at);
    Ok(clients.filter_map(|client| client.get("/v1/arrays").ok().map(|arrays| (client, arrays))).collect())
}

/// The `serve` that has the array called `name`.
///
/// # Errors
/// When there is none, or more than one.
pub fn find(socket: Option<&Path>, name: &str) -> Result<(Client, ArrayView), Failure> {
    let services = services(socket)?;
    let known: Vec<String> = services.iter().flat_map(|(_, arrays)| arrays.iter().map(|array| array.name.clone())).collect();
    let mut found: Vec<(Client, ArrayView)> = services
        .into_iter()
        .flat_map(|(client, arrays)| arrays.into_iter().map(move |array| (client.clone(), array)))
        .filter(|(_, array)| array.name == name || array.full_name == name || array.uuid == name)
        .collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 if known.is_empty() => {
            Err(Failure::Failed(format!("no array is served, so none is called \"{name}\": start one with `stria serve`")))
        }
        0 => Err(Failure::Failed(format!("no array \"{name}\" is served; served are: {}", known.join(", ")))),
        _ => {
            let sockets: Vec<String> = found.iter().map(|(client, _)| client.socket.display().to_string()).collect();
            Err(Failure::Failed(format!("several arrays \"{name}\" are served ({}): choose with --socket", sockets.join(", "))))
        }
    }
}

/// The API's path of an array, with what cannot stand in a path escaped.
pub fn array_path(name: &str, rest: &str) -> String {
    format!("/v1/arrays/{}{rest}", percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC))
}
