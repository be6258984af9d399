//! The description of the disk for a driver: feature bits and the configuration space.
//!
//! Source: virtio 1.2, 5.2 (block device); `struct virtio_blk_config` of linux/virtio_blk.h.

use stria_block::{Limits, SECTOR_BYTES};
use virtio_bindings::bindings::{virtio_blk as blk, virtio_config, virtio_ring};

/// Queues of a disk: more than a virtual machine needs, which has one for each processor at most.
pub(super) const QUEUES_MAX: u16 = 64;
/// Descriptors of a queue, as many as QEMU allows.
pub(super) const QUEUE_SIZE_MAX: u16 = 1024;
/// 126: the segments of one chain in a queue of 128, QEMU's own size. Header and status take the other two.
const SEGMENTS_MAX: u32 = 126;
/// 256 KiB: with as many segments a request has at most 31.5 MiB.
const SEGMENT_BYTES_MAX: u32 = 256 << 10;
/// The largest read or write that conforming drivers send.
pub(super) const REQUEST_BYTES_MAX: usize = SEGMENTS_MAX as usize * SEGMENT_BYTES_MAX as usize;
/// 1 GiB: one range of a discard. What Linux discards becomes few requests, and none takes long.
pub(super) const DISCARD_SECTORS_MAX: u32 = (1 << 30) / SECTOR_BYTES as u32;
/// 64 MiB: one range of a write of zeros, which may write every byte.
pub(super) const WRITE_ZEROES_SECTORS_MAX: u32 = (64 << 20) / SECTOR_BYTES as u32;
/// Ranges in one discard or write of zeros.
pub(super) const ZERO_RANGES_MAX: usize = 16;

/// Offset of `wce` in the configuration space: 1 if the write cache is on.
pub(super) const WCE_OFFSET: usize = 32;
/// The fields up to `unused1`. Whatever a front-end reads behind them is zero.
const CONFIG_BYTES: usize = 60;

const fn bit(number: u32) -> u64 {
    1 << number
}

pub(super) const FLUSH: u64 = bit(blk::VIRTIO_BLK_F_FLUSH);
pub(super) const CONFIG_WCE: u64 = bit(blk::VIRTIO_BLK_F_CONFIG_WCE);
pub(super) const EVENT_INDEX: u64 = bit(virtio_ring::VIRTIO_RING_F_EVENT_IDX);
/// VHOST_USER_F_PROTOCOL_FEATURES: queues are enabled one by one.
pub(super) const PROTOCOL_FEATURES: u64 = bit(30);

/// A disk as drivers see it.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub limits: Limits,
    pub read_only: bool,
    /// GET_ID: up to 20 bytes.
    pub serial: String,
}

impl Facts {
    /// Sectors of the disk: whole blocks only.
    pub fn sectors(&self) -> u64 {
        self.limits.size_sectors / self.block_sectors() * self.block_sectors()
    }

    pub fn block_sectors(&self) -> u64 {
        u64::from(self.limits.logical_block_bytes) / SECTOR_BYTES as u64
    }

    pub fn can_discard(&self) -> bool {
        !self.read_only && self.limits.discard_granularity_bytes > 0
    }

    /// The feature bits on offer.
    pub fn features(&self) -> u64 {
        let when = |condition: bool, bits: u64| if condition { bits } else { 0 };
        bit(virtio_config::VIRTIO_F_VERSION_1)
            | bit(virtio_ring::VIRTIO_RING_F_INDIRECT_DESC)
            | EVENT_INDEX
            | PROTOCOL_FEATURES
            | bit(blk::VIRTIO_BLK_F_SIZE_MAX)
            | bit(blk::VIRTIO_BLK_F_SEG_MAX)
            | bit(blk::VIRTIO_BLK_F_BLK_SIZE)
            | bit(blk::VIRTIO_BLK_F_TOPOLOGY)
            | bit(blk::VIRTIO_BLK_F_MQ)
            | FLUSH
            | CONFIG_WCE
            | when(self.read_only, bit(blk::VIRTIO_BLK_F_RO))
            | when(!self.read_only, bit(blk::VIRTIO_BLK_F_WRITE_ZEROES))
            | when(self.can_discard(), bit(blk::VIRTIO_BLK_F_DISCARD))
    }

