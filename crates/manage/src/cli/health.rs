//! The commands about alarms and about the health of drives.

use super::{ConfigFile, Control};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `stria alarm`
#[derive(Args, Debug)]
pub struct Alarm {
    /// The action; the default lists the open alarms.
    #[command(subcommand)]
    pub action: Option<AlarmAction>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// An action on alarms.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum AlarmAction {
    /// Send a test on every channel, and show the results.
    Test,
}

/// `stria health`
#[derive(Args, Debug)]
pub struct Health {
    /// A drive, or a served array; by default the drives of all arrays.
    #[arg(value_name = "DRIVE|ARRAY", value_hint = ValueHint::FilePath)]
    pub what: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}
