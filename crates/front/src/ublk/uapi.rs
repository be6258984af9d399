//! The wire format of Linux's ublk driver: every constant and structure that the server uses.
//!
//! Source: `include/uapi/linux/ublk_cmd.h` of Linux 6.12. Numbers are in the machine's own byte order, as everywhere between a
//! kernel and its programs.

/// The device to which control commands go.
pub const CONTROL_PATH: &str = "/dev/ublk-control";

/// `_IOC`: a command's number with the direction and the size of what it carries. The driver takes such numbers since Linux 6.4.
const fn ioctl(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

const fn reads(number: u32) -> u32 {
    ioctl(2, number, ControlCommand::BYTES)
}

const fn changes(number: u32) -> u32 {
    ioctl(3, number, ControlCommand::BYTES)
}

/// Control commands: `UBLK_U_CMD_*`.
pub mod control {
    use super::{changes, reads};
    pub const GET_DEVICE_INFO: u32 = reads(0x02);
    pub const ADD_DEVICE: u32 = changes(0x04);
    pub const DELETE_DEVICE: u32 = changes(0x05);
    pub const START_DEVICE: u32 = changes(0x06);
    pub const STOP_DEVICE: u32 = changes(0x07);
    pub const SET_PARAMETERS: u32 = changes(0x08);
    pub const GET_PARAMETERS: u32 = reads(0x09);
    pub const START_RECOVERY: u32 = changes(0x10);
    pub const END_RECOVERY: u32 = changes(0x11);
    /// Linux 6.5.
    pub const GET_FEATURES: u32 = reads(0x13);
}

/// Commands of a queue: `UBLK_U_IO_*`, and the results with which they come back.
pub mod io {
    use super::{IoCommand, ioctl};
    /// The first fetch of a tag.
    pub const FETCH: u32 = ioctl(3, 0x20, IoCommand::BYTES);
    /// Ends the tag's request, and fetches the next one.
    pub const COMMIT_AND_FETCH: u32 = ioctl(3, 0x21, IoCommand::BYTES);
    /// Names the memory for the data of the tag's write; the driver fills it and completes the tag once more.
    pub const GET_DATA: u32 = ioctl(3, 0x22, IoCommand::BYTES);
    /// A request has arrived.
    pub const ARRIVED: i32 = 0;
    /// A write has arrived, whose data the driver copies once it has been told where to: [`GET_DATA`].
    pub const NEEDS_DATA: i32 = 1;
    /// The device is being stopped: the tag brings no more requests. `-ENODEV`.
    pub const ABORTED: i32 = -19;
}

/// What the driver can do, and what a device is made with: `UBLK_F_*`.
pub mod feature {
    /// The server names the memory for a write's data when the write is there. Without it, each tag has memory beforehand.
    pub const NEED_GET_DATA: u64 = 1 << 2;
    /// The device outlives its server.
    pub const RECOVERY: u64 = 1 << 3;
    /// What a dead server had in its hands is given to the next one.
    pub const REISSUE: u64 = 1 << 4;
    /// Commands are numbered as ioctls.
    pub const IOCTL: u64 = 1 << 6;
    /// The server reads and writes a request's data by `pread` and `pwrite`. Linux 6.5.
    pub const USER_COPY: u64 = 1 << 7;
    /// What every device is made with.
    pub const OF_EVERY_DEVICE: u64 = RECOVERY | REISSUE | IOCTL;
    /// What the driver must offer.
    pub const NEEDED: u64 = OF_EVERY_DEVICE | USER_COPY | NEED_GET_DATA;
}

/// States of a device: `UBLK_S_DEV_*`. Others say that its server is gone, and its requests wait for another.
pub mod state {
    /// Added, and not started yet, or stopped.
    pub const DEAD: u16 = 0;
    /// It has a server.
    pub const LIVE: u16 = 1;
}

/// What a request asks for: `UBLK_IO_OP_*`, and the flags `UBLK_IO_F_*` beside it.
pub mod operation {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const DISCARD: u32 = 3;
    pub const WRITE_ZEROES: u32 = 5;
    /// The bits of the operation itself.
    pub const MASK: u32 = 0xff;
    /// Force unit access.
    pub const FUA: u32 = 1 << 13;
    /// Zeroes must take space.
    pub const NO_UNMAP: u32 = 1 << 15;
}

/// `struct ublksrv_ctrl_cmd`, in the 80 bytes of a large submission entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlCommand {
    /// The device; `u32::MAX` lets the driver choose.
    pub device: u32,
    /// A number of which the command knows the meaning.
    pub data: u64,
}

