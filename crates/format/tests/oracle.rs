//! Goal: the real mdadm and Linux md agree with this crate about every array, in both directions.
//! Method: the kernel makes arrays of every level, layout and state, and the content of their drives is read here and compared
//! with `mdadm --examine` and `--detail`; we make such arrays, and mdadm examines them and the kernel starts them. A sample
//! always runs, all of it with `--ignored`.

mod support;

use harness::{End, Guest};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use stria_array::address::MemberSpace;
use stria_array::{DriveSector, Geometry, Layout, Level, MemberId, MemberProgress, Recorder, Synced};
use stria_block::IoError;
use stria_format::md::recorder::Adopt;
use stria_format::md::superblock::Header;
use stria_format::md::{BitmapChoice, Candidate, Options, Verdict, assemble, examine};
use stria_testkit::oracle as harness;
use support::*;

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 64 * MIB;

/// Shell functions of all scripts: `case_begin NAME DISK…`, then the story, then `case_end`.
const SHELL: &str = r#"
slow() { echo 500 > /sys/block/md0/md/sync_speed_max; }
fast() { echo 900000 > /sys/block/md0/md/sync_speed_max; }
settle() { mdadm --wait /dev/md0 >/dev/null 2>&1 || true; sleep 0.3; }
pattern() { seq 1 10000000 | head -c ${1:-1M} | dd of=/dev/md0 bs=1M iflag=fullblock conv=fsync status=none; }
case_begin() { name=$1; shift; disks="$*"; mkdir -p $SHARE/$name; }
dump() { # what lies on the disks now
  k=0
  for d in $disks; do
    sectors=$(blockdev --getsz $d 2>/dev/null || cat /sys/block/$(basename $d)/size)
    echo $sectors > $SHARE/$name/$k.size
    mdadm --examine $d > $SHARE/$name/$k.examine 2>&1 || true
    dd if=$d of=$SHARE/$name/$k.head bs=1M count=3 status=none
    dd if=$d of=$SHARE/$name/$k.tail bs=512 skip=$((sectors / 8 * 8 - 2048)) status=none
    k=$((k+1))
  done
}
case_end() { mdadm --detail /dev/md0 > $SHARE/$name/detail; mdadm --stop /dev/md0 2>/dev/null; dump; }
"#;

/// A story of one array under the kernel.
struct Story {
    name: String,
    /// The disks that it is given.
    disk_count: usize,
    script: String,
    /// True if the array is served: some layouts are not, and some states only with force.
    served: bool,
}

fn story(name: impl Into<String>, disk_count: usize, script: impl Into<String>) -> Story {
    Story { name: name.into(), disk_count, script: script.into(), served: true }
}

fn disks(count: usize) -> String {
    (0..count).map(|index| format!("$D{index} ")).collect()
}

/// `mdadm --create` of these disks, without the first resync unless `sync`.
fn create(arguments: &str, count: usize, spares: usize, bitmap: bool, sync: bool) -> String {
    format!(
        "mdadm --create /dev/md0 --quiet --run --metadata=1.2 {arguments} {} {} --raid-devices={count} {} {} 2>/dev/null\nsettle\n",
        if bitmap { "--bitmap=internal --bitmap-chunk=64K" } else { "" },
        if sync { "" } else { "--assume-clean" },
        if spares > 0 { format!("--spare-devices={spares}") } else { String::new() },
        disks(count + spares)
    )
}

/// Levels, layouts, strips and counts, stopped cleanly.
fn shapes() -> Vec<Story> {
    let mut stories = Vec::new();
    let mut add = |arguments: String, count: usize, bitmap: bool| {
        let name = format!("{}-{count}", arguments.replace("--", "").replace([' ', '='], "_"));
        stories.push(story(name, count, create(&arguments, count, 0, bitmap, false) + "pattern 64K\n"));
    };
    for count in [1, 2, 3] {
        add(format!("--level=linear {}", if count == 1 { "--force" } else { "" }), count, false);
        add(format!("--level=0 --chunk=64 {}", if count == 1 { "--force" } else { "" }), count, false);
    }
    add("--level=0 --chunk=4 --layout=original".into(), 2, false);
    add("--level=0 --chunk=1024 --layout=alternate".into(), 5, false);
    for count in [1, 2, 3, 5] {
        add(format!("--level=1 {}", if count == 1 { "--force" } else { "" }), count, count != 3);
    }
    add("--level=4 --chunk=32".into(), 4, true);
    for layout in ["left-symmetric", "right-symmetric", "left-asymmetric", "right-asymmetric", "parity-first", "parity-last"] {
        add(format!("--level=5 --chunk=64 --layout={layout}"), 4, true);
        add(format!("--level=6 --chunk=4 --layout={layout}"), 5, true);
    }
    add("--level=5 --chunk=512".into(), 3, false);
    add("--level=5 --chunk=16".into(), 2, true);
    add("--level=6 --chunk=1024".into(), 7, true);
    for layout in [
        "ddf-zero-restart",
        "ddf-N-restart",
        "ddf-N-continue",
        "left-symmetric-6",
        "right-symmetric-6",
        "left-asymmetric-6",
        "right-asymmetric-6",
        "parity-first-6",
    ] {
        add(format!("--level=6 --chunk=64 --layout={layout}"), 6, true);
    }
    for (layout, counts) in
        [("n2", [2, 3, 4]), ("n3", [3, 4, 5]), ("f2", [2, 3, 4]), ("f3", [3, 4, 5]), ("o2", [2, 3, 4]), ("o3", [3, 4, 5])]
    {
        for count in counts {
            add(format!("--level=10 --chunk=64 --layout={layout}"), count, true);
        }
    }
    stories
}

