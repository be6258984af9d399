//! An open drive: inspected, locked, and read and written by blocking calls.
//!
//! Tools read metadata with it, and [`FileDrive`](crate::FileDrive)s, one per lane, share it: the lock is held until the last
//! of them, and the last of their requests, is gone (R16).

use crate::error::io_error;
use crate::info::{Sysfs, Waits, direct_alignment};
use crate::multipath::map_over;
use crate::passthrough::{Passthrough, lock_command_device};
use crate::reports::Reports;
use crate::size::{SeenSpace, Size, device_bytes};
use crate::sysfs::{SYSFS, block_page};
use crate::{Access, DriveError, DriveInfo, DriveKind, Identity, IoOptions, Unfit, lock, other_paths, size_limit};
use rustix::fd::AsRawFd;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stria_block::{Action, BLOCK_ALIGN, Buffer, ErrorKind, IoError, Limits, SECTOR_BYTES, TroubleKind};

/// An open drive. Cloning gives another handle to the same open file and lock.
#[derive(Clone, Debug)]
pub struct SyncDrive(Arc<Opened>);

/// The time to wait for a drive to be closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
/// A [`SyncDrive`] that does not keep the drive open.
#[derive(Clone, Debug)]
pub(crate) struct WeakDrive(Weak<Opened>);

impl WeakDrive {
    pub(crate) fn upgrade(&self) -> Option<SyncDrive> {
        self.0.upgrade().map(SyncDrive)
    }
}

#[derive(Debug)]
struct Opened {
    /// Present until it is dropped.
    file: Option<File>,
    /// Other paths to the same bytes, which no other software may use meanwhile.
    _other_paths: Vec<File>,
    /// The locked command device of an NVMe drive, if `passthrough` does not have it.
    _commands: Option<File>,
    info: DriveInfo,
    access: Access,
    io: IoOptions,
    passthrough: Option<Passthrough>,
    size: Size,
    /// Flushes that failed, of all its [`FileDrive`](crate::FileDrive)s, and writes with FUA.
    failed_flushes: AtomicU64,
    reports: Reports,
}

/// A call to which the kernel may report a loss, until this is dropped.
#[derive(Debug)]
pub(crate) struct ReportedCall(SyncDrive, u64);

impl Drop for ReportedCall {
    fn drop(&mut self) {
        self.0.0.reports.end(self.1);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let close = move || {
            // The kernel may close the file a little later, but nothing uses it any more.
            let _ = file.unlock();
            drop(file);
        };
        if self.info.waits != Waits::Untold {
            return close();
        }
        // A file system with a server asks that server before it closes a file, and the server may have stopped.
        let (closed, end) = channel();
        let thread = std::thread::Builder::new().name("stria close".into()).spawn(move || {
            close();
            let _ = closed.send(());
        });
        if thread.is_ok() {
            let _ = end.recv_timeout(CLOSED_WITHIN);
        }
    }
}

/// Inspects the drive at `path` and closes it again. Changes nothing and takes no lock.
///
/// # Errors
/// There is no such drive, it may not be read, or it cannot be a member.
pub fn probe(path: &Path) -> Result<DriveInfo, DriveError> {
    SyncDrive::open(path, Access::ReadOnly).map(|drive| drive.info().clone())
}

impl SyncDrive {
    /// Opens the block device or file at `path`; `Exclusive`: for this process alone.
    ///
    /// # Errors
    /// As [`probe`], and [`DriveError::Busy`] if the drive is in use.
    pub fn open(path: &Path, access: Access) -> Result<Self, DriveError> {
        Self::open_with(path, access, IoOptions::default())
    }

