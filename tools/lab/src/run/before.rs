//! Refuses a run before it begins: settings without effect, targets that may not or cannot be written, and a lack of space.

use super::{Held, Request, RunError};
use crate::experiment::{Experiment, SectionSpec};
use crate::fio::Place;
use crate::own::Own;
use crate::plan::stages;
use crate::replay::is_read_only;
use crate::result::{IoMode, SectionKind, TargetKind};
use crate::stage::{Scale, Step, destroys};
use crate::state;
use crate::target::{self, TargetError, TargetSpec};
use crate::target_lock::refuse_shared;
use crate::units::show_size;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file system needs some space for itself.
const SPARE_BYTES: u64 = 4 << 20;

/// All checks that are possible before the run.
pub(super) fn refuse(
    experiment: &Experiment,
    request: &Request,
    specs: &[TargetSpec],
    own: Option<&Own>,
) -> Result<(), RunError> {
    for host in &request.hosts {
        host.check().map_err(TargetError::Usage)?;
    }
    inapplicable(experiment, request, specs)?;
    let scale = request.scale(experiment);
    let (mut written, memory_bytes) = (Vec::new(), state::memory_available());
    if request.hosts.is_empty() {
        specs.iter().try_for_each(|spec| refuse_shared(&spec.drives)).map_err(TargetError::Usage)?;
    }
    for spec in specs {
        let steps = allowed(experiment, request, spec, own)?;
        if request.hosts.is_empty() && spec.is_overwritten(&steps) {
            written.push(spec);
        } else if request.hosts.is_empty() {
            makable(spec)?;
        }
        if request.hosts.is_empty() && spec.model.is_none() {
            check_memory(&steps, memory_bytes)?;
        }
        // The target on another host is unknown here: it has the name that --host gives.
        let elsewhere = request.hosts.iter().filter(|host| host.place.is_some() && steps.iter().any(destroys));
        if let Some(host) = elsewhere.map(ToString::to_string).find(|host| !request.destroy.contains(host)) {
            return Err(TargetError::Unsafe(target::would_overwrite(&[&host])).into());
        }
    }
    written.iter().try_for_each(|spec| writable(spec))?;
    if request.hosts.is_empty() {
        let copied = |spec: &TargetSpec| copied_bytes(experiment, spec, &scale);
        check_space(specs, &written, &scale, &copied)?;
    }
    Ok(())
}

/// The steps on a target, if the user allowed them.
pub(super) fn allowed(
    experiment: &Experiment,
    request: &Request,
    spec: &TargetSpec,
    own: Option<&Own>,
) -> Result<Vec<Step>, TargetError> {
    let steps = steps_on(experiment, spec, &request.scale(experiment));
    spec.allow(&steps, &request.destroy, own, request.site())?;
    if request.hosts.is_empty() {
        spec.allow_files(&request.destroy, own)?;
    }
    Ok(steps)
}

/// Whether the array of a target is served at this moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    None,
    Runs,
}

/// Locks all targets, so that no other run measures them at the same time, and no other program serves them. The server of the
/// run's own array locks its files itself.
pub(super) fn hold(held: &mut Held, specs: &[TargetSpec], request: &Request, server: Server) -> Result<(), TargetError> {
    for spec in specs {
        let is_served = server == Server::Runs && spec.kind == TargetKind::Array;
        for place in spec.places() {
            // Image files may not exist yet.
            let is_there = !request.hosts.is_empty() || !matches!(&place, Place::Path(path) if !path.exists());
            let by_file = match spec.kind {
                TargetKind::File | TargetKind::Block => true,
                _ => !is_served && matches!(&place, Place::Path(path) if path.is_file()),
            };
            if is_there {
                held.take(&place, &request.hosts, by_file).map_err(TargetError::Failed)?;
            }
        }
    }
    Ok(())
}

fn steps_on(experiment: &Experiment, spec: &TargetSpec, scale: &Scale) -> Vec<Step> {
    let span = scale.span(spec.size_bytes());
    experiment.section.iter().flat_map(|section| stages(section, span, true, scale)).flat_map(|stage| stage.steps).collect()
}

