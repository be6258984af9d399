//! What crosses the control socket: the JSON of requests and answers, version 1.
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
//! | `POST /v1/arrays/{name}/scrub` | [`ScrubRequest`] | [`Done`], when it has begun |
//! | `DELETE /v1/arrays/{name}/scrub` | | [`Done`], when it has ended |
//! | `POST /v1/arrays/{name}/pause`, `…/resume` | | [`Done`] |
//! | `PUT /v1/arrays/{name}/speed` | [`SpeedRequest`] | [`Done`] |
//! | `POST /v1/arrays/{name}/trim` | [`TrimRequest`] | [`Done`] |
//! | `GET /v1/events?since=SEQUENCE` | | list of [`EventView`]; as `text/event-stream` one by one, for ever |
//! | `POST /v1/stop` | [`StopRequest`] | [`Done`], when everything has stopped |
//!
//! `{name}` is an array's name without its host. Every refusal is an [`ApiError`] under the key `error`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use stria_drive::{DriveError, LaneStopped};
use stria_host::HostError;
use stria_terminal::Failure;

/// Who answers at this socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceView {
    /// The program's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Names of the arrays that it serves.
    pub arrays: Vec<String>,
}

/// How well an array is, the worst of it and its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthView {
    /// Every role has a whole member.
    Optimal,
    /// Less redundancy than the level has.
    Degraded,
    /// Lost more than redundancy allows.
    Failed,
}

/// One array, as `status` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArrayView {
    /// Its name without host; also its export's name.
    pub name: String,
    /// `host:name`, or `name`.
    pub full_name: String,
    /// Its identity, as mdadm writes it.
    pub uuid: String,
    /// `jbod`, `0`, `1`, `4`, `5`, `6`, `10`, `50`, `60`.
    pub level: String,
    /// In mdadm's words; `plain` where a level has only one.
    pub layout: String,
    /// `None`: the level has no strips.
    pub strip_bytes: Option<u64>,
    /// Why the strip is what it is.
    pub strip_reason: Option<String>,
    /// What clients see.
    pub size_bytes: u64,
    /// The worst of it and its spans.
    pub health: HealthView,
    /// In words: `clean`, `degraded, rebuilding`.
    pub state: String,
    /// Its lanes have not answered for so long: what is shown is how it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<u64>,
    /// Nothing is in flight and the superblocks say so.
    pub clean: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// Clients may trim; what they trim reads as zeros. False: some drive cannot zero and give room back at once.
    #[serde(default)]
    pub trim_zeroes: bool,
    /// Sweeps are held on command.
    pub paused: bool,
    /// In order of their handles; the failed ones stay until they are removed.
    pub members: Vec<MemberView>,
    /// Roles that nobody holds.
    pub missing_slots: Vec<usize>,
    /// Arrays among the members.
    pub spans: Vec<ArrayView>,
    /// What runs in the background.
    pub sweep: Option<SweepView>,
    /// Redundancy is not yet known to agree everywhere.
    pub resync_pending: bool,
    /// Sectors whose redundancy disagreed in the last scrub that went through.
    pub mismatch_sectors: Option<u64>,
    /// Whether that scrub repaired them.
    #[serde(default)]
    pub mismatch_repaired: bool,
    /// How many more members may be lost without loss of data, whichever they are; of spans the least.
    #[serde(default)]
    pub losses_survived: usize,
    /// The state in one line, the worst first: `DEGRADED: slot 2 missing, survives 1 more failure, no spare`.
    #[serde(default)]
    pub headline: String,
    /// The write-intent bitmap.
    pub bitmap: Option<BitmapView>,
    /// The write log; null: there is none.
    pub log: Option<LogView>,
    /// Requests that have not ended.
    pub in_flight: usize,
    /// The superblocks' count of records.
    pub events: u64,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
    /// Where clients find it.
    pub exports: Vec<String>,
    /// Who is connected.
    pub clients: Vec<ClientView>,
    /// The threads that it runs on, the home lane first; empty for a span, which runs on the array's.
    #[serde(default)]
    pub lanes: Vec<LaneView>,
}

