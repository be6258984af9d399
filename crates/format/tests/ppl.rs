//! Goal: md's partial parity log is read, replayed and written as Linux does it.
//! Method: headers made by hand from `raid5-ppl.c` must be read as the log records that they mean. The power is cut after every
//! sector of a write. The real md continues arrays that Stria left during a write, and Stria continues md's.

mod support;

use harness::{End, Guest};
use std::fs;
use std::path::Path;
use stria_array::{Layout, Level, LogRecord, ParityLayout, Synced};
use stria_block::{Buffer, Operation};
use stria_format::md::{BitmapChoice, Options, Superblock, superblock::feature};
use stria_parity::crc32c;
use stria_testkit::oracle as harness;
use support::running::*;
use support::*;

/// 2 MiB: half of it is metadata.
const SMALL_SECTORS: u64 = 4096;
/// 4 KiB.
const STRIP: u64 = 8;
/// From the superblock, which lies at sector 8.
const OFFSET: u64 = 64;

const LAYOUTS: [ParityLayout; 4] =
    [ParityLayout::LeftSymmetric, ParityLayout::RightSymmetric, ParityLayout::LeftAsymmetric, ParityLayout::RightAsymmetric];

fn change(drives: &mut [MemoryDrive], change: impl Fn(&mut Superblock)) {
    for drive in drives {
        let bytes = drive.read(8, 8).expect("sound");
        let mut superblock = Superblock::parse(&bytes, 8, drive.size_sectors).expect("sound");
        change(&mut superblock);
        drive.write(8, &superblock.encode());
    }
}

/// An array that asks for a log of so many sectors.
fn with_ppl(layout: ParityLayout, count: usize, strip_sectors: u64, bit: u32, sectors: u64) -> Vec<MemoryDrive> {
    let mut create = request(Level::Raid5, Layout::Parity(layout), count, 0, SMALL_SECTORS);
    create.strip_sectors = strip_sectors;
    create.bitmap = BitmapChoice::None;
    let mut drives = carry_out(&create).0;
    change(&mut drives, |superblock| {
        superblock.header.feature_map |= bit;
        superblock.header.bitmap_offset = (sectors << 16 | OFFSET) as i32;
    });
    drives
}

/// An entry made by hand: first sector, bytes of partial parity, bytes written, slot of the parity, partial parity.
type ByHand<'a> = (u64, u32, u32, u32, &'a [u8]);

/// A header as Linux writes it, and what follows.
fn by_hand(generation: u64, entries: &[ByHand]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..512].fill(0xff);
    bytes[512..516].copy_from_slice(&crc32c(&[0xab; 16]).to_le_bytes());
    bytes[520..528].copy_from_slice(&generation.to_le_bytes());
    bytes[528..532].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    for (index, (sector, pp_size, data_size, parity_disk, partial)) in entries.iter().enumerate() {
        let fields = [pp_size.to_le_bytes(), data_size.to_le_bytes(), parity_disk.to_le_bytes(), crc32c(partial).to_le_bytes()];
        bytes[536 + 24 * index..][..8].copy_from_slice(&sector.to_le_bytes());
        bytes[544 + 24 * index..][..16].copy_from_slice(&fields.concat());
    }
    let sum = crc32c(&bytes);
    bytes[532..536].copy_from_slice(&sum.to_le_bytes());
    entries.iter().for_each(|entry| bytes.extend_from_slice(entry.4));
    bytes
}

/// Four members of 4 KiB strips, left-symmetric, with these bytes at the start of each log; not stopped cleanly.
fn dirty(logs: &[Vec<u8>; 4]) -> Vec<MemoryDrive> {
    let mut drives = with_ppl(ParityLayout::LeftSymmetric, 4, 16, feature::MULTIPLE_PPLS, 1024);
    change(&mut drives, |superblock| superblock.header.resync_offset = 0);
    for (drive, log) in drives.iter_mut().zip(logs) {
        drive.write(8 + OFFSET, log);
    }
    drives
}

/// The meaning of a record, with the first of its bytes.
fn told(record: &LogRecord) -> (u64, std::ops::Range<u64>, std::ops::Range<usize>, Option<(usize, u8)>) {
    let partial = record.partial.as_ref().map(|data| (data.len() / 512, data[0]));
    (record.stripe, record.rows.start.get()..record.rows.end.get(), record.written.clone(), partial)
}

