//! The NVMe SMART log page, and the controller's description of itself. Offsets are those of the NVM Express Base Specification
//! 2.0.

use crate::admin::SELF_TEST_LOG_BYTES;
use crate::mark::mark;
use crate::{DriveHealth, SelfTest, SelfTestResults, Source};

/// Zero degrees Celsius in kelvins, as NVMe counts.
const ZERO_CELSIUS: i32 = 273;
/// A data unit is a thousand blocks of 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;
/// The log of self-tests: the part about the test that runs, and one result.
const HEAD_BYTES: usize = 4;
const ENTRY_BYTES: usize = 28;

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

/// A counter of 16 bytes, cut at the largest number that fits.
fn counter(page: &[u8], at: usize) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&page[at..at + 16]);
    u128::from_le_bytes(bytes)
}

fn fitting(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Text that is padded with spaces.
fn text(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page).trim_matches(['\0', ' ']).to_owned();
    (!text.is_empty()).then_some(text)
}

/// A temperature in kelvins; 0: the drive reports none.
fn celsius(kelvins: u16) -> Option<i32> {
    (kelvins > 0).then(|| i32::from(kelvins) - ZERO_CELSIUS)
}

/// The figures of a drive. `smart`: 512 bytes, `controller`: 4096 bytes.
pub fn health(smart: &[u8], controller: &[u8]) -> DriveHealth {
    assert_eq!((smart.len(), controller.len()), (512, 4096), "the sizes of the two answers");
    let count = |at| Some(fitting(counter(smart, at)));
    let bytes = |at| Some(fitting(counter(smart, at).saturating_mul(DATA_UNIT_BYTES)));
    DriveHealth {
        source: Source::Nvme,
        serial: text(&controller[4..24]),
        model: text(&controller[24..64]),
        firmware: text(&controller[64..72]),
        critical_warning: Some(smart[0]),
        temperature_c: celsius(u16_at(smart, 1)),
        temperature_warning_c: celsius(u16_at(controller, 266)),
        temperature_critical_c: celsius(u16_at(controller, 268)),
        spare_percent: Some(smart[3]),
        spare_threshold_percent: Some(smart[4]),
        wear_percent: Some(u16::from(smart[5])),
        read_bytes: bytes(32),
        written_bytes: bytes(48),
        power_cycles: count(112),
        power_on_hours: count(128),
        unsafe_shutdowns: count(144),
        media_errors: count(160),
        ..DriveHealth::default()
    }
}

/// True if the controller offers self-tests (Optional Admin Command Support, bit 4). `controller`: 4096 bytes.
pub fn offers_self_tests(controller: &[u8]) -> bool {
    u16_at(controller, 256) & 1 << 4 != 0
}

/// The self-test that runs, or the last one. `log`: 564 bytes.
pub fn self_test(log: &[u8]) -> Option<SelfTest> {
    assert_eq!(log.len(), SELF_TEST_LOG_BYTES, "the size of the answer");
    let last = entry(&log[HEAD_BYTES..]);
    if let Some(long) = kind(log[0] & 0xf) {
        let passed = last.and_then(|last| last.passed).filter(|passed| !passed);
        return Some(SelfTest { long, running: true, passed });
    }
    last
}

/// The last results. `log`: 564 bytes.
pub fn self_test_results(log: &[u8]) -> SelfTestResults {
    assert_eq!(log.len(), SELF_TEST_LOG_BYTES, "the size of the answer");
    SelfTestResults::of(log[HEAD_BYTES..].chunks_exact(ENTRY_BYTES).filter_map(entry))
}

/// The kind of a test by its code: true if it is a long one.
fn kind(code: u8) -> Option<bool> {
    (code == 1 || code == 2).then_some(code == 2)
}

/// A result in the log: the test's code, and its outcome. 0: passed; 5 to 7: a failure; 15: the entry is not used; the others say
/// why it ended early.
fn entry(bytes: &[u8]) -> Option<SelfTest> {
    let (code, outcome) = (bytes[0] >> 4, bytes[0] & 0xf);
    let passed = match outcome {
        0 => Some(true),
        5..=7 => Some(false),
        _ => None,
    };
    kind(code).filter(|_| outcome != 15).map(|long| SelfTest { long, running: false, passed })
}

