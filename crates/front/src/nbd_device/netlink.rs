//! The messages of Linux's NBD driver: the generic netlink family `nbd`.
//!
//! Source: `include/uapi/linux/nbd-netlink.h` and `drivers/block/nbd.c` of Linux 6.12.

use super::NbdDeviceError;
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, Nla, NlasIterator, Parseable,
    ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::{GenlCtrlAttrs, McastGrpAttrs};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::time::Duration;

const FAMILY: &str = "nbd";
const FAMILY_VERSION: u8 = 1;
/// The multicast group that reports lost connections.
const GROUP: &str = "nbd_mc_group";
/// `NLA_F_NESTED`
const NESTED: u16 = 1 << 15;

/// Commands, and the report of a lost connection.
pub mod command {
    pub const CONNECT: u8 = 1;
    pub const DISCONNECT: u8 = 2;
    pub const RECONFIGURE: u8 = 3;
    pub const LINK_DEAD: u8 = 4;
}

/// Attributes of commands.
mod attribute {
    pub const INDEX: u16 = 1;
    pub const SIZE_BYTES: u16 = 2;
    pub const BLOCK_SIZE_BYTES: u16 = 3;
    pub const TIMEOUT_S: u16 = 4;
    pub const SERVER_FLAGS: u16 = 5;
    pub const SOCKETS: u16 = 7;
    pub const DEAD_CONNECTION_TIMEOUT_S: u16 = 8;
    pub const BACKEND: u16 = 10;
}

/// Attributes within [`attribute::SOCKETS`].
mod socket_attribute {
    pub const ITEM: u16 = 1;
    pub const FILE: u16 = 1;
}

/// A command with its attributes. An attribute that is `None` or empty stays unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    pub index: u32,
    /// Size and block size in bytes. Never in a RECONFIGURE: Linux waits for requests in flight then.
    pub size: Option<(u64, u64)>,
    pub timeout_s: Option<u64>,
    pub dead_connection_timeout_s: Option<u64>,
    /// The server's answer in the handshake.
    pub server_flags: Option<u16>,
    /// Connected sockets, past their handshakes.
    pub sockets: Vec<i32>,
    /// Names the array behind the device. RECONFIGURE is refused if it names another one than CONNECT did.
    pub backend: Option<String>,
}

impl Order {
    fn attributes(&self) -> Vec<DefaultNla> {
        let of_u64 = |kind, value: u64| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        let mut attributes = vec![DefaultNla::new(attribute::INDEX, self.index.to_ne_bytes().to_vec())];
        if let Some((size, block)) = self.size {
            attributes.push(of_u64(attribute::SIZE_BYTES, size));
            attributes.push(of_u64(attribute::BLOCK_SIZE_BYTES, block));
        }
        attributes.extend(self.timeout_s.map(|timeout| of_u64(attribute::TIMEOUT_S, timeout)));
        attributes.extend(self.server_flags.map(|flags| of_u64(attribute::SERVER_FLAGS, flags.into())));
        attributes.extend(self.dead_connection_timeout_s.map(|time| of_u64(attribute::DEAD_CONNECTION_TIMEOUT_S, time)));
        if !self.sockets.is_empty() {
            let item = |file: &i32| {
                let file = DefaultNla::new(socket_attribute::FILE, file.to_ne_bytes().to_vec());
                DefaultNla::new(socket_attribute::ITEM | NESTED, bytes(&[file]))
            };
            let items: Vec<DefaultNla> = self.sockets.iter().map(item).collect();
            attributes.push(DefaultNla::new(attribute::SOCKETS | NESTED, bytes(&items)));
        }
        if let Some(backend) = &self.backend {
            attributes.push(DefaultNla::new(attribute::BACKEND, [backend.as_bytes(), &[0]].concat()));
        }
        attributes
    }
}

fn bytes(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// A message of the family.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl Message {
    /// The device that it concerns.
    fn index(&self) -> Option<u32> {
        let index = self.attributes.iter().find(|attribute| attribute.kind() == attribute::INDEX)?;
        let mut value = [0; 4];
        (index.value_len() == value.len()).then(|| index.emit_value(&mut value))?;
        Some(u32::from_ne_bytes(value))
    }
}

impl GenlFamily for Message {
    fn family_name() -> &'static str {
        FAMILY
    }
    fn command(&self) -> u8 {
        self.command
    }
    fn version(&self) -> u8 {
        FAMILY_VERSION
    }
}

impl Emitable for Message {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }
    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Message {
    fn parse_with_param(buffer: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        let attributes = NlasIterator::new(buffer).map(|attribute| DefaultNla::parse(&attribute?)).collect::<Result<_, _>>()?;
        Ok(Self { command: header.cmd, attributes })
    }
}

/// Carries datagrams to the kernel and back. Tests replace the kernel behind it.
pub trait Wire {
    fn send(&self, datagram: &[u8]) -> io::Result<()>;
    /// The next datagram; `None`: none came in time. Without a `patience` the wait has no limit.
    fn receive(&self, patience: Option<Duration>) -> io::Result<Option<Vec<u8>>>;
    fn join(&self, group: u32) -> io::Result<()>;
}

