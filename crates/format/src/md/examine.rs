//! The description of a member, in the words and order of `mdadm --examine`.
//!
//! Sizes come as mdadm's numbers without its "(62.00 MiB 65.01 MB)"; times are seconds since 1970.

use super::member::{Candidate, Member};
use super::superblock::{Role, Superblock, feature, uuid_text};

/// Lines of name and value; empty when the drive is no member.
pub fn lines(candidate: &Candidate) -> Vec<(&'static str, String)> {
    let Ok(member) = &candidate.found else { return Vec::new() };
    let superblock = &member.superblock;
    let header = &superblock.header;
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    let mut say = |name, value: String| lines.push((name, value));
    say("Magic", format!("{:08x}", header.magic));
    say("Version", format!("1.{}", superblock.minor_version()));
    say("Feature Map", format!("0x{:x}", header.feature_map));
    say("Array UUID", uuid_text(&header.set_uuid));
    say("Name", superblock.name());
    say("Creation Time", superblock.created_s().to_string());
    say("Raid Level", level_name(header.level));
    say("Raid Devices", header.raid_disks.to_string());
    say("Avail Dev Size", format!("{} sectors", header.data_size));
    if header.level > 0 {
        if let Some(kib) = array_kib(header.level, header.layout, header.raid_disks, header.size) {
            say("Array Size", format!("{kib} KiB"));
        }
        if header.size != header.data_size {
            say("Used Dev Size", format!("{} sectors", header.size));
        }
    }
    if header.data_offset != 0 {
        say("Data Offset", format!("{} sectors", header.data_offset));
    }
    if superblock.has(feature::NEW_OFFSET) {
        let offset = header.data_offset.saturating_add_signed(i64::from(header.new_offset));
        say("New Offset", format!("{offset} sectors"));
    }
    say("Super Offset", format!("{} sectors", header.super_offset));
    if superblock.has(feature::RECOVERY_OFFSET) {
        say("Recovery Offset", format!("{} sectors", header.recovery_offset));
    }
    let (before, after) = unused(candidate.size_sectors, member);
    if (before, after) != (0, 0) {
        say("Unused Space", format!("before={before} sectors, after={after} sectors"));
    }
    say("State", if superblock.clean() { "clean" } else { "active" }.into());
    say("Device UUID", uuid_text(&header.device_uuid));
    if superblock.has(feature::BITMAP_OFFSET) {
        say("Internal Bitmap", format!("{} sectors from superblock", header.bitmap_offset));
    } else if let Some((offset, size)) = superblock.ppl() {
        say("PPL", format!("{size} sectors at offset {offset} sectors from superblock"));
    }
    if superblock.has(feature::RESHAPE_ACTIVE) {
        say("Reshape pos'n", (header.reshape_position / 2).to_string());
    }
    let flags = [(1, "write-mostly"), (2, "failfast")].iter().filter(|(bit, _)| header.devflags & bit != 0);
    let flags: Vec<_> = flags.map(|(_, name)| *name).collect();
    if !flags.is_empty() {
        say("Flags", flags.join(" "));
    }
    say("Update Time", superblock.updated_s().to_string());
    if header.bblog_size != 0 && header.bblog_offset != 0 {
        let present = if superblock.has(feature::BAD_BLOCKS) { " - bad blocks present." } else { "" };
        let entries = usize::from(header.bblog_size) * 512 / 8;
        say("Bad Block Log", format!("{entries} entries available at offset {} sectors{present}", header.bblog_offset));
    }
    say("Checksum", format!("{:x} - correct", header.sb_csum));
    say("Events", header.events.to_string());
    if let Some(layout) = layout_name(header.level, header.layout, header.feature_map) {
        say("Layout", layout);
    }
    match header.level {
        0 | 4 | 5 | 6 | 10 => say("Chunk Size", format!("{}K", header.chunksize / 2)),
        -1 => say("Rounding", format!("{}K", header.chunksize / 2)),
        _ => {}
    }
    say("Device Role", role_words(superblock));
    say("Array State", array_state(superblock));
    lines
}

/// The unused sectors before the data and behind it.
fn unused(drive_sectors: u64, member: &Member) -> (i64, i64) {
    let header = &member.superblock.header;
    let bitmap = member.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok());
    let used = if header.level <= 0 { header.data_size } else { header.size };
    let (super_offset, data_offset) = (header.super_offset as i64, header.data_offset as i64);
    let bitmap_offset = if bitmap.is_some() { i64::from(header.bitmap_offset) } else { 0 };
    let log = (header.bblog_offset != 0).then(|| super_offset + i64::from(header.bblog_offset));
    if data_offset < super_offset {
        let end = log.unwrap_or(super_offset).min(super_offset).min(super_offset + bitmap_offset);
        return (data_offset, (end - used as i64 - data_offset).max(0));
    }
    // mdadm leaves 36 KiB for the superblock and what follows, as the kernel does.
    let bitmap_end = bitmap.map_or(0, |bitmap| bitmap_offset + bitmap.size_sectors().next_multiple_of(8) as i64);
    let log_end = log.map_or(0, |start| start + i64::from(header.bblog_size));
    let earliest = (super_offset + 72).max(bitmap_end).max(log_end);
    ((data_offset - earliest).max(0), (drive_sectors as i64).saturating_sub_unsigned(used).saturating_sub(data_offset))
}

