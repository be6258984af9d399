//! Goal: what only NVMe drives offer works on them, and is refused elsewhere.
//! Method: this very program runs again in a guest with emulated NVMe drives (tests/nvme).

mod common;
#[path = "../../../tests/nvme/harness.rs"]
mod nvme;

use common::*;
use std::path::Path;
use stria_drive::{Access, Ring, open};

/// Says where the other half of a test runs: in the guest.
const IN_GUEST: &str = "STRIA_TEST_IN_GUEST";

const PLAIN: nvme::Drive = nvme::Drive { bytes: 64 << 20, options: "" };
const LARGE_BLOCKS: nvme::Drive = nvme::Drive { bytes: 64 << 20, options: ",logical_block_size=4096,physical_block_size=4096" };

/// Not a test of its own: the guest's half of the next one.
#[test]
fn in_the_guest_drives_keep_what_is_written() {
    if std::env::var_os(IN_GUEST).is_none() {
        return;
    }
    let ring = Ring::new().unwrap();
    for path in ["/dev/nvme0n1", "/dev/nvme1n1"] {
        let mut drive = open(Path::new(path), &ring, Access::Exclusive).unwrap();
        write(&ring, &mut drive, 8, &[7; 8192]).unwrap();
        assert!(read(&ring, &mut drive, 8, 16).unwrap() == [7; 8192]);
    }
}

#[test]
fn nvme_drives_of_either_block_size() {
    if nvme::wanted() {
        let script = format!("{IN_GUEST}=1 $P0 --exact in_the_guest_drives_keep_what_is_written --nocapture");
        let output = nvme::run("drives", &[PLAIN, LARGE_BLOCKS], 1, &[], &script);
        assert!(output.contains("test result: ok. 1 passed"), "{output}");
    }
}
