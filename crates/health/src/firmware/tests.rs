//! Goal: every byte of an image reaches the controller once, in order, in parts that it takes, and each answer is told for what
//! it is. Method: a controller that stands where the kernel does, and reads the commands as the kernel gets them.

use super::*;
use crate::admin::COMMAND_BYTES;
use crate::book;
use rustix::io::Errno;
use std::cell::RefCell;

/// A controller by the book: it keeps what it was sent, and is as particular as a drive.
struct Standin {
    identity: Vec<u8>,
    log: Vec<u8>,
    image: RefCell<Vec<u8>>,
    parts: RefCell<Vec<usize>>,
    commits: RefCell<Vec<u32>>,
    /// The answer to a commit.
    commit: Result<u16, Errno>,
    /// Identity and log of firmware slots from the first commit on: others, or no answer. `None`: as before.
    after: Option<Option<(Vec<u8>, Vec<u8>)>>,
    /// The part that is refused, and its status.
    refuses: Option<(usize, u16)>,
}

impl Standin {
    /// FRMW: slot 1 read-only, three slots, activation without a reset.
    fn new() -> Self {
        let mut log = vec![0; 512];
        let identity = book::identity(&[
            ("FR", b"1.0     "),
            ("OACS", &[1 << 2, 0]),
            ("FRMW", &[1 | 3 << 1 | 1 << 4]),
            ("MTFA", &25_u16.to_le_bytes()),
            ("FWUG", &[2]),
        ]);
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
            commit: Ok(0),
            after: None,
            refuses: None,
        }
    }
}

impl Controller for Standin {
    fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno> {
        let word = |at: usize| u32::from_ne_bytes(command[at..at + 4].try_into().expect("four bytes"));
        let (word_10, word_11) = (word(40), word(44));
        let (identity, log) = match self.after.as_ref().filter(|_| !self.commits.borrow().is_empty()) {
            Some(Some((identity, log))) => (identity, log),
            Some(None) => return Err(Errno::TIMEDOUT),
            None => (&self.identity, &self.log),
        };
        match (command[0], word_10 & 0xff) {
            (0x06, 1) => data.copy_from_slice(identity),
            (0x02, 0x03) => data.copy_from_slice(log),
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
                return self.commit;
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

    let standin = Standin { commit: Ok(0x111), ..Standin::new() };
    assert_eq!(store(drive(), &standin, &sent, None, false).expect("it is taken"), Activation::ControllerReset);
    assert_eq!(*standin.commits.borrow(), [1 << 3], "the slot that the drive chooses, at the next reset");
    for (status, activation) in
        [(0x10b, Activation::PowerCycle), (0x110, Activation::PowerCycle), (0x112, Activation::ControllerReset)]
    {
        let standin = Standin { commit: Ok(status), ..Standin::new() };
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
    book::set(&mut standin.identity, "FRMW", &[1 | 3 << 1]);
    assert!(refused(&standin, None, true).contains("use --activate reset"));
    book::set(&mut standin.identity, "OACS", &[0, 0]);
    assert!(refused(&standin, None, false).contains("takes no firmware"));
}

#[test]
fn a_refused_part_or_image_leaves_the_firmware_as_it_was() {
    let standin = Standin { refuses: Some((1, 0x114)), ..Standin::new() };
    let words = store(drive(), &standin, &image(4 * 8192), None, true).expect_err("a refusal").to_string();
    assert!(words.contains("the image at byte 8192") && words.contains("overlap"), "{words}");
    assert!(words.ends_with("the drive did not take the image, and 1.0 runs on"), "{words}");
    assert!(standin.commits.borrow().is_empty(), "half an image is never committed");
    let standin = Standin { commit: Ok(0x107), ..Standin::new() };
    let words = store(drive(), &standin, &image(8192), None, true).expect_err("a refusal").to_string();
    assert!(words.contains("Firmware Commit failed (the image is not valid"), "{words}");
    assert!(words.ends_with("1.0 runs on, and the firmware slots are unchanged"), "{words}");
}

/// The text of a failed commit once said that the firmware was unchanged, also after a time-out of one that activates at once.
#[test]
fn a_commit_without_an_answer_is_followed_by_a_look_at_what_runs() {
    let words_after = |after| {
        let standin = Standin { commit: Err(Errno::TIMEDOUT), after, ..Standin::new() };
        store(drive(), &standin, &image(8192), Some(2), true).expect_err("no answer").to_string()
    };
    let mut activated = Standin::new();
    book::set(&mut activated.identity, "FR", b"1.2     ");
    activated.log[0] = 2;
    activated.log[16..24].copy_from_slice(b"1.2     ");
    let words = words_after(Some(Some((activated.identity, activated.log))));
    assert!(words.ends_with("1.2 runs now, after 1.0 (slot 1: 1.0, slot 2: 1.2, slot 3: empty)"), "{words}");
    let mut stored = Standin::new();
    stored.log[0] = 1 | 3 << 4;
    stored.log[24..32].copy_from_slice(b"1.2     ");
    let words = words_after(Some(Some((stored.identity, stored.log))));
    assert!(words.contains("slot 3: 1.2; slot 3 runs after the next reset"), "{words}");
    let words = words_after(Some(None));
    assert!(words.contains("it is unknown which firmware runs") && !words.contains("unchanged"), "{words}");
    assert!(words_after(None).contains("1.0 runs on, and the firmware slots are unchanged"));
}

#[test]
fn a_drive_without_a_granularity_gets_parts_of_4_kib() {
    for said in [0, 255] {
        let mut standin = Standin::new();
        book::set(&mut standin.identity, "FWUG", &[said]);
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
