//! Entries of systemd's journal, with fields of their own (systemd's documentation "Native Journal Protocol").

use crate::{Message, Phase, Severity};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use stria_block::shown_lines;

/// Marks entries of alarms: `journalctl MESSAGE_ID=…` finds them all.
const MESSAGE_ID: &str = "5bd3c1a1e0b94b0f9d8c3f0d6a4e7712";

/// The journal at a socket.
pub(crate) struct Journal(PathBuf);

impl Journal {
    /// The socket of journald.
    pub const USUAL: &str = "/run/systemd/journal/socket";

    pub fn at(path: &Path) -> Self {
        Self(path.into())
    }

    pub fn send(&self, message: &Message) -> io::Result<()> {
        UnixDatagram::unbound()?.send_to(&entry(message), &self.0).map(|_| ())
    }
}

/// One datagram: a field after the other.
fn entry(message: &Message) -> Vec<u8> {
    let cause = &message.cause;
    let (phase, words) = match message.phase {
        Phase::Raised => ("raised", cause.text.clone()),
        Phase::Repeated => ("repeated", format!("still: {}", cause.text)),
        Phase::Cleared => ("cleared", format!("over: {}", cause.text)),
    };
    // syslog(3): 2 critical, 4 warning, 6 informational.
    let priority = match (message.phase, cause.event.severity()) {
        (Phase::Cleared, _) | (_, Severity::Info) => "6",
        (_, Severity::Warning) => "4",
        (_, Severity::Critical) => "2",
    };
    let mut entry = Vec::new();
    let event = cause.event.name();
    for (name, value) in [
        ("MESSAGE", &*shown_lines(&words).to_string()),
        ("MESSAGE_ID", MESSAGE_ID),
        ("PRIORITY", priority),
        ("SYSLOG_IDENTIFIER", "stria"),
        ("STRIA_EVENT", &event),
        ("STRIA_PHASE", phase),
        ("STRIA_ARRAY", &cause.array),
        ("STRIA_COMPONENT", cause.component.as_deref().unwrap_or_default()),
    ] {
        // A value that follows its length may hold line breaks.
        entry.extend_from_slice(name.as_bytes());
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        entry.extend_from_slice(value.as_bytes());
        entry.push(b'\n');
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Event};

    /// Reads an entry as journald does.
    fn fields(mut entry: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while !entry.is_empty() {
            let end = entry.iter().position(|&byte| byte == b'\n').expect("a name ends");
            let name = String::from_utf8(entry[..end].to_vec()).expect("text");
            let length = u64::from_le_bytes(entry[end + 1..end + 9].try_into().expect("8 bytes")) as usize;
            let value = &entry[end + 9..][..length];
            fields.push((name, String::from_utf8(value.to_vec()).expect("text")));
            assert_eq!(entry[end + 9 + length], b'\n');
            entry = &entry[end + 10 + length..];
        }
        fields
    }

    #[test]
    fn an_entry_has_the_alarm_in_fields() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        let cause =
            Condition { event: Event::Fail, array: "tank".into(), component: None, text: "two\nlines\x1b".into(), said: None };
        Journal::at(&path).send(&Message::once(cause)).expect("it listens");
        let mut bytes = [0; 4096];
        let length = listener.recv(&mut bytes).expect("a datagram");
        let fields = fields(&bytes[..length]);
        for (name, value) in [
            ("MESSAGE", "two\nlines\\u{1b}"),
            ("PRIORITY", "2"),
            ("STRIA_EVENT", "Fail"),
            ("STRIA_ARRAY", "tank"),
            ("STRIA_PHASE", "raised"),
        ] {
            assert!(fields.contains(&(name.into(), value.into())), "{name}: {fields:?}");
        }
    }
}
