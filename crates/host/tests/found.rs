//! Goal: an array that cannot start, or a foreign one, keeps no other array from being found and served, and a start that is
//! refused writes nothing.
//! Method: several arrays on image files. One gets checksums of a program that does not exist yet, another one the name of the
//! first or of its span. What is found, chosen and refused must concern that array alone.

mod support;

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use stria_drive::Ring;
use stria_format::md::{Superblock, uuid_text};
use stria_host::*;
use stria_integrity::Region;
use support::spec;

struct Images(tempfile::TempDir);

impl Images {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"))
    }

    /// An array on new images, and its drives.
    fn make(&self, name: &str, level: &str, count: usize, checksums: bool) -> ([u8; 16], Vec<PathBuf>) {
        let first = fs::read_dir(self.0.path()).expect("a folder").count();
        let path = |index: usize| self.0.path().join(format!("d{}", first + index));
        let paths: Vec<PathBuf> = (0..count).map(path).collect();
        paths.iter().for_each(|path| File::create(path).and_then(|file| file.set_len(8 << 20)).expect("an image"));
        let spec = CreateSpec { checksums, assume_clean: true, ..spec(name, level, &paths) };
        (create(&spec).unwrap_or_else(|error| panic!("RAID {level} \"{name}\": {error}")), paths)
    }
}

fn superblock(image: &[u8]) -> Superblock {
    Superblock::parse(&image[4096..8192], 8, (image.len() / 512) as u64).expect("a member")
}

fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0u32, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), bit))
}

