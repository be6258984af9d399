//! Checks that a drive is still as large as it was when it was opened.
//!
//! A file that is cut short while it is a member (`truncate`, `cp x FILE`) does not return errors. Reads behind its end are
//! short, but the next write there makes the file grow again, and from then on the hole before it reads as zeros without any
//! error. So the size is checked *after* each read, before its data is used, and before each write. One check serves all requests
//! of a turn. This is sound: our own write makes the file no longer than the write's end, so the file stays shorter than before
//! until its very last block is written. For that case, and for a file that other software makes long again, the occupied space
//! is compared as well ([`SeenSpace`]). Of a file with holes on XFS that shares blocks with another, the space says nothing: XFS
//! reserves more space for their copies, and frees it when it likes.
//!
//! A drive that was once seen to be shorter is lost for good: every request to it ends with [`ErrorKind::Gone`], through every
//! handle, until it is opened anew.
//!
//! - A file is checked by `statx`, which waits for no server. It also tells that the file was deleted or replaced: its bytes are
//!   then lost with the last process that has it open. That is reported, and the drive stays.
//! - A loop device has a file behind it, and its own size says nothing about that file: without direct I/O it reads zeros
//!   behind the file's end. That file is checked as well, its space too if the device covers all of it and it is not on XFS.
//! - Other block devices do not grow by writes, and reads behind their end are short or fail. So their size is checked only
//!   when a request fails, and once a second. So is their entry in sysfs, which goes with a drive that is pulled: an idle array
//!   would otherwise notice that with its next request.

use crate::info::Sysfs;
use crate::sysfs::{SYSFS, block_page};
use crate::{DriveInfo, DriveKind};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use rustix::ioctl::{Getter, Opcode, Updater, ioctl, opcode};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stria_block::{ErrorKind, IoError, SECTOR_BYTES, Trouble, TroubleKind};

/// linux/fs.h: `BLKGETSIZE64`.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
/// linux/loop.h: `LOOP_GET_STATUS64`. The structure begins with the device and the inode of the file behind it.
const LOOP_GET_STATUS64: Opcode = 0x4c05;
/// 232 bytes: `struct loop_info64`.
type LoopInfo = [u64; 29];

/// linux/fs.h: `FS_IOC_FIEMAP`, whose structure is followed by the extents: [`EXTENTS`] of 56 bytes.
const FIEMAP: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);
const EXTENTS: usize = 128;
type ExtentMap = [u64; 4 + 7 * EXTENTS];
/// linux/fiemap.h: `FIEMAP_EXTENT_LAST` and `FIEMAP_EXTENT_SHARED`.
const EXTENT_LAST: u32 = 1;
const EXTENT_SHARED: u32 = 0x2000;
/// linux/fs.h: `FS_IOC_FSGETXATTR`, `struct fsxattr`, and the flag `FS_XFLAG_COWEXTSIZE` in it: space is reserved around each
/// copied block.
const FSGETXATTR: Opcode = opcode::read::<[u32; 7]>(b'X', 31);
const COPIES_ARE_LARGE: u32 = 0x1_0000;

/// linux/magic.h: xfs.
const XFS: u64 = 0x5846_5342;

/// Space that a file may lose between two checks without suspicion: file systems merge blocks of their own.
const SPACE_SLACK_BYTES: u64 = 64 << 10;
/// 64 KiB: a loop device leaves at most this of a file's end over, as its size is a multiple of its blocks.
const REST_BYTES_MAX: u64 = 64 << 10;
/// The number of checks of a file that lacks space, a millisecond apart, before it is lost.
const LOOKS: usize = 20;

