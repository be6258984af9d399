//! Goal: an erasure keeps the format of a drive, reaches no other namespace, and is told for what it is.
//! Method: a controller that stands where the kernel does, and reads the commands as the kernel gets them.

use super::*;
use crate::admin::COMMAND_BYTES;
use crate::book;
use rustix::io::Errno;
use std::cell::RefCell;

#[derive(Default)]
struct Standin {
    /// OACS, FNA, SANICAP.
    offers: (u8, u8, u8),
    /// The sanitize log: progress and status.
    sanitize: (u16, u8),
    status: u16,
    /// The numbers of all namespaces of the subsystem; none: it does not know that list.
    namespaces: Vec<u32>,
    /// Opcode, namespace, word 10.
    orders: RefCell<Vec<(u8, u32, u32)>>,
}

impl Controller for Standin {
    fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno> {
        let word = |at: usize| u32::from_ne_bytes(command[at..at + 4].try_into().expect("four bytes"));
        match (command[0], word(40) & 0xff) {
            (0x06, 1) => {
                let (commands, reach, sanitize) = self.offers;
                let fields: [(&str, &[u8]); 3] = [("OACS", &[commands]), ("FNA", &[reach]), ("SANICAP", &[sanitize])];
                data.copy_from_slice(&book::identity(&fields));
            }
            (0x06, 0x10) => {
                assert_eq!((word(4), data.len()), (0, 4096), "those above number 0");
                if self.namespaces.is_empty() {
                    return Ok(0x02);
                }
                for (place, number) in data.chunks_exact_mut(4).zip(&self.namespaces) {
                    place.copy_from_slice(&number.to_le_bytes());
                }
            }
            // Format 17, metadata within the data, protection of type 1 before the block.
            (0x06, 0) => {
                assert_eq!(word(4), 7);
                (data[26], data[29]) = (1 | 1 << 4 | 1 << 5, 1 | 1 << 3);
            }
            (0x02, 0x81) => {
                data[..2].copy_from_slice(&self.sanitize.0.to_le_bytes());
                data[2] = self.sanitize.1;
            }
            (0x80 | 0x84, _) => {
                self.orders.borrow_mut().push((command[0], word(4), word(40)));
                return Ok(self.status);
            }
            other => panic!("no command of an erasure: {other:?}"),
        }
        Ok(0)
    }
}

/// `others`: what sysfs tells.
fn format(standin: &Standin, others: &[&str]) -> Result<(), EraseError> {
    order(drive(), standin, plan_format(drive(), standin, 7, || Ok(texts(others)))?)
}

fn sanitize(standin: &Standin, others: &[&str]) -> Result<(), EraseError> {
    let command = plan_sanitize(drive(), standin, 7, || Ok(texts(others)))?;
    command.map_or(Ok(()), |command| order(drive(), standin, command))
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn drive() -> &'static Path {
    Path::new("/dev/nvme0n7")
}

#[test]
fn a_format_keeps_blocks_metadata_and_protection() {
    let other_bits = 1 | 1 << 12 | 1 << 4 | 1 << 5 | 1 << 8;
    for (reach, kind) in [(0, 1), (1 << 2, 2)] {
        let standin = Standin { offers: (1 << 1, reach, 0), ..Standin::default() };
        format(&standin, &["nvme0n8"]).expect("it is done");
        assert_eq!(*standin.orders.borrow(), [(0x80, 7, other_bits | kind << 9)]);
    }
    let standin = Standin { offers: (1 << 1, 0, 0), status: 0x10a, ..Standin::default() };
    let words = format(&standin, &[]).expect_err("a refusal").to_string();
    assert!(words.contains("Format NVM failed (NVMe status 0x10a)"), "{words}");
}

#[test]
fn other_namespaces_are_never_erased() {
    for reach in [1, 2] {
        let standin = Standin { offers: (1 << 1, reach, 0), ..Standin::default() };
        let words = format(&standin, &["nvme0n8"]).expect_err("a refusal").to_string();
        assert!(words.contains("nvme0n8") && standin.orders.borrow().is_empty(), "{words}");
    }
    let standin = Standin { offers: (0, 0, 2), ..Standin::default() };
    assert!(matches!(sanitize(&standin, &["nvme0n8"]), Err(EraseError::Others(..))));
    assert!(standin.orders.borrow().is_empty());
}

