//! Which arrays a command line means: by drives, by names, or all.

use crate::denial::Denial;
use crate::{Found, HostError, OpenOptions, PlannedArray, find, find_everywhere};
use std::collections::HashSet;
use std::mem::discriminant;
use std::path::PathBuf;
use stria_format::md::assemble::{AssembleErrorKind, Assembly, DriveReport, missed};
use stria_format::md::superblock::Role;
use stria_format::md::{Verdict, uuid_text};

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

/// True if `word` means this array: its name, with or without its host, or its UUID, as mdadm writes it or with dashes.
fn is_called(full_name: &str, uuid: &[u8; 16], word: &str) -> bool {
    let digits = || word.chars().filter(|digit| !":-".contains(*digit)).collect::<String>().to_ascii_lowercase();
    word == full_name || word == short_name(full_name) || digits() == format!("{:032x}", u128::from_be_bytes(*uuid))
}

fn is_named(full_name: &str, uuid: &[u8; 16], names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| is_called(full_name, uuid, name))
}

/// The arrays with these names, all if `names` is empty, with the spans below them.
pub fn named<'a>(assemblies: &'a [Assembly], names: &[String]) -> Vec<&'a Assembly> {
    let has_marked_spans: HashSet<[u8; 16]> = assemblies.iter().filter_map(|one| one.freshest.span_of).collect();
    // A mark binds a span to its array. Without one, only the name does, which a foreign array may have too.
    let (mut above, mut unmarked): (HashSet<[u8; 16]>, HashSet<&str>) = Default::default();
    let mut found = Vec::new();
    // Spans stand before the arrays above them.
    for assembly in assemblies.iter().rev() {
        let is_below = match assembly.freshest.span_of {
            Some(upper) => above.contains(&upper),
            None => unmarked.contains(&*assembly.name),
        };
        if is_below || is_named(&assembly.name, &assembly.uuid, names) {
            above.insert(assembly.uuid);
            if !has_marked_spans.contains(&assembly.uuid) {
                unmarked.extend(assembly.drives.iter().map(|drive| &*drive.name));
            }
            found.push(assembly);
        }
    }
    found.reverse();
    found
}

/// Arrays that have a name that was asked for, and cannot start, while another array of that name can: a foreign drive that was
/// plugged in must not keep that one from being served. With the spans below them.
///
/// # Errors
/// Several arrays of one name can start.
fn outdone(assemblies: &[Assembly], arrays: &[PlannedArray], names: &[String]) -> Result<HashSet<[u8; 16]>, HostError> {
    let mut outdone: HashSet<[u8; 16]> = HashSet::new();
    for name in names {
        let able: Vec<&PlannedArray> = arrays.iter().filter(|array| is_called(&array.name, &array.uuid, name)).collect();
        match &able[..] {
            [] => {}
            [one] => {
                let others = assemblies.iter().filter(|other| other.uuid != one.uuid && other.outcome.is_err());
                outdone.extend(others.filter(|other| is_called(&other.name, &other.uuid, name)).map(|other| other.uuid));
            }
            several => {
                let list: Vec<String> =
                    several.iter().map(|array| format!("{} ({})", array.name, uuid_text(&array.uuid))).collect();
                let list = list.join(", ");
                return Err(HostError::Usage(format!(
                    "several arrays are called \"{name}\": name one of them by its UUID: {list}"
                )));
            }
        }
    }
    for assembly in assemblies.iter().rev() {
        if assembly.freshest.span_of.is_some_and(|upper| outdone.contains(&upper)) {
            outdone.insert(assembly.uuid);
        }
    }
    Ok(outdone)
}

/// The slots whose member took part when the array last ran, and is not here.
pub fn awaited_slots(assembly: &Assembly) -> Vec<usize> {
    let took_part =
        |slot: &usize| assembly.freshest.roles.iter().any(|role| matches!(*role, Role::Slot(held) if usize::from(held) == *slot));
    assembly.missing_slots.iter().copied().filter(took_part).collect()
}

/// A drive that stays out of its array when that starts.
#[derive(Clone, Debug)]
pub struct StaysOut {
    /// The drive.
    pub drive: String,
    /// The array, by its name on disk.
    pub array: String,
    /// What it is to the array.
    pub verdict: Verdict,
    /// The sentence for the administrator.
    pub text: String,
}