/// The size of an open drive, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Size {
    /// The file that is the member, or that is behind a loop device.
    file: Option<Backing>,
    /// The size of a block device, in bytes.
    device_bytes: Option<u64>,
    /// The entry of a block device in sysfs, if there was one when it was opened. No other device gets its number while this one
    /// is open.
    entry: Option<PathBuf>,
    /// The numbers of operations that free space: begun and ended.
    releases_begun: AtomicU64,
    releases_ended: AtomicU64,
    /// Why the drive is lost.
    lost: OnceLock<Trouble>,
    /// True once the file is seen to have no name any more.
    deleted: AtomicBool,
    /// True once that was reported.
    is_deletion_told: AtomicBool,
    /// True if the drive is lost because it was cut short, not because it was pulled. Outlives the drive.
    cut_short: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Backing {
    /// `None`: the member's own file.
    other: Option<File>,
    /// The file must not become shorter than this.
    bytes: u64,
    /// The space that it occupied when it was opened, if that can be compared.
    opened: Option<Seen>,
    /// True if it had a name when it was opened. Some file systems on FUSE count none.
    had_name: bool,
}

/// The space that one handle saw at its last check, or when the drive was opened. If it shrinks although Stria freed none, the
/// file was cut short.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeenSpace(Option<Seen>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    space_bytes: u64,
    releases_ended: u64,
}

impl Size {
    /// The size of a drive that was just opened.
    pub(crate) fn of(info: &DriveInfo, file: &File, metadata: &Metadata) -> Self {
        let (backing, device_bytes, entry) = match info.kind {
            DriveKind::File => {
                let space_bytes = metadata.blocks() * SECTOR_BYTES as u64;
                let opened = (info.direct && counts_exactly(file)).then_some(Seen { space_bytes, releases_ended: 0 });
                let had_name = metadata.nlink() > 0;
                (Some(Backing { other: None, bytes: metadata.len(), opened, had_name }), None, None)
            }
            DriveKind::BlockDevice => {
                let bytes = info.limits.size_sectors * SECTOR_BYTES as u64;
                let entry = block_page(Path::new(SYSFS), metadata.rdev());
                (behind_loop_device(file, metadata.rdev()), Some(bytes), entry.exists().then_some(entry))
            }
        };
        Self {
            file: backing,
            device_bytes,
            entry,
            releases_begun: AtomicU64::new(0),
            releases_ended: AtomicU64::new(0),
            deleted: AtomicBool::new(false),
            is_deletion_told: AtomicBool::new(false),
            lost: OnceLock::new(),
            cut_short: Arc::default(),
        }
    }

    /// Why the drive is lost, if it is.
    pub(crate) fn lost(&self) -> Option<IoError> {
        self.lost.get().map(|why| why.clone().error(ErrorKind::Gone))
    }

    /// Marks the drive as lost.
    fn lose(&self, drive: impl std::fmt::Display, kind: TroubleKind) {
        self.lost.get_or_init(|| Trouble { drive: drive.to_string(), kind });
    }

    /// Marks the drive as lost: it ends before its recorded end. `own`: the open drive.
    pub(crate) fn lose_end(&self, own: &File, drive: impl std::fmt::Display, why: TroubleKind) {
        let left_bytes = if self.file.is_none() { device_bytes(own).ok() } else { None };
        self.end_early(left_bytes, drive, why);
    }

    /// The same of a drive with so much left, if that is known. A device that is pulled out has no size left, and loses no data.
    fn end_early(&self, left_bytes: Option<u64>, drive: impl std::fmt::Display, why: TroubleKind) {
        if left_bytes != Some(0) && self.lost.get().is_none() {
            self.cut_short.store(true, Ordering::SeqCst);
        }
        self.lose(drive, why);
    }

