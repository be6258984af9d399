//! One array of the configuration, from its drives to its clients.

use crate::api::Obstacle;
use crate::config;
use crate::fronts::ublk::BlockSpec;
use crate::lane_spec::LaneSpec;
use crate::serve::disk_serial;
use crate::service::Service;
use crate::system::directory::{GroupAnswer, begin_group};
use crate::words::error::{ErrorSentence, Words};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use stria_drive::DriveError;
use stria_front::{Closing, SocketAccess, VhostUserServer};
use stria_host::{HostError, OpenOptions, PlannedArray};

/// How long an array's start waits for the name service to find a group. After that it serves without the disks of that group.
const GROUP_WITHIN: Duration = Duration::from_secs(1);

/// An array that is served.
pub struct Opened {
    /// Its name here.
    pub name: String,
    /// The addresses for clients.
    pub ways: Vec<String>,
    /// The group of its disks' sockets, which the name service has not found yet: the array has no disks until then.
    pub late_group: Option<Receiver<Result<u32, String>>>,
}

/// The reason why an array was not opened.
pub struct Refused {
    /// The reason.
    pub words: Box<Words>,
    /// Its kind. That another program uses a drive, or a group is not there, may pass.
    pub obstacle: Obstacle,
    /// The drive that did not answer.
    pub silent: Option<PathBuf>,
}

impl Refused {
    fn new(words: impl Into<Words>) -> Self {
        Self { words: Box::new(words.into()), obstacle: Obstacle::Other, silent: None }
    }
}

impl From<HostError> for Refused {
    fn from(error: HostError) -> Self {
        Self {
            obstacle: match &error {
                HostError::Drive(DriveError::Busy { .. }) => Obstacle::InUse,
                _ => Obstacle::Other,
            },
            silent: error.silent_drive().map(Path::to_owned),
            words: Box::new(error.into()),
        }
    }
}

/// Opens an array and exports it as configured. `listening`: clients may connect at once.
///
/// # Errors
/// The obstacle; the array is not served then.
pub fn open(
    service: &Service,
    planned: &PlannedArray,
    name: &str,
    array: &config::Array,
    how: OpenOptions,
    listening: bool,
) -> Result<Opened, Refused> {
    if service.serves(name) {
        return Err(Refused::new(ErrorSentence::NameServed { array: name.to_owned() }));
    }
    for path in &array.vhost_user {
        VhostUserServer::check(path).map_err(|error| Refused::new(error.to_string()))?;
    }
    let answer = array.vhost_user_group.as_deref().map(|group| begin_group(group, GROUP_WITHIN));
    let (access, late_group) = match answer {
        None => (Some(SocketAccess::default()), None),
        // The name service may not know it yet while the machine boots: the start is tried again.
        Some(GroupAnswer::Known(group)) => {
            let no_group = |error: String| Refused {
                obstacle: Obstacle::Group,
                ..Refused::new(ErrorSentence::GroupUnknown { reason: error })
            };
            let group = group.map_err(no_group)?;
            (Some(of_group(group)), None)
        }
        Some(GroupAnswer::Late(answer)) => (None, Some(answer)),
    };
    let lanes = LaneSpec { count: array.lanes.map(usize::from), ..LaneSpec::default() };
    let block = array.ublk.option().map(|id| BlockSpec { id, copier: array.ublk_copy.into() });
    let (ways, _) = service.start(planned, name, how, lanes, block)?;
    let mut ways: Vec<String> = ways.into_iter().map(|(_, way)| way).collect();
    if let Some(access) = access {
        if let Err(refused) = add_disks(service, name, array, access, &planned.uuid, listening) {
            let _ = service.give_up(name, Closing::Disconnect);
            return Err(Refused::new(refused));
        }
        ways.extend(array.vhost_user.iter().map(|path| path.display().to_string()));
    }
    Ok(Opened { name: name.to_owned(), ways, late_group })
}

/// The access to sockets whose group is known.
pub fn of_group(group: u32) -> SocketAccess {
    SocketAccess { mode: 0o660, group: Some(group) }
}

/// Makes a served array the disk of virtual machines at its sockets.
///
/// # Errors
/// The socket that cannot be made.
pub fn add_disks(
    service: &Service,
    name: &str,
    array: &config::Array,
    access: SocketAccess,
    uuid: &[u8; 16],
    listening: bool,
) -> Result<(), String> {
    for path in &array.vhost_user {
        service.add_disk(name, path.clone(), access, disk_serial(uuid)).map_err(|error| error.to_string())?;
        if listening {
            service.listen().map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
