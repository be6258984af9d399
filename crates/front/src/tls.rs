//! TLS as bytes in and bytes out. It knows no socket; `link::Link` moves its bytes.
//!
//! ```text
//!   socket ─space/received─► incoming ─take──► plain bytes
//!   socket ◄─output/sent──── outgoing ◄─put─── plain bytes
//! ```
//!
//! Records are decrypted from the buffer of one receive, and replies are gathered into full records, so that a deep queue of
//! small requests costs few system calls. Memory is bounded by [`INCOMING_BYTES`], as much again for what is decrypted and not
//! taken yet, and [`OUTGOING_BYTES`].

use crate::tls_files::{ServerTls, TlsError, TlsFiles};
use rustls::server::{ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use std::fmt;
use std::io::IoSlice;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// 64 KiB: four records of the largest size, so that one receive brings a few.
const INCOMING_BYTES: usize = 64 << 10;
/// 128 KiB: how much is encrypted ahead of the socket.
const OUTGOING_BYTES: usize = 128 << 10;
/// 16 KiB: the plain bytes of the largest record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// What a record needs beside its plain bytes: header, content type, tag; TLS 1.2 has an explicit nonce.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// The server's certificate and key, and the authorities of its clients.
#[derive(Clone)]
pub struct TlsConfig {
    files: Arc<TlsFiles>,
    /// Clients at other machines must use TLS. Unix sockets offer it in any case.
    pub required: bool,
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig").field("required", &self.required).finish_non_exhaustive()
    }
}

impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.files, &other.files) && self.required == other.required
    }
}

impl Eq for TlsConfig {}

impl TlsConfig {
    /// Reads PEM files: the server's certificate, followed by those that lead to its authority; its key; and the authorities
    /// whose certificates clients must show. Without `authorities` any client is accepted.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn load(cert: &Path, key: &Path, authorities: Option<&Path>, required: bool) -> Result<Self, TlsError> {
        let files = ServerTls { cert: cert.into(), key: key.into(), authorities: authorities.map(Path::to_owned) };
        Ok(Self { files: Arc::new(TlsFiles::read(files, true, &[])?), required })
    }

    /// The files.
    pub fn files(&self) -> &Arc<TlsFiles> {
        &self.files
    }
}

/// One client's TLS.
pub(crate) struct TlsStream {
    connection: UnbufferedServerConnection,
    /// Received and not decrypted yet: `incoming[start..end]`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Decrypted and not taken yet: `plain[taken..]`.
    plain: Vec<u8>,
    taken: usize,
    /// Encrypted and not sent yet: `outgoing[sent..filled]`.
    outgoing: Vec<u8>,
    sent: usize,
    filled: usize,
    /// Small pieces of replies that are gathered for one record.
    record: Vec<u8>,
    /// The first error. The alert about it is in `outgoing`.
    error: Option<rustls::Error>,
}

