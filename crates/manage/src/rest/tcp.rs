//! The API's addresses on TCP. Each is listened on as soon as the files for TLS are good and its port is free, also after a
//! reload.

use super::auth::read_tokens;
use crate::config::{self, ApiOptions};
use crate::fronts::nbd::no_tls;
use crate::service::Service;
use crate::view;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stria_front::TlsFiles;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A socket that listens, and how its connections are encrypted.
pub type Opened = (TcpListener, Arc<TlsFiles>);

/// The addresses of the configuration, and those that are listened on.
pub struct Tcp {
    service: Arc<Service>,
    api: Mutex<config::Api>,
    /// As they were configured: port 0 stands for any.
    listened: Mutex<Vec<SocketAddr>>,
    /// The files that are in force there.
    followed: Mutex<Vec<Arc<TlsFiles>>>,
    opened: UnboundedSender<Opened>,
    /// The file of tokens, as it was configured at the start.
    tokens: Option<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tcp {
    /// Nothing is listened on yet. Returns also where the sockets arrive.
    pub fn new(service: &Arc<Service>, api: config::Api) -> (Arc<Self>, UnboundedReceiver<Opened>) {
        let (opened, sockets) = unbounded_channel();
        let (service, listened, followed) = (Arc::clone(service), Mutex::default(), Mutex::default());
        let tokens = api.without_groups().ok().map(|options| options.tokens);
        (Arc::new(Self { service, api: Mutex::new(api), listened, followed, opened, tokens }), sockets)
    }

    /// Another configuration applies.
    pub fn set(&self, api: config::Api) {
        *lock(&self.api) = api;
    }

    /// Listens on all addresses that are not listened on yet.
    ///
    /// # Errors
    /// The file that cannot be used, also one that was renewed, or the address that cannot be listened on. Other addresses are.
    pub fn open(&self) -> Result<(), String> {
        let options = lock(&self.api).without_groups()?;
        let missing = self.missing(&options);
        if missing.is_empty() {
            return lock(&self.followed).iter().find_map(|tls| tls.fault()).map_or(Ok(()), Err);
        }
        let tls = options.tls_files().map_err(|error| format!("{error}: {}", no_tls("the API")))?;
        let Some(tls) = tls else { return Ok(()) };
        let count = missing.len();
        let failures: Vec<String> = missing.into_iter().filter_map(|address| self.listen(address, &tls).err()).collect();
        if failures.len() < count {
            tls.follow();
            lock(&self.followed).push(tls);
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    /// The fault of the file of tokens, if it has one. No token counts then.
    pub fn tokens_fault(&self) -> Option<String> {
        self.tokens.as_deref().and_then(|path| read_tokens(path).err())
    }

    fn missing(&self, options: &ApiOptions) -> Vec<SocketAddr> {
        let listened = lock(&self.listened);
        options.listen.iter().filter(|address| !listened.contains(address)).copied().collect()
    }

    fn listen(&self, address: SocketAddr, tls: &Arc<TlsFiles>) -> Result<(), String> {
        let cannot =
            |error| format!("{address} cannot be listened on: {error}; it is tried again, and arrays are served without it");
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        // The server ends with the process.
        let _ = self.opened.send((listener, Arc::clone(tls)));
        lock(&self.listened).push(address);
        self.service.events().push(view::plain_event("", "api", format!("the API is at https://{bound}")));
        Ok(())
    }
}
