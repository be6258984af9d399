//! What metadata ask for that Stria does not serve: as values, with the words beside them.

use stria_array::Level;
use thiserror::Error;

/// What an undamaged superblock asks for that Stria does not serve.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unserved {
    /// Feature bits that are unknown.
    #[error(
        "the superblock has feature bits 0x{bits:x} that this version of Stria does not know; use the software that wrote it, or a \
         newer Stria"
    )]
    Features {
        /// The bits.
        bits: u32,
    },
    /// Fields that are unknown.
    #[error("the superblock uses fields that this version of Stria does not know; use a newer Stria")]
    Fields,
    /// A reshape is under way.
    #[error("a reshape is in progress; let Linux md finish it (mdadm --assemble), then come back")]
    Reshape,
    /// The array is shared by a cluster.
    #[error("the array is shared by a cluster, which Stria does not join; serve it where the cluster runs")]
    Cluster,
    /// The array has a journal device.
    #[error(
        "the array has a journal device, which may hold writes that the members lack; remove it under Linux first (assemble, then \
         fail and remove the journal)"
    )]
    JournalDevice,
    /// A partial parity log where md keeps none.
    #[error(
        "the superblock names a partial parity log where md keeps none: beside a bitmap, of two kinds, or at a level other than 5"
    )]
    PartialParityLogMisplaced,
    /// A partial parity log with too little space.
    #[error(
        "the array's partial parity log has less than 132 KiB of space; under Linux, mdadm --grow --consistency-policy=resync \
         removes it, and =ppl makes it anew"
    )]
    PartialParityLogTooShort,
    /// Logical blocks that are impossible.
    #[error("the array has logical blocks of {block_bytes} bytes")]
    Blocks {
        /// Their size.
        block_bytes: u32,
    },
    /// The bit of a RAID 0 at another level.
    #[error("the superblock has the RAID 0 layout bit at another level")]
    LayoutBit,
    /// md's multipath.
    #[error("md multipath is not served; use the kernel's dm-multipath")]
    Multipath,
    /// md's drive that fails on purpose.
    #[error("md faulty (a test of drives) is not served")]
    Faulty,
    /// A level that md does not have.
    #[error("RAID level {level} is unknown to md")]
    LevelUnknown {
        /// md's number.
        level: i32,
    },
    /// A layout of RAID 0 that md does not have.
    #[error("RAID 0 layout {layout} is unknown; 1 and 2 are")]
    ZonesUnknown {
        /// md's number.
        layout: u32,
    },
    /// A layout of RAID 5 or 6.
    #[error("layout {layout} of RAID level {level} is not served")]
    ParityLayout {
        /// md's number.
        layout: u32,
        /// The level.
        level: Level,
    },
    /// A RAID 10 with far sets.
    #[error("RAID 10 layout 0x{layout:x} uses far sets, which are not served")]
    FarSets {
        /// md's number.
        layout: u32,
    },
    /// A RAID 10 without copies.
    #[error("RAID 10 layout 0x{layout:x} has no copies")]
    NoCopies {
        /// md's number.
        layout: u32,
    },
}

/// A kind of write-intent bitmap that Stria does not serve.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnservedBitmap {
    /// It is a cluster's.
    #[error("the array's bitmap belongs to a cluster, which Stria does not join; serve it where the cluster runs")]
    Cluster,
    /// The kind without locks.
    #[error(
        "the array has a lockless bitmap (Linux 6.18), which this version of Stria does not know; under Linux, mdadm --grow \
         --bitmap=internal changes it"
    )]
    Lockless,
    /// An unknown version.
    #[error(
        "the array's bitmap has version {version}, and 3 and 4 are served; under Linux, mdadm --grow --bitmap=none and then \
         --bitmap=internal makes a new one"
    )]
    Version {
        /// The version.
        version: u32,
    },
}
