//! The JSON of requests and answers on the control socket, version 1.
//!
//! | method and path | body | answer |
//! | --- | --- | --- |
//! | `GET /v1` | | [`ServiceView`] |
//! | `GET /v1/arrays` | | list of [`ArrayView`] |
//! | `GET /v1/arrays/{name}` | | [`ArrayView`] |
//! | `POST /v1/arrays/{name}/stop` | [`StopRequest`] | [`Done`], when the array has stopped |
//! | `POST /v1/arrays/{name}/members` | [`AddRequest`] | [`Done`] |
//! | `POST /v1/arrays/{name}/members/fail`, `…/remove` | [`MemberRequest`] | [`Done`] |
//! | `POST /v1/arrays/{name}/members/replace` | [`ReplaceRequest`] | [`Done`] |
//! | `POST /v1/arrays/{name}/members/firmware` | [`FirmwareRequest`] | [`Done`], when the firmware runs, or waits for a reset |
//! | `POST /v1/arrays/{name}/scrub` | [`ScrubRequest`] | [`Done`], when it has begun |
//! | `DELETE /v1/arrays/{name}/scrub` | | [`Done`], when it has ended |
//! | `POST /v1/arrays/{name}/pause`, `…/resume` | | [`Done`] |
//! | `PUT /v1/arrays/{name}/speed` | [`SpeedRequest`] | [`Done`] |
//! | `PUT /v1/arrays/{name}/settings` | [`SettingsRequest`] | [`Done`], when they hold |
//! | `POST /v1/arrays/{name}/trim` | [`TrimRequest`] | [`Done`] |
//! | `GET /v1/events?since=SEQUENCE` | | list of [`EventView`]; as `text/event-stream` one by one, for ever |
//! | `POST /v1/stop` | [`StopRequest`] | [`Done`], when everything has stopped |
//! | `GET /v1/alarms` | | list of `monitor::StandingView`: the causes of alarms that last |
//! | `POST /v1/alarms/acknowledge` | `monitor::AcknowledgeRequest` | `monitor::StandingView`: the alarm as it stands then |
//! | `POST /v1/alarms/test` | | list of [`stria_alarm::Outcome`]: what became of the test on each channel |
//! | `GET /v1/health` | | `monitor::HealthPage` |
//! | `GET /metrics` | | figures for Prometheus, as text |
//!
//! Only `stria daemon` has these:
//!
//! | method and path | body | answer |
//! | --- | --- | --- |
//! | `GET /v1/adopted` | | list of [`AdoptedView`]: the arrays of its configuration |
//! | `POST /v1/adopted/{name}/start` | [`StartRequest`] | [`Done`], when the array is served |
//! | `POST /v1/drives` | [`DriveRequest`] | [`Done`], when the drive was looked at |
//! | `POST /v1/reload` | | [`Done`], when the configuration applies |
//! | `GET /v1/routine` | | list of [`RoutineView`]: scrubs and self-tests by schedule |
//!
//! `{name}` is an array's name without its host. Every refusal is an [`ApiError`] under the key `error`.

pub use crate::settings::SettingsRequest;
use crate::settings::WriteMode;
use crate::words::error::{ErrorSentence, Words};
use crate::words::event::{EventSentence, ServiceSentence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use stria_drive::{DriveError, LaneStopped};
use stria_host::HostError;
use stria_terminal::Failure;

/// The process that answers at this socket.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServiceView {
    /// The program's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Names of the arrays that it serves.
    pub arrays: Vec<String>,
}

/// An array of the daemon's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdoptedView {
    /// Its name here.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// Its state: served, or the reason why not.
    pub state: AdoptedState,
    /// The reason in words.
    pub text: String,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<ErrorSentence>,
    /// The kind of reason, of an array that waits or is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Obstacle>,
    /// Its drives that are here.
    pub drives: Vec<String>,
    /// The seconds until it is looked at again, and starts without the drives that it lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_in_s: Option<u64>,
}

