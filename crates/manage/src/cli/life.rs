//! Commands for the rest of an array's life.

use super::common::{ConfigFile, Control};
use crate::settings::{self, SettingsRequest, WriteMode};
use crate::wipe::WipeMeans;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `stria explain`
#[derive(Args, Debug)]
pub struct Explain {
    /// One array; by default all.
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
    /// Its drives; by default all block devices and the image files of the configuration are searched.
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
    /// The array's name or UUID, which is searched for on all block devices and the image files of the configuration; or its
    /// drives.
    #[arg(required = true, value_name = "ARRAY|DRIVE", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    /// Do not ask.
    #[arg(long, visible_alias = "yes", visible_short_alias = 'y')]
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
    /// Unmap every block as well: the drives then read as zeros. It needs drives that can unmap and zero at once.
    #[arg(long, group = "means")]
    pub discard: bool,
    /// Make each drive erase all of its data, by NVMe's Format: by a new key if it offers that, else every block, which may take
    /// hours.
    #[arg(long, group = "means")]
    pub secure_erase: bool,
    /// Make each drive erase all of its data, spare blocks and caches included, by NVMe's Sanitize. The drives continue if the
    /// command is interrupted, and after a loss of power; repeat the command to wait again.
    #[arg(long, group = "means")]
    pub sanitize: bool,
    /// Do not ask.
    #[arg(long, visible_alias = "yes", visible_short_alias = 'y')]
    pub force: bool,
}

impl Wipe {
    /// How much is erased.
    pub fn means(&self) -> WipeMeans {
        match (self.discard, self.secure_erase, self.sanitize) {
            (true, ..) => WipeMeans::Discard,
            (_, true, _) => WipeMeans::SecureErase,
            (.., true) => WipeMeans::Sanitize,
            _ => WipeMeans::Signatures,
        }
    }
}

/// `stria grow`
#[derive(Args, Debug)]
pub struct Grow {
    /// The array.
    pub name: String,
    /// Drives to grow by.
    #[arg(value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
    /// The number of members that it should have.
    #[arg(long, short = 'n', value_name = "COUNT", visible_alias = "raid-devices")]
    pub members: Option<String>,
    /// The space to use on each drive.
    #[arg(long, value_name = "SIZE", alias = "array-size")]
    pub size: Option<String>,
    /// Another level.
    #[arg(long, short, value_name = "LEVEL")]
    pub level: Option<String>,
    /// Another layout.
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// Another strip.
    #[arg(long, value_name = "SIZE", visible_alias = "chunk")]
    pub strip: Option<String>,
}

/// `stria set`
#[derive(Args, Debug)]
#[command(after_help = SET_HELP)]
#[group(id = "what", required = true, multiple = true, args = ["write", "drive_caches", "read_only", "bitmap", "log", "integrity"])]
pub struct Set {
    /// The array's name or UUID.
    pub name: String,
    /// The drives of an array that is not served, if they are image files that the configuration does not name.
    #[arg(value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
    /// When writes are acknowledged.
    #[arg(long, value_enum, value_name = "POLICY")]
    pub write: Option<WriteMode>,
    /// Switch the drives' own write caches on or off; they are flushed first. As root, on NVMe, SATA and SCSI drives.
    #[arg(long, value_name = "on|off", value_parser = settings::switch)]
    pub drive_caches: Option<bool>,
    /// Refuse writes, or accept them again.
    #[arg(long, value_name = "on|off", value_parser = settings::switch)]
    pub read_only: Option<bool>,
    /// Write-intent bitmap: none, internal, or internal:CHUNK. Without it the array needs a full resync after a crash, and a
    /// member that returns needs a full rebuild.
    #[arg(long, value_name = "CHOICE", value_parser = |text: &str| settings::bitmap(text).map(|_| text.to_owned()))]
    pub bitmap: Option<String>,
    /// Write log of parity levels: auto, or none. Without it a crash in which a drive is lost can damage data that was not being
    /// written.
    #[arg(long, value_name = "CHOICE", value_parser = |text: &str| settings::log(text).map(|_| text.to_owned()))]
    pub log: Option<String>,
    /// Checksums of every 4 KiB, on or off. "on" needs space behind the data on the drives, which arrays that once had checksums
    /// have.
    #[arg(long, value_name = "on|off", value_parser = settings::switch)]
    pub integrity: Option<bool>,
    /// Do not ask.
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Do not ask, and disconnect clients if a change needs a pause.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub config: ConfigFile,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

const SET_HELP: &str = "\
--write and --drive-caches take effect at once. The others need a short pause: the array is stopped, changed, and started again. \
Block devices and virtual machines wait meanwhile; NBD clients reconnect, if they can. \
The daemon stores --write, --drive-caches and --read-only in its configuration; `stria serve` has options of the same names. \
After a power cut during a change the array has either the old or the new setting; repeat the command to complete it.";

impl Set {
    /// What is sent to the process that serves the array.
    pub fn request(&self) -> SettingsRequest {
        SettingsRequest {
            write: self.write,
            drive_caches: self.drive_caches,
            read_only: self.read_only,
            bitmap: self.bitmap.clone(),
            log: self.log.clone(),
            integrity: self.integrity,
            force: self.force,
        }
    }
}
