//! Options that many commands have.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// How to reach a serve.
#[derive(Args, Clone, Debug)]
pub struct Control {
    /// Control socket; by default all usual folders are searched.
    #[arg(long, value_name = "PATH", env = "STRIA_SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
}

/// Which configuration.
#[derive(Args, Clone, Debug)]
pub struct ConfigFile {
    /// The daemon's configuration; by default /etc/stria/stria.toml.
    #[arg(long, value_name = "FILE", env = "STRIA_CONFIG", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

pub fn lanes(text: &str) -> Result<u8, String> {
    let count = text.parse().ok().filter(|count| (1..=64).contains(count));
    count.ok_or_else(|| format!("{text:?} is not a count of lanes; write 1 to 64"))
}
