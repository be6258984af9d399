//! The array of a history: drawn from the seed, and small, so that edge cases are common.

use crate::chance::Chance;
use crate::drive::Model;
use std::fmt;
use stria_array::{ArraySector, Copies, Geometry, Layout, Level, NEW_DATA_SECTORS_MAX, ParityLayout, Zones};
use stria_block::Nanos;
use stria_integrity::Region;

/// An array and its drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The level of the array, or of each span.
    pub level: Level,
    /// The layout of the array, or of each span.
    pub layout: Layout,
    /// The number of spans of a RAID 0 over arrays; 1: no spans.
    pub span_count: usize,
    /// The number of members of the array, or of each span.
    pub member_count: usize,
    /// The number of spares (of the first span).
    pub spare_count: usize,
    /// The number of drives that are in no array.
    pub loose_count: usize,
    /// The size of a strip.
    pub strip_sectors: u64,
    /// The chunk of the write-intent bitmap, in bytes.
    pub intent_chunk_bytes: Option<u32>,
    /// The bytes of a page in which the bitmap is written, so that the bitmap of a small array has several.
    pub bitmap_page_bytes: Option<usize>,
    /// True if parity levels have a write log.
    pub log: bool,
    /// RAID 5 has md's partial parity log instead, and no bitmap.
    pub partial_parity: Option<PartialParity>,
    /// True if members' lists of bad blocks count as half full while they are empty.
    pub short_lists: bool,
    /// True if drives have checksums of their data.
    pub checksums: bool,
    /// True if there is no resync after creation.
    pub assume_clean: bool,
    /// Every drive: members first, span by span, then spares, then loose ones.
    pub drives: Vec<Model>,
    /// Completions are delivered at multiples of this time only, so that many arrive at once; 0: one by one.
    pub ends_every: Nanos,
    /// True if slow reads are hedged.
    pub hedges: bool,
    /// The number of lanes, where the array can have several.
    pub lanes: usize,
    /// True if lanes sometimes miss turns.
    pub lanes_nap: bool,
    /// Sweeps are held after every start until a step releases them, as if clients left them no speed.
    pub late_sweeps: bool,
    /// Requests to a hung drive outlive their process, and the drive cannot be opened meanwhile.
    pub holds: bool,
    /// Clients outlive the process, and repeat the requests that it had not answered, as Linux does for a ublk device.
    pub repeats: bool,
    /// Drives hang while members are filled, and no request may wait for one that is not in use any more.
    pub hangs: bool,
    /// A drive that was lost in a power cut, or pulled after a command that failed it was answered, returns at some later start.
    pub found_again: bool,
    /// Faults of drives are harsher, see [`Extras::harsh`](crate::Extras::harsh).
    pub harsh: bool,
}

/// The position of a partial parity log on each drive, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialParity {
    /// Its length.
    pub sectors: u16,
    /// True if its entries go around the area, as Linux writes them since 4.14; otherwise each overwrites the last.
    pub ring: bool,
}

/// A family of arrays, by its name on the command line.
pub const FAMILIES: [&str; 9] = ["jbod", "0", "1", "10", "4", "5", "6", "50", "60"];

impl Setup {
    /// Draws an array by `chance`, of one family if that is named.
    pub fn draw(chance: &mut Chance, family: Option<&str>) -> Self {
        let family = family.unwrap_or_else(|| {
            chance.pick(&["jbod", "0", "1", "1", "1", "10", "10", "10", "4", "5", "5", "5", "5", "6", "6", "6", "50", "60"])
        });
        let strip_sectors = if chance.one_in(6) { chance.pick(&[64, 128]) } else { chance.pick(&[8, 8, 16, 32]) };
        let (level, layout, member_count, span_count) = shape(chance, family);
        let redundant = level.is_redundant();
        let spare_count = if redundant && chance.one_in(3) { 1 } else { 0 };
        let loose_count = if redundant { 1 + chance.below(2) as usize } else { 0 };
        // The data area: bitmaps need 64 KiB at least; sometimes large enough for several windows of a sweep.
        let far = if let Layout::Copies(copies) = layout { u64::from(copies.far) } else { 1 };
        let room = if chance.one_in(16) { 1536 } else { 128 * far + 32 * chance.below(7) };
        let room = room.max(strip_sectors * 2 * far);
        // Spans must have space for metadata of their own.
        let room = if span_count > 1 { room.max(1280) } else { room };
        let drive_count = member_count * span_count + spare_count + loose_count;
        let drives = drive_models(chance, drive_count, room, redundant);
        let chunk = match chance.pick(&[4096, 8192, 16384, 65536]) {
            // One chunk for the entire array, as large arrays have few: it is rarely idle.
            65536 if strip_sectors >= 64 => 8 << 20,
            chunk => chunk,
        };
        Self {
            level,
            layout,
            span_count,
            member_count,
            spare_count,
            loose_count,
            strip_sectors,
            intent_chunk_bytes: (redundant && !chance.one_in(8)).then_some(chunk),
            bitmap_page_bytes: None,
            log: level.parity_count() > 0 && !chance.one_in(4),
            partial_parity: None,
            checksums: false,
            assume_clean: !chance.one_in(6),
            drives,
            ends_every: 0,
            hedges: false,
            lanes: 1,
            lanes_nap: true,
            short_lists: false,
            late_sweeps: false,
            holds: false,
            repeats: false,
            hangs: false,
            found_again: false,
            harsh: false,
        }
    }

