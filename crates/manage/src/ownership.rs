//! The steps by which an array comes to belong to Stria on this machine, gets another name, and changes its settings while it
//! does not run.
//!
//! The command line and the API take the same steps. Each checks the configuration before a drive is written. The caller
//! notifies the daemon: a command reaches it by a socket, and the API is part of it.

pub mod foreign;
pub mod mdadm;

use crate::config::edit::Edit;
use crate::config::{Array, Block, Config, Uuid};
use crate::control::sockets::once_free;
use crate::meant::{drives, drives_of, tree};
use crate::ownership::mdadm::{keep_away, refuse_unless_it_follows};
use crate::settings::SettingsRequest;
use crate::system::udev;
use crate::words::error::{ErrorSentence, Told, Words};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use stria_block::shell_word;
use stria_drive::sysfs::{SYSFS, device_folder};
use stria_format::md::{Assembly, Verdict};
use stria_host::{OpenOptions, find, short_name};
use stria_terminal::Failure;

/// How an array is to be served. What is not given stays as the configuration has it.
#[derive(Clone, Default)]
pub struct Terms {
    /// Its name here; its own if the configuration has none either.
    pub name: Option<String>,
    /// Its block device.
    pub ublk: Option<Block>,
    /// Sockets at which it is the disk of virtual machines.
    pub vhost_user: Vec<PathBuf>,
    /// Writes are refused.
    pub read_only: bool,
    /// The number of lanes.
    pub lanes: Option<u8>,
}

/// An array that belongs to Stria now.
pub struct Adopted {
    /// Its name here.
    pub name: String,
    /// What else was done, in sentences.
    pub notes: Vec<String>,
}

/// Takes an array into the configuration at `path`, and away from mdadm.
///
/// # Errors
/// When a file cannot be changed, or another array has the name.
pub fn adopt(path: &Path, assemblies: &[Assembly], array: &Assembly, terms: Terms) -> Result<Adopted, Told> {
    let (edit, name, drives) = adoption(path, assemblies, array, terms)?;
    let mut notes = keep_away(&edit.save()?)?;
    notes.extend(take_from_linux(&drives));
    Ok(Adopted { name, notes })
}

/// The locked configuration with the array in it, the array's name here and its drives. Nothing is written yet.
///
/// # Errors
/// Those of [`adopt`].
fn adoption(path: &Path, assemblies: &[Assembly], array: &Assembly, terms: Terms) -> Result<(Edit, String, Vec<PathBuf>), Told> {
    let uuid = Uuid(array.uuid);
    let parts = tree(assemblies, array);
    let spans = parts.iter().filter(|one| one.uuid != array.uuid).map(|one| Uuid(one.uuid)).collect();
    let drives = drives_of(parts);
    let mut edit = Edit::open(path)?;
    let known = edit.before().arrays.iter().find(|known| known.uuid == uuid).cloned();
    let mut entry = Array { spans, ..known.unwrap_or_else(|| Array::new(uuid)) };
    entry.name = terms.name.or(entry.name).or_else(|| Some(short_name(&array.name).to_owned()));
    entry.ublk = terms.ublk.unwrap_or(entry.ublk);
    if !terms.vhost_user.is_empty() {
        entry.vhost_user = terms.vhost_user;
    }
    entry.read_only |= terms.read_only;
    entry.lanes = terms.lanes.or(entry.lanes);
    edit.put(&entry)?;
    edit.search(drives.iter().filter(|path| path.is_file()))?;
    refuse_unless_it_follows(&edit.check()?)?;
    edit.refuse_unwritable()?;
    Ok((edit, entry.title(), drives))
}

/// The name that a foreign array gets here: `wanted`, or its own.
///
/// # Errors
/// When it cannot start, or another array has that name.
pub fn name_of_import(config: &Config, array: &Assembly, wanted: Option<&str>) -> Result<String, Told> {
    if let Err(error) = &array.outcome {
        return Err(Words::from(error).into());
    }
    let (uuid, name) = (Uuid(array.uuid), wanted.unwrap_or(short_name(&array.name)));
    match config.arrays.iter().find(|other| other.name.as_deref() == Some(name) && other.uuid != uuid) {
        Some(other) => {
            let (name, other, array) = (name.to_owned(), other.uuid.to_string(), uuid.to_string());
            Err(ErrorSentence::NameOfAnother { name, other, array }.into())
        }
        None => Ok(name.to_owned()),
    }
}