/// What keeps an array of the configuration from being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// Drives are missing.
    Drives,
    /// More drives are missing than redundancy covers: without them it cannot start.
    TooFew,
    /// Another program uses a drive.
    InUse,
    /// A drive does not answer.
    Silent,
    /// The group that the configuration names for its sockets is not there.
    Group,
    /// Another one, which the text names.
    Other,
}

/// The state of an array of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdoptedState {
    /// None of its drives is here.
    Absent,
    /// It lacks drives.
    Waiting,
    /// It is served.
    Served,
    /// It was stopped by command, or is not to start by itself.
    Stopped,
    /// It could not be started.
    Refused,
}

/// `POST /v1/drives`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DriveRequest {
    /// The drive that has come.
    pub path: PathBuf,
    /// It was attached just now, so a running array may take it back.
    #[serde(default)]
    pub plugged_in: bool,
}

/// `POST /v1/adopted/{name}/start`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StartRequest {
    /// Start although data may be lost.
    #[serde(default)]
    pub force: bool,
}

/// The health of an array: the worst of it and its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthView {
    /// Every slot has an in-sync member.
    Optimal,
    /// Less redundancy than the level has.
    Degraded,
    /// Lost more than redundancy allows.
    Failed,
}

/// One array, as `status` shows it.
// In JSON the fields of all components stand side by side, in this order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArrayView {
    /// What it is called.
    #[serde(flatten)]
    pub identity: IdentityView,
    /// How it places data on its members.
    #[serde(flatten)]
    pub geometry: GeometryView,
    /// The state that it is in.
    #[serde(flatten)]
    pub condition: ConditionView,
    /// What it consists of.
    #[serde(flatten)]
    pub parts: PartsView,
    /// What its redundancy is worth, and the work on it.
    #[serde(flatten)]
    pub redundancy: RedundancyView,
    /// The state in one line, the worst first: `DEGRADED: slot 2 missing, survives 1 more failure, no spare`.
    #[serde(default)]
    pub headline: String,
    /// What it does for its writes.
    #[serde(flatten)]
    pub writes: WritesView,
    /// The bounds on the speed of its sweeps, as they were set: a null one is the default (at least 20 MiB/s, no upper bound, no bound on latency).
    /// Null: a span, which has those of its array.
    #[serde(default)]
    pub speed: Option<SpeedRequest>,
    /// The drives' own write caches, in words; null: the members are files, or it is a span.
    #[serde(default)]
    pub drive_caches: Option<String>,
    /// True if they were switched on, false if off; null: they are as they were found.
    #[serde(default)]
    pub drive_caches_set: Option<bool>,
    /// Requests that have not ended.
    pub in_flight: usize,
    /// The count of superblock updates.
    pub events: u64,
    /// When it was created, in seconds since 1970.
    pub created_s: u64,
    /// The ways by which clients reach it.
    #[serde(flatten)]
    pub access: AccessView,
    /// The threads that it runs on, the coordinator first; empty for a span, which runs on the threads of its array.
    #[serde(default)]
    pub lanes: Vec<LaneView>,
}

/// What an array is called.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct IdentityView {
    /// Its name without host; also its export's name.
    pub name: String,
    /// `host:name`, or `name`.
    pub full_name: String,
    /// Its identity, as mdadm writes it.
    pub uuid: String,
}

/// How an array places data on its members.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct GeometryView {
    /// `jbod`, `0`, `1`, `4`, `5`, `6`, `10`, `50`, `60`.
    pub level: String,
    /// In mdadm's words; `plain` if a level has only one.
    pub layout: String,
    /// `None`: the level has no strips.
    pub strip_bytes: Option<u64>,
    /// Why the strip has this size.
    pub strip_reason: Option<String>,
    /// The size that clients see.
    pub size_bytes: u64,
}