/// States of arrays.
fn lives() -> Vec<Story> {
    let r5 = create("--level=5 --chunk=64", 4, 0, true, false);
    let r1 = create("--level=1", 3, 0, true, false);
    let remove =
        |disk: usize| format!("mdadm --quiet /dev/md0 --fail $D{disk}; sleep 0.3; mdadm --quiet /dev/md0 --remove $D{disk}\n");
    let mut stories = vec![
        story("spares", 6, create("--level=6 --chunk=64", 4, 2, true, false)),
        story("synced", 4, create("--level=5 --chunk=64", 4, 0, true, true) + "pattern\n"),
        story("mid-resync", 3, create("--level=1", 3, 0, true, true).replace("settle\n", "") + "slow; sleep 1\n"),
        story("failed", 4, format!("{r5}pattern 64K\nmdadm --quiet /dev/md0 --fail $D2\nsleep 0.5\npattern 64K\n")),
        story("degraded", 4, format!("{r5}pattern 64K\n{}sleep 0.3\npattern\n", remove(1))),
        story("re-added", 4, format!("{r5}{}pattern\nmdadm --quiet /dev/md0 --re-add $D1\nsettle\n", remove(1))),
        story("mid-re-add", 3, format!("{r1}{}pattern 20M\nslow\nmdadm --quiet /dev/md0 --re-add $D1\nsleep 1\n", remove(1))),
        story("rebuilt", 5, format!("{r5}{}mdadm --quiet /dev/md0 --add $D4\nsettle\n", remove(0))),
        story("mid-rebuild", 5, format!("{r5}{}slow\nmdadm --quiet /dev/md0 --add $D4\nsleep 1.5\n", remove(0))),
        story("mid-rebuild-6", 5, {
            let r6 = create("--level=6 --chunk=64", 4, 1, false, false);
            format!("{r6}slow\nmdadm --quiet /dev/md0 --fail $D2\nsleep 1.5\n")
        }),
        story(
            "replaced",
            5,
            format!("{r5}mdadm --quiet /dev/md0 --add $D4\nsleep 0.3\nmdadm --quiet /dev/md0 --replace $D1\nsleep 1\nsettle\n"),
        ),
        story(
            "mid-replace",
            5,
            format!("{r5}mdadm --quiet /dev/md0 --add $D4\nslow\nmdadm --quiet /dev/md0 --replace $D1 --with $D4\nsleep 1.5\n"),
        ),
        story("mid-replace-10", 5, {
            let r10 = create("--level=10 --layout=n2 --chunk=64", 4, 1, true, false);
            format!("{r10}slow\nmdadm --quiet /dev/md0 --replace $D2 --with $D4\nsleep 1.5\n")
        }),
        story(
            "write-mostly",
            2,
            "mdadm --create /dev/md0 --quiet --run --level=1 -n2 --assume-clean $D0 --write-mostly $D1 2>/dev/null\nsettle\n",
        ),
        story(
            "metadata-1.0",
            3,
            r5.replace("metadata=1.2", "metadata=1.0").replace("devices=4", "devices=3").replace(" $D3", "") + "pattern\n",
        ),
        story(
            "metadata-1.1",
            3,
            r5.replace("metadata=1.2", "metadata=1.1").replace("devices=4", "devices=3").replace(" $D3", "") + "pattern\n",
        ),
        story(
            "small-bitmap",
            2,
            create("--level=1", 2, 0, false, false) + "mdadm --grow /dev/md0 --bitmap=internal --bitmap-chunk=32M\npattern 64K\n",
        ),
    ];
    // Unequal members: the last disk is cut to 40 MiB.
    for arguments in ["--level=linear", "--level=0 --chunk=64 --layout=original", "--level=0 --chunk=16 --layout=alternate"] {
        let name = format!("unequal-{}", arguments.rsplit(['=', ' ']).next().expect("a word"));
        let body = format!(
            "losetup -d /dev/loop0 2>/dev/null || true; losetup --sizelimit 40M /dev/loop0 $D1; disks=\"$D0 /dev/loop0 $D2\"\n\
             mdadm --create /dev/md0 --quiet --run --metadata=1.2 {arguments} -n3 $disks 2>/dev/null\npattern\n"
        );
        stories.push(story(name, 3, body));
    }
    stories.push(story("ppl", 3, create("--level=5 --chunk=64 --consistency-policy=ppl", 3, 0, false, false) + "pattern 64K\n"));
    stories.push(Story {
        served: false,
        ..story("journal", 4, "mdadm --create /dev/md0 --quiet --run --level=5 -n3 --assume-clean $D0 $D1 $D2 --write-journal $D3 2>/dev/null\nsettle\n")
    });
    stories
}

