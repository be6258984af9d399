//! Changes to the metadata of arrays that do not run: renames them, adds or removes bitmaps, logs and checksums, or erases all of
//! it.
//!
//! Every drive is locked before the first byte is written, so an array that is served, by Stria or by Linux, is refused and not
//! changed in part.

use crate::HostError;
use crate::answers::{all_in_time, each_in_time, open_each};
use crate::candidate::candidate_after;
use crate::denial::Denial;
use crate::examine::{Content, erase_signatures, is_left, refuse_others, refuse_twins, wipe, zero};
use crate::open::open_known;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use stria_array::{DriveSector, MetadataWrite};
use stria_block::{BlockDevice, bytes};
use stria_drive::{Access, IoOptions, Ring, SyncDrive};
use stria_format::md::create::name_bytes;
use stria_format::md::member::Member;
use stria_format::md::superblock::SUPERBLOCK_BYTES;
use stria_format::md::{Candidate, Change, Options, Superblock, assemble, uuid_text};
use stria_tree::span_name;

/// 1 MiB of the data is zeroed as well, where an array above or a file system has its superblock.
const HEAD_SECTORS: u64 = 2048;

/// The sector of a superblock of version 1.2.
const UPPER_SECTOR: u64 = 8;

fn lock_all(paths: &[PathBuf]) -> Result<Vec<(SyncDrive, Candidate)>, HostError> {
    let open = |access| open_each(paths, access, IoOptions::default()).into_iter().collect::<Result<Vec<_>, _>>();
    // The second name of one drive would otherwise be refused as locked by the first.
    refuse_twins(open(Access::ReadOnly)?.iter().map(|(drive, _)| drive.info()))?;
    open(Access::Exclusive)
}

/// Renames the array `uuid` on these drives. A crash between two drives leaves both names. As always, the drive with the most
/// superblock updates decides which name is valid; repeat the command. Returns how many drives were written.
///
/// # Errors
/// The name is invalid, or a drive is in use or cannot be written.
pub fn rename(paths: &[PathBuf], uuid: &[u8; 16], name: &str) -> Result<usize, HostError> {
    let set_name = name_bytes(name)?;
    let drives = lock_all(paths)?;
    let members = drives.into_iter().filter_map(|(drive, candidate)| {
        let mut superblock = candidate.found.ok()?.superblock;
        superblock.header.set_name = set_name;
        (superblock.header.set_uuid == *uuid).then_some((drive, superblock))
    });
    let (drives, renamed): (Vec<SyncDrive>, Vec<Superblock>) = members.unzip();
    let for_what = "to take the array's new name, which the other drives may have by now";
    let written = each_in_time(&drives, for_what, move |index, drive| write(drive, &renamed[index]))?;
    Ok(written.len())
}

/// Renames the array `upper`, which lies on spans. Its superblocks come first; they are written through the spans, so that the
/// spans' redundancy stays consistent. The names of the spans follow. `spans`: the identity and the drives of each, in the order
/// of their numbers. A crash has the same effect as in [`rename`]. Returns how many drives were written.
///
/// # Errors
/// The name is invalid, a span was not stopped cleanly or lacks a member that took part when it last ran, or a drive is in use or
/// cannot be written.
pub fn rename_spans(spans: &[([u8; 16], Vec<PathBuf>)], upper: &[u8; 16], name: &str) -> Result<usize, HostError> {
    let set_name = name_bytes(name)?;
    let names: Vec<String> = (0..spans.len()).map(|index| span_name(name, index)).collect();
    names.iter().try_for_each(|name| name_bytes(name).map(drop))?;
    // All drives are locked and judged before the first is written.
    let locked = spans.iter().map(|(uuid, paths)| Ok((uuid, lock_span(uuid, paths)?)));
    let locked: Vec<(&[u8; 16], Vec<SyncDrive>)> = locked.collect::<Result<_, HostError>>()?;
    for (uuid, drives) in locked {
        let (uuid, upper) = (*uuid, *upper);
        let for_what = "to take the array's new name, which the other drives may have by now";
        all_in_time(drives, for_what, move |drives| rename_on_span(drives, &uuid, &upper, set_name))?;
    }
    let renamed = spans.iter().zip(&names).map(|((uuid, paths), name)| rename(paths, uuid, name));
    renamed.sum()
}