    /// The same; `io`: how [`FileDrive`](crate::FileDrive)s should reach it.
    ///
    /// # Errors
    /// As [`SyncDrive::open`], and [`DriveError::NoPassthrough`].
    pub fn open_with(path: &Path, access: Access, io: IoOptions) -> Result<Self, DriveError> {
        // Inspected before it is opened: opening a FIFO would wait, opening a tape would wind it.
        let metadata = std::fs::metadata(path).map_err(|source| open_error(path, access, source, 0))?;
        let kind = kind_of(path, &metadata)?;
        if let Some(file) = (kind == DriveKind::BlockDevice).then(|| lock::silent_loop_file(metadata.rdev())).flatten() {
            return Err(DriveError::Silent { path: path.to_owned(), file });
        }
        let (file, refusal) = open_direct(path, kind, access)?;
        let metadata = file.metadata().map_err(|source| system(path, "look at", source))?;
        if kind_of(path, &metadata)? != kind {
            return Err(unfit(path, Unfit::Changed));
        }
        let (mut other_paths, mut commands) = (Vec::new(), None);
        if access != Access::ReadOnly && kind == DriveKind::BlockDevice && is_write_protected(metadata.rdev()) {
            return Err(write_protected(path));
        }
        if access == Access::Exclusive {
            size_limit::survive();
            lock::lock(&file, path, kind == DriveKind::BlockDevice)?;
            if kind == DriveKind::BlockDevice {
                other_paths = other_paths::claim(path, metadata.rdev())?;
                commands = lock_command_device(path, metadata.rdev())?;
            }
        }
        if access != Access::ReadOnly
            && let Some(holder) = lock::loop_device_over(Identity::of(&metadata))
        {
            return Err(DriveError::Busy { path: path.to_owned(), holder, ends: false });
        }
        let mut info = inspect(path, kind, &file, &metadata, refusal, access)?;
        let passthrough = match io.passthrough {
            true => Passthrough::open(&info, access, commands.take()).map(Some),
            false => Ok(None),
        };
        let passthrough = passthrough.map_err(|reason| DriveError::NoPassthrough { path: path.to_owned(), reason })?;
        if let Some(passthrough) = &passthrough {
            info.transfer_bytes_max = passthrough.transfer_bytes_max;
        }
        let size = Size::of(&info, &file, &metadata);
        Ok(Self(Arc::new(Opened {
            file: Some(file),
            _other_paths: other_paths,
            _commands: commands,
            info,
            access,
            io,
            passthrough,
            size,
            failed_flushes: AtomicU64::new(0),
            reports: Reports::default(),
        })))
    }

    /// The kind of drive.
    pub fn info(&self) -> &DriveInfo {
        &self.0.info
    }

    /// The purpose for which it was opened.
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// The way in which requests should reach it.
    pub(crate) fn io(&self) -> IoOptions {
        self.0.io
    }

    /// The device for commands past the block layer, if requests go there.
    pub(crate) fn passthrough(&self) -> Option<&Passthrough> {
        self.0.passthrough.as_ref()
    }

    /// Why the drive is lost, if it has become smaller since it was opened.
    pub fn lost(&self) -> Option<IoError> {
        self.0.size.lost()
    }

    /// True once the drive is seen to have been cut short; not if it was pulled. Does not keep the drive open.
    pub fn cut_short(&self) -> Arc<AtomicBool> {
        self.0.size.cut_short()
    }

    /// Checks that the drive is still as large; waits for nothing.
    pub fn look_at_size(&self) -> Option<IoError> {
        self.0.size.look_at_device(self.file(), self.name());
        self.0.size.look_at_file(self.file(), self.name(), &mut SeenSpace::default());
        self.lost()
    }

    /// True if [`SyncDrive::look_at_size`] found that its file was deleted or replaced, or the one behind it: its bytes are lost
    /// when the last handle closes.
    pub fn is_deleted(&self) -> bool {
        self.0.size.is_deleted()
    }

    /// The same, once.
    pub fn take_deletion(&self) -> bool {
        self.0.size.take_deletion()
    }

    /// Whether it is a file, or a loop device over one: a file system gives it its space.
    pub fn is_of_file(&self) -> bool {
        self.0.size.is_of_file()
    }

    /// Whether it is a file with holes, or a loop device over one: a write there may find no space. Waits for nothing.
    pub fn has_holes(&self) -> bool {
        self.0.size.has_holes(self.file())
    }

