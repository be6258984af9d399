//! Reads the health of a drive, and starts its self-tests.

use crate::admin::{AdminCommand, Controller};
use crate::{DriveHealth, HealthConfig, judge, nvme, smartctl};
use rustix::fs::{FileType, fstat};
use serde_json::Value;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use stria_drive::sysfs::{SYSFS, device_folder};
use stria_drive::{NoResult, run_within};

/// The time that smartctl may take. A disk that spins up takes half of it.
const SMARTCTL_WITHIN: Duration = Duration::from_secs(25);

/// The reason why a drive reports no figures.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// It is not a block device.
    #[error("{0} is a file: it has no health of its own; name the drive that stores it")]
    File(PathBuf),
    /// It cannot be opened.
    #[error("{0}: {1}")]
    Open(PathBuf, io::Error),
    /// The controller does not answer the command.
    #[error("{0}: the controller refuses {1} ({2}){advice}", advice = advice(.2))]
    Refused(PathBuf, &'static str, io::Error),
    /// The controller has no such command.
    #[error("{0} offers no self-tests: its controller does not have that command")]
    NoSelfTest(PathBuf),
    /// Its cache cannot be switched.
    #[error("{0}: its write cache cannot be switched ({1}); this needs root, and an NVMe, SATA or SCSI drive with such a cache")]
    NoCacheSwitch(PathBuf, io::Error),
    /// smartctl is not there.
    #[error("{0}: smartctl cannot be started ({1}); install smartmontools")]
    NoSmartctl(PathBuf, io::Error),
    /// smartctl has no figures.
    #[error("{0}: {1}")]
    Smartctl(PathBuf, String),
}

/// Only the kernel's refusal depends on the user.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root or as a user with access to the block device",
        _ => "",
    }
}

/// A drive that can be asked.
enum Kind {
    Nvme(File),
    Other,
}

fn kind(drive: &Path, config: &HealthConfig) -> Result<Kind, HealthError> {
    match open(drive) {
        Ok((file, number)) if is_nvme(number) => Ok(Kind::Nvme(file)),
        Ok(_) => Ok(Kind::Other),
        Err(HealthError::File(_)) if config.smartctl.is_some() => Ok(Kind::Other),
        Err(error) => Err(error),
    }
}

/// Opens a block device, and returns its number as well.
pub(crate) fn open(drive: &Path) -> Result<(File, u64), HealthError> {
    open_at(drive, drive)
}

/// The same at another path. `drive`: its name in messages.
pub(crate) fn open_at(drive: &Path, at: &Path) -> Result<(File, u64), HealthError> {
    let file = File::open(at).map_err(|error| HealthError::Open(drive.into(), error))?;
    let stat = fstat(&file).map_err(|errno| HealthError::Open(drive.into(), errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Ok((file, stat.st_rdev)),
        _ => Err(HealthError::File(drive.into())),
    }
}

/// Reads the health of a drive, and judges it. May take as long as the drive does; a drive that sleeps is not woken.
///
/// # Errors
/// The drive reports none.
pub fn read(drive: &Path, config: &HealthConfig) -> Result<DriveHealth, HealthError> {
    let mut health = match kind(drive, config)? {
        Kind::Nvme(file) => by_nvme(drive, &file)?,
        Kind::Other => by_smartctl(drive, config)?,
    };
    judge(&mut health, config);
    Ok(health)
}

/// Makes a drive test itself, in the background. [`read`] has the result when the test has ended.
///
/// # Errors
/// The drive offers no self-tests, or refuses.
pub fn start_self_test(drive: &Path, long: bool, config: &HealthConfig) -> Result<(), HealthError> {
    match kind(drive, config)? {
        Kind::Nvme(file) => {
            let controller = ask(drive, &file, AdminCommand::IdentifyController)?;
            if !nvme::offers_self_tests(&controller) {
                return Err(HealthError::NoSelfTest(drive.into()));
            }
            ask(drive, &file, AdminCommand::SelfTest { long }).map(drop)
        }
        Kind::Other => {
            let output = run(smartctl::self_test_command(&program(config), drive, long), drive)?;
            smartctl::self_test_begins(&answer(drive, &output)?).map_err(|words| HealthError::Smartctl(drive.into(), words))
        }
    }
}

/// True if the device is an NVMe namespace or a partition of one: its driver names it so.
pub(crate) fn is_nvme(number: u64) -> bool {
    let folder = device_folder(Path::new(SYSFS), number).unwrap_or_default();
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("nvme"))
}

fn ask(drive: &Path, controller: &impl Controller, command: AdminCommand) -> Result<Vec<u8>, HealthError> {
    command.send(controller).map_err(|error| HealthError::Refused(drive.into(), command.name(), error))
}

