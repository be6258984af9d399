//! Goal: what clients write into an array never decides how it starts, and arrays over arrays start all the same.
//! Method: arrays on image files. Clients write superblocks of every version, complete and incomplete arrays, and images of
//! members where md looks for them. Every start must find the same array with the same bytes. Spans are recognized by their mark;
//! without marks, as an early Stria or mdadm leaves them, only on command. New arrays on used drives are independent of the old
//! ones.

mod support;

use std::fs::{self, File, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use stria_array::{ArraySector, Level};
use stria_block::{BlockDevice, bytes};
use stria_drive::Ring;
use stria_format::detect::detect;
use stria_format::md::superblock::{CLEAN, MAGIC};
use stria_format::md::{BitmapChoice, Change, Create, CreateMember, LogChoice, Superblock};
use stria_host::*;

const LEVELS: [(&str, usize); 9] =
    [("jbod", 2), ("0", 3), ("1", 2), ("4", 3), ("5", 3), ("6", 4), ("10", 4), ("50", 6), ("60", 8)];
const IMAGE_BYTES: u64 = 8 << 20;

struct Images {
    folder: PathBuf,
    paths: Vec<PathBuf>,
}

impl Drop for Images {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Images {
    fn new(count: usize) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("nested-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let paths: Vec<PathBuf> = (0..count).map(|index| folder.join(format!("d{index}"))).collect();
        paths.iter().for_each(|path| File::create(path).and_then(|file| file.set_len(IMAGE_BYTES)).expect("an image"));
        Self { folder, paths }
    }

    /// An array over all of them that match.
    fn make(&self, name: &str, level: &str) -> [u8; 16] {
        make(name, level, &self.paths, |spec| spec.assume_clean = true)
    }
}

fn make(name: &str, level: &str, paths: &[PathBuf], change: impl FnOnce(&mut CreateSpec)) -> [u8; 16] {
    let mut spec = support::spec(name, level, paths);
    change(&mut spec);
    create(&spec).unwrap_or_else(|error| panic!("RAID {level} \"{name}\": {error}"))
}

fn try_open(paths: &[PathBuf], options: OpenOptions) -> Result<(HostedArray, Vec<String>), String> {
    let ring = Ring::new().expect("a ring");
    let opened = open(paths, &ring, options).map_err(|error| error.to_string());
    opened.map(|(array, warnings)| (array, warnings.iter().map(ToString::to_string).collect()))
}

fn opened(paths: &[PathBuf], options: OpenOptions) -> HostedArray {
    try_open(paths, options).unwrap_or_else(|error| panic!("{error}")).0
}

const NESTED: OpenOptions = OpenOptions {
    firmware: FirmwareRaid::Left,
    force: false,
    read_only: false,
    forget_checksums: false,
    nested: 1,
    io: stria_drive::IoOptions { poll: false, passthrough: false },
    write_policy: stria_array::WritePolicy::Safe,
    drive_caches: None,
};

fn read(array: &mut HostedArray, start: u64, sectors: u64) -> Vec<u8> {
    array.sync_io(|io| io.read(start, sectors)).expect("readable")
}

fn write(array: &mut HostedArray, start: u64, data: &[u8]) {
    array.sync_io(|io| io.write(start, data)).expect("writable");
}

fn stop(mut array: HostedArray) {
    array.sync_io(|io| io.stop()).expect("it stops");
}

/// Bytes that a client writes somewhere.
struct Written {
    what: String,
    at: u64,
    data: Vec<u8>,
}

/// The superblock of a client's own array, as one of its members of `sectors` has it.
fn guest(level: Level, count: usize, slot: usize, sectors: u64) -> Superblock {
    let member = |index: usize| {
        let device_uuid = [0x60 + index as u8; 16];
        Some(CreateMember { name: "vda".into(), size_sectors: sectors, logical_block_bytes: 512, device_uuid })
    };
    let create = Create {
        name: "guest".into(),
        homehost: None,
        uuid: [0x66; 16],
        level,
        layout: level.default_layout(),
        strip_sectors: 16,
        members: (0..count).map(member).collect(),
        spares: Vec::new(),
        data_offset_sectors: Some(2048),
        member_sectors_max: None,
        bitmap: BitmapChoice::None,
        log: LogChoice::Auto,
        checksums: false,
        assume_clean: true,
        span_of: None,
        unix_seconds: 2_000_000_000,
    };
    let mut plan = create.plan().expect("possible");
    plan.superblocks.swap_remove(slot).expect("all are there")
}

/// The same superblock, as version 1.`minor` of a drive of `sectors`, and its position.
fn placed(mut superblock: Superblock, minor: u8, sectors: u64) -> (u64, Vec<u8>) {
    let at = Superblock::sector_of(minor, sectors).expect("large enough");
    let header = &mut superblock.header;
    header.super_offset = at;
    (header.bitmap_offset, header.bblog_offset, header.bblog_size) = (0, 0, 0);
    header.feature_map &= !0x9;
    header.resync_offset = CLEAN;
    header.data_offset = if minor == 0 { 0 } else { 2048 };
    header.data_size = if minor == 0 { at } else { sectors - 2048 };
    header.size = header.size.min(header.data_size);
    (at, superblock.encode())
}

/// Version 0.90, as far as probes read it.
fn old(sectors: u64) -> (u64, Vec<u8>) {
    let words = [MAGIC, 0, 90, 0, 0, 0x6666_6666, 2_000_000_000, 1, 0, 2, 2, 0];
    let mut block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    block.resize(4096, 0);
    ((sectors & !127) - 128, block)
}

/// All bytes that a hostile client may write, given the array's size and an image of one of its members.
fn attempts(sectors: u64, member: &[u8]) -> Vec<Written> {
    let mut all = Vec::new();
    let mut add = |what: String, (at, data): (u64, Vec<u8>)| all.push(Written { what, at, data });
    let own = Superblock::parse(&member[4096..8192], 8, (member.len() / 512) as u64).expect("a member");
    for minor in [2, 1, 0] {
        let mut damaged = placed(guest(Level::Raid1, 2, 0, sectors), minor, sectors);
        damaged.1[0x50] ^= 0xff;
        add(format!("a damaged 1.{minor}"), damaged);
        for (level, count) in [(Level::Raid0, 1), (Level::Linear, 1), (Level::Raid1, 1), (Level::Raid0, 2), (Level::Raid5, 3)] {
            let superblock = guest(level, count, count - 1, sectors);
            add(
                format!("member {} of {count} of a guest's RAID {level}, 1.{minor}", count - 1),
                placed(superblock, minor, sectors),
            );
        }
        let mut newer = own.clone();
        newer.header.events += 1000;
        newer.header.ctime += 1000;
        newer.header.data_size = newer.header.data_size.min(sectors - 2048);
        add(format!("a newer superblock of the array's own, 1.{minor}"), placed(newer, minor, sectors));
        let mut marked = guest(Level::Raid0, 1, 0, sectors);
        marked.span_of = Some(own.header.set_uuid);
        add(format!("a guest's span of this array, 1.{minor}"), placed(marked, minor, sectors));
    }
    add("0.90".into(), old(sectors));
    add("the image of a member".into(), (0, member[..1 << 20].to_vec()));
    add("the end of a member's image".into(), (sectors - 2048, member[member.len() - (1 << 20)..].to_vec()));
    all
}

#[test]
fn nothing_that_clients_write_changes_how_an_array_starts() {
    for (level, count) in LEVELS {
        let images = Images::new(count);
        let uuid = images.make("tank", level);
        let member = fs::read(&images.paths[0]).expect("an image");
        let sectors = opened(&images.paths, OpenOptions::default()).limits().size_sectors;
        for written in attempts(sectors, &member) {
            let Written { what, at, data } = &written;
            let mut array = opened(&images.paths, OpenOptions::default());
            write(&mut array, *at, data);
            stop(array);
            let found = find(&images.paths, OpenOptions::default()).expect("readable");
            let arrays: Vec<_> = found.arrays.iter().map(|array| (&*array.name, array.uuid, array.drives.len())).collect();
            assert_eq!(arrays, [("tank", uuid, count)], "RAID {level} with {what}");
            assert!(found.strangers.is_empty() && found.assemblies.iter().all(|assembly| assembly.name != "guest"));
            for read_only in [true, false] {
                let (mut array, told) = try_open(&images.paths, OpenOptions { read_only, ..OpenOptions::default() })
                    .unwrap_or_else(|error| panic!("RAID {level} with {what}: {error}"));
                assert_eq!((array.uuid(), array.limits().size_sectors), (uuid, sectors), "RAID {level} with {what}");
                assert!(told.is_empty(), "RAID {level} with {what}: {told:?}");
                assert!(read(&mut array, *at, (data.len() / 512) as u64) == *data, "RAID {level} with {what}");
                if !read_only {
                    stop(array);
                }
            }
        }
    }
}

/// Clients reach the end of members of these levels, where version 1.0 has its superblock.
#[test]
fn superblock_written_through_the_array_to_the_end_of_its_members_is_not_taken_for_theirs() {
    for (level, count) in [("1", 2), ("0", 2), ("10", 2), ("5", 3), ("jbod", 2)] {
        let images = Images::new(count);
        let uuid = images.make("tank", level);
        let member = fs::read(&images.paths[0]).expect("an image");
        let member_sectors = (member.len() / 512) as u64;
        let own = Superblock::parse(&member[4096..8192], 8, member_sectors).expect("a member");
        let mut forged = own.clone();
        forged.header.events += 1 << 30;
        forged.header.ctime += 1 << 20;
        forged.header.set_name[..5].copy_from_slice(b"guest");
        let (at, block) = placed(forged, 0, member_sectors);
        let mut array = opened(&images.paths, OpenOptions::default());
        let sectors = array.limits().size_sectors;
        // At each position at a member's end where it may be stored.
        let mut start = 0;
        while start < sectors {
            let runs = array.geometry().footprint(ArraySector::new(start).run(1));
            if runs.iter().flatten().any(|run| run.start.get() + own.header.data_offset == at) {
                write(&mut array, start, &block);
            }
            start += 8;
        }
        stop(array);
        let hit = fs::read(&images.paths[0]).expect("an image");
        assert!(hit[bytes(at)..bytes(at + 1)] == block[..512], "RAID {level}: the superblock has reached the member's end");
        let mut array = opened(&images.paths, OpenOptions::default());
        assert_eq!((array.uuid(), array.name(), array.limits().size_sectors), (uuid, "tank", sectors), "RAID {level}");
        assert!(read(&mut array, 0, 8).iter().all(|&byte| byte == 0));
        stop(array);
    }
}

#[test]
fn guest_array_in_halves_on_two_arrays_is_not_put_together() {
    for level in ["1", "5"] {
        let images = Images::new(6);
        let (first, second) = images.paths.split_at(3);
        let uuids = [make("one", level, first, |_| ()), make("two", level, second, |_| ())];
        for (slot, paths) in [first, second].into_iter().enumerate() {
            let mut array = opened(paths, OpenOptions::default());
            let sectors = array.limits().size_sectors;
            for minor in [2, 1, 0] {
                let (at, data) = placed(guest(Level::Raid0, 2, slot, sectors), minor, sectors);
                write(&mut array, at, &data);
            }
            stop(array);
        }
        let found = find(&images.paths, OpenOptions::default()).expect("readable");
        assert_eq!(found.arrays.iter().map(|array| array.uuid).collect::<Vec<_>>(), uuids, "RAID {level}");
        let refused = try_open(&images.paths, OpenOptions::default()).map(|_| ()).expect_err("two arrays");
        assert!(refused.contains("2 arrays (one, two)") && refused.contains("--nested"), "{refused}");
        for (paths, uuid) in [(first, uuids[0]), (second, uuids[1])] {
            assert_eq!(opened(paths, OpenOptions::default()).uuid(), uuid);
        }
        // With --nested it is the same as under mdadm, and nothing is marked.
        for _ in 0..2 {
            let array = opened(&images.paths, NESTED);
            assert_eq!((array.name(), array.spans().count()), ("guest", 2));
            stop(array);
            assert_eq!(find(&images.paths, OpenOptions::default()).expect("readable").arrays.len(), 2);
        }
    }
}

/// As early versions of Stria left the drives.
fn unmark(paths: &[PathBuf]) {
    for path in paths {
        let image = FileOptions::new().read(true).write(true).open(path).expect("an image");
        let mut mark = [0; 64];
        image.read_exact_at(&mut mark, 8192 - 64).expect("a mark");
        assert_eq!(mark[..8], *b"StriaSpn");
        image.write_all_at(&[0; 64], 8192 - 64).expect("writable");
    }
}

/// Before that, every stop was clean.
#[test]
fn a_stop_that_leaves_no_clean_array_is_an_error() {
    for (level, count) in LEVELS {
        let images = Images::new(count);
        images.make("tank", level);
        let mut array = opened(&images.paths, OpenOptions::default());
        write(&mut array, 0, &[1; 4096]);
        for path in &images.paths {
            FileOptions::new().write(true).open(path).and_then(|file| file.set_len(0)).expect("cut short");
        }
        let error = array.sync_io(|io| io.stop()).expect_err(level).to_string();
        assert!(error.contains("as after a power cut"), "RAID {level}: {error}");
    }
}

fn is_marked(path: &Path) -> bool {
    let examined = examine(&[path.to_owned()]).remove(0).expect("readable");
    examined.candidate.found.expect("a member").superblock.span_of.is_some()
}

#[test]
fn striped_arrays_without_marks_start_when_they_are_asked_for_and_are_marked_then() {
    for (level, count) in [("50", 6), ("60", 8)] {
        let images = Images::new(count);
        let uuid = images.make("tank", level);
        assert!(images.paths.iter().all(|path| is_marked(path)));
        let mut array = opened(&images.paths, OpenOptions::default());
        write(&mut array, 4096, &[0x5a; 8192]);
        stop(array);
        unmark(&images.paths);
        let before: Vec<Vec<u8>> = images.paths.iter().map(|path| fs::read(path).expect("an image")).collect();

        let refused = try_open(&images.paths, OpenOptions::default()).map(|_| ()).expect_err("two arrays");
        assert!(refused.contains("2 arrays (tank-span0, tank-span1)") && refused.contains("--nested"), "{refused}");
        let found = find(&images.paths, OpenOptions { force: true, ..NESTED }).expect("readable");
        assert_eq!((found.arrays.len(), found.arrays[0].uuid, found.arrays[0].drives.len()), (1, uuid, count));
        let (mut array, told) = try_open(&images.paths, OpenOptions { read_only: true, ..NESTED }).expect("it starts");
        assert_eq!((array.uuid(), told), (uuid, Vec::new()));
        assert!(read(&mut array, 4096, 16) == [0x5a; 8192]);
        drop(array);
        let after: Vec<Vec<u8>> = images.paths.iter().map(|path| fs::read(path).expect("an image")).collect();
        assert!(before == after, "read-only starts write nothing");

        let (array, told) = try_open(&images.paths, NESTED).expect("it starts");
        assert!(told.len() == 1 && told[0].contains("starts without --nested"), "{told:?}");
        // Not stopped at all.
        drop(array);
        assert!(images.paths.iter().all(|path| is_marked(path)), "RAID {level}");
        let (mut array, told) = try_open(&images.paths, OpenOptions::default()).expect("it starts by its marks");
        assert_eq!((array.uuid(), told), (uuid, Vec::new()));
        assert!(read(&mut array, 4096, 16) == [0x5a; 8192]);
        stop(array);
        // A crash after the first mark was written.
        unmark(&images.paths[1..]);
        let array = opened(&images.paths, NESTED);
        assert_eq!(array.uuid(), uuid);
        stop(array);
        assert!(images.paths.iter().all(|path| is_marked(path)), "RAID {level}");
    }
}

#[test]
fn span_alone_is_not_served_in_place_of_the_array_above() {
    let images = Images::new(6);
    images.make("tank", "50");
    let refused = try_open(&images.paths[..3], OpenOptions::default()).map(|_| ()).expect_err("half of it");
    assert!(refused.contains("\"tank\"") && refused.contains("1 of 2 members"), "{refused}");
    // The upper array's superblock is lost on one span.
    let mut array = {
        unmark(&images.paths[..3]);
        opened(&images.paths[..3], OpenOptions::default())
    };
    write(&mut array, 8, &[0; 4096]);
    stop(array);
    let marked = fs::read(&images.paths[3]).expect("an image");
    for path in &images.paths[..3] {
        let image = FileOptions::new().read(true).write(true).open(path).expect("an image");
        let mut block = vec![0; 4096];
        image.read_exact_at(&mut block, 4096).expect("a superblock");
        let mut superblock = Superblock::parse(&block, 8, IMAGE_BYTES / 512).expect("sound");
        superblock.span_of = Superblock::parse(&marked[4096..8192], 8, IMAGE_BYTES / 512).expect("sound").span_of;
        image.write_all_at(&superblock.encode(), 4096).expect("writable");
    }
    let refused = try_open(&images.paths, OpenOptions::default()).map(|_| ()).expect_err("a span without its array");
    assert!(refused.contains("tank-span0") && refused.contains("superblock is not on it"), "{refused}");
}

/// A block that begins like many kinds of metadata, at any position.
fn dirt() -> Vec<u8> {
    let mut block = vec![0xa5; 4096];
    block[..4].copy_from_slice(&MAGIC.to_le_bytes());
    block[510..512].copy_from_slice(b"\x55\xaa");
    block[512..520].copy_from_slice(b"EFI PART");
    block[1080..1082].copy_from_slice(b"\x53\xef");
    block[3072..3096].copy_from_slice(b"Intel Raid ISM Cfg Sig. ");
    block[3584..3588].copy_from_slice(b"\xde\x11\xde\x11");
    block
}

#[test]
fn new_array_on_used_drives_carries_nothing() {
    for (level, count) in LEVELS {
        let images = Images::new(count);
        for path in &images.paths {
            fs::write(path, dirt().repeat((IMAGE_BYTES / 4096) as usize)).expect("writable");
        }
        let uuid = make("tank", level, &images.paths, |spec| spec.overwrite = Overwrite::Anything);
        let redundant = !matches!(level, "jbod" | "0");
        for lost in [None, Some(0), Some(1)].into_iter().filter(|lost| redundant || lost.is_none()) {
            let kept = images.paths.iter().enumerate().filter(|(index, _)| Some(*index) != lost);
            let kept: Vec<PathBuf> = kept.map(|(_, path)| path.clone()).collect();
            let mut array = opened(&kept, OpenOptions { force: true, read_only: true, ..OpenOptions::default() });
            assert_eq!(array.uuid(), uuid);
            let sectors = array.limits().size_sectors;
            let carried = array.sync_io(|io| detect(sectors, &mut |start, count| io.read(start, count)));
            assert_eq!(carried, [], "RAID {level} without {lost:?}");
            for start in [0, sectors - 2048] {
                assert!(read(&mut array, start, 2048).iter().all(|&byte| byte == 0), "RAID {level} without {lost:?}");
            }
        }
    }
}

#[test]
fn members_that_agree_keep_what_they_hold() {
    for (level, count) in [("0", 3), ("1", 2), ("5", 3)] {
        let images = Images::new(count);
        let uuid = images.make("tank", level);
        let mut array = opened(&images.paths, OpenOptions::default());
        let last = array.limits().size_sectors - 8;
        write(&mut array, 0, &[0x11; 4096]);
        write(&mut array, last, &[0x22; 4096]);
        stop(array);
        let again = make("tank", level, &images.paths, |spec| (spec.overwrite, spec.assume_clean) = (Overwrite::Anything, true));
        assert_ne!(uuid, again);
        let mut array = opened(&images.paths, OpenOptions::default());
        assert!(read(&mut array, 0, 8) == [0x11; 4096] && read(&mut array, last, 8) == [0x22; 4096], "RAID {level}");
        stop(array);
    }
}

/// The superblocks' magic alone, as wipefs does it.
fn wipefs(paths: &[PathBuf]) {
    for path in paths {
        FileOptions::new().write(true).open(path).and_then(|image| image.write_all_at(&[0; 4], 4096)).expect("writable");
    }
}

#[test]
fn drives_of_an_old_striped_array_can_be_used_again() {
    for (level, count, other) in [("50", 6, "60"), ("60", 8, "50")] {
        for assume_clean in [true, false] {
            let images = Images::new(count);
            let old = images.make("old", level);
            let mut array = opened(&images.paths, OpenOptions::default());
            let old_sectors = array.limits().size_sectors;
            write(&mut array, 0, &[0x5a; 8192]);
            stop(array);
            // Wiped, then the same level again, in another order.
            wipefs(&images.paths);
            let mut paths = images.paths.clone();
            paths.reverse();
            // What the signatures of files belonged to counts as somebody's data.
            let refused = create(&support::spec("new", level, &paths)).expect_err("they are not empty").to_string();
            assert!(refused.contains("data without a known signature"), "{refused}");
            let new =
                make("new", level, &paths, |spec| (spec.overwrite, spec.assume_clean) = (Overwrite::Anything, assume_clean));
            let check = |name: &str, uuid: [u8; 16], paths: &[PathBuf]| {
                let (array, told) = try_open(paths, OpenOptions::default()).unwrap_or_else(|error| panic!("{level}: {error}"));
                assert_eq!((array.name(), array.uuid()), (name, uuid));
                assert!(told.is_empty() && uuid != old, "{told:?}");
                let found = array.limits().size_sectors;
                stop(array);
                found
            };
            assert_eq!(check("new", new, &images.paths), old_sectors);
            // Overwritten twice in the same way.
            for _ in 0..2 {
                let again = make("again", level, &images.paths, |spec| {
                    (spec.overwrite, spec.assume_clean) = (Overwrite::Anything, assume_clean)
                });
                assert_eq!(check("again", again, &images.paths), old_sectors);
            }
            // Overwritten by other arrays.
            if count.is_multiple_of(4) {
                let uuid = make("other", other, &images.paths[..6], |spec| {
                    (spec.overwrite, spec.assume_clean) = (Overwrite::Anything, assume_clean)
                });
                check("other", uuid, &images.paths[..6]);
            }
            for single in ["5", "6", "10", "1", "0", "jbod"] {
                let uuid = make("single", single, &images.paths[..4], |spec| {
                    (spec.overwrite, spec.assume_clean) = (Overwrite::Anything, assume_clean)
                });
                check("single", uuid, &images.paths[..4]);
            }
        }
    }
}

#[test]
fn marks_are_on_spares_and_replacements_too() {
    let images = Images::new(8);
    let uuid = make("tank", "50", &images.paths[..6], |spec| {
        (spec.assume_clean, spec.spares) = (true, images.paths[6..].to_vec());
    });
    assert!(images.paths.iter().all(|path| is_marked(path)));
    // Any one mark of a span suffices, and a start that writes makes the others.
    unmark(&images.paths[1..3]);
    unmark(&images.paths[4..6]);
    unmark(&images.paths[6..]);
    let mut array = opened(&images.paths, OpenOptions::default());
    assert_eq!(array.uuid(), uuid);
    write(&mut array, 0, &[1; 4096]);
    stop(array);
    assert!(images.paths.iter().all(|path| is_marked(path)));
}

/// The two spans of an array over six drives: their identities, and the drives of each that are here.
fn spans_on(paths: &[PathBuf], here: &[usize]) -> Vec<([u8; 16], Vec<PathBuf>)> {
    let drives = |span: &[usize]| here.iter().filter(|index| span.contains(index)).map(|&index| paths[index].clone()).collect();
    let uuid = |index: usize| {
        let examined = examine(&[paths[index].clone()]).remove(0).expect("readable");
        examined.candidate.found.expect("a member").superblock.header.set_uuid
    };
    vec![(uuid(0), drives(&[0, 1, 2])), (uuid(3), drives(&[3, 4, 5]))]
}

/// Before that, a rename started its spans with force: it took the stale member for a good one, and shut out the good one that
/// was absent.
#[test]
fn a_rename_writes_to_no_stale_member_and_shuts_none_out_that_is_absent() {
    let images = Images::new(6);
    let uuid = images.make("tank", "50");
    let contents = || images.paths.iter().map(|path| fs::read(path).expect("an image")).collect::<Vec<_>>();
    let before = contents();
    let refused = |here: &[usize]| {
        let before = contents();
        let error = rename_spans(&spans_on(&images.paths, here), &uuid, "lake").expect_err("a refusal").to_string();
        assert!(contents() == before, "{error}, and something was written");
        error
    };
    let error = refused(&[0, 2, 3, 4, 5]);
    assert!(error.contains("tank-span0") && error.contains("took part when it last ran is not here"), "{error}");

    // The first member is away while clients write, and comes back as it was: clean. The second is away then.
    let mut array = opened(&images.paths[1..], OpenOptions::default());
    write(&mut array, 0, &[0x5a; 1 << 20]);
    stop(array);
    let error = refused(&[0, 2, 3, 4, 5]);
    assert!(error.contains("tank-span0") && error.contains("cannot start"), "{error}");
    let error = refused(&[1, 2, 3, 5]);
    assert!(error.contains("tank-span1"), "the first span is not written before the second is refused: {error}");

    // A span that knows its member as lost is renamed, with the old one beside it or without.
    assert!(fs::read(&images.paths[0]).expect("an image") == before[0], "it is as it was");
    for (name, here) in [("lake", &[1, 2, 3, 4, 5][..]), ("pond", &[0, 1, 2, 3, 4, 5])] {
        assert_eq!(rename_spans(&spans_on(&images.paths, here), &uuid, name).expect("it is renamed"), here.len());
        let mut array = opened(&images.paths, OpenOptions::default());
        assert_eq!(array.name(), name);
        assert!(read(&mut array, 0, 2048) == [0x5a; 1 << 20], "the stale member stays out");
        stop(array);
    }
}

/// Before that, the superblock of any drive counted, also of one that the array had dropped under load.
#[test]
fn a_dropped_drive_that_was_not_stopped_cleanly_prevents_no_rename() {
    let images = Images::new(6);
    let uuid = images.make("tank", "50");
    let mut array = opened(&images.paths, OpenOptions::default());
    write(&mut array, 0, &[0x11; 1 << 20]);
    let dropped = fs::read(&images.paths[0]).expect("an image");
    stop(array);
    let mut array = opened(&images.paths[1..], OpenOptions::default());
    write(&mut array, 0, &[0x5a; 1 << 20]);
    stop(array);
    fs::write(&images.paths[0], dropped).expect("writable");
    let examined = examine(&images.paths[..1]).remove(0).expect("readable");
    assert!(!examined.candidate.found.expect("a member").superblock.clean(), "it was copied while clients wrote");
    assert_eq!(rename_spans(&spans_on(&images.paths, &[0, 1, 2, 3, 4, 5]), &uuid, "lake").expect("it is renamed"), 6);
    let mut array = opened(&images.paths, OpenOptions::default());
    assert_eq!(array.name(), "lake");
    assert!(read(&mut array, 0, 2048) == [0x5a; 1 << 20]);
    stop(array);
    // A span whose current members say so is refused still.
    let mut array = opened(&images.paths[1..], OpenOptions::default());
    write(&mut array, 0, &[0x66; 1 << 20]);
    drop(array);
    rename_spans(&spans_on(&images.paths, &[0, 1, 2, 3, 4, 5]), &uuid, "pond").expect_err("it was not stopped");
}

/// Before that, `destroy` and `wipe` erased whatever lay on the paths when the question was answered.
#[test]
fn only_what_was_confirmed_is_destroyed_or_wiped() {
    let images = Images::new(6);
    let (first, second) = images.paths.split_at(3);
    let tank = make("tank", "5", first, |spec| spec.assume_clean = true);
    let contents = || images.paths.iter().map(|path| fs::read(path).expect("an image")).collect::<Vec<_>>();
    let refused = |outcome: Result<(), HostError>, before: &[Vec<u8>], path: &Path| {
        let error = outcome.expect_err("a refusal").to_string();
        assert!(error.contains(&path.display().to_string()) && error.contains("nothing was done"), "{error}");
        assert!(contents() == before, "{error}, and something was written");
    };
    // A path comes to name a blank drive, or a member of another array, while the question waits.
    let seen = |paths: &[PathBuf]| examine(paths).into_iter().map(|one| one.expect("readable").mark()).collect::<Vec<_>>();
    let (before, member) = (contents(), seen(&first[2..]));
    for other in ["blank", "lake"] {
        if other == "lake" {
            make("lake", "5", second, |spec| spec.assume_clean = true);
        }
        let kept = fs::read(&first[2]).expect("an image");
        fs::copy(&second[0], &first[2]).expect("a copy");
        let now = contents();
        refused(destroy(first, &[tank]).map(drop), &now, &first[2]);
        refused(wipe_drives(&first[2..], &member), &now, &first[2]);
        fs::write(&first[2], kept).expect("writable");
    }
    assert!(contents()[..3] == before[..3]);
    // The same contents on another drive are no reason to wipe that.
    let kept = images.folder.join("kept");
    fs::rename(&first[2], &kept).expect("unplugged");
    fs::copy(&kept, &first[2]).expect("another drive");
    refused(wipe_drives(&first[2..], &member), &contents(), &first[2]);
    refused(wipe_drives(&second[..1], &member), &contents(), &second[0]);
    fs::rename(&kept, &first[2]).expect("plugged in");
    wipe_drives(&first[2..], &member).expect("it is as it was");
    destroy(&first[..2], &[tank]).expect("it is the array");
    assert!(find(first, OpenOptions::default()).expect("readable").assemblies.is_empty());
}

/// Before that, the first span or the first setting was changed when the next one was refused.
#[test]
fn a_change_that_is_refused_in_part_changes_nothing() {
    const NO_BITMAP: Change = Change::Bitmap(BitmapChoice::None);
    const NO_LOG: Change = Change::Log(LogChoice::None);
    let images = Images::new(6);
    images.make("tank", "50");
    let contents = || images.paths.iter().map(|path| fs::read(path).expect("an image")).collect::<Vec<_>>();
    let refused = |paths: &[PathBuf], changes: &[Change], why: &str| {
        let before = contents();
        let error = change(paths, changes, false).expect_err("a refusal").to_string();
        assert!(error.contains(why), "{error}");
        assert!(contents() == before, "{error}, and something was written");
    };
    let before = contents();
    refused(&images.paths, &[NO_BITMAP, Change::Checksums(true)], "no space for them");
    // All at once write the same as one after the other.
    let changes =
        [NO_LOG, NO_BITMAP, Change::Bitmap(BitmapChoice::Internal { chunk_bytes: Some(131_072) }), Change::Log(LogChoice::Auto)];
    assert!(change(&images.paths, &changes, false).expect("possible"));
    let at_once = contents();
    images.paths.iter().zip(&before).for_each(|(path, image)| fs::write(path, image).expect("writable"));
    changes.iter().for_each(|one| assert!(change(&images.paths, &[*one], false).expect("possible"), "{one:?}"));
    assert!(contents() == at_once && at_once != before);
    stop(opened(&images.paths, OpenOptions::default()));
    // The second span lacks a member, and needs its bitmap.
    let mut array = opened(&images.paths[..5], OpenOptions::default());
    write(&mut array, 0, &[0x5a; 1 << 20]);
    stop(array);
    refused(&images.paths[..5], &[NO_BITMAP], "tank-span1");
    refused(&images.paths[..5], &[NO_LOG, NO_BITMAP], "tank-span1");
}

/// Before, the answer to a question about the first drive that carries something overwrote whatever lay on all of them by then.
#[test]
fn only_what_was_confirmed_is_overwritten_by_a_new_array() {
    let images = Images::new(4);
    make("old", "1", &images.paths[..2], |spec| spec.assume_clean = true);
    let contents = || images.paths.iter().map(|path| fs::read(path).expect("an image")).collect::<Vec<_>>();
    let seen: Vec<String> = examine(&images.paths).into_iter().map(|one| one.expect("readable").mark()).collect();
    let spec = |overwrite| CreateSpec {
        strip_sectors: Some(16),
        log: LogChoice::None,
        assume_clean: true,
        overwrite,
        ..CreateSpec::new("tank", "5".parse().expect("a level"), &images.paths)
    };
    // While the question waits, a drive that was blank gets a member, and one that had a member another.
    for (index, source) in [(3, 0), (0, 1)] {
        let kept = fs::read(&images.paths[index]).expect("an image");
        let other = fs::read(&images.paths[source]).expect("an image");
        fs::write(&images.paths[index], other).expect("writable");
        let before = contents();
        let error = create(&spec(Overwrite::Confirmed(seen.clone()))).expect_err("a refusal").to_string();
        assert!(error.contains(&images.paths[index].display().to_string()) && error.contains("nothing was done"), "{error}");
        assert!(contents() == before, "{error}, and something was written");
        fs::write(&images.paths[index], kept).expect("writable");
    }
    let error = create(&spec(Overwrite::Nothing)).expect_err("a refusal").to_string();
    assert!(images.paths[..2].iter().all(|path| error.contains(&path.display().to_string())), "{error}");
    create(&spec(Overwrite::Confirmed(seen))).expect("it is as it was");
}