    /// The record of its size.
    pub(crate) fn size(&self) -> &Size {
        &self.0.size
    }

    /// A handle that does not keep the drive open.
    pub(crate) fn downgrade(&self) -> WeakDrive {
        WeakDrive(Arc::downgrade(&self.0))
    }

    /// Fills `into` from `start_sector` on; waits for the drive. Takes any whole sectors, also parts of larger blocks.
    ///
    /// # Errors
    /// As a [`Read`](stria_block::Operation::Read).
    pub fn read_at(&self, start_sector: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.check(start_sector, into.len(), 1)?;
        let block_bytes = u64::from(self.info().limits.logical_block_bytes);
        let start = start_sector * SECTOR_BYTES as u64;
        let lead = (start % block_bytes) as usize;
        let whole_len = (lead + into.len()).next_multiple_of(block_bytes as usize);
        let mut bounce = Buffer::zeroed(whole_len);
        let result = self.file().read_exact_at(&mut bounce, start - lead as u64);
        // Behind the end of a file that was cut short there may be zeros.
        self.look_at_size().map_or(Ok(()), Err)?;
        result.map_err(|error| self.error(Action::Read, start_sector, into.len(), &error))?;
        into.copy_from_slice(&bounce[lead..][..into.len()]);
        Ok(())
    }

    /// Writes `from`, whole blocks, from `start_sector` on. Waits until the drive has it; [`SyncDrive::sync`] makes it durable.
    ///
    /// # Errors
    /// As a [`Write`](stria_block::Operation::Write).
    pub fn write_at(&self, start_sector: u64, from: &[u8]) -> Result<(), IoError> {
        self.check_writable()?;
        self.check(start_sector, from.len(), u64::from(self.info().limits.logical_block_bytes) / SECTOR_BYTES as u64)?;
        self.look_at_size().map_or(Ok(()), Err)?;
        // Copied to aligned memory in parts, as a caller may zero a large range.
        let mut bounce = Buffer::zeroed(from.len().min(1 << 20));
        let mut at = start_sector * SECTOR_BYTES as u64;
        for part in from.chunks(bounce.len().max(1)) {
            let bounce = &mut bounce[..part.len()];
            bounce.copy_from_slice(part);
            let result = self.file().write_all_at(bounce, at);
            result.map_err(|error| self.error(Action::Write, start_sector, from.len(), &error))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Allocates space for these sectors of a file, so that later writes there cannot run out of space. Their content stays. Does
    /// nothing on other drives, and on file systems that cannot allocate ahead.
    ///
    /// # Errors
    /// The file system has not enough space.
    pub fn allocate(&self, sectors: Range<u64>) -> Result<(), IoError> {
        // A file that was opened beside another handle takes this, too: nothing that it holds changes.
        if self.0.access != Access::Beside {
            self.check_writable()?;
        }
        let bytes = |sectors: u64| sectors * SECTOR_BYTES as u64;
        let (start, len) = (bytes(sectors.start), bytes(sectors.end - sectors.start));
        if self.info().kind != DriveKind::File || len == 0 {
            return Ok(());
        }
        match fallocate(self.file(), FallocateFlags::KEEP_SIZE, start, len) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                Err(io_error(self.name(), Action::Allocate, sectors.start, sectors.end - sectors.start, errno))
            }
            _ => Ok(()),
        }
    }

    /// Waits until everything written is durable.
    ///
    /// # Errors
    /// As a [`Flush`](stria_block::Operation::Flush).
    pub fn sync(&self) -> Result<(), IoError> {
        let _call = self.begin_reported();
        let flushed = self.file().sync_data();
        self.count_flush(flushed.is_err());
        flushed.map_err(|error| self.error(Action::Flush, 0, 0, &error))
    }