/// True if an import under `name` writes that name to the drives. Of an array that is only read, the name there stays as it is.
pub fn import_renames(array: &Assembly, name: &str, read_only: bool) -> bool {
    array.name != name && !read_only
}

/// Takes an array that another machine or program left: it gets `name`, on its drives too, and is adopted.
///
/// # Errors
/// Those of [`rename`] and [`adopt`].
pub fn import(path: &Path, assemblies: &[Assembly], array: &Assembly, name: &str, terms: Terms) -> Result<Adopted, Told> {
    let terms = Terms { name: Some(name.to_owned()), ..terms };
    let renamed = match import_renames(array, name, terms.read_only) {
        true => {
            // Before a drive is written. The lock ends here, as the rename takes it.
            drop(adoption(path, assemblies, array, terms.clone())?);
            Some(rename(path, assemblies, array, name)?)
        }
        false => None,
    };
    let adopted = adopt(path, assemblies, array, terms);
    let mut adopted = match &renamed {
        Some(renamed) => adopted.map_err(|failure| after(&renamed.words(name), failure.into()))?,
        None => adopted?,
    };
    adopted.notes.splice(0..0, renamed.map(|renamed| renamed.words(name)));
    Ok(adopted)
}

/// The failure of a later step of a command whose first steps have written to drives. `done`: what they did. Alone, the failure
/// may say that nothing was done.
pub fn after(done: &str, failure: Failure) -> Failure {
    let why = failure.to_string();
    let why = why.trim_end_matches("; nothing was done").trim_end_matches(": nothing was done");
    Failure::Failed(format!("{done}, but a later step failed: {why}"))
}

/// An array that was renamed.
pub struct Renamed {
    /// Its name before.
    pub old: String,
    /// The number of drives that have the new one.
    pub drive_count: usize,
    /// The configuration names it, so the daemon has to read it again.
    pub is_known: bool,
    /// Slots whose member took part when the array last ran, and is not here.
    absent: Vec<usize>,
    uuid: Uuid,
}

impl Renamed {
    /// What was done, in words.
    pub fn words(&self, new: &str) -> String {
        let mut words = format!("array \"{}\" is called \"{new}\" now, on {} drives", self.old, self.drive_count);
        if !self.absent.is_empty() {
            let slots = self.absent.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
            let (members, keep, they, come) = match self.absent.len() {
                1 => ("the member of slot", "keeps", ["it is", "it", "it"], "comes"),
                _ => ("the members of slots", "keep", ["they are", "they", "them"], "come"),
            };
            let [they_are, they, them] = they;
            words.push_str(&format!(
                "; {members} {slots} {keep} the old name, as {they_are} not here: if {they} {come} back before the array has run without {them}, \
                 repeat `stria rename {uuid} {word}`",
                uuid = self.uuid,
                word = shell_word(new)
            ));
        }
        words
    }
}

/// Gives an array that is not served another name, on its drives and in the configuration at `path`.
///
/// # Errors
/// When another array has the name, a drive is in use or cannot be written, or a span was not stopped cleanly or lacks a member
/// that took part when it last ran.
pub fn rename(path: &Path, assemblies: &[Assembly], array: &Assembly, new: &str) -> Result<Renamed, Told> {
    let (uuid, arrays) = (Uuid(array.uuid), tree(assemblies, array));
    // Checked before the drives are written: another array may have the name here.
    let edit = match edit_of(path, uuid)? {
        Some((mut edit, known)) => {
            edit.put(&Array { name: Some(new.to_owned()), ..known })?;
            refuse_unless_it_follows(&edit.check()?)?;
            edit.refuse_unwritable()?;
            Some(edit)
        }
        None => None,
    };
    let drive_count = match arrays.iter().all(|one| one.uuid == array.uuid) {
        true => stria_host::rename(&drives(&arrays), &array.uuid, new)?,
        false => rename_spans(&drives(&arrays), array.uuid, new)?,
    };
    let is_known = edit.is_some();
    let absent = stria_host::awaited_slots(array);
    let renamed = Renamed { old: short_name(&array.name).to_owned(), drive_count, is_known, absent, uuid };
    if let Some(edit) = edit {
        let followed = edit.save().and_then(|config| keep_away(&config));
        followed.map_err(|failure| after(&renamed.words(new), failure.into()))?;
    }
    Ok(renamed)
}

