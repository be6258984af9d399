//! Turns the report of a running array into the view that `status` shows.

use crate::api::{
    AccessView, ArrayView, BitmapView, ChecksumView, ConditionView, EventView, GeometryView, HealthView, IdentityView, LastDrive,
    LatencyView, LogView, MemberView, PartsView, RedundancyView, SweepView, WritesView,
};
use crate::system::clock::now_ms;
use crate::words;
use crate::words::error::{ErrorSentence, Known, Used, Words};
use crate::words::event::{EventSentence, told_as_one};
use crate::words::plan::Failures;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_array::{Event, Health, Level, LogStatus, MemberState, MemberStatus, StopCause, SweepKind, SweepStatus, Synced};
use stria_block::{IoError, Latency, SECTOR_BYTES};
use stria_drive::{DriveKind, Way, monotonic_now};
use stria_format::md::uuid_text;
use stria_host::{
    ArrayReport, DriveReport, HostSentence, MemberReport, Notice, NoticeKind, bare_reason, default_strip_sectors, short_name,
};
use stria_terminal::size;

const SECTOR: u64 = SECTOR_BYTES as u64;

/// A member counts as without space for so long after a request failed for that, as in the engine.
const NO_SPACE_FOR: Duration = Duration::from_secs(60);

/// The array as reported, spans included. The service adds exports, clients, lanes and the pause.
pub fn array(array: &ArrayReport) -> ArrayView {
    let ArrayReport { status, geometry, .. } = array;
    let description = array.description.as_ref().expect("the coordinator knows it");
    let spans: Vec<ArrayView> = array.spans().map(self::array).collect();
    let has_strips = !matches!(geometry.level(), Level::Raid1) && geometry.strip_sectors() > 0;
    let mut view = ArrayView {
        identity: IdentityView {
            name: short_name(&array.name).to_owned(),
            full_name: array.name.clone(),
            uuid: uuid_text(&array.uuid),
        },
        geometry: GeometryView {
            level: level_name(geometry.level(), &spans),
            layout: geometry.layout().to_string(),
            strip_bytes: has_strips.then(|| geometry.strip_sectors() * SECTOR),
            strip_reason: has_strips.then(|| strip_reason(array)),
            size_bytes: geometry.capacity_sectors() * SECTOR,
        },
        condition: condition(array, &spans),
        parts: PartsView {
            members: status.members.iter().filter_map(|member| member_view(member, array)).collect(),
            missing_slots: (0..status.slots.len()).filter(|&slot| status.slots[slot].is_none()).collect(),
            last_drives: Vec::new(),
            spans,
        },
        redundancy: RedundancyView {
            sweep: status.sweep.as_ref().map(sweep_view),
            resync_pending: status.synced != Synced::All && geometry.level().is_redundant(),
            mismatch_sectors: status.last_scrub.map(|found| found.mismatch_sectors),
            unchecked_sectors: status.last_scrub.map_or(0, |found| found.unchecked_sectors),
            undecided: None,
            last_scrub: None,
            next_scrub_s: None,
            mismatch_repaired: status.mismatch_repaired,
            losses_survived: status.losses_survived,
        },
        headline: String::new(),
        writes: WritesView {
            bitmap: status.intent.zip(description.bitmap).map(|(counts, (chunk_bytes, ..))| bitmap_view(counts, chunk_bytes)),
            log: status.log.as_ref().map(log_view),
            write: None,
            power_cut: String::new(),
        },
        speed: None,
        drive_caches: None,
        drive_caches_set: None,
        in_flight: status.in_flight,
        events: description.events,
        created_s: description.created_s,
        access: AccessView::default(),
        lanes: Vec::new(),
    };
    // An array above spans has no redundancy of its own.
    let spans_survive = view.parts.spans.iter().map(|span| span.redundancy.losses_survived).min().unwrap_or(0);
    view.redundancy.losses_survived = view.redundancy.losses_survived.max(spans_survive);
    describe_state(&mut view);
    view
}

