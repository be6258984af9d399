//! mdadm's own configuration, so that mdadm leaves Stria's arrays alone.
//!
//! mdadm assembles at boot, and when a drive comes, whatever it is not told to ignore. A marked block in `mdadm.conf` says `ARRAY
//! <ignore>` for every array of Stria's and for its spans. Lines outside of it that say otherwise about such an array are put
//! into comments, and come back when the array is released. The functions on text are pure; [`keep_away`] applies them to the
//! file.

use crate::config::{Config, Uuid};
use crate::system::atomic_file::replace;
use crate::words::error::{ErrorSentence, Told};
use std::io;
use std::path::{Path, PathBuf};
use stria_terminal::Failure;

const BEGIN: &str = "# BEGIN stria: these arrays belong to Stria. `stria adopt` and `stria release` write this block.";
const END: &str = "# END stria";
/// Precedes lines that were put into comments.
const HIDDEN: &str = "#stria# ";

/// mdadm's configuration: as configured, or where Debian and others have it. `None`: mdadm is not here.
pub fn conf(config: &Config) -> Option<PathBuf> {
    if let Some(path) = &config.mdadm.conf {
        return Some(path.clone());
    }
    let usual = [Path::new("/etc/mdadm/mdadm.conf"), Path::new("/etc/mdadm.conf")];
    usual.into_iter().find(|path| path.exists()).map(Path::to_owned)
}

/// A text for mdadm's configuration, which is not written yet.
struct Change {
    path: PathBuf,
    text: String,
}

/// Why mdadm's configuration cannot be changed.
enum Fault {
    /// It cannot be read.
    Unread { path: PathBuf, error: io::Error },
    /// A person has taken the end of the block away.
    BlockOpen { path: PathBuf },
}

impl Fault {
    /// The refusal before anything is done.
    fn before(self) -> Told {
        match self {
            Self::Unread { path, error } => {
                ErrorSentence::MdadmUnread { file: path.display().to_string(), reason: error.to_string() }
            }
            Self::BlockOpen { path } => ErrorSentence::MdadmBlockOpen { file: path.display().to_string() },
        }
        .into()
    }

    /// The failure after Stria's own configuration was written.
    fn afterwards(self) -> Told {
        let text = match self {
            Self::Unread { path, error } => format!("{} cannot be read: {error}", path.display()),
            Self::BlockOpen { path } => format!(
                "{}: the line \"{END}\" is missing, which ends the block of Stria's arrays: put it where the block ends",
                path.display()
            ),
        };
        Failure::Failed(text).into()
    }
}

/// What mdadm's configuration has to become so that it says what Stria's does. `None`: it says that already, or mdadm is not
/// here.
///
/// # Errors
/// When it cannot be read, or a person has damaged the block.
fn change(config: &Config) -> Result<Option<Change>, Fault> {
    let Some(path) = conf(config) else { return Ok(None) };
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Fault::Unread { path, error }),
    };
    let arrays: Vec<(String, Vec<Uuid>)> =
        config.arrays.iter().map(|array| (array.title(), [&[array.uuid], &array.spans[..]].concat())).collect();
    let Some(text) = with_block(&before, &arrays) else { return Err(Fault::BlockOpen { path }) };
    Ok((text != before).then_some(Change { path, text }))
}

/// Refuses a file that could not follow `config`, before anything else is done.
///
/// # Errors
/// It cannot be read or written, or a person has damaged the block.
pub fn refuse_unless_it_follows(config: &Config) -> Result<(), Told> {
    match change(config).map_err(Fault::before)? {
        Some(change) => refuse_unwritable_folder(&change.path),
        None => Ok(()),
    }
}

/// Refuses a file that could not be changed, before anything else is done that it is to follow.
///
/// # Errors
/// As [`refuse_unless_it_follows`].
pub fn refuse_unwritable(config: &Config) -> Result<(), Told> {
    change(config).map_err(Fault::before)?;
    conf(config).map_or(Ok(()), |path| refuse_unwritable_folder(&path))
}