#[test]
fn entries_are_the_records_that_linux_replays() {
    let rows: Vec<u8> = (0..16).flat_map(|row| [row; 512]).collect();
    // Stripe 0 of a left-symmetric array has its parity in slot 3, the next in 2. A stripe is 48 sectors.
    let log = by_hand(
        7,
        &[
            (18, 4 * 512, 8 * 512, 3, &rows[..4 * 512]),
            (8, 0, 24 * 512, 3, &[]),
            (4 * 48, 16 * 512, 32 * 512, 3, &rows),
            // Other writers' cases 3 and 4: the run is not the same length on all strips.
            (8 * 48 + 12, 16 * 512, 24 * 512, 3, &rows),
            (12 * 48 + 12, 16 * 512, 8 * 512, 3, &rows),
        ],
    );
    let empty = by_hand(0, &[]);
    let start = started(&dirty(&[empty.clone(), empty.clone(), empty, log]), &Options::default());
    let found: Vec<_> = start.config.replay.iter().map(told).collect();
    assert_eq!(
        found,
        [
            (0, 2..6, 1..3, Some((4, 0))),
            (0, 8..16, 0..3, None),
            (4, 0..16, 0..2, Some((16, 0))),
            (8, 12..16, 0..2, Some((4, 0))),
            (8, 0..4, 1..3, Some((4, 4))),
            (8, 4..12, 1..2, Some((8, 8))),
            (12, 12..16, 0..1, Some((4, 0))),
            (12, 0..4, 1..2, Some((4, 4))),
        ]
    );
    assert_eq!(start.config.synced, Synced::All, "every write in flight had a record");
    assert!(start.config.log.is_some_and(|log| log.newest_only), "{:?}", start.config.log);
    assert_eq!(start.recorder.lanes_max(), 1);
}

#[test]
fn only_the_newest_header_counts_and_what_is_torn_does_not() {
    let empty = || by_hand(0, &[]);
    let entry = |sector: u64| by_hand(sector, &[(sector, 512, 512, 3, &[sector as u8; 512])]);
    let read = |log: Vec<u8>| {
        let start = started(&dirty(&[empty(), empty(), empty(), log]), &Options::default());
        let rows: Vec<u64> = start.config.replay.iter().map(|record| record.rows.start.get()).collect();
        (rows, start.config.synced)
    };
    assert_eq!(read([entry(1), entry(2), entry(3)].concat()), (vec![3], Synced::All));
    assert_eq!(read([entry(4), entry(2), entry(3)].concat()), (vec![4], Synced::All), "written around the ring");
    assert_eq!(read(empty()), (vec![], Synced::up_to(0)), "nothing to go by");
    let torn = |mut log: Vec<u8>, at: usize| {
        log[at] ^= 1;
        log
    };
    assert_eq!(read([entry(1), torn(entry(2), 533)].concat()), (vec![1], Synced::All), "a header that is not whole is none");
    assert_eq!(read([entry(1), torn(entry(2), 4100)].concat()), (vec![], Synced::up_to(0)), "partial parity that is not whole");
    assert_eq!(read(torn(entry(1), 533)), (vec![], Synced::up_to(0)), "the only one is not whole");
    // An array that lacks a member counts valid logs only, as Linux does; bytes that are no log do not matter.
    let lacking = |log: Vec<u8>| without(&dirty(&[empty(), empty(), empty(), log]), &[0]);
    for log in [entry(1), torn(entry(1), 4100), torn(entry(1), 533), empty()] {
        assert_eq!(started(&lacking(log), &Options::default()).config.synced, Synced::All);
    }
    for log in [vec![0; 4096], by_hand(1, &[(1, 512, 512, 2, &[1; 512])]), by_hand(1, &[(1, 512, 1 << 20, 3, &[1; 512])])] {
        let sentence = refused(&lacking(log), &Options::default());
        assert!(sentence.contains("not stopped cleanly"), "{sentence}");
    }
}

