//! Goal: of the heads of a member's checksums the one of the last run counts, and none of an earlier one, or of another member.
//! Method: heads with higher numbers lie beside it, and cannot be read when the array starts.

mod support;

use stria_array::Level;
use stria_block::{ErrorKind, IoError};
use stria_format::md::Candidate;
use stria_integrity::{Header, HeaderError, Region};
use support::*;

/// A member with checksums, and its head.
fn member() -> (MemoryDrive, Header) {
    let mut create = request(Level::Raid1, Level::Raid1.default_layout(), 2, 1, DRIVE_SECTORS);
    create.checksums = true;
    let drive = carry_out(&create).0.remove(0);
    let header = head(&drive).expect("it is new");
    (drive, header)
}

fn head(drive: &MemoryDrive) -> Result<Header, HeaderError> {
    drive.candidate().found.expect("a member").checksums.expect("it has some").header
}

fn write(drive: &mut MemoryDrive, header: &Header) {
    drive.write(header.sector(), &header.encode());
}

#[test]
fn heads_that_could_not_be_read_at_the_start_do_not_count_later() {
    for newest in [6, 7] {
        let (mut drive, new) = member();
        for sequence in [newest - 1, newest] {
            write(&mut drive, &Header { sequence, session: 3, ..new.clone() });
        }
        assert_eq!(head(&drive).map(|header| header.sequence), Ok(newest));
        let region = Region::behind(new.data.clone());
        let found = Candidate::read("drive", DRIVE_SECTORS, 512, &mut |start, count| match start == region.start_sector {
            true => Err(IoError::new(ErrorKind::Medium, "unreadable")),
            false => drive.read(start, count),
        });
        let checksums = found.found.expect("a member").checksums.expect("some were there");
        let opened = checksums.open(77).expect("it is of this version");
        let (sector, bytes) = opened.first.expect("it is written first");
        drive.write(sector, &bytes);
        assert_eq!(head(&drive), Ok(opened.header.clone()));
        assert_eq!((opened.header.epoch, opened.header.session), (77, 0));
        // The next head of this run lies in the other place, and counts from then on.
        write(&mut drive, &Header { sequence: opened.header.sequence + 1, session: 1, ..opened.header });
        assert_eq!(head(&drive).map(|header| (header.epoch, header.session)), Ok((77, 1)));
    }
}

#[test]
fn a_head_of_another_member_does_not_count_whatever_its_number() {
    for identity in [[[1; 16], [2; 16]], [[0; 16]; 2]] {
        let (mut drive, new) = member();
        let foreign = Header { sequence: 1, session: 9, identity, ..new.clone() };
        write(&mut drive, &foreign);
        assert_eq!(head(&drive), Ok(new.clone()));
        // Nothing shows that a region was this member's if the only valid head is another's.
        for damaged in [false, true] {
            let bytes = if damaged { [&new.encode()[..2048], &[0; 2048]].concat() } else { vec![0; 4096] };
            drive.write(new.sector(), &bytes);
            assert_eq!(drive.candidate().found.expect("a member").checksums, None, "damaged: {damaged}");
        }
    }
}
