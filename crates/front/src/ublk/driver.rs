//! Commands to the driver, which add, describe, take over and remove devices.
//!
//! A command may wait for I/O, or for ever when the driver has failed. Each runs on a thread of its own. The wait for it has a
//! fixed limit, and lanes never wait.

use super::error::UblkError;
use super::kernel;
use super::options::UblkOptions;
use super::queue::Copier;
use super::uapi::{ControlCommand, DeviceInfo, Parameters, control, feature};
use crate::device_note::mark;
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use stria_block::{Limits, SECTOR_BYTES};

/// 128: requests of one queue at a time, as many as Linux gives a fast SATA or SCSI queue four times over.
pub(super) const DEPTH: u16 = 128;
/// 1 MiB: the largest read or write, so that a queue takes at most 128 MiB.
pub(super) const IO_BYTES_MAX: u32 = 1 << 20;
/// 64 MiB: the largest discard, and the largest range of zeroes, which some arrays must write.
pub(super) const ZEROES_BYTES_MAX: u32 = 64 << 20;
/// How long the driver may take for a command that waits for nothing.
pub(super) const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// How long a device may take to start, which includes reads of its partition table, and to stop, which includes its last
/// requests.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);
/// How long the kernel may take to notice that a server has died, and to take back its requests. It notices within 30 s; taking
/// back waits for the kernel's own threads, which a busy machine may hold up for as long again. The device's users wait in any
/// case.
pub(super) const DEATH_LIMIT: Duration = Duration::from_secs(90);
/// A longer wait is told.
const DEATH_TOLD_AFTER: Duration = Duration::from_secs(10);
/// The time between two checks of work that another process or the kernel must do.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The side that copies data of a device. It is chosen when the device is made.
pub(super) fn copier(info: &DeviceInfo) -> Copier {
    if info.features & feature::USER_COPY == 0 { Copier::Driver } else { Copier::Server }
}

/// The parameters of a device, for Linux.
pub(super) fn parameters(limits: &Limits, read_only: bool) -> Parameters {
    let shift = |bytes: u32| bytes.trailing_zeros() as u8;
    let logical = limits.logical_block_bytes;
    let physical = shift(limits.physical_block_bytes.max(logical));
    let block_sectors = u64::from(logical) / SECTOR_BYTES as u64;
    let attributes = [(read_only, Parameters::READ_ONLY), (limits.rotational, Parameters::ROTATIONAL)];
    let attributes = attributes.into_iter().filter(|(holds, _)| *holds).map(|(_, attribute)| attribute);
    let sectors_of = |bytes: u32| bytes / SECTOR_BYTES as u32;
    Parameters {
        attributes: attributes.fold(Parameters::VOLATILE_CACHE | Parameters::FUA, |all, attribute| all | attribute),
        logical_block_shift: shift(logical),
        physical_block_shift: physical,
        // A full stripe of three strips is no power of two: then what divides it, a strip.
        io_best_shift: if limits.optimal_io_bytes == 0 { physical } else { shift(limits.optimal_io_bytes).max(physical) },
        io_min_shift: physical,
        io_sectors_max: sectors_of(IO_BYTES_MAX),
        sectors: limits.size_sectors / block_sectors * block_sectors,
        discard_granularity_bytes: limits.discard_granularity_bytes.max(logical),
        discard_sectors_max: if limits.discard_granularity_bytes > 0 && !read_only { sectors_of(ZEROES_BYTES_MAX) } else { 0 },
        zeroes_sectors_max: if read_only { 0 } else { sectors_of(ZEROES_BYTES_MAX) },
    }
}

/// Why an array with the parameters `array` cannot serve a device with the parameters `device`, in words. Parameters that are not
/// compared are advice, and change with the drives that are present. A discard that the array no longer has is answered as not
/// supported.
pub(super) fn difference(device: &Parameters, array: &Parameters) -> Option<String> {
    let bytes = |parameters: &Parameters| 1_u64 << parameters.logical_block_shift.min(63);
    if bytes(device) < bytes(array) {
        return Some(format!("its blocks have {} bytes, and those of the array {}", bytes(device), bytes(array)));
    }
    // The device has whole blocks only. Those of the array are smaller once it has lost its drives with large blocks.
    let block_sectors = (bytes(device) / SECTOR_BYTES as u64).max(1);
    if device.sectors != array.sectors / block_sectors * block_sectors {
        return Some(format!("its size is {} sectors, and that of the array {}", device.sectors, array.sectors));
    }
    let has = |parameters: &Parameters, attribute| parameters.attributes & attribute != 0;
    match (has(device, Parameters::READ_ONLY), has(array, Parameters::READ_ONLY)) {
        (true, false) => return Some("it is read-only, and the array is writable".into()),
        (false, true) => return Some("it is writable, and the array is read-only".into()),
        (true, true) | (false, false) => {}
    }
    let durable = [Parameters::VOLATILE_CACHE, Parameters::FUA].into_iter().all(|attribute| has(device, attribute));
    (!durable).then(|| "the kernel sends it no flushes".into())
}

pub(super) fn check_driver() -> Result<(), UblkError> {
    let features = ask("find the features of", control::GET_FEATURES, 0, 0, vec![0; 8], COMMAND_LIMIT);
    let features = features.map_err(|error| match error {
        UblkError::Refused { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::NotAllowed,
            _ => UblkError::TooOld(0),
        },
        error => error,
    })?;
    match u64::from_ne_bytes(features[..8].try_into().expect("8 bytes")) {
        features if features & feature::NEEDED == feature::NEEDED => Ok(()),
        features => Err(UblkError::TooOld(features)),
    }
}

