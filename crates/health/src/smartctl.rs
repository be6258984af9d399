//! Drives that are not NVMe, by `smartctl --json` of smartmontools.
//!
//! The keys are those of smartmontools 7.x: ATA attributes and device statistics, SCSI log pages. smartmontools knows hundreds of
//! models; none of that is repeated here.

use crate::mark::mark;
use crate::{DriveHealth, SelfTest, SelfTestResults, Source};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The exit status for a drive that sleeps (`-n standby,STATUS`). smartctl itself never sets bits 0 and 1 together: a command
/// line that is wrong opens no drive.
const ASLEEP: i32 = 3;
/// Bits of the exit status: the command line was wrong, or the drive could not be opened.
const FAILED: i64 = 0b11;

/// The command that reads a drive without waking it.
pub fn command(program: &Path, drive: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--json", "-i", "-H", "-c", "-A", "-l", "devstat", "-l", "selftest", "-n"])
        .arg(format!("standby,{ASLEEP}"))
        .arg(drive);
    command
}

/// The command that makes a drive test itself, unless it sleeps.
pub fn self_test_command(program: &Path, drive: &Path, long: bool) -> Command {
    let mut command = Command::new(program);
    command.args(["--json", "-t", if long { "long" } else { "short" }, "-n"]).arg(format!("standby,{ASLEEP}")).arg(drive);
    command
}

/// Checks smartctl's answer that the test began.
///
/// # Errors
/// The reason why the test did not begin, in smartctl's words.
pub fn self_test_begins(answer: &Value) -> Result<(), String> {
    let (status, words) = outcome(answer)?;
    if status == i64::from(ASLEEP) {
        return Err("the drive sleeps, and was not woken".into());
    }
    // Bit 2: a command to the drive failed, or the drive does not have it.
    match status & (FAILED | 1 << 2) {
        0 => Ok(()),
        _ if words.is_empty() => Err(format!("the drive did not begin a self-test (smartctl ended with status {status})")),
        _ => Err(words),
    }
}

/// The exit status, and messages.
fn outcome(answer: &Value) -> Result<(i64, String), String> {
    let status = answer.pointer("/smartctl/exit_status").and_then(Value::as_i64).ok_or("smartctl's answer has no exit status")?;
    let messages = answer.pointer("/smartctl/messages").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<&str> = messages.filter_map(|message| message["string"].as_str()).collect();
    Ok((status, words.join("; ")))
}