/// The state that an array is in, and what it therefore refuses.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConditionView {
    /// The worst of it and its spans.
    pub health: HealthView,
    /// In words: `clean`, `degraded, rebuilding`.
    pub state: String,
    /// Its redundancy has been reduced since then, in seconds since 1970; null: it is not, or no known event says when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_s: Option<u64>,
    /// The lanes have not answered for so long; the view shows the state before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<u64>,
    /// The headline before that; absent: the array answers, or has not yet answered since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline_before: Option<String>,
    /// True if nothing is in flight and the superblocks say clean.
    pub clean: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// Writes are refused for this: what was in flight at the last crash could not be replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreplayed: Option<String>,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub unreplayed_said: Option<ErrorSentence>,
    /// Superblocks cannot be written, for this reason: writes and flushes fail until they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superblock_refused: Option<String>,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub superblock_refused_said: Option<ErrorSentence>,
    /// Drives that came back while it was served, and were left as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_alone: Vec<LeftAloneView>,
    /// True if clients may trim, and trimmed ranges read as zeros. False: some drive cannot zero and unmap at once.
    #[serde(default)]
    pub trim_zeroes: bool,
    /// Sweeps are paused by command.
    pub paused: bool,
    /// The cost of sweeps for clients is being measured: they are held twice for some seconds.
    #[serde(default)]
    pub measuring: bool,
}

impl ConditionView {
    /// Why what was in flight at the last crash could not be replayed.
    pub fn unreplayed_words(&self) -> Option<Words> {
        self.unreplayed.clone().map(|text| Words { text, said: self.unreplayed_said.clone() })
    }

    /// Why superblocks cannot be written.
    pub fn superblock_refused_words(&self) -> Option<Words> {
        self.superblock_refused.clone().map(|text| Words { text, said: self.superblock_refused_said.clone() })
    }
}

/// What an array consists of.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PartsView {
    /// In order of their handles; failed ones stay until they are removed.
    pub members: Vec<MemberView>,
    /// Slots without a member.
    pub missing_slots: Vec<usize>,
    /// The drives that last had these slots, as the daemon remembers them over restarts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_drives: Vec<LastDrive>,
    /// Arrays among the members.
    pub spans: Vec<ArrayView>,
}

/// What an array's redundancy is worth, and the work on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RedundancyView {
    /// The sweep that runs.
    pub sweep: Option<SweepView>,
    /// Redundancy may be inconsistent somewhere.
    pub resync_pending: bool,
    /// Sectors whose redundancy did not match in the last complete scrub.
    pub mismatch_sectors: Option<u64>,
    /// Sectors that the last complete scrub could not compare, because members were missing or could not be read.
    #[serde(default)]
    pub unchecked_sectors: u64,
    /// The mismatches of the last complete scrub of which redundancy cannot tell the wrong side, as far as events are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<UndecidedView>,
    /// The last complete scrub, as the daemon remembers it over restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scrub: Option<ScrubView>,
    /// The time when the daemon scrubs it next by schedule, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_scrub_s: Option<u64>,
    /// True if that scrub repaired them.
    #[serde(default)]
    pub mismatch_repaired: bool,
    /// How many more members may be lost without loss of data, whichever they are; with spans, the least of them.
    #[serde(default)]
    pub losses_survived: usize,
}

/// What an array does for its writes, and what a power cut costs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WritesView {
    /// The write-intent bitmap.
    pub bitmap: Option<BitmapView>,
    /// The write log; null: there is none.
    pub log: Option<LogView>,
    /// When a write is acknowledged; null: a span, which does as the array above it asks.
    #[serde(default)]
    pub write: Option<WriteMode>,
    /// The same in words, and what a power cut costs.
    #[serde(default)]
    pub power_cut: String,
}

/// The ways by which clients reach an array, and the clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AccessView {
    /// URIs by which clients reach it.
    pub exports: Vec<String>,
    /// Its block device on this machine.
    #[serde(default)]
    pub block_device: Option<String>,
    /// Devices of this machine's NBD client that it is attached to (`stria attach`).
    #[serde(default)]
    pub attached: Vec<String>,
    /// Sockets at which it is the disk of a virtual machine.
    #[serde(default)]
    pub vhost_user: Vec<String>,
    /// The connected clients.
    pub clients: Vec<ClientView>,
}

