//! The array of a device, in a note in a folder and in ublk's mark in the kernel.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
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

    fn text(&self) -> String {
        let uuid = format!("{:032x}", u128::from_be_bytes(self.uuid));
        let plain = file_name(&self.name);
        let name = if plain == self.name { plain } else { format!("{plain}-{}", &uuid[..8]) };
        format!("STRIA_UUID={uuid}\nSTRIA_NAME={name}\n")
    }

    /// Writes the note and the lines `more`, unless the file holds both already. Returns true if the device had another name
    /// before: udev must look at it again. `write`: [`replace`] or [`overwrite`].
    pub fn renames(&self, path: &Path, more: &str, write: impl FnOnce(&Path, &str) -> io::Result<()>) -> io::Result<bool> {
        let text = self.text() + more;
        if fs::read_to_string(path).is_ok_and(|present| present == text) {
            return Ok(false);
        }
        let before = Self::read(path).map(|note| note.name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        write(path, &text)?;
        Ok(before.is_some() && before != Self::read(path).map(|note| note.name))
    }
}

/// Writes a file. If this process is killed, the file has the old text or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().display();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, path)).inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Writes a file in place, because a lock is held on it. The file is never empty. A process that is killed meanwhile may leave
/// the end of a longer old text behind the new one.
pub(crate) fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
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
