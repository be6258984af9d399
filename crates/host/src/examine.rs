//! The contents of drives: inspected, refused, or wiped.

use crate::HostError;
use crate::answers::{open_each, open_each_and};
use crate::candidate::{candidate_of, read};
use crate::denial::Denial;
use crate::firmware;
use std::ops::Range;
use std::path::PathBuf;
use stria_array::DriveSector;
use stria_array::address::Sectors;
use stria_block::{IoError, bytes};
use stria_drive::{Access, DriveInfo, DriveKind, IoOptions, SyncDrive};
use stria_format::detect::{Signature, UNREADABLE, detect, unknown, wipes_in_turn};
use stria_format::firmware::{FirmwareError, Volume};
use stria_format::md::raw::{self, RawField};
use stria_format::md::{Candidate, uuid_text};

/// 256 KiB: how much is zeroed, or checked for zeros, at once.
const ZERO_SECTORS: u64 = 512;

/// A drive and what it carries.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The kind of drive.
    pub info: DriveInfo,
    /// Its contents.
    pub candidate: Candidate,
    /// The volumes of firmware RAID on it, or the reason why they cannot be told.
    pub volumes: Result<Vec<Volume>, FirmwareError>,
}

impl Examined {
    fn new(drive: &SyncDrive, candidate: Candidate) -> Self {
        let volumes = firmware::told(drive, &candidate);
        Self { info: drive.info().clone(), candidate, volumes }
    }

    /// A text that names the drive and what it carries, equal as long as both are the same: an order that was confirmed holds for
    /// no other. A drive that was plugged in may get the path and the number of one that left.
    pub fn mark(&self) -> String {
        mark_of(&self.info, &self.candidate)
    }

    /// Refuses a drive that none of these marks names.
    ///
    /// # Errors
    /// As above.
    pub fn refuse_unless(&self, marks: &[String]) -> Result<(), HostError> {
        refuse_other(marks, &self.info, &self.candidate)
    }
}

/// See [`Examined::mark`].
pub(crate) fn mark_of(info: &DriveInfo, candidate: &Candidate) -> String {
    let uuids = candidate.found.as_ref().ok().map(|member| {
        let header = &member.superblock.header;
        (uuid_text(&header.set_uuid), uuid_text(&header.device_uuid))
    });
    let carries: Vec<String> = candidate.carries.iter().map(ToString::to_string).collect();
    // By its real path, so that a link that leads elsewhere by then is no longer the drive, and any name of the drive is.
    let (path, identity, sectors) = (&info.real_path, info.identity, candidate.size_sectors);
    format!("{path:?} {identity:?} {:?} {:?} {sectors} {uuids:?} {carries:?}", info.serial, info.model)
}

/// Inspects drives. The result is an error if a drive cannot be opened or does not answer. Read errors are noted in the
/// candidate.
pub fn examine(paths: &[PathBuf]) -> Vec<Result<Examined, HostError>> {
    let opened = open_each(paths, Access::ReadOnly, IoOptions::default()).into_iter();
    opened.map(|opened| opened.map(|(drive, candidate)| Examined::new(&drive, candidate))).collect()
}

/// The same with every field of their metadata.
pub fn examine_raw(paths: &[PathBuf]) -> Vec<Result<(Examined, Vec<RawField>), HostError>> {
    let fields = |drive: &SyncDrive, candidate: &Candidate| match &candidate.found {
        Ok(member) => raw::fields(member, candidate.size_sectors, &mut |start, count| read(drive, start, count)),
        Err(_) => Vec::new(),
    };
    let opened = open_each_and(paths, Access::ReadOnly, IoOptions::default(), fields).into_iter();
    let examined = |(drive, candidate, fields): (SyncDrive, _, _)| (Examined::new(&drive, candidate), fields);
    opened.map(|opened| opened.map(examined)).collect()
}

/// Refuses drives of which one is another, or carries something else, than was confirmed ([`Examined::mark`]).
pub(crate) fn refuse_others<'a>(
    marks: &[String],
    mut drives: impl Iterator<Item = (&'a DriveInfo, &'a Candidate)>,
) -> Result<(), HostError> {
    drives.try_for_each(|(info, candidate)| refuse_other(marks, info, candidate))
}

/// Refuses a drive that none of these marks names ([`Examined::mark`]).
pub(crate) fn refuse_other(marks: &[String], info: &DriveInfo, candidate: &Candidate) -> Result<(), HostError> {
    match marks.contains(&mark_of(info, candidate)) {
        true => Ok(()),
        false => Err(Denial::AnotherThanSeen { drive: candidate.name.clone() }.into()),
    }
}

/// Refuses a drive that is named twice.
pub(crate) fn refuse_same<'a>(infos: impl Iterator<Item = &'a DriveInfo>) -> Result<(), HostError> {
    let mut seen: Vec<&DriveInfo> = Vec::new();
    for info in infos {
        if let Some(twin) = seen.iter().find(|known| known.identity == info.identity) {
            let (drive, other) = (twin.path.display().to_string(), info.path.display().to_string());
            return Err(Denial::SameDrive { drive, other }.into());
        }
        seen.push(info);
    }
    Ok(())
}

