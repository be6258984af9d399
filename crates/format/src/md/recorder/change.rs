//! Changes of the metadata of an array that does not run: its bitmap, write log or checksums are added or taken away.
//!
//! A change is a list of steps. Each is durable on every member before the next begins (R45). A crash after any part of a step
//! leaves an array that starts with all its members, with the old metadata or the new. The same change, given again, completes
//! it. The first step of each writes the last update of the array again to members that missed it (R60): they would miss two
//! otherwise.
//!
//! | change | steps |
//! | --- | --- |
//! | bitmap added | the bitmap's pages; superblocks that name it, with one more event: of members in sync, of those being filled, of spares |
//! | bitmap taken away | superblocks that name none, with one more event, in the same order |
//! | log taken away | heads that say so; one such head counts for all members |
//! | log added | no heads; the first write of the next run begins a session |
//! | checksums added | their heads, which know nothing; superblocks that end the data before them |
//! | checksums taken away | no heads |

use super::{MdRecorder, MemberMetadata};
use crate::md::bitmap::{Bitmap, choose_chunk_bytes};
use crate::md::checksums::{WITNESSED, new_region, region_of};
use crate::md::create::{BitmapChoice, LogChoice};
use crate::md::log::{LogSpace, Session, encode_head};
use crate::md::member::Candidate;
use crate::md::superblock::{Role, Superblock, feature};
use stria_array::{DriveSector, MemberId, MetadataWrite};
use stria_block::{Buffer, bytes};
use stria_integrity::{BLOCK_SECTORS, HEADERS_SECTORS};

/// The change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The write-intent bitmap is added or taken away.
    Bitmap(BitmapChoice),
    /// The write log is added or taken away.
    Log(LogChoice),
    /// Checksums are added or taken away.
    Checksums(bool),
}

/// 4 KiB: the unit of metadata positions.
const BLOCK: u64 = 8;

fn write(member: MemberId, start_sector: u64, bytes: &[u8]) -> MetadataWrite {
    MetadataWrite { member, start_sector: DriveSector::new(start_sector), data: Buffer::copy_of(bytes).freeze() }
}

fn has_checksums(candidate: &Candidate) -> bool {
    candidate.found.as_ref().is_ok_and(|found| found.checksums.is_some())
}

/// The first sector behind superblock and bad-block log, from the superblock.
fn free_from(superblock: &Superblock) -> u64 {
    let header = &superblock.header;
    let bad_blocks = u64::try_from(header.bblog_offset).unwrap_or(0) + u64::from(header.bblog_size);
    bad_blocks.max(BLOCK).next_multiple_of(BLOCK)
}

const NOT_CLEAN: &str =
    "it was not stopped cleanly, or its first resync has not ended: serve it until the resync has ended, and stop it";
const NOT_HERE: &str = "a member that took part when it last ran is not here: attach it, or start the array once without it";
const MISSED_ITS_SLOT: &str =
    "a spare was about to take a slot when the array last ran, and does not know it: start the array, and stop it";

