//! The JSON of the REST API. `docs/openapi.json` is generated from these declarations and those of [`crate::api`].

use crate::api::{AdoptedState, AdoptedView, ArrayView, EventView, FirmwareActivation, LatencyBound, Obstacle};
use crate::config::{Fault, Likeness};
use crate::keeper::PoolOffer;
pub use crate::matter::Urgency;
use crate::matter::{MatterKind, ReasonSentence};
use crate::monitor::StandingView;
use crate::pool::PoolDrive;
use crate::settings::WriteMode;
use crate::wipe::WipeMeans;
use crate::words::error::ErrorSentence;
use crate::words::event::{EventSentence, told};
use crate::words::plan::PlanSentence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use stria_alarm::{Acknowledgement, Event};
use stria_health::{DriveHealth, Seat, SlowMember};

/// The rights of a user, each with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May see everything but the configuration's text.
    View,
    /// May do what loses no data: start, stop, scrub, add an empty drive, replace a member.
    Operate,
    /// May do everything.
    Admin,
}

impl Role {
    /// The word that is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// The proof of identity of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The kernel names the process at the other end of the unix socket.
    Unix,
    /// A bearer token.
    Token,
    /// A client certificate.
    Certificate,
    /// A session, begun with a token or a password.
    Session,
}

/// The caller.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Who {
    /// The user, or the name of the token or certificate.
    pub name: String,
    /// The rights.
    pub role: Role,
    /// The proof.
    pub via: Via,
    /// The value that requests of a session carry in the header `x-stria-csrf` when they change something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csrf: Option<String>,
    /// The end of the session, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// The daemon that answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// The version of the program.
    pub version: String,
    /// The version of this API.
    pub api: u32,
    /// The name of the machine.
    pub machine: String,
    /// The present run of the daemon. Sequence numbers of events count within one run.
    pub boot: String,
    /// The daemon's clock, in milliseconds since 1970.
    pub time_ms: u64,
    /// The daemon's time zone, in which schedules and quiet hours are: its name, such as `Europe/Berlin`, or its distance from UTC,
    /// such as `UTC+01:00`.
    pub zone: String,
    /// The caller.
    pub user: Who,
}

/// The proof that begins a session.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Login {
    /// A token.
    Token {
        /// The token that `stria token create` has shown.
        token: String,
    },
    /// An account of the system, where `[api] system-accounts` admits those.
    Account {
        /// Its name.
        user: String,
        /// Its password.
        password: String,
    },
}

/// The ways to begin a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoginWays {
    /// True if accounts of the system log in with their password.
    pub accounts: bool,
}

/// The kind of a matter, for programs: it stays the same when its words change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MatterId {
    /// A state of an array, as in `stria explain --json`.
    State(MatterKind),
    /// An alarm.
    Alarm(Event),
}

/// Something that is wrong.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MatterView {
    /// The array or span; empty: it is about the configuration.
    pub array: String,
    /// The kind.
    pub kind: MatterId,
    /// The urgency.
    pub urgency: Urgency,
    /// The fault.
    pub what: String,
    /// The meaning of the fault: what is at risk.
    pub means: String,
    /// The remedy.
    pub action: String,
    /// Steps that would make it worse now.
    pub avoid: String,
    /// When it began, in milliseconds since 1970, if that is known.
    pub since_ms: Option<u64>,
    /// The drives that it is about, by path.
    pub drives: Vec<String>,
    /// Remedies that can be planned. An empty path in one stands for a drive that the user chooses.
    pub remedies: Vec<Action>,
    /// The cause, as it was recorded; for an alarm, its text.
    pub reason: Option<String>,
    /// The cause for programs; absent: it has text alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<ReasonSentence>,
    /// The latest acknowledgement, if every alarm about it is acknowledged. It is as wrong as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

/// The state of the machine.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The worst urgency.
    pub urgency: Urgency,
    /// All of it in one sentence, the worst first.
    pub sentence: String,
    /// What is wrong, the worst first.
    pub matters: Vec<MatterView>,
    /// The reasons why all else is well, in sentences.
    pub well: Vec<String>,
    /// The channels by which people are told of alarms, such as `mail`. The journal does not count. An empty list means that nobody is told.
    pub told_by: Vec<String>,
}

