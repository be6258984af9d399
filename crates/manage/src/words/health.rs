//! The sentences of what drives refuse that are asked for themselves: erasures, firmware, lights.

use crate::words::error::{ErrorSentence, Words};
use std::path::Path;
use stria_health::{After, EraseError, FirmwareError, IMAGE_MIB_MAX, LocateError, slots_here};

impl From<&EraseError> for Words {
    fn from(error: &EraseError) -> Self {
        use ErrorSentence as Say;
        let said = match error {
            EraseError::Health(_) => None,
            EraseError::NotNvme(drive) => Some(Say::EraseOnlyNvme { drive: shown(drive) }),
            EraseError::NotOffered(drive, what) => Some(Say::EraseNotOffered { drive: shown(drive), what: (*what).into() }),
            EraseError::Others(drive, what, others) => {
                Some(Say::EraseOthers { drive: shown(drive), what: (*what).into(), others: others.clone() })
            }
            EraseError::OthersUnknown(drive, what, reason) => {
                Some(Say::EraseOthersUnknown { drive: shown(drive), what: (*what).into(), reason: reason.clone() })
            }
            EraseError::Failed(drive, what, status) => {
                let nvme_status = format!("{status:#05x}");
                Some(Say::EraseFailed { drive: shown(drive), what: (*what).into(), nvme_status })
            }
            EraseError::NoDiscard(drive, reason) => Some(Say::DiscardImpossible { drive: shown(drive), reason: reason.clone() }),
            EraseError::Discard(drive, done_bytes, error) => {
                Some(Say::DiscardFailed { drive: shown(drive), done_bytes: *done_bytes, reason: error.to_string() })
            }
            EraseError::Sanitize(drive) => Some(Say::SanitizeFailed { drive: shown(drive) }),
        };
        Self { text: error.to_string(), said }
    }
}

impl From<&FirmwareError> for Words {
    fn from(error: &FirmwareError) -> Self {
        use ErrorSentence as Say;
        let said = match error {
            FirmwareError::Health(_) | FirmwareError::Refused { after: After::Committed(_), .. } => None,
            FirmwareError::NotNvme(drive) => Some(Say::FirmwareOnlyNvme { drive: shown(drive) }),
            FirmwareError::NotOffered(drive) => Some(Say::FirmwareNotOffered { drive: shown(drive) }),
            FirmwareError::NoSlot { drive, slot, slot_count } => Some(Say::FirmwareSlotUnknown {
                drive: shown(drive),
                number: slot.to_string(),
                slots_here: slots_here(*slot_count),
            }),
            FirmwareError::SlotReadOnly(drive) => Some(Say::FirmwareSlotReadOnly { drive: shown(drive) }),
            FirmwareError::ImageUnread(image, error) => {
                Some(Say::FirmwareImageUnread { image: shown(image), reason: error.to_string() })
            }
            FirmwareError::ImageUnfit(image) => {
                Some(Say::FirmwareImageUnfit { image: shown(image), most: IMAGE_MIB_MAX.to_string() })
            }
            FirmwareError::NeedsReset(drive) => Some(Say::FirmwareNeedsReset { drive: shown(drive) }),
            FirmwareError::Refused { drive, what, status, after: After::NotTaken { revision } } => {
                let (what, nvme_status, after) = (what.clone(), status.clone(), revision.clone());
                Some(Say::FirmwareCommandFailed { drive: shown(drive), what, nvme_status, after })
            }
            FirmwareError::Reset(drive, error) => Some(Say::FirmwareNoReset { drive: shown(drive), reason: error.to_string() }),
        };
        Self { text: error.to_string(), said }
    }
}

impl From<&LocateError> for Words {
    fn from(error: &LocateError) -> Self {
        use ErrorSentence as Say;
        let said = match error {
            LocateError::Open(..) => None,
            LocateError::NoDevice(drive) => Some(Say::LightOfFile { drive: shown(drive) }),
            LocateError::NoLight(drive) => Some(Say::NoLight { drive: shown(drive) }),
            LocateError::Light(drive, file, error) => {
                Some(Say::LightUnwritable { drive: shown(drive), file: shown(file), reason: error.to_string() })
            }
            LocateError::Ledctl(drive, reason) => Some(Say::LightByLedctl { drive: shown(drive), reason: reason.clone() }),
        };
        Self { text: error.to_string(), said }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::PathBuf;

    /// Programs get the sentence, and terminals the text of the crate that asks drives: both say the same.
    #[test]
    fn what_a_drive_refuses_and_its_sentence_have_the_same_words() {
        let (drive, image) = (|| PathBuf::from("/dev/nvme0n1"), || PathBuf::from("/i/image.bin"));
        let (system, reason) = (|| io::Error::from_raw_os_error(5), || "sysfs does not tell".to_owned());
        let what = "sanitize (crypto erase)";
        let erasures = [
            EraseError::NotNvme(drive()),
            EraseError::NotOffered(drive(), what),
            EraseError::Others(drive(), what, "/dev/nvme0n2".into()),
            EraseError::OthersUnknown(drive(), what, reason()),
            EraseError::Failed(drive(), what, 2),
            EraseError::NoDiscard(drive(), reason()),
            EraseError::Discard(drive(), 4096, system()),
            EraseError::Sanitize(drive()),
        ];
        let refused = |after| FirmwareError::Refused {
            drive: drive(),
            what: "the image at byte 4096".into(),
            status: "NVMe status 0x107".into(),
            after,
        };
        let updates = [
            FirmwareError::NotNvme(drive()),
            FirmwareError::NotOffered(drive()),
            FirmwareError::NoSlot { drive: drive(), slot: 8, slot_count: 7 },
            FirmwareError::NoSlot { drive: drive(), slot: 2, slot_count: 1 },
            FirmwareError::SlotReadOnly(drive()),
            FirmwareError::ImageUnread(image(), system()),
            FirmwareError::ImageUnfit(image()),
            FirmwareError::NeedsReset(drive()),
            refused(After::NotTaken { revision: "1.0".into() }),
            FirmwareError::Reset(drive(), system()),
        ];
        let lights = [
            LocateError::NoDevice(image()),
            LocateError::NoLight(drive()),
            LocateError::Light(drive(), "/sys/light".into(), system()),
            LocateError::Ledctl(drive(), reason()),
        ];
        let words = erasures.iter().map(|error| (Words::from(error), error.to_string()));
        let words = words.chain(updates.iter().map(|error| (Words::from(error), error.to_string())));
        let words = words.chain(lights.iter().map(|error| (Words::from(error), error.to_string())));
        for (words, text) in words {
            assert_eq!((words.said.map(|said| said.to_string()), &words.text), (Some(text.clone()), &text));
        }
        let after = refused(After::Committed("1.1 runs now, after 1.0 (slot 1: 1.1)".into()));
        assert_eq!(Words::from(&after), after.to_string().into(), "it has text alone");
    }
}