/// The drive that last had a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastDrive {
    /// The slot.
    pub slot: usize,
    /// Its path then.
    pub path: String,
    /// Its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Where it sits, in words: `slot 7 of enclosure 3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// Mismatches of which redundancy cannot tell the wrong side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndecidedView {
    /// The drives whose copies differ, the first copy first. Empty on parity: any member of a stripe may be wrong.
    pub drives: Vec<String>,
    /// The number of sectors.
    pub sectors: u64,
    /// The first of them: of the array on mirrors, of each member's data on parity.
    pub first_sector: u64,
    /// The last of them.
    pub last_sector: u64,
}

/// A scrub that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubView {
    /// The time of its end, in seconds since 1970.
    pub ended_s: u64,
    /// The sectors whose redundancy did not match.
    pub mismatch_sectors: u64,
    /// The sectors that it could not compare, because members were missing or could not be read.
    #[serde(default)]
    pub unchecked_sectors: u64,
    /// True if it repaired them.
    pub repaired: bool,
}

/// Routine work, as `stria routine` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoutineView {
    /// `scrub`, `self-test`, `long self-test`.
    pub what: String,
    /// The array or drive.
    pub of: String,
    /// The schedule, as the configuration says.
    pub schedule: String,
    /// True if it runs.
    pub running: bool,
    /// True if it was interrupted, and goes on from there.
    pub interrupted: bool,
    /// The time when the last one ended, in seconds since 1970.
    pub last_s: Option<u64>,
    /// The time when the next one is due. It lies in the past if that waits for quiet hours, its link, or the array.
    pub next_s: Option<u64>,
    /// The outcome of the last one.
    pub outcome: Option<String>,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<ServiceSentence>,
}

/// One member.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberView {
    /// Its slot, or its last one.
    pub slot: Option<usize>,
    /// The drive's path, or the span's name.
    pub path: String,
    /// `in sync`, `rebuilding`, `replacing`, `spare`, `failed`.
    pub role: String,
    /// Whether I/O bypasses the page cache; `None`: it is a span.
    pub direct: Option<bool>,
    /// Why it does not.
    pub direct_note: Option<String>,
    /// How its reads and writes are completed: by `interrupts`, or `polled`. As commands past the block layer: `passthrough`,
    /// or `passthrough, polled`. Null: it is a span.
    #[serde(default)]
    pub way: Option<String>,
    /// The model that the drive reports.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// The drive's size.
    pub size_bytes: Option<u64>,
    /// Read errors; most were corrected from redundancy and rewritten.
    pub read_errors: u64,
    /// Hedged reads: reads that other members answered, as this one left them unanswered for far longer than is usual for it.
    pub hedged_reads: u64,
    /// Sectors that do not match redundancy, by the last or the running scrub.
    pub wrong_sectors: u64,
    /// Wrong sectors that were rewritten from redundancy since the array started.
    pub repaired_sectors: u64,
    /// Sectors recorded as bad blocks: they hold nothing usable until they are written.
    #[serde(default)]
    pub bad_sectors: u64,
    /// What its checksums have found since the array started; null: it has none.
    pub checksums: Option<ChecksumView>,
    /// Reads ended.
    pub read_count: u64,
    /// Writes ended.
    pub write_count: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// It had no space for a write in the last minute: its file system or pool is full, and clients get that error.
    #[serde(default)]
    pub no_room: bool,
    /// Its file was deleted or replaced, or the one behind its loop device: its bytes are lost when the array stops.
    #[serde(default)]
    pub file_deleted: bool,
    /// Its write cache was switched on under the array, which sends it no flushes, and cannot be switched off.
    #[serde(default)]
    pub cache_unflushed: bool,
    /// The array's data is not complete without it, so that it cannot be failed.
    #[serde(default)]
    pub needed: bool,
    /// It is gone, and keeps its slot and role, as the array cannot do without it: what it holds is out of reach.
    #[serde(default)]
    pub lost: bool,
    /// Why it was dropped or lost.
    pub failure: Option<String>,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub failure_said: Option<ErrorSentence>,
    /// Failed, lost or silent since then, in seconds since 1970; null: none of these, or no known event says when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_s: Option<u64>,
    /// How long its recent reads took; `None`: it is a span, or has read nothing yet.
    #[serde(default)]
    pub read_latency: Option<LatencyView>,
    /// How long its recent writes took.
    #[serde(default)]
    pub write_latency: Option<LatencyView>,
    /// How long its oldest unanswered request has waited, if there is one.
    #[serde(default)]
    pub waiting_ms: Option<u64>,
}