/// The content of one disk after the guest's run.
fn dumped(folder: &Path, disk: usize) -> Candidate {
    let read = |kind: &str| fs::read(folder.join(format!("{disk}.{kind}"))).expect("the guest dumped it");
    let size: u64 = String::from_utf8(read("size")).expect("text").trim().parse().expect("a number");
    let (head, tail) = (read("head"), read("tail"));
    let tail_start = size / 8 * 8 - 2048;
    let mut from_ends = |start: u64, count: u64| -> Result<Vec<u8>, IoError> {
        // The space between, where a log of Stria's could lie, is as blank as the guest found it.
        if start < tail_start && (start + count) * 512 > head.len() as u64 {
            return Ok(vec![0; (count * 512) as usize]);
        }
        let (bytes, at) = if start >= tail_start { (&tail, start - tail_start) } else { (&head, start) };
        Ok(bytes[(at * 512) as usize..((at + count) * 512) as usize].to_vec())
    };
    let candidate = Candidate::read(format!("disk{disk}"), size, 512, &mut from_ends);
    if let Ok(member) = &candidate.found {
        same_bytes(member, &mut from_ends);
    }
    candidate
}

/// Encoding what was parsed gives the bytes that were read.
fn same_bytes(member: &stria_format::md::Member, read: &mut stria_format::md::Read) {
    let header = &member.superblock.header;
    let length = Header::SIZE_BYTES + 2 * member.superblock.roles.len();
    let bytes = read(header.super_offset, 8).expect("read before");
    assert_eq!(member.superblock.encode()[..length], bytes[..length], "superblock");
    if let Some(bitmap) = &member.bitmap {
        let bitmap = bitmap.as_ref().expect("the kernel's bitmap is sound");
        let start = header.super_offset.saturating_add_signed(i64::from(header.bitmap_offset));
        let bytes = read(start, bitmap.size_sectors()).expect("read before");
        assert_eq!(bitmap.encode()[..bytes.len()], bytes, "bitmap");
    }
}

/// `name : value` lines of mdadm, without its sizes in parentheses.
fn table(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| line.split_once(" : ").map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    let plain = |value: String| match value.find(" (") {
        Some(at) => value[..at].trim().to_owned(),
        None => value,
    };
    text.lines().filter_map(pair).map(|(name, value)| (name, plain(value))).collect()
}

/// Compares our reading of a drive with mdadm's.
fn same_examination(what: &str, candidate: &Candidate, text: &str) {
    let theirs = table(text);
    let ours = examine::lines(candidate);
    assert!(!ours.is_empty(), "{what}: {:?}, mdadm says\n{text}", candidate.found.as_ref().err());
    for (name, value) in ours.iter().filter(|(name, _)| !name.ends_with("Time")) {
        assert_eq!(Some(value), theirs.get(*name), "{what}: {name}, mdadm says\n{text}");
    }
    let known: Vec<&str> = ours.iter().map(|(name, _)| *name).collect();
    for name in theirs.keys() {
        // Sizes of 0, which mdadm prints for levels that use all of a member, mean nothing.
        assert!(known.contains(&name.as_str()) || theirs[name] == "0 sectors", "{what}: mdadm also tells {name}\n{text}");
    }
}

/// Compares our verdicts with the table at the end of `mdadm --detail`.
fn same_roles(what: &str, detail: &str, verdicts: &BTreeMap<usize, Verdict>) {
    for line in detail.lines().skip_while(|line| !line.contains("RaidDevice")).skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(disk) = words.last().and_then(|path| path.strip_prefix("/dev/ubd")) else { continue };
        let disk = usize::from(disk.as_bytes()[0] - b'a');
        let verdict = &verdicts[&disk];
        let slot: Option<usize> = words[3].parse().ok();
        let state = words[4..words.len() - 1].join(" ");
        let matches = match verdict {
            Verdict::InSync { slot: ours } => state.starts_with("active sync") && slot == Some(*ours),
            Verdict::Rebuilding { slot: ours, .. } => state.starts_with("spare rebuilding") && slot == Some(*ours),
            Verdict::Replacement { slot: ours, recovered } => {
                let ready = *recovered == Synced::All;
                slot == Some(*ours) && (state.starts_with("spare rebuilding") || ready && state.starts_with("active sync"))
            }
            Verdict::Spare => state == "spare",
            Verdict::Faulty | Verdict::Away { .. } => state == "faulty",
            Verdict::Unusable { .. } => false,
        };
        assert!(matches, "{what}: disk {disk} is {verdict:?}, mdadm says\n{detail}");
    }
}

