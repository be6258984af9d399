//! Goal: with `--integrity` the first read finds bytes that changed on a drive; they are recovered from redundancy, counted, and
//! attributed to the drive. Without redundancy the read is an error. Nothing that happens to an array makes a right byte look
//! wrong.
//! Method: the real program on image files, some pages of which are inverted between two serves; a client of the test.

mod support;

use serde_json::Value;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use support::nbd::Client;
use support::{Place, noise};

const MIB: usize = 1 << 20;
/// The first sector of the data on images of this small size.
const DATA_START: u64 = 1 << 20;

/// Inverts every byte of some pages of the data area.
fn spoil(drive: &str, pages: &[u64]) {
    let image = OpenOptions::new().read(true).write(true).open(drive).expect("an image");
    for page in pages {
        let (mut bytes, at) = ([0; 4096], DATA_START + page * 4096);
        image.read_exact_at(&mut bytes, at).expect("it reads");
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        image.write_all_at(&bytes, at).expect("it writes");
    }
}

/// The sum of `key` over the checksum counts of all members, spans included.
fn counted(status: &Value, key: &str) -> Vec<(String, u64)> {
    let spans = status["spans"].as_array().expect("a list").iter().flat_map(|span| counted(span, key));
    let members = status["members"].as_array().expect("a list").iter().filter(|member| !member["checksums"].is_null());
    let count = |member: &Value| {
        (member["path"].as_str().expect("a path").to_owned(), member["checksums"][key].as_u64().expect("a count"))
    };
    members.map(count).chain(spans).filter(|(_, count)| *count > 0).collect()
}

fn write_all(client: &mut Client, source: &[u8]) {
    for (index, part) in source.chunks(MIB).enumerate() {
        client.send_writes(&[((index * MIB) as u64, part.to_vec())]).expect("it listens");
        assert_eq!(client.reply().expect("an answer"), (0, 0));
    }
    assert!(client.flush().expect("an answer"));
}

fn is_right(client: &mut Client, source: &[u8]) -> bool {
    let mut parts = source.chunks(MIB).enumerate();
    parts.all(|(index, part)| client.read((index * MIB) as u64, part.len()).expect("it answers") == part)
}

struct Tank {
    place: Place,
    drives: Vec<String>,
    source: Vec<u8>,
}

impl Tank {
    /// An array that is filled and stopped.
    fn new(level: &str, count: usize, more: &[&str]) -> Self {
        let place = Place::new();
        let drives = place.images(count, 16 << 20);
        let mut tank = Self { place, drives, source: Vec::new() };
        let mut command = vec!["create", "tank", "--level", level];
        command.extend(more);
        command.extend(tank.drives());
        tank.place.ok(&command);
        let serve = tank.place.serve(&tank.drives());
        tank.place.wait_for("tank", "the first resync", |status| status["sweep"].is_null() && status["resync_pending"] == false);
        let mut client = serve.client("tank");
        let source = tank.place.path("source");
        noise(&source, client.size_bytes as usize, 5);
        tank.source = std::fs::read(source).expect("it was written");
        write_all(&mut client, &tank.source);
        tank.place.ok(&["stop", "tank", "--force"]);
        serve.ended_well();
        tank
    }

    fn drives(&self) -> Vec<&str> {
        self.drives.iter().map(String::as_str).collect()
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        let data = |drive: &String| std::fs::read(drive).expect("an image")[DATA_START as usize..][..12 * MIB].to_vec();
        self.drives.iter().map(data).collect()
    }
}

