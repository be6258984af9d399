//! The configuration of the daemon: which arrays belong to Stria on this machine, and how they are exported.
//!
//! It is one small file, `/etc/stria/stria.toml`, which people write and commands change (`edit`). Every key has a default. A key
//! that is not known is an error with its line, so that a misspelt one is not silently without effect.

mod api;
pub mod edit;
mod faults;
mod routine;
mod values;

pub use api::{Api, ApiGroup, ApiOptions, SystemAccounts};
pub use faults::Fault;
pub use routine::{ReplacementConfig, RoutineConfig};
pub use values::{Block, Patience, Uuid};

use crate::fronts::nbd::{Listen, NbdOptions, Tls};
use crate::fronts::ublk::UblkCopy;
use crate::monitor::{self, MonitorPlan};
use crate::settings::WriteMode;
use crate::system::directory::{LateGroup, group_or_late};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_alarm::AlarmConfig;
use stria_drive::{IoOptions, real_path_within};
use stria_health::HealthConfig;
use stria_host::{FirmwareRaid, OpenOptions};
use stria_terminal::Failure;

const NBD_GROUP: &str = "[nbd] group";

/// The file, unless `--config` or `$STRIA_CONFIG` says otherwise.
pub const PATH: &str = "/etc/stria/stria.toml";

/// The time that the resolution of a path may take.
pub const RESOLVE_WITHIN: Duration = Duration::from_secs(5);

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `[daemon]`
    pub daemon: Daemon,
    /// `[nbd]`
    pub nbd: Nbd,
    /// `[mdadm]`
    pub mdadm: Mdadm,
    /// `[api]`
    pub api: Api,
    /// `[metrics]`
    pub metrics: Metrics,
    /// `[alarms]`
    pub alarms: AlarmConfig,
    /// `[health]`
    pub health: HealthConfig,
    /// `[routine]`
    pub routine: RoutineConfig,
    /// `[replacement]`
    pub replacement: ReplacementConfig,
    /// `[spares]`
    pub spares: Spares,
    /// `[[array]]`, one for each array that belongs to Stria.
    #[serde(rename = "array")]
    pub arrays: Vec<Array>,
}

/// Settings of the daemon itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Daemon {
    /// The time that an array that could start waits for drives that it lacks.
    pub degraded_after: Patience,
    /// Image files to look at besides the machine's block devices, and folders with such files.
    pub search: Vec<PathBuf>,
    /// True if block devices are looked at.
    pub block_devices: bool,
    /// The folder for what the daemon remembers.
    pub state: PathBuf,
}

impl Daemon {
    /// The image files that it searches, those of its folders among them.
    pub fn images(&self) -> Vec<PathBuf> {
        self.search.iter().flat_map(|path| files(path)).collect()
    }
}

/// The image files that the configuration at `path` names. None if it cannot be read: what needs it says why.
pub fn images(path: &Path) -> Vec<PathBuf> {
    Config::read(path).map_or_else(|_| Vec::new(), |config| config.daemon.images())
}

/// The file, or the files of the folder, without links.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let real = real_path_within(path, RESOLVE_WITHIN);
    if !real.is_dir() {
        return if real.exists() { vec![real] } else { Vec::new() };
    }
    let entries = std::fs::read_dir(&real).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).map(|entry| entry.path()).collect();
    files.sort();
    files
}

impl Default for Daemon {
    fn default() -> Self {
        let (degraded_after, state) = (Patience::default(), "/var/lib/stria".into());
        Self { degraded_after, search: Vec::new(), block_devices: true, state }
    }
}

/// The addresses for NBD clients: the options of `stria serve --nbd…`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Nbd {
    /// Addresses, `unix:PATH` or `tcp:HOST:PORT`; if empty, systemd's sockets, or else one beside the control socket.
    pub listen: Vec<String>,
    /// Permissions of unix sockets, in octal.
    pub mode: Option<String>,
    /// Group of unix sockets.
    pub group: Option<String>,
    /// Networks that TCP clients may have.
    pub allow: Vec<String>,
    /// The server's certificate.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// The authorities of clients' certificates.
    pub tls_ca: Option<PathBuf>,
    /// `required` or `offered`.
    pub tls: Option<String>,
    /// Other machines may connect without a certificate.
    pub insecure: bool,
    /// The number of clients that may be connected.
    pub clients: usize,
    /// Memory for their requests.
    pub memory: String,
}

impl Default for Nbd {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            mode: None,
            group: None,
            allow: Vec::new(),
            tls_cert: None,
            tls_key: None,
            tls_ca: None,
            tls: None,
            insecure: false,
            clients: 128,
            memory: "512M".into(),
        }
    }
}

/// The pool of spares that arrays share.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spares {
    /// Its drives. Those that are blank may be taken.
    pub drives: Vec<PathBuf>,
    /// Whether a spare must be of the kind of the members: SSD or hard disk.
    pub kind: Likeness,
    /// Whether it must sit in their enclosure, where the machine knows enclosures.
    pub enclosure: Likeness,
}