/// The words come later, from the rest of the view.
fn condition(array: &ArrayReport, spans: &[ArrayView]) -> ConditionView {
    let status = &array.status;
    let words = |error: &Option<IoError>, of_span: fn(&ConditionView) -> Option<Words>| {
        let own = error.as_ref().map(Words::from);
        own.or_else(|| spans.iter().find_map(|span| of_span(&span.condition))).map(|words| (words.text, words.said)).unzip()
    };
    let (unreplayed, unreplayed_said) = words(&status.unreplayed, ConditionView::unreplayed_words);
    let (superblock_refused, superblock_refused_said) =
        words(&status.superblock_refused, ConditionView::superblock_refused_words);
    let (unreplayed_said, superblock_refused_said) = (unreplayed_said.flatten(), superblock_refused_said.flatten());
    ConditionView {
        health: spans.iter().map(|span| span.condition.health).fold(health_view(status.health), Ord::max),
        state: String::new(),
        since_s: None,
        silent_s: None,
        headline_before: None,
        clean: status.clean && spans.iter().all(|span| span.condition.clean),
        read_only: status.read_only,
        unreplayed,
        unreplayed_said,
        superblock_refused,
        superblock_refused_said,
        left_alone: Vec::new(),
        trim_zeroes: array.tree().into_iter().flat_map(|array| array.drives()).all(|drive| drive.info.limits.unmap_zeroes),
        paused: false,
        measuring: false,
    }
}

fn health_view(health: Health) -> HealthView {
    match health {
        Health::Optimal => HealthView::Optimal,
        Health::Degraded => HealthView::Degraded,
        Health::Failed => HealthView::Failed,
    }
}

/// The level by its number. A RAID 0 of spans has theirs before its own: 50.
fn level_name(level: Level, spans: &[ArrayView]) -> String {
    match (level, spans.first()) {
        (Level::Raid0, Some(span)) if spans.iter().all(|other| other.geometry.level == span.geometry.level) => {
            format!("{}0", span.geometry.level)
        }
        (level, _) => level.to_string(),
    }
}

fn bitmap_view((dirty_count, bit_count): (usize, usize), chunk_bytes: u32) -> BitmapView {
    BitmapView { dirty_count, bit_count, chunk_bytes: u64::from(chunk_bytes) }
}

fn log_view(log: &LogStatus) -> LogView {
    LogView {
        append_count: log.append_count,
        record_count: log.record_count,
        append_bytes: log.append_sectors * SECTOR,
        early_count: log.early_count,
        full_count: log.full_count,
        replaying: log.replaying,
        replayed_count: log.replayed_count,
        partial_parity: log.newest_only,
    }
}

/// An array whose lanes have never answered: nothing but its name and identity is known.
pub fn unseen(name: &str, uuid: &[u8; 16], silent_s: u64) -> ArrayView {
    ArrayView {
        identity: IdentityView { name: name.into(), full_name: name.into(), uuid: uuid_text(uuid) },
        geometry: GeometryView::default(),
        condition: ConditionView {
            // Its health is unknown, so the worst is assumed.
            health: HealthView::Failed,
            state: String::new(),
            since_s: None,
            silent_s: Some(silent_s),
            headline_before: None,
            clean: false,
            read_only: false,
            unreplayed: None,
            unreplayed_said: None,
            superblock_refused: None,
            superblock_refused_said: None,
            left_alone: Vec::new(),
            trim_zeroes: false,
            paused: false,
            measuring: false,
        },
        parts: PartsView::default(),
        redundancy: RedundancyView::default(),
        headline: String::new(),
        writes: WritesView::default(),
        speed: None,
        drive_caches: None,
        drive_caches_set: None,
        in_flight: 0,
        events: 0,
        created_s: 0,
        access: AccessView::default(),
        lanes: Vec::new(),
    }
}

/// True of [`unseen`]: every array that has answered has a level.
pub fn is_unseen(view: &ArrayView) -> bool {
    view.condition.silent_s.is_some() && view.geometry.level.is_empty()
}

/// The drives' own write caches in a word; `set`: as they were set, `differ`: the drives that do not follow that, `unflushed`:
/// those whose caches are on, and to which the array sends no flushes. `None`: the members are files.
pub fn drive_caches(array: &ArrayReport, set: Option<bool>, differ: &[PathBuf], unflushed: &[PathBuf]) -> Option<String> {
    let tree = array.tree();
    let devices = tree.iter().flat_map(|array| array.drives()).filter(|drive| drive.info.kind == DriveKind::BlockDevice);
    let cached: Vec<bool> = devices.map(|drive| drive.info.limits.volatile_cache).collect();
    let (on, count) = (cached.iter().filter(|cached| **cached).count(), cached.len());
    let list = |drives: &[PathBuf]| drives.iter().map(|drive| drive.display().to_string()).collect::<Vec<_>>().join(", ");
    match (set, on) {
        _ if count == 0 => None,
        _ if !unflushed.is_empty() => Some(format!(
            "switched on meanwhile on {}, which gets no flushes: a power cut may lose what was flushed, until the array is stopped and started",
            list(unflushed)
        )),
        (Some(set), _) if !differ.is_empty() => {
            let (set, found) = if set { ("on", "off") } else { ("off", "on, so a power cut loses what was not flushed") };
            Some(format!("{set}, as set, except {}: {found}", list(differ)))
        }
        (Some(false), _) => Some("off, as set".into()),
        (Some(true), _) => Some("on, as set: a power cut loses what was not flushed".into()),
        (None, 0) => Some("none that loses data in a power cut".into()),
        (None, on) => Some(format!("on, on {on} of {count} drives: a power cut loses what was not flushed")),
    }
}

