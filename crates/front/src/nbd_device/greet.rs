//! The client's side of the handshake, up to the transmission: simple replies, and the block size asked for, as Linux needs it.

use crate::wire::*;
use std::io::{self, Read, Write};

/// The longest answer that is read. A longer one cannot come from an NBD server.
const ANSWER_BYTES_MAX: u32 = 1 << 16;

/// The server's description of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its size.
    pub size_bytes: u64,
    /// The abilities of the export, as [`transmission`] names them.
    pub flags: u16,
    /// Offsets and lengths of requests are multiples of it.
    pub block_bytes: u32,
}

/// A reason why there is no transmission.
#[derive(Debug)]
pub enum Refusal {
    /// The connection failed.
    Io(io::Error),
    /// The server declines, for this reason.
    Declined(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Agrees with a server on an export, and sends a first request. The stream is at the first byte of the next request afterwards.
///
/// # Errors
/// The server's refusal, or the failure of the connection.
pub fn negotiate(stream: &mut (impl Read + Write), export: &str) -> Result<Offer, Refusal> {
    let not_nbd = || Refusal::Declined("the program there is no NBD server, or does not speak NBD as this program does".into());
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
    let wanted = FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES;
    if !greeting.starts_with(INIT_MAGIC) || greeting[8..16] != *OPTION_MAGIC || flags & wanted != wanted {
        return Err(not_nbd());
    }
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend(1_u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    let mut request = u32::from(wanted).to_be_bytes().to_vec();
    request.extend(OPTION_MAGIC);
    request.extend(option::GO.to_be_bytes());
    request.extend((data.len() as u32).to_be_bytes());
    request.extend(data);
    stream.write_all(&request)?;

    let (mut size_and_flags, mut block_bytes) = (None, 512);
    loop {
        let mut header = [0; 20];
        stream.read_exact(&mut header)?;
        let mut reader = Reader(&header);
        let (magic, option, kind, len) = (reader.u64(), reader.u32(), reader.u32(), reader.u32());
        let (Some(OPTION_REPLY_MAGIC), Some(option::GO), Some(kind), Some(len @ ..=ANSWER_BYTES_MAX)) =
            (magic, option, kind, len)
        else {
            return Err(not_nbd());
        };
        let mut data = vec![0; len as usize];
        stream.read_exact(&mut data)?;
        let mut reader = Reader(&data);
        match kind {
            reply::ACK => break,
            reply::INFO => match reader.u16() {
                Some(info::EXPORT) => size_and_flags = reader.u64().zip(reader.u16()),
                Some(info::BLOCK_SIZE) => block_bytes = reader.u32().ok_or_else(not_nbd)?,
                _ => {}
            },
            reply::ERR_TLS_REQD => {
                return Err(Refusal::Declined(
                    "it requires TLS, which Linux does not speak here: serve on a unix socket (--nbd unix:PATH) too".into(),
                ));
            }
            _ if data.is_empty() => return Err(Refusal::Declined(format!("error {kind:#x}"))),
            _ => return Err(Refusal::Declined(String::from_utf8_lossy(&data).into_owned())),
        }
    }
    let (size_bytes, flags) = size_and_flags.ok_or_else(not_nbd)?;
    let answer = ask_for_nothing(stream)?;
    if answer != Some(0) {
        return Err(not_nbd());
    }
    Ok(Offer { size_bytes, flags, block_bytes })
}

/// Sends a read of 0 bytes, which a server answers without the array. A server without free places disconnects clients that never
/// sent a request, and an idle device sends none. Returns the reply's error, 0 for success; `None`: these bytes are no reply to
/// this request.
fn ask_for_nothing(stream: &mut (impl Read + Write)) -> io::Result<Option<u32>> {
    const COOKIE: u64 = 1;
    let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
    request.extend(0_u16.to_be_bytes());
    request.extend(command::READ.to_be_bytes());
    request.extend(COOKIE.to_be_bytes());
    request.extend(0_u64.to_be_bytes());
    request.extend(0_u32.to_be_bytes());
    stream.write_all(&request)?;
    let mut answer = [0; 16];
    stream.read_exact(&mut answer)?;
    let mut reader = Reader(&answer);
    let (magic, error, cookie) = (reader.u32(), reader.u32(), reader.u64());
    Ok(error.filter(|_| magic == Some(SIMPLE_REPLY_MAGIC) && cookie == Some(COOKIE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Facts;
    use crate::handshake::{Handshake, Security, Step};
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// The real server's side of the handshake, as a stream.
    struct Server {
        handshake: Handshake,
        exports: Vec<Arc<Facts>>,
        input: Vec<u8>,
        output: VecDeque<u8>,
        is_accepted: bool,
        request_count: usize,
    }

    impl Server {
        fn new(security: Security, block_min_bytes: u32) -> Self {
            let mut greeting = Vec::new();
            let handshake = Handshake::new(security, &mut greeting);
            let tank = Facts {
                name: "tank".into(),
                description: "a tank".into(),
                size_bytes: 1 << 30,
                block_min_bytes,
                block_preferred_bytes: 4096,
                payload_bytes_max: 1 << 25,
                read_only: false,
                rotational: false,
                can_trim: true,
            };
            Self {
                handshake,
                exports: vec![Arc::new(tank)],
                input: Vec::new(),
                output: greeting.into(),
                is_accepted: false,
                request_count: 0,
            }
        }
    }

    impl Read for Server {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.output.read(buffer)
        }
    }

    impl Write for Server {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.input.extend(bytes);
            if self.is_accepted {
                let header = self.input.drain(..).collect::<Vec<_>>().try_into().expect("one request, in one piece");
                let header = RequestHeader::decode(&header).expect("a request");
                assert_eq!((header.command, header.length_bytes), (command::READ, 0), "it needs nothing of the array");
                self.output.extend(ReplyHead::simple(header.cookie, 0).as_bytes());
                self.request_count += 1;
                return Ok(bytes.len());
            }
            loop {
                let mut output = Vec::new();
                let (consumed, step) = self.handshake.step(&self.input, &self.exports, &mut output);
                self.input.drain(..consumed);
                self.output.extend(output);
                match step {
                    Step::Again => {}
                    Step::Agreed(agreement) => {
                        assert!(!agreement.structured, "Linux knows simple replies only");
                        self.is_accepted = true;
                        return Ok(bytes.len());
                    }
                    Step::Starved | Step::StartTls | Step::Close(_) => return Ok(bytes.len()),
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn our_server_agrees_and_nothing_is_left_unread() {
        for block_bytes in [512, 4096] {
            let mut server = Server::new(Security::Plain, block_bytes);
            let offer = negotiate(&mut server, "tank").expect("agreed");
            assert_eq!((offer.size_bytes, offer.block_bytes), (1 << 30, block_bytes));
            use transmission::*;
            let wanted = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN;
            assert_eq!(offer.flags & (wanted | READ_ONLY | SEND_DF), wanted);
            assert!(server.is_accepted && server.output.is_empty() && server.input.is_empty());
            assert_eq!(server.request_count, 1, "a device that nobody uses counts as used");
        }
    }

    #[test]
    fn refusals_are_reported_in_the_servers_words() {
        let declined = |security, name| match negotiate(&mut Server::new(security, 512), name) {
            Err(Refusal::Declined(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(declined(Security::Plain, "pool").contains("no export of this name"));
        assert!(declined(Security::Required, "tank").contains("--nbd unix:PATH"));
        let ssh = io::Cursor::new(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n".to_vec());
        assert!(
            matches!(negotiate(&mut { ssh }, "tank"), Err(Refusal::Declined(reason)) if reason.contains("does not speak NBD"))
        );
        let cut = io::Cursor::new(b"NBDMAGIC".to_vec());
        assert!(matches!(negotiate(&mut { cut }, "tank"), Err(Refusal::Io(_))));
    }
}