impl TlsStream {
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            incoming: Vec::new(),
            start: 0,
            end: 0,
            plain: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent: 0,
            filled: 0,
            record: Vec::new(),
            error: None,
        })
    }

    /// Where to put the next bytes from the socket. Never empty after a [`TlsStream::take`] that did not fill its space: a
    /// record is smaller than the buffer.
    pub fn space(&mut self) -> &mut [u8] {
        self.incoming.resize(INCOMING_BYTES, 0);
        self.incoming.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        &mut self.incoming[self.end..]
    }

    /// `len` bytes were put where [`TlsStream::space`] said.
    pub fn received(&mut self, len: usize) {
        self.end += len;
    }

    /// Decrypts into `space` until it is full or no whole record is left. Returns the number of bytes.
    ///
    /// # Errors
    /// When the client has no valid certificate, or breaks the protocol. [`TlsStream::output`] then holds the alert for it.
    pub fn take(&mut self, space: &mut [&mut [u8]; 2]) -> Result<usize, rustls::Error> {
        let mut len = self.hand_over(space);
        while !is_full(space) && self.advance(|_| ControlFlow::Break(()))?.is_continue() {
            len += self.hand_over(space);
        }
        Ok(len)
    }

    fn hand_over(&mut self, space: &mut [&mut [u8]; 2]) -> usize {
        let before = self.taken;
        for slice in space {
            let part = slice.len().min(self.plain.len() - self.taken);
            let (filled, rest) = std::mem::take(slice).split_at_mut(part);
            filled.copy_from_slice(&self.plain[self.taken..][..part]);
            self.taken += part;
            *slice = rest;
        }
        let len = self.taken - before;
        if self.taken == self.plain.len() {
            self.plain.clear();
            self.taken = 0;
        }
        len
    }

    /// Encrypts from the front of `slices`, as much as there is space for. Returns how much was taken; 0 before the handshake
    /// has ended.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn put(&mut self, slices: &[IoSlice]) -> Result<usize, rustls::Error> {
        let mut pieces = Pieces { rest: &[], slices };
        let (mut record, mut len) = (std::mem::take(&mut self.record), 0);
        while self.filled < OUTGOING_BYTES {
            let bytes = pieces.next_record(&mut record);
            if bytes.is_empty() || !self.encrypt(bytes)? {
                break;
            }
            len += bytes.len();
        }
        self.record = record;
        Ok(len)
    }

    /// Returns false before the handshake has ended.
    fn encrypt(&mut self, bytes: &[u8]) -> Result<bool, rustls::Error> {
        let mut done = false;
        let mut once = |write: Write<'_>| {
            done = write(bytes);
            ControlFlow::Break(())
        };
        while self.advance(&mut once)?.is_continue() {}
        Ok(done)
    }

    /// Tells the peer that nothing more comes.
    pub fn close(&mut self) {
        // Fails only if the connection has failed before; then the message is not needed.
        let _ = self.encrypt(&[]);
    }

    /// Takes one step: decrypts a record, or encodes a message of the protocol itself. When neither is due, `idle` may encrypt,
    /// and says whether to go on.
    fn advance(&mut self, idle: impl FnOnce(Write<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>, rustls::Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let UnbufferedStatus { mut discard, state } =
            self.connection.process_tls_records(&mut self.incoming[self.start..self.end]);
        let outgoing = &mut self.outgoing;
        let flow = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    self.plain.extend_from_slice(record.payload);
                }
                ControlFlow::Continue(())
            }
            Ok(ConnectionState::EncodeTlsData(message)) => {
                encode(message, outgoing, &mut self.filled);
                ControlFlow::Continue(())
            }
            Ok(ConnectionState::TransmitTlsData(message)) => {
                // It is in `outgoing`, ahead of everything that comes later.
                message.done();
                ControlFlow::Continue(())
            }
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                let filled = &mut self.filled;
                idle(&mut |bytes| {
                    let len = loop {
                        let encrypted = match bytes.is_empty() {
                            true => traffic.queue_close_notify(&mut outgoing[*filled..]),
                            false => traffic.encrypt(bytes, &mut outgoing[*filled..]),
                        };
                        match encrypted {
                            Ok(len) => break len,
                            Err(EncryptError::InsufficientSize(need)) => {
                                outgoing.resize(*filled + need.required_size.max(RECORD_BYTES + RECORD_OVERHEAD_BYTES), 0);
                            }
                            Err(EncryptError::EncryptExhausted) => return false,
                        }
                    };
                    *filled += len;
                    true
                })
            }
            // The end of the socket follows.
            Ok(ConnectionState::PeerClosed) => ControlFlow::Continue(()),
            Ok(_) => ControlFlow::Break(()),
            Err(error) => {
                self.start += discard;
                self.explain();
                return Err(self.error.insert(error).clone());
            }
        };
        self.start += discard;
        Ok(flow)
    }

    /// Encodes the alert about an error, which rustls has queued. A failed connection is asked for no more than this.
    fn explain(&mut self) {
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.incoming[self.start..self.end]);
        if let Ok(ConnectionState::EncodeTlsData(alert)) = state {
            encode(alert, &mut self.outgoing, &mut self.filled);
        }
    }

    /// True if received bytes are not decrypted yet. After a [`TlsStream::take`] that did not fill its space they are a part of a
    /// record.
    pub fn has_part(&self) -> bool {
        self.start < self.end
    }

    /// The bytes to send next.
    pub fn output(&self) -> &[u8] {
        &self.outgoing[self.sent..self.filled]
    }

    /// The first `len` of those bytes were sent.
    pub fn sent(&mut self, len: usize) {
        self.sent += len;
        if self.sent == self.filled {
            (self.sent, self.filled) = (0, 0);
        }
    }

    /// Returns the memory that an idle client does not need.
    pub fn cool(&mut self) {
        if self.start == self.end {
            (self.incoming, self.start, self.end) = (Vec::new(), 0, 0);
        }
        if self.plain.is_empty() {
            self.plain = Vec::new();
        }
        if self.filled == 0 {
            self.outgoing = Vec::new();
        }
        self.record = Vec::new();
    }
}

/// Appends a message of the protocol itself to `outgoing[..filled]`.
fn encode<Data>(mut message: EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>, filled: &mut usize) {
    while let Err(EncodeError::InsufficientSize(need)) = message.encode(&mut outgoing[*filled..]).map(|len| *filled += len) {
        outgoing.resize(*filled + need.required_size, 0);
    }
}

/// Bytes to send, from the front.
struct Pieces<'a> {
    rest: &'a [u8],
    slices: &'a [IoSlice<'a>],
}

impl<'a> Pieces<'a> {
    /// The bytes of the next record; none: there are no more. Small pieces are gathered in `record`.
    fn next_record<'r>(&mut self, record: &'r mut Vec<u8>) -> &'r [u8]
    where
        'a: 'r,
    {
        record.clear();
        loop {
            let (part, rest) = self.rest.split_at(self.rest.len().min(RECORD_BYTES - record.len()));
            self.rest = rest;
            if part.len() == RECORD_BYTES {
                return part;
            }
            record.extend_from_slice(part);
            let Some((next, behind)) = self.slices.split_first().filter(|_| record.len() < RECORD_BYTES) else { return record };
            (self.rest, self.slices) = (next, behind);
        }
    }
}

/// Encrypts one record's bytes; none: says that no more come. Returns false if the keys are used up.
type Write<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

fn is_full(space: &[&mut [u8]; 2]) -> bool {
    space.iter().all(|slice| slice.is_empty())
}

#[cfg(test)]
mod tests;