/// Renames an array and its spans, which are written through. With force a stale member would take part, so they are looked at
/// again without.
fn rename_spans(drives_here: &[PathBuf], uuid: [u8; 16], new: &str) -> Result<usize, Told> {
    let found = find(drives_here, OpenOptions { read_only: true, ..OpenOptions::default() })?;
    if let Some(error) = found.assemblies.iter().find_map(|one| one.outcome.as_ref().err()) {
        let (reason, cause) = Words::from(error).parts();
        return Err(ErrorSentence::RenameNeedsSpans { reason, cause }.into());
    }
    let Some(array) = found.assemblies.iter().find(|one| one.uuid == uuid) else {
        return Err(ErrorSentence::GoneFromDrives { array: Uuid(uuid).to_string() }.into());
    };
    // By their slots in the array above, which are their numbers.
    let slot = |verdict: &Verdict| if let Verdict::InSync { slot } = verdict { Some(*slot) } else { None };
    let slot_above =
        |span: &Assembly| array.drives.iter().find(|drive| drive.name == span.name).and_then(|drive| slot(&drive.verdict));
    let mut spans: Vec<&Assembly> = found.assemblies.iter().filter(|one| one.freshest.span_of == Some(uuid)).collect();
    spans.sort_by_key(|span| (slot_above(span), span.name.clone()));
    let spans: Vec<_> = spans.into_iter().map(|span| (span.uuid, drives(&[span]))).collect();
    Ok(stria_host::rename_spans(&spans, &uuid, new)?)
}

/// Changes settings in the metadata of an array that is not served. `None`: none of the settings is in the metadata.
///
/// # Errors
/// When a value is misspelt, or a drive is in use or cannot be written.
pub fn change(assemblies: &[Assembly], array: &Assembly, request: &SettingsRequest) -> Result<Option<String>, Told> {
    let changes = request.changes().map_err(Failure::Usage)?;
    if changes.is_empty() {
        return Ok(None);
    }
    let differs = stria_host::change(&drives(&tree(assemblies, array)), &changes, false)?;
    Ok(Some(format!(
        "array \"{}\" {}",
        short_name(&array.name),
        if differs { "was changed" } else { "has these settings already: nothing was changed" }
    )))
}

/// Writes the settings that are not in the metadata to the configuration at `path`. False: the configuration does not name the
/// array.
///
/// # Errors
/// When the file cannot be changed.
pub fn keep(path: &Path, uuid: Uuid, request: &SettingsRequest) -> Result<bool, Told> {
    let Some((mut edit, known)) = edit_of(path, uuid)? else { return Ok(false) };
    edit.put(&Array {
        write: request.write.unwrap_or(known.write),
        drive_caches: request.drive_caches.or(known.drive_caches),
        read_only: request.read_only.unwrap_or(known.read_only),
        ..known
    })?;
    edit.save()?;
    Ok(true)
}

/// The failure after settings were changed (`done`) and the configuration could not keep those that it has to.
pub fn not_stored(done: &[String], failure: Told) -> Told {
    match done {
        [] => failure,
        done => Failure::Failed(format!(
            "{}; the next start has the old setting, as this one was not stored: {failure}",
            done.join("; ")
        ))
        .into(),
    }
}

/// The locked configuration, and what it says of the array. `None`: it does not name the array.
fn edit_of(path: &Path, uuid: Uuid) -> Result<Option<(Edit, Array)>, Told> {
    let find = |config: &Config| config.arrays.iter().find(|known| known.uuid == uuid).cloned();
    // A machine without a configuration needs no lock, whose folder would be made.
    if find(&Config::read(path)?).is_none() {
        return Ok(None);
    }
    let edit = Edit::open(path)?;
    // What was read before the lock may have changed since.
    Ok(find(edit.before()).map(|known| (edit, known)))
}