impl Wire for Socket {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        Socket::send(self, datagram, 0).map(drop)
    }

    fn receive(&self, patience: Option<Duration>) -> io::Result<Option<Vec<u8>>> {
        let patience = patience.map(|time| Timespec::try_from(time).map_err(io::Error::other)).transpose()?;
        match poll(&mut [PollFd::new(self, PollFlags::IN)], patience.as_ref()) {
            Ok(0) | Err(Errno::INTR) => Ok(None),
            Ok(_) => self.recv_from_full().map(|(datagram, _)| Some(datagram)),
            Err(error) => Err(error.into()),
        }
    }

    fn join(&self, group: u32) -> io::Result<()> {
        self.add_membership(group)
    }
}

/// What the driver has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No report came in time, or another one.
    None,
    /// A connection of the device of this index.
    Of(u32),
    /// Reports found no space, so any device may have lost a connection.
    Unknown,
}

/// The driver, as commands reach it.
pub struct Driver<W> {
    wire: W,
    family: u16,
    group: Option<u32>,
    sequence: u32,
}

impl Driver<Socket> {
    /// Looks the driver up.
    ///
    /// # Errors
    /// When the kernel has none.
    pub fn open() -> Result<Self, NbdDeviceError> {
        let socket = || {
            let mut socket = Socket::new(NETLINK_GENERIC)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        Self::over(socket().map_err(NbdDeviceError::Netlink)?)
    }
}

impl<W: Wire> Driver<W> {
    fn over(wire: W) -> Result<Self, NbdDeviceError> {
        let mut driver = Self { wire, family: 0, group: None, sequence: 0 };
        driver.look_up().map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => NbdDeviceError::NoDriver,
            _ => NbdDeviceError::Netlink(error),
        })?;
        Ok(driver)
    }

    /// Asks the kernel for the numbers of the family and its group.
    fn look_up(&mut self) -> io::Result<()> {
        let family = GenlCtrlAttrs::FamilyName(FAMILY.to_owned());
        let ask = GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![family] });
        for answer in self.exchange(ask)? {
            for attribute in answer.nlas {
                match attribute {
                    GenlCtrlAttrs::FamilyId(id) => self.family = id,
                    GenlCtrlAttrs::McastGroups(groups) => self.group = groups.iter().find_map(|group| group_id(group)),
                    _ => {}
                }
            }
        }
        match self.family {
            0 => Err(Errno::NOENT.into()),
            _ => Ok(()),
        }
    }

    /// Makes the driver carry out a command.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn ask(&mut self, command: u8, order: &Order) -> io::Result<()> {
        let message = Message { command, attributes: order.attributes() };
        self.exchange(GenlMessage::new(GenlHeader { cmd: command, version: FAMILY_VERSION }, message, self.family)).map(drop)
    }

    /// Sends a request; the messages that come before its acknowledgement.
    fn exchange<F>(&mut self, request: GenlMessage<F>) -> io::Result<Vec<F>>
    where
        F: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + Clone + std::fmt::Debug + PartialEq + Eq,
    {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut datagram = vec![0; message.buffer_len()];
        message.serialize(&mut datagram);
        self.wire.send(&datagram)?;
        let mut answers = Vec::new();
        loop {
            let Some(datagram) = self.wire.receive(None)? else { continue };
            for message in messages::<F>(&datagram)? {
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(io::Error::from_raw_os_error(error.raw_code().saturating_neg()));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer.into_parts().1),
                    _ => {}
                }
            }
        }
    }

    /// Subscribes to the reports of lost connections.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn listen(&mut self) -> Result<(), NbdDeviceError> {
        let group = self.group.ok_or(NbdDeviceError::NoDriver)?;
        self.wire.join(group).map_err(NbdDeviceError::Netlink)
    }

    /// Waits until the driver reports that a device has lost a connection.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn lost_connection(&self, patience: Duration) -> io::Result<Lost> {
        let datagram = match self.wire.receive(Some(patience)) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => return Ok(Lost::Unknown),
            received => received?,
        };
        let Some(datagram) = datagram else { return Ok(Lost::None) };
        let dead = messages::<Message>(&datagram)?.into_iter().find_map(|message| match message.payload {
            NetlinkPayload::InnerMessage(report) if report.header.cmd == command::LINK_DEAD => report.payload.index(),
            _ => None,
        });
        Ok(dead.map_or(Lost::None, Lost::Of))
    }
}

fn group_id(group: &[McastGrpAttrs]) -> Option<u32> {
    let is_ours = group.iter().any(|attribute| matches!(attribute, McastGrpAttrs::Name(name) if name == GROUP));
    group.iter().filter(|_| is_ours).find_map(|attribute| match attribute {
        McastGrpAttrs::Id(id) => Some(*id),
        McastGrpAttrs::Name(_) => None,
    })
}

/// The messages of a datagram.
fn messages<F>(mut datagram: &[u8]) -> io::Result<Vec<NetlinkMessage<GenlMessage<F>>>>
where
    F: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + Clone + std::fmt::Debug + PartialEq + Eq,
{
    let mut messages = Vec::new();
    while !datagram.is_empty() {
        let message = NetlinkMessage::<GenlMessage<F>>::deserialize(datagram).map_err(io::Error::other)?;
        let length = (message.header.length as usize).next_multiple_of(4);
        messages.push(message);
        datagram = datagram.get(length..).unwrap_or_default();
    }
    Ok(messages)
}

#[cfg(test)]
mod tests;