/// A Sanitize erases the whole subsystem. The other namespaces were once counted below one controller in sysfs, and a folder that
/// could not be read counted as none.
#[test]
fn the_drive_lists_namespaces_that_no_controller_here_reaches_and_silence_is_no_empty_list() {
    let with = |namespaces: &[u32]| Standin { offers: (1 << 1, 1, 2), namespaces: namespaces.to_vec(), ..Standin::default() };
    let unreadable = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
    let hidden = with(&[3, 7]);
    for words in [sanitize(&hidden, &[]), format(&hidden, &[])].map(|outcome| outcome.expect_err("a refusal").to_string()) {
        assert!(words.contains("it has others (namespace 3)"), "{words}");
    }
    let alone = with(&[7]);
    let asks_no_more = || panic!("the drive has answered");
    assert!(plan_sanitize(drive(), &alone, 7, asks_no_more).is_ok_and(|command| command.is_some()));
    // Neither no list, nor one without the namespace itself, is the answer that there are no others.
    for namespaces in [&[][..], &[3]] {
        let standin = with(namespaces);
        let refused =
            [plan_sanitize(drive(), &standin, 7, unreadable).map(drop), plan_format(drive(), &standin, 7, unreadable).map(drop)];
        for words in refused.map(|outcome| outcome.expect_err("a refusal").to_string()) {
            assert!(words.contains("it is unknown which it has") && words.contains("nothing was erased"), "{words}");
        }
        assert!(standin.orders.borrow().is_empty());
        assert!(plan_sanitize(drive(), &standin, 7, || Ok(Vec::new())).is_ok(), "sysfs tells");
    }
    // A format that reaches its own namespace alone needs to know no other.
    let narrow = Standin { offers: (1 << 1, 0, 0), ..Standin::default() };
    assert!(plan_format(drive(), &narrow, 7, unreadable).is_ok());
}

#[test]
fn a_drive_that_cannot_unmap_and_zero_is_found_before_a_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = |discards: &str, zeroes: &str| {
        let queue = folder.path().join("dev/block/8:0/queue");
        fs::create_dir_all(&queue).expect("a folder");
        fs::create_dir_all(queue.join("../../8:0/sda1")).expect("a folder");
        fs::write(queue.join("../sda1/partition"), "1\n").expect("a file");
        fs::write(queue.join("discard_max_bytes"), discards).expect("a file");
        fs::write(queue.join("write_zeroes_max_bytes"), zeroes).expect("a file");
        what_lacks(folder.path(), rustix::fs::makedev(8, 0)).expect("sysfs tells")
    };
    assert_eq!(queue("0\n", "4096\n"), Some("it takes no discards"));
    assert_eq!(queue("4096\n", "0\n"), Some("it has no command that writes zeros"));
    assert_eq!(queue("4096\n", "4096\n"), None);
    std::os::unix::fs::symlink("8:0/sda1", folder.path().join("dev/block/8:1")).expect("a link");
    assert_eq!(what_lacks(folder.path(), rustix::fs::makedev(8, 1)).expect("sysfs tells"), None, "a partition has no queue");
    assert!(what_lacks(folder.path(), rustix::fs::makedev(9, 0)).is_err());
}

#[test]
fn what_a_drive_does_not_offer_is_refused() {
    let standin = Standin::default();
    assert!(matches!(format(&standin, &[]), Err(EraseError::NotOffered(..))));
    assert!(matches!(sanitize(&standin, &[]), Err(EraseError::NotOffered(..))));
    assert!(standin.orders.borrow().is_empty());
}

#[test]
fn a_sanitize_begins_once_and_tells_how_far_it_is() {
    for (offered, word) in [(1, 4), (2, 2), (3, 2)] {
        let standin = Standin { offers: (0, 0, offered), sanitize: (0xffff, 1), ..Standin::default() };
        sanitize(&standin, &[]).expect("it begins");
        assert_eq!(*standin.orders.borrow(), [(0x84, 0, word)]);
    }
    let runs = Standin { offers: (0, 0, 2), sanitize: (0x8000, 2), ..Standin::default() };
    sanitize(&runs, &[]).expect("one runs");
    assert!(runs.orders.borrow().is_empty(), "it is not begun again");
    assert_eq!(progress(drive(), &runs).expect("an answer"), Some(50));
    let failed = Standin { offers: (0, 0, 2), sanitize: (0xffff, 3), ..Standin::default() };
    assert!(matches!(progress(drive(), &failed), Err(EraseError::Sanitize(_))));
    sanitize(&failed, &[]).expect("a failed one is repeated");
    assert_eq!(failed.orders.borrow().len(), 1);
}

#[test]
fn a_discarded_file_keeps_its_size_and_holds_zeros() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    fs::write(&path, vec![7; 1 << 20]).expect("a file");
    check_discard(&path).expect("it can");
    assert!(fs::read(&path).expect("a file") == vec![7; 1 << 20], "a check changes nothing");
    discard(&path, &path).expect("it is done");
    assert!(fs::read(&path).expect("a file") == vec![0; 1 << 20]);
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).expect("a file")), 0, "it takes no space");
    assert!(matches!(check_secure_erase(&path), Err(EraseError::NotNvme(_))));
}