    /// A path that leads to this open drive while it is open, wherever its name leads by now: another drive may have been plugged
    /// in there.
    pub fn own_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file().as_raw_fd()).into()
    }

    pub(crate) fn file(&self) -> &File {
        self.0.file.as_ref().expect("it is closed only when it is dropped")
    }

    /// The number of its flushes that failed, and of writes whose own flush may have failed.
    pub(crate) fn failed_flushes(&self) -> u64 {
        self.0.failed_flushes.load(Ordering::SeqCst)
    }

    /// A call begins to which the kernel may report a loss. It ends after its failure was counted.
    pub(crate) fn begin_reported(&self) -> ReportedCall {
        ReportedCall(self.clone(), self.0.reports.begin())
    }

    /// Waits until the failures of all such calls are counted that have begun before. Not on a lane, which may have one in flight.
    pub(crate) fn wait_for_reports(&self) {
        self.0.reports.wait_for_present();
    }

    /// Counts a flush that has ended, if it has failed.
    pub(crate) fn count_flush(&self, has_failed: bool) {
        self.0.failed_flushes.fetch_add(u64::from(has_failed), Ordering::SeqCst);
    }

    /// Counts a write that has failed, if it was `durable` by itself (`RWF_DSYNC`): its flush may be what failed, and the kernel
    /// reports what it has lost to one call alone. Two errors are always the write's own. Direct I/O needs its space first, and the
    /// permission is checked before anything is sent: no status of the block layer becomes `EPERM`.
    pub(crate) fn count_write(&self, durable: bool, errno: Errno) {
        self.count_flush(durable && !matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::PERM));
    }

    /// The same drive, as if it were on another kind of file system.
    #[cfg(test)]
    pub(crate) fn that_waits(mut self, waits: Waits) -> Self {
        Arc::get_mut(&mut self.0).expect("no other handle").info.waits = waits;
        self
    }

    /// Whether the kernel may wait when it takes a request.
    pub(crate) fn waits(&self) -> Waits {
        self.0.info.waits
    }

    /// The error of a request after whose first `done_bytes` the drive ends.
    pub(crate) fn ends_within(&self, start_sector: u64, sectors: u64, done_bytes: usize) -> IoError {
        let end_sector = start_sector + (done_bytes / SECTOR_BYTES) as u64;
        let what = TroubleKind::EndsWithin { end_sector, sectors, start_sector };
        // The entire member is lost, not only these sectors: a write there would make the file longer, and the sectors before it
        // would read as zeros.
        self.0.size.lose_end(self.file(), self.name(), what.clone());
        IoError::of_drive(ErrorKind::Gone, self.name(), what)
    }

    /// The drive's name in messages.
    pub(crate) fn name(&self) -> impl std::fmt::Display {
        self.0.info.path.display()
    }

    /// The alignment of transfers, in bytes: of memory; of offset and length.
    pub(crate) fn alignment(&self) -> (usize, usize) {
        match &self.0.info {
            info if info.direct => (info.memory_align_bytes as usize, info.limits.logical_block_bytes as usize),
            _ => (1, 1),
        }
    }

    /// The refusal of any change to a drive that was opened for reading only.
    pub(crate) fn check_writable(&self) -> Result<(), IoError> {
        match self.0.access {
            Access::Exclusive => Ok(()),
            Access::ReadOnly | Access::Beside => {
                Err(IoError::new(ErrorKind::Unsupported, format!("member {} was opened for reading only", self.name())))
            }
        }
    }

    fn check(&self, start_sector: u64, len: usize, block_sectors: u64) -> Result<(), IoError> {
        let size_sectors = self.info().limits.size_sectors;
        let end = start_sector.checked_add((len / SECTOR_BYTES) as u64);
        let problem = if !len.is_multiple_of(SECTOR_BYTES * block_sectors as usize) || !start_sector.is_multiple_of(block_sectors)
        {
            "is not aligned to the drive's blocks"
        } else if end.is_none_or(|end| end > size_sectors) {
            "reaches beyond the end of the drive"
        } else {
            return Ok(());
        };
        let what = format!("member {}: range of {len} bytes at sector {start_sector} {problem}", self.name());
        Err(IoError::new(ErrorKind::Invalid, format!("{what} ({size_sectors} sectors)")))
    }

    fn error(&self, action: Action, start_sector: u64, len: usize, error: &io::Error) -> IoError {
        match Errno::from_io_error(error) {
            Some(errno) => io_error(self.name(), action, start_sector, (len / SECTOR_BYTES) as u64, errno),
            // `read_exact_at` reached the end of the file.
            None => IoError::new(ErrorKind::Gone, format!("member {}: {error}: it was cut short while in use", self.name())),
        }
    }
}