/// A client reads, a scrub reads what no client reads, and afterwards all is as it was.
fn heals(level: &str, count: usize) {
    let tank = Tank::new(level, count, &["--integrity"]);
    assert!(tank.place.ok(&["examine", &tank.drives[0]]).contains("Checksums : CRC-32C of each 4 KiB"));
    let right = tank.contents();
    let (first, second) = (&tank.drives[0], &tank.drives[1]);
    spoil(first, &[300, 301, 900, 1200]);
    spoil(second, &[400, 1300]);
    let serve = tank.place.serve(&tank.drives());
    let mut client = serve.client("tank");
    assert!(is_right(&mut client, &tank.source), "RAID {level}: what was written is read");
    let said = tank.place.ok(&["scrub", "tank", "--wait"]);
    assert!(said.contains(" 0 sectors with mismatches"), "{said}");
    let status = tank.place.status("tank");
    let expected = vec![(first.clone(), 4), (second.clone(), 2)];
    assert_eq!((counted(&status, "wrong"), counted(&status, "mended")), (expected.clone(), expected), "RAID {level}");
    assert_eq!(counted(&status, "learned"), [], "all sums outlived the stop");
    let words = tank.place.ok(&["status", "tank"]);
    assert!(support::unwrapped(&words).contains("32 sectors wrong by checksum, 32 corrected"), "{words}");
    tank.place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains(&format!("{first}: ")) && log.contains("do not match their checksums"), "{log}");
    assert!(tank.contents() == right, "RAID {level}: every byte on the drives is as it was");
}

#[test]
fn mirrors_heal_what_rotted() {
    heals("1", 2);
    heals("10", 4);
}

#[test]
fn single_parity_heals_what_rotted() {
    heals("4", 3);
    heals("5", 3);
}

#[test]
fn double_parity_and_spans_heal_what_rotted() {
    heals("6", 4);
    heals("50", 6);
}

/// The same changed bytes without checksums: the client must read them, or the tests above prove nothing.
#[test]
fn without_integrity_the_same_bytes_are_served_wrong() {
    let tank = Tank::new("5", 3, &[]);
    spoil(&tank.drives[0], &[300, 301, 900, 1200]);
    let serve = tank.place.serve(&tank.drives());
    assert!(!is_right(&mut serve.client("tank"), &tank.source));
    assert_eq!(counted(&tank.place.status("tank"), "verified"), []);
}

#[test]
fn without_redundancy_a_read_of_what_rotted_is_an_error() {
    for level in ["0", "jbod"] {
        let tank = Tank::new(level, 2, &["--integrity"]);
        spoil(&tank.drives[0], &[7]);
        let serve = tank.place.serve(&tank.drives());
        let mut client = serve.client("tank");
        let reads = tank.source.chunks(4096).take(4096).enumerate();
        let mut errors = 0;
        for (index, part) in reads {
            match client.try_read((index * 4096) as u64, 4096).expect("it answers") {
                Ok(read) => assert!(read == part, "block {index} is as it was written"),
                Err(_) => errors += 1,
            }
        }
        assert_eq!(errors, 1, "RAID {level}: of the one that rotted");
        assert_eq!(counted(&tank.place.status("tank"), "wrong"), [(tank.drives[0].clone(), 1)]);
        // After a new write the bytes are right again.
        write_all(&mut client, &tank.source);
        assert!(is_right(&mut client, &tank.source));
        // Or the bytes are accepted as they are, by command.
        tank.place.ok(&["stop", "tank", "--force"]);
        serve.ended_well();
        spoil(&tank.drives[0], &[7]);
        let serve = tank.place.serve(&[&tank.drives()[..], &["--forget-checksums"]].concat());
        let mut client = serve.client("tank");
        assert!(!is_right(&mut client, &tank.source), "what is there now");
        assert_eq!(counted(&tank.place.status("tank"), "wrong"), []);
    }
}

