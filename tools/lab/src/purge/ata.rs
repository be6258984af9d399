//! ATA Secure Erase of a SATA drive, by hdparm. A drive accepts the command only with a password, which the erase removes at its
//! end. A drive that loses power while it has a password is locked afterwards, so a remaining password is always reported.

use std::os::unix::process::CommandExt;
use std::path::{Component, Path};
use std::process::{Command, Stdio};

/// The password that is set before the erase.
pub const PASSWORD: &str = "stria";
/// Drives that take longer are hard disks. For them zeros have the same effect and can be interrupted.
const MINUTES_MAX: u32 = 60;

/// The state of a drive's locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// True if the drive supports these commands.
    pub supported: bool,
    /// True if it has a password.
    pub enabled: bool,
    /// True if it is locked: it refuses all requests without the password.
    pub locked: bool,
    /// True if it is frozen: it refuses these commands until a power cycle.
    pub frozen: bool,
    /// The duration of an erase, by the drive; a lower bound if the drive says "more than".
    pub minutes: Option<u32>,
}

impl Security {
    /// Parses the output of `hdparm -I`.
    pub fn parse(identity: &str) -> Self {
        let mut security = Self::default();
        let lines = identity.lines().skip_while(|line| line.trim_end() != "Security:").skip(1);
        for line in lines.take_while(|line| line.starts_with([' ', '\t'])) {
            match line.trim() {
                "supported" => security.supported = true,
                "enabled" => security.enabled = true,
                "locked" => security.locked = true,
                "frozen" => security.frozen = true,
                words => {
                    let Some((time, _)) = words.split_once("min for SECURITY ERASE UNIT") else { continue };
                    security.minutes = time.rsplit(' ').next().and_then(|minutes| minutes.parse().ok());
                }
            }
        }
        security
    }
}

/// The reason why a drive was not erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotErased {
    /// The drive is unchanged, or at least has no password: another method may be tried.
    Refused(String),
    /// The drive still has a password, which must be reported.
    Locked(String),
}

/// True if a device is on a SATA port of this machine, by the target of the link `/sys/class/block/NAME/device`. USB bridges and
/// other controllers may lose such a command half-way.
pub fn is_sata(device: &Path) -> bool {
    let is_port = |name: &str| name.strip_prefix("ata").is_some_and(|number| number.parse::<u32>().is_ok());
    device.components().any(|part| matches!(part, Component::Normal(name) if name.to_str().is_some_and(is_port)))
}

/// A drive, by hdparm.
struct Drive<'a> {
    hdparm: &'a Path,
    path: &'a Path,
}

impl Drive<'_> {
    /// Runs to its end even after an interrupt: an interrupt between password and erase would leave the drive locked.
    fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.hdparm);
        command.args(words).arg(self.path).stdin(Stdio::null()).process_group(0);
        let output = command.output().map_err(|error| format!("hdparm: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                let words = String::from_utf8_lossy(&output.stderr);
                Err(words.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it failed").to_owned())
            }
        }
    }

    fn order(&self, order: &str) -> Result<String, String> {
        self.run(&["--user-master", "u", order, PASSWORD])
    }

    fn security(&self) -> Result<Security, String> {
        self.run(&["-I"]).map(|identity| Security::parse(&identity))
    }

    /// Removes the password, after unlocking if needed. Returns the state that remains.
    fn open(&self) -> Result<(), String> {
        let before = self.security();
        if before.as_ref().is_ok_and(|security| !security.enabled) {
            return Ok(());
        }
        let unlocked =
            if before.is_ok_and(|security| !security.locked) { Ok(String::new()) } else { self.order("--security-unlock") };
        let disabled = self.order("--security-disable");
        match self.security()? {
            Security { enabled: false, .. } => Ok(()),
            _ => Err(unlocked.and(disabled).err().unwrap_or_else(|| "it still has its password".into())),
        }
    }
}

/// Erases a drive that is not in use, by this hdparm.
///
/// # Errors
/// When the drive refuses or aborts the command.
pub fn erase(hdparm: &Path, path: &Path) -> Result<(), NotErased> {
    let drive = Drive { hdparm, path };
    let refused = |words: &str| Err(NotErased::Refused(words.to_owned()));
    match drive.security().map_err(NotErased::Refused)? {
        Security { supported: false, .. } => return refused("the drive does not support it"),
        Security { frozen: true, .. } => {
            return refused(
                "the drive is frozen, as most firmware freezes drives at boot: suspend the machine and wake it, or pull the drive's \
                 power plug and put it back while the machine runs, then it takes the order",
            );
        }
        Security { enabled: true, .. } => return refused("the drive has a password, which this program did not set"),
        Security { minutes: Some(minutes), .. } if minutes > MINUTES_MAX => {
            return refused(&format!("the drive needs {minutes} minutes or more for it, and it could not be interrupted"));
        }
        Security { .. } => {}
    }
    // Not the enhanced erase: on drives with encryption it may only change the key, and leave the flash full.
    let went = drive.order("--security-set-pass").and_then(|_| drive.order("--security-erase"));
    let went = went.and_then(|_| match drive.security()? {
        Security { enabled: false, .. } => Ok(()),
        _ => Err("hdparm reports success, but the drive still has its password".into()),
    });
    let Err(why) = went else { return Ok(()) };
    match drive.open() {
        Ok(()) => Err(NotErased::Refused(format!("{why} (the drive has no password now)"))),
        Err(still) => {
            let path = path.display();
            Err(NotErased::Locked(format!(
                "{path}: the ATA secure erase failed ({why}), and its password could not be removed ({still}). After its next start \
                 the drive is locked. Before or after that, run hdparm --user-master u --security-unlock {PASSWORD} {path}, and \
                 hdparm --user-master u --security-disable {PASSWORD} {path}"
            )))
        }
    }
}

#[cfg(test)]
mod tests;