fn level_of(detail: &BTreeMap<String, String>) -> Level {
    detail["Raid Level"].parse().expect("a level")
}

/// Checks the files that the guest left of a story.
fn check_story(guest: &Guest, story: &Story) {
    let what = &story.name;
    let folder = guest.share().join(&story.name);
    let candidates: Vec<_> = (0..story.disk_count).map(|disk| dumped(&folder, disk)).collect();
    for (disk, candidate) in candidates.iter().enumerate() {
        let text = fs::read_to_string(folder.join(format!("{disk}.examine"))).expect("examined");
        same_examination(&format!("{what}, disk {disk}"), candidate, &text);
    }
    let (assemblies, _) = assemble(&candidates, &Options::default());
    assert_eq!(assemblies.len(), 1, "{what}");
    let assembly = &assemblies[0];
    if !story.served {
        let sentence = assembly.outcome.as_ref().err().unwrap_or_else(|| panic!("{what} must be refused")).to_string();
        assert!(sentence.contains("journal"), "{what}: {sentence}");
        return;
    }
    let detail_text = fs::read_to_string(folder.join("detail")).expect("detailed");
    let detail = table(&detail_text);
    let start = assembly.outcome.as_ref().unwrap_or_else(|error| panic!("{what}: {error}"));
    let verdicts = assembly.drives.iter().map(|drive| (drive.drive, drive.verdict.clone())).collect();
    same_roles(what, &detail_text, &verdicts);
    let geometry = &start.config.geometry;
    let array_kib: u64 = detail["Array Size"].parse().expect("KiB");
    assert_eq!(geometry.capacity_sectors() / 2, array_kib, "{what}: {geometry:?}");
    assert_eq!(geometry.level(), level_of(&detail), "{what}");
    assert_eq!(start.config.intent.is_some(), detail.contains_key("Intent Bitmap"), "{what}");
}

fn tell_and_check(test: &str, stories: &[Story]) {
    if !harness::wanted() {
        return;
    }
    let disk_count = stories.iter().map(|story| story.disk_count).max().expect("a story");
    let guest = Guest::new(test, &vec![DISK_BYTES; disk_count]);
    let mut script = SHELL.to_owned();
    for story in stories {
        let Story { name, script: body, disk_count, .. } = story;
        writeln!(script, "case_begin {name} {}\n{body}\ncase_end", disks(*disk_count)).expect("memory");
    }
    guest.run(End::Stop, &script);
    for story in stories {
        check_story(&guest, story);
    }
}

#[test]
fn kernel_arrays_are_read_as_mdadm_reads_them_sample() {
    let mut stories: Vec<_> = shapes().into_iter().step_by(9).collect();
    stories.extend(lives().into_iter().filter(|story| ["mid-rebuild", "mid-replace", "degraded"].contains(&story.name.as_str())));
    tell_and_check("sample", &stories);
}

#[test]
#[ignore = "a minute and a half: the whole matrix"]
fn kernel_arrays_of_every_shape_are_read_as_mdadm_reads_them() {
    tell_and_check("shapes", &shapes());
}

#[test]
#[ignore = "a minute: the whole matrix"]
fn kernel_arrays_in_every_state_are_read_as_mdadm_reads_them() {
    tell_and_check("lives", &lives());
}

/// Puts the heads of drives into the shared folder. Returns the shell lines that write them to disks.
fn place(guest: &Guest, name: &str, drives: &[MemoryDrive]) -> String {
    let folder = guest.share().join(name);
    fs::create_dir_all(&folder).expect("share");
    let mut script = format!("case_begin {name} {}\n", disks(drives.len()));
    for (index, drive) in drives.iter().enumerate() {
        fs::write(folder.join(format!("{index}.ours")), drive.read(0, 3 * MIB / 512).expect("memory")).expect("share");
        writeln!(script, "dd if=$SHARE/{name}/{index}.ours of=$D{index} bs=1M conv=fsync status=none").expect("memory");
        writeln!(script, "mdadm --examine $D{index} > $SHARE/{name}/{index}.ours.examine 2>&1").expect("memory");
    }
    script
}