    /// True once the drive is seen to have been cut short.
    pub(crate) fn cut_short(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cut_short)
    }

    /// True if the size must be checked between requests: there is a file, and reads behind its end may succeed.
    pub(crate) fn is_of_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the file has holes, which need space of its file system when they are written.
    pub(crate) fn has_holes(&self, own: &File) -> bool {
        let holes = |backing: &Backing| {
            let found = FileState::of(backing.other.as_ref().unwrap_or(own));
            found.is_none_or(|found| found.space_bytes < found.bytes)
        };
        self.file.as_ref().is_some_and(holes)
    }

    /// A step that gives space back begins.
    pub(crate) fn release_begins(&self) {
        self.releases_begun.fetch_add(1, Ordering::SeqCst);
    }

    /// It has ended.
    pub(crate) fn release_ends(&self) {
        self.releases_ended.fetch_add(1, Ordering::SeqCst);
    }

    /// The space at the open, for the first check of a handle.
    pub(crate) fn space_at_open(&self) -> SeenSpace {
        SeenSpace(self.file.as_ref().and_then(|backing| backing.opened))
    }

    /// Checks the file, if there is one. `own`: the open drive; `space`: the space that this handle saw last.
    pub(crate) fn look_at_file(&self, own: &File, name: impl std::fmt::Display, space: &mut SeenSpace) {
        let Some(backing) = &self.file else { return };
        if self.lost.get().is_some() {
            return;
        }
        let releases_ended = self.releases_ended.load(Ordering::SeqCst);
        let file = backing.other.as_ref().unwrap_or(own);
        // A failed check proves nothing; requests will return errors.
        let Some(FileState { bytes, space_bytes, has_name }) = FileState::of(file) else { return };
        if backing.had_name && !has_name {
            self.deleted.store(true, Ordering::SeqCst);
        }
        if bytes < backing.bytes {
            let (before_bytes, is_behind) = (backing.bytes, backing.other.is_some());
            return self.lose_end(own, name, TroubleKind::CutShort { before_bytes, now_bytes: bytes, is_behind });
        }
        if backing.opened.is_none() {
            return;
        }
        let before = space.0.replace(Seen { space_bytes, releases_ended });
        // No operation that frees space was in flight at any time since the previous check.
        let is_current = |before: &Seen| self.releases_begun.load(Ordering::SeqCst) == before.releases_ended;
        if let Some(Seen { space_bytes: before, .. }) = before.filter(is_current)
            && let Some(left) = is_still_lacking(file, least_space_bytes(before, bytes), space_bytes)
            && (before >= bytes || !reserves_for_copies(file, bytes))
        {
            self.lose_end(own, name, TroubleKind::CutShortAndLong { left_bytes: left, before_bytes: before });
        }
    }

    /// True if the file was seen to have been deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::SeqCst)
    }

    /// The same, once.
    pub(crate) fn take_deletion(&self) -> bool {
        self.is_deleted() && !self.is_deletion_told.swap(true, Ordering::SeqCst)
    }

    /// Checks a block device itself; waits for no drive.
    pub(crate) fn look_at_device(&self, own: &File, name: impl std::fmt::Display) {
        let Some(bytes) = self.device_bytes else { return };
        let is_gone = |entry: &PathBuf| std::fs::metadata(entry).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if self.entry.as_ref().is_some_and(is_gone) {
            return self.lose(name, TroubleKind::Gone);
        }
        if let Ok(now) = device_bytes(own) {
            self.compare(bytes, now, name);
        }
    }

    /// A device of `bytes` has `now`.
    fn compare(&self, bytes: u64, now: u64, name: impl std::fmt::Display) {
        if now < bytes {
            self.end_early(Some(now), name, TroubleKind::Smaller { before_bytes: bytes, now_bytes: now });
        }
    }
}

/// The size of a block device. A seek to its end tells the same, but takes a lock that the kernel holds while it trims or zeroes
/// the device: beside a drive that hangs in a trim, the lane would hang with it.
///
/// # Errors
/// As the ioctl.
pub(crate) fn device_bytes(device: &File) -> rustix::io::Result<u64> {
    // SAFETY: BLKGETSIZE64 writes a u64 to what it is given, although its number is made from the size of a `size_t`.
    unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Length of a file, the space that it takes, and whether it has a name.
struct FileState {
    bytes: u64,
    space_bytes: u64,
    has_name: bool,
}

impl FileState {
    fn of(file: &File) -> Option<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let now = statx(file, c"", flags, StatxFlags::SIZE | StatxFlags::BLOCKS | StatxFlags::NLINK).ok()?;
        Some(Self { bytes: now.stx_size, space_bytes: now.stx_blocks * SECTOR_BYTES as u64, has_name: now.stx_nlink > 0 })
    }
}

