//! Logins with name and password of an account of the system, by PAM.
//!
//! PAM's modules are code of others, and may block, crash or keep memory. So they run in a process of their own, which is this
//! program as `stria pam-check`: it takes one login, gives one verdict, and has a time to do so. Every refusal has the same words
//! and takes the same time, whether the name, the password or the role is missing; the record alone has the reason.

use super::auth::{Begun, Guard, Peer};
use super::users::Users;
use crate::api::{ApiError, ApiErrorKind};
use crate::config::{ApiOptions, SystemAccounts};
use crate::words::error::ErrorSentence;
use nix::unistd::User;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use stria_pam::{Login, Verdict};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

/// Logins that are checked at a time; a further one is refused, as each is a process.
const CHECKS_MAX: usize = 4;
/// The time that PAM may take: a directory on the network may be slow.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time from a login to its refusal, unless PAM takes longer. A hash of a good password takes less than half of it on a slow
/// machine.
const REFUSED_AFTER: Duration = Duration::from_secs(3);

/// The check of accounts.
pub struct Accounts {
    /// The PAM service; `None` if no account may log in.
    service: Option<String>,
    permits: Semaphore,
}

/// A refused login.
pub struct Refusal {
    /// The answer to the client.
    pub error: ApiError,
    /// The record of it, if it is not that of every refusal.
    pub record: Option<String>,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self { error, record: None }
    }
}

impl Accounts {
    /// The accounts of the configuration.
    pub fn new(options: &ApiOptions) -> Self {
        let service = (options.accounts != SystemAccounts::Off).then(|| options.pam_service.clone());
        Self { service, permits: Semaphore::new(CHECKS_MAX) }
    }

    /// True if accounts may log in.
    pub fn may_log_in(&self) -> bool {
        self.service.is_some()
    }

    /// Begins a session of the account with this name and password.
    ///
    /// # Errors
    /// When they are wrong, the account has no role, or PAM cannot say.
    pub async fn log_in(&self, guard: &Arc<Guard>, peer: &Peer, user: String, password: String) -> Result<Begun, Refusal> {
        let begun = Instant::now();
        let Some(service) = self.service.clone() else {
            return Err(ApiError::new(ApiErrorKind::Forbidden, ErrorSentence::NoAccounts {}).into());
        };
        let Ok(permit) = self.permits.try_acquire() else {
            return Err(ApiError::new(ApiErrorKind::TooMany, ErrorSentence::LoginsBusy {}).into());
        };
        guard.suspect(peer)?;
        let verdict = check(&Login { service, user: user.clone(), password, from: peer.address() }).await;
        drop(permit);
        let reason = match verdict {
            Verdict::Right(name) => {
                let (guard, peer) = (Arc::clone(guard), peer.clone());
                // A directory on the network may have to be asked for the members of a group.
                let begin = move || {
                    let begun = guard.begin_account(&peer, &name);
                    if let Ok(Some(_)) = begun {
                        guard.forgive(&peer);
                    }
                    begun
                };
                let session = spawn_blocking(begin).await;
                match session.ok().transpose()?.flatten() {
                    Some(session) => return Ok(session),
                    None => "the password is right, and no group of [api] has the account".to_owned(),
                }
            }
            Verdict::Wrong(reason) => reason,
            Verdict::Failed(text) => {
                let error = ApiError::new(ApiErrorKind::Failed, ErrorSentence::PasswordUnchecked {});
                return Err(Refusal {
                    error,
                    record: Some(format!("a login from {} could not be checked: {text}", peer.shown())),
                });
            }
        };
        // A name that no account has may be a password in the wrong field.
        let users = Users::of_this_machine();
        let known =
            spawn_blocking(move || users.ask(move || User::from_name(&user).ok().flatten()).flatten()).await.ok().flatten();
        let name = known.map_or_else(|| "an unknown name".to_owned(), |user| user.name);
        sleep_until(begun + REFUSED_AFTER).await;
        let record = format!("{} was refused a login as {name}: {reason}", peer.shown());
        Err(Refusal { error: ApiError::new(ApiErrorKind::Unauthorized, ErrorSentence::LoginRefused {}), record: Some(record) })
    }
}

/// PAM's verdict, by a process of its own.
async fn check(login: &Login) -> Verdict {
    match timeout(PATIENCE, asked(login)).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(error)) => Verdict::Failed(format!("`stria pam-check` failed: {error}")),
        Err(_) => Verdict::Failed(format!("PAM did not answer within {} s", PATIENCE.as_secs())),
    }
}

async fn asked(login: &Login) -> io::Result<Verdict> {
    // This very program, also if an upgrade has replaced its file. What the daemon's environment has is not for modules.
    let mut command = Command::new("/proc/self/exe");
    command.arg("pam-check").env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&serde_json::to_vec(login)?).await?;
    }
    let output = child.wait_with_output().await?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| io::Error::other(format!("it ended without a verdict ({})", output.status)))
}