/// The reason why a section measures nothing on a target.
pub(super) fn unfit(section: &SectionSpec, spec: &TargetSpec, request: &Request) -> Option<String> {
    let name = &spec.name;
    let several = spec.kind == TargetKind::Members && spec.drives.len() > 1;
    let is_nbd = matches!(spec.kind, TargetKind::Nbd | TargetKind::Array);
    match section.test {
        SectionKind::Raid if !spec.can_degrade() => {
            Some(format!("{name} is no Stria array with redundancy made for the run, such as array:5:4"))
        }
        SectionKind::Replay | SectionKind::FileCopy if spec.kind == TargetKind::Model => {
            Some(format!("{name} is a model: it stores no files, and traces are replayed on drives only"))
        }
        SectionKind::Replay | SectionKind::FileCopy if several => Some(format!("{name} are not one target")),
        SectionKind::Replay | SectionKind::FileCopy if !request.hosts.is_empty() => {
            Some("traces are replayed and files copied from this machine only".into())
        }
        SectionKind::Sweep | SectionKind::States | SectionKind::Raid => {
            let fits = |mode: &IoMode| match mode {
                IoMode::Cached | IoMode::WriteThrough => !is_nbd && spec.kind != TargetKind::Model,
                IoMode::Sparse => spec.kind == TargetKind::File && request.hosts.is_empty(),
                IoMode::Direct | IoMode::DirectSync => true,
            };
            if section.load.iter().flat_map(|load| &load.mode.0).any(fits) {
                None
            } else {
                Some(format!(
                    "{name} cannot be measured in these modes: an export has no page cache, and only a file of this machine is sparse"
                ))
            }
        }
        _ => None,
    }
}

/// Refuses a section that fits none of the targets, and options that a target does not support.
fn inapplicable(experiment: &Experiment, request: &Request, specs: &[TargetSpec]) -> Result<(), TargetError> {
    for section in &experiment.section {
        let why: Vec<Option<String>> = specs.iter().map(|spec| unfit(section, spec, request)).collect();
        if let (true, Some(Some(why))) = (why.iter().all(Option::is_some), why.first()) {
            return Err(TargetError::Usage(format!("section \"{}\" can measure nothing: {why}", section.name)));
        }
        let engine = section.load.iter().find_map(|load| load.fio.get("ioengine"));
        let export = specs.iter().find(|spec| matches!(spec.kind, TargetKind::Nbd | TargetKind::Array));
        if let (Some(engine), Some(export)) = (engine, export) {
            return Err(TargetError::Usage(format!(
                "section \"{}\": fio.ioengine = \"{engine}\" cannot be used on {}, which fio reaches by its nbd engine",
                section.name, export.name
            )));
        }
    }
    Ok(())
}

/// Checks that a target which is only read can be made if it does not exist.
fn makable(spec: &TargetSpec) -> Result<(), TargetError> {
    has_folder(spec)?;
    for file in spec.files().iter().filter(|file| !file.exists()) {
        let within = existing_folder(file);
        tempfile::tempfile_in(&within).map_err(|error| {
            let (file, within) = (file.display(), within.display());
            TargetError::Failed(format!("{file} does not exist and cannot be made, as {within} cannot be written: {error}"))
        })?;
    }
    Ok(())
}

/// A folder that does not exist is made for a pool only.
fn has_folder(spec: &TargetSpec) -> Result<(), TargetError> {
    let path = std::path::absolute(&spec.place).unwrap_or_else(|_| spec.place.clone().into());
    match path.parent().filter(|folder| spec.kind == TargetKind::File && !folder.is_dir()) {
        Some(folder) => Err(TargetError::Failed(format!("{}: there is no folder {}", spec.place, folder.display()))),
        None => Ok(()),
    }
}

/// Checks that the run can write everything that it must write.
fn writable(spec: &TargetSpec) -> Result<(), TargetError> {
    has_folder(spec)?;
    let failed = |place: &dyn std::fmt::Display, why: &str| {
        Err(TargetError::Failed(format!(
            "{place} cannot be written, and the experiment writes to it: {why}; --read-only runs only the loads that read"
        )))
    };
    for place in spec.places() {
        let Place::Path(path) = &place else {
            match is_read_only(&place) {
                Some(true) => return failed(&place, "the export is read-only"),
                Some(false) | None => continue,
            }
        };
        let Ok(metadata) = fs::metadata(path) else {
            let within = existing_folder(path);
            match tempfile::tempfile_in(&within) {
                Ok(_) => continue,
                Err(error) => return failed(&within.display(), &error.to_string()),
            }
        };
        let number = metadata.rdev();
        let protected = format!("/sys/dev/block/{}:{}/ro", rustix::fs::major(number), rustix::fs::minor(number));
        if metadata.file_type().is_block_device() && fs::read_to_string(protected).is_ok_and(|ro| ro.trim() == "1") {
            return failed(&place, "the device is read-only");
        }
        if let Err(error) = OpenOptions::new().write(true).open(path) {
            return failed(&place, &error.to_string());
        }
    }
    Ok(())
}

/// Checks that the data of all requests in flight fits into half of the memory that is free: fio would be killed, or another
/// program of this machine.
fn check_memory(steps: &[Step], available: Option<u64>) -> Result<(), TargetError> {
    let (Some(load), Some(available)) = (steps.iter().filter_map(Step::load).max_by_key(|load| load.memory_bytes()), available)
    else {
        return Ok(());
    };
    let bytes = load.memory_bytes();
    if bytes <= available / 2 {
        return Ok(());
    }
    let (bytes, available) = (show_size(bytes), show_size(available));
    Err(TargetError::Failed(format!(
        "the requests in flight of {} threads with queue depth {} hold {bytes} of data, and this machine has {available} of memory \
         left, of which half may be used: set a smaller block, queue_depth or threads",
        load.threads, load.queue_depth
    )))
}

