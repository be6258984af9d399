//! The figures of arrays, members, drives, clients and the process, as Prometheus reads them (docs/METRICS.md).
//!
//! Names follow the conventions of Prometheus: base units (seconds, bytes, ratios), `_total` for what only grows. All counts are
//! those since the array started. They come from the same view as `status`.

use super::board::DriveEntry;
use super::family::{Families, Labels};
use crate::api::{AdoptedState, AdoptedView, ArrayView, HealthView, LatencyView, MemberView, SweepView};
use crate::view::is_redundant_itself;
use prometheus::core::Collector as _;
use prometheus::process_collector::ProcessCollector;
use stria_alarm::Counts;
use stria_health::{DriveHealth, Verdict};

const ROLES: [&str; 5] = ["in sync", "rebuilding", "replacing", "spare", "failed"];
const SWEEPS: [&str; 4] = ["resync", "rebuild", "scrub", "repair"];

/// All figures as text. `adopted`: the arrays of the daemon's configuration. `known_since_s`: the time from which it knows an
/// array.
pub fn text(
    arrays: &[ArrayView],
    adopted: &[AdoptedView],
    known_since_s: impl Fn(&str) -> Option<u64>,
    drives: &[DriveEntry],
    alarms: &Counts,
) -> String {
    let mut families = Families::default();
    families.gauge("stria_build_info", "The program's version.", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    for view in arrays {
        array(&mut families, view);
        tree(&mut families, view, &view.identity.name, "");
        unscrubbed(&mut families, view, &view.identity.name, "", &known_since_s);
        clients(&mut families, view);
    }
    // One that was stopped by command is not to be served.
    for array in adopted.iter().filter(|array| array.state != AdoptedState::Stopped) {
        let help = "1 if an array of the daemon's configuration is served, 0 if it should be. One that was stopped by command has no such figure.";
        let is_served = flag(array.state == AdoptedState::Served);
        families.gauge("stria_array_served", help, &[("array", &array.name)], is_served);
    }
    drives.iter().for_each(|entry| drive(&mut families, entry));
    self::alarms(&mut families, alarms);
    families.text(ProcessCollector::for_self().collect())
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// The metrics of an array as a whole.
fn array(families: &mut Families, view: &ArrayView) {
    let of: Labels = &[("array", &view.identity.name)];
    let info = [("array", view.identity.name.as_str()), ("uuid", &view.identity.uuid), ("level", &view.geometry.level)];
    families.gauge("stria_array_info", "An array that is served, by name, identity and level.", &info, 1.0);
    let health = match view.condition.health {
        HealthView::Optimal => "optimal",
        HealthView::Degraded => "degraded",
        HealthView::Failed => "failed",
    };
    families.state(
        "stria_array_state",
        "The array's state: 1 for the one that holds.",
        of,
        "state",
        &["optimal", "degraded", "failed"],
        health,
    );
    let is_degraded = flag(view.condition.health != HealthView::Optimal);
    families.gauge(
        "stria_array_degraded",
        "1 if the array has less redundancy than its level has, or has failed.",
        of,
        is_degraded,
    );
    families.gauge("stria_array_size_bytes", "The size that clients see.", of, view.geometry.size_bytes as f64);
    families.gauge(
        "stria_array_losses_survived",
        "How many more members may be lost without loss of data, whichever they are.",
        of,
        view.redundancy.losses_survived as f64,
    );
    families.gauge(
        "stria_array_read_only",
        "1 if writes are refused.",
        of,
        flag(view.condition.read_only || view.condition.unreplayed.is_some()),
    );
    let refused = flag(view.condition.superblock_refused.is_some());
    families.gauge("stria_array_superblock_refused", "1 if superblocks cannot be written: writes fail.", of, refused);
    families.gauge(
        "stria_array_silent_seconds",
        "How long the array has not answered; its other figures are those before that.",
        of,
        view.condition.silent_s.unwrap_or(0) as f64,
    );
    families.gauge("stria_array_sweeps_paused", "1 if sweeps are paused by command.", of, flag(view.condition.paused));
    families.gauge("stria_array_requests_in_flight", "Requests of clients that have not ended.", of, view.in_flight as f64);
    if let Some(bitmap) = &view.writes.bitmap {
        families.gauge("stria_array_bitmap_dirty_chunks", "Set bits of the write-intent bitmap.", of, bitmap.dirty_count as f64);
        families.gauge("stria_array_bitmap_chunks", "Bits of the write-intent bitmap.", of, bitmap.bit_count as f64);
    }
    if let Some(log) = &view.writes.log {
        families.counter("stria_array_log_appends_total", "Appends to the write log.", of, log.append_count);
        families.counter("stria_array_log_appended_bytes_total", "Bytes of these appends.", of, log.append_bytes);
        families.counter(
            "stria_array_log_early_acknowledgements_total",
            "Writes that were acknowledged by the log.",
            of,
            log.early_count,
        );
        families.counter("stria_array_log_full_total", "Appends that found no space in the log, and waited.", of, log.full_count);
    }
}

/// The metrics that every array of a tree has of its own: sweeps, members, gaps. `span` is empty for the array itself.
fn tree(families: &mut Families, view: &ArrayView, array: &str, span: &str) {
    let of: Labels = &[("array", array), ("span", span)];
    for kind in SWEEPS {
        let running = view.redundancy.sweep.as_ref().filter(|sweep| sweep.kind == kind);
        sweep(families, &[of, &[("sweep", kind)]].concat(), running);
    }
    families.gauge(
        "stria_array_resync_pending",
        "1 if redundancy may be inconsistent somewhere.",
        of,
        flag(view.redundancy.resync_pending),
    );
    if let Some(sectors) = view.redundancy.mismatch_sectors {
        let open = if view.redundancy.mismatch_repaired { 0 } else { sectors };
        let help = "Sectors whose redundancy did not match in the last complete scrub, and were not repaired by it.";
        families.gauge("stria_array_mismatch_sectors", help, of, open as f64);
    }
    if let Some(last) = &view.redundancy.last_scrub {
        let help = "When the last complete scrub ended, as the daemon remembers it over restarts.";
        families.gauge("stria_array_last_scrub_timestamp_seconds", help, of, last.ended_s as f64);
    }
    families.gauge("stria_array_slots_missing", "Slots without a member.", of, view.parts.missing_slots.len() as f64);
    for role in ROLES {
        let count = view.parts.members.iter().filter(|member| member.role == role).count();
        families.gauge("stria_array_members", "Members by state.", &[of, &[("state", role)]].concat(), count as f64);
    }
    // A drive that failed and was added again has several entries: the last one is what it is now.
    let is_last = |index: usize| view.parts.members[index + 1..].iter().all(|later| later.path != view.parts.members[index].path);
    for (_, member) in view.parts.members.iter().enumerate().filter(|(index, _)| is_last(*index)) {
        self::member(families, member, of);
    }
    view.parts.spans.iter().for_each(|below| tree(families, below, array, &below.identity.name));
}

/// An array or span that no scrub has read yet has no time of its last one, and is overdue some day nevertheless.
fn unscrubbed(families: &mut Families, view: &ArrayView, array: &str, span: &str, known_since_s: &impl Fn(&str) -> Option<u64>) {
    if let (None, true, Some(since_s)) =
        (&view.redundancy.last_scrub, is_redundant_itself(view), known_since_s(&view.identity.uuid))
    {
        let help = "Since when the daemon knows an array that has redundancy and was never scrubbed.";
        // The clock may have been wrong when it was first seen.
        let since_s = since_s.max(view.created_s);
        families.gauge(
            "stria_array_unscrubbed_since_timestamp_seconds",
            help,
            &[("array", array), ("span", span)],
            since_s as f64,
        );
    }
    view.parts.spans.iter().for_each(|below| unscrubbed(families, below, array, &below.identity.name, known_since_s));
}

fn sweep(families: &mut Families, of: Labels, sweep: Option<&SweepView>) {
    families.gauge("stria_array_sweep_running", "1 while a sweep of this kind runs.", of, flag(sweep.is_some()));
    let Some(sweep) = sweep else { return };
    let progress = sweep.done_bytes as f64 / sweep.total_bytes.max(1) as f64;
    families.gauge("stria_array_sweep_progress_ratio", "How much of the sweep is done, from 0 to 1.", of, progress);
    families.gauge(
        "stria_array_sweep_bytes_per_second",
        "The speed of the sweep over the last seconds.",
        of,
        sweep.bytes_per_s as f64,
    );
    if let Some(seconds) = sweep.eta_s {
        families.gauge("stria_array_sweep_remaining_seconds", "When the rest will be done at that speed.", of, seconds as f64);
    }
}

fn member(families: &mut Families, member: &MemberView, of: Labels) {
    let named = [of, &[("member", member.path.as_str())]].concat();
    let of: Labels = &named;
    let slot = member.slot.map_or_else(String::new, |slot| slot.to_string());
    let serial = member.serial.clone().unwrap_or_default();
    let info = [of, &[("slot", slot.as_str()), ("serial", &serial)]].concat();
    families.gauge("stria_member_info", "A member, by path, slot and serial number.", &info, 1.0);
    families.state("stria_member_state", "The member's state: 1 for the one that holds.", of, "state", &ROLES, &member.role);
    families.counter("stria_member_reads_total", "Reads that the member has ended.", of, member.read_count);
    families.counter("stria_member_writes_total", "Writes that the member has ended.", of, member.write_count);
    families.counter("stria_member_read_bytes_total", "Bytes read from the member.", of, member.read_bytes);
    families.counter("stria_member_written_bytes_total", "Bytes written to the member.", of, member.written_bytes);
    families.counter(
        "stria_member_read_errors_total",
        "Reads that failed; most were corrected from redundancy.",
        of,
        member.read_errors,
    );
    families.counter(
        "stria_member_hedged_reads_total",
        "Reads that other members answered for this slow one.",
        of,
        member.hedged_reads,
    );
    families.counter("stria_member_repaired_sectors_total", "Wrong sectors that were rewritten.", of, member.repaired_sectors);
    families.gauge(
        "stria_member_wrong_sectors",
        "Sectors that do not match redundancy, by the last scrub.",
        of,
        member.wrong_sectors as f64,
    );
    families.gauge(
        "stria_member_bad_sectors",
        "Sectors recorded as bad blocks: they hold nothing usable until they are written.",
        of,
        member.bad_sectors as f64,
    );
    families.gauge(
        "stria_member_no_space",
        "1 if its file system or pool had no space for a write in the last minute.",
        of,
        flag(member.no_room),
    );
    let waiting = member.waiting_ms.unwrap_or(0) as f64 / 1000.0;
    families.gauge("stria_member_oldest_request_seconds", "How long its oldest unanswered request has waited.", of, waiting);
    if let Some(counts) = &member.checksums {
        families.counter(
            "stria_member_checksum_verified_blocks_total",
            "Blocks that were read and equal to their checksum.",
            of,
            counts.verified,
        );
        families.counter(
            "stria_member_checksum_wrong_blocks_total",
            "Blocks that held other bytes than were written.",
            of,
            counts.wrong,
        );
        families.counter(
            "stria_member_checksum_corrected_blocks_total",
            "Of those, the blocks that were rewritten since.",
            of,
            counts.mended,
        );
    }
    for (operation, latency) in [("read", &member.read_latency), ("write", &member.write_latency)] {
        if let Some(latency) = latency {
            self::latency(families, &[of, &[("operation", operation)]].concat(), latency);
        }
    }
}

fn latency(families: &mut Families, of: Labels, latency: &LatencyView) {
    let seconds = |us: u64| us as f64 / 1e6;
    families.gauge(
        "stria_member_latency_median_seconds",
        "Half of the recent requests took no longer.",
        of,
        seconds(latency.median_us),
    );
    families.gauge("stria_member_latency_p99_seconds", "99 of 100 recent requests took no longer.", of, seconds(latency.p99_us));
    families.gauge("stria_member_latency_max_seconds", "The longest request since the start.", of, seconds(latency.max_us));
    let help = "Requests that took over ten times the median, and over a millisecond.";
    families.counter("stria_member_slow_requests_total", help, of, latency.slow_count);
}

fn clients(families: &mut Families, view: &ArrayView) {
    families.gauge(
        "stria_array_clients",
        "Clients that are connected.",
        &[("array", &view.identity.name)],
        view.access.clients.len() as f64,
    );
    for client in &view.access.clients {
        let id = client.id.to_string();
        let of: Labels = &[("array", &view.identity.name), ("client", &id), ("peer", &client.peer)];
        families.counter(
            "stria_client_requests_total",
            "Requests of a connected client that were answered.",
            of,
            client.requests,
        );
        families.counter(
            "stria_client_errors_total",
            "Requests of a connected client that were answered with an error.",
            of,
            client.errors,
        );
        families.counter("stria_client_read_bytes_total", "Bytes that a connected client has read.", of, client.read_bytes);
        families.counter(
            "stria_client_written_bytes_total",
            "Bytes that a connected client has written.",
            of,
            client.written_bytes,
        );
        families.gauge(
            "stria_client_requests_in_flight",
            "Requests of a connected client that are not answered yet.",
            of,
            client.in_flight as f64,
        );
    }
}

fn drive(families: &mut Families, entry: &DriveEntry) {
    let path = entry.path.display().to_string();
    let of: Labels = &[("drive", &path)];
    families.gauge("stria_drive_health_known", "1 if the drive reports its health.", of, flag(entry.health.is_some()));
    let Some(health) = &entry.health else { return };
    families.gauge("stria_drive_health_read_timestamp_seconds", "When the drive's health was read.", of, entry.read_at_s as f64);
    let named = |text: &Option<String>| text.clone().unwrap_or_default();
    let (model, serial, firmware) = (named(&health.model), named(&health.serial), named(&health.firmware));
    let info = [of, &[("model", model.as_str()), ("serial", &serial), ("firmware", &firmware)]].concat();
    families.gauge("stria_drive_info", "A drive, by model, serial number and firmware.", &info, 1.0);
    families.gauge("stria_drive_asleep", "1 if the drive slept when it was asked, and was not woken.", of, flag(health.asleep));
    let verdicts = [Verdict::Good, Verdict::Watch, Verdict::Replace].map(Verdict::word);
    let help = "What the drive's figures mean: 1 for the verdict that holds.";
    families.state("stria_drive_verdict", help, of, "verdict", &verdicts, health.verdict.word());
    figures(families, of, health);
}

fn figures(families: &mut Families, of: Labels, health: &DriveHealth) {
    let ratio = |percent: f64| percent / 100.0;
    for (name, help, value) in [
        ("stria_drive_temperature_celsius", "The drive's temperature.", health.temperature_c.map(f64::from)),
        (
            "stria_drive_wear_ratio",
            "How much of the rated endurance is used; 1 is all.",
            health.wear_percent.map(f64::from).map(ratio),
        ),
        ("stria_drive_spare_ratio", "How much of the spare capacity is left.", health.spare_percent.map(f64::from).map(ratio)),
        (
            "stria_drive_pending_sectors",
            "Sectors that cannot be read until they are written.",
            health.pending_sectors.map(|count| count as f64),
        ),
        (
            "stria_drive_reallocated_sectors",
            "Sectors that were replaced by spare ones.",
            health.reallocated_sectors.map(|count| count as f64),
        ),
    ] {
        if let Some(value) = value {
            families.gauge(name, help, of, value);
        }
    }
    for (name, help, value) in [
        ("stria_drive_media_errors_total", "Times that the drive could not give back what it held.", health.media_errors),
        ("stria_drive_link_errors_total", "Transfers that arrived damaged.", health.link_errors),
        (
            "stria_drive_power_on_seconds_total",
            "Time under power.",
            health.power_on_hours.map(|hours| hours.saturating_mul(3600)),
        ),
        ("stria_drive_power_cycles_total", "Times that power came.", health.power_cycles),
        ("stria_drive_unsafe_shutdowns_total", "Times that power went without notice.", health.unsafe_shutdowns),
        ("stria_drive_read_bytes_total", "Bytes that the drive has read in its life.", health.read_bytes),
        ("stria_drive_written_bytes_total", "Bytes that the drive has written in its life.", health.written_bytes),
    ] {
        if let Some(value) = value {
            families.counter(name, help, of, value);
        }
    }
}

fn alarms(families: &mut Families, counts: &Counts) {
    families.gauge("stria_alarms_standing", "Alarms whose cause lasts.", &[], counts.standing as f64);
    let help = "Those of them that a person has acknowledged.";
    families.gauge("stria_alarms_acknowledged", help, &[], counts.acknowledged as f64);
    for (channel, delivered, failed) in &counts.channels {
        let help = "Alarms that a channel was given, by outcome.";
        for (outcome, count) in [("delivered", delivered), ("failed", failed)] {
            families.counter("stria_alarm_deliveries_total", help, &[("channel", channel), ("outcome", outcome)], *count);
        }
    }
}