/// Ends what Linux made of these drives, if nothing uses it: mdadm's rules assemble an array as soon as it is made. Says what was
/// done.
///
/// An mdadm that udev started before mdadm's configuration named the array may still be about to assemble it. So this waits until
/// udev is idle; later ones leave the array alone. Without udev, nothing starts mdadm.
fn take_from_linux(drives: &[PathBuf]) -> Vec<String> {
    if drives.iter().any(|path| !path.is_file()) {
        udev::wait(30);
    }
    let devices = drives.iter().filter_map(|path| kernel_name(path));
    let names: BTreeSet<String> = devices.flat_map(|name| holders(&name)).filter(|name| name.starts_with("md")).collect();
    let take = |name: &String| match stop_md(name) {
        Ok(()) => format!("Linux ran it as /dev/{name}, which was stopped, as nothing used it"),
        Err(why) => format!(
            "Linux runs it as /dev/{name}, which was not stopped ({why}): `mdadm --stop {word}`, then `stria reload` starts it here",
            word = shell_word(&format!("/dev/{name}"))
        ),
    };
    names.iter().map(take).collect()
}

/// The name of a block device in the kernel, whatever path leads to it. `None`: it is an image file, whose name says nothing.
fn kernel_name(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok().filter(|found| found.file_type().is_block_device())?;
    Some(device_folder(Path::new(SYSFS), found.rdev()).ok()?.file_name()?.to_str()?.to_owned())
}

/// The devices that lie on a block device, by their names in the kernel.
fn holders(device: &str) -> Vec<String> {
    let holders = std::fs::read_dir(Path::new("/sys/class/block").join(device).join("holders"));
    holders.into_iter().flatten().flatten().map(|holder| holder.file_name().to_string_lossy().into_owned()).collect()
}

/// Stops an md device and those that lie on it (md(4): `clear`). The kernel refuses if one is in use; udev uses a new one for a
/// moment.
fn stop_md(name: &str) -> Result<(), String> {
    for holder in holders(name) {
        if !holder.starts_with("md") {
            return Err(format!("it is in use by {holder}"));
        }
        stop_md(&holder)?;
    }
    let state = Path::new("/sys/class/block").join(name).join("md/array_state");
    let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
    let stopped = once_free(|| std::fs::write(&state, "clear"), is_busy);
    stopped.map_err(|error| if is_busy(&error) { "it is in use".into() } else { error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that had renamed or destroyed an array ended with "nothing was done", as the configuration could not follow.
    #[test]
    fn a_failure_after_drives_were_written_says_what_was_done() {
        for end in ["; nothing was done", ": nothing was done", ""] {
            let told = after("array \"tank\" is destroyed", Failure::Failed(format!("/etc/stria cannot be written{end}")));
            let wanted = "array \"tank\" is destroyed, but a later step failed: /etc/stria cannot be written";
            assert_eq!(told.to_string(), wanted);
        }
    }

    /// The adoption of an array on an image file called `sdb` stopped the md array on /dev/sdb, if nothing used it. The md array
    /// on a drive that was named by a link was not found.
    #[test]
    fn what_linux_made_is_found_by_the_drive_and_not_by_the_name_of_its_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let devices = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        let names = devices.map(|device| device.file_name().to_string_lossy().into_owned());
        let known = names.filter(|name| {
            std::fs::metadata(Path::new("/dev").join(name)).is_ok_and(|found| found.file_type().is_block_device())
        });
        for name in known.chain(["sdb".to_owned()]) {
            let (image, link) = (folder.path().join(&name), folder.path().join("link"));
            std::fs::write(&image, [0; 4096]).expect("a file");
            assert_eq!(kernel_name(&image), None);
            let device = Path::new("/dev").join(&name);
            if device.exists() {
                std::os::unix::fs::symlink(&device, &link).expect("a link");
                assert_eq!(kernel_name(&link), Some(name));
                std::fs::remove_file(&link).expect("a link");
            }
        }
    }
}
