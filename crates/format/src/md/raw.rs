//! `examine --raw`: every field with its position, its bytes and their meaning.

use super::bitmap;
use super::checksums::{self, ChecksumHead, ChecksumPage};
use super::log::{self, AppendHead, Entry, LogHead, LogSpace};
use super::member::Member;
use super::ppl::{self, PplEntry, PplHeader, PplLocation};
use super::shape::keeps_parity;
use super::span;
use super::superblock::{self, CLEAN, MARK_PLACE, Superblock, feature, uuid_text};
use crate::Field;
use crate::read::Read;
use std::ops::Range;
use stria_parity::crc32c;

/// One field on the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawField {
    /// Its structure, such as "superblock" or "log head".
    pub structure: &'static str,
    /// Name in the structure.
    pub name: String,
    /// Bytes from the start of the drive.
    pub offset_bytes: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their meaning.
    pub meaning: String,
}

/// Every field of each structure of a member. Of appends, of pages of checksums and of headers of a partial parity log there are
/// many: the newest append of each part of the log is given, the first page, and the header that counts. `read` is asked again.
pub fn fields(member: &Member, drive_sectors: u64, read: &mut Read) -> Vec<RawField> {
    let superblock = &member.superblock;
    let header = &superblock.header;
    let start = header.super_offset * 512;
    let bytes = superblock.encode();
    let mut fields =
        table("superblock", superblock::Header::FIELDS, &bytes, start, |name, raw| superblock_meaning(superblock, name, raw));
    for (number, role) in superblock.roles.iter().enumerate() {
        let at = superblock::Header::SIZE_BYTES + 2 * number;
        let mine = if number == header.dev_number as usize { ", this member" } else { "" };
        fields.push(RawField {
            structure: "roles",
            name: format!("dev_roles[{number}]"),
            offset_bytes: start + at as u64,
            bytes: bytes[at..at + 2].to_vec(),
            meaning: format!("{role}{mine}"),
        });
    }
    if let (Some(_), Some(bytes)) = (superblock.span_of, bytes.get(MARK_PLACE..)) {
        fields.extend(table("mark of a span", span::FIELDS, bytes, start + MARK_PLACE as u64, span_meaning));
    }
    if let Some(Ok(bitmap)) = &member.bitmap {
        let start = superblock.sector_at(header.bitmap_offset).get() * 512;
        let bytes = bitmap.header.write();
        fields.extend(table("bitmap", bitmap::Header::FIELDS, &bytes, start, |name, raw| bitmap_meaning(bitmap, name, raw)));
    }
    fields.extend(bad_blocks(superblock, read));
    let bitmap_sectors = member.bitmap.as_ref().and_then(|bitmap| Some(bitmap.as_ref().ok()?.size_sectors()));
    let space = LogSpace::of(superblock, bitmap_sectors.unwrap_or(0)).filter(|_| keeps_parity(header));
    for (sector, page) in space.map(|space| log::pages(superblock, &space, read)).unwrap_or_default() {
        fields.extend(log_page(sector.get() * 512, &page));
    }
    if let Some((sector, page)) = PplLocation::of(superblock).and_then(|location| ppl::page(&location, read)) {
        fields.extend(ppl_page(superblock, sector.get() * 512, &page));
    }
    for (sector, page) in checksums::pages(superblock, drive_sectors, read) {
        fields.extend(checksums_page(sector * 512, &page));
    }
    fields
}

/// The entries of the bad-block log, while it counts.
fn bad_blocks(superblock: &Superblock, read: &mut Read) -> Vec<RawField> {
    let header = &superblock.header;
    let start = superblock.sector_at(header.bblog_offset).get();
    if !superblock.has(feature::BAD_BLOCKS) || header.bblog_offset == 0 {
        return Vec::new();
    }
    let Ok(bytes) = read(start, header.bblog_size.into()) else { return Vec::new() };
    let entries = bytes.chunks_exact(8).zip((start * 512..).step_by(8)).take_while(|(raw, _)| number(raw) != u64::MAX);
    let shift = u32::from(header.bblog_shift);
    let field = |(raw, offset_bytes): (&[u8], u64)| RawField {
        structure: "bad blocks",
        name: "entry".into(),
        offset_bytes,
        bytes: raw.to_vec(),
        meaning: match (number(raw) >> 10, number(raw) & 0x3ff) {
            (_, 0) => "unused".into(),
            (first, count) => {
                let sectors = |units: u64| u128::from(units).checked_shl(shift).unwrap_or(0);
                format!("{} sectors at sector {} of the drive", sectors(count), sectors(first))
            }
        },
    };
    entries.map(field).collect()
}

