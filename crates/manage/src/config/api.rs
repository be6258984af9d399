//! `[api]` of the configuration.

use crate::system::directory::{LateGroup, group_or_late};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use stria_front::{ServerTls, TlsFiles};
use stria_pam::service_file;

/// The group that may use the API if the configuration names none and the machine has it.
const GROUP: &str = "stria";

/// The PAM service that checks passwords if the configuration names none.
const SERVICE: &str = "stria";

/// The accounts of the system that log in with their password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemAccounts {
    /// None.
    #[default]
    Off,
    /// root, and the members of `group` and `admin-group`.
    Groups,
    /// These with their roles, and every other account as a viewer.
    View,
}

/// `[api]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Api {
    /// Addresses for other machines, `HOST:PORT` or a port on the loopback interface; by TLS only.
    pub listen: Vec<String>,
    /// The group whose members may operate on the unix socket; `stria` if there is one.
    pub group: Option<String>,
    /// The group whose members may do everything there.
    pub admin_group: Option<String>,
    /// The server's certificate.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// The authorities of clients' certificates.
    pub tls_ca: Option<PathBuf>,
    /// The file of tokens.
    pub tokens: PathBuf,
    /// The accounts of the system that log in with their password.
    pub system_accounts: SystemAccounts,
    /// The PAM service that checks it: a name in `/etc/pam.d`, or the path of a file.
    pub pam_service: String,
    /// Names under which browsers reach the unix socket, besides localhost: those of a proxy.
    pub hosts: Vec<String>,
}

impl Default for Api {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            group: None,
            admin_group: None,
            tls_cert: None,
            tls_key: None,
            tls_ca: None,
            tokens: "/etc/stria/tokens".into(),
            system_accounts: SystemAccounts::Off,
            pam_service: SERVICE.into(),
            hosts: Vec::new(),
        }
    }
}

/// A group of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiGroup {
    /// The one that operates if none is named.
    Default,
    /// The one that operates.
    Operate,
    /// The one that may do everything.
    Admin,
}

impl ApiGroup {
    fn key(self) -> &'static str {
        match self {
            Self::Default | Self::Operate => "[api] group",
            Self::Admin => "[api] admin-group",
        }
    }
}

/// `[api]`, checked.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The addresses.
    pub listen: Vec<SocketAddr>,
    /// The group that may operate.
    pub group: Option<u32>,
    /// The group that may do everything.
    pub admin_group: Option<u32>,
    /// Certificate, key and authorities.
    pub tls: Option<ServerTls>,
    /// The file of tokens.
    pub tokens: PathBuf,
    /// The accounts that log in with their password.
    pub accounts: SystemAccounts,
    /// The PAM service that checks it.
    pub pam_service: String,
    /// Further names of this machine for browsers.
    pub hosts: Vec<String>,
    /// The groups that were not found, each in a sentence.
    pub unknown: Vec<String>,
}

impl Api {
    /// Checks the keys against each other. Nothing is looked up on the machine.
    ///
    /// # Errors
    /// The key that is invalid, and the remedy.
    pub fn check(&self) -> Result<(), String> {
        self.without_groups().map(drop)
    }

    /// Checks the keys against each other, and looks up groups. One that is not found lets nobody in. Files are read by
    /// [`ApiOptions::server_config`].
    ///
    /// # Errors
    /// The key that is invalid, and the remedy.
    pub fn options(&self) -> Result<ApiOptions, String> {
        let mut unknown = Vec::new();
        let options = self.with_groups(|of, name| {
            super::group(of.key(), Some(name)).unwrap_or_else(|error| {
                // The default group need not exist.
                if of != ApiGroup::Default {
                    unknown.push(error);
                }
                None
            })
        })?;
        Ok(ApiOptions { unknown, ..options })
    }

