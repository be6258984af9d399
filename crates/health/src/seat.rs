//! The location of a drive: its slot, the enclosure, the link that it shares with others, and the light that shows it. All of it
//! is read from sysfs.
//!
//! | what | where sysfs has it |
//! | --- | --- |
//! | slots of SAS and SATA enclosures (SES) | `device/enclosure_device:SLOT`, with `locate` |
//! | slots of PCIe hotplug | `bus/pci/slots/SLOT`, with `attention` |
//! | lights of NVMe drives (NPEM, Linux 6.13) | `class/leds/ADDRESS:enclosure:locate` |
//! | other backplanes | `ledctl` of ledmon, if it is installed |

use rustix::fs::{FileType, major, minor, stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use stria_drive::sysfs::{SYSFS, device_folder, is_partition, whole_folder};
use stria_drive::{NoResult, run_within};

/// The attention light of a hotplug slot is off, or blinks.
const ATTENTION: (&str, &str) = ("0", "2");
/// The time that ledctl may take. It talks to the enclosure, which may hang.
const LEDCTL_WITHIN: Duration = Duration::from_secs(20);

/// The location of a drive in the machine. What sysfs does not show is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Seat {
    /// The slot, as it is labelled.
    pub slot: Option<String>,
    /// The enclosure that has the slot.
    pub enclosure: Option<String>,
    /// The PCI function below the root complex that leads to the drive: drives with the same one share a link.
    pub link: Option<String>,
    /// The file that switches its light.
    #[serde(skip)]
    light: Option<Light>,
}

/// A light, by the file that switches it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Light {
    file: PathBuf,
    off: String,
    on: String,
}

/// A reason why no light shows a drive.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// It is not a block device.
    #[error("{0} is not a block device: a file has no light; name the drive that stores it")]
    NoDevice(PathBuf),
    /// It cannot be looked at.
    #[error("{0}: {1}")]
    Open(PathBuf, io::Error),
    /// There is no light.
    #[error(
        "{0}: this machine has no light for it: neither its enclosure (SES), nor its PCIe slot, nor NPEM has one, and ledctl is not installed; its serial number is on its label (`stria health`)"
    )]
    NoLight(PathBuf),
    /// The light cannot be switched.
    #[error("{0}: {1} cannot be written: {2}; run as root")]
    Light(PathBuf, PathBuf, io::Error),
    /// `ledctl` refuses.
    #[error("{0}: ledctl: {1}")]
    Ledctl(PathBuf, String),
}

