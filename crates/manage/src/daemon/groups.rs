//! Groups of sockets that the machine did not know when the daemon started. Each gets its sockets once it is there, without a
//! restart.

use crate::config::ApiGroup;
use crate::rest::auth::Guard;
use crate::rest::let_in;
use crate::service::Service;
use crate::system::directory::LateGroup;
use crate::view;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// The permissions of the API's socket with a group.
const API_MODE: u32 = 0o660;

/// The group of the NBD sockets.
pub struct NbdGroup {
    pub group: LateGroup,
    pub sockets: Vec<PathBuf>,
    pub mode: u32,
    /// The number of the group, once it is known. The sockets may come later.
    pub number: Option<u32>,
}

/// The groups that are still missing.
pub struct LateGroups {
    pub nbd: Option<NbdGroup>,
    pub api: Vec<(ApiGroup, LateGroup)>,
    pub api_socket: PathBuf,
}

impl LateGroups {
    /// Asks for them again, and gives sockets to those that are there.
    pub fn follow(&mut self, service: &Service, guard: &Guard) {
        if let Some(nbd) = &mut self.nbd {
            nbd.number = nbd.number.or_else(|| nbd.group.poll());
            if let Some(number) = nbd.number
                && nbd.sockets.iter().all(|socket| socket.exists())
            {
                nbd.sockets.iter().for_each(|socket| give(service, socket, &nbd.group, number, None, nbd.mode));
                self.nbd = None;
            }
        }
        let socket = &self.api_socket;
        self.api.retain_mut(|(of, group)| {
            let Some(number) = group.poll() else { return true };
            let (operators, admins) = guard.set_group(*of, number);
            if let Some(owner) = operators.or(admins) {
                give(service, socket, group, owner, admins.filter(|admins| *admins != owner), API_MODE);
            }
            false
        });
    }
}

/// `late`: the group that is there now; `owner`: that of the socket from now on; `other`: another one that may connect.
fn give(service: &Service, socket: &Path, late: &LateGroup, owner: u32, other: Option<u32>, mode: u32) {
    let (name, shown) = (late.name(), socket.display());
    let (kind, text) = match set_access(socket, owner, other, mode) {
        Ok(()) => ("group", format!("group {name:?} is there now: its members may connect to {shown}")),
        Err(error) => ("warning", format!("group {name:?} is there now, and {shown} cannot be given to it: {error}")),
    };
    service.events().push(view::plain_event("", kind, text));
}

fn set_access(socket: &Path, group: u32, other: Option<u32>, mode: u32) -> io::Result<()> {
    chown(socket, None, Some(group))?;
    std::fs::set_permissions(socket, Permissions::from_mode(mode))?;
    other.map_or(Ok(()), |other| let_in(socket, other))
}