/// A sweep that runs on an array or a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// The array or span.
    pub array: String,
    /// `resync`, `rebuild`, `scrub`, `repair`.
    pub kind: String,
    /// Bytes done: of each member during a rebuild, else of what redundancy covers.
    pub done_bytes: u64,
    /// Bytes in total.
    pub total_bytes: u64,
    /// The speed over the last seconds.
    pub bytes_per_s: u64,
    /// The time until the rest is done at that speed.
    pub left_s: Option<u64>,
    /// The speed on each member to which it is limited while clients work.
    pub held_bytes_per_s: Option<u64>,
    /// Sectors whose redundancy did not match so far.
    pub mismatch_sectors: u64,
}

/// The work of all clients, or of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientRate {
    /// The client, by address or process; empty for the sum of all.
    pub peer: String,
    /// Requests answered.
    pub requests_per_s: f64,
    /// Bytes read.
    pub read_bytes_per_s: f64,
    /// Bytes written.
    pub written_bytes_per_s: f64,
    /// Requests that wait for their answer now.
    pub in_flight: u64,
}

/// The work of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberRate {
    /// The member's path.
    pub path: String,
    /// Reads ended.
    pub reads_per_s: f64,
    /// Writes ended.
    pub writes_per_s: f64,
    /// Bytes read.
    pub read_bytes_per_s: f64,
    /// Bytes written.
    pub written_bytes_per_s: f64,
}

/// What happened between the last two looks at an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// The time between the looks: a long one means an average.
    pub over_ms: u64,
    /// The sum over clients.
    pub total: ClientRate,
    /// Each client.
    pub clients: Vec<ClientRate>,
    /// Each drive, of spans too. Latencies are in the array's view.
    pub members: Vec<MemberRate>,
    /// The share of a processor that each lane used; a lane that polls always uses all of one.
    pub lanes: Vec<f64>,
}

/// An array that belongs to Stria on this machine, served or not.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArrayEntry {
    /// Its name here.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// Served, or the reason why not.
    pub state: AdoptedState,
    /// The reason in words.
    pub text: String,
    /// The same for programs; absent: it has text alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<ErrorSentence>,
    /// The kind of reason, of an array that waits or is refused.
    pub obstacle: Option<Obstacle>,
    /// Its drives that are here.
    pub drives: Vec<String>,
    /// The seconds until it is looked at again, and starts without the drives that it lacks.
    pub again_in_s: Option<u64>,
    /// Everything about it while it is served.
    pub view: Option<ArrayView>,
    /// Sweeps that run on it and its spans.
    pub tasks: Vec<Task>,
    /// The work of the last seconds; null until it was looked at twice.
    pub rates: Option<Rates>,
    /// Members that are slow beside their peers.
    pub slow: Vec<SlowMember>,
}

impl From<&AdoptedView> for ArrayEntry {
    /// Of an array that is not served.
    fn from(array: &AdoptedView) -> Self {
        let AdoptedView { name, uuid, state, text, said, obstacle, drives, again_in_s } = array.clone();
        Self {
            name,
            uuid,
            state,
            text,
            said,
            obstacle,
            drives,
            again_in_s,
            view: None,
            tasks: Vec::new(),
            rates: None,
            slow: Vec::new(),
        }
    }
}

impl From<&ArrayEntry> for AdoptedView {
    fn from(entry: &ArrayEntry) -> Self {
        let ArrayEntry { name, uuid, state, text, said, obstacle, drives, again_in_s, .. } = entry.clone();
        Self { name, uuid, state, text, said, obstacle, drives, again_in_s }
    }
}

/// The array that a drive is a member of.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DriveMembership {
    /// Its name: here if it is served, else on disk.
    pub array: String,
    /// Its identity.
    pub uuid: String,
    /// True while it is served.
    pub served: bool,
    /// The slot and role in a served array.
    pub slot: Option<usize>,
    /// `in sync`, `rebuilding`, `replacing`, `spare`, `failed`; null if it is not served.
    pub role: Option<String>,
}