impl Default for Spares {
    fn default() -> Self {
        Self { drives: Vec::new(), kind: Likeness::Same, enclosure: Likeness::Prefer }
    }
}

/// How a spare of the pool should be like the members of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Likeness {
    /// Only such drives are taken.
    Same,
    /// Such drives are taken first.
    Prefer,
    /// All are alike.
    Any,
}

/// The address for Prometheus, besides the control socket.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// `HOST:PORT`, or `PORT` on the loopback interface; nowhere if not given.
    pub listen: Option<String>,
}

/// The means that keep mdadm away from Stria's arrays.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mdadm {
    /// mdadm's configuration; where Debian or others have it if not given.
    pub conf: Option<PathBuf>,
}

/// An array that belongs to Stria.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Array {
    /// Its identity.
    pub uuid: Uuid,
    /// The name of its exports; its own name if not given.
    pub name: Option<String>,
    /// The identities of its spans, if it is a 50 or 60.
    #[serde(default)]
    pub spans: Vec<Uuid>,
    /// True if the daemon starts it by itself.
    #[serde(default = "yes")]
    pub start: bool,
    /// The block device that it becomes, if any.
    #[serde(default)]
    pub ublk: Block,
    /// The side that copies its data, as `serve --ublk-copy`.
    #[serde(default)]
    pub ublk_copy: UblkCopy,
    /// The sockets at which it is the disk of virtual machines.
    #[serde(default)]
    pub vhost_user: Vec<PathBuf>,
    /// Group that may connect to these sockets.
    pub vhost_user_group: Option<String>,
    /// Serve reads only.
    #[serde(default)]
    pub read_only: bool,
    /// When a write is acknowledged, as `serve --write`.
    #[serde(default)]
    pub write: WriteMode,
    /// The drives' own write caches, as `serve --drive-caches`.
    pub drive_caches: Option<bool>,
    /// The number of lanes.
    pub lanes: Option<u8>,
    /// The number of levels of arrays without marks on it, as for `serve --nested`.
    #[serde(default)]
    pub nested: u8,
    /// Poll for completions, as `serve --io-poll`.
    #[serde(default)]
    pub io_poll: bool,
    /// Send NVMe commands, as `serve --passthrough`.
    #[serde(default)]
    pub passthrough: bool,
}

fn yes() -> bool {
    true
}

impl Array {
    /// An array with the default of every other key.
    pub fn new(uuid: Uuid) -> Self {
        Self {
            uuid,
            name: None,
            spans: Vec::new(),
            start: true,
            ublk: Block::None,
            ublk_copy: UblkCopy::Server,
            vhost_user: Vec::new(),
            vhost_user_group: None,
            read_only: false,
            write: WriteMode::Safe,
            drive_caches: None,
            lanes: None,
            nested: 0,
            io_poll: false,
            passthrough: false,
        }
    }

    /// The name for people: the one it is exported by, or its identity.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.uuid.to_string())
    }

    /// True if `name` means this array.
    pub fn is_called(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name) || name.parse() == Ok(self.uuid)
    }

    /// True if a drive with a superblock of array `uuid`, a span of `upper`, belongs to it.
    pub fn owns(&self, uuid: Uuid, upper: Option<Uuid>) -> bool {
        uuid == self.uuid || upper == Some(self.uuid) || self.spans.contains(&uuid)
    }

    /// The options for opening it.
    pub fn how(&self) -> OpenOptions {
        OpenOptions {
            force: false,
            read_only: self.read_only,
            forget_checksums: false,
            nested: self.nested,
            firmware: FirmwareRaid::Left,
            io: IoOptions { poll: self.io_poll, passthrough: self.passthrough },
            write_policy: self.write.into(),
            drive_caches: self.drive_caches,
        }
    }
}

/// The configuration's path: as named on the command line, or [`PATH`].
pub fn path(named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| PATH.into(), stria_terminal::absolute)
}

