//! Drives to be altered: members of arrays of every level in every state, and drives that carry something else.

use super::support::firmware::{firmware_raids, sector_with};
use super::support::running::pattern;
use super::support::{MemoryDrive, carry_out, request, state_of};
use super::tree::{Node, World, activate};
use stria_array::{
    AppendTerms, LaneLog, Layout, Level, LogRecord, MemberId, MemberProgress, MemberSector, MetadataWrite, Recorder, StripSector,
    Synced,
};
use stria_block::Buffer;
use stria_format::md::superblock::feature;
use stria_format::md::{BitmapChoice, Create, CreateMember, LogChoice, MdLog, Options, Superblock, assemble};
use stria_parity::crc32c;

/// Drives before anything is altered.
pub struct Scene {
    pub name: String,
    pub drives: Vec<MemoryDrive>,
    /// This drive missed the last changes of its array: its copy of the array's first sectors is of version 1, not of 2.
    pub stale: Option<usize>,
    /// Positions of signatures that are no structure of ours: byte offset and length, on every drive.
    pub marks: Vec<(u64, u64)>,
    /// True if an array starts from these drives.
    pub starts: bool,
    /// True if its start replays something.
    pub replays: bool,
    /// Some of it was being written: not every checksum is right.
    pub torn: bool,
}

/// 2 MiB: half of it is metadata and log.
const SMALL: u64 = 4096;
/// Sectors from the start of every array that are read and written.
pub const LOOKED_AT: u64 = 48;
const NOW: u64 = 1_700_000_100;

impl Scene {
    fn new(name: impl Into<String>, drives: Vec<MemoryDrive>) -> Self {
        Self { name: name.into(), drives, stale: None, marks: Vec::new(), starts: true, replays: false, torn: false }
    }
}

fn small(level: Level, count: usize, spares: usize) -> Create {
    let mut create = request(level, level.default_layout(), count, spares, SMALL);
    create.strip_sectors = 8;
    create
}

/// The one array on some drives, opened for writing.
fn opened(world: &mut World) -> Node {
    let mut tops = world.open(&Options::default(), true, false);
    assert!(tops.len() == 1, "{:?}", world.refusals);
    let node = tops.remove(0);
    activate(&node);
    node
}

/// The drives of an array that ran, and lost its power after `left` more sectors.
fn run(drives: &[MemoryDrive], left: u64, history: impl FnOnce(&mut World, &mut Node)) -> Vec<MemoryDrive> {
    let mut world = World::new(drives, left);
    let mut node = opened(&mut world);
    history(&mut world, &mut node);
    drop(node);
    world.images()
}

fn put(world: &mut World, node: &mut Node, start: u64, sectors: u64, version: u8) {
    world.write(node, start, &pattern(start, sectors, version)).expect("it writes");
}

/// After a clean stop, with its first sectors of this version.
fn stopped(drives: &[MemoryDrive], version: u8) -> Vec<MemoryDrive> {
    run(drives, u64::MAX, |world, node| {
        put(world, node, 0, LOOKED_AT, version);
        world.stop(node);
    })
}

/// Without a stop: some small writes are in flight or done, and the log has their records.
fn crashed(drives: &[MemoryDrive], left: u64) -> Vec<MemoryDrive> {
    run(drives, left, |world, node| {
        for (start, sectors) in [(1, 2), (9, 3), (17, 1), (30, 9), (40, 8), (3, 1)] {
            // Without power all requests end as if they were written.
            let _ = world.write(node, start, &pattern(start, sectors, 2));
        }
    })
}

fn without(drives: &[MemoryDrive], lost: usize) -> Vec<MemoryDrive> {
    drives.iter().enumerate().filter(|(index, _)| *index != lost).map(|(_, drive)| drive.clone()).collect()
}

