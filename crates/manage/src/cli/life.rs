//! Commands for the rest of an array's life.

use super::{ConfigFile, Control};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `stria explain`
#[derive(Args, Debug)]
pub struct Explain {
    /// One array; all if not given.
    pub name: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria rename`
#[derive(Args, Debug)]
pub struct Rename {
    /// The array's name or UUID.
    pub old: String,
    /// Its new name: up to 31 bytes.
    pub new: String,
    /// Its drives; if not given, all block devices are searched.
    #[arg(value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria destroy`
#[derive(Args, Debug)]
pub struct Destroy {
    /// The array's name or UUID, which is searched for on all block devices; or its drives.
    #[arg(required = true, value_name = "ARRAY|DRIVE", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    /// Do not ask.
    #[arg(long, visible_alias = "yes", short_alias = 'y')]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria wipe`
#[derive(Args, Debug)]
pub struct Wipe {
    /// The drives.
    #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
    /// Do not ask.
    #[arg(long, visible_alias = "yes", short_alias = 'y')]
    pub force: bool,
}

/// `stria grow`
#[derive(Args, Debug)]
pub struct Grow {
    /// The array.
    pub name: String,
    /// Drives to grow by.
    #[arg(value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
}
