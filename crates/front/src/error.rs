//! What can go wrong when a server is set up or changed. What goes wrong with a client ends that client only.

use crate::SocketError;
use std::io;

/// Why a server could not be started or changed; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listener}: {source}; choose another address or end the program that uses it")]
    Bind {
        /// The address, as `unix:PATH` or `tcp:HOST:PORT`.
        listener: String,
        /// What the system says.
        source: io::Error,
    },
    /// There can be no unix socket at the path.
    #[error("cannot listen on {listener}: {source}")]
    Socket {
        /// The address, as `unix:PATH`.
        listener: String,
        /// Why.
        source: SocketError,
    },
    /// A name is given twice.
    #[error("export \"{name}\" exists already; choose another name")]
    DuplicateExport {
        /// The name.
        name: String,
    },
    /// NBD cannot carry this name or description.
    #[error("export name or description of {len} bytes is too long for NBD; use at most {max}")]
    LongExport {
        /// Its length.
        len: usize,
        /// The most there may be.
        max: usize,
    },
    /// Nothing of this name is exported.
    #[error("there is no export \"{name}\"; the names are: {known}")]
    UnknownExport {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A limit makes no sense.
    #[error("NBD option {option} is {value}; it must be {rule}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        rule: &'static str,
    },
    /// The system refuses something a server needs.
    #[error("NBD server cannot {action}: {source}; raise the process's limits or close other programs")]
    System {
        /// What it tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
}