/// The figures of a drive by smartctl's answer.
///
/// # Errors
/// The reason why there are none, in smartctl's words.
pub fn health(answer: &Value) -> Result<DriveHealth, String> {
    let (status, words) = outcome(answer)?;
    if status == i64::from(ASLEEP) {
        return Ok(DriveHealth { source: Source::Smartctl, asleep: true, ..DriveHealth::default() });
    }
    if status & FAILED != 0 {
        return Err(if words.is_empty() { format!("smartctl ended with status {status}") } else { words });
    }
    let text = |at: &str| answer.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let number = |at: &str| answer.pointer(at).and_then(Value::as_u64).and_then(figure);
    let celsius = |at: &str| answer.pointer(at).and_then(Value::as_i64).and_then(|degrees| i32::try_from(degrees).ok());
    let attribute = |ids: &[u64]| attributes(answer).find(|attribute| ids.iter().any(|id| attribute["id"] == *id));
    let raw = |ids: &[u64]| attribute(ids).and_then(|attribute| attribute["raw"]["value"].as_u64());
    let count = |ids: &[u64]| attribute(ids).and_then(raw_count);
    let block_bytes = number("/logical_block_size").unwrap_or(512);
    let nvme = |key: &str| number(&format!("/nvme_smart_health_information_log/{key}"));
    let moved = |ids: &[u64], statistic_name: &str| {
        let blocks = statistic(answer, statistic_name).or_else(|| raw(ids));
        blocks.map(|blocks| blocks.saturating_mul(block_bytes))
    };
    Ok(DriveHealth {
        source: Source::Smartctl,
        model: text("/model_name").or_else(|| text("/scsi_model_name")),
        serial: text("/serial_number"),
        firmware: text("/firmware_version").or_else(|| text("/scsi_revision")),
        // For NVMe smartctl derives it from the critical warning, whose bits are judged one by one: heat is no failure.
        predicts_failure: answer.pointer("/smart_status/passed") == Some(&Value::Bool(false))
            && nvme("critical_warning").is_none(),
        critical_warning: nvme("critical_warning").and_then(|warning| u8::try_from(warning).ok()),
        temperature_c: celsius("/temperature/current"),
        temperature_critical_c: celsius("/temperature/drive_trip").filter(|&degrees| degrees > 0),
        wear_percent: wear(answer).and_then(|percent| u16::try_from(percent).ok()),
        spare_percent: nvme("available_spare")
            .or_else(|| number("/spare_available/current_percent"))
            .and_then(|percent| u8::try_from(percent).ok()),
        spare_threshold_percent: nvme("available_spare_threshold")
            .or_else(|| number("/spare_available/threshold_percent"))
            .and_then(|percent| u8::try_from(percent).ok()),
        media_errors: nvme("media_errors").or_else(|| scsi_uncorrected(answer)).or_else(|| count(&[187])),
        pending_sectors: count(&[197]),
        reallocated_sectors: number("/scsi_grown_defect_list")
            .or_else(|| statistic(answer, "Number of Reallocated Logical Sectors"))
            .or_else(|| count(&[5])),
        link_errors: statistic(answer, "Number of Interface CRC Errors").or_else(|| count(&[199])),
        self_test: self_test(answer),
        self_test_results: SelfTestResults::of(self_tests(answer).into_iter().flatten()),
        self_test_mark: self_test_mark(answer),
        power_on_hours: number("/power_on_time/hours"),
        power_cycles: number("/power_cycle_count"),
        unsafe_shutdowns: nvme("unsafe_shutdowns").or_else(|| count(&[174, 192])),
        read_bytes: moved(&[242], "Logical Sectors Read"),
        written_bytes: moved(&[241], "Logical Sectors Written"),
        ..DriveHealth::default()
    })
}

fn attributes(answer: &Value) -> impl Iterator<Item = &Value> {
    answer.pointer("/ata_smart_attributes/table").and_then(Value::as_array).into_iter().flatten()
}

/// The count of an attribute. Its 48 raw bits often hold further numbers above the count; smartmontools knows the models, and
/// writes `12 (3 0)` then.
fn raw_count(attribute: &Value) -> Option<u64> {
    let count = attribute["raw"]["string"].as_str().and_then(|text| match text.split_once(' ') {
        None => text.parse().ok(),
        Some((count, rest)) if rest.starts_with('(') => count.parse().ok(),
        Some(_) => None,
    });
    count.or_else(|| attribute["raw"]["value"].as_u64())
}

/// The self-test that runs, or the last one, of ATA, NVMe and SCSI drives.
fn self_test(answer: &Value) -> Option<SelfTest> {
    let number = |at: &str| answer.pointer(at).and_then(Value::as_u64);
    let last = last_self_test(answer);
    // ATA's log has the test only when it has ended.
    let runs_on_ata = number("/ata_smart_data/self_test/status/value").is_some_and(|status| status >> 4 == 15);
    let nvme = number("/nvme_self_test_log/current_self_test_operation/value").filter(|&code| code != 0);
    if let Some(entry) = last.filter(|last| last.running) {
        return Some(entry);
    }
    let running = |long: bool| {
        let passed = last.and_then(|last| last.passed).filter(|passed| !passed);
        Some(SelfTest { long, running: true, passed })
    };
    match nvme {
        Some(code) => running(code == 2),
        // The drive does not tell which kind runs.
        None if runs_on_ata => running(false),
        None => last,
    }
}

/// The newest entry of the log of self-tests.
fn last_self_test(answer: &Value) -> Option<SelfTest> {
    self_tests(answer).into_iter().next()?
}

