//! Clients that write superblocks: virtual machines that run a RAID of their own, images of members that are copied into an
//! array, and forgeries. An array must start as before, with any content.
//!
//! At positions where md looks for a superblock, a client's write sometimes contains one: at the positions of all versions on the
//! array, seen as a drive, and at array sectors that are stored at the position of version 1.0 on a member.

use crate::chance::Chance;
use crate::drive::Drive;
use crate::lanes::Node;
use crate::member_drive::{SUPERBLOCK, superblock_of};
use crate::trace::ranges_below;
use crate::tree::Drives;
use std::collections::BTreeMap;
use stria_block::SECTOR_BYTES;
use stria_format::md::superblock::{CLEAN, MAGIC, SUPERBLOCK_BYTES};
use stria_format::md::{Role, Superblock};

/// Sectors of the array at which a client may write a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A superblock of version 1.`minor` of a drive that is the array.
    OnArray { minor: u8 },
    /// One of version 0.90.
    Old,
    /// One of version 1.0 of a member, at this sector of it.
    OnMember { sector: u64 },
}

/// The sectors at which clients write superblocks, and the random numbers for that.
pub struct HostileClient {
    targets: BTreeMap<u64, Vec<Target>>,
    array_sectors: u64,
    chance: Chance,
}

/// The bytes of a `write`, by sector, where they are not the usual ones.
pub type Contents = BTreeMap<(u32, u64), Vec<u8>>;

impl HostileClient {
    /// The positions on an array that runs on these drives.
    pub fn new(node: &Node, drives: &Drives, array_sectors: u64, chance: Chance) -> Self {
        let mut targets: BTreeMap<u64, Vec<Target>> = BTreeMap::new();
        let mut add = |sector: u64, target: Target| targets.entry(sector).or_default().push(target);
        let ends: Vec<u64> = drives.iter().filter_map(|drive| Superblock::sector_of(0, drive.borrow().model().sectors)).collect();
        for sector in 0..array_sectors {
            let mut below = ranges_below(node.coordinator(), sector..sector + 1).into_iter().map(|range| range.start);
            if let Some(sector_below) = below.find(|start| ends.contains(start)) {
                add(sector, Target::OnMember { sector: sector_below });
            }
        }
        if let Some(old) = (array_sectors & !127).checked_sub(128) {
            add(old, Target::Old);
        }
        for minor in [0, 1, 2] {
            if let Some(sector) = Superblock::sector_of(minor, array_sectors) {
                add(sector, Target::OnArray { minor });
            }
        }
        Self { targets, array_sectors, chance }
    }

    /// Puts superblocks into the data of a client's write at `start`, and records them in `contents`. Returns their number.
    pub fn fill(&mut self, write: u32, start: u64, bytes: &mut [u8], drives: &Drives, contents: &mut Contents) -> usize {
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        // An earlier write with this number may never have begun, because of a crash.
        contents.retain(|&(known, _), _| known != write);
        let chance = &mut self.chance;
        let reached = self.targets.range(start..start + sectors).map(|(&at, targets)| (at, chance.pick(targets)));
        let reached: Vec<(u64, Target)> = reached.collect();
        let mut count = 0;
        for (at, target) in reached {
            if self.chance.one_in(2) {
                continue;
            }
            let drive = drives[self.chance.below(drives.len() as u64) as usize].borrow();
            let superblock = self.superblock(at, target, &drive);
            let front = (at - start) as usize * SECTOR_BYTES;
            for (index, sector) in superblock.chunks(SECTOR_BYTES).enumerate() {
                let Some(into) = bytes.get_mut(front + index * SECTOR_BYTES..front + (index + 1) * SECTOR_BYTES) else { break };
                into[..sector.len()].copy_from_slice(sector);
                contents.insert((write, at + index as u64), into.to_vec());
            }
            count += 1;
        }
        count
    }

    fn superblock(&mut self, at: u64, target: Target, drive: &Drive) -> Vec<u8> {
        let own = superblock_of(drive);
        match (target, own) {
            (Target::OnArray { minor: 2 }, _) if self.chance.one_in(3) => {
                drive.image().bytes_of(SUPERBLOCK.start, (SUPERBLOCK_BYTES / SECTOR_BYTES) as u64)
            }
            (Target::Old, _) | (_, None) => {
                let words = [MAGIC, 0, 90, 0, 0, 0x1234_5678, 1_700_000_000, 1, 64, 2, 2, 0];
                words.iter().flat_map(|word| word.to_le_bytes()).collect()
            }
            (Target::OnArray { .. }, Some(own)) => self.forged(own, at, self.array_sectors),
            (Target::OnMember { sector }, Some(own)) => self.forged(own, sector, drive.model().sectors),
        }
    }

    /// A superblock at `sector` of a drive, newer and with more events than any: of this array, or of one of the client's.
    fn forged(&mut self, own: Superblock, sector: u64, drive_sectors: u64) -> Vec<u8> {
        let mut superblock = own;
        let foreign = self.chance.one_in(2);
        let header = &mut superblock.header;
        header.super_offset = sector;
        (header.feature_map, header.bitmap_offset, header.bblog_offset, header.bblog_size) = (0, 0, 0, 0);
        header.events = header.events.wrapping_add(1 << 20);
        header.ctime += 1_000_000;
        header.utime = header.ctime;
        header.resync_offset = CLEAN;
        header.data_offset = if sector > 8 { 0 } else { 16 + self.chance.below(3) * 8 };
        header.data_size = if sector > 8 { sector } else { drive_sectors - header.data_offset };
        if foreign {
            header.set_uuid = [0xee; 16];
            header.level = self.chance.pick(&[0, 1, 5]);
            header.raid_disks = self.chance.pick(&[1, 2, 3]);
            header.chunksize = 8;
            header.layout = 0;
            superblock.roles = (0..128).map(|slot| if slot < 3 { Role::Slot(slot) } else { Role::Spare }).collect();
        }
        let header = &mut superblock.header;
        header.size = header.size.min(header.data_size);
        superblock.span_of = self.chance.one_in(2).then_some([0xed; 16]);
        superblock.encode()
    }
}
