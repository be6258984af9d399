//! Alters the content of drives, field by field or byte by byte, and corrects every checksum.

use super::scenes::Scene;
use super::support::MemoryDrive;
use std::fmt;
use stria_chance::Chance;
use stria_format::Field;
use stria_format::md::bitmap::Header as BitmapHeader;
use stria_format::md::log::{AppendHead, Entry, LogHead};
use stria_format::md::ppl::{PplEntry, PplHeader};
use stria_format::md::superblock::{Header, MAGIC, feature};
use stria_format::md::{Superblock, examine};
use stria_parity::crc32c;

/// Structures farther inside a drive are not searched for.
const PAGE: usize = 4096;

const fn field(name: &'static str, offset: usize, length: usize) -> Field {
    Field { name, offset, length }
}

/// The mark of a span.
const SPAN: &[Field] =
    &[field("version", 8, 4), field("set_uuid", 16, 16), field("upper_uuid", 32, 16), field("reserved", 48, 16)];
const SPAN_AT: usize = PAGE - 64;

/// The head of checksums, and of a page of them.
const SUMS: &[Field] = &[
    field("version", 8, 4),
    field("session", 12, 4),
    field("sequence", 16, 8),
    field("epoch", 24, 8),
    field("data_start", 32, 8),
    field("data_sectors", 40, 8),
    field("array", 48, 16),
    field("member", 64, 16),
    field("trusted_from", 128, 4),
    field("trusted_from[990]", 128 + 990 * 4, 4),
];
const SUMS_PAGE: &[Field] =
    &[field("session", 4, 4), field("epoch", 8, 8), field("sum", 16, 4), field("sum[1019]", 16 + 1019 * 4, 4)];
const SUMS_MAGIC: &[u8] = b"StriaCRC";
const BITS: &[Field] = &[field("bits[0]", 256, 8), field("bits[64]", 264, 8), field("bits[1984]", 504, 8)];
const BAD_BLOCKS: &[Field] =
    &[field("entry[0]", 0, 8), field("entry[1]", 8, 8), field("entry[2]", 16, 8), field("entry[511]", 4088, 8)];
const ROLES: &[Field] = &[
    field("dev_roles[0]", 256, 2),
    field("dev_roles[1]", 258, 2),
    field("dev_roles[2]", 260, 2),
    field("dev_roles[3]", 262, 2),
    field("dev_roles[4]", 264, 2),
    field("dev_roles[127]", 510, 2),
];

/// A structure on a drive.
#[derive(Clone, Debug)]
pub struct Target {
    pub what: &'static str,
    pub drive: usize,
    pub offset: u64,
    fields: Vec<Field>,
}

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Field { what: &'static str, drive: usize, offset: u64, name: &'static str, before: u64, after: u64 },
    Bytes { drive: usize, offset: u64, before: u8, after: u8 },
    Torn { drive: usize, offset: u64, from: String },
    Resized { drive: usize, before: u64, after: u64 },
    Lost { drive: usize },
    Copied { drive: usize },
    Foreign { drive: usize, scene: String },
    Unsealed,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Field { what, drive, offset, name, before, after } => {
                write!(f, "drive{drive}, {what} at byte {offset}: {name} {before} (0x{before:x}) -> {after} (0x{after:x})")
            }
            Change::Bytes { drive, offset, before, after } => {
                write!(f, "drive{drive}, byte {offset}: 0x{before:02x} -> 0x{after:02x}")
            }
            Change::Torn { drive, offset, from } => write!(f, "drive{drive}, the half page from byte {offset}: {from}"),
            Change::Resized { drive, before, after } => write!(f, "drive{drive}: {before} sectors -> {after}"),
            Change::Lost { drive } => write!(f, "drive{drive} is not there"),
            Change::Copied { drive } => write!(f, "drive{drive} is there twice"),
            Change::Foreign { drive, scene } => write!(f, "drive{drive} is one of \"{scene}\""),
            Change::Unsealed => f.write_str("no checksum was put right"),
        }
    }
}