fn unfit(path: &Path, reason: Unfit) -> DriveError {
    DriveError::Unfit { path: path.to_owned(), reason }
}

fn system(path: &Path, action: &'static str, source: io::Error) -> DriveError {
    DriveError::System { path: path.to_owned(), action, source }
}

fn write_protected(path: &Path) -> DriveError {
    unfit(path, Unfit::Protected)
}

fn kind_of(path: &Path, metadata: &Metadata) -> Result<DriveKind, DriveError> {
    let file_type = metadata.file_type();
    let what = if file_type.is_block_device() {
        return Ok(DriveKind::BlockDevice);
    } else if file_type.is_file() {
        return Ok(DriveKind::File);
    } else if file_type.is_dir() {
        Unfit::Directory
    } else if file_type.is_char_device() {
        Unfit::Characters
    } else {
        Unfit::Pipe
    };
    Err(unfit(path, what))
}

fn open_error(path: &Path, access: Access, source: io::Error, device_number: u64) -> DriveError {
    let path = path.to_owned();
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT) => DriveError::Missing { path },
        Some(Errno::ACCESS | Errno::PERM) if access == Access::Exclusive && is_write_protected(device_number) => {
            write_protected(&path)
        }
        Some(Errno::ACCESS | Errno::PERM) if access == Access::ReadOnly => {
            DriveError::Denied { path, how: "for reading", source }
        }
        Some(Errno::ACCESS | Errno::PERM) => DriveError::Denied { path, how: "for writing", source },
        Some(Errno::BUSY) if let Some(map) = map_over(Path::new(SYSFS), device_number) => unfit(&path, Unfit::OnePath { map }),
        Some(Errno::BUSY) => {
            let holder = lock::exclusive_holder(&path, device_number);
            DriveError::Busy { path, holder, ends: false }
        }
        Some(Errno::ROFS) => unfit(&path, Unfit::FileSystemReadOnly),
        Some(Errno::TXTBSY) => unfit(&path, Unfit::Swap),
        Some(Errno::NXIO | Errno::NOMEDIUM) => unfit(&path, Unfit::NoDrive),
        _ => DriveError::System { path, action: "open", source },
    }
}

/// True if the block device is read-only in the kernel. Some drivers allow opening it for writing nevertheless.
fn is_write_protected(number: u64) -> bool {
    let page = block_page(Path::new(SYSFS), number);
    std::fs::read_to_string(page.join("ro")).is_ok_and(|page| page.trim() == "1")
}

