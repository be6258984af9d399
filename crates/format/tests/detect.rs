//! Goal: the content of a drive is named before it is overwritten, and its signatures can be wiped.
//! Method: headers laid out by hand from the formats' descriptions, and images of the system's own tools where they are
//! installed.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use stria_array::Level;
use stria_block::{ErrorKind, IoError};
use stria_format::detect::{Signature, UNREADABLE, detect, wipes, wipes_in_turn};
use stria_format::md::Superblock;
use stria_format::md::assemble::{Options, assemble};
use support::firmware::{firmware_raids, jmicron, medley, via};
use support::*;

fn names(drive: &MemoryDrive) -> Vec<String> {
    detect(drive.size_sectors, &mut |start, count| drive.read(start, count)).iter().map(ToString::to_string).collect()
}

/// A drive with `parts` (byte offset, bytes).
fn drive_with(parts: &[(u64, &[u8])]) -> MemoryDrive {
    let mut drive = MemoryDrive::new(0, DRIVE_SECTORS);
    for (offset, part) in parts {
        let (first, last) = (offset / 512, (offset + part.len() as u64 - 1) / 512);
        let mut bytes = drive.read(first, last - first + 1).expect("memory");
        let at = (offset % 512) as usize;
        bytes[at..at + part.len()].copy_from_slice(part);
        drive.write(first, &bytes);
    }
    drive
}

const END: u64 = DRIVE_SECTORS * 512;