/// A page of the write log: its head, or an append with its entries.
fn log_page(start: u64, page: &[u8]) -> Vec<RawField> {
    if page.starts_with(&log::MAGIC) {
        return table("log head", LogHead::FIELDS, page, start, |name, raw| match name {
            "magic" => "write log".into(),
            "crc" => verdict(number(raw) == u64::from(sealed(page, 0x0c..0x10))),
            "flags" => if number(raw) & 1 == 0 { "none" } else { "the array has no log" }.into(),
            "ring_sectors" => format!("{} sectors, which end where this head starts", number(raw)),
            _ => plain(name, raw),
        });
    }
    let mut fields = table("append", AppendHead::FIELDS, page, start, |name, raw| match name {
        "magic" => "the newest append to its part".into(),
        // The others are passed over when the newest is looked for.
        "crc" | "payload_crc" => "correct".into(),
        "start_sector" => format!("sector {} of the ring", number(raw)),
        "sectors" => format!("{} sectors", number(raw)),
        _ => plain(name, raw),
    });
    let count = AppendHead::read(page[..AppendHead::SIZE_BYTES].try_into().expect("cut to size")).count as usize;
    for (index, entry) in page[AppendHead::SIZE_BYTES..].chunks_exact(Entry::SIZE_BYTES).take(count).enumerate() {
        let start = start + (AppendHead::SIZE_BYTES + index * Entry::SIZE_BYTES) as u64;
        fields.extend(table("log entry", Entry::FIELDS, entry, start, |name, raw| match (name, number(raw)) {
            ("parity", parity) => ["P", "Q", "R"].get(parity as usize).map_or_else(|| parity.to_string(), |&name| name.into()),
            ("holds", 0) => "a revoke record".into(),
            ("holds", bits) => {
                let names = ["partial parity", "new data", "the new data is zeros"];
                let held = names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name);
                held.collect::<Vec<_>>().join(", ")
            }
            _ => plain(name, raw),
        }));
    }
    fields
}

/// A header of a partial parity log, with its entries.
fn ppl_page(superblock: &Superblock, start: u64, page: &[u8]) -> Vec<RawField> {
    let signature = crc32c(&superblock.header.set_uuid);
    let mut fields = table("partial parity log", PplHeader::FIELDS, page, start, |name, raw| match name {
        "signature" => verdict(number(raw) == u64::from(signature)),
        "checksum" => verdict(number(raw) == u64::from(sealed(page, 0x214..0x218))),
        "reserved" => "unused".into(),
        _ => plain(name, raw),
    });
    let count = PplHeader::read(page[..PplHeader::SIZE_BYTES].try_into().expect("cut to size")).entries_count as usize;
    for (index, entry) in page[PplHeader::SIZE_BYTES..].chunks_exact(PplEntry::SIZE_BYTES).take(count).enumerate() {
        let start = start + (PplHeader::SIZE_BYTES + index * PplEntry::SIZE_BYTES) as u64;
        fields.extend(table("partial parity entry", PplEntry::FIELDS, entry, start, |name, raw| match name {
            "data_sector" => format!("sector {} of the array", number(raw)),
            "pp_size" | "data_size" => format!("{} bytes", number(raw)),
            "parity_disk" => format!("slot {}", number(raw)),
            _ => number(raw).to_string(),
        }));
    }
    fields
}

/// A head or a page of checksums.
fn checksums_page(start: u64, page: &[u8]) -> Vec<RawField> {
    let known = |raw: &[u8]| raw.chunks_exact(4).filter(|value| number(value) != 0).count();
    match page.starts_with(b"StriaCRC") {
        true => table("head of checksums", ChecksumHead::FIELDS, page, start, |name, raw| match name {
            "magic" => "checksums".into(),
            "crc" => verdict(number(raw) == u64::from(crc32c(&page[..0xffc]))),
            "first_sector" => format!("sector {}", number(raw)),
            "sectors" => format!("{} sectors", number(raw)),
            "trusted_from" => match known(raw) {
                1 => "of 1 group pages of earlier sessions do not count".into(),
                count => format!("of {count} groups pages of earlier sessions do not count"),
            },
            _ => plain(name, raw),
        }),
        false => table("page of checksums", ChecksumPage::FIELDS, page, start, |name, raw| match name {
            "crc" if number(raw) != u64::from(crc32c(&page[4..])) => "does not match, so the page does not count".into(),
            "crc" => "correct".into(),
            "checksums" => format!("of blocks 0 to 1019, {} known", known(raw)),
            _ => plain(name, raw),
        }),
    }
}

/// The checksum of a page, whose own field counts as zero.
fn sealed(page: &[u8], field: Range<usize>) -> u32 {
    let mut bare = page.to_vec();
    bare[field].fill(0);
    crc32c(&bare)
}

fn verdict(correct: bool) -> String {
    if correct { "correct" } else { "WRONG" }.into()
}