/// Notes the members whose write caches are on although they get no flushes.
pub fn note_unflushed(view: &mut ArrayView, unflushed: &[PathBuf]) {
    for member in &mut view.parts.members {
        member.cache_unflushed = member.role != "failed" && unflushed.iter().any(|path| path.as_os_str() == member.path.as_str());
    }
    view.parts.spans.iter_mut().for_each(|span| note_unflushed(span, unflushed));
}

/// Describes the array's state in words, from the rest of its view.
pub fn describe_state(view: &mut ArrayView) {
    view.condition.state = state_words(view);
    view.headline = headline(view);
}

/// `clean`, or `degraded, rebuilding`. Only optimal arrays are called "clean".
fn state_words(view: &ArrayView) -> String {
    let mut words = vec![match view.condition.health {
        HealthView::Failed => "failed",
        HealthView::Degraded => "degraded",
        HealthView::Optimal if view.condition.clean => "clean",
        HealthView::Optimal => "active",
    }];
    words.extend(activity(view));
    words.join(", ")
}

/// What runs, is due or is paused.
fn activity(view: &ArrayView) -> Vec<&'static str> {
    let mut words = Vec::new();
    let sweep = |view: &ArrayView| {
        view.redundancy.sweep.as_ref().map(|sweep| match sweep.kind.as_str() {
            "resync" => "resyncing",
            "rebuild" => "rebuilding",
            "repair" => "repairing",
            _ => "scrubbing",
        })
    };
    match sweep(view).or_else(|| view.parts.spans.iter().find_map(sweep)) {
        Some(word) => words.push(word),
        None if view.redundancy.resync_pending || view.parts.spans.iter().any(|span| span.redundancy.resync_pending) => {
            words.push("resync pending")
        }
        None => {}
    }
    if view.condition.paused {
        words.push("sweeps paused");
    }
    if view.condition.read_only {
        words.push("read-only");
    }
    words
}

/// The refusal of what would write to the members of an array that is read-only.
pub fn is_read_only(name: &str) -> ErrorSentence {
    ErrorSentence::ReadOnly { array: name.to_owned() }
}

/// The state in one line, the worst first.
fn headline(view: &ArrayView) -> String {
    let mut parts = Vec::new();
    match view.condition.health {
        HealthView::Failed => {
            parts.push(format!("FAILED: {}, more than the level survives", gaps(view).join(", ")));
        }
        HealthView::Degraded => {
            parts.push(format!("DEGRADED: {}", gaps(view).join(", ")));
            parts.push(match view.redundancy.losses_survived {
                0 => "ONE MORE FAILURE LOSES DATA".into(),
                count => format!("survives {}", Failures(count)),
            });
            parts.push(match spare_count(view) {
                0 => "no spare".into(),
                1 => "1 spare".into(),
                count => format!("{count} spares"),
            });
        }
        HealthView::Optimal => {}
    }
    let silent = all_members(view).into_iter().filter_map(|member| Some((member, unanswered_ms(member)?)));
    for (member, ms) in silent {
        parts.push(format!("NO ANSWER from {} for {}", member.path, size::show_duration(ms / 1000)));
    }
    for member in all_members(view).into_iter().filter(|member| member.file_deleted) {
        parts.push(format!("FILE DELETED: {}, whose bytes are lost when the array stops", member.path));
    }
    let without_room: Vec<&str> =
        all_members(view).into_iter().filter(|member| member.no_room).map(|member| member.path.as_str()).collect();
    if let Some(reason) = &view.condition.unreplayed {
        parts.push(format!(
            "READ-ONLY: the replay after the last crash ended early ({reason}); remove the cause, then stop the array and serve it again"
        ));
    } else if let Some(reason) = &view.condition.superblock_refused {
        parts.push(format!("WRITES FAIL: superblocks cannot be written ({reason})"));
    } else if !without_room.is_empty() {
        parts.push(format!("NO SPACE on {}: writes that need space there fail until some is freed", without_room.join(", ")));
    }
    if found_mismatch(view) {
        parts.push("the last scrub found mismatches".into());
    }
    if view.condition.health == HealthView::Optimal {
        let members = all_members(view).into_iter();
        let left: Vec<&MemberView> = members.filter(|member| member.role == "failed").collect();
        match left[..] {
            [] => {}
            [member] => parts.push(format!("{}; it can be removed", departure(view, member))),
            _ => {
                let departures: Vec<String> = left.iter().map(|member| departure(view, member)).collect();
                parts.push(format!("{}; they can be removed", departures.join(", ")));
            }
        }
        let word = if view.condition.clean { "clean" } else { "active" };
        parts.push(if parts.is_empty() { word.into() } else { format!("otherwise {word}") });
    }
    parts.extend(activity(view).into_iter().map(str::to_owned));
    parts.join(", ")
}

