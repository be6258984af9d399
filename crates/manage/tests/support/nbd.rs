//! A plain NBD client that can be cut off at any moment and knows which writes were acknowledged; no tool reports that.

use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection in transmission.
pub struct Client {
    socket: UnixStream,
    pub size_bytes: u64,
}

fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

impl Client {
    /// Connects by NBD_OPT_EXPORT_NAME, which leaves simple replies only.
    pub fn connect(socket: &Path, export: &str) -> Self {
        let mut socket = UnixStream::connect(socket).expect("a server listens");
        let mut hello = [0; 18];
        socket.read_exact(&mut hello).expect("it greets");
        let mut choice = 3_u32.to_be_bytes().to_vec();
        choice.extend(b"IHAVEOPT");
        choice.extend(1_u32.to_be_bytes());
        choice.extend((export.len() as u32).to_be_bytes());
        choice.extend(export.as_bytes());
        socket.write_all(&choice).expect("it listens");
        let mut facts = [0; 10];
        socket.read_exact(&mut facts).expect("it has this export");
        let size_bytes = u64::from_be_bytes(facts[..8].try_into().expect("8 bytes"));
        Self { socket, size_bytes }
    }

    /// Sends writes without waiting. Cookies count from 0.
    pub fn send_writes(&mut self, writes: &[(u64, Vec<u8>)]) -> Result<()> {
        for (cookie, (offset, data)) in writes.iter().enumerate() {
            self.socket.write_all(&request(0, 1, cookie as u64, *offset, data.len() as u32))?;
            self.socket.write_all(data)?;
        }
        Ok(())
    }

    /// The next reply's cookie and error.
    pub fn reply(&mut self) -> Result<(u64, u32)> {
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply)?;
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes(), "a simple reply");
        let error = u32::from_be_bytes(reply[4..8].try_into().expect("4 bytes"));
        Ok((u64::from_be_bytes(reply[8..].try_into().expect("8 bytes")), error))
    }

    /// Writes, with nothing else under way. True if it was acknowledged without an error.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<bool> {
        self.send_writes(&[(offset, data.to_vec())])?;
        let (cookie, error) = self.reply()?;
        assert_eq!(cookie, 0, "the answer to this write");
        Ok(error == 0)
    }

    /// Flushes, with nothing else under way. True if it was acknowledged without an error.
    pub fn flush(&mut self) -> Result<bool> {
        Ok(self.try_flush()? == 0)
    }

    /// Flushes, with nothing else under way. Returns the server's error, 0 for none.
    pub fn try_flush(&mut self) -> Result<u32> {
        self.socket.write_all(&request(0, 3, 7, 0, 0))?;
        let (cookie, error) = self.reply()?;
        assert_eq!(cookie, 7, "the answer to this flush");
        Ok(error)
    }

    /// From now on an answer that takes longer is an error.
    pub fn waits_at_most(&mut self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).expect("a patience above 0");
    }

    /// Reads, with nothing else under way.
    pub fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>> {
        Ok(self.try_read(offset, length)?.unwrap_or_else(|error| panic!("a read of {length} bytes at {offset}: error {error}")))
    }

    /// Reads, with nothing else under way. Returns the server's error, if any.
    pub fn try_read(&mut self, offset: u64, length: usize) -> Result<std::result::Result<Vec<u8>, u32>> {
        self.socket.write_all(&request(0, 0, 9, offset, length as u32))?;
        let (cookie, error) = self.reply()?;
        assert_eq!(cookie, 9, "the answer to this read");
        if error != 0 {
            return Ok(Err(error));
        }
        let mut data = vec![0; length];
        self.socket.read_exact(&mut data)?;
        Ok(Ok(data))
    }
}
