//! Metadata of Intel's format, laid out by hand from its description.

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A RAID 5 of three, strip 64 KiB, 16 MiB of each, as drive `own` has it. `unit`: sectors in a logical block.
pub fn raid5(own: usize, unit: u64) -> Vec<u8> {
    let units = |sectors: u32| (sectors / unit as u32).to_le_bytes();
    let mut bytes = vec![0; 1024 * unit as usize];
    put(&mut bytes, 0, b"Intel Raid ISM Cfg Sig. 1.2.02");
    let length = 0xd8 + 3 * 48 + 0x70 + 0x30 + 3 * 4 + 16;
    put(&mut bytes, 0x24, &(length as u32).to_le_bytes());
    put(&mut bytes, 0x2c, &7u32.to_le_bytes());
    put(&mut bytes, 0x38, &[3, 1]);
    // A list of bad blocks with one entry, of this drive.
    put(&mut bytes, 0x48, &16u32.to_le_bytes());
    put(&mut bytes, length - 16, &0xabad_b10c_u32.to_le_bytes());
    put(&mut bytes, length - 12, &1u32.to_le_bytes());
    put(&mut bytes, length - 8, &[3, own as u8, 0, 0x10]);
    for disk in 0..3 {
        put(&mut bytes, 0xd8 + 48 * disk, format!("SERIAL{disk}").as_bytes());
        put(&mut bytes, 0xd8 + 48 * disk + 0x18, &[2]);
    }
    let volume = 0xd8 + 3 * 48;
    put(&mut bytes, volume, b"tank");
    put(&mut bytes, volume + 0x10, &units(2 << 15));
    let map = volume + 0x70;
    put(&mut bytes, map, &units(2048));
    put(&mut bytes, map + 4, &units(1 << 15));
    put(&mut bytes, map + 8, &256u32.to_le_bytes());
    put(&mut bytes, map + 0x0c, &units(128)[..2]);
    put(&mut bytes, map + 0x0f, &[5, 3]);
    for disk in 0..3u32 {
        put(&mut bytes, map + 0x30 + 4 * disk as usize, &disk.to_le_bytes());
    }
    bytes
}

/// Makes the checksum right.
pub fn seal(bytes: &mut [u8]) {
    let length = u32::from_le_bytes(bytes[0x24..0x28].try_into().expect("four bytes")) as usize;
    let length = length.min(bytes.len()) / 4 * 4;
    let words = bytes[..length].chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    let own = u32::from_le_bytes(bytes[0x20..0x24].try_into().expect("four bytes"));
    let sum = words.fold(0, u32::wrapping_add).wrapping_sub(own);
    put(bytes, 0x20, &sum.to_le_bytes());
}
