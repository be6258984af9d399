//! Goal: every byte of an image reaches the controller once, in order, in parts that it takes, and each answer is told for what it is.
//! Method: a controller that stands where the kernel does, and reads the commands as the kernel gets them.

use super::*;
use crate::admin::COMMAND_BYTES;
use rustix::io::Errno;
use std::cell::RefCell;

/// A controller by the book: it keeps what it was sent, and is as particular as a drive.
struct Standin {
    identity: Vec<u8>,
    log: Vec<u8>,
    image: RefCell<Vec<u8>>,
    parts: RefCell<Vec<usize>>,
    commits: RefCell<Vec<u32>>,
    /// The status of a commit.
    commit_status: u16,
    /// The part that is refused, and its status.
    refuses: Option<(usize, u16)>,
}

impl Standin {
    /// FRMW: slot 1 read-only, three slots, activation without a reset.
    fn new() -> Self {
        let (mut identity, mut log) = (vec![0; 4096], vec![0; 512]);
        identity[64..72].copy_from_slice(b"1.0     ");
        identity[256] = 1 << 2;
        identity[260] = 1 | 3 << 1 | 1 << 4;
        identity[262..264].copy_from_slice(&25_u16.to_le_bytes());
        identity[319] = 2;
        log[0] = 1 | 2 << 4;
        log[8..16].copy_from_slice(b"1.0     ");
        log[16..24].copy_from_slice(b"1.1     ");
        let empty = || RefCell::new(Vec::new());
        Self {
            identity,
            log,
            image: empty(),
            parts: RefCell::default(),
            commits: RefCell::default(),
            commit_status: 0,
            refuses: None,
        }
    }
}

impl Controller for Standin {
    fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno> {
        let word = |at: usize| u32::from_ne_bytes(command[at..at + 4].try_into().expect("four bytes"));
        let (word_10, word_11) = (word(40), word(44));
        match (command[0], word_10 & 0xff) {
            (0x06, 1) => data.copy_from_slice(&self.identity),
            (0x02, 0x03) => data.copy_from_slice(&self.log),
            (0x11, _) => {
                assert_eq!(data.len(), (word_10 as usize + 1) * 4, "the length in words less one");
                assert_eq!(word_11 as usize * 4, self.image.borrow().len(), "the parts follow one another");
                if let Some((part, status)) = self.refuses.filter(|(part, _)| *part == self.parts.borrow().len()) {
                    assert!(part > 0);
                    return Ok(status);
                }
                self.parts.borrow_mut().push(data.len());
                self.image.borrow_mut().extend_from_slice(data);
            }
            (0x10, _) => {
                assert!(word(64) >= 120_000 + 2500, "the kernel waits as long as the drive may take");
                self.commits.borrow_mut().push(word_10);
                return Ok(self.commit_status);
            }
            other => panic!("no command of an update: {other:?}"),
        }
        Ok(0)
    }
}

fn image(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at / 4) ^ at) as u8).collect()
}

fn drive() -> &'static Path {
    Path::new("/dev/nvme0n1")
}

#[test]
fn what_a_drive_says_of_its_firmware_comes_from_its_places() {
    let found = look(drive(), &Standin::new()).expect("an answer");
    assert_eq!((found.revision.as_str(), found.active_slot, found.next_slot), ("1.0", 1, Some(2)));
    assert_eq!(found.slots, ["1.0", "1.1", ""]);
    assert!(found.first_is_read_only && found.activates_at_once);
    assert_eq!((found.pause, found.part_bytes), (Duration::from_millis(2500), 8192));
}

#[test]
fn an_image_goes_over_in_parts_and_is_committed_last() {
    let standin = Standin::new();
    let sent = image(3 * 8192 + 12);
    assert_eq!(store(drive(), &standin, &sent, Some(3), true).expect("it is taken"), Activation::Running);
    assert!(*standin.image.borrow() == sent);
    assert_eq!(*standin.parts.borrow(), [8192, 8192, 8192, 12]);
    assert_eq!(*standin.commits.borrow(), [3 | 3 << 3], "slot 3, at once");

    let standin = Standin { commit_status: 0x111, ..Standin::new() };
    assert_eq!(store(drive(), &standin, &sent, None, false).expect("it is taken"), Activation::ControllerReset);
    assert_eq!(*standin.commits.borrow(), [1 << 3], "the slot that the drive chooses, at the next reset");
    for (status, activation) in
        [(0x10b, Activation::PowerCycle), (0x110, Activation::PowerCycle), (0x112, Activation::ControllerReset)]
    {
        let standin = Standin { commit_status: status, ..Standin::new() };
        assert_eq!(store(drive(), &standin, &sent, None, true).expect("it is taken"), activation, "{status:#x}");
    }
}

#[test]
fn what_cannot_succeed_sends_no_byte() {
    let refused = |standin: &Standin, slot, at_once| {
        let words = store(drive(), standin, &image(8192), slot, at_once).expect_err("a refusal").to_string();
        assert!(standin.parts.borrow().is_empty() && standin.commits.borrow().is_empty(), "{words}");
        words
    };
    let standin = Standin::new();
    assert!(refused(&standin, Some(1), true).contains("slot 1 is read-only"));
    assert!(refused(&standin, Some(4), true).contains("its slots are 1 to 3"));
    assert!(refused(&standin, Some(0), true).contains("no firmware slot 0"));
    let mut standin = Standin::new();
    standin.identity[260] &= !(1 << 4);
    assert!(refused(&standin, None, true).contains("use --activate reset"));
    standin.identity[256] = 0;
    assert!(refused(&standin, None, false).contains("takes no firmware"));
}

#[test]
fn a_refused_part_or_image_leaves_the_firmware_as_it_was() {
    let standin = Standin { refuses: Some((1, 0x114)), ..Standin::new() };
    let words = store(drive(), &standin, &image(4 * 8192), None, true).expect_err("a refusal").to_string();
    assert!(words.contains("the image at byte 8192") && words.contains("overlap"), "{words}");
    assert!(standin.commits.borrow().is_empty(), "half an image is never committed");
    let standin = Standin { commit_status: 0x107, ..Standin::new() };
    let words = store(drive(), &standin, &image(8192), None, true).expect_err("a refusal").to_string();
    assert!(words.contains("Firmware Commit (the image is not valid"), "{words}");
}

#[test]
fn a_drive_without_a_granularity_gets_parts_of_4_kib() {
    for said in [0, 255] {
        let mut standin = Standin::new();
        standin.identity[319] = said;
        store(drive(), &standin, &image(8192 + 4), None, true).expect("it is taken");
        assert_eq!(*standin.parts.borrow(), [4096, 4096, 4], "{said}");
    }
}

#[test]
fn only_files_that_may_be_images_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    assert!(read_image(&path).expect_err("none").to_string().contains("cannot be read"));
    for bytes in [0, 6] {
        fs::write(&path, image(bytes)).expect("a file");
        assert!(read_image(&path).expect_err("a refusal").to_string().contains("unpack"), "{bytes}");
    }
    fs::write(&path, image(8)).expect("a file");
    assert_eq!(read_image(&path).expect("an image"), image(8));
    assert!(firmware(&path).expect_err("a file").to_string().contains("NVMe drives only"));
}
