//! The properties of a drive: everything that is known without reading its sectors.

use crate::sysfs::{SYSFS, whole_folder};
use crate::within::within_at;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::{File, Metadata};
use std::io::IoSliceMut;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_block::{Buffer, Limits};

/// Whether a member is a device or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveKind {
    /// A block device: a drive, a partition, a loop device.
    BlockDevice,
    /// A regular file.
    File,
}

/// Whether the kernel may wait when it takes a read or write: for a lock, for space in a queue, for a server that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Never: the file lies in memory.
    Never,
    /// It refuses when it would wait (`RWF_NOWAIT`): block devices, and files on most local file systems.
    Told,
    /// Unknown: FUSE, network file systems. Such drives get threads of their own for all their requests.
    Untold,
}

impl Waits {
    /// Whether requests to this open drive may wait.
    pub(crate) fn of(file: &File, kind: DriveKind, block_bytes: u32) -> Self {
        /// linux/magic.h: tmpfs, ramfs.
        const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
        /// File systems that obey `RWF_NOWAIT`: ext4, xfs, btrfs, f2fs, bcachefs, overlayfs. FUSE (Linux 6.18) accepts the flag
        /// and waits.
        const TELLING: [u64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x794c_7630];
        if kind == DriveKind::File {
            match rustix::fs::fstatfs(file).map(|found| found.f_type as u64) {
                Ok(magic) if MEMORY.contains(&magic) => return Self::Never,
                Ok(magic) if TELLING.contains(&magic) => {}
                _ => return Self::Untold,
            }
        }
        let mut memory = Buffer::zeroed(block_bytes as usize);
        match preadv2(file, &mut [IoSliceMut::new(&mut memory)], 0, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Self::Untold,
            _ => Self::Told,
        }
    }
}

/// The identity of a drive, the same through symbolic links, hard links and second device nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// A block device by its number.
    BlockDevice {
        /// Driver.
        major: u32,
        /// Device of the driver.
        minor: u32,
    },
    /// A file by its file system and number.
    File {
        /// `st_dev` of the file system.
        file_system: u64,
        /// `st_ino`.
        inode: u64,
    },
}

/// The findings of [`probe`](crate::probe).
#[derive(Clone, Debug)]
pub struct DriveInfo {
    /// As it was given.
    pub path: PathBuf,
    /// Without links, as it was when the drive was opened: resolving it again may wait for a drive that hangs.
    pub real_path: PathBuf,
    /// Device or file.
    pub kind: DriveKind,
    /// The drive itself, independent of the path.
    pub identity: Identity,
    /// Size, blocks and abilities.
    pub limits: Limits,
    /// True if I/O bypasses the page cache.
    pub direct: bool,
    /// Why it does not.
    pub direct_note: Option<String>,
    /// Alignment of memory for direct I/O, in bytes; 1 otherwise.
    pub memory_align_bytes: u32,
    /// The most that one transfer moves without a split by the kernel, which would cost a worker thread; larger transfers are
    /// cut here. For block devices it follows from the limits of their queue (`max_sectors_kb`, `max_segments`), for commands
    /// past the block layer from the controller's.
    pub transfer_bytes_max: usize,
    /// True if completions can be polled for: I/O is direct, and the driver has queues for it (`queue/io_poll`).
    pub io_poll: bool,
    /// The model that the device reports.
    pub model: Option<String>,
    /// The serial number that the device reports.
    pub serial: Option<String>,
    /// The block layer splits requests that cross a multiple of this; 0: no such bound.
    pub(crate) chunk_sectors: u64,
    /// Whether system calls on it may wait.
    pub(crate) waits: Waits,
    /// True if the block layer has a command that writes zeros (block devices), so that it need not write them itself.
    pub(crate) zeroes_command: bool,
}

/// The path without links. If a file system hangs for longer than `patience`, the path as it is.
pub fn real_path_within(path: &Path, patience: Duration) -> PathBuf {
    let real = within_at("real path", path, patience, Path::canonicalize);
    real.ok().and_then(Result::ok).unwrap_or_else(|| path.to_owned())
}

impl DriveInfo {
    /// Whether the kernel says now that the drive has a volatile cache: programs and resets switch it while the drive is open.
    /// `None`: it is a file, or gone.
    pub fn has_volatile_cache_now(&self) -> Option<bool> {
        let Identity::BlockDevice { major, minor } = self.identity else { return None };
        Some(Sysfs::of(rustix::fs::makedev(major, minor))?.has_volatile_cache())
    }
}

impl Identity {
    /// The disk of a partition; `None`: it is none.
    pub fn disk(self) -> Option<Self> {
        let Self::BlockDevice { major, minor } = self else { return None };
        let disk = Sysfs::of(rustix::fs::makedev(major, minor))?.text("dev")?;
        let (disk_major, disk_minor) = disk.split_once(':')?;
        let disk = Self::BlockDevice { major: disk_major.parse().ok()?, minor: disk_minor.parse().ok()? };
        (disk != self).then_some(disk)
    }

    pub(crate) fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            let number = metadata.rdev();
            Self::BlockDevice { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
        } else {
            Self::File { file_system: metadata.dev(), inode: metadata.ino() }
        }
    }
}

/// The sysfs pages of one block device.
pub(crate) struct Sysfs {
    /// The whole device, also for a partition.
    device: PathBuf,
}

impl Sysfs {
    /// The same of the device with this number. `None`: a file system without a device.
    pub(crate) fn of(number: u64) -> Option<Self> {
        Some(Self { device: whole_folder(Path::new(SYSFS), number).ok()? })
    }

    pub(crate) fn device(&self) -> &Path {
        &self.device
    }

    pub(crate) fn text(&self, page: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.device.join(page)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn number(&self, page: &str) -> Option<u64> {
        self.text(page)?.parse().ok()
    }

    /// Unknown counts as volatile (R9): a needless flush costs time, a missing one data.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        self.text("queue/write_cache").as_deref() != Some("write through")
    }

    /// Vendor and model as one; SCSI pads and splits them.
    pub(crate) fn model(&self) -> Option<String> {
        let model = self.text("device/model")?;
        match self.text("device/vendor") {
            Some(vendor) if !vendor.starts_with("0x") && vendor != "ATA" => Some(format!("{vendor} {model}")),
            _ => Some(model),
        }
    }

    /// NVMe and virtio have a page; SCSI has the raw vital product data, page 0x80: text after four bytes.
    pub(crate) fn serial(&self) -> Option<String> {
        self.text("device/serial").or_else(|| self.text("serial")).or_else(|| {
            let page = std::fs::read(self.device.join("device/vpd_pg80")).ok()?;
            let serial = String::from_utf8_lossy(page.get(4..)?).trim().to_owned();
            (!serial.is_empty()).then_some(serial)
        })
    }
}

/// The alignment that direct I/O needs, as the kernel reports it (Linux 6.1): memory and offset, in bytes. Offset 0: direct I/O
/// is not possible on this file. `None`: the kernel does not report it.
pub(crate) fn direct_alignment(file: &File) -> Option<(u32, u32)> {
    let status = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = status.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then_some((status.stx_dio_mem_align, status.stx_dio_offset_align))
}