/// One member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberView {
    /// Its role's number, or the last it had.
    pub slot: Option<usize>,
    /// The drive's path, or the span's name.
    pub path: String,
    /// `in sync`, `rebuilding`, `replacing`, `spare`, `failed`.
    pub role: String,
    /// Whether I/O goes past the page cache; `None`: it is a span.
    pub direct: Option<bool>,
    /// Why it does not.
    pub direct_note: Option<String>,
    /// How its reads and writes go: `interrupts` tell their ends, or they are `polled` for; as commands past the block layer:
    /// `passthrough`, or `passthrough, polled`. Null: it is a span.
    #[serde(default)]
    pub way: Option<String>,
    /// What the drive calls itself.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// The drive's size.
    pub size_bytes: Option<u64>,
    /// Read errors met; most were reconstructed and rewritten.
    pub read_errors: u64,
    /// Reads of clients that others answered, as it left them unanswered for far longer than is usual for it.
    pub hedged_reads: u64,
    /// Sectors that hold other bytes than redundancy says, as far as the last or the running scrub found.
    pub wrong_sectors: u64,
    /// Wrong sectors that were rewritten with what redundancy says, since the array started.
    pub repaired_sectors: u64,
    /// What its checksums have met since the array started; null: it has none.
    pub checksums: Option<ChecksumView>,
    /// Reads ended.
    pub read_count: u64,
    /// Writes ended.
    pub write_count: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Why it was dropped.
    pub failure: Option<String>,
    /// How long its reads take, lately; `None`: it is a span, or has read nothing yet.
    #[serde(default)]
    pub read_latency: Option<LatencyView>,
    /// How long its writes take, lately.
    #[serde(default)]
    pub write_latency: Option<LatencyView>,
    /// How long its oldest unanswered request has waited, if there is one.
    #[serde(default)]
    pub waiting_ms: Option<u64>,
}

/// How long requests of one kind take, exact to 12 %.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatencyView {
    /// Half of the last ones took no longer.
    pub median_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
    /// The longest since the start.
    pub max_us: u64,
    /// Those since the start that took over ten times the median of their day, and over a millisecond.
    pub slow_count: u64,
}

/// A thread that an array runs on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaneView {
    /// How it is set up and why, in words.
    pub setup: String,
    /// The processor that it is kept on.
    pub cpu: Option<usize>,
    /// Whether it polls instead of sleeping.
    pub polls: bool,
    /// Whether NBD clients live on it, rather than on threads of their own.
    pub clients_on_lane: bool,
    /// Calls into the kernel for the drives, and to sleep.
    pub ring_calls: u64,
    /// What they handed over.
    pub ring_entries: u64,
    /// The transfers among that whose memory the kernel knew beforehand (registered buffers).
    #[serde(default)]
    pub ring_fixed: u64,
}

/// What the checksums of a member have met, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecksumView {
    /// Read, and as they were written.
    pub verified: u64,
    /// Their sum was not known, and is now.
    pub learned: u64,
    /// Held other bytes than were written.
    pub wrong: u64,
    /// Of those, written anew since.
    pub mended: u64,
}

/// A pass in the background.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepView {
    /// `resync`, `rebuild`, `scrub`, `repair`.
    pub kind: String,
    /// Bytes done and to do: of each member when rebuilding, else of what redundancy covers.
    pub done_bytes: u64,
    /// See above.
    pub total_bytes: u64,
    /// Over the last seconds.
    pub bytes_per_s: u64,
    /// When the rest will be done at that speed.
    pub eta_s: Option<u64>,
    /// Of each member, to which it is held as clients work.
    #[serde(default)]
    pub held_bytes_per_s: Option<u64>,
    /// Sectors whose redundancy disagreed so far.
    pub mismatch_sectors: u64,
}

/// The write log since the array started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogView {
    /// Writes to members' logs.
    pub append_count: u64,
    /// Records in them.
    pub record_count: u64,
    /// Bytes of them.
    pub append_bytes: u64,
    /// Writes that clients were told of when their records were kept.
    #[serde(default)]
    pub early_count: u64,
    /// Appends that found no room, and waited for records to be retired.
    #[serde(default)]
    pub full_count: u64,
    /// What a crash left is not made good yet.
    pub replaying: bool,
    /// Records that the last run left in a crash.
    pub replayed_count: u64,
    /// It is md's partial parity log, not Stria's own.
    pub partial_parity: bool,
}

/// The write-intent bitmap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BitmapView {
    /// Bits set.
    pub dirty_count: usize,
    /// Bits in all.
    pub bit_count: usize,
    /// What one bit stands for.
    pub chunk_bytes: u64,
}