/// Renames the array `upper` in the superblock that it has on a span.
fn rename_on_span(drives: Vec<SyncDrive>, uuid: &[u8; 16], upper: &[u8; 16], set_name: [u8; 32]) -> Result<(), HostError> {
    let ring = Ring::new()?;
    let mut span = open_known(drives, uuid, &ring)?;
    span.with_engine(|engine| engine.pause(true));
    let size_sectors = span.limits().size_sectors;
    span.sync_io(|io| {
        let sector = UPPER_SECTOR;
        let mut block = io.read(sector, (SUPERBLOCK_BYTES / bytes(1)) as u64)?;
        let found = Superblock::parse(&block, sector, size_sectors).map_err(|error| HostError::Refused(error.to_string()));
        let outcome = match found {
            Ok(mut superblock) if superblock.header.set_uuid == *upper => {
                superblock.header.set_name = set_name;
                let encoded = superblock.encode();
                block[..encoded.len()].copy_from_slice(&encoded);
                io.write(sector, &block).map_err(HostError::from)
            }
            Ok(_) => Err(Denial::SpansHoldAnother.into()),
            Err(error) => Err(error),
        };
        io.stop().and(outcome)
    })
}

/// Locks the drives of a span that is to be written through. What its current members say counts: a drive that was dropped may
/// say "not clean" for ever.
///
/// A write would count as current on a stale member that takes part, and as missed on a good one that is absent. So nothing is
/// forced, and no member may be absent that the span does not know as lost.
fn lock_span(uuid: &[u8; 16], paths: &[PathBuf]) -> Result<Vec<SyncDrive>, HostError> {
    let (drives, candidates): (Vec<SyncDrive>, Vec<Candidate>) = lock_all(paths)?.into_iter().unzip();
    let (assemblies, _) = assemble(&candidates, &Options { read_only: true, ..Options::default() });
    let Some(span) = assemblies.into_iter().find(|assembly| assembly.uuid == *uuid) else {
        return Err(Denial::SpanGone { span: uuid_text(uuid) }.into());
    };
    let refuse = |reason: &str| {
        let (span, reason) = (span.name.clone(), reason.to_owned());
        Err(Denial::SpanUnwritable { span, reason }.into())
    };
    let start = span.outcome?;
    if let Some(warning) = start.warnings.first() {
        return refuse(&warning.to_string());
    }
    match start.recorder.check_whole() {
        Err(why) => refuse(&why),
        Ok(()) => Ok(drives),
    }
}

/// Writes a superblock in place. The rest of its 4 KiB stays as it is.
fn write(drive: &SyncDrive, superblock: &Superblock) -> Result<(), HostError> {
    let start_sector = superblock.start_sector().get();
    let mut block = vec![0; SUPERBLOCK_BYTES];
    drive.read_at(start_sector, &mut block)?;
    let encoded = superblock.encode();
    block[..encoded.len()].copy_from_slice(&encoded);
    drive.write_at(start_sector, &block)?;
    Ok(drive.sync()?)
}

/// Changes the bitmap, write log or checksums of the array on these drives, or of its spans; see [`Change`] for the effect of a
/// crash. All changes of all arrays are planned before the first write. `runs`: the array is being served; nothing is written,
/// and only the errors are reported. Returns true if the changes make a difference.
///
/// # Errors
/// A change is impossible; then nothing was written. Or a drive is in use or cannot be written; the same command completes what
/// was begun.
pub fn change(paths: &[PathBuf], changes: &[Change], runs: bool) -> Result<bool, HostError> {
    let drives = if runs {
        open_each(paths, Access::ReadOnly, IoOptions::default()).into_iter().collect::<Result<Vec<_>, _>>()?
    } else {
        lock_all(paths)?
    };
    // All is planned before the first write: a refusal of the last change, or for the last span, leaves all as it is.
    let mut steps: Vec<Vec<(usize, MetadataWrite)>> = Vec::new();
    for &change in changes {
        // Each change is planned on the result of the one before.
        let writes_to = |index: usize| steps.iter().flatten().filter(move |(drive, _)| *drive == index).map(|(_, write)| write);
        let after = |(index, (drive, _)): (usize, &(SyncDrive, Candidate))| candidate_after(drive, writes_to(index));
        let candidates: Vec<Candidate> = drives.iter().enumerate().map(after).collect();
        for assembly in assemble(&candidates, &Options { read_only: true, force: runs, ..Options::default() }).0 {
            let refuse = |reason: String| Denial::CannotBeChanged { array: assembly.name.clone(), reason };
            let start = assembly.outcome.as_ref().map_err(|error| HostError::from(error.clone()))?;
            let planned = start.recorder.change(change, runs, &|member| &candidates[start.drives[member.0]]).map_err(refuse)?;
            let on_drive = |write: MetadataWrite| (start.drives[write.member.0], write);
            steps.extend(planned.into_iter().map(|step| step.into_iter().map(on_drive).collect()));
        }
    }
    for step in steps.iter().filter(|_| !runs) {
        for (drive, write) in step {
            drives[*drive].0.write_at(write.start_sector.get(), &write.data)?;
        }
        // R45: durable on every member before the next step. A drive that is not written may be one that fails.
        let written: BTreeSet<usize> = step.iter().map(|(drive, _)| *drive).collect();
        written.into_iter().try_for_each(|drive| drives[drive].0.sync())?;
    }
    Ok(!steps.is_empty())
}