/// A drive of this machine.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DrivePage {
    /// Its path.
    pub path: String,
    /// Its stable name below /dev/disk/by-id, if it has one.
    pub by_id: Option<String>,
    /// `ssd`, `hdd`, `file`; null: it could not be opened.
    pub kind: Option<String>,
    /// The model that it reports.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// What lies on it, in words; empty: nothing that is recognised.
    pub carries: Vec<String>,
    /// The array it is a member of.
    pub member: Option<DriveMembership>,
    /// The volumes of firmware RAID that it belongs to. Stria reads them and never writes them.
    pub volumes: Vec<FirmwareVolume>,
    /// Why they cannot be told, if it carries metadata of such volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_error: Option<String>,
    /// The same for programs, if it has a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_error_said: Option<ErrorSentence>,
    /// Other users of it: a mount point, a kernel device. Such a drive cannot be chosen.
    pub users: Vec<String>,
    /// True if nothing lies on it and nobody uses it.
    pub free: bool,
    /// True if it is in the pool of spares.
    pub pool: bool,
    /// Why it cannot be read.
    pub error: Option<String>,
    /// The same for programs, if it has a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_said: Option<ErrorSentence>,
    /// What it reports of itself.
    pub health: Option<DriveHealth>,
    /// When it was asked, in seconds since 1970.
    pub health_read_at_s: Option<u64>,
    /// Why its health is unknown.
    pub health_error: Option<String>,
    /// Where it sits.
    pub seat: Option<Seat>,
    /// The drive and what it carries, for a later comparison (`stria_host::Examined::mark`); `None`: it was not read.
    #[serde(skip)]
    pub mark: Option<String>,
}

/// A volume that a mainboard or a controller made, as the metadata of one of its drives record it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FirmwareVolume {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// The format of its metadata: `IMSM` (Intel) or `DDF` (SNIA, of many controllers).
    pub format: String,
    /// Its level, as mdadm names it: `raid5`.
    pub level: String,
    /// The number of its members.
    pub member_count: usize,
    /// The slot of this drive.
    pub slot: usize,
    /// The slots whose members have failed or are missing. One may be that of this drive.
    pub missing_slots: Vec<usize>,
    /// The slots whose members are being filled.
    pub rebuilding_slots: Vec<usize>,
    /// True if its redundancy holds.
    pub clean: bool,
}

/// The pool of spares that arrays share.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SparePool {
    /// Whether a spare must be of the kind of an array's members: SSD or hard disk.
    pub kind: Likeness,
    /// Whether it must sit in their enclosure, where the machine knows enclosures.
    pub enclosure: Likeness,
    /// Its drives.
    pub drives: Vec<PoolDrive>,
    /// What it has for each array that is served and takes spares.
    pub offers: Vec<PoolOffer>,
}

