//! A client's socket, with or without TLS, and the reasons for which its connection ends.

use crate::session::Broken;
use crate::tls::TlsStream;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Why a client's connection ends, if not as the client wished.
#[derive(Debug)]
pub(crate) enum End {
    Io(io::Error),
    Tls(rustls::Error),
    Refused(&'static str),
}

impl From<rustls::Error> for End {
    fn from(error: rustls::Error) -> Self {
        End::Tls(error)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Io(error)
    }
}

impl From<Broken> for End {
    fn from(Broken(reason): Broken) -> Self {
        End::Refused(reason)
    }
}

/// A non-blocking socket, with or without TLS. The flags say whether sending and receiving are worth a system call.
pub(crate) struct Link {
    pub socket: Arc<OwnedFd>,
    pub readable: bool,
    pub writable: bool,
    pub tls: Option<Box<TlsStream>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Link {
    pub fn shut(&self) {
        // Wakes the thread or ring that watches the socket. Fails if the peer has closed, which wakes it too.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Sends as many bytes as possible; 0: none at the moment.
    pub fn send(&mut self, slices: &[IoSlice]) -> Result<usize, End> {
        if self.tls.is_none() {
            return Ok(self.send_plain(slices)?);
        }
        self.send_encrypted()?;
        if !self.writable {
            return Ok(0);
        }
        let len = self.tls.as_mut().map_or(Ok(0), |tls| tls.put(slices))?;
        self.send_encrypted()?;
        Ok(len)
    }

    /// Sends the bytes that TLS has produced, as far as possible.
    fn send_encrypted(&mut self) -> io::Result<()> {
        while self.has_unsent() && self.writable {
            let Some(mut tls) = self.tls.take() else { return Ok(()) };
            let sent = self.send_plain(&[IoSlice::new(tls.output())]);
            tls.sent(*sent.as_ref().unwrap_or(&0));
            self.tls = Some(tls);
            sent?;
        }
        Ok(())
    }

    fn send_plain(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        match sendmsg(&self.socket, slices, &mut SendAncillaryBuffer::default(), flags) {
            Ok(len) => {
                self.writable = len == wanted;
                Ok(len)
            }
            Err(Errno::AGAIN) => {
                self.writable = false;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives the bytes that have arrived; `Some(0)`: none at the moment, `None`: the peer has ended.
    pub fn receive(&mut self, space: [&mut [u8]; 2]) -> Result<Option<usize>, End> {
        match self.tls.take() {
            None => Ok(self.receive_plain(space)?),
            Some(mut tls) => {
                let received = self.receive_encrypted(&mut tls, space);
                self.tls = Some(tls);
                // An answer of the protocol itself: its next message, or the alert that explains the error.
                let sent = self.send_encrypted();
                let received = received?;
                sent?;
                Ok(received)
            }
        }
    }

    fn receive_encrypted(&mut self, tls: &mut TlsStream, mut space: [&mut [u8]; 2]) -> Result<Option<usize>, End> {
        let mut len = tls.take(&mut space)?;
        if len == 0 {
            let Some(received) = self.receive_plain([tls.space(), &mut []])? else { return Ok(None) };
            tls.received(received);
            len = tls.take(&mut space)?;
        }
        // More bytes may be decrypted, or complete in memory.
        self.readable |= space.iter().all(|slice| slice.is_empty());
        Ok(Some(len))
    }

    fn receive_plain(&mut self, space: [&mut [u8]; 2]) -> io::Result<Option<usize>> {
        let wanted = space[0].len() + space[1].len();
        match rustix::io::readv(&self.socket, &mut space.map(IoSliceMut::new)) {
            Ok(0) => Ok(None),
            Ok(len) => {
                self.readable = len == wanted;
                Ok(Some(len))
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                Ok(Some(0))
            }
            Err(Errno::INTR) => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// True if encrypted bytes wait for the socket.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.output().is_empty())
    }

    /// True if a part of a TLS record has arrived.
    pub fn has_part(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_part())
    }

    /// Tells a client with TLS that the end is intended. The message is not waited for.
    pub fn close_tls(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close();
            let _ = self.send_encrypted();
        }
    }

    /// Returns the memory that an idle connection does not need.
    pub fn cool(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.cool();
        }
    }
}
