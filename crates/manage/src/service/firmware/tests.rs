//! Goal: an update of firmware never takes from an array what it cannot do without.
//! Method: views of arrays, and the answer to each.

use super::*;
use serde_json::{Value, json};

/// A RAID 6 of four members.
fn array() -> Value {
    let member = |slot: usize| {
        json!({"slot": slot, "path": format!("/dev/m{slot}"), "role": "in sync", "direct": true, "direct_note": null, "model": null,
            "serial": null, "size_bytes": 1_u64 << 30, "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0, "repaired_sectors": 0,
            "checksums": null, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0, "failure": null})
    };
    json!({"name": "tank", "full_name": "tank", "uuid": "u", "level": "6", "layout": "plain", "strip_bytes": 65536, "strip_reason": null,
        "size_bytes": 2_u64 << 30, "health": "optimal", "state": "clean", "clean": true, "read_only": false, "paused": false,
        "members": [member(0), member(1), member(2), member(3)], "missing_slots": [], "spans": [], "sweep": null,
        "resync_pending": false, "mismatch_sectors": null, "losses_survived": 2,
        "bitmap": {"chunk_bytes": 65536, "bit_count": 1, "dirty_count": 0}, "log": null,
        "in_flight": 0, "events": 1, "created_s": 0, "exports": [], "clients": []})
}

fn asked(change: impl FnOnce(&mut Value), activate: FirmwareActivation, force: bool) -> Result<(), (ApiErrorKind, String)> {
    let mut array = array();
    change(&mut array);
    let view: ArrayView = serde_json::from_value(array).expect("a view");
    check_array(&view, Path::new("/dev/m1"), activate, force).map_err(|error| (error.kind, error.message))
}

#[test]
fn a_member_is_updated_only_while_redundancy_remains() {
    use FirmwareActivation::{Now, Reset};
    assert_eq!(asked(|_| {}, Reset, false), Ok(()));
    let is_refused = |change: fn(&mut Value), activate, kind, words: &str| {
        let (found, text) = asked(change, activate, false).expect_err(words);
        assert!(found == kind && text.contains(words), "{text}");
        assert_eq!(asked(change, activate, true).is_ok(), kind == ApiErrorKind::Unsafe, "--force: {text}");
    };
    is_refused(|array| array["losses_survived"] = 0.into(), Now, ApiErrorKind::Unsafe, "no redundancy left");
    is_refused(|array| array["losses_survived"] = 0.into(), Reset, ApiErrorKind::Refused, "cannot do without /dev/m1");
    is_refused(|array| array["resync_pending"] = true.into(), Now, ApiErrorKind::Unsafe, "has not been resynced");
    is_refused(|array| array["bitmap"] = Value::Null, Reset, ApiErrorKind::Unsafe, "no write-intent bitmap");
    is_refused(|array| array["read_only"] = true.into(), Reset, ApiErrorKind::Refused, "read-only");
    is_refused(|array| array["members"][1]["role"] = "rebuilding".into(), Now, ApiErrorKind::Refused, "is being filled");
    is_refused(|array| array["members"][1]["path"] = "/dev/other".into(), Now, ApiErrorKind::Refused, "no member");
    let rebuilds = |array: &mut Value| {
        array["sweep"] =
            json!({"kind": "rebuild", "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "eta_s": null, "mismatch_sectors": 0});
    };
    is_refused(rebuilds, Now, ApiErrorKind::Unsafe, "a rebuild of \"tank\" runs");
    // A spare holds nothing.
    assert_eq!(asked(|array| array["members"][1]["role"] = "spare".into(), Reset, false), Ok(()));
}
