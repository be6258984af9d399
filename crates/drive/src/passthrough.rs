//! Commands for NVMe drives past the block layer: `/dev/ngXnY`, the character device beside the block device `/dev/nvmeXnY`.
//!
//! This module does what the block layer would do for a request: it addresses logical blocks, respects the controller's largest
//! transfer, and reads the status. The block device stays open, exclusively, so that nothing else uses the drive, and for
//! requests that have no command here. But commands of a killed process keep only the command device open, so each exclusive user
//! of the drive, with commands or without, has that locked. Numbers are those of the NVM Express specification and of
//! linux/nvme_ioctl.h.

use crate::info::Sysfs;
use crate::sysfs::{SYSFS, block_page, is_partition};
use crate::{Access, DriveError, DriveInfo, DriveKind, Identity, lock};
use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use stria_block::{BLOCK_ALIGN, Buffer};

/// `struct nvme_passthru_cmd`, and `struct nvme_uring_cmd`, which is the same except for a result at the end.
const COMMAND_BYTES: usize = 72;
/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
const URING_CMD_IO: Opcode = rustix::ioctl::opcode::read_write::<[u8; COMMAND_BYTES]>(b'N', 0x80);
/// `NVME_URING_CMD_IO_VEC`: the same for a list of segments, whose count takes the place of the length.
const URING_CMD_IO_VEC: Opcode = rustix::ioctl::opcode::read_write::<[u8; COMMAND_BYTES]>(b'N', 0x81);
/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const ADMIN_CMD: Opcode = rustix::ioctl::opcode::read_write::<[u8; COMMAND_BYTES]>(b'N', 0x41);

/// One command counts its blocks with 16 bits.
const BLOCKS_MAX: usize = 1 << 16;

/// A drive's device for commands.
#[derive(Debug)]
pub(crate) struct Passthrough {
    pub file: File,
    namespace: u32,
    block_bytes: u64,
    pub transfer_bytes_max: usize,
}

/// The effect of a command.
#[derive(Clone, Copy)]
pub(crate) enum Command {
    /// `len` bytes at `start`, into memory.
    Read,
    Write {
        fua: bool,
    },
    Flush,
}

/// The memory of a command: an address and a length, or the address and count of a list of segments.
pub(crate) enum Memory {
    Piece(*const u8, usize),
    List(*const u8, usize),
}

impl Passthrough {
    /// The command device of the drive behind an open block device, which may be open and `locked` already. The error says why
    /// there is none.
    pub fn open(info: &DriveInfo, access: Access, locked: Option<File>) -> Result<Self, String> {
        let Identity::BlockDevice { major, minor } = info.identity else { return Err("it is a file".into()) };
        let number = rustix::fs::makedev(major, minor);
        if is_partition(&block_page(Path::new(SYSFS), number)) {
            return Err("it is a partition, and commands are for whole drives".into());
        }
        let no_nvme = || "it is no NVMe drive, or its driver is older than that of Linux 5.19".to_owned();
        let sysfs = Sysfs::of(number).ok_or_else(no_nvme)?;
        let ((path, _), namespace) = command_device(&sysfs).zip(sysfs.number("nsid")).ok_or_else(no_nvme)?;
        let cannot = |errno: Errno| format!("{}: {}", path.display(), std::io::Error::from(errno));
        let file = match locked {
            Some(file) => file,
            None => open_command_device(&sysfs, access)?.ok_or_else(no_nvme)?,
        };
        let namespace = u32::try_from(namespace).map_err(|_| no_nvme())?;
        let block_bytes = u64::from(info.limits.logical_block_bytes);
        check_format(&identify(&file, namespace).map_err(cannot)?, info)?;
        let page = |name, unit| sysfs.number(name).filter(|&count| count > 0).map(|count| count * unit);
        // Memory that does not begin with a page takes one segment more.
        let segments = page("queue/max_segments", 1).map(|count| (count.max(2) - 1) * BLOCK_ALIGN as u64);
        let bytes = page("queue/max_hw_sectors_kb", 1024).into_iter().chain(segments).min().unwrap_or(BLOCK_ALIGN as u64);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(BLOCKS_MAX * block_bytes as usize);
        Ok(Self { file, namespace, block_bytes, transfer_bytes_max: (bytes / BLOCK_ALIGN * BLOCK_ALIGN).max(BLOCK_ALIGN) })
    }

    /// The entry for a command on `len` bytes from `start` on.
    pub fn entry(&self, fd: Fd, command: Command, start: u64, len: u64, memory: Memory) -> squeue::Entry128 {
        let (block, blocks) = (start / self.block_bytes, len / self.block_bytes);
        let of_blocks = |flags: u32| [block as u32, (block >> 32) as u32, (blocks as u32).wrapping_sub(1) | flags];
        let (number, words) = match command {
            Command::Flush => (0x00, [0; 3]),
            Command::Write { fua } => (0x01, of_blocks(u32::from(fua) << 30)),
            Command::Read => (0x02, of_blocks(0)),
        };
        let (operation, at, count) = match memory {
            Memory::Piece(at, len) => (URING_CMD_IO, at, len),
            Memory::List(at, count) => (URING_CMD_IO_VEC, at, count),
        };
        let mut whole = [0; 80];
        whole[..COMMAND_BYTES].copy_from_slice(&bytes_of(number, self.namespace, at as u64, count as u32, words));
        opcode::UringCmd80::new(fd, operation).cmd(whole).build()
    }
}