/// The folder of a file, or the first existing folder above it.
fn existing_folder(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_path_buf()
}

/// The most that copied files take beside a target that is a file: in each section the sources of all sets, and one copy.
fn copied_bytes(experiment: &Experiment, spec: &TargetSpec, scale: &Scale) -> u64 {
    if spec.kind != TargetKind::File {
        return 0;
    }
    let span = scale.span(spec.size_bytes());
    let of_section = |section: &SectionSpec| {
        let stages = stages(section, span, true, scale);
        let sets = stages.iter().flat_map(|stage| &stage.steps).filter_map(|step| match step {
            Step::Copy(set) => Some(set.stored_bytes()),
            _ => None,
        });
        let sets: Vec<u64> = sets.collect();
        sets.iter().sum::<u64>() + sets.iter().max().unwrap_or(&0)
    };
    experiment.section.iter().map(of_section).max().unwrap_or(0)
}

/// Checks that each file system has space for all blocks of its files together, and for the files that are `copied` beside a
/// target.
fn check_space(
    specs: &[TargetSpec],
    written: &[&TargetSpec],
    scale: &Scale,
    copied: &dyn Fn(&TargetSpec) -> u64,
) -> Result<(), TargetError> {
    let mut wanted: BTreeMap<u64, (u64, PathBuf)> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    // A created file gets blocks even if it is only read.
    let made = |spec: &&TargetSpec| spec.files().iter().any(|file| !file.exists());
    for spec in specs.iter().filter(made).chain(written.iter().copied()) {
        for file in spec.files() {
            let file = std::path::absolute(&file).unwrap_or(file);
            if !seen.insert(file.clone()) {
                continue;
            }
            let (folder, metadata) = (existing_folder(&file), fs::metadata(&file).ok());
            let has = metadata.map_or(0, |metadata| metadata.blocks() * 512);
            let device = fs::metadata(&folder).map_or(0, |metadata| metadata.dev());
            let entry = wanted.entry(device).or_insert((0, folder));
            // At most the span is filled.
            let bytes = spec.file_bytes().min(scale.span(spec.size_bytes()));
            entry.0 = entry.0.saturating_add(bytes.saturating_sub(has));
        }
    }
    // Targets are measured one after the other, and copied files are removed after their section.
    let mut most_copied: BTreeMap<u64, u64> = BTreeMap::new();
    for spec in specs {
        for file in spec.files() {
            let folder = existing_folder(&file);
            let device = fs::metadata(&folder).map_or(0, |metadata| metadata.dev());
            let most = most_copied.entry(device).or_default();
            *most = copied(spec).max(*most);
            wanted.entry(device).or_insert((0, folder));
        }
    }
    for (device, most) in most_copied {
        if let Some((bytes, _)) = wanted.get_mut(&device) {
            *bytes = bytes.saturating_add(most);
        }
    }
    for (bytes, folder) in wanted.into_values().filter(|(bytes, _)| *bytes > 0) {
        let Ok(free) = rustix::fs::statvfs(&folder) else { continue };
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        if free < bytes.saturating_add(SPARE_BYTES) {
            let (bytes, free, folder) = (show_size(bytes), show_size(free), folder.display());
            return Err(TargetError::Failed(format!(
                "the measured files need {bytes}, and {folder} has {free} left: set a smaller --size, or name another folder"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Pool;

    /// The check of free space once counted the target alone, and not what is copied beside it.
    #[test]
    fn copied_files_count_beside_the_file_that_is_measured() {
        let section =
            |name: &str, copies: &str| format!("[[section]]\nname = \"{name}\"\ntest = \"file-copy\"\ncopy = [{copies}]\n");
        let one = "{ name = \"a\", sizes = \"4K/100\", total = \"1M\" }";
        let tiny = "{ name = \"b\", sizes = \"1/100\", total = \"4K\" }";
        let head = "name = \"t\"\ntitle = \"T\"\nquestion = \"Q?\"\n";
        let text = format!("{head}{}{}", section("s", one), section("t", &format!("{one}, {tiny}")));
        let experiment = Experiment::parse("t", &text).expect("an experiment");
        let spec = |text: &str| TargetSpec::parse(text, &Pool::default(), Some(1 << 30)).expect("a target");
        let copied = |text: &str| copied_bytes(&experiment, &spec(text), &Scale::default());
        // The sources of both sets, and one copy of the larger: 4,096 files of one byte take a block each.
        assert_eq!(copied("file:/x.img"), (1 << 20) + 2 * 4096 * 4096);
    }
}