fn role_words(superblock: &Superblock) -> String {
    match superblock.role() {
        Role::Slot(slot) if superblock.has(feature::REPLACEMENT) => format!("Replacement device {slot}"),
        Role::Slot(slot) => format!("Active device {slot}"),
        Role::Journal => "Journal".into(),
        Role::Spare | Role::Faulty => "spare".into(),
    }
}

/// A letter for each slot.
fn array_state(superblock: &Superblock) -> String {
    let header = &superblock.header;
    let count = |slot: u32| superblock.roles.iter().filter(|role| **role == Role::Slot(slot as u16)).count();
    let state = |slot: u32| match count(slot) {
        2 if header.level > 0 => 'R',
        1 => 'A',
        0 => '.',
        _ => '?',
    };
    (0..header.raid_disks).map(state).collect()
}

/// The description of Stria's write log on a member, of which mdadm knows nothing; `None`: there is none.
pub fn write_log(candidate: &Candidate) -> Option<String> {
    let Ok(member) = &candidate.found else { return None };
    let log = member.log.as_ref()?;
    Some(if let Some(error) = &log.unreadable {
        format!("unreadable: {error}")
    } else if log.off {
        "switched off".into()
    } else if !log.speaks_for(member.superblock.utime_micros()) {
        "empty: the array was stopped, or run by other software since".into()
    } else if !log.is_understood() {
        format!("of version {}, which this program does not know", log.version)
    } else if log.is_damaged() {
        format!("session {}, damaged: the drive lost appends that it had acknowledged", log.session.number)
    } else {
        let records: usize = log.parts.iter().map(|part| part.records.len()).sum();
        let counted = if records == 1 { "record that counts" } else { "records that count" };
        format!("session {}, {records} {counted}", log.session.number)
    })
}

/// The array of which a member's array is a span, by Stria's mark; `None`: it has none.
pub fn span_of(candidate: &Candidate) -> Option<String> {
    Some(uuid_text(&candidate.found.as_ref().ok()?.superblock.span_of?))
}

/// The description of the checksums behind a member's data; `None`: there are none.
pub fn checksums(candidate: &Candidate) -> Option<String> {
    let checksums = candidate.found.as_ref().ok()?.checksums.as_ref()?;
    let header = match &checksums.header {
        Ok(header) => header,
        Err(error) => return Some(error.to_string()),
    };
    let (location, session) = (header.data.end, header.session);
    Some(match checksums.witnessed {
        true => format!("CRC-32C of each 4 KiB, at sector {location}, session {session}"),
        false => format!("void, at sector {location}: the array was run by other software since"),
    })
}

pub(crate) fn level_name(level: i32) -> String {
    match level {
        -1 => "linear".into(),
        -4 => "multipath".into(),
        0 | 1 | 4 | 5 | 6 | 10 => format!("raid{level}"),
        _ => "-unknown-".into(),
    }
}

/// KiB that clients see, by mdadm's arithmetic.
fn array_kib(level: i32, layout: u32, raid_disks: u32, size: u64) -> Option<u64> {
    let disks = u128::from(raid_disks);
    let (times, by) = match level {
        1 => (1, 1),
        4 | 5 => (disks.checked_sub(1)?, 1),
        6 => (disks.checked_sub(2)?, 1),
        10 => (disks, u128::from(layout & 255) * u128::from(layout >> 8 & 255)),
        _ => return None,
    };
    u64::try_from((u128::from(size) * times).checked_div(by)? / 2).ok()
}

pub(crate) fn layout_name(level: i32, layout: u32, features: u32) -> Option<String> {
    const PARITY: [(u32, &str); 14] = [
        (0, "left-asymmetric"),
        (1, "right-asymmetric"),
        (2, "left-symmetric"),
        (3, "right-symmetric"),
        (4, "parity-first"),
        (5, "parity-last"),
        (8, "ddf-zero-restart"),
        (9, "ddf-N-restart"),
        (10, "ddf-N-continue"),
        (16, "left-asymmetric-6"),
        (17, "right-asymmetric-6"),
        (18, "left-symmetric-6"),
        (19, "right-symmetric-6"),
        (20, "parity-first-6"),
    ];
    let unknown = || "-unknown-".to_owned();
    match level {
        0 if features & feature::RAID0_LAYOUT != 0 => Some(match layout {
            1 => "original".into(),
            2 => "alternate".into(),
            _ => unknown(),
        }),
        5 | 6 => {
            let known = PARITY.iter().find(|(number, _)| *number == layout && (level == 6 || layout < 8));
            Some(known.map_or_else(unknown, |(_, name)| (*name).to_owned()))
        }
        10 => {
            let (near, far) = (layout & 255, layout >> 8 & 255);
            let mut parts = Vec::new();
            if near != 1 || far == 1 {
                parts.push(format!("near={near}"));
            }
            if far != 1 {
                parts.push(format!("{}={far}", if layout >> 16 & 1 == 1 { "offset" } else { "far" }));
            }
            Some(parts.join(", "))
        }
        _ => None,
    }
}