/// The least space that a file of `bytes` occupies, if it occupied `before`. What exceeds its length is reserve that a file
/// system may take back: XFS reserves more than a write needs where it replaces shared blocks.
fn least_space_bytes(before: u64, bytes: u64) -> u64 {
    before.min(bytes).saturating_sub(SPACE_SLACK_BYTES)
}

/// The space that a file occupies, if it stays too small for more than a moment: a file system that replaces a shared block by a
/// copy subtracts the old block before it adds the new one.
fn is_still_lacking(file: &File, least_bytes: u64, mut space_bytes: u64) -> Option<u64> {
    for _ in 0..LOOKS {
        if space_bytes >= least_bytes {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
        space_bytes = FileState::of(file)?.space_bytes;
    }
    (space_bytes < least_bytes).then_some(space_bytes)
}

/// True if the file is on XFS and shares blocks, or has a hint for copies: then the file system reserves space that it frees at
/// any time. In a file without holes that space is beyond its length, see [`least_space_bytes`].
fn reserves_for_copies(file: &File, bytes: u64) -> bool {
    if !is_on_xfs(file) {
        return false;
    }
    // SAFETY: the ioctl writes no more than the structure's size.
    let attributes = unsafe { ioctl(file, Getter::<FSGETXATTR, [u32; 7]>::new()) };
    attributes.is_ok_and(|found| found[0] & COPIES_ARE_LARGE != 0) || shares_blocks(file, bytes)
}

fn is_on_xfs(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == XFS)
}

/// False also if the file system does not say.
fn shares_blocks(file: &File, bytes: u64) -> bool {
    let mut at = 0;
    while at < bytes {
        let mut map: ExtentMap = [0; 4 + 7 * EXTENTS];
        // Start, length; flags and the number found; space for extents.
        (map[0], map[1], map[3]) = (at, bytes - at, EXTENTS as u64);
        // SAFETY: the ioctl writes the structure and as many extents as there is space for.
        if unsafe { ioctl(file, Updater::<FIEMAP, _>::new(&mut map)) }.is_err() {
            return false;
        }
        // The second half of a word of two numbers, as they lie in memory.
        let found = u32::from_ne_bytes(map[2].to_ne_bytes()[4..].try_into().expect("4 bytes")) as usize;
        let flags = |extent: &[u64]| u32::from_ne_bytes(extent[5].to_ne_bytes()[..4].try_into().expect("4 bytes"));
        let mut extents = map[4..].chunks_exact(7).take(found);
        if extents.clone().any(|extent| flags(extent) & EXTENT_SHARED != 0) {
            return true;
        }
        let Some(last) = extents.next_back().filter(|last| flags(last) & EXTENT_LAST == 0) else { return false };
        at = last[0].saturating_add(last[2]);
    }
    false
}

/// True if the file system reports the space of a file exactly and at once: no compression, no delayed counting.
fn counts_exactly(file: &File) -> bool {
    /// linux/magic.h: ext4, xfs, tmpfs.
    const EXACT: [u64; 3] = [0xef53, XFS, 0x0102_1994];
    rustix::fs::fstatfs(file).is_ok_and(|found| EXACT.contains(&(found.f_type as u64)))
}

