//! What clients may see: durable linearizability, sector by sector.
//!
//! Every sector has the **versions** that it may hold. A write adds one when it begins. When it ends, it is the only one
//! that reads may see, but for writes that ran beside it; what it replaced may still come back after a power cut, until a
//! FUA write or a flush that began later makes that impossible (it is *dead*). What a read found while nobody wrote is
//! what all later reads find. This knows nothing of arrays and members.

use crate::chance::mix;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use stria_block::SECTOR_BYTES;

/// A moment in the order of events.
pub type Moment = u32;
const NEVER: Moment = Moment::MAX;

#[derive(Clone, Copy, Debug)]
struct Version {
    /// Which write; 0: zeros.
    write: u32,
    begun: Moment,
    ended: Moment,
    /// From here on reads do not see it.
    over: Moment,
    /// By a read that saw another, not by a write.
    by_read: bool,
    /// A write that came later ended then.
    replaced: Moment,
    /// It cannot come back after a power cut.
    dead: bool,
}

impl Version {
    fn zeros() -> Self {
        Self { write: 0, begun: 0, ended: 0, over: NEVER, by_read: false, replaced: NEVER, dead: false }
    }
}

#[derive(Clone, Debug)]
struct Sector {
    versions: SmallVec<[Version; 2]>,
    listed: bool,
}

/// A read that clients must not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lie {
    /// Where.
    pub sector: u64,
    /// Found, as the number of a write where it is one.
    pub found: Option<u32>,
    /// Allowed.
    pub allowed: Vec<u32>,
}

/// The whole array as clients know it.
pub struct Model {
    sectors: Vec<Sector>,
    now: Moment,
    /// Sectors with more than one version.
    loose: Vec<u32>,
    /// Reads that run began at these moments.
    reads: Vec<Moment>,
    /// When reads were forgotten last.
    forgotten: Moment,
}

/// The first word of what write `write` puts into a sector.
fn stamp(write: u32, sector: u64) -> u64 {
    if write == 0 { 0 } else { mix(u64::from(write) << 32 | sector) }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What write `write` puts into the sectors from `sector` on.
pub fn fill(write: u32, sector: u64, bytes: &mut [u8]) {
    for (index, bytes) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        let mut word = stamp(write, sector + index as u64);
        for out in bytes.chunks_exact_mut(8) {
            out.copy_from_slice(&word.to_le_bytes());
            word = if write == 0 { 0 } else { word.wrapping_add(STEP) };
        }
    }
}

/// Whether `bytes` are what `write` puts into `sector`.
fn holds(write: u32, sector: u64, bytes: &[u8]) -> bool {
    let first = stamp(write, sector);
    let step = if write == 0 { 0 } else { STEP };
    let mut word = first;
    let mut wrong = 0;
    for chunk in bytes.chunks_exact(8) {
        wrong |= u64::from_le_bytes(chunk.try_into().expect("eight bytes")) ^ word;
        word = word.wrapping_add(step);
    }
    wrong == 0
}

impl Model {
    /// All zeros.
    pub fn new(sectors: u64) -> Self {
        let sector = Sector { versions: smallvec![Version::zeros()], listed: false };
        Self { sectors: vec![sector; sectors as usize], now: 1, loose: Vec::new(), reads: Vec::new(), forgotten: 0 }
    }

    /// The size.
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// Something begins.
    pub fn begin(&mut self) -> Moment {
        self.tick()
    }

    /// A write begins.
    pub fn begin_write(&mut self, write: u32, range: Range<u64>) -> Moment {
        let begun = self.tick();
        for index in range {
            let sector = &mut self.sectors[index as usize];
            sector.versions.push(Version {
                write,
                begun,
                ended: NEVER,
                over: NEVER,
                by_read: false,
                replaced: NEVER,
                dead: false,
            });
            if !sector.listed {
                sector.listed = true;
                self.loose.push(index as u32);
            }
        }
        begun
    }

    /// A write has ended. Not `done`: it may or may not have happened, as with a discard.
    pub fn end_write(&mut self, write: u32, range: Range<u64>, begun: Moment, done: bool, fua: bool) {
        let now = self.tick();
        for index in range {
            let versions = &mut self.sectors[index as usize].versions;
            for version in versions.iter_mut() {
                if version.begun == begun && version.write == write {
                    version.ended = now;
                } else if done && version.ended < begun {
                    version.over = version.over.min(now);
                    version.replaced = version.replaced.min(now);
                    version.dead |= fua;
                }
            }
        }
    }

    /// A flush that began at `begun` has ended. `settled`: what reads found cannot be undone by a resync.
    pub fn end_flush(&mut self, begun: Moment, settled: bool) {
        self.tick();
        let oldest_read = self.reads.iter().copied().min().unwrap_or(NEVER);
        let sectors = &mut self.sectors;
        self.loose.retain(|&index| {
            let sector = &mut sectors[index as usize];
            for version in &mut sector.versions {
                version.dead |= version.replaced < begun || settled && version.over < begun;
            }
            sector.versions.retain(|version| !(version.dead && version.over < oldest_read));
            sector.listed = sector.versions.len() > 1;
            sector.listed
        });
    }

