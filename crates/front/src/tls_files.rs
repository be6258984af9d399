//! The PEM files of a TLS server, which are renewed while it runs.
//!
//! A thread looks at them now and then. Once others are there, they are read, and new connections use them; connections that
//! exist stay as they are. Files that cannot be used leave those in force that were read before.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The pause between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file without the expected content.
    #[error("cannot use {} as {what}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What it is for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// Certificate and key that do not belong together, or are of an unknown kind.
    #[error("cannot use {} with the key in {}: {why}", cert.display(), key.display())]
    Pair {
        /// The file with the certificate.
        cert: PathBuf,
        /// The file with the key.
        key: PathBuf,
        /// Why not.
        why: rustls::Error,
    },
}

/// The PEM files of a TLS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The server's certificate, followed by those that lead to its authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities of clients' certificates.
    pub authorities: Option<PathBuf>,
}

fn server_tls(files: &ServerTls, must_show: bool) -> Result<ServerConfig, TlsError> {
    let ServerTls { cert, key, authorities } = files;
    let chain = certificates(cert, "the server's certificate")?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|why| refuse(key, "the server's key", &why))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has ciphers of both versions");
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            const WHAT: &str = "the authorities of clients";
            let mut roots = RootCertStore::empty();
            for authority in certificates(path, WHAT)? {
                roots.add(authority).map_err(|why| refuse(path, WHAT, &why))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if must_show { verifier } else { verifier.allow_unauthenticated() }.build();
            builder.with_client_cert_verifier(verifier.map_err(|why| refuse(path, WHAT, &why))?)
        }
    };
    builder.with_single_cert(chain, secret).map_err(|why| TlsError::Pair { cert: cert.into(), key: key.into(), why })
}

fn refuse(path: &Path, what: &'static str, why: &dyn fmt::Display) -> TlsError {
    TlsError::File { path: path.into(), what, why: why.to_string() }
}

fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    match read() {
        Ok(found) if found.is_empty() => Err(refuse(path, what, &"there is no PEM certificate in it")),
        read => read.map_err(|why| refuse(path, what, &why)),
    }
}

/// What shows that a file is another, or was written to; `None`: it cannot be looked at.
type Stamp = Option<(u64, u64, u64, (i64, i64), (i64, i64))>;

impl ServerTls {
    fn stamps(&self) -> Vec<Stamp> {
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            let (written, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
            Some((found.dev(), found.ino(), found.len(), written, changed))
        };
        [&self.cert, &self.key].into_iter().chain(&self.authorities).map(stamp).collect()
    }
}

/// The files of a TLS server, as they are in force.
pub struct TlsFiles {
    files: ServerTls,
    must_show: bool,
    /// The protocols that clients may choose from by ALPN; none: it is not asked.
    protocols: Vec<Vec<u8>>,
    state: Mutex<State>,
}

struct State {
    config: Arc<ServerConfig>,
    /// The files that it was read from.
    read: Vec<Stamp>,
    /// Later ones that cannot be used.
    refused: Option<Vec<Stamp>>,
    fault: Option<String>,
}

