//! Goal: when the file system under all images of an array is full, clients get "no space". No member is dropped for it, nothing
//! hangs, acknowledged data is there, `stop` works, and writes go on once there is space.
//! Method: the images lie on a small file system (tmpfs; ext4 on a loop device for root) in a mount namespace of the test.
//! Several clients write stamped blocks until the space is used up. `STRIA_FULL_SEED` replays a run, `STRIA_FULL_ROUNDS` makes
//! more. Needs a mount namespace: root, or user namespaces.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::nbd::Client;
use support::{Place, Serve, may_skip};

/// NBD's ENOSPC.
const NO_SPACE: u32 = 28;
const BLOCK: usize = 4096;
const SECTOR: usize = 512;
const MEMBER_BYTES: u64 = 40 << 20;
const CLIENTS: usize = 4;
/// An answer that takes longer counts as a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// xorshift64*.
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }
}

/// The content of a block of a version. Version 0 is the content before any write: zeros.
fn stamp(block: u64, version: u64) -> u64 {
    if version == 0 { 0 } else { (block << 24 | version).wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

/// A client with its own part of the array, and what it knows of its blocks.
struct Writer {
    first_block: u64,
    /// By block: the versions that each of its sectors may have.
    possible: Vec<Vec<u64>>,
    /// The versions that acknowledged writes have replaced since the last flush.
    replaced: Vec<(usize, Vec<u64>)>,
    version: u64,
    chance: Chance,
}

impl Writer {
    fn client(serve: &Serve) -> Client {
        let mut client = serve.client("tank");
        client.waits_at_most(PATIENCE);
        client
    }

    /// Sends some writes at once that do not overlap. Returns how many had no space.
    fn write(&mut self, client: &mut Client) -> usize {
        let count = 1 + self.chance.below(8) as usize;
        let mut writes: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut parts: Vec<(usize, usize, u64)> = Vec::new();
        while parts.len() < count {
            let blocks = [1, 1, 2, 8, 16, 48][self.chance.below(6) as usize];
            let at = self.chance.below((self.possible.len() - blocks) as u64) as usize;
            if parts.iter().any(|&(start, len, _)| at < start + len && start < at + blocks) {
                continue;
            }
            self.version += 1;
            let bytes = (at..at + blocks)
                .flat_map(|block| stamp(self.first_block + block as u64, self.version).to_le_bytes().repeat(BLOCK / 8));
            writes.push(((self.first_block + at as u64) * BLOCK as u64, bytes.collect()));
            parts.push((at, blocks, self.version));
        }
        client.send_writes(&writes).expect("they are taken");
        let mut refused = 0;
        for _ in 0..count {
            let (cookie, error) = client.reply().expect("an answer, and in time");
            let (at, blocks, version) = parts[cookie as usize];
            assert!(error == 0 || error == NO_SPACE, "a write of {blocks} blocks at block {at}: error {error}");
            refused += usize::from(error != 0);
            for block in at..at + blocks {
                let possible = &mut self.possible[block];
                match error {
                    0 => self.replaced.push((block, std::mem::replace(possible, vec![version]))),
                    _ => possible.push(version),
                }
            }
        }
        refused
    }

    /// Flushes; true if that succeeded. If not, writes that were acknowledged before it may be lost.
    fn flush(&mut self, client: &mut Client) -> bool {
        let error = client.try_flush().expect("an answer, and in time");
        assert!(error == 0 || error == NO_SPACE, "a flush: error {error}");
        for (block, before) in std::mem::take(&mut self.replaced) {
            if error != 0 {
                self.possible[block].extend(before);
            }
        }
        error == 0
    }

    /// Writes until `enough` writes had no space.
    fn fill(&mut self, serve: &Serve, enough: usize) {
        let mut client = Self::client(serve);
        let mut refused = 0;
        while refused < enough {
            refused += self.write(&mut client);
            if self.chance.below(8) == 0 {
                self.flush(&mut client);
            }
        }
        self.flush(&mut client);
    }

    /// Writes all blocks. Every write must succeed.
    fn write_all(&mut self, serve: &Serve) {
        let mut client = Self::client(serve);
        self.version += 1;
        for start in (0..self.possible.len()).step_by(64) {
            let blocks = start..self.possible.len().min(start + 64);
            let bytes = blocks
                .clone()
                .flat_map(|block| stamp(self.first_block + block as u64, self.version).to_le_bytes().repeat(BLOCK / 8));
            client.send_writes(&[((self.first_block + start as u64) * BLOCK as u64, bytes.collect())]).expect("it is taken");
            assert_eq!(client.reply().expect("an answer, and in time").1, 0, "there is room again");
            blocks.for_each(|block| self.possible[block] = vec![self.version]);
        }
        assert_eq!(client.try_flush().expect("an answer"), 0, "there is room again");
    }

    /// Checks that all acknowledged data is there.
    fn verify(&self, serve: &Serve, when: &str) {
        let mut client = Self::client(serve);
        for start in (0..self.possible.len()).step_by(64) {
            let len = 64.min(self.possible.len() - start);
            let offset = (self.first_block + start as u64) * BLOCK as u64;
            let read = client.try_read(offset, len * BLOCK).expect("an answer, and in time").unwrap_or_else(|error| {
                let reads = |at: &usize| client.try_read(offset + (at * BLOCK) as u64, BLOCK).expect("an answer").is_err();
                let bad: Vec<_> = (0..len).filter(reads).map(|at| (start + at, &self.possible[start + at])).collect();
                panic!(
                    "{when}: a read of {len} blocks at block {start} of {}: error {error}; by itself: {bad:?}",
                    self.first_block
                )
            });
            for (index, sector) in read.chunks(SECTOR).enumerate() {
                let at = start + index * SECTOR / BLOCK;
                let block = self.first_block + at as u64;
                let holds = |version: &u64| sector.chunks(8).all(|word| word == stamp(block, *version).to_le_bytes());
                let possible = &self.possible[at];
                assert!(
                    possible.iter().any(holds),
                    "{when}: block {block} holds none of its versions {possible:?}: {:02x?}",
                    &sector[..16]
                );
            }
        }
    }
}

/// A file system that is full before the images on it have all their space.
struct Full {
    mount: PathBuf,
}

impl Full {
    /// Leaves `room_bytes` of space, besides a ballast that can be removed. `None`: no file system can be mounted here.
    fn mount(place: &Place, kind: &str, room_bytes: u64, ballast_bytes: u64) -> Option<Self> {
        let mount = place.path("full");
        std::fs::create_dir(&mount).expect("a folder");
        let size = room_bytes + ballast_bytes;
        let mounted = match kind {
            "tmpfs" => run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "none", text(&mount)]),
            _ => {
                let image = place.path("file-system");
                std::fs::File::create(&image).and_then(|file| file.set_len(size + (24 << 20))).expect("a file");
                run("mkfs.ext4", &["-q", "-m", "0", "-O", "^has_journal", text(&image)])
                    && run("mount", &["-o", "loop", text(&image), text(&mount)])
            }
        };
        if !mounted {
            return None;
        }
        let full = Self { mount };
        assert!(run("fallocate", &["-l", &ballast_bytes.to_string(), text(&full.mount.join("ballast"))]), "a ballast");
        Some(full)
    }

    fn images(&self, count: usize) -> Vec<String> {
        let image = |index| {
            let path = self.mount.join(format!("d{index}"));
            std::fs::File::create(&path).and_then(|file| file.set_len(MEMBER_BYTES)).expect("an image");
            text(&path).to_owned()
        };
        (0..count).map(image).collect()
    }

    /// Takes all space.
    fn fill_up(&self) {
        let bytes = vec![1; 1 << 20];
        for (index, len) in [1 << 20, 4096].into_iter().enumerate() {
            let mut file = std::fs::File::create(self.mount.join(format!("filler{index}"))).expect("a file");
            while std::io::Write::write_all(&mut file, &bytes[..len]).and_then(|()| file.sync_data()).is_ok() {}
        }
    }

    fn make_room(&self) {
        for name in ["ballast", "filler0", "filler1"] {
            let _ = std::fs::remove_file(self.mount.join(name));
        }
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        run("umount", &["-l", text(&self.mount)]);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    Command::new(program).args(arguments).env("PATH", path).status().is_ok_and(|status| status.success())
}

/// No member has lost its slot.
fn all_in_sync(place: &Place, when: &str) {
    let status = place.status("tank");
    let roles: Vec<&Value> = status["members"].as_array().expect("a list").iter().map(|member| &member["role"]).collect();
    assert!(roles.iter().all(|role| *role == "in sync"), "{when}: {roles:?}, {}", status["headline"]);
    assert_eq!(status["health"], "optimal", "{when}");
}

fn nobody_was_dropped(log: &str) {
    assert!(!log.contains("was dropped"), "{log}");
    assert!(log.contains("no space left"), "{log}");
}

fn story(kind: &str, level: &str, count: usize, options: &[&str], seed: u64) -> bool {
    eprintln!("{kind}, RAID {level} of {count} {options:?}, STRIA_FULL_SEED={seed}");
    let mut chance = Chance(seed | 1);
    let place = Place::new();
    let total = MEMBER_BYTES * count as u64;
    let room = total / 4 + chance.below(total / 4);
    let Some(full) = Full::mount(&place, kind, room, total - room + (8 << 20)) else { return false };
    let images = full.images(count);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", level, "--assume-clean"], options, &drives[..]].concat());
    let lanes = if options.contains(&"--integrity") { "1" } else { ["1", "2"][chance.below(2) as usize] };
    let serve_all = || place.serve(&[&drives[..], &["--lanes", lanes]].concat());
    let mut serve = serve_all();
    let blocks = serve.client("tank").size_bytes / BLOCK as u64 / CLIENTS as u64;
    let mut writers: Vec<Writer> = (0..CLIENTS as u64)
        .map(|index| Writer {
            first_block: index * blocks,
            possible: vec![vec![0]; blocks as usize],
            replaced: Vec::new(),
            version: 0,
            chance: Chance(chance.below(u64::MAX) << 8 | index << 1 | 1),
        })
        .collect();
    let fill = |serve: &Serve, writers: &mut Vec<Writer>, enough: usize| {
        std::thread::scope(|scope| writers.iter_mut().for_each(|writer| drop(scope.spawn(move || writer.fill(serve, enough)))));
    };

    fill(&serve, &mut writers, 40);
    full.fill_up();
    fill(&serve, &mut writers, 10);
    all_in_sync(&place, "full");
    writers.iter().for_each(|writer| writer.verify(&serve, "full"));

    // There is still no space at the next start. After a crash a parity array needs some to replay its log, and takes no writes
    // without.
    if chance.below(2) == 0 || ["5", "6"].contains(&level) {
        place.ok(&["stop", "tank", "--force"]);
        nobody_was_dropped(&serve.ended_well());
    } else {
        serve.kill();
    }
    serve = serve_all();
    writers.iter().for_each(|writer| writer.verify(&serve, "served again"));
    fill(&serve, &mut writers, 10);
    all_in_sync(&place, "full and served again");
    writers.iter().for_each(|writer| writer.verify(&serve, "full and served again"));

    let without = || {
        let status = place.status("tank");
        status["members"].as_array().expect("a list").iter().filter(|member| member["no_room"] == true).count()
    };
    assert!(without() > 0, "a write has just failed");
    full.make_room();
    // The file system tells, and no write. By itself the note stays for a minute.
    let end = Instant::now() + Duration::from_secs(20);
    while without() > 0 {
        assert!(Instant::now() < end, "there is space again: {}", place.status("tank")["headline"]);
        std::thread::sleep(Duration::from_millis(200));
    }
    writers.iter_mut().for_each(|writer| writer.write_all(&serve));
    writers.iter().for_each(|writer| writer.verify(&serve, "with room"));
    place.settled("tank");
    let scrubbed = place.ok(&["scrub", "tank", "--wait"]);
    assert!(scrubbed.contains(" 0 sectors with mismatches"), "{scrubbed}");
    all_in_sync(&place, "with room");
    place.ok(&["stop", "tank", "--force"]);
    nobody_was_dropped(&serve.ended_well());

    // One member is missing. The data that the others give for it is right.
    let serve = place.serve(&drives[1..]);
    writers.iter().for_each(|writer| writer.verify(&serve, "with a member less"));
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    true
}

/// Runs the test of this name again, in a mount namespace of its own. `false`: this process is that run.
fn goes_to_a_namespace(test: &str) -> bool {
    if std::env::var_os("STRIA_FULL_INSIDE").is_some() {
        return false;
    }
    let way: &[&str] = if run("unshare", &["-m", "true"]) { &["-m"] } else { &["-r", "-m"] };
    if !run("unshare", &[way, &["true"]].concat()) {
        may_skip("there is no mount namespace to be had", "run as root, or allow user namespaces");
        return true;
    }
    let this = std::env::current_exe().expect("a path");
    let ran =
        Command::new("unshare").args(way).arg(this).args(["--exact", test, "--nocapture"]).env("STRIA_FULL_INSIDE", "1").status();
    assert!(ran.expect("unshare was there").success(), "see above");
    true
}

fn stories(test: &str, levels: &[(&str, usize, &[&str])]) {
    if goes_to_a_namespace(test) {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_nanos() as u64;
    let seed = number("STRIA_FULL_SEED");
    for round in 0..number("STRIA_FULL_ROUNDS").unwrap_or(1) {
        for (index, (level, count, options)) in levels.iter().enumerate() {
            let seed = seed.unwrap_or_else(|| now.wrapping_add((round << 8 | index as u64) << 40) >> 1);
            assert!(story("tmpfs", level, *count, options, seed), "a namespace has room for tmpfs");
            if !story("ext4", level, *count, options, seed) {
                may_skip("ext4 cannot be mounted", "run as root, with loop devices");
            }
        }
    }
}

#[test]
fn full_file_system_under_parity_is_no_space_and_drops_nobody() {
    stories("full_file_system_under_parity_is_no_space_and_drops_nobody", &[("6", 5, &[]), ("5", 4, &["--strip", "16K"])]);
}

#[test]
fn full_file_system_under_copies_is_no_space_and_drops_nobody() {
    stories("full_file_system_under_copies_is_no_space_and_drops_nobody", &[("1", 2, &[]), ("10", 4, &[])]);
}

/// Writes the same blocks again, one at a time. Returns how many had no space.
fn overwrite(serve: &Serve, byte: u8, count: u64) -> usize {
    let mut client = Writer::client(serve);
    let mut refused = 0;
    for block in 0..count {
        client.send_writes(&[(block * 9 % 2048 * BLOCK as u64, vec![byte; BLOCK])]).expect("it is taken");
        let error = client.reply().expect("an answer, and in time").1;
        assert!(error == 0 || error == NO_SPACE, "error {error}");
        refused += usize::from(error != 0);
    }
    let error = client.try_flush().expect("an answer, and in time");
    assert!(error == 0 || error == NO_SPACE, "a flush: error {error}");
    refused
}

/// Copies of images have holes where there are zeros, in the metadata too. A serve allocates these, and reports those for which
/// there is no space. Then a metadata update fails there, and no member is dropped for it.
fn holes_in_metadata(level: &str, count: usize) {
    let place = Place::new();
    let full = Full::mount(&place, "tmpfs", 160 << 20, 8 << 20).expect("a namespace has room for tmpfs");
    let images = full.images(count);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", level, "--assume-clean"], &drives[..]].concat());
    let serve = place.serve(&drives);
    let mut client = Writer::client(&serve);
    let mut chance = Chance(7);
    for start in (0..8_u64 << 20).step_by(1 << 20) {
        // Neither data nor parity are zeros, which would become holes as well.
        let bytes = (0..1 << 17).flat_map(|_| (chance.below(1 << 32) << 32 | 1).to_le_bytes()).collect();
        client.send_writes(&[(start, bytes)]).expect("it is taken");
        assert_eq!(client.reply().expect("an answer").1, 0);
    }
    drop(client);
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
    // The image files are reused. The kernel closes the files of an ended process late if an io_uring had them, and the space of
    // replaced files would come free as late.
    let dig = || {
        for image in &images {
            let copy = format!("{image}.copy");
            let copied = run("cp", &["--sparse=always", image, &copy]) && run("cp", &["--sparse=always", &copy, image]);
            assert!(copied && run("rm", &[&copy]), "a copy with holes");
        }
    };

    // If the metadata was allocated at the start, a full file system fails no write that needs no further space.
    dig();
    let serve = place.serve(&drives);
    full.fill_up();
    assert_eq!(overwrite(&serve, 2, 64), 0, "what was written before has its room, and so have the metadata");
    all_in_sync(&place, "full");
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains("has stopped: clean") && !log.contains("was dropped"), "{log}");

    // If it was not, writes that need a metadata update fail, and only those.
    full.make_room();
    dig();
    full.fill_up();
    let serve = place.serve(&drives);
    let refused = overwrite(&serve, 3, 1500);
    all_in_sync(&place, "full, with holes");
    if level == "5" {
        assert!(refused > 0, "the log reaches the holes");
        let status = place.status("tank");
        assert!(status["members"].as_array().expect("a list").iter().any(|member| member["no_room"] == true), "{status:#}");
        assert!(status["headline"].as_str().is_some_and(|line| line.contains("NO SPACE on ")), "{status:#}");
        assert_eq!(place.run(&["status"]).code, 3, "writes of clients fail");
    }
    Writer::client(&serve).read(0, 8 << 20).expect("reads go on");
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains("its metadata have holes") && !log.contains("was dropped"), "{log}");

    // Space becomes free while the array is served.
    let serve = place.serve(&drives);
    overwrite(&serve, 4, 64);
    full.make_room();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(overwrite(&serve, 5, 64), 0, "there is room");
    place.settled("tank");
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains(" 0 sectors with mismatches"));
    all_in_sync(&place, "with room");
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains("has stopped: clean") && !log.contains("was dropped"), "{log}");
}

