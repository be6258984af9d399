//! The drives of this machine: what lies on them, who uses them, what they report of themselves.
//!
//! Members of arrays that are served are not read for it. Other drives are, with the same care as by `stria examine`: a drive
//! that hangs costs its own answer only. So is a failed member, in whose place a new drive may sit by now.

use super::types::{ArrayEntry, DriveMembership, DrivePage, FirmwareVolume};
use crate::api::MemberView;
use crate::keeper::is_mapped;
use crate::monitor::DriveEntry;
use crate::system::mounts::{mounted, users};
use crate::view::all_members;
use crate::words::error::Words;
use crate::words::firmware::of_firmware;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use stria_drive::DriveKind;
use stria_format::firmware::{Slot, Volume};
use stria_format::md::uuid_text;
use stria_host::{Examined, HostError, block_devices, examine, short_name};

/// The drives that Stria may write to: block devices, and the image files that the configuration names.
pub fn paths(config: &crate::config::Daemon) -> Vec<PathBuf> {
    let mut paths = if config.block_devices { block_devices() } else { Vec::new() };
    paths.retain(|path| !is_mapped(path));
    paths.extend(config.images());
    paths.sort();
    paths.dedup();
    paths
}

/// All of them. `pool`: the pool of spares.
pub fn pages(paths: Vec<PathBuf>, arrays: &[ArrayEntry], health: &[DriveEntry], pool: &[PathBuf]) -> Vec<DrivePage> {
    let members: BTreeMap<&str, (&ArrayEntry, &MemberView)> = arrays
        .iter()
        .filter_map(|array| Some((array, array.view.as_ref()?)))
        .flat_map(|(array, view)| all_members(view).into_iter().map(move |member| (array, member)))
        .filter(|(_, member)| member.size_bytes.is_some())
        .map(|(array, member)| (member.path.as_str(), (array, member)))
        .collect();
    let (names, mounts) = (by_id(), mounted());
    let pool: BTreeSet<PathBuf> = pool.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    let mut all: BTreeSet<PathBuf> = paths.into_iter().collect();
    all.extend(members.keys().map(PathBuf::from));
    // A drive that still owes an answer would hold this request up, and keep a thread.
    let is_left_alone =
        |path: &str| members.get(path).is_some_and(|(_, member)| member.role != "failed" || member.waiting_ms.is_some());
    let others: Vec<PathBuf> = all.iter().filter(|path| !path.to_str().is_some_and(is_left_alone)).cloned().collect();
    let mut examined: BTreeMap<PathBuf, Result<Examined, HostError>> = others.iter().cloned().zip(examine(&others)).collect();
    let page = |path: PathBuf| {
        let mut page = match (path.to_str().and_then(|path| members.get(path)), examined.remove(&path)) {
            (Some((array, member)), Some(found)) => of_failed(array, member, found, users(&path, &mounts)),
            (Some((array, member)), None) => of_member(array, member),
            (None, Some(Ok(examined))) => of_examined(&path, examined, users(&path, &mounts)),
            (None, Some(Err(error))) => unread(error, blank(&path)),
            (None, None) => blank(&path),
        };
        page.by_id = names.get(&path).cloned();
        page.pool = pool.contains(&path);
        if let Some(entry) = health.iter().find(|entry| entry.path == path) {
            page.health.clone_from(&entry.health);
            page.health_error.clone_from(&entry.error);
            page.health_read_at_s = Some(entry.read_at_s);
            page.seat.clone_from(&entry.seat);
        }
        page
    };
    all.into_iter().map(page).collect()
}

fn blank(path: &Path) -> DrivePage {
    DrivePage {
        path: path.display().to_string(),
        by_id: None,
        kind: None,
        model: None,
        serial: None,
        size_bytes: None,
        carries: Vec::new(),
        member: None,
        volumes: Vec::new(),
        volumes_error: None,
        volumes_error_said: None,
        users: Vec::new(),
        free: false,
        pool: false,
        error: None,
        error_said: None,
        health: None,
        health_read_at_s: None,
        health_error: None,
        seat: None,
        mark: None,
    }
}

