//! The options of the vhost-user-blk server: which array is the disk of a virtual machine at which socket.

use crate::system::directory::group;
use clap::Args;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use stria_front::{SocketAccess, VhostUserServer};
use stria_terminal::{Failure, absolute};

/// How arrays are served to virtual machines.
#[derive(Args, Clone, Debug)]
pub struct VhostUserOptions {
    /// Serve an array as the disk of a virtual machine (vhost-user-blk) at this unix socket. If several arrays are served, name
    /// one of them. Repeat for more arrays or more virtual machines: a socket serves one machine at a time.
    #[arg(long = "vhost-user", value_name = "[ARRAY=]PATH")]
    pub sockets: Vec<DiskSocket>,
    /// Group that may connect to these sockets, by name or number; by default only root and the user of the server may connect. A
    /// client of these sockets can end this process.
    #[arg(long, value_name = "GROUP", value_parser = group, requires = "sockets")]
    pub vhost_user_group: Option<u32>,
}

/// A socket, and the array that is the disk there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSocket {
    /// `None`: the only one.
    pub array: Option<String>,
    /// Where the front-end connects.
    pub path: PathBuf,
}

impl FromStr for DiskSocket {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        // A path that has a `=` of its own is written with a slash before it.
        let (array, path) = match text.split_once('=').filter(|(array, _)| !array.contains('/')) {
            Some((array, path)) => (Some(array.to_owned()), path),
            None => (None, text),
        };
        match path.is_empty() || array.as_deref() == Some("") {
            true => Err("write PATH or ARRAY=PATH".into()),
            false => Ok(Self { array, path: absolute(Path::new(path)) }),
        }
    }
}

impl VhostUserOptions {
    /// The sockets of each array. `names` are the arrays that will be served. Sockets that cannot work are refused before
    /// anything is changed.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the remedy, or that a socket cannot be made.
    pub fn resolve(&self, names: &[String]) -> Result<Vec<(String, PathBuf)>, Failure> {
        let mut resolved: Vec<(String, PathBuf)> = Vec::new();
        for DiskSocket { array, path } in &self.sockets {
            let shown = path.display();
            let name = match (array, names) {
                (Some(name), names) if names.contains(name) => name.clone(),
                (None, [only]) => only.clone(),
                (Some(name), _) => {
                    let names = names.join(", ");
                    return Err(Failure::Usage(format!("--vhost-user {shown} is for \"{name}\", and served are: {names}")));
                }
                (None, _) => {
                    let names = names.join(", ");
                    return Err(Failure::Usage(format!("--vhost-user {shown} is for one array of {names}: write ARRAY={shown}")));
                }
            };
            if resolved.iter().any(|(_, other)| other == path) {
                return Err(Failure::Usage(format!("--vhost-user {shown} is given twice: choose another path for each")));
            }
            VhostUserServer::check(path).map_err(Failure::failed)?;
            resolved.push((name, path.clone()));
        }
        Ok(resolved)
    }

    /// The mode and group of the sockets.
    pub fn access(&self) -> SocketAccess {
        match self.vhost_user_group {
            Some(group) => SocketAccess { mode: 0o660, group: Some(group) },
            None => SocketAccess::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_name_their_array_where_there_are_several() {
        let options = |texts: &[&str]| VhostUserOptions {
            sockets: texts.iter().map(|text| text.parse().expect("a socket")).collect(),
            vhost_user_group: None,
        };
        let (one, two) = (["tank".to_owned()], ["tank".to_owned(), "pool".to_owned()]);
        let found = |texts: &[&str], names: &[String]| options(texts).resolve(names).ok();
        let pair = |name: &str, path: &str| (name.to_owned(), PathBuf::from(path));
        assert_eq!(found(&["/tmp/a.sock"], &one), Some(vec![pair("tank", "/tmp/a.sock")]));
        assert_eq!(found(&["/tmp/a=b.sock"], &one), Some(vec![pair("tank", "/tmp/a=b.sock")]));
        let both = found(&["pool=/tmp/a.sock", "pool=/tmp/b.sock"], &two);
        assert_eq!(both, Some(vec![pair("pool", "/tmp/a.sock"), pair("pool", "/tmp/b.sock")]));
        for (texts, names) in
            [(&["/tmp/a.sock"][..], &two[..]), (&["disk=/tmp/a.sock"], &one), (&["/tmp/a.sock", "/tmp/a.sock"], &one)]
        {
            assert_eq!(found(texts, names), None, "{texts:?}");
        }
        assert!("=/tmp/a".parse::<DiskSocket>().is_err() && "tank=".parse::<DiskSocket>().is_err());
    }
}