/// Something that the daemon can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Makes an array, takes it into the configuration and starts it.
    Create(CreateAction),
    /// Removes a stopped array from its drives and from the configuration: its data is lost.
    Destroy {
        /// The array.
        array: String,
    },
    /// Removes every signature from drives, or all of their data.
    Wipe {
        /// The drives.
        drives: Vec<PathBuf>,
        /// The extent of the erasure, and the side that does it.
        #[serde(default)]
        means: WipeMeans,
    },
    /// Takes an array that lies on this machine's drives into the configuration and starts it.
    Adopt {
        /// Its name on disk, or its UUID.
        array: String,
        /// Its name here; its own if not given.
        #[serde(default)]
        name: Option<String>,
        /// It becomes a block device, too.
        #[serde(default)]
        ublk: bool,
    },
    /// Removes a stopped array from the configuration. Its drives stay as they are.
    Release {
        /// The array.
        array: String,
    },
    /// Starts an array, degraded too.
    Start {
        /// The array.
        array: String,
        /// Start although data may be lost.
        #[serde(default)]
        force: bool,
    },
    /// Stops an array.
    Stop {
        /// The array.
        array: String,
        /// Disconnect its clients.
        #[serde(default)]
        force: bool,
    },
    /// Gives a stopped array another name.
    Rename {
        /// The array.
        array: String,
        /// The new name.
        name: String,
    },
    /// Drops a member as if it had failed.
    Fail {
        /// The array.
        array: String,
        /// The member's path.
        drive: PathBuf,
    },
    /// Takes a failed member or a spare out.
    Remove {
        /// The array.
        array: String,
        /// The member's path.
        drive: PathBuf,
    },
    /// Adds a drive: one that was away returns, any other becomes a spare or fills a gap.
    Add {
        /// The array.
        array: String,
        /// The drive.
        drive: PathBuf,
        /// The span to add it to; the one that lacks a member most if not given.
        #[serde(default)]
        span: Option<String>,
    },
    /// Copies a member to another drive, which takes its place. Redundancy stays.
    Replace {
        /// The array.
        array: String,
        /// The member's path.
        old: PathBuf,
        /// The new drive, or a spare of the array.
        new: PathBuf,
    },
    /// Updates the firmware of an NVMe member, while the array serves.
    Firmware {
        /// The array.
        array: String,
        /// The member's path.
        drive: PathBuf,
        /// The file with the image, which the daemon can read.
        image: PathBuf,
        /// The firmware slot; the drive chooses if it is not given.
        #[serde(default)]
        slot: Option<u8>,
        /// How the firmware comes to run: without a reset if the drive offers that and this is not given, else by a reset.
        #[serde(default)]
        activate: Option<FirmwareActivation>,
        /// Go on although data may be lost if the new firmware fails.
        #[serde(default)]
        force: bool,
    },
    /// Reads everything and compares redundancy.
    Scrub {
        /// The array.
        array: String,
        /// Repair what does not match.
        #[serde(default)]
        repair: bool,
        /// Where to begin: 0, or where a scrub was stopped.
        #[serde(default)]
        from_bytes: u64,
    },
    /// Stops a scrub.
    CancelScrub {
        /// The array.
        array: String,
    },
    /// Holds sweeps.
    Pause {
        /// The array.
        array: String,
    },
    /// Lets sweeps go on.
    Resume {
        /// The array.
        array: String,
    },
    /// Bounds the speed of sweeps.
    Speed {
        /// The array.
        array: String,
        /// The speed on each member that sweeps keep even while clients work; 0: none, only the latency counts.
        #[serde(default)]
        min_bytes_per_s: Option<u64>,
        /// The speed on each member that sweeps never exceed; 0 lifts the bound.
        #[serde(default)]
        max_bytes_per_s: Option<u64>,
        /// The latency that sweeps leave to clients.
        #[serde(default)]
        latency: Option<LatencyBound>,
    },
    /// Changes settings of an array. What is not given stays as it is.
    Set {
        /// The array.
        array: String,
        /// When a write is acknowledged.
        #[serde(default)]
        write: Option<WriteMode>,
        /// The drives' own write caches: on or off.
        #[serde(default)]
        drive_caches: Option<bool>,
        /// Writes are refused.
        #[serde(default)]
        read_only: Option<bool>,
        /// The write-intent bitmap: `none`, `internal`, or `internal:CHUNK`.
        #[serde(default)]
        bitmap: Option<String>,
        /// The write log of parity levels: `auto` or `none`.
        #[serde(default)]
        log: Option<String>,
        /// Checksums of the drives' content.
        #[serde(default)]
        integrity: Option<bool>,
        /// Disconnect clients where the change needs a pause.
        #[serde(default)]
        force: bool,
    },
    /// Takes an array that another machine or program left: it gets its name here, on its drives too, belongs to Stria, and starts.
    Import {
        /// Its name on disk, or its UUID.
        array: String,
        /// Its name here; its own if not given.
        #[serde(default)]
        name: Option<String>,
        /// Writes are refused, and no byte of a drive is written: its name on them stays, too.
        #[serde(default)]
        read_only: bool,
        /// It becomes a block device, too.
        #[serde(default)]
        ublk: bool,
    },
    /// Puts drives into the pool of spares.
    SpareAdd {
        /// The drives.
        drives: Vec<PathBuf>,
    },
    /// Takes drives out of the pool of spares. One that an array has taken stays in that array.
    SpareRemove {
        /// The drives.
        drives: Vec<PathBuf>,
    },
    /// Switches the light of a drive.
    Locate {
        /// The drive.
        drive: PathBuf,
        /// On or off.
        on: bool,
    },
    /// Trims a range: it reads as zeros afterwards, its data is lost.
    Trim {
        /// The array.
        array: String,
        /// Where the range starts.
        start_bytes: u64,
        /// Its length; to the end if not given.
        #[serde(default)]
        length_bytes: Option<u64>,
    },
}