/// How long requests of one kind take, exact to 12 %.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LatencyView {
    /// The recent requests that median and 99th percentile are of. All members begin anew when a resync or rebuild of the array ends.
    #[serde(default)]
    pub count: u64,
    /// Half of the recent ones took no longer.
    pub median_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
    /// The longest since the start.
    pub max_us: u64,
    /// Those since the start that took over ten times the median of that time, and over a millisecond.
    pub slow_count: u64,
}

/// A thread that an array runs on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LaneView {
    /// Its settings and their reasons, in words.
    pub setup: String,
    /// The processor that it is restricted to.
    pub cpu: Option<usize>,
    /// True if it polls instead of sleeping.
    pub polls: bool,
    /// True if NBD clients live on it, rather than on threads of their own.
    pub clients_on_lane: bool,
    /// Calls into the kernel for the drives, and to sleep.
    pub ring_calls: u64,
    /// Entries that they submitted.
    pub ring_entries: u64,
    /// Those of them that moved registered buffers.
    #[serde(default)]
    pub ring_fixed: u64,
    /// The processor time that it has used, in microseconds.
    #[serde(default)]
    pub processor_us: u64,
}

/// What the checksums of a member have found, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChecksumView {
    /// Read, and equal to what was written.
    pub verified: u64,
    /// The checksum was unknown, and is known now.
    pub learned: u64,
    /// Held other bytes than were written.
    pub wrong: u64,
    /// Of those, rewritten since.
    pub mended: u64,
}

/// A sweep.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SweepView {
    /// `resync`, `rebuild`, `scrub`, `repair`.
    pub kind: String,
    /// Bytes done: of each member during a rebuild, else of what redundancy covers.
    pub done_bytes: u64,
    /// Bytes in total, of the same.
    pub total_bytes: u64,
    /// Over the last seconds.
    pub bytes_per_s: u64,
    /// When the rest will be done at that speed.
    pub eta_s: Option<u64>,
    /// The speed on each member to which it is limited while clients work.
    #[serde(default)]
    pub held_bytes_per_s: Option<u64>,
    /// Sectors whose redundancy did not match so far.
    pub mismatch_sectors: u64,
    /// Sectors that a scrub could not compare so far.
    #[serde(default)]
    pub unchecked_sectors: u64,
}

/// The write log since the array started.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogView {
    /// Appends to members' logs.
    pub append_count: u64,
    /// Log records in them.
    pub record_count: u64,
    /// Bytes of them.
    pub append_bytes: u64,
    /// Writes that were acknowledged early.
    #[serde(default)]
    pub early_count: u64,
    /// Appends that found no space in the log, and waited until records were retired.
    #[serde(default)]
    pub full_count: u64,
    /// Replay is not complete.
    pub replaying: bool,
    /// Log records that the last run left after a crash.
    pub replayed_count: u64,
    /// True if it is md's partial parity log, not Stria's own.
    pub partial_parity: bool,
}

/// The write-intent bitmap.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BitmapView {
    /// Bits set.
    pub dirty_count: usize,
    /// Bits in all.
    pub bit_count: usize,
    /// How many bytes one bit covers.
    pub chunk_bytes: u64,
}

/// A connected client.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClientView {
    /// Counts up over the server's life.
    pub id: u64,
    /// Address, or process and user.
    pub peer: String,
    /// It uses TLS.
    #[serde(default)]
    pub tls: bool,
    /// Requests answered.
    pub requests: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests not yet answered.
    pub in_flight: u64,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Counts up from 1 without gaps.
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The array or span.
    pub array: String,
    /// `member_failed`, `member_gone`, `no_room`, `member_silent`, `member_answers`, `spare_taken`, `member_in_sync`,
    /// `read_corrected`, `wrong_bytes`, `bad_blocks`, `unreadable`, `lane_silent`, `lane_answers`, `sweep_started`,
    /// `sweep_finished`, `sweep_stopped`, `mismatch`; of the service itself `started`, `changed`, `paused`, `resumed`, `stopping`, `stopped`,
    /// `warning`, `alarm`, `alarm_over`; of the daemon `waiting`, `member_returned`, `ordered`, `routine`, `self_test`,
    /// `foreseen`, `pool_spare_taken`.
    pub kind: String,
    /// The reason in words.
    pub text: String,
    /// The same for programs, where the event is of a kind that has a sentence of its own.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<EventSentence>,
    /// The sentence of the value `reason` of `said`, where the engine gave that as text.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub cause: Option<ErrorSentence>,
    /// Which sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// Which slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<usize>,
    /// How many sectors did not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch_sectors: Option<u64>,
    /// How many sectors a scrub could not compare, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked_sectors: Option<u64>,
}

