//! How long it takes to fill a drive: an estimate from its size and its pace, made before the work begins.
//!
//! The pace of the last rebuild says little: one that follows the write-intent bitmap, or goes on after a pause, covers a part of
//! the drive. So the pace is that of the drives: as measured, else as usual for their kind, and never above the array's speed
//! limit.

use super::measure::Limits;
use super::types::{PaceBasis, PlanTime};
use crate::api::ArrayView;
use crate::view::all_members;

const MB: u64 = 1_000_000;

/// A drive that a plan fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The array.
    pub uuid: String,
    /// The drive's path.
    pub drive: String,
    /// `hdd`, `ssd`, `file`; empty: not known.
    pub kind: String,
    /// What is written to it.
    pub bytes: u64,
    /// The array's limit for sweeps while clients work.
    pub bytes_per_s_max: Option<u64>,
}

/// The pace at which drives of a kind are usually filled from others, in bytes a second: a mean over the drive, on the safe side.
fn typical(drive: &str, kind: &str) -> u64 {
    match kind {
        "hdd" => 120 * MB,
        "ssd" if drive.contains("nvme") => 800 * MB,
        "ssd" => 350 * MB,
        _ => 150 * MB,
    }
}

impl Fill {
    /// The estimate. `limits`: what the array's members could do, if that was measured.
    pub fn takes(&self, limits: Option<&Limits>) -> PlanTime {
        let paces = limits.into_iter().flat_map(|limits| &limits.members).map(|member| member.read_bytes_per_s as u64);
        let slowest = paces.filter(|pace| *pace > 0).min();
        let (mut bytes_per_s, mut basis) =
            slowest.map_or((typical(&self.drive, &self.kind), PaceBasis::Typical), |pace| (pace, PaceBasis::Measured));
        if let Some(most) = self.bytes_per_s_max.filter(|most| (1..bytes_per_s).contains(most)) {
            (bytes_per_s, basis) = (most, PaceBasis::Limit);
        }
        PlanTime { seconds: self.bytes.div_ceil(bytes_per_s), bytes: self.bytes, bytes_per_s, basis }
    }
}

/// The bytes of each member of an array or span, as far as they can be told. `size_bytes`: that of the drive that joins.
pub fn member_bytes(view: &ArrayView, size_bytes: Option<u64>) -> Option<u64> {
    let members = all_members(view).into_iter().filter(|member| member.role != "failed" && member.role != "spare");
    let least = members.filter_map(|member| member.size_bytes).chain(size_bytes).min()?;
    let slots =
        view.parts.members.iter().filter_map(|member| member.slot).chain(view.parts.missing_slots.iter().copied()).max()? + 1;
    // An array may use less of its drives than all.
    let data = match view.geometry.level.as_str() {
        "1" => 1,
        "4" | "5" => slots.saturating_sub(1),
        "6" => slots.saturating_sub(2),
        _ => 0,
    };
    let used = view.geometry.size_bytes.checked_div(data as u64).filter(|used| *used > 0);
    Some(used.map_or(least, |used| used.min(least)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::measure::MemberLimit;
    use serde_json::json;

    fn view() -> ArrayView {
        let member = |slot: usize| {
            json!({"slot": slot, "path": format!("/dev/sd{slot}"), "role": "in sync", "size_bytes": 1000 * MB, "read_errors": 0, "hedged_reads": 0,
                "wrong_sectors": 0, "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        let value = json!({"name": "tank", "full_name": "tank", "uuid": "u", "level": "5", "layout": "", "size_bytes": 1200 * MB,
            "health": "degraded", "state": "", "clean": true, "read_only": false, "paused": false, "members": [member(0), member(1)],
            "missing_slots": [2], "spans": [], "resync_pending": false, "losses_survived": 0, "in_flight": 0, "events": 0, "created_s": 0,
            "exports": [], "clients": []});
        serde_json::from_value(value).expect("a view")
    }

    #[test]
    fn a_drive_is_filled_with_what_a_member_holds() {
        let mut array = view();
        assert_eq!(member_bytes(&array, Some(5000 * MB)), Some(600 * MB), "RAID 5 of three with 1200 MB uses 600 MB of each");
        array.geometry.size_bytes = 2100 * MB;
        assert_eq!(member_bytes(&array, Some(5000 * MB)), Some(1000 * MB), "the smallest member bounds it");
        array.geometry.level = "10".into();
        assert_eq!(member_bytes(&array, Some(900 * MB)), Some(900 * MB));
    }

    #[test]
    fn the_pace_is_measured_else_typical_and_never_above_the_limit() {
        let fill = |drive: &str, kind: &str, most: Option<u64>| Fill {
            uuid: "u".into(),
            drive: drive.into(),
            kind: kind.into(),
            bytes: 36_000 * MB,
            bytes_per_s_max: most,
        };
        let of = |takes: PlanTime| (takes.seconds, takes.basis);
        assert_eq!(of(fill("/dev/sda", "hdd", None).takes(None)), (300, PaceBasis::Typical));
        assert_eq!(of(fill("/dev/nvme0n1", "ssd", None).takes(None)), (45, PaceBasis::Typical));
        let member = |pace: f64| MemberLimit { read_bytes_per_s: pace, ..MemberLimit::default() };
        // A member that could not be measured has no pace.
        let limits = Limits { at_ms: 0, members: vec![member(9e8), member(0.0), member(6e8)], together_bytes_per_s: 0.0 };
        assert_eq!(of(fill("/dev/sda", "hdd", None).takes(Some(&limits))), (60, PaceBasis::Measured));
        assert_eq!(of(fill("/dev/sda", "hdd", Some(100 * MB)).takes(Some(&limits))), (360, PaceBasis::Limit));
        assert_eq!(of(fill("/dev/sda", "hdd", Some(0)).takes(Some(&limits))), (60, PaceBasis::Measured), "no limit");
        assert_eq!(fill("/dev/sda", "hdd", Some(1)).takes(None).seconds, 36_000 * MB);
    }
}