#[test]
fn known_formats_are_named() {
    let uuid: Vec<u8> = (0x10..0x20).collect();
    let uuid = uuid.as_slice();
    let shown = "uuid 10111213-1415-1617-1819-1a1b1c1d1e1f";
    let cases: Vec<(Vec<(u64, &[u8])>, String)> = vec![
        (
            vec![(1080, b"\x53\xef"), (1116, b"\x04"), (1120, b"\xc2\x02"), (1144, b"root"), (1128, uuid)],
            format!("ext4 file system (label \"root\", {shown})"),
        ),
        (vec![(1080, b"\x53\xef"), (1116, b"\x04"), (1120, b"\x02")], "ext3 file system".into()),
        (vec![(1080, b"\x53\xef"), (1120, b"\x02")], "ext2 file system".into()),
        (vec![(0, b"XFSB"), (32, uuid), (108, b"data")], format!("xfs file system (label \"data\", {shown})")),
        (vec![(0x10040, b"_BHRfS_M"), (0x10020, uuid)], format!("btrfs file system ({shown})")),
        (vec![(4086, b"SWAPSPACE2")], "swap space".into()),
        (vec![(0, b"LUKS\xba\xbe\0\x02"), (24, b"secret")], "LUKS encrypted volume (version 2, label \"secret\")".into()),
        (vec![(512, b"LABELONE"), (536, b"LVM2 001abc")], "LVM physical volume (uuid abc".into()),
        (vec![(3, b"NTFS    "), (510, b"\x55\xaa")], "NTFS file system".into()),
        (vec![(0x52, b"FAT32   "), (0x47, b"STICK      "), (510, b"\x55\xaa")], "FAT32 file system (label \"STICK\")".into()),
        (
            vec![(446, b"\x80\0\0\0\x83\0\0\0\x01\0\0\0\0\x01\0\0"), (510, b"\x55\xaa")],
            "MBR partition table (1 partitions)".into(),
        ),
        (vec![(512, b"EFI PART")], "GPT partition table".into()),
        (vec![(END - 512, b"EFI PART")], "GPT partition table (second copy".into()),
        (vec![(END - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00\0")], "Intel RAID (IMSM) member (version 1.3.00)".into()),
        (vec![(END - 512, b"\xde\x11\xde\x11"), (END - 504, b"Linux-MD")], "DDF RAID member (vendor \"Linux-MD\")".into()),
        (vec![(END - 512, b"\xde\x11\xde\x11"), (END - 504, b"LSI\0 \0\0\0")], "DDF RAID member (vendor \"LSI\")".into()),
        (vec![(END - 65536, b"\xfc\x4e\x2b\xa9\0\0\0\0\x5a")], "md member, version 0.90".into()),
        (vec![(132 * 1024, b"\x0c\xb1\xba\0\0\0\0\0")], "ZFS pool member".into()),
        (vec![(32769, b"CD001"), (32808, b"DEBIAN")], "ISO 9660 file system (label \"DEBIAN\")".into()),
        (vec![(510, b"\x55\xaa")], "boot sector".into()),
    ];
    for (parts, expected) in cases {
        let mut drive = drive_with(&parts);
        let found = names(&drive);
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{expected}: {found:?}");
        let signatures = detect(drive.size_sectors, &mut |start, count| drive.read(start, count));
        assert_eq!(signatures[0].is_of_firmware_raid(), expected.contains("RAID"), "{expected}");
        for (start, count) in wipes(&signatures, 4096) {
            assert_eq!((start % 8, count % 8), (0, 0), "whole blocks of a 4096-byte drive");
            drive.write(start, &vec![0; (count * 512) as usize]);
        }
        assert_eq!(names(&drive), Vec::<String>::new(), "{expected} is wiped");
    }
}

#[test]
fn empty_drives_carry_nothing_and_broken_ones_something() {
    assert_eq!(names(&MemoryDrive::new(0, DRIVE_SECTORS)), Vec::<String>::new());
    let broken = MemoryDrive { broken: true, ..MemoryDrive::new(0, DRIVE_SECTORS) };
    assert!(names(&broken)[0].starts_with("something that cannot be read (sectors 0 to 2047: medium error"));
}

#[test]
fn members_are_named_with_their_array() {
    let drives = created(Level::Raid5, 3, 0);
    let expected = "md member, version 1.2 (array \"host:tank\", uuid abababab:abababab:abababab:abababab, slot 1)";
    assert_eq!(names(&drives[1]), [expected]);
}

/// Drives made by real tools. Tools that are not installed here are tried elsewhere.
#[test]
fn contents_made_by_real_tools_are_named() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut tried = 0;
    for (tool, arguments, expected) in [
        ("mkfs.ext4", vec!["-q", "-F", "-L", "root"], "ext4 file system (label \"root\", uuid "),
        ("mkfs.ext2", vec!["-q", "-F"], "ext2 file system (uuid "),
        ("mkfs.xfs", vec!["-q", "-f", "-L", "data"], "xfs file system (label \"data\", uuid "),
        ("mkfs.btrfs", vec!["-q", "-f"], "btrfs file system (uuid "),
        ("mkswap", vec!["-q", "-L", "swap"], "swap space (label \"swap\", uuid "),
        ("mkswap", vec!["-q", "-p", "65536"], "swap space (uuid "),
        ("mkfs.vfat", vec!["-F", "32", "-n", "STICK"], "FAT32 file system (label \"STICK\")"),
        ("mkfs.minix", vec!["-1"], "Minix file system"),
        ("mkfs.minix", vec!["-2"], "Minix file system"),
        ("mkfs.minix", vec!["-3"], "Minix file system"),
        ("mkfs.bfs", vec![], "BFS file system"),
        ("mkudffs", vec![], "UDF file system"),
        ("mkfs.f2fs", vec!["-q"], "f2fs file system"),
    ] {
        let path = folder.join(format!("detect-{tool}.img"));
        let size: u64 = 400 << 20;
        File::create(&path).and_then(|file| file.set_len(size)).expect("sparse image");
        let ran = ["/usr/sbin/", "/sbin/", ""]
            .iter()
            .find_map(|at| Command::new(format!("{at}{tool}")).args(&arguments).arg(&path).output().ok());
        if ran.is_some_and(|output| output.status.success()) {
            tried += 1;
            let file = File::open(&path).expect("image");
            let found = detect(size / 512, &mut |start, count| {
                let mut bytes = vec![0; (count * 512) as usize];
                file.read_exact_at(&mut bytes, start * 512).expect("within the image");
                Ok(bytes)
            });
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert!(found.len() == 1 && found[0].starts_with(expected), "{tool}: {found:?}");
        }
        fs::remove_file(&path).expect("scratch image");
    }
    eprintln!("{tried} tools were installed");
}

/// The type that blkid names for an image. `None`: blkid is not installed.
fn blkid(path: &std::path::Path) -> Option<String> {
    let arguments = ["-p", "-o", "value", "-s", "TYPE"];
    let run = |program: &str| Command::new(program).args(arguments).arg(path).output().ok();
    let output = ["blkid", "/usr/sbin/blkid", "/sbin/blkid"].into_iter().find_map(run)?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn firmware_raid_is_named_and_wiped_and_blkid_agrees() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("detect-firmware.img");
    for (offset, sector, expected, known_as) in firmware_raids(END) {
        let mut drive = drive_with(&[(offset, &sector)]);
        let found = names(&drive);
        assert_eq!(found, std::slice::from_ref(&expected), "at {offset}");
        let file = File::create(&path).expect("an image");
        file.set_len(END).and_then(|()| file.write_all_at(&sector, offset)).expect("sparse image");
        let judged = blkid(&path);
        match &judged {
            Some(judged) if !known_as.is_empty() => assert_eq!(judged, known_as, "{expected}"),
            Some(_) => {}
            None => eprintln!("blkid is not installed: nothing to compare {expected} with"),
        }
        let signatures = detect(drive.size_sectors, &mut |start, count| drive.read(start, count));
        assert!(signatures.iter().all(Signature::is_of_firmware_raid), "{expected} belongs to firmware");
        for (start, count) in wipes(&signatures, 4096) {
            let zeros = vec![0; (count * 512) as usize];
            drive.write(start, &zeros);
            file.write_all_at(&zeros, start * 512).expect("a wipe");
        }
        assert_eq!(names(&drive), Vec::<String>::new(), "{expected} is wiped");
        assert!(judged.is_none() || blkid(&path).as_deref() == Some(""), "blkid finds nothing of {expected}");
    }
    fs::remove_file(&path).expect("scratch image");
}

#[test]
fn firmware_raid_of_large_drives_is_found_far_inside() {
    let place = 268_435_377 + 14;
    let mut asked = 0;
    let found = detect(1 << 33, &mut |start, count| {
        asked += count;
        let mut bytes = vec![0; (count * 512) as usize];
        if (start..start + count).contains(&place) {
            let at = ((place - start) * 512) as usize;
            bytes[at..at + 24].copy_from_slice(b"Promise Technology, Inc.");
        }
        Ok(bytes)
    });
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["Promise or AMD FastTrak RAID member (array 2)"]);
    assert!(asked < 2 * 2048 + 128, "little more than the ends is read: {asked} sectors");
}

#[test]
fn short_marks_of_firmware_raid_need_their_checksum() {
    for (name, mut sector, spoilt) in [("Medley", medley(), 0x20), ("VIA", via(), 20), ("JMicron", jmicron(), 0x40)] {
        sector[spoilt] ^= 0x40;
        assert_eq!(names(&drive_with(&[(END - 512, &sector)])), Vec::<String>::new(), "{name}");
    }
}

/// Each of a million sectors lies once at every position of a signature in a tiny drive.
#[test]
fn random_data_is_no_firmware_raid() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut noise = Vec::new();
    for _ in 0..(1 << 20) / 4096 {
        noise.clear();
        for _ in 0..(4096 + 16) * 64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise.extend_from_slice(&state.to_le_bytes());
        }
        for first in 0..4096 {
            let found = detect(16, &mut |start, count| {
                let start = first + start as usize;
                Ok(noise[start * 512..(start + count as usize) * 512].to_vec())
            });
            let firmware = found.iter().find(|known| known.name.contains("RAID member"));
            assert_eq!(firmware, None);
        }
    }
}

