//! The daemon's commands.

use super::common::{ConfigFile, Control, lanes};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

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
    /// The array's name or UUID, which is searched for on all block devices and the image files of the configuration; or its
    /// drives, such as other image files.
    #[arg(required = true, value_name = "ARRAY|DRIVE", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    /// The name of its exports; by default the array's name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Make it a block device, /dev/ublkbN, with number N or any free number.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub ublk: Option<Option<u32>>,
    /// Make it the disk of a virtual machine at this unix socket; repeat for more.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub vhost_user: Vec<PathBuf>,
    /// Serve reads only.
    #[arg(long)]
    pub read_only: bool,
    /// The number of threads (lanes) on which it runs; the default depends on the processors.
    #[arg(long, value_name = "COUNT", value_parser = lanes)]
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
    /// The array to adopt: its name or UUID, or its drives. Without a name, --name and --once, arrays are listed: those on the
    /// given drives, or on all block devices and the image files of the configuration.
    #[arg(value_name = "ARRAY|DRIVE", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    /// Its new name, also on its drives.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Serve it once, in the foreground, and adopt nothing.
    #[arg(long)]
    pub once: bool,
    /// Serve reads only: no byte of its drives is written.
    #[arg(long)]
    pub read_only: bool,
    /// Make it a block device, /dev/ublkbN, with number N or any free number.
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
    #[arg(long)]
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
    /// The drive was attached just now: a former member of a served array returns by the write-intent bitmap.
    #[arg(long)]
    pub plugged_in: bool,
    /// Succeed silently if no daemon runs: it searches all drives when it starts.
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
    /// The action.
    #[command(subcommand)]
    pub action: ConfigAction,
    /// The daemon's configuration; by default /etc/stria/stria.toml.
    #[arg(long, global = true, value_name = "FILE", env = "STRIA_CONFIG", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// An action on the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Check the configuration: every key, and the files, groups and addresses that it names.
    Check {
        /// Check the file alone, for faults that keep the daemon from starting. It starts also where files, groups or addresses
        /// are missing.
        #[arg(long)]
        alone: bool,
    },
    /// Show the arrays that belong to Stria, and how they are served.
    Show,
    /// Succeed if the array or span with this UUID belongs to Stria. udev's rule runs this command.
    Owns {
        /// The UUID, as printed by blkid or mdadm.
        uuid: String,
        /// Print the answer as a property for udev, and succeed either way.
        #[arg(long)]
        udev: bool,
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
    /// The daemon's configuration; by default /etc/stria/stria.toml.
    #[arg(long, global = true, value_name = "FILE", env = "STRIA_CONFIG", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

const SPARE_HELP: &str = "\
An array that lacks a member and has no spare of its own takes the smallest drive of the pool that is blank, large enough, and an SSD or a hard \
disk like its members; drives in the members' enclosure come first. [spares] in stria.toml(5) has the policy. A drive that is removed from its \
array and wiped is in the pool again.";

/// An action on the pool.
#[derive(Debug, Subcommand)]
pub enum SpareAction {
    /// Add drives to the pool.
    Add {
        /// Blank drives.
        #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
        drives: Vec<PathBuf>,
        /// Wipe drives that are not blank, without asking.
        #[arg(long, visible_alias = "yes", visible_short_alias = 'y')]
        force: bool,
    },
    /// List the drives of the pool: free, or in which array.
    List,
    /// Remove drives from the pool; a drive in an array stays there.
    Remove {
        /// The drives.
        #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
        drives: Vec<PathBuf>,
    },
}

/// `stria events`
#[derive(Args, Debug)]
pub struct Events {
    /// One array; by default all.
    pub name: Option<String>,
    /// Show only the last COUNT events.
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub last: Option<usize>,
    /// Show only orders: the commands of people and programs.
    #[arg(long)]
    pub orders: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
}