/// One member left, the array went on, and the member came back as it was.
fn stale(level: Level, count: usize, lost: usize) -> Scene {
    let whole = stopped(&carry_out(&small(level, count, 0)).0, 1);
    let mut rest = without(&whole, lost);
    for hour in 1..3 {
        let mut world = World::new(&rest, u64::MAX);
        world.unix_seconds += hour * 3600;
        let mut node = opened(&mut world);
        put(&mut world, &mut node, 0, LOOKED_AT, 2);
        world.stop(&mut node);
        drop(node);
        rest = world.images();
    }
    let mut drives = rest;
    drives.insert(lost, whole[lost].clone());
    Scene { stale: Some(lost), ..Scene::new(format!("RAID {level} of {count} with a stale member"), drives) }
}

fn superblock_of(drive: &MemoryDrive) -> Superblock {
    drive.candidate().found.expect("a member").superblock
}

fn change(drive: &mut MemoryDrive, change: impl FnOnce(&mut Superblock)) {
    let mut superblock = superblock_of(drive);
    change(&mut superblock);
    drive.write(superblock.header.super_offset, &superblock.encode());
}

/// Members that are being filled, replace others, are spares, or have bad blocks.
fn in_the_making() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for level in [Level::Raid1, Level::Raid5, Level::Raid6] {
        let count = if level == Level::Raid6 { 5 } else { 3 };
        for replaces in [false, true] {
            let mut drives = carry_out(&small(level, count, 2)).0;
            let (mut assemblies, _) = assemble(&super::support::candidates(&drives), &Options::default());
            let mut start = assemblies.remove(0).outcome.expect("it starts");
            let mut state = state_of(&start.config, true);
            let place = Some(MemberProgress { member: MemberId(count), recovered: Synced::up_to(256), by_bitmap: false });
            state.spares.retain(|spare| *spare != MemberId(count));
            if replaces {
                state.slots[1].replacement = place;
            } else {
                state.slots[1].member = place;
                state.failed.push((MemberId(1), Some(1)));
                state.optimal = false;
            }
            for _ in 0..2 {
                super::support::apply(&mut drives, &start.recorder.record_state(&state, NOW));
            }
            let blocks = [8..16, 40..41].map(MemberSector::span);
            let bad = Recorder::record_bad_blocks(&mut start.recorder, MemberId(0), &blocks, NOW);
            super::support::apply(&mut drives, &bad.expect("there is room"));
            let what = if replaces { "being replaced" } else { "being filled" };
            scenes.push(Scene::new(format!("RAID {level} of {count} with a member {what}, bad blocks and a spare"), drives));
        }
    }
    scenes
}