#[test]
fn metadata_have_their_room_and_cost_nobody_its_role_without() {
    if goes_to_a_namespace("metadata_have_their_room_and_cost_nobody_its_role_without") {
        return;
    }
    for (level, count) in [("5", 3), ("1", 2), ("10", 4)] {
        eprintln!("RAID {level}");
        holes_in_metadata(level, count);
    }
}

/// The space of a successor's metadata is found before the failed member leaves the list. Before, the refusal came after that.
#[test]
fn a_failed_member_stays_listed_if_its_successor_has_no_space() {
    if goes_to_a_namespace("a_failed_member_stays_listed_if_its_successor_has_no_space") {
        return;
    }
    let place = Place::new();
    let full = Full::mount(&place, "tmpfs", 160 << 20, 8 << 20).expect("a namespace has room for tmpfs");
    let images = full.images(2);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &drives[..]].concat());
    let _serve = place.serve(&drives);
    place.ok(&["fail", "tank", drives[1], "--force"]);
    // The lost file keeps its space.
    std::fs::rename(drives[1], format!("{}.lost", drives[1])).expect("another name");
    std::fs::File::create(drives[1]).and_then(|file| file.set_len(MEMBER_BYTES)).expect("another file, of holes");
    full.fill_up();
    place.run(&["add", "tank", drives[1]]).refused(1, &[drives[1], "No space left", "free space on the file system"]);
    let status = place.status("tank");
    let is_failed = |member: &Value| member["path"] == *drives[1] && member["role"] == "failed";
    assert!(status["members"].as_array().expect("a list").iter().any(is_failed), "{status:#}");
    full.make_room();
    place.ok(&["add", "tank", drives[1], "--wait"]);
    all_in_sync(&place, "with space");
}

