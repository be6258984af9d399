//! The options of the NBD server: where it listens, who may connect, and how much they may use.

use crate::system::directory::group;
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use listenfd::ListenFd;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use stria_front::{FrontError, Inherited, Listener, Options, Server, ServerHandle, SocketAccess, TlsConfig};
use stria_terminal::{Failure, absolute, size};

/// How arrays are served over NBD.
#[derive(Args, Clone, Debug)]
pub struct NbdOptions {
    /// Where NBD clients connect: unix:PATH or tcp:HOST:PORT; repeat for more. The default is the sockets that systemd passes, or
    /// else a unix socket beside the control socket.
    #[arg(long = "nbd", value_name = "ADDRESS")]
    pub listen: Vec<Listen>,
    /// Permissions of unix sockets for NBD, in octal: 0660 lets the group connect too. The default is 0700 (only root and the
    /// user of the server), or 0660 with --nbd-group.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub nbd_mode: Option<u32>,
    /// Group of unix sockets for NBD, by name or number.
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub nbd_group: Option<u32>,
    /// Allow TCP clients of these addresses only: 192.0.2.7, 192.0.2.0/24 or 2001:db8::/64; repeat for more.
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    pub nbd_allow: Vec<IpNet>,
    /// Encrypt NBD over TCP: a PEM file with this server's certificate and the chain to its authority.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The PEM file with the key of --tls-cert.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Accept only TLS clients with a certificate of an authority in this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
    /// Whether TCP clients must use TLS (the default with --tls-cert) or may. On unix sockets they may.
    #[arg(long, value_enum, value_name = "WHEN", requires = "tls_cert")]
    pub tls: Option<Tls>,
    /// Allow a TCP address that other machines reach, without client certificates: any client that reaches the port can read and
    /// write the array.
    #[arg(long)]
    pub nbd_insecure: bool,
    /// The most NBD clients at a time. One user or address gets at most three quarters of them. A new client replaces a client
    /// that has never sent a request; other clients stay.
    #[arg(long, value_name = "COUNT", default_value = "128", value_parser = clients)]
    pub nbd_clients: usize,
    /// Memory for requests and replies of all NBD clients together, at least 1 MiB for each client.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size::parse)]
    pub nbd_memory: u64,
}

/// Which TCP clients use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tls {
    /// All clients.
    Required,
    /// Clients that ask for it.
    Offered,
}

/// Where NBD clients connect, as written on the command line.
#[derive(Clone, Debug)]
pub struct Listen(Listener);

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self(Listener::Unix(absolute(Path::new(path))))),
            Some(("tcp", address)) => {
                let mut found = address.to_socket_addrs().map_err(|error| format!("{address}: {error}; write tcp:HOST:PORT"))?;
                found.next().map(|address| Self(Listener::Tcp(address))).ok_or_else(|| format!("{address} has no address"))
            }
            _ => Err("write unix:PATH or tcp:HOST:PORT".into()),
        }
    }
}