/// The entries of the log of self-tests, the newest first; `None`: one in a form of its own.
fn self_tests(answer: &Value) -> Vec<Option<SelfTest>> {
    let table = |at: &str| answer.pointer(at).and_then(Value::as_array).filter(|table| !table.is_empty());
    if let Some(entries) = table("/nvme_self_test_log/table") {
        return entries.iter().map(nvme_self_test).collect();
    }
    let ata = ["/ata_smart_self_test_log/standard/table", "/ata_smart_self_test_log/extended/table"].into_iter().find_map(table);
    match ata {
        Some(entries) => entries.iter().map(other_self_test).collect(),
        None => (0..).map_while(|index| answer.get(format!("scsi_self_test_{index}"))).map(other_self_test).collect(),
    }
}

fn nvme_self_test(entry: &Value) -> Option<SelfTest> {
    let passed = match entry.pointer("/self_test_result/value").and_then(Value::as_u64) {
        Some(0) => Some(true),
        Some(5..=7) => Some(false),
        _ => None,
    };
    Some(SelfTest { long: entry.pointer("/self_test_code/value")? == 2, running: false, passed })
}

/// An entry of an ATA or SCSI drive.
fn other_self_test(entry: &Value) -> Option<SelfTest> {
    let name = entry.pointer("/type/string").or_else(|| entry.pointer("/code/string")).and_then(Value::as_str)?;
    let state = |at: &str| entry.pointer(at).and_then(Value::as_u64);
    // ATA's high nibble 15 and SCSI's result 15: under way. ATA's 0 passed, 3 to 8 failed; SCSI's 0 passed, 3 to 7 failed; the
    // others ended early.
    let outcome = state("/status/value").map(|value| value >> 4).or_else(|| state("/result/value"))?;
    let passed = match outcome {
        0 => Some(true),
        3..=8 => Some(false),
        _ => None,
    };
    let long = ["Extended", "long"].iter().any(|word| name.contains(word));
    Some(SelfTest { long, running: outcome == 15, passed })
}

/// The mark of the log of self-tests.
fn self_test_mark(answer: &Value) -> u64 {
    let of_scsi = (0..).map_while(|index| answer.get(format!("scsi_self_test_{index}")));
    let others = ["/nvme_self_test_log/table", "/ata_smart_self_test_log"].into_iter().filter_map(|at| answer.pointer(at));
    mark(of_scsi.chain(others).map(Value::to_string).collect::<Vec<_>>())
}

/// An entry of the ATA device statistics.
fn statistic(answer: &Value, name: &str) -> Option<u64> {
    let pages = answer.pointer("/ata_device_statistics/pages")?.as_array()?;
    let mut entries = pages.iter().filter_map(|page| page["table"].as_array()).flatten();
    let is_it = |entry: &&Value| entry["name"] == name && entry.pointer("/flags/valid") != Some(&Value::Bool(false));
    entries.find(is_it).and_then(|entry| entry["value"].as_u64()).and_then(figure)
}

/// Used endurance, in per cent. The device statistics and log pages define it; attributes count down from 100, and only those
/// whose meaning all their makers share are read.
fn wear(answer: &Value) -> Option<u64> {
    let number = |at: &str| answer.pointer(at).and_then(Value::as_u64);
    let left = || {
        let names = ["Wear_Leveling_Count", "Media_Wearout_Indicator", "SSD_Life_Left", "Percent_Lifetime_Remain"];
        let attribute = attributes(answer).find(|attribute| names.iter().any(|name| attribute["name"] == *name))?;
        attribute["value"].as_u64().filter(|&left| left <= 100)
    };
    number("/nvme_smart_health_information_log/percentage_used")
        .or_else(|| number("/endurance_used/current_percent"))
        .or_else(|| statistic(answer, "Percentage Used Endurance Indicator"))
        .or_else(|| number("/scsi_percentage_used_endurance_indicator"))
        .or_else(|| left().map(|left| 100 - left))
}

/// A counter with all bits set is one that the drive does not have.
fn figure(count: u64) -> Option<u64> {
    (count != u64::MAX).then_some(count)
}

