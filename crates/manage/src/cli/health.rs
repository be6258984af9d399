//! The commands about alarms and about the health of drives.

use super::{ConfigFile, Control};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `stria alarm`
#[derive(Args, Debug)]
pub struct Alarm {
    /// The action; without it the causes that stand are listed.
    #[command(subcommand)]
    pub action: Option<AlarmAction>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// An action on alarms.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum AlarmAction {
    /// Send a test on every channel, and show how that went.
    Test,
}

/// `stria health`
#[derive(Args, Debug)]
pub struct Health {
    /// A drive, or an array that is served; the drives of all arrays if not given.
    #[arg(value_name = "DRIVE|ARRAY", value_hint = ValueHint::FilePath)]
    pub what: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}
