//! NBD over TCP that could not be served when the daemon started: because of a file for TLS, or of a port that another program
//! has.

use crate::config::Nbd;
use crate::fronts::nbd::LateTcp;
use crate::service::Service;
use std::sync::{Arc, Mutex, PoisonError};

/// `[nbd]` as it was read last.
#[derive(Clone)]
pub struct Latest(Arc<Mutex<Nbd>>);

impl Latest {
    /// Another configuration applies.
    pub fn set(&self, nbd: Nbd) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = nbd;
    }
}

/// The addresses that are tried again until they are served.
pub struct NbdOverTcp {
    /// `None`: nothing is left to be tried.
    late: Option<LateTcp>,
    /// `[nbd]` as it applies since the start, but for its files.
    started: Nbd,
    latest: Latest,
    /// Files for TLS were renewed, and cannot be used.
    has_fault: bool,
}

/// All but the files, which may be others after a reload.
fn without_files(nbd: &Nbd) -> Nbd {
    Nbd { tls_cert: None, tls_key: None, tls_ca: None, ..nbd.clone() }
}

impl NbdOverTcp {
    /// Returns also where a reload leaves another configuration.
    pub fn new(late: Option<LateTcp>, nbd: &Nbd) -> (Latest, Self) {
        let latest = Latest(Arc::new(Mutex::new(nbd.clone())));
        (latest.clone(), Self { late, started: without_files(nbd), latest, has_fault: false })
    }

    /// Why it is not served.
    pub fn fault(&self) -> Option<String> {
        self.late.as_ref()?.why.clone()
    }

    /// Tries again, and looks at files that were renewed. `None`: nothing is left to be tried. `Some(Ok)`: how the fault has ended.
    pub fn try_again(&mut self, service: &Service) -> Option<Result<&'static str, String>> {
        let Some(late) = self.late.as_mut() else {
            let fault = service.nbd_tls_fault();
            let has_ended = std::mem::replace(&mut self.has_fault, fault.is_some()) && fault.is_none();
            return fault.map(Err).or(has_ended.then_some(Ok("new connections of NBD use the renewed files for TLS")));
        };
        let latest = self.latest.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let options = match latest.options() {
            Ok(options) => options,
            Err(failure) => return Some(Err(failure.to_string())),
        };
        // Other addresses, or other clients, are for a restart: what was checked together at the start holds together.
        if without_files(&latest) != self.started {
            return Some(match options.check_for_daemon() {
                Err(failure) => Err(failure.to_string()),
                Ok(()) => {
                    self.late = None;
                    Ok(
                        "the files that the configuration names are good now; the changed [nbd] applies when the daemon restarts (`systemctl restart \
                        stria`, a pause for clients)",
                    )
                }
            });
        }
        late.open(&options, |listeners, inherited, tls| service.add_nbd_listeners(listeners, inherited, tls));
        if let Some(why) = &late.why {
            return Some(Err(why.clone()));
        }
        self.late = None;
        Some(Ok("NBD is served over TCP now"))
    }
}
