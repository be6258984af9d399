//! The bug: the device flushes a drive before checksums count, and kept an error of that flush to itself. The kernel reports a
//! lost write once, so the next flush of the array succeeded, although the drive had lost what it was for.

use super::*;

fn world(seed: u64) -> World {
    let mut drive = Drive::new(None, seed);
    drive.1.volatile_cache = true;
    World::open(drive, seed)
}

impl World {
    fn write(&mut self) {
        let tag = self.change(3, 2);
        self.wait(tag).result.expect("it is taken");
    }

    fn flush(&mut self) -> Result<(), IoError> {
        let tag = self.submit(0, 0, Operation::Flush);
        self.wait(tag).result
    }

    /// Lets time pass until the device has flushed the drive by itself.
    fn flush_of_its_own_fails(&mut self) {
        self.drive.0.borrow_mut().fails_flush = true;
        while self.drive.0.borrow().fails_flush || !self.drive.0.borrow().to_tell.is_empty() {
            self.step();
        }
    }
}

#[test]
fn a_flush_of_its_own_that_fails_is_told_to_the_next_one_from_above() {
    for has_flushed_first in [false, true] {
        let mut world = world(1);
        world.write();
        if has_flushed_first {
            (0..1000).for_each(|_| world.step());
            world.write();
        }
        world.flush_of_its_own_fails();
        world.flush().expect_err("what was written may be lost");
        world.flush().expect("that was told");
        world.write();
        (0..1000).for_each(|_| world.step());
        world.flush().expect("nothing has failed since");
    }
}

/// The drive has lost a page of checksums with that flush, and the one before lies there. It must not count.
#[test]
fn checksums_that_a_failed_flush_may_have_lost_do_not_count() {
    for is_own in [true, false] {
        let mut world = world(1);
        world.write();
        (0..1000).for_each(|_| world.step());
        let pages = bytes(Region::behind(DATA).start_sector + HEADERS_SECTORS)..;
        let before = world.drive.memory()[pages.clone()].to_vec();
        world.write();
        if is_own {
            world.flush_of_its_own_fails();
        } else {
            let saved = |world: &World| world.drive.memory()[pages.clone()] != before[..];
            while !saved(&world) {
                world.step();
            }
            world.drive.0.borrow_mut().fails_flush = true;
            world.flush().expect_err("the cache is lost");
        }
        world.drive.0.borrow_mut().ram.memory_mut()[pages.clone()].copy_from_slice(&before);
        (0..1000).for_each(|_| world.step());
        world.device.close();
        while world.device.closed().is_none() {
            world.step();
        }
        let mut world = World::open(Drive::new(Some(&world.drive.memory()), 1), 1);
        assert_eq!(world.refused(0..10), [], "of its own: {is_own}");
    }
}