impl StaysOut {
    /// True if the same drive stays out for the same reason. The texts may differ, as an array that runs goes on counting.
    pub fn is_known(&self, before: &[Self]) -> bool {
        before.iter().any(|known| known.drive == self.drive && discriminant(&known.verdict) == discriminant(&self.verdict))
    }
}

/// The drives of an array that stay out of it when it starts.
pub fn stays_out(assembly: &Assembly) -> Vec<StaysOut> {
    let told = |drive: &DriveReport| {
        let name = &drive.name;
        let text = match &drive.verdict {
            Verdict::Away { slot, events_behind, .. } => format!(
                "{name} (slot {}) {} of \"{}\" and stays out; `stria add` brings it back",
                slot.map_or("unknown".into(), |slot| slot.to_string()),
                missed(*events_behind),
                assembly.name
            ),
            Verdict::Faulty => format!("{name} was failed in \"{}\" and stays out", assembly.name),
            Verdict::Unusable { reason } => format!("{name} stays out of \"{}\": {reason}", assembly.name),
            Verdict::InSync { .. } | Verdict::Rebuilding { .. } | Verdict::Replacement { .. } | Verdict::Spare => return None,
        };
        Some(StaysOut { drive: name.clone(), array: assembly.name.clone(), verdict: drive.verdict.clone(), text })
    };
    assembly.drives.iter().filter_map(told).collect()
}

/// True if the error of a drive is worth a word: it may answer later. With any other one it may not be read, or is no drive.
fn is_told(error: &HostError) -> bool {
    error.silent_drive().is_some() || matches!(error, HostError::Refused(_) | HostError::Start { .. } | HostError::Engine(_))
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
    choose_among(found, scanned, names, warn)
}

/// As [`choose`], among what was found. `scanned`: on all block devices, so a drive without an array was not asked for.
///
/// # Errors
/// As of [`choose`].
pub fn choose_among(
    found: Found,
    scanned: bool,
    names: &[String],
    warn: &dyn Fn(String),
) -> Result<Vec<PlannedArray>, HostError> {
    let Found { mut arrays, assemblies, strangers } = found;
    // A drive without an array may be a member whose superblock is damaged.
    let stranger = strangers.first().filter(|_| !scanned);
    let beside = || stranger.map_or_else(String::new, |stranger| format!("; {stranger}"));
    let outdone = outdone(&assemblies, &arrays, names)?;
    for assembly in named(&assemblies, names) {
        match &assembly.outcome {
            Err(error) if outdone.contains(&assembly.uuid) => {
                warn(format!("not served: {error} (UUID {})", uuid_text(&assembly.uuid)))
            }
            // All arrays were asked for: those that can start do, as with mdadm.
            Err(error) if scanned && names.is_empty() && !arrays.is_empty() => warn(format!("not served: {error}")),
            Err(error) if error.kind == AssembleErrorKind::DirtyDegraded || arrays.is_empty() || !names.is_empty() => {
                return Err(HostError::cannot_start(error, beside()));
            }
            Err(error) => {
                let theirs: Vec<&str> = assembly.drives.iter().map(|drive| &*drive.name).collect();
                let more = format!("; or leave {} out to go without this array", theirs.join(", "));
                return Err(HostError::cannot_start(error, more));
            }
            Ok(_) => {}
        }
        stays_out(assembly).into_iter().for_each(|out| warn(out.text));
    }
    if let Some(stranger) = stranger {
        let remedy = match &stranger.signature {
            Some(mark) if mark.is_of_readable_volume() => "its volumes can be read: `stria serve --read-only`",
            _ => "leave it out to go without it",
        };
        return Err(HostError::Refused(format!("{stranger}; {remedy}")));
    }
    let unmarked: HashSet<[u8; 16]> = assemblies.iter().filter(|one| is_unmarked_span(one)).map(|one| one.uuid).collect();
    let is_span = |array: &PlannedArray| unmarked.contains(&array.uuid);
    let is_wanted = |array: &PlannedArray| is_named(&array.name, &array.uuid, names);
    let spans: Vec<&str> = arrays.iter().filter(|array| is_span(array)).map(|array| &*array.name).collect();
    if let Some(first) = spans.first().filter(|_| names.is_empty() || !arrays.iter().any(is_wanted)) {
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
    arrays.retain(is_wanted);
    let missing = names.iter().find(|name| !arrays.iter().any(|array| is_called(&array.name, &array.uuid, name)));
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
        None if arrays.is_empty() => Err(Denial::NoArray.into()),
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
