//! Goal: a drive's health is what the drive reports, without smartmontools where it is NVMe.
//! Method: emulated NVMe drives in a guest (tests/nvme), where `smartctl` is the judge of what `stria health` says.

mod support;

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use stria_testkit::nvme;
use support::{Place, may_skip};

/// Where `scripts/setup test` unpacks smartctl, or where it is installed.
fn smartctl() -> Option<PathBuf> {
    let unpacked = PathBuf::from(std::env::var_os("HOME")?).join(".cache/stria-tools/usr/sbin/smartctl");
    [unpacked, "/usr/sbin/smartctl".into()].into_iter().find(|path| path.exists())
}

/// Not a test of its own: the guest's half of the next one.
#[test]
fn guests_half() {
    if !nvme::is_guest() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["--json", "health", "/dev/nvme0n1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let page: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let own = &page["drives"][0]["health"];
    assert_eq!((&own["source"], &own["verdict"]), (&"nvme".into(), &"good".into()), "{page:#}");
    // The guest names the programs that came along in this order: this test, `stria`, `smartctl`.
    let smartctl = std::env::var("P2").expect("it came along");
    let judge = Command::new(smartctl).args(["--json", "-i", "-H", "-A", "/dev/nvme0n1"]).output().expect("it starts");
    let judge: Value = serde_json::from_slice(&judge.stdout).expect("JSON");
    let log = &judge["nvme_smart_health_information_log"];
    for (ours, theirs) in [
        (&own["temperature_c"], &log["temperature"]),
        (&own["spare_percent"], &log["available_spare"]),
        (&own["spare_threshold_percent"], &log["available_spare_threshold"]),
        (&own["wear_percent"], &log["percentage_used"]),
        (&own["critical_warning"], &log["critical_warning"]),
        (&own["media_errors"], &log["media_errors"]),
        (&own["power_cycles"], &log["power_cycles"]),
        (&own["unsafe_shutdowns"], &log["unsafe_shutdowns"]),
        (&own["model"], &judge["model_name"]),
        (&own["serial"], &judge["serial_number"]),
        (&own["firmware"], &judge["firmware_version"]),
    ] {
        assert!(!ours.is_null() && ours == theirs, "{ours} is not {theirs}\n{own:#}\n{judge:#}");
    }
    // The drives of an array are asked by its serve, which finds them in use.
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", "/dev/nvme0n1", "/dev/nvme1n1"]);
    let serve = place.serve(&["/dev/nvme0n1", "/dev/nvme1n1"]);
    let end = std::time::Instant::now() + support::PATIENCE;
    let words = loop {
        let words = place.ok(&["health", "tank"]);
        if words.contains("good") {
            break words;
        }
        assert!(std::time::Instant::now() < end, "{words}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    };
    for word in ["/dev/nvme0n1", "/dev/nvme1n1", "°C"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    assert!(place.ok(&["status", "-v"]).contains("firmware"), "it is below the members");
    place.ok(&["stop", "tank"]);
    serve.ended_well();
    a_drive_that_calls_itself_unreliable_is_copied_off(&place);
}

/// The guest's third drive reports that it has become unreliable, and is a member; the fourth is a spare.
fn a_drive_that_calls_itself_unreliable_is_copied_off(place: &Place) {
    let ran = place.run(&["health", "/dev/nvme2n1"]);
    assert!(ran.code == 3 && ran.stdout.contains("has become unreliable"), "{ran:?}");
    // QEMU's drives have no self-tests, no slots and no lights.
    place.run(&["locate", "/dev/nvme2n1"]).refused(1, &["shows no light for it", "serial number"]);
    place.ok(&["wipe", "/dev/nvme0n1", "--force"]);
    place.ok(&["create", "lake", "--level", "1", "--assume-clean", "--spare", "/dev/nvme3n1", "/dev/nvme0n1", "/dev/nvme2n1"]);
    place.is_a_machine();
    place.configure("search = [\"/dev/nvme0n1\", \"/dev/nvme2n1\", \"/dev/nvme3n1\"]");
    let config = std::fs::read_to_string(place.config()).expect("a configuration");
    std::fs::write(place.config(), format!("{config}\n[routine]\nself-test = \"*:*:*\"\n")).expect("a file");
    place.ok(&["adopt", "/dev/nvme0n1", "/dev/nvme2n1", "/dev/nvme3n1"]);
    let daemon = support::daemon::Daemon::start(place);
    place.wait_for("lake", "the copy", |status| {
        let members = status["members"].as_array().expect("a list");
        members.iter().any(|member| member["path"] == "/dev/nvme3n1" && member["role"] == "in sync")
    });
    let events = place.ok(&["events", "lake"]);
    let is_loss = |line: &str| line.contains("member_failed") && !line.contains("replaced");
    assert!(events.contains("before it fails") && !events.lines().any(is_loss), "{events}");
    let end = std::time::Instant::now() + support::PATIENCE;
    while !place.ok(&["events"]).contains("offers no self-tests") {
        assert!(std::time::Instant::now() < end, "{}", place.ok(&["events"]));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn nvme_health_is_what_smartctl_says() {
    if !nvme::wanted() {
        return;
    }
    let Some(smartctl) = smartctl() else {
        return may_skip("smartctl is missing", "run: scripts/setup test");
    };
    let well = nvme::Drive { bytes: 24 << 20, options: "" };
    let drives = [well, well, nvme::Drive { options: ",controller.smart_critical_warning=4", ..well }, well];
    let smartctl = smartctl.to_str().expect("a plain path");
    nvme::run_test("health", "guests_half", &drives, &[env!("CARGO_BIN_EXE_stria"), smartctl]);
}

#[test]
fn what_has_no_health_is_told() {
    let place = Place::new();
    let images = place.images(1, 1 << 20);
    place.run(&["health", &images[0]]).refused(1, &["it has no health of its own"]);
    place.run(&["health", "/dev/stria-none"]).refused(1, &["No such file"]);
}