/// How a member left an array that is optimal without it, and which member is in its slot now. A replacement that failed never
/// had the slot.
pub fn departure(array: &ArrayView, member: &MemberView) -> String {
    let path = &member.path;
    let holder = array_of(array, member).and_then(|own| {
        own.parts.members.iter().find(|other| other.slot == member.slot && other.slot.is_some() && other.role == "in sync")
    });
    match (was_replaced(member), holder, member.slot) {
        (true, Some(holder), _) => format!("{path} was replaced by {}", holder.path),
        (true, None, _) => format!("{path} was replaced"),
        (false, Some(holder), Some(slot)) => format!("{path} failed, and {} holds slot {slot}", holder.path),
        (false, ..) => format!("{path} failed and holds no slot"),
    }
}

/// True if the member left the array because its replacement was complete.
pub fn was_replaced(member: &MemberView) -> bool {
    member.role == "failed" && matches!(member.failure_said, Some(ErrorSentence::ReplacedByAnother {}))
}

/// The array or span that the member is listed in.
fn array_of<'a>(array: &'a ArrayView, member: &MemberView) -> Option<&'a ArrayView> {
    let is_here = array.parts.members.iter().any(|own| std::ptr::eq(own, member));
    if is_here { Some(array) } else { array.parts.spans.iter().find_map(|span| array_of(span, member)) }
}

/// Five seconds: a member that leaves a request unanswered for so long is named in the headline.
const SILENT_MS: u64 = 5000;

/// How long a member has left a request unanswered, if that is so long that it is named.
pub fn unanswered_ms(member: &MemberView) -> Option<u64> {
    member.waiting_ms.filter(|&ms| ms >= SILENT_MS && member.role != "failed")
}

/// The members of an array, and of its spans, that have left a request unanswered for `patience_ms`: the path of each, and for
/// how long.
pub fn silent_members(view: &ArrayView, patience_ms: u64) -> Vec<(String, u64)> {
    let is_silent = |member: &&MemberView| member.role != "failed" && member.waiting_ms.is_some_and(|ms| ms >= patience_ms);
    let own = view.parts.members.iter().filter(is_silent);
    let own = own.map(|member| (member.path.clone(), member.waiting_ms.unwrap_or_default()));
    own.chain(view.parts.spans.iter().flat_map(|span| silent_members(span, patience_ms))).collect()
}

/// True if the array or a span of it has lost a drive that is not replaced, or that is still listed.
pub fn has_lost(view: &ArrayView) -> bool {
    let is_gone = |member: &MemberView| member.role == "failed" || is_lost(member);
    !view.parts.missing_slots.is_empty() || view.parts.members.iter().any(is_gone) || view.parts.spans.iter().any(has_lost)
}

/// True if the member is gone, and keeps its slot, as the array cannot do without it.
pub fn is_lost(member: &MemberView) -> bool {
    member.failure.is_some() && member.role != "failed"
}

/// The slots of the array and its spans that are empty, being filled, or lost.
fn gaps(view: &ArrayView) -> Vec<String> {
    let mut gaps = Vec::new();
    match &view.parts.missing_slots[..] {
        [] => {}
        [slot] => gaps.push(format!("slot {slot} missing")),
        slots => gaps.push(format!("slots {} missing", slots.iter().map(usize::to_string).collect::<Vec<_>>().join(" and "))),
    }
    let lost = view.parts.members.iter().filter(|member| is_lost(member));
    gaps.extend(lost.filter_map(|member| Some(format!("slot {} lost", member.slot?))));
    let filled = view.parts.members.iter().filter(|member| member.role == "rebuilding");
    gaps.extend(filled.filter_map(|member| Some(format!("slot {} rebuilding", member.slot?))));
    for span in view.parts.spans.iter().filter(|span| span.condition.health != HealthView::Optimal) {
        gaps.extend(self::gaps(span).into_iter().map(|gap| format!("{} {gap}", span.identity.name)));
    }
    gaps
}