fn by_nvme(drive: &Path, controller: &impl Controller) -> Result<DriveHealth, HealthError> {
    let log = ask(drive, controller, AdminCommand::SmartLog)?;
    let identity = ask(drive, controller, AdminCommand::IdentifyController)?;
    let mut health = nvme::health(&log, &identity);
    if nvme::offers_self_tests(&identity) {
        // Some drives refuse this log. Their other figures hold, and a drive without any figures would not be watched.
        if let Ok(log) = ask(drive, controller, AdminCommand::SelfTestLog) {
            (health.self_test, health.self_test_mark) = (nvme::self_test(&log), nvme::self_test_mark(&log));
            health.self_test_results = nvme::self_test_results(&log);
        }
    }
    Ok(health)
}

/// The program that reads the figures. The folder of system programs is not in the path of every user.
fn program(config: &HealthConfig) -> PathBuf {
    let usual = || ["/usr/sbin/smartctl", "/sbin/smartctl"].map(PathBuf::from).into_iter().find(|path| path.exists());
    config.smartctl.clone().or_else(usual).unwrap_or_else(|| "smartctl".into())
}

fn run(command: Command, drive: &Path) -> Result<Output, HealthError> {
    run_within(SMARTCTL_WITHIN, command, &[]).map_err(|no_result| match no_result {
        NoResult::NotStarted(error) => HealthError::NoSmartctl(drive.into(), error),
        NoResult::Late(_) => {
            let words = format!("smartctl was ended, as the drive did not answer it within {} s", SMARTCTL_WITHIN.as_secs());
            HealthError::Smartctl(drive.into(), words)
        }
    })
}

fn answer(drive: &Path, output: &Output) -> Result<Value, HealthError> {
    serde_json::from_slice(&output.stdout)
        .map_err(|error| HealthError::Smartctl(drive.into(), format!("smartctl's answer is no JSON: {error}")))
}

fn by_smartctl(drive: &Path, config: &HealthConfig) -> Result<DriveHealth, HealthError> {
    let output = run(smartctl::command(&program(config), drive), drive)?;
    smartctl::health(&answer(drive, &output)?).map_err(|words| HealthError::Smartctl(drive.into(), words))
}

#[cfg(test)]
mod tests {
    //! Goal: what a drive refuses costs no other figure, and is told for what it is. Method: a controller in the kernel's place.

    use super::*;
    use crate::admin::COMMAND_BYTES;
    use crate::book;
    use rustix::io::Errno;

    /// Refuses one log, by its number, with this outcome.
    struct Standin(u8, Result<u16, Errno>);

    impl Controller for Standin {
        fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno> {
            let word_10 = u32::from_ne_bytes(command[40..44].try_into().expect("four bytes"));
            match (command[0], word_10 as u8) {
                (0x02, page) if page == self.0 => return self.1,
                (0x02, 0x02) => {
                    data[1..3].copy_from_slice(&(273_u16 + 41).to_le_bytes());
                    data[5] = 7;
                }
                (0x02, 0x06) => data[4] = 0x10,
                (0x06, 1) => data.copy_from_slice(&book::identity(&[("OACS", &[1 << 4, 0])])),
                other => panic!("{other:?}"),
            }
            Ok(0)
        }
    }

    /// Such a drive had no health at all.
    #[test]
    fn a_drive_that_refuses_its_log_of_self_tests_has_its_other_figures() {
        let drive = Path::new("/dev/nvme9n1");
        let health = |standin: Standin| by_nvme(drive, &standin);
        let well = health(Standin(0xff, Ok(0))).expect("figures");
        assert!(well.self_test.is_some());
        for outcome in [Ok(0x109), Ok(0x006), Err(Errno::TIMEDOUT)] {
            let found = health(Standin(0x06, outcome)).expect("figures");
            assert_eq!((found.wear_percent, found.temperature_c, found.self_test), (Some(7), Some(41), None));
            assert_eq!(
                found,
                DriveHealth { self_test: None, self_test_mark: 0, self_test_results: found.self_test_results, ..well.clone() }
            );
        }
        let refused = |outcome| health(Standin(0x02, outcome)).expect_err("a refusal").to_string();
        let words = refused(Ok(0x109));
        assert!(words.ends_with("refuses its SMART log (it has no such log, NVMe status 0x109)"), "{words}");
        for errno in [Errno::ACCESS, Errno::PERM] {
            assert!(refused(Err(errno)).contains("run as root"), "{errno}");
        }
        assert!(!refused(Err(Errno::IO)).contains("root"));
    }
}