impl Seat {
    /// The seat of a drive or partition. For a file: that of the drive below its file system, without a slot.
    pub fn of(drive: &Path) -> Self {
        let Ok(found) = stat(drive) else { return Self::default() };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::BlockDevice => Self::of_number(Path::new(SYSFS), found.st_rdev),
            _ => {
                let below = Self::of_number(Path::new(SYSFS), found.st_dev);
                let file_system = format!("file system {}:{}", major(found.st_dev), minor(found.st_dev));
                Self { link: below.link.or(Some(file_system)), ..Self::default() }
            }
        }
    }

    /// The same, of the block device with this number, where sysfs is at `sysfs`.
    pub(crate) fn of_number(sysfs: &Path, number: u64) -> Self {
        let Ok(device) = whole_folder(sysfs, number) else { return Self::default() };
        let device = controller_of(&device).unwrap_or(device);
        let functions: Vec<String> = device
            .components()
            .filter_map(|part| part.as_os_str().to_str())
            .filter(|name| is_function(name))
            .map(str::to_owned)
            .collect();
        let (link, own) = (functions.first().cloned(), functions.last());
        let (slot, enclosure, light) = in_enclosure(&device)
            .or_else(|| own.and_then(|own| in_pci_slot(sysfs, own)))
            .map_or((None, None, None), |(slot, enclosure, light)| (Some(slot), enclosure, light));
        let light = light.or_else(|| own.and_then(|own| npem(sysfs, own)));
        Self { slot, enclosure, link, light }
    }

    /// The location in words; `None`: nothing is known.
    pub fn words(&self) -> Option<String> {
        let slot = self.slot.as_ref()?;
        Some(
            self.enclosure
                .as_ref()
                .map_or_else(|| format!("slot {slot}"), |enclosure| format!("slot {slot} of enclosure {enclosure}")),
        )
    }

    /// Switches the light of a drive on or off. Returns a description of the light.
    ///
    /// # Errors
    /// The drive has none, or the light cannot be switched.
    pub fn locate(drive: &Path, on: bool) -> Result<String, LocateError> {
        let found = stat(drive).map_err(|errno| LocateError::Open(drive.into(), errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice {
            return Err(LocateError::NoDevice(drive.into()));
        }
        Self::of_number(Path::new(SYSFS), found.st_rdev).switch(drive, on, "ledctl", LEDCTL_WITHIN)
    }

    pub(crate) fn switch(&self, drive: &Path, on: bool, ledctl: &str, patience: Duration) -> Result<String, LocateError> {
        let place = self.words().map_or_else(String::new, |words| format!(" ({words})"));
        if let Some(light) = &self.light {
            let value = if on { &light.on } else { &light.off };
            match fs::write(&light.file, value) {
                Ok(()) => return Ok(format!("the light of {}{place}", drive.display())),
                Err(error) if !is_no_light(&error) => {
                    return Err(LocateError::Light(drive.into(), light.file.clone(), error));
                }
                Err(_) => {}
            }
        }
        let order = format!("{}={}", if on { "locate" } else { "locate_off" }, drive.display());
        let mut command = Command::new(ledctl);
        command.arg(order);
        match run_within(patience, command, &[]) {
            Ok(output) if output.status.success() => Ok(format!("the light of {}{place}, by ledctl", drive.display())),
            Ok(output) => Err(LocateError::Ledctl(drive.into(), String::from_utf8_lossy(&output.stderr).trim().to_owned())),
            Err(NoResult::NotStarted(_)) => Err(LocateError::NoLight(drive.into())),
            Err(NoResult::Late(_)) => {
                let words = format!("it was ended after {} s without a result: the enclosure may not answer", patience.as_secs());
                Err(LocateError::Ledctl(drive.into(), words))
            }
        }
    }
}

/// True if the file exists and the light does not: a slot that Linux knows by ACPI alone has such a file.
fn is_no_light(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::NODEV, Errno::NXIO, Errno::OPNOTSUPP].contains(&errno))
}

/// `0000:3d:00.0`
fn is_function(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() >= 12 && bytes[4] == b':' && bytes[7] == b':' && bytes[10] == b'.'
}

/// The folder of the controller that the block device with this number is below.
pub(crate) fn controller_folder(number: u64) -> Option<PathBuf> {
    let device = whole_folder(Path::new(SYSFS), number).ok()?;
    controller_of(&device).or_else(|| device.parent().map(Path::to_owned))
}

/// The block devices of an NVM subsystem, seen from one of them.
pub(crate) struct Subsystem {
    /// The namespace that the device is, or is a partition of.
    own: String,
    /// The partition that the device is.
    own_partition: Option<String>,
    /// Every namespace, each with its partitions.
    namespaces: BTreeMap<String, Vec<String>>,
}

impl Subsystem {
    /// The other namespaces.
    pub(crate) fn other_namespaces(&self) -> Vec<String> {
        self.namespaces.keys().filter(|name| **name != self.own).cloned().collect()
    }

    /// The other namespaces, and all partitions but the device itself. Partitions of a namespace that is the device lie within
    /// it.
    pub(crate) fn others(&self) -> Vec<String> {
        let mut others = self.other_namespaces();
        let apart = self.namespaces.iter().filter(|(name, _)| self.own_partition.is_some() || **name != self.own);
        let partitions = apart.flat_map(|(_, partitions)| partitions);
        others.extend(partitions.filter(|name| Some(*name) != self.own_partition.as_ref()).cloned());
        others.sort();
        others
    }
}