impl ControlCommand {
    const BYTES: u32 = 32;
    /// `queue_id` of commands that concern no queue.
    const NO_QUEUE: u16 = u16::MAX;

    /// With a buffer of so many bytes, which the driver reads or fills.
    pub fn encode(self, buffer_address: u64, buffer_bytes: u16) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[0..4].copy_from_slice(&self.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&Self::NO_QUEUE.to_ne_bytes());
        bytes[6..8].copy_from_slice(&buffer_bytes.to_ne_bytes());
        bytes[8..16].copy_from_slice(&buffer_address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Offset 0: queues, at most as many as the machine has processors.
    pub queues: u16,
    /// Offset 2: tags of each queue.
    pub depth: u16,
    /// Offset 4: see [`state`].
    pub state: u16,
    /// Offset 8: the largest read or write.
    pub io_bytes_max: u32,
    /// Offset 12.
    pub id: u32,
    /// Offset 16: the process of its server.
    pub pid: i32,
    /// Offset 24: see [`feature`].
    pub features: u64,
    /// Offset 32: the server's own, which the driver only stores.
    pub mark: u64,
}

impl DeviceInfo {
    pub const BYTES: usize = 64;

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.state.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.io_bytes_max.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.id.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.mark.to_ne_bytes());
        bytes
    }

    /// # Panics
    /// When there are fewer bytes than [`DeviceInfo::BYTES`].
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            queues: u16::from_ne_bytes(field(bytes, 0)),
            depth: u16::from_ne_bytes(field(bytes, 2)),
            state: u16::from_ne_bytes(field(bytes, 4)),
            io_bytes_max: u32::from_ne_bytes(field(bytes, 8)),
            id: u32::from_ne_bytes(field(bytes, 12)),
            pid: i32::from_ne_bytes(field(bytes, 16)),
            features: u64::from_ne_bytes(field(bytes, 24)),
            mark: u64::from_ne_bytes(field(bytes, 32)),
        }
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of this length")
}

/// `struct ublk_params` with its basic and its discard part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Offset 8: `UBLK_ATTR_*`.
    pub attributes: u32,
    /// Offset 12: the logical block, as a power of two, like the next three.
    pub logical_block_shift: u8,
    /// Offset 13.
    pub physical_block_shift: u8,
    /// Offset 14: the best size of large I/O; 0: not said.
    pub io_best_shift: u8,
    /// Offset 15: the smallest size of I/O that is not slow.
    pub io_min_shift: u8,
    /// Offset 16: the largest read or write.
    pub io_sectors_max: u32,
    /// Offset 24: the size.
    pub sectors: u64,
    /// Offset 44; never 0.
    pub discard_granularity_bytes: u32,
    /// Offset 48; 0: the device cannot discard.
    pub discard_sectors_max: u32,
    /// Offset 52.
    pub zeroes_sectors_max: u32,
}

impl Parameters {
    pub const BYTES: usize = 60;
    pub const READ_ONLY: u32 = 1 << 0;
    pub const ROTATIONAL: u32 = 1 << 1;
    /// Flushes are sent.
    pub const VOLATILE_CACHE: u32 = 1 << 2;
    pub const FUA: u32 = 1 << 3;
    /// The parts that are given: `UBLK_PARAM_TYPE_BASIC` and `_DISCARD`.
    const PARTS: u32 = 3;

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&(Self::BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&Self::PARTS.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.attributes.to_ne_bytes());
        bytes[12] = self.logical_block_shift;
        bytes[13] = self.physical_block_shift;
        bytes[14] = self.io_best_shift;
        bytes[15] = self.io_min_shift;
        bytes[16..20].copy_from_slice(&self.io_sectors_max.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        bytes[44..48].copy_from_slice(&self.discard_granularity_bytes.to_ne_bytes());
        bytes[48..52].copy_from_slice(&self.discard_sectors_max.to_ne_bytes());
        bytes[52..56].copy_from_slice(&self.zeroes_sectors_max.to_ne_bytes());
        // One range in each discard, which is all that the driver takes.
        bytes[56..58].copy_from_slice(&u16::from(self.discard_sectors_max > 0).to_ne_bytes());
        bytes
    }

