//! Creates arrays, nested if the level requires it.

use crate::HostError;
use crate::answers::{all_in_time, each_in_time, open_each};
use crate::clock::unix_seconds_at_zero;
use crate::examine::{Content, refuse_others, refuse_twins, refuse_unreadable, wipe, zero};
use crate::open::open_new;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use stria_array::address::Sectors;
use stria_array::{Layout, Level};
use stria_block::ranges::merged;
use stria_block::{Limits, bytes};
use stria_drive::{Access, IoOptions, Ring, SyncDrive};
use stria_format::md::{BitmapChoice, Create, CreateMember, Creation, LogChoice};
use stria_tree::{ArrayCreation, Maker, NewTree, SpanIdentity, refuse_contents};
use uuid::Uuid;

/// A level as users name it: of one array, or of a RAID 0 over arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLevel {
    /// One array.
    Single(Level),
    /// RAID 0 over spans of this level: 50 and 60.
    Striped(Level),
}

impl ArrayLevel {
    /// The space for data of so many drives of one size, in drives. `span_count`: the spans of a striped level.
    pub fn data_drives(self, drive_count: usize, span_count: usize) -> f64 {
        let of = |level: Level, count: usize| level.data_members(level.default_layout(), count);
        match self {
            Self::Single(level) => of(level, drive_count),
            Self::Striped(level) => span_count as f64 * of(level, drive_count / span_count.max(1)),
        }
    }
}

impl FromStr for ArrayLevel {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        match name.to_ascii_lowercase().trim_start_matches("raid") {
            "50" => Ok(Self::Striped(Level::Raid5)),
            "60" => Ok(Self::Striped(Level::Raid6)),
            _ => name
                .parse()
                .map(Self::Single)
                .map_err(|_: String| format!("RAID level \"{name}\" is unknown: use jbod, 0, 1, 4, 5, 6, 10, 50 or 60")),
        }
    }
}

impl fmt::Display for ArrayLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(level) => level.fmt(f),
            Self::Striped(level) => write!(f, "{level}0"),
        }
    }
}

/// The array to create.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    /// Its name.
    pub name: String,
    /// The level.
    pub level: ArrayLevel,
    /// The layout of the array, or of each span; `None`: the level's default.
    pub layout: Option<Layout>,
    /// The strip; `None`: chosen by the number and kind of the drives.
    pub strip_sectors: Option<u64>,
    /// Spans of a striped level; `None`: two.
    pub span_count: Option<usize>,
    /// Members in the order of their slots; `None`: missing from the start.
    pub drives: Vec<Option<PathBuf>>,
    /// Spares. Those of a striped level are distributed over the spans in turn.
    pub spares: Vec<PathBuf>,
    /// Keep a write-intent bitmap, with this many bytes a bit.
    pub bitmap: BitmapChoice,
    /// The most that is used of each drive.
    pub member_sectors_max: Option<u64>,
    /// Keep a write log on parity levels.
    pub log: LogChoice,
    /// Keep checksums of the drives' content, in blocks of 4 KiB.
    pub checksums: bool,
    /// The members are consistent already: no first resync.
    pub assume_clean: bool,
    /// What may be overwritten.
    pub overwrite: Overwrite,
}

impl CreateSpec {
    /// An array of all these drives: the layout, strip and write log are chosen by its level and its drives. It has no spares, no
    /// bitmap and no checksums.
    pub fn new(name: &str, level: ArrayLevel, drives: &[PathBuf]) -> Self {
        Self {
            name: name.to_owned(),
            level,
            layout: None,
            strip_sectors: None,
            span_count: None,
            drives: drives.iter().cloned().map(Some).collect(),
            spares: Vec::new(),
            bitmap: BitmapChoice::None,
            member_sectors_max: None,
            log: LogChoice::Auto,
            checksums: false,
            assume_clean: false,
            overwrite: Overwrite::Nothing,
        }
    }
}

/// What a new array may overwrite on its drives.
#[derive(Clone, Debug)]
pub enum Overwrite {
    /// Nothing: a drive that carries something is refused.
    Nothing,
    /// What the drives carried when that was confirmed ([`Examined::mark`](crate::Examined::mark)). A drive that is another, or
    /// carries something else since, is refused.
    Confirmed(Vec<String>),
    /// Whatever the drives carry.
    Anything,
}