    /// A read begins.
    pub fn begin_read(&mut self) -> Moment {
        let begun = self.tick();
        self.reads.push(begun);
        begun
    }

    /// A read that began at `begun` has found `bytes` from `start` on.
    ///
    /// # Errors
    /// The first sector that holds what it must not.
    pub fn end_read(&mut self, begun: Moment, start: u64, bytes: Option<&[u8]>) -> Result<(), Lie> {
        let now = self.tick();
        let place = self.reads.iter().position(|&read| read == begun).expect("it began");
        self.reads.swap_remove(place);
        for (offset, bytes) in bytes.unwrap_or(&[]).chunks_exact(SECTOR_BYTES).enumerate() {
            let index = start + offset as u64;
            let versions = &mut self.sectors[index as usize].versions;
            let found = versions.iter().find(|version| version.over > begun && holds(version.write, index, bytes));
            let Some(found) = found.map(|version| version.write) else {
                let allowed = versions.iter().filter(|version| version.over > begun).map(|version| version.write).collect();
                let highest = self.sectors.iter().flat_map(|sector| &sector.versions).map(|version| version.write).max();
                let found = (0..=highest.unwrap_or(0) + 1).find(|&write| holds(write, index, bytes));
                return Err(Lie { sector: index, found, allowed });
            };
            let quiet = begun > self.forgotten
                && versions.len() > 1
                && versions.iter().all(|version| version.over != NEVER || version.ended < begun);
            if quiet {
                for version in versions.iter_mut().filter(|version| version.over == NEVER && version.write != found) {
                    (version.over, version.by_read) = (now, true);
                }
            }
        }
        Ok(())
    }

    /// Everything that ran is gone. `power_cut`: caches are lost too.
    pub fn crash(&mut self, power_cut: bool) {
        let now = self.tick();
        self.reads.clear();
        let sectors = &mut self.sectors;
        self.loose.retain(|&index| {
            let sector = &mut sectors[index as usize];
            sector.versions.retain(|version| !version.dead);
            for version in &mut sector.versions {
                version.ended = version.ended.min(now);
                if power_cut {
                    (version.over, version.by_read, version.replaced) = (NEVER, false, NEVER);
                }
            }
            sector.listed = sector.versions.len() > 1;
            sector.listed
        });
    }

    /// What reads have ruled out may be seen again: the copy that they saw is lost. Those that run may have seen it before.
    pub fn forget_reads(&mut self) {
        self.forgotten = self.tick();
        for &index in &self.loose {
            for version in self.sectors[index as usize].versions.iter_mut().filter(|version| version.by_read) {
                (version.over, version.by_read) = (version.replaced, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(model: &mut Model, write: u32) -> Result<(), Lie> {
        let mut bytes = vec![0; SECTOR_BYTES];
        fill(write, 3, &mut bytes);
        let begun = model.begin_read();
        model.end_read(begun, 3, Some(&bytes))
    }

    #[test]
    fn what_was_flushed_stays_and_what_was_not_may_go() {
        let mut model = Model::new(8);
        let first = model.begin_write(1, 2..5);
        model.end_write(1, 2..5, first, true, false);
        assert!(read(&mut model, 1).is_ok() && read(&mut model, 0).is_err(), "acknowledged writes are seen");
        let flush = model.begin();
        model.end_flush(flush, true);
        let second = model.begin_write(2, 3..4);
        model.end_write(2, 3..4, second, true, false);
        model.crash(true);
        let lie = read(&mut model, 0).expect_err("zeros are dead");
        assert_eq!((lie.sector, lie.found, lie.allowed), (3, Some(0), vec![1, 2]));
        read(&mut model, 1).expect("the unflushed write may be lost");
        read(&mut model, 2).expect_err("what was read once stays");
    }

    #[test]
    fn a_process_that_dies_takes_no_acknowledged_write_with_it() {
        let mut model = Model::new(8);
        let first = model.begin_write(1, 3..4);
        model.end_write(1, 3..4, first, true, false);
        model.begin_write(2, 3..4);
        model.crash(false);
        read(&mut model, 0).expect_err("acknowledged");
        read(&mut model, 2).expect("what ran may have arrived");
        read(&mut model, 1).expect_err("and then it stays");
    }

    #[test]
    fn writes_side_by_side_may_end_in_any_order() {
        let mut model = Model::new(8);
        let (first, second) = (model.begin_write(1, 3..4), model.begin_write(2, 3..4));
        model.end_write(2, 3..4, second, true, true);
        model.end_write(1, 3..4, first, true, false);
        let flush = model.begin();
        model.end_flush(flush, true);
        read(&mut model, 2).expect("either is right");
        read(&mut model, 0).expect_err("neither is this");
        read(&mut model, 1).expect_err("but only one of them");
    }
}