#[test]
fn a_rebuilding_member_contributes_log_records() {
    let empty = || by_hand(0, &[]);
    let start = |log: Vec<u8>| {
        let mut drives = dirty(&[empty(), empty(), empty(), log]);
        change(&mut drives[3..], |superblock| {
            superblock.header.feature_map |= feature::RECOVERY_OFFSET;
            superblock.header.recovery_offset = 64;
        });
        let start = started(&drives, &Options::default());
        let filled = start.config.slots[3].member.as_ref().expect("it is there").recovered;
        (start.config.replay.iter().map(told).collect::<Vec<_>>(), filled)
    };
    assert_eq!(start(by_hand(1, &[(3, 512, 512, 3, &[9; 512])])), (vec![(0, 3..4, 0..1, Some((1, 9)))], Synced::up_to(64)));
    assert_eq!(start(vec![0; 4096]), (vec![], Synced::up_to(0)), "who kept none is filled from the start");
}

#[test]
fn a_log_where_md_keeps_none_is_refused() {
    let refuse = |bit: u32, sectors: u64, other: u32| {
        let mut drives = with_ppl(ParityLayout::LeftSymmetric, 3, STRIP, bit, sectors);
        change(&mut drives, |superblock| superblock.header.feature_map |= other);
        refused(&drives, &Options::default())
    };
    assert!(refuse(feature::PPL, 264, feature::MULTIPLE_PPLS).contains("of two kinds"));
    assert!(refuse(feature::PPL, 256, 0).contains("less than 132 KiB"));
}

/// Cuts writes on an array of 4 KiB strips that lacks `missing`. `torn`: how a lost member may tear several strips.
fn cut_everywhere(count: usize, bit: u32, missing: &[usize], writes: &[(u64, u64)], torn: std::ops::Range<u64>) {
    for (layout, sectors) in LAYOUTS.into_iter().zip([264, 272, 536, 264]) {
        let drives = with_ppl(layout, count, STRIP, bit, sectors);
        Cuts {
            what: format!("{layout:?} of {count} without {missing:?}: {writes:?}"),
            sectors: 3 * STRIP * (count as u64 - 1),
            stripes: 3,
            missing,
            losses_max: 1 - missing.len(),
            writes,
            torn: torn.clone(),
            from: 0,
        }
        .everywhere(&drives);
    }
}

#[test]
fn one_sector_then_another_of_the_stripe() {
    cut_everywhere(4, feature::MULTIPLE_PPLS, &[], &[(9, 1), (1, 1)], 0..0);
}

#[test]
fn one_strip_of_an_array_that_lacks_a_member() {
    for missing in 0..3 {
        cut_everywhere(3, feature::PPL, &[missing], &[(9, 3)], 0..0);
    }
}

#[test]
fn two_strips() {
    cut_everywhere(4, feature::PPL, &[], &[(6, 4)], 6..10);
}

#[test]
fn a_whole_stripe_and_then_a_part_of_it() {
    cut_everywhere(3, feature::MULTIPLE_PPLS, &[], &[(16, 16), (17, 2)], 16..32);
}

/// A resync, or a read that resyncs first, may find parity to repair before any client has written.
#[test]
fn parity_is_repaired_before_the_first_write_of_a_run() {
    let mut drives = with_ppl(ParityLayout::LeftSymmetric, 3, STRIP, feature::PPL, 264);
    let before = Running::start(&drives, u64::MAX, true).read_all(16);
    change(&mut drives, |superblock| superblock.header.resync_offset = 0);
    let data_offset =
        Superblock::parse(&drives[2].read(8, 8).expect("sound"), 8, SMALL_SECTORS).expect("sound").header.data_offset;
    // Drive 2 has the parity of the first stripe.
    drives[2].write(data_offset, &pattern(0, STRIP, 9));
    for reads in [false, true] {
        let mut array = Running::start(&drives, u64::MAX, false);
        match reads {
            true => assert!(array.read_all(16) == before),
            false => array.resync(),
        }
        let drives = array.stop();
        for lost in 0..3 {
            let left = without(&drives, &[lost]);
            // Only the rows that were read are known to be consistent.
            let start = started(&left, &Options { force: reads, ..Options::default() });
            assert!(Running::of(start, &left, u64::MAX).read_all(16) == before, "without drive {lost}, read: {reads}");
        }
    }
}

