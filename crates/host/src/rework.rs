//! Metadata of arrays that do not run: another name, or none at all.
//!
//! Every drive is locked before the first byte is written, so an array that is served, here or by Linux, is refused as a whole.

use crate::HostError;
use crate::answers::open_each;
use crate::examine::{refuse_twins, wipe, zero};
use std::path::PathBuf;
use stria_array::DriveSector;
use stria_block::bytes;
use stria_drive::{Access, IoOptions, SyncDrive};
use stria_format::md::create::name_bytes;
use stria_format::md::superblock::SUPERBLOCK_BYTES;
use stria_format::md::{Candidate, Superblock};

/// 1 MiB of the data is zeroed as well, where an array above or a file system has its superblock.
const HEAD_SECTORS: u64 = 2048;

fn lock_all(paths: &[PathBuf]) -> Result<Vec<(SyncDrive, Candidate)>, HostError> {
    let open = |access| open_each(paths, access, IoOptions::default()).into_iter().collect::<Result<Vec<_>, _>>();
    // A second name of a drive would meet the lock of the first.
    refuse_twins(open(Access::ReadOnly)?.iter().map(|(drive, _)| drive.info()))?;
    open(Access::Exclusive)
}

/// Gives the array `uuid` on these drives another name. A crash between two drives leaves both names, of which the one on the drive with the
/// most superblock updates counts, as always: repeat the command. Returns how many drives were written.
///
/// # Errors
/// The name is invalid, or a drive is in use or cannot be written.
pub fn rename(paths: &[PathBuf], uuid: &[u8; 16], name: &str) -> Result<usize, HostError> {
    let set_name = name_bytes(name).map_err(|error| HostError::Usage(error.to_string()))?;
    let drives = lock_all(paths)?;
    let members = drives.iter().filter_map(|(drive, candidate)| {
        let superblock = &candidate.found.as_ref().ok()?.superblock;
        (superblock.header.set_uuid == *uuid).then_some((drive, superblock))
    });
    let mut count = 0;
    for (drive, superblock) in members {
        let mut renamed = superblock.clone();
        renamed.header.set_name = set_name;
        write(drive, &renamed)?;
        count += 1;
    }
    Ok(count)
}

/// Writes a superblock in place. What lies behind it in its 4 KiB stays.
fn write(drive: &SyncDrive, superblock: &Superblock) -> Result<(), HostError> {
    let start_sector = superblock.start_sector().get();
    let mut block = vec![0; SUPERBLOCK_BYTES];
    drive.read_at(start_sector, &mut block)?;
    let encoded = superblock.encode();
    block[..encoded.len()].copy_from_slice(&encoded);
    drive.write_at(start_sector, &block)?;
    Ok(drive.sync()?)
}

/// Removes the array from its drives: superblocks first, on all of them, then bitmaps, write logs and the beginning of the data.
///
/// # Errors
/// A drive is in use or cannot be written.
pub fn destroy(paths: &[PathBuf]) -> Result<(), HostError> {
    let drives = lock_all(paths)?;
    for (drive, _) in &drives {
        wipe(drive)?;
    }
    for (drive, candidate) in &drives {
        let Ok(member) = &candidate.found else { continue };
        let header = &member.superblock.header;
        // A superblock of version 1.0 lies behind the data, and its bitmap behind that.
        let start = header.super_offset.min(header.data_offset);
        let end = (header.data_offset + HEAD_SECTORS).min(drive.info().limits.size_sectors);
        let block = u64::from(drive.info().limits.logical_block_bytes) / bytes(1) as u64;
        zero(drive, &DriveSector::span(start / block * block..end / block * block))?;
        drive.sync()?;
    }
    Ok(())
}

/// Removes every signature from these drives.
///
/// # Errors
/// The cases of [`destroy`].
pub fn wipe_drives(paths: &[PathBuf]) -> Result<(), HostError> {
    lock_all(paths)?.iter().try_for_each(|(drive, _)| wipe(drive))
}