/// The file behind a loop device, as far as it can be found.
fn behind_loop_device(device: &File, number: u64) -> Option<Backing> {
    let sysfs = Sysfs::of(number)?;
    let path = sysfs.text("loop/backing_file")?;
    let file = File::from(rustix::fs::open(&*path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    // SAFETY: the ioctl writes no more than the structure's size.
    let info: LoopInfo = unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) }.ok()?;
    // The path may lead to another file by now, or in this container.
    let is_it = info[..2] == [metadata.dev(), metadata.ino()] && metadata.is_file();
    // The end of the part that the device uses; its file may be longer.
    let device_bytes = sysfs.number("size")?.saturating_mul(SECTOR_BYTES as u64);
    let end = sysfs.number("loop/offset").unwrap_or(0).saturating_add(device_bytes);
    let (bytes, had_name) = (end.min(metadata.len()), metadata.nlink() > 0);
    // If the device covers a part, another device may free the space of the rest. XFS frees reserves at any time, and a file that
    // is not open for reading cannot be asked whether it has any.
    let rest_bytes = metadata.len().saturating_sub(device_bytes);
    let is_all = sysfs.number("loop/offset") == Some(0) && rest_bytes < REST_BYTES_MAX;
    let is_comparable = is_all && counts_exactly(&file) && !is_on_xfs(&file);
    let opened = is_comparable.then_some(Seen { space_bytes: metadata.blocks() * SECTOR_BYTES as u64, releases_ended: 0 });
    is_it.then_some(Backing { other: Some(file), bytes, opened, had_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, an idle array noticed that a drive was pulled with its next request, and a drive that came back in between waited
    /// for that.
    #[test]
    fn a_block_device_that_has_left_sysfs_is_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let (device, entry) = (folder.path().join("device"), folder.path().join("8:16"));
        std::fs::write(&device, [0; 4096]).expect("a file");
        std::fs::write(&entry, "").expect("a file");
        let file = File::open(&device).expect("a file");
        let size = Size {
            file: None,
            device_bytes: Some(4096),
            entry: Some(entry.clone()),
            releases_begun: AtomicU64::new(0),
            releases_ended: AtomicU64::new(0),
            deleted: AtomicBool::new(false),
            is_deletion_told: AtomicBool::new(false),
            lost: OnceLock::new(),
            cut_short: Arc::default(),
        };
        size.look_at_device(&file, "/dev/sdb");
        assert!(size.lost().is_none());
        std::fs::remove_file(entry).expect("a file");
        size.look_at_device(&file, "/dev/sdb");
        let lost = size.lost().expect("it is gone");
        assert!(lost.kind == ErrorKind::Gone && lost.context.contains("/dev/sdb is gone"), "{lost}");
        assert!(!size.cut_short().load(Ordering::SeqCst));
    }

    /// A device that was pulled out was taken for cut short where its size went first, and never returned by the bitmap.
    #[test]
    fn a_device_without_a_size_was_pulled_and_a_smaller_one_was_cut_short() {
        for (left, is_cut) in [(0, false), (2048, true)] {
            let size = Size {
                file: None,
                device_bytes: Some(4096),
                entry: None,
                releases_begun: AtomicU64::new(0),
                releases_ended: AtomicU64::new(0),
                deleted: AtomicBool::new(false),
                is_deletion_told: AtomicBool::new(false),
                lost: OnceLock::new(),
                cut_short: Arc::default(),
            };
            let cut_short = size.cut_short();
            size.compare(4096, left, "/dev/sdb");
            assert!(size.lost().is_some());
            assert_eq!(cut_short.load(Ordering::SeqCst), is_cut, "{left} bytes");
        }
    }

    /// An image on XFS that had been copied by reference was taken for cut short, because reserves of the file system went away
    /// when it was full.
    #[test]
    fn space_beyond_the_length_may_go_away() {
        let (mib, length) = (1 << 20, 40 << 20);
        let lacks = |before, now| now < least_space_bytes(before, length);
        assert!(!lacks(length + mib, length), "only reserves are gone");
        assert!(lacks(length + mib, length - mib), "some of the file is gone");
        assert!(lacks(length, 0), "it was cut short");
        assert!(lacks(length / 2, length / 4), "of a file with holes a half is gone");
        assert!(!lacks(length / 2, length / 2 + mib), "it has grown");
    }
}
