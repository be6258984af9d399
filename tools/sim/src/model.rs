//! A model of the data that clients may see: durable linearizability, sector by sector.
//!
//! Every sector has a set of possible **versions**. A write adds one when it begins. Once the write ends, reads may see only its
//! version and those of writes that ran beside it. The version that it replaced may still return after a power cut, until a FUA
//! write or a flush that began later makes that impossible (it is *dead*). If a read found a version while no write was in
//! flight, all later reads see it. After a flush that began later, power cuts and lost members do not change that either.
//!
//! Large writes to parity stripes may be **torn** by a crash: their sectors are old or new as long as all members are present,
//! but if a member is lost before the sector is read, the sector may have any content. The first read decides the content for
//! good.
//!
//! The model knows nothing of arrays and members.

use crate::chance::mix;
use crate::hostile_client::Contents;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use stria_block::SECTOR_BYTES;

/// A moment in the order of events.
pub type Moment = u32;
const NEVER: Moment = Moment::MAX;

#[derive(Clone, Copy, Debug)]
struct Version {
    /// The number of the write; 0: zeros. Or [`ANYTHING`], or one of [`Model::found`].
    write: u32,
    /// True if a crash may tear it.
    large: bool,
    begun: Moment,
    ended: Moment,
    /// The moment from which reads do not see it.
    over: Moment,
    /// The moment at which a later write ended.
    replaced: Moment,
    /// True if it cannot return after a power cut.
    dead: bool,
}

impl Version {
    fn zeros() -> Self {
        Self { write: 0, large: false, begun: 0, ended: 0, over: NEVER, replaced: NEVER, dead: false }
    }
}

/// The number of a write whose outcome is unknown.
const ANYTHING: u32 = u32::MAX;
/// Numbers from here on stand for bytes that reads have found where the outcome was unknown.
const FOUND: u32 = 1 << 31;

#[derive(Clone, Debug)]
struct Sector {
    versions: SmallVec<[Version; 2]>,
    listed: bool,
    /// True if a crash may have torn it: it may have any content if a member is lost now.
    torn: bool,
    /// The moment at which a write failed, if none that began later has succeeded: a crash may turn old into new, or the reverse.
    undecided: Option<Moment>,
    /// True if it was written by a request that was acknowledged while some write was not in place yet: a log that is lost may
    /// have had the only copy.
    behind: bool,
}

impl Sector {
    /// True if a client knows its content.
    fn holds_something(&self) -> bool {
        !self.versions.iter().any(|version| version.write == ANYTHING && version.over == NEVER)
    }
}

/// A read with a forbidden result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lie {
    /// The position.
    pub sector: u64,
    /// The bytes that were found, by the number of their write if there is one.
    pub found: Option<u32>,
    /// The versions that are allowed.
    pub allowed: Vec<u32>,
}

/// The entire array as clients know it.
pub struct Model {
    sectors: Vec<Sector>,
    now: Moment,
    /// Sectors with more than one version.
    loose: Vec<u32>,
    /// The moments at which reads began that are under way.
    reads: Vec<Moment>,
    /// Checksums of bytes that reads have found and no client wrote.
    found: Vec<u64>,
    /// Some sector may be in the log alone.
    has_behind: bool,
    /// The contents of writes that are not the usual ones, by sector.
    pub contents: Contents,
    /// The sectors, and those with more than one version, before reads whose results need not stay.
    before_reads: Option<(Vec<Sector>, Vec<u32>)>,
}

/// The first word of what write `write` puts into a sector.
fn stamp(write: u32, sector: u64) -> u64 {
    if write == 0 { 0 } else { mix(u64::from(write) << 32 | sector) }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The contents that write `write` puts into the sectors from `sector` on.
pub fn fill(write: u32, sector: u64, bytes: &mut [u8]) {
    for (index, bytes) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        let mut word = stamp(write, sector + index as u64);
        for out in bytes.chunks_exact_mut(8) {
            out.copy_from_slice(&word.to_le_bytes());
            word = if write == 0 { 0 } else { word.wrapping_add(STEP) };
        }
    }
}