    /// The first sector of data on the drives: further on if lanes share the log.
    pub fn data_start(&self) -> u64 {
        if self.log && self.lanes > 1 { 4096 } else { 2048 }
    }

    /// Makes the array run on so many lanes, on drives with space for their logs.
    pub fn run_on(&mut self, lanes: usize) {
        let before = self.data_start();
        self.lanes = lanes;
        let after = self.data_start();
        self.drives.iter_mut().for_each(|drive| drive.sectors = drive.sectors - before + after);
    }

    /// A small array for scripted histories: in sync, with a bitmap and, where the level has one, a log; volatile caches
    /// everywhere, one loose drive.
    pub fn plain(level: Level, layout: Layout, member_count: usize, span_count: usize) -> Self {
        let redundant = level.is_redundant();
        let model = Model {
            sectors: 2048 + if span_count > 1 { 1280 } else { 128 },
            block_sectors: 1,
            atom_sectors: 1,
            volatile_cache: true,
            unmap: false,
            slowness: 1,
        };
        Self {
            level,
            layout,
            span_count,
            member_count,
            spare_count: 0,
            loose_count: usize::from(redundant),
            strip_sectors: 8,
            intent_chunk_bytes: redundant.then_some(4096),
            bitmap_page_bytes: None,
            log: level.parity_count() > 0,
            partial_parity: None,
            checksums: false,
            assume_clean: true,
            drives: vec![model; member_count * span_count + usize::from(redundant)],
            ends_every: 0,
            hedges: false,
            lanes: 1,
            lanes_nap: true,
            short_lists: false,
            late_sweeps: false,
            holds: false,
            repeats: false,
            hangs: false,
            found_again: false,
            harsh: false,
        }
    }

    /// The same array with a bitmap of several pages, on drives that are long enough for that.
    #[must_use]
    pub fn with_bitmap_pages(self) -> Self {
        let longer = |model: Model| Model { sectors: model.sectors + 20_480, ..model };
        let drives = self.drives.into_iter().map(longer).collect();
        Self { intent_chunk_bytes: Some(4096), bitmap_page_bytes: Some(512), drives, ..self }
    }

    /// The same array with a partial parity log, on one lane. For the level of arrays that can have one.
    #[must_use]
    pub fn with_partial_parity(mut self, log: PartialParity) -> Self {
        assert_eq!(self.level, Level::Raid5, "only RAID 5 has a partial parity log");
        self.run_on(1);
        Self { log: false, intent_chunk_bytes: None, bitmap_page_bytes: None, partial_parity: Some(log), ..self }
    }

    /// True if log records cover the rows of stripes that are in flight at a crash.
    pub fn closes_write_hole(&self) -> bool {
        self.log || self.partial_parity.is_some()
    }

    /// The largest request that is not torn by a crash together with a lost member.
    pub fn untorn_sectors_max(&self) -> u64 {
        match self.partial_parity {
            // The log has no new data, so a request is old or new only if no two of its strips share a row.
            Some(_) => self.strip_sectors,
            None if self.level.parity_count() > 0 => NEW_DATA_SECTORS_MAX,
            None => u64::MAX,
        }
    }

    /// The same array with checksums, on drives with space for them.
    #[must_use]
    pub fn with_checksums(self) -> Self {
        let larger = |model: Model| Model { sectors: model.sectors + Region::sectors_for(model.sectors), ..model };
        Self { checksums: true, drives: self.drives.into_iter().map(larger).collect(), ..self }
    }

    /// The number of members that any stripe may lose (of a span, if there are spans).
    pub fn losses_survived(&self) -> usize {
        match (self.level, self.layout) {
            (Level::Raid1, _) => self.member_count - 1,
            (_, Layout::Copies(copies)) => copies.count() - 1,
            _ => self.level.parity_count(),
        }
    }

    /// True if an array has all data with these slots alone. On RAID 10 harsh drives may fail in several groups of copies.
    pub fn survives(&self, geometry: &Geometry, good: &[bool]) -> bool {
        if !self.harsh || geometry.level() != Level::Raid10 {
            return good.iter().filter(|good| !**good).count() <= self.losses_survived();
        }
        // Placement repeats after as many strips as there are members.
        (0..geometry.slot_count() as u64).map(|strip| strip * geometry.strip_sectors()).all(|sector| {
            sector >= geometry.capacity_sectors()
                || geometry.copies_of(ArraySector::new(sector), 1).0.iter().any(|copy| good[copy.slot])
        })
    }

    /// The family of this array.
    pub fn family(&self) -> String {
        let level = self.level.to_string();
        if self.span_count > 1 { format!("{level}0") } else { level }
    }
}