impl TlsFiles {
    /// Reads the files. `must_show`: clients without a certificate of the authorities are refused; otherwise one that is shown is
    /// checked. `protocols`: those of ALPN.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn read(files: ServerTls, must_show: bool, protocols: &[&[u8]]) -> Result<Self, TlsError> {
        let (protocols, read): (Vec<_>, _) = (protocols.iter().map(|name| name.to_vec()).collect(), files.stamps());
        let config = server_config(&files, must_show, &protocols)?;
        let state = Mutex::new(State { config, read, refused: None, fault: None });
        Ok(Self { files, must_show, protocols, state })
    }

    /// For new connections.
    pub fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.lock().config)
    }

    /// Why the files that are there now are not in force, and what follows; `None`: they are.
    pub fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    /// Looks at the files now and then, on a thread that ends with the last user of `self`.
    pub fn follow(self: &Arc<Self>) {
        let watched = Arc::downgrade(self);
        let follow = move || {
            loop {
                thread::sleep(LOOK_EVERY);
                let Some(files) = watched.upgrade() else { return };
                files.look();
            }
        };
        if let Err(error) = thread::Builder::new().name("certificates".into()).spawn(follow) {
            log::warn!("no thread for {}: {error}; it is read again after a restart only", self.files.cert.display());
        }
    }

    /// Reads the files if they are others than before. The only place that changes what is in force, on one thread.
    fn look(&self) {
        let now = self.files.stamps();
        if self.lock().read == now {
            let mut state = self.lock();
            (state.refused, state.fault) = (None, None);
            return;
        }
        // Connections do not wait for a file.
        let outcome = server_config(&self.files, self.must_show, &self.protocols);
        let mut state = self.lock();
        match outcome {
            Ok(config) => {
                log::info!("{} and its key were read again: new connections use them", self.files.cert.display());
                *state = State { config, read: now, refused: None, fault: None };
            }
            // The key may be written a moment after the certificate.
            Err(_) if state.refused.as_ref() != Some(&now) => state.refused = Some(now),
            Err(error) => {
                let text = format!("{error}; new connections use what was read before, until the file is good");
                if state.fault.as_ref() != Some(&text) {
                    log::warn!("{text}");
                }
                state.fault = Some(text);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn server_config(files: &ServerTls, must_show: bool, protocols: &[Vec<u8>]) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = server_tls(files, must_show)?;
    config.alpn_protocols = protocols.to_vec();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConfig, ClientConnection, ServerConnection};

    /// The first certificate that a client is shown.
    fn shown(files: &TlsFiles, authority: &Path) -> Vec<u8> {
        let mut roots = RootCertStore::empty();
        certificates(authority, "the authority")
            .expect("it is there")
            .into_iter()
            .for_each(|one| roots.add(one).expect("a root"));
        let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
        let mut server = ServerConnection::new(files.current()).expect("a server");
        while client.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).expect("memory");
            server.read_tls(&mut &wire[..]).expect("memory");
            server.process_new_packets().expect("it is well-formed");
            wire.clear();
            while server.wants_write() {
                server.write_tls(&mut wire).expect("memory");
            }
            client.read_tls(&mut &wire[..]).expect("memory");
            client.process_new_packets().expect("it trusts the authority");
        }
        client.peer_certificates().expect("a chain")[0].to_vec()
    }

    /// A certificate that was renewed on disk was used after a restart only: clients met an expired one.
    #[test]
    fn renewed_files_are_in_force_and_broken_ones_are_not() {
        use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
        let folder = tempfile::tempdir().expect("a folder");
        let authority = stria_testkit::certificates::Authority::with_both(folder.path());
        let [cert, key, ca] = ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(|name| authority.file(name));
        let files = ServerTls { cert: cert.clone(), key: key.clone(), authorities: None };
        let files = TlsFiles::read(files, false, &[]).expect("usable files");
        let on_disk = || certificates(&cert, "it").expect("it is there")[0].to_vec();
        let first = on_disk();
        assert_eq!(shown(&files, &ca), first);
        // As tools renew them: by files that take their place, the certificate first.
        authority.sign("new", ServerAuth);
        std::fs::rename(authority.file("new-cert.pem"), &cert).expect("moved");
        files.look();
        assert!(shown(&files, &ca) == first && files.fault().is_none(), "its key is on the way");
        files.look();
        let fault = files.fault().expect("it stays away");
        assert!(fault.contains("server-key.pem") && fault.contains("read before"), "{fault}");
        assert_eq!(shown(&files, &ca), first);
        std::fs::rename(authority.file("new-key.pem"), &key).expect("moved");
        files.look();
        assert!(files.fault().is_none() && on_disk() != first);
        assert_eq!(shown(&files, &ca), on_disk());
        // In place, in part, and then as it was.
        let whole = std::fs::read(&cert).expect("it is there");
        std::fs::write(&cert, &whole[..whole.len() / 2]).expect("written");
        files.look();
        files.look();
        assert!(files.fault().is_some_and(|fault| fault.contains("server-cert.pem")));
        std::fs::write(&cert, &whole).expect("written");
        files.look();
        assert!(files.fault().is_none());
        assert_eq!(shown(&files, &ca), on_disk());
    }
}
