//! The command line: every command and option is declared once, for parser, help and completions.

mod common;
mod daemon;
mod health;
mod life;
mod token;

pub use common::{ConfigFile, Control};
pub use life::{Destroy, Explain, Grow, Rename, Set, Wipe};

pub use daemon::{
    Adopt, ConfigAction, ConfigCommand, Daemon, Events, Import, Incremental, Release, Reload, Routine, SpareAction, SpareCommand,
    Start,
};

pub use health::{Acknowledge, Alarm, AlarmAction, Firmware, Health};
pub use token::{RoleName, Token, TokenAction};

use crate::api::LatencyBound;
use crate::fronts::nbd::NbdOptions;
use crate::fronts::ublk::UblkCopy;
use crate::fronts::vhost_user::VhostUserOptions;
use crate::lane_spec::NumaNode;
use crate::monitor::MonitorOptions;
use crate::settings::{self, WriteMode};
use crate::tools;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use common::lanes;
use std::ffi::OsStr;
use std::path::PathBuf;
use stria_drive::IoOptions;
use stria_format::md::{BitmapChoice, LogChoice};
use stria_host::{ArrayLevel, FirmwareRaid, OpenOptions};
use stria_terminal::size;

/// RAID for SSDs, in user space, in the on-disk format of Linux md.
#[derive(Debug, Parser)]
#[command(name = "stria", version, after_help = AFTER_HELP, max_term_width = 110)]
pub struct Cli {
    /// Print JSON on standard output.
    #[arg(long, global = true)]
    pub json: bool,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The command line of this process.
    ///
    /// # Errors
    /// When it is invalid, or asks for help.
    pub fn parse() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::command_line().try_get_matches()?)
    }

    /// The grammar of the command line, with the tools' names.
    pub fn command_line() -> clap::Command {
        tools::with_names(Self::command())
    }
}

// Help is wrapped to the terminal: a line ends only where a paragraph does.
const AFTER_HELP: &str = "\
Sizes are written as 64K, 1MiB, 1.5GiB, 2TB or 2048s (sectors).
Exit codes: 0 done, 1 failed, 2 usage, 3 needs attention (status, explain: a problem; health: a drive that is not good; scrub --wait: \
mismatches, or sectors that it could not compare; ublk: a device without a server), 4 refused for safety.
--yes answers questions; --force also overrides refusals, where a command tells them apart.
NO_COLOR=1 turns colours off. `stria COMMAND --help` describes the options of a command.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an array of drives. All drives are checked before anything is written. Without arguments, on a terminal, it asks.
    Create(Create),
    /// Show the contents of drives, without writing to them.
    Examine(Examine),
    /// Show which arrays would start from these drives, or why not; --start serves them.
    Assemble(Assemble),
    /// Serve arrays over NBD, in the foreground, until stopped by `stria stop` or a signal.
    Serve(Serve),
    /// Serve all arrays of this machine that belong to Stria: each starts once its drives are present.
    Daemon(Daemon),
    /// Give an array to Stria: the daemon starts it from now on, and mdadm leaves it alone.
    Adopt(Adopt),
    /// List arrays of other machines or programs on this machine's drives, or adopt one.
    Import(Import),
    /// Give an array back: the daemon leaves it alone, and mdadm may assemble it.
    Release(Release),
    /// Start an array that waits for drives or was stopped.
    Start(Start),
    /// Report a new drive to the daemon. udev runs this command.
    Incremental(Incremental),
    /// Make the daemon read its configuration again, and search all drives.
    Reload(Reload),
    /// Check or show the daemon's configuration.
    Config(ConfigCommand),
    /// Add drives to the pool of spares for all arrays of the daemon, list them, or remove them.
    Spare(SpareCommand),
    /// Show past events, and commands with their users.
    Events(Events),
    /// Show the arrays that are served.
    Status(Status),
    /// Show the block devices of `serve --ublk`, or remove one that a dead server left.
    Ublk(Ublk),
    /// Make a served array a block device of this machine, /dev/nbdN, through the kernel's NBD client. Its users only pause while
    /// the server restarts.
    Attach(Attach),
    /// Remove the block device that `attach` made.
    Detach(Detach),
    /// Drop a drive as if it had failed; a spare takes its slot.
    Fail(Member),
    /// Remove a failed drive or a spare.
    Remove(Remove),
    /// Add a drive: a former member returns by the write-intent bitmap, any other drive becomes a spare.
    Add(Add),
    /// Copy a working drive to a new one, which then takes its slot.
    Replace(Replace),
    /// Read and compare all data and redundancy; report mismatches, or repair them.
    Scrub(Scrub),
    /// Trim a range of an array: it then reads as zeros, and the drives free its space.
    Trim(Trim),
    /// Explain what is wrong with the arrays, what it means, what to do, and what not to do now.
    Explain(Explain),
    /// Make, list or remove tokens for the daemon's API.
    Token(Token),
    /// Rename an array on its drives; it must not be served.
    Rename(Rename),
    /// Destroy an array: its superblocks are erased, and its data is lost.
    Destroy(Destroy),
    /// Erase array metadata and signatures of file systems from drives, or all of their data by the drives' own means.
    Wipe(Wipe),
    /// Grow an array, or change its level, layout or strip (not implemented yet; says what to do instead).
    #[command(aliases = ["reshape", "expand", "resize", "migrate"])]
    Grow(Grow),
    /// Change settings of an array, served or not: write acknowledgement, drive caches, read-only, bitmap, write log, checksums.
    Set(Set),
    /// Limit the speed of resync, rebuild and scrub.
    Speed(Speed),
    /// Pause resync, rebuild and scrub at their position.
    Pause(Named),
    /// Resume paused resync, rebuild and scrub.
    Resume(Named),
    /// Stop an array cleanly, or all arrays of one server.
    Stop(Stop),
    /// List the open alarms, or send a test.
    Alarm(Alarm),
    /// Show the health that drives report: wear, temperature, errors, and what to do.
    Health(Health),
    /// Show the firmware of a member, or update it while the array serves: one member at a time, only while redundancy remains.
    Firmware(Firmware),
    /// Show scheduled scrubs and self-tests: when they are due, and what the last ones found.
    Routine(Routine),
    /// Switch a drive's locate light on or off.
    Locate(Locate),
    /// Write the manual pages of all commands into a folder.
    #[command(hide = true)]
    Manual {
        /// The folder.
        folder: PathBuf,
    },
    /// Check the login on standard input by PAM: a process of the daemon's own.
    #[command(hide = true)]
    PamCheck,
    /// Print completions for a shell: stria completions bash > /etc/bash_completion.d/stria
    #[command(display_order = 100)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// An array by name.