/// The strip size if none is given. It is small for SSDs, so that a request of usual size stays on one drive and a full stripe
/// is small. It is large for hard disks, where a seek costs more than a transfer.
pub fn default_strip_sectors(member_count: usize, rotational: bool) -> u64 {
    let kib = match (rotational, member_count) {
        (true, _) => 256,
        (false, ..=2) => 16,
        (false, 3..=4) => 32,
        (false, _) => 64,
    };
    kib * 2
}

/// The plan of [`create`]: what it would write, and the array it would make. Sectors are those of the drives.
#[derive(Clone, Debug)]
pub struct Preview {
    /// For each drive: the ranges to which metadata and zeros are written. Signatures of old content are erased as well, and a
    /// first resync may write all of the drive later.
    pub writes: Vec<(PathBuf, Vec<Range<u64>>)>,
    /// The size that clients would see.
    pub capacity_sectors: u64,
    /// How many members may be lost, whichever they are.
    pub losses_survived: usize,
    /// The strip of the array, or of its spans.
    pub strip_sectors: Option<u64>,
}

/// The plan of [`create`]. Drives are only read, and old content on them is no error.
///
/// # Errors
/// Why it is impossible.
pub fn preview(spec: &CreateSpec) -> Result<Preview, HostError> {
    let paths: Vec<PathBuf> = spec.drives.iter().flatten().chain(&spec.spares).cloned().collect();
    let opened = open_each(&paths, Access::ReadOnly, IoOptions::default()).into_iter().collect::<Result<Vec<_>, _>>()?;
    refuse_twins(opened.iter().map(|(drive, _)| drive.info()))?;
    let mut opened = opened.into_iter();
    let mut next = || opened.next().expect("one for each path").0;
    let mut drives: Vec<Option<SyncDrive>> = spec.drives.iter().map(|path| path.as_ref().map(|_| next())).collect();
    drives.extend(spec.spares.iter().map(|_| Some(next())));
    let tree = new_tree(spec, &drives).plan()?;
    let mut writes = Vec::new();
    for array in &tree.arrays {
        for (index, drive) in array.drives.iter().enumerate().filter_map(|(index, &drive)| Some((index, drives[drive].as_ref()?)))
        {
            let zeros = array.creation.zeros.iter().filter(|zeros| zeros.drive == index);
            let zeros = zeros.map(|zeros| zeros.sectors.start.get()..zeros.sectors.end.get());
            let written = array.creation.writes.iter().filter(|write| write.drive == index).map(|write| {
                let start = write.start_sector.get();
                start..start + (write.bytes.len() / bytes(1)) as u64
            });
            writes.push((drive.info().path.clone(), merged(zeros.chain(written))));
        }
    }
    let geometry = &tree.arrays[0].creation.geometry;
    let has_strips = !matches!(geometry.level(), Level::Raid1) && geometry.strip_sectors() > 0;
    Ok(Preview {
        writes,
        capacity_sectors: tree.upper.as_ref().map_or(geometry, |upper| &upper.geometry).capacity_sectors(),
        losses_survived: geometry.losses_survived(),
        strip_sectors: has_strips.then(|| geometry.strip_sectors()),
    })
}

/// Creates the array. Nothing is written before everything has been checked.
///
/// # Errors
/// [`HostError::Unsafe`] for drives that carry something, if nothing may be overwritten; otherwise why it is impossible.
pub fn create(spec: &CreateSpec) -> Result<[u8; 16], HostError> {
    // Before any drive is locked: the second name of one drive would otherwise be refused as locked by the first.
    let paths: Vec<PathBuf> = spec.drives.iter().flatten().chain(&spec.spares).cloned().collect();
    let open = |access| open_each(&paths, access, IoOptions::default()).into_iter().collect::<Result<Vec<_>, _>>();
    refuse_twins(open(Access::ReadOnly)?.iter().map(|(drive, _)| drive.info()))?;
    let (opened, candidates): (Vec<SyncDrive>, Vec<_>) = open(Access::Exclusive)?.into_iter().unzip();
    let mut opened = opened.into_iter();
    let mut next = || opened.next().expect("one for each path");
    let mut drives: Vec<Option<SyncDrive>> = spec.drives.iter().map(|path| path.as_ref().map(|_| next())).collect();
    drives.extend(spec.spares.iter().map(|_| Some(next())));
    let tree = new_tree(spec, &drives);
    // Before the drives' contents: nobody should be told of --force for an array that cannot be made.
    let plan = tree.plan()?;
    match &spec.overwrite {
        Overwrite::Nothing => refuse_contents(&candidates)?,
        Overwrite::Confirmed(marks) => {
            refuse_others(marks, drives.iter().flatten().map(SyncDrive::info).zip(&candidates))?;
        }
        Overwrite::Anything => {}
    }
    let there: Vec<SyncDrive> = drives.iter().flatten().cloned().collect();
    each_in_time(&there, "to be read before anything is written", |_, drive| refuse_unreadable(drive))?;
    drop(there);
    plan.carry_out(&mut OnDrives { drives })?;
    Ok(tree.array.uuid)
}