/// A connected client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientView {
    /// Counts up over the server's life.
    pub id: u64,
    /// Address, or process and user.
    pub peer: String,
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

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    /// Counts up from 1 without gaps.
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The array or span.
    pub array: String,
    /// `member_failed`, `member_gone`, `no_room`, `member_silent`, `member_answers`, `spare_taken`, `member_in_sync`,
    /// `read_corrected`, `wrong_bytes`, `bad_blocks`, `unreadable`, `lane_silent`, `lane_answers`, `sweep_started`,
    /// `sweep_finished`, `sweep_stopped`, `mismatch`; of the service itself `started`, `stopping`, `stopped`, `warning`.
    pub kind: String,
    /// In words.
    pub text: String,
    /// Which sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// Which role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<usize>,
    /// How many sectors disagreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch_sectors: Option<u64>,
}

/// What a command did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// In words.
    pub message: String,
    /// The last event before the command: what follows from it comes after.
    pub sequence: u64,
}

/// See the table above.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StopRequest {
    /// Disconnect clients.
    #[serde(default)]
    pub force: bool,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberRequest {
    /// The drive.
    pub path: PathBuf,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddRequest {
    /// The drive.
    pub path: PathBuf,
    /// To which span.
    #[serde(default)]
    pub span: Option<String>,
    /// Overwrite what it carries.
    #[serde(default)]
    pub force: bool,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplaceRequest {
    /// The drive that goes.
    pub old: PathBuf,
    /// The drive that comes.
    pub new: PathBuf,
    /// Overwrite what it carries.
    #[serde(default)]
    pub force: bool,
}

/// See the table above.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScrubRequest {
    /// Mend what disagrees.
    #[serde(default)]
    pub repair: bool,
    /// Where to begin: 0, or where a scrub was broken off.
    #[serde(default)]
    pub from_bytes: u64,
}

/// See the table above.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SpeedRequest {
    /// Bytes of each member per second that sweeps keep even while clients work.
    pub min_bytes_per_s: Option<u64>,
    /// Bytes of each member per second that sweeps never exceed.
    pub max_bytes_per_s: Option<u64>,
    /// The latency that sweeps leave to clients.
    #[serde(default)]
    pub latency: Option<LatencyBound>,
}

/// So many requests of clients end within a time while sweeps run, or sweeps slow down to `min_bytes_per_s`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyBound {
    /// 99 or 99.9, say; with two decimals at most.
    pub percentile: f64,
    /// `null`: no latency is held; beside clients sweeps keep to `min_bytes_per_s`.
    pub bound_us: Option<u64>,
}

/// See the table above.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrimRequest {
    /// Where the range starts.
    pub start_bytes: u64,
    /// How long it is; `None`: to the end.
    pub length_bytes: Option<u64>,
    /// Must be set: it destroys what is there.
    #[serde(default)]
    pub force: bool,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What a program acts on.
    pub kind: ApiErrorKind,
    /// What a person reads.
    pub message: String,
}

/// Kinds of [`ApiError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiErrorKind {
    /// No array of this name, or no such path.
    NotFound,
    /// The request makes no sense.
    Invalid,
    /// Cannot be done as things stand.
    Refused,
    /// Refused because data might be lost; `force` insists.
    Unsafe,
    /// Tried, and failed.
    Failed,
}

/// An [`ApiError`] as it is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The refusal.
    pub error: ApiError,
}

impl ApiError {
    /// A refusal of this kind.
    pub fn new(kind: ApiErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<HostError> for ApiError {
    fn from(error: HostError) -> Self {
        let kind = match error {
            HostError::Unsafe(_) => ApiErrorKind::Unsafe,
            HostError::Usage(_) => ApiErrorKind::Invalid,
            HostError::Refused(_) | HostError::Drive(DriveError::Busy { .. }) => ApiErrorKind::Refused,
            HostError::Drive(_) | HostError::Io(_) | HostError::Lane(_) => ApiErrorKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        match error.kind {
            ApiErrorKind::Unsafe => Self::Unsafe(error.message),
            ApiErrorKind::Invalid => Self::Usage(error.message),
            ApiErrorKind::NotFound | ApiErrorKind::Refused | ApiErrorKind::Failed => Self::Failed(error.message),
        }
    }
}

impl From<LaneStopped> for ApiError {
    fn from(error: LaneStopped) -> Self {
        Self::new(ApiErrorKind::Failed, error.to_string())
    }
}