/// All changes of members, and all kinds of writes: no right byte is called wrong, and new members are checked too.
#[test]
fn members_come_and_go_with_their_checksums() {
    let mut tank = Tank::new("5", 4, &["--integrity"]);
    let spares = ["s0", "s1"].map(|name| {
        let path = tank.place.path(name);
        std::fs::File::create(&path).and_then(|file| file.set_len(16 << 20)).expect("an image");
        path.to_str().expect("a plain path").to_owned()
    });
    let drives = tank.drives.clone();
    let place = &tank.place;
    let serve = place.serve(&tank.drives());
    let mut client = serve.client("tank");
    let small = vec![0x5a; 8192];
    // The member leaves and returns by the bitmap, with writes meanwhile.
    place.ok(&["fail", "tank", &drives[1], "-y"]);
    client.send_writes(&[(40 << 12, small.clone())]).expect("it listens");
    assert_eq!(client.reply().expect("an answer"), (0, 0));
    tank.source[40 << 12..][..8192].copy_from_slice(&small);
    place.ok(&["remove", "tank", &drives[1]]);
    place.ok(&["add", "tank", &drives[1], "--wait"]);
    place.settled("tank");
    // The member is rebuilt on a new drive, and copied to another one.
    place.ok(&["fail", "tank", &drives[2], "-y"]);
    place.ok(&["remove", "tank", &drives[2]]);
    place.ok(&["add", "tank", &spares[0], "--wait"]);
    place.settled("tank");
    place.ok(&["replace", "tank", &drives[3], &spares[1], "--wait"]);
    place.settled("tank");
    // A trim of parts of the first and last stripe reads as zeros.
    place.ok(&["trim", "tank", "--range", "4100K:2M", "--force"]);
    tank.source[4100 << 10..(4100 << 10) + 2 * MIB].fill(0);
    assert!(is_right(&mut client, &tank.source), "nothing was lost");
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains(" 0 sectors with mismatches"));
    assert_eq!(counted(&place.status("tank"), "wrong"), []);
    place.ok(&["remove", "tank", &drives[3]]);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    tank.drives = vec![drives[0].clone(), drives[1].clone(), spares[0].clone(), spares[1].clone()];
    tank.drives.iter().zip([350, 450, 550, 650]).for_each(|(drive, page)| spoil(drive, &[page]));
    let serve = tank.place.serve(&tank.drives());
    let mut client = serve.client("tank");
    assert!(is_right(&mut client, &tank.source), "healed on every one of them");
    tank.place.ok(&["scrub", "tank", "--wait"]);
    let status = tank.place.status("tank");
    let mut wrong = counted(&status, "wrong");
    wrong.sort();
    let mut expected: Vec<(String, u64)> = tank.drives.iter().map(|drive| (drive.clone(), 1)).collect();
    expected.sort();
    assert_eq!(wrong, expected);
}

/// Clients need no knowledge of blocks. They read and write single sectors, side by side at the same time, with all members and
/// without one. Checksums and redundancy are right afterwards.
#[test]
fn single_sectors_are_served() {
    for (level, count) in [("5", 4), ("6", 5), ("1", 2), ("0", 3)] {
        let mut tank = Tank::new(level, count, &["--integrity"]);
        let serve = tank.place.serve(&tank.drives());
        if let Some(info) = support::run_tool("nbdinfo", &["--json", serve.uri("tank")]) {
            assert!(info.contains("\"block_size_minimum\": 512") && info.contains("\"block_size_preferred\": 4096"), "{info}");
        }
        let mut client = serve.client("tank");
        for round in 0..6_usize {
            if round == 3 && level != "0" {
                tank.place.ok(&["fail", "tank", &tank.drives[0], "-y"]);
            }
            // Runs of one to five sectors that touch each other and share blocks, each sent once, in random order.
            let (mut writes, mut at, mut step) = (Vec::new(), round * 512, 0);
            while writes.len() < 120 {
                let len = 512 * (1 + (step * 7 + round) % 5);
                writes.push((at as u64, vec![(round * 40 + step) as u8; len]));
                at += len + 512 * (step % 3);
                step += 1;
            }
            let half = writes.len() / 2;
            writes = (0..half).flat_map(|index| [writes[index].clone(), writes[half + index].clone()]).collect();
            client.send_writes(&writes).expect("it listens");
            writes.iter().for_each(|_| assert_eq!(client.reply().expect("an answer").1, 0));
            for (at, bytes) in &writes {
                tank.source[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            for (at, len) in [(512, 512), (round * 1536, 7 * 512), (4096 - 512, 1024)] {
                assert!(
                    client.read(at as u64, len).expect("an answer") == tank.source[at..at + len],
                    "RAID {level}: {len} at {at}"
                );
            }
        }
        assert!(is_right(&mut client, &tank.source), "RAID {level}: nothing beside what was written has changed");
        assert!(client.flush().expect("an answer"));
        if level != "0" {
            // A member is missing, so nothing can be compared; the checksums of the others are looked at all the same.
            let scrubbed = tank.place.run(&["scrub", "tank", "--wait"]);
            assert_eq!(scrubbed.code, 3, "{scrubbed:?}");
        }
        assert_eq!(counted(&tank.place.status("tank"), "wrong"), []);
        drop(client);
        tank.place.ok(&["stop", "tank", "--force"]);
        serve.ended_well();
    }
}