/// A process is killed with writes in flight to ranges without space, and at the next start there is none either. `status` says
/// why the array refuses writes, flushed data is there, and with space the array is well.
#[test]
fn replay_without_space_says_why_the_array_refuses_writes() {
    if goes_to_a_namespace("replay_without_space_says_why_the_array_refuses_writes") {
        return;
    }
    let place = Place::new();
    let full = Full::mount(&place, "tmpfs", 160 << 20, 8 << 20).expect("a namespace has room for tmpfs");
    let images = full.images(3);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat());
    // Every attempt writes to blocks that no attempt before it has touched.
    let stopped_early = (0..20_u64).any(|attempt| {
        full.make_room();
        let serve = place.serve(&drives);
        let mut client = Writer::client(&serve);
        let write = |index: u64| ((attempt << 21) + index * BLOCK as u64, vec![7; BLOCK]);
        client.send_writes(&[write(0)]).expect("it is taken");
        assert_eq!(client.reply().expect("an answer").1, 0);
        assert!(client.flush().expect("an answer"));
        client.send_writes(&(1..256).map(write).collect::<Vec<_>>()).expect("they are taken");
        for _ in 0..attempt {
            let _ = client.reply();
        }
        serve.kill();
        full.fill_up();
        let serve = place.serve(&drives);
        let status = place.wait_for("tank", "the replay to end", |status| {
            status["log"]["replaying"] == false || status["unreplayed"].is_string()
        });
        let is_stopped = status["unreplayed"].is_string();
        if is_stopped {
            let headline = status["headline"].as_str().expect("a line");
            let reason = status["unreplayed"].as_str().expect("a reason");
            assert!(headline.contains("READ-ONLY") && headline.contains(reason), "{headline}");
            assert!(reason.to_lowercase().contains("no space"), "{reason}");
            assert_eq!(Writer::client(&serve).read(attempt << 21, BLOCK).expect("reads go on"), vec![7; BLOCK]);
            assert!(overwrite_is_refused(&serve), "no write is taken before the replay");
        }
        all_in_sync(&place, "without space");
        place.ok(&["stop", "tank", "--force"]);
        let log = serve.ended_well();
        assert!(!is_stopped || !log.contains("has stopped: clean"), "{log}");
        is_stopped
    });
    assert!(stopped_early, "twenty kills left nothing that needs space");
    full.make_room();
    let serve = place.serve(&drives);
    let status = place.settled("tank");
    assert!(status["unreplayed"].is_null(), "{status:#}");
    assert_eq!(overwrite(&serve, 5, 64), 0, "there is room");
    assert!(place.ok(&["scrub", "tank", "--wait"]).contains(" 0 sectors with mismatches"));
    place.ok(&["stop", "tank", "--force"]);
    serve.ended_well();
}