/// After replay the rows of entries are consistent. Others are not if the first resync of the array has not ended.
#[test]
fn entries_make_up_for_no_resync_that_was_due() {
    for (bit, stops) in [(feature::PPL, false), (feature::PPL, true), (feature::MULTIPLE_PPLS, false)] {
        let mut drives = with_ppl(ParityLayout::LeftSymmetric, 3, STRIP, bit, 264);
        change(&mut drives, |superblock| superblock.header.resync_offset = 0);
        let written = |drives: &[MemoryDrive]| {
            let mut array = Running::start(drives, u64::MAX, false);
            array.write(3, &[1; 512]);
            if stops { array.stop() } else { array.drives() }
        };
        // The second run knows of the resync from the superblocks of the first.
        drives = written(&written(&drives));
        let start = started(&drives, &Options::default());
        assert!(start.config.replay.len() == 1 && start.config.synced != Synced::All);
        let why = refused(&without(&drives, &[0]), &Options::default());
        assert!(why.contains("not stopped cleanly"), "{why}");

        let mut array = Running::start(&drives, u64::MAX, false);
        array.resync();
        let mut array = Running::start(&array.stop(), u64::MAX, false);
        array.write(3, &[3; 512]);
        let start = started(&array.drives(), &Options::default());
        assert_eq!((start.config.replay.len(), start.config.synced), (1, Synced::All));
    }
}

/// Replay gives up while a client's write waits for it.
#[test]
fn a_write_that_waits_for_a_replay_without_space_is_answered() {
    let empty = by_hand(0, &[]);
    let log = by_hand(7, &[(18, 4 * 512, 8 * 512, 3, &[9; 4 * 512])]);
    let drives = dirty(&[empty.clone(), empty.clone(), empty, log]);
    let mut array = Running::start(&drives, u64::MAX, false);
    array.is_full.set(true);
    let from = std::iter::once(Buffer::zeroed(512).freeze()).collect();
    let written = array.request(0, 1, Operation::Write { from, fua: false });
    assert!(written.result.is_err() && array.unreplayed().is_some_and(|reason| reason.contains("no space")));
    assert_eq!(array.read_all(48).len(), 48 * 512);

    let mut array = Running::start(&array.drives(), u64::MAX, false);
    array.write(0, &[1; 512]);
    assert!(array.unreplayed().is_none());
}

/// 10 MiB.
const IMAGE_SECTORS: u64 = 20_480;
/// The writes before the power cut: a part of a page, a part of two strips, a whole stripe, parts of two stripes.
const WRITES: [(u64, u64); 4] = [(5, 3), (96 + 20, 24), (192, 96), (384 + 70, 40)];
/// How many cuts of them.
const CUTS: u64 = 3;

const SHELL: &str = r#"
attach() { # FOLDER MEMBER…
  folder=$1; shift; loops=
  for k; do
    [ -b /dev/loop$k ] || mknod /dev/loop$k b 7 $k
    losetup /dev/loop$k $SHARE/$folder/$k.img; loops="$loops /dev/loop$k"
  done
}
detach() { sync; for d in $loops; do losetup -d $d; done; sleep 0.1; }
create() { mdadm --create /dev/md0 --quiet --run --level=5 --chunk=16 --consistency-policy=ppl --assume-clean "$@" 2>/dev/null; }
fill() { seq 100000000 | head -c $(blockdev --getsize64 /dev/md0) | dd of=/dev/md0 bs=1M iflag=fullblock conv=fsync status=none; }
look() { # FOLDER DRIVE…: what the kernel makes of it
  at=$SHARE/$1; shift
  mdadm --quiet --assemble --run /dev/md0 "$@" || mdadm --assemble --verbose --run /dev/md0 "$@"
  cat /sys/block/md0/md/resync_start > $at/resync
  cat /sys/block/md0/md/consistency_policy > $at/policy
  dd if=/dev/md0 of=$at/whole bs=1M status=none
  if [ $(cat /sys/block/md0/md/degraded) = 0 ]; then
    mdadm --wait /dev/md0 >/dev/null 2>&1 || true
    echo check > /sys/block/md0/md/sync_action; mdadm --wait /dev/md0 >/dev/null 2>&1 || true
    cat /sys/block/md0/md/mismatch_cnt > $at/mismatch
  fi
  mdadm --quiet --stop /dev/md0
}
"#;