/// Opens the file without the page cache. If the file system refuses that, opens it with the page cache and returns the refusal
/// too.
fn open_direct(path: &Path, kind: DriveKind, access: Access) -> Result<(File, Option<String>), DriveError> {
    let mut flags = match access {
        Access::Exclusive => OFlags::RDWR,
        Access::Beside if kind == DriveKind::File => OFlags::RDWR,
        // udev reads a device again whenever a handle for writing closes.
        Access::ReadOnly | Access::Beside => OFlags::RDONLY,
    } | OFlags::CLOEXEC;
    if access == Access::Exclusive && kind == DriveKind::BlockDevice {
        flags |= OFlags::EXCL;
    }
    let number = std::fs::metadata(path).map(|metadata| metadata.rdev()).unwrap_or(0);
    let open = |flags| {
        let open = || rustix::fs::open(path, flags, Mode::empty()).map(File::from);
        let attempt = || Some(open()).filter(|result| !matches!(result, Err(Errno::BUSY)));
        if flags.contains(OFlags::EXCL) { lock::outlast(path, attempt, || Err(Errno::BUSY)) } else { open() }
    };
    let fail = |errno: Errno| open_error(path, access, errno.into(), number);
    let file = match open(flags | OFlags::DIRECT) {
        Ok(file) => file,
        Err(Errno::INVAL) => {
            return Ok((open(flags).map_err(fail)?, Some("the file system refuses direct I/O".into())));
        }
        Err(errno) => return Err(fail(errno)),
    };
    let refusal = match direct_alignment(&file) {
        Some((_, 0)) => "the file system does no direct I/O on this file (encrypted, compressed or journalled data?)".into(),
        Some((memory, offset)) if memory as usize > BLOCK_ALIGN || offset as usize > BLOCK_ALIGN => {
            format!("direct I/O here needs alignment to {} bytes, more than {BLOCK_ALIGN}", memory.max(offset))
        }
        _ => return Ok((file, None)),
    };
    // The flag is cleared on the same open file, so that the path cannot lead to another file in between.
    let now = rustix::fs::fcntl_getfl(&file).and_then(|flags| rustix::fs::fcntl_setfl(&file, flags - OFlags::DIRECT));
    now.map_err(|errno| system(path, "turn direct I/O off", errno.into()))?;
    Ok((file, Some(refusal)))
}

fn inspect(
    path: &Path,
    kind: DriveKind,
    file: &File,
    metadata: &Metadata,
    refusal: Option<String>,
    access: Access,
) -> Result<DriveInfo, DriveError> {
    let direct = refusal.is_none();
    let (memory_align_bytes, direct_block_bytes) = match direct_alignment(file) {
        _ if !direct => (1, SECTOR_BYTES as u32),
        Some((memory, offset)) => (memory, offset.max(SECTOR_BYTES as u32)),
        None => (SECTOR_BYTES as u32, smallest_direct_read(file)),
    };
    let number = if kind == DriveKind::BlockDevice { metadata.rdev() } else { metadata.dev() };
    let sysfs = Sysfs::of(number);
    let page = |name| sysfs.as_ref().and_then(|sysfs| sysfs.number(name)).unwrap_or(0);
    let rotational = page("queue/rotational") == 1;
    let limits = match kind {
        DriveKind::File => Limits { rotational, ..file_limits(file, metadata, direct_block_bytes, access) },
        DriveKind::BlockDevice => Limits { rotational, ..block_device_limits(path, file, sysfs.as_ref())? },
    };
    if limits.size_sectors == 0 {
        let reason = match kind {
            DriveKind::File => Unfit::EmptyFile,
            DriveKind::BlockDevice => Unfit::NoSectors,
        };
        return Err(unfit(path, reason));
    }
    let limits_block_bytes = limits.logical_block_bytes;
    let of_device = sysfs.as_ref().filter(|_| kind == DriveKind::BlockDevice);
    Ok(DriveInfo {
        path: path.to_owned(),
        real_path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        kind,
        identity: Identity::of(metadata),
        limits,
        direct,
        direct_note: refusal.map(|refusal| format!("{refusal}: I/O goes through the page cache")),
        memory_align_bytes,
        transfer_bytes_max: transfer_bytes_max(of_device),
        io_poll: direct && of_device.and_then(|sysfs| sysfs.number("queue/io_poll")) == Some(1),
        chunk_sectors: of_device.and_then(|sysfs| sysfs.number("queue/chunk_sectors")).unwrap_or(0),
        model: of_device.and_then(Sysfs::model),
        serial: of_device.and_then(Sysfs::serial),
        waits: Waits::of(file, kind, limits_block_bytes),
        zeroes_command: page("queue/write_zeroes_max_bytes") > 0,
    })
}

