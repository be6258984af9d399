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
    is_refused(|array| array["members"][1]["path"] = "/dev/other".into(), Now, ApiErrorKind::Refused, "does not use /dev/m1");
    let rebuilds = |array: &mut Value| {
        array["sweep"] =
            json!({"kind": "rebuild", "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "eta_s": null, "mismatch_sectors": 0});
    };
    is_refused(rebuilds, Now, ApiErrorKind::Unsafe, "a rebuild of \"tank\" runs");
    // What is only stored changes nothing now.
    use FirmwareActivation::Later;
    assert_eq!(asked(|array| array["losses_survived"] = 0.into(), Later, false), Ok(()));
    assert_eq!(asked(rebuilds, Later, false), Ok(()));
    let (_, text) = asked(|array| array["losses_survived"] = 0.into(), Reset, false).expect_err("a refusal");
    assert!(text.contains("use --activate later, or") && text.contains("--activate now --force"), "{text}");
    // A spare holds nothing.
    assert_eq!(asked(|array| array["members"][1]["role"] = "spare".into(), Reset, false), Ok(()));
}

#[test]
fn other_users_of_the_controller_refuse_a_reset_and_ask_for_force_otherwise() {
    use FirmwareActivation::{Later, Now, Reset};
    let check = |activate, force, users| {
        check_others(Path::new("/dev/nvme0n1"), activate, force, users).map_err(|error| (error.kind, error.message))
    };
    let used = || Ok(vec!["/dev/nvme0n2 is mounted on /srv".to_owned()]);
    let unknown = || Err("sysfs does not tell".to_owned());
    for activate in [Now, Reset, Later] {
        assert_eq!(check(activate, false, Ok(Vec::new())), Ok(()));
    }
    for users in [used, unknown] {
        for (activate, force, kind) in
            [(Reset, false, ApiErrorKind::Refused), (Reset, true, ApiErrorKind::Refused), (Now, false, ApiErrorKind::Unsafe)]
        {
            let (found, text) = check(activate, force, users()).expect_err("a refusal");
            let named = text.contains("/dev/nvme0n2 is mounted on /srv") || text.contains("unknown (sysfs does not tell)");
            assert!(found == kind && named && text.contains("nothing was changed"), "{text}");
        }
        assert_eq!(check(Now, true, users()), Ok(()));
        assert_eq!(check(Later, false, users()), Ok(()));
    }
}

#[test]
fn members_of_every_array_are_users() {
    let mut array = array();
    array["name"] = "other".into();
    array["members"][2]["role"] = "failed".into();
    let view: ArrayView = serde_json::from_value(array).expect("a view");
    let devices = ["/dev/m0", "/dev/m2", "/dev/none"].map(PathBuf::from);
    assert_eq!(users_of(&devices, &[view]), ["/dev/m0 is a member of \"other\""]);
}

/// Steps that fail by name, and what was done.
#[derive(Default)]
struct Standin {
    fails: Vec<&'static str>,
    done: std::cell::RefCell<Vec<&'static str>>,
}

impl Standin {
    fn step(&self, name: &'static str) -> Result<(), Why> {
        self.done.borrow_mut().push(name);
        if self.fails.contains(&name) { Err((format!("no {name}"), Cause(None))) } else { Ok(()) }
    }
}

impl Steps for Standin {
    fn hold(&self) -> Result<(), Why> {
        self.step("hold")
    }
    fn leave(&self) -> Result<(), Why> {
        self.step("leave")
    }
    fn reset(&self) -> Result<(), Why> {
        self.step("reset")
    }
    fn answers(&self) -> Result<(), Why> {
        self.step("answers")
    }
    fn come_back(&self) -> Result<String, Why> {
        self.step("come_back").map(|()| "it returned".into())
    }
    fn go_on(&self) -> Result<(), Why> {
        self.step("go_on")
    }
}

fn joined(faults: Faults) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Every failure of a reset once ended as a success that spoke of the next reset.
#[test]
fn each_step_of_a_reset_that_fails_is_an_error_with_the_state_of_the_array() {
    let try_with = |fails: &[&'static str]| {
        let steps = Standin { fails: fails.to_vec(), ..Standin::default() };
        let outcome = reset_member(&steps, "tank", "/dev/m1").map_err(joined);
        (outcome, steps.done.into_inner())
    };
    let all = ["hold", "leave", "reset", "answers", "come_back", "go_on"];
    assert_eq!(try_with(&[]), (Ok("it returned".into()), all.to_vec()));
    let rows: [(&[&str], &[&str], &[&str]); 7] = [
        (&["hold"], &["no hold", "not reset", "still a member"], &["hold"]),
        (&["leave"], &["cannot leave array \"tank\" (no leave)", "not reset"], &["hold", "leave", "go_on"]),
        (&["reset"], &["the reset of /dev/m1 failed (no reset)", "it is back in array \"tank\""], &all),
        (
            &["answers"],
            &["does not come back (no answers)", "DEGRADED", "`stria add tank /dev/m1`"],
            &["hold", "leave", "reset", "answers", "go_on"],
        ),
        (&["come_back"], &["cannot return to array \"tank\" (no come_back)", "DEGRADED"], &all),
        (&["reset", "come_back"], &["failed (no reset); ", "cannot return", "DEGRADED"], &all),
        (
            &["go_on"],
            &["it is back in array \"tank\"; resync and rebuild are still held (no go_on)", "`stria resume tank`"],
            &all,
        ),
    ];
    for (fails, words, steps) in rows {
        let (outcome, done) = try_with(fails);
        let text = outcome.expect_err("an error");
        assert!(words.iter().all(|part| text.contains(part)), "{fails:?}: {text}");
        assert_eq!(done, steps, "{fails:?}");
        assert_eq!(text.contains("DEGRADED"), fails.contains(&"answers") || fails.contains(&"come_back"), "{text}");
    }
    for step in ["reset", "answers"] {
        let steps = Standin { fails: vec![step], ..Standin::default() };
        assert!(reset_unused(&steps, "/dev/m1").map_err(joined).expect_err("an error").contains(&format!("no {step}")));
    }
}

#[test]
fn an_update_succeeds_only_if_the_firmware_runs_or_waits_as_it_was_asked_to() {
    use FirmwareActivation::{Later, Now, Reset};
    let never = || -> Result<String, Faults> { panic!("no reset was asked for") };
    assert_eq!(after_commit(Activation::Running, Now, never), Ok(Updated::Runs(String::new())));
    for activate in [Now, Reset, Later] {
        assert!(matches!(after_commit(Activation::PowerCycle, activate, never), Ok(Updated::Stored(_))));
    }
    assert!(matches!(after_commit(Activation::ControllerReset, Later, never), Ok(Updated::Stored(_))));
    let fault = after_commit(Activation::ControllerReset, Now, never);
    assert!(matches!(fault, Err(Fault::NotActivated(why)) if joined(why.clone()).contains("--activate reset")));
    let reset = |outcome: Result<&str, Faults>| after_commit(Activation::ControllerReset, Reset, || outcome.map(str::to_owned));
    assert_eq!(reset(Ok("it returned")), Ok(Updated::Runs("; it returned".into())));
    let faults = vec![Say::ResetIsBack { array: "tank".into() }];
    assert_eq!(reset(Err(faults.clone())), Err(Fault::NotActivated(faults)));
}
