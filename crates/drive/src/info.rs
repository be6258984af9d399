//! What a drive is: everything that can be learned without reading its sectors.

use rustix::fs::{AtFlags, StatxFlags, statx};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use stria_block::Limits;

/// Whether a member is a device or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveKind {
    /// A block device: a drive, a partition, a loop device.
    BlockDevice,
    /// A regular file.
    File,
}

/// What makes two paths the same drive, through symbolic and hard links and second device nodes.
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

/// What [`probe`](crate::probe) finds.
#[derive(Clone, Debug)]
pub struct DriveInfo {
    /// As it was given.
    pub path: PathBuf,
    /// Device or file.
    pub kind: DriveKind,
    /// The drive itself, whatever the path.
    pub identity: Identity,
    /// Size, blocks and abilities.
    pub limits: Limits,
    /// Whether I/O goes past the page cache.
    pub direct: bool,
    /// Why it does not.
    pub direct_note: Option<String>,
    /// Alignment of memory for direct I/O, in bytes; 1 otherwise.
    pub memory_align_bytes: u32,
    /// The most that one transfer moves without being split by the kernel, which would cost a worker thread; larger ones
    /// are cut by us. For block devices by their queue's limits (`max_sectors_kb`, `max_segments`), for commands past the
    /// block layer by the controller's.
    pub transfer_bytes_max: usize,
    /// Whether its completions can be polled for: I/O is direct, and the driver keeps queues for that (`queue/io_poll`).
    pub io_poll: bool,
    /// The model that the device names.
    pub model: Option<String>,
    /// The serial number that the device names.
    pub serial: Option<String>,
    /// The block layer splits what crosses a multiple of this; 0: there is no such bound.
    pub(crate) chunk_sectors: u64,
    /// Whether the block layer has a command that writes zeros (block devices), so that it need not write them itself.
    pub(crate) zeroes_command: bool,
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            let number = metadata.rdev();
            Self::BlockDevice { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
        } else {
            Self::File { file_system: metadata.dev(), inode: metadata.ino() }
        }
    }
}

/// The kernel's pages about one block device.
pub(crate) struct Sysfs {
    /// The whole device, also for a partition.
    device: PathBuf,
}

impl Sysfs {
    /// Of the device with this number; a file system without a device has none.
    pub(crate) fn of(number: u64) -> Option<Self> {
        let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let device = Path::new(&link).canonicalize().ok()?;
        let whole = if device.join("partition").exists() { device.parent()?.to_path_buf() } else { device };
        Some(Self { device: whole })
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

/// Alignment that direct I/O asks for, as the kernel tells it (Linux 6.1): memory and offset, in bytes.
/// Offset 0: none is done on this file. `None`: the kernel does not tell.
pub(crate) fn direct_alignment(file: &File) -> Option<(u32, u32)> {
    let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = told.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then_some((told.stx_dio_mem_align, told.stx_dio_offset_align))
}
