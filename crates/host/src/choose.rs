//! Which arrays a command line means: by drives, by names, or all.

use crate::{Found, HostError, OpenOptions, PlannedArray, find, find_everywhere};
use std::collections::HashSet;
use std::path::PathBuf;
use stria_format::md::Verdict;
use stria_format::md::assemble::{AssembleError, AssembleErrorKind, Assembly, DriveReport};
use stria_format::md::superblock::Role;

/// A name without its host.
pub fn short_name(full_name: &str) -> &str {
    full_name.split_once(':').map_or(full_name, |(_, name)| name)
}

/// Sorts the arguments into drives and array names: a drive has a slash in it or exists.
pub fn sort_arguments(what: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let is_drive = |path: &&PathBuf| path.components().count() != 1 || path.is_absolute() || path.exists();
    let drives = what.iter().filter(is_drive).map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())).collect();
    (drives, what.iter().filter(|path| !is_drive(path)).map(|name| name.display().to_string()).collect())
}

fn is_named(full_name: &str, names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == full_name || name == short_name(full_name))
}

/// The arrays with these names, all if `names` is empty, with the spans below them.
pub fn named<'a>(assemblies: &'a [Assembly], names: &[String]) -> Vec<&'a Assembly> {
    let mut below: HashSet<&str> = HashSet::new();
    let mut found = Vec::new();
    // Spans stand before the arrays above them.
    for assembly in assemblies.iter().rev() {
        if is_named(&assembly.name, names) || below.contains(&*assembly.name) {
            below.extend(assembly.drives.iter().map(|drive| &*drive.name));
            found.push(assembly);
        }
    }
    found.reverse();
    found
}

/// The error for an array that cannot start: unsafe if --force would start it.
pub fn refusal(error: &AssembleError, sentence: String) -> HostError {
    match error.kind {
        AssembleErrorKind::DirtyDegraded => HostError::Unsafe(sentence),
        _ => HostError::Refused(sentence),
    }
}

/// The slots whose member took part when the array last ran, and is not here.
pub fn awaited_slots(assembly: &Assembly) -> Vec<usize> {
    let took_part =
        |slot: &usize| assembly.freshest.roles.iter().any(|role| matches!(*role, Role::Slot(held) if usize::from(held) == *slot));
    assembly.missing_slots.iter().copied().filter(took_part).collect()
}

/// Sentences for the administrator about the drives of an array that stay out of it when it starts.
pub fn stays_out(assembly: &Assembly) -> Vec<String> {
    let told = |drive: &DriveReport| {
        let name = &drive.name;
        Some(match &drive.verdict {
            Verdict::Away { slot, events_behind, .. } => format!(
                "{name} (slot {}) missed {events_behind} superblock updates of \"{}\" and stays out; `stria add` brings it back",
                slot.map_or("unknown".into(), |slot| slot.to_string()),
                assembly.name
            ),
            Verdict::Faulty => format!("{name} was failed in \"{}\" and stays out", assembly.name),
            Verdict::Unusable { reason } => format!("{name} stays out of \"{}\": {reason}", assembly.name),
            Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. } | Verdict::Spare => return None,
        })
    };
    assembly.drives.iter().filter_map(told).collect()
}

/// True if the error of a drive is worth a word: it may answer later. With any other one it may not be read, or is no drive.
fn is_told(error: &HostError) -> bool {
    error.silent_drive().is_some() || matches!(error, HostError::Refused(_))
}

/// The arrays that were asked for, all of which can start. They are searched for on these drives, or on all block devices if none
/// are named. `warn` receives a sentence for each array or drive that stays out.
///
/// # Errors
/// An array cannot start, or a name was not found.
pub fn choose(
    drives: &[PathBuf],
    names: &[String],
    options: OpenOptions,
    warn: &dyn Fn(String),
) -> Result<Vec<PlannedArray>, HostError> {
    let scanned = drives.is_empty();
    let (found, refused) = if scanned { find_everywhere(options)? } else { (find(drives, options)?, Vec::new()) };
    refused.iter().filter(|error| is_told(error)).for_each(|error| warn(format!("left out: {error}")));
    let Found { mut arrays, assemblies, strangers } = found;
    // A drive without an array may be a member whose superblock is damaged.
    let stranger = strangers.first().filter(|_| !scanned);
    let told = |error: &AssembleError| stranger.map_or(error.to_string(), |stranger| format!("{error}; {stranger}"));
    for assembly in named(&assemblies, names) {
        match &assembly.outcome {
            // All arrays were asked for: those that can start do, as with mdadm.
            Err(error) if scanned && names.is_empty() && !arrays.is_empty() => warn(format!("not served: {error}")),
            Err(error) if error.kind == AssembleErrorKind::DirtyDegraded || arrays.is_empty() || !names.is_empty() => {
                return Err(refusal(error, told(error)));
            }
            Err(error) => {
                let theirs: Vec<&str> = assembly.drives.iter().map(|drive| &*drive.name).collect();
                let sentence = format!("{error}; or leave {} out to go without this array", theirs.join(", "));
                return Err(refusal(error, sentence));
            }
            Ok(_) => {}
        }
        stays_out(assembly).into_iter().for_each(warn);
    }
    if let Some(stranger) = stranger {
        return Err(HostError::Refused(format!("{stranger}; leave it out to go without it")));
    }
    let unmarked: HashSet<[u8; 16]> = assemblies.iter().filter(|one| is_unmarked_span(one)).map(|one| one.uuid).collect();
    let is_span = |array: &PlannedArray| unmarked.contains(&array.uuid);
    let spans: Vec<&str> = arrays.iter().filter(|array| is_span(array)).map(|array| &*array.name).collect();
    if let Some(first) = spans.first().filter(|_| names.is_empty() || !arrays.iter().any(|array| is_named(&array.name, names))) {
        let all = spans.join(", ");
        let told = format!(
            "{all}: the names are those of spans of a RAID 50 or 60, which early versions of Stria did not mark; serve the array over them with \
             --nested, which marks them for good, or one by itself by its name (stria serve {first} DRIVE…)"
        );
        // All arrays were asked for: those that can start do.
        if !(scanned && names.is_empty() && spans.len() < arrays.len()) {
            return Err(HostError::Refused(told));
        }
        warn(format!("not served: {told}"));
        arrays.retain(|array| !is_span(array));
    }
    arrays.retain(|array| is_named(&array.name, names));
    let missing = names.iter().find(|name| !arrays.iter().any(|array| array.name == **name || short_name(&array.name) == **name));
    match missing {
        Some(name) => {
            Err(HostError::Refused(match scanned {
                true => format!(
                    "no array \"{name}\" was found on the block devices of this machine (image files are not searched): name its drives, or \
                     see `stria assemble --scan` for what is there"
                ),
                // A file that does not exist is taken for a name.
                false => format!("\"{name}\" is not a file here, and not an array on the drives that are named: check the name"),
            }))
        }
        None if arrays.is_empty() => Err(HostError::Refused("no array lies on these drives: see `stria examine`".into())),
        None => Ok(arrays),
    }
}

/// True if an array looks like a span of a 50 or 60 that Stria made before it marked spans. The array's own name decides, as
/// clients cannot change it. Such an array is served by itself only if it is asked for by that name.
fn is_unmarked_span(assembly: &Assembly) -> bool {
    let number = assembly.name.rsplit_once("-span").map_or("", |(_, number)| number);
    let is_called_so = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_called_so && assembly.freshest.span_of.is_none() && matches!(assembly.freshest.header.level, 5 | 6)
}