fn file_limits(file: &File, metadata: &Metadata, direct_block_bytes: u32, access: Access) -> Limits {
    let block = u32::try_from(metadata.blksize()).ok().filter(|bytes| bytes.is_power_of_two() && *bytes <= 65536);
    let file_block_bytes = block.unwrap_or(4096).max(direct_block_bytes);
    let punches = punches_holes(file, metadata.len(), access);
    Limits {
        size_sectors: metadata.len() / u64::from(direct_block_bytes) * u64::from(direct_block_bytes) / SECTOR_BYTES as u64,
        logical_block_bytes: direct_block_bytes,
        physical_block_bytes: file_block_bytes,
        optimal_io_bytes: 0,
        volatile_cache: true,
        discard_granularity_bytes: if punches { file_block_bytes } else { 0 },
        unmap_zeroes: punches,
        rotational: false,
    }
}

fn block_device_limits(path: &Path, file: &File, sysfs: Option<&Sysfs>) -> Result<Limits, DriveError> {
    let page = |name| sysfs.and_then(|sysfs| sysfs.number(name)).unwrap_or(0);
    let ask = |errno: Errno| system(path, "learn the size of its blocks", errno.into());
    let logical_block_bytes = rustix::fs::ioctl_blksszget(file).map_err(ask)?;
    if logical_block_bytes as usize > BLOCK_ALIGN {
        return Err(unfit(path, Unfit::Blocks { block_bytes: logical_block_bytes }));
    }
    let size = device_bytes(file).map_err(|errno| system(path, "learn its size", errno.into()))?;
    let discards = page("queue/discard_max_bytes") > 0;
    let small = |bytes: u64| u32::try_from(bytes).unwrap_or(0);
    Ok(Limits {
        size_sectors: size / SECTOR_BYTES as u64,
        logical_block_bytes,
        physical_block_bytes: rustix::fs::ioctl_blkpbszget(file).map_err(ask)?.max(logical_block_bytes),
        optimal_io_bytes: small(page("queue/optimal_io_size")),
        volatile_cache: sysfs.is_none_or(Sysfs::has_volatile_cache),
        discard_granularity_bytes: if discards { small(page("queue/discard_granularity")).max(logical_block_bytes) } else { 0 },
        unmap_zeroes: discards && page("queue/write_zeroes_max_bytes") > 0,
        rotational: false,
    })
}

/// The largest request that a queue takes without a split: `max_sectors_kb`, and `max_segments` scattered pages. 1 GiB without a
/// queue.
fn transfer_bytes_max(sysfs: Option<&Sysfs>) -> usize {
    let page = |name, unit| sysfs.and_then(|sysfs| sysfs.number(name)).filter(|&count| count > 0).map(|count| count * unit);
    let bytes = page("queue/max_sectors_kb", 1024).into_iter().chain(page("queue/max_segments", BLOCK_ALIGN as u64)).min();
    let bytes = bytes.map_or(1 << 30, |bytes| usize::try_from(bytes).unwrap_or(1 << 30).min(1 << 30));
    // Whole blocks of any drive.
    (bytes / BLOCK_ALIGN * BLOCK_ALIGN).max(BLOCK_ALIGN)
}

/// The block of direct I/O if the kernel does not report it: the smallest size with which a read succeeds.
fn smallest_direct_read(file: &File) -> u32 {
    let mut memory = Buffer::zeroed(BLOCK_ALIGN);
    let works = |len: &u32| file.read_at(&mut memory[..*len as usize], 0).is_ok();
    [512, 1024, 2048].into_iter().find(works).unwrap_or(BLOCK_ALIGN as u32)
}

/// True if the file system can deallocate. With write access it is tried behind the end of the file, where no data is. The
/// attempt changes the file's times, so with read access the kind of file system decides.
fn punches_holes(file: &File, len: u64, access: Access) -> bool {
    /// linux/magic.h: ext4, xfs, btrfs, tmpfs, f2fs.
    const PUNCHING: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010];
    match access {
        Access::Exclusive => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, flags, len.next_multiple_of(BLOCK_ALIGN as u64), BLOCK_ALIGN as u64).is_ok()
        }
        Access::ReadOnly | Access::Beside => {
            rustix::fs::fstatfs(file).is_ok_and(|found| PUNCHING.contains(&(found.f_type as u64)))
        }
    }
}
