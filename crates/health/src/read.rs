//! Asks a drive.

use crate::admin::AdminCommand;
use crate::{DriveHealth, Thresholds, judge, nvme, smartctl};
use rustix::fs::{FileType, fstat, major, minor};
use serde_json::Value;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A reason why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// It is not a block device.
    #[error("{0} is a file: it has no health of its own; look at the drive that holds it")]
    File(PathBuf),
    /// It cannot be opened.
    #[error("{0}: {1}")]
    Open(PathBuf, io::Error),
    /// The controller does not answer the command.
    #[error("{0}: the controller refuses its SMART log ({1}); root may read it")]
    Refused(PathBuf, io::Error),
    /// smartctl is not there.
    #[error("{0}: smartctl does not start ({1}); install smartmontools")]
    NoSmartctl(PathBuf, io::Error),
    /// smartctl has no figures.
    #[error("{0}: {1}")]
    Smartctl(PathBuf, String),
}

/// Reads the health of a drive, and judges it. May take as long as the drive does; a drive that sleeps is not woken.
///
/// # Errors
/// When it reports none.
pub fn read(drive: &Path, thresholds: &Thresholds) -> Result<DriveHealth, HealthError> {
    let file = File::open(drive).map_err(|error| HealthError::Open(drive.into(), error))?;
    let stat = fstat(&file).map_err(|errno| HealthError::Open(drive.into(), errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Err(HealthError::File(drive.into()));
    }
    let mut health = if is_nvme(stat.st_rdev) { by_nvme(drive, &file)? } else { by_smartctl(drive)? };
    judge(&mut health, thresholds);
    Ok(health)
}

/// True if the device is an NVMe namespace or a partition of one: its driver names it so.
fn is_nvme(number: u64) -> bool {
    let page = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let real = Path::new(&page).canonicalize().unwrap_or_default();
    real.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("nvme"))
}

fn by_nvme(drive: &Path, file: &File) -> Result<DriveHealth, HealthError> {
    let ask = |command: AdminCommand| command.send(file).map_err(|errno| HealthError::Refused(drive.into(), errno.into()));
    Ok(nvme::health(&ask(AdminCommand::SmartLog)?, &ask(AdminCommand::IdentifyController)?))
}

fn by_smartctl(drive: &Path) -> Result<DriveHealth, HealthError> {
    // The usual place of system programs is not in the path of every user.
    let program = ["/usr/sbin/smartctl", "/sbin/smartctl"].map(Path::new).into_iter().find(|path| path.exists());
    let mut command = smartctl::command(program.unwrap_or(Path::new("smartctl")), drive);
    let output = command.output().map_err(|error| HealthError::NoSmartctl(drive.into(), error))?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| HealthError::Smartctl(drive.into(), format!("smartctl's answer is no JSON: {error}")))?;
    smartctl::health(&answer).map_err(|words| HealthError::Smartctl(drive.into(), words))
}
