//! The sentences of why volumes of firmware RAID cannot be told.

use crate::words::error::ErrorSentence;
use stria_format::firmware::{FirmwareError, Unserved};

/// The sentence of a fault; `None`: it has text alone, which the drive gave.
pub fn of_firmware(error: &FirmwareError) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match error.clone() {
        FirmwareError::Absent => Say::NoFirmwareMetadata {},
        FirmwareError::Drive(_) => return None,
        FirmwareError::Damaged(format, fault) => Say::FirmwareMetadataDamaged { format: format.to_owned(), fault },
        FirmwareError::Unserved(why) => match why {
            Unserved::BeyondDrive { volume, drive } => Say::VolumeBeyondDrive { volume, drive },
            Unserved::SectorBeyondDrive { sector } => Say::FirmwareSectorBeyond { sector: sector.to_string() },
            Unserved::Features { features } => Say::FirmwareFeatures { features: format!("0x{features:x}") },
            Unserved::OtherSerials { serials } => Say::FirmwareOtherSerials { serials: serials.join(", ") },
            Unserved::ChangesNumber { volume } => Say::VolumeChangesNumber { volume },
            Unserved::ChangesShape { volume } => Say::VolumeChangesShape { volume },
            Unserved::ControllerChangesShape { volume } => Say::VolumeChangedByController { volume },
            Unserved::Level { volume, level, members } => {
                Say::VolumeLevel { volume, level: level.to_string(), member_count: members }
            }
            Unserved::LevelOfSpans { volume, level, qualifier, members, spans } => Say::VolumeLevelOfSpans {
                volume,
                level: level.to_string(),
                qualifier: qualifier.to_string(),
                member_count: members,
                span_count: spans,
            },
            Unserved::PartOfStripe { volume, sectors } => Say::VolumePartOfStripe { volume, sectors: sectors.to_string() },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::{ErrorKind, IoError};

    /// A program shows the sentence in place of the text.
    #[test]
    fn the_sentence_of_a_fault_of_firmware_raid_is_its_text() {
        let volume = || "Vol0".to_owned();
        for why in [
            Unserved::BeyondDrive { volume: volume(), drive: "/dev/sda".into() },
            Unserved::SectorBeyondDrive { sector: 4096 },
            Unserved::Features { features: 0x10 },
            Unserved::OtherSerials { serials: vec!["S1".into(), "S2".into()] },
            Unserved::ChangesNumber { volume: volume() },
            Unserved::ChangesShape { volume: volume() },
            Unserved::ControllerChangesShape { volume: volume() },
            Unserved::Level { volume: volume(), level: 7, members: 3 },
            Unserved::LevelOfSpans { volume: volume(), level: 6, qualifier: 9, members: 3, spans: 2 },
            Unserved::PartOfStripe { volume: volume(), sectors: 7777 },
        ] {
            let error = FirmwareError::from(why);
            assert_eq!(of_firmware(&error).expect("a sentence").to_string(), error.to_string());
        }
        for error in [FirmwareError::Absent, FirmwareError::Damaged("DDF", "a part ends before byte 9".into())] {
            assert_eq!(of_firmware(&error).expect("a sentence").to_string(), error.to_string());
        }
        assert_eq!(of_firmware(&IoError::new(ErrorKind::Medium, "member a: medium error").into()), None);
    }
}