/// The level, its layout, and the counts of members in a span and of spans.
fn shape(chance: &mut Chance, family: &str) -> (Level, Layout, usize, usize) {
    match family {
        "jbod" => (Level::Linear, Layout::Plain, 1 + chance.below(4) as usize, 1),
        "0" => (Level::Raid0, Layout::Zones(chance.pick(&[Zones::Original, Zones::Alternate])), 1 + chance.below(4) as usize, 1),
        "1" => (Level::Raid1, Layout::Plain, 2 + chance.pick(&[0, 0, 1, 2]), 1),
        "10" => {
            let copies = chance.pick(&[
                (2, 1, false),
                (2, 1, false),
                (3, 1, false),
                (1, 2, false),
                (1, 2, true),
                (1, 3, true),
                (2, 2, false),
            ]);
            let copies = Copies { near: copies.0, far: copies.1, offset: copies.2 };
            (Level::Raid10, Layout::Copies(copies), copies.count().max(2) + chance.below(3) as usize, 1)
        }
        "4" => (Level::Raid4, Layout::Plain, 3 + chance.below(3) as usize, 1),
        "5" => (Level::Raid5, layout_for(chance, Level::Raid5), 3 + chance.below(4) as usize, 1),
        "6" => (Level::Raid6, layout_for(chance, Level::Raid6), 4 + chance.below(3) as usize, 1),
        "50" => (Level::Raid5, layout_for(chance, Level::Raid5), 3, 2 + chance.below(2) as usize),
        "60" => (Level::Raid6, layout_for(chance, Level::Raid6), 4, 2),
        other => panic!("there is no family of arrays called {other}"),
    }
}

/// Drives with `data_sectors` of data, or a little more.
fn drive_models(chance: &mut Chance, count: usize, data_sectors: u64, is_redundant: bool) -> Vec<Model> {
    let block_sectors = if chance.one_in(5) { 8 } else { 1 };
    let volatile = chance.below(4);
    let drives = (0..count)
        .map(|index| {
            let more = if is_redundant && chance.one_in(2) { 0 } else { 64 * chance.below(3) };
            // Drives of some KiB: the first one decides where data starts.
            let more = if index == 0 { 0 } else { more };
            Model {
                sectors: 2048 + data_sectors + more,
                block_sectors,
                atom_sectors: if block_sectors == 8 || chance.one_in(3) { 8 } else { 1 },
                volatile_cache: match volatile {
                    0 => false,
                    1 => chance.one_in(2),
                    _ => true,
                },
                unmap: false,
                slowness: if chance.one_in(8) { 8 } else { 1 },
            }
        })
        .collect::<Vec<_>>();
    let unmap = chance.one_in(2);
    drives.into_iter().map(|model| Model { unmap, ..model }).collect()
}

fn layout_for(chance: &mut Chance, level: Level) -> Layout {
    if chance.one_in(2) {
        return level.default_layout();
    }
    let layouts: Vec<ParityLayout> = ParityLayout::all().filter(|layout| layout.suits(level)).collect();
    Layout::Parity(chance.pick(&layouts))
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RAID {} {}", self.family(), self.layout)?;
        if self.span_count > 1 {
            write!(f, ", {} spans", self.span_count)?;
        }
        let volatile = self.drives.iter().filter(|drive| drive.volatile_cache).count();
        write!(
            f,
            ", {} members of {} sectors and {} spares, strip {} sectors, {}{}{}{}, {} of {} drives with a volatile cache, blocks of {} B{}",
            self.member_count,
            self.drives[0].sectors,
            self.spare_count,
            self.strip_sectors,
            match self.intent_chunk_bytes {
                Some(chunk) => format!("bitmap of {chunk} B chunks{}", self.bitmap_page_bytes.map_or("", |_| " in small pages")),
                None => "no bitmap".into(),
            },
            match self.partial_parity {
                Some(PartialParity { sectors, ring: true }) => format!(", partial parity log of {sectors} sectors"),
                Some(PartialParity { sectors, ring: false }) =>
                    format!(", partial parity log of {sectors} sectors for one entry"),
                None if self.log => ", write log".into(),
                None => String::new(),
            },
            if self.checksums { ", checksums" } else { "" },
            if self.assume_clean { "" } else { ", not yet in sync" },
            volatile,
            self.drives.len(),
            self.drives[0].block_sectors * 512,
            [
                (self.ends_every > 0, ", many ends at once"),
                (self.hedges, ", slow reads asked twice"),
                (self.lanes == 2, ", on 2 lanes"),
                (self.lanes == 3, ", on 3 lanes"),
                (self.late_sweeps, ", sweeps held after starts"),
                (self.short_lists, ", short lists of bad blocks"),
                (self.hangs, ", drives hang beside rebuilds"),
                (self.repeats, ", requests repeated after a kill"),
                (self.found_again, ", lost drives found again"),
                (self.harsh, ", harsh drives"),
            ]
            .map(|(so, words)| if so { words } else { "" })
            .concat(),
        )
    }
}