/// Which drives the empty slots had last, in words that follow a sentence; empty if nothing is remembered.
pub fn last_drives(view: &ArrayView) -> String {
    view.parts.last_drives.iter().map(last_drive).chain(view.parts.spans.iter().map(last_drives)).collect()
}

/// The drive that a slot had last, in words that follow a sentence.
pub fn last_drive(last: &LastDrive) -> String {
    let serial = last.serial.as_ref().map(|serial| format!("serial {serial}"));
    let more: Vec<String> = serial.into_iter().chain(last.place.clone()).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    format!("; slot {} last had {}{more}", last.slot, last.path)
}

fn spare_count(view: &ArrayView) -> usize {
    all_members(view).iter().filter(|member| member.role == "spare").count()
}

/// An array and its spans.
pub fn tree(view: &ArrayView) -> Vec<&ArrayView> {
    std::iter::once(view).chain(view.parts.spans.iter().flat_map(tree)).collect()
}

/// The members of the array and of its spans.
pub fn all_members(view: &ArrayView) -> Vec<&MemberView> {
    tree(view).into_iter().flat_map(|part| &part.parts.members).collect()
}

/// True if the last scrub of the array, or of a span, found redundancy that does not match and did not repair it.
pub fn found_mismatch(view: &ArrayView) -> bool {
    let own = view.redundancy.mismatch_sectors.is_some_and(|sectors| sectors > 0) && !view.redundancy.mismatch_repaired;
    own || view.parts.spans.iter().any(found_mismatch)
}

/// True if something is wrong with an array that has all of its redundancy: its headline says what.
pub fn needs_attention(view: &ArrayView) -> bool {
    let members = all_members(view);
    let lacks = members.iter().any(|member| member.no_room || member.file_deleted || unanswered_ms(member).is_some());
    lacks || view.condition.unreplayed.is_some() || view.condition.superblock_refused.is_some() || found_mismatch(view)
}

/// False if writes fail for a reason of the array's own.
pub fn may_write(view: &ArrayView) -> bool {
    view.condition.unreplayed.is_none() && view.condition.superblock_refused.is_none()
}

/// The redundancy of an array that cannot name the wrong member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// One parity.
    OneParity,
    /// Two copies.
    TwoCopies,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OneParity => "one parity",
            Self::TwoCopies => "two copies",
        })
    }
}

/// The redundancy of the array, or of a span, if it cannot tell which side is wrong.
pub fn cannot_name_the_wrong_member(view: &ArrayView) -> Option<Doubt> {
    let checked = view.parts.members.iter().all(|member| member.checksums.is_some());
    let own = match &view.geometry.level[..] {
        "4" | "5" => Some(Doubt::OneParity),
        "1" | "10" if view.redundancy.losses_survived <= 1 => Some(Doubt::TwoCopies),
        _ => None,
    };
    own.filter(|_| !checked).or_else(|| view.parts.spans.iter().find_map(cannot_name_the_wrong_member))
}

fn strip_reason(array: &ArrayReport) -> String {
    let count = array.geometry.slot_count();
    let rotational = array.drives().any(|drive| drive.info.limits.rotational);
    let kind = if rotational { "hard disks" } else { "SSDs" };
    if array.drives().next().is_none() {
        "chosen when the array was made, for the width of its spans".into()
    } else if array.geometry.strip_sectors() == default_strip_sectors(count, rotational) {
        format!("the default for {count} {kind}")
    } else {
        "chosen when the array was made".into()
    }
}

fn way_words(way: Way) -> &'static str {
    match way {
        Way::Usual => "interrupts",
        Way::Polled => "polled",
        Way::Passthrough { polled: false } => "passthrough",
        Way::Passthrough { polled: true } => "passthrough, polled",
    }
}