/// Logs of several lanes, written by hand. `full`: as many records of one stripe as have space.
pub fn logs(level: Level, lanes: usize, full: bool) -> Vec<MemoryDrive> {
    let count = 3 + usize::from(level == Level::Raid6);
    let mut create = request(level, level.default_layout(), count, 0, if full { SMALL } else { 8 << 20 });
    create.bitmap = BitmapChoice::Internal { chunk_bytes: None };
    let mut drives = carry_out(&create).0;
    let (mut assemblies, _) = assemble(&super::support::candidates(&drives), &Options::default());
    let start = assemblies.remove(0).outcome.expect("it starts").with_lanes(lanes);
    let (state, mut recorder) = (state_of(&start.config, false), start.recorder);
    super::support::apply(&mut drives, &recorder.reset_log());
    super::support::apply(&mut drives, &recorder.record_state(&state, NOW));
    let mut logs: Vec<MdLog> = (0..lanes).map(|_| MdLog::default()).collect();
    for (lane, log) in logs.iter_mut().enumerate() {
        log.set_layout(lane, recorder.log_layout());
    }
    let data = |sectors: u64, byte: u64| Buffer::copy_of(&vec![byte as u8; (sectors * 512) as usize]).freeze();
    let geometry = &start.config.geometry;
    // Four groups of 256 KiB each, dealt out in turn.
    let stripe_of = |lane: usize, number: u64| lane as u64 * 4 + number % 2;
    let rounds = if full { 1000 } else { 3 };
    for round in 0..rounds {
        let mut any = false;
        for (lane, log) in logs.iter_mut().enumerate() {
            let number = if full { round * LogRecord::APPEND_COUNT_MAX as u64 + 1 } else { round + 1 };
            let stripe = if full { 0 } else { stripe_of(lane, number) };
            let map = geometry.stripe_map(stripe);
            for (parity, &slot) in map.parity.iter().enumerate() {
                let record = |number: u64| LogRecord {
                    number,
                    stripe,
                    rows: StripSector::new(number % 100).run(1 + number % 3),
                    written: 0..1,
                    parity,
                    partial: (!full && geometry.data_count() > 1).then(|| data(1 + number % 3, number)),
                    new_data: if full { Default::default() } else { std::iter::once(data(1 + number % 3, number + 1)).collect() },
                    new_data_is_zeros: false,
                };
                let batch = if full { LogRecord::APPEND_COUNT_MAX as u64 } else { 1 };
                let records: Vec<LogRecord> = (number..number + batch).map(record).collect();
                let terms = AppendTerms { retired_below: 1, free_below: 0, unsure_count: 0 };
                let write: Option<MetadataWrite> = log.append(MemberId(usize::from(slot)), &records, terms);
                any |= write.is_some();
                super::support::apply(&mut drives, write.as_slice());
            }
        }
        if !any {
            break;
        }
    }
    drives
}

/// md's partial parity log amid some writes.
fn partial_parity(bit: u32) -> Scene {
    let mut create = small(Level::Raid5, 4, 0);
    create.strip_sectors = 16;
    create.bitmap = BitmapChoice::None;
    let mut drives = carry_out(&create).0;
    for drive in &mut drives {
        change(drive, |superblock| {
            superblock.header.feature_map |= bit;
            superblock.header.bitmap_offset = 1024 << 16 | 64;
        });
        let mut page = vec![0; 4096];
        page[..512].fill(0xff);
        page[512..516].copy_from_slice(&crc32c(&[0xab; 16]).to_le_bytes());
        let sum = crc32c(&page);
        page[532..536].copy_from_slice(&sum.to_le_bytes());
        drive.write(72, &page);
    }
    let drives = crashed(&stopped(&drives, 1), u64::MAX);
    Scene { replays: true, ..Scene::new(format!("RAID 5 of 4 with md's partial parity log, of kind 0x{bit:x}"), drives) }
}

/// The same array with superblocks of version 1.0 or 1.1.
fn of_version(minor: u8, level: Level) -> Scene {
    let mut create = small(level, 3, 0);
    create.log = LogChoice::None;
    let mut drives = carry_out(&create).0;
    for drive in &mut drives {
        let mut superblock = superblock_of(drive);
        drive.write(8, &[0; 4096]);
        let header = &mut superblock.header;
        header.super_offset = Superblock::sector_of(minor, drive.size_sectors).expect("there is one");
        let moved = 8 - header.super_offset as i64;
        header.bblog_offset = (i64::from(header.bblog_offset) + moved) as i32;
        header.bitmap_offset = (i64::from(header.bitmap_offset) + moved) as i32;
        if minor == 0 {
            header.data_size -= 16;
            header.size -= 16;
        }
        drive.write(superblock.header.super_offset, &superblock.encode());
    }
    Scene::new(format!("RAID {level} of 3 of version 1.{minor}"), stopped(&drives, 1))
}