/// The limit on the size of files is no end of the process: the signal that comes with it ended `serve` at a client's write, and
/// `create` between two drives.
#[test]
fn a_limit_on_the_size_of_files_is_no_space() {
    let place = Place::new();
    let images = place.images(3, MEMBER_BYTES);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    let create = [&["create", "tank", "--level", "5", "--assume-clean"], &drives[..]].concat();
    let limited = |program: &Command, limit_kib: u64| {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit -f {limit_kib}; exec \"$0\" \"$@\"")]).arg(program.get_program());
        shell.args(program.get_args()).output().expect("bash is there")
    };
    let ran = limited(&place.command(&create), 4);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("ulimit -f"), "{said}");
    place.ok(&[&create[..], &["--force"]].concat());

    let serve = place.serve(&drives);
    let limit = format!("--fsize={}:", MEMBER_BYTES / 2);
    assert!(run("prlimit", &["--pid", &serve.pid().to_string(), &limit]), "prlimit is a part of util-linux");
    let mut client = Writer::client(&serve);
    let high = (MEMBER_BYTES * 3 / 2) & !0xffff;
    client.send_writes(&[(high, vec![1; 65536])]).expect("it is taken");
    assert_eq!(client.reply().expect("an answer").1, NO_SPACE);
    client.send_writes(&[(0, vec![2; 65536])]).expect("it is taken");
    assert_eq!(client.reply().expect("an answer").1, 0, "below the limit");
    all_in_sync(&place, "at the limit");
    let headline = place.status("tank")["headline"].to_string();
    assert!(headline.contains("NO SPACE"), "{headline}");
    assert!(run("prlimit", &["--pid", &serve.pid().to_string(), "--fsize=unlimited:"]), "only the soft limit was changed");
    client.send_writes(&[(high, vec![3; 65536])]).expect("it is taken");
    assert_eq!(client.reply().expect("an answer").1, 0, "without a limit");
    drop(client);
    place.ok(&["stop", "tank", "--force"]);
    let log = serve.ended_well();
    assert!(log.contains("ulimit -f"), "{log}");
}