/// The numbers of all devices of the driver.
pub(super) fn ids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok())
}

pub(super) fn device_info(id: u32) -> Result<DeviceInfo, UblkError> {
    let bytes = ask("describe", control::GET_DEVICE_INFO, id, 0, vec![0; DeviceInfo::BYTES], COMMAND_LIMIT)?;
    Ok(DeviceInfo::decode(&bytes))
}

pub(super) fn add(uuid: &[u8; 16], options: &UblkOptions) -> Result<DeviceInfo, UblkError> {
    let id = options.id.unwrap_or(u32::MAX);
    let wanted = DeviceInfo {
        queues: options.queues,
        depth: DEPTH,
        io_bytes_max: IO_BYTES_MAX,
        id,
        pid: std::process::id() as i32,
        features: feature::OF_EVERY_DEVICE
            | match options.copier {
                Copier::Driver => feature::NEED_GET_DATA,
                Copier::Server => feature::USER_COPY,
            },
        mark: mark(uuid),
        ..DeviceInfo::default()
    };
    let added = ask("add", control::ADD_DEVICE, id, 0, wanted.encode().to_vec(), COMMAND_LIMIT);
    let bytes = added.map_err(|error| match error {
        UblkError::Refused { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => UblkError::Taken(id),
        error => error,
    })?;
    Ok(DeviceInfo::decode(&bytes))
}

pub(super) fn delete(id: u32) -> Result<(), UblkError> {
    ask("remove", control::DELETE_DEVICE, id, 0, Vec::new(), COMMAND_LIMIT).map(drop)
}

/// Makes the driver ready for a new server of a device, once it has noticed that the last one is dead.
pub(super) fn take_over(info: &DeviceInfo, parameters: &Parameters, options: &UblkOptions) -> Result<(), UblkError> {
    let id = info.id;
    if options.id.is_some_and(|wanted| wanted != id) {
        return Err(UblkError::OtherNumber { id });
    }
    let mut given = vec![0; Parameters::BYTES];
    given[..4].copy_from_slice(&(Parameters::BYTES as u32).to_ne_bytes());
    // Linux holds the device's lock while it takes the dead server's requests back, and these two commands wait for the lock.
    let (begun, told) = (Instant::now(), Cell::new(false));
    let tell = || {
        if begun.elapsed() >= DEATH_TOLD_AFTER && !told.replace(true) {
            log::warn!(
                "/dev/ublkb{id}: the kernel still takes back the requests of the server that died (process {}); its users wait",
                info.pid
            );
        }
        Ok(())
    };
    let present = ask_while("describe", control::GET_PARAMETERS, id, 0, given, DEATH_LIMIT, tell)?;
    if let Some(what) = difference(&Parameters::decode(&present), parameters) {
        return Err(UblkError::Different { id, what });
    }
    let end = Instant::now() + DEATH_LIMIT;
    loop {
        match ask_while("begin the recovery of", control::START_RECOVERY, id, 0, Vec::new(), DEATH_LIMIT, tell) {
            Err(UblkError::Refused { source, .. }) if Errno::from_io_error(&source) == Some(Errno::BUSY) => {}
            outcome => return outcome.map(drop),
        }
        if Instant::now() >= end {
            return Err(UblkError::Served { id, pid: info.pid });
        }
        tell()?;
        thread::sleep(LOOK_AGAIN);
    }
}

/// The character device, which may take a moment to appear, and which the kernel gives to one server at a time.
pub(super) fn open_queues(id: u32) -> io::Result<File> {
    let end = Instant::now() + COMMAND_LIMIT;
    loop {
        match File::options().read(true).write(true).open(format!("/dev/ublkc{id}")) {
            Err(error) if Instant::now() < end && error.kind() != io::ErrorKind::PermissionDenied => drop(error),
            outcome => return outcome,
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Gives the driver a command and waits for its answer, up to a limit. Returns the buffer that the driver has filled.
pub(super) fn ask(
    action: &'static str,
    number: u32,
    id: u32,
    data: u64,
    buffer: Vec<u8>,
    limit: Duration,
) -> Result<Vec<u8>, UblkError> {
    ask_while(action, number, id, data, buffer, limit, || Ok(()))
}

/// As [`ask`], as long as there is `hope`.
pub(super) fn ask_while(
    action: &'static str,
    number: u32,
    id: u32,
    data: u64,
    mut buffer: Vec<u8>,
    limit: Duration,
    hope: impl Fn() -> Result<(), UblkError>,
) -> Result<Vec<u8>, UblkError> {
    let (sender, answer) = channel();
    // The buffer is the thread's: a driver that never answers has it for ever.
    let asking = move || {
        let command = ControlCommand { device: id, data };
        let _ = sender.send(kernel::control(number, command, &mut buffer).map(|()| buffer));
    };
    let refused = |source| UblkError::Refused { action, id, source };
    thread::Builder::new().name("ublk-control".into()).spawn(asking).map_err(refused)?;
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match answer.recv_timeout(left.min(Duration::from_millis(100))) {
            Ok(answered) => return answered.map_err(refused),
            Err(RecvTimeoutError::Timeout) if !left.is_zero() => hope()?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(UblkError::Silent { action, id, seconds: limit.as_secs() });
            }
        }
    }
}