fn refuse_unwritable_folder(path: &Path) -> Result<(), Told> {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|error| {
        let (folder, file) = (folder.display().to_string(), path.display().to_string());
        ErrorSentence::MdadmUnwritable { folder, reason: error.to_string(), file }.into()
    })
}

/// Makes mdadm's configuration say what Stria's does. Returns the file if it changed.
fn update(config: &Config) -> Result<Option<PathBuf>, Told> {
    let Some(Change { path, text }) = change(config).map_err(Fault::afterwards)? else { return Ok(None) };
    replace(&path, &text)?;
    Ok(Some(path))
}

/// The text with a block that ignores these arrays, each a name and the identities of it and its spans; without one if there is
/// none. `None`: the block in it has no end.
fn with_block(text: &str, arrays: &[(String, Vec<Uuid>)]) -> Option<String> {
    let ours = |uuid: &Uuid| arrays.iter().any(|(_, uuids)| uuids.contains(uuid));
    let mut kept: Vec<String> = Vec::new();
    for group in logical_lines(&without_block(text)?) {
        let shown: Vec<&str> = group.iter().map(|line| line.strip_prefix(HIDDEN).unwrap_or(line)).collect();
        let is_ours = array_uuid(&shown.join(" ")).as_ref().is_some_and(ours);
        kept.extend(shown.iter().map(|line| if is_ours { format!("{HIDDEN}{line}") } else { (*line).to_owned() }));
    }
    let mut text = kept.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    if arrays.is_empty() {
        return Some(text);
    }
    text += &format!("{BEGIN}\n");
    for (name, uuids) in arrays {
        let name: String = name.chars().map(|char| if char.is_ascii_graphic() { char } else { '_' }).collect();
        text += &format!("# {name}\n");
        uuids.iter().for_each(|uuid| text += &format!("ARRAY <ignore> UUID={uuid}\n"));
    }
    Some(text + END + "\n")
}

fn without_block(text: &str) -> Option<String> {
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("# BEGIN stria") {
            kept.push(line);
        } else if !lines.by_ref().any(|line| line == END) {
            return None;
        }
    }
    Some(kept.join("\n"))
}

/// Lines, each with those that continue it: mdadm reads a line that begins with a blank as a part of the line before.
fn logical_lines(text: &str) -> Vec<Vec<&str>> {
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        let shown = line.strip_prefix(HIDDEN).unwrap_or(line);
        let continues = shown.starts_with([' ', '\t']) && !shown.trim().is_empty() && !shown.trim_start().starts_with('#');
        match groups.last_mut().filter(|_| continues) {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    groups
}

/// The identity that a line `ARRAY … UUID=…` names. mdadm ignores case, and takes three letters for a keyword.
fn array_uuid(line: &str) -> Option<Uuid> {
    let mut words = line.split_whitespace();
    let keyword = words.next()?.to_ascii_lowercase();
    if keyword.len() < 3 || !"array".starts_with(&keyword) {
        return None;
    }
    let uuid = words.find(|word| word.get(..5).is_some_and(|key| key.eq_ignore_ascii_case("uuid=")))?;
    uuid[5..].replace('.', ":").parse().ok()
}

/// Makes mdadm's configuration follow Stria's. Says what was done.
///
/// # Errors
/// It cannot be read or replaced, or a person has damaged the block.
pub fn keep_away(config: &Config) -> Result<Vec<String>, Told> {
    let Some(changed) = update(config)? else { return Ok(Vec::new()) };
    let mut notes = vec![format!("{} was changed, so that mdadm leaves the array alone", changed.display())];
    if changed.starts_with("/etc") {
        notes.extend(boot_image_note(|program| Path::new(program).exists()).map(str::to_owned));
    }
    Ok(notes)
}

/// How the boot image gets the new configuration, by the program that makes it here.
fn boot_image_note(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    if has("/usr/sbin/update-initramfs") {
        return Some("run `update-initramfs -u`, as the boot image has a copy of it");
    }
    let dracut = ["/usr/bin/dracut", "/usr/sbin/dracut"].into_iter().any(has);
    dracut.then_some("run `dracut --regenerate-all --force`, as the boot image may have a copy of it")
}

#[cfg(test)]
mod tests;
