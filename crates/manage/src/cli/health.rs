//! The commands about alarms and about the health of drives.

use super::common::{ConfigFile, Control};
use crate::api::FirmwareActivation;
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
#[derive(Clone, Debug, Subcommand)]
pub enum AlarmAction {
    /// Say that you know of the open alarms of an array. They are not repeated until they are over, or become worse.
    Acknowledge(Acknowledge),
    /// Send a test on every channel, and show the results.
    Test,
}

/// `stria alarm acknowledge`
#[derive(Args, Clone, Debug)]
pub struct Acknowledge {
    /// The array; `none`: faults of the configuration.
    pub name: String,
    /// Only the alarms of this event, for example Fail.
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Only the alarms about this member.
    #[arg(long, value_name = "MEMBER")]
    pub member: Option<String>,
    /// A note that is shown with them, for example what was ordered. It takes the place of an earlier acknowledgement.
    #[arg(long, value_name = "TEXT", conflicts_with = "undo")]
    pub note: Option<String>,
    /// Take the acknowledgement back.
    #[arg(long)]
    pub undo: bool,
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

/// `stria firmware`
#[derive(Args, Debug)]
#[command(after_help = FIRMWARE_HELP)]
pub struct Firmware {
    /// The array.
    pub name: String,
    /// The member: its path, its serial number, or its slot (of one span: SPAN:SLOT).
    #[arg(value_name = "MEMBER", value_hint = ValueHint::FilePath)]
    pub drive: PathBuf,
    /// The image, as the maker of the drive ships it. Without it the firmware slots of the drive are shown.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub image: Option<PathBuf>,
    /// The firmware slot that the image takes; by default the drive chooses.
    #[arg(long, value_name = "N", requires = "image", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub slot: Option<u8>,
    /// How the new firmware comes to run; by default without a reset if the drive offers that, else by a reset.
    #[arg(long, value_enum, value_name = "HOW", requires = "image")]
    pub activate: Option<FirmwareActivation>,
    /// Do not ask.
    #[arg(long, short = 'y', requires = "image")]
    pub yes: bool,
    /// Do not ask, and go on although data may be lost if the new firmware fails: without redundancy, during a sweep, or with
    /// other users of the same controller.
    #[arg(long, requires = "image")]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

const FIRMWARE_HELP: &str = "\
Only NVMe drives that take firmware by NVMe commands. The image is read by the process that serves the array: the daemon of the \
package sees no file below /tmp. Repeat the command for each member, once the one before is in sync again.";