/// `None` if it was removed, and only its handle is left.
fn member_view(member: &MemberStatus, array: &ArrayReport) -> Option<MemberView> {
    let (drive, path) = match array.members.get(member.id.0)? {
        MemberReport::Drive(drive) => (Some(&**drive), drive.info.path.display().to_string()),
        MemberReport::Array(span) => (None, short_name(&span.name).to_owned()),
        MemberReport::Removed => return None,
    };
    let info = drive.map(|drive| &drive.info);
    let latency = |of: fn(&DriveReport) -> Option<Latency>| drive.and_then(of).map(latency_view);
    Some(MemberView {
        slot: member.slot,
        path: path.clone(),
        role: state_word(member.state).into(),
        direct: info.map(|info| info.direct),
        direct_note: info.and_then(|info| info.direct_note.clone()),
        way: drive.map(|drive| way_words(drive.way).to_owned()),
        model: info.and_then(|info| info.model.clone()),
        serial: info.and_then(|info| info.serial.clone()),
        size_bytes: info.map(|info| info.limits.size_sectors * SECTOR),
        read_errors: member.read_errors,
        hedged_reads: member.hedged_count,
        wrong_sectors: member.wrong_sectors,
        repaired_sectors: member.repaired_sectors,
        bad_sectors: member.bad_sectors,
        checksums: drive.and_then(|drive| drive.checksums.as_ref()).map(|counts| ChecksumView {
            verified: counts.verified,
            learned: counts.learned,
            wrong: counts.wrong,
            mended: counts.mended,
        }),
        read_count: member.read_count,
        write_count: member.write_count,
        read_bytes: member.read_sectors * SECTOR,
        written_bytes: member.written_sectors * SECTOR,
        file_deleted: drive.is_some_and(|drive| drive.is_deleted) && member.state != MemberState::Failed,
        // The service knows it.
        cache_unflushed: false,
        no_room: member.has_no_space || has_no_space_alone(member, drive, array),
        needed: member.is_needed,
        lost: member.failure.is_some() && member.state != MemberState::Failed,
        failure: member.failure.as_ref().map(|cause| bare_reason(cause, &path)),
        failure_said: member.failure.as_ref().and_then(|cause| words::drop::said_of(cause, &path)),
        since_s: None,
        read_latency: latency(|drive| drive.timings.read.latency()),
        write_latency: latency(|drive| drive.timings.write.latency()),
        waiting_ms: drive.and_then(|drive| drive.oldest).map(|since| monotonic_now().saturating_sub(since) / 1_000_000),
    })
}

/// True if a member of an array without redundancy had no space for a request lately: there its error goes to the client as it
/// is, and the engine takes no note.
fn has_no_space_alone(member: &MemberStatus, drive: Option<&DriveReport>, array: &ArrayReport) -> bool {
    let is_alone = !array.geometry.level().is_redundant() && member.state != MemberState::Failed;
    let lately = |at: u64| monotonic_now().saturating_sub(at) < NO_SPACE_FOR.as_nanos() as u64;
    is_alone && drive.and_then(|drive| drive.no_space).is_some_and(lately)
}

fn latency_view(latency: Latency) -> LatencyView {
    LatencyView {
        count: latency.count.into(),
        median_us: latency.median.div_ceil(1000),
        p99_us: latency.p99.div_ceil(1000),
        max_us: latency.max.div_ceil(1000),
        slow_count: latency.slow_count,
    }
}

fn state_word(state: MemberState) -> &'static str {
    match state {
        MemberState::InSync => "in sync",
        MemberState::Rebuilding => "rebuilding",
        MemberState::Replacing => "replacing",
        MemberState::Spare => "spare",
        MemberState::Failed => "failed",
    }
}

fn sweep_word(kind: SweepKind) -> &'static str {
    match kind {
        SweepKind::Resync => "resync",
        SweepKind::Rebuild => "rebuild",
        SweepKind::Scrub { repair: false } => "scrub",
        SweepKind::Scrub { repair: true } => "repair",
    }
}

fn sweep_view(sweep: &SweepStatus) -> SweepView {
    SweepView {
        kind: sweep_word(sweep.kind).into(),
        done_bytes: sweep.done_sectors * SECTOR,
        total_bytes: sweep.total_sectors * SECTOR,
        bytes_per_s: sweep.sectors_per_s * SECTOR,
        eta_s: sweep.eta_s,
        held_bytes_per_s: sweep.held_sectors_per_s.map(|speed| speed * SECTOR),
        mismatch_sectors: sweep.found.mismatch_sectors,
        unchecked_sectors: sweep.found.unchecked_sectors,
    }
}