fn load(paths: impl Iterator<Item = std::path::PathBuf>) -> Vec<MemoryDrive> {
    let drive = |(index, path)| {
        let bytes = fs::read(path).expect("an image");
        let mut drive = MemoryDrive::new(index, bytes.len() as u64 / 512);
        for (sector, data) in (0..).zip(bytes.chunks_exact(512)).filter(|(_, data)| data.iter().any(|&byte| byte != 0)) {
            drive.write(sector, data);
        }
        drive
    };
    paths.enumerate().map(drive).collect()
}

fn image(drive: &MemoryDrive) -> Vec<u8> {
    let mut bytes = vec![0; drive.size_sectors as usize * 512];
    for (&sector, data) in &drive.sectors {
        bytes[sector as usize * 512..][..512].copy_from_slice(data);
    }
    bytes
}

/// An array that we left for the kernel.
struct Left {
    folder: String,
    members: Vec<usize>,
    before: Vec<u8>,
    after: Vec<u8>,
    /// Our own check that parity is consistent everywhere once the log is replayed.
    agrees: bool,
}

impl Left {
    fn save(share: &Path, folder: String, drives: &[MemoryDrive], members: Vec<usize>, before: &[u8], after: &[u8]) -> Self {
        let at = share.join(&folder);
        fs::create_dir_all(&at).expect("folder");
        for &member in &members {
            fs::write(at.join(format!("{member}.img")), image(&drives[member])).expect("image");
        }
        let rest: Vec<MemoryDrive> = members.iter().map(|&member| drives[member].clone()).collect();
        let agrees = started(&rest, &Options::default()).config.synced == Synced::All;
        Self { folder, members, before: before.to_vec(), after: after.to_vec(), agrees }
    }

    fn script(&self) -> String {
        let members: Vec<String> = self.members.iter().map(usize::to_string).collect();
        format!("attach {} {}\nlook {} $loops\ndetach\n", self.folder, members.join(" "), self.folder)
    }

    /// The kernel's report.
    fn check(&self, share: &Path) {
        let what = &self.folder;
        let told = |name: &str| fs::read_to_string(share.join(what).join(name)).unwrap_or_default().trim().to_owned();
        let whole = fs::read(share.join(what).join("whole")).expect("the kernel's copy");
        assert_eq!(told("policy"), "ppl", "{what}");
        assert_eq!(whole.len(), self.after.len(), "{what}");
        let degraded = self.members.len() < 4;
        // What was written to several strips at once may be torn on one that is lost.
        let torn = |sector: u64| WRITES[1..].iter().any(|&(start, sectors)| (start..start + sectors).contains(&sector));
        for (sector, found) in (0..).zip(whole.chunks_exact(512)) {
            let range = sector as usize * 512..(sector as usize + 1) * 512;
            let good = found == &self.before[range.clone()] || found == &self.after[range] || degraded && torn(sector);
            assert!(good, "{what}: the kernel finds sector {sector} neither old nor new");
        }
        if !degraded {
            // A start that relies on the log alone hides no mismatch by a resync.
            assert!(!self.agrees || told("resync") == "none", "{what}: the kernel resyncs from {}", told("resync"));
            assert_eq!(told("mismatch"), "0", "{what}: mismatch_cnt");
        }
    }
}

