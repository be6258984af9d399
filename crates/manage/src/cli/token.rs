//! The command about users of the API.

use super::common::ConfigFile;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// `stria token`
#[derive(Args, Debug)]
pub struct Token {
    /// The action.
    #[command(subcommand)]
    pub action: TokenAction,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
}

/// A role, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RoleName {
    /// See everything.
    View,
    /// Also do everything that loses no data.
    Operate,
    /// Do everything.
    Admin,
}

/// An action on tokens.
#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Make a token, and show it once. Only its SHA-256 is stored.
    Create {
        /// Its name, which events show with each order.
        name: String,
        /// Its rights.
        #[arg(long, value_enum, default_value = "view")]
        role: RoleName,
        /// Let in the client with this certificate (a PEM file) instead; `[api] tls-ca` must trust its authority.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        certificate: Option<PathBuf>,
    },
    /// List all tokens.
    List,
    /// Remove a token: it is invalid at once, and its sessions end.
    Remove {
        /// Its name.
        name: String,
    },
}
