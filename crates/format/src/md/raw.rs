//! `examine --raw`: every field with its position, its bytes and their meaning.

use super::bitmap;
use super::member::Member;
use super::span;
use super::superblock::{self, CLEAN, MARK_PLACE, Superblock, feature, uuid_text};
use crate::Field;

/// One field on the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawField {
    /// Its structure: "superblock", "roles", "mark of a span", "bitmap", "bad blocks".
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

/// Every field of a member's superblock, its roles, its bitmap's header and its bad blocks.
pub fn fields(member: &Member) -> Vec<RawField> {
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
    for range in member.bad_blocks.iter().flatten() {
        fields.push(RawField {
            structure: "bad blocks",
            name: "entry".into(),
            offset_bytes: superblock.sector_at(header.bblog_offset).get() * 512,
            bytes: Vec::new(),
            meaning: format!("{} sectors at sector {} of the drive", range.end - range.start, range.start),
        });
    }
    fields
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
        "sync_size" => format!("{value} sectors, {} bits, {} set", bitmap.chunk_count(), bitmap.set_chunks().count()),
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