    /// The same for a start, which does not wait for groups. Returns also those that may be there later.
    ///
    /// # Errors
    /// As [`Api::options`].
    pub fn options_or_late(&self) -> Result<(ApiOptions, Vec<(ApiGroup, LateGroup)>), String> {
        let (mut unknown, mut late_groups) = (Vec::new(), Vec::new());
        let options = self.with_groups(|of, name| match group_or_late(name) {
            Ok(group) => Some(group),
            Err((error, late)) => {
                if of != ApiGroup::Default {
                    unknown.push(super::without_group(of.key(), &error));
                }
                if of != ApiGroup::Default || late.is_open() {
                    late_groups.push((of, late));
                }
                None
            }
        })?;
        Ok((ApiOptions { unknown, ..options }, late_groups))
    }

    /// Checks the keys against each other. No group is looked up, and none may enter.
    ///
    /// # Errors
    /// The key that is invalid, and the remedy.
    pub fn without_groups(&self) -> Result<ApiOptions, String> {
        self.with_groups(|_, _| None)
    }

    fn with_groups(&self, mut find: impl FnMut(ApiGroup, &str) -> Option<u32>) -> Result<ApiOptions, String> {
        let listen = self.listen.iter().map(|text| crate::monitor::address(text)).collect::<Result<Vec<_>, _>>()?;
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some(ServerTls { cert: cert.clone(), key: key.clone(), authorities: self.tls_ca.clone() }),
            (None, None) => None,
            _ => return Err("tls-cert and tls-key go together: give both or none".into()),
        };
        if tls.is_none() && !listen.is_empty() {
            return Err(
                "other machines may reach the API by TLS only: give tls-cert and tls-key, or take `listen` out and use the unix \
                        socket by `ssh -L`"
                    .into(),
            );
        }
        if tls.is_none() && self.tls_ca.is_some() {
            return Err("tls-ca needs tls-cert and tls-key".into());
        }
        let path = [Some(&self.tokens), self.tls_cert.as_ref(), self.tls_key.as_ref(), self.tls_ca.as_ref()];
        if let Some(path) = path.into_iter().flatten().find(|path| !path.is_absolute()) {
            return Err(format!("{} must begin with a slash, as the daemon runs anywhere", path.display()));
        }
        let group = match &self.group {
            Some(name) => find(ApiGroup::Operate, name),
            None => find(ApiGroup::Default, GROUP),
        };
        let admin_group = self.admin_group.as_deref().and_then(|name| find(ApiGroup::Admin, name));
        let accounts = self.system_accounts;
        if accounts != SystemAccounts::Off && cfg!(target_feature = "crt-static") {
            return Err(
                "system-accounts needs PAM, which this statically linked stria cannot load: use tokens, or the package".into()
            );
        }
        if self.pam_service.is_empty() || (self.pam_service.contains('/') && !self.pam_service.starts_with('/')) {
            return Err("pam-service is a name in /etc/pam.d, or the path of a file, which begins with a slash".into());
        }
        let (tokens, pam_service, hosts) = (self.tokens.clone(), self.pam_service.clone(), self.hosts.clone());
        Ok(ApiOptions { listen, group, admin_group, tls, tokens, accounts, pam_service, hosts, unknown: Vec::new() })
    }
}

impl ApiOptions {
    /// Reads certificate, key and authorities. A client without a certificate may connect: it needs a token.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn tls_files(&self) -> Result<Option<Arc<TlsFiles>>, String> {
        let read = |tls: &ServerTls| TlsFiles::read(tls.clone(), false, &[b"http/1.1"]).map_err(|error| error.to_string());
        Ok(self.tls.as_ref().map(read).transpose()?.map(Arc::new))
    }

    /// Checks that the PAM service is there if accounts log in by it.
    ///
    /// # Errors
    /// That it is not.
    pub fn check_service(&self) -> Result<(), String> {
        if self.accounts == SystemAccounts::Off {
            return Ok(());
        }
        service_file(&self.pam_service).map(|_| ()).map_err(|fault| format!("[api] system-accounts: {fault}"))
    }

    /// Checks certificate, key and authorities.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn check_files(&self) -> Result<(), String> {
        self.tls_files().map(drop).map_err(|error| format!("[api]: {error}: {}", crate::fronts::nbd::no_tls("the API")))
    }
}
