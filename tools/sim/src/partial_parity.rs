//! A new array with md's partial parity log, as mdadm makes it (`--consistency-policy=ppl`): `stria-format` makes none by itself.

use crate::drive::Drive;
use crate::member_drive::{SUPERBLOCK, superblock_of};
use crate::setup::PartialParity;
use std::cell::RefCell;
use std::rc::Rc;
use stria_array::Geometry;
use stria_block::bytes;
use stria_format::md::ppl::PplHeader;
use stria_format::md::superblock::feature;
use stria_parity::crc32c;

/// The distance from the superblock to the log.
const OFFSET_SECTORS: u64 = 64;

/// The bytes of a header's page.
const PAGE: usize = 4096;

/// Gives new members an empty log.
pub(crate) fn begin(members: &[&Rc<RefCell<Drive>>], log: PartialParity) {
    for drive in members {
        let mut superblock = superblock_of(&drive.borrow()).expect("it was just written");
        superblock.header.feature_map |= if log.ring { feature::MULTIPLE_PPLS } else { feature::PPL };
        superblock.header.bitmap_offset = i32::from(log.sectors) << 16 | OFFSET_SECTORS as i32;
        let signature = crc32c(&superblock.header.set_uuid);
        let mut header = PplHeader { reserved: [0xff; 512], signature, padding: 0, generation: 0, entries_count: 0, checksum: 0 };
        let page = |header: &PplHeader| {
            let mut page = header.write().to_vec();
            page.resize(PAGE, 0);
            page
        };
        header.checksum = crc32c(&page(&header));
        let mut drive = drive.borrow_mut();
        drive.put(SUPERBLOCK.start, &superblock.encode());
        drive.put(SUPERBLOCK.start + OFFSET_SECTORS, &page(&header));
    }
}

/// Gives members that are not in sync yet parity that does not match the data, as used drives have it.
pub(crate) fn spoil(members: &[&Rc<RefCell<Drive>>], geometry: &Geometry, data_start: u64) {
    let strip = geometry.strip_sectors();
    for stripe in 0..geometry.stripe_count() {
        for &slot in &geometry.stripe_map(stripe).parity {
            members[usize::from(slot)].borrow_mut().put(data_start + stripe * strip, &vec![0x5a; bytes(strip)]);
        }
    }
}