fn plain(name: &str, raw: &[u8]) -> String {
    match name {
        "set_uuid" | "device_uuid" => uuid_text(raw.try_into().expect("16 bytes")),
        "reserved" | "padding" => if raw.iter().all(|&byte| byte == 0) { "unused" } else { "unknown use" }.into(),
        _ => number(raw).to_string(),
    }
}

fn table(
    structure: &'static str,
    table: &[Field],
    bytes: &[u8],
    start: u64,
    meaning: impl Fn(&str, &[u8]) -> String,
) -> Vec<RawField> {
    let field = |field: &Field| {
        let raw = &bytes[field.offset..field.offset + field.length];
        RawField {
            structure,
            name: field.name.to_owned(),
            offset_bytes: start + field.offset as u64,
            bytes: raw.to_vec(),
            meaning: meaning(field.name, raw),
        }
    };
    table.iter().map(field).collect()
}

/// A little-endian number of up to 8 bytes.
fn number(raw: &[u8]) -> u64 {
    raw.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn superblock_meaning(superblock: &Superblock, name: &str, raw: &[u8]) -> String {
    let header = &superblock.header;
    let value = if raw.len() <= 8 { number(raw) } else { 0 };
    let from_superblock = |offset: i32| {
        format!("{offset} sectors from the superblock: sector {}", header.super_offset.saturating_add_signed(i64::from(offset)))
    };
    match name {
        "magic" => "md superblock".into(),
        "major_version" => format!("version {value}.{}", superblock.minor_version()),
        "feature_map" => feature::names(header.feature_map),
        "set_uuid" => uuid_text(&header.set_uuid),
        "device_uuid" => uuid_text(&header.device_uuid),
        "set_name" => format!("\"{}\"", superblock.name()),
        "ctime" | "utime" => format!("{} seconds since 1970", value & 0xff_ffff_ffff),
        "level" => match super::layout_of(header) {
            Ok((level, _)) => format!("RAID level {level}"),
            Err(error) => error.to_string(),
        },
        "layout" => match super::layout_of(header) {
            Ok((_, layout)) => format!("layout {layout}"),
            Err(_) => value.to_string(),
        },
        "size" | "data_size" | "chunksize" => format!("{value} sectors"),
        "data_offset" | "super_offset" => format!("sector {value}"),
        "bitmap_offset" if superblock.has(feature::BITMAP_OFFSET) => from_superblock(header.bitmap_offset),
        "bitmap_offset" if superblock.has(feature::PPL | feature::MULTIPLE_PPLS) => {
            format!("partial parity log: {} sectors, {} sectors from the superblock", value >> 16, value as u16 as i16)
        }
        "bblog_offset" if header.bblog_offset != 0 => from_superblock(header.bblog_offset),
        "recovery_offset" if superblock.has(feature::RECOVERY_OFFSET) => format!("rebuilt up to sector {value} of its data"),
        "dev_number" => format!("device {value}: {}", superblock.role()),
        "devflags" => match value {
            0 => "none".into(),
            1 => "write-mostly".into(),
            2 => "failfast".into(),
            3 => "write-mostly, failfast".into(),
            _ => "unknown".into(),
        },
        "resync_offset" if header.resync_offset == CLEAN => "clean".into(),
        "resync_offset" => format!("redundancy is consistent below sector {value}"),
        "sb_csum" => "correct".into(),
        "pad0" | "pad3" => if raw.iter().all(|&byte| byte == 0) { "unused" } else { "unknown use" }.into(),
        _ if value == 0 => "unused".into(),
        _ => value.to_string(),
    }
}

fn span_meaning(name: &str, raw: &[u8]) -> String {
    let value = if raw.len() <= 8 { number(raw) } else { 0 };
    match name {
        "magic" => "this array is a span of another".into(),
        "crc" => "correct".into(),
        "set_uuid" | "upper_uuid" => uuid_text(raw.try_into().expect("16 bytes")),
        "reserved" => if raw.iter().all(|&byte| byte == 0) { "unused" } else { "unknown use" }.into(),
        _ => value.to_string(),
    }
}

fn bitmap_meaning(bitmap: &super::Bitmap, name: &str, raw: &[u8]) -> String {
    let header = &bitmap.header;
    let value = if raw.len() <= 8 { number(raw) } else { 0 };
    match name {
        "magic" => "write-intent bitmap".into(),
        "uuid" => uuid_text(&header.uuid),
        "sync_size" => format!("{value} sectors, {} of {} bits set", bitmap.set_chunks().count(), bitmap.chunk_count()),
        "chunksize" => format!("{value} bytes a bit"),
        "state" => match header.state {
            0 => "good".into(),
            state if state & bitmap::state::STALE != 0 => "out of date".into(),
            state => format!("0x{state:x}"),
        },
        "daemon_sleep" => format!("{value} s between clean-ups"),
        "cluster_name" | "pad" => if raw.iter().all(|&byte| byte == 0) { "unused" } else { "unknown use" }.into(),
        _ => value.to_string(),
    }
}