/// True if `bytes` are what `write` puts into `sector`: the usual bytes, or those noted in `contents`.
fn holds(contents: &Contents, write: u32, sector: u64, bytes: &[u8]) -> bool {
    if let Some(noted) = contents.get(&(write, sector)) {
        return noted == bytes;
    }
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

/// True if `bytes` are those of a version of `sector`. `found`: checksums of bytes that reads have found.
fn known(contents: &Contents, found: &[u64], version: &Version, sector: u64, bytes: &[u8]) -> bool {
    match version.write.checked_sub(FOUND) {
        None => holds(contents, version.write, sector, bytes),
        Some(place) => found.get(place as usize).is_some_and(|sum| *sum == sum_of(bytes)),
    }
}

/// A checksum that distinguishes bytes which no client wrote.
fn sum_of(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(0, |sum, word| mix(sum ^ u64::from_le_bytes(word.try_into().expect("eight bytes"))))
}

impl Model {
    /// An array of zeros.
    pub fn new(sectors: u64) -> Self {
        let versions = smallvec![Version::zeros()];
        let sector = Sector { versions, listed: false, torn: false, undecided: None, behind: false };
        Self {
            sectors: vec![sector; sectors as usize],
            now: 1,
            loose: Vec::new(),
            reads: Vec::new(),
            found: Vec::new(),
            has_behind: false,
            before_reads: None,
            contents: Contents::new(),
        }
    }

    fn list(&mut self, index: u64) {
        let sector = &mut self.sectors[index as usize];
        if !std::mem::replace(&mut sector.listed, true) {
            self.loose.push(index as u32);
        }
    }

    /// The size.
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// Counts a moment.
    pub fn begin(&mut self) -> Moment {
        self.tick()
    }

    /// A write begins. `large`: a crash may tear it.
    pub fn begin_write(&mut self, write: u32, range: Range<u64>, large: bool) -> Moment {
        let begun = self.tick();
        for index in range {
            let version = Version { write, large, begun, ended: NEVER, over: NEVER, replaced: NEVER, dead: false };
            self.sectors[index as usize].versions.push(version);
            self.list(index);
        }
        begun
    }

    /// A write has ended, or a discard, which is a write of zeros.
    pub fn end_write(&mut self, write: u32, range: Range<u64>, begun: Moment, fua: bool) {
        let now = self.tick();
        for index in range {
            let sector = &mut self.sectors[index as usize];
            sector.torn = false;
            sector.undecided = sector.undecided.filter(|&failed| failed > begun);
            let versions = &mut sector.versions;
            for version in versions.iter_mut() {
                if version.begun == begun && version.write == write {
                    version.ended = now;
                } else if version.ended < begun {
                    version.over = version.over.min(now);
                    version.replaced = version.replaced.min(now);
                    version.dead |= fua;
                }
            }
        }
    }

    /// A write has failed: each of its sectors is old or new. The next read decides, until a crash.
    pub fn fail_write(&mut self, write: u32, range: Range<u64>, begun: Moment) {
        let now = self.tick();
        for index in range {
            let sector = &mut self.sectors[index as usize];
            sector.undecided = Some(now);
            let versions = sector.versions.iter_mut();
            versions.filter(|version| version.begun == begun && version.write == write).for_each(|version| version.ended = now);
        }
    }

    /// A flush that began at `begun` has ended.
    pub fn end_flush(&mut self, begun: Moment) {
        self.tick();
        let oldest_read = self.reads.iter().copied().min().unwrap_or(NEVER);
        let sectors = &mut self.sectors;
        self.loose.retain(|&index| {
            let sector = &mut sectors[index as usize];
            for version in &mut sector.versions {
                version.dead |= version.replaced < begun || version.over < begun && sector.undecided.is_none();
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
    /// The first sector with forbidden content.
    pub fn end_read(&mut self, begun: Moment, start: u64, bytes: Option<&[u8]>) -> Result<(), Lie> {
        let now = self.tick();
        self.end_of_read(begun);
        self.found(now, begun, start, bytes)
    }

    /// A request for extents that began at `begun` has found holes, which clients take for zeros.
    ///
    /// # Errors
    /// The first sector that may not be zeros.
    pub fn end_extents(&mut self, begun: Moment, holes: &[Range<u64>]) -> Result<(), Lie> {
        let now = self.tick();
        self.end_of_read(begun);
        holes.iter().try_for_each(|hole| {
            let zeros = vec![0; (hole.end - hole.start) as usize * SECTOR_BYTES];
            self.found(now, begun, hole.start, Some(&zeros))
        })
    }

    /// A read that began at `begun` has failed.
    pub fn fail_read(&mut self, begun: Moment) {
        self.tick();
        self.end_of_read(begun);
    }

    fn end_of_read(&mut self, begun: Moment) {
        let place = self.reads.iter().position(|&read| read == begun).expect("it began");
        self.reads.swap_remove(place);
    }

    /// These bytes were found from `start` on.
    fn found(&mut self, now: Moment, begun: Moment, start: u64, bytes: Option<&[u8]>) -> Result<(), Lie> {
        let holds = |write: u32, sector: u64, bytes: &[u8]| holds(&self.contents, write, sector, bytes);
        for (offset, bytes) in bytes.unwrap_or(&[]).chunks_exact(SECTOR_BYTES).enumerate() {
            let index = start + offset as u64;
            let sector = &mut self.sectors[index as usize];
            let allowed = |version: &&Version| version.over > begun;
            let found = sector
                .versions
                .iter()
                .filter(allowed)
                .find(|version: &&Version| known(&self.contents, &self.found, version, index, bytes));
            let anything = sector.versions.iter().filter(allowed).any(|version| version.write == ANYTHING);
            let found = match found.map(|version| version.write) {
                Some(write) => write,
                None if anything => ANYTHING,
                None => {
                    let allowed = sector.versions.iter().filter(allowed).map(|version| version.write).collect();
                    let written = |version: &Version| Some(version.write).filter(|&write| write < FOUND);
                    let highest = self.sectors.iter().flat_map(|sector| &sector.versions).filter_map(written).max();
                    let found = (0..=highest.unwrap_or(0) + 1).find(|&write| holds(write, index, bytes));
                    return Err(Lie { sector: index, found, allowed });
                }
            };
            let quiet = sector.versions.iter().all(|version| version.over != NEVER || version.ended < begun);
            // A read that began before a write failed may find what a later read has ruled out.
            let same = |version: &Version| version.write == found || known(&self.contents, &self.found, version, index, bytes);
            let decides = quiet && sector.versions.iter().any(|version| version.over == NEVER && same(version));
            if !decides {
                continue;
            }
            sector.torn = false;
            // Clients write the same superblock more than once, and such versions cannot be distinguished.
            let (contents, sums) = (&self.contents, &self.found);
            let differs = |version: &&mut Version| {
                version.over == NEVER && version.write != found && !known(contents, sums, version, index, bytes)
            };
            for version in sector.versions.iter_mut().filter(differs) {
                version.over = now;
            }
            if found == ANYTHING
                && let Some(version) =
                    sector.versions.iter_mut().find(|version| version.write == ANYTHING && version.over == NEVER)
            {
                version.write = FOUND + self.found.len() as u32;
                self.found.push(sum_of(bytes));
            }
        }
        Ok(())
    }

    /// What the requests that have ended in this range wrote may be in the log alone.
    pub fn note_behind(&mut self, range: Range<u64>) {
        for index in range {
            self.sectors[index as usize].behind = true;
            self.list(index);
        }
        self.has_behind = true;
    }

    /// All that was acknowledged is in place.
    pub fn is_in_place(&mut self) {
        if std::mem::take(&mut self.has_behind) {
            self.sectors.iter_mut().for_each(|sector| sector.behind = false);
        }
    }

    /// True if something may be in the log alone.
    pub fn has_behind(&self) -> bool {
        self.has_behind
    }

    /// All requests in flight are gone. `power_cut`: caches are lost too. `takes_log`: a log is lost.
    pub fn crash(&mut self, power_cut: bool, takes_log: bool) {
        let now = self.tick();
        self.reads.clear();
        let sectors = &mut self.sectors;
        self.loose.retain(|&index| {
            let sector = &mut sectors[index as usize];
            sector.versions.retain(|version| !version.dead);
            let several = sector.versions.len() > 1;
            let power_cut = power_cut || takes_log && sector.behind;
            sector.torn |=
                several && sector.versions.iter().any(|version| version.large && (power_cut || version.ended == NEVER));
            for version in &mut sector.versions {
                version.ended = version.ended.min(now);
                if power_cut || sector.undecided.is_some() && version.replaced == NEVER {
                    (version.over, version.replaced) = (NEVER, NEVER);
                }
            }
            sector.listed = several;
            sector.listed
        });
    }

    /// What clients read from now on need not stay if a member fails before [`Model::keep_what_was_read`]. They write nothing.
    pub fn begin_passing_reads(&mut self) {
        self.before_reads = Some((self.sectors.clone(), self.loose.clone()));
    }

    /// What clients have read stays.
    pub fn keep_what_was_read(&mut self) {
        self.before_reads = None;
    }

    /// A member has failed.
    pub fn forget_passing_reads(&mut self) {
        if let Some(before) = self.before_reads.take() {
            (self.sectors, self.loose) = before;
        }
    }

    /// A member is lost, now or with the crash: sectors that may be torn may have any content.
    pub fn lose_member(&mut self) {
        let now = self.tick();
        for &index in &self.loose {
            let sector = &mut self.sectors[index as usize];
            if std::mem::take(&mut sector.torn) && sector.holds_something() {
                let anything = Version { write: ANYTHING, begun: now, ended: now, ..Version::zeros() };
                sector.versions.push(anything);
            }
        }
    }

    /// Redundancy is consistent everywhere and all members are present: torn sectors are old or new.
    pub fn agrees(&mut self) {
        for &index in &self.loose {
            self.sectors[index as usize].torn = false;
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
        let first = model.begin_write(1, 2..5, false);
        model.end_write(1, 2..5, first, false);
        assert!(read(&mut model, 1).is_ok() && read(&mut model, 0).is_err(), "acknowledged writes are seen");
        let flush = model.begin();
        model.end_flush(flush);
        let second = model.begin_write(2, 3..4, false);
        model.end_write(2, 3..4, second, false);
        model.crash(true, false);
        let lie = read(&mut model, 0).expect_err("zeros are dead");
        assert_eq!((lie.sector, lie.found, lie.allowed), (3, Some(0), vec![1, 2]));
        read(&mut model, 1).expect("the unflushed write may be lost");
        read(&mut model, 2).expect_err("what was read once stays");
    }

    #[test]
    fn a_process_that_dies_takes_no_acknowledged_write_with_it() {
        let mut model = Model::new(8);
        let first = model.begin_write(1, 3..4, false);
        model.end_write(1, 3..4, first, false);
        model.begin_write(2, 3..4, false);
        model.crash(false, false);
        read(&mut model, 0).expect_err("acknowledged");
        read(&mut model, 2).expect("what ran may have arrived");
        read(&mut model, 1).expect_err("and then it stays");
    }

    #[test]
    fn writes_side_by_side_may_end_in_any_order() {
        let mut model = Model::new(8);
        let (first, second) = (model.begin_write(1, 3..4, false), model.begin_write(2, 3..4, false));
        model.end_write(2, 3..4, second, true);
        model.end_write(1, 3..4, first, false);
        let flush = model.begin();
        model.end_flush(flush);
        read(&mut model, 2).expect("either is right");
        read(&mut model, 0).expect_err("neither is this");
        read(&mut model, 1).expect_err("but only one of them");
    }

    #[test]
    fn a_write_that_failed_may_come_back_until_a_later_one_has_ended() {
        let mut model = Model::new(8);
        let (first, second) = (model.begin_write(1, 3..4, false), model.begin_write(2, 3..4, false));
        model.fail_write(2, 3..4, second);
        model.end_write(1, 3..4, first, false);
        read(&mut model, 1).expect("the other one failed");
        let flush = model.begin();
        model.end_flush(flush);
        model.crash(false, false);
        read(&mut model, 2).expect("the log still has it");
        let third = model.begin_write(3, 3..4, false);
        model.end_write(3, 3..4, third, false);
        read(&mut model, 3).expect("it began after the failure");
        let flush = model.begin();
        model.end_flush(flush);
        model.crash(true, false);
        read(&mut model, 2).expect_err("a later write has ended");
    }

    /// The read began beside the write, and ended last.
    #[test]
    fn a_read_beside_a_failed_write_rules_nothing_out_that_a_later_read_has_found() {
        let mut model = Model::new(8);
        let early = model.begin_read();
        let begun = model.begin_write(1, 3..4, false);
        model.fail_write(1, 3..4, begun);
        read(&mut model, 0).expect("it may be old");
        let mut bytes = [0; SECTOR_BYTES];
        fill(1, 3, &mut bytes);
        model.end_read(early, 3, Some(&bytes)).expect("it was new for a while");
        read(&mut model, 0).expect("it stays old");
        assert!(read(&mut model, 1).is_err(), "it does not become new again");
    }

    #[test]
    fn writes_of_the_same_bytes_cannot_be_told_apart() {
        let mut model = Model::new(8);
        for write in 1..=2 {
            model.contents.insert((write, 3), vec![0; SECTOR_BYTES]);
        }
        let (first, second) = (model.begin_write(1, 3..4, false), model.begin_write(2, 3..4, false));
        model.end_write(2, 3..4, second, false);
        let third = model.begin_write(0, 3..4, false);
        model.end_write(1, 3..4, first, false);
        let read_beside = model.begin_read();
        model.end_write(0, 3..4, third, false);
        read(&mut model, 0).expect("zeros, of the second or the third write");
        model.end_read(read_beside, 3, Some(&[0; SECTOR_BYTES])).expect("zeros, of the first write or others");
        read(&mut model, 0).expect("they stay");
        read(&mut model, 1).expect_err("nothing else is there");
    }

    #[test]
    fn a_large_write_torn_by_a_crash_holds_anything_where_a_member_is_lost_until_it_is_read() {
        let torn = || {
            let mut model = Model::new(8);
            model.begin_write(1, 3..4, true);
            model.crash(false, false);
            model
        };
        read(&mut torn(), 7).expect_err("all members are there");
        let mut model = torn();
        read(&mut model, 0).expect("old");
        model.lose_member();
        read(&mut model, 1).expect_err("it was read");
        let mut model = torn();
        model.agrees();
        model.lose_member();
        read(&mut model, 7).expect_err("all was made to agree before");
        let mut model = torn();
        model.lose_member();
        read(&mut model, 7).expect("anything");
        read(&mut model, 8).expect_err("but always the same");
        let flush = model.begin();
        model.end_flush(flush);
        model.crash(true, false);
        model.lose_member();
        read(&mut model, 0).expect_err("and power changes nothing of that");
        read(&mut model, 7).expect("it is still there");
        let second = model.begin_write(2, 3..4, false);
        model.end_write(2, 3..4, second, true);
        read(&mut model, 7).expect_err("it was overwritten");
    }
}