fn new_uuid() -> [u8; 16] {
    *Uuid::new_v4().as_bytes()
}

/// The array on these drives: members in the order of their slots, then spares.
fn new_tree(spec: &CreateSpec, drives: &[Option<SyncDrive>]) -> NewTree {
    let (level, span_count) = match spec.level {
        ArrayLevel::Single(level) => (level, 0),
        ArrayLevel::Striped(level) => (level, spec.span_count.unwrap_or(2).max(1)),
    };
    let rotational = drives.iter().flatten().any(|drive| drive.info().limits.rotational);
    let width = spec.drives.len() / span_count.max(1);
    let member = |drive: &SyncDrive| {
        let Limits { size_sectors, logical_block_bytes, .. } = drive.info().limits;
        CreateMember { name: drive.info().path.display().to_string(), size_sectors, logical_block_bytes, device_uuid: new_uuid() }
    };
    let (members, spares) = drives.split_at(spec.drives.len());
    let array = Create {
        name: spec.name.clone(),
        homehost: None,
        uuid: new_uuid(),
        level,
        layout: spec.layout.unwrap_or(level.default_layout()),
        strip_sectors: spec.strip_sectors.unwrap_or_else(|| default_strip_sectors(width, rotational)),
        members: members.iter().map(|drive| drive.as_ref().map(member)).collect(),
        spares: spares.iter().flatten().map(member).collect(),
        data_offset_sectors: None,
        member_sectors_max: spec.member_sectors_max,
        bitmap: if level.is_redundant() { spec.bitmap } else { BitmapChoice::None },
        log: spec.log,
        checksums: spec.checksums,
        assume_clean: spec.assume_clean,
        span_of: None,
        unix_seconds: unix_seconds_at_zero(0),
    };
    let spans = (0..span_count).map(|_| SpanIdentity { array: new_uuid(), member: new_uuid() }).collect();
    NewTree { array, spans, upper_strip_sectors: None }
}

/// The drives of a new tree; `None`: missing, or given to its span.
struct OnDrives {
    drives: Vec<Option<SyncDrive>>,
}

impl Maker for OnDrives {
    type Error = HostError;

    fn write_drives(&mut self, array: &ArrayCreation) -> Result<(), HostError> {
        let creation = Arc::new(array.creation.clone());
        let there = array.drives.iter().enumerate().filter_map(|(index, &drive)| Some((index, self.drives[drive].clone()?)));
        let (indices, drives): (Vec<usize>, Vec<SyncDrive>) = there.unzip();
        let each = |step: Step<SyncDrive>| {
            let (indices, creation) = (indices.clone(), Arc::clone(&creation));
            each_in_time(&drives, IS_CREATED, move |drive, content| step(&creation, indices[drive], content)).map(drop)
        };
        write_new(each)
    }

    fn write_span(&mut self, span: &ArrayCreation, upper: &Creation, index: usize) -> Result<(), HostError> {
        let drives: Vec<SyncDrive> = span.drives.iter().filter_map(|&drive| self.drives[drive].take()).collect();
        let (uuid, upper) = (span.uuid, upper.clone());
        all_in_time(drives, IS_CREATED, move |drives| write_on_span(drives, &uuid, &upper, index))
    }
}

