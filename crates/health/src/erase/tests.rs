//! Goal: an erasure keeps the format of a drive, reaches no other namespace, and is told for what it is.
//! Method: a controller that stands where the kernel does, and reads the commands as the kernel gets them.

use super::*;
use crate::admin::COMMAND_BYTES;
use rustix::io::Errno;
use std::cell::RefCell;

#[derive(Default)]
struct Standin {
    /// OACS, FNA, SANICAP.
    offers: (u8, u8, u8),
    /// The sanitize log: progress and status.
    sanitize: (u16, u8),
    status: u16,
    /// Opcode, namespace, word 10.
    orders: RefCell<Vec<(u8, u32, u32)>>,
}

impl Controller for Standin {
    fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno> {
        let word = |at: usize| u32::from_ne_bytes(command[at..at + 4].try_into().expect("four bytes"));
        match (command[0], word(40) & 0xff) {
            (0x06, 1) => (data[256], data[524], data[328]) = self.offers,
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

fn format(standin: &Standin, others: &[String]) -> Result<(), EraseError> {
    order(drive(), standin, plan_format(drive(), standin, 7, others)?)
}

fn sanitize(standin: &Standin, others: &[String]) -> Result<(), EraseError> {
    plan_sanitize(drive(), standin, others)?.map_or(Ok(()), |command| order(drive(), standin, command))
}

fn drive() -> &'static Path {
    Path::new("/dev/nvme0n7")
}

#[test]
fn a_format_keeps_blocks_metadata_and_protection() {
    let kept = 1 | 1 << 12 | 1 << 4 | 1 << 5 | 1 << 8;
    for (reach, kind) in [(0, 1), (1 << 2, 2)] {
        let standin = Standin { offers: (1 << 1, reach, 0), ..Standin::default() };
        format(&standin, &["nvme0n8".into()]).expect("it is done");
        assert_eq!(*standin.orders.borrow(), [(0x80, 7, kept | kind << 9)]);
    }
    let standin = Standin { offers: (1 << 1, 0, 0), status: 0x10a, ..Standin::default() };
    let words = format(&standin, &[]).expect_err("a refusal").to_string();
    assert!(words.contains("Format NVM failed (NVMe status 0x10a)"), "{words}");
}

#[test]
fn other_namespaces_are_never_erased() {
    for reach in [1, 2] {
        let standin = Standin { offers: (1 << 1, reach, 0), ..Standin::default() };
        let words = format(&standin, &["nvme0n8".into()]).expect_err("a refusal").to_string();
        assert!(words.contains("nvme0n8") && standin.orders.borrow().is_empty(), "{words}");
    }
    let standin = Standin { offers: (0, 0, 2), ..Standin::default() };
    assert!(matches!(sanitize(&standin, &["nvme0n8".into()]), Err(EraseError::Others(..))));
    assert!(standin.orders.borrow().is_empty());
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
    discard(&path).expect("it is done");
    assert!(fs::read(&path).expect("a file") == vec![0; 1 << 20]);
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).expect("a file")), 0, "it takes no space");
    assert!(matches!(check_secure_erase(&path), Err(EraseError::NotNvme(_))));
}