fn check_placed(guest: &Guest, name: &str, drives: &[MemoryDrive]) {
    for (index, drive) in drives.iter().enumerate() {
        let text = fs::read_to_string(guest.share().join(name).join(format!("{index}.ours.examine"))).expect("examined");
        same_examination(&format!("{name}, drive {index}, made by us"), &drive.candidate(), &text);
    }
}

fn our_shapes() -> Vec<(String, stria_format::md::Create)> {
    let mut all = Vec::new();
    let mut add = |level: Level, layout: &str, strip_kib: u64, count: usize, spares: usize, assume_clean: bool| {
        let layout_value = if layout.is_empty() { level.default_layout() } else { level.parse_layout(layout).expect("known") };
        let mut create = request(level, layout_value, count, spares, DISK_BYTES / 512);
        create.strip_sectors = strip_kib * 2;
        create.assume_clean = assume_clean;
        // A fifth is left unused, or nearly all where the kernel has to read everything.
        create.member_sectors_max = level.is_redundant().then_some(if assume_clean { 102_400 } else { 20_480 });
        create.homehost = Some("oracle".into());
        all.push((format!("ours-{level}-{layout}-{strip_kib}k-{count}-{spares}-{assume_clean}"), create));
    };
    for count in [1, 2, 5] {
        add(Level::Linear, "", 0, count, 0, true);
        add(Level::Raid0, "alternate", 64, count, 0, true);
        add(Level::Raid1, "", 0, count, usize::from(count == 2), count == 5);
    }
    add(Level::Raid0, "original", 4, 3, 0, true);
    add(Level::Raid4, "", 1024, 3, 1, false);
    for layout in ["ls", "rs", "la", "ra", "parity-first", "parity-last"] {
        add(Level::Raid5, layout, 16, 4, 0, false);
        add(Level::Raid6, layout, 64, 5, 1, false);
    }
    for layout in ["left-symmetric-6", "right-symmetric-6", "left-asymmetric-6", "right-asymmetric-6", "parity-first-6"] {
        add(Level::Raid6, layout, 4, 6, 0, false);
    }
    for layout in ["ddf-zero-restart", "ddf-n-restart", "ddf-n-continue"] {
        add(Level::Raid6, layout, 128, 4, 0, false);
    }
    for (layout, count) in [("n2", 3), ("n3", 4), ("f2", 3), ("f3", 5), ("o2", 3), ("o3", 4), ("n2", 4)] {
        add(Level::Raid10, layout, 64, count, 1, false);
    }
    all
}

/// The kernel starts arrays that Stria made, resyncs them, finds no mismatch, and leaves drives that Stria can read again.
fn make_and_check(test: &str, creates: &[(String, stria_format::md::Create)]) {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new(test, &[DISK_BYTES; 7]);
    let mut script = SHELL.to_owned();
    let made: Vec<_> = creates.iter().map(|(name, create)| (name, carry_out(create))).collect();
    for (name, (drives, creation)) in &made {
        script += &place(&guest, name, drives);
        writeln!(script, "mdadm --assemble --quiet /dev/md0 $disks\nsettle").expect("memory");
        if creation.geometry.level().is_redundant() {
            script += "echo check > /sys/block/md0/md/sync_action; settle\n";
            writeln!(script, "cat /sys/block/md0/md/mismatch_cnt > $SHARE/{name}/mismatch").expect("memory");
        }
        script += "case_end\n";
    }
    guest.run(End::Stop, &script);
    for (name, (drives, creation)) in &made {
        check_placed(&guest, name, drives);
        let folder = guest.share().join(name);
        if creation.geometry.level().is_redundant() {
            assert_eq!(fs::read_to_string(folder.join("mismatch")).expect("checked").trim(), "0", "{name}");
        }
        let kernel = story(name.as_str(), drives.len(), "");
        check_story(&guest, &kernel);
        let after: Vec<_> = (0..drives.len()).map(|disk| dumped(&folder, disk)).collect();
        let start = assemble(&after, &Options::default()).0.remove(0).outcome.expect("checked above");
        assert_eq!(start.config.geometry, creation.geometry, "{name}");
        assert_eq!(start.config.synced, Synced::All, "{name}: the kernel has resynced it");
    }
}

#[test]
fn kernel_starts_what_we_create_sample() {
    make_and_check("created-sample", &our_shapes().into_iter().step_by(7).collect::<Vec<_>>());
}

#[test]
#[ignore = "two minutes: the whole matrix"]
fn kernel_starts_what_we_create() {
    make_and_check("created", &our_shapes());
}

const GIB: u64 = 1 << 30;

#[test]
fn create_chooses_the_places_that_mdadm_chooses_sample() {
    same_places("places-sample", &[65 * MIB, 9 * GIB, 420 * GIB]);
}