impl NbdOptions {
    /// Refuses, before anything is changed, what cannot work, and to expose an array to other machines by accident.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the remedy.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_keys()?;
        // Unusable files are reported before drives are opened.
        self.tls_config().map(|_| ())
    }

    /// The same for the daemon's configuration: says what follows there.
    ///
    /// # Errors
    /// The option or file that is wrong.
    pub fn check_for_daemon(&self) -> Result<(), Failure> {
        self.check_keys()?;
        let told = |failure| Failure::Failed(format!("[nbd]: {failure}: {}", no_tls("NBD")));
        self.tls_config().map(|_| ()).map_err(told)
    }

    /// The same without reading files.
    ///
    /// # Errors
    /// The option that is wrong, and the remedy.
    pub fn check_keys(&self) -> Result<(), Failure> {
        self.check_insecure(self.listen.iter().map(|listen| &listen.0))?;
        let (clients, memory, least) = (self.nbd_clients, self.nbd_memory, (self.nbd_clients as u64) << 20);
        if memory < least {
            return Err(Failure::Usage(format!(
                "--nbd-memory {} is too little for {clients} clients: give at least {}, or lower --nbd-clients",
                size::show(memory),
                size::show(least)
            )));
        }
        Ok(())
    }

    fn check_insecure<'a>(&self, mut listeners: impl Iterator<Item = &'a Listener>) -> Result<(), Failure> {
        let open = listeners.find(|listener| match listener {
            Listener::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Listener::Unix(_) => false,
        });
        let (encrypts, knows) = (self.tls_cert.is_some() && self.requires_tls(), self.tls_ca.is_some());
        match open {
            None => Ok(()),
            Some(_) if encrypts && knows => Ok(()),
            Some(listener) if self.nbd_insecure => {
                tracing::warn!("anyone who reaches {listener} may read and write: no client needs a certificate there");
                Ok(())
            }
            Some(listener) if encrypts => Err(Failure::Usage(format!(
                "other machines reach {listener}, and TLS without --tls-ca asks no client for a certificate: anyone there could read \
                 and write. Give --tls-ca FILE, or insist with --nbd-insecure"
            ))),
            Some(listener) => Err(Failure::Usage(format!(
                "other machines reach {listener}, and NBD without TLS has neither password nor encryption: anyone there could read and \
                 write. Give --tls-cert, --tls-key and --tls-ca, use tcp:127.0.0.1:PORT or unix:PATH and a tunnel (ssh -L), or insist \
                 with --nbd-insecure"
            ))),
        }
    }

    fn requires_tls(&self) -> bool {
        self.tls != Some(Tls::Offered)
    }

    fn tls_config(&self) -> Result<Option<TlsConfig>, Failure> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        TlsConfig::load(cert, key, self.tls_ca.as_deref(), self.requires_tls()).map(Some).map_err(Failure::failed)
    }

    /// A server that does not listen yet. `own`: its unix socket if it is given no other.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn server(&self, own: &Path) -> Result<ServerHandle, Failure> {
        let inherited = inherited()?;
        let listeners = match self.listen.is_empty() {
            true if inherited.is_empty() => vec![Listener::Unix(own.to_owned())],
            _ => self.listen.iter().map(|listen| listen.0.clone()).collect(),
        };
        self.server_on(listeners, inherited, self.tls_config()?)
    }

    /// The same for a process that serves arrays all the same if it cannot serve TCP clients: because of certificate, key or
    /// authorities, without which they would connect without encryption, or because another program has the port.
    ///
    /// # Errors
    /// When it cannot listen on unix sockets.
    pub fn server_anyhow(&self, own: &Path) -> Result<NbdStart, Failure> {
        let (tcp, inherited): (Vec<Inherited>, Vec<Inherited>) =
            inherited()?.into_iter().partition(|socket| matches!(socket, Inherited::Tcp(_)));
        let address = |socket: &Inherited| match socket {
            Inherited::Tcp(socket) => socket.local_addr().ok().map(Listener::Tcp),
            Inherited::Unix(_) => None,
        };
        self.check_insecure(tcp.iter().filter_map(address).collect::<Vec<_>>().iter())?;
        let has_others = !self.listen.is_empty() || !tcp.is_empty() || !inherited.is_empty();
        let unix: Vec<Listener> = if has_others { self.listeners(false) } else { vec![Listener::Unix(own.to_owned())] };
        let path = |listener: &Listener| if let Listener::Unix(path) = listener { Some(path.clone()) } else { None };
        let mut sockets: Vec<PathBuf> = unix.iter().filter_map(path).collect();
        let server = self.server_on(unix, inherited, None)?;
        let mut late = LateTcp { listeners: self.listeners(true), inherited: tcp, why: None };
        if late.listeners.is_empty() && late.inherited.is_empty() && self.tls_cert.is_none() {
            return Ok(NbdStart { server, late_tcp: None, sockets });
        }
        late.open(self, |listeners, inherited, tls| server.add_listeners(listeners, inherited, tls));
        if late.why.is_some() && server.listeners().is_empty() {
            // Clients of this machine have a way at least.
            server.add_listeners(&[Listener::Unix(own.to_owned())], Vec::new(), None).map_err(Failure::failed)?;
            sockets.push(own.to_owned());
        }
        let is_late = late.why.is_some();
        Ok(NbdStart { server, late_tcp: is_late.then_some(late), sockets })
    }

    /// The addresses of the options: those on TCP, or unix sockets.
    fn listeners(&self, tcp: bool) -> Vec<Listener> {
        let is_tcp = |listener: &&Listen| matches!(listener.0, Listener::Tcp(_));
        self.listen.iter().filter(|listener| is_tcp(listener) == tcp).map(|listen| listen.0.clone()).collect()
    }

    /// The permissions of unix sockets that have a group.
    pub fn group_mode(&self) -> u32 {
        self.nbd_mode.unwrap_or(0o660)
    }

    fn server_on(
        &self,
        listeners: Vec<Listener>,
        inherited: Vec<Inherited>,
        tls: Option<TlsConfig>,
    ) -> Result<ServerHandle, Failure> {
        let alone = SocketAccess::default().mode;
        let mode = self.nbd_mode.unwrap_or(if self.nbd_group.is_some() { 0o660 } else { alone });
        let options = Options {
            socket_access: SocketAccess { mode, group: self.nbd_group },
            tls,
            allow: self.nbd_allow.clone(),
            ..Options::sized(self.nbd_clients, usize::try_from(self.nbd_memory).unwrap_or(usize::MAX))
        };
        let server = Server::prepare(listeners, inherited, options).map_err(Failure::failed)?;
        self.check_insecure(server.listeners().iter())?;
        Ok(server)
    }
}