/// Removes the array from its drives: superblocks first, on all of them, then bitmaps, write logs and the beginning of the data.
/// `uuids`: the array and its spans, as they were confirmed. Once no drive has a superblock, the array is gone; returns what of
/// the rest could not be erased, in words.
///
/// # Errors
/// A drive carries something else than a member of these, is in use or cannot be written. The text says which drives are erased.
pub fn destroy(paths: &[PathBuf], uuids: &[[u8; 16]]) -> Result<Vec<String>, HostError> {
    let drives = lock_all(paths)?;
    // Between the question and the answer a path may have come to name another drive, and a drive another array.
    let is_theirs = |candidate: &Candidate| {
        let member = candidate.found.as_ref().ok();
        member.is_some_and(|member| uuids.contains(&member.superblock.header.set_uuid))
    };
    if let Some((_, candidate)) = drives.iter().find(|(_, candidate)| !is_theirs(candidate)) {
        return Err(Denial::NoMemberAnyMore { drive: candidate.name.clone() }.into());
    }
    let spans = drives.iter().map(|(drive, candidate)| (drive, candidate.found.as_ref().map_or(0..0, head_of)));
    destroy_on(&spans.collect::<Vec<_>>())
}

/// The sectors from a member's superblock to the beginning of its data.
fn head_of(member: &Member) -> Range<u64> {
    let header = &member.superblock.header;
    // A superblock of version 1.0 is located behind the data, and its bitmap behind the superblock.
    header.super_offset.min(header.data_offset)..header.data_offset + HEAD_SECTORS
}

/// The same on these drives; each with the sectors to zero.
fn destroy_on<C: Content>(drives: &[(&C, Range<u64>)]) -> Result<Vec<String>, HostError> {
    let mut notes = Vec::new();
    on_each(drives.iter().map(|(drive, _)| *drive), |drive| {
        let left = erase_signatures(drive)?;
        if drive.superblock_sector().is_some() {
            return Err(is_left(&drive.name(), &left).into());
        }
        if !left.is_empty() {
            notes.push(is_left(&drive.name(), &left).to_string());
        }
        Ok(())
    })?;
    for (drive, head) in drives {
        let (size_sectors, block_bytes) = drive.extent();
        let block = u64::from(block_bytes) / bytes(1) as u64;
        let end = head.end.min(size_sectors);
        let zeroed = zero(*drive, &DriveSector::span(head.start / block * block..end / block * block));
        if let Err(error) = zeroed.and_then(|()| Ok(drive.sync()?)) {
            let what = "its superblock is erased, and old metadata or data stay on the drive";
            notes.push(format!("{}: {what} ({error})", drive.name()));
        }
    }
    Ok(notes)
}

/// Erases every drive, whatever becomes of the others: a command that stopped at the first error could not be repeated, as the
/// array is no longer found.
fn on_each<'a, C: Content + 'a>(
    drives: impl Iterator<Item = &'a C>,
    mut erase: impl FnMut(&C) -> Result<(), HostError>,
) -> Result<(), HostError> {
    let (mut erased, mut left, mut first) = (Vec::new(), Vec::new(), None);
    for drive in drives {
        match erase(drive) {
            Ok(()) => erased.push(drive.name()),
            Err(error) => {
                left.push(drive.name());
                first.get_or_insert(error);
            }
        }
    }
    let Some(error) = first else { return Ok(()) };
    if erased.is_empty() {
        return Err(error);
    }
    Err(HostError::ErasedInPart { error: error.into(), erased, left })
}

