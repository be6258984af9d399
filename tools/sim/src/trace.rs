//! Prints a history while it runs, one line for each event: see docs/SIM.md.

use std::cell::RefCell;
use std::ops::Range;
use stria_array::ArraySector;
use stria_block::{Operation, Request};
use stria_format::md::log::{AppendHead, Entry, LogHead};
use stria_format::md::{Bitmap, Role, Superblock, bitmap, superblock};
use stria_tree::{MemberDrive, Tree};

/// The listener of a trace, and its filter. At first there is none.
#[derive(Default)]
pub struct Trace(RefCell<Option<Listener>>);

struct Listener {
    hear: Box<dyn FnMut(&str)>,
    /// The sectors of drives whose data requests are reported. `None` reports all.
    only: Option<Vec<Range<u64>>>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_on() { "Trace(on)" } else { "Trace(off)" })
    }
}

impl Trace {
    /// From now on `hear` receives every event; of data requests, only those on the sectors `only` of drives.
    pub fn begin(&self, only: Option<Vec<Range<u64>>>, hear: Box<dyn FnMut(&str)>) {
        *self.0.borrow_mut() = Some(Listener { hear, only });
    }

    /// True if there is a listener.
    pub fn is_on(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// True if there is a listener for these sectors of a drive whose data area starts at `data_start`.
    pub(crate) fn concerns(&self, sectors: &Range<u64>, data_start: u64) -> bool {
        let listener = self.0.borrow();
        let Some(listener) = &*listener else { return false };
        let hits = |only: &Range<u64>| only.start < sectors.end && sectors.start < only.end;
        let metadata = sectors.start < data_start || sectors.is_empty();
        metadata || listener.only.as_ref().is_none_or(|only| only.iter().any(hits))
    }

    pub(crate) fn note(&self, words: &str) {
        if let Some(listener) = &mut *self.0.borrow_mut() {
            (listener.hear)(words);
        }
    }
}

/// Parses sectors as people write them: `FIRST-LAST`.
///
/// # Errors
/// In words.
pub fn sectors(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse::<u64>().ok()?)));
    match ends {
        Some((first, last)) if first <= last && last < u64::MAX => Ok(first..last + 1),
        _ => Err(format!("\"{text}\" is not a range of sectors: name the first and the last, as in 16-23")),
    }
}

/// The sectors of drives on which a range of an array lies, parity included; empty beyond its end.
pub(crate) fn ranges_below<D: MemberDrive>(array: &Tree<D>, range: Range<u64>) -> Vec<Range<u64>> {
    let geometry = array.geometry();
    let data_start = array.recorder().superblock().header.data_offset;
    let slots = array.status().slots;
    let mut ranges = Vec::new();
    for (slot, runs) in
        geometry.footprint(ArraySector::span(range.start..range.end.min(geometry.capacity_sectors()))).into_iter().enumerate()
    {
        let span = slots[slot].and_then(|member| array.members()[member.0].span());
        for range in runs.into_iter().map(|run| data_start + run.start.get()..data_start + run.end.get()) {
            match span {
                Some(span) => ranges.extend(ranges_below(span, range)),
                None => ranges.push(range),
            }
        }
    }
    ranges
}

/// A request to a drive with its data area at `data_start`, in a few words.
pub(crate) fn request_words(request: &Request, data_start: u64) -> String {
    let Request { start_sector, sectors, operation, .. } = request;
    let fua = |fua: bool| if fua { " FUA" } else { "" };
    match operation {
        Operation::Read { .. } => format!("read {start_sector}+{sectors}"),
        Operation::Write { from, fua: durable } => {
            let words = (*start_sector < data_start).then(|| {
                let bytes: Vec<u8> = from.iter().flat_map(|data| data.to_vec()).collect();
                metadata_words(*start_sector, &bytes)
            });
            format!("write {start_sector}+{sectors}{}{}", fua(*durable), words.flatten().unwrap_or_default())
        }
        Operation::WriteZeroes { fua: durable, .. } => format!("zero {start_sector}+{sectors}{}", fua(*durable)),
        Operation::Flush => "flush".into(),
        Operation::Extents { .. } => format!("extents {start_sector}+{sectors}"),
    }
}

/// A position on a drive that may be its end.
pub(crate) fn range_words(sector: u64) -> String {
    if sector == u64::MAX { "end".into() } else { sector.to_string() }
}

fn metadata_words(start_sector: u64, bytes: &[u8]) -> Option<String> {
    if let Ok(superblock) = Superblock::parse(bytes, start_sector, u64::MAX >> 1) {
        return Some(superblock_words(&superblock));
    }
    if bytes.starts_with(b"StriaLog") {
        let head = LogHead::read(bytes[..LogHead::SIZE_BYTES].try_into().ok()?);
        return Some(format!(": log head, session {}, tag {} after {}", head.session, head.tag, head.tag_before));
    }
    if bytes.starts_with(b"StriaApp") {
        let head = AppendHead::read(bytes[..AppendHead::SIZE_BYTES].try_into().ok()?);
        let entries = bytes[AppendHead::SIZE_BYTES..].chunks_exact(Entry::SIZE_BYTES).take(head.count as usize);
        let entries = entries.map(|entry| {
            let entry = Entry::read(entry.try_into().expect("cut to size"));
            let rows = entry.row..entry.row + entry.rows;
            let written = entry.first..entry.first + entry.count;
            let name = ["P", "Q"].get(usize::from(entry.parity)).unwrap_or(&"R");
            format!("#{} {name} of stripe {} rows {rows:?} strips {written:?} holds {}", entry.number, entry.stripe, entry.holds)
        });
        let (sequence, retired) = (head.sequence, head.retired_below);
        return Some(format!(": log {sequence}, retired below {retired}: {}", entries.collect::<Vec<_>>().join("; ")));
    }
    if bytes.starts_with(&bitmap::MAGIC.to_le_bytes()) {
        let uuid = bytes[8..24].try_into().expect("cut to size");
        let bitmap = Bitmap::parse(bytes, &uuid).ok()?;
        let set: Vec<u64> = bitmap.set_chunks().collect();
        return Some(format!(": bitmap of {}, cleared to {}, {set:?}", bitmap.header.events, bitmap.header.events_cleared));
    }
    None
}

/// The contents of a superblock, in one line.
fn superblock_words(superblock: &Superblock) -> String {
    let header = &superblock.header;
    let role = |role: &Role| match role {
        Role::Slot(slot) => slot.to_string(),
        Role::Spare => "s".into(),
        Role::Faulty => "x".into(),
        Role::Journal => "j".into(),
    };
    let known = superblock.roles.iter().rposition(|role| *role != Role::Spare).map_or(0, |last| last + 1);
    let roles: Vec<String> = superblock.roles[..known].iter().map(role).collect();
    let recovered = if superblock.has(superblock::feature::RECOVERY_OFFSET) {
        format!(", filled to {}", range_words(header.recovery_offset))
    } else {
        String::new()
    };
    format!(
        ": superblock {}, number {} of [{}], in sync to {}{recovered}, features {:#x}, tag {}",
        header.events,
        header.dev_number,
        roles.join(" "),
        range_words(header.resync_offset),
        header.feature_map,
        superblock.utime_micros()
    )
}