#[test]
#[ignore = "minutes: drives from 8 MiB to 7.5 TB"]
fn create_chooses_the_places_that_mdadm_chooses() {
    let sizes = [
        16 * MIB,
        65 * MIB,
        GIB - 512,
        7 * GIB + 1024,
        9 * GIB,
        100 * GIB,
        199 * GIB,
        210 * GIB,
        2048 * GIB + 3584,
        15_000 * GIB,
    ];
    same_places("places", &sizes);
}

/// Sizes and positions are mdadm's, as Linux leaves them with its first superblock update. Only then it gives up the space that
/// no whole row of a RAID 10 fills; the array is the same.
fn same_places(test: &str, sizes: &[u64]) {
    if !harness::wanted() {
        return;
    }
    let shapes = [
        (Level::Raid1, "", 0),
        (Level::Raid5, "ls", 4),
        (Level::Raid5, "ls", 512),
        (Level::Raid10, "f2", 64),
        (Level::Raid0, "alternate", 1024),
        (Level::Linear, "", 0),
    ];
    let guest = Guest::new(test, sizes);
    let mut script = SHELL.to_owned();
    let mut cases = Vec::new();
    for (index, &bytes) in sizes.iter().enumerate() {
        for (level, layout, strip_kib) in shapes {
            if strip_kib > 64 && bytes < 64 * MIB {
                continue;
            }
            let name = format!("places-{index}-{level}-{strip_kib}");
            // Two drives, each a half of the disk, by loop devices.
            let mdadm_level = if level == Level::Linear { "linear".to_owned() } else { level.to_string() };
            let half = bytes / 2 / 512 * 512;
            writeln!(
                script,
                "losetup -o 0 --sizelimit {half} /dev/loop0 $D{index}; losetup -o {half} --sizelimit {half} /dev/loop1 $D{index}"
            )
            .expect("memory");
            writeln!(script, "case_begin {name}-made /dev/loop0 /dev/loop1").expect("memory");
            writeln!(
                script,
                "mdadm --create /dev/md0 --quiet --run --metadata=1.2 --level={mdadm_level} {} {} {} -n2 $disks 2>/dev/null",
                if level.is_redundant() { "--assume-clean --bitmap=internal" } else { "" },
                if layout.is_empty() { String::new() } else { format!("--layout={layout}") },
                if strip_kib > 0 { format!("--chunk={strip_kib}") } else { String::new() },
            )
            .expect("memory");
            writeln!(script, "dump; case_begin {name} /dev/loop0 /dev/loop1\npattern 4K").expect("memory");
            script += "case_end; losetup -d /dev/loop0 /dev/loop1\n";
            cases.push((name, level, layout, strip_kib, half / 512));
        }
    }
    guest.run(End::Stop, &script);
    for (name, level, layout, strip_kib, size_sectors) in cases {
        let layout: Layout = if layout.is_empty() { level.default_layout() } else { level.parse_layout(layout).expect("known") };
        let mut create = request(level, layout, 2, 0, size_sectors);
        create.strip_sectors = strip_kib * 2;
        if level.is_redundant() {
            create.bitmap = BitmapChoice::Internal { chunk_bytes: None };
        }
        let creation = create.plan().unwrap_or_else(|error| panic!("{name}: {error}"));
        let folders = [format!("{name}-made"), name.clone()].map(|folder| guest.share().join(folder));
        for (disk, folder) in [(0, &folders[0]), (1, &folders[0]), (0, &folders[1]), (1, &folders[1])] {
            let theirs = dumped(folder, disk).found.unwrap_or_else(|error| panic!("{name}: {error}"));
            let ours = creation.superblocks[disk].as_ref().expect("there");
            let mut expected = theirs.superblock.clone();
            let (to, from) = (&mut expected.header, &ours.header);
            (to.set_uuid, to.set_name, to.device_uuid) = (from.set_uuid, from.set_name, from.device_uuid);
            (to.ctime, to.utime, to.events, to.sb_csum) = (from.ctime, from.utime, from.events, from.sb_csum);
            if folder.ends_with(format!("{name}-made")) && level == Level::Raid10 {
                let of_theirs = Geometry::new(level, layout, strip_kib * 2, &[to.size; 2]).expect("a geometry");
                assert_eq!(of_theirs.capacity_sectors(), creation.geometry.capacity_sectors(), "{name}");
                to.size = from.size;
            }
            assert_eq!(expected.header, ours.header, "{}", folder.display());
            if let Some(bitmap) = theirs.bitmap {
                let bitmap = bitmap.expect("sound");
                let geometry = &creation.geometry;
                assert_eq!(bitmap.header.sync_size, geometry.sync_sectors(), "{name}");
                let drives = creation
                    .writes
                    .iter()
                    .find(|write| write.drive == disk && write.start_sector == DriveSector::ZERO)
                    .expect("head");
                let made = stria_format::md::Bitmap::parse(&drives.bytes[16 * 512..], &create.uuid).expect("ours");
                assert_eq!(made.header.chunksize, bitmap.header.chunksize, "{name}");
                assert_eq!((made.header.version, made.header.daemon_sleep), (bitmap.header.version, bitmap.header.daemon_sleep));
            }
        }
    }
}

