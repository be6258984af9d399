//! Creates arrays, nested if the level requires it.

use crate::HostError;
use crate::answers::open_each;
use crate::clock::unix_seconds_at_zero;
use crate::examine::{refuse_twins, wipe, zero};
use crate::marks::span_name;
use crate::open::open_new;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use stria_array::{GeometryError, Layout, Level};
use stria_block::{Limits, bytes};
use stria_drive::{Access, IoOptions, Ring, SyncDrive};
use stria_format::md::create::CreateError;
use stria_format::md::{BitmapChoice, Create, CreateMember, Creation, LogChoice};
use stria_tree::refuse_contents;
use uuid::Uuid;

/// A level as users name it: of one array, or of a RAID 0 over arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLevel {
    /// One array.
    Single(Level),
    /// RAID 0 over spans of this level: 50 and 60.
    Striped(Level),
}

impl FromStr for ArrayLevel {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        match name.to_ascii_lowercase().trim_start_matches("raid") {
            "50" => Ok(Self::Striped(Level::Raid5)),
            "60" => Ok(Self::Striped(Level::Raid6)),
            _ => name.parse().map(Self::Single).map_err(|error: String| error.replace("6 or 10", "6, 10, 50 or 60")),
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

/// What to create.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    /// Its name.
    pub name: String,
    /// The level.
    pub level: ArrayLevel,
    /// The layout of the array, or of each span; `None`: the level's default.
    pub layout: Option<Layout>,
    /// The strip; `None`: by drive count and kind.
    pub strip_sectors: Option<u64>,
    /// Spans of a striped level; `None`: two.
    pub span_count: Option<usize>,
    /// Members in the order of their slots; `None`: missing from the start.
    pub drives: Vec<Option<PathBuf>>,
    /// Spares. Those of a striped level are distributed over the spans in turn.
    pub spares: Vec<PathBuf>,
    /// Keep a write-intent bitmap, with this many bytes a bit.
    pub bitmap: BitmapChoice,
    /// Use at most so much of each drive.
    pub member_sectors_max: Option<u64>,
    /// Keep a write log on parity levels.
    pub log: LogChoice,
    /// Keep checksums of the drives' content, in blocks of 4 KiB.
    pub checksums: bool,
    /// The members are consistent already: no first resync.
    pub assume_clean: bool,
    /// Overwrite what the drives carry.
    pub force: bool,
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

struct Drives {
    members: Vec<Option<SyncDrive>>,
    spares: Vec<SyncDrive>,
}

/// Creates the array. Nothing is written before everything has been checked.
///
/// # Errors
/// [`HostError::Unsafe`] for a drive that carries something, without `force`; otherwise why it is impossible.
pub fn create(spec: &CreateSpec) -> Result<[u8; 16], HostError> {
    // Before any drive is locked: a second name of a drive would meet the lock of the first.
    let paths: Vec<PathBuf> = spec.drives.iter().flatten().chain(&spec.spares).cloned().collect();
    let open = |access| open_each(&paths, access, IoOptions::default()).into_iter().collect::<Result<Vec<_>, _>>();
    refuse_twins(open(Access::ReadOnly)?.iter().map(|(drive, _)| drive.info()))?;
    let mut opened = open(Access::Exclusive)?.into_iter();
    for (_, candidate) in opened.as_slice() {
        refuse_contents(candidate, spec.force)?;
    }
    let mut next = || opened.next().expect("one for each path").0;
    let members: Vec<Option<SyncDrive>> = spec.drives.iter().map(|path| path.as_ref().map(|_| next())).collect();
    let spares: Vec<SyncDrive> = spec.spares.iter().map(|_| next()).collect();
    let all = || members.iter().flatten().chain(&spares);
    let rotational = all().any(|drive| drive.info().limits.rotational);
    match spec.level {
        ArrayLevel::Single(level) => {
            let strip = spec.strip_sectors.unwrap_or_else(|| default_strip_sectors(members.len(), rotational));
            let drives = Drives { members, spares };
            let plan = plan(spec, &spec.name, level, strip, &drives, None)?;
            carry_out(&plan.1, &drives)?;
            Ok(plan.0)
        }
        ArrayLevel::Striped(level) => create_striped(spec, level, Drives { members, spares }, rotational),
    }
}

fn create_striped(spec: &CreateSpec, level: Level, drives: Drives, rotational: bool) -> Result<[u8; 16], HostError> {
    let span_count = spec.span_count.unwrap_or(2);
    let count = drives.members.len();
    if span_count < 2 || !count.is_multiple_of(span_count) {
        return Err(HostError::Usage(format!(
            "{count} drives do not make {span_count} equal spans of 2 or more: choose --spans so that it divides the drive count"
        )));
    }
    let width = count / span_count;
    let strip = spec.strip_sectors.unwrap_or_else(|| default_strip_sectors(width, rotational));
    let mut spans: Vec<Drives> = Vec::new();
    let mut members = drives.members.into_iter();
    for _ in 0..span_count {
        spans.push(Drives { members: members.by_ref().take(width).collect(), spares: Vec::new() });
    }
    for (index, spare) in drives.spares.into_iter().enumerate() {
        spans[index % span_count].spares.push(spare);
    }
    let uuid = *Uuid::new_v4().as_bytes();
    let names: Vec<String> = (0..span_count).map(|index| span_name(&spec.name, index)).collect();
    let mut plans = Vec::new();
    for (span, name) in spans.iter().zip(&names) {
        plans.push(plan(spec, name, level, strip, span, Some(uuid))?);
    }
    // The array above stripes in units of a span's whole stripe if that is a power of two, else in strips, so that large writes
    // fill stripes.
    let width_sectors = plans[0].1.geometry.data_count() as u64 * strip;
    let upper_strip = if width_sectors.is_power_of_two() && width_sectors <= 2048 { width_sectors } else { strip };
    let capacities: Vec<u64> = plans.iter().map(|(_, plan)| plan.geometry.capacity_sectors()).collect();
    let logical_block_bytes = spans.iter().flat_map(|span| span.members.iter().flatten());
    let logical_block_bytes = logical_block_bytes.map(|drive| drive.info().limits.logical_block_bytes).max().unwrap_or(512);
    let logical_block_bytes = if spec.checksums { 4096 } else { logical_block_bytes };
    let upper = Create {
        name: spec.name.clone(),
        homehost: None,
        uuid,
        level: Level::Raid0,
        layout: Level::Raid0.default_layout(),
        strip_sectors: upper_strip,
        members: capacities
            .iter()
            .zip(&names)
            .map(|(&size_sectors, name)| Some(member_of(name.clone(), size_sectors, logical_block_bytes)))
            .collect(),
        spares: Vec::new(),
        data_offset_sectors: None,
        member_sectors_max: None,
        bitmap: BitmapChoice::None,
        log: LogChoice::None,
        checksums: false,
        assume_clean: spec.assume_clean,
        span_of: None,
        unix_seconds: unix_seconds_at_zero(0),
    };
    let upper = upper.plan().map_err(impossible)?;
    for (span, (_, plan)) in spans.iter().zip(&plans) {
        carry_out(plan, span)?;
    }
    // The array above is written through the spans, so that their parity covers it.
    for (index, (span, (span_uuid, _))) in spans.into_iter().zip(&plans).enumerate() {
        let ring = Ring::new()?;
        let mut array = open_new(span.members.into_iter().flatten().chain(span.spares).collect(), span_uuid, &ring)?;
        array.command(|engine| engine.pause(true));
        array.sync_io(|io| {
            for zeros in upper.zeros.iter().filter(|zeros| zeros.drive == index) {
                io.write(zeros.sectors.start, &vec![0; bytes(zeros.sectors.end - zeros.sectors.start)])?;
            }
            for write in upper.writes.iter().filter(|write| write.drive == index) {
                io.write(write.start_sector, &write.bytes)?;
            }
            io.stop()
        })?;
    }
    Ok(uuid)
}

fn member_of(name: String, size_sectors: u64, logical_block_bytes: u32) -> CreateMember {
    CreateMember { name, size_sectors, logical_block_bytes, device_uuid: *Uuid::new_v4().as_bytes() }
}

fn plan(
    spec: &CreateSpec,
    name: &str,
    level: Level,
    strip_sectors: u64,
    drives: &Drives,
    span_of: Option<[u8; 16]>,
) -> Result<([u8; 16], Creation), HostError> {
    let member = |drive: &SyncDrive| {
        let Limits { size_sectors, logical_block_bytes, .. } = drive.info().limits;
        member_of(drive.info().path.display().to_string(), size_sectors, logical_block_bytes)
    };
    let uuid = *Uuid::new_v4().as_bytes();
    let create = Create {
        name: name.to_owned(),
        homehost: None,
        uuid,
        level,
        layout: spec.layout.unwrap_or(level.default_layout()),
        strip_sectors,
        members: drives.members.iter().map(|drive| drive.as_ref().map(member)).collect(),
        spares: drives.spares.iter().map(member).collect(),
        data_offset_sectors: None,
        member_sectors_max: spec.member_sectors_max,
        bitmap: if level.is_redundant() { spec.bitmap } else { BitmapChoice::None },
        log: spec.log,
        checksums: spec.checksums,
        assume_clean: spec.assume_clean,
        span_of,
        unix_seconds: unix_seconds_at_zero(0),
    };
    let plan = create.plan().map_err(impossible)?;
    Ok((uuid, plan))
}

fn impossible(error: CreateError) -> HostError {
    match error {
        CreateError::Geometry(GeometryError::TooSmall { .. }) | CreateError::Refused(_) => HostError::Refused(error.to_string()),
        CreateError::Geometry(_) | CreateError::Usage(_) => HostError::Usage(error.to_string()),
    }
}

fn carry_out(plan: &Creation, drives: &Drives) -> Result<(), HostError> {
    for drive in drives.members.iter().flatten().chain(&drives.spares) {
        wipe(drive)?;
    }
    let by_index = |index: usize| match index.checked_sub(drives.members.len()) {
        None => drives.members[index].as_ref().expect("nothing is written to a missing member"),
        Some(spare) => &drives.spares[spare],
    };
    for zeros in &plan.zeros {
        zero(by_index(zeros.drive), zeros.sectors.clone())?;
    }
    for write in &plan.writes {
        by_index(write.drive).write_at(write.start_sector, &write.bytes)?;
    }
    for drive in drives.members.iter().flatten().chain(&drives.spares) {
        drive.sync()?;
    }
    Ok(())
}