/// Two arrays of three drives, and a RAID 0 on them. `marked`: as Stria makes it, else as mdadm does.
fn nested(marked: bool) -> Scene {
    let uuid = |which: u8| [which; 16];
    let mut all = Vec::new();
    let upper_uuid = uuid(9);
    let mut spans = Vec::new();
    for span in 0..2u8 {
        let mut create = small(Level::Raid5, 3, 0);
        create.name = format!("tank-span{span}");
        create.uuid = uuid(span + 1);
        create.span_of = marked.then_some(upper_uuid);
        for (index, member) in create.members.iter_mut().enumerate() {
            member.as_mut().expect("a drive").device_uuid = [0x20 * (span + 1) + index as u8; 16];
        }
        let (drives, creation) = carry_out(&create);
        spans.push(creation.geometry.capacity_sectors());
        all.extend(drives);
    }
    let mut upper = small(Level::Raid0, 2, 0);
    upper.uuid = upper_uuid;
    upper.data_offset_sectors = Some(64);
    for (span, capacity) in spans.iter().enumerate() {
        let member = CreateMember {
            name: format!("span{span}"),
            size_sectors: *capacity,
            logical_block_bytes: 512,
            device_uuid: [0x80 + span as u8; 16],
        };
        upper.members[span] = Some(member);
    }
    let creation = upper.plan().expect("it can be made");
    let mut world = World::new(&all, u64::MAX);
    let mut nodes = world.open(&Options::default(), false, false);
    nodes.sort_by_key(|node| node.uuid);
    for (span, node) in nodes.iter_mut().enumerate() {
        activate(node);
        for write in creation.writes.iter().filter(|write| write.drive == span) {
            world.write(node, write.start_sector.get(), &write.bytes).expect("it writes");
        }
        world.stop(node);
    }
    drop(nodes);
    let mut drives = world.images();
    for (index, drive) in drives.iter_mut().enumerate() {
        drive.name = format!("drive{index}");
    }
    let what = if marked { "RAID 50 of 6" } else { "RAID 0 of two RAID 5 without marks" };
    Scene::new(what, if marked { crashed(&stopped(&drives, 1), u64::MAX) } else { drives })
}

/// Arrays of drives larger than any.
fn large(level: Level, sectors: u64) -> Scene {
    let mut create = request(level, level.default_layout(), 3, 0, sectors);
    if level.is_redundant() {
        create.bitmap = BitmapChoice::Internal { chunk_bytes: None };
    }
    let drives = stopped(&carry_out(&create).0, 1);
    Scene::new(format!("RAID {level} of 3 drives of {sectors} sectors"), crashed(&drives, u64::MAX))
}

/// What other programs write to drives: positions and bytes.
fn foreign() -> Vec<(String, u64, Vec<u8>)> {
    let end = SMALL * 512;
    let with = sector_with;
    let others: Vec<(&str, u64, Vec<u8>)> = vec![
        ("IMSM", end - 1024, with(&[(0, b"Intel Raid ISM Cfg Sig. 1.3.00\0")])),
        ("DDF", end - 512, with(&[(0, b"\xde\x11\xde\x11"), (8, b"VENDOR  ")])),
        ("md 0.90", end - 65536, with(&[(0, b"\xfc\x4e\x2b\xa9\0\0\0\0\x5a")])),
        ("GPT", 512, with(&[(0, b"EFI PART"), (56, &[7; 16])])),
        ("MBR", 0, with(&[(446, b"\x80\0\0\0\x83\0\0\0\x01\0\0\0\0\x01\0\0"), (510, b"\x55\xaa")])),
        ("LUKS", 0, with(&[(0, b"LUKS\xba\xbe\0\x02"), (24, b"secret"), (168, b"uuid")])),
        ("LVM", 512, with(&[(0, b"LABELONE"), (24, b"LVM2 001abc")])),
        ("ext4", 1024, with(&[(56, b"\x53\xef"), (92, b"\x04"), (96, b"\xc2\x02"), (120, b"root")])),
        ("ZFS", 132 * 1024, with(&[(0, b"\x0c\xb1\xba\0\0\0\0\0")])),
        ("swap", 4096 - 512, with(&[(502, b"SWAPSPACE2")])),
    ];
    // One of each kind.
    let mut firmware = firmware_raids(end);
    firmware.dedup_by_key(|(.., known_as)| *known_as);
    let firmware = firmware.into_iter().take(12).map(|(offset, sector, name, _)| (name, offset, sector));
    others.into_iter().map(|(name, offset, sector)| (name.to_owned(), offset, sector)).chain(firmware).collect()
}