/// Writes what the array above has on one of its spans.
fn write_on_span(drives: Vec<SyncDrive>, uuid: &[u8; 16], upper: &Creation, index: usize) -> Result<(), HostError> {
    let ring = Ring::new()?;
    let mut array = open_new(drives, uuid, &ring)?;
    array.with_engine(|engine| engine.pause(true));
    array.sync_io(|io| {
        for zeros in upper.zeros.iter().filter(|zeros| zeros.drive == index) {
            io.write(zeros.sectors.start.get(), &vec![0; bytes(zeros.sectors.sectors())])?;
        }
        for write in upper.writes.iter().filter(|write| write.drive == index) {
            io.write(write.start_sector.get(), &write.bytes)?;
        }
        io.stop()
    })
}

/// What a drive is given time for, in words.
const IS_CREATED: &str = "to take the metadata of the new array, which the other drives may have by now";

/// A step of writing a new array to its drive of this index.
type Step<C> = fn(&Creation, usize, &C) -> Result<(), HostError>;

/// Writes an array to its drives: `each` does a step on all of them. The zeros are durable before there are superblocks: an array
/// that starts after a power cut would otherwise show old bytes at its ends, which may be a file system or a superblock.
fn write_new<C: Content>(mut each: impl FnMut(Step<C>) -> Result<(), HostError>) -> Result<(), HostError> {
    each(|_, _, drive| wipe(drive))?;
    each(|creation, index, drive| {
        creation.zeros.iter().filter(|zeros| zeros.drive == index).try_for_each(|zeros| zero(drive, &zeros.sectors))?;
        Ok(drive.sync()?)
    })?;
    each(|creation, index, drive| {
        let mut writes = creation.writes.iter().filter(|write| write.drive == index);
        writes.try_for_each(|write| drive.write(write.start_sector.get(), &write.bytes))?;
        Ok(drive.sync()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::tests::Faulty;
    use std::cell::RefCell;
    use stria_array::{DriveSector, Geometry};
    use stria_block::IoError;
    use stria_format::md::CreateZeros;
    use stria_format::md::create::CreateWrite;

    /// A drive with a volatile cache.
    struct Cached {
        drive: Faulty,
        /// The first sectors of the writes in its cache.
        cached: RefCell<Vec<u64>>,
        /// Those that were there together.
        flushed: RefCell<Vec<Vec<u64>>>,
    }

    impl Content for Cached {
        fn name(&self) -> String {
            self.drive.name()
        }
        fn extent(&self) -> (u64, u32) {
            self.drive.extent()
        }
        fn is_file(&self) -> bool {
            self.drive.is_file()
        }
        fn superblock_sector(&self) -> Option<u64> {
            None
        }
        fn read(&self, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
            self.drive.read(start, sectors)
        }
        fn write(&self, start: u64, data: &[u8]) -> Result<(), IoError> {
            self.cached.borrow_mut().push(start);
            self.drive.write(start, data)
        }
        fn sync(&self) -> Result<(), IoError> {
            self.flushed.borrow_mut().push(self.cached.take());
            Ok(())
        }
    }

    /// A power cut kept the superblock and lost the zeros, which were in the drive's cache together.
    #[test]
    fn zeros_are_durable_before_there_is_a_superblock() {
        let drives = ["/dev/x", "/dev/y"].map(|name| {
            let drive = Faulty::new(name);
            drive.put(bytes(2048), &[7; 4096]);
            Cached { drive, cached: RefCell::default(), flushed: RefCell::default() }
        });
        let sector = DriveSector::new;
        let creation = Creation {
            geometry: Geometry::new(Level::Raid1, Level::Raid1.default_layout(), 0, &[1024; 2]).expect("it fits"),
            superblocks: Vec::new(),
            zeros: (0..2).map(|drive| CreateZeros { drive, sectors: sector(2048)..sector(2056) }).collect(),
            writes: (0..2).map(|drive| CreateWrite { drive, start_sector: sector(8), bytes: vec![1; 4096] }).collect(),
        };
        write_new(|step| drives.iter().enumerate().try_for_each(|(index, drive)| step(&creation, index, drive)))
            .expect("they are written");
        for drive in &drives {
            assert_eq!(*drive.flushed.borrow(), [vec![2048], vec![8]]);
        }
    }
}
