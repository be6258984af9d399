//! Erasure of drives that are in no array: their signatures, or all of their data by their own means.

use crate::drive_name::refuse_twins;
use crate::words::error::{ErrorSentence, Told, Words};
use crate::words::plan::PlanSentence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_block::shell_word;
use stria_health::{
    EraseError, begin_sanitize, check_discard, check_sanitize, check_secure_erase, discard, sanitize_progress, secure_erase,
};

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
    /// What remains.
    pub(crate) fn remains(self) -> PlanSentence {
        match self {
            Self::Signatures => PlanSentence::LeavesSignaturesOnly {},
            Self::Discard => PlanSentence::DiscardMayKeep {},
            Self::SecureErase => PlanSentence::FormatTakesHours {},
            Self::Sanitize => PlanSentence::SanitizeTakesHours {},
        }
    }

    /// What is written to a drive.
    pub(crate) fn writes(self) -> PlanSentence {
        match self {
            Self::Signatures => PlanSentence::WritesSignatures {},
            Self::Discard => PlanSentence::WritesUnmap {},
            Self::SecureErase => PlanSentence::WritesFormat {},
            Self::Sanitize => PlanSentence::WritesSanitize {},
        }
    }

    /// What became of so many drives: the verb after their names.
    pub fn done(self, count: usize) -> &'static str {
        match (self, count) {
            (Self::Signatures, 1) => "carries nothing any more",
            (Self::Signatures, _) => "carry nothing any more",
            (Self::Discard, 1) => "was discarded and reads as zeros",
            (Self::Discard, _) => "were discarded and read as zeros",
            (Self::SecureErase, 1) => "was erased by NVMe's Format",
            (Self::SecureErase, _) => "were erased by NVMe's Format",
            (Self::Sanitize, 1) => "was sanitized",
            (Self::Sanitize, _) => "were sanitized",
        }
    }

    /// The option of `stria wipe`.
    fn option(self) -> &'static str {
        match self {
            Self::Signatures => "",
            Self::Discard => " --discard",
            Self::SecureErase => " --secure-erase",
            Self::Sanitize => " --sanitize",
        }
    }
}

/// `1 drive carries nothing any more`
pub fn in_words(count: usize, means: WipeMeans) -> String {
    format!("{count} {} {}", if count == 1 { "drive" } else { "drives" }, means.done(count))
}

/// The drives of an array that was destroyed, in words. `notes`: what could not be erased there.
pub fn destroyed(count: usize, notes: &[String]) -> String {
    match (notes.is_empty(), count) {
        (true, _) => in_words(count, WipeMeans::Signatures),
        (false, 1) => "its drive has no superblock any more".into(),
        (false, _) => format!("its {count} drives have no superblock any more"),
    }
}

fn failed(error: EraseError) -> Told {
    Words::from(&error).into()
}

/// Checks that no drive is named twice, and that every drive offers what is asked for.
///
/// # Errors
/// The first drive that is named twice, or does not offer it.
pub fn check(drives: &[PathBuf], means: WipeMeans) -> Result<(), Told> {
    refuse_twins(drives)?;
    drives.iter().try_for_each(|drive| {
        match means {
            WipeMeans::Signatures => Ok(()),
            WipeMeans::Discard => check_discard(drive),
            WipeMeans::SecureErase => check_secure_erase(drive),
            WipeMeans::Sanitize => check_sanitize(drive),
        }
        .map_err(failed)
    })
}

/// Erases drives. All are checked and locked before the first is written. `seen`: as they were when that was confirmed
/// (`stria_host::Examined::mark`). `progress` receives how far a sanitize is, in per cent.
///
/// # Errors
/// When a drive is in use, is not as it was seen, does not offer the means, or fails.
pub fn wipe(drives: &[PathBuf], seen: &[String], means: WipeMeans, mut progress: impl FnMut(&Path, u8)) -> Result<(), Told> {
    check(drives, means)?;
    let is_running = |drive: &PathBuf| means == WipeMeans::Sanitize && matches!(sanitize_progress(drive, drive), Ok(Some(_)));
    // After an interrupted command a drive may still be sanitized. It cannot be read, and is only waited for.
    let (running, rest): (Vec<PathBuf>, Vec<PathBuf>) = drives.iter().cloned().partition(is_running);
    let erase = |opened: &[PathBuf]| {
        // Whatever fails here, the signatures of all drives are gone.
        let outcome = erase(&rest, opened, &running, means, &mut progress);
        outcome.map_err(|error| half_way((&error).into(), means, &rest).into())
    };
    match means {
        WipeMeans::Signatures => Ok(stria_host::wipe_drives(&rest, seen)?),
        WipeMeans::Discard | WipeMeans::SecureErase | WipeMeans::Sanitize => stria_host::wipe_drives_and(&rest, seen, erase),
    }
}