/// The path of the command device beside a block device, and its number as sysfs shows it. `None`: there is none.
fn command_device(sysfs: &Sysfs) -> Option<(PathBuf, String)> {
    let name = format!("ng{}", sysfs.device().file_name()?.to_str()?.strip_prefix("nvme")?);
    let number = std::fs::read_to_string(sysfs.device().with_file_name(&name).join("dev")).ok()?;
    Some((Path::new("/dev").join(name), number.trim().to_owned()))
}

/// `Ok(None)`: there is none. The error says why it cannot be opened.
fn open_command_device(sysfs: &Sysfs, access: Access) -> Result<Option<File>, String> {
    let Some((path, number)) = command_device(sysfs) else { return Ok(None) };
    let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
    let flags = if access == Access::ReadOnly { OFlags::RDONLY } else { OFlags::RDWR };
    let file = File::from(rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| cannot(errno.into()))?);
    let found = file.metadata().map_err(cannot)?;
    let is_it = format!("{}:{}", rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev())) == number;
    if !(found.file_type().is_char_device() && is_it) {
        return Err(format!("{} is the device for commands of another drive", path.display()));
    }
    Ok(Some(file))
}

/// Opens and locks the command device of the drive at `path`, for an exclusive user of the block device `number`. Without the
/// lock, commands of a killed process could still be on their way. `None`: the drive has none, or this user may not open it.
pub(crate) fn lock_command_device(path: &Path, number: u64) -> Result<Option<File>, DriveError> {
    let Some(sysfs) = Sysfs::of(number) else { return Ok(None) };
    let Ok(Some(file)) = open_command_device(&sysfs, Access::Exclusive) else { return Ok(None) };
    lock::lock_commands(&file, path, is_partition(&block_page(Path::new(SYSFS), number)))?;
    Ok(Some(file))
}

/// A command as the kernel reads it.
fn bytes_of(number: u8, namespace: u32, at: u64, len: u32, words: [u32; 3]) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    bytes[0] = number;
    bytes[4..8].copy_from_slice(&namespace.to_ne_bytes());
    bytes[24..32].copy_from_slice(&at.to_ne_bytes());
    bytes[36..40].copy_from_slice(&len.to_ne_bytes());
    for (index, word) in words.iter().enumerate() {
        bytes[40 + 4 * index..][..4].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Reads the controller's description of the namespace. Zeros where it has none.
fn identify(file: &File, namespace: u32) -> Result<Buffer, Errno> {
    let mut answer = Buffer::zeroed(4096);
    let mut command = bytes_of(0x06, namespace, answer.as_mut_ptr() as u64, answer.len() as u32, [0; 3]);
    // SAFETY: the ioctl reads and writes the 72 bytes of the command, and the 4096 of the buffer that the command names.
    unsafe { ioctl(file, Updater::<ADMIN_CMD, _>::new(&mut command)) }?;
    Ok(answer)
}

/// Checks that blocks are as the block device reports, without metadata beside their data.
fn check_format(answer: &[u8], info: &DriveInfo) -> Result<(), String> {
    let mut size = [0; 8];
    size.copy_from_slice(&answer[..8]);
    let (format_count, format) = (answer[25], usize::from(answer[26]));
    let index = if format_count < 16 { format & 0xf } else { format & 0xf | (format >> 1) & 0x30 };
    let format = &answer[128 + 4 * index..][..4];
    let (metadata_bytes, block_shift) = (u16::from_le_bytes([format[0], format[1]]), u32::from(format[2]));
    if metadata_bytes != 0 {
        return Err(format!(
            "its format keeps {metadata_bytes} bytes beside each block; choose a format without them (nvme format)"
        ));
    }
    let (block_bytes, limits) = (1_u64.checked_shl(block_shift).unwrap_or(0), &info.limits);
    let size_bytes = u64::from_le_bytes(size).checked_mul(block_bytes);
    if info.kind != DriveKind::BlockDevice
        || block_bytes != u64::from(limits.logical_block_bytes)
        || size_bytes != Some(limits.size_sectors * 512)
    {
        return Err("its size differs from that of its block device".into());
    }
    Ok(())
}

/// True if the same command may succeed when it is sent again.
pub(crate) fn may_be_sent_again(status: i32) -> bool {
    const DO_NOT_RETRY: i32 = 1 << 14;
    // Medium errors (status code type 2) must reach the submitter.
    status & DO_NOT_RETRY == 0 && (status >> 8) & 7 != 2
}

/// The error number that the block layer returns for a drive's status.
pub(crate) fn errno_of(status: i32) -> Errno {
    match status & 0x7ff {
        // Invalid opcode, field or namespace; unsupported.
        0x001 | 0x002 | 0x00b | 0x18c => Errno::OPNOTSUPP,
        0x021 | 0x080 | 0x082 => Errno::REMOTEIO,
        0x081 => Errno::NOSPC,
        // Write fault, unrecovered read, comparison, access, unwritten block; write-protected range.
        0x280 | 0x281 | 0x285..=0x287 | 0x182 => Errno::NODATA,
        // Protection information.
        0x181 | 0x282..=0x284 => Errno::ILSEQ,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_the_medium_is_heard_at_once_and_others_unless_the_drive_says_so_later() {
        assert_eq!((errno_of(0x4080), errno_of(0x281), errno_of(0x6002)), (Errno::REMOTEIO, Errno::NODATA, Errno::OPNOTSUPP));
        assert!(may_be_sent_again(0x082) && !may_be_sent_again(0x4082) && !may_be_sent_again(0x281));
    }
}
