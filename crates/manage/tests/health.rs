//! Goal: the health of a drive is what the drive reports, for NVMe without smartmontools.
//! Method: emulated NVMe drives in a guest (tests/nvme), where `smartctl` judges the output of `stria health`.

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

/// The half of the next test that runs in the guest; not a test by itself.
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
    // The guest names the programs that it was given in this order: this test, `stria`, `smartctl`.
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
    // The serve reads the health of the array's drives, although they are in use.
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
}

#[test]
fn nvme_health_is_what_smartctl_says() {
    if !nvme::wanted() {
        return;
    }
    let Some(smartctl) = smartctl() else {
        return may_skip("smartctl is missing", "run: scripts/setup test");
    };
    let drives = [nvme::Drive { bytes: 24 << 20, options: "" }; 2];
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