    /// # Panics
    /// When there are fewer bytes than [`Parameters::BYTES`].
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            attributes: u32::from_ne_bytes(field(bytes, 8)),
            logical_block_shift: bytes[12],
            physical_block_shift: bytes[13],
            io_best_shift: bytes[14],
            io_min_shift: bytes[15],
            io_sectors_max: u32::from_ne_bytes(field(bytes, 16)),
            sectors: u64::from_ne_bytes(field(bytes, 24)),
            discard_granularity_bytes: u32::from_ne_bytes(field(bytes, 44)),
            discard_sectors_max: u32::from_ne_bytes(field(bytes, 48)),
            zeroes_sectors_max: u32::from_ne_bytes(field(bytes, 52)),
        }
    }
}

/// `struct ublksrv_io_cmd`, in the 16 bytes of a submission entry.
#[derive(Clone, Copy, Debug)]
pub struct IoCommand {
    pub queue: u16,
    pub tag: u16,
    /// With [`io::COMMIT_AND_FETCH`]: bytes moved, or a negative error number.
    pub result: i32,
    /// The memory to or from which the driver copies; 0 with [`feature::USER_COPY`], where data is copied by [`data_position`].
    pub address: u64,
}

impl IoCommand {
    const BYTES: u32 = 16;

    pub fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..2].copy_from_slice(&self.queue.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.result.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_io_desc`: a request, in memory that the driver shares with the server, one for each tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Offset 0: see [`operation`].
    pub operation: u32,
    /// Offset 4.
    pub sectors: u32,
    /// Offset 8.
    pub start_sector: u64,
}

impl Descriptor {
    pub const BYTES: usize = 24;
    /// `UBLK_MAX_QUEUE_DEPTH`: the driver leaves space for so many in each queue.
    const COUNT_MAX: usize = 4096;

    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            operation: u32::from_ne_bytes(field(bytes, 0)),
            sectors: u32::from_ne_bytes(field(bytes, 4)),
            start_sector: u64::from_ne_bytes(field(bytes, 8)),
        }
    }

    /// Where a queue's descriptors begin in the character device (`UBLKSRV_CMD_BUF_OFFSET`), to be mapped. `page_bytes` divides
    /// it.
    pub fn offset_of(queue: u16, page_bytes: usize) -> u64 {
        u64::from(queue) * (Self::COUNT_MAX * Self::BYTES).next_multiple_of(page_bytes) as u64
    }
}

/// Where a request's data lies in the character device: `UBLKSRV_IO_BUF_OFFSET`, `UBLK_TAG_OFF`, `UBLK_QID_OFF`.
pub fn data_position(queue: u16, tag: u16, at: usize) -> u64 {
    0x8000_0000 + (u64::from(queue) << 41 | u64::from(tag) << 25) + at as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of `UBLK_U_CMD_*` as a C compiler makes them from the header.
    #[test]
    fn commands_have_the_numbers_of_the_header() {
        assert_eq!(control::GET_DEVICE_INFO, 0x8020_7502);
        assert_eq!(control::ADD_DEVICE, 0xc020_7504);
        assert_eq!(control::GET_FEATURES, 0x8020_7513);
        assert_eq!(io::FETCH, 0xc010_7520);
        assert_eq!(io::COMMIT_AND_FETCH, 0xc010_7521);
        assert_eq!(io::GET_DATA, 0xc010_7522);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let info = DeviceInfo {
            queues: 3,
            depth: 128,
            state: 2,
            io_bytes_max: 1 << 20,
            id: 7,
            pid: 42,
            features: 0x98,
            mark: u64::MAX - 5,
        };
        assert_eq!(DeviceInfo::decode(&info.encode()), info);
        let parameters = Parameters {
            attributes: 0xc,
            logical_block_shift: 9,
            physical_block_shift: 12,
            io_best_shift: 16,
            io_min_shift: 12,
            io_sectors_max: 2048,
            sectors: 1 << 40,
            discard_granularity_bytes: 4096,
            discard_sectors_max: 99,
            zeroes_sectors_max: 77,
        };
        assert_eq!(Parameters::decode(&parameters.encode()), parameters);
        assert_eq!(parameters.encode()[56], 1, "one range in each discard");
    }
}
