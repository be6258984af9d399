//! One array of the configuration, from its drives to its clients.

use crate::config;
use crate::lane_spec::LaneSpec;
use crate::serve::disk_serial;
use crate::service::Service;
use crate::ublk::BlockSpec;
use std::path::{Path, PathBuf};
use stria_drive::DriveError;
use stria_front::{Closing, SocketAccess, VhostUserServer};
use stria_host::{HostError, OpenOptions, PlannedArray};

/// An array that is served.
pub struct Opened {
    /// Its name here.
    pub name: String,
    /// The addresses for clients.
    pub ways: Vec<String>,
}

/// The reason why an array was not opened.
pub struct Refused {
    /// The reason in words.
    pub text: String,
    /// True if another program uses a drive, or a group is not found, which may pass.
    pub is_busy: bool,
    /// The drive that did not answer.
    pub silent: Option<PathBuf>,
}

impl Refused {
    fn new(error: impl std::fmt::Display) -> Self {
        Self { text: error.to_string(), is_busy: false, silent: None }
    }
}

impl From<HostError> for Refused {
    fn from(error: HostError) -> Self {
        Self {
            is_busy: matches!(&error, HostError::Drive(DriveError::Busy { .. })),
            silent: error.silent_drive().map(Path::to_owned),
            text: error.to_string(),
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
        let text = format!("another array is served as \"{name}\": give one of the two another name (`stria rename`)");
        return Err(Refused::new(text));
    }
    for path in &array.vhost_user {
        VhostUserServer::check(path).map_err(Refused::new)?;
    }
    let access = match &array.vhost_user_group {
        Some(group) => {
            // The machine's directory may not answer yet while it boots: the start is tried again.
            let group = crate::nbd::group(group).map_err(|error| Refused { is_busy: true, ..Refused::new(error) })?;
            SocketAccess { mode: 0o660, group: Some(group) }
        }
        None => SocketAccess::default(),
    };
    let lanes = LaneSpec { count: array.lanes.map(usize::from), ..LaneSpec::default() };
    let block = array.ublk.option().map(|id| BlockSpec { id, copier: array.ublk_copy.into() });
    let (ways, _) = service.start(planned, name, how, lanes, block)?;
    let mut ways: Vec<String> = ways.into_iter().map(|(_, way)| way).collect();
    for path in &array.vhost_user {
        let added = service.add_disk(name, path.clone(), access, disk_serial(&planned.uuid));
        let added = added.map_err(Refused::new);
        let listens = added.and_then(|()| if listening { service.listen().map_err(Refused::new) } else { Ok(()) });
        if let Err(refused) = listens {
            let _ = service.give_up(name, Closing::Disconnect);
            return Err(refused);
        }
        ways.push(path.display().to_string());
    }
    Ok(Opened { name: name.to_owned(), ways })
}