impl MdRecorder {
    /// The steps of a change: the writes of each may be done in any order. No steps: the array is as wanted already. `runs`: the
    /// array is being served, and the steps are not taken; they only show that the change would be possible. `candidate`: what
    /// was found on a member's drive.
    ///
    /// # Errors
    /// The reason why it is impossible, and the remedy.
    pub fn change<'a>(
        &self,
        change: Change,
        runs: bool,
        candidate: &dyn Fn(MemberId) -> &'a Candidate,
    ) -> Result<Vec<Vec<MetadataWrite>>, String> {
        if !self.redundant {
            return Err("it has no redundancy: a bitmap and a write log would protect nothing, and its data takes all of each drive, so that \
                        there is no space for checksums"
                .into());
        }
        if self.common.minor_version() == 0 {
            return Err("its metadata is of version 1.0, which Stria serves but does not change: use mdadm".into());
        }
        if !runs && !self.common.clean() {
            return Err(NOT_CLEAN.into());
        }
        self.all_are_here()?;
        if runs {
            return self.steps(change, candidate);
        }
        let mut settled = self.clone();
        let is_behind = !settled.one_event_behind.is_empty();
        let mut steps = vec![if is_behind { settled.rewrite_superblocks() } else { Vec::new() }];
        let is_wanted_already = settled.steps(change, candidate)?.is_empty();
        if !is_wanted_already {
            // With one more event, if a slot is empty.
            steps.push(settled.rewrite_superblocks());
        }
        // A change that a crash cut short after it had come to one member ends with these.
        steps.push(settled.rewrite_spares());
        steps.extend(settled.steps(change, candidate)?);
        steps.retain(|writes| !writes.is_empty());
        Ok(steps)
    }

    /// Checks whether metadata of an array that does not run may be written: every member that took part when it last ran is
    /// here, and knows it.
    ///
    /// # Errors
    /// The reason why not, and the remedy.
    pub fn check_whole(&self) -> Result<(), String> {
        self.all_are_here()?;
        if self.common.clean() { Ok(()) } else { Err(NOT_CLEAN.into()) }
    }

    fn all_are_here(&self) -> Result<(), String> {
        for (number, _) in self.common.roles.iter().enumerate().filter(|(_, role)| matches!(role, Role::Slot(_))) {
            let mut superblocks = self.keepers.values().map(|keeper| &keeper.superblock);
            match superblocks.find(|superblock| superblock.header.dev_number as usize == number) {
                None => return Err(NOT_HERE.into()),
                Some(superblock) if !matches!(superblock.role(), Role::Slot(_)) => return Err(MISSED_ITS_SLOT.into()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The steps of the change alone.
    fn steps<'a>(
        &self,
        change: Change,
        candidate: &dyn Fn(MemberId) -> &'a Candidate,
    ) -> Result<Vec<Vec<MetadataWrite>>, String> {
        match change {
            Change::Bitmap(BitmapChoice::Internal { chunk_bytes }) => self.add_bitmap(chunk_bytes),
            Change::Bitmap(BitmapChoice::None) => self.drop_bitmap(),
            Change::Log(choice) => self.change_log(choice == LogChoice::None, candidate),
            Change::Checksums(true) => self.add_checksums(candidate),
            Change::Checksums(false) => Ok(self.drop_checksums(candidate)),
        }
    }

    /// Superblocks with one more event, changed by `alter`.
    fn altered(&self, alter: impl Fn(&mut Superblock)) -> Vec<(MemberId, MemberMetadata)> {
        let events = self.common.header.events + 1;
        let alter = |(&member, keeper): (&MemberId, &MemberMetadata)| {
            let mut keeper = keeper.clone();
            keeper.superblock.header.events = events;
            alter(&mut keeper.superblock);
            (member, keeper)
        };
        self.keepers.iter().map(alter).collect()
    }

    /// The last update again for spares that missed it (R60).
    fn rewrite_spares(&mut self) -> Vec<MetadataWrite> {
        let truth = &self.common;
        let is_spare = |superblock: &Superblock| {
            let role = truth.roles.get(superblock.header.dev_number as usize);
            superblock.role() == Role::Spare && role.is_none_or(|role| *role == Role::Spare)
        };
        let missed = |superblock: &Superblock| superblock.header.events < truth.header.events && is_spare(superblock);
        let spares = self.keepers.iter_mut().filter(|(_, keeper)| missed(&keeper.superblock));
        let rewritten = spares.map(|(&member, keeper)| {
            keeper.superblock.follow(truth);
            keeper.superblock_write(member)
        });
        rewritten.collect()
    }

    /// Three steps (R61): the members in sync, whose bitmaps count; those that are being filled; the spares, whose superblocks
    /// must not be ahead of all members'.
    fn superblock_steps(altered: &[(MemberId, MemberMetadata)]) -> Vec<Vec<MetadataWrite>> {
        let (spares, members): (Vec<_>, Vec<_>) =
            altered.iter().partition(|(_, keeper)| !matches!(keeper.superblock.role(), Role::Slot(_)));
        let (in_sync, filled): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, keeper)| keeper.superblock.is_in_sync());
        let writes = |some: Vec<&(MemberId, MemberMetadata)>| {
            some.iter().map(|(member, keeper)| keeper.superblock_write(*member)).collect()
        };
        [in_sync, filled, spares].map(writes).into()
    }

    /// A bitmap without bits: redundancy is consistent, and `events_cleared` keeps members out that left before.
    fn add_bitmap(&self, chunk_bytes: Option<u32>) -> Result<Vec<Vec<MetadataWrite>>, String> {
        if self.common.ppl().is_some() {
            return Err("it has md's partial parity log, which takes the place of a bitmap".into());
        }
        let (sync_sectors, header) = (self.geometry().sync_sectors(), &self.common.header);
        let chunk_bytes = match (&self.bitmap, chunk_bytes) {
            (Some(_), None) => return Ok(Vec::new()),
            (Some(bitmap), Some(asked)) if bitmap.header.chunksize == asked => return Ok(Vec::new()),
            (Some(_), Some(_)) => {
                return Err("its bitmap has chunks of another size: take it away first, then add it anew".into());
            }
            (None, asked) => choose_chunk_bytes(asked, header.size, sync_sectors).map_err(|error| error.to_string())?,
        };
        let mut bitmap = Bitmap::new(header.set_uuid, sync_sectors, chunk_bytes);
        bitmap.fill(false);
        bitmap.header.events = header.events + 1;
        bitmap.header.events_cleared = header.events + 1;
        let offset = self.keepers.values().map(|keeper| free_from(&keeper.superblock)).max().unwrap_or(BLOCK);
        let bitmap_offset =
            i32::try_from(offset).map_err(|_| "the bad-block log of a member lies too far behind its superblock")?;
        let altered = self.altered(|superblock| {
            superblock.header.bitmap_offset = bitmap_offset;
            superblock.header.feature_map |= feature::BITMAP_OFFSET;
        });
        let had_log = self.append_sectors_max().is_some();
        for (_, keeper) in &altered {
            let (header, name) = (&keeper.superblock.header, &keeper.name);
            let end = header.super_offset + offset + bitmap.size_sectors().next_multiple_of(BLOCK);
            if end > header.data_offset || had_log && LogSpace::of(&keeper.superblock, bitmap.size_sectors()).is_none() {
                return Err(format!(
                    "{name} has too little space for a bitmap between its superblock and its data; choose larger chunks"
                ));
            }
        }
        let with_bitmap = Self { keepers: altered.iter().cloned().collect(), ..self.clone() };
        let locations: Vec<_> = altered.iter().filter_map(|(member, _)| with_bitmap.bitmap_location(*member)).collect();
        let pages = Self::bitmap_writes(&bitmap, self.page_bytes, 0..bitmap.page_count(self.page_bytes), locations.into_iter());
        Ok(std::iter::once(pages).chain(Self::superblock_steps(&altered)).collect())
    }

    fn drop_bitmap(&self) -> Result<Vec<Vec<MetadataWrite>>, String> {
        if self.bitmap.is_none() {
            return Ok(Vec::new());
        }
        let has_in_sync = |slot: u32| {
            let is_in_sync = |superblock: &Superblock| superblock.role() == Role::Slot(slot as u16) && superblock.is_in_sync();
            self.keepers.values().any(|keeper| is_in_sync(&keeper.superblock))
        };
        if !(0..self.common.header.raid_disks).all(has_in_sync) {
            return Err("a slot lacks its member, and the bitmap records what that member misses: bring the array back to full redundancy first".into());
        }
        let altered = self.altered(|superblock| {
            superblock.header.bitmap_offset = 0;
            superblock.header.feature_map &= !feature::BITMAP_OFFSET;
        });
        Ok(Self::superblock_steps(&altered))
    }

    fn has_parity(&self) -> Result<(), String> {
        match (self.common.header.level, self.common.ppl()) {
            (4..=6, None) => Ok(()),
            (4..=6, Some(_)) => {
                Err("it has md's partial parity log: `mdadm --grow --consistency-policy=resync` takes that away".into())
            }
            _ => Err("a write log is for parity levels; copies need none".into()),
        }
    }

    /// `off`: heads that say so where there are none. Otherwise such heads go.
    fn change_log<'a>(
        &self,
        off: bool,
        candidate: &dyn Fn(MemberId) -> &'a Candidate,
    ) -> Result<Vec<Vec<MetadataWrite>>, String> {
        self.has_parity()?;
        let mut heads = Vec::new();
        for (&member, keeper) in &self.keepers {
            let Some(location) = self.log_space(&keeper.superblock).and_then(|space| space.cut(1)) else {
                let name = &keeper.name;
                return if off {
                    Ok(Vec::new())
                } else {
                    Err(format!("{name} has too little space for a write log: it takes 536 KiB between metadata and data"))
                };
            };
            let found = candidate(member).found.as_ref().ok().and_then(|found| found.log.as_ref());
            if found.is_some_and(|log| log.off) != off {
                let head = if off {
                    encode_head(&keeper.superblock, &location, &Session::default(), true, 0)
                } else {
                    vec![0; bytes(BLOCK)]
                };
                heads.push(write(member, location.head_start.get(), &head));
            }
        }
        Ok(if heads.is_empty() { Vec::new() } else { vec![heads] })
    }

    fn add_checksums<'a>(&self, candidate: &dyn Fn(MemberId) -> &'a Candidate) -> Result<Vec<Vec<MetadataWrite>>, String> {
        let (mut heads, mut superblocks) = (Vec::new(), Vec::new());
        let has_some = |member: &MemberId| has_checksums(candidate(*member));
        for (&member, keeper) in self.keepers.iter().filter(|(member, _)| !has_some(member)) {
            let mut keeper = keeper.clone();
            let header = &mut keeper.superblock.header;
            header.data_size = header.size.next_multiple_of(BLOCK_SECTORS);
            // Their heads are made by this run, so that nothing has to be made void at the next start.
            header.utime |= if header.utime >> 40 == 0 { WITNESSED << 40 } else { 0 };
            let region = region_of(&keeper.superblock);
            let drive_sectors = candidate(member).size_sectors;
            if region.end_sector() > drive_sectors {
                let lacks = region.end_sector() - drive_sectors;
                return Err(format!(
                    "{} has no space for them: checksums lie behind the data, which ends {lacks} sectors too late, and Stria cannot make the data \
                     shorter yet; `create --integrity` leaves the space",
                    keeper.name
                ));
            }
            heads.push(write(member, region.header_sector(0), &new_region(&keeper.superblock)));
            superblocks.push(keeper.superblock_write(member));
        }
        Ok(if heads.is_empty() { Vec::new() } else { vec![heads, superblocks] })
    }

    fn drop_checksums<'a>(&self, candidate: &dyn Fn(MemberId) -> &'a Candidate) -> Vec<Vec<MetadataWrite>> {
        let none = |(member, keeper): (&MemberId, &MemberMetadata)| {
            let region = region_of(&keeper.superblock);
            has_checksums(candidate(*member)).then(|| write(*member, region.header_sector(0), &vec![0; bytes(HEADERS_SECTORS)]))
        };
        let heads: Vec<MetadataWrite> = self.keepers.iter().filter_map(none).collect();
        if heads.is_empty() { Vec::new() } else { vec![heads] }
    }
}