/// The NVM subsystem of the block device with this number, where sysfs is at `sysfs`. In sysfs a namespace is below its
/// controller, or, if several controllers share it, below the subsystem; the subsystem has links to its controllers.
///
/// # Errors
/// When a part of that cannot be read: a namespace that is not seen must not count as none.
pub(crate) fn subsystem(sysfs: &Path, number: u64) -> io::Result<Subsystem> {
    let (device, namespace) = (device_folder(sysfs, number)?, whole_folder(sysfs, number)?);
    let controller = namespace.parent().unwrap_or(&namespace);
    let mut found = None;
    for entry in fs::read_dir(sysfs.join("class/nvme-subsystem"))? {
        let subsystem = entry?.path().canonicalize()?;
        let controllers = linked_controllers(&subsystem)?;
        if subsystem == controller || controllers.iter().any(|linked| linked == controller) {
            found = Some((subsystem, controllers));
        }
    }
    let (subsystem, controllers) =
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "sysfs names no NVM subsystem for it"))?;
    let mut namespaces = BTreeMap::new();
    for folder in controllers.iter().chain([&subsystem]) {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // One of several paths to a namespace, such as nvme0c1n2, is listed as the namespace.
            if is_namespace(&name) && entry.file_type()?.is_dir() {
                let parts = fs::read_dir(entry.path())?.collect::<io::Result<Vec<_>>>()?;
                let parts = parts.into_iter().filter(|part| is_partition(&part.path()));
                namespaces.insert(name, parts.map(|part| part.file_name().to_string_lossy().into_owned()).collect());
            }
        }
    }
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = name(&namespace);
    if !namespaces.contains_key(&own) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "sysfs does not list it in its own NVM subsystem"));
    }
    Ok(Subsystem { own, own_partition: is_partition(&device).then(|| name(&device)), namespaces })
}

/// `nvme0n1`
fn is_namespace(name: &str) -> bool {
    let numbers = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(controller, namespace)| is_number(controller) && is_number(namespace))
}

/// The folders of the controllers that a subsystem has links to.
fn linked_controllers(subsystem: &Path) -> io::Result<Vec<PathBuf>> {
    let mut controllers = Vec::new();
    for entry in fs::read_dir(subsystem)? {
        let entry = entry?;
        if entry.file_type()?.is_symlink() && entry.file_name().to_string_lossy().starts_with("nvme") {
            controllers.push(entry.path().canonicalize()?);
        }
    }
    controllers.sort();
    Ok(controllers)
}

/// The controller of a namespace that several controllers share: in sysfs such a namespace is below none of them.
fn controller_of(namespace: &Path) -> Option<PathBuf> {
    let subsystem = namespace.parent().filter(|parent| parent.components().any(|part| part.as_os_str() == "nvme-subsystem"))?;
    linked_controllers(subsystem).ok()?.into_iter().next()
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

type Slot = (String, Option<String>, Option<Light>);

/// A slot of an enclosure with services (SES): the kernel links the drive with it.
fn in_enclosure(device: &Path) -> Option<Slot> {
    let entries = fs::read_dir(device.join("device")).ok()?;
    let link = entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with("enclosure_device:"))?;
    let slot = link.path().canonicalize().ok()?;
    let label = link.file_name().to_string_lossy().split_once(':').map(|(_, label)| label.trim().to_owned())?;
    let number = text(&slot.join("slot")).filter(|number| label.is_empty() || number.parse::<u32>().is_ok());
    let enclosure = slot.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let file = slot.join("locate");
    let light = file.exists().then(|| Light { file, off: "0".into(), on: "1".into() });
    Some((number.unwrap_or(label), enclosure, light))
}

