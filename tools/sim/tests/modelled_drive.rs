//! What the model of a drive does, apart from any array.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use stria_block::{BlockDevice, Buffer, ErrorKind, Operation, Request, bytes};
use stria_sim::chance::Chance;
use stria_sim::drive::{Drive, DriveHandle, Keep, Model};
use stria_sim::power::Power;

const BAD: Range<u64> = 8..16;

/// A drive of which some sectors cannot be read.
struct Spoiled {
    power: Rc<Power>,
    drive: Rc<RefCell<Drive>>,
    handle: DriveHandle,
}

impl Spoiled {
    fn new(volatile_cache: bool, is_harsh: bool) -> Self {
        let model = Model { sectors: 64, block_sectors: 1, atom_sectors: 1, volatile_cache, unmap: false, slowness: 1 };
        let power = Rc::new(Power::default());
        let mut drive = Drive::new(model, Rc::clone(&power), Chance::new(1, 1));
        drive.spoil(BAD);
        if is_harsh {
            drive.set_harsh();
        }
        let drive = Rc::new(RefCell::new(drive));
        let handle = DriveHandle::new(&drive, 0);
        Self { power, drive, handle }
    }

    fn ask(&mut self, range: Range<u64>, operation: Operation) -> Result<(), ErrorKind> {
        self.handle.submit(Request { tag: 1, start_sector: range.start, sectors: range.end - range.start, operation });
        self.power.set_now(self.power.now() + 1_000_000_000);
        let mut ended = Vec::new();
        self.handle.poll(self.power.now(), &mut ended);
        ended.pop().expect("it has ended").result.map_err(|error| error.kind)
    }

    fn write(&mut self, range: Range<u64>, fua: bool) {
        let from = std::iter::once(Buffer::zeroed(bytes(range.end - range.start)).freeze()).collect();
        self.ask(range, Operation::Write { from, fua }).expect("it can be written");
    }

    fn read(&mut self, range: Range<u64>) -> Result<(), ErrorKind> {
        let into = std::iter::once(Buffer::zeroed(bytes(range.end - range.start))).collect();
        self.ask(range, Operation::Read { into })
    }

    fn cut(&self, keep: Keep) {
        self.drive.borrow_mut().cut(keep);
    }
}

/// The write that healed the sectors was lost with the cache, and the drive read what they had held before, without an error.
#[test]
fn a_sector_stays_unreadable_until_a_write_to_it_is_durable() {
    for is_harsh in [false, true] {
        let mut drive = Spoiled::new(true, is_harsh);
        drive.read(BAD).expect_err("they are bad");
        drive.write(8..12, false);
        drive.read(8..12).expect("the cache has them");
        drive.read(12..16).expect_err("they were not written");
        assert!(drive.drive.borrow().is_spoiled());
        drive.cut(Keep::None);
        drive.read(8..12).expect_err("what was written is lost");

        drive.write(8..12, false);
        drive.ask(0..0, Operation::Flush).expect("it flushes");
        drive.write(12..14, true);
        drive.write(14..15, false);
        drive.cut(Keep::None);
        drive.read(8..14).expect("they were written durably");
        drive.read(14..16).expect_err("and these not");
        drive.write(14..16, false);
        drive.cut(Keep::All);
        drive.read(BAD).expect("the power cut has kept them");
        assert!(!drive.drive.borrow().is_spoiled());
    }
}

#[test]
fn a_drive_without_a_cache_is_healed_by_a_write_at_once() {
    let mut drive = Spoiled::new(false, false);
    drive.write(BAD, false);
    assert!(!drive.drive.borrow().is_spoiled());
    drive.cut(Keep::None);
    drive.read(BAD).expect("they were written");
}
