//! Goal: Linux gets the device's parameters, and a note names its array. The driver itself is tested in a guest
//! (`manage/tests/guests/ublk.rs`).

use super::uapi::CONTROL_PATH;
use super::*;

#[test]
fn limits_become_what_linux_is_told() {
    let limits = Limits {
        physical_block_bytes: 4096,
        // Three strips of 64 KiB: no power of two.
        optimal_io_bytes: 192 << 10,
        discard_granularity_bytes: 65536,
        rotational: true,
        ..Limits::plain(1001)
    };
    let set = parameters(&limits, false);
    let durable = Parameters::VOLATILE_CACHE | Parameters::FUA;
    assert_eq!(set.attributes, durable | Parameters::ROTATIONAL);
    assert_eq!((set.logical_block_shift, set.physical_block_shift, set.io_min_shift, set.io_best_shift), (9, 12, 12, 16));
    assert_eq!((set.sectors, set.discard_granularity_bytes), (1001, 65536));
    assert_eq!((set.io_sectors_max, set.discard_sectors_max, set.zeroes_sectors_max), (2048, 131_072, 131_072));

    let set = parameters(&Limits { logical_block_bytes: 4096, ..Limits::plain(1001) }, true);
    assert_eq!(set.attributes, durable | Parameters::READ_ONLY);
    assert_eq!((set.logical_block_shift, set.physical_block_shift, set.io_best_shift), (12, 12, 12), "never below the block");
    assert_eq!(set.sectors, 1000, "whole blocks");
    assert_eq!((set.discard_sectors_max, set.zeroes_sectors_max), (0, 0), "nothing that writes");
    assert_ne!(set.discard_granularity_bytes, 0, "the driver refuses 0");
}

#[test]
fn a_note_names_the_array_of_a_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = folder.path().join("made");
    let uuid = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];
    assert!(Note::read(&note_path(&notes, 7)).is_none());
    for (name, noted) in [("tank", "tank"), ("my tank\nSTRIA_UUID=ff", "my_tank_STRIA_UUID_ff-00010203")] {
        Note { uuid, name: name.into() }.write(&note_path(&notes, 7)).expect("written");
        let note = Note::read(&note_path(&notes, 7)).expect("a note");
        assert_eq!((note.uuid, note.name.as_str()), (uuid, noted));
    }
    // udev has to look again only if the name changes.
    let renames = |name: &str| Note { uuid, name: name.into() }.renames(&note_path(&notes, 7)).expect("written");
    assert!(renames("lake") && !renames("lake") && renames("tank"));
    fs::remove_file(note_path(&notes, 7)).expect("it is there");
    assert!(!renames("tank"), "a device without a note has no name to lose");
    for damaged in ["", "x", "STRIA_NAME=tank", "STRIA_UUID=zz\nSTRIA_NAME=tank", "STRIA_UUID=01\nSTRIA_NAME=tank"] {
        fs::write(note_path(&notes, 7), damaged).expect("written");
        assert!(Note::read(&note_path(&notes, 7)).is_none_or(|note| note.uuid != uuid), "{damaged:?}");
    }
    assert_eq!(mark(&uuid), 0x0001_0203_0405_0607);
}

#[test]
fn without_the_driver_the_remedy_is_named() {
    if Path::new(CONTROL_PATH).exists() {
        return;
    }
    let error = list(Path::new("/nowhere")).expect_err("there is no driver").to_string();
    assert!(error.contains("modprobe ublk_drv") && error.contains("Linux 6.5") && error.contains("NBD"), "{error}");
}