/// States that the recorder writes mean the same to the kernel.
#[test]
fn kernel_understands_recorded_states() {
    if !harness::wanted() {
        return;
    }
    const NOW: u64 = 1_800_000_000;
    let guest = Guest::new("states", &[DISK_BYTES; 6]);
    let r5 = || {
        let mut create = request(Level::Raid5, Level::Raid5.default_layout(), 4, 1, DISK_BYTES / 512);
        create.homehost = Some("oracle".into());
        let drives = carry_out(&create).0;
        let start = started(&drives, &Options::default());
        let state = state_of(&start.config, true);
        (drives, start.recorder, state)
    };
    let place_on = |member: usize, recovered: Synced<MemberSpace>, by_bitmap: bool| {
        Some(MemberProgress { member: MemberId(member), recovered, by_bitmap })
    };
    // Name, drives, and the states of the array and of the disks that sysfs must show.
    let mut cases: Vec<(&str, Vec<MemoryDrive>, Vec<(&str, &str)>)> = Vec::new();

    let (mut drives, mut recorder, state) = r5();
    apply(&mut drives, &recorder.record_state(&state, NOW));
    cases.push(("clean", drives, vec![("degraded", "0"), ("resync_start", "none"), ("dev-ubde/slot", "none")]));

    let (mut drives, mut recorder, mut state) = r5();
    state.slots[2].member = None;
    state.spares.clear();
    state.optimal = false;
    state.failed.push((MemberId(2), Some(2)));
    apply(&mut drives, &recorder.record_state(&state, NOW));
    apply(&mut drives, &recorder.record_state(&state, NOW));
    cases.push(("degraded", drives, vec![("degraded", "1"), ("resync_start", "none"), ("dev-ubda/state", "in_sync")]));

    let (mut drives, mut recorder, mut state) = r5();
    state.slots[2].member = place_on(4, Synced::up_to(8192), false);
    state.spares.clear();
    state.optimal = false;
    state.failed.push((MemberId(2), Some(2)));
    apply(&mut drives, &recorder.record_state(&state, NOW));
    apply(&mut drives, &recorder.record_state(&state, NOW));
    cases.push((
        "rebuilding",
        drives,
        vec![("degraded", "1"), ("dev-ubde/slot", "2"), ("dev-ubde/recovery_start", "8192"), ("dev-ubde/state", "spare")],
    ));

    let (mut drives, mut recorder, mut state) = r5();
    state.slots[1].replacement = place_on(4, Synced::up_to(4096), false);
    state.spares.clear();
    apply(&mut drives, &recorder.record_state(&state, NOW));
    cases.push((
        "replacing",
        drives,
        vec![
            ("degraded", "0"),
            ("dev-ubde/slot", "1"),
            ("dev-ubde/recovery_start", "4096"),
            ("dev-ubde/state", "spare,replacement"),
        ],
    ));

    let (mut drives, mut recorder, mut state) = r5();
    state.clean = false;
    apply(&mut drives, &recorder.record_state(&state, NOW));
    apply(&mut drives, &recorder.record_intent(&[3, 500], &[]));
    cases.push(("dirty", drives, vec![("degraded", "0"), ("resync_start", "0")]));

    let (mut drives, mut recorder, mut state) = r5();
    state.synced = Synced::up_to(65536);
    apply(&mut drives, &recorder.record_state(&state, NOW));
    cases.push(("mid-resync", drives, vec![("degraded", "0"), ("resync_start", "65536")]));

    // The list is 300, 400, 100, 200 then, and 400 once more in the place of 300.
    let (mut drives, mut recorder, state) = r5();
    let data = started(&drives, &Options::default()).config.slots[1].member.as_ref().expect("there").data_start_sector;
    let list = |starts: &[u64]| starts.iter().map(|start| data + *start..data + *start + 8).collect::<Vec<_>>();
    for starts in [vec![300, 400], vec![100, 200, 300, 400], vec![100, 200, 400]] {
        apply(&mut drives, &recorder.record_bad_blocks(MemberId(1), list(&starts), NOW).expect("space"));
    }
    apply(&mut drives, &recorder.record_state(&state, NOW));
    let told = list(&[100, 200, 400]).iter().map(|bad| format!("{} 8", bad.start.get())).collect::<Vec<_>>().join("\n");
    cases.push((
        "bad-blocks",
        drives,
        vec![("degraded", "0"), ("dev-ubdb/state", "in_sync"), ("dev-ubdb/bad_blocks", told.leak())],
    ));

    let (mut drives, mut recorder, mut state) = r5();
    drives.push(MemoryDrive::new(5, DISK_BYTES / 512));
    let adopt = Adopt { name: "new".into(), size_sectors: DISK_BYTES / 512, logical_block_bytes: 512, device_uuid: [77; 16] };
    apply(&mut drives, &recorder.adopt(MemberId(5), &adopt).expect("suits").1);
    state.spares.push(MemberId(5));
    apply(&mut drives, &recorder.record_state(&state, NOW));
    cases.push(("adopted", drives, vec![("degraded", "0"), ("dev-ubdf/slot", "none"), ("dev-ubdf/state", "spare")]));

    let mut script = SHELL.to_owned();
    for (name, drives, expected) in &cases {
        script += &place(&guest, name, drives);
        script += "mdadm --assemble --quiet --readonly /dev/md0 $disks\n";
        for (file, _) in expected {
            writeln!(script, "cat /sys/block/md0/md/{file} > $SHARE/{name}/{}", file.replace('/', ".")).expect("memory");
        }
        script += "mdadm --detail /dev/md0 > $SHARE/$name/detail; mdadm --stop /dev/md0 2>/dev/null\n";
    }
    guest.run(End::Stop, &script);
    for (name, drives, expected) in &cases {
        check_placed(&guest, name, drives);
        let folder = guest.share().join(name);
        for (file, value) in expected {
            let told = fs::read_to_string(folder.join(file.replace('/', "."))).expect("told");
            assert_eq!(told.trim(), *value, "{name}: {file}\n{}", fs::read_to_string(folder.join("detail")).expect("detail"));
        }
    }
}

