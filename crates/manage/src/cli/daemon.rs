//! The daemon's commands.

use super::Control;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Which configuration.
#[derive(Args, Clone, Debug)]
pub struct ConfigFile {
    /// The daemon's configuration; /etc/stria/stria.toml if not given.
    #[arg(long, value_name = "FILE", env = "STRIA_CONFIG", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// `stria daemon`
#[derive(Args, Clone, Debug)]
pub struct Daemon {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    /// Log only warnings and errors.
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria adopt`
#[derive(Args, Debug)]
pub struct Adopt {
    /// The array's name or UUID, which is searched for on all block devices; or its drives, for instance image files.
    #[arg(required = true, value_name = "ARRAY|DRIVE", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    /// The name of its exports; its own if not given.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Make it a block device, /dev/ublkbN, with the number given or any.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub ublk: Option<Option<u32>>,
    /// Make it the disk of a virtual machine at this unix socket; repeat for more.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub vhost_user: Vec<PathBuf>,
    /// Serve reads only.
    #[arg(long)]
    pub read_only: bool,
    /// The number of threads (lanes) on which it runs; by the number of processors if not given.
    #[arg(long, value_name = "COUNT", value_parser = super::lanes)]
    pub lanes: Option<u8>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria import`
#[derive(Args, Debug)]
pub struct Import {
    /// The array's name or UUID, or its drives. Without a name, and without --name and --once, arrays are listed: those on these drives, or on
    /// all block devices.
    #[arg(value_name = "ARRAY|DRIVE", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    /// Its new name, here and on its drives.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Serve it once, in the foreground, and adopt nothing.
    #[arg(long)]
    pub once: bool,
    /// Serve reads only: no byte of its drives is written.
    #[arg(long)]
    pub read_only: bool,
    /// Make it a block device, /dev/ublkbN, with the number given or any.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, conflicts_with = "once")]
    pub ublk: Option<Option<u32>>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria release`
#[derive(Args, Debug)]
pub struct Release {
    /// The array's name or UUID.
    pub name: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria start`
#[derive(Args, Debug)]
pub struct Start {
    /// The array's name or UUID.
    pub name: String,
    /// Start although data may be lost: degraded and not stopped cleanly, or with stale members.
    #[arg(long, visible_alias = "yes", short_alias = 'y')]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria incremental`
#[derive(Args, Debug)]
pub struct Incremental {
    /// The drive.
    #[arg(value_hint = ValueHint::FilePath)]
    pub drive: PathBuf,
    /// It was attached just now: if it is a former member of an array that is served, it returns by the write-intent bitmap.
    #[arg(long)]
    pub plugged_in: bool,
    /// Succeed in silence if no daemon runs: it looks at all drives when it starts.
    #[arg(long)]
    pub if_running: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria reload`
#[derive(Args, Debug)]
pub struct Reload {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria config`
#[derive(Args, Debug)]
pub struct ConfigCommand {
    /// The question.
    #[command(subcommand)]
    pub action: ConfigAction,
    /// The daemon's configuration; /etc/stria/stria.toml if not given.
    #[arg(long, global = true, value_name = "FILE", env = "STRIA_CONFIG", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// A question about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Check it: every key, and the files that it names.
    Check,
    /// Show the arrays that belong to Stria, and how they are served.
    Show,
    /// Succeed if drives of this array belong to Stria, by its UUID or that of a span; udev's rule asks so.
    Owns {
        /// The UUID as blkid shows it, or mdadm.
        uuid: String,
    },
}

/// `stria routine`
#[derive(Args, Debug)]
pub struct Routine {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria spare`
#[derive(Args, Debug)]
#[command(after_help = SPARE_HELP)]
pub struct SpareCommand {
    /// The action.
    #[command(subcommand)]
    pub action: SpareAction,
    /// The daemon's configuration; /etc/stria/stria.toml if not given.
    #[arg(long, global = true, value_name = "FILE", env = "STRIA_CONFIG", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

const SPARE_HELP: &str = "\
An array that lacks a member and has no spare of its own takes a drive of the pool: blank, large enough, of the kind of its members (SSD or hard
disk), first from their enclosure, the smallest that suits. [spares] in stria.toml(5) has the policy. A drive that was taken out of its
array and wiped is in the pool again.";

/// An action on the pool.
#[derive(Debug, Subcommand)]
pub enum SpareAction {
    /// Put drives into the pool.
    Add {
        /// Blank drives.
        #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
        drives: Vec<PathBuf>,
        /// Wipe drives that carry something, without asking.
        #[arg(long, visible_alias = "yes", short_alias = 'y')]
        force: bool,
    },
    /// Show the pool: which drives are free, and which arrays have the others.
    List,
    /// Take drives out of the pool; an array that has taken one keeps it.
    Remove {
        /// The drives.
        #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
        drives: Vec<PathBuf>,
    },
}

/// `stria events`
#[derive(Args, Debug)]
pub struct Events {
    /// One array; all if not given.
    pub name: Option<String>,
    /// Only the last so many.
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub last: Option<usize>,
    /// Only orders: what people and programs made the daemon do.
    #[arg(long)]
    pub orders: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
}
