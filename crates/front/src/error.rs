//! Errors of setting up or changing a server. An error of a client ends only that client.

use crate::SocketError;
use std::io;
use stria_block::NO_THREAD;

/// The reason why a server could not be started or changed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listener}: {source}; choose another address or end the program that uses it")]
    Bind {
        /// The address, as `unix:PATH` or `tcp:HOST:PORT`.
        listener: String,
        /// The system's message.
        source: io::Error,
    },
    /// No unix socket can be made at the path.
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
    /// There is no export of this name.
    #[error("there is no export \"{name}\"; the names are: {known}")]
    UnknownExport {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A limit is invalid.
    #[error("NBD option {option} is {value}; it must be {rule}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        rule: &'static str,
    },
    /// The system refuses something that a server needs.
    #[error("NBD server cannot {action}: {source}; {}", remedy(.source))]
    System {
        /// What it tried.
        action: &'static str,
        /// The system's message.
        source: io::Error,
    },
}

/// What helps where the system refuses something.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::WouldBlock => NO_THREAD,
        _ => "raise the process's limits or close other programs",
    }
}
