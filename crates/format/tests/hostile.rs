//! Goal: no bytes on a drive make this crate panic, and a damaged superblock is not trusted.
//! Method: random bytes, truncations, and valid superblocks with flipped bits, some with a corrected checksum.

mod support;

use proptest::prelude::*;
use stria_array::{Layout, Level, ParityLayout};
use stria_format::md::badblocks::BadBlockLog;
use stria_format::md::superblock::{Header, SuperblockError};
use stria_format::md::{Bitmap, Candidate, Options, Superblock, numbers_of};
use support::*;

fn level() -> impl Strategy<Value = Level> {
    prop::sample::select(vec![Level::Linear, Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10])
}

/// Bytes with a corrected checksum of the superblock, so that flips get past it.
fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let Some(Ok(head)) = bytes.get(..256).map(<&[u8; 256]>::try_from) else { return bytes.to_vec() };
    let header = Header::read(head);
    let roles = bytes[256..].chunks_exact(2).take(header.max_dev as usize);
    let roles = roles.map(|role| stria_format::md::Role::from_number(u16::from_le_bytes([role[0], role[1]]))).collect();
    Superblock { header, roles, span_of: None }.encode()
}

proptest! {
    #[test]
    fn random_bytes_are_no_superblock(bytes in prop::collection::vec(any::<u8>(), 0..5000), sector in 0u64..100, size in any::<u64>()) {
        prop_assert_eq!(Superblock::parse(&bytes, sector, size), Err(SuperblockError::Absent));
        let _ = Bitmap::parse(&bytes, &[0; 16]);
        let _ = Bitmap::sectors_to_read(&bytes, size);
        let _ = BadBlockLog::parse(&bytes, bytes.first().copied().unwrap_or(0), size);
    }

    #[test]
    fn flipped_bit_in_a_superblock_is_noticed(bit in 0usize..8 * 512, level in level()) {
        let drive = created(level, 4, 0).remove(0);
        let mut bytes = drive.read(8, 8).expect("sound");
        let sound = Superblock::parse(&bytes, 8, drive.size_sectors).expect("sound");
        prop_assert_eq!(sound.encode(), bytes[..512].to_vec(), "encoding what was parsed gives the same bytes");
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = Superblock::parse(&bytes, 8, drive.size_sectors).expect_err("damaged");
        let words = error.to_string();
        prop_assert!(words.contains("damaged") || words.contains("no md superblock"), "{}", words);
    }

    #[test]
    fn truncated_superblock_is_noticed(length in 0usize..512) {
        let bytes = created(Level::Raid5, 4, 0)[0].read(8, 8).expect("sound");
        prop_assert!(Superblock::parse(&bytes[..length], 8, DRIVE_SECTORS).is_err());
    }

    #[test]
    fn nonsense_behind_a_good_checksum_is_survived(
        level in level(),
        changes in prop::collection::vec((0usize..4, 0usize..512, any::<u8>()), 1..6),
        bitmap_changes in prop::collection::vec((0usize..4, 0usize..256, any::<u8>()), 0..4),
    ) {
        let mut drives = created(level, 4, 0);
        for (drive, offset, value) in bitmap_changes {
            let mut bytes = drives[drive].read(16, 1).expect("sound");
            bytes[offset] = value;
            drives[drive].write(16, &bytes);
        }
        for (drive, offset, value) in changes {
            let mut bytes = drives[drive].read(8, 8).expect("sound");
            bytes[offset] = value;
            let mut bytes = with_checksum(&bytes);
            bytes.truncate(4096);
            drives[drive].write(8, &bytes);
        }
        use_all(&drives);
    }

    #[test]
    fn drives_of_random_sectors_are_survived(
        sectors in prop::collection::vec((0u64..2048, any::<[u8; 32]>()), 0..20),
        size in 0u64..5000,
    ) {
        let mut drive = MemoryDrive::new(0, size);
        for (sector, bytes) in sectors {
            if sector < size {
                drive.write(sector, &bytes.repeat(16));
            }
        }
        use_all(&[drive]);
    }
}