fn of_member(array: &ArrayEntry, member: &MemberView) -> DrivePage {
    let path = Path::new(&member.path);
    DrivePage {
        kind: Some(kind_of(path)),
        model: member.model.clone(),
        serial: member.serial.clone(),
        size_bytes: member.size_bytes,
        carries: vec![format!("a member of array \"{}\"", array.name)],
        member: Some(DriveMembership {
            array: array.name.clone(),
            uuid: array.uuid.clone(),
            served: true,
            slot: member.slot,
            role: Some(member.role.clone()),
        }),
        ..blank(path)
    }
}

/// A drive that cannot be read.
fn unread(error: HostError, page: DrivePage) -> DrivePage {
    let Words { text, said } = error.into();
    DrivePage { error: Some(text), error_said: said, ..page }
}

/// What is at a failed member's path: the drive, as far as it can be read, or another one.
fn of_failed(array: &ArrayEntry, member: &MemberView, found: Result<Examined, HostError>, users: Vec<String>) -> DrivePage {
    let page = of_member(array, member);
    match found {
        Err(error) => unread(error, page),
        Ok(examined) => {
            let now = of_examined(Path::new(&member.path), examined, users);
            // The serial number and the model are those of the drive that is there.
            DrivePage { member: page.member, ..now }
        }
    }
}

fn of_examined(path: &Path, examined: Examined, users: Vec<String>) -> DrivePage {
    let mark = Some(examined.mark());
    let Examined { info, candidate, volumes } = examined;
    let fault = volumes.as_ref().err();
    let (volumes_error, volumes_error_said) = (fault.map(ToString::to_string), fault.and_then(of_firmware));
    let volumes = volumes.iter().flatten().map(FirmwareVolume::from).collect();
    let member = candidate.found.as_ref().ok().map(|member| DriveMembership {
        array: short_name(&member.superblock.name()).to_owned(),
        uuid: uuid_text(&member.superblock.header.set_uuid),
        served: false,
        slot: None,
        role: None,
    });
    let carries = match &member {
        Some(member) => vec![format!("a member of array \"{}\"", member.array)],
        None => candidate.carries.iter().map(ToString::to_string).collect(),
    };
    DrivePage {
        kind: Some(kind(path, matches!(info.kind, DriveKind::BlockDevice))),
        size_bytes: Some(info.limits.size_sectors * 512),
        model: info.model,
        serial: info.serial,
        free: carries.is_empty() && users.is_empty(),
        carries,
        member,
        volumes,
        volumes_error,
        volumes_error_said,
        users,
        mark,
        ..blank(path)
    }
}

impl From<&Volume> for FirmwareVolume {
    fn from(volume: &Volume) -> Self {
        let slots = volume.slots();
        let of = |state: Slot| (0..slots.len()).filter(|&slot| slots[slot] == state).collect();
        Self {
            name: volume.name.clone(),
            uuid: uuid_text(&volume.uuid),
            format: volume.format().to_string(),
            level: volume.level(),
            member_count: slots.len(),
            slot: volume.slot(),
            missing_slots: of(Slot::Missing),
            rebuilding_slots: of(Slot::Rebuilding),
            clean: volume.is_consistent(),
        }
    }
}

/// The kind of a member, by its path.
pub fn kind_of(path: &Path) -> String {
    kind(path, path.starts_with("/dev"))
}

fn kind(path: &Path, is_device: bool) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let rotates =
        || std::fs::read_to_string(format!("/sys/class/block/{name}/queue/rotational")).is_ok_and(|text| text.trim() == "1");
    match is_device {
        false => "file",
        true if rotates() => "hdd",
        true => "ssd",
    }
    .into()
}

/// Stable names below /dev/disk/by-id, the shortest for each drive that is not a number alone.
fn by_id() -> BTreeMap<PathBuf, String> {
    let mut names: BTreeMap<PathBuf, String> = BTreeMap::new();
    for entry in std::fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten() {
        let (name, Ok(target)) = (entry.path().display().to_string(), entry.path().canonicalize()) else { continue };
        let is_better = |known: &String| {
            (name.contains("/wwn-") || name.contains("/nvme-eui."), name.len())
                < (known.contains("/wwn-") || known.contains("/nvme-eui."), known.len())
        };
        if names.get(&target).is_none_or(is_better) {
            names.insert(target, name);
        }
    }
    names
}