/// The result of a command.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// The reason in words.
    pub message: String,
    /// The last event before the command: its consequences have larger numbers.
    pub sequence: u64,
}

/// A drive that came back to an array, and that the daemon left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftAloneView {
    /// Its path.
    pub path: String,
    /// Why, and what to do.
    pub text: String,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<ErrorSentence>,
}

/// See the table above.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopRequest {
    /// Disconnect clients.
    #[serde(default)]
    pub force: bool,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberRequest {
    /// The drive.
    pub path: PathBuf,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddRequest {
    /// The drive.
    pub path: PathBuf,
    /// The span to add it to.
    #[serde(default)]
    pub span: Option<String>,
    /// Overwrite what it carries.
    #[serde(default)]
    pub force: bool,
    /// Overwrite what it carries as long as that, and the drive, are what was confirmed: `stria_host::Examined::mark`.
    #[serde(default)]
    pub confirmed: Option<String>,
    /// Refuse any other drive than this, or one that carries something else by now; permits no overwriting.
    #[serde(default)]
    pub seen: Option<String>,
    /// It has come back by itself: it returns to what it was in the array, or is left as it is.
    #[serde(default)]
    pub return_only: bool,
}

/// `POST /v1/arrays/{name}/members/firmware`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FirmwareRequest {
    /// The member.
    pub path: PathBuf,
    /// The file with the image; the process that serves the array reads it.
    pub image: PathBuf,
    /// The firmware slot; the drive chooses if it is not given.
    #[serde(default)]
    pub slot: Option<u8>,
    /// How the firmware comes to run: without a reset if the drive offers that and this is not given, else by a reset.
    #[serde(default)]
    pub activate: Option<FirmwareActivation>,
    /// Go on although data may be lost if the new firmware fails.
    #[serde(default)]
    pub force: bool,
}

/// How new firmware comes to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FirmwareActivation {
    /// Without a reset: the member stays in the array, and answers late once.
    Now,
    /// By a reset of its controller: the member leaves the array for that, and returns by the write-intent bitmap.
    Reset,
    /// At the next reset or power cycle: it is only stored.
    Later,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplaceRequest {
    /// The drive to be replaced.
    pub old: PathBuf,
    /// The new drive.
    pub new: PathBuf,
    /// Overwrite what it carries.
    #[serde(default)]
    pub force: bool,
    /// As for [`AddRequest`].
    #[serde(default)]
    pub confirmed: Option<String>,
}

/// See the table above.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScrubRequest {
    /// Repair what does not match.
    #[serde(default)]
    pub repair: bool,
    /// Where to begin: 0, or where a scrub was stopped.
    #[serde(default)]
    pub from_bytes: u64,
}

/// Bounds on the speed of sweeps. In a request, a null one stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SpeedRequest {
    /// Speed on each member that sweeps keep even while clients work; 0: none, only the latency counts.
    pub min_bytes_per_s: Option<u64>,
    /// Speed on each member that sweeps never exceed; in a request, 0 lifts the bound.
    pub max_bytes_per_s: Option<u64>,
    /// The latency that sweeps leave to clients.
    #[serde(default)]
    pub latency: Option<LatencyBound>,
}