/// Refuses a drive that is named twice, also as a disk and its partition.
pub(crate) fn refuse_twins<'a>(infos: impl Iterator<Item = &'a DriveInfo> + Clone) -> Result<(), HostError> {
    refuse_same(infos.clone())?;
    let mut seen: Vec<&DriveInfo> = Vec::new();
    for info in infos {
        for known in &seen {
            for (part, whole) in [(known, &info), (&info, known)] {
                if part.identity.disk() == Some(whole.identity) {
                    let (part, whole) = (part.path.display().to_string(), whole.path.display().to_string());
                    return Err(Denial::PartitionOf { part, whole }.into());
                }
            }
        }
        seen.push(info);
    }
    Ok(())
}

/// The bytes of a drive, as an erasure reads and writes them.
pub(crate) trait Content {
    /// Its name, for people.
    fn name(&self) -> String;
    /// Its size in sectors, and the bytes of its logical block.
    fn extent(&self) -> (u64, u32);
    /// True if it is an image file.
    fn is_file(&self) -> bool;
    /// The sector of the superblock that counts, if it has one.
    fn superblock_sector(&self) -> Option<u64>;
    fn read(&self, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError>;
    fn write(&self, start_sector: u64, data: &[u8]) -> Result<(), IoError>;
    fn sync(&self) -> Result<(), IoError>;
}

impl Content for SyncDrive {
    fn name(&self) -> String {
        self.info().path.display().to_string()
    }
    fn extent(&self) -> (u64, u32) {
        let limits = &self.info().limits;
        (limits.size_sectors, limits.logical_block_bytes)
    }
    fn is_file(&self) -> bool {
        self.info().kind == DriveKind::File
    }
    fn superblock_sector(&self) -> Option<u64> {
        candidate_of(self).found.ok().map(|member| member.superblock.header.super_offset)
    }
    fn read(&self, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        read(self, start_sector, sectors)
    }
    fn write(&self, start_sector: u64, data: &[u8]) -> Result<(), IoError> {
        self.write_at(start_sector, data)
    }
    fn sync(&self) -> Result<(), IoError> {
        SyncDrive::sync(self)
    }
}

/// Erases the signatures of what was on a drive, durably, so that the old content is not found beside the new. Of an image file
/// it erases the first MiB as well ([`unknown`]).
///
/// # Errors
/// The drive cannot be written, or something is left: sectors that cannot be read, or a mark that did not go.
pub(crate) fn wipe(drive: &impl Content) -> Result<(), HostError> {
    match &erase_signatures(drive)?[..] {
        [] => Ok(()),
        left => Err(is_left(&drive.name(), left).into()),
    }
}

/// The same. Returns what is left, since a means that erases all data may follow.
pub(crate) fn erase_signatures(drive: &impl Content) -> Result<Vec<Signature>, IoError> {
    let (size_sectors, block_bytes) = drive.extent();
    let mut read = |start, sectors| drive.read(start, sectors);
    let erase = |found: &[Signature]| {
        for part in wipes_in_turn(found, block_bytes, drive.superblock_sector()) {
            for (start_sector, sectors) in &part {
                drive.write(*start_sector, &vec![0; bytes(*sectors)])?;
            }
            if !part.is_empty() {
                drive.sync()?;
            }
        }
        Ok::<(), IoError>(())
    };
    erase(&detect(size_sectors, &mut read))?;
    // What the signatures of an image file belonged to would count as somebody's data.
    if drive.is_file()
        && let Some(rest) = unknown(size_sectors, &mut read)
    {
        erase(&[rest])?;
    }
    Ok(detect(size_sectors, &mut read))
}

/// The refusal that names what an erasure has left on a drive.
pub(crate) fn is_left(name: &str, left: &[Signature]) -> Denial {
    let at = |signature: &Signature| match signature.name {
        UNREADABLE => signature.to_string(),
        _ => format!("{signature} at sector {}", signature.start_sector),
    };
    let list: Vec<String> = left.iter().map(at).collect();
    Denial::StillCarries { drive: name.to_owned(), left: list.join("; ") }
}

/// Refuses a drive whose signatures could not all be erased, before anything is written.
pub(crate) fn refuse_unreadable(drive: &impl Content) -> Result<(), HostError> {
    let mut found = detect(drive.extent().0, &mut |start, sectors| drive.read(start, sectors));
    found.retain(|signature| signature.name == UNREADABLE);
    match &found[..] {
        [] => Ok(()),
        bad => Err(Denial::NothingWritten(is_left(&drive.name(), bad).into()).into()),
    }
}

/// Zeroes sectors. Sectors that are zero already are not written: image files keep their holes.
pub(crate) fn zero(drive: &impl Content, sectors: &Range<DriveSector>) -> Result<(), HostError> {
    for part in sectors.in_steps(ZERO_SECTORS) {
        let (start, count) = (part.start.get(), part.sectors());
        let is_zero = drive.read(start, count).is_ok_and(|bytes| bytes.iter().all(|&byte| byte == 0));
        if !is_zero {
            drive.write(start, &vec![0; bytes(count)])?;
        }
    }
    Ok(())
}

/// Allocates the space of sectors where the drive is a file with holes.
pub(crate) fn allocate(drive: &SyncDrive, sectors: &Range<DriveSector>) -> Result<(), IoError> {
    drive.allocate(sectors.start.get()..sectors.end.get())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::RefCell;
    use stria_block::ErrorKind;
    use stria_format::md::Candidate;

    /// A drive in memory: sectors that cannot be read, and writes that fail from one sector on.
    pub(crate) struct Faulty {
        pub name: &'static str,
        pub image: RefCell<Vec<u8>>,
        pub unreadable: Range<u64>,
        pub unwritable: Range<u64>,
    }

    impl Faulty {
        pub(crate) fn new(name: &'static str) -> Self {
            Self { name, image: RefCell::new(vec![0; 8 << 20]), unreadable: 0..0, unwritable: 0..0 }
        }

        pub(crate) fn put(&self, at: usize, data: &[u8]) {
            self.image.borrow_mut()[at..at + data.len()].copy_from_slice(data);
        }

        fn refuse(&self, bad: &Range<u64>, start: u64, sectors: u64) -> Result<(), IoError> {
            match start < bad.end && bad.start < start + sectors {
                true => Err(IoError::new(ErrorKind::Medium, format!("member {}: medium error", self.name))),
                false => Ok(()),
            }
        }
    }

    impl Content for Faulty {
        fn name(&self) -> String {
            self.name.into()
        }
        fn is_file(&self) -> bool {
            !self.name.starts_with("/dev/")
        }
        fn extent(&self) -> (u64, u32) {
            (self.image.borrow().len() as u64 / 512, 512)
        }
        fn superblock_sector(&self) -> Option<u64> {
            let candidate = Candidate::read(self.name, self.extent().0, 512, &mut |start, sectors| self.read(start, sectors));
            candidate.found.ok().map(|member| member.superblock.header.super_offset)
        }
        fn read(&self, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
            self.refuse(&self.unreadable, start, sectors)?;
            Ok(self.image.borrow()[bytes(start)..bytes(start + sectors)].to_vec())
        }
        fn write(&self, start: u64, data: &[u8]) -> Result<(), IoError> {
            self.refuse(&self.unwritable, start, (data.len() / 512) as u64)?;
            self.put(bytes(start), data);
            Ok(())
        }
        fn sync(&self) -> Result<(), IoError> {
            Ok(())
        }
    }

    /// `stria wipe` said that such a drive carries nothing any more, and had erased nothing.
    #[test]
    fn a_wipe_beside_a_bad_sector_erases_the_marks_and_names_the_sectors() {
        for unreadable in [100..101, 15000..15001] {
            let drive = Faulty { unreadable: unreadable.clone(), ..Faulty::new("/dev/x") };
            drive.put(0x10040, b"_BHRfS_M");
            drive.put((8 << 20) - 512, b"EFI PART");
            let refused = refuse_unreadable(&drive).expect_err("it is refused").to_string();
            let words = wipe(&drive).expect_err("something is left").to_string();
            assert_eq!(refused, format!("nothing was written: {words}"));
            let first = unreadable.start / 8 * 8;
            let wanted = format!("/dev/x carries something that cannot be read (sectors {first} to {}: member", first + 7);
            assert!(words.starts_with(&wanted) && !words.contains("btrfs") && !words.contains("GPT"), "{words}");
            let drive = Faulty { unreadable: 0..0, ..drive };
            assert_eq!(detect(drive.extent().0, &mut |start, sectors| drive.read(start, sectors)), []);
            wipe(&drive).expect("nothing is left");
        }
    }

    #[test]
    fn a_mark_that_does_not_go_is_an_error() {
        /// Takes writes, and changes nothing.
        struct Deaf(Faulty);
        impl Content for Deaf {
            fn name(&self) -> String {
                self.0.name()
            }
            fn extent(&self) -> (u64, u32) {
                self.0.extent()
            }
            fn is_file(&self) -> bool {
                self.0.is_file()
            }
            fn superblock_sector(&self) -> Option<u64> {
                None
            }
            fn read(&self, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
                self.0.read(start, sectors)
            }
            fn write(&self, _: u64, _: &[u8]) -> Result<(), IoError> {
                Ok(())
            }
            fn sync(&self) -> Result<(), IoError> {
                Ok(())
            }
        }
        let drive = Deaf(Faulty::new("/dev/x"));
        drive.0.put(0, b"XFSB");
        let words = wipe(&drive).expect_err("it is left").to_string();
        assert!(words.starts_with("/dev/x carries xfs file system at sector 0: "), "{words}");
    }
}