/// A notice as an event. The event log adds the sequence number.
pub fn event(notice: &Notice) -> EventView {
    let event = match &notice.kind {
        NoticeKind::Engine(event) => event,
        NoticeKind::Silent => return notice_event(notice, "member_silent"),
        NoticeKind::Answers => return notice_event(notice, "member_answers"),
        NoticeKind::Deleted => return notice_event(notice, "warning"),
    };
    let (kind, sweep, slot, mismatch_sectors) = match event {
        Event::MemberFailed { slot, .. } => ("member_failed", None, *slot, None),
        Event::MemberGone { slot, .. } => ("member_gone", None, *slot, None),
        Event::NoSpace { .. } => ("no_room", None, None, None),
        Event::SuperblockRefused { .. } => ("superblock_refused", None, None, None),
        Event::SpareTaken { slot, .. } => ("spare_taken", None, Some(*slot), None),
        Event::MemberInSync { slot, .. } => ("member_in_sync", None, Some(*slot), None),
        Event::ReadCorrected { .. } => ("read_corrected", None, None, None),
        Event::WrongBytes { .. } => ("wrong_bytes", None, None, None),
        Event::BadBlocks { .. } => ("bad_blocks", None, None, None),
        Event::Unreadable { .. } => ("unreadable", None, None, None),
        Event::SweepStarted(kind) => ("sweep_started", Some(*kind), None, None),
        Event::SweepFinished { kind, found, .. } => ("sweep_finished", Some(*kind), None, Some(found.mismatch_sectors)),
        Event::SweepStopped { kind, .. } => ("sweep_stopped", Some(*kind), None, None),
        Event::Mismatch { sectors, culprit, .. } => ("mismatch", None, culprit.map(|(_, slot)| slot), Some(*sectors)),
    };
    let unchecked_sectors = match event {
        Event::SweepFinished { found, .. } if found.unchecked_sectors > 0 => Some(found.unchecked_sectors),
        _ => None,
    };
    let sweep = sweep.map(|kind| sweep_word(kind).into());
    EventView { sweep, slot, mismatch_sectors, unchecked_sectors, ..notice_event(notice, kind) }
}

fn notice_event(notice: &Notice, kind: &str) -> EventView {
    let event = said_event(short_name(&notice.array), kind, EventSentence::Host(notice.said.clone()));
    EventView { cause: cause_of(notice), ..event }
}

/// The sentence of the reason in a notice's sentence, if that has one.
fn cause_of(notice: &Notice) -> Option<ErrorSentence> {
    let NoticeKind::Engine(event) = &notice.kind else { return None };
    match (event, &notice.said) {
        (
            Event::MemberFailed { cause, .. } | Event::MemberGone { cause, .. },
            HostSentence::MemberDropped { drive, .. }
            | HostSentence::SpareDropped { drive, .. }
            | HostSentence::MemberGone { drive, .. }
            | HostSentence::SpareGone { drive, .. },
        ) => words::drop::said_of(cause, drive),
        (Event::NoSpace { error, .. } | Event::SuperblockRefused { error, .. }, _) => words::io::said_of(error),
        (Event::SweepStopped { cause: StopCause::Failed(fault), .. }, _) => words::sweep::said_of(fault),
        _ => None,
    }
}

/// True if an array or span has redundancy of its own, whatever its spans have.
pub fn is_redundant_itself(view: &ArrayView) -> bool {
    let level = view.geometry.level.as_str();
    let is_striped = if view.parts.spans.is_empty() {
        ["0", "jbod", "linear"].contains(&level)
    } else {
        level.ends_with('0') || level == "jbod"
    };
    !is_striped
}

/// True of the end of a sweep that a pause holds: it goes on from there.
pub fn is_held(end: &EventView) -> bool {
    let is_pause = |said: &HostSentence| matches!(said, HostSentence::SweepPaused { .. } | HostSentence::SweepGivesWay { .. });
    host_sentence(end).is_some_and(is_pause)
}

/// True of the end of a sweep that was cancelled.
pub fn is_cancelled(end: &EventView) -> bool {
    matches!(host_sentence(end), Some(HostSentence::SweepCancelled { .. }))
}

/// True of the end of a member that its replacement has followed: no redundancy was lost.
pub fn is_replaced(event: &EventView) -> bool {
    matches!(host_sentence(event), Some(HostSentence::MemberReplaced { .. }))
        || event.cause == Some(ErrorSentence::ReplacedByAnother {})
}

