//! Whether a user name and a password are right, by the machine's PAM.
//!
//! [`check`] opens libpam when it is called, so no program is linked with it: one that is linked statically starts without it,
//! and is told that it cannot check. PAM's modules are code of others. They may block, wait after a wrong password, change the
//! process or end it. So call this in a process of its own, and give that process a time.
//!
//! The crate knows neither groups nor roles, and keeps nothing.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod library;

use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// A longer name or password is refused: PAM's modules take no longer answers (PAM_MAX_RESP_SIZE).
pub const BYTES_MAX: usize = 511;
/// The folders in which libpam looks for services; the administrator's comes first.
const FOLDERS: [&str; 3] = ["/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d"];

/// A login to check.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// The service: a name in `/etc/pam.d`, or the path of a file.
    pub service: String,
    /// The user name.
    pub user: String,
    /// The password.
    pub password: String,
    /// The address of the other end, for the modules; empty if it is this machine.
    pub from: String,
}

/// PAM's answer to a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Name and password are right, and the account may be used. The name is that of the account, which a module may have
    /// changed.
    Right(String),
    /// They are not, or the account may not be used. PAM's reason is for the record only: it tells a guesser too much.
    Wrong(String),
    /// PAM could not be asked.
    Failed(String),
}

/// The file of a service. libpam itself would take `other` where there is none, and `other` may admit anybody.
///
/// # Errors
/// That there is none, and the remedy.
pub fn service_file(service: &str) -> Result<PathBuf, String> {
    let candidates: Vec<PathBuf> = match service.contains('/') {
        true => vec![service.into()],
        false => FOLDERS.iter().map(|folder| Path::new(folder).join(service)).collect(),
    };
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        format!(
            "PAM has no service {service}: {} is not there; the package brings it, as packaging/pam/stria",
            candidates[0].display()
        )
    })
}

/// Asks PAM: first whether the password is right, then whether the account may be used. It opens no session.
pub fn check(login: &Login) -> Verdict {
    let file = match service_file(&login.service) {
        Ok(file) => file,
        Err(fault) => return Verdict::Failed(fault),
    };
    // A name in a folder that libpam knows is left to libpam, so that files that it includes are found as in other services.
    let folder = login.service.contains('/').then(|| file.parent().map(Path::to_owned)).flatten();
    let Some(service) = file.file_name().and_then(|name| text(name.to_str()?)) else {
        return Verdict::Failed(format!("{} is not a name of a PAM service", file.display()));
    };
    let (Some(user), Some(password)) = (text(&login.user), text(&login.password)) else {
        return Verdict::Wrong(format!("a name or password that is longer than {BYTES_MAX} bytes or has a zero byte"));
    };
    if login.user.is_empty() {
        return Verdict::Wrong("an empty name".into());
    }
    let folder = folder.as_ref().and_then(|folder| CString::new(folder.to_str()?).ok());
    let from = text(&login.from).unwrap_or_default();
    library::check(&service, folder.as_deref(), &user, password, &from).unwrap_or_else(Verdict::Failed)
}

fn text(text: &str) -> Option<CString> {
    if text.len() > BYTES_MAX {
        return None;
    }
    CString::new(text).ok()
}