/// A limit that is too small is told by its name: a program without memory ended with "memory allocation of 41 bytes failed".
#[test]
fn limits_on_memory_and_open_files_are_told_by_name() {
    let place = Place::new();
    let images = place.images(2, MEMBER_BYTES);
    let examine = place.command(&["examine", &images[0], &images[1]]);
    for (limit, named) in [("-v 250000", "`ulimit -v`"), ("-d 100000", "`ulimit -d`"), ("-n 4", "`ulimit -n`")] {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]).arg(examine.get_program());
        let ran = shell.args(examine.get_args()).output().expect("bash is there");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(1) && said.contains(named), "{limit}: {said}");
    }
}

/// A start asks for the threads that serving needs. Without the mend it panicked, or it served members that had no thread for a
/// flush, and said so after 30 s.
#[test]
fn a_start_without_room_for_its_threads_is_refused_with_the_limit() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: the limit counts all processes of a user, and only root may become one without any");
        return;
    }
    let place = Place::new();
    let images = place.images(2, MEMBER_BYTES);
    let drives: Vec<&str> = images.iter().map(String::as_str).collect();
    place.ok(&[&["create", "tank", "--level", "1", "--assume-clean"], &drives[..]].concat());
    // The limit counts the processes of a user. This user has no other process, and keeps root's right to open any file.
    let user = 1_000_000 + std::process::id();
    let sockets = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(sockets.path(), Some(user), Some(user)).expect("root may");
    let nbd = format!("unix:{}", sockets.path().join("nbd").display());
    let control = sockets.path().join("control").display().to_string();
    let state = sockets.path().join("state").display().to_string();
    // A process cannot end while one of its threads looks at a loop device whose file hangs, as those of other tests may.
    let alone = format!("[daemon]\nstate = \"{state}\"\nblock-devices = false\nsearch = {drives:?}\n");
    std::fs::write(place.path("stria.toml"), alone).expect("a file");
    let clean = |log: &str| {
        for image in &images {
            let examined = place.ok(&["examine", image]);
            assert!(examined.contains("State : clean"), "{log}{examined}");
        }
    };
    let serve = [&["serve"], &drives[..], &["--nbd", &nbd, "--socket", &control]].concat();
    let refusals = started_with_few_threads(&place, user, &serve, &clean);
    let is_late = |log: &String| log.contains("has stopped");
    assert!(refusals.iter().any(is_late), "no number of threads fails between the start of the array and its sockets");
    started_with_few_threads(&place, user, &["daemon", "--socket", &control], &clean);
}

