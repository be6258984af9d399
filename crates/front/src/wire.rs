//! The NBD protocol's constants and structures, all big-endian.
//!
//! Source: `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>; names are its own without the `NBD_`.

/// First eight bytes of a server's greeting.
pub const INIT_MAGIC: &[u8; 8] = b"NBDMAGIC";
/// Second eight bytes of the greeting, and first of every option.
pub const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, and the client's answers to them, which share their bits.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// "No string SHALL be longer than 4096 bytes."
pub const STRING_BYTES_MAX: usize = 4096;
/// Padding after the reply to `OPT_EXPORT_NAME`, unless both sides agreed on no zeroes.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;

/// Option types.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Option reply types.
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    pub const ERR_BLOCK_SIZE_REQD: u32 = (1 << 31) + 8;
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Information types in answers to `OPT_INFO` and `OPT_GO`.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: the abilities of an export.
pub mod transmission {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Request types.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub mod command_flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Structured reply chunks.
pub mod chunk {
    pub const FLAG_DONE: u16 = 1 << 0;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// The one metadata context: its name, and the id it has on every connection.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
pub const ALLOCATION_CONTEXT_ID: u32 = 1;
/// Flags of an extent in `base:allocation`.
pub const STATE_HOLE: u32 = 1 << 0;
pub const STATE_ZERO: u32 = 1 << 1;

/// Error values of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    Perm = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    Shutdown = 108,
}

/// An option's header: magic, type, and how many bytes of data follow.
pub const OPTION_HEADER_BYTES: usize = 16;

/// A request, without its magic and the payload of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset_bytes: u64,
    pub length_bytes: u32,
}

impl RequestHeader {
    pub const BYTES: usize = 28;

    /// `None`: the magic is wrong, and the stream is invalid from here on.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: reader.u16()?,
            command: reader.u16()?,
            cookie: reader.u64()?,
            offset_bytes: reader.u64()?,
            length_bytes: reader.u32()?,
        })
    }
}

/// The fixed part of a reply, at most a structured read's: chunk header and offset.
#[derive(Clone, Copy, Debug)]
pub struct ReplyHead {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl ReplyHead {
    pub const BYTES_MAX: usize = 28;

    fn new() -> Self {
        Self { bytes: [0; Self::BYTES_MAX], len: 0 }
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        let from = usize::from(self.len);
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
        self
    }

    /// A simple reply; `error` 0: success.
    pub fn simple(cookie: u64, error: u32) -> Self {
        Self::new().put(&SIMPLE_REPLY_MAGIC.to_be_bytes()).put(&error.to_be_bytes()).put(&cookie.to_be_bytes())
    }

    /// The last chunk of a structured reply, `length_bytes` of payload to follow.
    pub fn chunk(cookie: u64, kind: u16, length_bytes: u32) -> Self {
        Self::new()
            .put(&STRUCTURED_REPLY_MAGIC.to_be_bytes())
            .put(&chunk::FLAG_DONE.to_be_bytes())
            .put(&kind.to_be_bytes())
            .put(&cookie.to_be_bytes())
            .put(&length_bytes.to_be_bytes())
    }

    /// The only chunk of a successful structured read, `data_bytes` of data to follow.
    pub fn read_chunk(cookie: u64, offset_bytes: u64, data_bytes: u32) -> Self {
        Self::chunk(cookie, chunk::OFFSET_DATA, data_bytes + 8).put(&offset_bytes.to_be_bytes())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Reads big-endian fields off the front of untrusted bytes; `None`: they end too early.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A 32-bit length and that many bytes.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_header_decodes_at_its_documented_offsets() {
        let mut bytes = [0; RequestHeader::BYTES];
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        bytes[5] = 1;
        bytes[7] = 6;
        bytes[15] = 7;
        bytes[23] = 8;
        bytes[27] = 9;
        let header = RequestHeader { flags: 1, command: 6, cookie: 7, offset_bytes: 8, length_bytes: 9 };
        assert_eq!(RequestHeader::decode(&bytes), Some(header));
        bytes[0] = 0;
        assert_eq!(RequestHeader::decode(&bytes), None);
    }

    #[test]
    fn replies_have_their_documented_form() {
        assert_eq!(ReplyHead::simple(0x0102, 22).as_bytes(), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 1, 2]);
        let read = ReplyHead::read_chunk(3, 4, 512);
        assert_eq!(read.as_bytes()[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
        assert_eq!(read.as_bytes()[16..], [0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0, 4]);
    }

    #[test]
    fn reader_never_reads_past_a_lying_length() {
        let mut reader = Reader(&[0xff, 0xff, 0xff, 0xff, 1, 2]);
        assert_eq!(reader.string(), None);
    }
}