fn get(drive: &MemoryDrive, offset: u64, length: usize) -> Vec<u8> {
    let (first, end) = (offset / 512, (offset + length as u64).div_ceil(512));
    let mut bytes = vec![0; ((end - first) * 512) as usize];
    for (sector, held) in drive.sectors.range(first..end) {
        bytes[((sector - first) * 512) as usize..][..512].copy_from_slice(held);
    }
    bytes[(offset % 512) as usize..][..length].to_vec()
}

fn put(drive: &mut MemoryDrive, offset: u64, bytes: &[u8]) {
    for (at, byte) in (offset..).zip(bytes) {
        let sector = drive.sectors.entry(at / 512).or_insert([0; 512]);
        sector[(at % 512) as usize] = *byte;
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The superblocks that a drive seems to have, valid or not: their offsets in bytes.
fn superblocks(drive: &MemoryDrive) -> Vec<u64> {
    let places = [2, 1, 0].into_iter().filter_map(|minor| Superblock::sector_of(minor, drive.size_sectors));
    places.map(|sector| sector * 512).filter(|&at| number(&get(drive, at, 4)) == u64::from(MAGIC)).collect()
}

fn header_at(drive: &MemoryDrive, at: u64) -> Header {
    Header::read(get(drive, at, Header::SIZE_BYTES).as_slice().try_into().expect("cut to size"))
}

/// The position of a structure that the superblock names by its distance from itself. `None`: far outside of the drive.
fn place(header: &Header, at: u64, distance: i64) -> Option<u64> {
    let sector = (at / 512).checked_add_signed(distance)?;
    (header.super_offset == at / 512 && sector < 1 << 50).then(|| sector * 512)
}

/// Every structure on some drives.
pub fn targets(drives: &[MemoryDrive]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (index, drive) in drives.iter().enumerate() {
        let mut add =
            |what, offset, fields: &[Field]| targets.push(Target { what, drive: index, offset, fields: fields.to_vec() });
        for at in superblocks(drive) {
            let header = header_at(drive, at);
            add("superblock", at, Header::FIELDS);
            add("roles", at, ROLES);
            if get(drive, at + SPAN_AT as u64, 8) == b"StriaSpn" {
                add("mark of a span", at + SPAN_AT as u64, SPAN);
            }
            let bits = header.feature_map;
            if bits & feature::BITMAP_OFFSET != 0
                && let Some(bitmap) = place(&header, at, header.bitmap_offset.into())
            {
                add("bitmap", bitmap, BitmapHeader::FIELDS);
                add("bits", bitmap, BITS);
            }
            if header.bblog_offset != 0
                && let Some(log) = place(&header, at, header.bblog_offset.into())
            {
                add("bad blocks", log, BAD_BLOCKS);
            }
            if bits & (feature::PPL | feature::MULTIPLE_PPLS) != 0
                && let Some(log) = place(&header, at, (header.bitmap_offset as i16).into())
            {
                add("partial parity log", log, &PplHeader::FIELDS[1..]);
                let count = number(&get(drive, log + 0x210, 4)).min(148);
                for entry in 0..count.max(1) {
                    add("entry of partial parity", log + 536 + 24 * entry, PplEntry::FIELDS);
                }
            }
        }
        for page in pages(drive) {
            match &get(drive, page, 8)[..] {
                b"StriaLog" => add("head of the log", page, LogHead::FIELDS),
                b"StriaApp" => {
                    add("append", page, AppendHead::FIELDS);
                    let count = number(&get(drive, page + 0x28, 4)).min(62);
                    for entry in 0..count {
                        add("entry of the log", page + 64 + 64 * entry, Entry::FIELDS);
                    }
                }
                SUMS_MAGIC => {
                    add("head of checksums", page, SUMS);
                    add("page of checksums", page + 8192, SUMS_PAGE);
                }
                _ => {}
            }
        }
    }
    targets
}

/// Offsets of pages that are not empty.
fn pages(drive: &MemoryDrive) -> Vec<u64> {
    drive.sectors.keys().filter(|sector| sector.is_multiple_of(8)).map(|sector| sector * 512).collect()
}

/// Corrects every checksum.
pub fn seal(drive: &mut MemoryDrive) {
    let mut salt = [0; 16];
    let mut identity = [0; 16];
    for at in superblocks(drive) {
        let header = header_at(drive, at);
        let length = Header::SIZE_BYTES + 2 * (header.max_dev as usize).min(1920);
        let mut body = get(drive, at, length);
        body[0xd8..0xdc].fill(0);
        let sum = body.chunks(4).map(number).sum::<u64>();
        put(drive, at + 0xd8, &(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
        let mark = at + SPAN_AT as u64;
        if get(drive, mark, 8) == b"StriaSpn" {
            seal_crc(drive, mark, 64, 12);
        }
        if header.feature_map & (feature::PPL | feature::MULTIPLE_PPLS) != 0
            && let Some(log) = place(&header, at, (header.bitmap_offset as i16).into())
        {
            seal_partial_parity(drive, log);
        }
        (salt, identity) = (header.device_uuid, header.device_uuid);
    }
    let pages = pages(drive);
    for &page in &pages {
        if get(drive, page, 8) != b"StriaLog" {
            continue;
        }
        seal_crc(drive, page, PAGE, 12);
        let life = number(&get(drive, page + 0x58, 4));
        salt = (u128::from_be_bytes(identity) ^ u128::from(life) << 96).to_be_bytes();
    }
    for &page in &pages {
        match &get(drive, page, 8)[..] {
            b"StriaApp" => seal_append(drive, page, &salt),
            SUMS_MAGIC => {
                let sum = crc32c(&get(drive, page, PAGE - 4));
                put(drive, page + PAGE as u64 - 4, &sum.to_le_bytes());
                let first = page + 8192;
                if drive.sectors.contains_key(&(first / 512)) {
                    let sum = crc32c(&get(drive, first + 4, PAGE - 4));
                    put(drive, first, &sum.to_le_bytes());
                }
            }
            _ => {}
        }
    }
}

/// The checksum of some bytes, with its own field as zero.
fn seal_crc(drive: &mut MemoryDrive, at: u64, length: usize, sum_at: usize) {
    let mut bytes = get(drive, at, length);
    bytes[sum_at..sum_at + 4].fill(0);
    put(drive, at + sum_at as u64, &crc32c(&bytes).to_le_bytes());
}

fn seal_append(drive: &mut MemoryDrive, page: u64, salt: &[u8; 16]) {
    let (sectors, count) = (number(&get(drive, page + 0x24, 4)), number(&get(drive, page + 0x28, 4)) as usize);
    // Longer structures are invalid with any checksum.
    if (8..2048).contains(&sectors) && count <= 63 {
        let payload = get(drive, page + PAGE as u64, (sectors * 512) as usize - PAGE);
        put(drive, page + 0x30, &crc32c(&payload).to_le_bytes());
        let mut head = get(drive, page, AppendHead::SIZE_BYTES + count * Entry::SIZE_BYTES);
        head[0x2c..0x30].fill(0);
        head.extend(salt);
        put(drive, page + 0x2c, &crc32c(&head).to_le_bytes());
    }
}

fn seal_partial_parity(drive: &mut MemoryDrive, log: u64) {
    let mut at = log;
    // As many headers as follow one another.
    for _ in 0..64 {
        if get(drive, at, 512).iter().any(|&byte| byte != 0xff) {
            return;
        }
        let count = number(&get(drive, at + 0x210, 4)).min(148);
        let mut data = at + PAGE as u64;
        for entry in 0..count {
            let place = at + 536 + 24 * entry;
            let length = number(&get(drive, place + 8, 4));
            if length < 1 << 20 {
                let sum = crc32c(&get(drive, data, length as usize));
                put(drive, place + 0x14, &sum.to_le_bytes());
            }
            data = data.saturating_add(length / 512 * 512);
        }
        seal_crc(drive, at, PAGE, 0x214);
        if data > 1 << 40 {
            return;
        }
        at = data;
    }
}

/// A number that is new, or near the old one.
fn value(chance: &mut Chance, before: u64, length: usize, drive_sectors: u64, others: &[u64]) -> u64 {
    let bits = length as u64 * 8;
    let max = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let value = match chance.below(16) {
        0 => 0,
        1 => 1,
        2 => max,
        3 => max - chance.below(16),
        4 | 5 => 1 << chance.below(bits),
        6 => (1 << chance.below(bits)) - 1,
        7 => before.wrapping_add(1 + chance.below(3)),
        8 => before.wrapping_sub(1 + chance.below(3)),
        9 => before.wrapping_add(8 << chance.below(10)),
        10 => before.wrapping_sub(8 << chance.below(10)),
        11 => before ^ 1 << chance.below(bits),
        12 => {
            if chance.one_in(2) {
                before.wrapping_mul(2)
            } else {
                before / 2
            }
        }
        13 => drive_sectors.wrapping_sub(chance.below(64)),
        14 if !others.is_empty() => others[chance.below(others.len() as u64) as usize],
        _ => chance.any() >> chance.below(64),
    };
    value & max
}

/// A mutant: drives, and the changes on them.
pub struct Mutant {
    pub drives: Vec<MemoryDrive>,
    pub changes: Vec<Change>,
}

/// Alters a scene. Structures may be exchanged with those of other scenes.
pub fn alter(scene: &Scene, targets: &[Target], others: &[Scene], chance: &mut Chance) -> Mutant {
    let mut mutant = Mutant { drives: scene.drives.clone(), changes: Vec::new() };
    let rounds = if chance.one_in(2) { 1 } else { 2 + chance.below(5) };
    if let Some(stale) = scene.stale.filter(|_| !chance.one_in(4)) {
        mutant.lie(stale, targets, chance);
    } else {
        mutant.at_random(rounds, scene, targets, others, chance);
    }
    if chance.one_in(24) {
        mutant.changes.push(Change::Unsealed);
    } else {
        mutant.drives.iter_mut().for_each(seal);
    }
    // A drive has no content beyond its end.
    for drive in &mut mutant.drives {
        drive.sectors.split_off(&drive.size_sectors);
    }
    mutant
}

/// Alters a scene by a fuzzer's bytes: the first for the whole, then twelve for each change.
pub fn by_bytes(scene: &Scene, targets: &[Target], bytes: &[u8]) -> Mutant {
    let mut mutant = Mutant { drives: scene.drives.clone(), changes: Vec::new() };
    let (how, edits) = bytes.split_first().unwrap_or((&0, &[]));
    // Signatures of others are no structure of ours, and have no fields.
    let marks = scene.marks.iter().map(|&(offset, _)| Target { what: "mark", drive: 0, offset, fields: Vec::new() });
    let targets: Vec<Target> = targets.iter().cloned().chain(marks).collect();
    for edit in edits.chunks_exact(12) {
        let Target { what, drive, offset, ref fields } = targets[edit[1] as usize % targets.len()];
        let (place, value) = (u16::from_le_bytes([edit[2], edit[3]]) as usize, &edit[4..]);
        let on = &mut mutant.drives[drive];
        if edit[0] % 2 == 0 && !fields.is_empty() {
            let Field { name, offset: inside, length } = fields[place % fields.len()];
            let (offset, value) = (offset + inside as u64, &value[..length.min(8)]);
            let before = number(&get(on, offset, value.len()));
            put(on, offset, value);
            mutant.changes.push(Change::Field { what, drive, offset, name, before, after: number(value) });
            continue;
        }
        let length = 1 + (edit[0] / 2 % 8) as usize;
        for (offset, &after) in (offset + (place % PAGE) as u64..).zip(&value[..length]) {
            let before = get(on, offset, 1)[0];
            put(on, offset, &[after]);
            mutant.changes.push(Change::Bytes { drive, offset, before, after });
        }
    }
    if how % 8 == 0 {
        mutant.changes.push(Change::Unsealed);
    } else {
        mutant.drives.iter_mut().for_each(seal);
    }
    mutant
}

impl Mutant {
    fn at_random(&mut self, rounds: u64, scene: &Scene, targets: &[Target], others: &[Scene], chance: &mut Chance) {
        for _ in 0..rounds {
            match chance.below(20) {
                0..14 if !targets.is_empty() => self.alter_field(targets, chance),
                0..16 => self.alter_bytes(scene, chance),
                16 => self.tear(chance),
                17 => self.resize(chance),
                18 => self.lose_or_copy(chance),
                _ => self.mix(others, chance),
            }
        }
    }

    /// A member that missed updates claims otherwise: by one number, or by an impossible count and any state of the others.
    fn lie(&mut self, stale: usize, targets: &[Target], chance: &mut Chance) {
        let own = |what: &str| targets.iter().filter(|target| target.drive == stale && target.what == what).cloned().collect();
        let (superblock, roles): (Vec<Target>, Vec<Target>) = (own("superblock"), own("roles"));
        let (superblock, roles) = (&superblock[0], &roles[0]);
        let events = superblock.fields.iter().find(|field| field.name == "events").expect("it counts");
        let fresh = self.drives.iter().flat_map(|drive| {
            let at = superblocks(drive).into_iter().next();
            at.map(|at| header_at(drive, at).events)
        });
        let fresh = fresh.max().unwrap_or(0);
        match chance.below(4) {
            0 => {
                let field = chance.pick(&superblock.fields);
                self.set(superblock, &field, None, chance);
            }
            1 => {
                let field = chance.pick(&roles.fields);
                self.set(roles, &field, None, chance);
            }
            2 => self.set(superblock, events, Some(fresh.wrapping_add(chance.below(6))), chance),
            _ => {
                self.set(superblock, events, Some(1 << (33 + chance.below(7)) | chance.below(1000)), chance);
                for field in &roles.fields {
                    if chance.one_in(2) {
                        self.set(roles, field, Some(0xfffe), chance);
                    }
                }
            }
        }
    }

    /// Changes a field of one structure.
    fn set(&mut self, target: &Target, field: &Field, wanted: Option<u64>, chance: &mut Chance) {
        let drive = &mut self.drives[target.drive];
        let (at, length) = (target.offset + field.offset as u64, field.length.min(8));
        let before = number(&get(drive, at, length));
        let after = wanted.unwrap_or_else(|| value(chance, before, length, drive.size_sectors, &[]));
        put(drive, at, &after.to_le_bytes()[..length]);
        let (what, drive, offset, name) = (target.what, target.drive, target.offset, field.name);
        self.changes.push(Change::Field { what, drive, offset, name, before, after });
    }

    fn alter_field(&mut self, targets: &[Target], chance: &mut Chance) {
        // The one superblock as often as one of a hundred entries.
        let mut kinds: Vec<&'static str> = targets.iter().map(|target| target.what).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let what = chance.pick(&kinds);
        let of_kind: Vec<&Target> = targets.iter().filter(|target| target.what == what).collect();
        let target = chance.pick(&of_kind);
        let field = chance.pick(&target.fields);
        let alike: Vec<&Target> = match chance.below(3) {
            0 => of_kind.into_iter().filter(|other| other.offset == target.offset).collect(),
            _ => vec![target],
        };
        let mut after = None;
        for target in alike {
            let Some(drive) = self.drives.get(target.drive) else { continue };
            let at = target.offset + field.offset as u64;
            let before = get(drive, at, field.length);
            let value = *after.get_or_insert_with(|| {
                let nearby = target.fields.iter().filter(|other| other.length <= 8);
                let nearby = nearby.map(|other| number(&get(drive, target.offset + other.offset as u64, other.length)));
                let elsewhere = self.drives.iter().map(|drive| number(&get(drive, at, field.length)));
                let others: Vec<u64> = nearby.chain(elsewhere).collect();
                value(chance, number(&before), field.length.min(8), drive.size_sectors, &others)
            });
            let mut bytes = before.clone();
            let length = field.length.min(8);
            bytes[..length].copy_from_slice(&value.to_le_bytes()[..length]);
            put(&mut self.drives[target.drive], at, &bytes);
            let (what, drive, offset, name) = (target.what, target.drive, target.offset, field.name);
            self.changes.push(Change::Field { what, drive, offset, name, before: number(&before), after: value });
        }
    }

    fn alter_bytes(&mut self, scene: &Scene, chance: &mut Chance) {
        let drive = chance.below(self.drives.len() as u64) as usize;
        let held: Vec<u64> = self.drives[drive].sectors.keys().copied().collect();
        if held.is_empty() {
            return;
        }
        for _ in 0..1 + chance.below(4) {
            let offset = match scene.marks.first() {
                Some((offset, length)) => offset + chance.below(*length),
                None => chance.pick(&held) * 512 + chance.below(512),
            };
            let before = get(&self.drives[drive], offset, 1)[0];
            let after = if chance.one_in(2) { before ^ 1 << chance.below(8) } else { chance.any() as u8 };
            put(&mut self.drives[drive], offset, &[after]);
            self.changes.push(Change::Bytes { drive, offset, before, after });
        }
    }

    /// A page of which only one half was written.
    fn tear(&mut self, chance: &mut Chance) {
        let drive = chance.below(self.drives.len() as u64) as usize;
        let pages = pages(&self.drives[drive]);
        if pages.is_empty() {
            return;
        }
        let at = chance.pick(&pages) + 2048 * chance.below(2);
        let (bytes, from) = match chance.below(3) {
            0 => (vec![0; 2048], "zeros".to_owned()),
            1 => (vec![0xff; 2048], "ones".to_owned()),
            _ => {
                let other = chance.below(self.drives.len() as u64) as usize;
                (get(&self.drives[other], at, 2048), format!("of drive{other}"))
            }
        };
        put(&mut self.drives[drive], at, &bytes);
        self.changes.push(Change::Torn { drive, offset: at, from });
    }

    fn resize(&mut self, chance: &mut Chance) {
        let drive = chance.below(self.drives.len() as u64) as usize;
        let before = self.drives[drive].size_sectors;
        let after = match chance.below(6) {
            0 => chance.below(64),
            1 => before - before.min(1 + chance.below(16)),
            2 => before - before.min(8 << chance.below(20)),
            3 => before / 2,
            4 => before + (1 << chance.below(40)),
            _ => chance.below(before.max(1)),
        };
        self.drives[drive].size_sectors = after;
        self.changes.push(Change::Resized { drive, before, after });
    }

    fn lose_or_copy(&mut self, chance: &mut Chance) {
        let drive = chance.below(self.drives.len() as u64) as usize;
        if chance.one_in(3) {
            let copy = MemoryDrive { name: format!("copy{drive}"), ..self.drives[drive].clone() };
            self.drives.push(copy);
            self.changes.push(Change::Copied { drive });
        } else if self.drives.len() > 1 {
            self.drives.remove(drive);
            self.changes.push(Change::Lost { drive });
        }
    }

    fn mix(&mut self, others: &[Scene], chance: &mut Chance) {
        let drive = chance.below(self.drives.len() as u64) as usize;
        let other = &others[chance.below(others.len() as u64) as usize];
        let lent = &other.drives[chance.below(other.drives.len() as u64) as usize];
        self.drives[drive] = MemoryDrive { name: format!("drive{drive}"), ..lent.clone() };
        self.changes.push(Change::Foreign { drive, scene: other.name.clone() });
    }

    /// True if so little was changed that a drive which missed updates cannot look current: one number in its superblock, or an
    /// impossible count together with any state of the others.
    pub fn stays_stale(&self, scene: &Scene) -> bool {
        let Some(stale) = scene.stale else { return false };
        let of_stale = |change: &Change| match *change {
            Change::Field { what: "superblock" | "roles", drive, name, after, .. } => (drive == stale).then_some((name, after)),
            _ => None,
        };
        let Some(changes) = self.changes.iter().map(of_stale).collect::<Option<Vec<_>>>() else { return false };
        let far = changes.iter().any(|(name, after)| *name == "events" && after >> 33 != 0);
        let counted = changes.iter().all(|(name, _)| *name == "events" || name.starts_with("dev_roles"));
        changes.len() == 1 || far && counted && changes.iter().filter(|(name, _)| *name == "events").count() == 1
    }
}

/// The state that a drive records, in words.
pub fn shown(drive: &MemoryDrive) -> String {
    examine::lines(&drive.candidate()).into_iter().map(|line| format!("{line:?}")).collect::<Vec<_>>().join("; ")
}
