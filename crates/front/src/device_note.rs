//! The array of a device, in a note in a folder and in ublk's mark in the kernel.

use std::path::{Path, PathBuf};
use std::{fs, io};
use stria_block::file_name;

/// A device's array: a file `ublk-N` or `nbd-N` with the UUID in hexadecimal digits and the name, in the form that udev imports
/// (`packaging/udev`). The name is as in `/dev/stria`: a part of the UUID follows a name that had to be changed.
pub(crate) struct Note {
    pub uuid: [u8; 16],
    pub name: String,
}

impl Note {
    /// The path of a device's note. `kind`: `ublk` or `nbd`.
    pub fn path(notes: &Path, kind: &str, id: u32) -> PathBuf {
        notes.join(format!("{kind}-{id}"))
    }

    pub fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let uuid = u128::from_str_radix(value("STRIA_UUID")?, 16).ok()?.to_be_bytes();
        Some(Self { uuid, name: value("STRIA_NAME")?.to_owned() })
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let uuid = format!("{:032x}", u128::from_be_bytes(self.uuid));
        let plain = file_name(&self.name);
        let name = if plain == self.name { plain } else { format!("{plain}-{}", &uuid[..8]) };
        fs::write(path, format!("STRIA_UUID={uuid}\nSTRIA_NAME={name}\n"))
    }

    /// Writes it. True if the device had another name before, so that udev has to look at it again.
    pub fn renames(&self, path: &Path) -> io::Result<bool> {
        let name = || Self::read(path).map(|note| note.name);
        let before = name();
        self.write(path)?;
        Ok(before.is_some() && before != name())
    }
}

/// Makes udev process a device and its partitions again. Without udev only the names are missing.
pub(crate) fn announce(device: &str) {
    let disk = Path::new("/sys/block").join(device);
    let _ = fs::write(disk.join("uevent"), "change");
    for part in fs::read_dir(&disk).into_iter().flatten().flatten().filter(|entry| entry.path().join("partition").exists()) {
        let _ = fs::write(part.path().join("uevent"), "change");
    }
}

/// The mark that a ublk device of this array carries in the kernel.
pub(crate) fn mark(uuid: &[u8; 16]) -> u64 {
    u64::from_be_bytes(uuid[..8].try_into().expect("8 bytes"))
}