impl Action {
    /// The array that the action is about.
    pub fn array(&self) -> Option<&str> {
        match self {
            Self::Create(create) => Some(&create.name),
            Self::Wipe { .. } | Self::SpareAdd { .. } | Self::SpareRemove { .. } | Self::Locate { .. } => None,
            Self::Destroy { array }
            | Self::Adopt { array, .. }
            | Self::Release { array }
            | Self::Start { array, .. }
            | Self::Stop { array, .. }
            | Self::Rename { array, .. }
            | Self::Fail { array, .. }
            | Self::Remove { array, .. }
            | Self::Add { array, .. }
            | Self::Replace { array, .. }
            | Self::Firmware { array, .. }
            | Self::Scrub { array, .. }
            | Self::CancelScrub { array }
            | Self::Pause { array }
            | Self::Resume { array }
            | Self::Speed { array, .. }
            | Self::Set { array, .. }
            | Self::Import { array, .. }
            | Self::Trim { array, .. } => Some(array),
        }
    }
}

/// An array to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAction {
    /// Its name.
    pub name: String,
    /// `0`, `1`, `4`, `5`, `6`, `10`, `50`, `60` or `jbod`.
    pub level: String,
    /// Its drives in the order of slots; null: missing from the start.
    pub drives: Vec<Option<PathBuf>>,
    /// Its spares.
    #[serde(default)]
    pub spares: Vec<PathBuf>,
    /// The strip; by the number and kind of drives if not given.
    #[serde(default)]
    pub strip_bytes: Option<u64>,
    /// The layout in mdadm's words; the level's usual one if not given.
    #[serde(default)]
    pub layout: Option<String>,
    /// Spans of a 50 or 60; two if not given.
    #[serde(default)]
    pub spans: Option<usize>,
    /// The most that is used of each drive.
    #[serde(default)]
    pub member_bytes: Option<u64>,
    /// Keeps a write-intent bitmap, where the level is redundant.
    #[serde(default = "yes")]
    pub bitmap: bool,
    /// Keeps a write log, on parity levels.
    #[serde(default = "yes")]
    pub log: bool,
    /// Keeps checksums of the drives' content.
    #[serde(default)]
    pub integrity: bool,
    /// The drives' content is consistent already: no first resync.
    #[serde(default)]
    pub assume_clean: bool,
    /// It becomes a block device, too.
    #[serde(default)]
    pub ublk: bool,
}

fn yes() -> bool {
    true
}

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extent {
    /// Its beginning.
    pub start_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}

/// What is written to one drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriveWrite {
    /// The drive.
    pub drive: String,
    /// Its model and serial number.
    pub identity: Option<String>,
    /// What is written, in words.
    pub what: String,
    /// Where, as far as it is known before.
    pub extents: Vec<Extent>,
    /// What is lost on it; null: nothing.
    pub loses: Option<String>,
    /// The same for programs.
    pub said: WriteWords,
}

/// The sentences of what is written to a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteWords {
    /// What is written.
    pub what: PlanSentence,
    /// What is lost; null: nothing.
    pub loses: Option<PlanSentence>,
}

/// The sentences of a plan, each with its code and values, in the order of their texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanWords {
    /// What happens.
    pub title: PlanSentence,
    /// What is lost.
    pub loses: Vec<PlanSentence>,
    /// What else should be known before.
    pub warnings: Vec<PlanSentence>,
}

/// The array that a plan would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// The size that clients would see.
    pub size_bytes: u64,
    /// How many members may be lost without loss of data, whichever they are.
    pub losses_survived: usize,
    /// The strip, if the level has strips.
    pub strip_bytes: Option<u64>,
}