/// All scenes.
pub fn all() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (level, layout) in Layout::of_all_levels() {
        let count = if level == Level::Raid6 { 5 } else { 4 };
        let mut create = request(level, layout, count, 0, SMALL);
        create.strip_sectors = 8;
        let drives = stopped(&carry_out(&create).0, 1);
        scenes.push(Scene::new(format!("RAID {level} of {count}, {layout}"), drives));
    }
    for (level, count) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let before = stopped(&carry_out(&small(level, count, 1)).0, 1);
        let mut left = 0;
        run(&before, u64::MAX, |world, node| {
            for start in [1, 9, 17] {
                put(world, node, start, 2, 2);
            }
            left = u64::MAX - world.power.left.get();
        });
        for (when, left) in [("after", u64::MAX), ("in the middle of", left * 2 / 3), ("early in", left / 3)] {
            let drives = crashed(&before, left);
            let (torn, replays) = (left != u64::MAX, level.parity_count() > 0 && left == u64::MAX);
            let name = format!("RAID {level} of {count}, cut {when} its writes");
            scenes.push(Scene { torn, replays, ..Scene::new(format!("{name}, without a member"), without(&drives, 1)) });
            scenes.push(Scene { torn, replays, ..Scene::new(name, drives) });
        }
    }
    for (level, count, lost) in
        [(Level::Raid1, 2, 1), (Level::Raid1, 2, 0), (Level::Raid5, 3, 1), (Level::Raid6, 4, 2), (Level::Raid10, 4, 3)]
    {
        scenes.push(stale(level, count, lost));
    }
    scenes.extend(in_the_making());
    for level in [Level::Raid5, Level::Raid6] {
        for lanes in [1, 2] {
            let drives = logs(level, lanes, false);
            scenes.push(Scene { replays: true, ..Scene::new(format!("RAID {level} with logs of {lanes} lanes"), drives) });
        }
    }
    for level in [Level::Raid5, Level::Raid6] {
        let name = format!("RAID {level} with a log full of records of one stripe");
        scenes.push(Scene { replays: true, ..Scene::new(name, logs(level, 1, true)) });
    }
    scenes.extend([feature::PPL, feature::MULTIPLE_PPLS].map(partial_parity));
    for level in [Level::Raid0, Level::Raid1, Level::Raid5] {
        let mut create = small(level, 3, 0);
        create.checksums = true;
        let drives = stopped(&carry_out(&create).0, 1);
        scenes.push(Scene::new(format!("RAID {level} of 3 with checksums"), drives.clone()));
        scenes.push(Scene::new(format!("RAID {level} of 3 with checksums, not stopped"), crashed(&drives, u64::MAX)));
    }
    for (minor, level) in [(0, Level::Raid1), (1, Level::Raid1), (0, Level::Raid5), (1, Level::Raid5)] {
        scenes.push(of_version(minor, level));
    }
    scenes.push(nested(true));
    scenes.push(nested(false));
    for (level, sectors) in [(Level::Raid1, 1 << 35), (Level::Raid5, 1 << 35), (Level::Raid10, 1 << 41), (Level::Raid0, 1 << 51)]
    {
        scenes.push(large(level, sectors));
    }
    for (name, offset, bytes) in foreign() {
        let mut drive = MemoryDrive::new(0, SMALL);
        drive.write(offset / 512, &bytes);
        let mut other = drive.clone();
        other.name = "drive1".into();
        let marks = vec![(offset, 512)];
        scenes.push(Scene { marks, starts: false, ..Scene::new(format!("drives with a mark of {name}"), vec![drive, other]) });
    }
    scenes
}
