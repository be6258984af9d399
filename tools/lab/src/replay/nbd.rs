//! A client of NBD for one request at a time: newstyle handshake by `NBD_OPT_EXPORT_NAME`, simple replies.
//!
//! Source: the NetworkBlockDevice protocol, doc/proto.md. It has no TLS; fio and libnbd do.

use std::io::{Error, Read, Result, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

const EXPORT_NAME: u32 = 1;
const NO_ZEROES: u16 = 1 << 1;
const READ_ONLY: u16 = 1 << 1;
const CAN_TRIM: u16 = 1 << 5;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection.
pub struct Client {
    stream: Box<dyn Stream>,
    size_bytes: u64,
    flags: u16,
    cookie: u64,
}

/// Requests.
#[derive(Clone, Copy)]
enum Command {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
    Trim = 4,
}

/// The server and the export of a URI.
#[derive(Debug, PartialEq)]
pub(crate) enum Address {
    Unix(String),
    Tcp(String),
}

/// The server of a URI without TLS.
pub(crate) fn address(uri: &str) -> Option<Address> {
    parse(uri).ok().map(|(address, _)| address)
}

fn parse(uri: &str) -> std::result::Result<(Address, String), String> {
    let bad = || {
        format!(
            "\"{uri}\" is no NBD URI that can be replayed on: write nbd://HOST[:PORT]/[EXPORT] or nbd+unix:///[EXPORT]?socket=PATH"
        )
    };
    if let Some(rest) = uri.strip_prefix("nbd+unix://") {
        let (export, socket) = rest.split_once("?socket=").ok_or_else(bad)?;
        return Ok((Address::Unix(unescape(socket)), unescape(export.trim_start_matches('/'))));
    }
    let rest = uri.strip_prefix("nbd://").ok_or_else(bad)?;
    let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
    let is_bare = host.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err());
    Ok((Address::Tcp(if is_bare { format!("{host}:10809") } else { host.into() }), unescape(export)))
}

/// Without %XX.
fn unescape(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(b'%'));
        bytes.extend(&part.as_bytes()[if code.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Client {
    /// Connects.
    pub fn connect(uri: &str) -> Result<Self> {
        let (address, export) = parse(uri).map_err(Error::other)?;
        let mut stream: Box<dyn Stream> = match &address {
            Address::Unix(path) => Box::new(UnixStream::connect(path)?),
            Address::Tcp(host) => {
                let stream = TcpStream::connect(host)?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let mut hello = [0; 18];
        stream.read_exact(&mut hello)?;
        if &hello[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(Error::other("the program there is no NBD server, or has no newstyle handshake"));
        }
        let server = u16::from_be_bytes([hello[16], hello[17]]);
        let mut choice = u32::from(server & 3).to_be_bytes().to_vec();
        choice.extend(b"IHAVEOPT");
        choice.extend(EXPORT_NAME.to_be_bytes());
        choice.extend((export.len() as u32).to_be_bytes());
        choice.extend(export.as_bytes());
        stream.write_all(&choice)?;
        let mut facts = [0; 10];
        stream
            .read_exact(&mut facts)
            .map_err(|_| Error::other(format!("there is no export \"{export}\", or it requires TLS")))?;
        if server & NO_ZEROES == 0 {
            stream.read_exact(&mut [0; 124])?;
        }
        let size_bytes = u64::from_be_bytes(facts[..8].try_into().expect("eight bytes"));
        Ok(Self { stream, size_bytes, flags: u16::from_be_bytes([facts[8], facts[9]]), cookie: 0 })
    }

    /// Of the export.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub fn is_read_only(&self) -> bool {
        self.flags & READ_ONLY != 0
    }

    pub fn read(&mut self, into: &mut [u8], offset: u64) -> Result<()> {
        self.ask(Command::Read, offset, into.len() as u64, &[])?;
        self.stream.read_exact(into)
    }

    pub fn write(&mut self, from: &[u8], offset: u64) -> Result<()> {
        self.ask(Command::Write, offset, from.len() as u64, from)
    }

    pub fn flush(&mut self) -> Result<()> {
        self.ask(Command::Flush, 0, 0, &[])
    }

    pub fn discard(&mut self, offset: u64, bytes: u64) -> Result<()> {
        if self.flags & CAN_TRIM == 0 {
            return Err(Error::from(std::io::ErrorKind::Unsupported));
        }
        self.ask(Command::Trim, offset, bytes, &[])
    }

    fn send(&mut self, command: Command, offset: u64, bytes: u64, data: &[u8]) -> Result<()> {
        self.cookie += 1;
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend((command as u16).to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(u32::try_from(bytes).map_err(Error::other)?.to_be_bytes());
        self.stream.write_all(&request)?;
        self.stream.write_all(data)
    }

    fn ask(&mut self, command: Command, offset: u64, bytes: u64, data: &[u8]) -> Result<()> {
        self.send(command, offset, bytes, data)?;
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        if reply[..4] != 0x6744_6698_u32.to_be_bytes() || reply[8..] != self.cookie.to_be_bytes() {
            return Err(Error::other("the NBD server replied to an unknown request"));
        }
        match u32::from_be_bytes(reply[4..8].try_into().expect("four bytes")) {
            0 => Ok(()),
            error => Err(Error::from_raw_os_error(error as i32)),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The server may be gone already.
        let _ = self.send(Command::Disconnect, 0, 0, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_tell_address_and_export() {
        let unix = |path: &str, export: &str| Ok((Address::Unix(path.into()), export.into()));
        assert_eq!(parse("nbd+unix:///?socket=/tmp/a.sock"), unix("/tmp/a.sock", ""));
        assert_eq!(parse("nbd+unix:///tank?socket=/tmp/a%20b"), unix("/tmp/a b", "tank"));
        assert_eq!(parse("nbd://host/x%2Fy"), Ok((Address::Tcp("host:10809".into()), "x/y".into())));
        assert_eq!(parse("nbd://host:7"), Ok((Address::Tcp("host:7".into()), String::new())));
        assert!(parse("nbds://host").unwrap_err().contains("nbd+unix:///"));
    }
}
