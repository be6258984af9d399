//! Goal: a scrub finds bytes that changed on a drive, names the drive, and corrects them.
//! Method: the real program on image files. Some pages of two images are changed between two serves; a client of the test reads,
//! and at the end the real md checks the result.

mod support;

use serde_json::Value;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use stria_testkit::oracle as harness;
use support::Place;

const PAGE: u64 = 4096;

/// The first sector of a drive's data, as `examine` shows it.
fn data_start_bytes(place: &Place, drive: &str) -> u64 {
    let text = place.ok(&["examine", drive]);
    let line = text.lines().find(|line| line.contains("Data Offset")).expect("md's word for it");
    line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).expect("a count of sectors") * 512
}

/// Inverts every byte of some pages of the data area.
fn spoil(place: &Place, drive: &str, pages: &[u64]) {
    let start = data_start_bytes(place, drive);
    let image = OpenOptions::new().read(true).write(true).open(drive).expect("an image");
    for page in pages {
        let mut bytes = [0; PAGE as usize];
        image.read_exact_at(&mut bytes, start + page * PAGE).expect("it reads");
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        image.write_all_at(&bytes, start + page * PAGE).expect("it writes");
    }
}

/// The counts under `key` of all members of the array and its spans, by drive, without zeros.
fn counted(status: &Value, key: &str) -> Vec<(String, u64)> {
    let spans = status["spans"].as_array().expect("a list").iter().flat_map(|span| counted(span, key));
    let members = status["members"].as_array().expect("a list").iter();
    let own = members.map(|member| (member["path"].as_str().expect("a path").to_owned(), member[key].as_u64().expect("a count")));
    own.chain(spans).filter(|(_, count)| *count > 0).collect()
}

fn contents(drives: &[&str]) -> Vec<Vec<u8>> {
    drives.iter().map(|drive| std::fs::read(drive).expect("an image")).collect()
}

/// Fills an array, changes pages of two of its drives, and lets a scrub find and correct them.
fn story(place: &Place, level: &str, drives: &[&str]) {
    place.ok(&[&["create", "tank", "--level", level], drives].concat());
    let serve = place.serve(drives);
    place.settled("tank");
    let mut client = serve.client("tank");
    let size_bytes = client.size_bytes as usize;
    let source = place.path("source");
    support::noise(&source, size_bytes, 7);
    let source = std::fs::read(source).expect("it was written");
    let part = |offset: usize| offset..size_bytes.min(offset + (1 << 20));
    for offset in (0..size_bytes).step_by(1 << 20) {
        client.send_writes(&[(offset as u64, source[part(offset)].to_vec())]).expect("it listens");
        assert_eq!(client.reply().expect("an answer"), (0, 0));
    }
    assert!(client.flush().expect("an answer"));
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();

    // Neighbours in one stripe, and pages of several stripes, so that data and parity are affected; all behind the superblocks of
    // a higher array.
    let (first, second) = (drives[1], drives[2]);
    let spoiled = [(first, vec![1600, 1601, 1670, 1800, 1801]), (second, vec![1602, 1671, 2100])];
    let right = contents(drives);
    spoiled.iter().for_each(|(drive, pages)| spoil(place, drive, pages));
    let expected = [(first.to_owned(), 5 * 8), (second.to_owned(), 3 * 8)];

    let serve = place.serve(drives);
    let mut client = serve.client("tank");
    let mut is_right = || {
        let mut reads = (0..size_bytes).step_by(1 << 20);
        reads.all(|offset| client.read(offset as u64, part(offset).len()).expect("it answers") == source[part(offset)])
    };
    if level != "1" {
        // Which copy is read is random.
        assert!(!is_right(), "what was spoiled is data, and no read tells it");
    }
    let found = place.run(&["scrub", "tank", "--wait"]);
    assert_eq!(found.code, 3, "{found:?}");
    let found = found.stdout;
    assert!(found.contains(&format!("40 wrong on {first}")) && found.contains(&format!("24 wrong on {second}")), "{found}");
    let status = place.status("tank");
    assert_eq!((counted(&status, "wrong_sectors"), counted(&status, "repaired_sectors")), (expected.to_vec(), vec![]));
    let mended = place.ok(&["scrub", "tank", "--repair", "--wait"]);
    assert!(mended.contains("64 sectors did not match, and were repaired"), "{mended}");
    assert!(is_right(), "RAID {level}: the repair gives back what was written");
    let after = place.ok(&["scrub", "tank", "--wait"]);
    assert!(after.contains(" 0 sectors with mismatches"), "{after}");
    let status = place.status("tank");
    assert_eq!((counted(&status, "wrong_sectors"), counted(&status, "repaired_sectors")), (vec![], expected.to_vec()));
    assert!(support::unwrapped(&place.ok(&["status", "tank"])).contains("40 repaired"));
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains(&format!("{second} (slot ")) && log.contains("was rewritten from the others"), "{log}");
    for ((drive, right), now) in drives.iter().zip(right).zip(contents(drives)) {
        let start = data_start_bytes(place, drive) as usize;
        assert!(right[start..] == now[start..], "{drive}: every byte is as it was, parity too");
    }
}

#[test]
fn scrub_mends_the_drive_that_is_wrong_on_raid_60_and_three_copies() {
    for (level, count) in [("60", 8), ("1", 3)] {
        let place = Place::new();
        let images = place.images(count, 16 << 20);
        story(&place, level, &images.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// And the kernel finds no mismatch.
#[test]
fn scrub_mends_the_drive_that_is_wrong_on_raid_6_as_the_kernel_sees_it() {
    let guest = harness::Guest::new("silent", &[16 << 20; 5]);
    let images: Vec<String> = (0..5).map(|index| guest.disk(index).display().to_string()).collect();
    let place = Place::new();
    story(&place, "6", &images.iter().map(String::as_str).collect::<Vec<_>>());
    std::fs::copy(place.path("source"), guest.share().join("source")).expect("room");
    if !harness::wanted() {
        return;
    }
    let said = guest.run(
        harness::End::Forget,
        "mdadm --quiet --assemble /dev/md0 $DISKS\necho check > /sys/block/md0/md/sync_action\n\
         mdadm --wait /dev/md0 || true\ncat /sys/block/md0/md/mismatch_cnt\n\
         cmp -n $(blockdev --getsize64 /dev/md0) /dev/md0 $SHARE/source && echo same\n",
    );
    assert_eq!(said, "0\nsame\n");
}
