//! A client of NBD for one request at a time: newstyle handshake by `NBD_OPT_EXPORT_NAME`, simple replies.
//!
//! Source: the NetworkBlockDevice protocol, doc/proto.md. It has no TLS; fio and libnbd do.

use crate::nbd_uri::{Address, parse};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const EXPORT_NAME: u32 = 1;
const NO_ZEROES: u16 = 1 << 1;
const READ_ONLY: u16 = 1 << 1;
const CAN_TRIM: u16 = 1 << 5;

/// The most time for a read or write of the handshake, and of a request: a server that hangs must not hang the laboratory.
const GREETS_WITHIN: Duration = Duration::from_secs(10);
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

trait Stream: Read + Write + Send {
    /// The most time that a read or write may take.
    fn limit(&self, time: Duration) -> Result<()>;
}

impl Stream for UnixStream {
    fn limit(&self, time: Duration) -> Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Stream for TcpStream {
    fn limit(&self, time: Duration) -> Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

/// An error in words if it is the kernel's for a time limit that has passed; any other as it is.
fn in_words(error: Error, limit: Duration) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let seconds = crate::units::show_seconds(limit.as_secs_f64());
            Error::new(ErrorKind::TimedOut, format!("the NBD server did not answer within {seconds}: see whether it hangs"))
        }
        _ => error,
    }
}

fn connect_tcp(host: &str) -> Result<TcpStream> {
    let mut last = Error::other(format!("{host} has no address"));
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, GREETS_WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection.
pub struct Client {
    stream: Box<dyn Stream>,
    size_bytes: u64,
    flags: u16,
    cookie: u64,
    /// True if a request broke off: the server's next bytes may belong to it and not to the next request.
    is_lost: bool,
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

impl Client {
    /// Connects.
    pub fn connect(uri: &str) -> Result<Self> {
        Self::connect_within(uri, GREETS_WITHIN).map_err(|error| in_words(error, GREETS_WITHIN))
    }

    fn connect_within(uri: &str, limit: Duration) -> Result<Self> {
        let (address, export) = parse(uri).map_err(Error::other)?;
        let mut stream: Box<dyn Stream> = match &address {
            Address::Unix(path) => Box::new(UnixStream::connect(path)?),
            Address::Tcp(host) => {
                let stream = connect_tcp(host)?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        stream.limit(limit)?;
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
        stream.read_exact(&mut facts).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::other(format!("there is no export \"{export}\", or it requires TLS")),
            _ => error,
        })?;
        if server & NO_ZEROES == 0 {
            stream.read_exact(&mut [0; 124])?;
        }
        let size_bytes = u64::from_be_bytes(facts[..8].try_into().expect("eight bytes"));
        stream.limit(ANSWERS_WITHIN)?;
        Ok(Self { stream, size_bytes, flags: u16::from_be_bytes([facts[8], facts[9]]), cookie: 0, is_lost: false })
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
        let read = self.stream.read_exact(into);
        self.is_lost = read.is_err();
        read.map_err(|error| in_words(error, ANSWERS_WITHIN))
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
        if self.is_lost {
            return Err(Error::other("the connection to the NBD server was given up after an earlier request"));
        }
        let mut reply = [0; 16];
        let answered = self.send(command, offset, bytes, data).and_then(|()| self.stream.read_exact(&mut reply));
        self.is_lost = answered.is_err();
        answered.map_err(|error| in_words(error, ANSWERS_WITHIN))?;
        if reply[..4] != 0x6744_6698_u32.to_be_bytes() || reply[8..] != self.cookie.to_be_bytes() {
            self.is_lost = true;
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
        // The server may be gone already; one that hangs is not waited for.
        let _ = self.stream.limit(Duration::from_secs(1));
        let _ = self.send(Command::Disconnect, 0, 0, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        // The kernel accepts the connection for a server that never does.
        let _server = UnixListener::bind(&socket).expect("a socket");
        let limit = Duration::from_millis(100);
        let uri = format!("nbd+unix:///x?socket={}", socket.display());
        let error = Client::connect_within(&uri, limit).err().expect("nothing was said");
        let words = in_words(error, limit).to_string();
        assert!(words.contains("did not answer within") && words.contains("see whether it hangs"), "{words}");
    }

    #[test]
    fn after_an_answer_that_did_not_come_the_connection_is_given_up() {
        let (stream, _server) = UnixStream::pair().expect("a pair");
        stream.limit(Duration::from_millis(100)).expect("a limit");
        let mut client = Client { stream: Box::new(stream), size_bytes: 4096, flags: 0, cookie: 0, is_lost: false };
        let words = client.flush().expect_err("no answer").to_string();
        assert!(words.contains("did not answer"), "{words}");
        let words = client.flush().expect_err("lost").to_string();
        assert!(words.contains("given up after an earlier request"), "{words}");
    }
}
