//! A client of NBD for one request at a time: newstyle handshake by `NBD_OPT_EXPORT_NAME`, simple replies.
//!
//! Source: the NetworkBlockDevice protocol, doc/proto.md. It has no TLS; fio and libnbd do.

use crate::nbd_uri::{Address, parse};
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
