//! `stria token`: users of the API with a token or a certificate. `stria pam-check`: the password of an account.

use crate::cli::{RoleName, Token, TokenAction};
use crate::config::edit::Replacement;
use crate::config::{self, Config};
use crate::rest::auth::{TokenLine, read_tokens, secret, sha256};
use crate::rest::types::Role;
use crate::system::atomic_file::replace;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use stria_block::{shell_word, shown};
use stria_terminal::Failure;
use stria_terminal::output::{print, print_json, say};

/// Runs the command.
///
/// # Errors
/// When the file cannot be read or written, or the name is invalid.
pub fn token(command: &Token, json: bool) -> Result<(), Failure> {
    let path = Config::read(&config::path(command.config.config.as_deref()))?.api.tokens;
    // From before the file is read until it is written: another command's change must not be lost, least of all a removal.
    let _held = match &command.action {
        TokenAction::List => None,
        TokenAction::Create { .. } | TokenAction::Remove { .. } => Some(Replacement::open(&path)?),
    };
    let mut lines = read_tokens(&path).map_err(Failure::Failed)?;
    match &command.action {
        TokenAction::Create { name, role, certificate } => {
            let is_name =
                !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_alphanumeric() || "._-@+".contains(c));
            if !is_name {
                return Err(Failure::Usage(format!("{name:?} is not a name for a token: use letters, digits and ._-@+")));
            }
            if lines.iter().any(|line| line.name == *name) {
                return Err(Failure::Failed(format!(
                    "there is a token {name} already: `stria token remove {word}` first",
                    word = shell_word(name)
                )));
            }
            let role = match role {
                RoleName::View => Role::View,
                RoleName::Operate => Role::Operate,
                RoleName::Admin => Role::Admin,
            };
            let token = certificate.is_none().then(|| format!("stria_{}", secret()));
            let proof = match (&token, certificate) {
                (Some(token), _) => sha256(token.as_bytes()),
                (None, Some(file)) => {
                    let certificate = CertificateDer::from_pem_file(file)
                        .map_err(|error| Failure::Failed(format!("{} is no PEM certificate: {error}", file.display())))?;
                    format!("cert:{}", sha256(&certificate))
                }
                (None, None) => unreachable!("one of both is there"),
            };
            lines.push(TokenLine { name: name.clone(), role, proof: proof.clone() });
            write(&path, &lines)?;
            say(
                json,
                || token.clone().unwrap_or_else(|| proof.clone()),
                || json!({"name": name, "role": role, "token": token, "proof": proof, "file": path}),
            );
        }
        TokenAction::List if json => {
            let list = lines.iter().map(|line| json!({"name": line.name, "role": line.role, "proof": line.proof}));
            print_json(&list.collect::<Vec<_>>());
        }
        TokenAction::List if lines.is_empty() => print("there is no token: `stria token create` makes one\n"),
        TokenAction::List => {
            let kind = |line: &TokenLine| if line.proof.starts_with("cert:") { "certificate" } else { "token" };
            print(
                &lines
                    .iter()
                    .map(|line| format!("{}  {}  {}\n", shown(&line.name), line.role.word(), kind(line)))
                    .collect::<String>(),
            );
        }
        TokenAction::Remove { name } => {
            let before = lines.len();
            lines.retain(|line| line.name != *name);
            if lines.len() == before {
                return Err(Failure::Failed(format!("there is no token {name}: `stria token list` shows all")));
            }
            write(&path, &lines)?;
            say(json, || format!("token {name} is removed"), || json!({"removed": name}));
        }
    }
    Ok(())
}

/// Reads a login of the standard input, and prints PAM's verdict. The daemon starts this for each login (`rest::accounts`).
///
/// # Errors
/// When the input is no login.
pub fn pam_check() -> Result<(), Failure> {
    // Nothing with a password is dumped, nor traced by others.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::failed)?;
    let login = serde_json::from_reader(std::io::stdin().lock()).map_err(Failure::failed)?;
    print_json(&stria_pam::check(&login));
    Ok(())
}

fn write(path: &Path, lines: &[TokenLine]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{} cannot be written: {error}", path.display()));
    // The file keeps its mode when it is replaced; a new one is for its owner alone.
    fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)?;
    let mut text = "# Users of Stria's API: NAME view|operate|admin SHA256. `stria token` writes this file.\n".to_owned();
    text.extend(lines.iter().map(|line| format!("{} {} {}\n", line.name, line.role.word(), line.proof)));
    replace(path, &text)
}
