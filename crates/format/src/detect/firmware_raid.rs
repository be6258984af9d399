//! RAID of mainboards and simple controllers: the marks that their firmware leaves on the members.
//!
//! Most marks are in the last sectors of the drive. A long mark suffices by itself, since a damaged member is a member too. A
//! short one needs its checksum as well, so that random data does not count as a member. The formats are older than drives with
//! blocks of 4096 bytes: every position is counted in sectors of 512 bytes.
//!
//! Sources: dmraid's format handlers, libblkid's RAID probes, FreeBSD's graid.

use super::{Ends, Family, Signature, firmware_mark};
use std::ops::Range;

/// Possible starts of Promise's metadata, in sectors from the end: they depend on the drive's geometry and the controller.
const PROMISE_FROM_END: [u64; 13] = [16, 63, 255, 256, 399, 591, 675, 735, 911, 951, 974, 991, PROMISE_FARTHEST];
const PROMISE_FARTHEST: u64 = 3087;
/// Its start on drives that were too large for its controller, in sectors from the start.
const PROMISE_FROM_START: u64 = 268_435_377;
/// A drive that is part of several arrays has an area for each, this many sectors apart.
const PROMISE_AREA_SECTORS: u64 = 14;
const PROMISE_AREAS: u64 = 4;
/// Medley keeps copies of its metadata, this many sectors apart.
const MEDLEY_COPY_SECTORS: u64 = 512;
const MEDLEY_COPIES: u64 = 4;

/// Sectors of possible marks that may be farther inside the drive than its two ends.
pub(super) fn far_places(drive_sectors: u64) -> impl Iterator<Item = Range<u64>> {
    [drive_sectors.checked_sub(PROMISE_FARTHEST), Some(PROMISE_FROM_START)]
        .into_iter()
        .flatten()
        .map(|start| start..start + PROMISE_AREA_SECTORS * (PROMISE_AREAS - 1) + 1)
        .filter(move |range| range.end <= drive_sectors)
}

pub(super) fn members(ends: &Ends, found: &mut Vec<Signature>) {
    promise(ends, found);
    medley(ends, found);
    let from_end = |sectors: u64| ends.drive_sectors.checked_sub(sectors).map(|sector| sector * 512);
    if let Some(offset) = from_end(1) {
        adaptec(ends, offset, found);
        via(ends, offset, found);
        jmicron(ends, offset, found);
        if ends.has(offset, b"$XIDE$") {
            found.push(member("LSI MegaRAID member", String::new(), offset));
        }
    }
    if let Some(offset) = from_end(2).filter(|&offset| ends.has(offset, b"NVIDIA")) {
        let version = u16::from_le_bytes(ends.number(offset + 16));
        found.push(member("NVIDIA RAID member", format!("version {version}"), offset));
    }
    let highpoint =
        [("HighPoint 37x RAID member", Some(9 * 512), 32, 0xf0), ("HighPoint 45x RAID member", from_end(11), 0, 0xf3)];
    for (name, offset, magic, sound) in highpoint {
        let Some(offset) = offset else { continue };
        // The second mark says that the controller found the member broken.
        for (first, detail) in [(sound, ""), (0xfd, "marked as broken")] {
            if ends.has(offset + magic, &[first, 0x16, 0x78, 0x5a]) {
                found.push(member(name, detail.into(), offset));
            }
        }
    }
}

fn member(name: &'static str, detail: String, offset: u64) -> Signature {
    firmware_mark(Family::FirmwareRaid, name, detail, offset)
}

fn promise(ends: &Ends, found: &mut Vec<Signature>) {
    let from_end = PROMISE_FROM_END.into_iter().filter_map(|sectors| ends.drive_sectors.checked_sub(sectors));
    for start in from_end.chain([PROMISE_FROM_START]) {
        for area in 0..PROMISE_AREAS {
            let offset = (start + area * PROMISE_AREA_SECTORS) * 512;
            if ends.has(offset, b"Promise Technology, Inc.") {
                let detail = if area == 0 { String::new() } else { format!("array {}", area + 1) };
                found.push(member("Promise or AMD FastTrak RAID member", detail, offset));
            }
        }
    }
}

/// The metadata overlays the drive's answer to ATA's IDENTIFY, and its oldest mark is part of that answer.
/// Newer metadata also names the vendor and major version 2.
fn medley(ends: &Ends, found: &mut Vec<Signature>) {
    for copy in 0..MEDLEY_COPIES {
        let Some(sector) = ends.drive_sectors.checked_sub(1 + copy * MEDLEY_COPY_SECTORS) else { continue };
        let offset = sector * 512;
        let (major, minor) = (ends.number(offset + 0x10a), ends.number(offset + 0x108));
        let (major, minor) = (u16::from_le_bytes(major), u16::from_le_bytes(minor));
        let marked = u32::from_le_bytes(ends.number(offset + 0x60)) & 0x03ff_ffff == 0x0300_0000
            && ends.number::<1>(offset + 0x116)[0] < 8;
        let named = ends.has(offset + 0x106, &[0x95, 0x10]) && major == 2;
        if (marked || named) && sum_of_words(ends, offset, 0x140) == Some(0) {
            let which = if copy == 0 { "" } else { ", another copy" };
            let detail = format!("version {major}.{minor}{which}");
            found.push(member("Silicon Image Medley RAID member", detail, offset));
        }
    }
}

fn adaptec(ends: &Ends, offset: u64, found: &mut Vec<Signature>) {
    if ends.has(offset, b"\x37\xfc\x4d\x1e") && ends.has(offset + 256, b"DPTM") {
        let detail = format!("version {}", ends.number::<1>(offset + 63)[0]);
        found.push(member("Adaptec HostRAID member", detail, offset));
    }
}

fn via(ends: &Ends, offset: u64, found: &mut Vec<Signature>) {
    let Some(bytes) = ends.at(offset, 51).filter(|bytes| bytes.starts_with(&[0x55, 0xaa]) && bytes[2] <= 2) else { return };
    let sum = bytes[..50].iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    if sum == bytes[50] {
        found.push(member("VIA RAID member", format!("version {}", bytes[2]), offset));
    }
}

fn jmicron(ends: &Ends, offset: u64, found: &mut Vec<Signature>) {
    // Some firmware miscounts its sum by one.
    if ends.has(offset, b"JM") && matches!(sum_of_words(ends, offset, 128), Some(0 | 1)) {
        let [minor, major] = ends.number(offset + 2);
        let version = format!("version {major}.{minor}");
        let detail = ends.label(offset + 0x20, 16).into_iter().chain([version]).collect::<Vec<_>>().join(", ");
        found.push(member("JMicron RAID member", detail, offset));
    }
}

/// The sum of little-endian 16-bit words.
fn sum_of_words(ends: &Ends, offset: u64, length: usize) -> Option<u16> {
    let words = ends.at(offset, length)?.chunks_exact(2);
    Some(words.fold(0, |sum: u16, word| sum.wrapping_add(u16::from_le_bytes([word[0], word[1]]))))
}
