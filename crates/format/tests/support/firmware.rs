//! Signatures that the firmware of mainboards and of simple controllers leaves on members, laid out by hand.
#![allow(dead_code, reason = "each test file uses its part")]

/// The last word makes the sum of all little-endian 16-bit words zero.
fn balanced(mut bytes: Vec<u8>, checksum: usize, end: usize) -> Vec<u8> {
    let sum = bytes[..end].chunks_exact(2).fold(0u16, |sum, word| sum.wrapping_add(u16::from_le_bytes([word[0], word[1]])));
    bytes[checksum..checksum + 2].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    bytes
}

/// A sector with `parts` (offset, bytes).
pub fn sector_with(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut sector = vec![0; 512];
    for (offset, part) in parts {
        sector[*offset..offset + part.len()].copy_from_slice(part);
    }
    sector
}

pub fn medley() -> Vec<u8> {
    let parts: &[(usize, &[u8])] = &[(0x60, &[0, 0, 0, 0x2f]), (0x106, &[0x95, 0x10]), (0x108, &[1, 0, 2, 0])];
    balanced(sector_with(parts), 0x13e, 0x140)
}

pub fn via() -> Vec<u8> {
    let mut sector = sector_with(&[(0, &[0x55, 0xaa, 1, 0x25, 0]), (18, b"serials")]);
    sector[50] = sector[..50].iter().fold(0, |sum: u8, &byte| sum.wrapping_add(byte));
    sector
}

pub fn jmicron() -> Vec<u8> {
    balanced(sector_with(&[(0, b"JM\x01\x00"), (0x20, b"stripes"), (0x30, &[1])]), 4, 128)
}

fn jmicron_of_an_unknown_level() -> Vec<u8> {
    balanced(sector_with(&[(0, b"JM\x07\x02"), (0x30, &[200])]), 4, 128)
}

fn nvidia() -> Vec<u8> {
    let mut sector = sector_with(&[(0, b"NVIDIA  "), (8, &[30]), (16, &[100]), (52, &[0x44, 0, 0x64, 0])]);
    let word = |word: &[u8]| u32::from_le_bytes(word.try_into().expect("four bytes"));
    let sum = sector[..120].chunks_exact(4).fold(0u32, |sum, bytes| sum.wrapping_add(word(bytes)));
    sector[12..16].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    sector
}

/// Signatures of firmware RAID on a drive of so many bytes: byte offset, sector, our name for it, blkid's type ("": unknown to
/// blkid).
pub fn firmware_raids(end: u64) -> Vec<(u64, Vec<u8>, String, &'static str)> {
    let adaptec = sector_with(&[(0, b"\x37\xfc\x4d\x1e"), (256, b"DPTM"), (63, &[8])]);
    let highpoint = |at, mark: u8| sector_with(&[(at, &[mark, 0x16, 0x78, 0x5a])]);
    let mut all = vec![
        (end - 512, adaptec, "Adaptec HostRAID member (version 8)".to_owned(), "adaptec_raid_member"),
        (end - 512, medley(), "Silicon Image Medley RAID member (version 2.1)".into(), "silicon_medley_raid_member"),
        (end - 1537 * 512, medley(), "Silicon Image Medley RAID member (version 2.1, another copy)".into(), ""),
        (end - 512, via(), "VIA RAID member (version 1)".into(), "via_raid_member"),
        (end - 512, jmicron(), "JMicron RAID member (label \"stripes\", version 0.1)".into(), "jmicron_raid_member"),
        (end - 512, jmicron_of_an_unknown_level(), "JMicron RAID member (version 2.7)".into(), "jmicron_raid_member"),
        (end - 512, sector_with(&[(0, b"$XIDE$")]), "LSI MegaRAID member".into(), "lsi_mega_raid_member"),
        (end - 1024, nvidia(), "NVIDIA RAID member (version 100)".into(), "nvidia_raid_member"),
        (9 * 512, highpoint(32, 0xf0), "HighPoint 37x RAID member".into(), "hpt37x_raid_member"),
        (9 * 512, highpoint(32, 0xfd), "HighPoint 37x RAID member (marked as broken)".into(), "hpt37x_raid_member"),
        (end - 11 * 512, highpoint(0, 0xf3), "HighPoint 45x RAID member".into(), "hpt45x_raid_member"),
        (end - 11 * 512, highpoint(0, 0xfd), "HighPoint 45x RAID member (marked as broken)".into(), "hpt45x_raid_member"),
    ];
    let promise = sector_with(&[(0, b"Promise Technology, Inc.")]);
    for sectors in [16, 63, 255, 256, 399, 591, 675, 735, 911, 951, 974, 991, 3087] {
        let name = "Promise or AMD FastTrak RAID member".to_owned();
        all.push((end - sectors * 512, promise.clone(), name.clone(), "promise_fasttrack_raid_member"));
        if sectors > 16 {
            all.push((end - (sectors - 42) * 512, promise.clone(), format!("{name} (array 4)"), ""));
        }
    }
    all
}