/// A position that cannot be read is left alone, however short it is.
#[test]
fn what_cannot_be_read_is_not_wiped() {
    for size_sectors in [100, 4096 - 3, DRIVE_SECTORS, DRIVE_SECTORS - 5] {
        let broken = MemoryDrive { broken: true, ..MemoryDrive::new(0, size_sectors) };
        let found = detect(size_sectors, &mut |start, count| broken.read(start, count));
        assert!(!found.is_empty() && wipes(&found, 512).is_empty(), "{size_sectors}: {found:?}");
    }
}

/// One bad sector in the first or last MiB hid every mark of that MiB: `stria wipe` erased nothing, and said that the drive
/// carries nothing.
#[test]
fn a_bad_sector_hides_no_mark_beside_its_block() {
    let marks: [(u64, &[u8]); 3] = [(0x10040, b"_BHRfS_M"), (1080, b"\x53\xef"), (END - 512, b"EFI PART")];
    let mut drive = drive_with(&marks);
    let bad = [40, 41, 900, drive.size_sectors - 1000];
    let mut read = |start: u64, count: u64| match bad.iter().find(|sector| (start..start + count).contains(sector)) {
        None => drive.read(start, count),
        Some(sector) => Err(IoError::new(ErrorKind::Medium, format!("medium error at sector {sector}"))),
    };
    let found = detect(drive.size_sectors, &mut read);
    let (unreadable, marked): (Vec<_>, Vec<_>) = found.iter().partition(|signature| signature.name == UNREADABLE);
    let starts: Vec<u64> = unreadable.iter().map(|signature| signature.start_sector).collect();
    assert_eq!(starts, [40, 896, (drive.size_sectors - 1000) / 8 * 8], "{found:?}");
    assert!(unreadable[0].detail.starts_with("sectors 40 to 47: medium error at sector 40"), "{found:?}");
    assert_eq!(marked.len(), marks.len(), "{found:?}");
    for (start, count) in wipes(&found, 512) {
        drive.write(start, &vec![0; (count * 512) as usize]);
    }
    assert_eq!(names(&drive), Vec::<String>::new());
}

