//! Contents that a few bytes at a fixed position give away.
//!
//! Sources: libblkid's list of magic numbers, and each format's own description.

use super::{Ends, Signature, WINDOW_SECTORS, mark};
use std::ops::Range;

/// A format with a mark at a fixed position. Offsets are in bytes from the start of the drive.
struct Magic {
    name: &'static str,
    offset: u64,
    magic: &'static [u8],
    /// Offset and greatest length of the label.
    label: Option<(u64, usize)>,
    /// Offset of the 16 bytes of the UUID.
    uuid: Option<u64>,
}

const fn magic(name: &'static str, offset: u64, magic: &'static [u8]) -> Magic {
    Magic { name, offset, magic, label: None, uuid: None }
}

/// Of two that match, the one that says more comes first: a `BitLocker` volume looks like a file system of FAT.
const MAGICS: &[Magic] = &[
    Magic { label: Some((108, 12)), uuid: Some(32), ..magic("xfs file system", 0, b"XFSB") },
    Magic { label: Some((0x1012b, 256)), uuid: Some(0x10020), ..magic("btrfs file system", 0x10040, b"_BHRfS_M") },
    Magic { uuid: Some(1132), ..magic("f2fs file system", 1024, b"\x10\x20\xf5\xf2") },
    magic("BitLocker volume", 3, b"-FVE-FS-"),
    magic("BitLocker To Go volume", 424, b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01"),
    magic("NTFS file system", 3, b"NTFS    "),
    magic("ReFS file system", 0, b"\0\0\0ReFS\0"),
    magic("exFAT file system", 3, b"EXFAT   "),
    Magic { label: Some((0x47, 11)), ..magic("FAT32 file system", 0x52, b"FAT32   ") },
    Magic { label: Some((0x2b, 11)), ..magic("FAT16 file system", 0x36, b"FAT16   ") },
    Magic { label: Some((0x2b, 11)), ..magic("FAT12 file system", 0x36, b"FAT12   ") },
    Magic { label: Some((0x2b, 11)), ..magic("FAT file system", 0x36, b"FAT     ") },
    Magic { label: Some((0x2b, 11)), ..magic("FAT file system", 0x36, b"MSDOS") },
    Magic { label: Some((0x47, 11)), ..magic("FAT32 file system", 0x52, b"MSWIN") },
    Magic { label: Some((32808, 32)), ..magic("ISO 9660 file system", 32769, b"CD001") },
    magic("High Sierra file system", 32777, b"CDROM"),
    magic("UDF file system", 32769, b"BEA01"),
    magic("UDF file system", 34817, b"NSR0"),
    Magic { label: Some((4168, 32)), uuid: Some(4136), ..magic("bcache device", 4120, BCACHE) },
    Magic { label: Some((4168, 32)), uuid: Some(4152), ..magic("bcachefs file system", 4120, BCACHEFS) },
    Magic { label: Some((65636, 16)), uuid: Some(65620), ..magic("reiserfs file system", 65588, b"ReIsEr") },
    magic("reiserfs file system", 8244, b"ReIsErFs"),
    magic("reiserfs file system", 8212, b"ReIsErFs"),
    Magic { label: Some((65572, 16)), uuid: Some(65556), ..magic("Reiser4 file system", 65536, b"ReIsEr4") },
    Magic { label: Some((32920, 16)), uuid: Some(32904), ..magic("JFS file system", 32768, b"JFS1") },
    Magic { label: Some((1104, 80)), uuid: Some(1176), ..magic("nilfs2 file system", 1030, b"\x34\x34") },
    Magic { uuid: Some(1072), ..magic("EROFS file system", 1024, b"\xe2\xe1\xf5\xe0") },
    magic("squashfs file system", 0, b"hsqs"),
    magic("squashfs file system", 0, b"sqsh"),
    magic("cramfs file system", 0, b"\x45\x3d\xcd\x28"),
    magic("cramfs file system", 0, b"\x28\xcd\x3d\x45"),
    magic("romfs file system", 0, b"-rom1fs-"),
    magic("UBI volume", 0, b"UBI#"),
    magic("UBIFS file system", 0, b"\x31\x18\x10\x06"),
    magic("zonefs file system", 0, b"SFOZ"),
    magic("EXFS file system", 0, b"EXFS"),
    magic("GFS2 file system", 65536, b"\x01\x16\x19\x70"),
    magic("OCFS file system", 8192, b"OracleCFS"),
    magic("OCFS2 file system", 1024, b"OCFSV2"),
    magic("OCFS2 file system", 2048, b"OCFSV2"),
    magic("OCFS2 file system", 4096, b"OCFSV2"),
    magic("OCFS2 file system", 8192, b"OCFSV2"),
    magic("Oracle ASM disk", 32, b"ORCLDISK"),
    magic("ScoutFS file system", 65540, b"\x8b\x42\x3c\x10"),
    magic("HFS+ file system", 1024, b"H+\0\x04"),
    magic("HFSX file system", 1024, b"HX\0\x05"),
    magic("APFS container", 32, b"NXSB"),
    magic("BeFS file system", 32, b"BFS1"),
    magic("BeFS file system", 32, b"1SFB"),
    magic("BeFS file system", 544, b"BFS1"),
    magic("BeFS file system", 544, b"1SFB"),
    magic("BFS file system", 0, b"\xce\xfa\xad\x1b"),
    magic("HPFS file system", 8192, b"\x49\xe8\x95\xf9"),
    magic("VxFS file system", 1024, b"\xf5\xfc\x01\xa5"),
    magic("VxFS file system", 8192, b"\xa5\x01\xfc\xf5"),
    magic("System V file system", 1016, b"\x20\x7e\x18\xfd"),
    magic("System V file system", 1016, b"\xfd\x18\x7e\x20"),
    magic("Xenix file system", 2048, b"\x2b\x55\x44"),
    magic("Xenix file system", 2048, b"\x44\x55\x2b"),
    magic("Novell storage", 4096, b"SPB5"),
    magic("UFS2 file system", 66908, b"\x19\x01\x54\x19"),
    magic("UFS2 file system", 66908, b"\x19\x54\x01\x19"),
    magic("UFS file system", 9564, b"\x54\x19\x01\0"),
    magic("UFS file system", 9564, b"\0\x01\x19\x54"),
    magic("VMFS volume", 1 << 20, b"\x0d\xd0\x01\xc0"),
    magic("VMFS file system", 2 << 20, b"\x5e\xf1\xab\x2f"),
    magic("VDO volume", 0, b"dmvdo001"),
    magic("Stratis member", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("Stratis member", 4612, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("Ceph BlueStore", 0, b"bluestore block device\n"),
    magic("mpool device", 0, b"mpoolDev"),
    magic("DRBD control volume", 0, b"$DRBDmgr=q"),
    magic("DRBD proxy log", 0, b"DRBDdlh*"),
    magic("dm-verity hashes", 0, b"verity\0\0"),
    magic("dm-integrity volume", 0, b"integrt\0"),
    magic("device-mapper snapshot", 0, b"SnAp"),
    magic("LVM1 physical volume", 0, b"HM\x01\0"),
    magic("LVM1 physical volume", 0, b"HM\x02\0"),
    magic("Windows dynamic disk", 3072, b"PRIVHEAD"),
    magic("SGI partition table", 0, b"\x0b\xe5\xa9\x41"),
    magic("BSD disk label", 64, b"\x57\x45\x56\x82"),
    magic("BSD disk label", 128, b"\x57\x45\x56\x82"),
    magic("BSD disk label", 512, b"\x57\x45\x56\x82"),
    magic("AIX disk", 0, b"\xc9\xc2\xd4\xc1"),
    magic("hibernation image", 0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
];

const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";

/// Marks in the last bytes of the first page of a swap space, whose size is the machine's.
const SWAP: [(&str, &[u8]); 6] = [
    ("swap space", b"SWAPSPACE2"),
    ("swap space", b"SWAP-SPACE"),
    ("hibernation image", b"S1SUSPEND"),
    ("hibernation image", b"S2SUSPEND"),
    ("hibernation image", b"ULSUSPEND"),
    ("hibernation image", b"LINHIB0001"),
];
const PAGE_BYTES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];

/// Sectors of marks that are farther inside the drive than its two ends.
pub(super) fn far_places(drive_sectors: u64) -> impl Iterator<Item = Range<u64>> {
    MAGICS
        .iter()
        .map(|known| known.offset / 512..(known.offset + known.magic.len() as u64).div_ceil(512))
        .filter(move |range| range.start >= WINDOW_SECTORS && range.end <= drive_sectors)
}

pub(super) fn contents(ends: &Ends, found: &mut Vec<Signature>) {
    for known in MAGICS.iter().filter(|known| ends.has(known.offset, known.magic)) {
        let detail = ends.detail(known.label, known.uuid);
        found.push(mark(known.name, detail, known.offset, known.magic.len()));
    }
    swap(ends, found);
    drbd(ends, found);
    minix(ends, found);
    hfs(ends, found);
    file_vault(ends, found);
    sun(ends, found);
    mac(ends, found);
    atari(ends, found);
    xfs_journal(ends, found);
}

fn swap(ends: &Ends, found: &mut Vec<Signature>) {
    for offset in PAGE_BYTES.map(|page| page - 10) {
        for (name, magic) in SWAP.into_iter().filter(|(_, magic)| ends.has(offset, magic)) {
            found.push(mark(name, ends.detail(Some((1052, 16)), Some(1036)), offset, magic.len()));
        }
    }
}

/// DRBD keeps its metadata behind the data. The file system on the DRBD device is found as well.
fn drbd(ends: &Ends, found: &mut Vec<Signature>) {
    let Some(block) = (ends.drive_sectors / 8).checked_sub(1).map(|block| block * 4096) else { return };
    for (last, version) in [(0x6b, "8"), (0x6c, "8"), (0x6d, "9")] {
        if ends.has(block + 60, &[0x83, 0x74, 0x02, last]) {
            found.push(mark("DRBD device", format!("version {version}"), block, 4096));
        }
    }
}

/// Two bytes are no proof: the counts beside them must be possible.
fn minix(ends: &Ends, found: &mut Vec<Signature>) {
    let number = |offset: u64, is_big: bool| {
        let bytes = ends.number(1024 + offset);
        u64::from(if is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    for is_big in [false, true] {
        let (first_two, third) = (number(16, is_big), number(24, is_big));
        let (inodes, inode_map, log_zone) = match (first_two, third) {
            (0x137f | 0x138f | 0x2468 | 0x2478, _) => (number(0, is_big), number(4, is_big), number(10, is_big)),
            (_, 0x4d5a) => {
                let (low, high) = if is_big { (2, 0) } else { (0, 2) };
                (number(low, is_big) | number(high, is_big) << 16, number(6, is_big), number(12, is_big))
            }
            _ => continue,
        };
        if inodes > 0 && log_zone == 0 && inode_map * 8192 > inodes {
            found.push(mark("Minix file system", String::new(), 1024, 512));
        }
    }
}

fn hfs(ends: &Ends, found: &mut Vec<Signature>) {
    let allocation_bytes = u32::from_be_bytes(ends.number(1024 + 20));
    if ends.has(1024, b"BD") && allocation_bytes > 0 && allocation_bytes.is_multiple_of(512) {
        let is_wrapper = ends.has(1024 + 124, b"H+") || ends.has(1024 + 124, b"HX");
        found.push(mark(if is_wrapper { "HFS+ file system" } else { "HFS file system" }, String::new(), 1024, 512));
    }
}

fn file_vault(ends: &Ends, found: &mut Vec<Signature>) {
    if ends.has(88, b"CS\x01\0\0\0") && ends.has(8, b"\x01\0") {
        found.push(mark("FileVault volume", String::new(), 0, 512));
    }
}

/// All words of the label, its sum among them, add to zero without carries.
fn sun(ends: &Ends, found: &mut Vec<Signature>) {
    let Some(label) = ends.at(0, 512).filter(|label| label[508..510] == *b"\xda\xbe") else { return };
    if label.chunks_exact(2).fold([0, 0], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]) == [0, 0] {
        found.push(mark("Sun disk label", String::new(), 0, 512));
    }
}

fn mac(ends: &Ends, found: &mut Vec<Signature>) {
    let block = u64::from(u16::from_be_bytes(ends.number(2)));
    if ends.has(0, b"ER") && [512, 1024, 2048, 4096].contains(&block) && (ends.has(block, b"PM") || ends.has(block, b"TS")) {
        found.push(mark("Apple partition table", String::new(), 0, 512));
    }
}

/// The format has no mark but the names of its partitions.
fn atari(ends: &Ends, found: &mut Vec<Signature>) {
    const NAMES: [&[u8]; 6] = [b"GEM", b"BGM", b"LNX", b"SWP", b"RAW", b"XGM"];
    let word = |offset: u64| u64::from(u32::from_be_bytes(ends.number(offset)));
    let drive_sectors = word(450);
    let is_partition = |entry: u64| {
        let (start, sectors) = (word(entry + 4), word(entry + 8));
        ends.number::<1>(entry)[0] & 1 == 1
            && NAMES.iter().any(|name| ends.has(entry + 1, name))
            && start > 0
            && sectors > 0
            && start + sectors <= drive_sectors
    };
    if drive_sectors <= ends.drive_sectors && (0..4).any(|index| is_partition(454 + 12 * index)) {
        found.push(mark("Atari partition table", String::new(), 0, 512));
    }
}

/// Records of a journal on a drive of its own: they may begin at any sector of the ring.
fn xfs_journal(ends: &Ends, found: &mut Vec<Signature>) {
    let is_record =
        |offset: &u64| ends.has(*offset, b"\xfe\xed\xba\xbe") && (1..=3).contains(&u32::from_be_bytes(ends.number(offset + 8)));
    let records = (0..512).map(|sector| sector * 512).filter(is_record);
    found.extend(records.map(|offset| mark("XFS journal", String::new(), offset, 512)));
}

#[cfg(test)]
mod tests {
    use super::super::{detect, wipes};
    use super::*;

    fn bytes(sectors: u64) -> usize {
        usize::try_from(sectors * 512).expect("within the drive")
    }

    /// A drive of 4 MiB with these bytes.
    fn drive(offset: u64, mark: &[u8]) -> Vec<u8> {
        let mut drive = vec![0; 4 << 20];
        drive[usize::try_from(offset).expect("within the drive")..][..mark.len()].copy_from_slice(mark);
        drive
    }

    fn look(drive: &[u8]) -> Vec<Signature> {
        detect(drive.len() as u64 / 512, &mut |start, count| Ok(drive[bytes(start)..bytes(start + count)].to_vec()))
    }

    /// The mark has this name, and nothing is left of it after a wipe.
    fn check(name: &str, offset: u64, mark: &[u8]) {
        let mut drive = drive(offset, mark);
        let found = look(&drive);
        assert!(found.iter().any(|found| found.name == name), "{name} at {offset}: {found:?}");
        for (start, count) in wipes(&found, 512) {
            drive[bytes(start)..bytes(start + count)].fill(0);
        }
        assert_eq!(look(&drive), [], "{name} at {offset}");
    }

    #[test]
    fn every_mark_is_found_where_it_is_and_can_be_wiped() {
        for known in MAGICS {
            check(known.name, known.offset, known.magic);
        }
        for (name, magic) in SWAP {
            for page in PAGE_BYTES {
                check(name, page - 10, magic);
            }
        }
        for magic in [b"\x83\x74\x02\x6b", b"\x83\x74\x02\x6c", b"\x83\x74\x02\x6d"] {
            check("DRBD device", (4 << 20) - 4096 + 60, magic);
        }
    }

    #[test]
    fn two_bytes_alone_are_no_mark() {
        for (offset, bytes) in [
            (1040, b"\x7f\x13".as_slice()),
            (1048, b"ZM"),
            (1024, b"BD"),
            (88, b"CS"),
            (508, b"\xda\xbe"),
            (0, b"ER"),
            (0, b"HM"),
        ] {
            assert_eq!(look(&drive(offset, bytes)), [], "{bytes:?} at {offset}");
        }
    }
}
