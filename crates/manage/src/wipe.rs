//! Erasure of drives that are in no array: their signatures, or all of their data by their own means.

use crate::pool::refuse_twins;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_health::{EraseError, begin_sanitize, check_sanitize, check_secure_erase, discard, sanitize_progress, secure_erase};
use stria_terminal::Failure;

/// How often a sanitize is asked for its progress.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The extent of an erasure, and the side that does it: Stria or the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WipeMeans {
    /// Zeros over its signatures: superblocks, partition tables, file systems. The rest of its bytes stays.
    #[default]
    Signatures,
    /// Every block is unmapped, and reads as zeros. The drive may keep the data where no host can read it.
    Discard,
    /// The drive erases all data of the namespace, by NVMe's Format.
    SecureErase,
    /// The drive erases all data, spare blocks and caches included, by NVMe's Sanitize.
    Sanitize,
}

impl WipeMeans {
    /// What remains, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Signatures => {
                "What lies there cannot be found again afterwards; the rest of its bytes stays. It is no secure erasure."
            }
            Self::Discard => {
                "All data is lost. The drive may keep it for a while where no host can read it: it is no secure erasure."
            }
            Self::SecureErase => "All data is lost, for good. It may take hours, and cannot be interrupted.",
            Self::Sanitize => {
                "All data is lost, for good, spare blocks included. It may take hours; the drive continues after a loss of power."
            }
        }
    }

    /// What is done to a drive, in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Signatures => "zeros over its signatures: superblocks, partition tables, file systems",
            Self::Discard => "an unmap of every block, which then reads as zeros",
            Self::SecureErase => "an erasure of all data by NVMe's Format",
            Self::Sanitize => "an erasure of all data by NVMe's Sanitize",
        }
    }

    /// What became of a drive.
    pub fn done(self) -> &'static str {
        match self {
            Self::Signatures => "carry nothing any more",
            Self::Discard => "were discarded and read as zeros",
            Self::SecureErase => "were erased by NVMe's Format",
            Self::Sanitize => "were sanitized",
        }
    }
}

fn failed(error: EraseError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Checks that no drive is named twice, and that every drive offers what is asked for.
///
/// # Errors
/// The first one that is, or does not.
pub fn check(drives: &[PathBuf], means: WipeMeans) -> Result<(), Failure> {
    refuse_twins(drives)?;
    drives.iter().try_for_each(|drive| {
        match means {
            WipeMeans::Signatures | WipeMeans::Discard => Ok(()),
            WipeMeans::SecureErase => check_secure_erase(drive),
            WipeMeans::Sanitize => check_sanitize(drive),
        }
        .map_err(failed)
    })
}

/// Erases drives. All are checked and locked before the first is written. `progress` is told how far a sanitize is, in per cent.
///
/// # Errors
/// When a drive is in use, does not offer the means, or fails.
pub fn wipe(drives: &[PathBuf], means: WipeMeans, mut progress: impl FnMut(&Path, u8)) -> Result<(), Failure> {
    check(drives, means)?;
    let is_running = |drive: &PathBuf| means == WipeMeans::Sanitize && matches!(sanitize_progress(drive), Ok(Some(_)));
    // A drive that is being sanitized, as the command was interrupted, cannot be read: it is only waited for.
    let (running, rest): (Vec<PathBuf>, Vec<PathBuf>) = drives.iter().cloned().partition(is_running);
    let erase = || match means {
        WipeMeans::Signatures => Ok(()),
        WipeMeans::Discard => rest.iter().try_for_each(|drive| discard(drive)).map_err(failed),
        WipeMeans::SecureErase => rest.iter().try_for_each(|drive| secure_erase(drive)).map_err(failed),
        // All begin before the first is waited for.
        WipeMeans::Sanitize => rest
            .iter()
            .try_for_each(|drive| begin_sanitize(drive))
            .and_then(|()| rest.iter().chain(&running).try_for_each(|drive| wait_for(drive, &mut progress)))
            .map_err(failed),
    };
    stria_host::wipe_drives_and(&rest, erase)
}

fn wait_for(drive: &Path, progress: &mut impl FnMut(&Path, u8)) -> Result<(), EraseError> {
    while let Some(percent) = sanitize_progress(drive)? {
        progress(drive, percent);
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