impl Config {
    /// Reads and checks the file. One that is not there is empty: nothing belongs to Stria yet.
    ///
    /// # Errors
    /// When it cannot be read, with the line and the remedy.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|error| Failure::Failed(format!("{}{error}", path.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::Failed(format!("{} cannot be read: {error}", path.display()))),
        }
    }

    /// Parses and checks a configuration. The error begins with the line of the first fault, if one is to blame, for the file's
    /// name to precede it.
    ///
    /// # Errors
    /// Every fault that can be found, and its remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (config, faults) = faults::of_text(text);
        match (config, &faults[..]) {
            (Some(config), []) => Ok(config),
            (_, faults) => Err(Fault::all_after_name(faults)),
        }
    }

    /// Every fault of the file that can be found, and of what it names on this machine: groups, certificates and keys, the PAM
    /// service. Returns also what could be read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn check(path: &Path, alone: bool) -> Result<(Option<Self>, Vec<Fault>), Failure> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.map_err(|error| Failure::Failed(format!("{} cannot be read: {error}", path.display())))?,
        };
        Ok(if alone { faults::of_text(&text) } else { Self::check_text(&text) })
    }

    /// The same of a text.
    pub fn check_text(text: &str) -> (Option<Self>, Vec<Fault>) {
        faults::of_file(text)
    }

    /// Warnings of valid settings that may have no effect on this machine.
    pub fn warnings(&self) -> Vec<String> {
        faults::warnings(self, faults::has_unit())
    }

    /// The watch over the daemon's arrays.
    ///
    /// # Errors
    /// When a channel cannot work as it is configured.
    pub fn monitor_plan(&self) -> Result<MonitorPlan, Failure> {
        let metrics = self.metrics.listen.as_deref().map(monitor::address).transpose();
        let metrics = metrics.map_err(|error| Failure::Usage(format!("[metrics] listen: {error}")))?;
        MonitorPlan::of(self.alarms.clone(), metrics, self.health.clone())
    }

    /// True if a drive with a superblock of array `uuid` belongs to an array of the file at `path`. Reads nothing else of it:
    /// udev asks at boot, and a fault elsewhere must not hand drives to mdadm.
    ///
    /// # Errors
    /// When the file cannot be read, or is no TOML with arrays.
    pub fn names(path: &Path, uuid: Uuid) -> Result<bool, Failure> {
        #[derive(Default, Deserialize)]
        struct Arrays {
            #[serde(default)]
            array: Vec<Named>,
        }
        #[derive(Deserialize)]
        struct Named {
            uuid: Uuid,
            #[serde(default)]
            spans: Vec<Uuid>,
        }
        let arrays: Arrays = match std::fs::read_to_string(path) {
            Ok(text) => {
                toml::from_str(&text).map_err(|error| Failure::Failed(format!("{}: {}", path.display(), error.message())))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Arrays::default(),
            Err(error) => return Err(Failure::Failed(format!("{} cannot be read: {error}", path.display()))),
        };
        Ok(arrays.array.iter().any(|array| array.uuid == uuid || array.spans.contains(&uuid)))
    }

    /// The array that owns a drive with a superblock of array `uuid`.
    pub fn owner(&self, uuid: Uuid, upper: Option<Uuid>) -> Option<&Array> {
        self.arrays.iter().find(|array| array.owns(uuid, upper))
    }
}

/// The group of this name, if one is given. It is looked up when it is used, and not when the configuration is checked: the
/// machine's directory may not answer yet while it boots.
fn group(part: &str, name: Option<&str>) -> Result<Option<u32>, String> {
    name.map(crate::system::directory::group).transpose().map_err(|error| without_group(part, &error))
}

/// What follows from a group that is not there.
fn without_group(part: &str, error: &str) -> String {
    format!("{part}: {error}; until it is there only root may connect")
}

impl Nbd {
    /// The group of the unix sockets.
    ///
    /// # Errors
    /// When it cannot be found, with what follows.
    pub fn group(&self) -> Result<Option<u32>, String> {
        group(NBD_GROUP, self.group.as_deref())
    }

    /// The same for a start, which does not wait for the group. `Err`: a warning, and the group to be looked up later.
    pub fn group_or_late(&self) -> Result<Option<u32>, (String, LateGroup)> {
        let found = self.group.as_deref().map(group_or_late).transpose();
        found.map_err(|(error, late)| (without_group(NBD_GROUP, &error), late))
    }

    /// The options that `serve` takes, without the group.
    ///
    /// # Errors
    /// The option that is invalid.
    pub fn options(&self) -> Result<NbdOptions, Failure> {
        let usage = |key: &'static str| move |error: String| Failure::Usage(format!("{key}: {error}"));
        let tls = match self.tls.as_deref() {
            None => None,
            Some("required") => Some(Tls::Required),
            Some("offered") => Some(Tls::Offered),
            Some(other) => return Err(Failure::Usage(format!("tls: {other:?} is neither \"required\" nor \"offered\""))),
        };
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(Failure::Usage("tls-cert and tls-key go together: give both or none".into()));
        }
        if (self.tls_ca.is_some() || tls.is_some()) && self.tls_cert.is_none() {
            return Err(Failure::Usage("tls and tls-ca need tls-cert and tls-key".into()));
        }
        let networks = self.allow.iter().map(|text| crate::fronts::nbd::network(text)).collect::<Result<Vec<IpNet>, _>>();
        Ok(NbdOptions {
            listen: self.listen.iter().map(|text| text.parse::<Listen>()).collect::<Result<_, _>>().map_err(usage("listen"))?,
            nbd_mode: self.mode.as_deref().map(crate::fronts::nbd::mode).transpose().map_err(usage("mode"))?,
            nbd_group: None,
            nbd_allow: networks.map_err(usage("allow"))?,
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            tls_ca: self.tls_ca.clone(),
            tls,
            nbd_insecure: self.insecure,
            nbd_clients: crate::fronts::nbd::clients(&self.clients.to_string()).map_err(usage("clients"))?,
            nbd_memory: stria_terminal::size::parse(&self.memory).map_err(usage("memory"))?,
        })
    }
}

#[cfg(test)]
mod tests;