#[derive(Args, Debug)]
pub struct Named {
    /// The array.
    pub name: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria create`
#[derive(Args, Debug)]
pub struct Create {
    /// The array's name: up to 31 bytes.
    pub name: String,
    /// RAID level: jbod, 0, 1, 4, 5, 6, 10, 50 or 60.
    #[arg(long, short, value_parser = LevelParser, hide_possible_values = true)]
    pub level: ArrayLevel,
    /// Layout, named as in mdadm: left-symmetric or ls, la, rs, ra, parity-first …; n2, f2, o2 … for RAID 10.
    #[arg(long)]
    pub layout: Option<String>,
    /// Consecutive bytes on one member (md: chunk), 4K to 1M; the default depends on the number and kind of drives.
    #[arg(long, visible_alias = "chunk", value_name = "SIZE", value_parser = size::parse_sectors)]
    pub strip: Option<u64>,
    /// Number of spans of a 50 or 60, by default 2. The drives are assigned to spans in order.
    #[arg(long, value_name = "N")]
    pub spans: Option<usize>,
    /// A spare, which takes an empty slot automatically; repeat for more.
    #[arg(long, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub spare: Vec<PathBuf>,
    /// Write-intent bitmap: none, internal, or internal:CHUNK with the bytes that one bit covers.
    #[arg(long, default_value = "internal", value_parser = settings::bitmap)]
    pub bitmap: BitmapChoice,
    /// Write log of parity levels: auto, or none. Without it a crash in which a drive is lost can damage data that was not being
    /// written (the write hole), and after a crash a degraded array starts only with --force.
    #[arg(long, default_value = "auto", value_parser = settings::log)]
    pub log: LogChoice,
    /// Store a checksum of every 4 KiB on the drives. The next read finds data that changed at rest, and corrects it from
    /// redundancy. Checksums take 0.1 % of the space and some speed; a write of less than 4 KiB needs a read first.
    #[arg(long)]
    pub integrity: bool,
    /// Skip the first resync. Right if the drives are consistent (all zeros) or their contents do not matter; wrong on drives
    /// with old contents.
    #[arg(long)]
    pub assume_clean: bool,
    /// The most space to use on each drive.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_sectors)]
    pub size: Option<u64>,
    /// Ask nothing: drives that carry something are refused.
    #[arg(long, short)]
    pub yes: bool,
    /// Overwrite what the drives carry, also members of other arrays.
    #[arg(long)]
    pub force: bool,
    /// Drives in the order of their slots: block devices or files, or the word `missing`.
    #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
}

/// `stria examine`
#[derive(Args, Debug)]
pub struct Examine {
    /// Print each structure field by field: offset, bytes, meaning. Of the write log and of checksums: the heads, the newest
    /// append to each part, and the first page.
    #[arg(long)]
    pub raw: bool,
    /// Block devices or files.
    #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
}

/// `stria assemble`
#[derive(Args, Debug)]
pub struct Assemble {
    /// Search all block devices.
    #[arg(long)]
    pub scan: bool,
    /// Serve the arrays that can start, as `stria serve` does.
    #[arg(long)]
    pub start: bool,
    /// An array's name, then drives; only drives; or, with --scan, only names.
    #[arg(value_name = "NAME|DRIVE", value_hint = ValueHint::FilePath, required_unless_present = "scan")]
    pub what: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub options: ServeOptions,
}

/// `stria serve`
#[derive(Args, Debug)]
pub struct Serve {
    /// Drives of one or more arrays, or names of arrays; a name is searched for on all block devices.
    #[arg(required = true, value_name = "ARRAY|DRIVE", value_hint = ValueHint::FilePath)]
    pub what: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub options: ServeOptions,
}

/// How to serve.
#[derive(Args, Clone, Debug)]
pub struct ServeOptions {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub nbd: NbdOptions,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub vhost_user: VhostUserOptions,
    /// Also make each array a block device of this machine, /dev/ublkbN, with number N or any free number (as root, Linux 6.5 or
    /// later). A device that a dead server of the same array left is taken over; its users, such as a mounted file system,
    /// continue.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub ublk: Option<Option<u32>>,
    /// The side that copies the data of a new block device: Stria, with a system call for each request, or the kernel's driver.
    /// The driver makes reads cheaper and writes more expensive (docs/UBLK.md). A device that is taken over does not change.
    #[arg(long, value_enum, value_name = "SIDE", default_value_t = UblkCopy::Server, requires = "ublk")]
    pub ublk_copy: UblkCopy,
    /// Serve reads only; no byte of any member is written.
    #[arg(long)]
    pub read_only: bool,
    /// When a write is acknowledged; see `stria set`.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    pub write: WriteMode,
    /// Switch the drives' own write caches on or off at the start; the default is no change.
    #[arg(long, value_name = "on|off", value_parser = settings::switch)]
    pub drive_caches: Option<bool>,
    /// Accept the drives' contents without their checksums, after Linux wrote to a RAID 0 or JBOD.
    #[arg(long)]
    pub forget_checksums: bool,
    /// Start although data may be lost: degraded and not stopped cleanly, or with stale members.
    #[arg(long)]
    pub force: bool,
    /// Search the found arrays for another array on them, and serve that array: for nested arrays that mdadm made, and once for a
    /// 50 or 60 that Stria made before it marked spans. Repeat for each further level. Without it the content of an array never
    /// affects how it is served.
    #[arg(long, action = ArgAction::Count)]
    pub nested: u8,
    /// Serve the array under another name (one array only).
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The number of threads (lanes) for each array, 1 to 64. Each lane has its part of the stripes and of the clients. The
    /// default depends on the processors; arrays with checksums or md's partial parity log run on one lane.
    #[arg(long, value_name = "COUNT", value_parser = lanes)]
    pub lanes: Option<u8>,
    /// Poll instead of sleeping: each lane takes a whole processor, even when idle, and clients wait a few microseconds less. By
    /// default an idle lane sleeps after at most 50 microseconds of polling (in a virtual machine 100).
    #[arg(long)]
    pub poll: bool,
    /// Poll for completions of reads and writes on drives that offer it (NVMe with nvme.poll_queues=N on the kernel's command
    /// line), instead of taking an interrupt for each. A lane does not sleep while a request is in flight.
    #[arg(long)]
    pub io_poll: bool,
    /// Send reads and writes to the drives as NVMe commands that bypass the block layer. It needs root. Every drive must be a
    /// whole NVMe namespace without metadata beside its blocks. Other programs still cannot open its block device.
    #[arg(long)]
    pub passthrough: bool,
    /// Keep each lane on one of these processors, in this order: 2 or 0-3,6. By default lanes run on any processor.
    #[arg(long, value_name = "LIST", value_parser = cpus, conflicts_with = "numa_node")]
    pub cpus: Option<Cpus>,
    /// Keep the lanes on the processors of this NUMA node: a number, or any. The default on machines with several nodes is the
    /// node of most drives.
    #[arg(long, value_name = "NODE", value_parser = numa_node)]
    pub numa_node: Option<NumaNode>,
    /// Where NBD clients are served: on the array's own threads (lane), which saves messages between threads, or on separate
    /// threads (apart), which leaves the array's threads more time. The default depends on the number of processors.
    #[arg(long, value_enum, value_name = "WHERE")]
    pub clients: Option<Clients>,
    /// Log only warnings and errors.
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub monitor: MonitorOptions,
}

impl ServeOptions {
    /// How to open what is served.
    pub fn how(&self) -> OpenOptions {
        OpenOptions {
            force: self.force,
            read_only: self.read_only,
            forget_checksums: self.forget_checksums,
            nested: self.nested,
            firmware: if self.read_only { FirmwareRaid::Read } else { FirmwareRaid::Left },
            io: IoOptions { poll: self.io_poll, passthrough: self.passthrough },
            write_policy: self.write.into(),
            drive_caches: self.drive_caches,
        }
    }
}

/// Processors, in the order given.
pub type Cpus = Vec<usize>;

/// Where NBD clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clients {
    /// On the array's own threads, distributed among them.
    Lane,
    /// On separate threads.
    Apart,
}

fn numa_node(text: &str) -> Result<NumaNode, String> {
    let number = || text.parse().map(NumaNode::Number).map_err(|_| format!("{text:?} is no NUMA node; write a number, or any"));
    if text == "any" { Ok(NumaNode::Any) } else { number() }
}

/// Levels, which completions list; `raid5` is one, too.
#[derive(Clone)]
struct LevelParser;

impl TypedValueParser for LevelParser {
    type Value = ArrayLevel;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&clap::Arg>, value: &OsStr) -> Result<ArrayLevel, clap::Error> {
        let parse: fn(&str) -> Result<ArrayLevel, String> = str::parse;
        parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["0", "1", "4", "5", "6", "10", "50", "60", "jbod"].into_iter().map(PossibleValue::new)))
    }
}

/// The processors that are named, all of which this machine has.
fn cpus(text: &str) -> Result<Cpus, String> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    cpus_of(text, online.trim())
}

fn cpus_of(text: &str, online: &str) -> Result<Cpus, String> {
    let cpus = cpu_list(text)?;
    let here = cpu_list(online).unwrap_or_default();
    match cpus.iter().find(|cpu| !here.is_empty() && !here.contains(cpu)) {
        Some(cpu) => {
            let (count, has) = (here.len(), if here.len() == 1 { "processor" } else { "processors" });
            Err(format!(
                "processor {cpu} is not there, as this machine has {count} {has} ({online}): name some of these, or leave --cpus out"
            ))
        }
        None => Ok(cpus),
    }
}

fn cpu_list(text: &str) -> Result<Cpus, String> {
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| format!("{text:?} is not a processor; write 2 or 0-3,6"));
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= 1024 {
            return Err(format!("{part} is not a range of processors below 1024"));
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// `stria ublk`
#[derive(Args, Debug)]
pub struct Ublk {
    /// The action; the default lists the devices.
    #[command(subcommand)]
    pub action: Option<UblkAction>,
}

/// What to do with a block device.
#[derive(Debug, Subcommand)]
pub enum UblkAction {
    /// Remove a device that a dead server left. Unflushed writes are lost.
    Remove {
        /// N of /dev/ublkbN.
        id: u32,
        /// Remove it even if it is mounted or in use; its users' requests fail.
        #[arg(long)]
        force: bool,
    },
}

/// `stria attach`
#[derive(Args, Debug)]
#[command(after_help = ATTACH_HELP)]
pub struct Attach {
    /// The array.
    pub name: String,
    /// /dev/nbdN. The default is any free one, or the array's own block device if `serve --ublk` has made one.
    #[arg(value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub device: Option<PathBuf>,
    /// The number of the kernel's connections to the server, 1 to 64. Several connections use several lanes at a time, but
    /// --timeout then has another meaning, and a restart of the server takes longer.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = connections)]
    pub connections: usize,
    /// With one connection: the seconds until a request of a lost connection is repeated; by default 0.2. With several: the
    /// seconds until any request counts as lost and is repeated, even if it is only slow; by default 30.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub timeout: Option<u64>,
    /// The seconds that requests wait for a server that has ended before they fail.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub dead_timeout: u64,
    /// Stay in the foreground and log to standard error, for use as a service (systemd: Type=notify). By default a process in the
    /// background watches the device and logs to /run/stria/nbd-N.log.
    #[arg(long, short)]
    pub foreground: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

const ATTACH_HELP: &str = "\
A process, the watcher, connects the device again when the array is served again. On SIGTERM it detaches the device, or \
leaves it attached if it is in use; `stria attach` then watches it again. Needs root; `modprobe nbd` loads the driver.";

fn connections(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=64).contains(count));
    count.ok_or_else(|| format!("{text:?} is not a count of connections; write 1 to 64"))
}

/// `stria detach`
#[derive(Args, Debug)]
pub struct Detach {
    /// The array, by name or UUID, or the device.
    #[arg(value_name = "ARRAY|DEVICE", value_hint = ValueHint::FilePath)]
    pub what: PathBuf,
    /// Detach it even if it is mounted or in use; its users' requests fail.
    #[arg(long)]
    pub force: bool,
}

/// `stria status`
#[derive(Args, Debug)]
pub struct Status {
    /// One array; by default all.
    pub name: Option<String>,
    /// Show the status again every second, until interrupted.
    #[arg(long, short)]
    pub watch: bool,
    /// Show all details of every array: lanes, response times, the write log.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print the format of /proc/mdstat, for programs that read it.
    #[arg(long, conflicts_with_all = ["verbose", "json"])]
    pub mdstat: bool,
    /// Answer as a Nagios plug-in: one line, and the exit code 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN).
    #[arg(long, conflicts_with_all = ["verbose", "json", "watch", "mdstat"])]
    pub nagios: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria fail`
#[derive(Args, Debug)]
pub struct Member {
    /// The array.
    pub name: String,
    /// The drive: its path, its serial number, or its slot (of one span: SPAN:SLOT).
    #[arg(value_hint = ValueHint::FilePath)]
    pub drive: PathBuf,
    /// Do not ask.
    #[arg(long, visible_alias = "yes", visible_short_alias = 'y')]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria remove`
#[derive(Args, Debug)]
pub struct Remove {
    /// The array.
    pub name: String,
    /// The drive: its path, its serial number, or its slot (of one span: SPAN:SLOT).
    #[arg(value_hint = ValueHint::FilePath)]
    pub drive: PathBuf,
    /// Refused with a reason: of an unknown option the parser would say that another one was meant.
    #[arg(long, alias = "yes", short_alias = 'y', hide = true)]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria add`
#[derive(Args, Debug)]
pub struct Add {
    /// The array.
    pub name: String,
    /// Drives to add.
    #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub drives: Vec<PathBuf>,
    /// Add to this span of a 50 or 60, by its name.
    #[arg(long, value_name = "NAME")]
    pub span: Option<String>,
    /// Ask nothing: drives that carry something are refused. A former member of the array joins.
    #[arg(long, short)]
    pub yes: bool,
    /// Overwrite what the drives carry, also members of other arrays.
    #[arg(long)]
    pub force: bool,
    /// Wait for the end of the rebuild.
    #[arg(long, short)]
    pub wait: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria replace`
#[derive(Args, Debug)]
pub struct Replace {
    /// The array.
    pub name: String,
    /// The drive to replace: its path, its serial number, or its slot (of one span: SPAN:SLOT).
    #[arg(value_hint = ValueHint::FilePath)]
    pub old: PathBuf,
    /// The new drive, or a spare of the array.
    #[arg(value_hint = ValueHint::FilePath)]
    pub new: PathBuf,
    /// Ask nothing: a new drive that carries something is refused.
    #[arg(long, short)]
    pub yes: bool,
    /// Overwrite what the new drive carries, also a member of another array.
    #[arg(long)]
    pub force: bool,
    /// Wait until the new drive has taken the slot.
    #[arg(long, short)]
    pub wait: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria scrub`
#[derive(Args, Debug)]
pub struct Scrub {
    /// The array.
    pub name: String,
    /// Repair mismatches. If RAID 6 or three copies name the wrong member, it is corrected. Otherwise, as in md, parity is
    /// rewritten from data, and the other copies from the first.
    #[arg(long, conflicts_with = "cancel")]
    pub repair: bool,
    /// Repair without asking, even if redundancy cannot name the wrong member (one parity, two copies).
    #[arg(long, visible_alias = "yes", visible_short_alias = 'y', requires = "repair")]
    pub force: bool,
    /// Wait for the end of the scrub; interrupting the wait does not end it.
    #[arg(long, short, conflicts_with = "cancel")]
    pub wait: bool,
    /// Resume a scrub at the position that its last message names, such as 123456s.
    #[arg(long, value_name = "POSITION", value_parser = size::parse, default_value = "0", conflicts_with = "cancel")]
    pub from: u64,
    /// End the running scrub.
    #[arg(long)]
    pub cancel: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria trim`
#[derive(Args, Debug)]
pub struct Trim {
    /// The array.
    pub name: String,
    /// Offset and length, such as 1GiB:64MiB; the default is the complete array.
    #[arg(long, value_name = "OFFSET:LENGTH", value_parser = range)]
    pub range: Option<(u64, u64)>,
    /// Do not ask: the data in the range is lost.
    #[arg(long, visible_alias = "yes", visible_short_alias = 'y')]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (offset, length) = text.split_once(':').ok_or("write it as OFFSET:LENGTH, for instance 1GiB:64MiB")?;
    Ok((size::parse(offset)?, size::parse(length)?))
}

fn latency(text: &str) -> Result<LatencyBound, String> {
    if text == "off" {
        return Ok(LatencyBound { percentile: 100.0, bound_us: None });
    }
    let usage = "write it as p99=5ms, p99.9=20ms and so on, or off";
    let (percentile, bound) = text.strip_prefix('p').and_then(|rest| rest.split_once('=')).ok_or(usage)?;
    let percentile: f64 = percentile.parse().map_err(|_| usage)?;
    let bound = humantime::parse_duration(bound).map_err(|error| format!("{error}; {usage}"))?;
    Ok(LatencyBound { percentile, bound_us: u64::try_from(bound.as_micros()).ok() })
}

/// A bound on speed; 0: none.
fn bound(text: &str) -> Result<u64, String> {
    if text == "none" { Ok(0) } else { size::parse(text) }
}

/// `stria speed`
#[derive(Args, Debug)]
#[group(id = "bounds", required = true, multiple = true, args = ["min", "max", "latency"])]
pub struct Speed {
    /// The array.
    pub name: String,
    /// Minimum for each member per second, even while clients work; initially 20MiB. With 0 or "none" only --latency counts.
    #[arg(long, value_name = "SIZE", value_parser = bound)]
    pub min: Option<u64>,
    /// Maximum for each member per second; initially, and with 0 or "none", unlimited.
    #[arg(long, value_name = "SIZE", value_parser = bound)]
    pub max: Option<u64>,
    /// The clients' latency that sweeps must keep, such as p99=1ms (the default; 50ms on hard disks). With "off" sweeps run at
    /// --min while clients work.
    #[arg(long, value_name = "pPERCENT=TIME", value_parser = latency)]
    pub latency: Option<LatencyBound>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}

/// `stria locate`
#[derive(Args, Debug)]
pub struct Locate {
    /// The drive.
    #[arg(value_hint = ValueHint::FilePath)]
    pub drive: PathBuf,
    /// Switch the light off.
    #[arg(long)]
    pub off: bool,
}

/// `stria stop`
#[derive(Args, Debug)]
pub struct Stop {
    /// One array; by default all arrays of the running serve.
    pub name: Option<String>,
    /// Disconnect clients, and wait five seconds at most for a drive that does not answer.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub control: Control,
}