/// What an action would do. Nothing is done yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The action.
    pub action: Action,
    /// What happens, in one sentence.
    pub title: String,
    /// What is written where. Metadata of drives that stay as they are is left out.
    pub writes: Vec<DriveWrite>,
    /// True if no drive is written to.
    pub writes_nothing: bool,
    /// What is lost, in sentences; empty: nothing.
    pub loses: Vec<String>,
    /// What else should be known before.
    pub warnings: Vec<String>,
    /// The same for programs: a client words it in its reader's language.
    pub said: PlanWords,
    /// The array that it would make.
    pub forecast: Option<Forecast>,
    /// The role that may carry it out.
    pub role: Role,
    /// The text to be typed to confirm it: the array's name. Null: the token suffices.
    pub confirm: Option<String>,
}

/// A plan with the token that carries it out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanOffer {
    /// The token: for one use, for the caller who asked for the plan.
    pub token: String,
    /// The end of its life, in milliseconds since 1970.
    pub expires_ms: u64,
    /// The plan.
    pub plan: Plan,
    /// How long it takes, if it fills a drive. Null: it ends at once, or nobody knows.
    pub takes: Option<PlanTime>,
}

/// What the time of a plan is estimated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PaceBasis {
    /// Long reads of the slowest member, as they were measured.
    Measured,
    /// What drives of this kind usually do.
    Typical,
    /// The array's speed limit of rebuilds, which is below both.
    Limit,
}

/// How long a plan takes: an estimate. Clients that work meanwhile make it longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanTime {
    /// The estimate.
    pub seconds: u64,
    /// The bytes that are written to the drive.
    pub bytes: u64,
    /// The pace that is assumed.
    pub bytes_per_s: u64,
    /// The source of the pace.
    pub basis: PaceBasis,
}

/// Carries out a plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The plan's token.
    pub token: String,
    /// The text of `Plan.confirm`, typed by a person.
    #[serde(default)]
    pub confirm: Option<String>,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It runs.
    Running,
    /// It has ended well.
    Done,
    /// It failed, or was refused.
    Failed,
    /// It was cancelled before its end.
    Cancelled,
}

/// An action that is being carried out, or was. It goes on without the client that began it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Counts up, over restarts of the daemon.
    pub id: u64,
    /// The action.
    pub action: Action,
    /// What happens, in one sentence.
    pub title: String,
    /// The same for programs; absent: another version began it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<PlanSentence>,
    /// The user who began it.
    pub by: String,
    /// Its state.
    pub state: JobState,
    /// What it does now, or how it ended, in words.
    pub text: String,
    /// The text for programs: what it does now or has done, the ends of the sweeps that it began, or why it failed. Absent: a part
    /// of it has text alone.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub ends: Option<Vec<EventSentence>>,
    /// The sweep that it waits for.
    pub task: Option<Task>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
}

/// Events of the past, the newest last.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// Events of this run that the file of the daemon's state still lacks after some seconds: a restart would lose them. 0: it has all.
    pub unstored: usize,
    /// The events. Those of earlier runs of the daemon have sequence numbers of their own run.
    pub events: Vec<EventView>,
    /// True if there are older ones.
    pub more: bool,
}

/// Everything that changes, as the stream sends it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The present run of the daemon.
    pub boot: String,
    /// The daemon's clock, in milliseconds since 1970.
    pub time_ms: u64,
    /// The machine in one sentence, and what is wrong.
    pub summary: Summary,
    /// The arrays.
    pub arrays: Vec<ArrayEntry>,
    /// The last jobs, the newest last.
    pub jobs: Vec<Job>,
    /// The causes of alarms that last.
    pub alarms: Vec<StandingView>,
}

/// The configuration as a file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigText {
    /// Its content.
    pub text: String,
    /// Names the content that was read, so that no change of somebody else is lost. A change carries the one it is based on.
    #[serde(default)]
    pub tag: String,
}

/// What a configuration is worth.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConfigVerdict {
    /// True if the daemon could use it.
    pub good: bool,
    /// The first fault with its line, or that there is none.
    pub text: String,
    /// Every fault that can be found at once, in the order of the lines: of the text, and of what it names on this machine.
    pub faults: Vec<Fault>,
}

/// A sentence about what was done.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The sentence.
    pub message: String,
    /// The same for programs; null: it has text alone.
    pub ends: Option<Vec<EventSentence>>,
}

impl From<String> for Message {
    fn from(message: String) -> Self {
        Self { ends: told(&message), message }
    }
}