#[test]
fn drives_too_small_for_anything_are_survived() {
    for size in 0..40 {
        let drive = MemoryDrive::new(0, size);
        let candidate = Candidate::read("tiny", size, 512, &mut |start, count| drive.read(start, count));
        assert!(candidate.found.is_err());
        use_all(&[drive]);
    }
}

#[test]
fn unserved_features_are_refused_by_name() {
    let drives = created(Level::Raid5, 3, 0);
    let refuse = |change: &dyn Fn(&mut Header)| {
        let mut drives = drives.clone();
        for drive in &mut drives {
            let bytes = drive.read(8, 8).expect("sound");
            let mut superblock = Superblock::parse(&bytes, 8, DRIVE_SECTORS).expect("sound");
            change(&mut superblock.header);
            drive.write(8, &superblock.encode());
        }
        refused(&drives, &Options::default())
    };
    for (bits, word) in [
        (0x4, "reshape"),
        (0x100, "cluster"),
        (0x200, "journal"),
        (0x400, "partial parity log"), // beside a bitmap
        (0x1000, "RAID 0 layout"),
        (0x8000, "0x8000"),
    ] {
        let sentence = refuse(&|header| header.feature_map |= bits);
        assert!(sentence.contains(word), "{sentence}");
    }
    assert!(refuse(&|header| header.pad3[5] = 1).contains("fields that this version of Stria does not know"));
    assert!(refuse(&|header| header.level = -4).contains("multipath"));
    assert!(refuse(&|header| header.layout = 77).contains("layout 77"));
    assert!(refuse(&|header| header.chunksize = 24).contains("power of two"));
    let served = created(Level::Raid10, 3, 0);
    assert_eq!(started(&served, &Options::default()).config.geometry.layout(), Level::Raid10.default_layout());
    let _ = Layout::Plain;
}

/// md writes a RAID 5 of up to 384 members. The engine panicked at more than its parity code has positions for.
#[test]
fn parity_arrays_of_more_members_than_the_code_serves_are_refused() {
    let (plain, ddf) = (ParityLayout::LeftSymmetric, ParityLayout::DdfZeroRestart);
    for (level, layout, count_max) in [(Level::Raid5, plain, 256), (Level::Raid6, plain, 255), (Level::Raid6, ddf, 253)] {
        let layout = Layout::Parity(layout);
        let numbers = numbers_of(level, layout);
        // Another program may write this: a mirror's superblocks, changed to those of a parity array.
        let foreign = |count: usize| {
            let mut drives = created(Level::Raid1, count, 0);
            for drive in &mut drives {
                let mut superblock = Superblock::parse(&drive.read(8, 8).expect("sound"), 8, DRIVE_SECTORS).expect("sound");
                (superblock.header.level, superblock.header.layout) = (numbers.level, numbers.layout);
                superblock.header.chunksize = 128;
                drive.write(8, &superblock.encode());
            }
            drives
        };
        assert_eq!(started(&foreign(count_max), &Options::default()).config.geometry.slot_count(), count_max);
        let refusal = refused(&foreign(count_max + 1), &Options::default());
        let words = format!("to {count_max} members, and {} were given", count_max + 1);
        assert!(refusal.contains(&words), "{refusal}");
        let refusal = request(level, layout, count_max + 1, 0, DRIVE_SECTORS).plan().expect_err("too many").to_string();
        assert!(refusal.contains(&words), "{refusal}");
        carry_out(&request(level, layout, count_max, 0, DRIVE_SECTORS));
    }
}

#[test]
fn lockless_and_clustered_bitmaps_are_refused_by_name() {
    for (version, word) in [(5, "cluster"), (6, "lockless")] {
        let mut drives = created(Level::Raid1, 2, 0);
        for drive in &mut drives {
            let mut bytes = drive.read(16, 1).expect("sound");
            bytes[4] = version;
            drive.write(16, &bytes);
        }
        let sentence = refused(&drives, &Options::default());
        assert!(sentence.contains(word), "{sentence}");
    }
}