/// After eight pieces that could not be read the rest of the last MiB counts as unreadable, and with it a superblock that a
/// client had written there. A drive that joined an array kept it: a power cut between the erasure of its own superblock and the
/// new one left a drive of the client's array.
#[test]
fn bad_sectors_hide_no_superblock_in_one_of_its_places() {
    for minor in [0, 1, 2] {
        let place = Superblock::sector_of(minor, DRIVE_SECTORS).expect("there is room");
        let mut bytes = vec![0; 4096];
        bytes[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
        bytes[4..8].copy_from_slice(&1u32.to_le_bytes());
        let mut read = |start: u64, count: u64| {
            let places = start..start + count;
            if places.contains(&place) && count == 8 && start == place {
                return Ok(bytes.clone());
            }
            let is_bad =
                (16..256).step_by(16).any(|sector| places.contains(&sector) || places.contains(&(DRIVE_SECTORS - 8 - sector)));
            if is_bad { Err(IoError::new(ErrorKind::Medium, "medium error")) } else { Ok(vec![0; (count * 512) as usize]) }
        };
        let wiped = wipes(&detect(DRIVE_SECTORS, &mut read), 512);
        assert!(wiped.iter().any(|&(start, count)| start <= place && place + 8 <= start + count), "1.{minor}: {wiped:?}");
    }
}

/// A drive that tries each sector for seconds is not asked for hundreds of pieces.
#[test]
fn an_end_that_cannot_be_read_costs_few_reads() {
    let mut asked = 0;
    let found = detect(DRIVE_SECTORS, &mut |start, count| {
        asked += 1;
        if start < 2048 { Err(IoError::new(ErrorKind::Medium, "medium error")) } else { Ok(vec![0; (count * 512) as usize]) }
    });
    assert!(asked < 20, "{asked} reads");
    let words: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["something that cannot be read (sectors 0 to 2047: medium error)"]);
}

/// The superblock that counts is erased even where its neighbour in the same block hides it from the search.
#[test]
fn the_superblock_that_counts_is_always_erased() {
    let [first, last] = wipes_in_turn(&[], 4096, Some(8));
    assert_eq!((first, last), (Vec::new(), vec![(8, 8)]));
}

/// The raw drives of an Intel or DDF mirror were served as members of an md array that lies on the mirror, and Linux wrote to the
/// mirror.
#[test]
fn an_array_on_a_volume_of_firmware_raid_is_not_served_from_the_raw_drives() {
    let marks: [(&[u8], u64, &str); 2] =
        [(b"Intel Raid ISM Cfg Sig. 1.3.00\0", 1024, "Intel RAID (IMSM) member"), (b"\xde\x11\xde\x11", 512, "DDF RAID member")];
    for (mark, from_end, name) in marks {
        let start = |drives: &[MemoryDrive], force: bool| {
            let (mut assemblies, _) = assemble(&candidates(drives), &Options { force, ..Options::default() });
            assert_eq!(assemblies.len(), 1);
            assemblies.remove(0).outcome.map(drop).map_err(|error| error.to_string())
        };
        let put = |drive: &mut MemoryDrive| {
            let (sector, mut bytes) = (drive.size_sectors - from_end / 512, [0; 512]);
            bytes[..mark.len()].copy_from_slice(mark);
            drive.write(sector, &bytes);
        };
        // Within the data the clients of the array have written it.
        let mut drives = created(Level::Raid1, 2, 0);
        let data = drives[0].candidate().found.expect("a member").superblock.data();
        drives.iter_mut().for_each(|drive| drive.size_sectors = data.end.get());
        drives.iter_mut().for_each(put);
        assert_eq!(start(&drives, false), Ok(()), "{name} within the data");
        drives.iter_mut().for_each(|drive| drive.size_sectors += 8192);
        assert_eq!(start(&drives, false), Ok(()), "nothing lies behind the data");
        put(&mut drives[1]);
        let refused = start(&drives, false).expect_err("it lies on a volume");
        assert!(refused.contains(&format!("drive1 carries {name}")) && refused.contains("behind its data"), "{refused}");
        assert_eq!(start(&drives, true), Ok(()));
    }
}