/// A slot of PCIe hotplug. Its address has no function.
fn in_pci_slot(sysfs: &Path, function: &str) -> Option<Slot> {
    let (address, _) = function.rsplit_once('.')?;
    let slots = fs::read_dir(sysfs.join("bus/pci/slots")).ok()?;
    let slot = slots.flatten().map(|entry| entry.path()).find(|slot| text(&slot.join("address")).as_deref() == Some(address))?;
    let file = slot.join("attention");
    let light = file.exists().then(|| Light { file, off: ATTENTION.0.into(), on: ATTENTION.1.into() });
    Some((slot.file_name()?.to_string_lossy().into_owned(), None, light))
}

/// The light of an NVMe drive by Native PCIe Enclosure Management.
fn npem(sysfs: &Path, function: &str) -> Option<Light> {
    let light = sysfs.join(format!("class/leds/{function}:enclosure:locate"));
    let on = text(&light.join("max_brightness")).unwrap_or_else(|| "1".into());
    let file = light.join("brightness");
    file.exists().then(|| Light { file, off: "0".into(), on })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;

    /// A fake sysfs.
    struct Fake(tempfile::TempDir);

    impl Fake {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        fn path(&self, page: &str) -> PathBuf {
            self.0.path().join(page)
        }

        fn write(&self, page: &str, value: &str) {
            let path = self.path(page);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, format!("{value}\n")).expect("a file");
        }

        fn link(&self, from: &str, to: &str) {
            let from = self.path(from);
            fs::create_dir_all(self.path(to)).expect("a folder");
            fs::create_dir_all(from.parent().expect("a folder")).expect("a folder");
            symlink(self.path(to), from).expect("a link");
        }

        fn seat(&self, number: (u32, u32)) -> Seat {
            Seat::of_number(self.0.path(), makedev(number.0, number.1))
        }

        fn read(&self, page: &str) -> String {
            fs::read_to_string(self.path(page)).expect("a file").trim().to_owned()
        }
    }

    const NO_LEDCTL: &str = "/nonexistent/ledctl";

    #[test]
    fn a_sas_drive_sits_in_a_slot_of_its_enclosure_which_has_a_light() {
        let fake = Fake::new();
        let scsi = "devices/pci0000:00/0000:00:03.0/0000:05:00.0/host0/target0:0:8/0:0:8:0";
        fake.link("dev/block/8:16", &format!("{scsi}/block/sdb"));
        fake.write(&format!("{scsi}/block/sdb/sdb1/partition"), "1");
        fake.link("dev/block/8:17", &format!("{scsi}/block/sdb/sdb1"));
        fake.link(&format!("{scsi}/block/sdb/device"), scsi);
        let slot = "devices/pci0000:00/0000:00:03.0/0000:05:00.0/host0/target0:0:32/0:0:32:0/enclosure/0:0:32:0/Slot 07";
        fake.link(&format!("{scsi}/enclosure_device:Slot 07"), slot);
        fake.write(&format!("{slot}/slot"), "7");
        fake.write(&format!("{slot}/locate"), "0");
        for number in [(8, 16), (8, 17)] {
            let seat = fake.seat(number);
            assert_eq!(seat.words().as_deref(), Some("slot 7 of enclosure 0:0:32:0"));
            assert_eq!(seat.link.as_deref(), Some("0000:00:03.0"));
        }
        let (seat, drive) = (fake.seat((8, 16)), Path::new("/dev/sdb"));
        assert_eq!(
            seat.switch(drive, true, NO_LEDCTL, LEDCTL_WITHIN).expect("a light"),
            "the light of /dev/sdb (slot 7 of enclosure 0:0:32:0)"
        );
        assert_eq!(fake.read(&format!("{slot}/locate")), "1");
        seat.switch(drive, false, NO_LEDCTL, LEDCTL_WITHIN).expect("a light");
        assert_eq!(fake.read(&format!("{slot}/locate")), "0");
    }

    #[test]
    fn an_nvme_drive_sits_in_a_pcie_slot_and_two_behind_a_switch_share_a_link() {
        let fake = Fake::new();
        for (index, bus) in [(0, "3d"), (1, "3e")] {
            let nvme =
                format!("devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:0{index}.0/0000:{bus}:00.0/nvme/nvme{index}");
            fake.link(&format!("dev/block/259:{index}"), &format!("{nvme}/nvme{index}n1"));
        }
        fake.write("bus/pci/slots/12/address", "0000:3d:00");
        fake.write("bus/pci/slots/12/attention", "0");
        fake.write("bus/pci/slots/13/address", "0000:3e:00");
        fake.write("class/leds/0000:3e:00.0:enclosure:locate/brightness", "0");
        fake.write("class/leds/0000:3e:00.0:enclosure:locate/max_brightness", "1");
        let (first, second) = (fake.seat((259, 0)), fake.seat((259, 1)));
        assert_eq!((first.words().as_deref(), second.words().as_deref()), (Some("slot 12"), Some("slot 13")));
        assert_eq!((first.link.as_deref(), &second.link), (Some("0000:3a:00.0"), &first.link));
        first.switch(Path::new("/dev/nvme0n1"), true, NO_LEDCTL, LEDCTL_WITHIN).expect("a light");
        assert_eq!(fake.read("bus/pci/slots/12/attention"), "2", "it blinks");
        second.switch(Path::new("/dev/nvme1n1"), true, NO_LEDCTL, LEDCTL_WITHIN).expect("a light");
        assert_eq!(fake.read("class/leds/0000:3e:00.0:enclosure:locate/brightness"), "1");
    }

    #[test]
    fn a_namespace_with_several_paths_sits_where_its_first_controller_does() {
        let fake = Fake::new();
        let controller = "devices/pci0000:00/0000:00:1d.0/0000:04:00.0/nvme/nvme2";
        let subsystem = "devices/virtual/nvme-subsystem/nvme-subsys2";
        fake.link("dev/block/259:4", &format!("{subsystem}/nvme2n1"));
        fake.link(&format!("{subsystem}/nvme2"), controller);
        fake.write("bus/pci/slots/4/address", "0000:04:00");
        let seat = fake.seat((259, 4));
        assert_eq!((seat.words().as_deref(), seat.link.as_deref()), (Some("slot 4"), Some("0000:00:1d.0")));
    }

    #[test]
    fn all_namespaces_of_a_subsystem_are_found_and_what_cannot_be_read_is_no_empty_list() {
        let fake = Fake::new();
        let controller = |index: usize| format!("devices/pci0000:00/0000:00:0{index}.0/nvme/nvme{index}");
        let virtual_0 = "devices/virtual/nvme-subsystem/nvme-subsys0";
        fake.link("class/nvme-subsystem/nvme-subsys0", virtual_0);
        // Two controllers share namespace 1, and the second has one of its own.
        for index in [0, 1] {
            fake.link(&format!("{virtual_0}/nvme{index}"), &controller(index));
            fake.write(&format!("{}/nvme0c{index}n1/nsid", controller(index)), "1");
        }
        fake.link("dev/block/259:0", &format!("{virtual_0}/nvme0n1"));
        fake.write(&format!("{virtual_0}/nvme0n1/nvme0n1p1/partition"), "1");
        fake.write(&format!("{virtual_0}/nvme0n1/nvme0n1p2/partition"), "2");
        fake.link("dev/block/259:1", &format!("{virtual_0}/nvme0n1/nvme0n1p1"));
        fake.link("dev/block/259:3", &format!("{}/nvme0n2", controller(1)));
        // A drive of its own, below its controller as most are.
        fake.link("class/nvme-subsystem/nvme-subsys2", "devices/virtual/nvme-subsystem/nvme-subsys2");
        fake.link("devices/virtual/nvme-subsystem/nvme-subsys2/nvme2", &controller(2));
        fake.link("dev/block/259:5", &format!("{}/nvme2n1", controller(2)));
        let of = |minor| subsystem(fake.0.path(), makedev(259, minor)).expect("sysfs has it");
        assert_eq!(of(0).other_namespaces(), ["nvme0n2"]);
        assert_eq!(of(0).others(), ["nvme0n2"], "its own partitions lie within it");
        assert_eq!(of(3).others(), ["nvme0n1", "nvme0n1p1", "nvme0n1p2"]);
        assert_eq!(of(1).others(), ["nvme0n1p2", "nvme0n2"], "of a partition: neither itself, nor its namespace");
        assert_eq!(of(3).other_namespaces(), ["nvme0n1"], "from below a controller");
        assert_eq!(of(5).others(), [""; 0]);
        fs::remove_dir_all(fake.path("class/nvme-subsystem")).expect("a folder");
        for minor in [0, 3, 5] {
            assert!(subsystem(fake.0.path(), makedev(259, minor)).is_err());
        }
        fs::create_dir(fake.path("class/nvme-subsystem")).expect("a folder");
        assert!(subsystem(fake.0.path(), makedev(259, 0)).is_err(), "no subsystem has it");
    }

    #[test]
    fn a_machine_without_lights_says_so_unless_ledctl_is_there() {
        let fake = Fake::new();
        fake.link("dev/block/8:0", "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda");
        let (seat, drive) = (fake.seat((8, 0)), Path::new("/dev/sda"));
        assert_eq!((seat.words(), seat.link.as_deref()), (None, Some("0000:00:1f.2")));
        let error = seat.switch(drive, true, NO_LEDCTL, LEDCTL_WITHIN).expect_err("no light").to_string();
        assert!(error.contains("has no light") && error.contains("serial number"), "{error}");
        let ledctl = fake.path("ledctl");
        stria_testkit::script(&ledctl, "#!/bin/sh\n[ \"$1\" = locate_off=/dev/sda ] || { echo \"what is $1\" >&2; exit 1; }\n");
        let ledctl = ledctl.to_str().expect("a plain path");
        assert!(seat.switch(drive, false, ledctl, LEDCTL_WITHIN).expect("it obeys").ends_with("by ledctl"));
        assert!(
            seat.switch(drive, true, ledctl, LEDCTL_WITHIN)
                .expect_err("it refuses")
                .to_string()
                .contains("what is locate=/dev/sda")
        );
        // It waits for an enclosure: the command and the API waited with it.
        let hangs = fake.path("hangs");
        stria_testkit::script(&hangs, "#!/bin/sh\nexec sleep 1000\n");
        let hangs = hangs.to_str().expect("a plain path");
        let error = seat.switch(drive, true, hangs, Duration::from_millis(300)).expect_err("it is ended").to_string();
        assert!(error.contains("ledctl: it was ended after"), "{error}");
        assert_eq!(fake.seat((8, 99)), Seat::default(), "unknown to sysfs");
        // The file of a light that is not there. A socket cannot be opened either, for the same reason.
        fake.link("dev/block/259:7", "devices/pci0000:00/0000:00:05.0/nvme/nvme7/nvme7n1");
        fake.write("bus/pci/slots/5/address", "0000:00:05");
        let _socket = std::os::unix::net::UnixListener::bind(fake.path("bus/pci/slots/5/attention")).expect("a socket");
        let (seat, drive) = (fake.seat((259, 7)), Path::new("/dev/nvme7n1"));
        let error = seat.switch(drive, true, NO_LEDCTL, LEDCTL_WITHIN).expect_err("no light").to_string();
        assert!(seat.words().as_deref() == Some("slot 5") && error.contains("has no light"), "{error}");
        assert!(matches!(Seat::locate(&fake.path("ledctl"), true), Err(LocateError::NoDevice(_))), "a file");
    }
}
