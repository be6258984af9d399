//! The mark of a span: an array that is a member of another one.
//!
//! The contents of an array belong to its clients: a virtual machine may store RAID superblocks of its own there, or copies of
//! any others. So no content of an array can mark it as part of another one. The mark is in its own superblock, on every member,
//! out of its clients' reach: in the last 64 bytes of the 4 KiB that md reserves for a superblock, behind the roles.
//!
//! md reads, writes and checksums no more of those 4 KiB than the roles take, or, on drives with blocks of 4096 bytes, writes
//! back what it has read. So the mark survives all changes of a member by Linux and mdadm. A member that mdadm adds has none;
//! that of any other suffices, and Stria writes it on all.

use crate::Field;
use crate::fields::on_disk;
use stria_parity::crc32c;

const MAGIC: [u8; 8] = *b"StriaSpn";
const VERSION: u32 = 1;

on_disk! {
    /// Names the array of which this one is a span.
    pub struct Mark [64] {
        /// `StriaSpn`.
        0x00 magic: [u8; 8],
        /// 1. A later program may use what is reserved; the other fields never change.
        0x08 version: u32,
        /// CRC-32C of the mark, this field taken as zero.
        0x0c crc: u32,
        /// The identity of the array that the superblock is of.
        0x10 set_uuid: [u8; 16],
        /// The identity of the array of which it is a span.
        0x20 upper_uuid: [u8; 16],
        /// Zero.
        0x30 reserved: [u8; 16],
    }
}

/// The fields, for `examine --raw`.
pub(crate) const FIELDS: &[Field] = Mark::FIELDS;

impl Mark {
    fn sum(&self) -> u32 {
        crc32c(&Self { crc: 0, ..self.clone() }.write())
    }
}

/// The mark's bytes.
pub(crate) fn encode(set_uuid: [u8; 16], upper_uuid: [u8; 16]) -> [u8; Mark::SIZE_BYTES] {
    let mut mark = Mark { magic: MAGIC, version: VERSION, crc: 0, set_uuid, upper_uuid, reserved: [0; 16] };
    mark.crc = mark.sum();
    mark.write()
}

/// The array that is marked above the one with this identity. Marks of other arrays, left over from before, are none.
pub(crate) fn find(mark: &[u8; Mark::SIZE_BYTES], set_uuid: [u8; 16]) -> Option<[u8; 16]> {
    let mark = Mark::read(mark);
    let whole = mark.magic == MAGIC && mark.version > 0 && mark.crc == mark.sum();
    let ours = whole && mark.set_uuid == set_uuid && mark.upper_uuid != mark.set_uuid;
    ours.then_some(mark.upper_uuid)
}