/// So many percent of clients' requests end within a time while sweeps run; otherwise sweeps slow down, to `min_bytes_per_s` at
/// the least.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBound {
    /// For example 99 or 99.9; at most two decimals.
    pub percentile: f64,
    /// `null`: no bound on latency; while clients work, sweeps run at `min_bytes_per_s`.
    pub bound_us: Option<u64>,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrimRequest {
    /// Where the range starts.
    pub start_bytes: u64,
    /// How long it is; `None`: to the end.
    pub length_bytes: Option<u64>,
    /// Must be set: the data in the range is destroyed.
    #[serde(default)]
    pub force: bool,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What a program acts on.
    pub kind: ApiErrorKind,
    /// What a person reads.
    pub message: String,
    /// The same for programs; absent: it has text alone, or another version sent it.
    #[serde(default, deserialize_with = "stria_sentence::if_known", skip_serializing_if = "Option::is_none")]
    pub said: Option<Box<ErrorSentence>>,
}

/// Kinds of [`ApiError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApiErrorKind {
    /// No array of this name, or no such path.
    NotFound,
    /// The request makes no sense.
    Invalid,
    /// Impossible in the present state.
    Refused,
    /// Refused because data might be lost; `force` overrides it.
    Unsafe,
    /// Tried, and failed.
    Failed,
    /// Nobody is known by what was shown.
    Unauthorized,
    /// The user may not do this.
    Forbidden,
    /// The action needs a plan that is confirmed.
    PlanNeeded,
    /// What was planned or read no longer holds.
    PlanChanged,
    /// Too many attempts, or too much at a time.
    TooMany,
}

/// An [`ApiError`] as it is sent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The refusal.
    pub error: ApiError,
}

impl ApiError {
    /// A refusal of this kind.
    pub fn new(kind: ApiErrorKind, message: impl Into<Words>) -> Self {
        let Words { text, said } = message.into();
        Self { kind, message: text, said: said.map(Box::new) }
    }

    /// Its words.
    pub fn words(&self) -> Words {
        Words { text: self.message.clone(), said: self.said.as_deref().cloned() }
    }
}

impl From<HostError> for ApiError {
    fn from(error: HostError) -> Self {
        let kind = match error {
            HostError::Unsafe(_) | HostError::Start { is_unsafe: true, .. } => ApiErrorKind::Unsafe,
            HostError::Join(ref refused) if refused.is_unsafe() => ApiErrorKind::Unsafe,
            HostError::Denied(ref denial) if denial.is_usage() => ApiErrorKind::Invalid,
            HostError::Create(ref impossible) if impossible.is_usage() => ApiErrorKind::Invalid,
            HostError::Usage(_) => ApiErrorKind::Invalid,
            // The drive that was named is not here, or cannot serve as it is.
            HostError::Drive(
                DriveError::Missing { .. }
                | DriveError::Denied { .. }
                | DriveError::Busy { .. }
                | DriveError::Silent { .. }
                | DriveError::Unfit { .. }
                | DriveError::NoPassthrough { .. },
            )
            | HostError::Refused(_)
            | HostError::Start { .. }
            | HostError::Engine(_)
            | HostError::Denied(_)
            | HostError::ErasedInPart { .. }
            | HostError::Create(_)
            | HostError::Join(_)
            | HostError::Silent { .. } => ApiErrorKind::Refused,
            HostError::Drive(DriveError::System { .. } | DriveError::Ring { .. } | DriveError::Lane { .. })
            | HostError::Io(_)
            | HostError::Lane(_) => ApiErrorKind::Failed,
        };
        Self::new(kind, error)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        match error.kind {
            ApiErrorKind::Unsafe => Self::Unsafe(error.message),
            ApiErrorKind::Invalid => Self::Usage(error.message),
            ApiErrorKind::NotFound
            | ApiErrorKind::Refused
            | ApiErrorKind::Failed
            | ApiErrorKind::Unauthorized
            | ApiErrorKind::Forbidden
            | ApiErrorKind::PlanNeeded
            | ApiErrorKind::PlanChanged
            | ApiErrorKind::TooMany => Self::Failed(error.message),
        }
    }
}

impl From<LaneStopped> for ApiError {
    fn from(error: LaneStopped) -> Self {
        Self::new(ApiErrorKind::Failed, error.to_string())
    }
}