#[test]
fn the_kernel_and_we_take_over_from_each_other_in_the_middle_of_writes() {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new("ppl", &[IMAGE_SECTORS * 512; 4]);
    let share = guest.share();
    let mut script = SHELL.to_owned();
    for layout in LAYOUTS.map(Layout::Parity) {
        fs::create_dir_all(share.join(layout.to_string())).expect("folder");
        for member in 0..4 {
            let path = share.join(format!("{layout}/{member}.img"));
            fs::File::create(path).and_then(|file| file.set_len(IMAGE_SECTORS * 512)).expect("image");
        }
        script += &format!(
            "attach {layout} 0 1 2 3\ncreate --layout={layout} -n4 $loops\nfill\n\
             dd if=/dev/md0 of=$SHARE/{layout}/whole bs=1M status=none\nmdadm --quiet --stop /dev/md0\ndetach\n"
        );
    }
    // Writes pages of the first strip of every stripe, by eight writers, until the power is cut.
    script += "create -n4 $D0 $D1 $D2 $D3\necho 60 > /sys/block/md0/md/safe_mode_delay\nfill\ndd if=/dev/md0 of=$SHARE/crash bs=1M status=none\nsync\n\
        for w in 0 1 2 3 4 5 6 7; do\n\
          (i=$w; while true; do dd if=/dev/urandom of=/dev/md0 bs=4k count=1 seek=$((i * 12 + i % 4)) oflag=direct conv=notrunc \
           status=none; i=$(( (i + 8) % 400 )); done) &\n\
        done\nsleep 3\n";
    guest.run(End::Crash, &script);

    let mut left = Vec::new();
    for layout in LAYOUTS.map(Layout::Parity) {
        let drives = load((0..4).map(|member| share.join(format!("{layout}/{member}.img"))));
        let mut model = fs::read(share.join(format!("{layout}/whole"))).expect("the kernel's copy");
        let mut array = Running::start(&drives, u64::MAX, false);
        assert!(array.read_all(model.len() as u64 / 512) == model, "{layout}: we read other bytes than the kernel wrote");
        for (start, sectors) in [(1, 1), (70, 100), (5000, 700)] {
            model[start as usize * 512..][..sectors as usize * 512].copy_from_slice(&pattern(start, sectors, 7));
            array.write(start, &pattern(start, sectors, 7));
        }
        let drives = array.stop();
        left.push(Left::save(&share, format!("{layout}-stopped"), &drives, vec![0, 1, 2, 3], &model, &model));
        let mut after = model.clone();
        for (start, sectors) in WRITES {
            after[start as usize * 512..][..sectors as usize * 512].copy_from_slice(&pattern(start, sectors, 2));
        }
        let cut = |left: u64, writes: &[(u64, u64)]| {
            let mut array = Running::start(&drives, left, false);
            writes.iter().for_each(|&(start, sectors)| array.write(start, &pattern(start, sectors, 2)));
            array
        };
        let used = |writes| u64::MAX - cut(u64::MAX, writes).left.get();
        // The first write begins with empty logs, which takes a few sectors.
        let (from, to) = (used(&WRITES[..1]) - 16, used(&WRITES));
        for number in 0..CUTS {
            let crashed = cut(from + (to - from) * number / (CUTS - 1), &WRITES).drives();
            let members = |lost: Option<usize>| (0..4).filter(|&member| Some(member) != lost).collect::<Vec<usize>>();
            let lost = number as usize % 4;
            for (name, lost) in [("whole".to_owned(), None), (format!("without-{lost}"), Some(lost))] {
                left.push(Left::save(&share, format!("{layout}-cut{number}-{name}"), &crashed, members(lost), &model, &after));
            }
        }
    }

    // The drives as the kernel left them.
    let crashed = load((0..4).map(|disk| guest.disk(disk)));
    let model = fs::read(share.join("crash")).expect("the kernel's copy");
    let sectors = model.len() as u64 / 512;
    let start = started(&crashed, &Options::default());
    assert!(!start.config.replay.is_empty(), "the kernel crashed with records in its logs");
    assert_eq!(start.config.synced, Synced::All, "all of them are whole");
    let unwritten = |sector: &u64| {
        let page = sector / 8;
        page / 12 >= 400 || page % 12 != page / 12 % 4
    };
    for lost in [vec![], vec![0], vec![1], vec![2], vec![3]] {
        let found = Running::start(&without(&crashed, &lost), 0, true).read_all(sectors);
        let of = |bytes: &[u8], sector: u64| bytes[sector as usize * 512..][..512].to_vec();
        let wrong = (0..sectors).filter(unwritten).find(|&sector| of(&found, sector) != of(&model, sector));
        assert_eq!(wrong, None, "a sector changed that the kernel was not writing, {lost:?} lost");
    }
    let mut array = Running::start(&crashed, u64::MAX, false);
    let found = array.read_all(sectors);
    left.push(Left::save(&share, "crash-replayed".into(), &array.stop(), vec![0, 1, 2, 3], &found, &found));

    let script: String = left.iter().map(Left::script).collect();
    guest.run(End::Stop, &format!("{SHELL}{script}"));
    left.iter().for_each(|left| left.check(&share));
}