/// Changes both heads of a member's checksums, and makes them valid again.
fn change_heads(path: &Path, change: impl Fn(&mut [u8])) {
    let mut image = fs::read(path).expect("an image");
    let header = superblock(&image).header;
    let region = Region::behind(header.data_offset..header.data_offset + header.data_size);
    for sequence in 0..2 {
        let at = region.header_sector(sequence) as usize * 512;
        let head = &mut image[at..at + 4096];
        if head.iter().any(|&byte| byte != 0) {
            change(head);
            let sum = crc32c(&head[..4092]);
            head[4092..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    fs::write(path, image).expect("written");
}

fn all(arrays: &[&[PathBuf]]) -> Vec<PathBuf> {
    arrays.concat()
}

/// What `choose` chooses, with its warnings.
fn chosen(drives: &[PathBuf], names: &[&str]) -> Result<(Vec<[u8; 16]>, Vec<String>), String> {
    let told = RefCell::new(Vec::new());
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let arrays = choose(drives, &names, OpenOptions::default(), &|words| told.borrow_mut().push(words));
    let arrays = arrays.map_err(|error| error.to_string())?;
    Ok((arrays.iter().map(|array| array.uuid).collect(), told.into_inner()))
}

/// One array with checksums of a later version made every array of the machine unfindable.
#[test]
fn checksums_of_a_later_version_concern_one_array() {
    for (level, count) in [("1", 2), ("50", 6)] {
        let images = Images::new();
        let (later, theirs) = images.make("later", level, count, true);
        let (good, ours) = images.make("good", "5", 3, true);
        for path in &theirs {
            change_heads(path, |head| head[8] = 9);
        }
        let drives = all(&[&theirs, &ours]);
        let found = find(&drives, OpenOptions::default()).expect("the other array is found");
        assert_eq!(found.arrays.iter().map(|array| array.uuid).collect::<Vec<_>>(), [good], "RAID {level}");
        let why: Vec<String> = found.assemblies.iter().filter_map(|one| Some(one.outcome.as_ref().err()?.to_string())).collect();
        assert!(
            !why.is_empty() && why.iter().all(|why| why.contains("version 9") && why.contains("use a newer Stria")),
            "{why:?}"
        );
        assert_eq!(chosen(&drives, &["good"]), Ok((vec![good], Vec::new())));
        let refused = chosen(&drives, &[&*uuid_text(&later)]).expect_err("it is a newer program's");
        assert!(level != "1" || refused.contains("version 9"), "{refused}");
        let ring = Ring::new().expect("a ring");
        let refused = open(&theirs, &ring, OpenOptions::default()).err().expect("refused").to_string();
        assert!(refused.contains("version 9"), "{refused}");
    }
}

/// `serve --forget-checksums` of two arrays at once was refused, after it had voided the checksums of both.
#[test]
fn a_start_that_is_refused_forgets_no_checksums() {
    let images = Images::new();
    let ((_, first), (_, second)) = (images.make("a", "5", 3, true), images.make("b", "1", 2, true));
    let drives = all(&[&first, &second]);
    let contents = || drives.iter().map(|path| fs::read(path).expect("an image")).collect::<Vec<_>>();
    let before = contents();
    let ring = Ring::new().expect("a ring");
    let forget = OpenOptions { forget_checksums: true, ..OpenOptions::default() };
    let refused = open(&drives, &ring, forget).err().expect("two arrays").to_string();
    assert!(refused.contains("2 arrays"), "{refused}");
    assert!(contents() == before, "nothing was written");
    // One alone is opened, and its heads are written before it starts.
    let (mut array, told) = open(&first, &ring, forget).expect("one array");
    assert!(told.iter().any(|words| words.to_string().contains("checksums are forgotten as asked")), "{told:?}");
    assert!(contents()[0] != before[0]);
    array.sync_io(|io| io.stop()).expect("it stops");
}

/// A foreign array of the same name, or with the name of a span, kept an array from being served by its name.
#[test]
fn a_foreign_array_of_the_same_name_is_a_warning_if_it_cannot_start() {
    let images = Images::new();
    let (ours, drives) = images.make("tank", "50", 6, false);
    let (_, span_twin) = images.make("tank-span0", "5", 3, false);
    let (foreign, twin) = images.make("tank", "5", 3, false);
    let (_, striped) = images.make("tank", "60", 8, false);
    // An array with the name of a span is another array: it is not even mentioned.
    assert_eq!(chosen(&all(&[&drives, &span_twin[..1]]), &["tank"]), Ok((vec![ours], Vec::new())));
    let (arrays, told) = chosen(&all(&[&drives, &twin[..1], &striped[..1], &striped[4..]]), &["tank"]).expect("one can start");
    assert_eq!(arrays, [ours]);
    let named = |word: &str| told.iter().filter(|words| words.starts_with("not served: ") && words.contains(word)).count();
    assert_eq!((told.len(), named(&uuid_text(&foreign)), named("not served: ")), (3, 1, 3), "{told:?}");
    // Two that can start are told apart by the UUID.
    let both = all(&[&drives, &twin]);
    let refused = chosen(&both, &["tank"]).expect_err("two are called so");
    let list = [uuid_text(&ours), uuid_text(&foreign)];
    assert!(list.iter().all(|uuid| refused.contains(uuid)) && refused.contains("name one of them by its UUID"), "{refused}");
    assert_eq!(chosen(&both, &[&*uuid_text(&foreign)]), Ok((vec![foreign], Vec::new())));
    let dashes = uuid::Uuid::from_bytes(ours).to_string();
    assert_eq!(chosen(&both, &[&*dashes]), Ok((vec![ours], Vec::new())));
    // A span's failure concerns its array as before.
    let refused = chosen(&drives[1..5], &["tank-span1"]).expect_err("a span is not served by itself");
    assert!(refused.contains("tank-span1"), "{refused}");
}

/// A disk and its partition are one drive: `create` of both said that one was in use by another process, and none was there. But
/// a search of a whole machine comes upon both, and was refused then.
#[test]
fn a_disk_and_its_partition_may_both_be_looked_at_and_not_both_be_used() {
    let run = |program: &str, arguments: &[&str]| {
        let output =
            std::process::Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let image = tempfile::NamedTempFile::new().expect("a file");
    image.as_file().set_len(16 << 20).expect("a file");
    let Some(disk) = run("losetup", &["--find", "--show", image.path().to_str().expect("a plain path")]) else {
        println!("skipped: no loop device can be set up; run as root");
        return;
    };
    if run("addpart", &[&disk, "1", "2048", "16384"]).is_some() {
        let part = format!("{disk}p1");
        let paths: [PathBuf; 2] = [disk.clone().into(), part.clone().into()];
        for twins in [[0, 1], [1, 0]].map(|order| order.map(|index| paths[index].clone())) {
            let refused = create(&spec("tank", "1", &twins)).expect_err("one drive").to_string();
            assert_eq!(refused, format!("{part} is a partition of {disk}: name one of them"));
        }
        let (found, unread) = stria_host::find_readable(&paths, OpenOptions::default()).expect("both may be looked at");
        assert!(found.arrays.is_empty() && found.strangers.len() == 2 && unread.is_empty(), "{unread:?}");
        stria_host::find(&paths, OpenOptions::default()).expect("so may those that a pattern names");
        stria_host::find_everywhere(OpenOptions::default()).expect("so may all of the machine");
        create(&spec("tank", "jbod", &paths[1..])).expect("one alone");
        run("delpart", &[&disk, "1"]);
    } else {
        println!("skipped: no partition can be made");
    }
    run("losetup", &["--detach", &disk]);
}