/// Removes every signature from these drives. `seen`: as they were when that was confirmed ([`Examined::mark`](crate::Examined::mark)).
///
/// # Errors
/// A drive is another or carries something else than was seen, is in use or cannot be written, or something is left that cannot
/// be read. The text says which drives are erased.
pub fn wipe_drives(paths: &[PathBuf], seen: &[String]) -> Result<(), HostError> {
    let drives = lock_all(paths)?;
    refuse_others(seen, drives.iter().map(|(drive, candidate)| (drive.info(), candidate)))?;
    on_each(drives.iter().map(|(drive, _)| drive), wipe)
}

/// Removes every signature from these drives, then lets `erase` do the rest while no other program can open them. What an erasure
/// leaves that was interrupted is no array any more. Signatures that cannot be read are left to `erase`, which is given the paths of
/// the open drives ([`SyncDrive::own_path`]) in the order of `paths`.
///
/// # Errors
/// The cases of [`wipe_drives`] but for what is left, and those of `erase`.
pub fn wipe_drives_and<E: From<HostError>>(
    paths: &[PathBuf],
    seen: &[String],
    erase: impl FnOnce(&[PathBuf]) -> Result<(), E>,
) -> Result<(), E> {
    let drives = lock_all(paths)?;
    refuse_others(seen, drives.iter().map(|(drive, candidate)| (drive.info(), candidate)))?;
    on_each(drives.iter().map(|(drive, _)| drive), |drive| Ok(erase_signatures(drive).map(drop)?))?;
    erase(&drives.iter().map(|(drive, _)| drive.own_path()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::tests::Faulty;
    use stria_array::Level;
    use stria_format::md::{BitmapChoice, Create, CreateMember, LogChoice};

    /// A member of an array, with data behind its metadata.
    fn member(name: &'static str) -> Faulty {
        let drive = Faulty::new(name);
        let size_sectors = drive.extent().0;
        let one = |index: u8| {
            Some(CreateMember { name: name.into(), size_sectors, logical_block_bytes: 512, device_uuid: [index; 16] })
        };
        let create = Create {
            name: "tank".into(),
            homehost: None,
            uuid: [1; 16],
            level: Level::Raid1,
            layout: Level::Raid1.default_layout(),
            strip_sectors: 0,
            members: vec![one(2), one(3)],
            spares: Vec::new(),
            data_offset_sectors: None,
            member_sectors_max: None,
            bitmap: BitmapChoice::None,
            log: LogChoice::Auto,
            checksums: false,
            assume_clean: true,
            span_of: None,
            unix_seconds: 1_700_000_000,
        };
        for write in create.plan().expect("an array").writes.iter().filter(|write| write.drive == 0) {
            drive.put(bytes(write.start_sector.get()), &write.bytes);
        }
        drive.put(1 << 20, &[7; 4096]);
        assert_eq!(drive.superblock_sector(), Some(8));
        drive
    }

    /// A `destroy` that failed half-way named no drive that it had erased, and could not be repeated.
    #[test]
    fn a_destroy_that_fails_on_one_drive_erases_the_others_and_says_so() {
        let drives = [member("/dev/a"), Faulty { unwritable: 8..9, ..member("/dev/b") }, member("/dev/c")];
        let words = destroy_on(&drives.each_ref().map(|drive| (drive, 8..4096))).expect_err("one fails").to_string();
        assert_eq!(
            words,
            "member /dev/b: medium error; the signatures of /dev/a, /dev/c are erased, and those of /dev/b may not be: `stria wipe /dev/b` erases \
             what is left"
        );
        assert_eq!(drives.each_ref().map(Content::superblock_sector), [None, Some(8), None]);
        // Repeated with the drive that is left.
        let [_, left, _] = drives;
        let left = Faulty { unwritable: 0..0, ..left };
        assert_eq!(destroy_on(&[(&left, 8..4096)]).expect("it can be repeated"), Vec::<String>::new());
        assert!(left.image.borrow().iter().all(|&byte| byte == 0));
    }

    /// An array whose superblocks are gone stayed in the configuration, because data behind one could not be zeroed.
    #[test]
    fn an_array_without_superblocks_is_destroyed_even_if_its_data_cannot_be_zeroed() {
        let drives = [member("/dev/a"), Faulty { unwritable: 2048..2049, ..member("/dev/b") }];
        let notes = destroy_on(&drives.each_ref().map(|drive| (drive, 8..4096))).expect("it is destroyed");
        let what = "its superblock is erased, and old metadata or data stay on the drive";
        assert_eq!(notes, [format!("/dev/b: {what} (member /dev/b: medium error)")]);
        assert_eq!(drives.each_ref().map(Content::superblock_sector), [None, None]);
    }
}