/// The drive that an event says is lost to its array.
pub fn lost_drive(event: &EventView) -> Option<&str> {
    match host_sentence(event)? {
        HostSentence::MemberDropped { drive, .. }
        | HostSentence::SpareDropped { drive, .. }
        | HostSentence::MemberReplaced { drive, .. }
        | HostSentence::MemberFailedOnCommand { drive, .. }
        | HostSentence::MemberGone { drive, .. }
        | HostSentence::SpareGone { drive, .. } => Some(drive),
        _ => None,
    }
}

fn host_sentence(event: &EventView) -> Option<&HostSentence> {
    match event.said.as_ref()? {
        EventSentence::Host(said) => Some(said),
        _ => None,
    }
}

/// The arrays that are known, for a refusal of a name that is none of theirs.
pub fn there_are<T: AsRef<str>>(known: &[T]) -> String {
    Known::of(known).to_string()
}

/// The refusal of a name that no served array has.
pub fn no_array_served<T: AsRef<str>>(name: &str, known: &[T]) -> ErrorSentence {
    let array = name.to_owned();
    match known {
        [] => ErrorSentence::NoArrayIsServed { array },
        known => ErrorSentence::OthersAreServed { array, names: known.iter().map(AsRef::as_ref).collect() },
    }
}

/// The refusal of a name that no array of the configuration has.
pub fn no_array_of_stria<T: AsRef<str>>(name: &str, known: &[T]) -> ErrorSentence {
    ErrorSentence::ArrayUnknown { array: name.to_owned(), known: Known::of(known) }
}

/// The refusal of a drive that is no member.
pub fn does_not_use(view: &ArrayView, drive: &Path) -> ErrorSentence {
    let members = all_members(view).into_iter().filter(|member| member.size_bytes.is_some());
    let members = Used(members.map(|member| member.path.clone()).collect());
    ErrorSentence::DoesNotUse { array: view.identity.name.clone(), drive: drive.display().to_string(), members }
}

/// The beginning of a text, of so many bytes at most.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An event of the service itself, with its sentences if its text consists of some.
pub fn plain_event(array: &str, kind: &str, text: String) -> EventView {
    let (array, kind) = (array.to_owned(), kind.to_owned());
    let said = told_as_one(&text);
    EventView {
        sequence: 0,
        time_ms: now_ms(),
        array,
        kind,
        text,
        said,
        cause: None,
        sweep: None,
        slot: None,
        mismatch_sectors: None,
        unchecked_sectors: None,
    }
}

/// The same with its sentence, if it has one.
pub fn worded_event(array: &str, kind: &str, words: Words) -> EventView {
    let event = plain_event(array, kind, words.text);
    EventView { said: words.said.map(EventSentence::Error).or(event.said.clone()), ..event }
}

/// The same with a sentence that programs can tell apart.
pub fn said_event(array: &str, kind: &str, said: impl Into<EventSentence>) -> EventView {
    let said = said.into();
    EventView { text: said.to_string(), said: Some(said), ..plain_event(array, kind, String::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::error::Cause;
    use stria_array::MemberId;
    use stria_block::{Action, ErrorKind, TroubleKind};

    /// The reason was shown in English in every language.
    #[test]
    fn an_event_of_a_dropped_member_has_the_sentence_of_its_reason() {
        let context = "member /dev/a: write of 4 KiB at sector 8 failed: Input/output error (os error 5)";
        let reason = "Input/output error (os error 5)".into();
        let failed = TroubleKind::Failed { action: Action::Write, bytes: 4096, sector: 8, reason };
        let cause = stria_array::DropCause::Write(IoError::of_drive(ErrorKind::Other, "/dev/a", failed));
        let said = HostSentence::MemberDropped { drive: "/dev/a".into(), slot: 1, reason: cause.to_string() };
        let kind = NoticeKind::Engine(Event::MemberFailed { member: MemberId(1), slot: Some(1), cause });
        let cause = cause_of(&Notice { array: "tank".into(), kind, said }).expect("it has one");
        assert_eq!(cause.to_string(), format!("write failed: {context}"));
        let ErrorSentence::WriteFailed { cause: Cause(Some(of_member)), .. } = cause else { panic!("{cause:?}") };
        let ErrorSentence::OfMember { cause: Cause(Some(write)), .. } = *of_member else { panic!("{of_member:?}") };
        let (size, sector, reason) = ("4 KiB".into(), "8".into(), "Input/output error (os error 5)".into());
        assert_eq!(*write, ErrorSentence::WriteOf { size, sector, reason });
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!([cut("añb", 2), cut("añb", 3), cut("ab", 9)], ["a", "añ", "ab"]);
    }
}