/// The mark of the results in the log of self-tests. `log`: 564 bytes.
pub fn self_test_mark(log: &[u8]) -> u64 {
    mark(&log[HEAD_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> (Vec<u8>, Vec<u8>) {
        let (mut smart, mut controller) = (vec![0; 512], vec![0; 4096]);
        smart[1..3].copy_from_slice(&(273_u16 + 41).to_le_bytes());
        (smart[3], smart[4], smart[5]) = (97, 10, 3);
        smart[48..64].copy_from_slice(&2_000_000_u128.to_le_bytes());
        smart[128..144].copy_from_slice(&1234_u128.to_le_bytes());
        smart[160..176].copy_from_slice(&u128::MAX.to_le_bytes());
        controller[4..24].copy_from_slice(b"S6P1NX0T            ");
        controller[64..72].copy_from_slice(b"GDC5902Q");
        controller[266..268].copy_from_slice(&(273_u16 + 82).to_le_bytes());
        (smart, controller)
    }

    #[test]
    fn every_figure_comes_from_its_place() {
        let (smart, controller) = pages();
        let health = health(&smart, &controller);
        assert_eq!(
            (health.temperature_c, health.temperature_warning_c, health.temperature_critical_c),
            (Some(41), Some(82), None)
        );
        assert_eq!((health.spare_percent, health.spare_threshold_percent, health.wear_percent), (Some(97), Some(10), Some(3)));
        assert_eq!((health.written_bytes, health.power_on_hours), (Some(1_024_000_000_000), Some(1234)));
        assert_eq!(health.media_errors, Some(u64::MAX), "a number too large is cut");
        assert_eq!((health.serial.as_deref(), health.firmware.as_deref()), (Some("S6P1NX0T"), Some("GDC5902Q")));
        assert_eq!(health.model, None);
    }

    #[test]
    fn self_tests_are_offered_run_and_end() {
        let (_, mut controller) = pages();
        assert!(!offers_self_tests(&controller));
        controller[256] = 1 << 4;
        assert!(offers_self_tests(&controller));
        let log = |first: u8, entry: u8| {
            let mut log = vec![0; SELF_TEST_LOG_BYTES];
            (log[0], log[4]) = (first, entry);
            self_test(&log)
        };
        assert_eq!(log(2, 0x1f), Some(SelfTest { long: true, running: true, passed: None }));
        assert_eq!(log(0, 0x10), Some(SelfTest { long: false, running: false, passed: Some(true) }));
        assert_eq!(log(0, 0x27), Some(SelfTest { long: true, running: false, passed: Some(false) }));
        assert_eq!(log(0, 0x22), Some(SelfTest { long: true, running: false, passed: None }), "a reset of the controller");
        assert_eq!((log(0, 0x0f), log(0, 0)), (None, None), "never");
        assert_eq!(log(1, 0x27), Some(SelfTest { long: false, running: true, passed: Some(false) }), "the fault is still there");
        assert_eq!(log(1, 0x20), Some(SelfTest { long: false, running: true, passed: None }));
        let results = |entries: &[u8]| {
            let mut log = vec![0xff; SELF_TEST_LOG_BYTES];
            entries.iter().enumerate().for_each(|(index, byte)| log[HEAD_BYTES + index * ENTRY_BYTES] = *byte);
            let SelfTestResults { short, long } = self_test_results(&log);
            (short, long)
        };
        assert_eq!(results(&[0x10, 0x12, 0x21, 0x27, 0x20]), (Some(true), Some(false)), "the long one is not hidden");
        assert_eq!(results(&[0x20, 0x15, 0x10]), (None, Some(true)), "the long one answers for the short one before");
        assert_eq!(results(&[0x15, 0x20]), (Some(false), Some(true)));
        assert_eq!((results(&[]), results(&[0x10; 20])), ((None, None), (Some(true), None)));
        let marked = |at: usize| {
            let mut log = vec![0; SELF_TEST_LOG_BYTES];
            log[at] = 1;
            self_test_mark(&log)
        };
        assert!(marked(0) == marked(1) && marked(0) != marked(4) && marked(4) != marked(SELF_TEST_LOG_BYTES - 1));
    }
}
