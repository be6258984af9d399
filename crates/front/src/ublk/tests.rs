//! Goal: Linux gets the device's parameters, and a note names its array. The driver itself is tested in a guest
//! (`manage/tests/guests/ublk.rs`).

use super::driver::difference;
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

/// Bug: the device of an array that had lost its rotational drives, or the only one that cannot unmap, was refused.
#[test]
fn a_device_is_taken_over_with_other_drives_and_not_as_another_disk() {
    let large = Limits { logical_block_bytes: 4096, physical_block_bytes: 4096, ..Limits::plain(1001) };
    let full = Limits {
        physical_block_bytes: 16384,
        optimal_io_bytes: 192 << 10,
        discard_granularity_bytes: 65536,
        rotational: true,
        ..Limits::plain(1001)
    };
    let of = |device: (&Limits, bool), array: (&Limits, bool)| {
        difference(&parameters(device.0, device.1), &parameters(array.0, array.1)).unwrap_or_default()
    };
    let plain = Limits::plain(1001);
    assert_eq!(of((&full, false), (&plain, false)), "");
    assert_eq!(of((&plain, false), (&full, false)), "");
    assert_eq!(of((&plain, true), (&full, true)), "");
    assert_eq!(of((&large, false), (&plain, false)), "", "the drives with large blocks are lost");
    assert_eq!(of((&plain, false), (&large, false)), "its blocks have 512 bytes, and those of the array 4096");
    assert_eq!(of((&plain, false), (&Limits::plain(1002), false)), "its size is 1001 sectors, and that of the array 1002");
    assert_eq!(of((&large, false), (&Limits::plain(992), false)), "its size is 1000 sectors, and that of the array 992");
    assert_eq!(of((&plain, true), (&plain, false)), "it is read-only, and the array is writable");
    assert_eq!(of((&plain, false), (&plain, true)), "it is writable, and the array is read-only");
    let mut unflushed = parameters(&plain, false);
    unflushed.attributes &= !Parameters::FUA;
    assert!(difference(&unflushed, &parameters(&plain, false)).is_some());
    let text = UblkError::Different { id: 3, what: "it is small".into() }.to_string();
    assert!(text.contains("it is small") && text.contains("stria ublk remove 3"), "{text}");
}

#[test]
fn a_note_names_the_array_of_a_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = folder.path().join("made");
    let uuid = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];
    assert!(Note::read(&note_path(&notes, 7)).is_none());
    for (name, noted) in [("tank", "tank"), ("my tank\nSTRIA_UUID=ff", "my_tank_STRIA_UUID_ff-00010203")] {
        Note { uuid, name: name.into() }.renames(&note_path(&notes, 7), "", replace).expect("written");
        let note = Note::read(&note_path(&notes, 7)).expect("a note");
        assert_eq!((note.uuid, note.name.as_str()), (uuid, noted));
    }
    // udev has to look again only if the name changes.
    let renames = |name: &str| Note { uuid, name: name.into() }.renames(&note_path(&notes, 7), "", replace).expect("written");
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