    /// All feature bits that this disk may ever have offered. A driver keeps its acknowledged features after a reconnection, and
    /// the array's drives or mode may have changed since.
    pub fn features_ever(&self) -> u64 {
        let of_drives = [blk::VIRTIO_BLK_F_RO, blk::VIRTIO_BLK_F_WRITE_ZEROES, blk::VIRTIO_BLK_F_DISCARD];
        of_drives.into_iter().fold(self.features(), |features, number| features | bit(number))
    }

    /// `len` bytes of the configuration space from `offset` on.
    pub fn config(&self, offset: usize, len: usize, write_cache: bool) -> Vec<u8> {
        let limits = &self.limits;
        let (block, physical) = (limits.logical_block_bytes, limits.physical_block_bytes.max(limits.logical_block_bytes));
        let mut space = Vec::with_capacity(CONFIG_BYTES);
        space.extend(self.sectors().to_le_bytes());
        space.extend(SEGMENT_BYTES_MAX.to_le_bytes());
        space.extend(SEGMENTS_MAX.to_le_bytes());
        // No cylinders, heads and sectors.
        space.extend([0; 4]);
        space.extend(block.to_le_bytes());
        // The exponent of physical blocks, and where the first one begins.
        space.extend([(physical / block).ilog2() as u8, 0]);
        space.extend(u16::try_from(physical / block).unwrap_or(u16::MAX).to_le_bytes());
        space.extend((limits.optimal_io_bytes / block).to_le_bytes());
        space.extend([u8::from(write_cache), 0]);
        space.extend(QUEUES_MAX.to_le_bytes());
        // Never zero where the feature is announced: Windows Server 2025 stops on that.
        let alignment = limits.discard_granularity_bytes.max(block) / SECTOR_BYTES as u32;
        space.extend(DISCARD_SECTORS_MAX.to_le_bytes());
        space.extend((ZERO_RANGES_MAX as u32).to_le_bytes());
        space.extend(alignment.to_le_bytes());
        space.extend(WRITE_ZEROES_SECTORS_MAX.to_le_bytes());
        space.extend((ZERO_RANGES_MAX as u32).to_le_bytes());
        // Zeros that are written may unmap.
        space.extend([u8::from(self.can_discard()), 0, 0, 0]);
        debug_assert_eq!(space.len(), CONFIG_BYTES);
        space.into_iter().chain(std::iter::repeat(0)).skip(offset).take(len).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_lies_where_drivers_look() {
        let limits = Limits {
            logical_block_bytes: 512,
            physical_block_bytes: 4096,
            optimal_io_bytes: 192 << 10,
            discard_granularity_bytes: 4096,
            ..Limits::plain(1_000_003)
        };
        let facts = Facts { limits, read_only: false, serial: "x".into() };
        let word = |offset| u32::from_le_bytes(facts.config(offset, 4, true).try_into().expect("four bytes"));
        assert_eq!((word(0), word(4)), (1_000_003, 0));
        assert_eq!((word(8), word(12), word(20)), (256 << 10, 126, 512));
        assert_eq!(facts.config(24, 4, true), [3, 0, 8, 0], "physical blocks of 8, and as many are best");
        assert_eq!(word(28), 384);
        assert_eq!((facts.config(32, 2, true), facts.config(32, 2, false)), (vec![1, 0], vec![0, 0]));
        assert_eq!(facts.config(34, 2, true), 64_u16.to_le_bytes());
        assert_eq!((word(36), word(40), word(44)), (1 << 21, 16, 8));
        assert_eq!((word(48), word(52), word(56)), (1 << 17, 16, 1));
        assert_eq!(facts.config(56, 40, true).len(), 40, "front-ends ask for fields of later versions");
        assert_eq!(facts.config(5000, 1, true), [0]);
    }

    #[test]
    fn what_cannot_be_done_is_not_announced() {
        let discards = Limits { discard_granularity_bytes: 512, ..Limits::plain(8) };
        let features = |limits: &Limits, read_only| Facts { limits: limits.clone(), read_only, serial: String::new() }.features();
        let (ro, discard, zeroes) = (1 << 5, 1 << 13, 1 << 14);
        let of = |bits: u64| (bits & ro != 0, bits & discard != 0, bits & zeroes != 0);
        assert_eq!(of(features(&discards, false)), (false, true, true));
        assert_eq!(of(features(&discards, true)), (true, false, false));
        assert_eq!(of(features(&Limits::plain(8), false)), (false, false, true));
        let large =
            Facts { limits: Limits { logical_block_bytes: 4096, ..Limits::plain(23) }, read_only: false, serial: String::new() };
        assert_eq!(large.sectors(), 16);
    }
}