/// Starts a service under ever higher limits until it runs, and checks how each start ends. Returns the words of the refusals.
fn started_with_few_threads(place: &Place, user: u32, arguments: &[&str], check: &dyn Fn(&str)) -> Vec<String> {
    let service = place.command(arguments);
    let (user, caps) = (user.to_string(), "+dac_override,+dac_read_search");
    let other = ["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps", caps, "--ambient-caps", caps];
    let (mut refusals, mut served) = (Vec::new(), 0);
    for threads in 1..40 {
        let limited = format!("ulimit -u {threads}; exec \"$0\" \"$@\"");
        let mut command = place.command_line("setpriv", &other);
        command.args(["bash", "-c", &limited]).arg(service.get_program()).args(service.get_args());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("setpriv is part of util-linux");
        let mut lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line.starts_with("control "));
        if is_ready {
            assert!(run("kill", &[&child.id().to_string()]), "it serves");
        }
        let begun = Instant::now();
        let output = child.wait_with_output().expect("it ends");
        let log = format!("{arguments:?}, {threads} threads: {}", String::from_utf8_lossy(&output.stderr));
        assert!(begun.elapsed() < Duration::from_secs(20), "{log}");
        assert_eq!(output.status.code(), Some(if is_ready { 0 } else { 1 }), "{log}");
        assert!(is_ready || log.contains("`ulimit -u`"), "{log}");
        assert!(!log.contains("panicked") && !log.contains("outstanding"), "{log}");
        check(&log);
        served += u32::from(is_ready);
        if served == 3 {
            return refusals;
        }
        refusals.extend((!is_ready).then_some(log));
    }
    panic!("40 threads are not enough to serve");
}

fn overwrite_is_refused(serve: &Serve) -> bool {
    let mut client = Writer::client(serve);
    client.send_writes(&[(0, vec![1; BLOCK])]).expect("it is taken");
    client.reply().expect("an answer, and in time").1 != 0
}