/// The server of a process that serves arrays whatever becomes of TCP.
pub struct NbdStart {
    pub server: ServerHandle,
    /// What is left to be opened.
    pub late_tcp: Option<LateTcp>,
    /// The unix sockets that the server makes itself: those that systemd passes have systemd's permissions.
    pub sockets: Vec<PathBuf>,
}

/// Addresses on TCP that could not be opened yet.
pub struct LateTcp {
    listeners: Vec<Listener>,
    inherited: Vec<Inherited>,
    /// Why not; `None`: they are open.
    pub why: Option<String>,
}

impl LateTcp {
    /// Tries to open them with the files that `options` name.
    pub fn open(
        &mut self,
        options: &NbdOptions,
        add: impl FnOnce(&[Listener], Vec<Inherited>, Option<TlsConfig>) -> Result<(), FrontError>,
    ) {
        self.why = match options.tls_config() {
            Err(failure) => Some(format!("{failure}: {}", no_tls("NBD"))),
            Ok(tls) => {
                let inherited = self.inherited.iter().map(Inherited::try_clone).collect::<io::Result<Vec<_>>>();
                let added = inherited.map_err(|error| error.to_string());
                let added = added.and_then(|inherited| add(&self.listeners, inherited, tls).map_err(|error| error.to_string()));
                added.err().map(|error| format!("{error}; it is tried again, and arrays are served without NBD over TCP"))
            }
        };
    }
}

/// What follows for the daemon if files for TLS cannot be used.
pub fn no_tls(of: &str) -> String {
    format!("arrays and unix sockets are served, and {of} over TCP is not, until the file is good")
}

/// The listening sockets that systemd passes to this process (`sd_listen_fds(3)`). They outlive it, so clients that connect while
/// it restarts wait instead of being refused.
fn inherited() -> Result<Vec<Inherited>, Failure> {
    let mut passed = ListenFd::from_env();
    let mut found = Vec::new();
    for index in 0..passed.len() {
        let socket = match passed.take_unix_listener(index) {
            Ok(socket) => socket.map(Inherited::Unix),
            Err(_) => passed.take_tcp_listener(index).map(|socket| socket.map(Inherited::Tcp)).map_err(|error| {
                Failure::Failed(format!("file {} was passed as a socket and does not listen on unix or TCP: {error}", index + 3))
            })?,
        };
        found.extend(socket);
    }
    Ok(found)
}

pub(crate) fn clients(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=4096).contains(count));
    count.ok_or_else(|| format!("{text:?} is not a count of clients; write 1 to 4096"))
}

pub(crate) fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && !text.starts_with('+'));
    mode.ok_or_else(|| format!("{text:?} is not a mode; write it in octal, such as 0660"))
}

pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| format!("{text:?} is not an address or network; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/64"))
}