/// Reads, writes and verifications that a SCSI drive could not correct.
fn scsi_uncorrected(answer: &Value) -> Option<u64> {
    let log = answer.get("scsi_error_counter_log")?.as_object()?;
    let counts = log.values().filter_map(|kind| figure(kind["total_uncorrected_errors"].as_u64()?));
    counts.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HealthConfig, Verdict, judge};

    fn read(text: &str) -> DriveHealth {
        let answer: Value = serde_json::from_str(text).expect("JSON");
        let mut health = health(&answer).expect("figures");
        judge(&mut health, &HealthConfig::default());
        health
    }

    #[test]
    fn a_sata_ssd_that_is_well() {
        let health = read(include_str!("../tests/smartctl/sata_ssd_good.json"));
        assert_eq!((health.verdict, &health.findings[..]), (Verdict::Good, &[][..]));
        assert_eq!(health.model.as_deref(), Some("Samsung SSD 870 EVO 1TB"));
        assert_eq!((health.serial.as_deref(), health.firmware.as_deref()), (Some("S6PTNS0T123456A"), Some("SVT02B6Q")));
        assert_eq!((health.temperature_c, health.wear_percent, health.power_on_hours), (Some(31), Some(2), Some(11_843)));
        assert_eq!((health.reallocated_sectors, health.media_errors, health.link_errors), (Some(0), Some(0), Some(0)));
        assert_eq!(health.written_bytes, Some(25_165_824_000 * 512));
    }

    #[test]
    fn a_hard_disk_with_bad_sectors_is_watched_and_one_that_expects_to_fail_replaced() {
        let health = read(include_str!("../tests/smartctl/sata_disk_failing.json"));
        assert_eq!(health.verdict, Verdict::Replace);
        assert_eq!((health.pending_sectors, health.reallocated_sectors), (Some(16), Some(1992)));
        let sentences: Vec<&str> = health.findings.iter().map(|finding| finding.sentence.as_str()).collect();
        assert!(sentences[0].contains("expects to fail"), "{sentences:?}");
        assert!(sentences.iter().any(|sentence| sentence.starts_with("16 sectors cannot be read")), "{sentences:?}");
        assert_eq!(health.wear_percent, None, "a disk has no endurance");
    }

    /// Before, a healthy disk counted billions of reallocated sectors, and was copied off.
    #[test]
    fn a_count_is_not_read_with_the_numbers_above_it() {
        let with = |string: &str, value: u64, more: Value| {
            let mut answer = serde_json::json!({"smartctl": {"exit_status": 0}, "ata_smart_attributes": {"table": [
                {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": value, "string": string}}]}});
            answer["ata_device_statistics"] = more;
            health(&answer).expect("figures").reallocated_sectors
        };
        let none = || Value::Null;
        assert_eq!(with("0 (0 3)", 3 << 32, none()), Some(0));
        assert_eq!(with("12 (3 0)", 12 + (3 << 16), none()), Some(12));
        assert_eq!(with("1992", 1992, none()), Some(1992));
        assert_eq!(with("1 2 3", 66051, none()), Some(66051), "no form in which the count comes first");
        assert_eq!(with("0x00000000000c", 12, none()), Some(12));
        let statistic = |valid: bool| {
            serde_json::json!({"pages": [{"number": 3, "table": [
                {"name": "Number of Reallocated Logical Sectors", "value": 8, "flags": {"valid": valid}}]}]})
        };
        assert_eq!(with("12 (3 0)", 12 + (3 << 16), statistic(true)), Some(8), "the standard defines this one");
        assert_eq!(with("12 (3 0)", 12 + (3 << 16), statistic(false)), Some(12));
    }

    #[test]
    fn a_sas_ssd_is_read_by_its_log_pages() {
        let health = read(include_str!("../tests/smartctl/sas_ssd_worn.json"));
        assert_eq!((health.wear_percent, health.media_errors, health.reallocated_sectors), (Some(91), Some(2), Some(0)));
        assert_eq!((health.temperature_c, health.temperature_critical_c), (Some(35), Some(70)));
        assert_eq!((health.verdict, health.findings.len()), (Verdict::Watch, 2), "{health:?}");
        assert_eq!(health.firmware.as_deref(), Some("0204"));
    }

    /// The sum of three such counters of a damaged drive overflowed, and ended the thread that read them.
    #[test]
    fn counters_of_a_sas_drive_that_it_does_not_have_are_no_errors() {
        let with = |read: u64, write: u64| {
            let answer = serde_json::json!({"smartctl": {"exit_status": 0}, "scsi_grown_defect_list": u64::MAX, "scsi_error_counter_log": {
                "read": {"total_uncorrected_errors": read}, "write": {"total_uncorrected_errors": write}, "verify": {}}});
            let health = health(&answer).expect("figures");
            assert_eq!(health.reallocated_sectors, None);
            health.media_errors
        };
        assert_eq!((with(2, 3), with(u64::MAX, 3), with(u64::MAX, u64::MAX)), (Some(5), Some(3), None));
        assert_eq!(with(u64::MAX - 1, 3), Some(u64::MAX), "the greatest number");
    }

    #[test]
    fn an_nvme_drive_by_smartctl() {
        let health = read(include_str!("../tests/smartctl/nvme_spare_low.json"));
        assert_eq!((health.spare_percent, health.spare_threshold_percent, health.wear_percent), (Some(4), Some(10), Some(38)));
        assert_eq!(health.verdict, Verdict::Replace);
    }

    /// Such a drive counted as failing, and was copied to a spare.
    #[test]
    fn an_nvme_drive_behind_a_bridge_that_is_hot_does_not_expect_to_fail() {
        let health = read(include_str!("../tests/smartctl/nvme_hot_behind_usb.json"));
        assert_eq!((health.verdict, health.predicts_failure), (Verdict::Watch, false), "{:?}", health.findings);
        assert!(health.findings[0].sentence.starts_with("84 °C"), "{:?}", health.findings);
    }

    #[test]
    fn a_drive_that_sleeps_is_left_alone() {
        let health = read(include_str!("../tests/smartctl/asleep.json"));
        assert!(health.asleep && health.verdict == Verdict::Good && health.temperature_c.is_none());
        let words: Vec<String> = command(Path::new("smartctl"), Path::new("/dev/sda"))
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        assert!(words.windows(2).any(|pair| pair == ["-n", "standby,3"]), "{words:?}");
    }

    #[test]
    fn what_smartctl_cannot_open_is_told_in_its_words() {
        let answer: Value = serde_json::from_str(include_str!("../tests/smartctl/cannot_open.json")).expect("JSON");
        assert_eq!(health(&answer), Err("Smartctl open device: /dev/sdz failed: No such device".into()));
        assert!(health(&Value::Null).is_err());
    }

    #[test]
    fn self_tests_are_read_from_every_kind_of_log() {
        let of = |text: &str| self_test(&serde_json::from_str(text).expect("JSON"));
        let ata = |kind: &str, status: u8| {
            of(&format!(
                r#"{{"ata_smart_self_test_log":{{"standard":{{"table":[{{"type":{{"value":1,"string":"{kind}"}},"status":{{"value":{status}}}}}]}}}}}}"#
            ))
        };
        assert_eq!(ata("Short offline", 0), Some(SelfTest { long: false, running: false, passed: Some(true) }));
        assert_eq!(ata("Extended offline", 0x79), Some(SelfTest { long: true, running: false, passed: Some(false) }));
        assert_eq!(ata("Short offline", 0xf5), Some(SelfTest { long: false, running: true, passed: None }));
        assert_eq!(ata("Short offline", 0x10), Some(SelfTest { long: false, running: false, passed: None }), "ended by the host");
        let nvme = r#"{"nvme_self_test_log":{"current_self_test_operation":{"value":0},
            "table":[{"self_test_code":{"value":2},"self_test_result":{"value":7}}]}}"#;
        assert_eq!(of(nvme), Some(SelfTest { long: true, running: false, passed: Some(false) }));
        let scsi = r#"{"scsi_self_test_0":{"code":{"value":2,"string":"Background long"},"result":{"value":0}}}"#;
        assert_eq!(of(scsi), Some(SelfTest { long: true, running: false, passed: Some(true) }));
        assert_eq!(of("{}"), None);
    }

    /// A hard disk whose long test failed was good again after the next short one.
    #[test]
    fn a_failed_long_test_is_not_hidden_by_a_short_one_that_passed() {
        let log = |entries: &[(&str, u8)]| {
            let entry = |(kind, status): &(&str, u8)| serde_json::json!({"type": {"string": kind}, "status": {"value": status}});
            let table: Vec<Value> = entries.iter().map(entry).collect();
            let answer =
                serde_json::json!({"smartctl": {"exit_status": 0}, "ata_smart_self_test_log": {"standard": {"table": table}}});
            let mut health = health(&answer).expect("figures");
            judge(&mut health, &HealthConfig::default());
            let sentences = health.findings.iter().map(|finding| finding.sentence.clone()).collect::<Vec<_>>().join("; ");
            (health.verdict, sentences)
        };
        let (short, long) = ("Short offline", "Extended offline");
        let (verdict, words) = log(&[(short, 0), (short, 0), (long, 0x79)]);
        assert_eq!((verdict, words.as_str()), (Verdict::Replace, "the drive's last long self-test failed; replace it"));
        assert_eq!(log(&[(long, 0xf5), (short, 0), (long, 0x79)]).0, Verdict::Replace, "the next one runs");
        assert_eq!(log(&[(long, 0x10), (long, 0x79)]).0, Verdict::Replace, "the next one was ended by the host");
        assert_eq!(log(&[(long, 0), (short, 0), (long, 0x79)]).0, Verdict::Good);
        assert_eq!(log(&[(long, 0), (short, 0x79)]).0, Verdict::Good, "a long one answers for a short one");
        assert!(log(&[(short, 0x79), (long, 0)]).1.contains("last short self-test"));
    }

    /// The log of an ATA drive has a test only when it has ended: until then its newest entry is that of an earlier one.
    #[test]
    fn a_test_that_runs_is_known_by_the_state_of_the_drive() {
        let of = |state: u8, entry: u8, hours: u64| {
            let answer = serde_json::json!({
                "smartctl": {"exit_status": 0},
                "ata_smart_data": {"self_test": {"status": {"value": state}}},
                "ata_smart_self_test_log": {"standard": {"table": [
                    {"type": {"string": "Short offline"}, "status": {"value": entry}, "lifetime_hours": hours}]}}
            });
            let health = health(&answer).expect("figures");
            (health.self_test.expect("a test"), health.self_test_mark)
        };
        let (running, before) = of(0xf9, 0, 7);
        assert_eq!(running, SelfTest { long: false, running: true, passed: None });
        let (ended, after) = of(0, 0, 8);
        assert_eq!(ended, SelfTest { long: false, running: false, passed: Some(true) });
        assert!(before != after && of(0, 0, 7).1 == before, "the mark is that of the log");
        assert_eq!(of(0xf5, 0x70, 7).0.passed, Some(false), "the fault is still there");
        let nothing_before = serde_json::json!({"ata_smart_data": {"self_test": {"status": {"value": 0xf9}}}});
        assert!(self_test(&nothing_before).is_some_and(|test| test.running));
    }

    #[test]
    fn a_self_test_that_is_refused_is_told_in_smartctls_words() {
        let begins = |status: i64, words: &str| {
            self_test_begins(&serde_json::json!({"smartctl": {"exit_status": status, "messages": [{"string": words}]}}))
        };
        assert_eq!(begins(0, ""), Ok(()));
        assert_eq!(begins(64, "old errors"), Ok(()), "what it found before");
        assert_eq!(begins(3, ""), Err("the drive sleeps, and was not woken".into()));
        assert_eq!(begins(4, "Self-tests not supported"), Err("Self-tests not supported".into()));
    }
}