/// After a power cut Stria resyncs the bits that the kernel left.
#[test]
fn crashed_kernel_arrays_are_dirty_where_the_kernel_wrote() {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new("crash", &[DISK_BYTES; 4]);
    let script = create("--level=5 --chunk=64", 4, 0, true, false);
    // 3 MiB at 30 MiB of the array: member rows 10 MiB to 11 MiB, in chunks of 64 KiB.
    guest.run(
        End::Crash,
        &format!("{SHELL}{script}sleep 12\ndd if=/dev/urandom of=/dev/md0 bs=1M seek=30 count=3 conv=fsync status=none\n"),
    );
    let candidates: Vec<_> = (0..4).map(|disk| image(&guest.disk(disk))).collect();
    let start = assemble(&candidates, &Options::default()).0.remove(0).outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(start.config.synced, Synced::up_to(0));
    assert_eq!(start.config.intent.expect("bitmap").dirty, (160..176).collect::<Vec<_>>());

    let (assemblies, _) = assemble(&candidates[1..], &Options::default());
    let refused = assemblies[0].outcome.as_ref().expect_err("dirty and degraded").to_string();
    assert!(refused.contains("not stopped cleanly"), "{refused}");
}

/// An image file as a candidate.
fn image(path: &Path) -> Candidate {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(path).expect("image");
    let size = file.metadata().expect("image").len() / 512;
    Candidate::read(path.display().to_string(), size, 512, &mut |start, count| {
        let mut bytes = vec![0; (count * 512) as usize];
        file.read_exact_at(&mut bytes, start * 512).expect("within the image");
        Ok(bytes)
    })
}

/// Members that mdadm makes in its other formats, and a file system, are named with their positions.
#[test]
fn other_contents_made_under_linux_are_named() {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new("contents", &[DISK_BYTES; 7]);
    guest.run(
        End::Stop,
        "mdadm --create /dev/md0 --quiet --run --metadata=0.90 --level=1 -n2 --assume-clean $D0 $D1 2>/dev/null\n\
         mdadm --create /dev/md/imsm --quiet --run --metadata=imsm -n2 $D2 $D3 2>/dev/null\n\
         mdadm --create /dev/md/ddf --quiet --run --metadata=ddf -n2 $D4 $D5 2>/dev/null\n\
         mkfs.ext4 -q -L root $D6\n",
    );
    for (disk, expected) in [
        (0, "md member, version 0.90 (uuid "),
        (2, "Intel RAID (IMSM) member (version 1."),
        (4, "DDF RAID member (vendor \"Linux-MD\")"),
        (6, "ext4 file system (label \"root\", uuid "),
    ] {
        let candidate = image(&guest.disk(disk));
        assert!(candidate.found.is_err());
        let carries: Vec<String> = candidate.carries.iter().map(ToString::to_string).collect();
        assert!(carries.iter().any(|what| what.starts_with(expected)), "disk {disk}: {carries:?}");
    }
}