/// Lets drives erase their data. `opened`: the paths of the open drives, in their order. One may take hours, and the name of the
/// next one may lead to another drive by then, for example a link of `/dev/disk/by-path`. `running`: drives to wait for.
fn erase(
    drives: &[PathBuf],
    opened: &[PathBuf],
    running: &[PathBuf],
    means: WipeMeans,
    progress: &mut impl FnMut(&Path, u8),
) -> Result<(), EraseError> {
    let mut each = drives.iter().zip(opened);
    match means {
        WipeMeans::Signatures => Ok(()),
        WipeMeans::Discard => each.try_for_each(|(drive, at)| discard(drive, at)),
        WipeMeans::SecureErase => each.try_for_each(|(drive, at)| secure_erase(drive, at)),
        // All begin before the first is waited for.
        WipeMeans::Sanitize => {
            each.clone().try_for_each(|(drive, at)| begin_sanitize(drive, at))?;
            let mut all = each.chain(running.iter().zip(running));
            all.try_for_each(|(drive, at)| wait_for(drive, at, progress))
        }
    }
}

/// The words of an erasure that failed after the signatures were erased. `error`: that of the erasure.
fn half_way(error: Words, means: WipeMeans, drives: &[PathBuf]) -> Words {
    let reason = error.text.trim_end_matches("; nothing was erased").trim_end_matches(": repeat the command");
    let list: Vec<String> = drives.iter().map(|drive| drive.display().to_string()).collect();
    if list.is_empty() {
        let text = format!("{reason}: repeat the command");
        return if text == error.text { error } else { text.into() };
    }
    let words = list.iter().map(|drive| shell_word(drive)).collect::<Vec<_>>().join(" ") + means.option();
    ErrorSentence::ErasedHalfWay { reason: reason.to_owned(), erased: list.join(", "), words }.into()
}

fn wait_for(drive: &Path, at: &Path, progress: &mut impl FnMut(&Path, u8)) -> Result<(), EraseError> {
    while let Some(percent) = sanitize_progress(drive, at)? {
        progress(drive, percent);
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A discard that was not possible was once found after the signatures of all drives had been erased.
    #[test]
    fn a_discard_that_is_not_possible_is_refused_before_a_signature_is_erased() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = folder.path().join("good");
        let superblock = vec![7; 1 << 20];
        std::fs::write(&good, &superblock).expect("a file");
        // No file system, so no discard.
        let bad = PathBuf::from("/proc/self/comm");
        let words = wipe(&[good.clone(), bad], &[], WipeMeans::Discard, |_, _| {}).expect_err("a refusal").to_string();
        assert!(words.contains("/proc/self/comm") && words.contains("nothing was erased"), "{words}");
        assert!(std::fs::read(&good).expect("a file") == superblock);
    }

    /// The drive was opened by its name once more: the drive that had come to its place meanwhile was erased, which nobody had
    /// confirmed.
    #[test]
    fn an_erasure_reaches_the_drive_that_was_locked_and_not_the_one_that_its_name_leads_to_since() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (meant, other, name) = (path("meant"), path("other"), path("bay-3"));
        for image in [&meant, &other] {
            std::fs::write(image, vec![7; 1 << 20]).expect("a file");
        }
        std::os::unix::fs::symlink(&meant, &name).expect("a link");
        let drives = [name.clone()];
        let seen: Vec<String> = stria_host::examine(&drives).into_iter().map(|one| one.expect("it is here").mark()).collect();
        let replaced = |opened: &[PathBuf]| {
            std::fs::remove_file(&name).and_then(|()| std::os::unix::fs::symlink(&other, &name)).expect("a link");
            erase(&drives, opened, &[], WipeMeans::Discard, &mut |_, _| {}).map_err(failed)
        };
        stria_host::wipe_drives_and(&drives, &seen, replaced).expect("it is discarded");
        let holds = |image: &Path, byte: u8| std::fs::read(image).expect("a file").iter().all(|found| *found == byte);
        assert!(holds(&other, 7), "another drive is left alone");
        assert!(holds(&meant, 0));
    }

    #[test]
    fn a_failure_after_the_signatures_says_what_is_gone_and_what_to_repeat() {
        let drives = ["/dev/a", "/dev/b"].map(PathBuf::from);
        let words = half_way("/dev/b: medium error; nothing was erased".into(), WipeMeans::Discard, &drives).text;
        let wanted =
            "/dev/b: medium error; the signatures of /dev/a, /dev/b are erased: repeat `stria wipe /dev/a /dev/b --discard`";
        assert_eq!(words, wanted);
        assert_eq!(
            half_way("it failed: repeat the command".into(), WipeMeans::Sanitize, &[]).text,
            "it failed: repeat the command"
        );
    }

    #[test]
    fn one_drive_is_told_in_the_singular() {
        assert_eq!(in_words(1, WipeMeans::Signatures), "1 drive carries nothing any more");
        assert_eq!(in_words(2, WipeMeans::Discard), "2 drives were discarded and read as zeros");
    }
}
